/* record.c - running an op: shape rule, memory, kernel, and the graph node that remembers it. */
#include "cpu.h"
#include "device.h"
#include "kept.h"
#include "param.h"
#include "profile.h"
#include "recycle.h"
#include "thread.h"

void gd_run(int op, const gd_view *const *in, int nin, gd_view *const *out, int nout, const gd_attr *attr) {
    static const gd_attr none;
    gd_args args = {.in = in, .out = out, .attr = attr ? attr : &none, .nin = nin, .nout = nout};
    const int64_t began = gd_profile_began();
    bool halves = false;
    if (__builtin_expect(out[0]->device != 0, 0)) {
        gd_device_run(op, &args, out[0]->device);
        if (__builtin_expect(began != 0, 0)) gd_profile_op(op, &args, NULL, 0, began);
        return;
    }
    for (int k = 0; k < nin; k++) halves |= gd_is_half(in[k]->dtype);
    for (int k = 0; k < nout; k++) halves |= gd_is_half(out[k]->dtype);
    if (halves) gd_half_run(op, &args, 0);
    else gd_ops[op].kernel[gd_current_isa()](&args);
    if (__builtin_expect(began != 0, 0)) gd_profile_op(op, &args, NULL, 0, began);
}

void gd_copy_view(gd_view *dst, const gd_view *src) {
    if (__builtin_expect(dst->device != src->device, 0)) {
        if (gd_transfer(dst, src, true) < 0) gd_device_note(dst->device ? dst->device : src->device, gd_last_status(), gd_last_error());
        return;
    }
    gd_view from = *src;
    for (int d = 0; d < GD_DIMS; d++)
        if (from.shape[d] != dst->shape[d]) {
            from.shape[d] = dst->shape[d];
            from.strides[d] = 0;
        }
    gd_attr attr = {.i = {dst->dtype}};
    const gd_view *in[] = {&from};
    gd_view *out[] = {dst};
    gd_run(from.dtype == dst->dtype ? GD_OP_copy : GD_OP_cast, in, 1, out, 1, &attr);
}

/* Nodes and bytes for all outputs and the workspace, or nothing at all. */
static gd_status allocate(gd_arena *a, gd_shape_call *c, bool view, void *dest, int64_t many_inputs, gd_node **nodes, void **workspace, char **after) {
    const int device = c->out[0].device;
    gd_recycler *recycler = gd_self()->recycler;
    if (recycler && recycler->arena != a) recycler = NULL;
    int64_t room[GD_MAX_OUT] = {0}; /* of outputs whose memory is recycled */
    gd_arena_lock(a);
    gd_place place = gd_arena_at(a);
    bool ok = true;
    for (int k = 0; k < c->nout && ok; k++) {
        if (view || c->placed >> k & 1) {
        } else if (k == 0 && dest) {
            c->out[0].data = dest;
        } else {
            const int64_t bytes = gd_numel(&c->out[k]) * gd_dtype_bytes(c->out[k].dtype);
            const bool passing = recycler && bytes >= recycler->least;
            c->out[k].data = passing ? gd_recycler_take(recycler, device, bytes, &room[k]) : NULL;
            if (!c->out[k].data) {
                c->out[k].data = gd_arena_bytes_on(a, device, bytes);
                if (passing) room[k] = (bytes + GD_ALIGN - 1) & -(int64_t)GD_ALIGN;
            }
            if (!c->out[k].data) ok = false;
        }
        if (ok && !(nodes[k] = gd_arena_node(a))) ok = false;
        if (ok) {
            nodes[k]->v = c->out[k];
            nodes[k]->nout = (uint8_t)c->nout;
            nodes[k]->out_index = (uint8_t)k;
        }
    }
    if (ok && many_inputs) { /* more than the node itself has room for */
        nodes[0]->in = gd_arena_bytes(a, many_inputs * (int64_t)(sizeof(gd_tensor) + sizeof(uint32_t)));
        ok = nodes[0]->in != NULL;
        if (ok) nodes[0]->in_version = (uint32_t *)(nodes[0]->in + many_inputs);
    }
    if (ok && c->workspace) {
        *workspace = gd_arena_bytes(a, c->workspace);
        *after = a->host.top;
        ok = *workspace != NULL;
    }
    if (!ok) gd_arena_undo(a, &place);
    gd_arena_unlock(a);
    for (int k = 0; k < c->nout && ok && recycler; k++)
        if (room[k]) gd_recycler_made(recycler, nodes[k], room[k]);
    return ok ? GD_OK : gd_last_status();
}

