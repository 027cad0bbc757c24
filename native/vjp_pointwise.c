/* vjp_pointwise.c - gradients of further elementwise ops and of std, each a few ordinary ops on the incoming gradient. */
#include <math.h>

#include "vjp.h"

#define FROM(value, x) gd_with_scalar(GD_OP_sub, x, value, true)

RULE(exp2) { GIVE(0, CHAIN(G, TIMES(Y, 0.69314718055994530942))); return GD_OK; }
RULE(log10) { GIVE(0, CHAIN(G, U(reciprocal, TIMES(A, 2.30258509299404568402)))); return GD_OK; }
RULE(tan) { GIVE(0, CHAIN(G, PLUS(U(square, Y), 1))); return GD_OK; }
RULE(asin) { GIVE(0, CHAIN(G, U(rsqrt, FROM(1, U(square, A))))); return GD_OK; }
RULE(acos) { GIVE(0, CHAIN(G, U(neg, U(rsqrt, FROM(1, U(square, A)))))); return GD_OK; }
RULE(atan) { GIVE(0, CHAIN(G, U(reciprocal, PLUS(U(square, A), 1)))); return GD_OK; }
RULE(sinh) { GIVE(0, CHAIN(G, U(cosh, A))); return GD_OK; }
RULE(cosh) { GIVE(0, CHAIN(G, U(sinh, A))); return GD_OK; }
RULE(asinh) { GIVE(0, CHAIN(G, U(rsqrt, PLUS(U(square, A), 1)))); return GD_OK; }
RULE(acosh) { GIVE(0, CHAIN(G, U(rsqrt, PLUS(U(square, A), -1)))); return GD_OK; }
RULE(atanh) { GIVE(0, CHAIN(G, U(reciprocal, FROM(1, U(square, A))))); return GD_OK; }
RULE(erfc) { GIVE(0, CHAIN(G, TIMES(U(exp, U(neg, U(square, A))), -1.12837916709551257390))); return GD_OK; }
RULE(erfinv) { GIVE(0, CHAIN(G, TIMES(U(exp, U(square, Y)), 0.88622692545275801365))); return GD_OK; }
RULE(lgamma) { GIVE(0, CHAIN(G, U(digamma, A))); return GD_OK; }
RULE(digamma) { GIVE(0, CHAIN(G, GD_RECORD(polygamma, &(gd_attr){.f = {1}}, A))); return GD_OK; }
RULE(polygamma) {
    gd_attr next = {.f = {v->node->attr.f[0] + 1}};
    GIVE(0, CHAIN(G, GD_RECORD(polygamma, &next, A)));
    return GD_OK;
}

/* ---- Pairs ------------------------------------------------------------------------------------------------------ */

RULE(fmod) {
    GIVE(0, gd_sum_to(G, A));
    if (gd_vjp_needs(v, 1)) { /* minus the quotient, from exact division: one of halves is rounded and then another integer */
        gd_tensor size = BIN(floor_divide, U(abs, A), U(abs, B));
        GIVE(1, gd_sum_to(CHAIN(G, U(neg, BIN(copysign, size, BIN(mul, U(sign, A), U(sign, B))))), B));
    }
    return GD_OK;
}

RULE(nextafter) { GIVE(0, gd_sum_to(G, A)); GIVE(1, gd_zeros_like(B)); return GD_OK; }

/* y = sign(b) |a|: the slope is y / a, and 0 where a is 0. */
RULE(copysign) {
    if (gd_vjp_needs(v, 0)) {
        gd_tensor zero = gd_with_scalar(GD_OP_eq, A, 0, false), slope = BIN(div, gd_detach(Y), gd_where(zero, gd_scalar(1, 1, gd_view_of(A)->dtype), gd_detach(A)));
        GIVE(0, gd_sum_to(CHAIN(G, gd_where(zero, gd_zeros_like(slope), slope)), A));
    }
    GIVE(1, gd_zeros_like(B));
    return GD_OK;
}

