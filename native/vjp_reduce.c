/* vjp_reduce.c - gradients of reductions, softmax and losses. */
#include <math.h>

#include "vjp.h"

#define MASK (v->node->attr.i[0])

gd_tensor gd_undo_reduce(gd_tensor r, gd_tensor x, int64_t mask) {
    const gd_view *to = gd_view_of(x);
    int64_t shape[GD_DIMS];
    for (int d = 0; d < GD_DIMS; d++) shape[d] = mask >> d & 1 ? 1 : to->shape[d];
    return gd_reshape(r, to->rank, shape + GD_DIMS - to->rank);
}

gd_tensor gd_reduce_keep(int op, gd_tensor x, int64_t mask) { return gd_record(op, &x, 1, &(gd_attr){.i = {mask, 1}}, NULL); }

static gd_tensor spread(gd_tensor r, gd_tensor x, int64_t mask) {
    const gd_view *to = gd_view_of(x);
    return gd_expand(gd_undo_reduce(r, x, mask), to->rank, gd_logical_shape(to));
}

static double reduced_count(const gd_view *x, int64_t mask) {
    double count = 1;
    for (int d = 0; d < GD_DIMS; d++)
        if (mask >> d & 1) count *= (double)x->shape[d];
    return count;
}

RULE(sum) { GIVE(0, spread(G, A, MASK)); return GD_OK; }
RULE(mean) { GIVE(0, spread(TIMES(G, 1 / reduced_count(gd_view_of(A), MASK)), A, MASK)); return GD_OK; }

/* 2 (x - mean) / (n - correction) */
RULE(var) {
    double count = reduced_count(gd_view_of(A), MASK), divisor = count - v->node->attr.f[0];
    gd_tensor centred = BIN(sub, A, gd_reduce_keep(GD_OP_mean, A, MASK));
    GIVE(0, CHAIN(gd_undo_reduce(G, A, MASK), TIMES(centred, 2 / (divisor > 0 ? divisor : 0))));
    return GD_OK;
}

/* The product of all others: y / x without zeros; with one zero only its own place has a gradient. */
RULE(prod) {
    if (!gd_vjp_needs(v, 0)) return GD_OK;
    int dtype = gd_view_of(A)->dtype;
    gd_tensor zero = gd_with_scalar(GD_OP_eq, A, 0, false), one = gd_scalar(1, 1, dtype);
    gd_tensor zeros = gd_reduce_keep(GD_OP_sum, gd_cast(zero, dtype), MASK);
    gd_tensor others = gd_where(zero, one, A);
    gd_tensor product = gd_reduce_keep(GD_OP_prod, others, MASK);
    if (!product) return gd_last_status();
    if (v->create_graph && gd_numel(gd_view_of(product))) {
        double most = 0;
        int64_t unused = 0;
        GD_TRY(gd_item(gd_reduce(GD_OP_amax, zeros, NULL, 0, 0, 0), &most, &unused));
        if (most > 0) return gd_fail(GD_ERR, "prod: its second derivative is not available where an element is 0");
    }
    gd_tensor alone = BIN(logical_and, zero, gd_with_scalar(GD_OP_eq, zeros, 1, false));
    gd_tensor slope = gd_where(alone, product, gd_where(gd_with_scalar(GD_OP_eq, zeros, 0, false), BIN(div, product, others), gd_zeros_like(A)));
    return gd_vjp_give(v, 0, CHAIN(gd_undo_reduce(G, A, MASK), slope));
}

/* Ties share evenly, and NaNs where one is the result. Serves amax and amin. */
RULE(amax) {
    int dtype = gd_view_of(A)->dtype;
    gd_tensor most = gd_undo_reduce(Y, A, MASK), nan = BIN(logical_and, U(isnan, A), U(isnan, most));
    gd_tensor won = gd_cast(BIN(logical_or, BIN(eq, A, most), nan), dtype);
    gd_tensor winners = gd_reduce_keep(GD_OP_sum, won, MASK);
    gd_tensor slope = BIN(div, won, BIN(maximum, winners, gd_scalar(1, 1, dtype)));
    GIVE(0, CHAIN(gd_undo_reduce(G, A, MASK), slope));
    return GD_OK;
}

/* max(dim), min(dim): the first index takes it. */
RULE(maxdim) {
    if (!v->g[0] || !gd_vjp_needs(v, 0)) return GD_OK;
    const gd_view *x = gd_view_of(A);
    gd_attr attr = {.i = {0}};
    while (!(MASK >> attr.i[0] & 1)) attr.i[0]++;
    attr.i[1] = x->shape[attr.i[0]];
    for (int d = 0; d < GD_DIMS; d++) attr.i[2 + d] = x->shape[d];
    gd_tensor index = gd_undo_reduce(gd_output(Y, 1), A, MASK);
    return gd_vjp_give(v, 0, gd_record(GD_OP_scatter_add_zeros, (gd_tensor[]){gd_undo_reduce(G, A, MASK), index}, 2, &attr, NULL));
}

/* softmax(x), but 0 where everything is -inf */
RULE(logsumexp) {
    if (!gd_vjp_needs(v, 0)) return GD_OK;
    gd_tensor y = gd_undo_reduce(Y, A, MASK);
    gd_tensor bottom = gd_with_scalar(GD_OP_eq, y, -INFINITY, false);
    gd_tensor slope = U(exp, BIN(sub, A, gd_where(bottom, gd_zeros_like(y), y)));
    return gd_vjp_give(v, 0, CHAIN(gd_undo_reduce(G, A, MASK), slope));
}

