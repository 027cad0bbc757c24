/* vjp_pool.c - gradients of pooling, resizing and pixel shuffle: each is linear, or picks, so that its gradient's
 * gradient is the op itself. */
#include "pool.h"
#include "resize.h"
#include "vjp.h"

RULE(max_pool) {
    if (!G || !gd_vjp_needs(v, 0)) return GD_OK;
    const gd_view *x = gd_view_of(A);
    gd_attr attr = {.i = {x->shape[2], x->shape[3], [GD_POOL_DIMS] = v->node->attr.i[GD_POOL_DIMS]}};
    return gd_vjp_give(v, 0, GD_RECORD(max_pool_bwd, &attr, G, gd_output(Y, 1)));
}

/* Planes as one dimension, which places within a plane count. */
static gd_tensor flat(gd_tensor t, bool planar) {
    const gd_view *x = t ? gd_view_of(t) : NULL;
    if (!x || !planar) return t;
    int64_t shape[GD_DIMS] = {x->shape[0], x->shape[1], x->shape[2] * x->shape[3]};
    return gd_reshape(t, x->rank - 1, shape + GD_DIMS - x->rank);
}

/* What went to an index comes from there. */
RULE(max_pool_bwd) {
    const bool planar = v->node->attr.i[GD_POOL_DIMS] != 1;
    if (!gd_vjp_needs(v, 0)) return GD_OK;
    gd_tensor index = flat(B, planar), g = index ? flat(G, planar) : 0;
    return gd_vjp_give(v, 0, g ? gd_reshape_like(gd_gather(g, -1, index), A) : 0);
}

RULE(avg_pool) {
    gd_attr attr = v->node->attr;
    attr.i[GD_POOL_INPUT] = gd_view_of(A)->shape[2], attr.i[GD_POOL_INPUT + 1] = gd_view_of(A)->shape[3];
    GIVE(0, GD_RECORD(avg_pool_bwd, &attr, G));
    return GD_OK;
}

RULE(avg_pool_bwd) { GIVE(0, GD_RECORD(avg_pool, &v->node->attr, G)); return GD_OK; }

RULE(resize) {
    gd_attr attr = v->node->attr;
    attr.i[GD_RESIZE_INPUT] = gd_view_of(A)->shape[2], attr.i[GD_RESIZE_INPUT + 1] = gd_view_of(A)->shape[3];
    GIVE(0, GD_RECORD(resize_bwd, &attr, G));
    return GD_OK;
}

RULE(resize_bwd) { GIVE(0, GD_RECORD(resize, &v->node->attr, G)); return GD_OK; }

RULE(pixel_shuffle) {
    GIVE(0, gd_pixel_shuffle(G, v->node->attr.i[0], !v->node->attr.i[1]));
    return GD_OK;
}
