/* thin.h - few rows of A: what is side by side along k in B is transposed in registers and multiplied there, unpacked.
 * Each sum runs over the same pairs in the same order as in a tile. */
#ifndef GRADINO_BF16_THIN_H
#define GRADINO_BF16_THIN_H

#include "pack.h"
#include "tile.h"

enum { THIN_MOST = 4 }; /* rows */

/* A tile of mr rows and nv vectors of columns, lane_stride apart; k elements each, 32 at a time. */
static inline __attribute__((always_inline)) void run_thin(const int mr, const int nv, const tile *t, const uint16_t *b, int64_t lane_stride,
                                                           int64_t k) {
    const uint32_t *a = t->a;
    __m512 acc[TILE_ROWS][2];
    GEMM_UNROLL for (int i = 0; i < mr; i++) {
        GEMM_UNROLL for (int v = 0; v < nv; v++) acc[i][v] = _mm512_setzero_ps();
    }
    for (int64_t q = 0; q < k; q += 32, a += 16 * mr) {
        const int ks = clip(k - q, 32), pairs = (ks + 1) / 2;
        GEMM_UNROLL for (int v = 0; v < nv; v++) {
            __m512 r[16];
            load_transposed_pairs(b + v * LANES * lane_stride + q, lane_stride, v < nv - 1 ? LANES : t->n - v * LANES, ks, r);
            GEMM_UNROLL for (int j = 0; j < 16; j++) {
                if (j < pairs) {
                    GEMM_UNROLL for (int i = 0; i < mr; i++)
                        acc[i][v] = _mm512_dpbf16_ps(acc[i][v], (__m512bh)_mm512_set1_epi32((int)a[j * mr + i]), (__m512bh)_mm512_castps_si512(r[j]));
                }
            }
        }
    }
    finish(mr, nv, acc, t);
}

typedef void thin_fn(const tile *t, const uint16_t *b, int64_t lane_stride, int64_t k);
#define EACH_THIN(X) X(1) X(2) X(3) X(4)
#define DEFINE_THIN(mr)                                                                                                                    \
    static void thin_##mr##x1(const tile *t, const uint16_t *b, int64_t lane_stride, int64_t k) { run_thin(mr, 1, t, b, lane_stride, k); } \
    static void thin_##mr##x2(const tile *t, const uint16_t *b, int64_t lane_stride, int64_t k) { run_thin(mr, 2, t, b, lane_stride, k); }
EACH_THIN(DEFINE_THIN)
#define THINS(mr) {thin_##mr##x1, thin_##mr##x2},
static thin_fn *const thin_fns[THIN_MOST][2] = {EACH_THIN(THINS)}; /* [rows - 1][vectors - 1] */

#endif
