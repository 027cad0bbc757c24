/* write.c - in-place writes with a history. The memory of a tensor is one, but its node is what was recorded: a write
 * makes a new node over the same memory, and leaves word of it (`next`) with the old one, which ops recorded before go on
 * to mean. Views of a tensor that was replaced are made anew from it when they are next used. */
#include "kept.h"
#include "param.h"
#include "vjp.h"

/* ---- What stands for a tensor now ---------------------------------------------------------------------------------- */

/* The tensor that n was made a view of by an op with a gradient, or 0: n has a history of its own. */
static gd_tensor parent_of(const gd_node *n) {
    if (n->op < 0 || n->op >= GD_OPS || n->op == GD_OP_detach || !(gd_ops[n->op].flags & GD_OP_VIEW)) return 0;
    return n->in ? n->in[0] : n->in_small[0];
}

static gd_node *as_it_is(gd_node *n, const char *who) {
    if (n->base == n->self || gd_node_peek(n->base)) return n;
    return gd_node_missing(n->base, who);
}

enum { MOST_VIEWS = 10000 }; /* of views, each made of the one before: to make them anew takes stack */

static gd_node *current(gd_node *n, const char *who);

/* A view of what stands for its parent now. Where nothing is recorded the old one does: its memory is the same. */
static gd_node *made_anew(gd_node *n, const char *who) {
    gd_node *parent = gd_node_peek(parent_of(n));
    if (!parent || !gd_self()->grad_enabled) return as_it_is(n, who);
    gd_node *now = current(parent, who);
    if (!now || now == parent) return now ? as_it_is(n, who) : NULL;
    gd_node *view = gd_node_peek(gd_record(n->op, &now->self, 1, &n->attr, NULL));
    if (!view) return NULL;
    n->next = view->self;
    n->flags |= GD_REPLACED;
    return view;
}

static gd_node *current(gd_node *n, const char *who) {
    while (n->flags & GD_REPLACED) {
        gd_node *next = gd_node_peek(n->next);
        if (next) {
            n = next;
        } else if (!parent_of(n) && n->flags & (GD_REQUIRES_GRAD | GD_MOVED)) {
            gd_fail(GD_ERR_STALE, "%s: this tensor was changed in place, and the arena of that op was reset since: what it holds has no history any more", who);
            return NULL;
        } else {
            n->flags &= (uint16_t)~GD_REPLACED; /* a plain buffer: it holds what was written */
        }
    }
    return parent_of(n) ? made_anew(n, who) : as_it_is(n, who);
}

gd_node *gd_node_current(gd_node *n, const char *who) {
    if (gd_self()->raw) return as_it_is(n, who);
    int64_t views = 0;
    for (const gd_node *v = n; gd_self()->grad_enabled && v && views <= MOST_VIEWS; v = gd_node_peek(parent_of(v))) views++;
    if (views <= MOST_VIEWS) return current(n, who);
    gd_fail(GD_ERR, "%s: this tensor was changed in place, and is a view of a view and so on, more than %d times: use a .clone() on the way", who, MOST_VIEWS);
    return NULL;
}

gd_tensor gd_current(gd_tensor t) {
    gd_node *n = gd_node_of(t, "tensor");
    if (!n) return 0;
    return gd_arena_by_handle(n->self) == gd_arena_by_handle(t) ? n->self : t;
}

/* ---- Writing ---------------------------------------------------------------------------------------------------------- */

static const char WRITE[] = "in-place write";

/* The tensor whose history a write to n changes: n, or what it is a view of. NULL with an error set. */
static gd_node *root_of(gd_node *n) {
    for (gd_tensor parent; (parent = parent_of(n));) {
        n = gd_node_peek(parent);
        if (!n) {
            gd_fail(GD_ERR_STALE, "%s: the tensor that this one is a view of is gone with its arena", WRITE);
            return NULL;
        }
    }
    return gd_node_current(n, WRITE);
}

/* Whether nobody else sees n's memory, so that the result of an op, in the same arena, may take its place without being
 * copied there. */
static bool may_move(const gd_node *n) {
    return gd_arena_by_handle(n->self) == gd_arena_active() && n->base == n->self && !n->param && !(n->flags & (GD_SEEN | GD_EXTERNAL | GD_PARAMETER | GD_GRAD_BUFFER | GD_KEPT)) &&
           !gd_arena_by_handle(n->self)->is_permanent;
}

