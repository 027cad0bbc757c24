/* loss_pairs.c - losses of two tensors of one shape, element by element, and their slopes: squared error, smooth L1 and
 * Huber, binary cross entropy of probabilities and of logits. Sums are float64 over tasks of fixed size. */
#include "prows.h"

#include "../loss_sum.h"

typedef struct pairs {
    gd_walk x, y, g;
    void *out;
    const gd_attr *attr;
    int64_t first_task;
    gd_loss_sum *partials; /* NULL: elementwise, into out */
    double factor;         /* backward: 1 or 1 / n */
    bool one_g;
} pairs;

#define EACH_TASK_BLOCK(s, t)                                                                                \
    for (int64_t first = (t) * GD_LOSS_TASK, n = 0, last = first + GD_LOSS_TASK < (s)->x.count ? first + GD_LOSS_TASK : (s)->x.count; \
         first < last && (n = last - first < GD_BLOCK ? last - first : GD_BLOCK); first += n)

/* LOSS and SLOPE are expressions in x = x[k], y = y[k] and what the declarations make of the attributes; d is their
 * difference. A slope is 0 where g is 0. */
#define DEFINE_PAIRS(op, name, T, declarations, LOSS, SLOPE)                                                 \
    static void op##_task_##name(void *ctx, int64_t t, int worker) {                                         \
        const pairs *s = ctx;                                                                                \
        int64_t x_buffer[GD_BLOCK], y_buffer[GD_BLOCK];                                                      \
        T values[GD_BLOCK], part;                                                                            \
        double sum = 0;                                                                                      \
        declarations;                                                                                        \
        (void)worker;                                                                                        \
        EACH_TASK_BLOCK(s, s->first_task + t) {                                                              \
            const T *px = gd_walk_run(&s->x, s->x.x, first, n, x_buffer);                                    \
            const T *py = gd_walk_run(&s->y, s->y.x, first, n, y_buffer);                                    \
            T *out = s->partials ? values : (T *)s->out + first;                                             \
            for (int64_t k = 0; k < n; k++) {                                                                \
                const T x = px[k], y = py[k], d = x - y;                                                     \
                (void)x, (void)y, (void)d;                                                                   \
                out[k] = LOSS;                                                                               \
            }                                                                                                \
            if (!s->partials) continue;                                                                      \
            GD_ROW_SUM(part, T, n, values[k]);                                                               \
            sum += (double)part;                                                                             \
        }                                                                                                    \
        if (s->partials) s->partials[t] = (gd_loss_sum){sum, 0};                                             \
    }                                                                                                        \
    static void op##_bwd_task_##name(void *ctx, int64_t t, int worker) {                                     \
        const pairs *s = ctx;                                                                                \
        int64_t x_buffer[GD_BLOCK], y_buffer[GD_BLOCK], g_buffer[GD_BLOCK];                                  \
        declarations;                                                                                        \
        (void)worker;                                                                                        \
        EACH_TASK_BLOCK(s, t) {                                                                              \
            const T *px = gd_walk_run(&s->x, s->x.x, first, n, x_buffer);                                    \
            const T *py = gd_walk_run(&s->y, s->y.x, first, n, y_buffer);                                    \
            const T *g = s->one_g ? (const T *)s->g.x : gd_walk_run(&s->g, s->g.x, first, n, g_buffer);      \
            const T factor = (T)s->factor;                                                                   \
            T *out = (T *)s->out + first;                                                                    \
            if (s->one_g) {                                                                                  \
                const T scale = factor * g[0];                                                               \
                if (g[0] == 0) memset(out, 0, (size_t)n * sizeof *out);                                      \
                else                                                                                         \
                    for (int64_t k = 0; k < n; k++) {                                                        \
                        const T x = px[k], y = py[k], d = x - y;                                             \
                        (void)d;                                                                             \
                        out[k] = scale * (SLOPE);                                                            \
                    }                                                                                        \
            } else {                                                                                         \
                for (int64_t k = 0; k < n; k++) {                                                            \
                    const T x = px[k], y = py[k], d = x - y;                                                 \
                    (void)d;                                                                                 \
                    out[k] = g[k] == 0 ? 0 : factor * g[k] * (SLOPE);                                        \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }

static void each_task(pairs *s, void (*task)(void *ctx, int64_t t, int worker)) {
    const int64_t tasks = (s->x.count + GD_LOSS_TASK - 1) / GD_LOSS_TASK;
    if (s->x.count <= GD_SERIAL) for (int64_t t = 0; t < tasks; t++) task(s, t, 0);
    else gd_parallel(tasks, task, s);
}

typedef void pair_task(void *ctx, int64_t t, int worker);

static void forward(const gd_args *a, pair_task *f32, pair_task *f64) {
    pairs s;
    gd_walk_init(&s.x, a->in[0], 0xF);
    gd_walk_init(&s.y, a->in[1], 0xF);
    s.out = a->out[0]->data, s.attr = a->attr, s.partials = NULL, s.first_task = 0;
    const bool single = a->in[0]->dtype == GD_FLOAT32;
    pair_task *const task = single ? f32 : f64;
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

static void backward(const gd_args *a, pair_task *f32, pair_task *f64) {
    pairs s;
    gd_walk_init(&s.x, a->in[1], 0xF);
    gd_walk_init(&s.y, a->in[2], 0xF);
    gd_walk_init(&s.g, a->in[0], 0xF);
    s.out = a->out[0]->data, s.attr = a->attr, s.partials = NULL, s.first_task = 0;
    s.factor = a->attr->i[0] == GD_MEAN ? 1 / (double)s.x.count : 1;
    s.one_g = s.g.count == 1;
    each_task(&s, a->in[1]->dtype == GD_FLOAT32 ? f32 : f64);
}

#define PAIR_KERNELS(op)                                                                                     \
    void GD_KERNEL(op)(const gd_args *a) { forward(a, op##_task_f32, op##_task_f64); }                       \
    void GD_KERNEL(op##_bwd)(const gd_args *a) { backward(a, op##_bwd_task_f32, op##_bwd_task_f64); }

DEFINE_PAIRS(mse_loss, f32, float, , d * d, d + d)
DEFINE_PAIRS(mse_loss, f64, double, , d * d, d + d)
PAIR_KERNELS(mse_loss)

/* curve d^2 / 2 below beta, from there on flat (|d| - beta / 2) */
#define KNEE(T) const T beta = (T)s->attr->f[0], flat = s->attr->i[1] ? beta : 1, curve = s->attr->i[1] || beta == 0 ? 1 : 1 / beta
#define SMOOTH(abs) abs(d) < beta ? (d * d) / 2 * curve : flat * (abs(d) - beta / 2)
#define SMOOTH_SLOPE(abs) abs(d) < beta ? d * curve : d > 0 ? flat : d < 0 ? -flat : 0 * d
DEFINE_PAIRS(smooth_l1_loss, f32, float, KNEE(float), SMOOTH(__builtin_fabsf), SMOOTH_SLOPE(__builtin_fabsf))
DEFINE_PAIRS(smooth_l1_loss, f64, double, KNEE(double), SMOOTH(__builtin_fabs), SMOOTH_SLOPE(__builtin_fabs))
PAIR_KERNELS(smooth_l1_loss)

/* Both terms of a certain and right answer are 0: nothing is lost beside a large logit. */
#define LOGITS(suffix, abs) GD_FMA(-x, y, x < 0 ? 0 : x) - gd_log_sigmoid_##suffix(abs(x))
DEFINE_PAIRS(binary_cross_entropy_with_logits, f32, float, , LOGITS(f32, __builtin_fabsf), gd_sigmoid_f32(x) - y)
DEFINE_PAIRS(binary_cross_entropy_with_logits, f64, double, , LOGITS(f64, __builtin_fabs), gd_sigmoid_f64(x) - y)
PAIR_KERNELS(binary_cross_entropy_with_logits)

#define LEAST_LOG(l) ((l) < -100 ? -100 : (l))
#define BCE(suffix) (y - 1) * LEAST_LOG(gd_log1p_##suffix(-x)) - y * LEAST_LOG(gd_log_##suffix(x))
#define LEAST_SPREAD 1e-12f /* in float32 for both, as PyTorch has it */
#define BCE_SLOPE(T) d / ((1 - x) * x < (T)LEAST_SPREAD ? (T)LEAST_SPREAD : (1 - x) * x)
DEFINE_PAIRS(binary_cross_entropy, f32, float, , BCE(f32), BCE_SLOPE(float))
DEFINE_PAIRS(binary_cross_entropy, f64, double, , BCE(f64), BCE_SLOPE(double))
PAIR_KERNELS(binary_cross_entropy)
