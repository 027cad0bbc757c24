/* param.c - parameters: tensors in the slabs, with gradient and moments beside them; their end, which waits for
 * views and graphs; and .grad of any tensor. */
#include "kept.h"
#include "param.h"

/* Both guarded by the slabs' lock. */
static gd_param *spare; /* records of freed parameters, with their nodes */
static _Atomic(gd_param *) abandoned; /* parameters that only a graph may still need */

/* ---- Parameters ------------------------------------------------------------------------------------------------- */

static int64_t rounded_bytes(const gd_view *v) {
    int64_t bytes = (gd_numel(v) * gd_dtype_bytes(v->dtype) + GD_ALIGN - 1) & -(int64_t)GD_ALIGN;
    return bytes ? bytes : GD_ALIGN;
}

/* A record and its node in the permanent arena; those of a freed parameter where there is one. Lock held. */
static gd_param *new_record(gd_node **node) {
    if (spare) {
        gd_param *p = spare;
        spare = p->next;
        *node = gd_node_peek(p->state[0]);
        gd_node_clear(*node);
        return p;
    }
    gd_arena *a = gd_arena_permanent();
    gd_arena_lock(a);
    gd_place place = gd_arena_at(a);
    gd_param *p = gd_arena_bytes(a, (int64_t)sizeof *p);
    *node = p ? gd_arena_node(a) : NULL;
    if (!*node) gd_arena_undo(a, &place);
    gd_arena_unlock(a);
    if (!*node) return NULL;
    memset(p, 0, sizeof *p);
    p->state[0] = (*node)->self;
    return p;
}

/* The parameter's handles are stale: its place and its record may be used again. Lock held. */
static void recycle(gd_param *p) {
    for (int r = 0; r < GD_REGIONS; r++)
        if (r < 2 || p->used >> r & 1) gd_zero_pages(p->device, p->ptr[r], p->bytes);
    gd_slab_give_back(p->device, p->dtype, p->ptr[0], p->bytes);
    if (p->max_exp_avg_sq) {
        gd_zero_pages(p->device, p->max_exp_avg_sq, p->bytes);
        gd_slab_give_back(p->device, p->dtype, p->max_exp_avg_sq, p->bytes);
    }
    gd_param kept = {.next = spare};
    memcpy(kept.state, p->state, sizeof kept.state);
    *p = kept;
    spare = p;
}

/* What the tensors over a parameter's regions look like. */
static void describe(gd_param *p, const gd_view *like) {
    for (int r = 0; r < GD_STATES; r++) {
        gd_node *n = p->state[r] ? gd_node_peek(p->state[r]) : NULL;
        if (!n) continue;
        n->v = *like;
        n->v.data = r < GD_REGIONS ? p->ptr[r] : p->max_exp_avg_sq;
    }
}

/* Its handle and those of its gradient and moments become stale; its place in the slab is used again, once no
 * export holds it. */
static void free_parameter(gd_node *n) {
    gd_param *p = n->param;
    for (int r = 0; r < GD_STATES; r++) {
        gd_node *s = p->state[r] ? gd_node_peek(p->state[r]) : NULL;
        if (!s) continue;
        gd_node_retag(s);
        p->state[r] = s->self;
    }
    n->flags = GD_LEAF;
    n->param = NULL;
    gd_slab_lock();
    p->freed = true;
    if (p->holds == 0) recycle(p);
    gd_slab_unlock();
}

static gd_node *parameter_of(gd_tensor h) {
    gd_node *n = gd_node_of(h, "Parameter");
    if (!n) return NULL;
    if (n->flags & GD_PARAMETER && !n->param->abandoned) return n;
    gd_fail(GD_ERR_VALUE, n->flags & GD_PARAMETER ? "Parameter: this one was abandoned already" : "Parameter: this tensor is not one");
    return NULL;
}

gd_status gd_parameter_free(gd_tensor parameter) {
    gd_node *n = parameter_of(parameter);
    if (!n) return gd_last_status();
    free_parameter(n);
    return GD_OK;
}

