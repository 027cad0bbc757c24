/* device.c - CUDA devices: the library's CUDA part is found and opened when a device is first asked for; memory of devices,
 * running their kernels, and what those report. Devices are numbered as in gd_view: 1 is cuda:0. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "device.h"
#include "half.h"
#include "profile.h"

const gd_cuda *gd_cuda_now;
gd_device gd_devices[GD_MAX_DEVICES];
atomic_flag gd_devices_lock = ATOMIC_FLAG_INIT;

static const int64_t RESERVE = (int64_t)64 << 30; /* address space of a region; at most what the device has */
static const int64_t LARGEST_COMMIT = (int64_t)256 << 20;
static atomic_bool forked; /* the driver knows nothing of a child */
static atomic_int any_failed; /* devices with something to report */
static int count = -1;     /* devices there are; -1: nobody has looked */
static char missing[GD_MESSAGE_BYTES];
static pthread_mutex_t open_mutex = PTHREAD_MUTEX_INITIALIZER;

const char *gd_text_device(int device) {
    static const char *const names[] = {"cpu", "cuda:0", "cuda:1", "cuda:2", "cuda:3", "cuda:4", "cuda:5", "cuda:6", "cuda:7"};
    return device >= 0 && device <= GD_MAX_DEVICES ? names[device] : "no device";
}

const char *gd_text_on_device(int device) {
    static const char *const names[] = {"",           " on cuda:0", " on cuda:1", " on cuda:2", " on cuda:3",
                                        " on cuda:4", " on cuda:5", " on cuda:6", " on cuda:7"};
    return device >= 0 && device <= GD_MAX_DEVICES ? names[device] : "";
}

/* ---- Finding the CUDA part -------------------------------------------------------------------------------------------- */

static void in_child(void) {
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    open_mutex = fresh;
    atomic_flag_clear(&gd_devices_lock);
    if (gd_cuda_now) atomic_store(&forked, true);
}
__attribute__((constructor)) static void device_load(void) { pthread_atfork(NULL, NULL, in_child); }

/* The file beside this library, or the one that the environment names, which is for tests. */
static void default_path(char *path, size_t room) {
    const char *named = getenv("GRADINO_CUDA_LIBRARY");
    Dl_info here;
    snprintf(path, room, "%s", "libgradino_cuda.so");
    if (named && *named) {
        snprintf(path, room, "%s", named);
    } else if (dladdr((void *)(uintptr_t)&gd_cuda_load, &here) && here.dli_fname) {
        const char *slash = strrchr(here.dli_fname, '/');
        if (slash) snprintf(path, room, "%.*s/libgradino_cuda.so", (int)(slash - here.dli_fname), here.dli_fname);
    }
}

static const gd_cuda *open_library(const char *path) {
    char message[256] = "";
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = dlerror();
        FILE *f = fopen(path, "rb");
        if (f) fclose(f);
        if (f) snprintf(missing, sizeof missing, "its library cannot be loaded: %s", why ? why : "unknown reason");
        else snprintf(missing, sizeof missing, "the library's CUDA part was not built (install with GRADINO_CUDA=1 where there is nvcc): no file %s", path);
        return NULL;
    }
    gd_cuda_open_function *entry = (gd_cuda_open_function *)(uintptr_t)dlsym(library, "gd_cuda_open");
    const gd_cuda *table = entry ? entry(message, sizeof message) : NULL;
    if (!entry) snprintf(missing, sizeof missing, "%s is no CUDA part of gradino", path);
    else if (!table) snprintf(missing, sizeof missing, "%s", *message ? message : "there is no driver or no device");
    else if (table->abi != GD_CUDA_ABI || table->ops != GD_OPS)
        snprintf(missing, sizeof missing, "%s belongs to another version of gradino: build both anew", path);
    else return table;
    return NULL;
}

