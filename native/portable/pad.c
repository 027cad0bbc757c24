/* pad.c - pad, which also cuts, rolls and repeats, and its transpose.
 * The runs of a row are found once; rows are copied, or added up, run by run. */
#include <string.h>

#include "../arrange.h"
#include "../half.h"
#include "../kernel.h"
#include "../thread.h"

enum {
    TASK_BYTES = 128 * 1024,   /* written by one task: about 10 us */
    SERIAL_BYTES = 256 * 1024, /* at most so much is not worth waking a thread */
    SHORT = 8                  /* elements of a run that a loop moves sooner than memcpy */
};

typedef struct padding {
    const gd_view *small, *large; /* what is padded, and the padded one */
    const int64_t *before;
    int mode;
    const gd_pad_run *run;
    int64_t runs, task_rows;
    int64_t value; /* bytes of the constant */
} padding;

static padding padding_of(const gd_args *a, const gd_view *small, const gd_view *large) {
    padding p = {.small = small, .large = large, .before = a->attr->i + 1, .mode = (int)a->attr->i[0], .run = a->workspace};
    gd_pad_run *run = a->workspace;
    const int64_t width = large->shape[3], size = small->shape[3];
    for (int64_t l = 0; l < width;) {
        const int64_t from = gd_pad_place(l - p.before[3], size, p.mode);
        int64_t n = 1;
        while (l + n < width && gd_pad_place(l + n - p.before[3], size, p.mode) == (from < 0 ? -1 : from + n)) n++;
        run[p.runs++] = (gd_pad_run){l, from, n};
        l += n;
    }
    return p;
}

/* Where the plane of the small tensor that plane (i, j) of the large one shows begins; -1: nowhere. */
static int64_t small_plane(const padding *p, int64_t i, int64_t j) {
    const int64_t at0 = gd_pad_place(i - p->before[0], p->small->shape[0], p->mode), at1 = gd_pad_place(j - p->before[1], p->small->shape[1], p->mode);
    return at0 < 0 || at1 < 0 ? -1 : at0 * p->small->strides[0] + at1 * p->small->strides[1];
}

/* The same of its row k. */
static int64_t small_row(const padding *p, int64_t plane, int64_t k) {
    const int64_t at = gd_pad_place(k - p->before[2], p->small->shape[2], p->mode);
    return at < 0 || plane < 0 ? -1 : plane + at * p->small->strides[2];
}

/* ---- pad ------------------------------------------------------------------------------------------------- */

#define DEFINE_PAD(name, T)                                                                             \
    static void pad_rows_##name(const padding *p, int64_t first, int64_t last) {                        \
        const int64_t *shape = p->large->shape, step = p->small->strides[3];                            \
        T value;                                                                                        \
        memcpy(&value, &p->value, sizeof value);                                                        \
        int64_t k = first % shape[2], j = first / shape[2] % shape[1], i = first / shape[2] / shape[1];     \
        int64_t plane = small_plane(p, i, j);                                                           \
        for (int64_t row = first; row < last; row++, k++) {                                             \
            if (k == shape[2]) {                                                                        \
                k = 0;                                                                                  \
                if (++j == shape[1]) j = 0, i++;                                                        \
                plane = small_plane(p, i, j);                                                           \
            }                                                                                           \
            T *y = (T *)p->large->data + row * shape[3];                                                \
            const int64_t offset = small_row(p, plane, k);                                              \
            const T *x = (const T *)p->small->data + (offset < 0 ? 0 : offset);                         \
            if (offset < 0) {                                                                           \
                for (int64_t l = 0; l < shape[3]; l++) y[l] = value;                                    \
                continue;                                                                               \
            }                                                                                           \
            for (int64_t r = 0; r < p->runs; r++) {                                                     \
                const gd_pad_run run = p->run[r];                                                       \
                T *to = y + run.to;                                                                     \
                if (run.from < 0) for (int64_t l = 0; l < run.n; l++) to[l] = value;                    \
                else if (step == 1 && run.n > SHORT) memcpy(to, x + run.from, (size_t)run.n * sizeof *to); \
                else for (int64_t l = 0; l < run.n; l++) to[l] = x[(run.from + l) * step];              \
            }                                                                                           \
        }                                                                                               \
    }                                                                                                   \
    static void pad_task_##name(void *ctx, int64_t i, int worker) {                                     \
        const padding *p = ctx;                                                                         \
        const int64_t rows = p->large->shape[0] * p->large->shape[1] * p->large->shape[2];              \
        (void)worker;                                                                                   \
        pad_rows_##name(p, i * p->task_rows, (i + 1) * p->task_rows < rows ? (i + 1) * p->task_rows : rows); \
    }
DEFINE_PAD(1, uint8_t)
DEFINE_PAD(2, uint16_t)
DEFINE_PAD(4, uint32_t)
DEFINE_PAD(8, uint64_t)