/* Frees abandoned parameters whose graphs are gone or have had their backward. */
static void free_abandoned(void) {
    if (!atomic_load_explicit(&abandoned, memory_order_relaxed) || !gd_backward_try_lock()) return;
    gd_slab_lock();
    gd_param *p = atomic_exchange(&abandoned, NULL);
    gd_slab_unlock();
    for (gd_param *next; p; p = next) {
        next = p->next;
        if (gd_user_waits(p->first_user) || gd_user_waits(p->last_user)) { /* back to the list */
            gd_slab_lock();
            p->next = abandoned;
            abandoned = p;
            gd_slab_unlock();
        } else {
            free_parameter(gd_node_peek(p->state[0]));
        }
    }
    gd_backward_unlock();
}

/* Finalisers call this, at any moment: an error that waits to be raised must stay as it is. */
void gd_parameter_abandon(gd_tensor parameter) {
    gd_node *n = gd_node_peek(parameter);
    if (n && n->flags & GD_KEPT) {
        gd_kept_give_up(parameter);
        return;
    }
    if (!n || !(n->flags & GD_PARAMETER) || n->param->abandoned) return;
    gd_param *p = n->param;
    if (!gd_lives(p->first_user) && !gd_lives(p->last_user)) {
        free_parameter(n);
        return;
    }
    gd_slab_lock();
    p->abandoned = true;
    p->next = abandoned;
    abandoned = p;
    gd_slab_unlock();
    free_abandoned();
}

void gd_param_hold(gd_param *p) {
    gd_slab_lock();
    p->holds++;
    gd_slab_unlock();
}

void gd_param_drop(gd_param *p) {
    gd_slab_lock();
    if (--p->holds == 0 && p->freed) recycle(p);
    gd_slab_unlock();
}

static gd_tensor new_parameter(gd_tensor value, int device, bool requires_grad) {
    gd_node *src = gd_node_of(value, "Parameter");
    gd_arena *a = gd_arena_permanent();
    if (!src || !a) return 0;
    if (!gd_is_float(src->v.dtype)) {
        gd_fail(GD_ERR_DTYPE, "Parameter: %s values cannot be trained: use a floating point dtype", gd_dtype_name(src->v.dtype));
        return 0;
    }
    gd_view v = gd_view_like(&src->v);
    v.device = (uint8_t)device;
    if (gd_device_need(device, "Parameter") < 0) return 0;
    free_abandoned();
    int64_t bytes = rounded_bytes(&v);
    void *ptr[GD_REGIONS];
    gd_param *p = NULL;
    gd_node *n = NULL;
    gd_slab_lock();
    if (gd_slab_take(device, v.dtype, bytes, ptr) >= 0 && !(p = new_record(&n))) gd_slab_give_back(device, v.dtype, ptr[0], bytes);
    gd_slab_unlock();
    if (!p) return 0;
    p->bytes = bytes;
    p->dtype = v.dtype;
    p->device = v.device;
    p->in_slab = true;
    p->used = 1;
    memcpy(p->ptr, ptr, sizeof ptr);
    describe(p, &v);
    n->param = p;
    n->flags |= GD_PARAMETER;
    if (requires_grad) n->flags |= GD_REQUIRES_GRAD;
    gd_copy_view(&n->v, &src->v);
    return n->self;
}

gd_tensor gd_parameter(gd_tensor value, int requires_grad) {
    const int device = gd_device_of(value);
    return device < 0 ? 0 : new_parameter(value, device, requires_grad != 0);
}

gd_tensor gd_parameter_to(gd_tensor parameter, int device) {
    gd_node *n = gd_node_of(parameter, "Parameter"), *made = n ? gd_node_peek(new_parameter(parameter, device, n->flags & GD_REQUIRES_GRAD)) : NULL;
    if (!made) return 0;
    if (n->work & GD_GRAD_SET) {
        gd_tensor grad = gd_get_grad(parameter);
        if (!grad || gd_set_grad(made->self, grad) < 0) return 0;
    }
    return made->self;
}

