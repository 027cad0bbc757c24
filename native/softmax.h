/* softmax.h - softmax as its shape rule and kernels see it: how rows that stand side by side are worked on in
 * panels of columns, and the workspace that takes. */
#ifndef GRADINO_SOFTMAX_H
#define GRADINO_SOFTMAX_H

#include "kernel.h"

enum {
    GD_SOFTMAX_PANEL = 64,           /* columns at most: a few lines of every row of memory at a time */
    GD_SOFTMAX_STAGE = 256 * 1024,   /* bytes of one copied panel at most: two of them fit L2 */
    GD_SOFTMAX_STREAM = 16 << 20     /* bytes of output from which on caches would not keep it for the next reader */
};

/* Columns of a panel of `count` elements each, such that a copy fits the stage. */
static inline int64_t gd_softmax_panel(int64_t count, int64_t bytes) {
    int64_t cols = GD_SOFTMAX_PANEL;
    while (cols > 8 && cols * count * bytes > GD_SOFTMAX_STAGE) cols /= 2;
    return cols;
}

/* Elements of inner dimensions: the distance between elements of a row of the output. */
static inline int64_t gd_softmax_inner(const gd_view *x, int64_t dim) {
    int64_t inner = 1;
    for (int64_t d = 3; d > dim; d--) inner *= x->shape[d];
    return inner;
}

/* Bytes for a copied panel, of which every worker has two: 0 where rows are contiguous, or so long that no panel fits. */
static inline int64_t gd_softmax_stage(const gd_view *x, int64_t dim) {
    const int64_t count = x->shape[dim], bytes = gd_dtype_bytes(gd_dtype_inside(x->dtype));
    const int64_t stage = (gd_softmax_panel(count, bytes) * count * bytes + GD_ALIGN - 1) & -(int64_t)GD_ALIGN;
    return gd_softmax_inner(x, dim) == 1 || stage > GD_SOFTMAX_STAGE ? 0 : stage;
}

#endif
