/* vjp_channel_norm.c - gradients of batch norm and group norm. */
#include "channel_norm.h"
#include "vjp.h"

/* One number per channel, to be broadcast with x. */
static gd_tensor per_channel(gd_tensor p, const gd_view *x) {
    const int64_t channels = x->shape[GD_DIMS - x->rank + 1];
    p = gd_cast(p, x->dtype);
    return p ? gd_reshape(p, x->rank - 1, (int64_t[]){channels, 1, 1}) : 0;
}

/* The sum over all but the channels, in the dtype of the parameter. */
static gd_tensor sum_channels(gd_tensor t, gd_tensor parameter) {
    const gd_view *v = t ? gd_view_of(t) : NULL;
    if (!v) return 0;
    const int64_t all = 0xF & ~((1 << (GD_DIMS - v->rank)) - 1), mask = all & ~(1 << (GD_DIMS - v->rank + 1));
    gd_tensor sum = gd_record(GD_OP_sum, &t, 1, &(gd_attr){.i = {mask, 0}}, NULL);
    return sum ? gd_cast(sum, gd_view_of(parameter)->dtype) : 0;
}

/* Column k of the statistics in x's dtype, one per channel. */
static gd_tensor column(gd_vjp *v, int64_t k, const gd_view *x) {
    gd_tensor statistics = gd_detach(gd_output(Y, 1));
    return per_channel(gd_select(statistics, 1, k), x);
}

/* As ordinary ops, each with its own gradient. The mean is subtracted twice, because the first one is rounded to x's
 * dtype: what is left of a large mean goes with the second. */
static gd_status as_ops(gd_vjp *v, bool group, bool own) {
    const gd_view *x = gd_view_of(A);
    const int64_t all = 0xF & ~((1 << (GD_DIMS - x->rank)) - 1);
    gd_tensor d = A, gw = B ? CHAIN(G, per_channel(B, x)) : G, scale, normal;
    int64_t mask = all & ~(1 << (GD_DIMS - x->rank + 1));
    if (group) { /* (N, groups, all of a group) */
        const int64_t samples = x->shape[GD_DIMS - x->rank], groups = v->node->attr.i[0], shape[] = {samples, groups, gd_numel(x) ? gd_numel(x) / (samples * groups) : 0};
        d = gd_reshape(d, 3, shape);
        gw = gw ? gd_reshape(gw, 3, shape) : 0;
        mask = 1 << 3;
    }
    if (own) {
        for (int pass = 0; pass < 2; pass++) d = BIN(sub, d, gd_reduce_keep(GD_OP_mean, d, mask));
        scale = U(rsqrt, PLUS(gd_reduce_keep(GD_OP_mean, U(square, d), mask), v->node->attr.f[0]));
    } else {
        scale = column(v, 1, x);
        d = BIN(sub, d, column(v, 0, x));
    }
    normal = BIN(mul, d, scale);
    if (gd_vjp_needs(v, 0)) {
        gd_tensor dx = gw;
        if (own) dx = BIN(sub, gw, BIN(add, BIN(mul, normal, gd_reduce_keep(GD_OP_mean, BIN(mul, gw, normal), mask)), gd_reduce_keep(GD_OP_mean, gw, mask)));
        dx = BIN(mul, scale, dx);
        GIVE(0, group && dx ? gd_reshape_like(dx, A) : dx);
    }
    if (gd_vjp_needs(v, 1)) GIVE(1, sum_channels(BIN(mul, G, group && normal ? gd_reshape_like(normal, A) : normal), B));
    if (gd_vjp_needs(v, 2)) GIVE(2, sum_channels(G, C));
    return GD_OK;
}

RULE(channel_norm) {
    const bool group = v->node->op == GD_OP_group_norm;
    if (v->g[1]) return gd_fail(GD_ERR, "%s: only the result has a gradient, not the statistics saved for backward", gd_ops[v->node->op].name);
    if (!G) return GD_OK;
    if (v->create_graph) return as_ops(v, group, group || v->node->attr.i[0]);
    const gd_tensor parameter = B ? B : C;
    gd_attr attr = v->node->attr;
    attr.i[1] = 0;
    attr.i[2] = gd_view_of(parameter ? parameter : A)->dtype;
    for (int k = 0; k < 3; k++)
        if (gd_vjp_needs(v, k)) attr.i[1] |= (int64_t)1 << k;
    gd_tensor d = gd_record(group ? GD_OP_group_norm_bwd : GD_OP_batch_norm_bwd, (gd_tensor[]){G, A, B, gd_output(Y, 1)}, 4, &attr, NULL);
    GIVE(0, d);
    for (int k = 1; k < 3; k++)
        if (gd_vjp_needs(v, k)) GIVE(k, d ? gd_cast(gd_output(d, k), gd_view_of(v->node->in[k])->dtype) : 0);
    return GD_OK;
}
