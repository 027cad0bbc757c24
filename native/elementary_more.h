/* elementary_more.h - further float32 functions for one number and for a vector: powers of two, hyperbolic functions,
 * erfc, x^y. Included by elementary.h, with its macros. */

/* 2^x: the fraction times ln2 in two floats. */
INLINE F NAME(exp2)(F x) {
    x = MOST(K(-151.0f), LEAST(K(129.0f), x));
    const F n = (x + K(GD_ROUND_F32)) - K(GD_ROUND_F32), f = x - n;
    const F r = FMA(f, K(0.693147182f), f * K(-1.90465421e-9f));
    return SCALE(NAME(expm1_near)(r) + K(1.0f), n);
}

/* exp(|x|) / 2, which overflows only where sinh and cosh do. */
INLINE F NAME(half_exp)(F a) {
    F n, p = NAME(exp_parts)(LEAST(K(90.0f), a), &n);
    return SCALE(p + K(1.0f), n - K(1.0f));
}

INLINE F NAME(sinh)(F x) {
    const F a = ABS(x), z = x * x;
    F p = FMA(K(2.50521084e-8f), z, K(2.75573192e-6f)); /* its series: 1/11!, 1/9!, ... */
    p = FMA(p, z, K(1.98412698e-4f));
    p = FMA(p, z, K(8.33333333e-3f));
    p = FMA(p, z, K(1.66666667e-1f));
    const F small = FMA(p * z, a, a), h = NAME(half_exp)(a);
    return SIGNED(PICK(LESS(a, K(1.0f)), small, h - K(0.25f) / h), x);
}

INLINE F NAME(cosh)(F x) {
    const F h = NAME(half_exp)(ABS(x));
    return h + K(0.25f) / h;
}

/* 2 Phi(-sqrt(2) |x|), or 2 minus that. The square root of 2 in two floats; what sqrt(2) |x| loses moves the ratio by
 * its slope. */
INLINE F NAME(erfc)(F x) {
    const F a = LEAST_SIZE(K(10.59f), ABS(x)), t = a * K(1.41421354f);
    const F t_low = FMA(a, K(2.42032256e-8f), ROUNDED_AWAY(a, K(1.41421354f), t));
    F low, n;
    const F ratio = NAME(mills)(t, &low), square = -a * a;
    const F p = NAME(expm1_near)(NAME(exp_reduced)(square, &n) + ROUNDED_AWAY(-a, a, square));
    low = FMA(t_low, FMA(t, ratio, K(-0.398942280f)), low);
    const F y = SCALE(ratio + FMA(ratio, p, low), n + K(1.0f));
    return PICK(LESS(x, K(0.0f)), K(2.0f) - y, y);
}

INLINE F NAME(log10)(F x) {
    F e, m = MANTISSA(x, &e);
    return LOG_ENDS(x, NAME(log10_wide)(m, e));
}

/* x^y: the size through float64, rounded once; then what C's pow says of signs, zeros, infinities and NaN. */
INLINE F NAME(pow)(F x, F y) {
    const F a = ABS(x), infinite = K(INFINITY), zero = K(0.0f), half = y * K(0.5f);
    F e, m = MANTISSA(a, &e), size = NAME(pow_wide)(m, e, y);
    size = PICK(EQUAL(a, zero), PICK(LESS(y, zero), infinite, zero), size);
    size = PICK(EQUAL(a, infinite), PICK(LESS(y, zero), zero, infinite), size);
    size = PICK(EQUAL(a, K(1.0f)), K(1.0f), size);
    const F whole = PICK(EQUAL(WHOLE(half), half), size, SIGNED(size, x)); /* even, odd */
    const F broken = PICK(LESS(x, zero), PICK(LESS(a, infinite), K(NAN), size), size);
    F result = PICK(EQUAL(WHOLE(y), y), whole, broken);
    result = PICK(EQUAL(x, x), PICK(EQUAL(y, y), result, y), x);
    result = PICK(EQUAL(y, zero), K(1.0f), PICK(EQUAL(x, K(1.0f)), x, result));
    return PICK(EQUAL(y, K(2.0f)), x * x, result);
}
