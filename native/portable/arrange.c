/* arrange.c - flip; and the transposes of the views diagonal and unfold.
 * Overlapping windows are added up in their order. */
#include <string.h>

#include "../kernel.h"
#include "../thread.h"

enum {
    TASK_BYTES = 128 * 1024,  /* written by one task: about 10 us */
    SERIAL_BYTES = 256 * 1024 /* at most so much is not worth waking a thread */
};

/* ---- flip: a copy with negative strides -------------------------------------------------------------------- */

typedef struct flipping {
    const char *x; /* the element that comes first */
    int64_t strides[4], bytes, task_rows;
    const gd_view *out;
} flipping;

#define DEFINE_FLIP(name, T)                                                                              \
    static void flip_task_##name(void *ctx, int64_t task, int worker) {                                   \
        const flipping *f = ctx;                                                                          \
        const int64_t *shape = f->out->shape, rows = shape[0] * shape[1] * shape[2], step = f->strides[3]; \
        (void)worker;                                                                                     \
        for (int64_t row = task * f->task_rows; row < rows && row < (task + 1) * f->task_rows; row++) {   \
            const int64_t k = row % shape[2], j = row / shape[2] % shape[1], i = row / shape[2] / shape[1]; \
            const T *x = (const T *)f->x + i * f->strides[0] + j * f->strides[1] + k * f->strides[2];     \
            T *y = (T *)f->out->data + row * shape[3];                                                    \
            if (step == 1) memcpy(y, x, (size_t)shape[3] * sizeof *y);                                    \
            else if (step == -1) for (int64_t l = 0; l < shape[3]; l++) y[l] = x[-l];                     \
            else for (int64_t l = 0; l < shape[3]; l++) y[l] = x[l * step];                               \
        }                                                                                                 \
    }
DEFINE_FLIP(1, uint8_t)
DEFINE_FLIP(2, uint16_t)
DEFINE_FLIP(4, uint32_t)
DEFINE_FLIP(8, uint64_t)

void GD_KERNEL(flip)(const gd_args *a) {
    static void (*const tasks[])(void *ctx, int64_t i, int worker) = {[1] = flip_task_1, [2] = flip_task_2, [4] = flip_task_4, [8] = flip_task_8};
    const gd_view *x = a->in[0], *out = a->out[0];
    const int64_t n = gd_numel(out);
    if (n == 0) return;
    flipping f = {.x = x->data, .bytes = gd_dtype_bytes(x->dtype), .out = out};
    for (int d = 0; d < GD_DIMS; d++) {
        const bool turned = a->attr->i[0] >> d & 1;
        f.strides[d] = turned ? -x->strides[d] : x->strides[d];
        if (turned) f.x += (x->shape[d] - 1) * x->strides[d] * f.bytes;
    }
    const int64_t rows = n / out->shape[3], row_bytes = out->shape[3] * f.bytes;
    f.task_rows = n * f.bytes <= SERIAL_BYTES ? rows : row_bytes < TASK_BYTES ? TASK_BYTES / row_bytes : 1;
    if (f.task_rows >= rows) tasks[f.bytes](&f, 0, 0);
    else gd_parallel((rows + f.task_rows - 1) / f.task_rows, tasks[f.bytes], &f);
}

/* ---- undiagonal: (b.., n) -> zeros (.., size, .., size, ..) with b on a diagonal ------------------------------- */

void GD_KERNEL(undiagonal)(const gd_args *a) {
    const gd_view *g = a->in[0], *out = a->out[0];
    const int64_t offset = a->attr->i[0], bytes = gd_dtype_bytes(g->dtype);
    const int d1 = (int)a->attr->i[1], d2 = (int)a->attr->i[2];
    if (gd_numel(out) == 0) return;
    memset(out->data, 0, (size_t)(gd_numel(out) * bytes));
    /* the two dimensions of the result that are not d1 or d2 are dimensions 1 and 2 of g */
    int64_t stride[2];
    for (int d = 0, k = 0; d < GD_DIMS; d++)
        if (d != d1 && d != d2) stride[k++] = out->strides[d];
    char *y = (char *)out->data + (offset >= 0 ? offset * out->strides[d2] : -offset * out->strides[d1]) * bytes;
    const int64_t step = out->strides[d1] + out->strides[d2];
    for (int64_t j = 0; j < g->shape[1]; j++)
        for (int64_t k = 0; k < g->shape[2]; k++)
            for (int64_t l = 0; l < g->shape[3]; l++)
                memcpy(y + (j * stride[0] + k * stride[1] + l * step) * bytes,
                       (const char *)g->data + (j * g->strides[1] + k * g->strides[2] + l * g->strides[3]) * bytes, (size_t)bytes);
}

/* ---- unfold_bwd: (.., windows, .., entries) -> (.., size, ..), overlapping entries added up ----------------------- */

#define DEFINE_UNFOLD_BWD(name, T)                                                                                          \
    static void unfold_##name(const gd_view *g, const gd_view *out, int dim, int64_t step) {                                \
        const int64_t *n = g->shape, *s = g->strides;                                                                       \
        int64_t to[3]; /* strides in the result of the first three dimensions of g */                                       \
        for (int d = 0; d < 3; d++) to[d] = out->strides[d + 1] * (d == dim ? step : 1);                                    \
        for (int64_t i = 0; i < n[0]; i++)                                                                                  \
            for (int64_t j = 0; j < n[1]; j++)                                                                              \
                for (int64_t k = 0; k < n[2]; k++) {                                                                        \
                    T *y = (T *)out->data + i * to[0] + j * to[1] + k * to[2];                                              \
                    const T *x = (const T *)g->data + i * s[0] + j * s[1] + k * s[2];                                       \
                    for (int64_t l = 0; l < n[3]; l++) y[l * out->strides[dim + 1]] += x[l * s[3]];                         \
                }                                                                                                           \
    }
DEFINE_UNFOLD_BWD(f32, float)
DEFINE_UNFOLD_BWD(f64, double)

/* i[0] counts among the dimensions of the result, which has one fewer than g. */
void GD_KERNEL(unfold_bwd)(const gd_args *a) {
    const gd_view *g = a->in[0], *out = a->out[0];
    if (gd_numel(out) == 0) return;
    memset(out->data, 0, (size_t)(gd_numel(out) * gd_dtype_bytes(out->dtype)));
    if (gd_numel(g)) (out->dtype == GD_FLOAT32 ? unfold_f32 : unfold_f64)(g, out, (int)a->attr->i[0] - 1, a->attr->i[2]);
}