/* Looks for devices, once. */
static void find_devices(const char *path) {
    pthread_mutex_lock(&open_mutex);
    if (count < 0 || (path && count == 0)) {
        char found[320];
        if (!path) default_path(found, sizeof found);
        const gd_cuda *table = open_library(path ? path : found);
        int there = 0;
        const char *why = table ? table->device_count(&there) : NULL;
        if (table && (why || there == 0)) snprintf(missing, sizeof missing, "%s", why ? why : "there is no CUDA device");
        gd_cuda_now = table && there > 0 ? table : NULL;
        count = !gd_cuda_now ? 0 : there > GD_MAX_DEVICES ? GD_MAX_DEVICES : there;
    }
    pthread_mutex_unlock(&open_mutex);
}

gd_status gd_cuda_load(const char *path) {
    find_devices(path);
    return gd_cuda_now ? GD_OK : gd_fail(GD_ERR_DEVICE, "cuda is not available: %s", missing);
}

int gd_cuda_device_count(void) {
    find_devices(NULL);
    return atomic_load(&forked) ? 0 : count;
}

int gd_cuda_is_emulated(void) { return gd_cuda_now && gd_cuda_now->emulated; }

static gd_status failed_for(int device, const char *what, const char *why) {
    return gd_fail(GD_ERR_DEVICE, "%s: %s failed: %s", gd_text_device(device), what, why);
}

/* Only once for each device. */
static gd_status open_device(int device) {
    gd_device *d = &gd_devices[device - 1];
    gd_fault *on_device = NULL;
    const char *why = gd_cuda_now->set_device(device - 1);
    if (!why) why = gd_cuda_now->describe(device - 1, &d->about);
    if (!why) why = gd_cuda_now->fault_new(&d->fault, &on_device);
    if (!why) why = gd_cuda_now->stream_new(device - 1, 0, &d->stream[0].handle);
    if (why) return failed_for(device, "opening it", why);
    d->stream[0] = (gd_stream){d->stream[0].handle, on_device, device - 1, d->about.multiprocessors};
    d->taken[0] = true;
    d->streams = 1;
    __atomic_store_n(&d->open, true, __ATOMIC_RELEASE);
    return GD_OK;
}

gd_status gd_device_need(int device, const char *who) {
    if (device == 0) return GD_OK;
    if (__builtin_expect(atomic_load_explicit(&forked, memory_order_relaxed), 0))
        return gd_fail(GD_ERR_DEVICE, "%s: %s cannot be used after a fork: the driver was in use before it. Start processes by \"spawn\"", who, gd_text_device(device));
    if (device > 0 && device <= GD_MAX_DEVICES && __atomic_load_n(&gd_devices[device - 1].open, __ATOMIC_ACQUIRE)) return GD_OK;
    find_devices(NULL);
    if (!gd_cuda_now) return gd_fail(GD_ERR_DEVICE, "%s: cuda is not available: %s", who, missing);
    if (device < 1 || device > count)
        return gd_fail(GD_ERR_DEVICE, "%s: there is no device cuda:%d: there %s %d", who, device - 1, count == 1 ? "is" : "are", count);
    pthread_mutex_lock(&open_mutex);
    gd_status status = gd_devices[device - 1].open ? GD_OK : open_device(device);
    pthread_mutex_unlock(&open_mutex);
    return status;
}

/* ---- What is to be reported --------------------------------------------------------------------------------------------- */

void gd_device_note(int device, gd_status status, const char *why) {
    gd_device *d = &gd_devices[device - 1];
    gd_flag_lock(&gd_devices_lock);
    if (!d->failed) {
        snprintf(d->failure, sizeof d->failure, "%s", why);
        d->failed = status;
        atomic_fetch_add(&any_failed, 1);
    }
    atomic_flag_clear_explicit(&gd_devices_lock, memory_order_release);
}

static void note_call(int device, const char *what, const char *why) {
    char text[GD_MESSAGE_BYTES / 2];
    snprintf(text, sizeof text, "%s: %s failed: %s", gd_text_device(device), what, why);
    gd_device_note(device, GD_ERR_DEVICE, text);
}

