/* unary.c - ops with one input and the fused slopes of their gradients, float32 and float64.
 * A formula is written once for both vector types t; x is the vector, as in portable/unary.c. */
#include "../half.h"
#include "elementwise.h"

#include "pieces.h"

#define UNARY(op, formula)                      \
    GD_VECTOR_LOOP1(op##_ps, ps, , formula(ps)) \
    GD_VECTOR_LOOP1(op##_pd, pd, , formula(pd)) \
    GD_VECTOR_LOOP1(op##_bf, bf, , formula(ps)) \
    GD_VECTOR_LOOP1(op##_hf, hf, , formula(ps)) \
    GD_VECTOR_KERNEL(op, 1, GD_TILE_LIGHT)

/* Elementary functions: float64 has other bits here than in the C library, so no layout leaves. */
#define UNARY_HEAVY(op, formula)                                           \
    GD_VECTOR_LOOP1(op##_ps, ps, , formula(ps))                            \
    GD_VECTOR_LOOP1(op##_pd, pd, , formula(pd))                            \
    GD_STAGED(op##_staged_ps, float, op##_ps)                              \
    GD_STAGED(op##_staged_pd, double, op##_pd)                             \
    void gd_##op##_avx512(const gd_args *a) {                              \
        static gd_loop *const loops[] = {op##_ps, op##_pd};                \
        static gd_loop *const staged[] = {op##_staged_ps, op##_staged_pd}; \
        gd_vector_staged1(a, loops, staged, GD_TILE_HEAVY);                \
    }

/* Functions of elementary.h: float32 has AVX2's bits, so AVX2 takes the other strides, and float64. */
#define UNARY_F32(op)                                                                    \
    GD_VECTOR_LOOP1(op##_ps, ps, , gd_##op##_ps512(x))                                   \
    void gd_##op##_avx512(const gd_args *a) {                                            \
        if (!gd_vector_elementwise1(a, op##_ps, NULL, GD_TILE_HEAVY)) gd_##op##_avx2(a); \
    }

/* Functions of pieces.h: float32 has other bits than AVX2's, so only float64 leaves. */
#define UNARY_OWN_WITH(op, declarations, formula)                                                     \
    GD_VECTOR_LOOP1(op##_ps, ps, declarations, formula)                                               \
    GD_STAGED(op##_staged_ps, float, op##_ps)                                                         \
    void gd_##op##_avx512(const gd_args *a) {                                                         \
        static gd_loop *const loops[] = {op##_ps, NULL}, *const staged[] = {op##_staged_ps, NULL};    \
        if (a->in[0]->dtype == GD_FLOAT32) gd_vector_staged1(a, loops, staged, GD_TILE_HEAVY);        \
        else gd_##op##_avx2(a);                                                                       \
    }
#define UNARY_OWN(op) UNARY_OWN_WITH(op, , gd_##op##_own_ps512(x))

/* (g, y): 0 where g is 0, so that an infinite or NaN slope does not spread. Here x is g. */
#define SLOPE(op, formula)                                      \
    GD_VECTOR_LOOP2(op##_ps, ps, float, values, , formula(ps))  \
    GD_VECTOR_LOOP2(op##_pd, pd, double, values, , formula(pd)) \
    GD_VECTOR_LOOP2(op##_bf, bf, uint16_t, values, , formula(ps)) \
    GD_VECTOR_LOOP2(op##_hf, hf, uint16_t, values, , formula(ps)) \
    GD_VECTOR_KERNEL(op, 2, GD_TILE_LIGHT)

#define ONE(t) _mm512_set1_##t(1)
#define ZERO(t) _mm512_setzero_##t()
#define IS(t, a, comparison, b) _mm512_cmp_##t##_mask(a, b, _CMP_##comparison)

#define NEG(t) _mm512_xor_##t(x, _mm512_set1_##t(-0.0f))
#define ABS(t) _mm512_abs_##t(x)
#define POSITIVE(t) _mm512_maskz_mov_##t(IS(t, x, GT_OQ, ZERO(t)), ONE(t))
#define SIGN(t) _mm512_mask_mov_##t(POSITIVE(t), IS(t, x, LT_OQ, ZERO(t)), _mm512_set1_##t(-1)) /* 0 of NaN */
#define SQUARE(t) _mm512_mul_##t(x, x)
#define ROUNDED(t, direction) _mm512_roundscale_##t(x, (direction) | _MM_FROUND_NO_EXC)
#define FLOOR(t) ROUNDED(t, _MM_FROUND_TO_NEG_INF)
#define CEIL(t) ROUNDED(t, _MM_FROUND_TO_POS_INF)
#define ROUND(t) ROUNDED(t, _MM_FROUND_TO_NEAREST_INT)
#define TRUNC(t) ROUNDED(t, _MM_FROUND_TO_ZERO)
#define SQRT(t) _mm512_sqrt_##t(x)
#define RSQRT(t) _mm512_div_##t(ONE(t), _mm512_sqrt_##t(x))
#define RECIPROCAL(t) _mm512_div_##t(ONE(t), x)
#define EXP(t) gd_exp_##t##512(x)
#define LOG(t) gd_log_##t##512(x)

UNARY(neg, NEG)
UNARY(abs, ABS)
UNARY(sign, SIGN)
UNARY(square, SQUARE)
UNARY(floor, FLOOR)
UNARY(ceil, CEIL)
UNARY(round, ROUND)
UNARY(trunc, TRUNC)
UNARY(sqrt, SQRT)
UNARY(rsqrt, RSQRT)
UNARY(reciprocal, RECIPROCAL)
UNARY_HEAVY(exp, EXP)
UNARY_HEAVY(log, LOG)
UNARY_F32(expm1)
UNARY_F32(log1p)
UNARY_F32(log2)
UNARY_F32(sin)
UNARY_F32(cos)
UNARY_F32(erf)
UNARY_F32(erfc)
UNARY_F32(exp2)
UNARY_F32(log10)
UNARY_F32(sinh)
UNARY_F32(cosh)

/* ---- Activations: forward, and slope from the output y ------------------------------------- */

/* The second operand of max passes where either is NaN and where both are zeros. */
#define RELU(t) _mm512_max_##t(ZERO(t), x)
#define RELU_BWD(t) _mm512_maskz_mov_##t(IS(t, y, NLE_UQ, ZERO(t)), x)
UNARY(relu, RELU)
SLOPE(relu_bwd, RELU_BWD)

#define gd_tanh_own_pd512 gd_tanh_pd512
#define TANH(t) gd_tanh_own_##t##512(x)
#define NONZERO(t) IS(t, x, NEQ_UQ, ZERO(t))
#define TANH_SLOPE(t) _mm512_mul_##t(_mm512_sub_##t(ONE(t), y), _mm512_add_##t(ONE(t), y))
#define TANH_BWD(t) _mm512_maskz_mul_##t(NONZERO(t), x, TANH_SLOPE(t))
UNARY_HEAVY(tanh, TANH)
SLOPE(tanh_bwd, TANH_BWD)

#define SIGMOID(t) gd_sigmoid_##t##512(x)
#define SIGMOID_SLOPE(t) _mm512_mul_##t(y, _mm512_sub_##t(ONE(t), y))
#define SIGMOID_BWD(t) _mm512_maskz_mul_##t(NONZERO(t), x, SIGMOID_SLOPE(t))
UNARY_HEAVY(sigmoid, SIGMOID)
SLOPE(sigmoid_bwd, SIGMOID_BWD)

/* ---- Activations whose slope is that of the input: (g, x), written g * f'(x), 0 where g is 0 ------------ */

#define NEG_OF(v) _mm512_xor_ps(v, _mm512_set1_ps(-0.0f))
#define SLOPE_F32(op, declarations, slope)                                                              \
    GD_VECTOR_LOOP2(op##_ps, ps, float, values, declarations, _mm512_maskz_mul_ps(NONZERO(ps), x, slope)) \
    void gd_##op##_avx512(const gd_args *a) {                                                           \
        if (!gd_vector_elementwise2(a, op##_ps, NULL, GD_TILE_HEAVY)) gd_##op##_avx2(a);                \
    }
UNARY_OWN(gelu)
UNARY_OWN(gelu_tanh)
UNARY_OWN(silu)
SLOPE_F32(gelu_bwd, , gd_gelu_slope_ps512(y))
SLOPE_F32(gelu_tanh_bwd, , gd_gelu_tanh_slope_ps512(y))
SLOPE_F32(silu_bwd, , gd_silu_slope_ps512(y))

#define CURVE                                                  \
    const __m512 beta = _mm512_set1_ps((float)s->attr->f[0]); \
    const __m512 threshold = _mm512_set1_ps((float)s->attr->f[1])
/* With beta 1 it is simpler, and has other bits: the attribute chooses, never the layout. */
#define CURVE_AND_INVERSE \
    CURVE;                \
    const __m512 inverse = _mm512_div_ps(ONE(ps), beta)
GD_VECTOR_LOOP1(softplus_steep_ps, ps, CURVE_AND_INVERSE, gd_softplus_ps512(x, beta, inverse, threshold))
GD_VECTOR_LOOP1(softplus_plain_ps, ps, const __m512 threshold = _mm512_set1_ps((float)s->attr->f[1]), gd_softplus_own_ps512(x, threshold))
static void softplus_ps(const gd_row_span *s) { (s->attr->f[0] == 1 ? softplus_plain_ps : softplus_steep_ps)(s); }
GD_STAGED(softplus_staged_ps, float, softplus_ps)
void gd_softplus_avx512(const gd_args *a) {
    static gd_loop *const loops[] = {softplus_ps, NULL}, *const staged[] = {softplus_staged_ps, NULL};
    if (a->in[0]->dtype == GD_FLOAT32) gd_vector_staged1(a, loops, staged, GD_TILE_HEAVY);
    else gd_softplus_avx2(a);
}
SLOPE_F32(softplus_bwd, CURVE, gd_softplus_slope_ps512(y, beta, threshold))

/* ---- elu, mish, log_sigmoid ----------------------------------------------------------------------- */

UNARY_F32(mish)
UNARY_OWN(log_sigmoid)
SLOPE_F32(mish_bwd, , gd_mish_slope_ps512(y))
SLOPE_F32(log_sigmoid_bwd, , gd_sigmoid_ps512(NEG_OF(y)))

#define ELU                                                                       \
    const double alpha = s->attr->f[0];                                           \
    const double scale = s->attr->f[1];                                           \
    const double rate = s->attr->i[0] ? 1 / alpha : 1;                            \
    const __m512 positive = _mm512_set1_ps((float)scale);                         \
    const __m512 negative = _mm512_set1_ps((float)(alpha * scale));               \
    const __m512 steep = _mm512_set1_ps((float)(alpha * scale * rate));           \
    const __m512 inner = _mm512_set1_ps((float)rate);                             \
    (void)negative;                                                               \
    (void)steep
GD_VECTOR_LOOP1(elu_ps, ps, ELU, gd_elu_ps512(x, negative, positive, inner))
void gd_elu_avx512(const gd_args *a) {
    if (!gd_vector_elementwise1(a, elu_ps, NULL, GD_TILE_HEAVY)) gd_elu_avx2(a);
}
SLOPE_F32(elu_bwd, ELU, gd_elu_slope_ps512(y, steep, positive, inner))

/* ---- Clamp: NaN elements pass, a NaN bound is absent, the upper bound wins ------------------- */

#define BOUNDS(t)                                                                                      \
    const double min = s->attr->f[0], max = s->attr->f[1];                                             \
    const gd_vector_##t low = _mm512_set1_##t((gd_element_##t)(min != min ? (double)-INFINITY : min)); \
    const gd_vector_##t high = _mm512_set1_##t((gd_element_##t)(max != max ? (double)INFINITY : max))
#define CLAMP(t) _mm512_min_##t(high, _mm512_max_##t(low, x))
GD_VECTOR_LOOP1(clamp_ps, ps, BOUNDS(ps), CLAMP(ps))
GD_VECTOR_LOOP1(clamp_pd, pd, BOUNDS(pd), CLAMP(pd))
GD_VECTOR_KERNEL(clamp, 1, GD_TILE_LIGHT)

/* (g, x): the bounds themselves pass the gradient, NaN does not. */
#define CLAMP_BWD(t) _mm512_maskz_mov_##t(IS(t, y, GE_OQ, low) & IS(t, y, LE_OQ, high), x)
GD_VECTOR_LOOP2(clamp_bwd_ps, ps, float, values, BOUNDS(ps), CLAMP_BWD(ps))
GD_VECTOR_LOOP2(clamp_bwd_pd, pd, double, values, BOUNDS(pd), CLAMP_BWD(pd))
GD_VECTOR_KERNEL(clamp_bwd, 2, GD_TILE_LIGHT)

/* ---- Halves ---------------------------------------------------------------------------------- */

#define HALVES(op) [GD_OP_##op] = {op##_bf, op##_hf}
bool gd_unary_halves_avx512(int op, const gd_args *a) {
    static gd_loop *const loops[GD_OPS][2] = {HALVES(neg), HALVES(abs), HALVES(sign), HALVES(square), HALVES(floor), HALVES(ceil), HALVES(round), HALVES(trunc),
                                              HALVES(sqrt), HALVES(rsqrt), HALVES(reciprocal), HALVES(relu), HALVES(relu_bwd), HALVES(tanh_bwd),
                                              HALVES(sigmoid_bwd)};
    return gd_vector_halves(a, loops[op]);
}