/* (b, -a) / (a^2 + b^2), 0 at the origin */
RULE(atan2) {
    gd_tensor size = BIN(add, U(square, A), U(square, B)), origin = gd_with_scalar(GD_OP_eq, size, 0, false);
    gd_tensor share = gd_where(origin, gd_zeros_like(size), U(reciprocal, size));
    GIVE(0, gd_sum_to(CHAIN(G, BIN(mul, B, share)), A));
    GIVE(1, gd_sum_to(CHAIN(G, U(neg, BIN(mul, A, share))), B));
    return GD_OK;
}

RULE(hypot) {
    GIVE(0, gd_sum_to(CHAIN(G, BIN(div, A, Y)), A));
    GIVE(1, gd_sum_to(CHAIN(G, BIN(div, B, Y)), B));
    return GD_OK;
}

/* e^a / (e^a + e^b); one half where both are the same infinity. Serves logaddexp2. */
static gd_tensor share_of(gd_vjp *v, gd_tensor a, gd_tensor b) {
    gd_tensor gap = gd_where(BIN(eq, a, b), gd_scalar(0, 0, gd_view_of(a)->dtype), BIN(sub, a, b));
    return U(sigmoid, v->node->op == GD_OP_logaddexp2 ? TIMES(gap, 0.69314718055994530942) : gap);
}
RULE(logaddexp) {
    GIVE(0, gd_sum_to(CHAIN(G, share_of(v, A, B)), A));
    GIVE(1, gd_sum_to(CHAIN(G, share_of(v, B, A)), B));
    return GD_OK;
}

/* a log b: (log b, a / b), the former 0 where a is 0 and b has no logarithm. Serves xlog1py. */
RULE(xlogy) {
    gd_tensor b = v->node->op == GD_OP_xlog1py ? PLUS(B, 1) : B;
    if (gd_vjp_needs(v, 0)) {
        gd_tensor flat = BIN(logical_and, gd_with_scalar(GD_OP_eq, A, 0, false), gd_with_scalar(GD_OP_le, b, 0, false));
        gd_tensor slope = v->node->op == GD_OP_xlog1py ? U(log1p, B) : U(log, B);
        GIVE(0, gd_sum_to(CHAIN(G, gd_where(flat, gd_zeros_like(slope), slope)), A));
    }
    GIVE(1, gd_sum_to(CHAIN(G, BIN(div, A, b)), B));
    return GD_OK;
}

/* The chosen one takes all; of a tie the first. Serves fmin. */
RULE(fmax) {
    int dtype = gd_view_of(A)->dtype;
    gd_tensor wins = v->node->op == GD_OP_fmax ? BIN(ge, A, B) : BIN(le, A, B);
    gd_tensor first = BIN(logical_or, wins, U(isnan, B));
    GIVE(0, gd_sum_to(CHAIN(G, gd_cast(first, dtype)), A));
    GIVE(1, gd_sum_to(CHAIN(G, gd_cast(U(logical_not, first), dtype)), B));
    return GD_OK;
}

/* ---- std: (x - mean) / (std (n - correction)), 0 where all elements are equal ---------------------------------- */

RULE(std) {
    if (!gd_vjp_needs(v, 0)) return GD_OK;
    const gd_view *x = gd_view_of(A);
    const int64_t mask = v->node->attr.i[0];
    double count = 1;
    for (int d = 0; d < GD_DIMS; d++)
        if (mask >> d & 1) count *= (double)x->shape[d];
    const double divisor = count - v->node->attr.f[0];
    gd_tensor y = gd_undo_reduce(Y, A, mask), flat = gd_with_scalar(GD_OP_eq, y, 0, false);
    gd_tensor centred = BIN(div, BIN(sub, A, gd_reduce_keep(GD_OP_mean, A, mask)), gd_where(flat, gd_scalar(1, 1, x->dtype), y));
    return gd_vjp_give(v, 0, CHAIN(gd_undo_reduce(G, A, mask), TIMES(centred, 1 / (divisor > 0 ? divisor : 0))));
}