/* Remembers inputs, their storage versions, which of them require grad, and the attributes for backward. */
static void remember(gd_node *n, int op, const gd_tensor *in, gd_node *const *nodes, int64_t nin, const gd_attr *attr) {
    n->nin = (uint32_t)nin;
    if (nin <= GD_SMALL_IN) {
        n->in = n->in_small;
        n->in_version = n->version_small;
    }
    for (int64_t k = 0; k < nin; k++) {
        n->in[k] = nodes[k] ? nodes[k]->self : in[k];
        gd_node *storage = nodes[k] ? gd_storage(nodes[k]) : NULL;
        n->in_version[k] = storage ? storage->version & ~GD_TRACKED : 0;
        if (nodes[k] && nodes[k]->flags & GD_REQUIRES_GRAD) n->in_version[k] |= GD_TRACKED;
        if (storage && storage->param) gd_param_used(storage->param, n);
        if (storage && storage->flags & GD_KEPT) gd_kept_used(storage, n->self);
    }
    n->attr = *attr;
    n->op = (int16_t)op;
}

/* Numbers, and scalars of the CPU, that stand beside tensors on a device become such themselves. */
static bool bring_numbers(gd_node **nodes, int64_t nin, int device) {
    for (int64_t k = 0; k < nin; k++) {
        if (!nodes[k] || nodes[k]->v.device == device) continue;
        const bool tracked = nodes[k]->flags & GD_REQUIRES_GRAD;
        nodes[k] = tracked ? gd_node_peek(gd_to_device(nodes[k]->self, device, 0)) : gd_device_number(nodes[k], device);
        if (!nodes[k]) return false;
    }
    return true;
}

static gd_tensor record(int op, const gd_tensor *in, gd_node **nodes, int64_t nin, const gd_attr *attr_in, void *dest) {
    const gd_op_row *row = &gd_ops[op];
    const int64_t began = gd_profile_began();
    gd_attr attr;
    if (attr_in) attr = *attr_in;
    else memset(&attr, 0, sizeof attr);
    bool any_grad = false, halves = false;
    int device = nin ? 0 : gd_self()->device;
    for (int64_t k = 0; k < nin; k++) {
        nodes[k] = NULL;
        if (!in[k] && row->flags & GD_OP_OPTIONAL) continue; /* its shape rule knows which */
        if (!(nodes[k] = gd_node_of(in[k], row->name))) return 0;
        any_grad |= (nodes[k]->flags & GD_REQUIRES_GRAD) != 0;
        halves |= gd_is_half(nodes[k]->v.dtype);
        device |= nodes[k]->v.device;
    }
    if (__builtin_expect(device != 0, 0)) {
        if (nin && (device = gd_device_of_inputs(op, nodes, nin)) < 0) return 0;
        if (gd_device_ready(op, device) < 0) return 0;
    }
    gd_shape_call c;
    c.name = row->name;
    c.in = nodes;
    c.nin = (int)nin;
    c.attr = &attr;
    c.dest = dest;
    c.placed = 0;
    c.nout = row->nout;
    c.workspace = 0;
    c.op = op;
    gd_parallel_refresh(); /* from here to the kernel the width stays: workspace is sized by it */
    if (row->shape(&c) < 0) return 0;
    halves |= gd_is_half(c.out[0].dtype);
    int64_t own_workspace = c.workspace;
    for (int k = 0; k < c.nout; k++) c.out[k].device = (uint8_t)device;
    if (__builtin_expect(device != 0, 0)) {
        if (!bring_numbers(nodes, nin, device)) return 0;
        c.workspace = 0; /* the kernel says what it needs */
    } else if (halves) {
        gd_half_workspace(op, &c, &own_workspace);
    }

    gd_arena *a = gd_arena_active();
    bool view = (row->flags & GD_OP_VIEW) != 0;
    gd_node *outs[GD_MAX_OUT];
    void *workspace = NULL;
    char *after = NULL;
    bool recording = any_grad && gd_self()->grad_enabled && row->vjp;
    if (!a || allocate(a, &c, view, dest, recording && nin > GD_SMALL_IN ? nin : 0, outs, &workspace, &after) < 0) return 0;
    if (view) {
        gd_node *storage = gd_storage(nodes[0]);
        outs[0]->base = nodes[0]->base;
        if (storage && !(storage->flags & GD_SEEN) && !gd_arena_by_handle(storage->self)->is_permanent) storage->flags |= GD_SEEN;
        if (!recording) { /* what a view is of is known all the same: a write may give both a history, see write.c */
            outs[0]->op = (int16_t)op;
            outs[0]->in_small[0] = nodes[0]->self;
            outs[0]->attr = attr;
        }
        if (storage && storage->flags & GD_KEPT) gd_kept_used(storage, outs[0]->self);
    } else {
        gd_view *out_views[GD_MAX_OUT];
        for (int k = 0; k < c.nout; k++) out_views[k] = &outs[k]->v;
        gd_args args = {.in = (const gd_view *const *)nodes, .out = out_views, .attr = &attr, .workspace = workspace, .nin = (int)nin, .nout = c.nout};
        if (__builtin_expect(device != 0, 0)) gd_device_run(op, &args, device);
        else if (halves) gd_half_run(op, &args, own_workspace);
        else row->kernel[gd_current_isa()](&args);
        if (__builtin_expect(began != 0, 0)) gd_profile_op(op, &args, a, workspace ? after - (char *)workspace : 0, began);
        if (workspace) gd_arena_drop_bytes(a, 0, workspace, after);
    }
    if (recording) {
        remember(outs[0], op, in, nodes, nin, &attr);
        if (view) outs[0]->own_version = gd_storage_version(outs[0]);
        for (int k = 0; k < c.nout; k++) {
            outs[k]->op = (int16_t)op;
            outs[k]->flags = (uint16_t)(outs[k]->flags & ~GD_LEAF);
            if (gd_is_float(outs[k]->v.dtype)) outs[k]->flags |= GD_REQUIRES_GRAD;
        }
        if (__builtin_expect(atomic_load_explicit(&gd_anomaly, memory_order_relaxed) & GD_ANOMALY_TRACE, 0)) gd_anomaly_made(outs[0]->self);
    }
    return outs[0]->self;
}

