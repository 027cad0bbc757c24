/* autograd.c - backward: walks the recorded graph from the roots, hands gradients to vjp rules, and
 * gathers what reaches the leaves. No recursion: nodes become ready when all their consumers are done. */
#define _GNU_SOURCE
#include <pthread.h>

#include "engine.h"

typedef struct node_list { /* grows in the arena */
    gd_node **item;
    int64_t count, room;
} node_list;

typedef struct gd_backward_run {
    gd_arena *arena;
    uint32_t stamp;
    bool retain_graph, create_graph;
    bool to_leaves;            /* fill .grad; otherwise only `captured` */
    bool kept_memory;          /* something made here outlives the run in the active arena */
    gd_optimizer *optimizer;
    gd_tensor *captured;       /* by capture - 1 */
    node_list stack, fresh;    /* fresh: leaves whose .grad began in this run */
} gd_backward_run;

/* One backward at a time: leaves, and the working fields of shared nodes, belong to it. */
static pthread_mutex_t backward_mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static uint32_t last_stamp;

static void mutex_after_fork(void) {
    static const pthread_mutex_t fresh = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    backward_mutex = fresh; /* the thread that held it is not in the child */
}
__attribute__((constructor)) static void autograd_load(void) { pthread_atfork(NULL, NULL, mutex_after_fork); }

static gd_status push(gd_backward_run *run, node_list *list, gd_node *n) {
    if (list->count == list->room) {
        int64_t room = list->room ? 2 * list->room : 64;
        gd_arena_lock(run->arena);
        gd_node **bigger = gd_arena_bytes(run->arena, room * (int64_t)sizeof *bigger);
        gd_arena_unlock(run->arena);
        if (!bigger) return gd_last_status();
        if (list->count) memcpy(bigger, list->item, (size_t)list->count * sizeof *bigger);
        list->item = bigger;
        list->room = room;
    }
    list->item[list->count++] = n;
    return GD_OK;
}

static gd_node *primary(gd_node *n) { return n - n->out_index; }

/* ---- First pass: what is reachable, how often each node is used, and whether all of it is still good --- */

static void visit(gd_node *n, const gd_backward_run *run) {
    for (int k = 0; k < n->nout; k++) {
        n[k].stamp = run->stamp;
        n[k].pending = 0;
        n[k].acc = 0;
        n[k].flags &= (uint16_t)~(GD_OWNED | GD_USEFUL);
    }
}

static gd_status check_saved(const gd_node *n, const gd_op_row *row) {
    for (uint32_t k = 0; k < n->nin; k++) {
        if (!n->in[k] || !(row->saves & (k < 16 ? 1u << k : 0))) continue;
        gd_node *in = gd_node_of(n->in[k], row->name);
        if (!in) return gd_last_status();
        if (gd_storage_version(in) != n->in_version[k])
            return gd_fail(GD_ERR, "backward: input %u of `%s`, of shape %s, was changed in place after it was used (version %u, now %u), so its gradient cannot "
                                   "be computed. Change a .clone(), or run optimizer.step() after backward()",
                           k, row->name, gd_text_view(&in->v), n->in_version[k], gd_storage_version(in));
    }
    if (row->saves & GD_SAVES_OUT && !(row->flags & GD_OP_VIEW) && n->version != n->own_version)
        return gd_fail(GD_ERR, "backward: the result of `%s`, of shape %s, was changed in place after it was computed, so its gradient cannot be computed. "
                               "Change a .clone() instead", row->name, gd_text_view(&n->v));
    return GD_OK;
}

