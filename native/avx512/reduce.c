/* reduce.c - sum, mean, amax, amin of floats for AVX-512: the folds; reduce.h walks the input with them. Halves become
 * float32 as they are loaded.
 * Lane l of a vector takes elements l, l + 16, ... of a block; columns keep a vector for each lane. */
#include "../reduce.h"

#include <immintrin.h>

#include "../half.h"
#include "halves.h"

/* Elements: shorter rows are read four at a time. Of longer ones memory would see four streams, which
 * is slower than one, and one hides most of the latency by itself. */
enum { SHORT_ROW = 256 };

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define INLINE static inline __attribute__((always_inline))

/* The first n of a vector's lanes. */
INLINE __mmask16 first_lanes(int64_t n) { return (__mmask16)(n >= 16 ? 0xffff : (1u << n) - 1); }

/* What DEFINE_FOLD needs of a kind of vector: load of the lanes in mask (others 0), swaps of halves, of
 * quarters, ..., and storing lanes as partials. */
INLINE __m512 load_f32(__mmask16 mask, const float *x) { return _mm512_maskz_loadu_ps(mask, x); }
INLINE __m512d load_f64(__mmask16 mask, const double *x) { return _mm512_maskz_loadu_pd((__mmask8)mask, x); }
INLINE __m512d load_f32_as_f64(__mmask16 mask, const float *x) { return _mm512_cvtps_pd(_mm256_maskz_loadu_ps((__mmask8)mask, x)); }
INLINE __m512 load_bf16(__mmask16 mask, const uint16_t *x) { return gd_f32_of_bf16512(_mm256_maskz_loadu_epi16(mask, x)); }
INLINE __m512 load_f16(__mmask16 mask, const uint16_t *x) { return gd_f32_of_f16512(_mm256_maskz_loadu_epi16(mask, x)); }
INLINE __m512d load_bf16_as_f64(__mmask16 mask, const uint16_t *x) { return _mm512_cvtps_pd(_mm512_castps512_ps256(load_bf16(mask & 0xff, x))); }
INLINE __m512d load_f16_as_f64(__mmask16 mask, const uint16_t *x) { return _mm512_cvtps_pd(_mm512_castps512_ps256(load_f16(mask & 0xff, x))); }

/* Few lanes go through a buffer: what a masked store wrote cannot be read back at once. */
INLINE void store_f32(gd_partial *out, int64_t n, __m512 v) {
    gd_partial buffer[16], *to = n == 16 ? out : buffer;
    _mm512_storeu_pd(to, _mm512_cvtps_pd(_mm512_castps512_ps256(v)));
    _mm512_storeu_pd(to + 8, _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)));
    if (n < 16) for (int64_t k = 0; k < n; k++) out[k] = buffer[k];
}
INLINE void store_f64(gd_partial *out, int64_t n, __m512d v) {
    gd_partial buffer[8], *to = n == 8 ? out : buffer;
    _mm512_storeu_pd(to, v);
    if (n < 8) for (int64_t k = 0; k < n; k++) out[k] = buffer[k];
}

/* Steps: accumulator a, element v. max and min give the second operand for a NaN and for equal zeros. */
INLINE __m512 add_f32(__m512 a, __m512 v) { return _mm512_add_ps(a, v); }
INLINE __m512d add_f64(__m512d a, __m512d v) { return _mm512_add_pd(a, v); }
INLINE __m512 max_f32(__m512 a, __m512 v) { return _mm512_mask_mov_ps(_mm512_max_ps(v, a), _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), v); }
INLINE __m512 min_f32(__m512 a, __m512 v) { return _mm512_mask_mov_ps(_mm512_min_ps(v, a), _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), v); }
INLINE __m512d max_f64(__m512d a, __m512d v) { return _mm512_mask_mov_pd(_mm512_max_pd(v, a), _mm512_cmp_pd_mask(v, v, _CMP_UNORD_Q), v); }
INLINE __m512d min_f64(__m512d a, __m512d v) { return _mm512_mask_mov_pd(_mm512_min_pd(v, a), _mm512_cmp_pd_mask(v, v, _CMP_UNORD_Q), v); }

