/* transfer.c - elements on their way between the host and devices, or between devices: copies, the op `to`, numbers read by
 * the host, and host memory that a device reads while the host goes on. */
#include <stdlib.h>

#include "device.h"
#include "kept.h"
#include "param.h"
#include "vjp.h"

/* ---- Bytes ------------------------------------------------------------------------------------------------------------ */

static gd_status failed(int device, const char *why) {
    return why ? gd_fail(GD_ERR_DEVICE, "%s: copying failed: %s", gd_text_device(device), why) : GD_OK;
}

gd_status gd_device_read(int device, void *to, const void *from, int64_t bytes) {
    GD_TRY(gd_device_need(device, "copy"));
    if (bytes) GD_TRY(failed(device, gd_cuda_now->copy(gd_device_stream(device), to, -1, from, device - 1, bytes, GD_COPY_TO_HOST)));
    return gd_device_wait(device);
}

gd_status gd_device_write(int device, void *to, const void *from, int64_t bytes) {
    GD_TRY(gd_device_need(device, "copy"));
    if (!bytes) return GD_OK;
    GD_TRY(failed(device, gd_cuda_now->copy(gd_device_stream(device), to, device - 1, from, -1, bytes, GD_COPY_TO_DEVICE)));
    return gd_device_wait(device);
}

/* Between devices, in the order of both streams. */
static gd_status move_between(int to_device, void *to, int from_device, const void *from, int64_t bytes) {
    const int receiver = gd_device_stream_number(to_device), sender = gd_device_stream_number(from_device);
    const char *why = gd_device_await(to_device, receiver, from_device, sender);
    if (!why) why = gd_cuda_now->copy(gd_device_stream(to_device), to, to_device - 1, from, from_device - 1, bytes, GD_COPY_BETWEEN);
    if (!why) why = gd_device_await(from_device, sender, to_device, receiver);
    return failed(to_device, why);
}

static gd_status move(const gd_view *to, const gd_view *from, int64_t bytes, bool wait) {
    if (!bytes) return GD_OK;
    if (to->device && from->device) return move_between(to->device, to->data, from->device, from->data, bytes);
    if (wait) return to->device ? gd_device_write(to->device, to->data, from->data, bytes) : gd_device_read(from->device, to->data, from->data, bytes);
    const int device = to->device ? to->device : from->device;
    return failed(device, gd_cuda_now->copy(gd_device_stream(device), to->data, to->device - 1, from->data, from->device - 1, bytes,
                                            to->device ? GD_COPY_TO_DEVICE : GD_COPY_TO_HOST));
}

/* ---- Elements --------------------------------------------------------------------------------------------------------- */

/* Memory for the time of a call, on v's device. */
typedef struct stage { gd_arena *arena; int device; char *from, *to; } stage;

static gd_status open_stage(stage *s, gd_view *v) {
    *s = (stage){.arena = gd_arena_active(), .device = v->device};
    if (!s->arena) return gd_last_status();
    gd_arena_lock(s->arena);
    s->from = v->data = gd_arena_bytes_on(s->arena, v->device, gd_numel(v) * gd_dtype_bytes(v->dtype));
    if (s->from) s->to = v->device ? s->arena->region[v->device - 1]->top : s->arena->host.top;
    gd_arena_unlock(s->arena);
    return s->from ? GD_OK : gd_last_status();
}

static void close_stage(const stage *s) {
    if (s->from) gd_arena_drop_bytes(s->arena, s->device, s->from, s->to);
}

gd_status gd_transfer(gd_view *dst, const gd_view *src, bool wait) {
    gd_view once = *src; /* what repeats with stride 0 travels once */
    for (int d = 0; d < GD_DIMS; d++)
        if (once.strides[d] == 0 && once.shape[d] > 1) once.shape[d] = 1;
    if (gd_numel(dst) == 0 || gd_numel(&once) == 0) return GD_OK;
    GD_TRY(gd_device_need(dst->device, "copy"));
    GD_TRY(gd_device_need(src->device, "copy"));
    stage left = {0}, right = {0};
    gd_status status = GD_OK;
    gd_view from = gd_view_like(&once), to = from;
    if (gd_is_contiguous(&once)) {
        from.data = once.data;
    } else if ((status = open_stage(&left, &from)) >= 0) {
        gd_copy_view(&from, &once);
    }
    to.device = dst->device;
    const bool direct = dst->dtype == once.dtype && gd_is_contiguous(dst) && memcmp(dst->shape, once.shape, sizeof once.shape) == 0;
    if (direct) to.data = dst->data;
    else if (status >= 0) status = open_stage(&right, &to);
    /* host memory of a stage is used again at once */
    if (status >= 0) status = move(&to, &from, gd_numel(&to) * gd_dtype_bytes(to.dtype), wait || left.from || right.from);
    if (status >= 0 && !direct) gd_copy_view(dst, &to);
    close_stage(&right);
    close_stage(&left);
    return status;
}

