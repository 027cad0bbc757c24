/* scalar.h - scalar formulas of the elementary functions, shared by the CPU kernels and CUDA.
 * float32: branch-free (but for huge angles), so that loops vectorise; at most 2 ULP for every input. */
#ifndef GRADINO_SCALAR_H
#define GRADINO_SCALAR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* a*b + c, rounded once where the target has the instruction and twice elsewhere. Contraction is
 * off in every build, so this is the only place where a multiply and an add may fuse. */
#if defined(__cplusplus)
#define GD_FMA(a, b, c) fma(a, b, c)
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define GD_FMA(a, b, c) _Generic((a) * (b) + (c), float: __builtin_fmaf, default: __builtin_fma)(a, b, c)
#else
#define GD_FMA(a, b, c) ((a) * (b) + (c))
#endif

#if defined(__CUDACC__)
#define GD_SCALAR static __host__ __device__ __forceinline__
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

/* Constants of the float32 functions; the vector versions in avx512/vmath.h use the same. */
#define GD_LOG2E_F32 1.44269504f
#define GD_LN2_HI_F32 0.693145752f    /* 15 significant bits: times an exponent it is exact */
#define GD_LN2_LO_F32 1.42860677e-06f /* > 0, so that an infinite exponent gives no inf - inf */
#define GD_ROUND_F32 12582912.0f      /* 1.5 * 2^23: adding it rounds to an integer */
#define GD_EXP_MAX_F32 89.0f          /* exp overflows before this ... */
#define GD_EXP_MIN_F32 (-104.0f)      /* ... and is 0 after this */
#define GD_TANH_SMALL_F32 0.625f      /* below it tanh is a polynomial */

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

/* exp(x) - 1 = 2^k (1 + r + r^2 q(r)) - 1 with x = k ln2 + r: returns r + r^2 q(r), sets k.
 * x is clamped to [GD_EXP_MIN_F32, GD_EXP_MAX_F32] by the caller or NaN (then k is anything). */
GD_SCALAR float gd_exp_reduced_f32(float x, int32_t *k) {
    float shifted = GD_FMA(x, GD_LOG2E_F32, GD_ROUND_F32);
    float n = shifted - GD_ROUND_F32;
    *k = (int32_t)(gd_bits_of_f32(shifted) - gd_bits_of_f32(GD_ROUND_F32));
    float r = GD_FMA(n, -GD_LN2_HI_F32, x);
    r = GD_FMA(n, -GD_LN2_LO_F32, r);
    float q = GD_FMA(GD_EXP_C4, r, GD_EXP_C3);
    q = GD_FMA(q, r, GD_EXP_C2);
    q = GD_FMA(q, r, GD_EXP_C1);
    q = GD_FMA(q, r, GD_EXP_C0);
    return GD_FMA(r * r, q, r);
}

/* 2^k for -126 <= k <= 127; anything for other k. */
GD_SCALAR float gd_pow2_f32(int32_t k) { return gd_f32_of_bits(((uint32_t)k + 127u) << 23); }

GD_SCALAR float gd_exp_f32(float x) {
    x = x > GD_EXP_MAX_F32 ? GD_EXP_MAX_F32 : x;
    x = x < GD_EXP_MIN_F32 ? GD_EXP_MIN_F32 : x;
    int32_t k;
    float y = gd_exp_reduced_f32(x, &k) + 1.0f;
    int32_t half = k >> 1; /* k reaches -150 and 128: two factors, the first product is exact */
    return y * gd_pow2_f32(half) * gd_pow2_f32(k - half);
}

GD_SCALAR float gd_expm1_f32(float x) {
    float c = x > GD_EXP_MAX_F32 ? GD_EXP_MAX_F32 : x;
    c = c < -20.0f ? -20.0f : c; /* the result is already -1 */
    int32_t k;
    float y = gd_exp_reduced_f32(c, &k);
    float scale = gd_pow2_f32(k - 1); /* half of 2^k, because k reaches 128 */
    y = 2.0f * GD_FMA(y, scale, scale - 0.5f);
    return fabsf(x) < 1e-7f ? x : y; /* keeps -0 and denormals */
}

/* Splits a positive finite x into 2^e * (1 + f), -0.25 <= f < 0.5. Anything for other x. */
GD_SCALAR float gd_log_reduced_f32(float x, float *e) {
    int32_t tiny = x < 0x1p-126f;
    uint32_t bits = gd_bits_of_f32(tiny ? x * 0x1p23f : x);
    uint32_t exponent = (uint32_t)((int32_t)(bits - 0x3f400000u) >> 23); /* 0x3f400000: 0.75 */
    *e = (float)(int32_t)exponent - (tiny ? 23.0f : 0.0f);
    return gd_f32_of_bits(bits - (exponent << 23)) - 1.0f;
}

/* log(1+f) - f for -0.25 <= f < 0.5. */
GD_SCALAR float gd_log1p_minus_f32(float f) {
    float p = GD_FMA(GD_LOG_C7, f, GD_LOG_C6);
    p = GD_FMA(p, f, GD_LOG_C5);
    p = GD_FMA(p, f, GD_LOG_C4);
    p = GD_FMA(p, f, GD_LOG_C3);
    p = GD_FMA(p, f, GD_LOG_C2);
    p = GD_FMA(p, f, GD_LOG_C1);
    p = GD_FMA(p, f, GD_LOG_C0);
    float square = f * f;
    return GD_FMA(square * f, p, -0.5f * square);
}

