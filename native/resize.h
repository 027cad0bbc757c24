/* resize.h - resizing as shape rules and kernels see it. */
#ifndef GRADINO_RESIZE_H
#define GRADINO_RESIZE_H

#include "kernel.h"

enum { GD_NEAREST = 0, GD_NEAREST_EXACT = 1, GD_LINEAR = 2 };
enum { GD_RESIZE_MODE = 2, GD_RESIZE_ALIGN = 3, GD_RESIZE_INPUT = 4 }; /* attributes; see ops.def */

/* Where one output element comes from, along one dimension: low weight[0] + high weight[1]. */
typedef struct gd_resize_source {
    int64_t low, high;
    double weight[2];
} gd_resize_source;

#endif
