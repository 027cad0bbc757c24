/* autograd.c - backward: walks the recorded graph from the roots, hands gradients to vjp rules, and
 * gathers what reaches the leaves. No recursion: nodes become ready when all their consumers are done. */
#define _GNU_SOURCE
#include <pthread.h>

#include "backward.h"

/* One backward at a time: leaves, and the working fields of shared nodes, belong to it. */
static pthread_mutex_t backward_mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static uint32_t last_stamp;

static void mutex_after_fork(void) {
    static const pthread_mutex_t fresh = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    backward_mutex = fresh; /* the thread that held it is not in the child */
}
__attribute__((constructor)) static void autograd_load(void) { pthread_atfork(NULL, NULL, mutex_after_fork); }

bool gd_backward_try_lock(void) { return pthread_mutex_trylock(&backward_mutex) == 0; }
void gd_backward_unlock(void) { pthread_mutex_unlock(&backward_mutex); }

/* ---- First pass: what is reachable, how often each node is used, and whether all of it is still good --- */

static gd_status visit(gd_node *n, gd_backward_run *run) {
    for (const gd_backward_run *outer = run->outer; outer; outer = outer->outer)
        if (n->stamp == outer->stamp) {
            GD_TRY(gd_backward_keep(run, n));
            for (int k = 0; k < n->nout; k++) n[k].capture = 0;
            break;
        }
    for (int k = 0; k < n->nout; k++) {
        n[k].stamp = run->stamp;
        n[k].pending = 0;
        n[k].acc = 0;
        n[k].work &= (uint16_t)~(GD_OWNED | GD_USEFUL | GD_ENTERED | GD_WRITTEN);
    }
    return GD_OK;
}

/* Whether the run was told to go no further than n. */
static bool is_end(const gd_backward_run *run, const gd_node *n) {
    bool end = false;
    for (int k = 0; run->stop && k < n->nout; k++) end |= n[k].capture != 0;
    return end;
}

static gd_status check_saved(const gd_node *n, const gd_op_row *row) {
    if (n->work & GD_FREED)
        return gd_fail(GD_ERR, "backward: the graph through `%s` was already used by a backward() and freed; call the first one with retain_graph=True",
                       row->name);
    for (uint32_t k = 0; k < n->nin; k++) {
        if (!n->in[k] || !(row->saves & (k < 16 ? 1u << k : 0))) continue;
        gd_node *in = gd_node_recorded(n->in[k], row->name);
        if (!in) return gd_last_status();
        if (!gd_input_unchanged(n, k, in))
            return gd_fail(GD_ERR, "backward: input %u of `%s`, of shape %s, was changed in place after it was used (version %u, now %u), so its gradient cannot "
                                   "be computed. Change a .clone(), or run optimizer.step() after backward()",
                           k, row->name, gd_text_view(&in->v), n->in_version[k] & ~GD_TRACKED, gd_storage_version(in) & ~GD_TRACKED);
    }
    for (int k = 0; k < n->nout; k++)
        if (row->saves & (uint32_t)GD_SAVES_OUT << k && n[k].version != n[k].own_version)
            return gd_fail(GD_ERR, "backward: the result of `%s`, of shape %s, was changed in place after it was computed, so its gradient cannot be computed. "
                                   "Change a .clone() instead", row->name, gd_text_view(&n[k].v));
    return GD_OK;
}

/* All that lies behind n is known: whether its vjp will run, and whether what that needs is still good. */
static gd_status leave(gd_node *n, const gd_backward_run *run) {
    const bool end = is_end(run, n);
    bool leads = run->to_leaves && !end, wanted = false; /* to something asked for; it is asked for itself */
    for (uint32_t k = 0; n->in && !end && k < n->nin && !leads; k++) {
        gd_node *in = gd_tracked_input(n, k);
        leads = in && in->stamp == run->stamp && gd_primary(in)->work & GD_USEFUL;
    }
    for (int k = 0; k < n->nout; k++) wanted |= n[k].capture != 0 && (!run->stop || n[k].capture <= run->wanted);
    if (leads || wanted) n->work |= GD_USEFUL;
    return n->in && leads ? check_saved(n, &gd_ops[n->op]) : GD_OK;
}