/* Lane 0 = all lanes, folded by halves: lane l takes lane l + 8, then l + 4, l + 2, l + 1. */
#define TREE_f32(a, step)                                              \
    (a = step(a, _mm512_shuffle_f32x4(a, a, 0x4e)), a = step(a, _mm512_shuffle_f32x4(a, a, 0xb1)), \
     a = step(a, _mm512_permute_ps(a, 0x4e)), a = step(a, _mm512_permute_ps(a, 0xb1)), (double)_mm512_cvtss_f32(a))
#define TREE_f64(a, step)                                              \
    (a = step(a, _mm512_shuffle_f64x2(a, a, 0x4e)), a = step(a, _mm512_shuffle_f64x2(a, a, 0xb1)), \
     a = step(a, _mm512_permute_pd(a, 0x55)), _mm512_cvtsd_f64(a))

/* gd_fold.rows for elements T in vectors V of W lanes of KIND, from INIT on. */
#define DEFINE_ROWS(name, T, V, W, KIND, load, INIT, step, SHORT)                                             \
    static void name##_rows(const void *xv, int64_t stride, int64_t rows, int64_t n, gd_partial *out) {       \
        const T *x = xv;                                                                                      \
        const V init = INIT;                                                                                  \
        const int64_t whole = n / W * W;                                                                      \
        const __mmask16 tail = first_lanes(n - whole);                                                        \
        int64_t r = 0;                                                                                        \
        if (n <= 4) for (; r < rows; r++, x += stride) SHORT                                                  \
        for (; n <= SHORT_ROW && r + 4 <= rows; r += 4, x += 4 * stride) { /* hides the latency of a step */  \
            V a[4] = {init, init, init, init};                                                                \
            for (int64_t k = 0; k < whole; k += W)                                                            \
                for (int i = 0; i < 4; i++) a[i] = step(a[i], load(0xffff, x + i * stride + k));              \
            if (tail)                                                                                         \
                for (int i = 0; i < 4; i++) a[i] = MASKED_##KIND(a[i], tail, step(a[i], load(tail, x + i * stride + whole))); \
            for (int i = 0; i < 4; i++) out[r + i].f = TREE_##KIND(a[i], step);                               \
        }                                                                                                     \
        for (; r < rows; r++, x += stride) {                                                                  \
            V a = init;                                                                                       \
            for (int64_t k = 0; k < whole; k += W) a = step(a, load(0xffff, x + k));                          \
            if (tail) a = MASKED_##KIND(a, tail, step(a, load(tail, x + whole)));                             \
            out[r].f = TREE_##KIND(a, step);                                                                  \
        }                                                                                                     \
    }
#define MASKED_f32(a, mask, v) _mm512_mask_mov_ps(a, mask, v)
#define MASKED_f64(a, mask, v) _mm512_mask_mov_pd(a, (__mmask8)(mask), v)

