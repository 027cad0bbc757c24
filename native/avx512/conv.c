/* conv.c - convolutions and their gradients with AVX-512: register tiles.
 * 14 results x 2 vectors of points; a vector also takes 2 or 4 rows of small pictures. Tails are masked. */
#include <string.h>

#include "../conv.h"
#include "../gemm_blocks.h"
#include "../kernel.h"
#include "../thread.h"

enum { GEMM_MR = 14, CONV_MR = 14, CONV_SUM_MR = 9, CONV_NARROW = 4, CONV_MOST_UNITS = 4, CONV_MASKED = 1 };

#include "../portable/conv_copy.h"
#include "../portable/conv_operands.h"
#include "gemm_vector.h"

#include "gemm_pack.h"

typedef __mmask16 mask_t_f32;
typedef __mmask8 mask_t_f64;

static inline int lanes_f32(void) { return 16; }
static inline int lanes_f64(void) { return 8; }
static inline int best_fold_f32(int64_t columns) { return columns <= 4 ? 4 : columns <= 8 ? 2 : 1; }
static inline int best_fold_f64(int64_t columns) { return columns <= 4 ? 2 : 1; }

/* Bits of n points in each of the first `rows` of `fold` rows. */
static inline __attribute__((always_inline)) __mmask16 mask_f32(int n, int rows, const int fold) {
    unsigned bits = 0;
    for (int r = 0; r < fold; r++)
        if (r < rows) bits |= ((1u << n) - 1) << (r * (16 / fold));
    return (__mmask16)bits;
}
static inline __attribute__((always_inline)) __mmask8 mask_f64(int n, int rows, const int fold) {
    unsigned bits = 0;
    for (int r = 0; r < fold; r++)
        if (r < rows) bits |= ((1u << n) - 1) << (r * (8 / fold));
    return (__mmask8)bits;
}

static inline __attribute__((always_inline)) __m512 gather_f32(const float *p, int64_t step, __mmask16 m, const int fold) {
    if (fold == 1) return _mm512_maskz_loadu_ps(m, p);
    if (fold == 2) {
        const __m256 low = _mm256_maskz_loadu_ps((__mmask8)m, p), high = _mm256_maskz_loadu_ps((__mmask8)(m >> 8), p + step);
        return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
    }
    const __m128 a = _mm_maskz_loadu_ps((__mmask8)m, p), b = _mm_maskz_loadu_ps((__mmask8)(m >> 4), p + step);
    const __m128 c = _mm_maskz_loadu_ps((__mmask8)(m >> 8), p + 2 * step), d = _mm_maskz_loadu_ps((__mmask8)(m >> 12), p + 3 * step);
    const __m256 low = _mm256_insertf128_ps(_mm256_castps128_ps256(a), b, 1), high = _mm256_insertf128_ps(_mm256_castps128_ps256(c), d, 1);
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}
static inline __attribute__((always_inline)) void scatter_f32(float *p, int64_t step, __m512 v, __mmask16 m, const int fold) {
    if (fold == 1) {
        _mm512_mask_storeu_ps(p, m, v);
    } else if (fold == 2) {
        _mm256_mask_storeu_ps(p, (__mmask8)m, _mm512_castps512_ps256(v));
        _mm256_mask_storeu_ps(p + step, (__mmask8)(m >> 8), _mm512_extractf32x8_ps(v, 1));
    } else {
        _mm_mask_storeu_ps(p, (__mmask8)m, _mm512_castps512_ps128(v));
        _mm_mask_storeu_ps(p + step, (__mmask8)(m >> 4), _mm512_extractf32x4_ps(v, 1));
        _mm_mask_storeu_ps(p + 2 * step, (__mmask8)(m >> 8), _mm512_extractf32x4_ps(v, 2));
        _mm_mask_storeu_ps(p + 3 * step, (__mmask8)(m >> 12), _mm512_extractf32x4_ps(v, 3));
    }
}

static inline __attribute__((always_inline)) __m512d gather_f64(const double *p, int64_t step, __mmask8 m, const int fold) {
    if (fold == 1) return _mm512_maskz_loadu_pd(m, p);
    const __m256d low = _mm256_maskz_loadu_pd(m, p), high = _mm256_maskz_loadu_pd((__mmask8)(m >> 4), p + step);
    return _mm512_insertf64x4(_mm512_castpd256_pd512(low), high, 1);
}
static inline __attribute__((always_inline)) void scatter_f64(double *p, int64_t step, __m512d v, __mmask8 m, const int fold) {
    if (fold == 1) {
        _mm512_mask_storeu_pd(p, m, v);
    } else {
        _mm256_mask_storeu_pd(p, m, _mm512_castpd512_pd256(v));
        _mm256_mask_storeu_pd(p + step, (__mmask8)(m >> 4), _mm512_extractf64x4_pd(v, 1));
    }
}

#define gather_own_f32 gather_f32
#define gather_own_f64 gather_f64

/* Bits [from, end) of a vector whose lane 0 is column j. */
static inline uint32_t real_bits(int64_t from, int64_t end, int64_t j, int lanes) {
    return ((1u << clip(end - j, lanes)) - 1) & ~((1u << clip(from - j, lanes)) - 1);
}