/* ---- Softmax -------------------------------------------------------------------------------------------------------- */

RULE(softmax) { GIVE(0, GD_RECORD(softmax_bwd, &v->node->attr, G, Y)); return GD_OK; }
RULE(log_softmax) { GIVE(0, GD_RECORD(log_softmax_bwd, &v->node->attr, G, Y)); return GD_OK; }

static gd_tensor sum_dim(gd_tensor x, int64_t dim) { return gd_reduce_keep(GD_OP_sum, x, (int64_t)1 << dim); }

/* r = y (g - s), s = sum(g y); for h = G: dg = y (h - sum(h y)), dy = h (g - s) - g sum(h y) */
RULE(softmax_bwd) {
    int64_t dim = v->node->attr.i[0];
    GIVE(0, GD_RECORD(softmax_bwd, &v->node->attr, G, B));
    if (gd_vjp_needs(v, 1)) {
        gd_tensor s = sum_dim(BIN(mul, A, B), dim), hy = sum_dim(BIN(mul, G, B), dim);
        GIVE(1, BIN(sub, BIN(mul, G, BIN(sub, A, s)), BIN(mul, A, hy)));
    }
    return GD_OK;
}

/* r = g - exp(y) s, s = sum(g); for h = G: dg = h - sum(h exp(y)), dy = -h exp(y) s */
RULE(log_softmax_bwd) {
    int64_t dim = v->node->attr.i[0];
    gd_tensor p = U(exp, B);
    GIVE(0, BIN(sub, G, sum_dim(BIN(mul, G, p), dim)));
    GIVE(1, U(neg, BIN(mul, BIN(mul, G, p), sum_dim(A, dim))));
    return GD_OK;
}

/* ---- Losses ------------------------------------------------------------------------------------------------------------ */

/* The targets as weighted probabilities q (N, C): loss_n = -sum_c q_nc log p_nc. Constant in the logits. */
static gd_tensor target_weights(gd_vjp *v, double smoothing) {
    const gd_view *x = gd_view_of(A), *t = gd_view_of(B);
    double classes = (double)x->shape[3];
    gd_tensor q = B;
    if (!gd_is_float(t->dtype)) {
        gd_tensor ignored = gd_binary_scalar(GD_OP_eq, B, 0, v->node->attr.i[0], GD_INT64, 0);
        q = gd_cast(gd_one_hot(gd_where(ignored, gd_zeros_like(B), B), x->shape[3]), x->dtype);
        if (smoothing > 0) q = PLUS(TIMES(q, 1 - smoothing), smoothing / classes);
        gd_tensor kept = gd_cast(U(logical_not, ignored), x->dtype);
        q = CHAIN(gd_unsqueeze(kept, 1), q);
    } else if (smoothing > 0) {
        q = PLUS(TIMES(q, 1 - smoothing), smoothing / classes);
    }
    return C ? BIN(mul, q, C) : q;
}

/* The incoming gradient per row, (N, 1). */
static gd_tensor row_gradient(gd_vjp *v) {
    if (v->node->attr.i[1] == 0) return gd_unsqueeze(G, 1);
    if (v->node->attr.i[1] == 2) return gd_reshape(G, 2, (int64_t[]){1, 1});
    gd_tensor count = gd_detach(gd_output(Y, 2)); /* no valid row: every row's gradient is 0 anyway */
    gd_tensor none = gd_with_scalar(GD_OP_eq, count, 0, false);
    gd_tensor share_of_one = U(reciprocal, gd_where(none, gd_scalar(1, 1, GD_FLOAT32), count)); /* in the dtype of the statistics */
    return gd_reshape(CHAIN(G, gd_cast(share_of_one, gd_view_of(A)->dtype)), 2, (int64_t[]){1, 1});
}

RULE(cross_entropy) {
    double smoothing = v->node->attr.f[0];
    if (v->g[1] || v->g[2]) return gd_fail(GD_ERR, "cross_entropy: only the loss has a gradient, not the statistics saved for backward");
    if (C && gd_vjp_needs(v, 2)) return gd_fail(GD_ERR, "cross_entropy: its gradient with respect to the class weights is not available; detach them");
    if (gd_vjp_needs(v, 1) || v->create_graph) { /* as ordinary ops, each with its own gradient */
        gd_tensor g = row_gradient(v), q = target_weights(v, smoothing);
        gd_attr last = {.i = {GD_DIMS - 1}};
        if (gd_vjp_needs(v, 0)) {
            gd_tensor p = GD_RECORD(softmax, &last, A);
            GIVE(0, CHAIN(g, BIN(sub, BIN(mul, sum_dim(q, GD_DIMS - 1), p), q)));
        }
        if (gd_vjp_needs(v, 1)) {
            gd_tensor slope = TIMES(GD_RECORD(log_softmax, &last, A), smoothing - 1);
            GIVE(1, CHAIN(g, C ? BIN(mul, slope, C) : slope));
        }
        return GD_OK;
    }
    GIVE(0, gd_record(GD_OP_cross_entropy_bwd, (gd_tensor[]){G, A, B, C, gd_output(Y, 1), gd_output(Y, 2)}, 6, &v->node->attr, NULL));
    return GD_OK;
}
