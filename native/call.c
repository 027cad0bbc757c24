/* call.c - the caller's own code in a graph: nodes whose gradient it computes, hooks on gradients, and objects of its
 * own that live as long as the tensors they belong to. */
#include <math.h>
#include <stdlib.h>

#include "backward.h"
#include "half.h"
#include "kept.h"
#include "param.h"

static _Atomic(gd_callback) callback;

void gd_set_callback(gd_callback function) { atomic_store(&callback, function); }

/* The gradients that the caller sees may stay with it, unless it promised to keep nothing: they are not recycled, and
 * neither is what it makes. */
gd_status gd_call_back(gd_backward_run *run, int kind, int64_t object, gd_tensor tensor, const gd_tensor *in, int64_t nin, gd_tensor *out, int64_t nout,
                       bool keeps) {
    gd_callback function = atomic_load(&callback);
    if (!function) return gd_fail(GD_ERR, "backward: nobody has set a callback");
    gd_thread *t = gd_self();
    for (int64_t k = 0; k < nin && keeps; k++)
        if (in[k]) gd_recycler_hold(in[k]);
    gd_recycler *recycler = t->recycler;
    const uint8_t autocast = t->autocast, device = t->device;
    t->recycler = NULL;
    t->device = run->device;
    run->kept_memory |= keeps;
    int64_t mode = gd_grad_mode_enter(run->create_graph);
    if (mode < 0) {
        t->recycler = recycler;
        t->device = device;
        return gd_last_status();
    }
    t->raw = false;
    gd_status status = function(kind, object, tensor, in, nin, out, nout, run->create_graph);
    t->recycler = recycler;
    t->device = device;
    gd_grad_mode_exit(mode, 1);
    t->grad_enabled = run->create_graph;
    t->autocast = autocast;
    t->raw = true;
    return status < 0 ? gd_fail(GD_ERR_CALLBACK, "backward: code that it called has failed") : GD_OK;
}

/* ---- Objects of the caller --------------------------------------------------------------------------------------- */

struct gd_object {
    int64_t object;
    int64_t index; /* of the node that it belongs to */
    struct gd_object *next;
};

static _Atomic(struct gd_object *) dropped;

/* Whoever holds an arena's lock runs no code of the caller: what is dropped waits for gd_take_dropped. */
static void drop(struct gd_object *o) {
    o->next = atomic_load(&dropped);
    while (!atomic_compare_exchange_weak(&dropped, &o->next, o)) {}
}

void gd_objects_drop(gd_arena *a, int64_t nodes) {
    while (a->objects && a->objects->index >= nodes) {
        struct gd_object *o = a->objects;
        a->objects = o->next;
        drop(o);
    }
}

int gd_has_dropped(void) { return atomic_load_explicit(&dropped, memory_order_relaxed) != NULL; }

int64_t gd_take_dropped(int64_t *objects, int64_t capacity) {
    struct gd_object *list = atomic_exchange(&dropped, NULL);
    int64_t count = 0;
    for (struct gd_object *next; list; list = next) {
        next = list->next;
        if (count < capacity) {
            objects[count++] = list->object;
            free(list);
        } else {
            drop(list);
        }
    }
    return count;
}

static struct gd_object *new_object(int64_t object) {
    struct gd_object *o = gd_allocation_fails() ? NULL : malloc(sizeof *o);
    if (o) o->object = object;
    else gd_fail(GD_ERR_MEMORY, "no memory for what belongs to a tensor");
    return o;
}

/* Lock held. Mostly of the newest node. */
static void attach(gd_arena *a, struct gd_object *o, const gd_node *n) {
    o->index = n - a->nodes;
    struct gd_object **at = &a->objects;
    while (*at && (*at)->index > o->index) at = &(*at)->next;
    o->next = *at;
    *at = o;
}

gd_status gd_attach(gd_tensor t, int64_t object) {
    gd_node *n = gd_node_of(t, "hook");
    struct gd_object *o = n ? new_object(object) : NULL;
    if (!o) return gd_last_status();
    gd_arena *a = gd_arena_by_handle(n->self);
    gd_arena_lock(a);
    attach(a, o, n);
    gd_arena_unlock(a);
    return GD_OK;
}

gd_status gd_hook(gd_tensor t, int kind, int on) {
    gd_node *n = gd_node_of(t, "hook");
    if (!n) return gd_last_status();
    const uint16_t flag = kind == GD_CALL_HOOK ? GD_HOOKED : GD_LEAF_HOOKED;
    if (on && !(n->flags & GD_REQUIRES_GRAD)) return gd_fail(GD_ERR, "hook: the tensor does not require grad, so no gradient will come");
    if (on && kind == GD_CALL_LEAF && !(n->flags & GD_LEAF)) return gd_fail(GD_ERR, "hook: only a leaf gathers its gradient in .grad");
    n->flags = (uint16_t)(on ? n->flags | flag : n->flags & ~flag);
    return GD_OK;
}

/* ---- Nodes with a gradient of the caller ------------------------------------------------------------------------- */

