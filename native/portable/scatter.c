/* scatter.c - writing where an index says: scatter with its reductions, and scatter_add_zeros, gather's transpose.
 * Every element of the result takes what comes to it in the row-major order of the index, whatever the threads. */
#include <string.h>

#include "../kernel.h"
#include "../scattering.h"
#include "../thread.h"

enum {
    TASK = 32 * 1024, /* elements of the index per task: about 50 us */
    PIECES = 8,       /* of columns: fewer, longer rows stream better */
    ALIGNED = 64,     /* columns, so that threads do not share cache lines */
    SERIAL = 2 * TASK /* at most so many elements are not worth waking a thread */
};

/* What a task sees: index, source and result cut along one dimension other than the indexed one. */
typedef struct scattering {
    gd_view index, src, out;
    int dim;
} scattering;

static int64_t wrap(int64_t index, int64_t size) { return index < 0 ? index + size : index; }

#define SET(a, v) (v)
#define ADD(a, v) ((a) + (v))
#define MUL(a, v) ((a) * (v))
#define OR(a, v) ((a) | (v))
#define AND(a, v) ((a) & (v))
#define MAX(a, v) ((v) != (v) || (v) > (a) ? (v) : (a))
#define MIN(a, v) ((v) != (v) || (v) < (a) ? (v) : (a))

/* CALC: the type in which integers wrap. One entry of the index for a whole row is common: it is read once. */
#define DEFINE_SCATTER(name, T, CALC, STEP)                                                                            \
    static void name(const scattering *s) {                                                                            \
        const gd_view *index = &s->index, *src = &s->src, *out = &s->out;                                              \
        const int dim = s->dim;                                                                                        \
        const int64_t n = index->shape[3], size = out->shape[dim], step = out->strides[dim];                           \
        const int64_t to_step = dim == 3 ? 0 : out->strides[3], from_step = src->strides[3], index_step = index->strides[3]; \
        for (int64_t i = 0; i < index->shape[0]; i++)                                                                  \
            for (int64_t j = 0; j < index->shape[1]; j++)                                                              \
                for (int64_t k = 0; k < index->shape[2]; k++) {                                                        \
                    const int64_t *at = (const int64_t *)index->data + i * index->strides[0] + j * index->strides[1] + k * index->strides[2]; \
                    const T *v = (const T *)src->data + i * src->strides[0] + j * src->strides[1] + k * src->strides[2]; \
                    T *y = (T *)out->data + (dim == 0 ? 0 : i * out->strides[0]) + (dim == 1 ? 0 : j * out->strides[1]) + \
                           (dim == 2 ? 0 : k * out->strides[2]);                                                       \
                    if (dim != 3 && (index_step == 0 || n == 1)) {                                                     \
                        T *row = y + wrap(*at, size) * step;                                                           \
                        if (to_step == 1 && from_step == 1)                                                            \
                            for (int64_t l = 0; l < n; l++) row[l] = (T)STEP((CALC)row[l], (CALC)v[l]);                \
                        else                                                                                           \
                            for (int64_t l = 0; l < n; l++) row[l * to_step] = (T)STEP((CALC)row[l * to_step], (CALC)v[l * from_step]); \
                        continue;                                                                                      \
                    }                                                                                                  \
                    for (int64_t l = 0; l < n; l++) {                                                                  \
                        T *to = y + wrap(at[l * index_step], size) * step + l * to_step;                               \
                        *to = (T)STEP((CALC)*to, (CALC)v[l * from_step]);                                              \
                    }                                                                                                  \
                }                                                                                                      \
    }

