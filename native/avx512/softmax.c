/* softmax.c - softmax, log_softmax and their gradients for AVX-512: the functions from which softmax_driver.h
 * makes the kernels, and a way past it for rows that fit one vector. */
#include "../softmax.h"
#include "vrows.h"

/* One vector of each gradient, and of its sum. */
#define DEFINE_STEPS(name, T, V, W, S, MASK)                                                              \
    GD_VMATH V product_##name(V g, V y) { /* 0 where g is 0 */                                            \
        return _mm512_maskz_mul_##S(_mm512_cmp_##S##_mask(g, _mm512_setzero_##S(), _CMP_NEQ_UQ), g, y);   \
    }                                                                                                     \
    GD_VMATH V softmax_slope_##name(V g, V y, V s) { return _mm512_mul_##S(y, _mm512_sub_##S(g, s)); }    \
    GD_VMATH V log_softmax_slope_##name(V g, V y, V s) { return _mm512_fnmadd_##S(gd_exp_##S##512(y), s, g); } \
    GD_VMATH void row_shift_##name(const T *x, T a, T b, T *y, int64_t n, bool stream) {                               \
        const V va = _mm512_set1_##S(a), vb = _mm512_set1_##S(b);                                         \
        GD_PUT_VECTORS(T, W, S, MASK, y, n, stream, _mm512_sub_##S(_mm512_sub_##S(load_##name(x + k, mask), va), vb)) \
    }                                                                                                     \
    GD_VMATH T row_sum_##name(const T *g, int64_t n) {                                                    \
        V sum = _mm512_setzero_##S();                                                                     \
        GD_EACH_VECTOR(W, S, MASK, n, sum = _mm512_add_##S(sum, load_##name(g + k, mask)))                      \
        return gd_first_##S(gd_sum_##S(sum));                                                             \
    }                                                                                                     \
    GD_VMATH T row_dot_##name(const T *g, const T *y, int64_t n) {                                        \
        V sum = _mm512_setzero_##S();                                                                     \
        GD_EACH_VECTOR(W, S, MASK, n, sum = _mm512_add_##S(sum, product_##name(load_##name(g + k, mask), load_##name(y + k, mask)))) \
        return gd_first_##S(gd_sum_##S(sum));                                                             \
    }                                                                                                     \
    GD_VMATH bool row_any_##name(const T *g, int64_t n) {                                                 \
        GD_EACH_VECTOR(W, S, MASK, n, if (_mm512_cmp_##S##_mask(load_##name(g + k, mask), _mm512_setzero_##S(), _CMP_NEQ_UQ)) return true) \
        return false;                                                                                     \
    }                                                                                                     \
    GD_VMATH void row_softmax_bwd_##name(const T *g, const T *y, T s, T *dx, int64_t n, bool stream) {                 \
        const V vs = _mm512_set1_##S(s);                                                                  \
        GD_PUT_VECTORS(T, W, S, MASK, dx, n, stream, softmax_slope_##name(load_##name(g + k, mask), load_##name(y + k, mask), vs)) \
    }                                                                                                     \
    GD_VMATH void row_log_softmax_bwd_##name(const T *g, const T *y, T s, T *dx, int64_t n, bool stream) {             \
        const V vs = _mm512_set1_##S(s);                                                                  \
        GD_PUT_VECTORS(T, W, S, MASK, dx, n, stream, log_softmax_slope_##name(load_##name(g + k, mask), load_##name(y + k, mask), vs)) \
    }
DEFINE_STEPS(f32, float, __m512, 16, ps, __mmask16)
DEFINE_STEPS(f64, double, __m512d, 8, pd, __mmask8)

/* Columns side by side: every lane is one of a row of its own. */
#define DEFINE_COLUMNS(name, T, V, W, S, MASK)                                                            \
    enum { LANES_##name = W };                                                                            \
    GD_VMATH void columns_max_##name(T *most, const T *x, int64_t n) {                                    \
        GD_EACH_VECTOR(W, S, MASK, n, _mm512_mask_storeu_##S(most + k, mask, _mm512_max_##S(load_##name(x + k, mask), load_##name(most + k, mask)))) \
    }                                                                                                     \
    GD_VMATH void columns_exp_step_##name(const T *x, const T *most, T *e, T *lane, MASK mask) {          \
        const V v = gd_exp_##S##512(_mm512_sub_##S(load_##name(x, mask), load_##name(most, mask)));       \
        _mm512_mask_storeu_##S(e, mask, v);                                                               \
        _mm512_mask_storeu_##S(lane, mask, _mm512_add_##S(load_##name(lane, mask), v));                   \
    }                                                                                                     \
    GD_VMATH void columns_exp_##name(const T *x, const T *most, T *e, T *lane, int64_t n) {               \
        GD_EACH_VECTOR(W, S, MASK, n, columns_exp_step_##name(x + k, most + k, e + k, lane + k, mask))    \
    }                                                                                                     \
    GD_VMATH void columns_log_##name(T *sum, int64_t n) {                                                 \
        GD_EACH_VECTOR(W, S, MASK, n, _mm512_mask_storeu_##S(sum + k, mask, gd_log_##S##512(load_##name(sum + k, mask)))) \
    }                                                                                                     \
    GD_VMATH void columns_scale_##name(const T *e, const T *s, T *y, int64_t n, bool stream) {            \
        GD_PUT_VECTORS(T, W, S, MASK, y, n, stream, _mm512_mul_##S(load_##name(e + k, mask), load_##name(s + k, mask))) \
    }                                                                                                     \
    GD_VMATH void columns_shift_##name(const T *x, const T *a, const T *b, T *y, int64_t n, bool stream) { \
        GD_PUT_VECTORS(T, W, S, MASK, y, n, stream,                                                       \
                       _mm512_sub_##S(_mm512_sub_##S(load_##name(x + k, mask), load_##name(a + k, mask)), load_##name(b + k, mask))) \
    }                                                                                                     \
    GD_VMATH void columns_add_##name(V g, V term, T *lane, T *any, MASK mask) {                           \
        const MASK some = _mm512_mask_cmp_##S##_mask(mask, g, _mm512_setzero_##S(), _CMP_NEQ_UQ);         \
        _mm512_mask_storeu_##S(lane, mask, _mm512_add_##S(load_##name(lane, mask), term));                \
        _mm512_mask_storeu_##S(any, some, _mm512_set1_##S(1));                                            \
    }                                                                                                     \
    GD_VMATH void columns_sum_##name(const T *g, T *lane, T *any, int64_t n) {                            \
        GD_EACH_VECTOR(W, S, MASK, n, columns_add_##name(load_##name(g + k, mask), load_##name(g + k, mask), lane + k, any + k, mask)) \
    }                                                                                                     \
    GD_VMATH void columns_dot_##name(const T *g, const T *y, T *lane, T *any, int64_t n) {                \
        GD_EACH_VECTOR(W, S, MASK, n, columns_add_##name(load_##name(g + k, mask), product_##name(load_##name(g + k, mask), load_##name(y + k, mask)), lane + k, any + k, mask)) \
    }                                                                                                     \
    GD_VMATH V if_any_##name(V any, V d) { return _mm512_maskz_mov_##S(_mm512_cmp_##S##_mask(any, _mm512_setzero_##S(), _CMP_NEQ_UQ), d); } \
    GD_VMATH void columns_softmax_bwd_##name(const T *g, const T *y, const T *s, const T *any, T *dx, int64_t n, bool stream) { \
        GD_PUT_VECTORS(T, W, S, MASK, dx, n, stream, if_any_##name(load_##name(any + k, mask), softmax_slope_##name(load_##name(g + k, mask), load_##name(y + k, mask), load_##name(s + k, mask)))) \
    }                                                                                                     \
    GD_VMATH void columns_log_softmax_bwd_##name(const T *g, const T *y, const T *s, const T *any, T *dx, int64_t n, bool stream) { \
        GD_PUT_VECTORS(T, W, S, MASK, dx, n, stream, if_any_##name(load_##name(any + k, mask), log_softmax_slope_##name(load_##name(g + k, mask), load_##name(y + k, mask), load_##name(s + k, mask)))) \
    }
