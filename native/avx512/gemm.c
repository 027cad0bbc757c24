/* gemm.c - matrix product with AVX-512; register tiles and packing.
 * 14 x 2 vectors with packed A (28 of 32 registers accumulate), 8 x 2 with A in place (8 pointers
 * still fit the address registers); 256-bit vectors for few columns. Tails are masked. */
#include <immintrin.h>

#include "../gemm_blocks.h"
#include "../kernel.h"

enum { GEMM_MR = 14, GEMM_MR_DIRECT = 8, GEMM_NV_BYTES = 128, GEMM_MASKED = 1, GEMM_THIN_ROWS = 4 };

/* Operands of one register tile; strides in elements; init is added last, NULL for none. */
typedef struct gemm_tile {
    const void *a, *b, *init;
    void *c;
    int64_t k, a_rs, a_cs, b_rs, b_cs, c_rs, init_rs; /* b_cs is 1 but in thin tiles */
    int n;
} gemm_tile;
typedef void tile_fn(const gemm_tile *t);

/* Vector operations: f32 and f64 full width, h32 and h64 half width (256 bits). */
#define DEFINE_VECTOR(T, s, V, bits, type, MASK)                    \
    static inline V load_##s(const T *p, int n) {                   \
        return _mm##bits##_maskz_loadu_##type((MASK)((1u << n) - 1), p); \
    }                                                               \
    static inline V load_b_##s(const T *p, int n) {                 \
        return load_##s(p, n);                                      \
    }                                                               \
    static inline void store_##s(T *p, V v, int n) {                \
        _mm##bits##_mask_storeu_##type(p, (MASK)((1u << n) - 1), v);     \
    }                                                               \
    static inline V set1_##s(T x) {                                 \
        return _mm##bits##_set1_##type(x);                          \
    }                                                               \
    static inline V fma_##s(V a, V b, V c) {                        \
        return _mm##bits##_fmadd_##type(a, b, c);                   \
    }                                                               \
    static inline V add_##s(V a, V b) {                             \
        return _mm##bits##_add_##type(a, b);                        \
    }
DEFINE_VECTOR(float, f32, __m512, 512, ps, __mmask16)
DEFINE_VECTOR(double, f64, __m512d, 512, pd, __mmask8)
DEFINE_VECTOR(float, h32, __m256, 256, ps, __mmask8)
DEFINE_VECTOR(double, h64, __m256d, 256, pd, __mmask8)

#define TILE_T float
#define TILE_V __m512
#define TILE_W 16
#define TILE(name) name##_f32
#include "../portable/gemm_tile.h"
#undef TILE_V
#undef TILE_W
#undef TILE
#define TILE_V __m256
#define TILE_W 8
#define TILE(name) name##_h32
#include "../portable/gemm_tile.h"
#undef TILE_T
#undef TILE_V
#undef TILE_W
#undef TILE
#define TILE_T double
#define TILE_V __m512d
#define TILE_W 8
#define TILE(name) name##_f64
#include "../portable/gemm_tile.h"
#undef TILE_V
#undef TILE_W
#undef TILE
#define TILE_V __m256d
#define TILE_W 4
#define TILE(name) name##_h64
#include "../portable/gemm_tile.h"

#define TILE_FN(s, kind, packed, mr, nv)                       \
    static void kind##_##s##_##mr##x##nv(const gemm_tile *t) { \
        tile_##s(mr, nv, packed, t);                           \
    }
#define DIRECT_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define PACKED_ROWS(X) DIRECT_ROWS(X) X(9) X(10) X(11) X(12) X(13) X(14)

#define DIRECT_FNS(mr)                                                                         \
    TILE_FN(h32, direct, false, mr, 1) TILE_FN(f32, direct, false, mr, 1) TILE_FN(f32, direct, false, mr, 2) \
    TILE_FN(h64, direct, false, mr, 1) TILE_FN(f64, direct, false, mr, 1) TILE_FN(f64, direct, false, mr, 2)
#define PACKED_FNS(mr)                                                                         \
    TILE_FN(f32, packed, true, mr, 1) TILE_FN(f32, packed, true, mr, 2)                        \
    TILE_FN(f64, packed, true, mr, 1) TILE_FN(f64, packed, true, mr, 2)
DIRECT_ROWS(DIRECT_FNS)
PACKED_ROWS(PACKED_FNS)

