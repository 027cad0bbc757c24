/* gemm_pack.h - packing panels for the matrix product with AVX-512, and the transposes in registers
 * that it shares with thin products. Lanes of padding hold copies of the last real one. */
#include "../portable/gemm_pack.h"

static inline int clip(int64_t n, int limit) {
    return n > limit ? limit : n < 0 ? 0 : (int)n;
}

/* Lanes side by side in memory: rows of `panels` full panels, one panel after another. */
#define DEFINE_PACK_ROWS(T, s, LANES)                                                                                    \
    static inline void pack_rows_##s(const T *src, int64_t k_stride, int64_t panels, int64_t k, int64_t width, T *dst) {        \
        const int n0 = clip(width, LANES), n1 = clip(width - LANES, LANES);                                              \
        const int64_t panel = k * width;                                                                                 \
        for (; k > 0; k--, src += k_stride, dst += width) {                                                              \
            const T *from = src;                                                                                         \
            T *to = dst;                                                                                                 \
            for (int64_t p = 0; p < panels; p++, from += width, to += panel) {                                           \
                store_##s(to, load_##s(from, n0), n0);                                                                   \
                if (n1 > 0) store_##s(to + LANES, load_##s(from + LANES, n1), n1);                                       \
            }                                                                                                            \
        }                                                                                                                \
    }
DEFINE_PACK_ROWS(float, f32, 16)
DEFINE_PACK_ROWS(double, f64, 8)

#define TRANSPOSE load_transposed_f32
#define TRANSPOSE_T float
#define TRANSPOSE_LOAD load_f32
#include "transpose.h"

/* The same for 8 lanes x 8 k. */
static inline __attribute__((always_inline)) void load_transposed_f64(const double *src, int64_t lane_stride, const int lanes,
                                                                      const int ks, __m512d r[8]) {
    __m512d s[8];
    GEMM_UNROLL for (int i = 0; i < 8; i += 2) { /* s[i + j]: k = j, j + 2, j + 4, j + 6 of lanes i and i + 1 */
        __m512d even = load_f64(src + (i < lanes ? i : lanes - 1) * lane_stride, ks);
        __m512d odd = load_f64(src + (i + 1 < lanes ? i + 1 : lanes - 1) * lane_stride, ks);
        s[i] = _mm512_unpacklo_pd(even, odd);
        s[i + 1] = _mm512_unpackhi_pd(even, odd);
    }
    GEMM_UNROLL for (int j = 0; j < 2; j++) { /* 4 x 4 transposes of quarters */
        __m512d a = _mm512_shuffle_f64x2(s[j], s[2 + j], 0x44), b = _mm512_shuffle_f64x2(s[j], s[2 + j], 0xee);
        __m512d c = _mm512_shuffle_f64x2(s[4 + j], s[6 + j], 0x44), d = _mm512_shuffle_f64x2(s[4 + j], s[6 + j], 0xee);
        r[j] = _mm512_shuffle_f64x2(a, c, 0x88);
        r[2 + j] = _mm512_shuffle_f64x2(a, c, 0xdd);
        r[4 + j] = _mm512_shuffle_f64x2(b, d, 0x88);
        r[6 + j] = _mm512_shuffle_f64x2(b, d, 0xdd);
    }
}

/* Up to 16 lanes x 4 k, for the rest of k: fewer shuffles where 16 k are not there. */
static inline __attribute__((always_inline)) void load_transposed_4_f32(const float *src, int64_t lane_stride, const int lanes,
                                                                        __mmask8 ks, __m512 r[4]) {
    GEMM_UNROLL for (int j = 0; j < 4; j++) { /* vector j takes lane 4 q + j into its quarter q */
        __m128 part[4];
        GEMM_UNROLL for (int i = 0; i < 4; i++)
            part[i] = 4 * i + j < lanes ? _mm_maskz_loadu_ps(ks, src + (4 * i + j) * lane_stride) : _mm_setzero_ps();
        __m256 low = _mm256_insertf128_ps(_mm256_castps128_ps256(part[0]), part[1], 1);
        __m256 high = _mm256_insertf128_ps(_mm256_castps128_ps256(part[2]), part[3], 1);
        r[j] = _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
    }
    __m512d t0 = _mm512_castps_pd(_mm512_unpacklo_ps(r[0], r[1])), t1 = _mm512_castps_pd(_mm512_unpackhi_ps(r[0], r[1]));
    __m512d t2 = _mm512_castps_pd(_mm512_unpacklo_ps(r[2], r[3])), t3 = _mm512_castps_pd(_mm512_unpackhi_ps(r[2], r[3]));
    r[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(t0, t2));
    r[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(t0, t2));
    r[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(t1, t3));
    r[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(t1, t3));
}

/* k side by side in memory: lanes are transposed into the panel, `in` real ones of `out` at a time. */
static inline __attribute__((always_inline)) void pack_lanes_f32(const float *src, int64_t lane_stride, const int in, const int out, int64_t k,
                                                                 int64_t width, float *dst) {
    int64_t q = 0;
    for (; q + 16 <= k; q += 16) {
        __m512 r[16];
        load_transposed_f32(src + q, lane_stride, in, 16, r);
        GEMM_UNROLL for (int j = 0; j < 16; j++) store_f32(dst + (q + j) * width, r[j], out);
    }
    for (; q < k; q += 4) {
        const int ks = clip(k - q, 4);
        __m512 r[4];
        load_transposed_4_f32(src + q, lane_stride, in, (__mmask8)((1u << ks) - 1), r);
        GEMM_UNROLL for (int j = 0; j < 4; j++) {
            if (j < ks) store_f32(dst + (q + j) * width, r[j], out);
        }
    }
}

static inline __attribute__((always_inline)) void pack_lanes_f64(const double *src, int64_t lane_stride, const int in, const int out, int64_t k,
                                                                 int64_t width, double *dst) {
    for (int64_t q = 0; q < k; q += 8) {
        const int ks = clip(k - q, 8);
        __m512d r[8];
        load_transposed_f64(src + q, lane_stride, in, ks, r);
        GEMM_UNROLL for (int j = 0; j < 8; j++) {
            if (j < ks) store_f64(dst + (q + j) * width, r[j], out);
        }
    }
}

/* With the usual numbers of lanes as constants. */
#define DEFINE_PACK_TRANSPOSED(T, s, LANES, REST)                                                                                 \
    static inline void pack_transposed_##s(const T *src, int64_t lane_stride, int64_t lanes, int64_t k, int64_t width, T *dst) {         \
        for (int64_t l = 0; l < width && l < lanes; l += LANES) {                                                                 \
            const int in = clip(lanes - l, LANES), out = clip(width - l, LANES);                                                  \
            if (in == LANES) pack_lanes_##s(src + l * lane_stride, lane_stride, LANES, LANES, k, width, dst + l);                 \
            else if (in == REST && out == REST) pack_lanes_##s(src + l * lane_stride, lane_stride, REST, REST, k, width, dst + l); \
            else pack_lanes_##s(src + l * lane_stride, lane_stride, in, out, k, width, dst + l);                                  \
        }                                                                                                                         \
    }
DEFINE_PACK_TRANSPOSED(float, f32, 16, GEMM_MR)
DEFINE_PACK_TRANSPOSED(double, f64, 8, GEMM_MR - 8)
