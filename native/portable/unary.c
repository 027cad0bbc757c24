/* unary.c - ops with one input, copies, and the fused slopes of their gradients.
 * One line an op: its expression for float32, float64, integers and bool; x is the element. */
#include "elementwise.h"

#include "../scalar.h"

/* Integer expressions compute in the unsigned type u, which wraps without undefined behaviour. */
#define UNARY_NUM(op, f32, f64, integer, boolean)                             \
    GD_LOOP1(op##_f32, float, float, f32)                                     \
    GD_LOOP1(op##_f64, double, double, f64)                                   \
    GD_LOOP1_WITH(op##_i64, int64_t, int64_t, GD_UNSIGNED(uint64_t), integer) \
    GD_LOOP1_WITH(op##_i32, int32_t, int32_t, GD_UNSIGNED(uint32_t), integer) \
    GD_LOOP1(op##_bool, uint8_t, uint8_t, boolean)                            \
    GD_ELEMENTWISE(op, 1, GD_TILE_LIGHT, op##_f32, op##_f64, op##_i64, op##_i32, op##_bool)

#define UNARY_FLOAT(op, tile, f32, f64)     \
    GD_LOOP1(op##_f32, float, float, f32)   \
    GD_LOOP1(op##_f64, double, double, f64) \
    GD_ELEMENTWISE(op, 1, tile, op##_f32, op##_f64)

#define UNARY_BOOL(op, expression)                    \
    GD_LOOP1(op##_f32, uint8_t, float, expression)    \
    GD_LOOP1(op##_f64, uint8_t, double, expression)   \
    GD_LOOP1(op##_i64, uint8_t, int64_t, expression)  \
    GD_LOOP1(op##_i32, uint8_t, int32_t, expression)  \
    GD_LOOP1(op##_bool, uint8_t, uint8_t, expression) \
    GD_ELEMENTWISE(op, 1, GD_TILE_LIGHT, op##_f32, op##_f64, op##_i64, op##_i32, op##_bool)

/* (g, y): 0 where g is 0, so that an infinite or NaN slope does not spread. */
#define SLOPE(op, expression)                          \
    GD_LOOP2(op##_bwd_f32, float, float, expression)   \
    GD_LOOP2(op##_bwd_f64, double, double, expression) \
    GD_ELEMENTWISE(op##_bwd, 2, GD_TILE_LIGHT, op##_bwd_f32, op##_bwd_f64)

UNARY_NUM(neg, -x, -x, 0 - (u)x, x)
UNARY_NUM(abs, fabsf(x), fabs(x), x < 0 ? 0 - (u)x : (u)x, x)
UNARY_NUM(sign, (float)((x > 0) - (x < 0)), (double)((x > 0) - (x < 0)), (x > 0) - (x < 0), x) /* 0 of NaN, as PyTorch */
UNARY_NUM(square, x * x, x * x, (u)x * (u)x, x)
UNARY_NUM(floor, floorf(x), floor(x), (u)x, x)
UNARY_NUM(ceil, ceilf(x), ceil(x), (u)x, x)
UNARY_NUM(round, rintf(x), rint(x), (u)x, x)
UNARY_NUM(trunc, truncf(x), trunc(x), (u)x, x)

UNARY_FLOAT(sqrt, GD_TILE_LIGHT, sqrtf(x), sqrt(x))
UNARY_FLOAT(rsqrt, GD_TILE_LIGHT, 1.0f / sqrtf(x), 1.0 / sqrt(x))
UNARY_FLOAT(reciprocal, GD_TILE_LIGHT, 1.0f / x, 1.0 / x)
UNARY_FLOAT(exp, GD_TILE_HEAVY, gd_exp_f32(x), gd_exp_f64(x))
UNARY_FLOAT(expm1, GD_TILE_HEAVY, gd_expm1_f32(x), gd_expm1_f64(x))
UNARY_FLOAT(log, GD_TILE_HEAVY, gd_log_f32(x), gd_log_f64(x))
UNARY_FLOAT(log1p, GD_TILE_HEAVY, gd_log1p_f32(x), gd_log1p_f64(x))
UNARY_FLOAT(log2, GD_TILE_HEAVY, gd_log2_f32(x), gd_log2_f64(x))
UNARY_FLOAT(exp2, GD_TILE_HEAVY, gd_exp2_f32(x), exp2(x))
UNARY_FLOAT(log10, GD_TILE_HEAVY, gd_log10_f32(x), log10(x))
UNARY_FLOAT(sinh, GD_TILE_HEAVY, gd_sinh_f32(x), sinh(x))
UNARY_FLOAT(cosh, GD_TILE_HEAVY, gd_cosh_f32(x), cosh(x))
UNARY_FLOAT(erfc, GD_TILE_HEAVY, gd_erfc_f32(x), erfc(x))
UNARY_FLOAT(erf, GD_TILE_HEAVY, gd_erf_f32(x), gd_erf_f64(x))

/* Elements that are looked through for huge angles before one loop without branches does them all. */
enum { ANGLES = 64 };

#define ANGLE_LOOP(op, quarter)                                                                \
    static void op##_f32(const gd_row_span *s) {                                                   \
        for (int64_t row = 0; row < s->rows; row++) {                                          \
            float *o = (float *)(void *)s->data[0] + row * s->row_step[0];                     \
            const float *x = (const float *)(void *)s->data[1] + row * s->row_step[1];         \
            for (int64_t from = 0; from < s->n; from += ANGLES) {                              \
                const int64_t to = from + ANGLES < s->n ? from + ANGLES : s->n;                \
                int huge = s->kind != GD_CONTIGUOUS;                                           \
                if (!huge)                                                                     \
                    for (int64_t i = from; i < to; i++) huge |= fabsf(x[i]) > GD_SIN_NEAR_F32; \
                if (huge) {                                                                    \
                    for (int64_t i = from; i < to; i++)                                        \
                        o[i * s->step[0]] = gd_##op##_f32(x[i * s->step[1]]);                  \
                } else {                                                                       \
                    GD_INDEPENDENT for (int64_t i = from; i < to; i++)                         \
                        o[i] = gd_sin_near_f32(x[i], quarter);                                 \
                }                                                                              \
            }                                                                                  \
        }                                                                                      \
    }                                                                                          \
    GD_LOOP1(op##_f64, double, double, gd_##op##_f64(x))                                       \
    GD_ELEMENTWISE(op, 1, GD_TILE_HEAVY, op##_f32, op##_f64)
ANGLE_LOOP(sin, 0)
ANGLE_LOOP(cos, 1)

UNARY_BOOL(logical_not, x == 0)
UNARY_BOOL(isnan, x != x)
UNARY_BOOL(isfinite, x - x == 0)

GD_LOOP1(signbit_f32, uint8_t, float, gd_bits_of_f32(x) >> 31)
GD_LOOP1(signbit_f64, uint8_t, double, signbit(x) != 0)
GD_LOOP1(signbit_i64, uint8_t, int64_t, x < 0)
GD_LOOP1(signbit_i32, uint8_t, int32_t, x < 0)
GD_LOOP1(signbit_bool, uint8_t, uint8_t, 0 * x)
GD_ELEMENTWISE(signbit, 1, GD_TILE_LIGHT, signbit_f32, signbit_f64, signbit_i64, signbit_i32, signbit_bool)

/* ---- Activations: forward, and slope from the output y ------------------------------------- */

/* NaN and -0 pass. */
UNARY_NUM(relu, x < 0 ? 0 : x, x < 0 ? 0 : x, x < 0 ? 0 : (u)x, x)
SLOPE(relu, y <= 0 ? 0 : x)

UNARY_FLOAT(tanh, GD_TILE_HEAVY, gd_tanh_f32(x), gd_tanh_f64(x))
SLOPE(tanh, x == 0 ? 0 : x * ((1 - y) * (1 + y)))

UNARY_FLOAT(sigmoid, GD_TILE_HEAVY, gd_sigmoid_f32(x), gd_sigmoid_f64(x))
SLOPE(sigmoid, x == 0 ? 0 : x * (y * (1 - y)))

/* ---- Activations whose slope is that of the input: (g, x), written g * f'(x), 0 where g is 0 ------------ */

#define GATED(op)                                                                        \
    UNARY_FLOAT(op, GD_TILE_HEAVY, gd_##op##_f32(x), gd_##op##_f64(x))                   \
    GD_LOOP2(op##_bwd_f32, float, float, x == 0 ? 0 : x * gd_##op##_slope_f32(y))        \
    GD_LOOP2(op##_bwd_f64, double, double, x == 0 ? 0 : x * gd_##op##_slope_f64(y))      \
    GD_ELEMENTWISE(op##_bwd, 2, GD_TILE_HEAVY, op##_bwd_f32, op##_bwd_f64)
GATED(gelu)
GATED(gelu_tanh)
GATED(silu)

#define CURVE(type) const type beta = (type)s->attr->f[0], threshold = (type)s->attr->f[1]
#define CURVE_AND_INVERSE CURVE(float), inverse = 1.0f / beta
#define SOFTPLUS_BWD(suffix) x == 0 ? 0 : x * gd_softplus_slope_##suffix(y, beta, threshold)
GD_LOOP1_WITH(softplus_f32, float, float, CURVE_AND_INVERSE, gd_softplus_f32(x, beta, inverse, threshold))
GD_LOOP1_WITH(softplus_f64, double, double, CURVE(double), gd_softplus_f64(x, beta, threshold))
GD_ELEMENTWISE(softplus, 1, GD_TILE_HEAVY, softplus_f32, softplus_f64)
GD_LOOP2_WITH(softplus_bwd_f32, float, float, CURVE(float), SOFTPLUS_BWD(f32))
GD_LOOP2_WITH(softplus_bwd_f64, double, double, CURVE(double), SOFTPLUS_BWD(f64))
GD_ELEMENTWISE(softplus_bwd, 2, GD_TILE_HEAVY, softplus_bwd_f32, softplus_bwd_f64)

/* ---- Activations with attributes ------------------------------------------------------------------ */

#define LEAK(type) const type leak = (type)s->attr->f[0]
GD_LOOP1_WITH(leaky_relu_f32, float, float, LEAK(float), x > 0 ? x : x * leak)
GD_LOOP1_WITH(leaky_relu_f64, double, double, LEAK(double), x > 0 ? x : x * leak)
GD_ELEMENTWISE(leaky_relu, 1, GD_TILE_LIGHT, leaky_relu_f32, leaky_relu_f64)
GD_LOOP2_WITH(leaky_relu_bwd_f32, float, float, LEAK(float), y > 0 ? x : x * leak)
GD_LOOP2_WITH(leaky_relu_bwd_f64, double, double, LEAK(double), y > 0 ? x : x * leak)
GD_ELEMENTWISE(leaky_relu_bwd, 2, GD_TILE_LIGHT, leaky_relu_bwd_f32, leaky_relu_bwd_f64)

#define ELU(type)                                                                                       \
    const double alpha = s->attr->f[0], scale = s->attr->f[1], rate = s->attr->i[0] ? 1 / alpha : 1;    \
    const type positive = (type)scale, negative = (type)(alpha * scale), steep = (type)(alpha * scale * rate), inner = (type)rate; \
    (void)negative, (void)steep
GD_LOOP1_WITH(elu_f32, float, float, ELU(float), gd_elu_f32(x, negative, positive, inner))
GD_LOOP1_WITH(elu_f64, double, double, ELU(double), gd_elu_f64(x, negative, positive, inner))
GD_ELEMENTWISE(elu, 1, GD_TILE_HEAVY, elu_f32, elu_f64)
GD_LOOP2_WITH(elu_bwd_f32, float, float, ELU(float), x == 0 ? 0 : x * gd_elu_slope_f32(y, steep, positive, inner))
GD_LOOP2_WITH(elu_bwd_f64, double, double, ELU(double), x == 0 ? 0 : x * gd_elu_slope_f64(y, steep, positive, inner))
GD_ELEMENTWISE(elu_bwd, 2, GD_TILE_HEAVY, elu_bwd_f32, elu_bwd_f64)

GATED(mish)
/* x * 6 / 6 is x, but where x * 6 overflows */
#define HARDSWISH(x) ((x) >= 3 ? (x) : (x) * ((x) + 3 < 0 ? 0 : (x) + 3) / 6)
UNARY_FLOAT(hardswish, GD_TILE_LIGHT, HARDSWISH(x), HARDSWISH(x))
GD_LOOP2(hardswish_bwd_f32, float, float, y <= -3 ? 0 : y >= 3 ? x : x == 0 ? 0 : x * (y / 3 + 0.5f))
GD_LOOP2(hardswish_bwd_f64, double, double, y <= -3 ? 0 : y >= 3 ? x : x == 0 ? 0 : x * (y / 3 + 0.5))
GD_ELEMENTWISE(hardswish_bwd, 2, GD_TILE_LIGHT, hardswish_bwd_f32, hardswish_bwd_f64)
UNARY_FLOAT(log_sigmoid, GD_TILE_HEAVY, gd_log_sigmoid_f32(x), gd_log_sigmoid_f64(x))
GD_LOOP2(log_sigmoid_bwd_f32, float, float, x == 0 ? 0 : x * gd_sigmoid_f32(-y))
GD_LOOP2(log_sigmoid_bwd_f64, double, double, x == 0 ? 0 : x * gd_sigmoid_f64(-y))
GD_ELEMENTWISE(log_sigmoid_bwd, 2, GD_TILE_HEAVY, log_sigmoid_bwd_f32, log_sigmoid_bwd_f64)

#define ENDS(type) const type low = (type)s->attr->f[0], high = (type)s->attr->f[1]
GD_LOOP1_WITH(hardtanh_f32, float, float, ENDS(float), x < low ? low : x > high ? high : x)
GD_LOOP1_WITH(hardtanh_f64, double, double, ENDS(double), x < low ? low : x > high ? high : x)
GD_ELEMENTWISE(hardtanh, 1, GD_TILE_LIGHT, hardtanh_f32, hardtanh_f64)
GD_LOOP2_WITH(hardtanh_bwd_f32, float, float, ENDS(float), ((y <= low) | (y >= high)) ? 0 : x)
GD_LOOP2_WITH(hardtanh_bwd_f64, double, double, ENDS(double), ((y <= low) | (y >= high)) ? 0 : x)
GD_ELEMENTWISE(hardtanh_bwd, 2, GD_TILE_LIGHT, hardtanh_bwd_f32, hardtanh_bwd_f64)

/* ---- Clamp: NaN elements pass, a NaN bound is absent, the upper bound wins ------------------- */

/* The bound as an integer of the range, rounded inwards by the caller. */
static int64_t integer_bound(double bound, int64_t absent, int64_t least, int64_t most) {
    if (bound != bound) return absent;
    if (bound <= (double)least) return least;
    return bound >= (double)most ? most : (int64_t)bound;
}

#define FLOAT_BOUNDS(type)                                     \
    const double min = s->attr->f[0], max = s->attr->f[1];     \
    const type low = min != min ? (type)-INFINITY : (type)min; \
    const type high = max != max ? (type)INFINITY : (type)max
#define INTEGER_BOUNDS(type, least, most)                                          \
    const type low = (type)integer_bound(ceil(s->attr->f[0]), least, least, most); \
    const type high = (type)integer_bound(floor(s->attr->f[1]), most, least, most)

#define CLAMP (x < low ? low : x) > high ? high : (x < low ? low : x)
GD_LOOP1_WITH(clamp_f32, float, float, FLOAT_BOUNDS(float), CLAMP)
GD_LOOP1_WITH(clamp_f64, double, double, FLOAT_BOUNDS(double), CLAMP)
GD_LOOP1_WITH(clamp_i64, int64_t, int64_t, INTEGER_BOUNDS(int64_t, INT64_MIN, INT64_MAX), CLAMP)
GD_LOOP1_WITH(clamp_i32, int32_t, int32_t, INTEGER_BOUNDS(int32_t, INT32_MIN, INT32_MAX), CLAMP)
GD_LOOP1_WITH(clamp_bool, uint8_t, uint8_t, INTEGER_BOUNDS(uint8_t, 0, 1), CLAMP)
GD_ELEMENTWISE(clamp, 1, GD_TILE_LIGHT, clamp_f32, clamp_f64, clamp_i64, clamp_i32, clamp_bool)

/* (g, x): the bounds themselves pass the gradient, NaN does not. */
#define INSIDE ((y >= low) & (y <= high)) ? x : 0
GD_LOOP2_WITH(clamp_bwd_f32, float, float, FLOAT_BOUNDS(float), INSIDE)
GD_LOOP2_WITH(clamp_bwd_f64, double, double, FLOAT_BOUNDS(double), INSIDE)
GD_ELEMENTWISE(clamp_bwd, 2, GD_TILE_LIGHT, clamp_bwd_f32, clamp_bwd_f64)

/* ---- Copy ------------------------------------------------------------------------------------ */

/* Rows and columns of a block that is copied across the grain: both sides of it stay in L1. */
enum { BLOCK = 32 };
/* Threads add little to a copy, and a transposing one wants many rows in a task. */
enum { TILE_COPY = 65536 };

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

#define COPY_LOOP(name, word)                                                                              \
    static void name(const gd_row_span *s) {                                                                   \
        const int64_t n = s->n, so = s->step[0], sx = s->step[1];                                          \
        const int64_t ro = s->row_step[0], rx = s->row_step[1];                                            \
        word *o = (word *)(void *)s->data[0];                                                              \
        const word *x = (const word *)(void *)s->data[1];                                                  \
        if (so == 1 && rx == 1 && sx > 1) { /* transposes */                                               \
            for (int64_t r0 = 0; r0 < s->rows; r0 += BLOCK)                                                \
                for (int64_t i0 = 0; i0 < n; i0 += BLOCK)                                                  \
                    for (int64_t r = r0; r < least(r0 + BLOCK, s->rows); r++)                              \
                        for (int64_t i = i0; i < least(i0 + BLOCK, n); i++) o[r * ro + i] = x[i * sx + r]; \
            return;                                                                                        \
        }                                                                                                  \
        for (int64_t row = 0; row < s->rows; row++, o += ro, x += rx) {                                    \
            if (s->kind == GD_CONTIGUOUS) {                                                                \
                if (o != x) memcpy(o, x, (size_t)n * sizeof(word));                                        \
            } else if (s->kind == GD_A_SCALAR) {                                                           \
                const word value = *x;                                                                     \
                for (int64_t i = 0; i < n; i++) o[i] = value;                                              \
            } else {                                                                                       \
                for (int64_t i = 0; i < n; i++) o[i * so] = x[i * sx];                                     \
            }                                                                                              \
        }                                                                                                  \
    }
COPY_LOOP(copy_8, uint8_t)
COPY_LOOP(copy_16, gd_word16)
COPY_LOOP(copy_32, gd_word32)
COPY_LOOP(copy_64, gd_word64)
GD_ELEMENTWISE(copy, 1, TILE_COPY, copy_32, copy_64, copy_64, copy_32, copy_8, copy_16, copy_16)
