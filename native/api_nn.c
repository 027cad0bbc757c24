/* api_nn.c - public entry points of products, norms, losses and recurrent layers. */
#include "engine.h"

/* Vectors become matrices for the product and vanish from its result, as in NumPy. */
gd_tensor gd_matmul(gd_tensor a, gd_tensor b) {
    if (__builtin_expect(gd_self()->autocast, 0)) { /* before the dtypes are compared */
        if (!(a = gd_autocast_input(GD_OP_matmul, a)) || !(b = gd_autocast_input(GD_OP_matmul, b))) return 0;
    }
    gd_node *na = gd_node_of(a, "matmul"), *nb = na ? gd_node_of(b, "matmul") : NULL;
    if (!nb) return 0;
    if (na->v.rank == 0 || nb->v.rank == 0) {
        gd_fail(GD_ERR_SHAPE, "matmul: a is %s, b is %s: both need at least one dimension", gd_text_view(&na->v), gd_text_view(&nb->v));
        return 0;
    }
    if (na->v.dtype != nb->v.dtype) {
        gd_fail(GD_ERR_DTYPE, "matmul: a is %s, b is %s: they must have one dtype", gd_dtype_name(na->v.dtype), gd_dtype_name(nb->v.dtype));
        return 0;
    }
    bool row = na->v.rank == 1, column = nb->v.rank == 1;
    if ((row || column) && na->v.shape[3] != nb->v.shape[column ? 3 : 2]) {
        gd_fail(GD_ERR_SHAPE, "matmul: a is %s, b is %s: the last dimension of a must equal the %s of b", gd_text_view(&na->v), gd_text_view(&nb->v),
                column ? "only one" : "last but one");
        return 0;
    }
    if (!row && !column) return GD_RECORD(matmul, NULL, a, b);
    gd_start start = gd_here();
    if (row) a = gd_unsqueeze(a, 0);
    if (column && a) b = gd_unsqueeze(b, 1);
    gd_tensor product = a && b ? GD_RECORD(matmul, NULL, a, b) : 0;
    if (product && column) product = gd_squeeze(product, -1, 0);
    if (product && row) product = gd_squeeze(product, column ? -1 : -2, 0);
    return gd_or_return(start, product);
}

gd_tensor gd_linear(gd_tensor x, gd_tensor weight, gd_tensor bias) {
    GD_TRY_TENSOR(gd_optional(&bias, "linear"));
    return gd_record(GD_OP_linear, (gd_tensor[]){x, weight, bias}, 3, NULL, NULL);
}

/* Whether the last dimensions of x have the shape that is to be normalised. */
static bool norm_fits(gd_tensor x, int64_t rank, const int64_t *shape, const char *who) {
    gd_node *n = gd_node_of(x, who);
    if (!n) return false;
    if (rank < 1 || rank > n->v.rank || memcmp(n->v.shape + GD_DIMS - rank, shape, sizeof *shape * (size_t)rank) != 0) {
        gd_fail(GD_ERR_SHAPE, "%s: normalized_shape is %s, input is %s: the input must end with these dimensions, at least one", who,
                rank >= 0 && rank <= GD_DIMS ? gd_text_shape(rank, shape) : "longer than any shape", gd_text_view(&n->v));
        return false;
    }
    return true;
}

gd_tensor gd_layer_norm(gd_tensor x, int64_t rank, const int64_t *shape, gd_tensor weight, gd_tensor bias, double eps) {
    if (!norm_fits(x, rank, shape, "layer_norm") || gd_optional(&weight, "layer_norm") < 0 || gd_optional(&bias, "layer_norm") < 0) return 0;
    return gd_record(GD_OP_layer_norm, (gd_tensor[]){x, weight, bias}, 3, &(gd_attr){.i = {rank}, .f = {eps}}, NULL);
}

gd_tensor gd_rms_norm(gd_tensor x, int64_t rank, const int64_t *shape, gd_tensor weight, double eps) {
    if (!norm_fits(x, rank, shape, "rms_norm") || gd_optional(&weight, "rms_norm") < 0) return 0;
    if (eps != eps) eps = gd_node_peek(x)->v.dtype == GD_FLOAT64 ? __DBL_EPSILON__ : __FLT_EPSILON__;
    return gd_record(GD_OP_rms_norm, (gd_tensor[]){x, weight}, 2, &(gd_attr){.i = {rank}, .f = {eps}}, NULL);
}

gd_tensor gd_lstm(gd_tensor x, gd_tensor h0, gd_tensor c0, gd_tensor w_ih, gd_tensor w_hh, gd_tensor b_ih, gd_tensor b_hh, gd_tensor lengths, int reverse,
                  int batch_first) {
    gd_tensor in[] = {x, h0, c0, w_ih, w_hh, b_ih, b_hh, lengths};
    for (size_t k = 0; k < sizeof in / sizeof *in; k++)
        if (k != 0 && k != 3 && k != 4) GD_TRY_TENSOR(gd_optional(&in[k], "lstm"));
    return gd_record(GD_OP_lstm, in, 8, &(gd_attr){.i = {reverse != 0, batch_first != 0}}, NULL);
}