/* Puts n's inputs on the stack and counts n among their consumers. */
static gd_status enter(gd_node *n, gd_backward_run *run) {
    n->work |= GD_ENTERED;
    if (is_end(run, n)) return GD_OK;
    for (uint32_t k = 0; n->in && k < n->nin; k++) {
        if (!n->in[k]) continue;
        gd_node *in = gd_node_recorded(n->in[k], gd_ops[n->op].name);
        if (!in) return gd_last_status();
        if (!gd_tracked_input(n, k)) { /* of a parameter, a detached view say: no gradient waits for this op to have read it */
            if (run->optimizer) gd_storage(in)->work |= GD_LATER;
            continue;
        }
        gd_node *p = gd_primary(in);
        if (p->stamp != run->stamp) GD_TRY(visit(p, run));
        if (!(p->work & GD_ENTERED)) GD_TRY(gd_backward_push(run, p));
        p->pending++;
    }
    return GD_OK;
}

/* A node that is entered stays on the stack, marked in the lowest bit of its address, until all above it is done. */
static gd_node *marked(gd_node *n) { return (gd_node *)((uintptr_t)n | 1); }
static bool is_marked(const gd_node *n) { return (uintptr_t)n & 1; }
static gd_node *unmarked(gd_node *n) { return (gd_node *)((uintptr_t)n & ~(uintptr_t)1); }

/* Depth first: a node is left only when all behind it have been left, so it knows whether it is useful. One
 * that was put off and reached again before its turn stands on the stack twice; the second turn is skipped. */
static gd_status discover(gd_backward_run *run, gd_node *root) {
    if (root->stamp != run->stamp) GD_TRY(visit(root, run));
    else if (root->work & GD_ENTERED) return GD_OK;
    int64_t bottom = run->stack.count;
    GD_TRY(gd_backward_push(run, root));
    while (run->stack.count > bottom) {
        gd_node **top = &run->stack.item[run->stack.count - 1], *n = *top;
        if (is_marked(n)) {
            run->stack.count--;
            GD_TRY(leave(unmarked(n), run));
        } else if (n->work & GD_ENTERED) {
            run->stack.count--;
        } else {
            *top = marked(n);
            GD_TRY(enter(n, run));
        }
    }
    return GD_OK;
}

/* ---- Second pass -------------------------------------------------------------------------------------------- */

static gd_status process(gd_backward_run *run, gd_node *n) {
    gd_vjp v = {.node = n, .self = n->self, .create_graph = run->create_graph, .run = run};
    bool any = false;
    for (int k = 0; k < n->nout; k++) {
        if (n[k].acc) {
            any = true;
            GD_TRY(gd_backward_arrived(run, &n[k]));
        }
        if (k < GD_MAX_OUT) v.g[k] = n[k].acc; /* which a hook may have changed */
    }
    if (n->in && !is_end(run, n)) {
        bool wanted = any && run->to_leaves;
        for (uint32_t k = 0; any && k < n->nin && !wanted; k++) wanted = gd_vjp_needs(&v, (int)k);
        gd_self()->failed = n->self;
        if (wanted) GD_TRY(check_saved(n, &gd_ops[n->op])); /* again: a gradient that it read may have grown since */
        gd_self()->device = n->v.device; /* numbers that a rule makes stand there */
        if (wanted) GD_TRY(gd_ops[n->op].vjp(&v));
        gd_self()->failed = 0;
        if (wanted && !run->retain_graph && (gd_ops[n->op].saves || (n->op == GD_NODE_CUSTOM && n->attr.i[1]))) {
            GD_TRY(gd_backward_note(run, n));
            n->work |= GD_FREED;
        }
        for (uint32_t k = 0; k < n->nin; k++) {
            gd_node *in = gd_tracked_input(n, k);
            if (!in) continue;
            gd_node *p = gd_primary(in);
            if (--p->pending == 0) GD_TRY(gd_backward_push(run, p));
        }
    }
    for (int k = 0; k < n->nout; k++)
        if (n[k].acc) gd_backward_set(run, &n[k], 0);
    gd_recycler_sweep(run->recycler);
    return GD_OK;
}