DEFINE_COLUMNS(f32, float, __m512, 16, ps, __mmask16)
DEFINE_COLUMNS(f64, double, __m512d, 8, pd, __mmask8)
static inline void softmax_fence(void) { _mm_sfence(); }

#include "../softmax_driver.h"

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

/* ---- rows that leave the caches ------------------------------------------------------------------------------ */

/* Contiguous rows of whole lines, of one block, whose output is streamed. */
static bool is_streamed(const gd_softmax_run *r, int64_t width) {
    return r->stream && r->out_step == 1 && r->a.red == 1 && r->a.red_stride[0] == 1 && r->a.count <= GD_BLOCK && r->a.count % width == 0 &&
           (uintptr_t)r->out % 64 == 0;
}

/* The arithmetic of softmax_<name>. While the exponentials of a row are computed, the row before is written and the
 * next one asked for: memory and arithmetic work at the same time. */
#define DEFINE_STREAMED(name, T, V, W, S)                                                                 \
    static void softmax_streamed_##name(const gd_softmax_run *r, int64_t from, int64_t last) {            \
        _Alignas(64) T e[2][GD_BLOCK];                                                                    \
        const int64_t n = r->a.count;                                                                     \
        T *y = (T *)r->out + from * n;                                                                    \
        V scale = _mm512_setzero_##S();                                                                   \
        for (int64_t row = from; row <= last; row++) {                                                    \
            T *now = e[row & 1];                                                                          \
            const T *before = e[!(row & 1)];                                                              \
            if (row == last) {                                                                            \
                for (int64_t k = 0; k < n; k += W) _mm512_stream_##S(y + k - n, _mm512_mul_##S(_mm512_load_##S(before + k), scale)); \
                break;                                                                                    \
            }                                                                                             \
            const T *x = (const T *)gd_walk_output(&r->a, row);                                           \
            const V most = _mm512_set1_##S(row_max_##name(x, n));                                         \
            V sum = _mm512_setzero_##S();                                                                 \
            for (int64_t k = 0; k < n; k += W) {                                                          \
                GD_ASK(x + k + n);                                                                        \
                const V v = gd_exp_##S##512(_mm512_sub_##S(_mm512_loadu_##S(x + k), most));               \
                _mm512_store_##S(now + k, v);                                                             \
                sum = _mm512_add_##S(sum, v);                                                             \
                if (row > from) _mm512_stream_##S(y + k - n, _mm512_mul_##S(_mm512_load_##S(before + k), scale)); \
            }                                                                                             \
            scale = _mm512_set1_##S((T)(1 / (double)gd_first_##S(gd_sum_##S(sum))));                      \
            y += n;                                                                                       \
        }                                                                                                 \
    }
