/* shape_attention.c - shape rules of attention and of the rotary embedding. */
#include <string.h>

#include "attention.h"
#include "rules.h"
#include "shape.h"
#include "thread.h"

static gd_status need_inputs(const gd_shape_call *c, int first, int count) {
    for (int k = first; k < first + count; k++)
        if (!c->in[k]) return gd_node_missing(0, c->name), gd_last_status();
    return GD_OK;
}

/* Inputs from `first` on are q, k, v and a mask or none. */
static gd_status check_inputs(const gd_shape_call *c, int first) {
    GD_TRY(need_inputs(c, first, 3));
    const gd_view *q = gd_in(c, first), *k = gd_in(c, first + 1), *v = gd_in(c, first + 2);
    GD_TRY(gd_shape_need_float(c, first));
    if (k->dtype != q->dtype || v->dtype != q->dtype)
        return gd_fail(GD_ERR_DTYPE, "%s: query is %s, key %s, value %s: they must have one dtype", c->name, gd_dtype_name(q->dtype), gd_dtype_name(k->dtype),
                       gd_dtype_name(v->dtype));
    if (q->rank < 2 || k->rank < 2 || v->rank < 2)
        return gd_fail(GD_ERR_SHAPE, "%s: query is %s, key %s, value %s: each must have at least two dimensions, length and size of a head", c->name,
                       gd_text_view(q), gd_text_view(k), gd_text_view(v));
    const bool fits = q->shape[0] == k->shape[0] && k->shape[0] == v->shape[0] && k->shape[1] == v->shape[1] && k->shape[2] == v->shape[2] && q->shape[3] == k->shape[3];
    if (!fits || (k->shape[1] ? q->shape[1] % k->shape[1] != 0 : q->shape[1] != 0))
        return gd_fail(GD_ERR_SHAPE,
                       "%s: query is %s, key %s, value %s: they must be (B, H, T, D), (B, Hk, S, D) and (B, Hk, S, E), with H a multiple of Hk", c->name,
                       gd_text_view(q), gd_text_view(k), gd_text_view(v));
    const gd_attr *at = c->attr;
    for (int i = GD_ATT_BEFORE; i <= GD_ATT_AFTER; i++)
        if (at->i[i] < -1 || at->i[i] > GD_ATT_LIMIT) return gd_fail(GD_ERR_VALUE, "%s: a window of %lld keys, must be from 0 to 2^30, or -1 for all", c->name, (long long)at->i[i]);
    if (!(at->f[1] >= 0 && at->f[1] <= 1)) return gd_fail(GD_ERR_VALUE, "%s: dropout_p is %g, must be in [0, 1]", c->name, at->f[1]);
    if (!c->in[first + 3]) return GD_OK;
    const gd_view *m = gd_in(c, first + 3);
    if (m->dtype != GD_BOOL && m->dtype != q->dtype && !(gd_is_half(q->dtype) && m->dtype == GD_FLOAT32))
        return gd_fail(GD_ERR_DTYPE, "%s: the mask is %s, must be bool (true: may attend) or have the query's dtype, %s (then it is added to the scores)", c->name,
                       gd_dtype_name(m->dtype), gd_dtype_name(q->dtype));
    const int64_t scores[GD_DIMS] = {q->shape[0], q->shape[1], q->shape[2], k->shape[2]};
    for (int d = 0; d < GD_DIMS; d++)
        if (m->shape[d] != scores[d] && m->shape[d] != 1)
            return gd_fail(GD_ERR_SHAPE, "%s: the mask is %s, must broadcast to the shape of the scores, %s", c->name, gd_text_view(m), gd_text_shape(GD_DIMS, scores));
    return GD_OK;
}

/* Where heads stand beside each other in memory, as after x.view(B, T, H, D).transpose(1, 2), so do those of the result. */
static void lie_like(gd_view *out, const gd_view *v) {
    if (v->shape[1] < 2 || v->shape[2] < 2 || v->strides[1] >= v->strides[2] || v->strides[1] == 0) return;
    out->strides[1] = out->shape[3];
    out->strides[2] = out->shape[1] * out->shape[3];
}

static int64_t workspace_of(const gd_view *q, const gd_view *k, const gd_view *v, bool backward) {
    return gd_parallel_width() * gd_attention_room_of(k->shape[2], q->shape[3], v->shape[3], q->dtype, backward).bytes;
}

