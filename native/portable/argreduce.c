/* argreduce.c - argmax, argmin, max_dim, min_dim: where the extreme value of a reduction stands.
 * The first NaN wins, else the first of equal values; indices count in the reduced dimensions. */
#include "../rows.h"

/* A result so far; the values themselves are kept by the typed functions. */
typedef struct arg_run {
    gd_walk w;
    void *values; /* NULL for argmax and argmin */
    int64_t *indices;
    int64_t task_outputs;
    void (*output)(const struct arg_run *r, int64_t o);
} arg_run;

/* The extreme of n integers. */
#define DEFINE_INT_EXTREMES(name, T)                                    \
    static inline T gd_row_max_##name(const T *x, int64_t n) {          \
        T best = x[0];                                                  \
        for (int64_t k = 1; k < n; k++) best = x[k] > best ? x[k] : best; \
        return best;                                                    \
    }                                                                   \
    static inline T gd_row_min_##name(const T *x, int64_t n) {          \
        T best = x[0];                                                  \
        for (int64_t k = 1; k < n; k++) best = x[k] < best ? x[k] : best; \
        return best;                                                    \
    }
DEFINE_INT_EXTREMES(i64, int64_t)
DEFINE_INT_EXTREMES(i32, int32_t)
DEFINE_INT_EXTREMES(bool, uint8_t)

/* The extreme of each block first, then its place, if it beats the blocks before. A NaN is the extreme
 * of its block and ends the search. */
#define DEFINE_ARG(name, extreme, T, MORE)                                                       \
    static void name(const arg_run *r, int64_t o) {                                              \
        const char *x = gd_walk_output(&r->w, o);                                                \
        int64_t buffer[GD_BLOCK], index = 0;                                                     \
        T best = *(const T *)x;                                                                  \
        for (int64_t first = 0; first < r->w.count && best == best; first += GD_BLOCK) {         \
            int64_t n = r->w.count - first < GD_BLOCK ? r->w.count - first : GD_BLOCK, k = 0;    \
            const T *v = gd_walk_run(&r->w, x, first, n, buffer);                                \
            const T block = extreme(v, n);                                                       \
            if (block == block && !(block MORE best)) continue;                                  \
            if (block == block) while (v[k] != block) k++;                                       \
            else while (v[k] == v[k]) k++;                                                       \
            best = v[k];                                                                         \
            index = first + k;                                                                   \
        }                                                                                        \
        r->indices[o] = index;                                                                   \
        if (r->values) ((T *)r->values)[o] = best;                                               \
    }

#define DEFINE_ARGS(name, T) \
    DEFINE_ARG(largest_##name, gd_row_max_##name, T, >) \
    DEFINE_ARG(smallest_##name, gd_row_min_##name, T, <)

DEFINE_ARGS(f32, float)
DEFINE_ARGS(f64, double)
DEFINE_ARGS(i64, int64_t)
DEFINE_ARGS(i32, int32_t)
DEFINE_ARGS(bool, uint8_t)

typedef void arg_output(const arg_run *r, int64_t o);
static arg_output *const largest[GD_DTYPES] = {largest_f32, largest_f64, largest_i64, largest_i32, largest_bool};
static arg_output *const smallest[GD_DTYPES] = {smallest_f32, smallest_f64, smallest_i64, smallest_i32, smallest_bool};

static void arg_task(void *ctx, int64_t i, int worker) {
    const arg_run *r = ctx;
    (void)worker;
    int64_t last = (i + 1) * r->task_outputs < r->w.outputs ? (i + 1) * r->task_outputs : r->w.outputs;
    for (int64_t o = i * r->task_outputs; o < last; o++) r->output(r, o);
}

static void arg_all(const gd_args *a, arg_output *const *output, void *values, void *indices) {
    arg_run r = {.w = gd_walk_of(a->in[0], a->attr->i[0]), .values = values, .indices = indices, .output = output[a->in[0]->dtype]};
    if (r.w.outputs == 0 || r.w.count == 0) return; /* nothing to choose from is refused by the shape rule */
    int64_t work = r.w.outputs * r.w.count;
    r.task_outputs = work <= GD_SERIAL ? r.w.outputs : r.w.count < GD_TASK ? GD_TASK / r.w.count : 1;
    int64_t tasks = (r.w.outputs + r.task_outputs - 1) / r.task_outputs;
    if (tasks == 1) arg_task(&r, 0, 0);
    else gd_parallel(tasks, arg_task, &r);
}

void GD_KERNEL(max_dim)(const gd_args *a) { arg_all(a, largest, a->out[0]->data, a->out[1]->data); }
void GD_KERNEL(min_dim)(const gd_args *a) { arg_all(a, smallest, a->out[0]->data, a->out[1]->data); }
void GD_KERNEL(argmax)(const gd_args *a) { arg_all(a, largest, NULL, a->out[0]->data); }
void GD_KERNEL(argmin)(const gd_args *a) { arg_all(a, smallest, NULL, a->out[0]->data); }
