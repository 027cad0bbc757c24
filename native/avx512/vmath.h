/* vmath.h - elementary functions of one AVX-512 vector. float32: the formulas of elementary.h, with the bits of AVX2.
 * float64: exp, log, tanh and sigmoid, within 2 ULP. Any input is right. */
#ifndef GRADINO_AVX512_VMATH_H
#define GRADINO_AVX512_VMATH_H

#include <immintrin.h>

#include "../scalar.h"

#define GD_VMATH static inline __attribute__((always_inline))
#define GD_NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

/* p * x + c, with a constant c: one step of Horner's rule. */
#define GD_STEP_PS(p, x, c) _mm512_fmadd_ps(p, x, _mm512_set1_ps(c))
#define GD_STEP_PD(p, x, c) _mm512_fmadd_pd(p, x, _mm512_set1_pd(c))

/* ---- What elementary.h is written in, for 16 numbers -------------------------------------------------------------- */

/* One float64 for each of 16 lanes. */
typedef struct gd_wide512 {
    __m512d low, high;
} gd_wide512;

GD_VMATH gd_wide512 gd_widen_ps512(__m512 x) {
    return (gd_wide512){_mm512_cvtps_pd(_mm512_castps512_ps256(x)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1))};
}

GD_VMATH __m512 gd_narrow_ps512(__m512d low, __m512d high) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}

GD_VMATH __m512 gd_copysign_ps512(__m512 magnitude, __m512 sign) {
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(magnitude), _mm512_castps_si512(sign),
                                                         _mm512_set1_epi32(0x7fffffff), 0xe4)); /* the mask chooses */
}

/* Splits x into 2^e * m, 0.75 <= m < 1.5. getexp and getmant also give 0, inf, negatives and NaN the right end:
 * e = -inf, inf, or m = NaN. */
GD_VMATH __m512 gd_mantissa_ps512(__m512 x, __m512 *e) {
    const __m512 m = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
    *e = _mm512_sub_ps(_mm512_getexp_ps(x), _mm512_getexp_ps(m));
    return m;
}

/* y with the sign changed where turn and x have different ones. */
GD_VMATH __m512 gd_turned_ps512(__m512 y, __m512i turn, __m512 x) {
    const __m512 sign = _mm512_castsi512_ps(_mm512_ternarylogic_epi32(turn, _mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN), 0x28)); /* (a ^ b) & c */
    return _mm512_xor_ps(y, sign);
}

/* y, except where log x is not finite: classes of x from 0 on are NaNs, zero, 1, -inf, inf, negative, positive; what is
 * taken for one is 0: y, 1: x, 3: NaN, 4: -inf. */
GD_VMATH __m512 gd_fixed_log_ps512(__m512 x, __m512 y) {
    return _mm512_fixupimm_ps(y, x, _mm512_set1_epi32(0x03130411), 0);
}

#define F __m512
#define NAME(function) gd_##function##_ps512
#define INLINE GD_VMATH
#define K(constant) _mm512_set1_ps(constant)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define LESS(a, b) _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ)
#define PICK(which, a, b) _mm512_mask_mov_ps(b, which, a)
#define LEAST(limit, x) _mm512_min_ps(limit, x) /* the second operand passes where one is NaN */
#define LEAST_SIZE(limit, x) _mm512_min_ps(limit, x)
#define MOST(limit, x) _mm512_max_ps(limit, x)
#define ABS(x) _mm512_abs_ps(x)
#define SIGNED(magnitude, sign) gd_copysign_ps512(magnitude, sign)
#define SCALE(y, n) _mm512_scalef_ps(y, n)
#define HALF_POWER(n) _mm512_scalef_ps(_mm512_set1_ps(0.5f), n)
#define ROUNDED_AWAY(a, b, p) _mm512_fmsub_ps(a, b, p)
#define LEFT(c, a, b) _mm512_fnmadd_ps(a, b, c)
#define MANTISSA(x, e) gd_mantissa_ps512(x, e)
#define LOG_ENDS(x, y) (y)
#define LOG1P_ENDS(x, y) gd_fixed_log_ps512(x, y)
#define WORD __m512i
#define WORD_OF(x) _mm512_castps_si512(x)
#define WORD_PLUS(w, k) _mm512_add_epi32(w, _mm512_set1_epi32(k))
#define ODD(w) _mm512_test_epi32_mask(w, _mm512_set1_epi32(1))
#define TURNED(y, turns, x) gd_turned_ps512(y, _mm512_slli_epi32(turns, 30), x)
#define I __m512i
#define INTERVAL(x, first, shift) /* lookups take four bits of it */ \
    _mm512_srli_epi32(_mm512_sub_epi32(_mm512_castps_si512(x), _mm512_castps_si512(_mm512_set1_ps(first))), shift)
