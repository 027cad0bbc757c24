/* vrows.h - vectors and rows for softmax and the losses in AVX-512: one spelling for float32 and float64,
 * sums and maxima of the lanes, and the row functions that softmax_driver.h asks for. */
#ifndef GRADINO_AVX512_VROWS_H
#define GRADINO_AVX512_VROWS_H

#include "../rows.h"
#include "vmath.h"

/* Lane 0 = all lanes joined by halves: lane l takes lane l + 8, then l + 4, l + 2, l + 1. */
#define GD_TREE_ps(a, join)                                                                            \
    (a = join(a, _mm512_shuffle_f32x4(a, a, 0x4e)), a = join(a, _mm512_shuffle_f32x4(a, a, 0xb1)),     \
     a = join(a, _mm512_permute_ps(a, 0x4e)), a = join(a, _mm512_permute_ps(a, 0xb1)))
#define GD_TREE_pd(a, join)                                                                            \
    (a = join(a, _mm512_shuffle_f64x2(a, a, 0x4e)), a = join(a, _mm512_shuffle_f64x2(a, a, 0xb1)),     \
     a = join(a, _mm512_permute_pd(a, 0x55)))

/* Every lane = the sum or the largest of all; NaN where any lane is NaN. */
GD_VMATH __m512 gd_sum_ps(__m512 a) { return GD_TREE_ps(a, _mm512_add_ps); }
GD_VMATH __m512d gd_sum_pd(__m512d a) { return GD_TREE_pd(a, _mm512_add_pd); }
GD_VMATH __m512 gd_larger_ps(__m512 a, __m512 v) { return _mm512_mask_mov_ps(_mm512_max_ps(v, a), _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), v); }
GD_VMATH __m512d gd_larger_pd(__m512d a, __m512d v) { return _mm512_mask_mov_pd(_mm512_max_pd(v, a), _mm512_cmp_pd_mask(v, v, _CMP_UNORD_Q), v); }
GD_VMATH __m512 gd_largest_ps(__m512 a) { return GD_TREE_ps(a, gd_larger_ps); }
GD_VMATH __m512d gd_largest_pd(__m512d a) { return GD_TREE_pd(a, gd_larger_pd); }

GD_VMATH float gd_first_ps(__m512 a) { return _mm512_cvtss_f32(a); }
GD_VMATH double gd_first_pd(__m512d a) { return _mm512_cvtsd_f64(a); }

/* The first n lanes, n < W. */
#define GD_LANES_ps(n) ((__mmask16)((1u << (n)) - 1))
#define GD_LANES_pd(n) ((__mmask8)((1u << (n)) - 1))

/* Asks for what lies behind the row while it is worked on, mostly the next one: L1, or L2 where L1 is full of this
 * row's data. Reads nothing. */
#define GD_ASK(p) _mm_prefetch((const char *)(uintptr_t)(p), _MM_HINT_T0)
#define GD_ASK_L2(p) _mm_prefetch((const char *)(uintptr_t)(p), _MM_HINT_T1)

/* Applies STEP to whole vectors and then to the masked rest of `count` elements; k is the place. */
#define GD_EACH_VECTOR(W, S, MASK, count, STEP)                                   \
    {                                                                             \
        int64_t k = 0;                                                            \
        for (; k + W <= (count); k += W) {                                        \
            const MASK mask = (MASK)-1;                                           \
            STEP;                                                                 \
        }                                                                         \
        if (k < (count)) {                                                        \
            const MASK mask = GD_LANES_##S((count) - k);                          \
            STEP;                                                                 \
        }                                                                         \
    }

/* y[k..] = VALUE, a vector of the lanes in mask, for `count` elements. stream: whole lines of the output go to
 * memory without being read into the caches first; every task that streams ends with _mm_sfence. */
#define GD_PUT_VECTORS(T, W, S, MASK, y, count, stream, VALUE)                    \
    {                                                                             \
        int64_t k = 0;                                                            \
        if (stream) {                                                             \
            const int64_t ahead = (int64_t)(-(uintptr_t)(y) / sizeof(T) % W);     \
            k = ahead < (count) ? ahead : (count);                                \
            if (k) {                                                              \
                const MASK mask = GD_LANES_##S(k);                                \
                const int64_t end = k;                                            \
                k = 0;                                                            \
                _mm512_mask_storeu_##S((y), mask, VALUE);                         \
                k = end;                                                          \
            }                                                                     \
            for (; k + W <= (count); k += W) {                                    \
                const MASK mask = (MASK)-1;                                       \
                (void)mask;                                                       \
                _mm512_stream_##S((y) + k, VALUE);                                \
            }                                                                     \
        } else {                                                                  \
            for (; k + W <= (count); k += W) {                                    \
                const MASK mask = (MASK)-1;                                       \
                (void)mask;                                                       \
                _mm512_storeu_##S((y) + k, VALUE);                                \
            }                                                                     \
        }                                                                         \
        if (k < (count)) {                                                        \
            const MASK mask = GD_LANES_##S((count) - k);                          \
            _mm512_mask_storeu_##S((y) + k, mask, VALUE);                         \
        }                                                                         \
    }

/* For T in vectors V of W lanes, S ps or pd. Lanes past the end of a row are never loaded or stored; they
 * hold -inf for a maximum and 0 for a sum. */
