/* vjp_elementwise.c - gradients of elementwise ops, each a few ordinary ops on the incoming gradient.
 * CHAIN(g, slope) is g * slope, but exactly 0 where g is 0: an infinite slope there poisons nothing. */
#include <math.h>

#include "vjp.h"

gd_tensor gd_with_scalar(int op, gd_tensor x, double value, bool reversed) {
    gd_node *n = gd_node_of(x, gd_ops[op].name);
    if (!n) return 0;
    gd_tensor s = gd_scalar(value, (int64_t)value, gd_number_dtype(op, n->v.dtype));
    return reversed ? gd_record(op, (gd_tensor[]){s, x}, 2, NULL, NULL) : gd_record(op, (gd_tensor[]){x, s}, 2, NULL, NULL);
}

gd_tensor gd_zeros_like(gd_tensor like) {
    gd_node *n = gd_node_of(like, "zeros_like");
    return n ? gd_full(n->v.rank, gd_logical_shape(&n->v), n->v.dtype, 0, 0) : 0;
}

gd_tensor gd_sum_to(gd_tensor g, gd_tensor like) {
    gd_node *gn = gd_node_of(g, "sum_to");
    if (!gn) return 0;
    const gd_view *to = gd_view_of(like);
    int64_t mask = 0;
    for (int d = 0; d < GD_DIMS; d++)
        if (gn->v.shape[d] != to->shape[d]) mask |= 1 << d;
    if (!mask && gn->v.rank == to->rank) return g;
    if (mask) g = gd_record(GD_OP_sum, &g, 1, &(gd_attr){.i = {mask, 1}}, NULL);
    return g ? gd_reshape_like(g, like) : 0;
}

/* ---- Unary -------------------------------------------------------------------------------------------------- */

RULE(identity) { GIVE(0, G); return GD_OK; }
RULE(neg) { GIVE(0, U(neg, G)); return GD_OK; }
RULE(zero) { GIVE(0, gd_zeros_like(A)); return GD_OK; }
RULE(abs) { GIVE(0, CHAIN(G, U(sign, A))); return GD_OK; }
RULE(square) { GIVE(0, CHAIN(G, TIMES(A, 2))); return GD_OK; }
RULE(sqrt) { GIVE(0, CHAIN(G, gd_with_scalar(GD_OP_div, Y, 0.5, true))); return GD_OK; }
RULE(rsqrt) { GIVE(0, CHAIN(G, TIMES(BIN(mul, Y, U(square, Y)), -0.5))); return GD_OK; }
RULE(reciprocal) { GIVE(0, CHAIN(G, U(neg, U(square, Y)))); return GD_OK; }
RULE(exp) { GIVE(0, CHAIN(G, Y)); return GD_OK; }
RULE(expm1) { GIVE(0, CHAIN(G, PLUS(Y, 1))); return GD_OK; }
RULE(log) { GIVE(0, CHAIN(G, U(reciprocal, A))); return GD_OK; }
RULE(log1p) { GIVE(0, CHAIN(G, U(reciprocal, PLUS(A, 1)))); return GD_OK; }
RULE(log2) { GIVE(0, CHAIN(G, U(reciprocal, TIMES(A, 0.69314718055994530942)))); return GD_OK; }
RULE(sin) { GIVE(0, CHAIN(G, U(cos, A))); return GD_OK; }
RULE(cos) { GIVE(0, CHAIN(G, U(neg, U(sin, A)))); return GD_OK; }
RULE(relu) { GIVE(0, GD_RECORD(relu_bwd, NULL, G, Y)); return GD_OK; }
RULE(tanh) { GIVE(0, GD_RECORD(tanh_bwd, NULL, G, Y)); return GD_OK; }
RULE(sigmoid) { GIVE(0, GD_RECORD(sigmoid_bwd, NULL, G, Y)); return GD_OK; }
RULE(erf) { GIVE(0, CHAIN(G, TIMES(U(exp, U(neg, U(square, A))), 1.12837916709551257390))); return GD_OK; }
RULE(gelu) { GIVE(0, GD_RECORD(gelu_bwd, NULL, G, A)); return GD_OK; }
RULE(gelu_tanh) { GIVE(0, GD_RECORD(gelu_tanh_bwd, NULL, G, A)); return GD_OK; }
RULE(silu) { GIVE(0, GD_RECORD(silu_bwd, NULL, G, A)); return GD_OK; }
RULE(softplus) { GIVE(0, GD_RECORD(softplus_bwd, &v->node->attr, G, A)); return GD_OK; }
RULE(clamp) { GIVE(0, GD_RECORD(clamp_bwd, &v->node->attr, G, A)); return GD_OK; }
RULE(cast) { GIVE(0, gd_cast(G, gd_view_of(A)->dtype)); return GD_OK; }
/* the same mask again: dropout is linear */
RULE(dropout) { GIVE(0, GD_RECORD(dropout, &v->node->attr, G)); return GD_OK; }