/* [dtype][rows - 1][width: half a vector, one, two] */
#define DIRECT_F32(mr) {direct_h32_##mr##x1, direct_f32_##mr##x1, direct_f32_##mr##x2},
#define DIRECT_F64(mr) {direct_h64_##mr##x1, direct_f64_##mr##x1, direct_f64_##mr##x2},
#define PACKED_F32(mr) {packed_f32_##mr##x1, packed_f32_##mr##x1, packed_f32_##mr##x2},
#define PACKED_F64(mr) {packed_f64_##mr##x1, packed_f64_##mr##x1, packed_f64_##mr##x2},
static tile_fn *const direct_fns[2][GEMM_MR_DIRECT][3] = {{DIRECT_ROWS(DIRECT_F32)}, {DIRECT_ROWS(DIRECT_F64)}};
static tile_fn *const packed_fns[2][GEMM_MR][3] = {{PACKED_ROWS(PACKED_F32)}, {PACKED_ROWS(PACKED_F64)}};

static inline int width_class(int dtype, int n) {
    int lanes = dtype == GD_FLOAT32 ? 16 : 8;
    return (n > lanes / 2) + (n > lanes);
}

static inline int64_t panel_width(int dtype, int n) {
    return (dtype == GD_FLOAT32 ? 8 : 4) << width_class(dtype, n);
}

static inline tile_fn *pick_tile(int dtype, bool packed, int mr, int n) {
    const int f64 = dtype == GD_FLOAT64, width = width_class(dtype, n);
    return packed ? packed_fns[f64][mr - 1][width] : direct_fns[f64][mr - 1][width];
}

#include "../portable/gemm_pack.h"

/* Lanes side by side in memory: rows of the panel are copied. */
static void pack_rows_f32(const float *src, int64_t k_stride, int64_t lanes, int64_t k, int64_t width, float *dst) {
    __mmask16 in0 = (__mmask16)(lanes >= 16 ? 0xffff : (1u << lanes) - 1), in1 = (__mmask16)(lanes > 16 ? (1u << (lanes - 16)) - 1 : 0);
    __mmask16 out0 = (__mmask16)(width >= 16 ? 0xffff : (1u << width) - 1), out1 = (__mmask16)(width > 16 ? 0xffff : 0);
    for (; k > 0; k--, src += k_stride, dst += width) {
        __m512 v0 = _mm512_maskz_loadu_ps(in0, src);
        if (out1) _mm512_mask_storeu_ps(dst + 16, out1, _mm512_maskz_loadu_ps(in1, src + 16));
        _mm512_mask_storeu_ps(dst, out0, v0);
    }
}

static void pack_rows_f64(const double *src, int64_t k_stride, int64_t lanes, int64_t k, int64_t width, double *dst) {
    __mmask8 in[2], out[2];
    for (int v = 0; v < 2; v++) {
        int64_t l = lanes - 8 * v, w = width - 8 * v;
        in[v] = (__mmask8)(l >= 8 ? 0xff : l > 0 ? (1u << l) - 1 : 0);
        out[v] = (__mmask8)(w >= 8 ? 0xff : w > 0 ? (1u << w) - 1 : 0);
    }
    for (; k > 0; k--, src += k_stride, dst += width) {
        for (int v = 0; v < 2; v++) {
            if (out[v]) _mm512_mask_storeu_pd(dst + 8 * v, out[v], _mm512_maskz_loadu_pd(in[v], src + 8 * v));
        }
    }
}

/* Up to 16 lanes x 4 k, k side by side in memory: r[j] = the lanes' k number j, 0 past lanes or ks.
 * Vector j takes lane 4 q + j into its quarter q, so transposing 4 x 4 within quarters leaves the
 * lanes of one k in order. */