/* attr.i[0] is the object, i[1] whether a backward uses it up, i[2] whether the caller keeps no gradients. Outputs are views over what the caller computed. */
static gd_status make_custom(gd_arena *a, int64_t object, gd_node *const *in, int64_t nin, gd_node *const *results, int64_t nout, const uint8_t *differentiable,
                             int once, gd_tensor *out) {
    struct gd_object *o = new_object(object);
    if (!o) return gd_last_status();
    gd_node *first = NULL;
    void *lists = NULL;
    gd_arena_lock(a);
    gd_place place = gd_arena_at(a);
    bool ok = true;
    for (int64_t k = 0; k < nout && ok; k++) {
        gd_node *n = gd_arena_node(a);
        if (k == 0) first = n;
        ok = n != NULL;
    }
    if (ok && nin > GD_SMALL_IN) ok = (lists = gd_arena_bytes(a, nin * (int64_t)(sizeof(gd_tensor) + sizeof(uint32_t)))) != NULL;
    if (ok) attach(a, o, first);
    else gd_arena_undo(a, &place);
    gd_arena_unlock(a);
    if (!ok) {
        free(o);
        return gd_last_status();
    }
    first->in = lists ? lists : first->in_small;
    first->in_version = lists ? (uint32_t *)(first->in + nin) : first->version_small;
    first->nin = (uint32_t)nin;
    for (int64_t k = 0; k < nin; k++) {
        gd_node *storage = gd_storage(in[k]);
        first->in[k] = in[k]->self;
        first->in_version[k] = gd_storage_version(in[k]) & ~GD_TRACKED;
        if (in[k]->flags & GD_REQUIRES_GRAD) first->in_version[k] |= GD_TRACKED;
        if (storage && storage->param) gd_param_used(storage->param, first);
        if (storage && storage->flags & GD_KEPT) gd_kept_used(storage, first->self);
    }
    first->attr = (gd_attr){.i = {object, once & 1, once >> 1}};
    for (int64_t k = 0; k < nout; k++) {
        gd_node *n = first + k, *storage = gd_storage(results[k]);
        n->v = results[k]->v;
        n->base = results[k]->base;
        n->nout = (uint8_t)nout;
        n->out_index = (uint8_t)k;
        n->own_version = gd_storage_version(n);
        if (storage && !gd_arena_by_handle(storage->self)->is_permanent) storage->flags |= GD_SEEN;
        if (storage && storage->flags & GD_KEPT) gd_kept_used(storage, n->self);
        if (k == 0 || differentiable[k]) n->op = GD_NODE_CUSTOM;
        if (differentiable[k]) n->flags = (uint16_t)((n->flags & ~GD_LEAF) | GD_REQUIRES_GRAD);
        out[k] = n->self;
    }
    if (atomic_load_explicit(&gd_anomaly, memory_order_relaxed) & GD_ANOMALY_TRACE) gd_anomaly_made(first->self);
    return GD_OK;
}

gd_status gd_custom(int64_t object, const gd_tensor *inputs, int64_t ninputs, const gd_tensor *outputs, int64_t noutputs, const uint8_t *differentiable, int once,
                    gd_tensor *out) {
    if (noutputs < 1 || noutputs > UINT8_MAX || ninputs < 1)
        return gd_fail(GD_ERR_VALUE, "function: %lld inputs and %lld outputs: it takes at least one tensor and returns 1 to %d", (long long)ninputs,
                       (long long)noutputs, UINT8_MAX);
    gd_arena *a = gd_arena_active();
    gd_node *few[GD_FEW_INPUTS], **nodes = few;
    if (ninputs + noutputs > GD_FEW_INPUTS) nodes = gd_scratch(a, (ninputs + noutputs) * (int64_t)sizeof *nodes);
    if (!a || !nodes) return gd_last_status();
    for (int64_t k = 0; k < ninputs + noutputs; k++)
        if (!(nodes[k] = gd_node_of(k < ninputs ? inputs[k] : outputs[k - ninputs], "function"))) return gd_last_status();
    for (int64_t k = 0; k < noutputs; k++)
        if (differentiable[k] && !gd_is_float(nodes[ninputs + k]->v.dtype))
            return gd_fail(GD_ERR_DTYPE, "function: output %lld is %s, which has no gradient", (long long)k, gd_dtype_name(nodes[ninputs + k]->v.dtype));
    return make_custom(a, object, nodes, ninputs, nodes + ninputs, noutputs, differentiable, once, out);
}

gd_status gd_vjp_custom(gd_vjp *v) {
    gd_node *n = v->node;
    const int64_t nout = n->nout, nin = n->nin;
    gd_tensor *list = gd_scratch(v->run->arena, (nout + nin) * (int64_t)sizeof *list), *given = list + nout;
    if (!list) return gd_last_status();
    for (int64_t k = 0; k < nout; k++) list[k] = n[k].flags & GD_LEAF ? 0 : n[k].acc;
    for (int64_t k = 0; k < nin; k++) given[k] = gd_vjp_needs(v, (int)k);
    GD_TRY(gd_call_back(v->run, GD_CALL_BACKWARD, n->attr.i[0], n->self, list, nout, given, nin, !n->attr.i[2]));
    for (int64_t k = 0; k < nin; k++) {
        if (given[k] <= GD_ABSENT || !gd_vjp_needs(v, (int)k)) continue;
        gd_node *g = gd_node_of(given[k], "function");
        if (!g) return gd_last_status();
        g->work |= GD_GIVEN; /* the caller may hold it: nothing is added to it in place */
        GD_TRY(gd_vjp_give(v, (int)k, given[k]));
    }
    return GD_OK;
}

