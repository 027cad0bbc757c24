/* vjp_loss.c - gradients of losses over pairs of tensors and of the negative log-likelihood.
 * A loss and its slope are l(x, y) and k g l'(x, y), with k = 1/n for mean, else 1. */
#include <math.h>

#include "vjp.h"

/* The factor of a slope op, whose reduction is i[0]. */
static double share(const gd_vjp *v) { return v->node->attr.i[0] == 1 ? 1 / (double)gd_numel(gd_view_of(B)) : 1; }

/* The gradient of x from its slope op; of y what is given. */
#define PAIR(slope) gd_record(slope, (gd_tensor[]){G, A, B}, 3, &v->node->attr, NULL)

/* g, with its dimensions, times k: what flows into each element of a loss whose reduction is i[0]. */
static gd_tensor each(const gd_vjp *v) {
    return v->node->attr.i[0] == 1 ? TIMES(G, 1 / (double)gd_numel(gd_view_of(A))) : G;
}

/* l = (x - y)^2 */
RULE(mse_loss) {
    if (!gd_vjp_needs(v, 0) && !gd_vjp_needs(v, 1)) return GD_OK;
    gd_tensor d = PAIR(GD_OP_mse_loss_bwd);
    GIVE(0, d);
    GIVE(1, U(neg, d));
    return GD_OK;
}

/* r = 2 k g (x - y) */
RULE(mse_loss_bwd) {
    double k = 2 * share(v);
    GIVE(0, gd_sum_to(TIMES(BIN(mul, G, BIN(sub, B, C)), k), A));
    if (!gd_vjp_needs(v, 1) && !gd_vjp_needs(v, 2)) return GD_OK;
    gd_tensor d = TIMES(BIN(mul, G, A), k);
    GIVE(1, d);
    GIVE(2, U(neg, d));
    return GD_OK;
}

RULE(smooth_l1_loss) {
    if (!gd_vjp_needs(v, 0) && !gd_vjp_needs(v, 1)) return GD_OK;
    gd_tensor d = PAIR(GD_OP_smooth_l1_loss_bwd);
    GIVE(0, d);
    GIVE(1, U(neg, d));
    return GD_OK;
}

/* r = k g s(x - y), where s is linear up to beta and constant from there on */
RULE(smooth_l1_loss_bwd) {
    const double beta = v->node->attr.f[0], k = share(v);
    const bool huber = v->node->attr.i[1] != 0;
    gd_tensor d = BIN(sub, B, C), size = U(abs, d), inside = gd_with_scalar(GD_OP_lt, size, beta, false);
    gd_tensor line = huber ? d : TIMES(d, 1 / beta), flat = huber ? TIMES(U(sign, d), beta) : U(sign, d);
    GIVE(0, gd_sum_to(TIMES(BIN(mul, G, gd_where(inside, line, flat)), k), A));
    if (!gd_vjp_needs(v, 1) && !gd_vjp_needs(v, 2)) return GD_OK;
    gd_tensor bend = TIMES(BIN(mul, G, A), huber ? k : k / beta), r = gd_where(inside, bend, gd_zeros_like(bend));
    GIVE(1, r);
    GIVE(2, U(neg, r));
    return GD_OK;
}

/* l = max(x, 0) - x y + log(1 + exp(-|x|)); dl/dy = -x */
RULE(binary_cross_entropy_with_logits) {
    GIVE(0, PAIR(GD_OP_binary_cross_entropy_with_logits_bwd));
    GIVE(1, CHAIN(each(v), U(neg, A)));
    return GD_OK;
}

/* r = k g (sigmoid(x) - y) */
RULE(binary_cross_entropy_with_logits_bwd) {
    const double k = share(v);
    gd_tensor s = U(sigmoid, B);
    GIVE(0, gd_sum_to(TIMES(BIN(mul, G, BIN(sub, s, C)), k), A));
    GIVE(1, TIMES(BIN(mul, BIN(mul, G, A), BIN(mul, s, gd_with_scalar(GD_OP_sub, s, 1, true))), k));
    GIVE(2, TIMES(BIN(mul, G, A), -k));
    return GD_OK;
}

/* l = -(y log x + (1 - y) log(1 - x)), logarithms at least -100; dl/dy = log(1 - x) - log x */
RULE(binary_cross_entropy) {
    GIVE(0, PAIR(GD_OP_binary_cross_entropy_bwd));
    if (gd_vjp_needs(v, 1)) {
        gd_tensor no = gd_clamp(U(log1p, U(neg, A)), -100, INFINITY), yes = gd_clamp(U(log, A), -100, INFINITY);
        GIVE(1, CHAIN(each(v), BIN(sub, no, yes)));
    }
    return GD_OK;
}

/* r = k g (x - y) / max(x (1 - x), 1e-12) */
RULE(binary_cross_entropy_bwd) {
    const double k = share(v), least = 1e-12f;
    gd_tensor d = BIN(sub, B, C), spread = BIN(mul, B, gd_with_scalar(GD_OP_sub, B, 1, true)), w = U(reciprocal, gd_clamp(spread, least, INFINITY));
    GIVE(0, gd_sum_to(TIMES(BIN(mul, G, BIN(mul, d, w)), k), A));
    if (!gd_vjp_needs(v, 1) && !gd_vjp_needs(v, 2)) return GD_OK;
    gd_tensor g = TIMES(BIN(mul, G, A), k);
    GIVE(2, U(neg, BIN(mul, g, w)));
    if (gd_vjp_needs(v, 1)) {
        gd_tensor tilt = BIN(mul, BIN(mul, d, U(square, w)), PLUS(TIMES(B, -2), 1)), bent = gd_with_scalar(GD_OP_ge, spread, least, false);
        GIVE(1, BIN(mul, g, BIN(sub, w, gd_where(bent, tilt, gd_zeros_like(tilt)))));
    }
    return GD_OK;
}

/* Linear in the log-probabilities. */
RULE(nll_loss) {
    if (v->g[1]) return gd_fail(GD_ERR, "nll_loss: only the loss has a gradient, not the normaliser saved for backward");
    if (C && gd_vjp_needs(v, 2)) return gd_fail(GD_ERR, "nll_loss: its gradient with respect to the class weights is not available; detach them");
    GIVE(0, gd_record(GD_OP_nll_loss_bwd, (gd_tensor[]){G, A, B, C, gd_output(Y, 1)}, 5, &v->node->attr, NULL));
    return GD_OK;
}
RULE(nll_loss_bwd) {
    const gd_tensor *in = v->node->in;
    if (gd_vjp_needs(v, 1)) GD_TRY(gd_vjp_give(v, 1, gd_zeros_like(in[1])));
    GIVE(0, gd_reshape_like(gd_record(GD_OP_nll_loss, (gd_tensor[]){G, in[2], in[3]}, 3, &v->node->attr, NULL), A));
    return GD_OK;
}
