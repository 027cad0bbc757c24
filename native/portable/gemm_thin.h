/* gemm_thin.h - products with few rows or few columns, for every ISA: every element of the matrix is
 * used once or a few times, so it is read where it lies, in the order of memory, and never packed.
 *
 * Written for few rows x (r x k) times a matrix (k x length); few columns are the same, transposed.
 * gemm_thin_tile.h has the arithmetic, acc[i][n] = x (r x kb) mat (kb x n) for one k block of one chunk. */
#include "../gemm.h"
#include "../gemm_blocks.h"
#include "../thread.h"

/* More rows than these go through register tiles. Transposing in registers (dot) pays for itself by being
 * used for several rows, streaming only saves cache misses. */
enum { THIN_DOT_ROWS = THIN_ROWS, THIN_STREAM_ROWS = 3, THIN_LEAST_K = 8 };
/* Multiply-adds above which threads share the work (about 1 MiB of float32). */
static const int64_t thin_large = 1 << 18;
/* Bytes of a matrix that is not expected in a cache. */
enum { THIN_FAR = 1 << 24 };
/* Chunks are as wide as the accumulators, or narrower for enough tasks. */
enum { THIN_LEAST_COLUMNS = 128, THIN_TASKS_PER_WORKER = 4 };

typedef struct thin {
    const void *x, *mat;
    char *c;
    const void *bias;
    int64_t r, length, k, x_rs, x_cs, k_stride, lane_stride, c_rs, c_cs, chunk;
    int dtype;
    bool accumulate, bias_by_row, far; /* bias[i] of row i, not bias[j] of column j; the matrix is larger than caches */
} thin;

/* c = init + acc for k block k0: rows i0 on, columns j on. */
#define DEFINE_THIN_FINISH(T, name)                                                                                  \
    static void name(const thin *t, int64_t k0, int64_t i0, int64_t r, int64_t j, int64_t n, const T *acc) {         \
        const bool adds = k0 > 0 || t->accumulate;                                                                   \
        const T *bias = t->bias;                                                                                     \
        for (int64_t i = 0; i < r; i++, acc += THIN_COLUMNS) {                                                       \
            T *c = (T *)t->c + (i0 + i) * t->c_rs + j * t->c_cs;                                                     \
            if (t->c_cs == 1 && adds) {                                                                              \
                for (int64_t x = 0; x < n; x++) c[x] = c[x] + acc[x];                                                \
            } else if (t->c_cs == 1 && !bias) {                                                                      \
                memcpy(c, acc, (size_t)n * sizeof(T));                                                               \
            } else if (t->c_cs == 1 && !t->bias_by_row) {                                                            \
                for (int64_t x = 0; x < n; x++) c[x] = bias[j + x] + acc[x];                                         \
            } else if (adds) {                                                                                       \
                for (int64_t x = 0; x < n; x++) c[x * t->c_cs] = c[x * t->c_cs] + acc[x];                            \
            } else if (!bias) {                                                                                      \
                for (int64_t x = 0; x < n; x++) c[x * t->c_cs] = acc[x];                                             \
            } else {                                                                                                 \
                for (int64_t x = 0; x < n; x++) c[x * t->c_cs] = bias[t->bias_by_row ? i0 + i : j + x] + acc[x];     \
            }                                                                                                        \
        }                                                                                                            \
    }
DEFINE_THIN_FINISH(float, thin_finish_f32)
DEFINE_THIN_FINISH(double, thin_finish_f64)

/* One k block: rows i0 on, columns j on. */
#define DEFINE_THIN_BLOCK(T, s)                                                                                      \
    static void thin_block_##s(const thin *t, int64_t k0, int64_t kb, int64_t i0, int r, int64_t j, int64_t n,       \
                               const T *x, const T *mat, T *acc) {                                                   \
        if (t->lane_stride == 1) stream_block_##s(r, t->far, x, t->x_rs, t->x_cs, mat, t->k_stride, (int)n, kb, acc);        \
        else dot_block_##s(r, x, t->x_rs, t->x_cs, mat, t->lane_stride, (int)n, kb, acc);                            \
        thin_finish_##s(t, k0, i0, r, j, n, acc);                                                                    \
    }
