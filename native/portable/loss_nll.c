/* loss_nll.c - negative log-likelihood of log-probabilities and its gradient. Ignored rows have no loss and a gradient
 * of 0; sums over rows are float64 over tasks of fixed size. */
#include <string.h>

#include "prows.h"

#include "../loss_sum.h"

typedef struct likelihood {
    const char *x, *weight, *g, *norm; /* weight NULL: 1 */
    const int64_t *target;
    char *out;                         /* the losses, or the gradient */
    int64_t rows, classes, ignored, x_row, x_step, target_step, weight_step, g_step, task_rows, first_task;
    int reduction;
    gd_loss_sum *partials;
} likelihood;

static likelihood likelihood_of(const gd_view *x, const gd_view *target, const gd_view *weight, const gd_attr *attr, void *out, int64_t work_of_row) {
    return (likelihood){.x = x->data, .weight = weight ? weight->data : NULL, .target = target->data, .out = out, .rows = x->shape[2],
                        .classes = x->shape[3], .ignored = attr->i[0], .x_row = x->strides[2], .x_step = x->strides[3],
                        .target_step = target->strides[3], .weight_step = weight ? weight->strides[3] : 0, .reduction = (int)attr->i[1],
                        .task_rows = work_of_row < GD_LOSS_TASK ? GD_LOSS_TASK / (work_of_row ? work_of_row : 1) : 1};
}

#define DEFINE_NLL(name, T)                                                                                  \
    static T weight_##name(const likelihood *s, int64_t label) {                                             \
        return s->weight ? ((const T *)s->weight)[label * s->weight_step] : 1;                               \
    }                                                                                                        \
    static void nll_task_##name(void *ctx, int64_t t, int worker) {                                          \
        const likelihood *s = ctx;                                                                           \
        gd_loss_sum sum = {0, 0};                                                                            \
        int64_t i = (s->first_task + t) * s->task_rows, last = i + s->task_rows;                             \
        (void)worker;                                                                                        \
        for (last = last < s->rows ? last : s->rows; i < last; i++) {                                        \
            const int64_t label = s->target[i * s->target_step];                                             \
            T loss = 0;                                                                                      \
            if (label != s->ignored) {                                                                       \
                const T w = weight_##name(s, label);                                                         \
                loss = -w * ((const T *)s->x)[i * s->x_row + label * s->x_step];                             \
                sum.weight += (double)w;                                                                     \
                sum.loss += (double)loss;                                                                    \
            }                                                                                                \
            if (s->reduction == GD_NONE) ((T *)s->out)[i] = loss;                                            \
        }                                                                                                    \
        s->partials[t] = sum;                                                                                \
    }                                                                                                        \
    static void nll_bwd_task_##name(void *ctx, int64_t t, int worker) {                                      \
        const likelihood *s = ctx;                                                                           \
        const T *g = (const T *)s->g, norm = s->reduction == GD_MEAN ? *(const T *)s->norm : 1;              \
        int64_t i = t * s->task_rows, last = i + s->task_rows;                                               \
        (void)worker;                                                                                        \
        for (last = last < s->rows ? last : s->rows; i < last; i++) {                                        \
            const int64_t label = s->target[i * s->target_step];                                             \
            T *dx = (T *)s->out + i * s->classes;                                                            \
            memset(dx, 0, (size_t)s->classes * sizeof *dx);                                                  \
            const T in = g[i * s->g_step];                                                                   \
            if (label != s->ignored && in != 0) dx[label] = -weight_##name(s, label) * in / norm;            \
        }                                                                                                    \
    }
DEFINE_NLL(f32, float)
DEFINE_NLL(f64, double)

void GD_KERNEL(nll_loss)(const gd_args *a) {
    const bool single = a->in[0]->dtype == GD_FLOAT32;
    likelihood s = likelihood_of(a->in[0], a->in[1], a->in[2], a->attr, a->out[0]->data, 16); /* a line of memory for a row */
    const int64_t tasks = (s.rows + s.task_rows - 1) / s.task_rows;
    const gd_loss_sum total = gd_loss_total(tasks, tasks <= 2, single ? nll_task_f32 : nll_task_f64, &s, &s.partials, &s.first_task);
    const double loss = s.reduction == GD_MEAN ? total.loss / total.weight : total.loss;
    if (single) {
        if (s.reduction != GD_NONE) *(float *)a->out[0]->data = (float)loss;
        *(float *)a->out[1]->data = (float)total.weight;
    } else {
        if (s.reduction != GD_NONE) *(double *)a->out[0]->data = loss;
        *(double *)a->out[1]->data = total.weight;
    }
}

void GD_KERNEL(nll_loss_bwd)(const gd_args *a) {
    likelihood s = likelihood_of(a->in[1], a->in[2], a->in[3], a->attr, a->out[0]->data, a->in[1]->shape[3]);
    s.g = a->in[0]->data, s.norm = a->in[4]->data;
    s.g_step = s.reduction == GD_NONE ? a->in[0]->strides[3] : 0;
    const int64_t tasks = (s.rows + s.task_rows - 1) / s.task_rows;
    if (s.rows * s.classes == 0) return;
    void (*const task)(void *, int64_t, int) = a->in[1]->dtype == GD_FLOAT32 ? nll_bwd_task_f32 : nll_bwd_task_f64;
    if (tasks <= 2) for (int64_t t = 0; t < tasks; t++) task(&s, t, 0);
    else gd_parallel(tasks, task, &s);
}
