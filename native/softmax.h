/* softmax.h - softmax and log_softmax along one dimension, and their gradients, out of row functions that
 * the including file has defined: for name f32 and f64, type T, contiguous x, y, g, e of n <= GD_BLOCK elements,
 *   T row_max_<name>(x, n)                        the largest, NaN if any is
 *   T row_exp_sum_<name>(x, shift, e, n)          e = exp(x - shift), returns the sum
 *   void row_scale_<name>(y, s, n)                y = s y
 *   void row_shift_<name>(x, a, b, y, n)          y = (x - a) - b
 *   T row_log_<name>(s)                           log s
 *   T row_sum_<name>(g, n)
 *   T row_dot_<name>(g, y, n)                     sum of g y, terms with g = 0 being 0
 *   bool row_any_<name>(g, n)                     whether an element is not 0
 *   void row_softmax_bwd_<name>(g, y, s, dx, n)     dx = y (g - s)
 *   void row_log_softmax_bwd_<name>(g, y, s, dx, n) dx = g - exp(y) s
 * A row with NaN or +inf in it, or with nothing but -inf, is NaN; a row without incoming gradient is 0. */
#ifndef GRADINO_SOFTMAX_H
#define GRADINO_SOFTMAX_H

#include "rows.h"

/* A row of n elements is worked on in blocks, gathered to buffers where it is not contiguous. */
typedef struct gd_softmax_run {
    gd_walk a, b;       /* forward: x; backward: g and y */
    char *out;
    int64_t out_step;   /* between elements of an output row, in elements */
    int64_t task_rows;
    void (*rows)(const struct gd_softmax_run *r, int64_t first, int64_t last);
} gd_softmax_run;

/* The first element of output row `row`: rows are the places of all dimensions but the reduced one. */
static inline char *gd_softmax_out(const gd_softmax_run *r, int64_t row) {
    const int64_t inner = r->out_step;
    return r->out + (row / inner * inner * r->a.count + row % inner) * r->a.bytes;
}

static inline void gd_softmax_scatter(char *out, int64_t step, const void *values, int64_t first, int64_t n, int64_t bytes) {
    const char *v = values;
    if (step == 1) return; /* made in place */
    if (bytes == 4) for (int64_t k = 0; k < n; k++) memcpy(out + (first + k) * step * 4, v + 4 * k, 4);
    else for (int64_t k = 0; k < n; k++) memcpy(out + (first + k) * step * 8, v + 8 * k, 8);
}

/* ---- softmax: exp(x - max) / sum; log_softmax: x - max - log sum ---------------------------------------- */

/* e, the exponentials of a block, is where the output is to stand if that is contiguous. */
#define GD_DEFINE_SOFTMAX(name, T)                                                                    \
    static T largest_##name(const gd_softmax_run *r, const char *x) {                                 \
        int64_t buffer[GD_BLOCK];                                                                     \
        T largest = -(T)INFINITY;                                                                     \
        GD_EACH_BLOCK(r->a.count) {                                                                   \
            const T part = row_max_##name(gd_walk_run(&r->a, x, first, n, buffer), n);                \
            largest = part > largest || part != part ? part : largest;                                \
        }                                                                                             \
        return largest;                                                                               \
    }                                                                                                 \
    static void softmax_##name(const gd_softmax_run *r, int64_t row) {                                \
        const char *x = gd_walk_output(&r->a, row);                                                   \
        char *out = gd_softmax_out(r, row);                                                           \
        int64_t buffer[GD_BLOCK];                                                                     \
        T scratch[GD_BLOCK];                                                                          \
        const T largest = largest_##name(r, x);                                                       \
        double sum = 0;                                                                               \
        GD_EACH_BLOCK(r->a.count) {                                                                   \
            T *e = r->out_step == 1 ? (T *)out + first : scratch;                                     \
            sum += (double)row_exp_sum_##name(gd_walk_run(&r->a, x, first, n, buffer), largest, e, n); \
            gd_softmax_scatter(out, r->out_step, e, first, n, sizeof(T));                             \
        }                                                                                             \
        const T scale = (T)(1 / sum);                                                                 \
        T *y = (T *)out;                                                                              \
        if (r->out_step == 1) GD_EACH_BLOCK(r->a.count) row_scale_##name(y + first, scale, n);        \
        else for (int64_t k = 0; k < r->a.count; k++) y[k * r->out_step] *= scale;                    \
    }                                                                                                 \
    static void log_softmax_##name(const gd_softmax_run *r, int64_t row) {                            \
        const char *x = gd_walk_output(&r->a, row);                                                   \
        char *out = gd_softmax_out(r, row);                                                           \
        int64_t buffer[GD_BLOCK];                                                                     \
        T e[GD_BLOCK];                                                                                \
        const T largest = largest_##name(r, x);                                                       \
        double sum = 0;                                                                               \
        GD_EACH_BLOCK(r->a.count)                                                                     \
            sum += (double)row_exp_sum_##name(gd_walk_run(&r->a, x, first, n, buffer), largest, e, n); \
        const T logsum = row_log_##name((T)sum);                                                      \
        GD_EACH_BLOCK(r->a.count) {                                                                   \
            T *y = r->out_step == 1 ? (T *)out + first : e;                                           \
            row_shift_##name(gd_walk_run(&r->a, x, first, n, buffer), largest, logsum, y, n);         \
            gd_softmax_scatter(out, r->out_step, y, first, n, sizeof(T));                             \
        }                                                                                             \
    }
