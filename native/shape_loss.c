/* shape_loss.c - shape rules of losses over pairs of tensors and of the negative log-likelihood. */
#include "rules.h"
#include "shape.h"

static gd_status need_reduction(const gd_shape_call *c, int k) {
    if (c->attr->i[k] >= 0 && c->attr->i[k] <= 2) return GD_OK;
    return gd_fail(GD_ERR_VALUE, "%s: reduction must be none, mean or sum", c->name);
}

/* (x, y) of one shape */
gd_status gd_shape_pair_loss(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0), *y = gd_in(c, 1);
    GD_TRY(gd_shape_need_float(c, 0));
    GD_TRY(gd_shape_need_same_dtype(c, 0, 1));
    GD_TRY(need_reduction(c, 0));
    if (!gd_same_shape(x, y) || x->rank != y->rank)
        return gd_fail(GD_ERR_SHAPE, "%s: input has shape %s and target %s: they must be equal", c->name, gd_text_view(x), gd_text_view(y));
    if (c->attr->i[0] == 0) return gd_shape_like(c, 0, x, x->dtype);
    return gd_shape_out(c, 0, 0, NULL, x->dtype);
}

/* (g, x, y) */
gd_status gd_shape_pair_loss_bwd(gd_shape_call *c) {
    const gd_view *g = gd_in(c, 0), *x = gd_in(c, 1);
    GD_TRY(gd_shape_need_float(c, 1));
    GD_TRY(gd_shape_need_same_dtype(c, 1, 2));
    GD_TRY(gd_shape_need_same_dtype(c, 1, 0));
    GD_TRY(need_reduction(c, 0));
    if (!gd_same_shape(x, gd_in(c, 2)) || (gd_numel(g) != 1 && !gd_same_shape(g, x)))
        return gd_fail(GD_ERR_SHAPE, "%s: shapes %s, %s and %s do not belong together", c->name, gd_text_view(g), gd_text_view(x), gd_text_view(gd_in(c, 2)));
    return gd_shape_like(c, 0, x, x->dtype);
}

/* Log-probabilities x (N, C), target (N), weight (C) or absent, as inputs k, k + 1 and k + 2. */
static gd_status need_classes(gd_shape_call *c, int k) {
    const gd_view *x = gd_in(c, k), *t = gd_in(c, k + 1);
    GD_TRY(gd_shape_need_float(c, k));
    GD_TRY(gd_shape_need_int64(c, k + 1));
    GD_TRY(need_reduction(c, 1));
    if (x->rank != 2 || t->rank != 1 || t->shape[3] != x->shape[2])
        return gd_fail(GD_ERR_SHAPE, "%s: input has shape %s, target %s: they must be (N, C) and (N,)", c->name, gd_text_view(x), gd_text_view(t));
    if (c->in[k + 2]) {
        const gd_view *w = gd_in(c, k + 2);
        GD_TRY(gd_shape_need_same_dtype(c, k, k + 2));
        if (w->rank != 1 || w->shape[3] != x->shape[3])
            return gd_fail(GD_ERR_SHAPE, "%s: weight has shape %s, must be (%lld,): one per class", c->name, gd_text_view(w), (long long)x->shape[3]);
    }
    return gd_shape_check_range(c, t, 0, x->shape[3], c->attr->i[0], "label");
}

gd_status gd_shape_nll_loss(gd_shape_call *c) {
    if (!c->in[0] || !c->in[1]) return gd_node_missing(0, c->name), gd_last_status();
    GD_TRY(need_classes(c, 0));
    const gd_view *x = gd_in(c, 0);
    GD_TRY(gd_shape_out(c, 0, c->attr->i[1] == 0 ? 1 : 0, x->shape + 2, x->dtype));
    return gd_shape_out(c, 1, 0, NULL, gd_dtype_inside(x->dtype));
}

/* (g, x, target, weight?, normaliser) */
gd_status gd_shape_nll_loss_bwd(gd_shape_call *c) {
    for (int k = 0; k < 5; k++)
        if (k != 3 && !c->in[k]) return gd_node_missing(0, c->name), gd_last_status();
    GD_TRY(need_classes(c, 1));
    GD_TRY(gd_shape_need_same_dtype(c, 1, 0));
    const gd_view *g = gd_in(c, 0), *x = gd_in(c, 1), *norm = gd_in(c, 4);
    if (gd_numel(g) != (c->attr->i[1] == 0 ? x->shape[2] : 1) || gd_numel(norm) != 1 || norm->dtype != gd_dtype_inside(x->dtype))
        return gd_fail(GD_ERR_SHAPE, "%s: its inputs do not belong together", c->name);
    return gd_shape_like(c, 0, x, x->dtype);
}