#define GD_DEFINE_VROWS(name, T, V, W, S, MASK)                                                           \
    GD_VMATH V load_##name(const T *x, MASK mask) { return _mm512_maskz_loadu_##S(mask, x); }             \
    GD_VMATH V load_or_##name(const T *x, MASK mask, T other) { return _mm512_mask_loadu_##S(_mm512_set1_##S(other), mask, x); } \
    /* Without NaNs, which the exponentials keep. */                                                      \
    GD_VMATH T row_max_##name(const T *x, int64_t n) {                                                    \
        V most = _mm512_set1_##S(-(T)INFINITY);                                                           \
        int64_t k = 0;                                                                                    \
        for (; k + W <= n; k += W) most = _mm512_max_##S(_mm512_loadu_##S(x + k), most);                  \
        if (k < n) most = _mm512_max_##S(load_or_##name(x + k, GD_LANES_##S(n - k), -(T)INFINITY), most); \
        return gd_first_##S(GD_TREE_##S(most, _mm512_max_##S));                                           \
    }                                                                                                     \
    GD_VMATH T row_exp_sum_##name(const T *x, T shift, T *e, int64_t n) {                                 \
        const V by = _mm512_set1_##S(shift);                                                              \
        V sum = _mm512_setzero_##S();                                                                     \
        int64_t k = 0;                                                                                    \
        for (; k + W <= n; k += W) {                                                                      \
            GD_ASK(x + k + n);                                                                            \
            const V v = gd_exp_##S##512(_mm512_sub_##S(_mm512_loadu_##S(x + k), by));                     \
            _mm512_storeu_##S(e + k, v);                                                                  \
            sum = _mm512_add_##S(sum, v);                                                                 \
        }                                                                                                 \
        if (k < n) {                                                                                      \
            const MASK tail = GD_LANES_##S(n - k);                                                        \
            const V v = gd_exp_##S##512(_mm512_sub_##S(load_##name(x + k, tail), by));                    \
            _mm512_mask_storeu_##S(e + k, tail, v);                                                       \
            sum = _mm512_mask_add_##S(sum, tail, sum, v);                                                 \
        }                                                                                                 \
        return gd_first_##S(gd_sum_##S(sum));                                                             \
    }                                                                                                     \
    GD_VMATH T row_log_##name(T s) { return gd_first_##S(gd_log_##S##512(_mm512_set1_##S(s))); }          \
    GD_VMATH void row_scale_##name(const T *e, T s, T *y, int64_t n, bool stream) {                       \
        const V by = _mm512_set1_##S(s);                                                                  \
        GD_PUT_VECTORS(T, W, S, MASK, y, n, stream, _mm512_mul_##S(load_##name(e + k, mask), by))         \
    }
GD_DEFINE_VROWS(f32, float, __m512, 16, ps, __mmask16)
GD_DEFINE_VROWS(f64, double, __m512d, 8, pd, __mmask8)

/* 16 elements as doubles, less the pivot; masked lanes are 0. */
GD_VMATH void moments_step_f32(const float *x, __mmask16 mask, __m512d pivot, __m512d s[2], __m512d q[2]) {
    const __m512 v = load_f32(x, mask);
    const __m512d low = _mm512_maskz_sub_pd((__mmask8)mask, _mm512_cvtps_pd(_mm512_castps512_ps256(v)), pivot);
    const __m512d high = _mm512_maskz_sub_pd((__mmask8)(mask >> 8), _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)), pivot);
    s[0] = _mm512_add_pd(s[0], low), s[1] = _mm512_add_pd(s[1], high);
    q[0] = _mm512_fmadd_pd(low, low, q[0]), q[1] = _mm512_fmadd_pd(high, high, q[1]);
}
GD_VMATH void moments_step_f64(const double *x, __mmask16 mask, __m512d pivot, __m512d s[2], __m512d q[2]) {
    const __mmask8 first = (__mmask8)mask, second = (__mmask8)(mask >> 8);
    const __m512d low = _mm512_maskz_sub_pd(first, load_f64(x, first), pivot);
    const __m512d high = _mm512_maskz_sub_pd(second, load_f64(x + 8, second), pivot);
    s[0] = _mm512_add_pd(s[0], low), s[1] = _mm512_add_pd(s[1], high);
    q[0] = _mm512_fmadd_pd(low, low, q[0]), q[1] = _mm512_fmadd_pd(high, high, q[1]);
}

#define GD_DEFINE_VMOMENTS(name, T)                                                            \
    GD_VMATH void row_moments_##name(const T *x, double pivot, int64_t n, double *sum, double *squares) { \
        const __m512d p = _mm512_set1_pd(pivot), zero = _mm512_setzero_pd();                              \
        __m512d s[2] = {zero, zero}, q[2] = {zero, zero};                                                 \
        GD_EACH_VECTOR(16, ps, __mmask16, n, moments_step_##name(x + k, mask, p, s, q))                          \
        *sum += gd_first_pd(gd_sum_pd(_mm512_add_pd(s[0], s[1])));                                        \
        *squares += gd_first_pd(gd_sum_pd(_mm512_add_pd(q[0], q[1])));                                    \
    }
GD_DEFINE_VMOMENTS(f32, float)
GD_DEFINE_VMOMENTS(f64, double)

#endif
