/* vjp_conv.c - gradients of convolutions. The three ops are linear in each of their inputs, and the gradients of each
 * are the other two, so that derivatives of any order follow. */
#include "vjp.h"

/* With i[9..10], the sizes that the op to be recorded cannot see, from the height and width of a tensor. */
static gd_attr attributes(const gd_vjp *v, gd_tensor sizes) {
    gd_attr attr = v->node->attr;
    attr.i[9] = gd_view_of(sizes)->shape[2];
    attr.i[10] = gd_view_of(sizes)->shape[3];
    return attr;
}

static gd_tensor of_weight(gd_vjp *v, int k, gd_tensor g, gd_tensor x) {
    gd_attr attr = attributes(v, v->node->in[k]);
    return gd_record(GD_OP_conv_bwd_weight, (gd_tensor[]){g, x}, 2, &attr, gd_vjp_dest(v, k, g, x, NULL));
}

/* The sum over all but the channels, for a bias. */
static gd_tensor of_bias(gd_vjp *v, int k) {
    return gd_record(GD_OP_sum, &G, 1, &(gd_attr){.i = {1 << 0 | 1 << 2 | 1 << 3, 0}}, gd_vjp_dest(v, k, G, 0, NULL));
}

/* (x, w, bias) */
RULE(conv) {
    gd_attr attr = attributes(v, A);
    GIVE(0, gd_record(GD_OP_conv_bwd_input, (gd_tensor[]){G, B, 0}, 3, &attr, NULL));
    GIVE(1, of_weight(v, 1, G, A));
    GIVE(2, of_bias(v, 2));
    return GD_OK;
}

/* (g, w, bias) */
RULE(conv_bwd_input) {
    GIVE(0, gd_record(GD_OP_conv, (gd_tensor[]){G, B, 0}, 3, &v->node->attr, NULL));
    GIVE(1, of_weight(v, 1, A, G));
    GIVE(2, of_bias(v, 2));
    return GD_OK;
}

/* (g, x) */
RULE(conv_bwd_weight) {
    gd_attr attr = attributes(v, B);
    GIVE(0, gd_record(GD_OP_conv, (gd_tensor[]){B, G, 0}, 3, &v->node->attr, NULL));
    GIVE(1, gd_record(GD_OP_conv_bwd_input, (gd_tensor[]){A, G, 0}, 3, &attr, NULL));
    return GD_OK;
}

RULE(im2col) {
    gd_attr attr = attributes(v, A);
    GIVE(0, GD_RECORD(col2im, &attr, G));
    return GD_OK;
}

RULE(col2im) {
    GIVE(0, GD_RECORD(im2col, &v->node->attr, G));
    return GD_OK;
}