/* Column by column of vectors; of a step of 2, every second number of two vectors. */
DEFINE_COPY_ROWS(float, copy_any_f32)
static void copy_source_f32(const float *src, int64_t s_row, int64_t s_column, int64_t rows, int64_t from, int64_t end, int64_t columns, float *to, int64_t to_row) {
    if (s_column != 1 && s_column != 2) {
        copy_any_f32(src, s_row, s_column, rows, from, end, columns, to, to_row);
        return;
    }
    for (int64_t j = 0; j < columns; j += 16) {
        const __mmask16 written = (__mmask16)real_bits(0, columns, j, 16);
        const float *s = src + j * s_column;
        float *t = to + j;
        if (s_column == 1) {
            const __mmask16 real = (__mmask16)real_bits(from, end, j, 16);
            for (int64_t r = 0; r < rows; r++, s += s_row, t += to_row) _mm512_mask_storeu_ps(t, written, _mm512_maskz_loadu_ps(real, s));
            continue;
        }
        const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
        const int64_t last = end > from ? 2 * end - 1 : 2 * from; /* not past the last real number */
        const __mmask16 low = (__mmask16)real_bits(2 * from, last, 2 * j, 16), high = (__mmask16)real_bits(2 * from, last, 2 * j + 16, 16);
        for (int64_t r = 0; r < rows; r++, s += s_row, t += to_row) {
            const __m512 a = _mm512_maskz_loadu_ps(low, s), b = _mm512_maskz_loadu_ps(high, s + 16);
            _mm512_mask_storeu_ps(t, written, _mm512_permutex2var_ps(a, even, b));
        }
    }
}
DEFINE_COPY_ROWS(double, copy_source_f64)

#define DEFINE_PACK_LANES(T, s)                                                                                                    \
    static inline void pack_lanes_of_##s(const T *src, int64_t lane_stride, int64_t k_stride, int64_t lanes, int64_t k, int64_t width, T *dst) { \
        if (k_stride == 1 && lane_stride != 1) pack_transposed_##s(src, lane_stride, lanes, k, width, dst);                        \
        else pack_##s(src, lane_stride, k_stride, lanes, k, width, dst);                                                           \
    }
DEFINE_PACK_LANES(float, f32)
DEFINE_PACK_LANES(double, f64)

#define TILE_T float
#define TILE_V __m512
#define TILE_W 16
#define TILE(name) name##_f32
#include "../portable/conv_tile.h"
#undef TILE_T
#undef TILE_V
#undef TILE_W
#undef TILE
#define TILE_T double
#define TILE_V __m512d
#define TILE_W 8
#define TILE(name) name##_f64
#include "../portable/conv_tile.h"
#undef TILE_T
#undef TILE_V
#undef TILE_W
#undef TILE

#define SUM_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define PRODUCT_ROWS(X) SUM_ROWS(X) X(10) X(11) X(12) X(13) X(14)
#define PRODUCT_FN(s, mr, fold) \
    static void product_##s##_##mr##_##fold(const conv_tile *t) { product_##s(mr, mr <= CONV_NARROW ? CONV_MOST_UNITS : 2, fold, t); }
#define PRODUCT_FNS(mr) PRODUCT_FN(f32, mr, 1) PRODUCT_FN(f32, mr, 2) PRODUCT_FN(f32, mr, 4) PRODUCT_FN(f64, mr, 1) PRODUCT_FN(f64, mr, 2)
#define SUM_FNS_OF(s, mr)                                                       \
    static void sums_##s##_##mr##x1(const conv_sums *t) { sums_##s(mr, 1, t); } \
    static void sums_##s##_##mr##x2(const conv_sums *t) { sums_##s(mr, 2, t); } \
    static void dots_##s##_##mr(const conv_sums *t) { dots_##s(mr, t); }
#define SUM_FNS(mr) SUM_FNS_OF(f32, mr) SUM_FNS_OF(f64, mr)
PRODUCT_ROWS(PRODUCT_FNS)
SUM_ROWS(SUM_FNS)

#define P1_F32(mr) product_f32_##mr##_1,
#define P2_F32(mr) product_f32_##mr##_2,
#define P4_F32(mr) product_f32_##mr##_4,
#define P1_F64(mr) product_f64_##mr##_1,
#define P2_F64(mr) product_f64_##mr##_2,
static inline conv_fn *pick_product_f32(int mr, int fold) {
    static conv_fn *const fn[3][CONV_MR] = {{PRODUCT_ROWS(P1_F32)}, {PRODUCT_ROWS(P2_F32)}, {PRODUCT_ROWS(P4_F32)}};
    return fn[fold >> 1][mr - 1];
}
static inline conv_fn *pick_product_f64(int mr, int fold) {
    static conv_fn *const fn[2][CONV_MR] = {{PRODUCT_ROWS(P1_F64)}, {PRODUCT_ROWS(P2_F64)}};
    return fn[fold >> 1][mr - 1];
}

#define S_F32(mr) {sums_f32_##mr##x1, sums_f32_##mr##x2},
#define D_F32(mr) dots_f32_##mr,
#define S_F64(mr) {sums_f64_##mr##x1, sums_f64_##mr##x2},
#define D_F64(mr) dots_f64_##mr,
#define PICK_SUMS(s, S, D)                                    \
    static inline sums_fn *pick_sums_##s(int mr, int nv) {    \
        static sums_fn *const fn[][2] = {SUM_ROWS(S)};        \
        return fn[mr - 1][nv - 1];                            \
    }                                                         \
    static inline sums_fn *pick_dots_##s(int mr) {            \
        static sums_fn *const fn[] = {SUM_ROWS(D)};           \
        return fn[mr - 1];                                    \
    }
PICK_SUMS(f32, S_F32, D_F32)
PICK_SUMS(f64, S_F64, D_F64)

#include "../portable/conv_driver.h"
