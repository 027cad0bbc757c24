/* loss.h - cross entropy out of row functions that the including file has defined (row_max, row_exp_sum,
 * row_log, row_scale; see softmax_driver.h). */
#ifndef GRADINO_LOSS_H
#define GRADINO_LOSS_H

#include "loss_sum.h"
#include "rows.h"

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
    void (*work)(const struct gd_entropy *e, int64_t first, int64_t last, gd_loss_sum *sum);
} gd_entropy;

static inline void gd_entropy_init(gd_entropy *e, const gd_view *x, const gd_view *target, const gd_view *weight, const gd_attr *attr) {
    e->x = x->data, e->target = target->data, e->rows = x->shape[2], e->classes = x->shape[3];
    e->x_row = x->strides[2], e->x_step = x->strides[3];
    e->probabilities = target->dtype != GD_INT64;
    e->target_row = target->strides[e->probabilities ? 2 : 3];
    e->target_step = target->strides[3];
    e->weight = weight ? weight->data : NULL, e->weight_step = weight ? weight->strides[3] : 0;
    e->ignore_index = attr->i[0];
    e->reduction = (int)attr->i[1];
    e->smoothing = attr->f[0];
    e->task_rows = e->classes < GD_LOSS_TASK ? GD_LOSS_TASK / (e->classes ? e->classes : 1) : 1;
    e->task_rows = (e->task_rows + 15) & ~(int64_t)15; /* whole groups of 16 rows */
    e->partials = NULL;
    e->first_task = 0;
}

/* The label of row i, or -1 if it is ignored. */
static inline int64_t gd_entropy_label(const gd_entropy *e, int64_t i) {
    const int64_t label = ((const int64_t *)e->target)[i * e->target_row];
    return label == e->ignore_index ? -1 : label;
}

/* What flows into row i: 0 where nothing does, also if no target is valid. */
#define GD_ENTROPY_GRADIENT(T, e, i)                                                                          \
    (((const T *)(e)->g)[(i) * (e)->g_step] == 0 ? 0                                                          \
     : (e)->reduction != GD_MEAN ? ((const T *)(e)->g)[(i) * (e)->g_step]                                     \
     : *(const T *)(e)->norm == 0 ? 0 : ((const T *)(e)->g)[0] / *(const T *)(e)->norm)

/* ---- cross_entropy ---------------------------------------------------------------------------------------
 * The loss of a row is  hard (ls - (x[label] - m)) + sum over c of q[c] (ls - (x[c] - m))  with m the largest
 * logit and ls = log sum exp(x - m). Class targets: hard = (1 - s) w[label], q[c] = w[c] s / C with s the
 * smoothing. Probability targets t: hard = 0, q[c] = w[c] ((1 - s) t[c] + s / C). The gradient of the row is
 * (hard + sum q) softmax(x) - hard onehot(label) - q. */

/* n elements from `first` on of a row at x, side by side. */
#define GD_BLOCK_OF(T, x, step, first, buffer)                                                               \
    ((step) == 1 ? (const T *)(x) + (first) : (gd_walk_copy((char *)(buffer), (x) + (first) * (step) * (int64_t)sizeof(T), step, n, sizeof(T)), (const T *)(buffer)))