static void note_fault(int device) {
    gd_device *d = &gd_devices[device - 1];
    const gd_fault f = *(volatile gd_fault *)d->fault;
    if (__builtin_expect(f.kind == GD_FAULT_NONE, 1)) return;
    char text[GD_MESSAGE_BYTES / 2];
    snprintf(text, sizeof text, "%s: index %lld is out of range: it must be in [0, %lld)", gd_op_name(f.op), (long long)f.value, (long long)f.limit);
    memset(d->fault, 0, sizeof *d->fault);
    gd_device_note(device, GD_ERR_INDEX, text);
}

static gd_status report(int device) {
    gd_device *d = &gd_devices[device - 1];
    gd_flag_lock(&gd_devices_lock);
    const gd_status status = d->failed;
    if (status) {
        gd_fail(status, "%s", d->failure);
        d->failed = GD_OK;
        atomic_fetch_sub(&any_failed, 1);
    }
    atomic_flag_clear_explicit(&gd_devices_lock, memory_order_release);
    return status;
}

gd_status gd_device_report(int device) {
    note_fault(device);
    return report(device);
}

/* ---- Memory ----------------------------------------------------------------------------------------------------------- */

gd_status gd_device_span_reserve(gd_span *s, int device, int64_t bytes, const char *what) {
    *s = (gd_span){0};
    GD_TRY(gd_device_need(device, what));
    if (gd_allocation_fails()) return gd_fail(GD_ERR_MEMORY, "%s: no address space%s (a failure asked for by a test)", what, gd_text_on_device(device));
    const int64_t unit = gd_devices[device - 1].about.granularity > 0 ? gd_devices[device - 1].about.granularity : 1;
    bytes = (bytes + unit - 1) / unit * unit;
    void *base = NULL;
    const char *why = gd_cuda_now->reserve(device - 1, bytes, &base);
    if (why) return gd_fail(GD_ERR_MEMORY, "%s: %lld bytes of address space%s were refused: %s", what, (long long)bytes, gd_text_on_device(device), why);
    *s = (gd_span){.base = base, .asked = bytes, .reserved = bytes, .device = (uint8_t)device};
    return GD_OK;
}

gd_status gd_device_span_commit(gd_span *s, int64_t bytes, const char *what) {
    if (bytes <= s->committed) return GD_OK;
    GD_TRY(gd_device_need(s->device, what));
    if (bytes > s->reserved || gd_allocation_fails())
        return gd_fail(GD_ERR_MEMORY, "%s%s: %lld bytes are needed, %lld are reserved", what, gd_text_on_device(s->device), (long long)bytes, (long long)s->reserved);
    const int64_t unit = gd_devices[s->device - 1].about.granularity > 0 ? gd_devices[s->device - 1].about.granularity : 1;
    const int64_t step = s->committed > LARGEST_COMMIT ? LARGEST_COMMIT : s->committed;
    const int64_t floor = (bytes + unit - 1) / unit * unit;
    int64_t target = (s->committed + step + unit - 1) / unit * unit;
    if (target < floor) target = floor;
    if (target > s->reserved) target = s->reserved;
    const char *why = gd_cuda_now->commit(s->device - 1, s->base, s->committed, target);
    if (why && target > floor) why = gd_cuda_now->commit(s->device - 1, s->base, s->committed, target = floor);
    if (why)
        return gd_fail(GD_ERR_MEMORY, "%s: %lld bytes%s were refused (%lld are committed): %s", what, (long long)(target - s->committed),
                       gd_text_on_device(s->device), (long long)s->committed, why);
    s->committed = target;
    return GD_OK;
}

void gd_device_span_release(gd_span *s) {
    if (s->base && !atomic_load(&forked)) {
        gd_cuda_now->synchronize(s->device - 1); /* kernels may still read it */
        gd_cuda_now->release(s->device - 1, s->base, s->reserved, s->committed);
    }
    *s = (gd_span){0};
}

gd_status gd_region_open(gd_region *r, int device, const char *name) {
    GD_TRY(gd_device_need(device, name));
    gd_span span;
    const int64_t most = gd_devices[device - 1].about.memory;
    GD_TRY(gd_device_span_reserve(&span, device, most > 0 && most < RESERVE ? most : RESERVE, name));
    gd_region_set(r, span);
    return GD_OK;
}

