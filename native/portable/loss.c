/* loss.c - cross entropy and mean squared error with their gradients, as PyTorch defines them.
 * Ignored rows have no loss and a gradient of exactly 0; sums over rows are float64. */
#include "../loss.h"

#include "../rows.h"

/* ---- cross_entropy ---------------------------------------------------------------------------------------
 * The loss of a row is  hard (ls - (x[label] - m)) + sum over c of q[c] (ls - (x[c] - m))  with m the largest
 * logit and ls = log sum exp(x - m). Class targets: hard = (1 - s) w[label], q[c] = w[c] s / C with s the
 * smoothing. Probability targets t: hard = 0, q[c] = w[c] ((1 - s) t[c] + s / C). The gradient of the row is
 * (hard + sum q) softmax(x) - hard onehot(label) - q. */

/* n elements from `first` on of a row at x, side by side. */
#define BLOCK_OF(T, x, step, first, buffer) \
    ((step) == 1 ? (const T *)(x) + (first) : (gd_walk_copy((char *)(buffer), (x) + (first) * (step) * (int64_t)sizeof(T), step, n, sizeof(T)), (const T *)(buffer)))

#define EACH_BLOCK(count) \
    for (int64_t first = 0, n = 0; first < (count) && (n = (count) - first < GD_BLOCK ? (count) - first : GD_BLOCK); first += n)

#define DEFINE_ENTROPY(name, T)                                                                              \
    /* q[0..n) of classes first, first + 1, ... of row i. */                                                 \
    static void soft_##name(const gd_entropy *e, int64_t i, int64_t first, int64_t n, T *q) {                \
        const T share = (T)(e->smoothing / (double)e->classes), rest = (T)(1 - e->smoothing);                \
        const T *t = (const T *)e->target + i * e->target_row + first * e->target_step;                      \
        const T *w = (const T *)e->weight;                                                                   \
        for (int64_t k = 0; k < n; k++) q[k] = e->probabilities ? rest * t[k * e->target_step] + share : share; \
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
        EACH_BLOCK(e->classes) {                                                                             \
            part = gd_row_max_##name(BLOCK_OF(T, x, e->x_step, first, buffer), n);                           \
            m = part > m || part != part ? part : m;                                                         \
        }                                                                                                    \
        EACH_BLOCK(e->classes) {                                                                             \
            gd_row_exp_##name(BLOCK_OF(T, x, e->x_step, first, buffer), m, exps, n);                         \
            GD_ROW_SUM(part, T, n, exps[k]);                                                                 \
            total += (double)part;                                                                           \
        }                                                                                                    \
        const T ls = gd_log_##name((T)total);                                                                \
        ((T *)e->lse)[i] = m + ls;                                                                           \
        if (label >= 0 && !e->probabilities) {                                                               \
            const T w = weight_##name(e, label), logit = ((const T *)x)[label * e->x_step];                  \
            loss = (T)(1 - e->smoothing) * w * (ls - (logit - m));                                           \
            sum->weight += (double)w;                                                                        \
        }                                                                                                    \
        if (label >= 0 && (e->probabilities || e->smoothing > 0)) {                                          \
            double soft = 0;                                                                                 \
            EACH_BLOCK(e->classes) {                                                                         \
                const T *v = BLOCK_OF(T, x, e->x_step, first, buffer);                                       \
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
    static void entropy_task_##name(void *ctx, int64_t t, int worker) {                                      \
        const gd_entropy *e = ctx;                                                                           \
        const int64_t start = (e->first_task + t) * e->task_rows;                                            \
        gd_loss_sum *sum = e->partials + t;                                                                  \
        (void)worker;                                                                                        \
        *sum = (gd_loss_sum){0, 0};                                                                          \
        for (int64_t i = start; i < start + e->task_rows && i < e->rows; i++) entropy_##name(e, i, sum);     \
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
        EACH_BLOCK(e->classes) {                                                                             \
            gd_row_exp_##name(BLOCK_OF(T, x, e->x_step, first, buffer), lse, dx + first, n);                 \
            GD_ROW_SUM(part, T, n, dx[first + k]);                                                           \
            total += (double)part;                                                                           \
            if (!soft) continue;                                                                             \
            soft_##name(e, i, first, n, q);                                                                  \
            GD_ROW_SUM(part, T, n, q[k]);                                                                    \
            mass += (double)part;                                                                            \
        }                                                                                                    \
        const T hard = e->probabilities ? 0 : (T)(1 - e->smoothing) * weight_##name(e, label);               \
        const T scale = g * (T)(((double)hard + mass) / total);                                              \
        EACH_BLOCK(e->classes) {                                                                             \
            if (soft) soft_##name(e, i, first, n, q);                                                        \
            if (soft) for (int64_t k = 0; k < n; k++) dx[first + k] = GD_FMA(dx[first + k], scale, -(g * q[k])); \
            else for (int64_t k = 0; k < n; k++) dx[first + k] *= scale;                                     \
        }                                                                                                    \
        if (!e->probabilities) dx[label] -= g * hard;                                                        \
    }                                                                                                        \
    static void entropy_bwd_task_##name(void *ctx, int64_t t, int worker) {                                  \
        const gd_entropy *e = ctx;                                                                           \
        const int64_t start = t * e->task_rows;                                                              \
        (void)worker;                                                                                        \
        for (int64_t i = start; i < start + e->task_rows && i < e->rows; i++) entropy_bwd_##name(e, i);      \
    }
DEFINE_ENTROPY(f32, float)
DEFINE_ENTROPY(f64, double)

void GD_KERNEL(cross_entropy)(const gd_args *a) {
    gd_entropy_forward(a, a->in[0]->dtype == GD_FLOAT32 ? entropy_task_f32 : entropy_task_f64);
}

