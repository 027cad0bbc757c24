/* gradient.c - where gradients go in a backward: vjp rules give them to inputs, where they add up; complete
 * ones reach .grad, the slab or an optimizer. */
#include "backward.h"
#include "param.h"
#include "shape.h"

/* ---- Lists, in the arena ------------------------------------------------------------------------------------ */

/* Twice the room for a list of `count` items; NULL with an error set. */
static void *grow(gd_backward_run *run, const void *items, int64_t count, int64_t *room, size_t item_bytes) {
    int64_t more = *room ? 2 * *room : 64;
    void *bigger = gd_scratch(run->arena, more * (int64_t)item_bytes);
    if (!bigger) return NULL;
    if (count) memcpy(bigger, items, (size_t)count * item_bytes);
    *room = more;
    return bigger;
}

gd_status gd_backward_push(gd_backward_run *run, gd_node *n) {
    node_list *s = &run->stack;
    if (s->count == s->room) {
        gd_node **bigger = grow(run, s->item, s->count, &s->room, sizeof *bigger);
        if (!bigger) return gd_last_status();
        s->item = bigger;
    }
    s->item[s->count++] = n;
    return GD_OK;
}

/* Before .grad or a lasting flag of a node changes. */
gd_status gd_backward_note(gd_backward_run *run, gd_node *n) {
    if (run->changes.count == run->changes.room) {
        change *bigger = grow(run, run->changes.item, run->changes.count, &run->changes.room, sizeof *bigger);
        if (!bigger) return gd_last_status();
        run->changes.item = bigger;
    }
    run->changes.item[run->changes.count++] = (change){n, n->grad, n->work & GD_LASTING};
    return GD_OK;
}

gd_status gd_backward_keep(gd_backward_run *run, gd_node *n) {
    for (int k = 0; k < n->nout; k++) {
        if (run->kept.count == run->kept.room) {
            kept_work *bigger = grow(run, run->kept.item, run->kept.count, &run->kept.room, sizeof *bigger);
            if (!bigger) return gd_last_status();
            run->kept.item = bigger;
        }
        run->kept.item[run->kept.count++] = (kept_work){&n[k], n[k].acc, n[k].stamp, n[k].pending, n[k].capture, n[k].work};
    }
    return GD_OK;
}

void gd_backward_put_back(gd_backward_run *run) {
    while (run->changes.count) {
        change *c = &run->changes.item[--run->changes.count];
        c->node->grad = c->grad;
        c->node->work = (uint16_t)((c->node->work & ~GD_LASTING) | c->work);
    }
}

/* ---- Gradients on their way ------------------------------------------------------------------------------- */

bool gd_vjp_needs(const gd_vjp *v, int k) {
    gd_node *n = v->node;
    gd_node *in = (uint32_t)k < n->nin ? gd_tracked_input(n, (uint32_t)k) : NULL;
    return in && (v->run->to_leaves || gd_primary(in)->work & GD_USEFUL);
}

static gd_tensor add_new(gd_tensor a, gd_tensor b) { return GD_RECORD(add, NULL, a, b); }

static void add_in_place(gd_view *to, const gd_view *from) {
    const gd_view *in[] = {to, from};
    gd_view *out[] = {to};
    gd_run(GD_OP_add, in, 2, out, 1, NULL);
}

void gd_backward_set(gd_backward_run *run, gd_node *n, gd_tensor g) {
    if (g) gd_recycler_hold(g);
    if (n->acc) gd_recycler_drop(run->recycler, n->acc);
    n->acc = g;
}

/* A tensor that nobody else refers to may later be added to in place. */
static bool is_fresh(const gd_vjp *v, const gd_node *g) {
    if (g->base != g->self || g->work & GD_GIVEN || g->flags & GD_EXTERNAL) return false;
    for (int k = 0; k < v->node->nout && k < GD_MAX_OUT; k++)
        if (v->g[k] == g->self) return false;
    return true;
}

/* ---- Gradients in pieces: those of neighbouring slices are copied side by side, and what none of them covers becomes 0 --- */