/* y, except where log x is not finite: -inf at 0, NaN below, inf at inf, NaN at NaN. */
GD_SCALAR float gd_log_specials_f32(float x, float y) {
    y = x == 0.0f ? -INFINITY : y;
    y = x < 0.0f ? NAN : y;
    return x < INFINITY ? y : x;
}

GD_SCALAR float gd_log_f32(float x) {
    float e, f = gd_log_reduced_f32(x, &e);
    float y = GD_FMA(e, GD_LN2_LO_F32, gd_log1p_minus_f32(f));
    return gd_log_specials_f32(x, GD_FMA(e, GD_LN2_HI_F32, f + y));
}

GD_SCALAR float gd_log1p_f32(float x) {
    float u = 1.0f + x;
    float lost = fabsf(x) < 1.0f ? x - (u - 1.0f) : 1.0f - (u - x); /* 1 + x = u + lost, exactly */
    float e, f = gd_log_reduced_f32(u, &e);
    float y = GD_FMA(e, GD_LN2_LO_F32, gd_log1p_minus_f32(f) + lost / u);
    y = GD_FMA(e, GD_LN2_HI_F32, f + y);
    y = gd_log_specials_f32(u, y);
    return fabsf(x) < 1e-7f ? x : y; /* keeps -0 and denormals */
}

GD_SCALAR float gd_log2_f32(float x) {
    float e, f = gd_log_reduced_f32(x, &e);
    float y = GD_FMA(f, 0.442695041f, gd_log1p_minus_f32(f) * GD_LOG2E_F32); /* log2(1+f) - f */
    float sum = f + y, lost = (f - sum) + y;
    return gd_log_specials_f32(x, (sum + e) + lost);
}

GD_SCALAR float gd_tanh_f32(float x) {
    float a = fabsf(x), z = x * x;
    float p = GD_FMA(GD_TANH_C4, z, GD_TANH_C3);
    p = GD_FMA(p, z, GD_TANH_C2);
    p = GD_FMA(p, z, GD_TANH_C1);
    p = GD_FMA(p, z, GD_TANH_C0);
    float small = GD_FMA(p * z, a, a);
    float large = 1.0f - 2.0f / (gd_exp_f32(a + a) + 1.0f);
    return copysignf(a < GD_TANH_SMALL_F32 ? small : large, x);
}

GD_SCALAR float gd_sigmoid_f32(float x) {
    float e = gd_exp_f32(-fabsf(x));
    float y = 1.0f / (1.0f + e);
    return x < 0.0f ? GD_FMA(-e, e * y, e) : y; /* e / (1 + e) = e - e^2 / (1 + e), rounded fewer times */
}

/* sin(x + quarter pi/2) for |x| <= GD_SIN_NEAR_F32 or NaN, through float64. The polynomials on
 * |r| <= pi/4 are those of FreeBSD's k_sinf.c and k_cosf.c. */
#define GD_SIN_NEAR_F32 1e6f
GD_SCALAR float gd_sin_near_f32(float x, uint64_t quarter) {
    const double round = 0x1.8p52; /* adding it rounds to an integer, found in the low bits */
    double shifted = GD_FMA((double)x, 0.63661977236758134, round);
    double n = shifted - round;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits += quarter;
    double r = GD_FMA(n, -0x1.921fb544p+0, (double)x); /* 33 bits: the product is exact */
    r = GD_FMA(n, -0x1.0b4611a626331p-34, r);
    double z = r * r;
    double sine = GD_FMA(GD_FMA(0x16cd878c3b46a7p-71, z, -0x1a00f9e2cae774p-65), z, 0x111110896efbb2p-59);
    sine = r * GD_FMA(GD_FMA(sine, z, -0x15555554cbac77p-55), z, 1.0); /* keeps -0 */
    double cosine = GD_FMA(GD_FMA(0x199342e0ee5069p-68, z, -0x16c087e80f1e27p-62), z, 0x155553e1053a42p-57);
    cosine = GD_FMA(GD_FMA(cosine, z, -0x1ffffffd0c5e81p-54), z, 1.0);
    double y = (bits & 1) ? cosine : sine;
    return (float)((bits & 2) ? -y : y);
}

/* Huge arguments need pi to hundreds of bits: the library's reduction. */
GD_SCALAR float gd_sin_f32(float x) {
    return fabsf(x) > GD_SIN_NEAR_F32 ? (float)sin((double)x) : gd_sin_near_f32(x, 0);
}
GD_SCALAR float gd_cos_f32(float x) {
    return fabsf(x) > GD_SIN_NEAR_F32 ? (float)cos((double)x) : gd_sin_near_f32(x, 1);
}

GD_SCALAR double gd_exp_f64(double x) { return exp(x); }
GD_SCALAR double gd_expm1_f64(double x) { return expm1(x); }
GD_SCALAR double gd_log_f64(double x) { return log(x); }
GD_SCALAR double gd_log1p_f64(double x) { return log1p(x); }
GD_SCALAR double gd_log2_f64(double x) { return log2(x); }
GD_SCALAR double gd_tanh_f64(double x) { return tanh(x); }
GD_SCALAR double gd_sin_f64(double x) { return sin(x); }
GD_SCALAR double gd_cos_f64(double x) { return cos(x); }

GD_SCALAR double gd_sigmoid_f64(double x) {
    double e = exp(-fabs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

#endif
