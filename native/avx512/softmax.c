/* softmax.c - softmax, log_softmax and their gradients for AVX-512: the row functions, from which softmax.h
 * makes the kernels, and ways past it for rows that fit one vector and for rows that stand side by side. */
#include "vrows.h"

/* Applies STEP to whole vectors and then to the masked rest of n elements; k is the place. */
#define EACH_VECTOR(W, S, MASK, STEP)                                             \
    int64_t k = 0;                                                                \
    for (; k + W <= n; k += W) {                                                  \
        const MASK mask = (MASK)-1;                                               \
        STEP;                                                                     \
    }                                                                             \
    if (k < n) {                                                                  \
        const MASK mask = GD_LANES_##S(n - k);                                    \
        STEP;                                                                     \
    }

/* One vector of each gradient, and of its sum. */
#define DEFINE_STEPS(name, T, V, W, S, MASK)                                                              \
    GD_VMATH V product_##name(V g, V y) { /* 0 where g is 0 */                                            \
        return _mm512_maskz_mul_##S(_mm512_cmp_##S##_mask(g, _mm512_setzero_##S(), _CMP_NEQ_UQ), g, y);   \
    }                                                                                                     \
    GD_VMATH V softmax_slope_##name(V g, V y, V s) { return _mm512_mul_##S(y, _mm512_sub_##S(g, s)); }    \
    GD_VMATH V log_softmax_slope_##name(V g, V y, V s) { return _mm512_fnmadd_##S(gd_exp_##S##512(y), s, g); } \
    GD_VMATH void row_shift_##name(const T *x, T a, T b, T *y, int64_t n) {                               \
        const V va = _mm512_set1_##S(a), vb = _mm512_set1_##S(b);                                         \
        EACH_VECTOR(W, S, MASK, _mm512_mask_storeu_##S(y + k, mask, _mm512_sub_##S(_mm512_sub_##S(load_##name(x + k, mask), va), vb))) \
    }                                                                                                     \
    GD_VMATH T row_sum_##name(const T *g, int64_t n) {                                                    \
        V sum = _mm512_setzero_##S();                                                                     \
        EACH_VECTOR(W, S, MASK, sum = _mm512_add_##S(sum, load_##name(g + k, mask)))                      \
        return gd_first_##S(gd_sum_##S(sum));                                                             \
    }                                                                                                     \
    GD_VMATH T row_dot_##name(const T *g, const T *y, int64_t n) {                                        \
        V sum = _mm512_setzero_##S();                                                                     \
        EACH_VECTOR(W, S, MASK, sum = _mm512_add_##S(sum, product_##name(load_##name(g + k, mask), load_##name(y + k, mask)))) \
        return gd_first_##S(gd_sum_##S(sum));                                                             \
    }                                                                                                     \
    GD_VMATH bool row_any_##name(const T *g, int64_t n) {                                                 \
        EACH_VECTOR(W, S, MASK, if (_mm512_cmp_##S##_mask(load_##name(g + k, mask), _mm512_setzero_##S(), _CMP_NEQ_UQ)) return true) \
        return false;                                                                                     \
    }                                                                                                     \
    GD_VMATH void row_softmax_bwd_##name(const T *g, const T *y, T s, T *dx, int64_t n) {                 \
        const V vs = _mm512_set1_##S(s);                                                                  \
        EACH_VECTOR(W, S, MASK, _mm512_mask_storeu_##S(dx + k, mask, softmax_slope_##name(load_##name(g + k, mask), load_##name(y + k, mask), vs))) \
    }                                                                                                     \
    GD_VMATH void row_log_softmax_bwd_##name(const T *g, const T *y, T s, T *dx, int64_t n) {             \
        const V vs = _mm512_set1_##S(s);                                                                  \
        EACH_VECTOR(W, S, MASK, _mm512_mask_storeu_##S(dx + k, mask, log_softmax_slope_##name(load_##name(g + k, mask), load_##name(y + k, mask), vs))) \
    }
DEFINE_STEPS(f32, float, __m512, 16, ps, __mmask16)
DEFINE_STEPS(f64, double, __m512d, 8, pd, __mmask8)

#include "../softmax.h"

/* ---- rows that fit one vector ------------------------------------------------------------------------------- */

/* Rows of one kind that are contiguous, `step` elements apart; a walk is one of them if it has no other rows. */
static bool is_short(const gd_walk *w, int64_t width) {
    return w->count <= width && w->kept == 1 && w->red_stride[0] == 1;
}

#define DEFINE_SHORT(name, T, V, W, S, MASK)                                                              \
    GD_VMATH void softmax_short_##name(const T *x, const T *unused, T *y, MASK mask) {                    \
        (void)unused;                                                                                     \
        const V v = load_or_##name(x, mask, -(T)INFINITY);                                                \
        const V e = _mm512_maskz_mov_##S(mask, gd_exp_##S##512(_mm512_sub_##S(v, gd_largest_##S(v))));    \
        _mm512_mask_storeu_##S(y, mask, _mm512_mul_##S(e, _mm512_div_##S(_mm512_set1_##S(1), gd_sum_##S(e)))); \
    }                                                                                                     \
    GD_VMATH void log_softmax_short_##name(const T *x, const T *unused, T *y, MASK mask) {                \
        (void)unused;                                                                                     \
        const V v = load_or_##name(x, mask, -(T)INFINITY), shifted = _mm512_sub_##S(v, gd_largest_##S(v)); \
        const V sum = gd_sum_##S(_mm512_maskz_mov_##S(mask, gd_exp_##S##512(shifted)));                   \
        _mm512_mask_storeu_##S(y, mask, _mm512_sub_##S(shifted, gd_log_##S##512(sum)));                   \
    }                                                                                                     \
    GD_VMATH V zero_unless_any_##name(V g, V dx) {                                                        \
        const MASK any = _mm512_cmp_##S##_mask(g, _mm512_setzero_##S(), _CMP_NEQ_UQ);                     \
        return _mm512_maskz_mov_##S(any ? (MASK)-1 : 0, dx);                                              \
    }                                                                                                     \
    GD_VMATH void softmax_bwd_short_##name(const T *g, const T *y, T *dx, MASK mask) {                    \
        const V vg = load_##name(g, mask), vy = load_##name(y, mask), sum = gd_sum_##S(product_##name(vg, vy)); \
        _mm512_mask_storeu_##S(dx, mask, zero_unless_any_##name(vg, softmax_slope_##name(vg, vy, sum)));  \
    }                                                                                                     \
    GD_VMATH void log_softmax_bwd_short_##name(const T *g, const T *y, T *dx, MASK mask) {                \
        const V vg = load_##name(g, mask), vy = load_##name(y, mask);                                     \
        _mm512_mask_storeu_##S(dx, mask, zero_unless_any_##name(vg, log_softmax_slope_##name(vg, vy, gd_sum_##S(vg)))); \
    }
