/* angles.h - inverse angle functions of float32 through float64, without branches, so that loops vectorise; the
 * polynomials are those of Moshier's Cephes (atanf.c, asinf.c). At most one unit from the exact value. */
#ifndef GRADINO_ANGLES_H
#define GRADINO_ANGLES_H

#include "scalar.h"

#define GD_PI_F64 3.14159265358979323846

/* atan(t) for t >= 0: about 0, pi/4 or pi/2. */
GD_SCALAR double gd_atan_size(double t) {
    const int far = t > 2.414213562373095, middle = t > 0.4142135623730950;
    const double top = far ? -1.0 : middle ? t - 1.0 : t, bottom = far ? t : middle ? t + 1.0 : 1.0;
    const double start = far ? GD_PI_F64 / 2 : middle ? GD_PI_F64 / 4 : 0.0, x = top / bottom, z = x * x;
    double p = GD_FMA(8.05374449538e-2, z, -1.38776856032e-1);
    p = GD_FMA(p, z, 1.99777106478e-1);
    p = GD_FMA(p, z, -3.33329491539e-1);
    return start + GD_FMA(p * z, x, x);
}

GD_SCALAR float gd_atan_f32(float x) { return copysignf((float)gd_atan_size(fabs((double)x)), x); }

/* The quotient of the smaller size by the larger one, then the octant; the same infinities are a quotient of 1. */
GD_SCALAR float gd_atan2_f32(float y, float x) {
    const double a = fabs((double)x), b = fabs((double)y), most = a > b ? a : b, least = a > b ? b : a;
    const double q = least == most ? (most == 0 ? 0.0 : 1.0) : least / most;
    double t = gd_atan_size(q);
    t = b > a ? GD_PI_F64 / 2 - t : t;
    t = gd_bits_of_f32(x) >> 31 ? GD_PI_F64 - t : t;
    const float angle = copysignf((float)t, y);
    return x != x ? x : y != y ? y : angle;
}

/* asin of x, |x| <= 0.5, with z = x^2 */
GD_SCALAR double gd_asin_near(double x, double z) {
    double p = GD_FMA(4.2163199048e-2, z, 2.4181311049e-2);
    p = GD_FMA(p, z, 4.5470025998e-2);
    p = GD_FMA(p, z, 7.4953002686e-2);
    p = GD_FMA(p, z, 1.6666752422e-1);
    return GD_FMA(p * z, x, x);
}

GD_SCALAR float gd_asin_f32(float x) {
    const double a = fabs((double)x), half = 0.5 * (1.0 - a);
    const int large = a > 0.5;
    const double z = large ? half : a * a, p = gd_asin_near(large ? sqrt(half) : a, z);
    return copysignf((float)(large ? GD_PI_F64 / 2 - 2.0 * p : p), x);
}

GD_SCALAR float gd_acos_f32(float x) {
    const double a = fabs((double)x), half = 0.5 * (1.0 - a);
    const int large = a > 0.5;
    const double z = large ? half : a * a, p = gd_asin_near(large ? sqrt(half) : a, z);
    const double end = x < 0 ? GD_PI_F64 - 2.0 * p : 2.0 * p, middle = x < 0 ? GD_PI_F64 / 2 + p : GD_PI_F64 / 2 - p;
    return (float)(large ? end : middle);
}

/* No float32 is too large for its square in float64. */
GD_SCALAR float gd_hypot_f32(float x, float y) {
    const double a = (double)x, b = (double)y;
    const float size = (float)sqrt(a * a + b * b);
    return fabsf(x) == (float)INFINITY || fabsf(y) == (float)INFINITY ? (float)INFINITY : size;
}

/* For |x| <= GD_SIN_NEAR_F32 or NaN. */
GD_SCALAR float gd_tan_near_f32(float x) { return (float)(gd_sin_near_f64((double)x, 0) / gd_sin_near_f64((double)x, 1)); }
GD_SCALAR float gd_tan_f32(float x) { return fabsf(x) > GD_SIN_NEAR_F32 ? (float)tan((double)x) : gd_tan_near_f32(x); }

#endif