static inline __attribute__((always_inline)) void load_transposed_f32(const float *src, int64_t lane_stride, const int lanes, const int ks,
                                                                      __m512 r[4]) {
    const __mmask8 k_mask = (__mmask8)((1u << ks) - 1);
    GEMM_UNROLL for (int j = 0; j < 4; j++) {
        __m128 part[4];
        GEMM_UNROLL for (int i = 0; i < 4; i++) {
            const float *p = src + (4 * i + j) * lane_stride;
            part[i] = 4 * i + j >= lanes ? _mm_setzero_ps() : ks == 4 ? _mm_loadu_ps(p) : _mm_maskz_loadu_ps(k_mask, p);
        }
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

/* The same for 16 lanes x 16 k. Slower, but reads a lane's cache line once: with lanes a large power
 * of two apart (LANES_COLLIDE elements) lines do not survive until the next 4 k. */
enum { LANES_COLLIDE = 512 };
static inline __attribute__((always_inline)) void load_transposed_16_f32(const float *src, int64_t lane_stride, __m512 r[16]) {
    __m512 s[16];
    GEMM_UNROLL for (int i = 0; i < 16; i += 2) { /* pairs of lanes */
        __m512 even = _mm512_loadu_ps(src + i * lane_stride), odd = _mm512_loadu_ps(src + (i + 1) * lane_stride);
        s[i] = _mm512_unpacklo_ps(even, odd);
        s[i + 1] = _mm512_unpackhi_ps(even, odd);
    }
    GEMM_UNROLL for (int i = 0; i < 16; i += 4) { /* r[i + j]: k = j, j + 4, j + 8, j + 12 of lanes i to i + 3 */
        GEMM_UNROLL for (int j = 0; j < 2; j++) {
            __m512d low = _mm512_castps_pd(s[i + j]), high = _mm512_castps_pd(s[i + j + 2]);
            r[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            r[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    }
    GEMM_UNROLL for (int j = 0; j < 4; j++) { /* 4 x 4 transposes of quarters */
        __m512 a = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x44), b = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xee);
        __m512 c = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x44), d = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xee);
        r[j] = _mm512_shuffle_f32x4(a, c, 0x88);
        r[4 + j] = _mm512_shuffle_f32x4(a, c, 0xdd);
        r[8 + j] = _mm512_shuffle_f32x4(b, d, 0x88);
        r[12 + j] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
}

static inline int clip(int64_t n, int limit) {
    return n > limit ? limit : n < 0 ? 0 : (int)n;
}

/* 16 lanes that collide, by 16 k as far as they go; returns that k. */
static __attribute__((noinline)) int64_t pack_colliding_f32(const float *src, int64_t lane_stride, int64_t k, int64_t width, float *dst) {
    int64_t q = 0;
    for (; q + 16 <= k; q += 16) {
        __m512 r[16];
        load_transposed_16_f32(src + q, lane_stride, r);
        GEMM_UNROLL for (int j = 0; j < 16; j++) _mm512_storeu_ps(dst + (q + j) * width, r[j]);
    }
    return q;
}

/* k side by side in memory: lanes are transposed into the panel. */
static void pack_transposed_f32(const float *src, int64_t lane_stride, int64_t lanes, int64_t k, int64_t width, float *dst) {
    for (int64_t l0 = 0; l0 < width; l0 += 16) {
        const int in = clip(lanes - l0, 16);
        const __mmask16 out = (__mmask16)((1u << clip(width - l0, 16)) - 1);
        const float *base = src + l0 * lane_stride;
        int64_t q = in == 16 && lane_stride % LANES_COLLIDE == 0 ? pack_colliding_f32(base, lane_stride, k, width, dst + l0) : 0;
        for (; q < k; q += 4) {
            const int ks = clip(k - q, 4);
            __m512 r[4];
            if (in == 16 && ks == 4) load_transposed_f32(base + q, lane_stride, 16, 4, r);
            else load_transposed_f32(base + q, lane_stride, in, ks, r);
            GEMM_UNROLL for (int j = 0; j < 4; j++) {
                if (j < ks) _mm512_mask_storeu_ps(dst + (q + j) * width + l0, out, r[j]);
            }
        }
    }
}

/* k of a thin tile that are read for one vector of columns before the next: the cache lines of 16
 * columns are then used up while they are in L1, even with columns a power of two apart. */
enum { THIN_K = 16 };

/* A tile of few rows whose B has k side by side in memory (columns b_cs apart): each element of B is
 * used mr times only, so it goes through registers and is not packed. */
static inline __attribute__((always_inline)) void thin_tile_f32(const int mr, const int nv, const gemm_tile *t) {
    __m512 acc[GEMM_THIN_ROWS][2];
    GEMM_UNROLL for (int i = 0; i < mr; i++) {
        GEMM_UNROLL for (int v = 0; v < nv; v++) acc[i][v] = _mm512_setzero_ps();
    }
    for (int64_t q0 = 0; q0 < t->k; q0 += THIN_K) {
        const int64_t q1 = q0 + clip(t->k - q0, THIN_K);
        GEMM_UNROLL for (int v = 0; v < nv; v++) {
            const int lanes = clip(t->n - 16 * v, 16);
            for (int64_t q = q0; q < q1; q += 4) {
                const int ks = clip(q1 - q, 4);
                const float *a = (const float *)t->a + q * t->a_cs, *b = (const float *)t->b + 16 * v * t->b_cs + q;
                __m512 r[4];
                if (lanes == 16 && ks == 4) load_transposed_f32(b, t->b_cs, 16, 4, r);
                else load_transposed_f32(b, t->b_cs, lanes, ks, r);
                GEMM_UNROLL for (int j = 0; j < 4; j++) {
                    if (j >= ks) break;
                    GEMM_UNROLL for (int i = 0; i < mr; i++) {
                        acc[i][v] = _mm512_fmadd_ps(_mm512_set1_ps(a[i * t->a_rs + j * t->a_cs]), r[j], acc[i][v]);
                    }
                }
            }
        }
    }
    finish_f32(mr, nv, acc, t);
}

#define THIN_FN(mr)                                   \
    static void thin_##mr(const gemm_tile *t) {       \
        if (t->n <= 16) thin_tile_f32(mr, 1, t);      \
        else thin_tile_f32(mr, 2, t);                 \
    }
THIN_FN(1)
THIN_FN(2)
THIN_FN(3)
THIN_FN(4)

static inline tile_fn *pick_thin(int mr) {
    static tile_fn *const fns[GEMM_THIN_ROWS] = {thin_1, thin_2, thin_3, thin_4};
    return fns[mr - 1];
}

/* The same for float64, 8 lanes x 2 k: lane 2 q + j in quarter q of vector j. */
static void pack_transposed_f64(const double *src, int64_t lane_stride, int64_t lanes, int64_t k, int64_t width, double *dst) {
    for (int64_t l0 = 0; l0 < width; l0 += 8) {
        const int in = (int)(lanes - l0 < 8 ? (lanes > l0 ? lanes - l0 : 0) : 8), out = (int)(width - l0 < 8 ? width - l0 : 8);
        const __mmask8 out_mask = (__mmask8)((1u << out) - 1);
        const double *base = src + l0 * lane_stride;
        for (int64_t q = 0; q < k; q += 2) {
            const int step = (int)(k - q < 2 ? k - q : 2);
            const __mmask8 k_mask = (__mmask8)((1u << step) - 1);
            __m512d r[2];
            GEMM_UNROLL for (int j = 0; j < 2; j++) {
                __m128d part[4];
                GEMM_UNROLL for (int i = 0; i < 4; i++) {
                    part[i] = 2 * i + j < in ? _mm_maskz_loadu_pd(k_mask, base + (2 * i + j) * lane_stride + q) : _mm_setzero_pd();
                }
                __m256d low = _mm256_insertf128_pd(_mm256_castpd128_pd256(part[0]), part[1], 1);
                __m256d high = _mm256_insertf128_pd(_mm256_castpd128_pd256(part[2]), part[3], 1);
                r[j] = _mm512_insertf64x4(_mm512_castpd256_pd512(low), high, 1);
            }
            double *d = dst + q * width + l0;
            _mm512_mask_storeu_pd(d, out_mask, _mm512_unpacklo_pd(r[0], r[1]));
            if (step > 1) _mm512_mask_storeu_pd(d + width, out_mask, _mm512_unpackhi_pd(r[0], r[1]));
        }
    }
}

static void pack(int dtype, const void *src, int64_t lane_stride, int64_t k_stride, int64_t lanes, int64_t k, int64_t width, void *dst) {
    const bool f32 = dtype == GD_FLOAT32;
    if (lane_stride == 1) {
        if (f32) pack_rows_f32(src, k_stride, lanes, k, width, dst);
        else pack_rows_f64(src, k_stride, lanes, k, width, dst);
    } else if (k_stride == 1) {
        if (f32) pack_transposed_f32(src, lane_stride, lanes, k, width, dst);
        else pack_transposed_f64(src, lane_stride, lanes, k, width, dst);
    } else {
        (f32 ? pack_f32 : pack_f64)(src, lane_stride, k_stride, lanes, k, width, dst);
    }
}

#include "../portable/gemm_driver.h"