int gd_write_begin(gd_tensor t) {
    gd_node *n = gd_node_of(t, WRITE);
    if (!n) return gd_last_status();
    GD_TRY(gd_check_single(n, WRITE));
    if (!gd_self()->grad_enabled) return 0;
    gd_node *root = root_of(n);
    if (!root) return gd_last_status();
    if (root->flags & GD_LEAF && root->flags & GD_REQUIRES_GRAD)
        return gd_fail(GD_ERR, "%s: a %sleaf that requires grad (shape %s) is changed in place while ops are recorded; use no_grad()", WRITE,
                       root == n ? "" : "view of a ", gd_text_view(&n->v));
    return (may_move(n) ? 1 : 0) | ((n->flags | root->flags) & GD_REQUIRES_GRAD ? 2 : 0);
}

/* Another node is the tensor from now on. */
static void replace(gd_node *old, gd_node *with, bool moved) {
    old->next = with->self;
    if (old->flags & GD_RETAIN_GRAD) with->flags |= GD_RETAIN_GRAD;
    old->flags = (uint16_t)((old->flags & ~GD_RETAIN_GRAD) | GD_REPLACED | (moved ? GD_MOVED : 0));
}

/* attr of an overwritten part: i[0..3] its shape, i[4..7] its strides, i[8] where it begins, in elements of the contiguous
 * whole, i[9] its rank; i[10]: it is the whole, of whatever strides. */
enum { SHAPE = 0, STRIDES = 4, BEGIN = 8, RANK = 9, WHOLE = 10 };

static gd_attr part_of(const gd_view *whole, const gd_view *part, bool all) {
    gd_attr attr = {.i = {[BEGIN] = ((const char *)part->data - (const char *)whole->data) / gd_dtype_bytes(whole->dtype), [RANK] = part->rank, [WHOLE] = all}};
    for (int d = 0; d < GD_DIMS; d++) {
        attr.i[SHAPE + d] = part->shape[d];
        attr.i[STRIDES + d] = part->strides[d];
    }
    return attr;
}

static gd_view part_in(const gd_view *whole, const gd_attr *attr) {
    gd_view part = *whole;
    part.rank = (uint8_t)attr->i[RANK];
    for (int d = 0; d < GD_DIMS; d++) {
        part.shape[d] = attr->i[SHAPE + d];
        part.strides[d] = attr->i[STRIDES + d];
    }
    if (gd_numel(&part)) part.data = (char *)whole->data + attr->i[BEGIN] * gd_dtype_bytes(whole->dtype);
    return part;
}

static void remember_input(gd_node *n, int k, gd_node *in) {
    gd_node *storage = in ? gd_storage(in) : NULL;
    n->in_small[k] = in ? in->self : 0;
    n->version_small[k] = in ? gd_storage_version(in) & ~GD_TRACKED : 0;
    if (in && in->flags & GD_REQUIRES_GRAD) n->version_small[k] |= GD_TRACKED;
    if (storage && storage->param) gd_param_used(storage->param, n);
    if (storage && storage->flags & GD_KEPT) gd_kept_used(storage, n->self);
}

/* Makes n, over whatever memory, the result of writing b into a; a may be NULL. */
static void remember(gd_node *n, int op, gd_node *a, gd_node *b, const gd_attr *attr) {
    n->in = n->in_small;
    n->in_version = n->version_small;
    n->nin = op == GD_NODE_OVERWRITE ? 2 : 1;
    remember_input(n, 0, a);
    if (op == GD_NODE_OVERWRITE) remember_input(n, 1, b);
    n->attr = *attr;
    n->op = (int16_t)op;
    n->flags = (uint16_t)((n->flags & ~GD_LEAF) | GD_REQUIRES_GRAD);
    if (atomic_load_explicit(&gd_anomaly, memory_order_relaxed) & GD_ANOMALY_TRACE) gd_anomaly_made(n->self);
}

/* The handle that stands for t where a node in perhaps another arena is its newest one. */
static gd_tensor handle_for(gd_tensor t) {
    gd_tensor now = gd_current(t);
    if (now) return now;
    gd_clear_error(); /* the write is done; a view that cannot be made now is made when it is used */
    return t;
}

