/* vjp_activation.c - gradients of the slopes (g, x) -> g f'(x): that of g is the same slope, that of x is G g f''(x) of
 * ordinary ops. Factors that vanish for large x stand first in a CHAIN, so that no infinity meets their 0. */
#include "vjp.h"

RULE(leaky_relu_bwd) { GIVE(0, GD_RECORD(leaky_relu_bwd, &v->node->attr, G, B)); GIVE(1, gd_zeros_like(B)); return GD_OK; }
RULE(hardtanh_bwd) { GIVE(0, GD_RECORD(hardtanh_bwd, &v->node->attr, G, B)); GIVE(1, gd_zeros_like(B)); return GD_OK; }

/* f'' = 1/3 within (-3, 3) */
RULE(hardswish_bwd) {
    GIVE(0, GD_RECORD(hardswish_bwd, NULL, G, B));
    if (gd_vjp_needs(v, 1)) {
        gd_tensor inside = gd_with_scalar(GD_OP_lt, U(abs, B), 3, false), bend = TIMES(A, 1.0 / 3);
        GIVE(1, CHAIN(G, gd_where(inside, bend, gd_zeros_like(bend))));
    }
    return GD_OK;
}

/* f'' = alpha scale rate^2 exp(rate x) below 0 */
RULE(elu_bwd) {
    GIVE(0, GD_RECORD(elu_bwd, &v->node->attr, G, B));
    if (gd_vjp_needs(v, 1)) {
        const double alpha = v->node->attr.f[0], rate = v->node->attr.i[0] ? 1 / alpha : 1;
        gd_tensor above = gd_with_scalar(GD_OP_gt, B, 0, false);
        gd_tensor bend = TIMES(U(exp, TIMES(B, rate)), alpha * v->node->attr.f[1] * rate * rate);
        GIVE(1, CHAIN(G, BIN(mul, A, gd_where(above, gd_zeros_like(bend), bend))));
    }
    return GD_OK;
}

/* f = x t, t = tanh(softplus(x)), s = sigmoid(x): f'' = s (1 - t^2) (2 + x (1 - s - 2 t s)) */
RULE(mish_bwd) {
    GIVE(0, GD_RECORD(mish_bwd, NULL, G, B));
    if (gd_vjp_needs(v, 1)) {
        gd_attr plain = {.f = {1, 20}};
        gd_tensor s = U(sigmoid, B), t = U(tanh, GD_RECORD(softplus, &plain, B));
        gd_tensor weight = BIN(mul, s, gd_with_scalar(GD_OP_sub, U(square, t), 1, true));
        gd_tensor bend = gd_with_scalar(GD_OP_sub, BIN(add, s, TIMES(BIN(mul, t, s), 2)), 1, true);
        GIVE(1, CHAIN(G, BIN(mul, A, CHAIN(weight, PLUS(BIN(mul, B, bend), 2)))));
    }
    return GD_OK;
}

/* f' = sigmoid(-x): f'' = -s (1 - s), s = sigmoid(x) */
RULE(log_sigmoid_bwd) {
    GIVE(0, GD_RECORD(log_sigmoid_bwd, NULL, G, B));
    if (gd_vjp_needs(v, 1)) {
        gd_tensor s = U(sigmoid, B);
        GIVE(1, CHAIN(G, BIN(mul, A, BIN(mul, s, PLUS(s, -1)))));
    }
    return GD_OK;
}
