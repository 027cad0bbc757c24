/* softmax_driver.h - softmax and log_softmax along one dimension, and their gradients, out of functions that the
 * including file has defined. Of a row: for name f32 and f64, type T, contiguous arrays of n <= GD_BLOCK elements,
 *   T row_max_<name>(x, n)                        the largest; NaN or not where one is NaN
 *   T row_exp_sum_<name>(x, shift, e, n)          e = exp(x - shift), returns the sum
 *   void row_scale_<name>(e, s, y, n, stream)     y = s e, y may be e
 *   void row_shift_<name>(x, a, b, y, n, stream)  y = (x - a) - b
 *   T row_log_<name>(s)                           log s
 *   T row_sum_<name>(g, n)
 *   T row_dot_<name>(g, y, n)                     sum of g y, terms with g = 0 being 0
 *   bool row_any_<name>(g, n)                     whether an element is not 0
 *   void row_softmax_bwd_<name>(g, y, s, dx, n, stream)     dx = y (g - s)
 *   void row_log_softmax_bwd_<name>(g, y, s, dx, n, stream) dx = g - exp(y) s
 * Of n columns side by side, each a row of its own, with the same arithmetic: `lane` is the vector of lane k mod
 * LANES_<name> of the row functions' sums, as every column has it,
 *   void columns_max_<name>(most, x, n)           most = larger of most and x
 *   void columns_exp_<name>(x, most, e, lane, n)  e = exp(x - most), lane += e
 *   void columns_log_<name>(sum, n)               sum = log sum
 *   void columns_scale_<name>(e, s, y, n, stream), columns_shift_<name>(x, a, b, y, n, stream)
 *   void columns_sum_<name>(g, lane, any, n)      lane += g, any |= whether g is not 0
 *   void columns_dot_<name>(g, y, lane, any, n)   lane += g y, terms with g = 0 being 0
 *   void columns_softmax_bwd_<name>(g, y, s, any, dx, n, stream), columns_log_softmax_bwd_<name>(the same): 0 unless any
 * and void softmax_fence(void), after the streaming of a task. stream: the output is larger than the caches, so it
 * is written around them where the machine can.
 * A row with NaN or +inf in it, or with nothing but -inf, is NaN; a row without incoming gradient is 0. */
#ifndef GRADINO_SOFTMAX_DRIVER_H
#define GRADINO_SOFTMAX_DRIVER_H

#include "rows.h"
#include "softmax.h"

/* A row of n elements is worked on in blocks, gathered to buffers where it is not contiguous. */
typedef struct gd_softmax_run {
    gd_walk a, b;       /* forward: x; backward: g and y */
    char *out;
    int64_t out_step;   /* between elements of an output row, in elements */
    int64_t task_rows, panel;
    bool stream;
    char *stages;       /* two copied panels for each worker, or NULL */
    int64_t stage_bytes;
    void (*rows)(const struct gd_softmax_run *r, int64_t first, int64_t last, int worker);
} gd_softmax_run;

/* The first element of output row `row`: rows are the places of all dimensions but the reduced one. */
static inline char *gd_softmax_out(const gd_softmax_run *r, int64_t row) {
    const int64_t inner = r->out_step;
    if (inner == 1) return r->out + row * r->a.count * r->a.bytes;
    return r->out + (row / inner * inner * r->a.count + row % inner) * r->a.bytes;
}

static inline void gd_softmax_scatter(char *out, int64_t step, const void *values, int64_t first, int64_t n, int64_t bytes) {
    const char *v = values;
    if (step == 1) return; /* made in place */
    if (bytes == 4) for (int64_t k = 0; k < n; k++) memcpy(out + (first + k) * step * 4, v + 4 * k, 4);
    else for (int64_t k = 0; k < n; k++) memcpy(out + (first + k) * step * 8, v + 8 * k, 8);
}

