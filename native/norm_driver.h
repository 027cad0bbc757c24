/* norm_driver.h - layer norm and RMS norm over the last dimensions, and their gradients, out of row functions that the
 * including file has defined: for name f32 and f64, type T, contiguous arrays of n <= GD_BLOCK elements,
 *   void row_moments_<name>(x, pivot, n, s, q)         *s += sum(x - pivot), *q += sum((x - pivot)^2), in float64
 *   void row_norm_<name>(x, c, w, b, y, n, stream)     y = xh w + b
 *   bool row_norm_dots_<name>(g, x, c, w, dw, db, n, sums)  dw += g xh, db += g, sums[0] += sum(g w),
 *                                                      sums[1] += sum(g w xh); whether a g is not 0
 *   void row_norm_dx_<name>(g, x, c, w, a, dx, n, stream)  dx = scale (g w - a[0] - a[1] xh)
 *   void norm_fence()                                  after the streaming of a task
 * with xh = (x - high - low) scale the normalised row and c these three; w, b, dw and db may be NULL; terms with
 * g = 0 are 0. stream: the output is larger than caches, so it is written around them where the machine can.
 *
 * Statistics are float64. The moments are taken about an element of the row, p, so that their difference loses
 * little whatever the mean: (mean - p)^2 is at most n times the variance. The mean goes into float32 as two parts. */
#ifndef GRADINO_NORM_DRIVER_H
#define GRADINO_NORM_DRIVER_H

#include "norm.h"
#include "rows.h"

typedef struct gd_norm_run {
    gd_walk x, g, w, b;       /* rows of x and g; weight and bias as one row */
    bool has_w, has_b, centred, stream;
    double eps, *stats;       /* (rows, 2): mean and 1 / sqrt(var + eps); (rows, 1) without the mean */
    char *out;                /* y, or dx or NULL */
    gd_norm_cut cut;
    int wanted;
    double *partials;         /* (tasks, 2, n): gradients of weight and bias */
    char *groups;             /* (workers, 2, n) of T: those of the rows since the last that joined */
    void (*rows)(const struct gd_norm_run *r, int64_t first, int64_t last, int64_t task, int worker);
} gd_norm_run;