/* gd_fold.columns: strips of COLS columns, a line of memory, each with W lanes of V. */
#define DEFINE_COLUMNS(name, T, V, W, COLS, KIND, load, INIT, step)                                           \
    /* One strip, its lanes in registers, over rows 0 .. n. */                                                \
    INLINE void name##_strip(V a[W], const T *x, const int64_t *offsets, int64_t n, __mmask16 mask) {         \
        int64_t k = 0;                                                                                        \
        for (; k + W <= n; k += W) UNROLL for (int l = 0; l < W; l++) a[l] = step(a[l], load(mask, x + offsets[k + l])); \
        if (k < n) UNROLL for (int l = 0; l < W; l++) if (k + l < n) a[l] = step(a[l], load(mask, x + offsets[k + l])); \
    }                                                                                                         \
    INLINE V name##_join(V a[W]) {                                                                            \
        UNROLL for (int half = W / 2; half; half /= 2) UNROLL for (int l = 0; l < half; l++) a[l] = step(a[l], a[l + half]); \
        return a[0];                                                                                          \
    }                                                                                                         \
    /* A few rows that stay in L2, strip after strip, then the next, which are asked for meanwhile. */        \
    static void name##_columns(const void *xv, const int64_t *offsets, int64_t n, int64_t cols, gd_partial *out) { \
        enum { STRIPS = GD_PANEL / COLS };                                                                    \
        const T *x = xv;                                                                                      \
        const V init = INIT;                                                                                  \
        const int64_t strips = (cols + COLS - 1) / COLS;                                                      \
        V lanes[STRIPS][W];                                                                                   \
        for (int64_t k = 0; k < n; k += GD_PANEL_ROWS) {                                                      \
            const int64_t rows = n - k < GD_PANEL_ROWS ? n - k : GD_PANEL_ROWS, next = k + GD_PANEL_ROWS;     \
            for (int64_t s = 0; s < strips; s++) {                                                            \
                const int64_t width = cols - s * COLS < COLS ? cols - s * COLS : COLS;                        \
                V a[W];                                                                                       \
                UNROLL for (int l = 0; l < W; l++) a[l] = k ? lanes[s][l] : init;                             \
                for (int64_t r = next + s * GD_PANEL_ROWS / strips, end = next + (s + 1) * GD_PANEL_ROWS / strips; strips > 1 && r < end && r < n; r++) \
                    gd_walk_ask(x + offsets[r], cols, sizeof(T));                                             \
                if (width == COLS) name##_strip(a, x + s * COLS, offsets + k, rows, 0xffff);                  \
                else name##_strip(a, x + s * COLS, offsets + k, rows, first_lanes(width));                    \
                if (next >= n) store_##KIND(out + s * COLS, width, name##_join(a));                           \
                else UNROLL for (int l = 0; l < W; l++) lanes[s][l] = a[l];                                   \
            }                                                                                                 \
        }                                                                                                     \
    }
#define DEFINE_FOLD(name, T, V, W, KIND, load, INIT, step, SHORT)    \
    DEFINE_ROWS(name, T, V, W, KIND, load, INIT, step, SHORT)        \
    DEFINE_COLUMNS(name, T, V, W, W, KIND, load, INIT, step)

/* 16 floats as doubles: a line of memory is read once, though it fills two vectors. */
typedef struct pair { __m512d low, high; } pair;
INLINE pair pair_of(__m512 v) { return (pair){_mm512_cvtps_pd(_mm512_castps512_ps256(v)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1))}; }
INLINE pair load_pair(__mmask16 mask, const float *x) { return pair_of(load_f32(mask, x)); }
INLINE pair load_pair_bf16(__mmask16 mask, const uint16_t *x) { return pair_of(load_bf16(mask, x)); }
INLINE pair load_pair_f16(__mmask16 mask, const uint16_t *x) { return pair_of(load_f16(mask, x)); }
INLINE pair add_pair(pair a, pair v) { return (pair){_mm512_add_pd(a.low, v.low), _mm512_add_pd(a.high, v.high)}; }
INLINE void store_pair(gd_partial *out, int64_t n, pair v) {
    store_f64(out, n < 8 ? n : 8, v.low);
    if (n > 8) store_f64(out + 8, n - 8, v.high);
}