/* ---- The op --------------------------------------------------------------------------------------------------------------- */

static gd_node *made_on(gd_arena *a, const gd_node *n, int device) {
    gd_view like = gd_view_like(&n->v);
    like.device = (uint8_t)device;
    return gd_node_new(a, &like);
}

gd_tensor gd_to_device(gd_tensor t, int device, int non_blocking) {
    gd_node *n = gd_node_of(t, "to");
    gd_arena *a = gd_arena_active();
    if (!n || !a || gd_device_need(device, "to") < 0) return 0;
    if (n->v.device == device) return t;
    gd_start start = gd_here();
    gd_node *made = made_on(a, n, device);
    if (!made) return 0;
    if (gd_transfer(&made->v, &n->v, !non_blocking) < 0) return gd_or_return(start, 0);
    if (n->flags & GD_WEAK) made->flags |= GD_WEAK;
    if (!gd_self()->grad_enabled || !(n->flags & GD_REQUIRES_GRAD)) return made->self;
    gd_node *storage = gd_storage(n);
    made->in = made->in_small;
    made->in_version = made->version_small;
    made->nin = 1;
    made->in[0] = n->self;
    made->in_version[0] = (gd_storage_version(n) & ~GD_TRACKED) | GD_TRACKED;
    if (storage && storage->param) gd_param_used(storage->param, made);
    if (storage && storage->flags & GD_KEPT) gd_kept_used(storage, made->self);
    made->op = GD_NODE_TO;
    made->flags = (uint16_t)((made->flags & ~GD_LEAF) | GD_REQUIRES_GRAD);
    if (atomic_load_explicit(&gd_anomaly, memory_order_relaxed) & GD_ANOMALY_TRACE) gd_anomaly_made(made->self);
    return made->self;
}

RULE(to) { GIVE(0, gd_to_device(G, gd_view_of(A)->device, 0)); return GD_OK; }

int gd_device_of(gd_tensor t) {
    const gd_node *n = gd_node_of(t, "device");
    return n ? n->v.device : gd_last_status();
}

gd_status gd_set_device(int device) {
    GD_TRY(gd_device_need(device, "device"));
    gd_self()->device = (uint8_t)device;
    return GD_OK;
}

int gd_get_device(void) { return gd_self()->device; }

/* ---- Host memory that devices read while the host goes on --------------------------------------------------------------------- */

void *gd_pin(int64_t bytes) {
    void *memory = NULL;
    if (gd_device_need(1, "pin_memory") < 0) return NULL;
    const char *why = gd_cuda_now->pin(bytes > 0 ? bytes : 1, &memory);
    if (why) gd_fail(GD_ERR_MEMORY, "pin_memory: %lld bytes were refused: %s", (long long)bytes, why);
    return why ? NULL : memory;
}

void gd_unpin(void *memory) {
    if (memory && gd_cuda_device_count() > 0) gd_cuda_now->unpin(memory);
}

/* ---- What is there ---------------------------------------------------------------------------------------------------------------- */

gd_status gd_cuda_describe(int device, gd_cuda_info *out) {
    GD_TRY(gd_device_need(device, "cuda"));
    const gd_cuda_device *about = &gd_devices[device - 1].about;
    *out = (gd_cuda_info){.major = about->major, .minor = about->minor, .multiprocessors = about->multiprocessors, .memory = about->memory,
                          .emulated = gd_cuda_now->emulated};
    memcpy(out->name, about->name, sizeof out->name - 1);
    const char *why = gd_cuda_now->memory_free(device - 1, &out->memory_free);
    return why ? gd_fail(GD_ERR_DEVICE, "%s: asking for its memory failed: %s", gd_text_device(device), why) : GD_OK;
}

/* Bytes of tensors and parameters on a device: in use, most in use at once (per arena), held. */
void gd_cuda_memory(int device, int64_t *used, int64_t *most, int64_t *held) {
    *used = *most = gd_slab_bytes(device, false);
    *held = gd_slab_bytes(device, true);
    for (int id = 0; id < GD_MAX_ARENAS; id++) {
        const gd_arena_stats stats = gd_arena_get_device_stats(&gd_arenas[id], device - 1);
        *used += stats.used;
        *most += stats.high_water;
        *held += stats.committed;
    }
}

void gd_cuda_forget_peak(int device) {
    for (int id = 0; id < GD_MAX_ARENAS; id++) {
        gd_arena *a = &gd_arenas[id];
        if (!a->is_open) continue;
        gd_arena_lock(a);
        gd_region *r = device <= a->regions ? a->region[device - 1] : NULL;
        if (r) r->high_water = r->top - r->span.base;
        gd_arena_unlock(a);
    }
}
