/* gather.c - one index per element: gather, one_hot.
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

/* out[l] = x[index[l] * step + l * x_step], n elements. */
#define DEFINE_GATHER(name, T)                                                                                       \
    static void name(T *restrict out, const T *restrict x, const int64_t *restrict index, int64_t n, int64_t size, int64_t step, \
                     int64_t x_step, int64_t index_step) {                                                           \
        if (index_step == 1 && step == 1 && x_step == 0)                                                             \
            for (int64_t l = 0; l < n; l++) out[l] = x[index[l] + (size & (index[l] >> 63))];                        \
        else                                                                                                         \
            for (int64_t l = 0; l < n; l++) out[l] = x[wrap(index[l * index_step], size) * step + l * x_step];       \
    }
DEFINE_GATHER(gather_1, uint8_t)
DEFINE_GATHER(gather_2, uint16_t)
DEFINE_GATHER(gather_4, uint32_t)
DEFINE_GATHER(gather_8, uint64_t)

static void gather_rows(const gathering *r, int64_t first, int64_t last) {
    const int64_t n = r->index->shape[3], bytes = gd_dtype_bytes(r->x->dtype), size = r->x->shape[r->dim];
    const int64_t index_step = r->index->strides[3], step = r->x->strides[r->dim], x_step = r->dim == 3 ? 0 : r->x->strides[3];
    for (int64_t row = first; row < last; row++) {
        const row_place p = place_of(r->index, row);
        const int64_t *index = (const int64_t *)r->index->data + row_offset(r->index, p);
        const void *x = (const char *)r->x->data + row_offset_but(r->x, p, r->dim) * bytes;
        void *out = r->out + row * n * bytes;
        if (bytes == 4) gather_4(out, x, index, n, size, step, x_step, index_step);
        else if (bytes == 8) gather_8(out, x, index, n, size, step, x_step, index_step);
        else if (bytes == 2) gather_2(out, x, index, n, size, step, x_step, index_step);
        else gather_1(out, x, index, n, size, step, x_step, index_step);
    }
}

static void gather_task(void *ctx, int64_t i, int worker) {
    const gathering *r = ctx;
    const int64_t *shape = r->index->shape, rows = shape[0] * shape[1] * shape[2], end = (i + 1) * r->task_rows;
    (void)worker;
    gather_rows(r, i * r->task_rows, end < rows ? end : rows);
}

/* Entries i * TASK .. of the only row. */
static void gather_piece(void *ctx, int64_t i, int worker) {
    gathering r = *(const gathering *)ctx;
    gd_view index = *r.index, x = *r.x;
    const int64_t first = i * TASK, n = index.shape[3];
    (void)worker;
    index.data = (int64_t *)index.data + first * index.strides[3];
    index.shape[3] = n - first < TASK ? n - first : TASK;
    if (r.dim != 3) x.data = (char *)x.data + first * x.strides[3] * gd_dtype_bytes(x.dtype);
    r.out += first * gd_dtype_bytes(x.dtype);
    r.index = &index, r.x = &x;
    gather_rows(&r, 0, 1);
}

void GD_KERNEL(gather)(const gd_args *a) {
    gathering r = {.x = a->in[0], .index = a->in[1], .out = a->out[0]->data, .dim = (int)a->attr->i[0]};
    const int64_t n = gd_numel(r.index);
    if (n == 0) return;
    const int64_t rows = n / r.index->shape[3];
    r.task_rows = n <= SERIAL ? rows : r.index->shape[3] < TASK ? TASK / r.index->shape[3] : 1;
    if (r.task_rows >= rows && n <= SERIAL) gather_rows(&r, 0, rows);
    else if (rows > 1) gd_parallel((rows + r.task_rows - 1) / r.task_rows, gather_task, &r);
    else gd_parallel((n + TASK - 1) / TASK, gather_piece, &r);
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