/* ---- Running ---------------------------------------------------------------------------------------------------------- */

const gd_stream *gd_device_stream(int device) {
    gd_device *d = &gd_devices[device - 1];
    const char *why = gd_cuda_now->set_device(device - 1);
    if (why) note_call(device, "choosing it", why);
    return &d->stream[gd_device_stream_number(device)];
}

gd_status gd_device_ready(int op, int device) {
    GD_TRY(gd_device_need(device, gd_ops[op].name));
    if (__builtin_expect(atomic_load_explicit(&any_failed, memory_order_relaxed) != 0, 0)) GD_TRY(report(device));
    if (!gd_cuda_now->kernel[op] && !(gd_ops[op].flags & GD_OP_VIEW)) return gd_fail(GD_ERR_DEVICE, "%s: has no CUDA kernel", gd_ops[op].name);
    return GD_OK;
}

static bool usable(int device) { return !atomic_load_explicit(&forked, memory_order_relaxed) && gd_devices[device - 1].open; }

void gd_device_run(int op, gd_args *a, int device) {
    gd_kernel *kernel = gd_cuda_now->kernel[op];
    if (!kernel || !usable(device)) {
        note_call(device, gd_ops[op].name, kernel ? "the driver is not usable in this process" : "it has no CUDA kernel");
        return;
    }
    a->stream = gd_device_stream(device);
    const int64_t bytes = a->workspace || !gd_cuda_now->workspace[op] ? 0 : gd_cuda_now->workspace[op](a);
    gd_arena *arena = bytes ? gd_arena_active() : NULL;
    char *after = NULL;
    if (bytes) {
        gd_arena_lock(arena);
        a->workspace = gd_arena_bytes_on(arena, device, bytes);
        after = a->workspace ? arena->region[device - 1]->top : NULL;
        gd_arena_unlock(arena);
        if (!a->workspace) {
            note_call(device, gd_ops[op].name, gd_last_error());
            return;
        }
    }
    kernel(a);
    const char *why = gd_cuda_now->launched();
    if (__builtin_expect(why != NULL, 0)) note_call(device, gd_ops[op].name, why);
    if (bytes) gd_arena_drop_bytes(arena, device, a->workspace, after);
}

void gd_device_optim(gd_optim_op op, gd_optim_args *a, int device) {
    gd_optim_kernel *kernel = gd_cuda_now->optim[op];
    if (!kernel || !usable(device)) {
        note_call(device, gd_optim_names[op], kernel ? "the driver is not usable in this process" : "it has no CUDA kernel");
        return;
    }
    a->stream = gd_device_stream(device);
    kernel(a);
    const char *why = gd_cuda_now->launched();
    if (why) note_call(device, gd_optim_names[op], why);
}

void gd_device_fill(int device, void *at, int byte, int64_t bytes) {
    if (!bytes || !usable(device)) return;
    const char *why = gd_cuda_now->fill(gd_device_stream(device), at, byte, bytes);
    if (why) note_call(device, "clearing memory", why);
}

gd_status gd_device_wait(int device) {
    GD_TRY(gd_device_need(device, "synchronize"));
    const char *why = gd_cuda_now->stream_wait(gd_device_stream(device)->handle);
    if (why) return failed_for(device, "what was given to it", why);
    return gd_device_report(device);
}

int gd_device_of_inputs(int op, gd_node *const *in, int64_t nin) {
    const gd_node *first = NULL;
    int device = 0;
    for (int64_t k = 0; k < nin; k++) /* one that has dimensions, where there is one */
        if (in[k] && in[k]->v.device && (!first || (first->v.rank == 0 && in[k]->v.rank))) first = in[k], device = in[k]->v.device;
    for (int64_t k = 0; k < nin; k++) {
        if (!in[k] || in[k]->v.device == device) continue;
        if (!in[k]->v.device && (in[k]->flags & GD_WEAK || (in[k]->v.rank == 0 && gd_ops[op].flags & GD_OP_EW))) continue;
        return gd_fail(GD_ERR_DEVICE, "%s: its inputs are on two devices, %s and %s: move one of them with .to()", gd_ops[op].name,
                       gd_text_device(first < in[k] ? device : in[k]->v.device), gd_text_device(first < in[k] ? in[k]->v.device : device));
    }
    return device;
}

