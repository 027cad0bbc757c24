/* vjp_norm.c - gradients of layer norm and RMS norm. */
#include "norm.h"
#include "vjp.h"

/* As ordinary ops, each with its own gradient. The mean is subtracted twice, because the first one is rounded to x's
 * dtype: what is left of a large mean goes with the second. */
static gd_status norm_as_ops(gd_vjp *v, bool centred) {
    const int64_t mask = gd_norm_mask(v->node->attr.i[0]);
    gd_tensor d = A;
    for (int pass = 0; centred && pass < 2; pass++) d = BIN(sub, d, gd_reduce_keep(GD_OP_mean, d, mask));
    gd_tensor scale = U(rsqrt, PLUS(gd_reduce_keep(GD_OP_mean, U(square, d), mask), v->node->attr.f[0]));
    gd_tensor normal = BIN(mul, d, scale);
    if (gd_vjp_needs(v, 0)) {
        gd_tensor gw = B ? CHAIN(G, B) : G, slope = BIN(mul, normal, gd_reduce_keep(GD_OP_mean, BIN(mul, gw, normal), mask));
        if (centred) slope = BIN(add, slope, gd_reduce_keep(GD_OP_mean, gw, mask));
        GIVE(0, BIN(mul, scale, BIN(sub, gw, slope)));
    }
    if (v->node->nin > 1 && gd_vjp_needs(v, 1)) GIVE(1, gd_sum_to(BIN(mul, G, normal), B));
    if (v->node->nin > 2 && gd_vjp_needs(v, 2)) GIVE(2, gd_sum_to(G, C));
    return GD_OK;
}

static gd_status norm(gd_vjp *v, int backward, bool centred) {
    const int outputs = centred ? 3 : 2;
    if (v->g[1]) return gd_fail(GD_ERR, "%s: only the result has a gradient, not the statistics saved for backward", gd_ops[v->node->op].name);
    if (!G) return GD_OK;
    if (v->create_graph) return norm_as_ops(v, centred);
    gd_attr attr = v->node->attr;
    attr.i[1] = 0;
    for (int k = 1; k < outputs; k++)
        if (gd_vjp_needs(v, k) && gd_node_peek(v->node->in[k])->v.dtype != gd_node_peek(A)->v.dtype) attr.i[2] = 1;
    for (int k = 0; k < outputs; k++)
        if (gd_vjp_needs(v, k)) attr.i[1] |= (int64_t)1 << k;
    gd_tensor d = gd_record(backward, (gd_tensor[]){G, A, B, gd_output(Y, 1)}, 4, &attr, NULL);
    for (int k = 0; k < outputs; k++) GIVE(k, d && k ? gd_output(d, k) : d);
    return GD_OK;
}

RULE(layer_norm) { return norm(v, GD_OP_layer_norm_bwd, true); }
RULE(rms_norm) { return norm(v, GD_OP_rms_norm_bwd, false); }