gd_status gd_param_amsgrad(gd_param *p) {
    if (p->max_exp_avg_sq) return GD_OK;
    void *ptr[GD_REGIONS]; /* a place of its own, of which the first region is used */
    gd_slab_lock();
    gd_status status = gd_slab_take(p->device, p->dtype, p->bytes, ptr);
    gd_slab_unlock();
    GD_TRY(status);
    p->max_exp_avg_sq = ptr[0];
    gd_node *s = p->state[GD_MAX_SQUARE] ? gd_node_peek(p->state[GD_MAX_SQUARE]) : NULL;
    if (s) s->v.data = ptr[0];
    return GD_OK;
}

gd_status gd_param_adopt(gd_node *n) {
    if (n->param) return GD_OK;
    gd_arena *a = gd_arena_permanent(), *home = gd_arena_by_handle(n->base);
    if (!(n->flags & GD_LEAF) || !(n->flags & GD_REQUIRES_GRAD))
        return gd_fail(GD_ERR_VALUE, "optimizer: a tensor of shape %s cannot be optimized: it must be a leaf that requires grad", gd_text_view(&n->v));
    if (home->is_step) return gd_fail(GD_ERR_ARENA, "optimizer: a tensor of shape %s lives in a step arena and would die with it: make it outside", gd_text_view(&n->v));
    if (!gd_is_contiguous(&n->v)) return gd_fail(GD_ERR_VALUE, "optimizer: a strided view of shape %s cannot be optimized: use .contiguous()", gd_text_view(&n->v));
    int64_t bytes = rounded_bytes(&n->v), record = ((int64_t)sizeof(gd_param) + GD_ALIGN - 1) & -(int64_t)GD_ALIGN;
    const int device = n->v.device;
    gd_arena_lock(a);
    char *memory = gd_arena_bytes(a, record + (device ? 0 : (GD_REGIONS - 1) * bytes));
    char *states = device && memory ? gd_arena_bytes_on(a, device, (GD_REGIONS - 1) * bytes) : memory + record;
    gd_arena_unlock(a);
    if (!memory || !states) return gd_last_status();
    memset(memory, 0, (size_t)(record + (device ? 0 : (GD_REGIONS - 1) * bytes)));
    if (device) gd_device_fill(device, states, 0, (GD_REGIONS - 1) * bytes);
    gd_param *p = (gd_param *)(void *)memory;
    p->device = n->v.device;
    p->bytes = bytes;
    p->dtype = n->v.dtype;
    p->used = 1;
    p->ptr[0] = n->v.data;
    p->state[0] = n->self;
    for (int r = 1; r < GD_REGIONS; r++) p->ptr[r] = states + (r - 1) * bytes;
    gd_tensor grad = n->work & GD_GRAD_SET ? n->grad : 0;
    n->param = p;
    n->grad = 0;
    n->work &= (uint16_t)~GD_GRAD_SET;
    return grad ? gd_set_grad(n->self, grad) : GD_OK;
}

gd_tensor gd_param_state_tensor(gd_node *n, int which) {
    gd_param *p = n->param;
    if (p->state[which]) return p->state[which];
    gd_arena *a = gd_arena_permanent();
    gd_arena_lock(a);
    gd_node *s = gd_arena_node(a);
    gd_arena_unlock(a);
    if (!s) return 0;
    if (gd_view_init(&s->v, n->v.rank, gd_logical_shape(&n->v), n->v.dtype, "Parameter") < 0) return 0;
    s->v.data = which < GD_REGIONS ? p->ptr[which] : p->max_exp_avg_sq;
    s->v.device = p->device;
    s->flags |= GD_GRAD_BUFFER;
    return p->state[which] = s->self;
}

gd_tensor gd_parameter_state(gd_tensor parameter, int which) {
    gd_node *n = gd_node_of(parameter, "Parameter");
    if (!n) return 0;
    if (which < 0 || which >= GD_STATES || !n->param) {
        gd_fail(GD_ERR_VALUE, "Parameter: no state number %d, or not a parameter", which);
        return 0;
    }
    if (which == 1) return gd_get_grad(parameter);
    return n->param->used >> which & 1 ? gd_param_state_tensor(n, which) : 0;
}

/* ---- .grad -------------------------------------------------------------------------------------------------------- */