static gd_status discover(gd_backward_run *run, gd_node *root) {
    if (root->stamp == run->stamp) return GD_OK;
    int64_t bottom = run->stack.count;
    visit(root, run);
    GD_TRY(push(run, &run->stack, root));
    while (run->stack.count > bottom) {
        gd_node *n = run->stack.item[run->stack.count - 1];
        if ((uintptr_t)n & 1) { /* all that lies behind it is known */
            n = (gd_node *)((uintptr_t)n - 1);
            run->stack.count--;
            bool useful = false;
            for (int k = 0; k < n->nout; k++) useful |= n[k].capture != 0;
            for (uint32_t k = 0; n->in && k < n->nin && !useful; k++) {
                gd_node *in = n->in[k] ? gd_node_peek(n->in[k]) : NULL;
                useful = in && in->stamp == run->stamp && primary(in)->flags & GD_USEFUL;
            }
            if (useful) n->flags |= GD_USEFUL;
            continue;
        }
        run->stack.item[run->stack.count - 1] = (gd_node *)((uintptr_t)n + 1);
        if (!n->in) continue;
        const gd_op_row *row = &gd_ops[n->op];
        if (n->flags & GD_FREED)
            return gd_fail(GD_ERR, "backward: the graph through `%s` was already used by a backward() and freed; call the first one with retain_graph=True",
                           row->name);
        GD_TRY(check_saved(n, row));
        for (uint32_t k = 0; k < n->nin; k++) {
            if (!n->in[k]) continue;
            gd_node *in = gd_node_of(n->in[k], row->name);
            if (!in) return gd_last_status();
            if (!(in->flags & GD_REQUIRES_GRAD)) {
                if (run->optimizer && in->base != in->self) gd_storage(in)->flags |= GD_LATER;
                continue;
            }
            gd_node *p = primary(in);
            if (p->stamp != run->stamp) {
                visit(p, run);
                GD_TRY(push(run, &run->stack, p));
            }
            p->pending++;
        }
    }
    return GD_OK;
}

/* ---- Gradients on their way ------------------------------------------------------------------------------- */

bool gd_vjp_needs(const gd_vjp *v, int k) {
    gd_node *n = v->node;
    if ((uint32_t)k >= n->nin || !n->in[k]) return false;
    gd_node *in = gd_node_peek(n->in[k]);
    return in && in->flags & GD_REQUIRES_GRAD && (v->run->to_leaves || primary(in)->flags & GD_USEFUL);
}

static gd_tensor add_new(gd_tensor a, gd_tensor b) { return GD_RECORD(add, NULL, a, b); }

static void add_in_place(gd_view *to, const gd_view *from) {
    const gd_view *in[] = {to, from};
    gd_view *out[] = {to};
    gd_run(GD_OP_add, in, 2, out, 1, NULL);
}

/* A tensor that nobody else refers to may later be added to in place. */
static bool is_fresh(const gd_vjp *v, const gd_node *g) {
    if (g->base != g->self || g->flags & (GD_GIVEN | GD_EXTERNAL)) return false;
    for (int k = 0; k < v->node->nout; k++)
        if (v->g[k] == g->self) return false;
    return true;
}

gd_status gd_vjp_give(gd_vjp *v, int k, gd_tensor g) {
    gd_node *gn = gd_node_of(g, gd_ops[v->node->op].name);
    if (!gn) return gd_last_status();
    gd_node *in = gd_node_peek(v->node->in[k]);
    if (memcmp(gn->v.shape, in->v.shape, sizeof gn->v.shape) != 0 || gn->v.dtype != in->v.dtype)
        return gd_fail(GD_ERR, "backward: internal fault: `%s` gave input %d a gradient of shape %s %s instead of %s %s", gd_ops[v->node->op].name, k,
                       gd_text_view(&gn->v), gd_dtype_name(gn->v.dtype), gd_text_view(&in->v), gd_dtype_name(in->v.dtype));
    if (!in->acc) {
        in->acc = g;
        if (is_fresh(v, gn)) in->flags |= GD_OWNED;
        gn->flags |= GD_GIVEN;
    } else if (in->flags & GD_OWNED && !v->create_graph) {
        add_in_place(&gd_node_peek(in->acc)->v, &gn->v);
    } else {
        gd_tensor sum = add_new(in->acc, g);
        if (!sum) return gd_last_status();
        in->acc = sum;
        in->flags |= GD_OWNED;
        gd_node_peek(sum)->flags |= GD_GIVEN;
    }
    return GD_OK;
}

