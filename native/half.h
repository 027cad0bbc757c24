/* half.h - bfloat16 and float16 as bits: exact widening to float32, and narrowing to the nearest, halves to even.
 * Branch-free, so that loops vectorise. NaN stays NaN, what is too large becomes infinite, denormals are exact. */
#ifndef GRADINO_HALF_H
#define GRADINO_HALF_H

#include "kernel.h"
#include "scalar.h"

/* Contiguous runs of dtype GD_BFLOAT16 or GD_FLOAT16, to and from float32 (cast.c). */
typedef void gd_narrow_half(uint16_t *to, const float *from, int64_t n, int dtype);
typedef void gd_widen_half(float *to, const uint16_t *from, int64_t n, int dtype);
#pragma GCC visibility push(hidden)
gd_narrow_half gd_narrow_half_portable, gd_narrow_half_avx2, gd_narrow_half_avx512;
gd_widen_half gd_widen_half_portable, gd_widen_half_avx2, gd_widen_half_avx512;
/* Light elementwise ops on halves all alike, in registers; false where there is no loop for the op or for the strides. */
bool gd_unary_halves_avx512(int op, const gd_args *a);
bool gd_binary_halves_avx512(int op, const gd_args *a);
#pragma GCC visibility pop

/* The upper half of a float32. */
GD_SCALAR float gd_f32_of_bf16(uint16_t h) { return gd_f32_of_bits((uint32_t)h << 16); }

GD_SCALAR uint16_t gd_bf16_of_f32(float x) {
    uint32_t bits = gd_bits_of_f32(x);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16; /* a carry goes into the exponent, at the end to infinity */
    return (uint16_t)(x == x ? rounded : (bits >> 16 | 0x40u));    /* 0x40: quiet */
}

/* 1 sign, 5 exponent (bias 15), 10 mantissa bits; float32 has 8 (bias 127) and 23. */
GD_SCALAR float gd_f32_of_f16(uint16_t h) {
    uint32_t sign = (h & 0x8000u) << 16, bits = (h & 0x7fffu) << 13;
    uint32_t normal = bits + (112u << 23);
    uint32_t special = bits + (224u << 23); /* exponent 31 becomes 255 */
    uint32_t quiet = bits > 31u << 23 ? 1u << 22 : 0u;
    uint32_t denormal = gd_bits_of_f32(gd_f32_of_bits(bits + (113u << 23)) - 0x1p-14f);
    uint32_t finite = bits < 1u << 23 ? denormal : normal;
    return gd_f32_of_bits(sign | (bits >= 31u << 23 ? special | quiet : finite));
}

GD_SCALAR uint16_t gd_f16_of_f32(float x) {
    uint32_t bits = gd_bits_of_f32(x), sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    uint32_t most = 143u << 23, fits = bits < most ? bits : most; /* 2^16 is beyond the largest: it becomes infinity */
    uint32_t normal = (fits - (112u << 23) + 0xfffu + (fits >> 13 & 1u)) >> 13;
    /* below 2^-14 the unit is 2^-24, as that of a float32 in [0.5, 1) */
    uint32_t denormal = gd_bits_of_f32(gd_f32_of_bits(bits < 113u << 23 ? bits : 0u) + 0.5f) - gd_bits_of_f32(0.5f);
    uint32_t number = bits < 113u << 23 ? denormal : normal;
    uint32_t nan = 0x7e00u | (bits >> 13 & 0x3ffu);
    return (uint16_t)(sign | (x == x ? number : nan));
}

/* float64 as a float32 that is odd where it is inexact: rounding that again gives what one rounding would. */
GD_SCALAR float gd_odd_f32_of_f64(double x) {
    float f = (float)x;
    uint32_t bits = gd_bits_of_f32(f);
    uint32_t other = fabs((double)f) < fabs(x) ? bits + 1u : bits - 1u;
    int inexact_and_even = (x == x) & ((double)f != x) & ((bits & 1u) == 0);
    return inexact_and_even ? gd_f32_of_bits(other) : f;
}

/* int64 as a float64 that, where it is inexact, is on the same side of every half as the integer. */
GD_SCALAR double gd_odd_f64_of_i64(int64_t x) {
    uint64_t size = x < 0 ? 0u - (uint64_t)x : (uint64_t)x;
    uint64_t odd = size >> 11 | ((size & 2047u) != 0);
    double y = size < (uint64_t)1 << 53 ? (double)(int64_t)size : (double)(int64_t)odd * 2048.0;
    return x < 0 ? -y : y;
}

GD_SCALAR uint16_t gd_bf16_of_f64(double x) { return gd_bf16_of_f32(gd_odd_f32_of_f64(x)); }
GD_SCALAR uint16_t gd_f16_of_f64(double x) { return gd_f16_of_f32(gd_odd_f32_of_f64(x)); }

/* The largest number of the type that is not above x, which is not NaN. */
GD_SCALAR uint16_t gd_half_below(uint16_t h, float of_h, float x) { return of_h <= x ? h : (uint16_t)(of_h > 0 ? h - 1 : h + 1); }

#endif
