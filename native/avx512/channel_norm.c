/* channel_norm.c - batch norm, group norm and their gradients for AVX-512: the row functions; channel_norm_driver.h makes
 * the kernels of them. */
#include "../channel_norm.h"
#include "vrows.h"

static inline void norm_fence(void) { _mm_sfence(); }

#define DEFINE_PLANES(name, T, V, W, S, MASK)                                                             \
    typedef struct spread_##name { V high, low, scale; } spread_##name;                                   \
    GD_VMATH spread_##name spread_of_##name(const gd_norm_##name *c) {                                    \
        return (spread_##name){_mm512_set1_##S(c->high), _mm512_set1_##S(c->low), _mm512_set1_##S(c->scale)}; \
    }                                                                                                     \
    GD_VMATH V normal_##name(V x, spread_##name c) { return _mm512_mul_##S(_mm512_sub_##S(_mm512_sub_##S(x, c.high), c.low), c.scale); } \
    GD_VMATH void row_affine_##name(const T *x, const gd_norm_##name *constants, T w, T b, T *y, int64_t n, bool stream) { \
        const spread_##name c = spread_of_##name(constants);                                              \
        const V vw = _mm512_set1_##S(w), vb = _mm512_set1_##S(b);                                         \
        GD_PUT_VECTORS(T, W, S, MASK, y, n, stream, _mm512_fmadd_##S(normal_##name(load_##name(x + k, mask), c), vw, vb)) \
    }                                                                                                     \
    GD_VMATH MASK dots_step_##name(const T *g, const T *x, spread_##name c, MASK mask, V sum[2]) {        \
        const V vg = load_##name(g, mask);                                                                \
        const MASK some = _mm512_cmp_##S##_mask(vg, _mm512_setzero_##S(), _CMP_NEQ_UQ);                   \
        sum[0] = _mm512_add_##S(sum[0], vg);                                                              \
        sum[1] = _mm512_mask_add_##S(sum[1], some, sum[1], _mm512_mul_##S(vg, normal_##name(load_##name(x, mask), c))); \
        return some;                                                                                      \
    }                                                                                                     \
    /* Two pairs of sums, which the additions of one would wait for. */                                   \
    GD_VMATH bool row_plane_dots_##name(const T *g, const T *x, const gd_norm_##name *constants, int64_t n, double *sums) { \
        const spread_##name c = spread_of_##name(constants);                                              \
        V even[2] = {_mm512_setzero_##S(), _mm512_setzero_##S()}, odd[2] = {even[0], even[0]};            \
        MASK any = 0;                                                                                     \
        int64_t at = 0;                                                                                   \
        for (; at + 2 * W <= n; at += 2 * W) {                                                            \
            any |= dots_step_##name(g + at, x + at, c, (MASK)-1, even);                                   \
            any |= dots_step_##name(g + at + W, x + at + W, c, (MASK)-1, odd);                            \
        }                                                                                                 \
        if (at + W <= n) {                                                                                \
            any |= dots_step_##name(g + at, x + at, c, (MASK)-1, even);                                   \
            at += W;                                                                                      \
            if (at < n) any |= dots_step_##name(g + at, x + at, c, GD_LANES_##S(n - at), odd);            \
        } else if (at < n) {                                                                              \
            any |= dots_step_##name(g + at, x + at, c, GD_LANES_##S(n - at), even);                       \
        }                                                                                                 \
        sums[0] += (double)gd_first_##S(gd_sum_##S(_mm512_add_##S(even[0], odd[0])));                     \
        sums[1] += (double)gd_first_##S(gd_sum_##S(_mm512_add_##S(even[1], odd[1])));                     \
        return any != 0;                                                                                  \
    }                                                                                                     \
    GD_VMATH V dx_##name(V g, V xh, V w, V scale, V a0, V a1) {                                           \
        return _mm512_mul_##S(scale, _mm512_fnmadd_##S(a1, xh, _mm512_sub_##S(_mm512_mul_##S(g, w), a0))); \
    }                                                                                                     \
    GD_VMATH void row_plane_dx_##name(const T *g, const T *x, const gd_norm_##name *constants, T w, const T *a, T *dx, int64_t n, bool stream) { \
        const spread_##name c = spread_of_##name(constants);                                              \
        const V vw = _mm512_set1_##S(w);                                                                  \
        if (a) {                                                                                          \
            const V a0 = _mm512_set1_##S(a[0]), a1 = _mm512_set1_##S(a[1]);                               \
            GD_PUT_VECTORS(T, W, S, MASK, dx, n, stream, dx_##name(load_##name(g + k, mask), normal_##name(load_##name(x + k, mask), c), vw, c.scale, a0, a1)) \
        } else {                                                                                          \
            GD_PUT_VECTORS(T, W, S, MASK, dx, n, stream, _mm512_mul_##S(c.scale, _mm512_mul_##S(load_##name(g + k, mask), vw))) \
        }                                                                                                 \
    }
DEFINE_PLANES(f32, float, __m512, 16, ps, __mmask16)
DEFINE_PLANES(f64, double, __m512d, 8, pd, __mmask8)

#include "../channel_norm_driver.h"

void gd_batch_norm_avx512(const gd_args *a) { gd_channel_norm_forward(a, 0); }
void gd_group_norm_avx512(const gd_args *a) { gd_channel_norm_forward(a, a->attr->i[0]); }
void gd_batch_norm_bwd_avx512(const gd_args *a) { gd_channel_norm_backward(a, 0); }
void gd_group_norm_bwd_avx512(const gd_args *a) { gd_channel_norm_backward(a, a->attr->i[0]); }