DEFINE_STREAMED(f32, float, __m512, 16, ps)
DEFINE_STREAMED(f64, double, __m512d, 8, pd)

/* Rows first .. last; BACKWARD: there is a second input. */
#define DEFINE_OP(op, name, T, W, S, MASK, BACKWARD)                                                      \
    static void op##_fast_##name(const gd_softmax_run *r, int64_t first, int64_t last, int worker) {      \
        const gd_walk *a = &r->a, *b = BACKWARD ? &r->b : &r->a;                                          \
        const int64_t n = a->count;                                                                       \
        if (r->out_step != 1 || !is_short(a, W) || !is_short(b, W)) {                                     \
            op##_all_##name(r, first, last, worker);                                                      \
            return;                                                                                       \
        }                                                                                                 \
        const MASK mask = n == W ? (MASK)-1 : GD_LANES_##S(n);                                            \
        for (int64_t row = first; row < last; row++)                                                      \
            op##_short_##name((const T *)a->x + row * a->kept_stride[0], (const T *)b->x + row * b->kept_stride[0], (T *)r->out + row * n, mask); \
    }
#define DEFINE_FAST(op, BACKWARD)                                                                         \
    DEFINE_OP(op, f32, float, 16, ps, __mmask16, BACKWARD)                                                \
    DEFINE_OP(op, f64, double, 8, pd, __mmask8, BACKWARD)
DEFINE_FAST(softmax, false)
DEFINE_FAST(log_softmax, false)
DEFINE_FAST(softmax_bwd, true)
DEFINE_FAST(log_softmax_bwd, true)

static void softmax_rows_f32(const gd_softmax_run *r, int64_t first, int64_t last, int worker) {
    if (is_streamed(r, 16)) softmax_streamed_f32(r, first, last);
    else softmax_fast_f32(r, first, last, worker);
}
static void softmax_rows_f64(const gd_softmax_run *r, int64_t first, int64_t last, int worker) {
    if (is_streamed(r, 8)) softmax_streamed_f64(r, first, last);
    else softmax_fast_f64(r, first, last, worker);
}

void gd_softmax_avx512(const gd_args *a) { gd_softmax_run_all(a, softmax_rows_f32, softmax_rows_f64); }
void gd_log_softmax_avx512(const gd_args *a) { gd_softmax_run_all(a, log_softmax_fast_f32, log_softmax_fast_f64); }
void gd_softmax_bwd_avx512(const gd_args *a) { gd_softmax_run_all(a, softmax_bwd_fast_f32, softmax_bwd_fast_f64); }
void gd_log_softmax_bwd_avx512(const gd_args *a) { gd_softmax_run_all(a, log_softmax_bwd_fast_f32, log_softmax_bwd_fast_f64); }