static int64_t constant_of(const gd_attr *attr, int dtype) {
    int64_t bytes = 0;
    const float f32 = (float)attr->f[0];
    const int32_t i32 = (int32_t)attr->i[9];
    const uint8_t yes = attr->i[9] != 0;
    const uint16_t half = dtype == GD_BFLOAT16 ? gd_bf16_of_f64(attr->f[0]) : gd_f16_of_f64(attr->f[0]);
    switch (dtype) {
    case GD_FLOAT32: memcpy(&bytes, &f32, sizeof f32); break;
    case GD_FLOAT64: memcpy(&bytes, &attr->f[0], sizeof bytes); break;
    case GD_INT64: bytes = attr->i[9]; break;
    case GD_INT32: memcpy(&bytes, &i32, sizeof i32); break;
    case GD_BOOL: memcpy(&bytes, &yes, sizeof yes); break;
    default: memcpy(&bytes, &half, sizeof half);
    }
    return bytes;
}

void GD_KERNEL(pad)(const gd_args *a) {
    static void (*const tasks[])(void *ctx, int64_t i, int worker) = {[1] = pad_task_1, [2] = pad_task_2, [4] = pad_task_4, [8] = pad_task_8};
    const gd_view *out = a->out[0];
    const int64_t n = gd_numel(out), bytes = gd_dtype_bytes(out->dtype);
    if (n == 0) return;
    padding p = padding_of(a, a->in[0], out);
    p.value = constant_of(a->attr, out->dtype);
    const int64_t rows = n / out->shape[3], row_bytes = out->shape[3] * bytes;
    p.task_rows = n * bytes <= SERIAL_BYTES ? rows : row_bytes < TASK_BYTES ? TASK_BYTES / row_bytes : 1;
    if (p.task_rows >= rows) tasks[bytes](&p, 0, 0);
    else gd_parallel((rows + p.task_rows - 1) / p.task_rows, tasks[bytes], &p);
}

/* ---- Its transpose: every padded place is added to the one that it shows, in row-major order ------------------ */

/* A task adds up what the entries i of the two outer dimensions (neither of which is padded) show. */
typedef struct folding {
    padding p;
    const gd_view *g;
    int outer; /* so many leading dimensions are not padded */
    int64_t task;
} folding;

#define DEFINE_PAD_BWD(name, T)                                                                                   \
    static void fold_##name(const folding *f, int64_t i, int64_t j) {                                             \
        const padding *p = &f->p;                                                                                 \
        const int64_t plane = small_plane(p, i, j);                                                               \
        for (int64_t k = 0; k < f->g->shape[2]; k++) {                                                            \
            const T *g = (const T *)f->g->data + i * f->g->strides[0] + j * f->g->strides[1] + k * f->g->strides[2]; \
            const int64_t offset = small_row(p, plane, k), step = f->g->strides[3];                                \
            if (offset < 0) continue;                                                                             \
            T *y = (T *)p->small->data + offset;                                                                  \
            for (int64_t r = 0; r < p->runs; r++) {                                                               \
                const gd_pad_run run = p->run[r];                                                                 \
                if (run.from < 0) continue;                                                                       \
                for (int64_t l = 0; l < run.n; l++) y[run.from + l] += g[(run.to + l) * step];                    \
            }                                                                                                     \
        }                                                                                                         \
    }                                                                                                             \
    static void fold_task_##name(void *ctx, int64_t task, int worker) {                                           \
        const folding *f = ctx;                                                                                   \
        const int64_t n0 = f->g->shape[0], n1 = f->g->shape[1], all = f->outer == 2 ? n0 * n1 : f->outer == 1 ? n0 : 1; \
        (void)worker;                                                                                             \
        for (int64_t u = task * f->task; u < all && u < (task + 1) * f->task; u++) {                              \
            if (f->outer == 2) fold_##name(f, u / n1, u % n1);                                                    \
            else                                                                                                  \
                for (int64_t i = f->outer ? u : 0; i < (f->outer ? u + 1 : n0); i++)                              \
                    for (int64_t j = 0; j < n1; j++) fold_##name(f, i, j);                                        \
        }                                                                                                         \
    }
DEFINE_PAD_BWD(f32, float)
DEFINE_PAD_BWD(f64, double)

void GD_KERNEL(pad_bwd)(const gd_args *a) {
    const gd_view *g = a->in[0], *out = a->out[0];
    const int64_t *before = a->attr->i + 1, *after = a->attr->i + 5, bytes = gd_numel(out) * gd_dtype_bytes(out->dtype);
    if (bytes == 0) return;
    memset(out->data, 0, (size_t)bytes);
    if (gd_numel(g) == 0) return;
    folding f = {.p = padding_of(a, out, g), .g = g};
    while (f.outer < 2 && before[f.outer] == 0 && after[f.outer] == 0) f.outer++;
    const int64_t all = f.outer == 2 ? g->shape[0] * g->shape[1] : f.outer == 1 ? g->shape[0] : 1, each = gd_numel(g) / all * gd_dtype_bytes(out->dtype);
    void (*const task)(void *ctx, int64_t i, int worker) = out->dtype == GD_FLOAT32 ? fold_task_f32 : fold_task_f64;
    f.task = bytes <= SERIAL_BYTES ? all : each < TASK_BYTES ? TASK_BYTES / each : 1;
    if (f.task >= all) task(&f, 0, 0);
    else gd_parallel((all + f.task - 1) / f.task, task, &f);
}