int64_t gd_object_of(gd_tensor t) {
    const gd_node *n = gd_node_of(t, "graph");
    return n && n->op == GD_NODE_CUSTOM && !(n->flags & GD_LEAF && n->in == NULL) ? (n - n->out_index)->attr.i[0] : 0;
}

gd_tensor gd_copy_to(gd_tensor t, gd_arena *arena) {
    gd_node *n = gd_node_of(t, "copy");
    if (!n) return 0;
    gd_view like = gd_view_like(&n->v);
    gd_backward_run *run = gd_self()->run; /* for whose gradients it may be, so its memory is recycled like theirs */
    gd_recycler *recycler = run && !run->create_graph && run->recycler->arena == arena ? run->recycler : NULL;
    const int64_t bytes = gd_numel(&like) * gd_dtype_bytes(like.dtype);
    int64_t room = 0;
    gd_node *copy = NULL;
    if (recycler && bytes >= recycler->least) {
        gd_arena_lock(arena);
        like.data = gd_recycler_take(recycler, like.device, bytes, &room);
        copy = like.data ? gd_arena_node(arena) : NULL;
        gd_arena_unlock(arena);
        if (like.data && !copy) return 0;
        if (copy) copy->v = like;
    }
    if (!copy) copy = gd_node_new(arena, &like);
    if (!copy) return 0;
    if (recycler && bytes >= recycler->least) gd_recycler_made(recycler, copy, room ? room : (bytes + GD_ALIGN - 1) & -(int64_t)GD_ALIGN);
    gd_copy_view(&copy->v, &n->v);
    return copy->self;
}

/* ---- Anomalies --------------------------------------------------------------------------------------------------- */

atomic_int gd_anomaly;

int gd_set_anomaly(int bits) { return atomic_exchange(&gd_anomaly, bits); }
gd_tensor gd_failed_node(void) { return gd_self()->failed; }

void gd_anomaly_made(gd_tensor t) {
    gd_callback function = atomic_load(&callback);
    if (function && function(GD_CALL_MADE, 0, t, NULL, 0, NULL, 0, 0) < 0) gd_clear_error(); /* only where it was made stays unknown */
}

static bool is_nan(const void *at, int dtype) {
    switch (dtype) {
    case GD_FLOAT32: return isnan(*(const float *)at);
    case GD_FLOAT64: return isnan(*(const double *)at);
    case GD_BFLOAT16: return isnan(gd_f32_of_bf16(*(const uint16_t *)at));
    case GD_FLOAT16: return isnan(gd_f32_of_f16(*(const uint16_t *)at));
    default: return false;
    }
}

/* The same on a device: by ops, of which the host reads the result. */
static bool device_has_nan(const gd_view *v) {
    gd_arena *a = gd_arena_active();
    gd_view mask = gd_view_like(v), one = {.shape = {1, 1, 1, 1}, .strides = {1, 1, 1, 1}, .dtype = GD_BOOL, .device = v->device};
    uint8_t found = 0;
    mask.dtype = GD_BOOL;
    if (!a || !gd_is_float(v->dtype) || gd_numel(v) == 0) return false;
    const int64_t bytes = gd_numel(v);
    gd_arena_lock(a);
    mask.data = gd_arena_bytes_on(a, v->device, bytes + 2 * GD_ALIGN);
    char *after = mask.data ? a->region[v->device - 1]->top : NULL;
    gd_arena_unlock(a);
    if (!mask.data) return false;
    one.data = (char *)mask.data + (bytes + GD_ALIGN - 1) / GD_ALIGN * GD_ALIGN;
    const gd_view *in[] = {v}, *masks[] = {&mask};
    gd_view *out[] = {&mask}, *result[] = {&one};
    gd_run(GD_OP_isnan, in, 1, out, 1, NULL);
    gd_run(GD_OP_any, masks, 1, result, 1, &(gd_attr){.i = {15}});
    if (gd_device_read(v->device, &found, one.data, 1) < 0) gd_clear_error();
    gd_arena_drop_bytes(a, v->device, mask.data, after);
    return found;
}

bool gd_has_nan(const gd_view *v) {
    if (v->device) return device_has_nan(v);
    for (int64_t i = 0, count = gd_numel(v); i < count; i++) {
        int64_t left = i, offset = 0;
        for (int d = GD_DIMS - 1; d >= 0; d--) {
            offset += left % v->shape[d] * v->strides[d];
            left /= v->shape[d];
        }
        if (is_nan((const char *)v->data + offset * gd_dtype_bytes(v->dtype), v->dtype)) return true;
    }
    return false;
}