DEFINE_SHORT(f32, float, __m512, 16, ps, __mmask16)
DEFINE_SHORT(f64, double, __m512d, 8, pd, __mmask8)

/* ---- rows side by side: every lane is a row ------------------------------------------------------------------- */

/* The most rows from `row` on that stand side by side in all of input, output and vector; 0 if none do. */
static int64_t beside(const gd_softmax_run *r, const gd_walk *w, int64_t row, int64_t most) {
    const int64_t inner = w->kept_shape[w->kept - 1], here = inner - row % inner, there = r->out_step - row % r->out_step;
    if (w->kept_stride[w->kept - 1] != 1 || w->count > GD_BLOCK) return 0;
    return here < there ? (here < most ? here : most) : (there < most ? there : most);
}

/* Sums go to the lanes of the rows' order, k mod W, as they do in a row alone. */
#define DEFINE_COLUMNS(name, T, V, W, S, MASK)                                                            \
    typedef struct lanes_##name {                                                                         \
        V of[W];                                                                                          \
    } lanes_##name;                                                                                       \
    GD_VMATH void clear_##name(lanes_##name *a) {                                                         \
        for (int l = 0; l < W; l++) a->of[l] = _mm512_setzero_##S();                                      \
    }                                                                                                     \
    GD_VMATH V total_##name(lanes_##name *a) {                                                            \
        for (int half = W / 2; half; half /= 2)                                                           \
            for (int l = 0; l < half; l++) a->of[l] = _mm512_add_##S(a->of[l], a->of[l + half]);          \
        return a->of[0];                                                                                  \
    }                                                                                                     \
    GD_VMATH V largest_beside_##name(const T *x, int64_t step, int64_t n, MASK mask) {                    \
        V most = _mm512_set1_##S(-(T)INFINITY);                                                           \
        for (int64_t k = 0; k < n; k++) most = gd_larger_##S(most, load_##name(x + k * step, mask));      \
        return most;                                                                                      \
    }                                                                                                     \
    static void softmax_columns_##name(const T *x, int64_t step, const T *unused, int64_t unused_step,    \
                                       T *y, int64_t out_step, int64_t n, MASK mask) {                    \
        (void)unused, (void)unused_step;                                                                  \
        const V most = largest_beside_##name(x, step, n, mask);                                           \
        lanes_##name sums;                                                                                \
        clear_##name(&sums);                                                                              \
        for (int64_t k = 0; k < n; k++) {                                                                 \
            const V e = gd_exp_##S##512(_mm512_sub_##S(load_##name(x + k * step, mask), most));           \
            _mm512_mask_storeu_##S(y + k * out_step, mask, e);                                            \
            sums.of[k % W] = _mm512_add_##S(sums.of[k % W], e);                                           \
        }                                                                                                 \
        const V scale = _mm512_div_##S(_mm512_set1_##S(1), total_##name(&sums));                          \
        for (int64_t k = 0; k < n; k++)                                                                   \
            _mm512_mask_storeu_##S(y + k * out_step, mask, _mm512_mul_##S(load_##name(y + k * out_step, mask), scale)); \
    }                                                                                                     \
    static void log_softmax_columns_##name(const T *x, int64_t step, const T *unused, int64_t unused_step, \
                                           T *y, int64_t out_step, int64_t n, MASK mask) {                \
        (void)unused, (void)unused_step;                                                                  \
        const V most = largest_beside_##name(x, step, n, mask);                                           \
        lanes_##name sums;                                                                                \
        clear_##name(&sums);                                                                              \
        for (int64_t k = 0; k < n; k++)                                                                   \
            sums.of[k % W] = _mm512_add_##S(sums.of[k % W], gd_exp_##S##512(_mm512_sub_##S(load_##name(x + k * step, mask), most))); \
        const V logsum = gd_log_##S##512(total_##name(&sums));                                            \
        for (int64_t k = 0; k < n; k++)                                                                   \
            _mm512_mask_storeu_##S(y + k * out_step, mask, _mm512_sub_##S(_mm512_sub_##S(load_##name(x + k * step, mask), most), logsum)); \
    }                                                                                                     \
    DEFINE_COLUMNS_BWD(softmax_bwd, name, T, V, W, S, MASK, product_##name(vg, vy))                       \
    DEFINE_COLUMNS_BWD(log_softmax_bwd, name, T, V, W, S, MASK, vg)

#define softmax_bwd_slope_f32 softmax_slope_f32
#define softmax_bwd_slope_f64 softmax_slope_f64
#define log_softmax_bwd_slope_f32 log_softmax_slope_f32
#define log_softmax_bwd_slope_f64 log_softmax_slope_f64
#define DEFINE_COLUMNS_BWD(op, name, T, V, W, S, MASK, TERM)                                              \
    static void op##_columns_##name(const T *g, int64_t g_step, const T *y, int64_t y_step,               \
                                    T *dx, int64_t out_step, int64_t n, MASK mask) {                      \
        MASK any = 0;                                                                                     \
        lanes_##name sums;                                                                                \
        clear_##name(&sums);                                                                              \
        for (int64_t k = 0; k < n; k++) {                                                                 \
            const V vg = load_##name(g + k * g_step, mask), vy = load_##name(y + k * y_step, mask);       \
            (void)vy;                                                                                     \
            any |= _mm512_cmp_##S##_mask(vg, _mm512_setzero_##S(), _CMP_NEQ_UQ);                          \
            sums.of[k % W] = _mm512_add_##S(sums.of[k % W], TERM);                                        \
        }                                                                                                 \
        const V sum = total_##name(&sums);                                                                \
        for (int64_t k = 0; k < n; k++) {                                                                 \
            const V vg = load_##name(g + k * g_step, mask), vy = load_##name(y + k * y_step, mask);       \
            _mm512_mask_storeu_##S(dx + k * out_step, mask, _mm512_maskz_mov_##S(any, op##_slope_##name(vg, vy, sum))); \
        }                                                                                                 \
    }
