/* vmath.h - exp, log, tanh and sigmoid of one AVX-512 vector, float32 and float64.
 * float32 uses the polynomials of scalar.h; float64 stays within 2 ULP. Any input is right. */
#ifndef GRADINO_AVX512_VMATH_H
#define GRADINO_AVX512_VMATH_H

#include <immintrin.h>

#include "../scalar.h"

#define GD_VMATH static inline __attribute__((always_inline))
#define GD_NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

/* p * x + c, with a constant c: one step of Horner's rule. */
#define GD_STEP_PS(p, x, c) _mm512_fmadd_ps(p, x, _mm512_set1_ps(c))
#define GD_STEP_PD(p, x, c) _mm512_fmadd_pd(p, x, _mm512_set1_pd(c))

/* The limits are the first operand of min and max, so NaN passes. */
GD_VMATH __m512 gd_exp_ps512(__m512 x) {
    x = _mm512_min_ps(_mm512_set1_ps(GD_EXP_MAX_F32), x);
    x = _mm512_max_ps(_mm512_set1_ps(GD_EXP_MIN_F32), x);
    const __m512 round = _mm512_set1_ps(GD_ROUND_F32);
    const __m512 n = _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(GD_LOG2E_F32), round), round);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(GD_LN2_HI_F32), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(GD_LN2_LO_F32), r);
    __m512 q = GD_STEP_PS(_mm512_set1_ps(GD_EXP_C4), r, GD_EXP_C3);
    q = GD_STEP_PS(q, r, GD_EXP_C2);
    q = GD_STEP_PS(q, r, GD_EXP_C1);
    q = GD_STEP_PS(q, r, GD_EXP_C0);
    q = _mm512_fmadd_ps(_mm512_mul_ps(r, r), q, r);
    return _mm512_scalef_ps(_mm512_add_ps(q, _mm512_set1_ps(1.0f)), n);
}

GD_VMATH __m512 gd_log_ps512(__m512 x) {
    /* getexp and getmant also give 0, inf, negatives and NaN the right end: e = -inf, inf, or m = NaN. */
    const __m512 m = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
    const __m512 e = _mm512_sub_ps(_mm512_getexp_ps(x), _mm512_getexp_ps(m));
    const __m512 f = _mm512_sub_ps(m, _mm512_set1_ps(1.0f));
    __m512 p = GD_STEP_PS(_mm512_set1_ps(GD_LOG_C7), f, GD_LOG_C6);
    p = GD_STEP_PS(p, f, GD_LOG_C5);
    p = GD_STEP_PS(p, f, GD_LOG_C4);
    p = GD_STEP_PS(p, f, GD_LOG_C3);
    p = GD_STEP_PS(p, f, GD_LOG_C2);
    p = GD_STEP_PS(p, f, GD_LOG_C1);
    p = GD_STEP_PS(p, f, GD_LOG_C0);
    const __m512 square = _mm512_mul_ps(f, f);
    p = _mm512_fmadd_ps(_mm512_mul_ps(square, f), p, _mm512_mul_ps(square, _mm512_set1_ps(-0.5f)));
    p = _mm512_fmadd_ps(e, _mm512_set1_ps(GD_LN2_LO_F32), p);
    return _mm512_fmadd_ps(e, _mm512_set1_ps(GD_LN2_HI_F32), _mm512_add_ps(f, p));
}

GD_VMATH __m512 gd_copysign_ps512(__m512 magnitude, __m512 sign) {
    const __m512 bit = _mm512_set1_ps(-0.0f);
    return _mm512_or_ps(_mm512_andnot_ps(bit, magnitude), _mm512_and_ps(bit, sign));
}

GD_VMATH __m512 gd_tanh_ps512(__m512 x) {
    const __m512 one = _mm512_set1_ps(1.0f), z = _mm512_mul_ps(x, x), a = _mm512_abs_ps(x);
    __m512 p = GD_STEP_PS(_mm512_set1_ps(GD_TANH_C4), z, GD_TANH_C3);
    p = GD_STEP_PS(p, z, GD_TANH_C2);
    p = GD_STEP_PS(p, z, GD_TANH_C1);
    p = GD_STEP_PS(p, z, GD_TANH_C0);
    p = _mm512_fmadd_ps(_mm512_mul_ps(p, z), a, a);
    const __m512 e = _mm512_add_ps(gd_exp_ps512(_mm512_add_ps(a, a)), one);
    const __m512 large = _mm512_sub_ps(one, _mm512_div_ps(_mm512_set1_ps(2.0f), e));
    const __mmask16 small = _mm512_cmp_ps_mask(a, _mm512_set1_ps(GD_TANH_SMALL_F32), _CMP_LT_OQ);
    return gd_copysign_ps512(_mm512_mask_mov_ps(large, small, p), x);
}

GD_VMATH __m512 gd_sigmoid_ps512(__m512 x) {
    const __m512 one = _mm512_set1_ps(1.0f), zero = _mm512_setzero_ps();
    const __m512 e = gd_exp_ps512(_mm512_sub_ps(zero, _mm512_abs_ps(x)));
    const __m512 y = _mm512_div_ps(one, _mm512_add_ps(one, e));
    const __mmask16 negative = _mm512_cmp_ps_mask(x, zero, _CMP_LT_OQ);
    return _mm512_mask_mov_ps(y, negative, _mm512_fnmadd_ps(e, _mm512_mul_ps(e, y), e));
}

