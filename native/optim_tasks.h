/* optim_tasks.h - how an optimizer kernel shares its run of elements among threads: tasks of fixed size. */
#ifndef GRADINO_OPTIM_TASKS_H
#define GRADINO_OPTIM_TASKS_H

#include "kernel.h"
#include "thread.h"

enum {
    GD_OPTIM_TASK = 16 * 1024,           /* elements: a few regions of 64 KiB, about 10 us */
    GD_OPTIM_SERIAL = 2 * GD_OPTIM_TASK  /* at most so many are not worth waking a thread */
};

/* Updates elements first .. last. */
typedef void gd_optim_range(const gd_optim_args *a, int64_t first, int64_t last);

typedef struct gd_optim_tasks {
    const gd_optim_args *args;
    gd_optim_range *update;
} gd_optim_tasks;

static inline void gd_optim_task(void *ctx, int64_t i, int worker) {
    const gd_optim_tasks *t = ctx;
    (void)worker;
    const int64_t last = (i + 1) * GD_OPTIM_TASK;
    t->update(t->args, i * GD_OPTIM_TASK, last < t->args->n ? last : t->args->n);
}

static inline void gd_optim_all(const gd_optim_args *a, gd_optim_range *update) {
    if (a->n <= GD_OPTIM_SERIAL) {
        update(a, 0, a->n);
    } else {
        gd_optim_tasks t = {a, update};
        gd_parallel((a->n + GD_OPTIM_TASK - 1) / GD_OPTIM_TASK, gd_optim_task, &t);
    }
}

#endif
