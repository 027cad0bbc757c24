/* tile.h - the register tile of the bfloat16 product: up to 14 x 2 vectors of float32 sums.
 * Both operands are packed in pairs along k; whole vectors are read, and what is past n is not stored. */
#ifndef GRADINO_BF16_TILE_H
#define GRADINO_BF16_TILE_H

#include <immintrin.h>

#include "../gemm_blocks.h"

enum { TILE_ROWS = 14, TILE_COLUMNS = 32, LANES = 16 };

/* One block of k of a tile. Sums so far come from `sums` (rows TILE_COLUMNS apart), in the first block from init or 0;
 * they go there again, in the last block rounded into c. */
typedef struct tile {
    const uint32_t *a, *b; /* a: pairs x rows, b: pairs x width of the vectors */
    int64_t pairs;
    const uint16_t *init; /* NULL for none; also after the first block */
    uint16_t *c;
    float *sums;
    int64_t init_rs, c_rs;
    int n;
    bool first, last;
} tile;
typedef void tile_fn(const tile *t);

static inline __m512 f32_of_bf16(__m256i h) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* As gd_bf16_of_f32 in half.h. */
static inline __m256i bf16_of_f32(__m512 x) {
    const __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
    const __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), quiet));
}

static inline __attribute__((always_inline)) void finish(const int mr, const int nv, __m512 acc[][2], const tile *t) {
    const __mmask16 tail = (__mmask16)((1u << (t->n - (nv - 1) * LANES)) - 1);
    if (t->init) {
        GEMM_UNROLL for (int i = 0; i < mr; i++) {
            GEMM_UNROLL for (int v = 0; v < nv; v++) {
                const __m256i start = _mm256_maskz_loadu_epi16(v == nv - 1 ? tail : 0xffff, t->init + i * t->init_rs + v * LANES);
                acc[i][v] = _mm512_add_ps(f32_of_bf16(start), acc[i][v]);
            }
        }
    } else if (!t->first) {
        GEMM_UNROLL for (int i = 0; i < mr; i++) {
            GEMM_UNROLL for (int v = 0; v < nv; v++)
                acc[i][v] = _mm512_add_ps(_mm512_loadu_ps(t->sums + i * TILE_COLUMNS + v * LANES), acc[i][v]);
        }
    }
    if (t->last) {
        GEMM_UNROLL for (int i = 0; i < mr; i++) {
            GEMM_UNROLL for (int v = 0; v < nv; v++)
                _mm256_mask_storeu_epi16(t->c + i * t->c_rs + v * LANES, v == nv - 1 ? tail : 0xffff, bf16_of_f32(acc[i][v]));
        }
    } else {
        GEMM_UNROLL for (int i = 0; i < mr; i++) {
            GEMM_UNROLL for (int v = 0; v < nv; v++) _mm512_storeu_ps(t->sums + i * TILE_COLUMNS + v * LANES, acc[i][v]);
        }
    }
}

/* Constants: mr rows, nv vectors. */
static inline __attribute__((always_inline)) void run_tile(const int mr, const int nv, const tile *t) {
    const uint32_t *a = t->a, *b = t->b;
    __m512 acc[TILE_ROWS][2];
    __m512bh vb[2];
    GEMM_UNROLL for (int i = 0; i < mr; i++) {
        GEMM_UNROLL for (int v = 0; v < nv; v++) acc[i][v] = _mm512_setzero_ps();
    }
    for (int64_t p = t->pairs; p > 0; p--, a += mr, b += nv * LANES) {
        GEMM_UNROLL for (int v = 0; v < nv; v++) vb[v] = (__m512bh)_mm512_loadu_si512(b + v * LANES);
        GEMM_UNROLL for (int i = 0; i < mr; i++) {
            const __m512bh va = (__m512bh)_mm512_set1_epi32((int)a[i]);
            GEMM_UNROLL for (int v = 0; v < nv; v++) acc[i][v] = _mm512_dpbf16_ps(acc[i][v], va, vb[v]);
        }
    }
    finish(mr, nv, acc, t);
}

#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define DEFINE_TILES(mr)                                             \
    static void tile_##mr##x1(const tile *t) { run_tile(mr, 1, t); } \
    static void tile_##mr##x2(const tile *t) { run_tile(mr, 2, t); }
EACH_ROWS(DEFINE_TILES)
#define TILES(mr) {tile_##mr##x1, tile_##mr##x2},
static tile_fn *const tile_fns[TILE_ROWS][2] = {EACH_ROWS(TILES)}; /* [rows - 1][vectors - 1] */

#endif
