/* pool.h - windows of pooling as shape rules and kernels see them. */
#ifndef GRADINO_POOL_H
#define GRADINO_POOL_H

#include "both.h"
#include "kernel.h"

enum { GD_POOL_TILE = 256 }; /* results of a row worked on together, on the stack */

/* Where the attributes of pooling stand; see ops.def. */
enum { GD_POOL_KERNEL = 0, GD_POOL_STRIDE = 2, GD_POOL_PAD = 4, GD_POOL_DILATION = 6, GD_POOL_CEIL = 8, GD_POOL_ADAPTIVE = 9, GD_POOL_DIMS = 10,
       GD_POOL_INDICES = 11 };
enum { GD_POOL_COUNT_PAD = 6, GD_POOL_DIVISOR = 7, GD_POOL_INPUT = 11 }; /* of averages */

/* The windows along one dimension. */
typedef struct gd_pool_axis {
    int64_t in, out, kernel, stride, pad, dilation;
    bool adaptive;
} gd_pool_axis;

/* Axis 0 or 1 of attributes of a pooling from `in` to `out` elements. */
static inline gd_pool_axis gd_pool_axis_of(const gd_attr *attr, int axis, int64_t in, int64_t out, bool dilates) {
    return (gd_pool_axis){in, out, attr->i[GD_POOL_KERNEL + axis], attr->i[GD_POOL_STRIDE + axis], attr->i[GD_POOL_PAD + axis],
                          dilates && !attr->i[GD_POOL_ADAPTIVE] ? attr->i[GD_POOL_DILATION + axis] : 1, attr->i[GD_POOL_ADAPTIVE] != 0};
}

/* Window o: elements first .. last (every dilation-th of them), within the input; returns its size with padding. */
GD_BOTH int64_t gd_pool_window(const gd_pool_axis *a, int64_t o, int64_t *first, int64_t *last) {
    if (a->adaptive) {
        *first = o * a->in / a->out;
        *last = ((o + 1) * a->in + a->out - 1) / a->out;
        return *last - *first;
    }
    const int64_t start = o * a->stride - a->pad, end = start + (a->kernel - 1) * a->dilation + 1;
    const int64_t size = (end < a->in + a->pad ? end : a->in + a->pad) - start;
    *first = start < 0 ? start + (-start + a->dilation - 1) / a->dilation * a->dilation : start;
    *last = end < a->in ? end : a->in;
    return size;
}

#endif
