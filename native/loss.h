/* loss.h - what the loss kernels of all instruction sets share: reading arguments, and sums over
 * tasks of fixed size in float64, so that a loss does not depend on the number of threads. */
#ifndef GRADINO_LOSS_H
#define GRADINO_LOSS_H

#include "reduce.h"

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

/* The arguments of cross_entropy or cross_entropy_bwd. */
typedef struct gd_entropy {
    const char *x, *target, *weight; /* logits (N, C); target (N) or (N, C); weight (C) or NULL */
    int64_t rows, classes, ignore_index;
    int64_t x_row, x_step, target_row, target_step, weight_step; /* strides in elements */
    double smoothing;
    int reduction;
    bool probabilities;
    int64_t task_rows;
    void *loss, *lse;                /* forward: the loss of a row is stored if reduction is none; (N) */
    const char *g, *norm;            /* backward: g (N) or one element, the normaliser */
    int64_t g_step;
    void *dx;                        /* (N, C) */
    gd_loss_sum *partials;           /* forward: of the tasks from first_task on */
    int64_t first_task;
} gd_entropy;

static inline gd_entropy gd_entropy_of(const gd_view *x, const gd_view *target, const gd_view *weight, const gd_attr *attr) {
    gd_entropy e = {.x = x->data, .target = target->data, .rows = x->shape[2], .classes = x->shape[3]};
    e.x_row = x->strides[2], e.x_step = x->strides[3];
    e.probabilities = target->dtype != GD_INT64;
    e.target_row = target->strides[e.probabilities ? 2 : 3];
    e.target_step = target->strides[3];
    if (weight) e.weight = weight->data, e.weight_step = weight->strides[3];
    e.ignore_index = attr->i[0];
    e.reduction = (int)attr->i[1];
    e.smoothing = attr->f[0];
    e.task_rows = e.classes < GD_LOSS_TASK ? GD_LOSS_TASK / (e.classes ? e.classes : 1) : 1;
    e.task_rows = (e.task_rows + 15) & ~(int64_t)15; /* whole groups of 16 rows */
    return e;
}

/* The label of row i, or -1 if it is ignored. */
static inline int64_t gd_entropy_label(const gd_entropy *e, int64_t i) {
    const int64_t label = ((const int64_t *)e->target)[i * e->target_row];
    return label == e->ignore_index ? -1 : label;
}

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

/* cross_entropy with the given task, which does rows of one task and leaves its partial. */
static inline void gd_entropy_forward(const gd_args *a, void (*task)(void *ctx, int64_t i, int worker)) {
    gd_entropy e = gd_entropy_of(a->in[0], a->in[1], a->in[2], a->attr);
    e.loss = a->out[0]->data, e.lse = a->out[1]->data;
    const int64_t tasks = (e.rows + e.task_rows - 1) / e.task_rows;
    gd_loss_sum total = gd_loss_total(tasks, e.rows * e.classes <= GD_LOSS_SERIAL, task, &e, &e.partials, &e.first_task);
    if (e.probabilities) total.weight = (double)e.rows;
    const double loss = e.reduction == GD_MEAN ? total.loss / total.weight : total.loss;
    if (a->in[0]->dtype == GD_FLOAT32) {
        if (e.reduction != GD_NONE) *(float *)e.loss = (float)loss;
        *(float *)a->out[2]->data = (float)total.weight;
    } else {
        if (e.reduction != GD_NONE) *(double *)e.loss = loss;
        *(double *)a->out[2]->data = total.weight;
    }
}

/* cross_entropy_bwd with the given task. */
static inline void gd_entropy_backward(const gd_args *a, void (*task)(void *ctx, int64_t i, int worker)) {
    gd_entropy e = gd_entropy_of(a->in[1], a->in[2], a->in[3], a->attr);
    e.g = a->in[0]->data, e.g_step = e.reduction == GD_NONE ? a->in[0]->strides[3] : 0;
    e.lse = a->in[4]->data, e.norm = a->in[5]->data;
    e.dx = a->out[0]->data;
    const int64_t tasks = (e.rows + e.task_rows - 1) / e.task_rows;
    if (e.rows * e.classes == 0) return;
    if (e.rows * e.classes <= GD_LOSS_SERIAL || tasks == 1) for (int64_t i = 0; i < tasks; i++) task(&e, i, 0);
    else gd_parallel(tasks, task, &e);
}

/* What flows into row i: 0 where nothing does, also if no target is valid. */
#define GD_ENTROPY_GRADIENT(T, e, i)                                                                          \
    (((const T *)(e)->g)[(i) * (e)->g_step] == 0 ? 0                                                          \
     : (e)->reduction != GD_MEAN ? ((const T *)(e)->g)[(i) * (e)->g_step]                                     \
     : *(const T *)(e)->norm == 0 ? 0 : ((const T *)(e)->g)[0] / *(const T *)(e)->norm)

#endif
