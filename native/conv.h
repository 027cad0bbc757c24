/* conv.h - convolutions as their shape rules and kernels see them: sizes, how work is cut, the memory that takes.
 * All of it follows from sizes alone, so that results depend neither on threads nor on the kernel set's cutting. */
#ifndef GRADINO_CONV_H
#define GRADINO_CONV_H

#include "kernel.h"

enum {
    GD_CONV_KC = 512,         /* terms of a block sum, in whole channels: with its weights it stays in L1 and L2 */
    GD_CONV_POINTS = 256,     /* grid points of an item: enough to use each weight often, few enough for many items */
    GD_CONV_TILE = 512 << 10, /* bytes of the copied source of an item: half an L2 */
    GD_CONV_ITEMS = 32,       /* items wanted: results are divided, too, where there would be fewer */
    GD_CONV_LEAST_OUTS = 28,  /* where they are divided, into multiples of this: whole register tiles of 14 and of 4 rows */
    GD_CONV_TASK = 1 << 17,   /* multiply-adds of a task at least: about 5 us */
    GD_CONV_NARROW = 8,       /* fewer results of a group than this: weight gradients as dot products over points */
    GD_CONV_DOT_POINTS = 2048,/* grid points of a block then */
    GD_CONV_SUM_OUTS = 64,    /* results of a task of the weight gradient: two panels of AVX-512 */
    GD_CONV_SUM_ROWS = 144,   /* taps of channels of such a task */
    GD_CONV_SUM_POINTS = 512, /* grid points of such a task at least, where the batch is divided */
};

/* A convolution: cin and cout are channels of one group; [0] is along the height, [1] along the width. */
typedef struct gd_conv {
    int64_t n, groups, cin, cout;
    int64_t in[2], out[2], kernel[2], stride[2], pad[2], dilation[2];
} gd_conv;

/* A product of weights with what is gathered from a source. Each result of a group is a sum over the group's source
 * channels and over taps. Points of a class see the same taps: gradients for the input have a class for each
 * remainder of the stride, forward has one. */
typedef struct gd_conv_cut {
    int64_t n, groups, channels, outs;     /* of one group: source channels, results */
    int64_t source[2], result[2], grid[2]; /* sizes; of a class, rounded up */
    int64_t step[2], classes[2];           /* of the source from point to point; number of classes */
    int64_t low[2], span[2];               /* smallest offset of a tap from its point's source; largest minus smallest */
    int64_t kernel[2], taps;
    int64_t images, block[2], block_channels, block_outs;       /* of an item */
    int64_t image_blocks, blocks[2], channel_blocks, out_blocks; /* their numbers */
    int64_t tile[2], row, plane;           /* copied source: rows, columns of a phase; elements of a row, of a channel */
    bool in_place;                         /* the source can be read where it is */
    /* forward and gradient for the input: bytes of workspace */
    int64_t weight_bytes, bias_bytes, table_bytes, tile_bytes, scratch_bytes;
    /* gradient for the weight: parts of the batch; bytes */
    int64_t chunks, chunk_blocks, partial_bytes, gradient_bytes;
} gd_conv_cut;

static inline int64_t gd_conv_ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t gd_conv_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t gd_conv_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t gd_conv_round(int64_t bytes) { return (bytes + GD_ALIGN - 1) & -(int64_t)GD_ALIGN; }

#pragma GCC visibility push(hidden)
/* The convolution of x with w whose result is y: only their shapes are read. */
gd_conv gd_conv_of(const gd_view *x, const gd_view *w, const gd_view *y, const gd_attr *attr);
/* How the results are gathered from `source`: forward, or (backward) the gradient for the input. */
gd_conv_cut gd_conv_cut_gather(const gd_conv *c, bool backward, const gd_view *source, int64_t esize);
/* How the gradient for the weight is summed up from `source`, the input, and g, the gradient of the result. */
gd_conv_cut gd_conv_cut_weight(const gd_conv *c, const gd_view *source, const gd_view *g, int64_t esize);
/* Bytes of workspace for `width` workers. */
int64_t gd_conv_gather_workspace(const gd_conv_cut *q, int width);
int64_t gd_conv_weight_workspace(const gd_conv_cut *q, int width);
#pragma GCC visibility pop

/* Multiply-adds of the whole, roughly: without overflow for any sizes. */
static inline double gd_conv_work(const gd_conv_cut *q) {
    return (double)q->n * (double)q->groups * (double)q->channels * (double)q->outs * (double)q->grid[0] * (double)q->grid[1] * (double)q->taps;
}

#endif