static gd_status seed(gd_backward_run *run, gd_node *root, gd_tensor gradient) {
    if (!gradient) {
        if (gd_numel(&root->v) != 1)
            return gd_fail(GD_ERR_SHAPE, "backward: the tensor has shape %s: without a gradient argument it must have exactly one element", gd_text_view(&root->v));
        gd_self()->device = root->v.device;
        gradient = gd_full(root->v.rank, gd_logical_shape(&root->v), root->v.dtype, 1.0, 1);
        if (!gradient) return gd_last_status();
    } else {
        gd_node *g = gd_node_of(gradient, "backward");
        if (!g) return gd_last_status();
        if (g->v.device != root->v.device)
            return gd_fail(GD_ERR_DEVICE, "backward: the gradient is on %s, the tensor on %s", gd_text_device(g->v.device), gd_text_device(root->v.device));
        if (g->v.rank != root->v.rank || memcmp(g->v.shape, root->v.shape, sizeof g->v.shape) != 0 || g->v.dtype != root->v.dtype)
            return gd_fail(GD_ERR_SHAPE, "backward: the gradient is %s %s, must be like the tensor: %s %s", gd_text_view(&g->v), gd_dtype_name(g->v.dtype),
                           gd_text_view(&root->v), gd_dtype_name(root->v.dtype));
    }
    if (root->acc && !(gradient = GD_RECORD(add, NULL, root->acc, gradient))) return gd_last_status();
    gd_backward_set(run, root, gradient);
    return GD_OK;
}

/* Whether a run inside `outer`, in the only op that is still to give a gradient to this leaf, may write it to its place. */
static bool into_slab(const gd_backward_run *outer, const gd_node *n) {
    return outer && outer->to_leaves && !outer->create_graph && !outer->optimizer && n->param && n->flags & GD_LEAF && !(n->flags & GD_HOOKED) &&
           n->stamp == outer->stamp && n->pending == 1 && !n->acc && !n->capture;
}

static gd_status run_backward(gd_backward_run *run, const gd_tensor *roots, const gd_tensor *gradients, int64_t count, const gd_tensor *inputs, int64_t ninputs) {
    if (++last_stamp == 0) last_stamp = 1; /* 0 is the stamp of a node that was never visited */
    run->stamp = last_stamp;
    for (int64_t i = 0; i < ninputs; i++) { /* before discovery, where a node learns whether it leads here */
        gd_node *in = gd_node_of(inputs[i], "grad");
        if (!in) return gd_last_status();
        if (!(in->flags & GD_REQUIRES_GRAD)) return gd_fail(GD_ERR, "grad: input %lld does not require grad", (long long)i);
    }
    if (run->outer || run->stop)
        for (int64_t i = 0; i < ninputs; i++) {
            gd_node *in = gd_node_peek(inputs[i]), *p = gd_primary(in);
            bool straight = run->stop && into_slab(run->outer, in);
            if (straight) GD_TRY(gd_backward_note(run->outer, in));
            if (p->stamp != run->stamp) GD_TRY(visit(p, run));
            if (straight) run->to_leaves = true;
            else if (!in->capture) in->capture = (uint32_t)i + 1;
        }
    for (int64_t i = 0; i < ninputs && !run->stop; i++) {
        gd_node *in = gd_node_peek(inputs[i]);
        if (!in->capture) in->capture = (uint32_t)i + 1;
    }
    for (int64_t i = 0; i < count; i++) {
        gd_node *root = gd_node_of(roots[i], "backward");
        if (!root) return gd_last_status();
        if (!(root->flags & GD_REQUIRES_GRAD))
            return gd_fail(GD_ERR, "backward: the tensor does not require grad and has no graph (was it made under no_grad, or from tensors that need no gradient?)");
    }
    for (int64_t i = 0; i < count; i++) GD_TRY(discover(run, gd_primary(gd_node_peek(roots[i]))));
    for (int64_t i = 0; i < count; i++) {
        gd_tensor gradient = gradients ? gradients[i] : GD_ABSENT;
        GD_TRY(gd_optional(&gradient, "backward"));
        GD_TRY(seed(run, gd_node_peek(roots[i]), gradient));
    }
    run->stack.count = 0;
    for (int64_t i = 0; i < count; i++) {
        gd_node *p = gd_primary(gd_node_peek(roots[i]));
        bool queued = false;
        for (int64_t j = 0; j < run->stack.count; j++) queued |= run->stack.item[j] == p;
        if (p->pending == 0 && !queued) GD_TRY(gd_backward_push(run, p));
    }
    while (run->stack.count) GD_TRY(process(run, run->stack.item[--run->stack.count]));
    return GD_OK;
}