static gd_tensor write_recorded(gd_tensor t, gd_node *n, gd_node *root, gd_node *value, bool computed) {
    gd_arena *a = gd_arena_active();
    const bool whole = n == root;
    if (computed && whole && may_move(n) && value->base == value->self && gd_arena_by_handle(value->self) == gd_arena_by_handle(n->self) &&
        !(value->flags & (GD_SEEN | GD_EXTERNAL | GD_REPLACED))) {
        value->version = value->own_version = n->version + 1;
        replace(n, value, true);
        return handle_for(t);
    }
    if (!whole && !gd_is_contiguous(&root->v)) {
        gd_fail(GD_ERR, "%s: the tensor is a part of a strided one of shape %s without a history of its own views; write to a .clone()", WRITE,
                gd_text_view(&root->v));
        return 0;
    }
    if (root->param) {
        gd_fail(GD_ERR, "%s: a parameter cannot take a value that requires grad; write value.detach(), or use no_grad()", WRITE);
        return 0;
    }
    if (gd_views_overlap(&n->v, &value->v)) value = gd_node_peek(GD_RECORD(copy, NULL, value->self));
    if (!value) return 0;
    gd_arena_lock(a);
    gd_node *made = gd_arena_node(a);
    gd_arena_unlock(a);
    if (!made) return 0;
    gd_node *storage = gd_storage(root);
    gd_attr attr = part_of(&root->v, &n->v, whole);
    made->v = root->v;
    made->base = root->base;
    remember(made, GD_NODE_OVERWRITE, computed && whole ? NULL : root, value, &attr);
    gd_copy_view(&n->v, &value->v);
    storage->version++;
    storage->flags |= GD_REBASED;
    made->own_version = storage->version;
    replace(root, made, false);
    return handle_for(t);
}

gd_tensor gd_write(gd_tensor t, gd_tensor value, int computed) {
    if (gd_write_begin(t) < 0) return 0;
    gd_node *n = gd_node_of(t, WRITE), *v = n ? gd_node_of(value, WRITE) : NULL, *root = v ? root_of(n) : NULL;
    if (!root) return 0;
    if (v == n) return t;
    if (!gd_self()->grad_enabled || !((n->flags | root->flags | v->flags) & GD_REQUIRES_GRAD)) return gd_copy_in(t, value) < 0 ? 0 : t;
    gd_start start = gd_here();
    if (v->v.device != n->v.device) value = gd_to_device(v->self, n->v.device, 0);
    v = value ? gd_node_of(value, WRITE) : NULL;
    if (v && v->v.dtype != n->v.dtype) value = gd_cast(v->self, n->v.dtype);
    v = value ? gd_node_of(value, WRITE) : NULL;
    if (v && (v->v.rank != n->v.rank || memcmp(v->v.shape, n->v.shape, sizeof v->v.shape) != 0))
        v = gd_node_peek(gd_expand(v->self, n->v.rank, gd_logical_shape(&n->v)));
    return gd_or_return(start, v ? write_recorded(t, n, root, v, computed) : 0);
}

/* ---- Gradients ---------------------------------------------------------------------------------------------------------- */

/* A new tensor: whole, with value in the part. */
static gd_tensor overwritten(gd_tensor whole, gd_tensor value, const gd_attr *attr) {
    gd_node *w = gd_node_recorded(whole, WRITE), *v = w ? gd_node_recorded(value, WRITE) : NULL;
    if (!v) return 0;
    gd_view like = gd_view_like(&w->v);
    gd_node *made = gd_node_new(gd_arena_active(), &like);
    if (!made) return 0;
    gd_copy_view(&made->v, &w->v);
    gd_view part = part_in(&made->v, attr);
    gd_copy_view(&part, &v->v);
    if (gd_self()->grad_enabled && (w->flags | v->flags) & GD_REQUIRES_GRAD) remember(made, GD_NODE_OVERWRITE, w, v, attr);
    return made->self;
}

/* The part of a tensor, as a view. */
static gd_tensor region(gd_tensor whole, const gd_attr *attr) {
    whole = gd_contiguous(whole);
    gd_node *w = whole ? gd_node_recorded(whole, WRITE) : NULL;
    gd_arena *a = gd_arena_active();
    if (!w || !a) return 0;
    gd_arena_lock(a);
    gd_node *made = gd_arena_node(a);
    gd_arena_unlock(a);
    if (!made) return 0;
    made->v = part_in(&w->v, attr);
    made->base = w->base;
    if (gd_self()->grad_enabled && w->flags & GD_REQUIRES_GRAD) remember(made, GD_NODE_REGION, w, NULL, attr);
    return made->self;
}

/* in: the tensor before (or absent), the value */
RULE(overwrite) {
    const gd_attr *attr = &v->node->attr;
    if (attr->i[WHOLE]) {
        GIVE(0, gd_zeros_like(A));
        GIVE(1, G);
        return GD_OK;
    }
    GIVE(1, region(G, attr));
    if (gd_vjp_needs(v, 0)) GD_TRY(gd_vjp_give(v, 0, overwritten(G, gd_scalar(0, 0, gd_view_of(G)->dtype), attr)));
    return GD_OK;
}

RULE(region) { GIVE(0, overwritten(gd_zeros_like(A), G, &v->node->attr)); return GD_OK; }