DEFINE_THIN_BLOCK(float, f32)
DEFINE_THIN_BLOCK(double, f64)

/* One chunk of columns, all rows and all k. */
static void thin_task(void *ctx, int64_t task, int worker) {
    const thin *t = ctx;
    _Alignas(GD_ALIGN) char acc[THIN_ROWS * THIN_COLUMNS * sizeof(double)];
    const int64_t esize = gd_dtype_bytes(t->dtype), j = task * t->chunk, n = gemm_min(t->chunk, t->length - j);
    (void)worker;
    for (int64_t k0 = 0; k0 < t->k; k0 += GD_GEMM_KC) {
        const int64_t kb = gemm_min(GD_GEMM_KC, t->k - k0);
        const void *mat = at(t->mat, k0 * t->k_stride + j * t->lane_stride, esize);
        for (int64_t i = 0; i < t->r; i += THIN_ROWS) {
            const int r = (int)gemm_min(THIN_ROWS, t->r - i);
            const void *x = at(t->x, i * t->x_rs + k0 * t->x_cs, esize);
            if (t->dtype == GD_FLOAT32) thin_block_f32(t, k0, kb, i, r, j, n, x, mat, (float *)acc);
            else thin_block_f64(t, k0, kb, i, r, j, n, x, mat, (double *)acc);
        }
    }
}

/* Describes the product if it is a thin one. */
static inline bool as_thin(const gd_gemm_args *g, thin *t) {
    const int64_t lanes = GEMM_NV_BYTES / gd_dtype_bytes(g->dtype) / 2;
    if (g->k < THIN_LEAST_K) return false;
    if (g->n >= lanes && g->m <= THIN_DOT_ROWS && (g->b_cs == 1 ? g->m <= THIN_STREAM_ROWS : g->b_rs == 1)) {
        *t = (thin){.x = g->a, .mat = g->b, .c = g->c, .bias = g->bias, .r = g->m, .length = g->n, .k = g->k, .x_rs = g->a_rs, .x_cs = g->a_cs,
                    .k_stride = g->b_rs, .lane_stride = g->b_cs, .c_rs = g->c_rs, .c_cs = 1, .dtype = g->dtype, .accumulate = g->accumulate};
        return true;
    }
    if (g->m >= lanes && g->n < lanes && (g->a_rs == 1 ? g->k >= 2 * lanes : g->a_cs == 1 && g->n <= THIN_DOT_ROWS)) {
        *t = (thin){.x = g->b, .mat = g->a, .c = g->c, .bias = g->bias, .r = g->n, .length = g->m, .k = g->k, .x_rs = g->b_cs, .x_cs = g->b_rs,
                    .k_stride = g->a_cs, .lane_stride = g->a_rs, .c_rs = 1, .c_cs = g->c_rs, .dtype = g->dtype, .accumulate = g->accumulate,
                    .bias_by_row = true};
        return true;
    }
    return false;
}

static void run_thin(thin *t) {
    t->far = (double)t->length * (double)t->k * (double)gd_dtype_bytes(t->dtype) > THIN_FAR;
    t->chunk = THIN_COLUMNS;
    if ((double)t->r * (double)t->length * (double)t->k > (double)thin_large) {
        const int64_t wanted = THIN_TASKS_PER_WORKER * gd_parallel_width();
        while (t->chunk > THIN_LEAST_COLUMNS && gemm_ceil(t->length, t->chunk) < wanted) t->chunk /= 2;
        gd_parallel(gemm_ceil(t->length, t->chunk), thin_task, t);
        return;
    }
    for (int64_t i = 0; i < gemm_ceil(t->length, t->chunk); i++) thin_task(t, i, 0);
}
