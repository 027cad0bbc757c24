/* gamma.h - functions around the gamma function and the inverse of erf, of one float64; float32 goes through them.
 * digamma and zeta: after Moshier's Cephes (psi.c, zeta.c). */
#ifndef GRADINO_GAMMA_H
#define GRADINO_GAMMA_H

#include <math.h>

#include "scalar.h"

#define GD_PI 3.14159265358979323846

/* log |gamma(x)|; without the C library's global sign. */
GD_SCALAR double gd_lgamma_f64(double x) {
#if defined(__CUDACC__)
    return lgamma(x);
#else
    int sign;
    return lgamma_r(x, &sign);
#endif
}

/* The slope of lgamma: upwards to 10 by its recurrence, then its asymptotic series; below 0 by reflection. */
GD_SCALAR double gd_digamma_f64(double x) {
    if (x == 0) return copysign(INFINITY, -x);
    double below = 0;
    if (x < 0) {
        if (x == floor(x)) return NAN;
        const double r = x - rint(x); /* of tan(pi x) only the fraction counts */
        below = -GD_PI / tan(GD_PI * r);
        x = 1 - x;
    }
    double sum = 0;
    for (; x < 10; x += 1) sum += 1 / x;
    if (x > 1e17) return log(x) + below;
    const double z = 1 / (x * x);
    const double series =
        z * (8.33333333333333333333e-2 +
             z * (-8.33333333333333333333e-3 +
                  z * (3.96825396825396825397e-3 +
                       z * (-4.16666666666666666667e-3 + z * (7.57575757575757575758e-3 + z * (-2.10927960927960927961e-2 + z * 8.33333333333333333333e-2))))));
    return log(x) - 0.5 / x - series - sum + below;
}

/* Hurwitz' zeta: the sum over k >= 0 of (k + q)^-s, s > 1, by Euler and Maclaurin. */
GD_SCALAR double gd_zeta_f64(double s, double q) {
    static const double factors[] = {12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10, -2.950130727918164224e12,
                                     1.1646782814350067249e14, -4.5979787224074726105e15, 1.8152105401943546773e17, -7.1661652561756670113e18};
    if (s != s || q != q || s < 1) return NAN;
    if (s == 1) return INFINITY;
    if (q <= 0) {
        if (q == floor(q)) return INFINITY;
        if (s != floor(s)) return NAN;
    }
    if (q > 1e17) return q > 1e300 && s > 2 ? 0 : pow(q, 1 - s) / (s - 1);
    double a = q, power = pow(q, -s), sum = power;
    for (int i = 0; i < 9 || a <= 9; i++) {
        a += 1;
        power = pow(a, -s);
        sum += power;
        if (fabs(power) < 1e-17 * fabs(sum)) return sum;
    }
    sum += power * a / (s - 1) - 0.5 * power;
    double factor = 1, k = 0;
    for (int i = 0; i < 12; i++) {
        factor *= s + k;
        power /= a;
        const double term = factor * power / factors[i];
        sum += term;
        if (fabs(term) < 1e-17 * fabs(sum)) return sum;
        k += 1;
        factor *= s + k;
        power /= a;
        k += 1;
    }
    return sum;
}

/* The n-th derivative of digamma, n >= 1. */
GD_SCALAR double gd_polygamma_f64(double n, double x) {
    const double size = exp(gd_lgamma_f64(n + 1)) * gd_zeta_f64(n + 1, x);
    return fmod(n, 2.0) == 0 ? -size : size;
}

/* The x with erf(x) = y: Giles' polynomials (GPU Computing Gems, 2011), good for seven digits where y is a float32, then
 * steps of Halley's method on what is small of erf and erfc. */
GD_SCALAR double gd_erfinv_f64(double y, int steps) {
    static const double near[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
                                  0.246640727, 1.50140941};
    static const double far[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
                                 1.00167406, 2.83297682};
    const double a = fabs(y);
    if (!(a < 1)) return a == 1 ? copysign(INFINITY, y) : NAN;
    if (a < 1e-8) return y * 0.88622692545275801365;
    const double w = -(log1p(-a) + log1p(a)), t = w < 5 ? w - 2.5 : sqrt(w) - 3;
    const double *c = w < 5 ? near : far;
    double x = c[0];
    for (int k = 1; k < 9; k++) x = x * t + c[k];
    x *= a;
    for (int i = 0; i < steps; i++) {
        const double error = a < 0.5 ? erf(x) - a : (1 - a) - erfc(x), step = error / (1.12837916709551257390 * exp(-x * x));
        x -= step / (1 + x * step);
    }
    return copysign(x, y);
}

#endif