DEFINE_COLUMNS(f32, float, __m512, 16, ps, __mmask16)
DEFINE_COLUMNS(f64, double, __m512d, 8, pd, __mmask8)

/* ---- the three ways ---------------------------------------------------------------------------------------------- */

/* Rows first .. last; BACKWARD: there is a second input. */
#define DEFINE_OP(op, name, T, W, S, MASK, BACKWARD)                                                      \
    static void op##_fast_##name(const gd_softmax_run *r, int64_t first, int64_t last) {                  \
        const gd_walk *a = &r->a, *b = BACKWARD ? &r->b : &r->a;                                          \
        const int64_t n = a->count;                                                                       \
        if (r->out_step == 1 && is_short(a, W) && is_short(b, W)) {                                       \
            const MASK mask = n == W ? (MASK)-1 : GD_LANES_##S(n);                                        \
            for (int64_t row = first; row < last; row++)                                                  \
                op##_short_##name((const T *)a->x + row * a->kept_stride[0], (const T *)b->x + row * b->kept_stride[0], (T *)r->out + row * n, mask); \
            return;                                                                                       \
        }                                                                                                 \
        for (int64_t row = first, cols; row < last; row += cols) {                                        \
            cols = last - row < W ? last - row : W;                                                       \
            if (r->out_step > 1) cols = beside(r, b, row, beside(r, a, row, cols));                       \
            if (r->out_step == 1 || cols == 0) {                                                          \
                op##_##name(r, row);                                                                      \
                cols = 1;                                                                                 \
            } else {                                                                                      \
                op##_columns_##name((const T *)gd_walk_output(a, row), a->red_stride[0], (const T *)gd_walk_output(b, row), b->red_stride[0], \
                                    (T *)gd_softmax_out(r, row), r->out_step, n, cols == W ? (MASK)-1 : GD_LANES_##S(cols)); \
            }                                                                                             \
        }                                                                                                 \
    }
#define DEFINE_KERNEL(op, BACKWARD)                                                                       \
    DEFINE_OP(op, f32, float, 16, ps, __mmask16, BACKWARD)                                                \
    DEFINE_OP(op, f64, double, 8, pd, __mmask8, BACKWARD)                                                 \
    void gd_##op##_avx512(const gd_args *a) { gd_softmax_all(a, op##_fast_f32, op##_fast_f64); }

DEFINE_KERNEL(softmax, false)
DEFINE_KERNEL(log_softmax, false)
DEFINE_KERNEL(softmax_bwd, true)
DEFINE_KERNEL(log_softmax_bwd, true)