gd_status gd_shape_attention(gd_shape_call *c) {
    GD_TRY(check_inputs(c, 0));
    const gd_view *q = gd_in(c, 0), *v = gd_in(c, 2);
    const int64_t shape[GD_DIMS] = {q->shape[0], q->shape[1], q->shape[2], v->shape[3]};
    const int first = GD_DIMS - q->rank;
    GD_TRY(gd_shape_out(c, 0, q->rank, shape + first, q->dtype));
    lie_like(&c->out[0], q);
    c->workspace = workspace_of(q, gd_in(c, 1), v, false);
    return gd_shape_out(c, 1, q->rank - 1, shape + first, gd_dtype_inside(q->dtype));
}

/* Recorded only by vjp_attention; checked so that no caller of gd_call can make a kernel leave its buffers. */
gd_status gd_shape_attention_bwd(gd_shape_call *c) {
    GD_TRY(check_inputs(c, 1));
    GD_TRY(need_inputs(c, 0, 1));
    GD_TRY(need_inputs(c, 5, 2));
    const gd_view *g = gd_in(c, 0), *q = gd_in(c, 1), *k = gd_in(c, 2), *v = gd_in(c, 3), *mask = c->in[4] ? gd_in(c, 4) : NULL, *y = gd_in(c, 5), *lse = gd_in(c, 6);
    const int64_t nothing = 0, wanted = c->attr->i[GD_ATT_WANTED];
    const bool fits = gd_same_shape(g, y) && y->shape[0] == q->shape[0] && y->shape[1] == q->shape[1] && y->shape[2] == q->shape[2] &&
                      y->shape[3] == v->shape[3] && gd_numel(lse) == q->shape[0] * q->shape[1] * q->shape[2] && gd_is_contiguous(lse) &&
                      g->dtype == q->dtype && y->dtype == q->dtype && lse->dtype == gd_dtype_inside(q->dtype);
    if (!fits || (wanted & GD_ATT_DMASK && (!mask || mask->dtype == GD_BOOL)))
        return gd_fail(GD_ERR_SHAPE, "attention_bwd: its inputs do not belong together");
    const gd_view *like[] = {q, k, v, mask};
    for (int i = 0; i < 4; i++) {
        if (!(wanted >> i & 1)) {
            GD_TRY(gd_shape_out(c, i, 1, &nothing, q->dtype));
            continue;
        }
        GD_TRY(gd_shape_like(c, i, like[i], like[i]->dtype));
        if (i < 3) lie_like(&c->out[i], like[i]);
    }
    if (c->dest) { /* for a tensor whose parts are dq, dk and dv: each lies in it as q, k or v lies in theirs */
        const char *start = q->data;
        for (int i = 1; i < 3; i++)
            if ((const char *)like[i]->data < start) start = like[i]->data;
        for (int i = 0; i < 3; i++) {
            memcpy(c->out[i].strides, like[i]->strides, sizeof like[i]->strides);
            c->out[i].data = (char *)c->dest + ((const char *)like[i]->data - start);
            c->placed |= 1u << i;
        }
    }
    c->workspace = workspace_of(q, k, v, true);
    return GD_OK;
}

gd_status gd_shape_rotary(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0);
    GD_TRY(gd_shape_need_float(c, 0));
    for (int k = 1; k < 3; k++) {
        const gd_view *v = gd_in(c, k);
        GD_TRY(gd_shape_need_same_dtype(c, 0, k));
        if (!gd_same_shape(v, gd_in(c, 1)))
            return gd_fail(GD_ERR_SHAPE, "rotary: cos is %s and sin %s: they must have one shape", gd_text_view(gd_in(c, 1)), gd_text_view(v));
        bool fits = x->rank >= 1 && 2 * v->shape[3] <= x->shape[3];
        for (int d = 0; d < 3; d++) fits &= v->shape[d] == x->shape[d] || v->shape[d] == 1;
        if (!fits)
            return gd_fail(GD_ERR_SHAPE, "rotary: input is %s, cos and sin %s: they must be (T, R) for an input (..., T, D), or broadcast so, with R at most D / 2",
                           gd_text_view(x), gd_text_view(v));
    }
    GD_TRY(gd_shape_like(c, 0, x, x->dtype));
    if (!gd_is_half(x->dtype)) lie_like(&c->out[0], x); /* of halves the engine makes what lies side by side */
    return GD_OK;
}
