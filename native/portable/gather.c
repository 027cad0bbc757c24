/* gather.c - one index per element: gather, one_hot, nonzero.
 * Indices were range-checked before; negative ones count from the end. */
#include <string.h>

#include "../kernel.h"
#include "../thread.h"

enum {
    TASK = 32 * 1024,  /* elements per task of a gather: about 30 us */
    SERIAL = 2 * TASK  /* at most so many elements are not worth waking a thread */
};

/* A row is the innermost dimension of the index; row r of it starts at these places. */
typedef struct row_place {
    int64_t i[3];
} row_place;

static row_place place_of(const gd_view *v, int64_t row) {
    const int64_t k = row % v->shape[2], rest = row / v->shape[2];
    return (row_place){{rest / v->shape[1], rest % v->shape[1], k}};
}

static int64_t row_offset(const gd_view *v, row_place p) {
    return p.i[0] * v->strides[0] + p.i[1] * v->strides[1] + p.i[2] * v->strides[2];
}

/* The same without the indexed dimension, whose place the index gives. */
static int64_t row_offset_but(const gd_view *v, row_place p, int dim) {
    if (dim < 3) p.i[dim] = 0;
    return row_offset(v, p);
}

static int64_t wrap(int64_t index, int64_t size) {
    return index < 0 ? index + size : index;
}

typedef struct gathering {
    const gd_view *x, *index;
    char *out; /* shaped like the index */
    int dim;
    int64_t task_rows;
} gathering;

/* out[l] = x[base + index[l] * step + l * x_step], a row of 4-byte or other elements. */
#define GATHER_ROW(BYTES)                                                                     \
    for (int64_t l = 0; l < n; l++)                                                           \
        memcpy(out + l * BYTES, x + (wrap(index[l * index_step], size) * step + l * x_step) * BYTES, BYTES)

static void gather_rows(const gathering *r, int64_t first, int64_t last) {
    const int64_t n = r->index->shape[3], bytes = gd_dtype_bytes(r->x->dtype), size = r->x->shape[r->dim];
    const int64_t index_step = r->index->strides[3], step = r->x->strides[r->dim], x_step = r->dim == 3 ? 0 : r->x->strides[3];
    for (int64_t row = first; row < last; row++) {
        const row_place p = place_of(r->index, row);
        const int64_t *index = (const int64_t *)r->index->data + row_offset(r->index, p);
        const char *x = (const char *)r->x->data + row_offset_but(r->x, p, r->dim) * bytes;
        char *out = r->out + row * n * bytes;
        if (bytes == 4) GATHER_ROW(4);
        else if (bytes == 8) GATHER_ROW(8);
        else if (bytes == 2) GATHER_ROW(2);
        else GATHER_ROW(1);
    }
}

static void gather_task(void *ctx, int64_t i, int worker) {
    const gathering *r = ctx;
    const int64_t *shape = r->index->shape, rows = shape[0] * shape[1] * shape[2], end = (i + 1) * r->task_rows;
    (void)worker;
    gather_rows(r, i * r->task_rows, end < rows ? end : rows);
}

void GD_KERNEL(gather)(const gd_args *a) {
    gathering r = {.x = a->in[0], .index = a->in[1], .out = a->out[0]->data, .dim = (int)a->attr->i[0]};
    const int64_t n = gd_numel(r.index);
    if (n == 0) return;
    const int64_t rows = n / r.index->shape[3];
    r.task_rows = n <= SERIAL ? rows : r.index->shape[3] < TASK ? TASK / r.index->shape[3] : 1;
    if (r.task_rows >= rows) gather_rows(&r, 0, rows);
    else gd_parallel((rows + r.task_rows - 1) / r.task_rows, gather_task, &r);
}

/* (...) -> (..., classes) */
void GD_KERNEL(one_hot)(const gd_args *a) {
    const gd_view *x = a->in[0];
    const int64_t classes = a->attr->i[0], n = gd_numel(x);
    int64_t *out = a->out[0]->data;
    if (n == 0 || classes == 0) return;
    memset(out, 0, (size_t)(n * classes) * sizeof *out);
    for (int64_t row = 0; row < n / x->shape[3]; row++) {
        const int64_t *v = (const int64_t *)x->data + row_offset(x, place_of(x, row));
        for (int64_t l = 0; l < x->shape[3]; l++, out += classes) out[wrap(v[l * x->strides[3]], classes)] = 1;
    }
}

/* The places of what is not zero, in row-major order -> (count, rank). No more than the caller counted. */
#define DEFINE_NONZERO(name, T)                                                                \
    static void nonzero_##name(const gd_view *x, int64_t *out, int64_t count) {                \
        int64_t i[4];                                                                          \
        for (i[0] = 0; i[0] < x->shape[0]; i[0]++)                                             \
            for (i[1] = 0; i[1] < x->shape[1]; i[1]++)                                         \
                for (i[2] = 0; i[2] < x->shape[2]; i[2]++) {                                   \
                    const T *v = (const T *)x->data + row_offset(x, (row_place){{i[0], i[1], i[2]}}); \
                    for (i[3] = 0; i[3] < x->shape[3]; i[3]++) {                               \
                        if (v[i[3] * x->strides[3]] == 0) continue;                            \
                        if (count-- == 0) return;                                              \
                        for (int d = GD_DIMS - x->rank; d < GD_DIMS; d++) *out++ = i[d];       \
                    }                                                                          \
                }                                                                              \
    }
DEFINE_NONZERO(f32, float)
DEFINE_NONZERO(f64, double)
DEFINE_NONZERO(i64, int64_t)
DEFINE_NONZERO(i32, int32_t)
DEFINE_NONZERO(bool, uint8_t)

void GD_KERNEL(nonzero)(const gd_args *a) {
    static void (*const nonzero[GD_DTYPES])(const gd_view *x, int64_t *out, int64_t count) = {nonzero_f32, nonzero_f64, nonzero_i64, nonzero_i32,
                                                                                            nonzero_bool};
    nonzero[a->in[0]->dtype](a->in[0], a->out[0]->data, a->out[0]->shape[2]);
}