void GD_KERNEL(cross_entropy_bwd)(const gd_args *a) {
    gd_entropy_backward(a, a->in[1]->dtype == GD_FLOAT32 ? entropy_bwd_task_f32 : entropy_bwd_task_f64);
}

/* ---- mse_loss: (x - y)^2 and 2 g (x - y) ------------------------------------------------------------------- */

typedef struct squares {
    gd_walk x, y, g;
    void *out;
    int64_t first_task;
    gd_loss_sum *partials; /* NULL: elementwise, into out */
    double factor;         /* backward: 2 or 2 / n */
    bool one_g;
} squares;

#define EACH_TASK_BLOCK(s, t)                                                                                \
    for (int64_t first = (t) * GD_LOSS_TASK, n = 0, last = first + GD_LOSS_TASK < (s)->x.count ? first + GD_LOSS_TASK : (s)->x.count; \
         first < last && (n = last - first < GD_BLOCK ? last - first : GD_BLOCK); first += n)

#define DEFINE_MSE(name, T)                                                                                  \
    static void mse_task_##name(void *ctx, int64_t t, int worker) {                                          \
        const squares *s = ctx;                                                                              \
        int64_t x_buffer[GD_BLOCK], y_buffer[GD_BLOCK];                                                      \
        double sum = 0;                                                                                      \
        T part;                                                                                              \
        (void)worker;                                                                                        \
        EACH_TASK_BLOCK(s, s->first_task + t) {                                                              \
            const T *x = gd_walk_run(&s->x, s->x.x, first, n, x_buffer);                                     \
            const T *y = gd_walk_run(&s->y, s->y.x, first, n, y_buffer);                                     \
            T *out = (T *)s->out + first;                                                                    \
            if (s->partials) {                                                                               \
                GD_ROW_SUM(part, T, n, (x[k] - y[k]) * (x[k] - y[k]));                                       \
                sum += (double)part;                                                                         \
            } else {                                                                                         \
                for (int64_t k = 0; k < n; k++) out[k] = (x[k] - y[k]) * (x[k] - y[k]);                      \
            }                                                                                                \
        }                                                                                                    \
        if (s->partials) s->partials[t] = (gd_loss_sum){sum, 0};                                             \
    }                                                                                                        \
    static void mse_bwd_task_##name(void *ctx, int64_t t, int worker) {                                      \
        const squares *s = ctx;                                                                              \
        int64_t x_buffer[GD_BLOCK], y_buffer[GD_BLOCK], g_buffer[GD_BLOCK];                                  \
        (void)worker;                                                                                        \
        EACH_TASK_BLOCK(s, t) {                                                                              \
            const T *x = gd_walk_run(&s->x, s->x.x, first, n, x_buffer);                                     \
            const T *y = gd_walk_run(&s->y, s->y.x, first, n, y_buffer);                                     \
            T *out = (T *)s->out + first;                                                                    \
            if (s->one_g) {                                                                                  \
                const T g = *(const T *)s->g.x, scale = (T)s->factor * g;                                    \
                if (g == 0) memset(out, 0, (size_t)n * sizeof *out);                                         \
                else for (int64_t k = 0; k < n; k++) out[k] = scale * (x[k] - y[k]);                         \
            } else {                                                                                         \
                const T *g = gd_walk_run(&s->g, s->g.x, first, n, g_buffer), factor = (T)s->factor;          \
                for (int64_t k = 0; k < n; k++) out[k] = g[k] == 0 ? 0 : factor * g[k] * (x[k] - y[k]);      \
            }                                                                                                \
        }                                                                                                    \
    }
DEFINE_MSE(f32, float)
DEFINE_MSE(f64, double)

static void each_task(squares *s, void (*task)(void *ctx, int64_t t, int worker)) {
    const int64_t tasks = (s->x.count + GD_LOSS_TASK - 1) / GD_LOSS_TASK;
    if (s->x.count <= GD_SERIAL) for (int64_t t = 0; t < tasks; t++) task(s, t, 0);
    else gd_parallel(tasks, task, s);
}

void GD_KERNEL(mse_loss)(const gd_args *a) {
    squares s = {.x = gd_walk_of(a->in[0], 0xF), .y = gd_walk_of(a->in[1], 0xF), .out = a->out[0]->data};
    const bool single = a->in[0]->dtype == GD_FLOAT32;
    void (*const task)(void *ctx, int64_t t, int worker) = single ? mse_task_f32 : mse_task_f64;
    if (a->attr->i[0] == GD_NONE) {
        each_task(&s, task);
        return;
    }
    const int64_t tasks = (s.x.count + GD_LOSS_TASK - 1) / GD_LOSS_TASK;
    double loss = gd_loss_total(tasks, s.x.count <= GD_SERIAL, task, &s, &s.partials, &s.first_task).loss;
    if (a->attr->i[0] == GD_MEAN) loss /= (double)s.x.count;
    if (single) *(float *)s.out = (float)loss;
    else *(double *)s.out = loss;
}

void GD_KERNEL(mse_loss_bwd)(const gd_args *a) {
    squares s = {.x = gd_walk_of(a->in[1], 0xF), .y = gd_walk_of(a->in[2], 0xF), .g = gd_walk_of(a->in[0], 0xF), .out = a->out[0]->data};
    s.factor = a->attr->i[0] == GD_MEAN ? 2 / (double)s.x.count : 2;
    s.one_g = s.g.count == 1;
    each_task(&s, a->in[1]->dtype == GD_FLOAT32 ? mse_bwd_task_f32 : mse_bwd_task_f64);
}