/* slopes: (g, y) -> g f'(y); G is the gradient of the slope's result */
RULE(relu_bwd) { GIVE(0, GD_RECORD(relu_bwd, NULL, G, B)); GIVE(1, gd_zeros_like(B)); return GD_OK; }
RULE(clamp_bwd) { GIVE(0, GD_RECORD(clamp_bwd, &v->node->attr, G, B)); GIVE(1, gd_zeros_like(B)); return GD_OK; }
RULE(tanh_bwd) {
    GIVE(0, GD_RECORD(tanh_bwd, NULL, G, B));
    GIVE(1, CHAIN(G, TIMES(BIN(mul, A, B), -2)));
    return GD_OK;
}
RULE(sigmoid_bwd) {
    GIVE(0, GD_RECORD(sigmoid_bwd, NULL, G, B));
    GIVE(1, CHAIN(G, BIN(mul, A, PLUS(TIMES(B, -2), 1))));
    return GD_OK;
}

/* slopes: (g, x) -> g f'(x); the gradient of x is G g f''(x), of ordinary ops. Factors that vanish for large x stand
 * first in a CHAIN, so that no infinity meets their 0. */

/* f'' = phi(x) (2 - x^2) */
RULE(gelu_bwd) {
    GIVE(0, GD_RECORD(gelu_bwd, NULL, G, B));
    if (gd_vjp_needs(v, 1)) {
        gd_tensor square = U(square, B), density = TIMES(U(exp, TIMES(square, -0.5)), 0.39894228040143267794);
        GIVE(1, CHAIN(G, BIN(mul, A, CHAIN(density, gd_with_scalar(GD_OP_sub, square, 2, true)))));
    }
    return GD_OK;
}

/* f = x s, s = sigmoid(z), z = x (a + b x^2): f'' = s (1 - s) (2 z' + x (z'^2 (1 - 2 s) + z'')) */
RULE(gelu_tanh_bwd) {
    const double a = 1.5957691216057308, b = 0.044715 * a;
    GIVE(0, GD_RECORD(gelu_tanh_bwd, NULL, G, B));
    if (gd_vjp_needs(v, 1)) {
        gd_tensor square = U(square, B), s = U(sigmoid, BIN(mul, B, PLUS(TIMES(square, b), a)));
        gd_tensor z1 = PLUS(TIMES(square, 3 * b), a), z2 = TIMES(B, 6 * b);
        gd_tensor bend = BIN(add, BIN(mul, U(square, z1), PLUS(TIMES(s, -2), 1)), z2);
        gd_tensor rest = BIN(add, TIMES(z1, 2), BIN(mul, B, bend));
        GIVE(1, CHAIN(G, BIN(mul, A, CHAIN(BIN(mul, s, gd_with_scalar(GD_OP_sub, s, 1, true)), rest))));
    }
    return GD_OK;
}

/* f'' = s (1 - s) (2 + x (1 - 2 s)), s = sigmoid(x) */
RULE(silu_bwd) {
    GIVE(0, GD_RECORD(silu_bwd, NULL, G, B));
    if (gd_vjp_needs(v, 1)) {
        gd_tensor s = U(sigmoid, B), rest = PLUS(BIN(mul, B, PLUS(TIMES(s, -2), 1)), 2);
        GIVE(1, CHAIN(G, BIN(mul, A, CHAIN(BIN(mul, s, gd_with_scalar(GD_OP_sub, s, 1, true)), rest))));
    }
    return GD_OK;
}

/* f'' = beta s (1 - s), s = sigmoid(beta x), up to the threshold */
RULE(softplus_bwd) {
    GIVE(0, GD_RECORD(softplus_bwd, &v->node->attr, G, B));
    if (gd_vjp_needs(v, 1)) {
        const double beta = v->node->attr.f[0], threshold = v->node->attr.f[1];
        gd_tensor z = TIMES(B, beta), s = U(sigmoid, z);
        gd_tensor bend = TIMES(BIN(mul, s, gd_with_scalar(GD_OP_sub, s, 1, true)), beta);
        gd_tensor line = gd_with_scalar(GD_OP_gt, z, threshold, false);
        GIVE(1, CHAIN(G, BIN(mul, A, gd_where(line, gd_zeros_like(bend), bend))));
    }
    return GD_OK;
}