#define LOOKUP(table, row, i) _mm512_permutexvar_ps(i, _mm512_loadu_ps(table[row]))

#define D __m512d
#define DNAME(function) gd_##function##_pd512
#define DK(constant) _mm512_set1_pd(constant)
#define DFMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#define DBITS __m512i
#define DBITS_OF(x, bits) ((bits) = _mm512_castpd_si512(x))
#define DPICK_BIT(bits, bit, a, b) _mm512_mask_mov_pd(b, _mm512_test_epi64_mask(bits, _mm512_set1_epi64(bit)), a)

#define EQUAL(a, b) _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ)
#define WHOLE(x) _mm512_roundscale_ps(x, GD_NEAREST)
#define DLEAST(limit, x) _mm512_min_pd(limit, x)
#define DMOST(limit, x) _mm512_max_pd(limit, x)
#define DFROM_BITS(bits, x) ((x) = _mm512_castsi512_pd(bits))
#define DEXPONENT(whole) _mm512_slli_epi64(whole, 52)

#include "../elementary_wide.h"

GD_VMATH __m512 gd_log10_wide_ps512(__m512 m, __m512 e) {
    const gd_wide512 wm = gd_widen_ps512(m), we = gd_widen_ps512(e);
    return gd_narrow_ps512(gd_log10_wide_pd512(wm.low, we.low), gd_log10_wide_pd512(wm.high, we.high));
}

GD_VMATH __m512 gd_pow_wide_ps512(__m512 m, __m512 e, __m512 y) {
    const gd_wide512 wm = gd_widen_ps512(m), we = gd_widen_ps512(e), wy = gd_widen_ps512(y);
    return gd_narrow_ps512(gd_pow_wide_pd512(wm.low, we.low, wy.low), gd_pow_wide_pd512(wm.high, we.high, wy.high));
}

#include "../elementary.h"

/* Where |x| > GD_SIN_NEAR_F32, one by one through the library. */
static __attribute__((noinline, unused)) __m512 gd_sin_far_ps512(__m512 x, __m512 y, __mmask16 far, int quarter) {
    _Alignas(64) float in[16], out[16];
    _mm512_store_ps(in, x);
    _mm512_store_ps(out, y);
    for (unsigned left = far; left != 0; left &= left - 1) {
        const int k = __builtin_ctz(left);
        out[k] = (float)(quarter ? cos((double)in[k]) : sin((double)in[k]));
    }
    return _mm512_load_ps(out);
}

GD_VMATH __m512 gd_sin_quarter_ps512(__m512 x, int quarter) {
    const __m512 y = gd_sin_near_ps512(x, quarter);
    const __mmask16 far = _mm512_cmp_ps_mask(_mm512_abs_ps(x), _mm512_set1_ps(GD_SIN_NEAR_F32), _CMP_GT_OQ);
    return __builtin_expect(far, 0) ? gd_sin_far_ps512(x, y, far, quarter) : y;
}
GD_VMATH __m512 gd_sin_ps512(__m512 x) { return gd_sin_quarter_ps512(x, 0); }
GD_VMATH __m512 gd_cos_ps512(__m512 x) { return gd_sin_quarter_ps512(x, 1); }

/* ---- float64 ----------------------------------------------------------------------------------------------------- */

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
