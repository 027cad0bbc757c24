/* vjp_arrange.c - gradients of what arranges the elements of a tensor: pad, flip, diagonal, unfold. */
#include "arrange.h"
#include "vjp.h"

#define I (v->node->attr.i)

/* Cutting undoes padding with a constant; of the other modes every copy's gradient is added up. */
RULE(pad) {
    if (!gd_vjp_needs(v, 0)) return GD_OK;
    gd_attr attr = {.i = {I[0]}};
    const bool cuts = I[0] == GD_PAD_CONSTANT;
    for (int k = 1; k <= 8; k++) attr.i[k] = cuts ? -I[k] : I[k];
    if (cuts) return gd_vjp_give(v, 0, GD_RECORD(pad, &attr, G));
    for (int d = 0; d < GD_DIMS; d++) attr.i[9 + d] = gd_view_of(A)->shape[d];
    return gd_vjp_give(v, 0, GD_RECORD(pad_bwd, &attr, G));
}

RULE(pad_bwd) {
    gd_attr attr = {.i = {I[0], I[1], I[2], I[3], I[4], I[5], I[6], I[7], I[8]}};
    GIVE(0, GD_RECORD(pad, &attr, G));
    return GD_OK;
}

RULE(flip) { GIVE(0, GD_RECORD(flip, &v->node->attr, G)); return GD_OK; }

RULE(diagonal) {
    gd_attr attr = {.i = {I[0], I[1], I[2], gd_view_of(A)->shape[I[1]], gd_view_of(A)->shape[I[2]]}};
    GIVE(0, GD_RECORD(undiagonal, &attr, G));
    return GD_OK;
}
RULE(undiagonal) { GIVE(0, GD_RECORD(diagonal, &v->node->attr, G)); return GD_OK; }

RULE(unfold) {
    const gd_view *x = gd_view_of(A);
    gd_attr attr = {.i = {I[0], I[1], I[2], x->shape[I[0]]}};
    gd_tensor d = gd_vjp_needs(v, 0) ? GD_RECORD(unfold_bwd, &attr, G) : 0;
    GIVE(0, x->rank ? d : gd_reshape(d, 0, NULL));
    return GD_OK;
}
RULE(unfold_bwd) { GIVE(0, GD_RECORD(unfold, &v->node->attr, G)); return GD_OK; }