/* The op on inputs as mixed precision wants them. */
static gd_tensor record_autocast(int op, const gd_tensor *in, int64_t nin, const gd_attr *attr, void *dest) {
    gd_node *nodes[GD_FEW_INPUTS];
    gd_tensor cast[GD_FEW_INPUTS]; /* no op that says how it wants them has more */
    gd_start start = gd_here();
    for (int64_t k = 0; k < nin; k++)
        if ((cast[k] = in[k]) && !(cast[k] = gd_autocast_input(op, in[k]))) return gd_or_return(start, 0);
    return gd_or_return(start, record(op, cast, nodes, nin, attr, dest));
}

gd_tensor gd_record(int op, const gd_tensor *in, int64_t nin, const gd_attr *attr, void *dest) {
    gd_node *few[GD_FEW_INPUTS];
    if (__builtin_expect(gd_self()->autocast, 0) && gd_ops[op].flags & (GD_OP_LOWER | GD_OP_FULL)) return record_autocast(op, in, nin, attr, dest);
    if (nin <= GD_FEW_INPUTS) return record(op, in, few, nin, attr, dest);
    gd_start start = gd_here();
    gd_node **many = gd_scratch(start.arena, nin * (int64_t)sizeof(gd_node *));
    return gd_or_return(start, many ? record(op, in, many, nin, attr, dest) : 0);
}

void *gd_scratch(gd_arena *a, int64_t bytes) {
    if (!a) return NULL;
    gd_arena_lock(a);
    void *p = gd_arena_bytes(a, bytes);
    gd_arena_unlock(a);
    return p;
}

gd_tensor gd_call(int op, const gd_tensor *in, int64_t count, const gd_attr *attr) {
    if (op < 0 || op >= GD_OPS) {
        gd_fail(GD_ERR_VALUE, "op %d: there are %d", op, GD_OPS);
        return 0;
    }
    if (count < 0 || (gd_ops[op].nin != GD_VARIADIC && count != gd_ops[op].nin)) {
        gd_fail(GD_ERR_VALUE, "%s: takes %d inputs, got %lld", gd_ops[op].name, gd_ops[op].nin, (long long)count);
        return 0;
    }
    if (!(gd_ops[op].flags & GD_OP_OPTIONAL)) return gd_record(op, in, count, attr, NULL);
    gd_tensor present[GD_FEW_INPUTS]; /* no op with absent inputs has more */
    for (int64_t k = 0; k < count; k++) {
        present[k] = in[k];
        GD_TRY_TENSOR(gd_optional(&present[k], gd_ops[op].name));
    }
    return gd_record(op, present, count, attr, NULL);
}

gd_tensor gd_output(gd_tensor first, int index) {
    gd_node *n = gd_node_of(first, "output");
    if (!n) return 0;
    if (n->out_index != 0 || index < 0 || index >= n->nout) {
        gd_fail(GD_ERR_VALUE, "output: %d of an op with %d outputs (counted from its first one)", index, n->nout);
        return 0;
    }
    return n[index].self;
}
