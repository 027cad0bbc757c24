/* scalar.h - the elementary functions of one number, shared by the CPU kernels and CUDA.
 * float32: branch-free (but for huge angles), so that loops vectorise; at most 2 ULP for every input. */
#ifndef GRADINO_SCALAR_H
#define GRADINO_SCALAR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "tables.h"

/* a*b + c, rounded once where the target has the instruction and twice elsewhere. Contraction is
 * off in every build, so this is the only place where a multiply and an add may fuse. */
#if defined(__cplusplus)
#define GD_HAS_FMA 1
#define GD_FMA(a, b, c) fma(a, b, c)
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define GD_HAS_FMA 1
#define GD_FMA(a, b, c) _Generic((a) * (b) + (c), float: __builtin_fmaf, default: __builtin_fma)(a, b, c)
#else
#define GD_HAS_FMA 0
#define GD_FMA(a, b, c) ((a) * (b) + (c))
#endif

#if defined(__CUDACC__)
#define GD_SCALAR static __device__ __forceinline__
#else
#define GD_SCALAR static inline __attribute__((always_inline))
#endif

GD_SCALAR uint32_t gd_bits_of_f32(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

GD_SCALAR float gd_f32_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Constants of the float32 functions. */
#define GD_LOG2E_F32 1.44269504f
#define GD_LN2_HI_F32 0.693145752f    /* 15 significant bits: times an exponent it is exact */
#define GD_LN2_LO_F32 1.42860677e-06f /* > 0, so that an infinite exponent gives no inf - inf */
#define GD_QUARTER1_F32 0x1.921fb6p+0f /* pi/2 in three parts */
#define GD_QUARTER2_F32 -0x1.777a5cp-25f
#define GD_QUARTER3_F32 -0x1.ee59dap-50f
#define GD_ROUND_F32 12582912.0f      /* 1.5 * 2^23: adding it rounds to an integer */
#define GD_EXP_MAX_F32 89.0f          /* exp overflows before this ... */
#define GD_EXP_MIN_F32 (-104.0f)      /* ... and is 0 after this */
#define GD_GELU_A 1.5957691216057308  /* the tanh form is x sigmoid(x (A + B x^2)): A = 2 sqrt(2/pi), B = 0.044715 A */
#define GD_GELU_B 0.071354816272600253
#define GD_GELU_A_F32 0x1.988454p+0f
#define GD_GELU_A_LO_F32 -0x1.857936p-25f
#define GD_GELU_B_F32 0x1.2444f2p-4f
#define GD_GELU_B_LO_F32 0x1.49b16ap-29f
#define GD_TANH_SMALL_F32 0.625f      /* below it tanh is a polynomial */
#define GD_GELU_END_F32 14.99f        /* from here on gelu is x or 0 ... */
#define GD_GELU_TANH_END_F32 12.0f    /* ... and its tanh form ... */
#define GD_SILU_END_F32 120.0f        /* ... and silu: x exp(-x) is less than the least denormal */

/* Minimax fits, relative error in brackets; lowest power first. */
#define GD_EXP_C0 0x1.fffffcp-2f  /* exp(r) = 1 + r + r^2 (C0 + C1 r + ...), |r| <= ln2/2 [2^-28.2] */
#define GD_EXP_C1 0x1.555492p-3f
#define GD_EXP_C2 0x1.5558aep-5f
#define GD_EXP_C3 0x1.12398p-7f
#define GD_EXP_C4 0x1.6a4e74p-10f
#define GD_LOG_C0 0x1.5555a4p-2f  /* log(1+f) = f - f^2/2 + f^3 (C0 + C1 f + ...), -0.25 <= f < 0.5 [2^-27.6] */
#define GD_LOG_C1 -0x1.00004ap-2f
#define GD_LOG_C2 0x1.99699ep-3f
#define GD_LOG_C3 -0x1.54ed96p-3f
#define GD_LOG_C4 0x1.28807ap-3f
#define GD_LOG_C5 -0x1.0d98fp-3f
#define GD_LOG_C6 0x1.acf4aap-4f
#define GD_LOG_C7 -0x1.71e334p-5f
#define GD_TANH_C0 -0x1.555532p-2f /* tanh(x) = x + x^3 (C0 + C1 x^2 + ...), |x| < 0.625 [2^-27.7] */
#define GD_TANH_C1 0x1.1106f6p-3f
#define GD_TANH_C2 -0x1.b835a4p-5f
#define GD_TANH_C3 0x1.51f8cep-6f
#define GD_TANH_C4 -0x1.750ce4p-8f
#define GD_SIN_C0 -0x1.555556p-3f /* sin(r) = r + r^3 (C0 + C1 r^2 + ...), |r| <= pi/4 [2^-32.5] */
#define GD_SIN_C1 0x1.111174p-7f
#define GD_SIN_C2 -0x1.a0596ap-13f
#define GD_SIN_C3 0x1.7c377cp-19f
#define GD_COS_C0 -0.5f /* cos(r) = 1 + r^2 (C0 + C1 r^2 + ...) [2^-33] */
#define GD_COS_C1 0x1.55554ap-5f
#define GD_COS_C2 -0x1.6c0c28p-10f
#define GD_COS_C3 0x1.99e80cp-16f
#define GD_LOG1P_C0 -0x1.fffff6p-2f /* log(1+e) = e + e^2 (C0 + C1 e + ...), 0 <= e <= 1 [2^-29.9] */
#define GD_LOG1P_C1 0x1.55537p-2f
#define GD_LOG1P_C2 -0x1.ffbeb8p-3f
#define GD_LOG1P_C3 0x1.975f96p-3f
#define GD_LOG1P_C4 -0x1.49d35ap-3f
#define GD_LOG1P_C5 0x1.fc6474p-4f
#define GD_LOG1P_C6 -0x1.512058p-4f
#define GD_LOG1P_C7 0x1.529e9cp-5f
#define GD_LOG1P_C8 -0x1.b4cf12p-7f
#define GD_LOG1P_C9 0x1.07e0fcp-9f

/* ---- What elementary.h is written in, for one number ------------------------------------------------------------ */

/* 2^k for -126 <= k <= 127; anything for other k. */
GD_SCALAR float gd_pow2_f32(int32_t k) { return gd_f32_of_bits(((uint32_t)k + 127u) << 23); }

/* The least of a limit and a size x >= 0; NaN passes. By bits, because with a branch GCC knows a table's interval in one
 * arm, makes the look-up conditional and does not vectorise. */
GD_SCALAR float gd_least_size_f32(float limit, float x) {
    const uint32_t a = gd_bits_of_f32(limit), b = gd_bits_of_f32(x);
    const float least = gd_f32_of_bits(a < b ? a : b);
    return x != x ? x : least;
}

/* The whole number n as an integer; anything for NaN. */
GD_SCALAR int32_t gd_whole_f32(float n) {
    return (int32_t)(gd_bits_of_f32(n + GD_ROUND_F32) - gd_bits_of_f32(GD_ROUND_F32));
}

/* y * 2^n rounded once, for whole |n| < 250 and 1e-3 < y < 1e3. */
GD_SCALAR float gd_scale_f32(float y, float n) {
    int32_t k = gd_whole_f32(n), half = k >> 1; /* two factors, the first product is exact */
    return y * gd_pow2_f32(half) * gd_pow2_f32(k - half);
}

/* a*b - p for p = a*b rounded, exactly if not tiny: without the instruction from halves of 12 bits. */
GD_SCALAR float gd_rounded_away_f32(float a, float b, float p) {
#if GD_HAS_FMA
    return GD_FMA(a, b, -p);
#else
    const float ah = gd_f32_of_bits(gd_bits_of_f32(a) & 0xfffff000u), al = a - ah;
    const float bh = gd_f32_of_bits(gd_bits_of_f32(b) & 0xfffff000u), bl = b - bh;
    const float away = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
    return fabsf(p) < 1e-30f ? 0.0f : away; /* there the halves' products are not exact */
#endif
}

/* c - a*b for c near a*b, exactly. */
GD_SCALAR float gd_left_f32(float c, float a, float b) {
#if GD_HAS_FMA
    return GD_FMA(-a, b, c);
#else
    const float p = a * b;
    return (c - p) - gd_rounded_away_f32(a, b, p);
#endif
}

/* Splits a positive finite x into 2^e * m, 0.75 <= m < 1.5. Anything for other x. */
GD_SCALAR float gd_mantissa_f32(float x, float *e) {
    int32_t tiny = x < 0x1p-126f;
    uint32_t bits = gd_bits_of_f32(tiny ? x * 0x1p23f : x);
    uint32_t exponent = (uint32_t)((int32_t)(bits - 0x3f400000u) >> 23); /* 0x3f400000: 0.75 */
    *e = (float)(int32_t)exponent - (tiny ? 23.0f : 0.0f);
    return gd_f32_of_bits(bits - (exponent << 23));
}

#define F float
#define NAME(function) gd_##function##_f32
#define INLINE GD_SCALAR
#define K(constant) (constant)
#define FMA(a, b, c) GD_FMA(a, b, c)
#define LESS(a, b) ((a) < (b))
#define PICK(which, a, b) ((which) ? (a) : (b))
#define LEAST(limit, x) ((x) > (limit) ? (limit) : (x))
#define LEAST_SIZE(limit, x) gd_least_size_f32(limit, x)
#define MOST(limit, x) ((x) < (limit) ? (limit) : (x))
#define ABS(x) fabsf(x)
#define SIGNED(magnitude, sign) copysignf(magnitude, sign)
#define SCALE(y, n) gd_scale_f32(y, n)
#define HALF_POWER(n) gd_pow2_f32(gd_whole_f32(n) - 1)
#define ROUNDED_AWAY(a, b, p) gd_rounded_away_f32(a, b, p)
#define LEFT(c, a, b) gd_left_f32(c, a, b)
#define MANTISSA(x, e) gd_mantissa_f32(x, e)
#define LOG_ENDS(x, y) gd_log_ends_f32(x, y)
#define LOG1P_ENDS(x, y) gd_log_ends_f32(x, y)
#define WORD uint32_t
#define WORD_OF(x) gd_bits_of_f32(x)
#define WORD_PLUS(w, k) ((w) + (uint32_t)(k))
#define ODD(w) (((w) & 1u) != 0)
#define TURNED(y, turns, x) gd_f32_of_bits(gd_bits_of_f32(y) ^ ((((turns) << 30) ^ gd_bits_of_f32(x)) & 0x80000000u)) /* signs of turn and x */
#define I int32_t
#define INTERVAL(x, first, shift) (int32_t)(((gd_bits_of_f32(x) - gd_bits_of_f32(first)) >> (shift)) & 15u)
#define LOOKUP(table, row, i) table[row][i]

/* ... and for one float64. */
#define D double
#define DNAME(function) gd_##function##_f64
#define DK(constant) (constant)
#define DFMA(a, b, c) GD_FMA(a, b, c)
#define DBITS uint64_t
#define DBITS_OF(x, bits) memcpy(&(bits), &(x), sizeof(bits))
#define DPICK_BIT(bits, bit, a, b) (((bits) & (bit)) ? (a) : (b))

#define EQUAL(a, b) ((a) == (b))
#define WHOLE(x) rintf(x)
#define DLEAST(limit, x) ((x) > (limit) ? (limit) : (x))
#define DMOST(limit, x) ((x) < (limit) ? (limit) : (x))
#define DFROM_BITS(bits, x) memcpy(&(x), &(bits), sizeof(x))
#define DEXPONENT(whole) ((whole) << 52) /* what adds a whole number, found in the low bits, to an exponent */

#include "elementary_wide.h"

GD_SCALAR float gd_log10_wide_f32(float m, float e) { return (float)gd_log10_wide_f64((double)m, (double)e); }
GD_SCALAR float gd_pow_wide_f32(float m, float e, float y) { return (float)gd_pow_wide_f64((double)m, (double)e, (double)y); }

#include "elementary.h"

/* sin(x + quarter pi/2) for |x| <= GD_SIN_NEAR_F32 or NaN. */
#define GD_SIN_NEAR_F32 1e6f
#if !GD_HAS_FMA
GD_SCALAR float gd_sin_near_f32(float x, int quarter) { return (float)gd_sin_near_f64((double)x, (uint64_t)quarter); }
#endif

/* Huge arguments need pi to hundreds of bits: the library's reduction. */
GD_SCALAR float gd_sin_f32(float x) {
    return fabsf(x) > GD_SIN_NEAR_F32 ? (float)sin((double)x) : gd_sin_near_f32(x, 0);
}
GD_SCALAR float gd_cos_f32(float x) {
    return fabsf(x) > GD_SIN_NEAR_F32 ? (float)cos((double)x) : gd_sin_near_f32(x, 1);
}

/* ---- float64: the C library's ------------------------------------------------------------------------------------ */

GD_SCALAR double gd_exp_f64(double x) { return exp(x); }
GD_SCALAR double gd_expm1_f64(double x) { return expm1(x); }
GD_SCALAR double gd_log_f64(double x) { return log(x); }
GD_SCALAR double gd_log1p_f64(double x) { return log1p(x); }
GD_SCALAR double gd_log2_f64(double x) { return log2(x); }
GD_SCALAR double gd_tanh_f64(double x) { return tanh(x); }
GD_SCALAR double gd_sin_f64(double x) { return sin(x); }
GD_SCALAR double gd_cos_f64(double x) { return cos(x); }

GD_SCALAR double gd_erf_f64(double x) { return erf(x); }
GD_SCALAR double gd_pow_f64(double x, double y) { return y == 2.0 ? x * x : pow(x, y); }

GD_SCALAR double gd_sigmoid_f64(double x) {
    double e = exp(-fabs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

/* As in elementary.h: f(x) = max(x, 0) - rest(|x|) for gelu and silu, and their slopes from those of the rest. */
#define GD_SQRT_HALF_F64 0.70710678118654752440
#define GD_SQRT_2PI_INVERSE_F64 0.39894228040143267794
GD_SCALAR double gd_positive_f64(double x) { return x < 0.0 ? -0.0 : x; }
GD_SCALAR double gd_up_to_f64(double limit, double x) { return x > limit ? limit : x; }

GD_SCALAR double gd_gelu_f64(double x) {
    double t = gd_up_to_f64(40.0, fabs(x));
    return gd_positive_f64(x) - t * (0.5 * erfc(t * GD_SQRT_HALF_F64));
}

GD_SCALAR double gd_gelu_slope_f64(double x) {
    double t = gd_up_to_f64(40.0, fabs(x));
    double slope = 0.5 * erfc(t * GD_SQRT_HALF_F64) - t * GD_SQRT_2PI_INVERSE_F64 * exp(-0.5 * t * t);
    return x < 0.0 ? slope : 1.0 - slope;
}

/* t sigmoid(-z), and its slope where z has the slope dz */
GD_SCALAR double gd_gated_rest_f64(double t, double z) {
    double e = exp(-z);
    return t * e / (1.0 + e);
}
GD_SCALAR double gd_gated_slope_f64(double x, double t, double z, double dz) {
    double e = exp(-z), share = 1.0 / (1.0 + e);
    double slope = e * share * (1.0 - t * share * dz);
    return x < 0.0 ? slope : 1.0 - slope;
}

GD_SCALAR double gd_gelu_tanh_f64(double x) {
    double t = gd_up_to_f64(25.0, fabs(x));
    return gd_positive_f64(x) - gd_gated_rest_f64(t, t * (GD_GELU_A + GD_GELU_B * (t * t)));
}
GD_SCALAR double gd_gelu_tanh_slope_f64(double x) {
    double t = gd_up_to_f64(25.0, fabs(x)), square = t * t;
    return gd_gated_slope_f64(x, t, t * (GD_GELU_A + GD_GELU_B * square), GD_GELU_A + 3.0 * GD_GELU_B * square);
}

GD_SCALAR double gd_silu_f64(double x) {
    double t = gd_up_to_f64(800.0, fabs(x));
    return gd_positive_f64(x) - gd_gated_rest_f64(t, t);
}
GD_SCALAR double gd_silu_slope_f64(double x) {
    double t = gd_up_to_f64(800.0, fabs(x));
    return gd_gated_slope_f64(x, t, t, 1.0);
}

GD_SCALAR double gd_softplus_f64(double x, double beta, double threshold) {
    double z = x * beta;
    double y = ((z < 0.0 ? 0.0 : z) + log1p(exp(-fabs(z)))) / beta;
    return z > threshold ? x : y;
}
GD_SCALAR double gd_softplus_slope_f64(double x, double beta, double threshold) {
    double z = x * beta;
    return z > threshold ? 1.0 : gd_sigmoid_f64(z);
}

GD_SCALAR double gd_elu_f64(double x, double negative, double positive, double inner) { return x > 0.0 ? x * positive : negative * expm1(x * inner); }
GD_SCALAR double gd_elu_slope_f64(double x, double negative, double positive, double inner) { return x > 0.0 ? positive : negative * exp(x * inner); }

GD_SCALAR double gd_mish_f64(double x) {
    double e = exp(x > 50.0 ? 50.0 : x), n = e * (e + 2.0);
    return (x < -800.0 ? -800.0 : x) * (n / (n + 2.0));
}
GD_SCALAR double gd_mish_slope_f64(double x) {
    double t = x > 50.0 ? 50.0 : x < -800.0 ? -800.0 : x, e = exp(t), n = e * (e + 2.0), share = 1.0 / (n + 2.0);
    return share * (4.0 * t * e * ((e + 1.0) * share) + n);
}

GD_SCALAR double gd_log_sigmoid_f64(double x) { return (x < 0.0 ? x : 0.0) - log1p(exp(-fabs(x))); }

#endif