/* ---- softmax: exp(x - max) / sum; log_softmax: x - max - log sum ---------------------------------------- */

/* A row of one block keeps its exponentials in a buffer; those of a longer one stand where the output will. */
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
        T scratch[GD_BLOCK], *y = (T *)out;                                                           \
        if (r->a.count <= GD_BLOCK && r->out_step == 1) {                                             \
            const int64_t n = r->a.count;                                                             \
            const T *v = gd_walk_run(&r->a, x, 0, n, buffer);                                         \
            const double total = (double)row_exp_sum_##name(v, row_max_##name(v, n), scratch, n);     \
            row_scale_##name(scratch, (T)(1 / total), y, n, r->stream);                               \
            return;                                                                                   \
        }                                                                                             \
        const T largest = largest_##name(r, x);                                                       \
        double sum = 0;                                                                               \
        GD_EACH_BLOCK(r->a.count) {                                                                   \
            T *e = r->out_step == 1 ? y + first : scratch;                                            \
            sum += (double)row_exp_sum_##name(gd_walk_run(&r->a, x, first, n, buffer), largest, e, n); \
            gd_softmax_scatter(out, r->out_step, e, first, n, sizeof(T));                             \
        }                                                                                             \
        const T scale = (T)(1 / sum);                                                                 \
        if (r->out_step == 1) GD_EACH_BLOCK(r->a.count) row_scale_##name(y + first, scale, y + first, n, false); \
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
            row_shift_##name(gd_walk_run(&r->a, x, first, n, buffer), largest, logsum, y, n, r->stream && r->out_step == 1); \
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
            if (any) row_##op##_##name(g, y, (T)sum, dx, n, r->stream && r->out_step == 1);           \
            else memset(dx, 0, (size_t)n * sizeof *dx);                                               \
            gd_softmax_scatter(out, r->out_step, dx, first, n, sizeof(T));                            \
        }                                                                                             \
    }
GD_DEFINE_SOFTMAX_BWD(softmax_bwd, f32, float, row_dot_f32(g, y, n))
GD_DEFINE_SOFTMAX_BWD(softmax_bwd, f64, double, row_dot_f64(g, y, n))
GD_DEFINE_SOFTMAX_BWD(log_softmax_bwd, f32, float, row_sum_f32(g, n))
GD_DEFINE_SOFTMAX_BWD(log_softmax_bwd, f64, double, row_sum_f64(g, n))

/* ---- rows side by side ---------------------------------------------------------------------------------------
 * Every row of memory holds an element of each. A panel of them is copied once to where its lines do not
 * compete for places in the caches, as those of a power of two apart do, and is worked on there. */

/* The most rows from `row` on that stand side by side in w and in the output; 0 if none do. */
static inline int64_t gd_softmax_beside(const gd_softmax_run *r, const gd_walk *w, int64_t row, int64_t most) {
    const int64_t inner = w->kept_shape[w->kept - 1], here = inner - row % inner, there = r->out_step - row % r->out_step;
    if (w->kept_stride[w->kept - 1] != 1 || w->red > 1) return 0;
    return here < there ? (here < most ? here : most) : (there < most ? there : most);
}

enum {
    GD_SOFTMAX_PANELS = 16, /* panels of a task at most, ... */
    GD_SOFTMAX_TASKS = 32   /* ... if so many tasks remain */
};
enum { GD_SOFTMAX_AHEAD = 8 }; /* rows of memory to ask for early: they are too far apart for the machine to guess */
static inline void gd_softmax_ask(const void *x, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch((const char *)x + at);
}

