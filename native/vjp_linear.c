/* vjp_linear.c - gradients of matrix products, recurrent layers, views and data movement.
 * Weight gradients go straight into the gradient slab where nothing else adds to them. */
#include "vjp.h"

gd_tensor gd_reshape_like(gd_tensor x, gd_tensor like) {
    const gd_view *to = gd_view_of(like);
    return gd_reshape(x, to->rank, gd_logical_shape(to));
}

gd_tensor gd_rows(gd_tensor x) {
    gd_node *n = gd_node_of(x, "rows");
    if (!n) return 0;
    if (n->v.rank == 2) return x;
    return gd_reshape(x, 2, (int64_t[]){n->v.shape[0] * n->v.shape[1] * n->v.shape[2], n->v.shape[3]});
}

gd_tensor gd_swap_last(gd_tensor x) { return gd_record(GD_OP_permute, &x, 1, &(gd_attr){.i = {0, 1, 3, 2, gd_node_peek(x) ? gd_view_of(x)->rank : 2}}, NULL); }

/* a^T b for input k, into its gradient buffer where possible. */
static gd_status give_product(gd_vjp *v, int k, gd_tensor a, gd_tensor b) {
    bool accumulate = false;
    void *dest = gd_vjp_dest(v, k, a, b, &accumulate);
    gd_tensor at = a ? gd_swap_last(a) : 0;
    if (!at || !b) return gd_last_status();
    return gd_vjp_give(v, k, gd_record(GD_OP_matmul, (gd_tensor[]){at, b}, 2, &(gd_attr){.i = {dest && accumulate}}, dest));
}

/* The sum over all rows of g (rows, n) for input k, a bias; in its gradient buffer where possible. */
static gd_tensor row_sum(gd_vjp *v, int k, gd_tensor g) {
    return gd_record(GD_OP_sum, &g, 1, &(gd_attr){.i = {1 << 2, 0}}, gd_vjp_dest(v, k, g, 0, NULL));
}
static gd_status give_row_sum(gd_vjp *v, int k, gd_tensor g) { return gd_vjp_give(v, k, row_sum(v, k, g)); }

RULE(matmul) {
    if (gd_vjp_needs(v, 0)) GD_TRY(gd_vjp_give(v, 0, gd_sum_to(GD_RECORD(matmul, NULL, G, gd_swap_last(B)), A)));
    if (!gd_vjp_needs(v, 1)) return GD_OK;
    const gd_view *a = gd_view_of(A), *b = gd_view_of(B);
    if (b->rank == 2) return give_product(v, 1, a->rank == 2 ? A : gd_rows(A), gd_rows(G)); /* one product over all batches */
    return gd_vjp_give(v, 1, gd_sum_to(GD_RECORD(matmul, NULL, gd_swap_last(A), G), B));
}

RULE(linear) {
    gd_tensor g = gd_rows(G);
    if (!g) return gd_last_status();
    if (gd_vjp_needs(v, 0)) GD_TRY(gd_vjp_give(v, 0, gd_reshape_like(GD_RECORD(matmul, NULL, g, B), A)));
    if (gd_vjp_needs(v, 1)) GD_TRY(give_product(v, 1, g, gd_rows(A)));
    if (gd_vjp_needs(v, 2)) GD_TRY(give_row_sum(v, 2, g));
    return GD_OK;
}

/* x with zeros past the lengths, where anything may stand: NaN times a gradient of 0 would still be NaN. */
static gd_tensor real_steps(gd_tensor x, gd_tensor lengths, bool batch_first) {
    if (!lengths) return x;
    const gd_view *v = gd_view_of(x);
    gd_tensor step = gd_arange(0, 1, 0, 1, v->shape[batch_first ? 2 : 1], GD_INT64);
    gd_tensor real = GD_RECORD(lt, NULL, gd_unsqueeze(step, batch_first ? 0 : 1), gd_unsqueeze(lengths, batch_first ? 1 : 0));
    return gd_where(gd_unsqueeze(real, 2), x, gd_scalar(0, 0, v->dtype));
}

/* All steps of a series (T,B,.) but the first or the last, as rows. */
static gd_tensor all_but(gd_tensor series, bool first) {
    const gd_view *v = gd_view_of(series);
    const int64_t steps = v->shape[1] - (v->shape[1] > 0);
    gd_attr part = {.i = {0, first && steps, 0, 0, 1, 1, 1, 1, 1, steps, v->shape[2], v->shape[3]}};
    return gd_rows(gd_record(GD_OP_slice, &series, 1, &part, NULL));
}

