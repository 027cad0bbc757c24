/* vjp.h - the small language vjp rules are written in: handles in, handles out, errors pass through. */
#ifndef GRADINO_VJP_H
#define GRADINO_VJP_H

#include "rules.h"

#define RULE(name) gd_status gd_vjp_##name(gd_vjp *v)

/* The op's inputs, its (first) result, and the gradient that comes in. */
#define A (v->node->in[0])
#define B (v->node->in[1])
#define C (v->node->in[2])
#define Y (v->self)
#define G (v->g[0])
/* Hands over input k's gradient, computed only if somebody wants it. */
#define GIVE(k, expression)                                                \
    do {                                                                   \
        if (gd_vjp_needs(v, k)) GD_TRY(gd_vjp_give(v, k, (expression)));   \
    } while (0)
#define U(op, x) GD_RECORD(op, NULL, x)
#define BIN(op, x, y) gd_binary(GD_OP_##op, x, y)
#define CHAIN(g, slope) gd_binary(GD_OP_chain, g, slope)

#pragma GCC visibility push(hidden)
/* x (op) scalar and scalar (op) x, in x's dtype. */
gd_tensor gd_with_scalar(int op, gd_tensor x, double value, bool reversed);
#define TIMES(x, value) gd_with_scalar(GD_OP_mul, x, value, false)
#define PLUS(x, value) gd_with_scalar(GD_OP_add, x, value, false)
/* Sums g over the dimensions along which `like` was broadcast, so that it has like's shape. */
gd_tensor gd_sum_to(gd_tensor g, gd_tensor like);
/* Zeros of like's shape. */
gd_tensor gd_zeros_like(gd_tensor like);
/* The result r of a reduction over `mask`, with reduced dimensions of size 1, so that it broadcasts with x. */
gd_tensor gd_undo_reduce(gd_tensor r, gd_tensor x, int64_t mask);
/* Reduction that keeps dimensions. */
gd_tensor gd_reduce_keep(int op, gd_tensor x, int64_t mask);
gd_tensor gd_reshape_like(gd_tensor x, gd_tensor like);
/* All but the last dimension merged: (rows, last). */
gd_tensor gd_rows(gd_tensor x);
gd_tensor gd_swap_last(gd_tensor x);
static inline const gd_view *gd_view_of(gd_tensor h) { return &gd_node_peek(h)->v; }
#pragma GCC visibility pop

#endif