/* The gradients gathered for the inputs of gd_grad_of, each a tensor of its own. */
static gd_status hand_out(gd_backward_run *run, const gd_tensor *inputs, int64_t ninputs) {
    gd_tensor *out = run->captured;
    if (run->stop) return GD_OK;
    for (int64_t i = ninputs - 1; i >= 0; i--) { /* an input may stand twice: its first place is read last */
        gd_tensor g = out[gd_node_peek(inputs[i])->capture - 1];
        if (g && !(out[i] = GD_RECORD(copy, NULL, g))) return gd_last_status();
    }
    return GD_OK;
}

/* Handles of what stands for the tensors of a call now, where they were written to in place. */
static gd_status as_they_are(gd_tensor *now, const gd_tensor *roots, const gd_tensor *gradients, int64_t count, const gd_tensor *inputs, int64_t ninputs) {
    for (int64_t i = 0; i < 2 * count + ninputs; i++) {
        const bool is_gradient = i >= count && i < 2 * count;
        if (is_gradient && !gradients) continue;
        gd_tensor given = i < count ? roots[i] : is_gradient ? gradients[i - count] : inputs[i - 2 * count];
        if (is_gradient && given <= GD_ABSENT) {
            now[i] = given;
            continue;
        }
        const gd_node *n = gd_node_of(given, i < 2 * count ? "backward" : "grad");
        if (!n) return gd_last_status();
        now[i] = n->self;
    }
    return GD_OK;
}

/* One run from beginning to end. If it fails it is as if it had not begun, but for gradients that were there
 * before and have grown, and for parameters that an optimizer was applied to. */