/* A tensor like n, contents undefined, whose memory is recycled like that of an op's result. */
static gd_tensor unwritten(const gd_backward_run *run, const gd_node *n) {
    gd_view like = gd_view_like(&n->v);
    const int64_t bytes = gd_numel(&like) * gd_dtype_bytes(like.dtype);
    gd_recycler *recycler = gd_self()->recycler;
    const bool passing = recycler && recycler->arena == run->arena && bytes >= recycler->least;
    int64_t room = 0;
    gd_arena_lock(run->arena);
    const gd_place place = gd_arena_at(run->arena);
    like.data = passing ? gd_recycler_take(recycler, like.device, bytes, &room) : NULL;
    if (!like.data) {
        like.data = gd_arena_bytes_on(run->arena, like.device, bytes);
        room = passing ? (bytes + GD_ALIGN - 1) & -(int64_t)GD_ALIGN : 0;
    }
    gd_node *node = like.data ? gd_arena_node(run->arena) : NULL;
    if (node) node->v = like;
    else gd_arena_undo(run->arena, &place);
    gd_arena_unlock(run->arena);
    if (!node) return 0;
    if (room) gd_recycler_made(recycler, node, room);
    return node->self;
}

/* [from, to) along dim of a contiguous gradient becomes 0. */
static void clear_part(const gd_view *whole, int dim, int64_t from, int64_t to) {
    int64_t outer = 1, inner = gd_dtype_bytes(whole->dtype);
    if (whole->device) {
        gd_view part = *whole, *out[] = {&part};
        part.shape[dim] = to - from;
        part.data = (char *)part.data + from * part.strides[dim] * inner;
        if (to > from && gd_numel(&part)) gd_run(GD_OP_fill, NULL, 0, out, 1, &(gd_attr){.i = {[5] = part.dtype}});
        return;
    }
    for (int d = 0; d < dim; d++) outer *= whole->shape[d];
    for (int d = dim + 1; d < GD_DIMS; d++) inner *= whole->shape[d];
    for (int64_t i = 0; i < outer && to > from && inner; i++)
        memset((char *)whole->data + (i * whole->shape[dim] + from) * inner, 0, (size_t)((to - from) * inner));
}

gd_tensor gd_vjp_like(gd_vjp *v, const gd_node *n) { return unwritten(v->run, n); }

/* [from, to) along dim of a contiguous tensor. */
static gd_view part_of(const gd_view *whole, int dim, int64_t from, int64_t to) {
    gd_view part = *whole;
    part.data = (char *)part.data + from * part.strides[dim] * gd_dtype_bytes(part.dtype);
    part.shape[dim] = to - from;
    return part;
}

/* No more neighbours are awaited. */
static gd_status settle(gd_backward_run *run, gd_node *n) {
    if (!n || run->open.node != n) return GD_OK;
    const int dim = run->open.dim;
    const int64_t from = run->open.from, to = run->open.to;
    const gd_view *whole = &gd_node_peek(n->acc)->v;
    run->open.node = NULL;
    if (run->open.shared && (from > 0 || to < whole->shape[dim])) {
        gd_tensor own = unwritten(run, n);
        if (!own) return gd_last_status();
        const gd_view written = part_of(whole, dim, from, to);
        whole = &gd_node_peek(own)->v;
        gd_view part = part_of(whole, dim, from, to);
        gd_copy_view(&part, &written);
        gd_backward_set(run, n, own);
        n->work |= GD_OWNED;
        gd_node_peek(own)->work |= GD_GIVEN;
    }
    clear_part(whole, dim, 0, from);
    clear_part(whole, dim, to, whole->shape[dim]);
    return GD_OK;
}

/* The one dimension along which a slice is shorter than its source, if it is a part of neighbouring elements; else -1. */
static int cut_dim(const gd_view *whole, const gd_view *part, const int64_t *step) {
    int dim = -1;
    for (int d = 0; d < GD_DIMS; d++) {
        if (part->shape[d] == whole->shape[d] && (step[d] == 1 || part->shape[d] <= 1)) continue;
        if (dim >= 0 || (step[d] != 1 && part->shape[d] != 1)) return -1;
        dim = d;
    }
    return gd_numel(part) ? dim : -1;
}

/* Whether g already lies where it belongs in a gradient of `in`. */
static bool lies_in(const gd_view *g, const gd_view *whole, int dim, int64_t from) {
    const gd_view place = part_of(whole, dim, from, from + g->shape[dim]);
    bool same = g->data == place.data && g->dtype == place.dtype;
    for (int d = 0; d < GD_DIMS; d++) same &= g->shape[d] <= 1 || g->strides[d] == place.strides[d];
    return same;
}

