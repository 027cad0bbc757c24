/* loss.c - cross entropy and mean squared error with their gradients, as PyTorch defines them.
 * Ignored rows have no loss and a gradient of exactly 0; sums over rows are float64. */
#include "prows.h"

#include "../loss.h"

#define DEFINE_ROWS(name)                                                                                    \
    static void entropy_rows_##name(const gd_entropy *e, int64_t first, int64_t last, gd_loss_sum *sum) {    \
        for (; first < last; first++) entropy_##name(e, first, sum);                                         \
    }                                                                                                        \
    static void entropy_bwd_rows_##name(const gd_entropy *e, int64_t first, int64_t last, gd_loss_sum *sum) { \
        (void)sum;                                                                                           \
        for (; first < last; first++) entropy_bwd_##name(e, first);                                          \
    }
DEFINE_ROWS(f32)
DEFINE_ROWS(f64)

void GD_KERNEL(cross_entropy)(const gd_args *a) { gd_entropy_forward(a, entropy_rows_f32, entropy_rows_f64); }
void GD_KERNEL(cross_entropy_bwd)(const gd_args *a) { gd_entropy_backward(a, entropy_bwd_rows_f32, entropy_bwd_rows_f64); }

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
    squares s;
    gd_walk_init(&s.x, a->in[0], 0xF);
    gd_walk_init(&s.y, a->in[1], 0xF);
    s.out = a->out[0]->data, s.partials = NULL, s.first_task = 0;
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
    squares s;
    gd_walk_init(&s.x, a->in[1], 0xF);
    gd_walk_init(&s.y, a->in[2], 0xF);
    gd_walk_init(&s.g, a->in[0], 0xF);
    s.out = a->out[0]->data, s.partials = NULL, s.first_task = 0;
    s.factor = a->attr->i[0] == GD_MEAN ? 2 / (double)s.x.count : 2;
    s.one_g = s.g.count == 1;
    each_task(&s, a->in[1]->dtype == GD_FLOAT32 ? mse_bwd_task_f32 : mse_bwd_task_f64);
}