/* ---- Numbers beside tensors on a device: those that came before are still there --------------------------------------------- */

enum { NUMBERS = 1024 };
typedef struct number { uint64_t bits; void *at; uint8_t dtype; } number;
static number *numbers[GD_MAX_DEVICES];

static void fill_number(const gd_view *at, uint64_t bits, bool waits) {
    gd_attr attr = {.i = {[5] = at->dtype}};
    union { uint64_t bits; float f32; double f64; int64_t i64; int32_t i32; uint16_t half; uint8_t b; } word = {.bits = bits};
    switch (at->dtype) {
    case GD_FLOAT32: attr.f[0] = (double)word.f32; break;
    case GD_FLOAT64: attr.f[0] = word.f64; break;
    case GD_BFLOAT16: attr.f[0] = (double)gd_f32_of_bf16(word.half); break;
    case GD_FLOAT16: attr.f[0] = (double)gd_f32_of_f16(word.half); break;
    case GD_INT64: attr.i[6] = word.i64; break;
    case GD_INT32: attr.i[6] = word.i32; break;
    default: attr.i[6] = word.b;
    }
    gd_view to = *at, *out[] = {&to};
    gd_args args = {.out = out, .attr = &attr, .nout = 1};
    gd_device_run(GD_OP_fill, &args, at->device);
    if (waits) gd_cuda_now->stream_wait(gd_device_stream(at->device)->handle);
}

/* Its place among those kept, or NULL where there is no room. */
static void *kept_number(uint64_t bits, int dtype, int device) {
    static atomic_flag lock = ATOMIC_FLAG_INIT;
    const size_t hash = (size_t)((bits * 0x9E3779B97F4A7C15u + (uint64_t)dtype * 0xC2B2AE3D27D4EB4Fu) >> 40) % NUMBERS;
    void *at = NULL;
    bool made = false;
    gd_flag_lock(&lock);
    number **table = &numbers[device - 1];
    if (!*table) *table = calloc(NUMBERS, sizeof **table);
    for (size_t k = hash; *table && k < hash + 4 && !at; k++) {
        number *n = &(*table)[k % NUMBERS];
        if (n->at && (n->bits != bits || n->dtype != dtype)) continue;
        if (!n->at) {
            gd_arena *a = gd_arena_permanent();
            gd_arena_lock(a);
            n->at = gd_arena_bytes_on(a, device, GD_ALIGN);
            gd_arena_unlock(a);
            n->bits = bits;
            n->dtype = (uint8_t)dtype;
            made = n->at != NULL;
        }
        at = n->at;
        if (!at) break;
    }
    if (made) {
        gd_view v = {.data = at, .shape = {1, 1, 1, 1}, .strides = {1, 1, 1, 1}, .dtype = (uint8_t)dtype, .device = (uint8_t)device};
        fill_number(&v, bits, gd_devices[device - 1].streams > 1);
    }
    atomic_flag_clear_explicit(&lock, memory_order_release);
    return at;
}

gd_node *gd_device_number(gd_node *from, int device) {
    uint64_t bits = 0;
    memcpy(&bits, from->v.data, (size_t)gd_dtype_bytes(from->v.dtype));
    gd_arena *a = gd_arena_active();
    void *at = kept_number(bits, from->v.dtype, device);
    const bool kept = at != NULL;
    if (!a) return NULL;
    gd_arena_lock(a);
    if (!at) at = gd_arena_bytes_on(a, device, GD_ALIGN);
    gd_node *n = at ? gd_arena_node(a) : NULL;
    gd_arena_unlock(a);
    if (!n) return NULL;
    n->v = from->v;
    n->v.data = at;
    n->v.device = (uint8_t)device;
    n->flags |= GD_WEAK;
    if (!kept) fill_number(&n->v, bits, false);
    return n;
}