/* The tensor like `in` that g was made in the right part of, if the run alone knows it; else NULL. See gd_vjp_like. */
static gd_node *made_in(const gd_node *in, gd_node *g, int dim, int64_t from) {
    gd_node *whole = gd_storage(g);
    const bool fits = whole && whole != g && whole->work & GD_PASSING && whole->v.rank == in->v.rank && gd_same_shape(&whole->v, &in->v) &&
                      whole->v.dtype == in->v.dtype && gd_is_contiguous(&whole->v);
    return fits && lies_in(&g->v, &whole->v, dim, from) ? whole : NULL;
}

/* Copies a slice into a gradient where none of it is written yet, unless it is there; *done: whether that could be. */
static gd_status place_slice(gd_backward_run *run, gd_node *in, gd_node *gn, const int64_t *start, const int64_t *step, bool *done) {
    const gd_view *g = &gn->v;
    const int dim = run->create_graph ? -1 : cut_dim(&in->v, g, step);
    *done = false;
    if (dim < 0) return GD_OK;
    const int64_t from = start[dim], to = from + g->shape[dim];
    if (!in->acc) {
        GD_TRY(settle(run, run->open.node));
        const gd_node *ready = made_in(in, gn, dim, from);
        gd_tensor whole = ready ? ready->self : unwritten(run, in);
        if (!whole) return gd_last_status();
        gd_backward_set(run, in, whole);
        if (!ready) in->work |= GD_OWNED; /* else what is made of the parts, for grad() say, is to stay */
        gd_node_peek(whole)->work |= GD_GIVEN;
        run->open.node = in, run->open.dim = dim, run->open.from = from, run->open.to = to, run->open.shared = ready != NULL;
    } else if (run->open.node != in || run->open.dim != dim || (from != run->open.to && to != run->open.from)) {
        return GD_OK;
    } else if (run->open.shared && !lies_in(g, &gd_node_peek(in->acc)->v, dim, from)) {
        return GD_OK; /* what should be here is still to be read */
    } else if (from == run->open.to) {
        run->open.to = to;
    } else {
        run->open.from = from;
    }
    *done = true;
    gd_view part = part_of(&gd_node_peek(in->acc)->v, dim, from, to);
    if (!run->open.shared) gd_copy_view(&part, g);
    return GD_OK;
}

gd_status gd_vjp_give(gd_vjp *v, int k, gd_tensor g) {
    gd_node *gn = gd_node_of(g, gd_ops[v->node->op].name);
    if (!gn) return gd_last_status();
    gd_node *in = gd_node_peek(v->node->in[k]);
    GD_TRY(settle(v->run, in));
    if (memcmp(gn->v.shape, in->v.shape, sizeof gn->v.shape) != 0 || gn->v.dtype != in->v.dtype)
        return gd_fail(GD_ERR, "backward: internal fault: `%s` gave input %d a gradient of shape %s %s instead of %s %s", gd_ops[v->node->op].name, k,
                       gd_text_view(&gn->v), gd_dtype_name(gn->v.dtype), gd_text_view(&in->v), gd_dtype_name(in->v.dtype));
    if (__builtin_expect(atomic_load_explicit(&gd_anomaly, memory_order_relaxed) & GD_ANOMALY_NAN, 0) && gd_has_nan(&gn->v))
        return gd_fail(GD_ERR, "backward: `%s` gave a gradient with NaN to its input %d", gd_op_name(v->node->op), k);
    if (!in->acc) {
        gd_backward_set(v->run, in, g);
        if (is_fresh(v, gn)) in->work |= GD_OWNED;
        gn->work |= GD_GIVEN;
    } else if (in->work & GD_OWNED && !v->create_graph) {
        add_in_place(&gd_node_peek(in->acc)->v, &gn->v);
    } else {
        gd_tensor sum = add_new(in->acc, g);
        if (!sum) return gd_last_status();
        gd_backward_set(v->run, in, sum);
        in->work |= GD_OWNED;
        gd_node_peek(sum)->work |= GD_GIVEN;
    }
    return GD_OK;
}

