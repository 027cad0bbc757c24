/* shape_channel_norm.c - shape rules of batch norm and group norm. */
#include "channel_norm.h"
#include "rules.h"
#include "shape.h"

static gd_status need_channels(const gd_shape_call *c, int k) {
    GD_TRY(gd_shape_need_float(c, k));
    if (gd_in(c, k)->rank < 2)
        return gd_fail(GD_ERR_SHAPE, "%s: the input has shape %s, but must have at least two dimensions: (N, C, ...)", c->name, gd_text_view(gd_in(c, k)));
    return GD_OK;
}

/* Input k, if there, holds one number per channel: of x's dtype, or float32 beside halves. */
static gd_status check_channels(const gd_shape_call *c, const gd_view *x, int k, const char *what) {
    if (k >= c->nin || !c->in[k]) return GD_OK;
    const gd_view *p = gd_in(c, k);
    const int64_t channels = x->shape[GD_DIMS - x->rank + 1];
    if (p->dtype != x->dtype && p->dtype != gd_dtype_inside(x->dtype))
        return gd_fail(GD_ERR_DTYPE, "%s: input is %s, %s is %s: they must have one dtype (a float32 %s fits bfloat16 and float16, too)", c->name,
                       gd_dtype_name(x->dtype), what, gd_dtype_name(p->dtype), what);
    if (p->rank != 1 || p->shape[3] != channels)
        return gd_fail(GD_ERR_SHAPE, "%s: %s has shape %s, must be (%lld,): one per channel of the input, %s", c->name, what, gd_text_view(p),
                       (long long)channels, gd_text_view(x));
    return GD_OK;
}

static gd_status forward(gd_shape_call *c, int64_t groups) {
    const gd_view *x = gd_in(c, 0);
    const gd_channels channels = gd_channels_of(x);
    GD_TRY(check_channels(c, x, 1, "weight"));
    GD_TRY(check_channels(c, x, 2, "bias"));
    GD_TRY(gd_shape_like(c, 0, x, x->dtype));
    c->workspace = gd_channel_workspace(&channels, groups, 2);
    return gd_shape_out(c, 1, 2, (int64_t[]){groups ? channels.n * groups : channels.c, GD_STATISTICS}, GD_FLOAT64);
}

gd_status gd_shape_batch_norm(gd_shape_call *c) {
    if (!c->in[0]) return gd_node_missing(0, c->name), gd_last_status();
    GD_TRY(need_channels(c, 0));
    GD_TRY(check_channels(c, gd_in(c, 0), 3, "running_mean"));
    GD_TRY(check_channels(c, gd_in(c, 0), 4, "running_var"));
    if (!c->attr->i[0] && (!c->in[3] || !c->in[4]))
        return gd_fail(GD_ERR_VALUE, "batch_norm: running_mean and running_var must be given where the input's own statistics are not used");
    return forward(c, 0);
}

static gd_status need_groups(const gd_shape_call *c, const gd_view *x) {
    const int64_t groups = c->attr->i[0], channels = x->shape[GD_DIMS - x->rank + 1];
    if (groups < 1) return gd_fail(GD_ERR_VALUE, "%s: %lld groups: there must be at least one", c->name, (long long)groups);
    if (channels % groups)
        return gd_fail(GD_ERR_SHAPE, "%s: the input of shape %s has %lld channels, which %lld groups cannot share evenly", c->name, gd_text_view(x),
                       (long long)channels, (long long)groups);
    return GD_OK;
}

gd_status gd_shape_group_norm(gd_shape_call *c) {
    if (!c->in[0]) return gd_node_missing(0, c->name), gd_last_status();
    GD_TRY(need_channels(c, 0));
    GD_TRY(need_groups(c, gd_in(c, 0)));
    return forward(c, c->attr->i[0]);
}

/* Recorded only by vjp_channel_norm. */
gd_status gd_shape_channel_norm_bwd(gd_shape_call *c) {
    if (!c->in[0] || !c->in[1] || !c->in[3]) return gd_node_missing(0, c->name), gd_last_status();
    GD_TRY(need_channels(c, 1));
    GD_TRY(gd_shape_need_same_dtype(c, 1, 0));
    const gd_view *x = gd_in(c, 1), *statistics = gd_in(c, 3);
    const int64_t groups = c->op == GD_OP_group_norm_bwd ? c->attr->i[0] : 0, wanted = c->attr->i[1], dtype = c->attr->i[2], nothing = 0;
    if (c->op == GD_OP_group_norm_bwd) GD_TRY(need_groups(c, x));
    GD_TRY(check_channels(c, x, 2, "weight"));
    const gd_channels channels = gd_channels_of(x);
    const int64_t segments = groups ? channels.n * groups : channels.c;
    if (!gd_same_shape(x, gd_in(c, 0)) || statistics->dtype != GD_FLOAT64 || statistics->rank != 2 || statistics->shape[2] != segments ||
        statistics->shape[3] != GD_STATISTICS || !gd_is_contiguous(statistics) || dtype < 0 || dtype >= GD_DTYPES || gd_dtype_inside((int)dtype) != gd_dtype_inside(x->dtype))
        return gd_fail(GD_ERR_SHAPE, "%s: its inputs do not belong together", c->name);
    c->workspace = gd_channel_workspace(&channels, groups, 3);
    GD_TRY(wanted & GD_NORM_DX ? gd_shape_like(c, 0, x, x->dtype) : gd_shape_out(c, 0, 1, &nothing, x->dtype));
    for (int k = 1; k < c->nout; k++) GD_TRY(gd_shape_out(c, k, 1, wanted >> k & 1 ? &channels.c : &nothing, (int)dtype));
    return GD_OK;
}