/* leaky_relu, elu, hardtanh, hardswish, mish and log_sigmoid: the rules of their slopes are in vjp_activation.c */
RULE(leaky_relu) { GIVE(0, GD_RECORD(leaky_relu_bwd, &v->node->attr, G, A)); return GD_OK; }
RULE(elu) { GIVE(0, GD_RECORD(elu_bwd, &v->node->attr, G, A)); return GD_OK; }
RULE(hardtanh) { GIVE(0, GD_RECORD(hardtanh_bwd, &v->node->attr, G, A)); return GD_OK; }
RULE(hardswish) { GIVE(0, GD_RECORD(hardswish_bwd, NULL, G, A)); return GD_OK; }
RULE(mish) { GIVE(0, GD_RECORD(mish_bwd, NULL, G, A)); return GD_OK; }
RULE(log_sigmoid) { GIVE(0, GD_RECORD(log_sigmoid_bwd, NULL, G, A)); return GD_OK; }

/* ---- Binary ----------------------------------------------------------------------------------------------------- */

RULE(add) { GIVE(0, gd_sum_to(G, A)); GIVE(1, gd_sum_to(G, B)); return GD_OK; }
RULE(sub) { GIVE(0, gd_sum_to(G, A)); GIVE(1, gd_sum_to(U(neg, G), B)); return GD_OK; }
RULE(zero2) { GIVE(0, gd_zeros_like(A)); GIVE(1, gd_zeros_like(B)); return GD_OK; }

RULE(mul) {
    GIVE(0, gd_sum_to(CHAIN(G, B), A));
    GIVE(1, gd_sum_to(CHAIN(G, A), B));
    return GD_OK;
}

RULE(chain) {
    GIVE(0, gd_sum_to(CHAIN(G, B), A));
    GIVE(1, gd_sum_to(CHAIN(G, A), B));
    return GD_OK;
}

RULE(div) {
    GIVE(0, gd_sum_to(CHAIN(G, U(reciprocal, B)), A));
    GIVE(1, gd_sum_to(CHAIN(G, U(neg, BIN(div, Y, B))), B));
    return GD_OK;
}

/* d a^b/da = b a^(b-1), but 0 where b is 0; d a^b/db = a^b log a, but 0 where a is 0 and b >= 0 */
RULE(pow) {
    if (gd_vjp_needs(v, 0)) {
        gd_tensor slope = BIN(mul, B, BIN(pow, A, PLUS(B, -1)));
        GIVE(0, gd_sum_to(CHAIN(G, gd_where(gd_with_scalar(GD_OP_eq, B, 0, false), gd_zeros_like(B), slope)), A));
    }
    if (gd_vjp_needs(v, 1)) {
        gd_tensor flat = BIN(logical_and, gd_with_scalar(GD_OP_eq, A, 0, false), gd_with_scalar(GD_OP_ge, B, 0, false));
        GIVE(1, gd_sum_to(CHAIN(G, gd_where(flat, gd_zeros_like(B), BIN(mul, Y, U(log, A)))), B));
    }
    return GD_OK;
}

RULE(remainder) {
    GIVE(0, gd_sum_to(G, A));
    GIVE(1, gd_sum_to(CHAIN(G, U(neg, BIN(floor_divide, A, B))), B));
    return GD_OK;
}

/* 1 for who does not lose, 1/2 each for a tie; 1 for both where one is NaN, as in PyTorch */
static gd_tensor share(gd_tensor loses_or_ties, gd_tensor tie, int dtype) {
    return BIN(add, gd_cast(U(logical_not, loses_or_ties), dtype), TIMES(gd_cast(tie, dtype), 0.5));
}

RULE(maximum) {
    int loses = v->node->op == GD_OP_maximum ? GD_OP_le : GD_OP_ge, dtype = gd_view_of(A)->dtype;
    gd_tensor tie = BIN(eq, A, B);
    GIVE(0, gd_sum_to(CHAIN(G, share(gd_binary(loses, A, B), tie, dtype)), A));
    GIVE(1, gd_sum_to(CHAIN(G, share(gd_binary(loses, B, A), tie, dtype)), B));
    return GD_OK;
}

RULE(where) {
    GIVE(1, gd_sum_to(gd_where(A, G, gd_zeros_like(G)), B));
    GIVE(2, gd_sum_to(gd_where(A, gd_zeros_like(G), G), C));
    return GD_OK;
}
