/* moments.c - var and logsumexp: reductions that read their input twice.
 * var accumulates in float64 around the float64 mean; logsumexp shifts by the maximum. */
#include "../rows.h"

typedef struct moment_run {
    gd_walk w;
    void *out;
    double correction;
    int64_t task_outputs;
    void (*output)(const struct moment_run *r, int64_t o);
} moment_run;

/* For every block of the output at x: v points to its n elements. */
#define EACH_BLOCK(T)                                                                                 \
    for (int64_t first_ = 0, n = 0; first_ < r->w.count; first_ += n)                                 \
        for (const T *v = (n = r->w.count - first_ < GD_BLOCK ? r->w.count - first_ : GD_BLOCK,       \
                           gd_walk_run(&r->w, x, first_, n, buffer)); v; v = NULL)

#define DEFINE_VAR(name, T)                                                     \
    static void var_##name(const moment_run *r, int64_t o) {                    \
        const char *x = gd_walk_output(&r->w, o);                               \
        int64_t buffer[GD_BLOCK];                                               \
        double part, sum = 0, squares = 0, count = (double)r->w.count;          \
        EACH_BLOCK(T) {                                                         \
            GD_ROW_SUM(part, double, n, (double)v[k]);                          \
            sum += part;                                                        \
        }                                                                       \
        const double mean = sum / count;                                        \
        EACH_BLOCK(T) {                                                         \
            GD_ROW_SUM(part, double, n, (v[k] - mean) * (v[k] - mean));         \
            squares += part;                                                    \
        }                                                                       \
        const double divisor = count - r->correction;                           \
        ((T *)r->out)[o] = (T)(squares / (divisor > 0 ? divisor : 0));          \
    }
DEFINE_VAR(f32, float)
DEFINE_VAR(f64, double)

/* Where the maximum is infinite or NaN it is the result. */
#define DEFINE_LOGSUMEXP(name, T)                                               \
    static void logsumexp_##name(const moment_run *r, int64_t o) {              \
        const char *x = gd_walk_output(&r->w, o);                               \
        int64_t buffer[GD_BLOCK];                                               \
        T e[GD_BLOCK], part, largest = -(T)INFINITY;                            \
        double sum = 0;                                                         \
        EACH_BLOCK(T) {                                                         \
            part = gd_row_max_##name(v, n);                                     \
            largest = part > largest || part != part ? part : largest;          \
        }                                                                       \
        ((T *)r->out)[o] = largest;                                             \
        if (!isfinite(largest)) return;                                         \
        EACH_BLOCK(T) {                                                         \
            gd_row_exp_##name(v, largest, e, n);                                \
            GD_ROW_SUM(part, T, n, e[k]);                                       \
            sum += (double)part;                                                \
        }                                                                       \
        ((T *)r->out)[o] = (T)((double)largest + gd_log_f64(sum));              \
    }
DEFINE_LOGSUMEXP(f32, float)
DEFINE_LOGSUMEXP(f64, double)

static void moment_task(void *ctx, int64_t i, int worker) {
    const moment_run *r = ctx;
    (void)worker;
    int64_t last = (i + 1) * r->task_outputs < r->w.outputs ? (i + 1) * r->task_outputs : r->w.outputs;
    for (int64_t o = i * r->task_outputs; o < last; o++) r->output(r, o);
}

static void moment_all(moment_run *r) {
    if (r->w.outputs == 0) return;
    int64_t work = r->w.outputs * r->w.count;
    r->task_outputs = work <= GD_SERIAL ? r->w.outputs : r->w.count < GD_TASK ? GD_TASK / r->w.count : 1;
    int64_t tasks = (r->w.outputs + r->task_outputs - 1) / r->task_outputs;
    if (tasks == 1) moment_task(r, 0, 0);
    else gd_parallel(tasks, moment_task, r);
}

void GD_KERNEL(var)(const gd_args *a) {
    moment_run r = {.w = gd_walk_of(a->in[0], a->attr->i[0]), .out = a->out[0]->data, .correction = a->attr->f[0]};
    r.output = a->in[0]->dtype == GD_FLOAT32 ? var_f32 : var_f64;
    moment_all(&r);
}

void GD_KERNEL(logsumexp)(const gd_args *a) {
    moment_run r = {.w = gd_walk_of(a->in[0], a->attr->i[0]), .out = a->out[0]->data};
    r.output = a->in[0]->dtype == GD_FLOAT32 ? logsumexp_f32 : logsumexp_f64;
    moment_all(&r);
}