#define DEFINE_SCATTERS(name, T, CALC)      \
    DEFINE_SCATTER(add_##name, T, CALC, ADD) \
    DEFINE_SCATTER(mul_##name, T, CALC, MUL) \
    DEFINE_SCATTER(max_##name, T, T, MAX)    \
    DEFINE_SCATTER(min_##name, T, T, MIN)
DEFINE_SCATTERS(f32, float, float)
DEFINE_SCATTERS(f64, double, double)
DEFINE_SCATTERS(i64, int64_t, uint64_t)
DEFINE_SCATTERS(i32, int32_t, uint32_t)
DEFINE_SCATTER(add_bool, uint8_t, uint8_t, OR)
DEFINE_SCATTER(mul_bool, uint8_t, uint8_t, AND)
DEFINE_SCATTER(set_1, uint8_t, uint8_t, SET)
DEFINE_SCATTER(set_4, uint32_t, uint32_t, SET)
DEFINE_SCATTER(set_8, uint64_t, uint64_t, SET)

typedef void scatter(const scattering *s);
static scatter *const scatters[GD_SCATTER_MODES][GD_DTYPES] = {
    [GD_SCATTER_SET] = {set_4, set_8, set_8, set_4, set_1},
    [GD_SCATTER_ADD] = {add_f32, add_f64, add_i64, add_i32, add_bool},
    [GD_SCATTER_MUL] = {mul_f32, mul_f64, mul_i64, mul_i32, mul_bool},
    [GD_SCATTER_MAX] = {max_f32, max_f64, max_i64, max_i32, add_bool},
    [GD_SCATTER_MIN] = {min_f32, min_f64, min_i64, min_i32, mul_bool},
};

typedef struct cutting {
    const scattering *whole;
    scatter *run;
    int along;
    int64_t each;
} cutting;

static gd_view cut(gd_view v, int d, int64_t first, int64_t n) {
    v.data = (char *)v.data + first * v.strides[d] * gd_dtype_bytes(v.dtype);
    v.shape[d] = n;
    return v;
}

static void scatter_task(void *ctx, int64_t i, int worker) {
    const cutting *c = ctx;
    scattering s = *c->whole;
    const int64_t first = i * c->each, all = s.index.shape[c->along], n = all - first < c->each ? all - first : c->each;
    (void)worker;
    s.index = cut(s.index, c->along, first, n);
    s.src = cut(s.src, c->along, first, n);
    s.out = cut(s.out, c->along, first, n);
    c->run(&s);
}

/* Threads share the largest dimension along which no index leads from one entry to another. */
static void scatter_all(const scattering *s, scatter *run) {
    const int64_t count = gd_numel(&s->index);
    if (count == 0) return;
    int along = -1;
    for (int d = 0; d < GD_DIMS; d++)
        if (d != s->dim && s->index.shape[d] > 1 && (along < 0 || s->index.shape[d] > s->index.shape[along])) along = d;
    cutting c = {s, run, along, 0};
    if (along >= 0) {
        const int64_t one = count / s->index.shape[along], least = along == 3 ? ALIGNED : 1;
        c.each = one < TASK ? TASK / one : 1;
        if (c.each < least) c.each = least;
        if (along == 3 && c.each < s->index.shape[3] / PIECES) c.each = (s->index.shape[3] / PIECES + ALIGNED - 1) / ALIGNED * ALIGNED;
    }
    if (count <= SERIAL || along < 0 || c.each >= s->index.shape[along]) run(s);
    else gd_parallel((s->index.shape[along] + c.each - 1) / c.each, scatter_task, &c);
}

/* Where something will come to, so that what was there does not count. */
static const void *neutral(int mode, int dtype) {
    static const float f32[] = {0, 0, 1, -__builtin_inff(), __builtin_inff()};
    static const double f64[] = {0, 0, 1, -__builtin_inf(), __builtin_inf()};
    static const int64_t i64[] = {0, 0, 1, INT64_MIN, INT64_MAX};
    static const int32_t i32[] = {0, 0, 1, INT32_MIN, INT32_MAX};
    static const uint8_t yes[] = {0, 0, 1, 0, 1};
    switch (dtype) {
    case GD_FLOAT32: return f32 + mode;
    case GD_FLOAT64: return f64 + mode;
    case GD_INT64: return i64 + mode;
    case GD_INT32: return i32 + mode;
    default: return yes + mode;
    }
}

void GD_KERNEL(scatter)(const gd_args *a) {
    const int mode = (int)a->attr->i[1], dtype = a->out[0]->dtype;
    if (gd_numel(a->out[0]) == 0) return;
    if (a->in[0]->data != a->out[0]->data) /* else it is written in place */
        GD_KERNEL(copy)(&(gd_args){.in = a->in, .out = a->out, .attr = a->attr, .nin = 1, .nout = 1});
    scattering s = {*a->in[1], *a->in[2], *a->out[0], (int)a->attr->i[0]};
    if (mode != GD_SCATTER_SET && a->attr->i[2] == 0) {
        scattering start = s;
        start.src.data = (void *)(uintptr_t)neutral(mode, dtype);
        memset(start.src.strides, 0, sizeof start.src.strides);
        scatter_all(&start, scatters[GD_SCATTER_SET][dtype]);
    }
    scatter_all(&s, scatters[mode][dtype]);
}

/* (g, index): added up in zeros. */
void GD_KERNEL(scatter_add_zeros)(const gd_args *a) {
    const gd_view *out = a->out[0];
    if (gd_numel(out) == 0) return;
    memset(out->data, 0, (size_t)(gd_numel(out) * gd_dtype_bytes(out->dtype)));
    const scattering s = {*a->in[1], *a->in[0], *out, (int)a->attr->i[0]};
    scatter_all(&s, scatters[GD_SCATTER_ADD][out->dtype]);
}