#define GD_DEFINE_SOFTMAX_COLUMNS(name, T)                                                            \
    /* sum += the lanes joined by halves, which are then 0 again. */                                  \
    static void join_lanes_##name(T (*lanes)[GD_SOFTMAX_PANEL], double *sum, int64_t n) {             \
        for (int half = LANES_##name / 2; half; half /= 2)                                            \
            for (int l = 0; l < half; l++)                                                            \
                for (int64_t c = 0; c < n; c++) lanes[l][c] += lanes[l + half][c];                    \
        for (int64_t c = 0; c < n; c++) sum[c] += (double)lanes[0][c];                                \
        memset(lanes, 0, sizeof(T[LANES_##name][GD_SOFTMAX_PANEL]));                                  \
    }                                                                                                 \
    /* most = the largest of each of n columns so far, with row k of memory, which is copied to the stage. */ \
    static inline void softmax_read_##name(const gd_softmax_run *r, const T *x, int64_t k, T *most, T *stage, int64_t n) { \
        const int64_t step = r->a.red_stride[0];                                                      \
        if (stage && k + GD_SOFTMAX_AHEAD < r->a.count) gd_softmax_ask(x + (k + GD_SOFTMAX_AHEAD) * step, n * (int64_t)sizeof(T)); \
        columns_max_##name(most, x + k * step, n);                                                    \
        if (stage) memcpy(stage + k * n, x + k * step, (size_t)n * sizeof(T));                        \
    }                                                                                                 \
    /* `cols` columns. While a panel's exponentials are computed the next panel is read. */           \
    static void softmax_columns_##name(const gd_softmax_run *r, const T *x, T *y, T *stages, int64_t cols, bool log) { \
        const int64_t count = r->a.count, y_step = r->out_step;                                       \
        T most[2][GD_SOFTMAX_PANEL], lanes[LANES_##name][GD_SOFTMAX_PANEL], scale[GD_SOFTMAX_PANEL];  \
        T dropped[GD_SOFTMAX_PANEL], *stage[2] = {stages, stages ? stages + r->stage_bytes / (int64_t)sizeof(T) : NULL}; \
        memset(lanes, 0, sizeof lanes);                                                               \
        for (int c = 0; c < GD_SOFTMAX_PANEL; c++) most[0][c] = most[1][c] = -(T)INFINITY;            \
        int64_t n = cols < r->panel ? cols : r->panel;                                                \
        for (int64_t k = 0; k < count; k++) softmax_read_##name(r, x, k, most[0], stage[0], n);       \
        int now = 0;                                                                                  \
        for (int64_t c0 = 0, ahead; c0 < cols; c0 += n, n = ahead, now = !now) {                      \
            const T *from = stages ? stage[now] : x + c0;                                             \
            const int64_t from_step = stages ? n : r->a.red_stride[0], e_step = log ? 0 : stages ? n : y_step; \
            T *e = log ? dropped : stages ? stage[now] : y + c0;                                      \
            double sum[GD_SOFTMAX_PANEL] = {0};                                                       \
            ahead = cols - c0 - n < r->panel ? cols - c0 - n : r->panel;                              \
            for (int64_t k = 0; k < count; k++) {                                                     \
                columns_exp_##name(from + k * from_step, most[now], e + k * e_step, lanes[k % LANES_##name], n); \
                if (ahead) softmax_read_##name(r, x + c0 + n, k, most[!now], stage[!now], ahead);     \
                if ((k + 1) % GD_BLOCK == 0 || k + 1 == count) join_lanes_##name(lanes, sum, n);      \
            }                                                                                         \
            for (int64_t c = 0; c < n; c++) scale[c] = (T)(log ? sum[c] : 1 / sum[c]);                \
            if (log) columns_log_##name(scale, n);                                                    \
            for (int64_t k = 0; k < count; k++) {                                                     \
                if (log) columns_shift_##name(from + k * from_step, most[now], scale, y + c0 + k * y_step, n, r->stream); \
                else columns_scale_##name(e + k * e_step, scale, y + c0 + k * y_step, n, r->stream);  \
            }                                                                                         \
            for (int c = 0; c < GD_SOFTMAX_PANEL; c++) most[now][c] = -(T)INFINITY;                   \
        }                                                                                             \
    }                                                                                                 \
    /* The same for gradients g and results y, of which a panel is copied each. */                    \
    static void softmax_bwd_columns_##name(const gd_softmax_run *r, const T *g, const T *y, T *dx, T *stages, int64_t cols, bool log) { \
        const int64_t count = r->a.count, g_step = r->a.red_stride[0], y_step = r->b.red_stride[0], dx_step = r->out_step; \
        T lanes[LANES_##name][GD_SOFTMAX_PANEL], total[GD_SOFTMAX_PANEL];                             \
        T *g_stage = stages, *y_stage = stages ? stages + r->stage_bytes / (int64_t)sizeof(T) : NULL; \
        memset(lanes, 0, sizeof lanes);                                                               \
        for (int64_t c0 = 0, n; c0 < cols; c0 += n, g += n, y += n, dx += n) {                        \
            n = cols - c0 < r->panel ? cols - c0 : r->panel;                                          \
            const int64_t width = n * (int64_t)sizeof(T);                                             \
            T any[GD_SOFTMAX_PANEL] = {0}; /* 0 or 1: as wide as the elements, so that vectors fit */ \
            double sum[GD_SOFTMAX_PANEL] = {0};                                                       \
            for (int64_t k = 0; k < count; k++) {                                                     \
                const T *at = g + k * g_step, *y_at = y + k * y_step;                                 \
                if (stages && k + GD_SOFTMAX_AHEAD < count) {                                         \
                    gd_softmax_ask(at + GD_SOFTMAX_AHEAD * g_step, width);                            \
                    gd_softmax_ask(y_at + GD_SOFTMAX_AHEAD * y_step, width);                          \
                }                                                                                     \
                if (log) columns_sum_##name(at, lanes[k % LANES_##name], any, n);                     \
                else columns_dot_##name(at, y_at, lanes[k % LANES_##name], any, n);                   \
                if (stages) {                                                                         \
                    memcpy(g_stage + k * n, at, (size_t)width);                                       \
                    memcpy(y_stage + k * n, y_at, (size_t)width);                                     \
                }                                                                                     \
                if ((k + 1) % GD_BLOCK == 0 || k + 1 == count) join_lanes_##name(lanes, sum, n);      \
            }                                                                                         \
            for (int64_t c = 0; c < n; c++) total[c] = (T)sum[c];                                     \
            const T *g_from = stages ? g_stage : g, *y_from = stages ? y_stage : y;                   \
            const int64_t g_next = stages ? n : g_step, y_next = stages ? n : y_step;                 \
            for (int64_t k = 0; k < count; k++, g_from += g_next, y_from += y_next) {                 \
                if (log) columns_log_softmax_bwd_##name(g_from, y_from, total, any, dx + k * dx_step, n, r->stream); \
                else columns_softmax_bwd_##name(g_from, y_from, total, any, dx + k * dx_step, n, r->stream); \
            }                                                                                         \
        }                                                                                             \
    }
GD_DEFINE_SOFTMAX_COLUMNS(f32, float)
GD_DEFINE_SOFTMAX_COLUMNS(f64, double)

/* Rows first .. last of op, in panels where they stand side by side; B: the walk of the second input. */
#define GD_DEFINE_SOFTMAX_ROWS(op, name, T, COLUMNS, B)                                               \
    static void op##_all_##name(const gd_softmax_run *r, int64_t from, int64_t last, int worker) {    \
        T *stage = r->stages ? (T *)(r->stages + worker * 2 * r->stage_bytes) : NULL;                 \
        for (int64_t row = from, n; row < last; row += n) {                                           \
            n = last - row;                                                                           \
            if (r->out_step > 1) n = gd_softmax_beside(r, B, row, gd_softmax_beside(r, &r->a, row, n)); \
            if (r->out_step == 1 || n <= 0) {                                                         \
                op##_##name(r, row);                                                                  \
                n = 1;                                                                                \
            } else {                                                                                  \
                const T *x = (const T *)gd_walk_output(&r->a, row), *y = (const T *)gd_walk_output(B, row); \
                T *out = (T *)gd_softmax_out(r, row);                                                 \
                (void)y;                                                                              \
                COLUMNS;                                                                              \
            }                                                                                         \
        }                                                                                             \
    }
#define GD_DEFINE_SOFTMAX_OPS(name, T)                                                                                  \
    GD_DEFINE_SOFTMAX_ROWS(softmax, name, T, softmax_columns_##name(r, x, out, stage, n, false), &r->a)                 \
    GD_DEFINE_SOFTMAX_ROWS(log_softmax, name, T, softmax_columns_##name(r, x, out, stage, n, true), &r->a)              \
    GD_DEFINE_SOFTMAX_ROWS(softmax_bwd, name, T, softmax_bwd_columns_##name(r, x, y, out, stage, n, false), &r->b)      \
    GD_DEFINE_SOFTMAX_ROWS(log_softmax_bwd, name, T, softmax_bwd_columns_##name(r, x, y, out, stage, n, true), &r->b)
GD_DEFINE_SOFTMAX_OPS(f32, float)
GD_DEFINE_SOFTMAX_OPS(f64, double)

/* ---- rows as tasks ------------------------------------------------------------------------------------------ */

typedef void gd_softmax_rows(const gd_softmax_run *r, int64_t first, int64_t last, int worker);

static inline void gd_softmax_task(void *ctx, int64_t i, int worker) {
    const gd_softmax_run *r = ctx;
    int64_t last = (i + 1) * r->task_rows < r->a.outputs ? (i + 1) * r->task_rows : r->a.outputs;
    r->rows(r, i * r->task_rows, last, worker);
    softmax_fence();
}

static inline void gd_softmax_run_all(const gd_args *a, gd_softmax_rows *rows_f32, gd_softmax_rows *rows_f64) {
    enum { TASK = 8 * 1024, SERIAL = 2 * TASK }; /* elements: about 10 us a task */
    const gd_view *x = a->in[0];
    const int64_t dim = a->attr->i[0];
    gd_softmax_run r;
    gd_walk_init(&r.a, x, 1 << dim);
    if (a->nin > 1) gd_walk_init(&r.b, a->in[1], 1 << dim);
    r.out = a->out[0]->data;
    r.out_step = gd_softmax_inner(x, dim);
    r.stream = gd_numel(x) * r.a.bytes >= GD_SOFTMAX_STREAM;
    r.panel = gd_softmax_panel(r.a.count, r.a.bytes);
    r.stage_bytes = gd_softmax_stage(x, dim);
    r.stages = r.stage_bytes ? a->workspace : NULL;
    r.rows = x->dtype == GD_FLOAT32 ? rows_f32 : rows_f64;
    if (r.a.outputs * r.a.count == 0) return;
    const int64_t task = r.stream ? 8 * TASK : TASK; /* a streamed task reads ahead but for its first row */
    r.task_rows = r.a.outputs * r.a.count <= SERIAL ? r.a.outputs : r.a.count < task ? task / r.a.count : 1;
    if (r.out_step > 1) { /* whole panels, and several, so that one is read while the last is worked on */
        const int64_t most = r.a.outputs / GD_SOFTMAX_TASKS / r.panel * r.panel, several = GD_SOFTMAX_PANELS * r.panel;
        if (r.task_rows < most) r.task_rows = most < several ? most : several;
        r.task_rows = (r.task_rows + r.panel - 1) / r.panel * r.panel;
    }
    const int64_t tasks = (r.a.outputs + r.task_rows - 1) / r.task_rows;
    if (tasks == 1) gd_softmax_task(&r, 0, 0);
    else gd_parallel(tasks, gd_softmax_task, &r);
}

#endif
