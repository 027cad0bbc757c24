/* softmax.c - softmax and log_softmax along one dimension, and their gradients.
 * A row with NaN or +inf in it, or with nothing but -inf, is NaN; a row without incoming gradient is 0. */
#include "rows.h"

/* One row of n elements is worked on in blocks, gathered to buffers where it is not contiguous. */
typedef struct softmax_run {
    gd_walk a, b;       /* forward: x; backward: g and y */
    char *out;
    int64_t out_step;   /* between elements of an output row, in elements */
    int64_t task_rows;
    void (*row)(const struct softmax_run *r, int64_t row);
} softmax_run;

/* The first element of output row `row`: rows are the places of all dimensions but the reduced one. */
static char *out_row(const softmax_run *r, int64_t row) {
    const int64_t inner = r->out_step;
    return r->out + (row / inner * inner * r->a.count + row % inner) * r->a.bytes;
}

static void scatter(char *out, int64_t step, const void *values, int64_t first, int64_t n, int64_t bytes) {
    const char *v = values;
    if (step == 1) {
        if (out + first * bytes != v) memcpy(out + first * bytes, v, (size_t)(n * bytes));
    } else if (bytes == 4) {
        for (int64_t k = 0; k < n; k++) memcpy(out + (first + k) * step * 4, v + 4 * k, 4);
    } else {
        for (int64_t k = 0; k < n; k++) memcpy(out + (first + k) * step * 8, v + 8 * k, 8);
    }
}

#define EACH_BLOCK(r) \
    for (int64_t first = 0, n = 0; first < (r)->a.count && (n = (r)->a.count - first < GD_BLOCK ? (r)->a.count - first : GD_BLOCK); first += n)

/* ---- softmax: exp(x - max) / sum; log_softmax: x - max - log sum ---------------------------------------- */

/* e, the exponentials of a block, is where the output is to stand if that is contiguous. */
#define DEFINE_SOFTMAX(name, T)                                                                       \
    static T largest_##name(const softmax_run *r, const char *x) {                                    \
        int64_t buffer[GD_BLOCK];                                                                     \
        T largest = -(T)INFINITY;                                                                     \
        EACH_BLOCK(r) {                                                                               \
            const T part = gd_row_max_##name(gd_walk_run(&r->a, x, first, n, buffer), n);             \
            largest = part > largest || part != part ? part : largest;                                \
        }                                                                                             \
        return largest;                                                                               \
    }                                                                                                 \
    static void softmax_##name(const softmax_run *r, int64_t row) {                                   \
        const char *x = gd_walk_output(&r->a, row);                                                   \
        char *out = out_row(r, row);                                                                  \
        int64_t buffer[GD_BLOCK];                                                                     \
        T scratch[GD_BLOCK], part;                                                                    \
        const T largest = largest_##name(r, x);                                                       \
        double sum = 0;                                                                               \
        EACH_BLOCK(r) {                                                                               \
            T *e = r->out_step == 1 ? (T *)out + first : scratch;                                     \
            gd_row_exp_##name(gd_walk_run(&r->a, x, first, n, buffer), largest, e, n);                \
            GD_ROW_SUM(part, T, n, e[k]);                                                             \
            sum += (double)part;                                                                      \
            scatter(out, r->out_step, e, first, n, sizeof(T));                                        \
        }                                                                                             \
        const T scale = (T)(1 / sum);                                                                 \
        T *y = (T *)out;                                                                              \
        if (r->out_step == 1) for (int64_t k = 0; k < r->a.count; k++) y[k] *= scale;                 \
        else for (int64_t k = 0; k < r->a.count; k++) y[k * r->out_step] *= scale;                    \
    }                                                                                                 \
    static void log_softmax_##name(const softmax_run *r, int64_t row) {                               \
        const char *x = gd_walk_output(&r->a, row);                                                   \
        char *out = out_row(r, row);                                                                  \
        int64_t buffer[GD_BLOCK];                                                                     \
        T e[GD_BLOCK], part;                                                                          \
        const T largest = largest_##name(r, x);                                                       \
        double sum = 0;                                                                               \
        EACH_BLOCK(r) {                                                                               \
            gd_row_exp_##name(gd_walk_run(&r->a, x, first, n, buffer), largest, e, n);                \
            GD_ROW_SUM(part, T, n, e[k]);                                                             \
            sum += (double)part;                                                                      \
        }                                                                                             \
        const T logsum = gd_log_##name((T)sum);                                                       \
        EACH_BLOCK(r) {                                                                               \
            const T *v = gd_walk_run(&r->a, x, first, n, buffer);                                     \
            T *y = r->out_step == 1 ? (T *)out + first : e;                                           \
            for (int64_t k = 0; k < n; k++) y[k] = v[k] - largest - logsum;                           \
            scatter(out, r->out_step, y, first, n, sizeof(T));                                        \
        }                                                                                             \
    }