#define GD_DEFINE_ENTROPY(name, T)                                                                           \
    /* q[0..n) of classes first, first + 1, ... of row i. */                                                 \
    static void soft_##name(const gd_entropy *e, int64_t i, int64_t first, int64_t n, T *q) {                \
        const T share = (T)(e->smoothing / (double)e->classes), rest = (T)(1 - e->smoothing);                \
        const T *t = e->probabilities ? (const T *)e->target + i * e->target_row + first * e->target_step : NULL; \
        const T *w = (const T *)e->weight;                                                                   \
        for (int64_t k = 0; k < n; k++) q[k] = t ? rest * t[k * e->target_step] + share : share;             \
        if (w) for (int64_t k = 0; k < n; k++) q[k] *= w[(first + k) * e->weight_step];                      \
    }                                                                                                        \
    static T weight_##name(const gd_entropy *e, int64_t label) {                                             \
        return e->weight ? ((const T *)e->weight)[label * e->weight_step] : 1;                               \
    }                                                                                                        \
    static void entropy_##name(const gd_entropy *e, int64_t i, gd_loss_sum *sum) {                           \
        const char *x = e->x + i * e->x_row * (int64_t)sizeof(T);                                            \
        T buffer[GD_BLOCK], exps[GD_BLOCK], q[GD_BLOCK], part, m = -(T)INFINITY, loss = 0;                   \
        const int64_t label = e->probabilities ? 0 : gd_entropy_label(e, i);                                 \
        double total = 0;                                                                                    \
        GD_EACH_BLOCK(e->classes) {                                                                          \
            part = row_max_##name(GD_BLOCK_OF(T, x, e->x_step, first, buffer), n);                           \
            m = part > m || part != part ? part : m;                                                         \
        }                                                                                                    \
        GD_EACH_BLOCK(e->classes) {                                                                          \
            total += (double)row_exp_sum_##name(GD_BLOCK_OF(T, x, e->x_step, first, buffer), m, exps, n);    \
        }                                                                                                    \
        const T ls = row_log_##name((T)total);                                                               \
        ((T *)e->lse)[i] = m + ls;                                                                           \
        if (label >= 0 && !e->probabilities) {                                                               \
            const T w = weight_##name(e, label), logit = ((const T *)x)[label * e->x_step];                  \
            loss = (T)(1 - e->smoothing) * w * (ls - (logit - m));                                           \
            sum->weight += (double)w;                                                                        \
        }                                                                                                    \
        if (label >= 0 && (e->probabilities || e->smoothing > 0)) {                                          \
            double soft = 0;                                                                                 \
            GD_EACH_BLOCK(e->classes) {                                                                      \
                const T *v = GD_BLOCK_OF(T, x, e->x_step, first, buffer);                                    \
                soft_##name(e, i, first, n, q);                                                              \
                for (int64_t k = 0; k < n; k++) q[k] = q[k] == 0 ? 0 : q[k] * (ls - (v[k] - m));             \
                GD_ROW_SUM(part, T, n, q[k]);                                                                \
                soft += (double)part;                                                                        \
            }                                                                                                \
            loss += (T)soft;                                                                                 \
        }                                                                                                    \
        if (e->reduction == GD_NONE) ((T *)e->loss)[i] = loss;                                               \
        sum->loss += (double)loss;                                                                           \
    }                                                                                                        \
    /* exp(x - lse) is the softmax but for the rounding of a large lse, so it is divided by its sum. */      \
    static void entropy_bwd_##name(const gd_entropy *e, int64_t i) {                                         \
        const char *x = e->x + i * e->x_row * (int64_t)sizeof(T);                                            \
        T buffer[GD_BLOCK], q[GD_BLOCK], part, *dx = (T *)e->dx + i * e->classes;                            \
        const int64_t label = e->probabilities ? 0 : gd_entropy_label(e, i);                                 \
        const bool soft = e->probabilities || e->smoothing > 0;                                              \
        const T g = label < 0 ? 0 : (T)GD_ENTROPY_GRADIENT(T, e, i), lse = ((const T *)e->lse)[i];           \
        if (g == 0) {                                                                                        \
            memset(dx, 0, (size_t)e->classes * sizeof *dx);                                                  \
            return;                                                                                          \
        }                                                                                                    \
        double total = 0, mass = 0;                                                                          \
        GD_EACH_BLOCK(e->classes) {                                                                          \
            total += (double)row_exp_sum_##name(GD_BLOCK_OF(T, x, e->x_step, first, buffer), lse, dx + first, n); \
            if (!soft) continue;                                                                             \
            soft_##name(e, i, first, n, q);                                                                  \
            GD_ROW_SUM(part, T, n, q[k]);                                                                    \
            mass += (double)part;                                                                            \
        }                                                                                                    \
        const T hard = e->probabilities ? 0 : (T)(1 - e->smoothing) * weight_##name(e, label);               \
        const T scale = g * (T)(((double)hard + mass) / total);                                              \
        GD_EACH_BLOCK(e->classes) {                                                                          \
            if (soft) soft_##name(e, i, first, n, q);                                                        \
            if (soft) for (int64_t k = 0; k < n; k++) dx[first + k] = GD_FMA(dx[first + k], scale, -(g * q[k])); \
            else row_scale_##name(dx + first, scale, dx + first, n, false);                                  \
        }                                                                                                    \
        if (!e->probabilities) dx[label] -= g * hard;                                                        \
    }
GD_DEFINE_ENTROPY(f32, float)
GD_DEFINE_ENTROPY(f64, double)

/* ---- rows as tasks ------------------------------------------------------------------------------------------ */

/* Rows first .. last; forward, their losses are added to sum. */
typedef void gd_entropy_rows(const gd_entropy *e, int64_t first, int64_t last, gd_loss_sum *sum);

static inline void gd_entropy_task(void *ctx, int64_t t, int worker) {
    const gd_entropy *e = ctx;
    const int64_t first = (e->first_task + t) * e->task_rows, last = first + e->task_rows;
    gd_loss_sum none, *sum = e->partials ? e->partials + t : &none;
    (void)worker;
    *sum = (gd_loss_sum){0, 0};
    e->work(e, first, last < e->rows ? last : e->rows, sum);
}

/* cross_entropy with the given rows function. */
static inline void gd_entropy_forward(const gd_args *a, gd_entropy_rows *rows_f32, gd_entropy_rows *rows_f64) {
    gd_entropy e;
    gd_entropy_init(&e, a->in[0], a->in[1], a->in[2], a->attr);
    e.work = a->in[0]->dtype == GD_FLOAT32 ? rows_f32 : rows_f64;
    e.loss = a->out[0]->data, e.lse = a->out[1]->data;
    const int64_t tasks = (e.rows + e.task_rows - 1) / e.task_rows;
    gd_loss_sum total = gd_loss_total(tasks, e.rows * e.classes <= GD_LOSS_SERIAL, gd_entropy_task, &e, &e.partials, &e.first_task);
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

/* cross_entropy_bwd with the given rows function. */
static inline void gd_entropy_backward(const gd_args *a, gd_entropy_rows *rows_f32, gd_entropy_rows *rows_f64) {
    gd_entropy e;
    gd_entropy_init(&e, a->in[1], a->in[2], a->in[3], a->attr);
    e.work = a->in[1]->dtype == GD_FLOAT32 ? rows_f32 : rows_f64;
    e.g = a->in[0]->data, e.g_step = e.reduction == GD_NONE ? a->in[0]->strides[3] : 0;
    e.lse = a->in[4]->data, e.norm = a->in[5]->data;
    e.dx = a->out[0]->data;
    const int64_t tasks = (e.rows + e.task_rows - 1) / e.task_rows;
    if (e.rows * e.classes == 0) return;
    if (e.rows * e.classes <= GD_LOSS_SERIAL || tasks == 1) for (int64_t i = 0; i < tasks; i++) gd_entropy_task(&e, i, 0);
    else gd_parallel(tasks, gd_entropy_task, &e);
}

#endif
