/* curves.c - elementary functions that the C library computes in float64, and pairs of them; float32 is rounded once.
 * One line an op: its expression for float64; x and y are the elements. */
#include "../gamma.h"
#include "../scalar.h"
#include "elementwise.h"

#define UNARY(op, expression)                                                  \
    static inline double op##_of(double x) { return expression; }              \
    GD_LOOP1(op##_f32, float, float, op##_of((double)x))                       \
    GD_LOOP1(op##_f64, double, double, op##_of(x))                             \
    GD_ELEMENTWISE(op, 1, GD_TILE_HEAVY, op##_f32, op##_f64)

#define BINARY(op, expression)                                                 \
    static inline double op##_of(double x, double y) { return expression; }    \
    GD_LOOP2(op##_f32, float, float, op##_of((double)x, (double)y))            \
    GD_LOOP2(op##_f64, double, double, op##_of(x, y))                          \
    GD_ELEMENTWISE(op, 2, GD_TILE_HEAVY, op##_f32, op##_f64)

UNARY(tan, tan(x))
UNARY(asin, asin(x))
UNARY(acos, acos(x))
UNARY(atan, atan(x))
UNARY(asinh, asinh(x))
UNARY(acosh, acosh(x))
UNARY(atanh, atanh(x))
UNARY(erfinv, gd_erfinv_f64(x))
UNARY(lgamma, gd_lgamma_f64(x))
UNARY(digamma, gd_digamma_f64(x))

GD_LOOP1(polygamma_f32, float, float, gd_polygamma_f64(s->attr->f[0], (double)x))
GD_LOOP1(polygamma_f64, double, double, gd_polygamma_f64(s->attr->f[0], x))
GD_ELEMENTWISE(polygamma, 1, GD_TILE_HEAVY, polygamma_f32, polygamma_f64)

BINARY(atan2, atan2(x, y))
BINARY(hypot, hypot(x, y))
BINARY(xlogy, y != y ? y : x == 0 ? 0 : x * log(y))
BINARY(xlog1py, y != y ? y : x == 0 ? 0 : x * log1p(y))

/* ---- log(e^x + e^y), about the larger one; float32 stays in vectors -------------------------------- */

#define LARGER ((x > y) | (x != x) ? x : y)
#define ALIKE ((x == y) & (x - x != 0)) /* both the same infinity */
#define LOGADDEXP(op, exp32, exp64, inverse)                                                                          \
    GD_LOOP2(op##_f32, float, float,                                                                                  \
             ALIKE ? x : LARGER + gd_log1p_f32(exp32(-fabsf(x - y))) * (float)(inverse))                              \
    GD_LOOP2(op##_f64, double, double, ALIKE ? x : LARGER + log1p(exp64(-fabs(x - y))) * (inverse))                   \
    GD_ELEMENTWISE(op, 2, GD_TILE_HEAVY, op##_f32, op##_f64)
LOGADDEXP(logaddexp, gd_exp_f32, exp, 1.0)
LOGADDEXP(logaddexp2, gd_exp2_f32, exp2, 1.44269504088896340736)

/* ---- Bits and sizes ---------------------------------------------------------------------------------- */

GD_LOOP2(copysign_f32, float, float, copysignf(x, y))
GD_LOOP2(copysign_f64, double, double, copysign(x, y))
GD_ELEMENTWISE(copysign, 2, GD_TILE_LIGHT, copysign_f32, copysign_f64)

GD_LOOP2(nextafter_f32, float, float, nextafterf(x, y))
GD_LOOP2(nextafter_f64, double, double, nextafter(x, y))
GD_ELEMENTWISE(nextafter, 2, GD_TILE_HEAVY, nextafter_f32, nextafter_f64)