/* in: x h0 c0 w_ih w_hh b_ih b_hh lengths; out: y h_n c_n gates cells */
RULE(lstm) {
    const gd_tensor *in = v->node->in;
    const bool reverse = v->node->attr.i[0] != 0, batch_first = v->node->attr.i[1] != 0;
    if (v->g[3] || v->g[4]) return gd_fail(GD_ERR, "lstm: only y, h_n and c_n have gradients, not the gates and cells saved for backward");
    if (v->create_graph)
        return gd_fail(GD_ERR, "lstm: its second derivative is not available; build the cell from linear, sigmoid and tanh for create_graph=True");
    gd_tensor inputs[] = {v->g[0], v->g[1], v->g[2], in[4], gd_output(Y, 3), gd_output(Y, 4), Y, in[1], in[2], in[7]};
    gd_attr attr = {.i = {reverse, batch_first}};
    /* Where every sequence starts from 0 at the same step, the states before the others are outputs one step away. */
    const bool shifted = !in[1] && !in[7] && !batch_first;
    attr.i[2] = shifted || !gd_vjp_needs(v, 4);
    attr.i[3] = !gd_vjp_needs(v, 1) && !gd_vjp_needs(v, 2);
    gd_tensor dgates = gd_record(GD_OP_lstm_bwd, inputs, 10, &attr, NULL);
    if (!dgates) return gd_last_status();
    gd_tensor g = gd_rows(dgates);
    if (gd_vjp_needs(v, 0)) GD_TRY(gd_vjp_give(v, 0, gd_reshape_like(GD_RECORD(matmul, NULL, g, in[3]), A)));
    GIVE(1, gd_output(dgates, 2));
    GIVE(2, gd_output(dgates, 3));
    if (gd_vjp_needs(v, 3)) GD_TRY(give_product(v, 3, g, gd_rows(real_steps(A, in[7], batch_first))));
    if (gd_vjp_needs(v, 4))
        GD_TRY(shifted ? give_product(v, 4, all_but(dgates, !reverse), all_but(Y, reverse)) : give_product(v, 4, g, gd_rows(gd_output(dgates, 1))));
    if (!gd_vjp_needs(v, 6)) return gd_vjp_needs(v, 5) ? give_row_sum(v, 5, g) : GD_OK;
    gd_tensor sum = row_sum(v, 6, g);
    GD_TRY(gd_vjp_give(v, 6, sum));
    GIVE(5, gd_record(GD_OP_copy, &sum, 1, NULL, gd_vjp_dest(v, 5, sum, 0, NULL)));
    return GD_OK;
}

/* ---- Views ------------------------------------------------------------------------------------------------------- */

RULE(reshape) { GIVE(0, gd_reshape_like(G, A)); return GD_OK; }
RULE(expand) { GIVE(0, gd_sum_to(G, A)); return GD_OK; }

RULE(permute) {
    gd_attr back = {.i = {0}};
    for (int d = 0; d < GD_DIMS; d++) back.i[v->node->attr.i[d]] = d;
    back.i[4] = gd_view_of(A)->rank;
    GIVE(0, GD_RECORD(permute, &back, G));
    return GD_OK;
}

RULE(slice) {
    if (!gd_vjp_needs(v, 0)) return GD_OK;
    const gd_view *x = gd_view_of(A);
    if (!v->create_graph) return gd_vjp_give_slice(v, G, v->node->attr.i, v->node->attr.i + 4);
    gd_attr attr = v->node->attr;
    for (int d = 0; d < GD_DIMS; d++) attr.i[8 + d] = x->shape[d];
    attr.i[12] = x->rank;
    return gd_vjp_give(v, 0, GD_RECORD(unslice, &attr, G));
}

RULE(unslice) {
    gd_attr attr = v->node->attr;
    for (int d = 0; d < GD_DIMS; d++) attr.i[8 + d] = gd_view_of(A)->shape[d];
    GIVE(0, GD_RECORD(slice, &attr, G));
    return GD_OK;
}

/* ---- Moving data ---------------------------------------------------------------------------------------------------- */

RULE(cat) {
    int64_t dim = v->node->attr.i[0], at = 0;
    for (uint32_t k = 0; k < v->node->nin; k++) {
        const gd_view *x = gd_view_of(v->node->in[k]);
        gd_attr attr = {.i = {0, 0, 0, 0, 1, 1, 1, 1}};
        attr.i[dim] = at;
        for (int d = 0; d < GD_DIMS; d++) attr.i[8 + d] = x->shape[d];
        at += x->shape[dim];
        GIVE((int)k, GD_RECORD(slice, &attr, G));
    }
    return GD_OK;
}

/* The gradient of picking along i[0]: added into zeros of the source's shape. */
static gd_attr picked_from(const gd_vjp *v) {
    const gd_view *x = gd_view_of(A);
    gd_attr attr = {.i = {v->node->attr.i[0], x->shape[v->node->attr.i[0]], x->shape[0], x->shape[1], x->shape[2], x->shape[3]}};
    return attr;
}

RULE(index_select) {
    gd_attr attr = picked_from(v);
    GIVE(0, gd_view_of(A)->rank ? GD_RECORD(index_add_zeros, &attr, G, B) : G);
    return GD_OK;
}
RULE(index_add_zeros) { GIVE(0, GD_RECORD(index_select, &v->node->attr, G, B)); return GD_OK; }
RULE(gather) {
    gd_attr attr = picked_from(v);
    gd_tensor d = gd_vjp_needs(v, 0) ? GD_RECORD(scatter_add_zeros, &attr, G, B) : 0;
    GIVE(0, d && gd_view_of(d)->rank != gd_view_of(A)->rank ? gd_reshape_like(d, A) : d);
    return GD_OK;
}
RULE(scatter_add_zeros) { GIVE(0, GD_RECORD(gather, &v->node->attr, G, B)); return GD_OK; }