GD_DEFINE_SOFTMAX(f32, float)
GD_DEFINE_SOFTMAX(f64, double)

/* ---- gradients: y (g - sum(g y)) and g - exp(y) sum(g) ----------------------------------------------------- */

#define GD_DEFINE_SOFTMAX_BWD(op, name, T, SUM)                                                       \
    static void op##_##name(const gd_softmax_run *r, int64_t row) {                                   \
        const char *gx = gd_walk_output(&r->a, row), *yx = gd_walk_output(&r->b, row);                \
        char *out = gd_softmax_out(r, row);                                                           \
        int64_t g_buffer[GD_BLOCK], y_buffer[GD_BLOCK];                                               \
        T d[GD_BLOCK];                                                                                \
        double sum = 0;                                                                               \
        bool any = false;                                                                             \
        GD_EACH_BLOCK(r->a.count) {                                                                   \
            const T *g = gd_walk_run(&r->a, gx, first, n, g_buffer);                                  \
            const T *y = gd_walk_run(&r->b, yx, first, n, y_buffer);                                  \
            (void)y;                                                                                  \
            sum += (double)SUM;                                                                       \
            any = any || row_any_##name(g, n);                                                        \
        }                                                                                             \
        GD_EACH_BLOCK(r->a.count) {                                                                   \
            const T *g = gd_walk_run(&r->a, gx, first, n, g_buffer);                                  \
            const T *y = gd_walk_run(&r->b, yx, first, n, y_buffer);                                  \
            T *dx = r->out_step == 1 ? (T *)out + first : d;                                          \
            if (any) row_##op##_##name(g, y, (T)sum, dx, n);                                          \
            else memset(dx, 0, (size_t)n * sizeof *dx);                                               \
            gd_softmax_scatter(out, r->out_step, dx, first, n, sizeof(T));                            \
        }                                                                                             \
    }
GD_DEFINE_SOFTMAX_BWD(softmax_bwd, f32, float, row_dot_f32(g, y, n))
GD_DEFINE_SOFTMAX_BWD(softmax_bwd, f64, double, row_dot_f64(g, y, n))
GD_DEFINE_SOFTMAX_BWD(log_softmax_bwd, f32, float, row_sum_f32(g, n))
GD_DEFINE_SOFTMAX_BWD(log_softmax_bwd, f64, double, row_sum_f64(g, n))

/* ---- rows as tasks ------------------------------------------------------------------------------------------ */

typedef void gd_softmax_rows(const gd_softmax_run *r, int64_t first, int64_t last);

static inline void gd_softmax_task(void *ctx, int64_t i, int worker) {
    const gd_softmax_run *r = ctx;
    (void)worker;
    int64_t last = (i + 1) * r->task_rows < r->a.outputs ? (i + 1) * r->task_rows : r->a.outputs;
    r->rows(r, i * r->task_rows, last);
}

static inline void gd_softmax_all(const gd_args *a, gd_softmax_rows *rows_f32, gd_softmax_rows *rows_f64) {
    enum { TASK = 8 * 1024, SERIAL = 2 * TASK }; /* elements: about 10 us a task */
    const gd_view *x = a->in[0];
    const int64_t dim = a->attr->i[0];
    gd_softmax_run r;
    gd_walk_init(&r.a, x, 1 << dim);
    if (a->nin > 1) gd_walk_init(&r.b, a->in[1], 1 << dim);
    r.out = a->out[0]->data;
    r.out_step = 1;
    r.rows = x->dtype == GD_FLOAT32 ? rows_f32 : rows_f64;
    for (int64_t d = 3; d > dim; d--) r.out_step *= x->shape[d];
    if (r.a.outputs * r.a.count == 0) return;
    r.task_rows = r.a.outputs * r.a.count <= SERIAL ? r.a.outputs : r.a.count < TASK ? TASK / r.a.count : 1;
    const int64_t tasks = (r.a.outputs + r.task_rows - 1) / r.task_rows;
    if (tasks == 1) gd_softmax_task(&r, 0, 0);
    else gd_parallel(tasks, gd_softmax_task, &r);
}

#endif
