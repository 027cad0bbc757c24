/* planes.h - what kernels over the planes of images share: where a row lies, and rows cut into tasks of fixed size. */
#ifndef GRADINO_PLANES_H
#define GRADINO_PLANES_H

#include "../kernel.h"
#include "../thread.h"

enum {
    TASK = 16 * 1024, /* elements of a task: 5 to 10 us */
    SERIAL = 2 * TASK /* at most so many are not worth waking a thread */
};

/* Row h of plane p (of the two leading dimensions). */
static inline const char *row_of(const gd_view *v, int64_t plane, int64_t h) {
    const int64_t at = plane / v->shape[1] * v->strides[0] + plane % v->shape[1] * v->strides[1] + h * v->strides[2];
    return (const char *)v->data + at * gd_dtype_bytes(v->dtype);
}

/* `task` for all items, *per_task of them at a time; `work` is the number of elements of one. */
static inline void run_items(int64_t items, int64_t work, int64_t *per_task, void (*task)(void *ctx, int64_t i, int worker), void *ctx) {
    *per_task = work < TASK ? TASK / (work ? work : 1) : 1;
    const int64_t tasks = (items + *per_task - 1) / *per_task;
    if (items * work <= SERIAL)
        for (int64_t i = 0; i < tasks; i++) task(ctx, i, 0);
    else gd_parallel(tasks, task, ctx);
}

#endif