gd_status gd_vjp_give_slice(gd_vjp *v, gd_tensor g, const int64_t *start, const int64_t *step) {
    gd_node *gn = gd_node_of(g, "slice"), *in = gd_node_peek(v->node->in[0]);
    if (!gn) return gd_last_status();
    if (!in->acc || !(in->flags & GD_OWNED)) {
        gd_view like;
        GD_TRY(gd_view_init(&like, in->v.rank, gd_logical_shape(&in->v), in->v.dtype, "slice"));
        gd_node *whole = gd_node_new(v->run->arena, &like);
        if (!whole) return gd_last_status();
        if (in->acc) gd_copy_view(&whole->v, &gd_node_peek(in->acc)->v);
        else memset(whole->v.data, 0, (size_t)(gd_numel(&like) * gd_dtype_bytes(like.dtype)));
        in->acc = whole->self;
        in->flags |= GD_OWNED;
        whole->flags |= GD_GIVEN;
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

void *gd_vjp_dest(const gd_vjp *v, int k, bool *accumulate) {
    gd_node *in = gd_node_peek(v->node->in[k]);
    const gd_backward_run *run = v->run;
    if (!in->param || in->pending != 1 || in->acc || in->capture || run->create_graph || !run->to_leaves || run->optimizer) return NULL;
    *accumulate = (in->flags & GD_GRAD_SET) != 0;
    return in->param->ptr[1];
}

/* ---- Gradients that have arrived --------------------------------------------------------------------------- */

/* A tensor of n's shape in n's own arena, holding g. */
static gd_status own_grad(gd_backward_run *run, gd_node *n, const gd_node *g) {
    gd_arena *home = gd_arena_by_handle(n->self);
    gd_view like;
    GD_TRY(gd_view_init(&like, n->v.rank, gd_logical_shape(&n->v), n->v.dtype, "backward"));
    GD_TRY(push(run, &run->fresh, n));
    gd_node *grad = gd_node_new(home, &like);
    if (!grad) return gd_last_status();
    gd_copy_view(&grad->v, &g->v);
    n->grad = grad->self;
    n->flags |= GD_GRAD_SET;
    if (home == run->arena) run->kept_memory = true;
    return GD_OK;
}

static gd_status param_arrived(gd_backward_run *run, gd_node *n, gd_node *g) {
    gd_param *p = n->param;
    gd_view buffer = n->v;
    GD_TRY(gd_view_init(&buffer, n->v.rank, gd_logical_shape(&n->v), n->v.dtype, "backward"));
    buffer.data = p->ptr[1];
    bool had = (n->flags & GD_GRAD_SET) != 0, apply = run->optimizer && !(n->flags & GD_LATER) && gd_optimizer_has(run->optimizer, n->self);
    if (apply && !had) {
        const void *data = g->v.data;
        if (!gd_is_contiguous(&g->v)) {
            gd_copy_view(&buffer, &g->v);
            data = buffer.data;
        }
        return gd_optimizer_apply(run->optimizer, n, data);
    }
    if (g->v.data != p->ptr[1]) {
        if (had) add_in_place(&buffer, &g->v);
        else gd_copy_view(&buffer, &g->v);
    }
    n->flags |= GD_GRAD_SET;
    p->used |= 2;
    if (p->state[1]) gd_node_peek(p->state[1])->version++;
    if (apply) {
        GD_TRY(gd_optimizer_apply(run->optimizer, n, p->ptr[1]));
        gd_grad_clear(n);
    }
    return GD_OK;
}

/* What .grad holds, as a tensor that later sums do not write to; 0 with an error set. */
static gd_tensor grad_so_far(const gd_backward_run *run, gd_node *n) {
    if (n->grad && (!n->param || gd_node_peek(n->grad))) return n->grad;
    gd_view like = n->v;
    if (gd_view_init(&like, n->v.rank, gd_logical_shape(&n->v), n->v.dtype, "backward") < 0) return 0;
    gd_node *copy = gd_node_new(run->arena, &like);
    if (!copy) return 0;
    like.data = n->param->ptr[1];
    gd_copy_view(&copy->v, &like);
    return copy->self;
}

static gd_status leaf_arrived(gd_backward_run *run, gd_node *n) {
    gd_node *g = gd_node_peek(n->acc);
    if (run->create_graph) { /* .grad itself has a graph then */
        gd_tensor sum = n->flags & GD_GRAD_SET ? add_new(grad_so_far(run, n), n->acc) : GD_RECORD(copy, NULL, n->acc);
        if (!sum) return gd_last_status();
        if (n->param) GD_TRY(param_arrived(run, n, g));
        n->grad = sum;
        n->flags |= GD_GRAD_SET;
        return GD_OK;
    }
    if (n->param) {
        n->grad = 0;
        return param_arrived(run, n, g);
    }
    if (!(n->flags & GD_GRAD_SET)) return own_grad(run, n, g);
    gd_node *old = gd_node_of(n->grad, "backward");
    if (!old) return gd_last_status();
    add_in_place(&old->v, &g->v);
    old->version++;
    return GD_OK;
}

static gd_status arrived(gd_backward_run *run, gd_node *n) {
    if (n->capture && run->captured) run->captured[n->capture - 1] = n->acc;
    if (!run->to_leaves) return GD_OK;
    if (!n->in) return leaf_arrived(run, n);
    return n->flags & GD_RETAIN_GRAD ? leaf_arrived(run, n) : GD_OK;
}

/* ---- Second pass -------------------------------------------------------------------------------------------- */

static gd_status process(gd_backward_run *run, gd_node *n) {
    gd_vjp v = {.node = n, .self = n->self, .create_graph = run->create_graph, .run = run};
    bool any = false;
    for (int k = 0; k < n->nout; k++) {
        v.g[k] = n[k].acc;
        if (!n[k].acc) continue;
        any = true;
        GD_TRY(arrived(run, &n[k]));
    }
    if (n->in) {
        bool wanted = any && (run->to_leaves || n->flags & GD_USEFUL);
        if (wanted) GD_TRY(gd_ops[n->op].vjp(&v));
        if (wanted && !run->retain_graph && gd_ops[n->op].saves) n->flags |= GD_FREED;
        for (uint32_t k = 0; k < n->nin; k++) {
            gd_node *in = n->in[k] ? gd_node_peek(n->in[k]) : NULL;
            if (!in || !(in->flags & GD_REQUIRES_GRAD)) continue;
            gd_node *p = primary(in);
            if (--p->pending == 0) GD_TRY(push(run, &run->stack, p));
        }
    }
    for (int k = 0; k < n->nout; k++) n[k].acc = 0;
    return GD_OK;
}

static gd_status seed(gd_node *root, gd_tensor gradient) {
    if (!gradient) {
        if (gd_numel(&root->v) != 1)
            return gd_fail(GD_ERR_SHAPE, "backward: the tensor has shape %s: without a gradient argument it must have exactly one element", gd_text_view(&root->v));
        gradient = gd_full(root->v.rank, gd_logical_shape(&root->v), root->v.dtype, 1.0, 1);
        if (!gradient) return gd_last_status();
    } else {
        gd_node *g = gd_node_of(gradient, "backward");
        if (!g) return gd_last_status();
        if (g->v.rank != root->v.rank || memcmp(g->v.shape, root->v.shape, sizeof g->v.shape) != 0 || g->v.dtype != root->v.dtype)
            return gd_fail(GD_ERR_SHAPE, "backward: the gradient is %s %s, must be like the tensor: %s %s", gd_text_view(&g->v), gd_dtype_name(g->v.dtype),
                           gd_text_view(&root->v), gd_dtype_name(root->v.dtype));
    }
    root->acc = root->acc ? add_new(root->acc, gradient) : gradient;
    return root->acc ? GD_OK : gd_last_status();
}

static gd_status run_backward(gd_backward_run *run, const gd_tensor *roots, const gd_tensor *gradients, int64_t count, const gd_tensor *inputs, int64_t ninputs) {
    run->stamp = ++last_stamp;
    for (int64_t i = 0; i < ninputs; i++) { /* before discovery, where a node learns whether it leads here */
        gd_node *in = gd_node_of(inputs[i], "grad");
        if (!in) return gd_last_status();
        if (!(in->flags & GD_REQUIRES_GRAD)) return gd_fail(GD_ERR, "grad: input %lld does not require grad", (long long)i);
        if (!in->capture) in->capture = (uint32_t)i + 1;
    }
    for (int64_t i = 0; i < count; i++) {
        gd_node *root = gd_node_of(roots[i], "backward");
        if (!root) return gd_last_status();
        if (!(root->flags & GD_REQUIRES_GRAD))
            return gd_fail(GD_ERR, "backward: the tensor does not require grad and has no graph (was it made under no_grad, or from tensors that need no gradient?)");
    }
    for (int64_t i = 0; i < count; i++) GD_TRY(discover(run, primary(gd_node_peek(roots[i]))));
    for (int64_t i = 0; i < count; i++) GD_TRY(seed(gd_node_peek(roots[i]), gradients ? gradients[i] : 0));
    run->stack.count = 0;
    for (int64_t i = 0; i < count; i++) {
        gd_node *p = primary(gd_node_peek(roots[i]));
        bool queued = false;
        for (int64_t j = 0; j < run->stack.count; j++) queued |= run->stack.item[j] == p;
        if (p->pending == 0 && !queued) GD_TRY(push(run, &run->stack, p));
    }
    while (run->stack.count) GD_TRY(process(run, run->stack.item[--run->stack.count]));
    return GD_OK;
}

gd_status gd_backward(gd_tensor root, gd_tensor gradient, int retain_graph, int create_graph, gd_optimizer *optimizer) {
    if (optimizer && create_graph) return gd_fail(GD_ERR_VALUE, "backward: optimizer= and create_graph=True exclude each other: the parameters change meanwhile");
    gd_arena *a = gd_arena_active();
    if (!a) return gd_last_status();
    gd_backward_run run = {.arena = a, .retain_graph = retain_graph || create_graph, .create_graph = create_graph != 0, .to_leaves = true, .optimizer = optimizer};
    pthread_mutex_lock(&backward_mutex);
    gd_place place = gd_arena_place(a);
    gd_thread *t = gd_self();
    bool recording = t->grad_enabled;
    t->grad_enabled = create_graph != 0;
    gd_status status = run_backward(&run, &root, gradient ? &gradient : NULL, 1, NULL, 0);
    t->grad_enabled = recording;
    if (status < 0) { /* as if it had not begun, but for gradients that were there before */
        for (int64_t i = 0; i < run.fresh.count; i++) {
            run.fresh.item[i]->grad = 0;
            run.fresh.item[i]->flags &= (uint16_t)~GD_GRAD_SET;
        }
        gd_arena_return(a, place);
    } else if (!run.kept_memory && !create_graph) {
        gd_arena_return(a, place);
    }
    if (optimizer && status >= 0) { /* what had to wait, and gradients that were there before */
        status = gd_optimizer_step(optimizer);
        if (status >= 0) status = gd_optimizer_zero_grad(optimizer);
    }
    pthread_mutex_unlock(&backward_mutex);
    return status < 0 ? status : gd_has_warning() ? GD_WARNING : GD_OK;
}

gd_status gd_grad_of(const gd_tensor *outputs, const gd_tensor *gradients, int64_t noutputs, const gd_tensor *inputs, int64_t ninputs, int retain_graph,
                     int create_graph, gd_tensor *out) {
    gd_arena *a = gd_arena_active();
    if (!a) return gd_last_status();
    memset(out, 0, sizeof *out * (size_t)ninputs);
    gd_backward_run run = {.arena = a, .retain_graph = retain_graph || create_graph, .create_graph = create_graph != 0, .captured = out};
    pthread_mutex_lock(&backward_mutex);
    gd_thread *t = gd_self();
    bool recording = t->grad_enabled;
    t->grad_enabled = create_graph != 0;
    gd_status status = run_backward(&run, outputs, gradients, noutputs, inputs, ninputs);
    for (int64_t i = 0; i < ninputs && status >= 0; i++) out[i] = out[gd_node_peek(inputs[i])->capture - 1]; /* an input may stand twice */
    for (int64_t i = 0; i < ninputs && status >= 0; i++)
        if (out[i] && !(out[i] = GD_RECORD(copy, NULL, out[i]))) status = gd_last_status();
    for (int64_t i = 0; i < ninputs; i++) {
        gd_node *in = gd_node_peek(inputs[i]);
        if (in) in->capture = 0;
    }
    t->grad_enabled = recording;
    pthread_mutex_unlock(&backward_mutex);
    return status < 0 ? status : GD_OK;
}
