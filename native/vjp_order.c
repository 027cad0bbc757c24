/* vjp_order.c - gradients of what orders, scans and scatters along one dimension, and of vector_norm. */
#include <math.h>

#include "scattering.h"
#include "vjp.h"

#define DIM (v->node->attr.i[0])

/* The values were picked at the places of the second output. */
RULE(sort) {
    const gd_view *x = gd_view_of(A);
    gd_attr attr = {.i = {DIM, x->shape[DIM], x->shape[0], x->shape[1], x->shape[2], x->shape[3]}};
    GIVE(0, GD_RECORD(scatter_add_zeros, &attr, G, gd_output(Y, 1)));
    return GD_OK;
}

/* ---- Scans ------------------------------------------------------------------------------------------------------ */

RULE(cumsum) {
    GIVE(0, GD_RECORD(cumsum, (&(gd_attr){.i = {DIM, !v->node->attr.i[1]}}), G));
    return GD_OK;
}

/* No entry has one before it. */
static bool is_trivial(const gd_vjp *v) {
    const gd_view *x = gd_view_of(A);
    return x->shape[DIM] <= 1 || gd_numel(x) == 0;
}

/* Entry k of the result is entry k - 1 of x, the first one `value`. */
static gd_tensor shifted(gd_tensor x, int64_t dim, double value) {
    gd_attr attr = {.f = {value}};
    attr.i[1 + dim] = 1, attr.i[5 + dim] = -1;
    return GD_RECORD(pad, &attr, x);
}

static gd_tensor scanned(gd_tensor a, gd_tensor b, int64_t dim, bool reverse) {
    return GD_RECORD(linear_scan, (&(gd_attr){.i = {dim, reverse}}), a, b);
}

/* The product of the entries before k, times the sum over j >= k of g[j] and the product of entries k + 1 .. j: no
 * division, so zeros are no trouble. */
RULE(cumprod) {
    if (!gd_vjp_needs(v, 0)) return GD_OK;
    if (is_trivial(v)) return gd_vjp_give(v, 0, G);
    return gd_vjp_give(v, 0, BIN(mul, shifted(Y, DIM, 1), scanned(A, G, DIM, true)));
}

/* Of weights exp(y[k - 1] - y[k]), which are at most 1. Where everything so far is -inf they are 0. */
RULE(logcumsumexp) {
    if (!gd_vjp_needs(v, 0)) return GD_OK;
    if (is_trivial(v)) return gd_vjp_give(v, 0, G);
    const int dtype = gd_view_of(A)->dtype;
    gd_tensor y = gd_where(gd_with_scalar(GD_OP_eq, Y, -INFINITY, false), gd_scalar(0, 0, dtype), Y);
    gd_tensor weight = U(exp, BIN(sub, shifted(Y, DIM, -INFINITY), y));
    return gd_vjp_give(v, 0, BIN(mul, U(exp, BIN(sub, A, y)), scanned(weight, G, DIM, true)));
}

RULE(linear_scan) {
    const bool reverse = v->node->attr.i[1] != 0;
    if (is_trivial(v)) {
        GIVE(0, gd_zeros_like(A));
        GIVE(1, G);
        return GD_OK;
    }
    gd_tensor t = scanned(A, G, DIM, !reverse);
    GIVE(0, reverse ? BIN(mul, shifted(t, DIM, 0), Y) : BIN(mul, t, shifted(Y, DIM, 0)));
    GIVE(1, t);
    return GD_OK;
}

/* ---- scatter ------------------------------------------------------------------------------------------------------ */

static gd_tensor scattered(gd_tensor x, int64_t dim, gd_tensor index, gd_tensor src, int mode) {
    return GD_RECORD(scatter, (&(gd_attr){.i = {dim, mode, 1}}), x, index, src);
}

static gd_tensor number_like(gd_tensor like, double value, int dtype) {
    const gd_view *to = gd_view_of(like);
    return gd_expand(gd_full(0, NULL, dtype, value, 0), to->rank, gd_logical_shape(to));
}

/* x with 0 where something was scattered to. */
static gd_tensor cleared(gd_tensor x, int64_t dim, gd_tensor index) {
    return x ? scattered(x, dim, index, number_like(index, 0, gd_view_of(x)->dtype), GD_SCATTER_SET) : 0;
}

static gd_tensor picked(gd_tensor x, int64_t dim, gd_tensor index) { return GD_RECORD(gather, (&(gd_attr){.i = {dim}}), x, index); }

/* The part of the source that the index takes; what is computed for it grows back with zeros. */
static gd_tensor taken(gd_tensor src, gd_tensor index) {
    const gd_view *from = gd_view_of(src), *to = gd_view_of(index);
    gd_attr attr = {.i = {0, 0, 0, 0, 1, 1, 1, 1, to->shape[0], to->shape[1], to->shape[2], to->shape[3]}};
    return memcmp(from->shape, to->shape, sizeof from->shape) == 0 ? src : GD_RECORD(slice, &attr, src);
}
static gd_tensor grown(gd_tensor g, gd_tensor src) {
    if (!g) return 0;
    const gd_view *from = gd_view_of(g), *to = gd_view_of(src);
    gd_attr attr = {.i = {0}};
    if (memcmp(from->shape, to->shape, sizeof from->shape) == 0) return from->rank == to->rank ? g : gd_reshape_like(g, src);
    for (int d = 0; d < GD_DIMS; d++) attr.i[5 + d] = to->shape[d] - from->shape[d];
    return GD_RECORD(pad, &attr, g);
}

