/* profile.c - what a profile notes, in a ring of fixed size: recording neither allocates nor locks, and overwrites the
 * oldest events when it runs full. Rings are never freed, because another thread may still be writing. */
#define _GNU_SOURCE
#include "profile.h"

#include <stdlib.h>
#include <time.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

atomic_bool gd_profiling;

/* One word leads to the events and to their number, so that a thread still writing never takes the one for the other. */
typedef struct event_ring {
    atomic_llong room;          /* events that are used, */
    int64_t made;               /* and that there is memory for */
    gd_profile_event event[];
} event_ring;
static _Atomic(event_ring *) ring;
static atomic_llong noted;      /* since the start */

int64_t gd_profile_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

gd_status gd_profile_start(int64_t capacity) {
    if (capacity < 1 || capacity > 1 << 26) return gd_fail(GD_ERR_VALUE, "profile: room for %lld events: must be from 1 to 2^26", (long long)capacity);
    if (atomic_load(&gd_profiling)) return gd_fail(GD_ERR, "profile: one is running already");
    event_ring *r = atomic_load(&ring);
    if (!r || capacity > r->made) {
        const size_t bytes = sizeof *r + (size_t)capacity * sizeof *r->event;
        r = gd_allocation_fails() ? NULL : malloc(bytes);
        if (!r) return gd_fail(GD_ERR_MEMORY, "profile: no memory for %lld events", (long long)capacity);
        memset(r, 0, bytes); /* no page fault later */
        r->made = capacity;
    }
    atomic_store(&r->room, capacity);
    atomic_store(&ring, r);
    atomic_store(&noted, 0);
    atomic_store(&gd_profiling, true);
    return GD_OK;
}

int64_t gd_profile_stop(void) {
    atomic_store(&gd_profiling, false);
    return atomic_load(&noted);
}

int64_t gd_profile_read(gd_profile_event *out, int64_t capacity) {
    const event_ring *r = atomic_load(&ring);
    if (!r) return 0;
    const int64_t all = atomic_load(&noted), room = atomic_load(&r->room), kept = all < room ? all : room, n = kept < capacity ? kept : capacity;
    for (int64_t k = 0; k < n; k++) out[k] = r->event[(all - kept + k) % room];
    return kept;
}

const char *gd_profile_name(int op) {
    static const char *const arenas[] = {"reset", "mark", "rewind", "return"};
    if (op >= 0) return gd_op_name(op);
    return op > GD_PROFILE_UPDATE ? arenas[-op - 1] : gd_optim_names[GD_PROFILE_UPDATE - op];
}

static int32_t thread_number(void) {
    gd_thread *t = gd_self();
#ifdef __linux__
    if (!t->number) t->number = (int32_t)syscall(SYS_gettid);
#else
    if (!t->number) t->number = (int32_t)((uintptr_t)t >> 6 & 0x7fffffff);
#endif
    return t->number;
}

static gd_profile_event *next_event(int op, int64_t began) {
    const int64_t stop = gd_profile_clock();
    event_ring *r = atomic_load_explicit(&ring, memory_order_acquire);
    gd_profile_event *e = &r->event[atomic_fetch_add_explicit(&noted, 1, memory_order_relaxed) % atomic_load_explicit(&r->room, memory_order_relaxed)];
    memset(e, 0, sizeof *e);
    e->start = began;
    e->stop = stop;
    e->op = op;
    e->thread = thread_number();
    e->gradient_of = e->arena = -1;
    return e;
}

static void put_arena(gd_profile_event *e, gd_arena *a) {
    e->arena = (int32_t)a->id;
    e->used = a->host.top - a->host.span.base; /* without the lock: another thread may be at it, then it is near enough */
}

/* Bytes of memory that a view reaches: what repeats is there once. */
static int64_t reached(const gd_view *v) {
    int64_t n = gd_dtype_bytes(v->dtype);
    for (int d = 0; d < GD_DIMS; d++)
        if (v->strides[d] != 0 || v->shape[d] == 0) n *= v->shape[d];
    return n;
}

static void put_shape(gd_profile_event *e, int k, const gd_view *v) {
    memcpy(e->shapes[k], gd_logical_shape(v), sizeof(int64_t) * v->rank);
    e->ranks[k] = (uint8_t)(v->rank + 1);
    e->dtypes[k] = v->dtype;
}

void gd_profile_op(int op, const gd_args *a, gd_arena *arena, int64_t workspace, int64_t began) {
    gd_profile_event *e = next_event(op, began);
    const gd_node *rule = gd_self()->failed ? gd_node_peek(gd_self()->failed) : NULL;
    if (rule) e->gradient_of = rule->op;
    for (int k = 0; k < a->nin; k++) {
        if (!a->in[k]) continue;
        const int64_t n = gd_numel(a->in[k]);
        if (k < 3) put_shape(e, k, a->in[k]);
        if (n > e->elements) e->elements = n;
        e->bytes += reached(a->in[k]);
    }
    put_shape(e, 3, a->out[0]);
    for (int k = 0; k < a->nout; k++) {
        const int64_t n = gd_numel(a->out[k]), bytes = n * gd_dtype_bytes(a->out[k]->dtype);
        if (n > e->elements) e->elements = n;
        e->bytes += bytes;
        const char *at = a->out[k]->data;
        if (arena && gd_arena_region_of(arena, at)) e->made += bytes; /* else a gradient's place */
    }
    e->workspace = workspace;
    if (arena) put_arena(e, arena);
}

void gd_profile_update(gd_optim_op op, const gd_optim_args *a, int64_t began) {
    gd_profile_event *e = next_event(GD_PROFILE_UPDATE - (int)op, began);
    const void *const states[] = {a->param, a->momentum, a->exp_avg, a->exp_avg_sq, a->max_exp_avg_sq};
    int64_t passes = 1; /* over the gradient, which is read; the others are read and written */
    for (size_t k = 0; k < sizeof states / sizeof *states; k++) passes += states[k] ? 2 : 0;
    e->elements = a->n;
    e->bytes = passes * a->n * gd_dtype_bytes(a->dtype);
    e->shapes[0][0] = a->n;
    e->ranks[0] = 2;
    e->dtypes[0] = a->dtype;
}

void gd_profile_note_arena(int kind, gd_arena *arena) {
    gd_profile_event *e = next_event(kind, gd_profile_clock());
    put_arena(e, arena);
}
