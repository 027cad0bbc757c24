/* pack.h - packing panels of bfloat16 pairs: dst[pair][width] = elements 2 pair and 2 pair + 1 of each lane.
 * An odd k ends with a 0; lanes past the last real one hold copies of it, or 0. */
#ifndef GRADINO_BF16_PACK_H
#define GRADINO_BF16_PACK_H

#include <immintrin.h>

#include "../gemm_blocks.h"

static inline int clip(int64_t n, int limit) {
    return n > limit ? limit : n < 0 ? 0 : (int)n;
}

static inline __mmask16 first(int64_t n) {
    return (__mmask16)((1u << clip(n, 16)) - 1);
}

/* The first ks elements at p. */
static inline __m512 load_pairs(const uint16_t *p, int ks) {
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16((__mmask32)((1ull << ks) - 1), p));
}
#define TRANSPOSE load_transposed_pairs
#define TRANSPOSE_T uint16_t
#define TRANSPOSE_LOAD load_pairs
#include "../avx512/transpose.h"

/* k side by side in memory: `in` lanes, at most 16, are transposed into `out` columns of the panel. */
static inline __attribute__((always_inline)) void pack_lanes(const uint16_t *src, int64_t lane_stride, const int in, const int out, int64_t k,
                                                             int64_t width, uint32_t *dst) {
    for (int64_t q = 0; q < k; q += 32, dst += 16 * width) {
        const int ks = clip(k - q, 32), pairs = (ks + 1) / 2;
        __m512 r[16];
        load_transposed_pairs(src + q, lane_stride, in, ks, r);
        GEMM_UNROLL for (int j = 0; j < 16; j++) {
            if (j < pairs) _mm512_mask_storeu_ps(dst + j * width, first(out), r[j]);
        }
    }
}

static void pack_transposed(const uint16_t *src, int64_t lane_stride, int64_t lanes, int64_t k, int64_t width, uint32_t *dst) {
    for (int64_t l = 0; l < width && l < lanes; l += 16) {
        const int in = clip(lanes - l, 16), out = clip(width - l, 16);
        if (in == 16) pack_lanes(src + l * lane_stride, lane_stride, 16, 16, k, width, dst + l);
        else if (in == 14 && out == 14) pack_lanes(src + l * lane_stride, lane_stride, 14, 14, k, width, dst + l);
        else pack_lanes(src + l * lane_stride, lane_stride, in, out, k, width, dst + l);
    }
}

/* Lanes side by side in memory: two rows of k become one of pairs. */
static void pack_side_by_side(const uint16_t *src, int64_t k_stride, int64_t lanes, int64_t k, int64_t width, uint32_t *dst) {
    for (int64_t q = 0; q < k; q += 2, src += 2 * k_stride, dst += width) {
        for (int64_t l = 0; l < width; l += 16) {
            const __mmask16 real = first(lanes - l);
            const __m256i low = _mm256_maskz_loadu_epi16(real, src + l);
            const __m256i high = q + 1 < k ? _mm256_maskz_loadu_epi16(real, src + k_stride + l) : _mm256_setzero_si256();
            const __m512i pairs = _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
            _mm512_mask_storeu_epi32(dst + l, first(width - l), pairs);
        }
    }
}

static void pack_scattered(const uint16_t *src, int64_t lane_stride, int64_t k_stride, int64_t lanes, int64_t k, int64_t width, uint32_t *dst) {
    for (int64_t q = 0; q < k; q += 2, dst += width) {
        for (int64_t l = 0; l < width; l++) {
            const uint16_t *at = src + l * lane_stride + q * k_stride;
            dst[l] = l >= lanes ? 0 : at[0] | (q + 1 < k ? (uint32_t)at[k_stride] << 16 : 0u);
        }
    }
}

static void pack(const uint16_t *src, int64_t lane_stride, int64_t k_stride, int64_t lanes, int64_t k, int64_t width, uint32_t *dst) {
    if (k_stride == 1) pack_transposed(src, lane_stride, lanes, k, width, dst);
    else if (lane_stride == 1) pack_side_by_side(src, k_stride, lanes, k, width, dst);
    else pack_scattered(src, lane_stride, k_stride, lanes, k, width, dst);
}

#endif