#define INF __builtin_inf()
DEFINE_FOLD(sum_f32, float, __m512, 16, f32, load_f32, _mm512_setzero_ps(), add_f32, GD_FOLD_SHORT(float, f, 0, GD_ADD, ))
DEFINE_FOLD(sum_f64, double, __m512d, 8, f64, load_f64, _mm512_setzero_pd(), add_f64, GD_FOLD_SHORT(double, f, 0, GD_ADD, ))
DEFINE_ROWS(sum_f32_f64, float, __m512d, 8, f64, load_f32_as_f64, _mm512_setzero_pd(), add_f64, GD_FOLD_SHORT(double, f, 0, GD_ADD, ))
DEFINE_COLUMNS(sum_f32_f64, float, pair, 8, 16, pair, load_pair, ((pair){_mm512_setzero_pd(), _mm512_setzero_pd()}), add_pair)
DEFINE_FOLD(amax_f32, float, __m512, 16, f32, load_f32, _mm512_set1_ps(-(float)INF), max_f32, break;)
DEFINE_FOLD(amax_f64, double, __m512d, 8, f64, load_f64, _mm512_set1_pd(-INF), max_f64, break;)
DEFINE_FOLD(amin_f32, float, __m512, 16, f32, load_f32, _mm512_set1_ps((float)INF), min_f32, break;)
DEFINE_FOLD(amin_f64, double, __m512d, 8, f64, load_f64, _mm512_set1_pd(INF), min_f64, break;)
#define HALF_FOLDS(half)                                                                                                         \
    DEFINE_FOLD(sum_##half, uint16_t, __m512, 16, f32, load_##half, _mm512_setzero_ps(), add_f32, break;)                        \
    DEFINE_ROWS(mean_##half, uint16_t, __m512d, 8, f64, load_##half##_as_f64, _mm512_setzero_pd(), add_f64, break;)              \
    DEFINE_COLUMNS(mean_##half, uint16_t, pair, 8, 16, pair, load_pair_##half, ((pair){_mm512_setzero_pd(), _mm512_setzero_pd()}), add_pair) \
    DEFINE_FOLD(amax_##half, uint16_t, __m512, 16, f32, load_##half, _mm512_set1_ps(-(float)INF), max_f32, break;)               \
    DEFINE_FOLD(amin_##half, uint16_t, __m512, 16, f32, load_##half, _mm512_set1_ps((float)INF), min_f32, break;)                \
    GD_DEFINE_FINISH(half, uint16_t, gd_##half##_of_f32((float)p[k].f))                                                          \
    GD_DEFINE_FINISH(mean_##half, uint16_t, gd_##half##_of_f32((float)(p[k].f / (double)count)))
HALF_FOLDS(bf16)
HALF_FOLDS(f16)

GD_DEFINE_JOIN(add, double, f, GD_ADD)
GD_DEFINE_JOIN(max, double, f, GD_MAX)
GD_DEFINE_JOIN(min, double, f, GD_MIN)
GD_DEFINE_FINISH(f32, float, p[k].f)
GD_DEFINE_FINISH(f64, double, p[k].f)
GD_DEFINE_FINISH(mean_f32, float, p[k].f / (double)count)
GD_DEFINE_FINISH(mean_f64, double, p[k].f / (double)count)

#define DEFINE_KERNEL(op, fold_f32, fold_f64, joiner, finish, nothing)                                        \
    void gd_##op##_avx512(const gd_args *a) {                                                                 \
        static const gd_fold folds[GD_DTYPES] = {                                                             \
            [GD_FLOAT32] = {4, fold_f32##_rows, fold_f32##_columns, join_##joiner, finish##f32, {.f = nothing}}, \
            [GD_FLOAT64] = {8, fold_f64##_rows, fold_f64##_columns, join_##joiner, finish##f64, {.f = nothing}}, \
            [GD_BFLOAT16] = {2, op##_bf16_rows, op##_bf16_columns, join_##joiner, finish##bf16, {.f = nothing}}, \
            [GD_FLOAT16] = {2, op##_f16_rows, op##_f16_columns, join_##joiner, finish##f16, {.f = nothing}},  \
        };                                                                                                    \
        const gd_view *x = a->in[0];                                                                          \
        if (!folds[x->dtype].rows) gd_##op##_avx2(a);                                                         \
        else gd_fold_all(&folds[x->dtype], x, a->attr->i[0], a->out[0]->data);                                \
    }
DEFINE_KERNEL(sum, sum_f32, sum_f64, add, finish_, 0)
DEFINE_KERNEL(mean, sum_f32_f64, sum_f64, add, finish_mean_, 0)
DEFINE_KERNEL(amax, amax_f32, amax_f64, max, finish_, -INF)
DEFINE_KERNEL(amin, amin_f32, amin_f64, min, finish_, INF)
