/* norm.c - layer norm, RMS norm and their gradients for AVX-512: the row functions; norm_driver.h makes the
 * kernels of them. */
#include "../norm.h"
#include "vrows.h"

static inline void norm_fence(void) { _mm_sfence(); }

#define DEFINE_ROWS(name, T, V, W, S, MASK)                                                               \
    /* A row's constants in vectors. */                                                                   \
    typedef struct spread_##name { V high, low, scale; } spread_##name;                                   \
    GD_VMATH spread_##name spread_of_##name(const gd_norm_##name *c) {                                    \
        return (spread_##name){_mm512_set1_##S(c->high), _mm512_set1_##S(c->low), _mm512_set1_##S(c->scale)}; \
    }                                                                                                     \
    GD_VMATH V normal_##name(V x, spread_##name c) { return _mm512_mul_##S(_mm512_sub_##S(_mm512_sub_##S(x, c.high), c.low), c.scale); } \
    GD_VMATH V affine_##name(V xh, const T *w, const T *b, MASK mask) {                                   \
        if (w && b) return _mm512_fmadd_##S(xh, load_##name(w, mask), load_##name(b, mask));              \
        return w ? _mm512_mul_##S(xh, load_##name(w, mask)) : b ? _mm512_add_##S(xh, load_##name(b, mask)) : xh; \
    }                                                                                                     \
    GD_VMATH void row_norm_##name(const T *x, const gd_norm_##name *constants, const T *w, const T *b, T *y, int64_t n, bool stream) { \
        const spread_##name c = spread_of_##name(constants);                                              \
        if (w && b) GD_PUT_VECTORS(T, W, S, MASK, y, n, stream, affine_##name(normal_##name(load_##name(x + k, mask), c), w + k, b + k, mask)) \
        else if (w) GD_PUT_VECTORS(T, W, S, MASK, y, n, stream, affine_##name(normal_##name(load_##name(x + k, mask), c), w + k, NULL, mask)) \
        else if (b) GD_PUT_VECTORS(T, W, S, MASK, y, n, stream, affine_##name(normal_##name(load_##name(x + k, mask), c), NULL, b + k, mask)) \
        else GD_PUT_VECTORS(T, W, S, MASK, y, n, stream, normal_##name(load_##name(x + k, mask), c))      \
    }                                                                                                     \
    GD_VMATH V slope_##name(const T *g, const T *w, MASK mask) {                                          \
        return w ? _mm512_mul_##S(load_##name(g, mask), load_##name(w, mask)) : load_##name(g, mask);     \
    }                                                                                                     \
    /* One vector of row_norm_dots; lanes with g = 0 give 0. */                                           \
    GD_VMATH MASK dots_step_##name(const T *g, const T *x, spread_##name c, const T *w, T *dw, T *db, MASK mask, V sum[2]) { \
        const V vg = load_##name(g, mask);                                                                \
        const MASK some = _mm512_cmp_##S##_mask(vg, _mm512_setzero_##S(), _CMP_NEQ_UQ);                   \
        const V xh = _mm512_maskz_mov_##S(some, normal_##name(load_##name(x, mask), c));                  \
        const V gw = w ? _mm512_maskz_mul_##S(some, vg, load_##name(w, mask)) : vg;                       \
        if (dw) _mm512_mask_storeu_##S(dw, mask, _mm512_fmadd_##S(vg, xh, load_##name(dw, mask)));        \
        if (db) _mm512_mask_storeu_##S(db, mask, _mm512_add_##S(load_##name(db, mask), vg));              \
        sum[0] = _mm512_add_##S(sum[0], gw);                                                              \
        sum[1] = _mm512_add_##S(sum[1], _mm512_mul_##S(gw, xh));                                          \
        return some;                                                                                      \
    }                                                                                                     \
    GD_VMATH bool row_norm_dots_##name(const T *g, const T *x, const gd_norm_##name *constants, const T *w, T *dw, T *db, int64_t n, double *sums) { \
        const spread_##name c = spread_of_##name(constants);                                              \
        V sum[2] = {_mm512_setzero_##S(), _mm512_setzero_##S()};                                          \
        MASK any = 0;                                                                                     \
        if (w && dw && db) GD_EACH_VECTOR(W, S, MASK, n, any |= dots_step_##name(g + k, x + k, c, w + k, dw + k, db + k, mask, sum)) \
        else if (w && !dw && !db) GD_EACH_VECTOR(W, S, MASK, n, any |= dots_step_##name(g + k, x + k, c, w + k, NULL, NULL, mask, sum)) \
        else GD_EACH_VECTOR(W, S, MASK, n, any |= dots_step_##name(g + k, x + k, c, w ? w + k : NULL, dw ? dw + k : NULL, db ? db + k : NULL, mask, sum)) \
        sums[0] += (double)gd_first_##S(gd_sum_##S(sum[0]));                                              \
        sums[1] += (double)gd_first_##S(gd_sum_##S(sum[1]));                                              \
        return any != 0;                                                                                  \
    }                                                                                                     \
    /* The next row's g and x are asked for. */                                                           \
    GD_VMATH V ask_dx_##name(const T *g, const T *x, V dx) {                                              \
        GD_ASK_L2(g);                                                                                        \
        GD_ASK_L2(x);                                                                                        \
        return dx;                                                                                        \
    }                                                                                                     \
    GD_VMATH V dx_##name(V gw, V xh, V scale, V a0, V a1) { return _mm512_mul_##S(scale, _mm512_fnmadd_##S(a1, xh, _mm512_sub_##S(gw, a0))); } \
    GD_VMATH void row_norm_dx_##name(const T *g, const T *x, const gd_norm_##name *constants, const T *w, const T *a, T *dx, int64_t n, bool stream) { \
        const spread_##name c = spread_of_##name(constants);                                              \
        const V a0 = _mm512_set1_##S(a[0]), a1 = _mm512_set1_##S(a[1]);                                   \
        if (w) GD_PUT_VECTORS(T, W, S, MASK, dx, n, stream, ask_dx_##name(g + k + n, x + k + n, dx_##name(slope_##name(g + k, w + k, mask), normal_##name(load_##name(x + k, mask), c), c.scale, a0, a1))) \
        else GD_PUT_VECTORS(T, W, S, MASK, dx, n, stream, ask_dx_##name(g + k + n, x + k + n, dx_##name(load_##name(g + k, mask), normal_##name(load_##name(x + k, mask), c), c.scale, a0, a1))) \
    }
DEFINE_ROWS(f32, float, __m512, 16, ps, __mmask16)
DEFINE_ROWS(f64, double, __m512d, 8, pd, __mmask8)

#include "../norm_driver.h"

void gd_layer_norm_avx512(const gd_args *a) { gd_norm_forward(a, true); }
void gd_rms_norm_avx512(const gd_args *a) { gd_norm_forward(a, false); }
void gd_layer_norm_bwd_avx512(const gd_args *a) { gd_norm_backward(a, true); }
void gd_rms_norm_bwd_avx512(const gd_args *a) { gd_norm_backward(a, false); }