DEFINE_SOFTMAX(f32, float)
DEFINE_SOFTMAX(f64, double)

/* ---- gradients: y (g - sum(g y)) and g - exp(y) sum(g) ----------------------------------------------------- */

/* SUMMAND (a buffer apart, see GD_ROW_SUM) is summed over the row, then every element is SLOPE of s, the sum. */
#define DEFINE_GRADIENT(name, T, SUMMAND, SLOPE)                                                      \
    static void name(const softmax_run *r, int64_t row) {                                             \
        const char *gx = gd_walk_output(&r->a, row), *yx = gd_walk_output(&r->b, row);                \
        char *out = out_row(r, row);                                                                  \
        int64_t g_buffer[GD_BLOCK], y_buffer[GD_BLOCK];                                               \
        T d[GD_BLOCK], part;                                                                          \
        double sum = 0;                                                                               \
        bool any = false;                                                                             \
        EACH_BLOCK(r) {                                                                               \
            const T *g = gd_walk_run(&r->a, gx, first, n, g_buffer);                                  \
            const T *y = gd_walk_run(&r->b, yx, first, n, y_buffer);                                  \
            (void)y;                                                                                  \
            for (int64_t k = 0; k < n; k++) d[k] = SUMMAND;                                           \
            GD_ROW_SUM(part, T, n, d[k]);                                                             \
            sum += (double)part;                                                                      \
            for (int64_t k = 0; k < n && !any; k++) any = g[k] != 0;                                  \
        }                                                                                             \
        const T s = (T)sum;                                                                           \
        EACH_BLOCK(r) {                                                                               \
            const T *g = gd_walk_run(&r->a, gx, first, n, g_buffer);                                  \
            const T *y = gd_walk_run(&r->b, yx, first, n, y_buffer);                                  \
            T *dx = r->out_step == 1 ? (T *)out + first : d;                                          \
            if (any) for (int64_t k = 0; k < n; k++) dx[k] = SLOPE;                                   \
            else memset(dx, 0, (size_t)n * sizeof *dx);                                               \
            scatter(out, r->out_step, dx, first, n, sizeof(T));                                       \
        }                                                                                             \
    }
DEFINE_GRADIENT(softmax_bwd_f32, float, g[k] == 0 ? 0 : g[k] * y[k], y[k] * (g[k] - s))
DEFINE_GRADIENT(softmax_bwd_f64, double, g[k] == 0 ? 0 : g[k] * y[k], y[k] * (g[k] - s))
DEFINE_GRADIENT(log_softmax_bwd_f32, float, g[k], GD_FMA(-gd_exp_f32(y[k]), s, g[k]))
DEFINE_GRADIENT(log_softmax_bwd_f64, double, g[k], GD_FMA(-gd_exp_f64(y[k]), s, g[k]))

/* ---- rows as tasks ------------------------------------------------------------------------------------------ */

static void softmax_task(void *ctx, int64_t i, int worker) {
    const softmax_run *r = ctx;
    (void)worker;
    int64_t last = (i + 1) * r->task_rows < r->a.outputs ? (i + 1) * r->task_rows : r->a.outputs;
    for (int64_t row = i * r->task_rows; row < last; row++) r->row(r, row);
}

static void softmax_all(const gd_args *a, void (*row_f32)(const softmax_run *r, int64_t row), void (*row_f64)(const softmax_run *r, int64_t row)) {
    enum { TASK = 8 * 1024, SERIAL = 2 * TASK }; /* elements: about 10 us a task */
    const gd_view *x = a->in[0];
    const int64_t dim = a->attr->i[0];
    softmax_run r = {.a = gd_walk_of(x, 1 << dim), .out = a->out[0]->data, .out_step = 1};
    if (a->nin > 1) r.b = gd_walk_of(a->in[1], 1 << dim);
    r.row = x->dtype == GD_FLOAT32 ? row_f32 : row_f64;
    for (int64_t d = 3; d > dim; d--) r.out_step *= x->shape[d];
    if (r.a.outputs * r.a.count == 0) return;
    r.task_rows = r.a.outputs * r.a.count <= SERIAL ? r.a.outputs : r.a.count < TASK ? TASK / r.a.count : 1;
    const int64_t tasks = (r.a.outputs + r.task_rows - 1) / r.task_rows;
    if (tasks == 1) softmax_task(&r, 0, 0);
    else gd_parallel(tasks, softmax_task, &r);
}

void GD_KERNEL(softmax)(const gd_args *a) { softmax_all(a, softmax_f32, softmax_f64); }
void GD_KERNEL(log_softmax)(const gd_args *a) { softmax_all(a, log_softmax_f32, log_softmax_f64); }
void GD_KERNEL(softmax_bwd)(const gd_args *a) { softmax_all(a, softmax_bwd_f32, softmax_bwd_f64); }
void GD_KERNEL(log_softmax_bwd)(const gd_args *a) { softmax_all(a, log_softmax_bwd_f32, log_softmax_bwd_f64); }
