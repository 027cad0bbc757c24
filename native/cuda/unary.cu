/* unary.cu - ops with one input, and the fused slopes of their gradients. One line an op: its expression for float32, float64,
 * integers and bool; x is the element, y the second one. float32 is at most 2 ULP off: CUDA's library, or native/scalar.h. */
#include "elementwise.cuh"

#include "../scalar.h"

#define UNARY_NUM(op, f32, f64, integer, boolean)                        \
    GD_FUNCTOR_1(op##_of, T, T, , , GD_ALL_KINDS(f32, f64, integer, boolean)) \
    GD_KERNEL_ALL(op, GD_EW_EACH)
#define UNARY_FLOAT(op, f32, f64)                                   \
    GD_FUNCTOR_1(op##_of, T, T, , , GD_FLOATS(f32, f64))  \
    GD_KERNEL_FLOATS(op, GD_EW_EACH)
#define UNARY_BOOL(op, expression)                                       \
    GD_FUNCTOR_1(op##_of, uint8_t, T, , , return (uint8_t)(expression))  \
    GD_KERNEL_ALL(op, GD_EW_EACH)

UNARY_NUM(neg, -x, -x, 0 - (u)x, x)
UNARY_NUM(abs, fabsf(x), fabs(x), x < 0 ? 0 - (u)x : (u)x, x)
UNARY_NUM(sign, (x > 0) - (x < 0), (x > 0) - (x < 0), (x > 0) - (x < 0), x) /* 0 of NaN, as PyTorch */
UNARY_NUM(square, x * x, x * x, (u)x * (u)x, x)
UNARY_NUM(floor, floorf(x), floor(x), x, x)
UNARY_NUM(ceil, ceilf(x), ceil(x), x, x)
UNARY_NUM(round, rintf(x), rint(x), x, x)
UNARY_NUM(trunc, truncf(x), trunc(x), x, x)

UNARY_FLOAT(sqrt, sqrtf(x), sqrt(x))
UNARY_FLOAT(rsqrt, 1.0f / sqrtf(x), 1.0 / sqrt(x))
UNARY_FLOAT(reciprocal, 1.0f / x, 1.0 / x)
UNARY_FLOAT(exp, expf(x), exp(x))
UNARY_FLOAT(expm1, expm1f(x), expm1(x))
UNARY_FLOAT(log, logf(x), log(x))
UNARY_FLOAT(log1p, log1pf(x), log1p(x))
UNARY_FLOAT(log2, log2f(x), log2(x))
UNARY_FLOAT(exp2, exp2f(x), exp2(x))
UNARY_FLOAT(log10, log10f(x), log10(x))
UNARY_FLOAT(sinh, gd_sinh_f32(x), sinh(x))
UNARY_FLOAT(cosh, gd_cosh_f32(x), cosh(x))
UNARY_FLOAT(erfc, gd_erfc_f32(x), erfc(x))
UNARY_FLOAT(erf, erff(x), erf(x))
UNARY_FLOAT(sin, sinf(x), sin(x))
UNARY_FLOAT(cos, cosf(x), cos(x))

UNARY_BOOL(logical_not, x == 0)
UNARY_BOOL(isnan, x != x)
UNARY_BOOL(isfinite, x - x == 0)
GD_FUNCTOR_1(signbit_of, uint8_t, T, , , GD_ALL_KINDS(gd_bits_of_f32(x) >> 31, copysign(1.0, x) < 0, x < 0, 0))
GD_KERNEL_ALL(signbit, GD_EW_EACH)

/* ---- Activations: forward, and slope from the output y. 0 where g is 0, so that no infinite or NaN slope spreads --- */

#define SLOPE(op, expression)                                                                \
    GD_FUNCTOR_2(op##_bwd_of, T, T, , , return (T)(expression))                              \
    GD_KERNEL_FLOATS(op##_bwd, GD_EW_EACH)

UNARY_NUM(relu, x < 0 ? 0 : x, x < 0 ? 0 : x, x < 0 ? 0 : x, x) /* NaN and -0 pass */
SLOPE(relu, y <= 0 ? 0 : x)
UNARY_FLOAT(tanh, tanhf(x), tanh(x))
SLOPE(tanh, x == 0 ? 0 : x * ((1 - y) * (1 + y)))
UNARY_FLOAT(sigmoid, gd_sigmoid_f32(x), gd_sigmoid_f64(x))
SLOPE(sigmoid, x == 0 ? 0 : x * (y * (1 - y)))

/* Those whose slope is that of the input: (g, x) */
#define GATED(op)                                                                                                          \
    UNARY_FLOAT(op, gd_##op##_f32(x), gd_##op##_f64(x))                                                                    \
    GD_FUNCTOR_2(op##_bwd_of, T, T, , ,                                                                                    \
                 GD_FLOATS(x == 0 ? 0 : x * gd_##op##_slope_f32(y), x == 0 ? 0 : x * gd_##op##_slope_f64(y)))    \
    GD_KERNEL_FLOATS(op##_bwd, GD_EW_EACH)
GATED(gelu)
GATED(gelu_tanh)
GATED(silu)
GATED(mish)

UNARY_FLOAT(log_sigmoid, gd_log_sigmoid_f32(x), gd_log_sigmoid_f64(x))
GD_FUNCTOR_2(log_sigmoid_bwd_of, T, T, , , GD_FLOATS(x == 0 ? 0 : x * gd_sigmoid_f32(-y), x == 0 ? 0 : x * gd_sigmoid_f64(-y)))
GD_KERNEL_FLOATS(log_sigmoid_bwd, GD_EW_EACH)

/* x * 6 / 6 is x, but where x * 6 overflows */
#define HARDSWISH (x >= 3 ? x : x * (x + 3 < 0 ? 0 : x + 3) / 6)
UNARY_FLOAT(hardswish, HARDSWISH, HARDSWISH)
SLOPE(hardswish, y <= -3 ? 0 : y >= 3 ? x : x == 0 ? 0 : x * (y / 3 + (T)0.5))

/* ---- Activations with attributes ------------------------------------------------------------------------------------ */

#define CURVE(op, inputs, fields, making, ...)                   \
    GD_FUNCTOR_##inputs(op##_of, T, T, fields, making, __VA_ARGS__) \
    GD_KERNEL_FLOATS(op, GD_EW_EACH)

#define SOFTPLUS_FIELDS T beta; T inverse; T threshold
#define SOFTPLUS_MAKING beta = (T)at.f[0]; inverse = 1 / beta; threshold = (T)at.f[1]
CURVE(softplus, 1, SOFTPLUS_FIELDS, SOFTPLUS_MAKING,
      GD_FLOATS(gd_softplus_f32(x, beta, inverse, threshold), gd_softplus_f64(x, beta, threshold)))
CURVE(softplus_bwd, 2, SOFTPLUS_FIELDS, SOFTPLUS_MAKING,
      GD_FLOATS(x == 0 ? 0 : x * gd_softplus_slope_f32(y, beta, threshold), x == 0 ? 0 : x * gd_softplus_slope_f64(y, beta, threshold)))

CURVE(leaky_relu, 1, T leak, leak = (T)at.f[0], return x > 0 ? x : x * leak)
CURVE(leaky_relu_bwd, 2, T leak, leak = (T)at.f[0], return y > 0 ? x : x * leak)

#define ELU_FIELDS T positive; T negative; T steep; T inner
#define ELU_MAKING                                                    \
    const double alpha = at.f[0];                                     \
    const double rate = at.i[0] ? 1 / alpha : 1;                      \
    positive = (T)at.f[1]; negative = (T)(alpha * at.f[1]);           \
    steep = (T)(alpha * at.f[1] * rate); inner = (T)rate
CURVE(elu, 1, ELU_FIELDS, ELU_MAKING, GD_FLOATS(gd_elu_f32(x, negative, positive, inner), gd_elu_f64(x, negative, positive, inner)))
CURVE(elu_bwd, 2, ELU_FIELDS, ELU_MAKING,
      GD_FLOATS(x == 0 ? 0 : x * gd_elu_slope_f32(y, steep, positive, inner), x == 0 ? 0 : x * gd_elu_slope_f64(y, steep, positive, inner)))

#define ENDS_FIELDS T low; T high
#define ENDS_MAKING low = (T)at.f[0]; high = (T)at.f[1]
CURVE(hardtanh, 1, ENDS_FIELDS, ENDS_MAKING, return x < low ? low : x > high ? high : x)
CURVE(hardtanh_bwd, 2, ENDS_FIELDS, ENDS_MAKING, return ((y <= low) | (y >= high)) ? 0 : x)

/* ---- Clamp: NaN elements pass, a NaN bound is absent, the upper bound wins ------------------------------------------ */

/* A bound as an integer of the range, already rounded inwards. */
static int64_t integer_bound(double bound, int64_t absent, int64_t least, int64_t most) {
    if (bound != bound) return absent;
    if (bound <= (double)least) return least;
    return bound >= (double)most ? most : (int64_t)bound;
}

template <class T> static void bounds(const gd_attr &at, T *low, T *high) {
    if constexpr (gd_is_same<T, float> || gd_is_same<T, double>) {
        *low = at.f[0] != at.f[0] ? -(T)INFINITY : (T)at.f[0];
        *high = at.f[1] != at.f[1] ? (T)INFINITY : (T)at.f[1];
    } else {
        const int64_t least = sizeof(T) == 8 ? INT64_MIN : sizeof(T) == 4 ? INT32_MIN : 0;
        const int64_t most = sizeof(T) == 8 ? INT64_MAX : sizeof(T) == 4 ? INT32_MAX : 1;
        *low = (T)integer_bound(ceil(at.f[0]), least, least, most);
        *high = (T)integer_bound(floor(at.f[1]), most, least, most);
    }
}

GD_FUNCTOR_1(clamp_of, T, T, ENDS_FIELDS, (bounds(at, &low, &high)), const T raised = x < low ? low : x; return raised > high ? high : raised)
GD_KERNEL_ALL(clamp, GD_EW_EACH)
/* (g, x): the bounds themselves pass the gradient, NaN does not. */
CURVE(clamp_bwd, 2, ENDS_FIELDS, (bounds(at, &low, &high)), return ((y >= low) & (y <= high)) ? x : 0)
