/* attention.c - scaled dot product attention with AVX-512: the softmax of vectors of queries; attention_blocks.h makes
 * kernels of it. */
#include "../portable/attention_job.h"

#include "vmath.h"

/* Largest score so far; exp of what is below it; the sum. A query that sees no key yet keeps -inf, and all are 0. */
#define DEFINE_STEPS(name, T, V, W, p)                                                                                         \
    static bool softmax_step_##name(T *scores, int64_t keys, int64_t lanes, T by, T *largest, T *sum, T *correction) {         \
        const V nothing = _mm512_set1_##p(-(T)INFINITY), one = _mm512_set1_##p(1), scale = _mm512_set1_##p(by);                \
        unsigned moved = 0;                                                                                                    \
        for (int64_t r = 0; r < lanes; r += W) {                                                                               \
            V top = nothing, other = nothing;                                                                                  \
            T *x = scores + r;                                                                                                 \
            int64_t s = 0;                                                                                                     \
            for (; s + 2 <= keys; s += 2) {                                                                                    \
                top = _mm512_max_##p(_mm512_loadu_##p(x + s * GD_ATT_ROWS), top);                                              \
                other = _mm512_max_##p(_mm512_loadu_##p(x + (s + 1) * GD_ATT_ROWS), other);                                    \
            }                                                                                                                  \
            if (s < keys) top = _mm512_max_##p(_mm512_loadu_##p(x + s * GD_ATT_ROWS), top);                                    \
            const V before = _mm512_loadu_##p(largest + r), next = _mm512_max_##p(_mm512_mul_##p(_mm512_max_##p(top, other), scale), before); \
            const V from = _mm512_mask_mov_##p(next, _mm512_cmp_##p##_mask(next, nothing, _CMP_EQ_OQ), _mm512_setzero_##p());  \
            const V factor = gd_exp_##p##512(_mm512_sub_##p(before, from));                                                    \
            V part = _mm512_setzero_##p();                                                                                     \
            moved |= (unsigned)_mm512_cmp_##p##_mask(factor, one, _CMP_NEQ_UQ);                                                \
            for (s = 0; s < keys; s++) {                                                                                       \
                const V e = gd_exp_##p##512(_mm512_fmsub_##p(_mm512_loadu_##p(x + s * GD_ATT_ROWS), scale, from));             \
                _mm512_storeu_##p(x + s * GD_ATT_ROWS, e);                                                                     \
                part = _mm512_add_##p(part, e);                                                                                \
            }                                                                                                                  \
            _mm512_storeu_##p(largest + r, next);                                                                              \
            _mm512_storeu_##p(correction + r, factor);                                                                         \
            _mm512_storeu_##p(sum + r, _mm512_fmadd_##p(_mm512_loadu_##p(sum + r), factor, part));                             \
        }                                                                                                                      \
        return moved != 0;                                                                                                     \
    }                                                                                                                          \
    static void slopes_##name(T *scores, T *slopes, int64_t keys, int64_t lanes, T times, const T *lse, const T *delta, T by) { \
        const V scale = _mm512_set1_##p(times), factor = _mm512_set1_##p(by);                                                  \
        for (int64_t r = 0; r < lanes; r += W) {                                                                               \
            const V from = _mm512_loadu_##p(lse + r), mean = _mm512_loadu_##p(delta + r);                                      \
            for (int64_t s = 0; s < keys; s++) {                                                                               \
                T *x = scores + s * GD_ATT_ROWS + r, *y = slopes + s * GD_ATT_ROWS + r;                                        \
                const V e = gd_exp_##p##512(_mm512_fmsub_##p(_mm512_loadu_##p(x), scale, from));                               \
                const V d = _mm512_mul_##p(_mm512_mul_##p(e, _mm512_sub_##p(_mm512_loadu_##p(y), mean)), factor);              \
                _mm512_storeu_##p(x, e);                                                                                       \
                _mm512_storeu_##p(y, _mm512_maskz_mov_##p(_mm512_cmp_##p##_mask(e, _mm512_setzero_##p(), _CMP_NEQ_UQ), d));    \
            }                                                                                                                  \
        }                                                                                                                      \
    }                                                                                                                          \
    static inline T log_##name(T x) { return gd_log_##name(x); }
DEFINE_STEPS(f32, float, __m512, 16, ps)
DEFINE_STEPS(f64, double, __m512d, 8, pd)

#include "../portable/attention_driver.h"