static gd_status guarded(gd_backward_run *run, const gd_tensor *roots, const gd_tensor *gradients, int64_t count, const gd_tensor *inputs, int64_t ninputs) {
    gd_thread *t = gd_self();
    pthread_mutex_lock(&backward_mutex);
    gd_place place = gd_arena_place(run->arena);
    bool recording = t->grad_enabled;
    t->grad_enabled = run->create_graph;
    const uint8_t autocast = t->autocast;
    t->autocast = 0; /* rules keep to the dtypes of the forward */
    gd_recycler recycler, *outer = t->recycler;
    gd_recycler_start(&recycler, run->arena);
    run->recycler = &recycler;
    run->outer = t->run;
    t->run = run;
    t->failed = 0;
    run->arena->backwards++;
    t->recycler = run->create_graph ? NULL : &recycler; /* a graph reads them all */
    gd_tensor *now = gd_scratch(run->arena, (2 * count + ninputs) * (int64_t)sizeof *now);
    t->grad_enabled = true; /* views are made anew with their history */
    gd_status status = now ? as_they_are(now, roots, gradients, count, inputs, ninputs) : gd_last_status();
    t->grad_enabled = run->create_graph;
    roots = now, gradients = gradients ? now + count : NULL, inputs = now + 2 * count;
    if (status < 0) ninputs = 0;
    const bool raw = t->raw;
    const uint8_t device = run->device = t->device;
    t->raw = true;
    if (status >= 0) status = run_backward(run, roots, gradients, count, inputs, ninputs);
    t->device = device;
    t->recycler = outer;
    if (status >= 0 && run->captured) status = hand_out(run, inputs, ninputs);
    for (int64_t i = 0; i < ninputs; i++) {
        gd_node *in = gd_node_peek(inputs[i]);
        if (in) in->capture = 0;
    }
    while (run->kept.count) {
        const kept_work *k = &run->kept.item[--run->kept.count];
        k->node->acc = k->acc;
        k->node->stamp = k->stamp;
        k->node->pending = k->pending;
        k->node->capture = k->capture;
        k->node->work = (uint16_t)((k->node->work & GD_LASTING) | (k->work & ~GD_LASTING));
    }
    t->run = run->outer;
    t->raw = raw;
    run->arena->backwards--;
    t->grad_enabled = recording;
    t->autocast = autocast;
    if (status < 0) {
        gd_backward_put_back(run);
        if (run->home) gd_arena_return(run->home, &run->home_place);
        gd_arena_return(run->arena, &place);
    } else if (!run->kept_memory && !run->create_graph && !run->captured) {
        gd_arena_return(run->arena, &place);
    }
    if (run->optimizer && status >= 0) { /* what had to wait, and gradients that were there before */
        status = gd_optimizer_step(run->optimizer);
        if (status >= 0) status = gd_optimizer_zero_grad(run->optimizer);
    }
    pthread_mutex_unlock(&backward_mutex);
    return status;
}

gd_status gd_backward_into(const gd_tensor *roots, const gd_tensor *gradients, int64_t count, const gd_tensor *inputs, int64_t ninputs, int retain_graph,
                           int create_graph, gd_optimizer *optimizer) {
    if (optimizer && create_graph) return gd_fail(GD_ERR_VALUE, "backward: optimizer= and create_graph=True exclude each other: the parameters change meanwhile");
    if (optimizer && ninputs >= 0) return gd_fail(GD_ERR_VALUE, "backward: optimizer= and inputs= exclude each other");
    gd_arena *a = gd_arena_active();
    if (!a) return gd_last_status();
    gd_backward_run run = {.arena = a, .retain_graph = retain_graph || create_graph, .create_graph = create_graph != 0, .to_leaves = ninputs < 0,
                           .into = ninputs >= 0, .optimizer = optimizer};
    gd_status status = guarded(&run, roots, gradients, count, inputs, ninputs < 0 ? 0 : ninputs);
    if (status >= 0) return gd_done();
    if (run.updated) {
        char why[GD_MESSAGE_BYTES];
        memcpy(why, gd_last_error(), sizeof why);
        gd_fail(status, "%.800s. The optimizer had already updated %lld parameters", why, (long long)run.updated);
    }
    return status;
}

gd_status gd_backward(gd_tensor root, gd_tensor gradient, int retain_graph, int create_graph, gd_optimizer *optimizer) {
    GD_TRY(gd_optional(&gradient, "backward"));
    return gd_backward_into(&root, gradient ? &gradient : NULL, 1, NULL, -1, retain_graph, create_graph, optimizer);
}

