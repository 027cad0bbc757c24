/* nonzero.c - the places of what is not zero, in row-major order.
 * What lies side by side is counted in blocks first, so that threads know where each block's places go. */
#include <string.h>

#include "../counting.h"
#include "../kernel.h"
#include "../thread.h"

enum { CHUNK = 256 /* elements whose places are gathered without a branch */ };

typedef struct finding {
    const gd_view *x;
    int64_t *out;
    int64_t count; /* no more than the caller counted */
    int64_t *first; /* of each block: how many come before it */
} finding;

/* Coordinates of place k. */
static int64_t *write_place(int64_t *out, const gd_view *x, int64_t k) {
    int64_t at[GD_DIMS];
    for (int d = GD_DIMS - 1; d >= 0; d--) {
        at[d] = k % x->shape[d];
        k /= x->shape[d];
    }
    for (int d = GD_DIMS - x->rank; d < GD_DIMS; d++) *out++ = at[d];
    return out;
}

#define DEFINE_FIND(name, T)                                                                                       \
    static void count_##name(void *ctx, int64_t i, int worker) {                                                   \
        const finding *f = ctx;                                                                                    \
        const T *x = f->x->data;                                                                                   \
        const int64_t end = (i + 1) * GD_COUNT_BLOCK < gd_numel(f->x) ? (i + 1) * GD_COUNT_BLOCK : gd_numel(f->x); \
        int32_t n = 0;                                                                                             \
        (void)worker;                                                                                              \
        for (int64_t k = i * GD_COUNT_BLOCK; k < end; k++) n += x[k] != 0;                                         \
        f->first[i] = n;                                                                                           \
    }                                                                                                              \
    static void find_##name(void *ctx, int64_t i, int worker) {                                                    \
        const finding *f = ctx;                                                                                    \
        const T *x = f->x->data;                                                                                   \
        const int64_t end = (i + 1) * GD_COUNT_BLOCK < gd_numel(f->x) ? (i + 1) * GD_COUNT_BLOCK : gd_numel(f->x); \
        const int64_t columns = f->x->shape[3];                                                                    \
        const int rank = f->x->rank;                                                                               \
        int64_t place[CHUNK], left = f->count - f->first[i];                                                       \
        int64_t *out = f->out + f->first[i] * rank;                                                                \
        int64_t row = i * GD_COUNT_BLOCK / columns, row_end = (row + 1) * columns;                                 \
        (void)worker;                                                                                              \
        for (int64_t k = i * GD_COUNT_BLOCK; k < end && left > 0; k += CHUNK) {                                    \
            const int64_t m = end - k < CHUNK ? end - k : CHUNK;                                                   \
            int64_t n = 0;                                                                                         \
            for (int64_t j = 0; j < m; j++) {                                                                      \
                place[n] = k + j;                                                                                  \
                n += x[k + j] != 0;                                                                                \
            }                                                                                                      \
            n = n < left ? n : left;                                                                               \
            left -= n;                                                                                             \
            if (rank == 1) {                                                                                       \
                memcpy(out, place, (size_t)n * sizeof *out);                                                       \
                out += n;                                                                                          \
            } else if (rank == 2) {                                                                                \
                for (int64_t j = 0; j < n; j++) {                                                                  \
                    while (place[j] >= row_end) row++, row_end += columns;                                         \
                    *out++ = row;                                                                                  \
                    *out++ = place[j] - row_end + columns;                                                         \
                }                                                                                                  \
            } else {                                                                                               \
                for (int64_t j = 0; j < n; j++) out = write_place(out, f->x, place[j]);                            \
            }                                                                                                      \
        }                                                                                                          \
    }                                                                                                              \
    static void walk_##name(const finding *f) {                                                                    \
        const gd_view *x = f->x;                                                                                   \
        int64_t *out = f->out, left = f->count, k = 0;                                                             \
        for (int64_t a = 0; a < x->shape[0]; a++)                                                                  \
            for (int64_t b = 0; b < x->shape[1]; b++)                                                              \
                for (int64_t c = 0; c < x->shape[2]; c++) {                                                        \
                    const T *row = (const T *)x->data + a * x->strides[0] + b * x->strides[1] + c * x->strides[2]; \
                    for (int64_t d = 0; d < x->shape[3]; d++, k++)                                                 \
                        if (row[d * x->strides[3]] != 0 && left-- > 0) out = write_place(out, x, k);               \
                }                                                                                                  \
    }
DEFINE_FIND(f32, float)
DEFINE_FIND(f64, double)
DEFINE_FIND(i64, int64_t)
DEFINE_FIND(i32, int32_t)
DEFINE_FIND(bool, uint8_t)

typedef void task(void *ctx, int64_t i, int worker);

static void in_blocks(finding *f, int64_t blocks, task *run) {
    if (blocks > 4) gd_parallel(blocks, run, f);
    else
        for (int64_t i = 0; i < blocks; i++) run(f, i, 0);
}

void GD_KERNEL(nonzero)(const gd_args *a) {
    static task *const count[GD_DTYPES] = {count_f32, count_f64, count_i64, count_i32, count_bool};
    static task *const find[GD_DTYPES] = {find_f32, find_f64, find_i64, find_i32, find_bool};
    static void (*const walk[GD_DTYPES])(const finding *f) = {walk_f32, walk_f64, walk_i64, walk_i32, walk_bool};
    finding f = {a->in[0], a->out[0]->data, a->out[0]->shape[2], a->workspace};
    if (gd_numel(f.x) == 0) return;
    if (!gd_is_contiguous(f.x)) {
        walk[f.x->dtype](&f);
        return;
    }
    const int64_t blocks = gd_count_blocks(gd_numel(f.x));
    in_blocks(&f, blocks, count[f.x->dtype]);
    for (int64_t i = 0, all = 0; i < blocks; i++) {
        const int64_t n = f.first[i];
        f.first[i] = all;
        all += n;
    }
    in_blocks(&f, blocks, find[f.x->dtype]);
}