void gd_grad_clear(gd_node *n) {
    if (n->work & GD_GRAD_SEEN && n->param && n->param->state[1]) { /* whoever still holds it is told, not shown the next gradient */
        gd_node *g = gd_node_peek(n->param->state[1]);
        gd_node_retag(g);
        n->param->state[1] = g->self;
    }
    n->work &= (uint16_t)~(GD_GRAD_SET | GD_GRAD_SEEN);
    n->grad = 0;
}

void gd_grad_settle(gd_node *n) {
    gd_node *g = n->grad ? gd_node_peek(n->grad) : NULL;
    if (!g || !gd_storage_version(g)) return; /* nothing was written since backward made it */
    gd_view buffer = n->v;
    buffer.data = n->param->ptr[1];
    gd_copy_view(&buffer, &g->v);
}

gd_tensor gd_get_grad(gd_tensor t) {
    gd_node *n = gd_node_of(t, "grad");
    if (!n || !(n->work & GD_GRAD_SET)) return 0;
    if (n->grad && (!n->param || gd_node_peek(n->grad))) { /* a parameter's may have a graph, while that lives */
        if (!gd_node_of(n->grad, "grad")) return 0;
        return n->grad;
    }
    if (!n->param) return 0;
    n->work |= GD_GRAD_SEEN;
    return gd_param_state_tensor(n, 1);
}

gd_status gd_set_grad(gd_tensor t, gd_tensor grad) {
    gd_node *n = gd_node_of(t, "grad");
    if (!n) return gd_last_status();
    GD_TRY(gd_optional(&grad, "grad"));
    if (!grad) {
        gd_grad_clear(n);
        return GD_OK;
    }
    gd_node *g = gd_node_of(grad, "grad");
    if (!g) return gd_last_status();
    if (memcmp(g->v.shape, n->v.shape, sizeof n->v.shape) != 0 || g->v.rank != n->v.rank || g->v.dtype != n->v.dtype)
        return gd_fail(GD_ERR_SHAPE, "grad: a gradient of shape %s %s cannot be assigned to a tensor of shape %s %s", gd_text_view(&g->v), gd_dtype_name(g->v.dtype),
                       gd_text_view(&n->v), gd_dtype_name(n->v.dtype));
    if (g->v.device != n->v.device)
        return gd_fail(GD_ERR_DEVICE, "grad: a gradient on %s cannot be assigned to a tensor on %s", gd_text_device(g->v.device), gd_text_device(n->v.device));
    gd_view to = gd_view_like(&n->v);
    if (n->param) {
        to.data = n->param->ptr[1];
        bool own = g->self == n->param->state[1];
        if (own && n->work & GD_GRAD_SET && !n->grad) return GD_OK; /* p.grad = p.grad */
        if (gd_views_overlap(&to, &g->v)) GD_TRY(gd_copy_overlapping(&to, &g->v));
        else gd_copy_view(&to, &g->v);
        gd_grad_clear(n); /* the old one, if somebody holds it */
        n->param->used |= 2;
        if (n->param->state[1]) gd_node_peek(n->param->state[1])->version++;
    } else {
        gd_node *own = gd_node_new(gd_arena_by_handle(n->self), &to);
        if (!own) return gd_last_status();
        gd_copy_view(&own->v, &g->v);
        n->grad = own->self;
    }
    n->work |= GD_GRAD_SET;
    return GD_OK;
}

gd_status gd_retain_grad(gd_tensor t) {
    gd_node *n = gd_node_of(t, "retain_grad");
    if (!n) return gd_last_status();
    if (!(n->flags & GD_REQUIRES_GRAD)) return gd_fail(GD_ERR, "retain_grad: the tensor does not require grad");
    if (!(n->flags & GD_LEAF)) n->flags |= GD_RETAIN_GRAD;
    return GD_OK;
}

gd_status gd_zero_grad(const gd_tensor *parameters, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        gd_node *n = gd_node_of(parameters[i], "zero_grad");
        if (!n) return gd_last_status();
        gd_grad_clear(n);
    }
    return GD_OK;
}