static gd_status grad_of(gd_backward_run *run, const gd_tensor *outputs, const gd_tensor *gradients, int64_t noutputs, const gd_tensor *inputs, int64_t ninputs,
                         gd_tensor *out) {
    if (!(run->arena = gd_arena_active())) return gd_last_status();
    if (noutputs < 0 || ninputs < 0) return gd_fail(GD_ERR_VALUE, "grad: %lld outputs and %lld inputs", (long long)noutputs, (long long)ninputs);
    for (int64_t i = 0; i < ninputs; i++) out[i] = 0;
    run->captured = out;
    gd_status status = guarded(run, outputs, gradients, noutputs, inputs, ninputs);
    for (int64_t i = 0; i < ninputs && status < 0; i++) out[i] = 0;
    return status;
}

gd_status gd_grad_of(const gd_tensor *outputs, const gd_tensor *gradients, int64_t noutputs, const gd_tensor *inputs, int64_t ninputs, int retain_graph,
                     int create_graph, gd_tensor *out) {
    gd_backward_run run = {.retain_graph = retain_graph || create_graph, .create_graph = create_graph != 0};
    return grad_of(&run, outputs, gradients, noutputs, inputs, ninputs, out);
}

gd_status gd_grad_within(const gd_tensor *outputs, const gd_tensor *gradients, int64_t noutputs, const gd_tensor *inputs, int64_t ninputs, int64_t wanted,
                         int create_graph, gd_tensor *out) {
    gd_backward_run run = {.retain_graph = create_graph, .create_graph = create_graph != 0, .stop = true, .wanted = wanted};
    return grad_of(&run, outputs, gradients, noutputs, inputs, ninputs, out);
}

/* ---- Looking at a graph ----------------------------------------------------------------------------------------- */

int64_t gd_graph_inputs(gd_tensor t, gd_tensor *out, int64_t capacity) {
    gd_node *n = gd_node_of(t, "graph");
    if (!n) return gd_last_status();
    n = gd_primary(n);
    for (uint32_t k = 0; n->in && k < n->nin && k < capacity; k++) {
        const gd_node *in = gd_tracked_input(n, k);
        out[k] = in ? in->self : 0;
    }
    return n->in ? n->nin : 0;
}

static gd_status find_outside(gd_backward_run *run, const gd_tensor *outputs, int64_t noutputs, const gd_arena *inside, gd_tensor *out, int64_t capacity,
                              int64_t *found) {
    for (int64_t i = 0; i < noutputs; i++) {
        gd_node *n = gd_node_of(outputs[i], "graph");
        if (!n) return gd_last_status();
        if (!(n->flags & GD_REQUIRES_GRAD)) continue;
        if (gd_arena_by_handle(n->self) == inside) GD_TRY(gd_backward_push(run, gd_primary(n)));
        else if ((*found)++ < capacity) out[*found - 1] = n->self;
    }
    while (run->stack.count) {
        gd_node *n = run->stack.item[--run->stack.count];
        if (n->stamp == run->stamp) continue;
        n->stamp = run->stamp;
        for (uint32_t k = 0; n->in && k < n->nin; k++) {
            gd_node *in = gd_tracked_input(n, k);
            if (!in) continue;
            if (gd_arena_by_handle(in->self) == inside) GD_TRY(gd_backward_push(run, gd_primary(in)));
            else if ((*found)++ < capacity) out[*found - 1] = in->self;
        }
    }
    return GD_OK;
}

int64_t gd_graph_outside(const gd_tensor *outputs, int64_t noutputs, const gd_arena *inside, gd_tensor *out, int64_t capacity) {
    gd_backward_run run = {.arena = gd_arena_active()};
    if (!run.arena) return gd_last_status();
    int64_t found = 0;
    pthread_mutex_lock(&backward_mutex);
    gd_place place = gd_arena_place(run.arena);
    if (++last_stamp == 0) last_stamp = 1;
    run.stamp = last_stamp;
    gd_status status = find_outside(&run, outputs, noutputs, inside, out, capacity, &found);
    gd_arena_return(run.arena, &place);
    pthread_mutex_unlock(&backward_mutex);
    return status < 0 ? status : found;
}