/* PASSES: float64 data takes its moments a second time, about the mean that the first time gave. */
#define GD_DEFINE_NORM(name, T, PASSES)                                                                       \
    static gd_norm_##name norm_constants_##name(const gd_norm_run *r, int64_t row) {                          \
        const double mean = r->centred ? r->stats[2 * row] : 0, scale = r->centred ? r->stats[2 * row + 1] : r->stats[row]; \
        const T high = (T)mean;                                                                               \
        return (gd_norm_##name){high, (T)(mean - (double)high), (T)scale};                                    \
    }                                                                                                         \
    static void norm_rows_##name(const gd_norm_run *r, int64_t from, int64_t last, int64_t task, int worker) { \
        int64_t x_buffer[GD_BLOCK], w_buffer[GD_BLOCK], b_buffer[GD_BLOCK];                                   \
        const double count = (double)r->x.count;                                                              \
        (void)task, (void)worker;                                                                             \
        for (int64_t row = from; row < last; row++) {                                                         \
            const char *x = gd_walk_output(&r->x, row);                                                       \
            double mean = r->centred ? (double)*(const T *)x : 0, square = 0;                                 \
            for (int pass = 0; pass < (r->centred ? PASSES : 1); pass++) {                                    \
                double s = 0, q = 0;                                                                          \
                GD_EACH_BLOCK(r->x.count) row_moments_##name(gd_walk_run(&r->x, x, first, n, x_buffer), mean, n, &s, &q); \
                const double shift = r->centred ? s / count : 0;                                              \
                square = q / count - shift * shift;                                                           \
                mean += shift;                                                                                \
            }                                                                                                 \
            const double scale = 1 / __builtin_sqrt((square < 0 ? 0 : square) + r->eps);                      \
            if (r->centred) r->stats[2 * row] = mean, r->stats[2 * row + 1] = scale;                          \
            else r->stats[row] = scale;                                                                       \
            const gd_norm_##name c = norm_constants_##name(r, row);                                           \
            T *y = (T *)r->out + row * r->x.count;                                                            \
            GD_EACH_BLOCK(r->x.count) {                                                                       \
                const T *w = r->has_w ? gd_walk_run(&r->w, r->w.x, first, n, w_buffer) : NULL;                \
                const T *b = r->has_b ? gd_walk_run(&r->b, r->b.x, first, n, b_buffer) : NULL;                \
                row_norm_##name(gd_walk_run(&r->x, x, first, n, x_buffer), &c, w, b, y + first, n, r->stream); \
            }                                                                                                 \
        }                                                                                                     \
    }                                                                                                         \
    /* Adds n elements of a group to the float64 sums and clears them. */                                     \
    static void norm_join_##name(double *sum, T *group, int64_t n) {                                          \
        for (int64_t k = 0; k < n; k++) sum[k] += (double)group[k];                                           \
        memset(group, 0, (size_t)n * sizeof *group);                                                          \
    }                                                                                                         \
    static void norm_bwd_rows_##name(const gd_norm_run *r, int64_t from, int64_t last, int64_t task, int worker) { \
        int64_t x_buffer[GD_BLOCK], g_buffer[GD_BLOCK], w_buffer[GD_BLOCK];                                   \
        const int64_t count = r->x.count;                                                                     \
        double *const sum = r->partials ? r->partials + task * 2 * count : NULL;                              \
        T *const group = r->partials ? (T *)r->groups + worker * 2 * count : NULL;                            \
        T *const dw = r->wanted & GD_NORM_DW ? group : NULL, *const db = r->wanted & GD_NORM_DB ? group + count : NULL; \
        if (sum) {                                                                                            \
            memset(sum, 0, (size_t)(2 * count) * sizeof *sum);                                                \
            memset(group, 0, (size_t)(2 * count) * sizeof *group);                                            \
        }                                                                                                     \
        for (int64_t row = from; row < last; row++) {                                                         \
            const char *xs = gd_walk_output(&r->x, row), *gs = gd_walk_output(&r->g, row);                    \
            const gd_norm_##name c = norm_constants_##name(r, row);                                           \
            double sums[2] = {0, 0};                                                                          \
            bool any = false;                                                                                 \
            GD_EACH_BLOCK(count) {                                                                            \
                const T *g = gd_walk_run(&r->g, gs, first, n, g_buffer), *x = gd_walk_run(&r->x, xs, first, n, x_buffer); \
                const T *w = r->has_w ? gd_walk_run(&r->w, r->w.x, first, n, w_buffer) : NULL;                \
                any |= row_norm_dots_##name(g, x, &c, w, dw ? dw + first : NULL, db ? db + first : NULL, n, sums); \
            }                                                                                                 \
            if (sum && ((row - from + 1) % GD_NORM_GROUP == 0 || row + 1 == last)) norm_join_##name(sum, group, 2 * count); \
            if (!(r->wanted & GD_NORM_DX)) continue;                                                          \
            T *dx = (T *)r->out + row * count;                                                                \
            const T means[2] = {r->centred ? (T)(sums[0] / (double)count) : 0, (T)(sums[1] / (double)count)}; \
            if (!any) {                                                                                       \
                memset(dx, 0, (size_t)count * sizeof *dx);                                                    \
                continue;                                                                                     \
            }                                                                                                 \
            GD_EACH_BLOCK(count) {                                                                            \
                const T *g = gd_walk_run(&r->g, gs, first, n, g_buffer), *x = gd_walk_run(&r->x, xs, first, n, x_buffer); \
                const T *w = r->has_w ? gd_walk_run(&r->w, r->w.x, first, n, w_buffer) : NULL;                \
                row_norm_dx_##name(g, x, &c, w, means, dx + first, n, r->stream);                             \
            }                                                                                                 \
        }                                                                                                     \
    }                                                                                                         \
    /* out = the sum of `tasks` partials, `step` apart. */                                                    \
    static void norm_total_##name(double *partials, int64_t tasks, int64_t step, int64_t n, T *out) {         \
        for (int64_t t = 1; t < tasks; t++)                                                                   \
            for (int64_t k = 0; k < n; k++) partials[k] += partials[t * step + k];                            \
        for (int64_t k = 0; k < n; k++) out[k] = tasks ? (T)partials[k] : 0;                                  \
    }
