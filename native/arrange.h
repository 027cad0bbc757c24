/* arrange.h - what shape rules and kernels of pad agree on. */
#ifndef GRADINO_ARRANGE_H
#define GRADINO_ARRANGE_H

#include <stdint.h>

#include "both.h"

enum { GD_PAD_CONSTANT, GD_PAD_REFLECT, GD_PAD_REPLICATE, GD_PAD_CIRCULAR, GD_PAD_MODES };

/* A run of a padded row: places `to` .. `to + n` hold the entries from `from` on, or a constant where from is -1. */
typedef struct gd_pad_run {
    int64_t to, from, n;
} gd_pad_run;

/* The place in a dimension of `size` entries that place p of a padded one shows; -1: the constant. */
GD_BOTH int64_t gd_pad_place(int64_t p, int64_t size, int mode) {
    if (p >= 0 && p < size) return p;
    if (mode == GD_PAD_CONSTANT) return -1;
    if (mode == GD_PAD_REPLICATE) return p < 0 ? 0 : size - 1;
    if (mode == GD_PAD_CIRCULAR) return p % size < 0 ? p % size + size : p % size;
    return p < 0 ? -p : 2 * (size - 1) - p; /* padded by less than its size */
}

/* At most so many runs are in a row of `width` that shows `size` entries. */
static inline int64_t gd_pad_runs(int64_t size, int64_t before, int64_t after, int64_t width, int mode) {
    if (mode == GD_PAD_CONSTANT) return 3;
    if (mode == GD_PAD_CIRCULAR) return size ? width / size + 3 : 1;
    return (before > 0 ? before : 0) + (after > 0 ? after : 0) + 1;
}

#endif