static gd_tensor is_number(gd_tensor x, double value) { return gd_with_scalar(GD_OP_eq, x, value, false); }

/* Source: the product of all others. With one zero among them only that one has a gradient. */
static gd_status product_scattered(gd_vjp *v, bool include) {
    const int dtype = gd_view_of(A)->dtype;
    gd_tensor one = gd_scalar(1, 1, dtype), src = taken(C, B);
    if (gd_vjp_needs(v, 0)) {
        gd_tensor nonzero = gd_where(is_number(A, 0), one, A);
        gd_tensor others = BIN(div, scattered(nonzero, DIM, B, src, GD_SCATTER_MUL), nonzero), g = CHAIN(G, others);
        GD_TRY(gd_vjp_give(v, 0, include ? g : cleared(g, DIM, B)));
    }
    if (!gd_vjp_needs(v, 2)) return GD_OK;
    gd_tensor start = include ? A : cleared(A, DIM, B);
    if (!include) start = scattered(A, DIM, B, number_like(B, 1, dtype), GD_SCATTER_SET);
    gd_tensor zero = is_number(src, 0), nonzero = gd_where(zero, one, src);
    gd_tensor zeros = picked(scattered(gd_zeros_like(A), DIM, B, gd_cast(zero, dtype), GD_SCATTER_ADD), DIM, B);
    gd_tensor product = picked(scattered(start, DIM, B, nonzero, GD_SCATTER_MUL), DIM, B);
    gd_tensor alone = BIN(logical_and, zero, is_number(zeros, 1));
    gd_tensor slope = gd_where(alone, product, gd_where(is_number(zeros, 0), BIN(div, product, nonzero), gd_scalar(0, 0, dtype)));
    return gd_vjp_give(v, 2, grown(CHAIN(picked(G, DIM, B), slope), C));
}

/* What equals the extreme shares evenly. */
static gd_status extreme_scattered(gd_vjp *v, bool include) {
    const int dtype = gd_view_of(A)->dtype;
    gd_tensor own = gd_cast(BIN(eq, A, Y), dtype), src = gd_cast(BIN(eq, taken(C, B), picked(Y, DIM, B)), dtype);
    if (!include) own = cleared(own, DIM, B);
    gd_tensor share = BIN(div, G, scattered(own, DIM, B, src, GD_SCATTER_ADD));
    GIVE(0, CHAIN(share, own));
    GIVE(2, grown(CHAIN(picked(share, DIM, B), src), C));
    return GD_OK;
}

RULE(scatter) {
    const int64_t mode = v->node->attr.i[1];
    const bool include = v->node->attr.i[2] != 0;
    if (gd_numel(gd_view_of(B)) == 0) {
        GIVE(0, G);
        GIVE(2, gd_zeros_like(C));
        return GD_OK;
    }
    if (mode == GD_SCATTER_MUL) return product_scattered(v, include);
    if (mode == GD_SCATTER_MAX || mode == GD_SCATTER_MIN) return extreme_scattered(v, include);
    GIVE(0, mode == GD_SCATTER_ADD && include ? G : cleared(G, DIM, B));
    GIVE(2, grown(picked(G, DIM, B), C));
    return GD_OK;
}

/* ---- vector_norm: sign(x) (|x| / norm)^(p - 1), and 0 where the norm is --------------------------------------------- */

RULE(vector_norm) {
    if (!gd_vjp_needs(v, 0)) return GD_OK;
    const int64_t mask = v->node->attr.i[0];
    const double p = v->node->attr.f[0];
    const gd_view *x = gd_view_of(A);
    gd_tensor zero = gd_scalar(0, 0, x->dtype), one = gd_scalar(1, 1, x->dtype);
    gd_tensor g = gd_undo_reduce(G, A, mask), norm = gd_undo_reduce(Y, A, mask);
    if (p == 0 || gd_numel(x) == 0) return gd_vjp_give(v, 0, gd_zeros_like(A));
    if (p == 1) return gd_vjp_give(v, 0, CHAIN(g, U(sign, A)));
    if (isinf(p)) {
        gd_tensor there = gd_cast(BIN(eq, U(abs, A), norm), x->dtype);
        return gd_vjp_give(v, 0, CHAIN(CHAIN(BIN(div, g, gd_reduce_keep(GD_OP_sum, there, mask)), there), U(sign, A)));
    }
    gd_tensor none = is_number(norm, 0), safe = gd_where(none, one, norm);
    if (p == 2) return gd_vjp_give(v, 0, CHAIN(g, gd_where(none, zero, BIN(div, A, safe))));
    if (p < 1) none = BIN(logical_or, none, is_number(A, 0));
    gd_tensor share = gd_where(none, one, BIN(div, U(abs, A), safe));
    gd_tensor slope = BIN(mul, U(sign, A), gd_with_scalar(GD_OP_pow, share, p - 1, false));
    return gd_vjp_give(v, 0, CHAIN(g, gd_where(none, zero, slope)));
}
