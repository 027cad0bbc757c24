/* loss_sum.h - sums over tasks of fixed size in float64, so that a loss does not depend on the number of threads. */
#ifndef GRADINO_LOSS_SUM_H
#define GRADINO_LOSS_SUM_H

#include "kernel.h"
#include "thread.h"

enum {
    GD_LOSS_TASK = 8 * 1024,   /* elements per task: about 10 us */
    GD_LOSS_SERIAL = 16 * 1024,/* at most so many elements are not worth waking a thread */
    GD_LOSS_PARTIALS = 512     /* partial sums on the stack */
};
enum { GD_NONE = 0, GD_MEAN = 1, GD_SUM = 2 }; /* reductions */

/* The loss and the weight of one task's rows. */
typedef struct gd_loss_sum {
    double loss, weight;
} gd_loss_sum;

/* Runs task(ctx, i) for every i < tasks and adds up the partials it leaves, in order. */
static inline gd_loss_sum gd_loss_total(int64_t tasks, bool serial, void (*task)(void *ctx, int64_t i, int worker), void *ctx,
                                        gd_loss_sum **partials, int64_t *first_task) {
    gd_loss_sum sums[GD_LOSS_PARTIALS], total = {0, 0};
    *partials = sums;
    for (*first_task = 0; *first_task < tasks; *first_task += GD_LOSS_PARTIALS) {
        const int64_t n = tasks - *first_task < GD_LOSS_PARTIALS ? tasks - *first_task : GD_LOSS_PARTIALS;
        if (serial || n == 1) for (int64_t i = 0; i < n; i++) task(ctx, i, 0);
        else gd_parallel(n, task, ctx);
        for (int64_t i = 0; i < n; i++) total.loss += sums[i].loss, total.weight += sums[i].weight;
    }
    *partials = NULL;
    return total;
}

#endif
