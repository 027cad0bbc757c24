/* curves.cu - elementary functions that are computed in float64, and pairs of them; float32 is rounded once.
 * One line an op; x and y are the elements. A thread takes one element: these are long. */
#include "elementwise.cuh"

#include "../angles.h"
#include "../gamma.h"
#include "../scalar.h"

#define UNARY(op, f32, f64)                                  \
    GD_FUNCTOR_1(op##_of, T, T, , , GD_FLOATS(f32, f64))     \
    GD_KERNEL_FLOATS(op, 1)
#define UNARY_WIDE(op) UNARY(op, op((double)x), op(x))

UNARY(tan, tan((double)x), tan(x))
UNARY(asin, gd_asin_f32(x), asin(x))
UNARY(acos, gd_acos_f32(x), acos(x))
UNARY(atan, gd_atan_f32(x), atan(x))
UNARY_WIDE(asinh)
UNARY_WIDE(acosh)
UNARY_WIDE(atanh)
UNARY(erfinv, gd_erfinv_f64((double)x, 1), gd_erfinv_f64(x, 3))
UNARY(lgamma, gd_lgamma_f64((double)x), gd_lgamma_f64(x))
UNARY(digamma, gd_digamma_f64((double)x), gd_digamma_f64(x))

GD_FUNCTOR_1(polygamma_of, T, T, double n, n = at.f[0], return (T)gd_polygamma_f64(n, (double)x))
GD_KERNEL_FLOATS(polygamma, 1)

#define PAIR(op, f32, f64)                                   \
    GD_FUNCTOR_2(op##_of, T, T, , , GD_FLOATS(f32, f64))     \
    GD_KERNEL_FLOATS(op, 1)
PAIR(atan2, gd_atan2_f32(x, y), atan2(x, y))
PAIR(hypot, gd_hypot_f32(x, y), hypot(x, y))
PAIR(xlogy, y != y ? y : x == 0 ? 0 : x * logf(y), y != y ? y : x == 0 ? 0 : x * log(y))
PAIR(xlog1py, y != y ? y : x == 0 ? 0 : x * log1pf(y), y != y ? y : x == 0 ? 0 : x * log1p(y))

/* ---- log(e^x + e^y), about the larger one -------------------------------------------------------------------------- */

#define LARGER (x > y || x != x ? x : y)
#define ALIKE (x == y && x - x != 0) /* both the same infinity */
#define LOGADDEXP(op, exp32, exp64, inverse)                                              \
    PAIR(op, ALIKE ? x : LARGER + log1pf(exp32(-fabsf(x - y))) * (float)(inverse),        \
         ALIKE ? x : LARGER + log1p(exp64(-fabs(x - y))) * (inverse))
LOGADDEXP(logaddexp, expf, exp, 1.0)
LOGADDEXP(logaddexp2, exp2f, exp2, 1.44269504088896340736)

/* ---- Bits and sizes -------------------------------------------------------------------------------------------------- */

PAIR(copysign, copysignf(x, y), copysign(x, y))
PAIR(nextafter, nextafterf(x, y), nextafter(x, y))