GD_DEFINE_NORM(f32, float, 1)
GD_DEFINE_NORM(f64, double, 2)

/* ---- rows as tasks ------------------------------------------------------------------------------------------ */

static inline void gd_norm_task(void *ctx, int64_t i, int worker) {
    const gd_norm_run *r = ctx;
    const int64_t first = i * r->cut.task_rows, last = first + r->cut.task_rows;
    r->rows(r, first, last < r->x.outputs ? last : r->x.outputs, i, worker);
    norm_fence();
}

static inline void gd_norm_tasks(gd_norm_run *r) {
    if (r->x.outputs * r->x.count <= GD_NORM_SERIAL) for (int64_t i = 0; i < r->cut.tasks; i++) gd_norm_task(r, i, 0);
    else gd_parallel(r->cut.tasks, gd_norm_task, r);
}

static inline bool gd_norm_walk(gd_walk *w, const gd_view *v) {
    if (v) gd_walk_init(w, v, 0xF);
    return v != NULL;
}

/* (x, weight?, bias?) -> y, stats; without the mean there is no bias. */
static inline void gd_norm_forward(const gd_args *a, bool centred) {
    gd_norm_run r;
    const gd_view *x = a->in[0];
    gd_walk_init(&r.x, x, gd_norm_mask(a->attr->i[0]));
    r.has_w = gd_norm_walk(&r.w, a->in[1]);
    r.has_b = centred && gd_norm_walk(&r.b, a->in[2]);
    r.centred = centred, r.eps = a->attr->f[0];
    r.out = a->out[0]->data, r.stats = a->out[1]->data;
    r.stream = gd_numel(x) * r.x.bytes >= GD_NORM_STREAM;
    if (r.x.outputs * r.x.count == 0) return;
    r.cut.task_rows = r.x.count < GD_NORM_TASK ? GD_NORM_TASK / r.x.count : 1;
    r.cut.tasks = (r.x.outputs + r.cut.task_rows - 1) / r.cut.task_rows;
    r.rows = x->dtype == GD_FLOAT32 ? norm_rows_f32 : norm_rows_f64;
    gd_norm_tasks(&r);
}

/* (g, x, weight?, stats) -> dx, dweight, and dbias if there is a mean; those that are not wanted are empty. */
static inline void gd_norm_backward(const gd_args *a, bool centred) {
    gd_norm_run r;
    const gd_view *x = a->in[1];
    const int64_t mask = gd_norm_mask(a->attr->i[0]);
    gd_walk_init(&r.g, a->in[0], mask);
    gd_walk_init(&r.x, x, mask);
    r.has_w = gd_norm_walk(&r.w, a->in[2]);
    r.has_b = false, r.centred = centred, r.eps = 0;
    r.stats = a->in[3]->data, r.out = a->out[0]->data;
    r.stream = gd_numel(x) * r.x.bytes >= GD_NORM_STREAM;
    r.wanted = (int)a->attr->i[1];
    r.cut = gd_norm_cut_of(r.x.outputs, r.x.count);
    const int64_t n = r.x.count;
    r.partials = r.wanted & (GD_NORM_DW | GD_NORM_DB) ? a->workspace : NULL;
    r.groups = r.partials ? (char *)(r.partials + r.cut.tasks * 2 * n) : NULL;
    r.rows = x->dtype == GD_FLOAT32 ? norm_bwd_rows_f32 : norm_bwd_rows_f64;
    if (n == 0) return;
    gd_norm_tasks(&r);
    for (int k = 0; k < 1 + centred; k++) {
        if (!(r.wanted & (GD_NORM_DW << k))) continue;
        if (x->dtype == GD_FLOAT32) norm_total_f32(r.partials + k * n, r.cut.tasks, 2 * n, n, a->out[1 + k]->data);
        else norm_total_f64(r.partials + k * n, r.cut.tasks, 2 * n, n, a->out[1 + k]->data);
    }
}

#endif