gd_status gd_vjp_give_slice(gd_vjp *v, gd_tensor g, const int64_t *start, const int64_t *step) {
    gd_node *gn = gd_node_of(g, "slice"), *in = gd_node_peek(v->node->in[0]);
    if (!gn) return gd_last_status();
    if (__builtin_expect(atomic_load_explicit(&gd_anomaly, memory_order_relaxed) & GD_ANOMALY_NAN, 0) && gd_has_nan(&gn->v))
        return gd_fail(GD_ERR, "backward: `slice` gave a gradient with NaN to its input");
    bool done;
    GD_TRY(place_slice(v->run, in, gn, start, step, &done));
    if (done) return GD_OK;
    GD_TRY(settle(v->run, in));
    if (!in->acc || !(in->work & GD_OWNED)) {
        gd_tensor whole = in->acc ? GD_RECORD(copy, NULL, in->acc) : gd_full(in->v.rank, gd_logical_shape(&in->v), in->v.dtype, 0, 0);
        if (!whole) return gd_last_status();
        gd_backward_set(v->run, in, whole);
        in->work |= GD_OWNED;
        gd_node_peek(whole)->work |= GD_GIVEN;
    }
    gd_view part = gd_node_peek(in->acc)->v;
    int64_t offset = 0;
    for (int d = 0; d < GD_DIMS; d++) {
        offset += start[d] * part.strides[d];
        part.strides[d] *= step[d];
        part.shape[d] = gn->v.shape[d];
    }
    if (gd_numel(&part) == 0) return GD_OK;
    part.data = (char *)part.data + offset * gd_dtype_bytes(part.dtype);
    add_in_place(&part, &gn->v);
    return GD_OK;
}

/* The buffer of a parameter's gradient. */
static gd_view grad_buffer(const gd_node *n) {
    gd_view buffer = n->v; /* contiguous, as all parameters are */
    buffer.data = n->param->ptr[1];
    return buffer;
}

void *gd_vjp_dest(gd_vjp *v, int k, gd_tensor a, gd_tensor b, bool *accumulate) {
    gd_node *in = gd_node_peek(v->node->in[k]), *na = gd_node_peek(a), *nb = gd_node_peek(b);
    const gd_backward_run *run = v->run;
    bool had = (in->work & GD_GRAD_SET) != 0;
    if (!in->param || in->pending != 1 || in->acc || in->capture || in->flags & GD_HOOKED || run->create_graph || !run->to_leaves || run->optimizer) return NULL;
    if (had && (!accumulate || in->grad)) return NULL;
    gd_view buffer = grad_buffer(in); /* which the op may not read meanwhile */
    if ((na && gd_views_overlap(&buffer, &na->v)) || (nb && gd_views_overlap(&buffer, &nb->v))) return NULL;
    if (accumulate) *accumulate = had;
    in->work |= GD_WRITTEN;
    return buffer.data;
}

/* ---- Gradients that have arrived --------------------------------------------------------------------------- */

/* Adds g to a gradient that is there. They may share memory, as in x.T.backward(x.grad). */
static gd_status add_arrived(gd_backward_run *run, gd_view *to, const gd_view *g) {
    bool same = g->data == to->data && memcmp(g->strides, to->strides, sizeof g->strides) == 0;
    if (same || !gd_views_overlap(to, g)) {
        add_in_place(to, g);
        return GD_OK;
    }
    gd_view like = gd_view_like(g);
    gd_node *copy = gd_node_new(run->arena, &like);
    if (!copy) return gd_last_status();
    gd_copy_view(&copy->v, g);
    add_in_place(to, &copy->v);
    return GD_OK;
}

/* A tensor of n's shape in n's own arena, holding g. */
static gd_status own_grad(gd_backward_run *run, gd_node *n, const gd_node *g) {
    gd_arena *home = gd_arena_by_handle(n->self);
    gd_view like = gd_view_like(&n->v);
    GD_TRY(gd_backward_note(run, n));
    if (home != run->arena && !run->home) {
        run->home = home;
        run->home_place = gd_arena_place(home);
    }
    gd_node *grad = gd_node_new(home, &like);
    if (!grad) return gd_last_status();
    gd_copy_view(&grad->v, &g->v);
    n->grad = grad->self;
    n->work |= GD_GRAD_SET;
    if (home == run->arena) run->kept_memory = true;
    return GD_OK;
}

