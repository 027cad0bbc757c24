/* divide.cu - quotients and remainders: with Python's rules (floor_divide, remainder) and with C's (fmod).
 * Floats go by the exact remainder, which is one fused step where the quotient is small. */
#include "elementwise.cuh"

#include "../scalar.h"

/* ---- Integers: 0 for a zero divisor, which is refused before a kernel runs. -1 would overflow with the least ------- */

template <class T> __device__ T rest_of_integers(T x, T y) { return y == 0 || y == -1 ? 0 : x % y; }

template <class T> __device__ T remainder_of_integers(T x, T y) {
    const T rest = rest_of_integers(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

template <class T> __device__ T quotient_of_integers(T x, T y) {
    if (y == 0) return 0;
    if (y == -1) return (T)(0 - (gd_unsigned<T>)x);
    const T rest = x % y;
    return x / y - (rest != 0 && (rest < 0) != (y < 0));
}

/* ---- Floats ----------------------------------------------------------------------------------------------------------- */

/* Quotients below these are exact but for one unit, which shows in the remainder. */
#define SMALL_F32 4194304.0f
#define SMALL_F64 0x1p50

/* The remainder with the sign of x: where q = trunc(x / y) is small, one divisor too far where its sign is not that of x. */
static __device__ float rest_of(float x, float y) {
    const float quotient = x / y;
    if (!(fabsf(quotient) < SMALL_F32) || !(fabsf(y) < INFINITY)) return fmodf(x, y);
    const float rest = fmaf(-truncf(quotient), y, x);
    return copysignf(rest != 0 && (rest < 0) != (x < 0) ? rest + copysignf(y, x) : rest, x);
}
static __device__ double rest_of(double x, double y) {
    const double quotient = x / y;
    if (!(fabs(quotient) < SMALL_F64) || !(fabs(y) < (double)INFINITY)) return fmod(x, y);
    const double rest = fma(-trunc(quotient), y, x);
    return copysign(rest != 0 && (rest < 0) != (x < 0) ? rest + copysign(y, x) : rest, x);
}

static __device__ float floor_of(float x) { return floorf(x); }
static __device__ double floor_of(double x) { return floor(x); }
static __device__ float signed_as(float x, float y) { return copysignf(x, y); }
static __device__ double signed_as(double x, double y) { return copysign(x, y); }

/* As NumPy: from the exact remainder, so that x is near floor_divide(x, y) * y + remainder(x, y).
 * A zero remainder takes the divisor's sign, a zero quotient that of x / y. */
template <class T> __device__ T remainder_of_floats(T x, T y) {
    const T rest = rest_of(x, y);
    if (rest == 0) return signed_as((T)0, y);
    return (rest < 0) != (y < 0) ? rest + y : rest;
}
template <class T> __device__ T quotient_of_floats(T x, T y) {
    if (y == 0) return x / y;
    const T rest = rest_of(x, y), quotient = (x - rest) / y - (T)(rest != 0 && (rest < 0) != (y < 0));
    if (quotient == 0) return signed_as((T)0, x / y);
    const T whole = floor_of(quotient);
    return quotient - whole > (T)0.5 ? whole + 1 : whole;
}

#define DIVISION(op, floats, integer, boolean)                                          \
    GD_FUNCTOR_2(op##_of, T, T, , , GD_ALL_KINDS(floats, floats, integer, boolean))     \
    GD_KERNEL_ALL(op, 1)
DIVISION(floor_divide, quotient_of_floats(x, y), quotient_of_integers(x, y), x & y)
DIVISION(remainder, remainder_of_floats(x, y), remainder_of_integers(x, y), x & !y)
DIVISION(fmod, rest_of(x, y), rest_of_integers(x, y), x & !y)
