/* norm.h - layer norm and RMS norm as their shape rules and kernels see them: how rows are cut into tasks, and the
 * workspace that takes. */
#ifndef GRADINO_NORM_H
#define GRADINO_NORM_H

#include "kernel.h"

enum {
    GD_NORM_TASK = 8 * 1024,        /* elements a task has at least: about 5 us */
    GD_NORM_SERIAL = 16 * 1024,     /* at most so many elements are not worth waking a thread */
    GD_NORM_GROUP = 32,             /* rows whose parameter gradients are added up in T before they join a float64 sum */
    GD_NORM_TASKS = 128,            /* tasks of a backward at most: each leaves float64 parameter gradients */
    GD_NORM_STREAM = 16 << 20       /* bytes of output from which on caches would not keep it for the next reader */
};
/* One row's statistics in its dtype: the normalised element is (x - high - low) scale. */
typedef struct gd_norm_f32 { float high, low, scale; } gd_norm_f32;
typedef struct gd_norm_f64 { double high, low, scale; } gd_norm_f64;

enum { GD_NORM_DX = 1, GD_NORM_DW = 2, GD_NORM_DB = 4 }; /* the gradients that are wanted */

/* How `rows` rows of n elements are cut for backward: a function of the sizes alone. */
typedef struct gd_norm_cut {
    int64_t task_rows, tasks;
} gd_norm_cut;

static inline gd_norm_cut gd_norm_cut_of(int64_t rows, int64_t n) {
    const int64_t fair = (rows + GD_NORM_TASKS - 1) / GD_NORM_TASKS, least = n ? (GD_NORM_TASK + n - 1) / n : 1;
    const int64_t want = fair > least ? fair : least;
    gd_norm_cut c;
    c.task_rows = (want + GD_NORM_GROUP - 1) / GD_NORM_GROUP * GD_NORM_GROUP;
    c.tasks = (rows + c.task_rows - 1) / c.task_rows;
    return c;
}

/* Bytes of workspace that the gradients of weight and bias need, for `width` workers. */
static inline int64_t gd_norm_bwd_workspace(int64_t rows, int64_t n, int dtype, int width) {
    return 2 * n * (gd_norm_cut_of(rows, n).tasks * (int64_t)sizeof(double) + width * gd_dtype_bytes(dtype));
}

/* The dimensions of the four that are normalised, `count` at the end. */
static inline int64_t gd_norm_mask(int64_t count) { return (int64_t)0xF & ~(((int64_t)1 << (GD_DIMS - count)) - 1); }

#endif
