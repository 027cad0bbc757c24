/* attention.c - scaled dot product attention: the functions of one vector of queries; attention_blocks.h makes kernels of them.
 * Loops over queries, which compilers vectorise. Also the rotary embedding of positions. */
#include "attention_job.h"

#include "../scalar.h"

#define DEFINE_STEPS(name, T)                                                                                                  \
    /* Largest score so far; exp of what is below it; the sum. A query that sees no key yet keeps -inf, and all are 0. */       \
    static bool softmax_step_##name(T *scores, int64_t keys, int64_t lanes, T scale, T *largest, T *sum, T *correction) {      \
        T top[GD_ATT_ROWS], from[GD_ATT_ROWS], part[GD_ATT_ROWS];                                                              \
        bool moved = false;                                                                                                    \
        for (int64_t r = 0; r < lanes; r++) top[r] = -(T)INFINITY, part[r] = 0;                                                \
        for (int64_t s = 0; s < keys; s++) {                                                                                   \
            const T *x = scores + s * GD_ATT_ROWS;                                                                             \
            for (int64_t r = 0; r < lanes; r++) top[r] = x[r] > top[r] ? x[r] : top[r];                                        \
        }                                                                                                                      \
        for (int64_t r = 0; r < lanes; r++) {                                                                                  \
            const T scaled = top[r] * scale, next = scaled > largest[r] ? scaled : largest[r];                                 \
            from[r] = next == -(T)INFINITY ? 0 : next;                                                                         \
            correction[r] = gd_exp_##name(largest[r] - from[r]);                                                               \
            moved |= !(correction[r] == 1);                                                                                    \
            largest[r] = next;                                                                                                 \
        }                                                                                                                      \
        for (int64_t s = 0; s < keys; s++) {                                                                                   \
            T *x = scores + s * GD_ATT_ROWS;                                                                                   \
            for (int64_t r = 0; r < lanes; r++) {                                                                              \
                x[r] = gd_exp_##name(GD_FMA(x[r], scale, -from[r]));                                                           \
                part[r] += x[r];                                                                                               \
            }                                                                                                                  \
        }                                                                                                                      \
        for (int64_t r = 0; r < lanes; r++) sum[r] = GD_FMA(sum[r], correction[r], part[r]);                                   \
        return moved;                                                                                                          \
    }                                                                                                                          \
    static void slopes_##name(T *scores, T *slopes, int64_t keys, int64_t lanes, T scale, const T *lse, const T *delta, T by) { \
        for (int64_t s = 0; s < keys; s++) {                                                                                   \
            T *x = scores + s * GD_ATT_ROWS, *y = slopes + s * GD_ATT_ROWS;                                                    \
            for (int64_t r = 0; r < lanes; r++) {                                                                              \
                const T p = gd_exp_##name(GD_FMA(x[r], scale, -lse[r])), d = p * (y[r] - delta[r]) * by;                       \
                x[r] = p;                                                                                                      \
                y[r] = p == 0 ? 0 : d;                                                                                         \
            }                                                                                                                  \
        }                                                                                                                      \
    }                                                                                                                          \
    static inline T log_##name(T x) { return gd_log_##name(x); }
DEFINE_STEPS(f32, float)
DEFINE_STEPS(f64, double)

#include "attention_driver.h"

/* ---- Rotary embedding: out = x turned by the angles of its position, pairs of elements at a time --------------------------- */

enum { ROTARY_TASK = 1 << 14 }; /* elements: some us */

typedef struct turning {
    const gd_args *args;
    int64_t rows, task_rows; /* of the last dimension */
} turning;

/* x (B,H,T,D), cos and sin broadcast to (B,H,T,R): the first 2 R of D turn, neighbours or halves with each other. */
#define DEFINE_TURN(name, T)                                                                                                   \
    static void turn_##name(const turning *t, int64_t row) {                                                                   \
        const gd_view *v[3] = {t->args->in[0], t->args->in[1], t->args->in[2]}, *out = t->args->out[0];                        \
        const int64_t at[3] = {row / v[0]->shape[2] / v[0]->shape[1], row / v[0]->shape[2] % v[0]->shape[1], row % v[0]->shape[2]}; \
        const T *from[3];                                                                                                      \
        for (int k = 0; k < 3; k++) {                                                                                          \
            from[k] = (const T *)v[k]->data;                                                                                   \
            for (int d = 0; d < 3; d++) from[k] += (v[k]->shape[d] == 1 ? 0 : at[d]) * v[k]->strides[d];                       \
        }                                                                                                                      \
        const int64_t half = v[1]->shape[3], size = v[0]->shape[3], xs = v[0]->strides[3], cs = v[1]->strides[3], ss = v[2]->strides[3]; \
        const bool neighbours = t->args->attr->i[0] != 0;                                                                      \
        const int64_t step = neighbours ? 2 : 1, other = neighbours ? 1 : half;                                                \
        const T sign = t->args->attr->i[1] ? (T)-1 : (T)1;                                                                     \
        T *y = (T *)out->data + at[0] * out->strides[0] + at[1] * out->strides[1] + at[2] * out->strides[2];                   \
        for (int64_t c = 0; c < half; c++) {                                                                                   \
            const T a = from[0][c * step * xs], b = from[0][(c * step + other) * xs], cos_c = from[1][c * cs], sin_c = sign * from[2][c * ss]; \
            y[c * step] = GD_FMA(a, cos_c, -(b * sin_c));                                                                      \
            y[c * step + other] = GD_FMA(b, cos_c, a * sin_c);                                                                 \
        }                                                                                                                      \
        for (int64_t c = 2 * half; c < size; c++) y[c] = from[0][c * xs];                                                      \
    }
DEFINE_TURN(f32, float)
DEFINE_TURN(f64, double)

static void turn_task(void *ctx, int64_t task, int worker) {
    const turning *t = ctx;
    (void)worker;
    for (int64_t row = task * t->task_rows; row < least(t->rows, (task + 1) * t->task_rows); row++) {
        if (t->args->out[0]->dtype == GD_FLOAT32) turn_f32(t, row);
        else turn_f64(t, row);
    }
}

void GD_KERNEL(rotary)(const gd_args *a) {
    const gd_view *x = a->in[0];
    turning t = {.args = a, .rows = x->shape[0] * x->shape[1] * x->shape[2]};
    if (gd_numel(x) == 0) return;
    t.task_rows = most(1, ROTARY_TASK / x->shape[3]);
    const int64_t tasks = (t.rows + t.task_rows - 1) / t.task_rows;
    if (tasks <= 2)
        for (int64_t i = 0; i < tasks; i++) turn_task(&t, i, 0);
    else gd_parallel(tasks, turn_task, &t);
}