/* Near-minimax exp(r) = 1 + r + r^2 q(r), |r| <= ln2/2, relative error 1.4e-18. */
GD_VMATH __m512d gd_exp_pd512(__m512d x) {
    x = _mm512_min_pd(_mm512_set1_pd(710.0), x);
    x = _mm512_max_pd(_mm512_set1_pd(-746.0), x);
    const __m512d n = _mm512_roundscale_pd(_mm512_mul_pd(x, _mm512_set1_pd(1.4426950408889634)), GD_NEAREST);
    __m512d r = _mm512_fnmadd_pd(n, _mm512_set1_pd(0x1.62e42feep-1), x);
    r = _mm512_fnmadd_pd(n, _mm512_set1_pd(0x1.a39ef35793c76p-33), r);
    __m512d q = GD_STEP_PD(_mm512_set1_pd(2.0914686968086877232e-9), r, 2.5105217004720745163e-8);
    q = GD_STEP_PD(q, r, 2.7557273643110295328e-7);
    q = GD_STEP_PD(q, r, 2.755725540020642443e-6);
    q = GD_STEP_PD(q, r, 0.000024801587325547741216);
    q = GD_STEP_PD(q, r, 0.00019841269874820625271);
    q = GD_STEP_PD(q, r, 0.0013888888888883748305);
    q = GD_STEP_PD(q, r, 0.0083333333333261351258);
    q = GD_STEP_PD(q, r, 0.041666666666666669755);
    q = GD_STEP_PD(q, r, 0.16666666666666670991);
    q = GD_STEP_PD(q, r, 0.5);
    q = _mm512_fmadd_pd(_mm512_mul_pd(r, r), q, r);
    return _mm512_scalef_pd(_mm512_add_pd(q, _mm512_set1_pd(1.0)), n);
}

/* After fdlibm's e_log.c: log(1+f) = f - f^2/2 + s (f^2/2 + R(s^2)), s = f / (2 + f). */
GD_VMATH __m512d gd_log_pd512(__m512d x) {
    __m512d m = _mm512_getmant_pd(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_nan);
    __m512d e = _mm512_getexp_pd(x);
    const __mmask8 upper = _mm512_cmp_pd_mask(m, _mm512_set1_pd(1.4142135623730951), _CMP_GT_OQ);
    m = _mm512_mask_mul_pd(m, upper, m, _mm512_set1_pd(0.5));
    e = _mm512_mask_add_pd(e, upper, e, _mm512_set1_pd(1.0));
    const __m512d f = _mm512_sub_pd(m, _mm512_set1_pd(1.0));
    const __m512d s = _mm512_div_pd(f, _mm512_add_pd(_mm512_set1_pd(2.0), f));
    const __m512d z = _mm512_mul_pd(s, s);
    __m512d r = GD_STEP_PD(_mm512_set1_pd(1.479819860511658591e-01), z, 1.531383769920937332e-01);
    r = GD_STEP_PD(r, z, 1.818357216161805012e-01);
    r = GD_STEP_PD(r, z, 2.222219843214978396e-01);
    r = GD_STEP_PD(r, z, 2.857142874366239149e-01);
    r = GD_STEP_PD(r, z, 3.999999999940941908e-01);
    r = GD_STEP_PD(r, z, 6.666666666666735130e-01);
    const __m512d half = _mm512_mul_pd(_mm512_mul_pd(f, f), _mm512_set1_pd(0.5));
    r = _mm512_mul_pd(s, _mm512_fmadd_pd(r, z, half));
    r = _mm512_fmadd_pd(e, _mm512_set1_pd(1.90821492927058770002e-10), r);
    r = _mm512_sub_pd(f, _mm512_sub_pd(half, r));
    return _mm512_fmadd_pd(e, _mm512_set1_pd(6.93147180369123816490e-01), r);
}

GD_VMATH __m512d gd_copysign_pd512(__m512d magnitude, __m512d sign) {
    const __m512d bit = _mm512_set1_pd(-0.0);
    return _mm512_or_pd(_mm512_andnot_pd(bit, magnitude), _mm512_and_pd(bit, sign));
}

/* The rational function for |x| < 0.625 is that of Cephes' tanh.c. */
GD_VMATH __m512d gd_tanh_pd512(__m512d x) {
    const __m512d one = _mm512_set1_pd(1.0), z = _mm512_mul_pd(x, x), a = _mm512_abs_pd(x);
    __m512d p = GD_STEP_PD(_mm512_set1_pd(-9.64399179425052238628e-1), z, -9.92877231001918586564e1);
    p = GD_STEP_PD(p, z, -1.61468768441708447952e3);
    __m512d q = GD_STEP_PD(z, one, 1.12811678491632931402e2);
    q = GD_STEP_PD(q, z, 2.23548839060100448583e3);
    q = GD_STEP_PD(q, z, 4.84406305325125486048e3);
    const __m512d near = _mm512_fmadd_pd(_mm512_mul_pd(a, z), _mm512_div_pd(p, q), a);
    const __m512d e = _mm512_add_pd(gd_exp_pd512(_mm512_add_pd(a, a)), one);
    const __m512d large = _mm512_sub_pd(one, _mm512_div_pd(_mm512_set1_pd(2.0), e));
    const __mmask8 small = _mm512_cmp_pd_mask(a, _mm512_set1_pd(0.625), _CMP_LT_OQ);
    return gd_copysign_pd512(_mm512_mask_mov_pd(large, small, near), x);
}

GD_VMATH __m512d gd_sigmoid_pd512(__m512d x) {
    const __m512d one = _mm512_set1_pd(1.0), zero = _mm512_setzero_pd();
    const __m512d e = gd_exp_pd512(_mm512_sub_pd(zero, _mm512_abs_pd(x)));
    const __m512d y = _mm512_div_pd(one, _mm512_add_pd(one, e));
    const __mmask8 negative = _mm512_cmp_pd_mask(x, zero, _CMP_LT_OQ);
    return _mm512_mask_mov_pd(y, negative, _mm512_fnmadd_pd(e, _mm512_mul_pd(e, y), e));
}

#endif
