/* curves.c - elementary functions that the C library computes in float64, and pairs of them; float32 is rounded once.
 * One line an op: its expression for float64; x and y are the elements. */
#include "../angles.h"
#include "../gamma.h"
#include "../scalar.h"
#include "elementwise.h"

#define UNARY(op, expression)                                                  \
    static inline double op##_of(double x) { return expression; }              \
    GD_LOOP1(op##_f32, float, float, op##_of((double)x))                       \
    GD_LOOP1(op##_f64, double, double, op##_of(x))                             \
    GD_ELEMENTWISE(op, 1, GD_TILE_HEAVY, op##_f32, op##_f64)

/* Elements that are looked through for huge angles before one loop without branches does them all. */
enum { ANGLES = 64 };

static void tan_f32(const gd_row_span *s) {
    for (int64_t row = 0; row < s->rows; row++) {
        float *o = (float *)(void *)s->data[0] + row * s->row_step[0];
        const float *x = (const float *)(void *)s->data[1] + row * s->row_step[1];
        for (int64_t from = 0; from < s->n; from += ANGLES) {
            const int64_t to = from + ANGLES < s->n ? from + ANGLES : s->n;
            int huge = s->kind != GD_CONTIGUOUS;
            if (!huge)
                for (int64_t i = from; i < to; i++) huge |= fabsf(x[i]) > GD_SIN_NEAR_F32;
            if (huge) {
                for (int64_t i = from; i < to; i++) o[i * s->step[0]] = gd_tan_f32(x[i * s->step[1]]);
            } else {
                GD_INDEPENDENT for (int64_t i = from; i < to; i++) o[i] = gd_tan_near_f32(x[i]);
            }
        }
    }
}
GD_LOOP1(tan_f64, double, double, tan(x))
GD_ELEMENTWISE(tan, 1, GD_TILE_HEAVY, tan_f32, tan_f64)

/* float32 through angles.h, in vectors. */
#define ANGLE(op)                                            \
    GD_LOOP1(op##_f32, float, float, gd_##op##_f32(x))       \
    GD_LOOP1(op##_f64, double, double, op(x))                \
    GD_ELEMENTWISE(op, 1, GD_TILE_HEAVY, op##_f32, op##_f64)
ANGLE(asin)
ANGLE(acos)
ANGLE(atan)
UNARY(asinh, asinh(x))
UNARY(acosh, acosh(x))
UNARY(atanh, atanh(x))
GD_LOOP1(erfinv_f32, float, float, gd_erfinv_f64((double)x, 1))
GD_LOOP1(erfinv_f64, double, double, gd_erfinv_f64(x, 3))
GD_ELEMENTWISE(erfinv, 1, GD_TILE_HEAVY, erfinv_f32, erfinv_f64)
UNARY(lgamma, gd_lgamma_f64(x))
UNARY(digamma, gd_digamma_f64(x))

GD_LOOP1(polygamma_f32, float, float, gd_polygamma_f64(s->attr->f[0], (double)x))
GD_LOOP1(polygamma_f64, double, double, gd_polygamma_f64(s->attr->f[0], x))
GD_ELEMENTWISE(polygamma, 1, GD_TILE_HEAVY, polygamma_f32, polygamma_f64)

#define PAIR(op, f32, f64)                                   \
    GD_LOOP2(op##_f32, float, float, f32)                    \
    GD_LOOP2(op##_f64, double, double, f64)                  \
    GD_ELEMENTWISE(op, 2, GD_TILE_HEAVY, op##_f32, op##_f64)
PAIR(atan2, gd_atan2_f32(x, y), atan2(x, y))
PAIR(hypot, gd_hypot_f32(x, y), hypot(x, y))
PAIR(xlogy, (y != y) ? y : (x == 0) ? 0 : x * gd_log_f32(y), y != y ? y : x == 0 ? 0 : x * log(y))
PAIR(xlog1py, (y != y) ? y : (x == 0) ? 0 : x * gd_log1p_f32(y), y != y ? y : x == 0 ? 0 : x * log1p(y))

/* ---- log(e^x + e^y), about the larger one; float32 stays in vectors -------------------------------- */

#define LARGER (((x > y) | (x != x)) ? x : y)
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