static gd_status param_arrived(gd_backward_run *run, gd_node *n, gd_node *g) {
    gd_param *p = n->param;
    gd_view buffer = grad_buffer(n);
    bool had = (n->work & GD_GRAD_SET) != 0, apply = run->optimizer && !(gd_storage(n)->work & GD_LATER) && gd_optimizer_has(run->optimizer, n->self);
    if (apply && !had) {
        const void *data = g->v.data;
        if (!gd_is_contiguous(&g->v)) {
            gd_copy_view(&buffer, &g->v);
            data = buffer.data;
        }
        GD_TRY(gd_optimizer_apply(run->optimizer, n, data));
        run->updated++;
        return GD_OK;
    }
    if (!apply) GD_TRY(gd_backward_note(run, n));
    gd_grad_settle(n);
    n->grad = 0; /* from here on it is the slab's */
    if (!(n->work & GD_WRITTEN)) {
        if (had) GD_TRY(add_arrived(run, &buffer, &g->v));
        else gd_copy_view(&buffer, &g->v);
    }
    n->work |= GD_GRAD_SET;
    p->used |= 2;
    if (p->state[1]) gd_node_peek(p->state[1])->version++;
    if (!apply) return GD_OK;
    GD_TRY(gd_optimizer_apply(run->optimizer, n, p->ptr[1]));
    gd_grad_clear(n);
    run->updated++;
    return GD_OK;
}

/* What .grad holds, as a tensor that later sums do not write to; 0 with an error set. */
static gd_tensor grad_so_far(const gd_backward_run *run, gd_node *n) {
    if (n->grad && (!n->param || gd_node_peek(n->grad))) return n->grad;
    gd_view buffer = grad_buffer(n);
    gd_node *copy = gd_node_new(run->arena, &buffer);
    if (!copy) return 0;
    gd_copy_view(&copy->v, &buffer);
    return copy->self;
}

static gd_status leaf_arrived(gd_backward_run *run, gd_node *n) {
    gd_node *g = gd_node_peek(n->acc);
    if (run->create_graph) { /* .grad itself has a graph then */
        gd_tensor sum = n->work & GD_GRAD_SET ? add_new(grad_so_far(run, n), n->acc) : GD_RECORD(copy, NULL, n->acc);
        if (!sum) return gd_last_status();
        GD_TRY(gd_backward_note(run, n));
        if (n->param) GD_TRY(param_arrived(run, n, g));
        n->grad = sum;
        n->work |= GD_GRAD_SET;
        return GD_OK;
    }
    if (n->param) return param_arrived(run, n, g);
    if (!(n->work & GD_GRAD_SET)) return own_grad(run, n, g);
    gd_node *old = gd_node_of(n->grad, "backward");
    if (!old) return gd_last_status();
    GD_TRY(add_arrived(run, &old->v, &g->v));
    old->version++;
    return GD_OK;
}

/* The caller's hooks see the gradient, and may put another one in its place. */
static gd_status show(gd_backward_run *run, gd_node *n) {
    gd_tensor other = 0;
    GD_TRY(gd_call_back(run, GD_CALL_HOOK, 0, n->self, &n->acc, 1, &other, 1, true));
    if (!other) return GD_OK;
    gd_node *g = gd_node_of(other, "hook");
    if (!g) return gd_last_status();
    if (memcmp(g->v.shape, n->v.shape, sizeof g->v.shape) != 0 || g->v.rank != n->v.rank || g->v.dtype != n->v.dtype)
        return gd_fail(GD_ERR, "hook: it returned a gradient of shape %s %s, which must be %s %s", gd_text_view(&g->v), gd_dtype_name(g->v.dtype),
                       gd_text_view(&n->v), gd_dtype_name(n->v.dtype));
    gd_backward_set(run, n, other);
    n->work &= (uint16_t)~GD_OWNED;
    g->work |= GD_GIVEN;
    return GD_OK;
}

gd_status gd_backward_arrived(gd_backward_run *run, gd_node *n) {
    GD_TRY(settle(run, n));
    const bool end = run->stop && n->capture;
    if (n->flags & GD_HOOKED && !end) GD_TRY(show(run, n));
    if (n->capture && run->captured) {
        run->captured[n->capture - 1] = n->acc;
        gd_recycler_hold(n->acc); /* until it is handed out */
    }
    if (end || (!run->to_leaves && !(run->into && n->capture))) return GD_OK;
    if (!(n->flags & GD_LEAF)) return n->flags & GD_RETAIN_GRAD || run->into ? leaf_arrived(run, n) : GD_OK;
    GD_TRY(leaf_arrived(run, n));
    return n->flags & GD_LEAF_HOOKED && n->work & GD_GRAD_SET ? gd_call_back(run, GD_CALL_LEAF, 0, n->self, NULL, 0, NULL, 0, true) : GD_OK;
}
