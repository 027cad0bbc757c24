/* elementary.h - the float32 elementary functions, written once for one number and for a vector, with the same bits.
 * Included, without a guard, where F, K, FMA and so on are defined: by scalar.h and avx512/vmath.h. */

/* exp(r) - 1 for |r| <= ln2/2. */
INLINE F NAME(expm1_near)(F r) {
    F q = FMA(K(GD_EXP_C4), r, K(GD_EXP_C3));
    q = FMA(q, r, K(GD_EXP_C2));
    q = FMA(q, r, K(GD_EXP_C1));
    q = FMA(q, r, K(GD_EXP_C0));
    return FMA(r * r, q, r);
}

/* x = n ln2 + r: returns r. |x| < 170. NaN stays. */
INLINE F NAME(exp_reduced)(F x, F *n) {
    *n = FMA(x, K(GD_LOG2E_F32), K(GD_ROUND_F32)) - K(GD_ROUND_F32);
    return FMA(*n, K(-GD_LN2_LO_F32), FMA(*n, K(-GD_LN2_HI_F32), x));
}

/* exp(x) = 2^n (1 + p): returns p. */
INLINE F NAME(exp_parts)(F x, F *n) { return NAME(expm1_near)(NAME(exp_reduced)(x, n)); }

INLINE F NAME(exp)(F x) {
    x = MOST(K(GD_EXP_MIN_F32), LEAST(K(GD_EXP_MAX_F32), x));
    F n, p = NAME(exp_parts)(x, &n);
    return SCALE(p + K(1.0f), n);
}

INLINE F NAME(expm1)(F x) {
    F n, p = NAME(exp_parts)(MOST(K(-20.0f), LEAST(K(GD_EXP_MAX_F32), x)), &n); /* below -20 it is -1 */
    const F scale = HALF_POWER(n); /* half, because n reaches 128 */
    const F half = FMA(p, scale, scale - K(0.5f));
    return PICK(LESS(ABS(x), K(1e-7f)), x, half + half); /* keeps -0 and denormals */
}

/* log(1+f) - f for -0.25 <= f < 0.5. */
INLINE F NAME(log1p_minus)(F f) {
    F p = FMA(K(GD_LOG_C7), f, K(GD_LOG_C6));
    p = FMA(p, f, K(GD_LOG_C5));
    p = FMA(p, f, K(GD_LOG_C4));
    p = FMA(p, f, K(GD_LOG_C3));
    p = FMA(p, f, K(GD_LOG_C2));
    p = FMA(p, f, K(GD_LOG_C1));
    p = FMA(p, f, K(GD_LOG_C0));
    const F square = f * f;
    return FMA(square * f, p, K(-0.5f) * square);
}

/* y, except where log x is not finite: -inf at 0, NaN below, inf at inf, NaN at NaN. */
INLINE F NAME(log_ends)(F x, F y) {
    y = PICK(LESS(K(0.0f), x), y, K(-INFINITY));
    y = PICK(LESS(x, K(0.0f)), K(NAN), y);
    return PICK(LESS(x, K(INFINITY)), y, x);
}

INLINE F NAME(log)(F x) {
    F e, f = MANTISSA(x, &e) - K(1.0f);
    const F y = FMA(e, K(GD_LN2_LO_F32), NAME(log1p_minus)(f));
    return LOG_ENDS(x, FMA(e, K(GD_LN2_HI_F32), f + y));
}

/* With u = 1 + x rounded and 2^e m = u: log(1 + x) = e ln2 + log(1 + f), f = (x - (2^e - 1)) / 2^e rounded once. */
INLINE F NAME(log1p)(F x) {
    const F u = K(1.0f) + x;
    F e;
    (void)MANTISSA(u, &e);
    const F part = SCALE(K(1.0f), -e), f = FMA(x, part, part - K(1.0f));
    const F y = FMA(e, K(GD_LN2_LO_F32), NAME(log1p_minus)(f));
    return SIGNED(LOG1P_ENDS(u, FMA(e, K(GD_LN2_HI_F32), f + y)), x); /* keeps -0 */
}

INLINE F NAME(log2)(F x) {
    F e, f = MANTISSA(x, &e) - K(1.0f);
    const F y = FMA(f, K(0.442695041f), NAME(log1p_minus)(f) * K(GD_LOG2E_F32)); /* log2(1+f) - f */
    const F sum = f + y, lost = (f - sum) + y;
    return LOG_ENDS(x, (sum + e) + lost);
}

INLINE F NAME(tanh)(F x) {
    const F a = ABS(x), z = x * x;
    F p = FMA(K(GD_TANH_C4), z, K(GD_TANH_C3));
    p = FMA(p, z, K(GD_TANH_C2));
    p = FMA(p, z, K(GD_TANH_C1));
    p = FMA(p, z, K(GD_TANH_C0));
    const F small = FMA(p * z, a, a);
    const F large = K(1.0f) - K(2.0f) / (NAME(exp)(a + a) + K(1.0f));
    return SIGNED(PICK(LESS(a, K(GD_TANH_SMALL_F32)), small, large), x);
}

INLINE F NAME(sigmoid)(F x) {
    const F e = NAME(exp)(-ABS(x)), y = K(1.0f) / (K(1.0f) + e);
    return PICK(LESS(x, K(0.0f)), FMA(-e, e * y, e), y); /* e / (1 + e) = e - e^2 / (1 + e), rounded fewer times */
}

#if GD_HAS_FMA
/* sin(x + quarter pi/2) for |x| <= GD_SIN_NEAR_F32 or NaN, quarter 0 or 1. |x| = n pi/2 + r: the first difference is exact,
 * for whole multiples of 2^-24 below 1. Sine and cosine are base + base r^2 (C0 + C1 r^2 + ...) with base r and 1. */
INLINE F NAME(sin_near)(F x, int quarter) {
    const F t = ABS(x), shifted = FMA(t, K(0.636619772f), K(GD_ROUND_F32)), n = shifted - K(GD_ROUND_F32);
    const F r = FMA(n, K(-GD_QUARTER3_F32), FMA(n, K(-GD_QUARTER2_F32), FMA(n, K(-GD_QUARTER1_F32), t))), z = r * r;
    const WORD turns = WORD_PLUS(WORD_OF(shifted), quarter);
    F p = FMA(PICK(ODD(turns), K(GD_COS_C3), K(GD_SIN_C3)), z, PICK(ODD(turns), K(GD_COS_C2), K(GD_SIN_C2)));
    p = FMA(p, z, PICK(ODD(turns), K(GD_COS_C1), K(GD_SIN_C1)));
    p = FMA(p, z, PICK(ODD(turns), K(GD_COS_C0), K(GD_SIN_C0)));
    const F base = PICK(ODD(turns), K(1.0f), r), y = FMA(base * z, p, base);
    return TURNED(y, turns, quarter ? K(0.0f) : x);
}
#endif

/* c1 + c2 d + ... + c6 d^5 of a table's interval: all but the constant. */
#define PIECE(table, i, d)                                                                          \
    FMA(FMA(FMA(FMA(FMA(LOOKUP(table, 7, i), d, LOOKUP(table, 6, i)), d, LOOKUP(table, 5, i)), d,   \
                LOOKUP(table, 4, i)), d, LOOKUP(table, 3, i)), d, LOOKUP(table, 2, i))

INLINE F NAME(erf)(F x) {
    const F t = LEAST_SIZE(K(3.999f), ABS(x)), shifted = t + K(4.0f); /* from 3.92 on it is 1 */
    const I i = INTERVAL(shifted, 4.0f, 19);
    const F d = t - LOOKUP(gd_erf_table, 0, i), p = PIECE(gd_erf_table, i, d);
    const F first = PICK(LESS(shifted, K(4.25f)), t, K(0.0f)); /* its constant in the table is 0; adding 0 is exact */
    return SIGNED(FMA(p, d, first + LOOKUP(gd_erf_table, 1, i)), x);
}

/* ---- Activations ---------------------------------------------------------------------------------
 * gelu and silu are f(x) = max(x, 0) - rest(|x|), and f'(x) = 1 - f'(-x): all that is to be computed is the left half,
 * to its very end, where products of two small numbers would be too small before the whole is. */

INLINE F NAME(positive)(F x) { return MOST(K(-0.0f), x); }

/* Phi(-t) exp(t^2/2) for 0 <= t <= GD_GELU_END_F32: what it returns and *low. */
INLINE F NAME(mills)(F t, F *low) {
    const I i = INTERVAL(t + K(1.0f), 1.0f, 21);
    const F d = t - LOOKUP(gd_mills_table, 0, i), c = LOOKUP(gd_mills_table, 1, i);
    const F rest = PIECE(gd_mills_table, i, d) * d, ratio = c + rest;
    *low = rest - (ratio - c);
    return ratio;
}

/* exp(-t^2/2) = 2^n (1 + p) for 0 <= t <= GD_GELU_END_F32; Phi(-t) is that times what it returns and *low. */
INLINE F NAME(gelu_parts)(F t, F *low, F *p, F *n) {
    const F half = K(-0.5f) * t, square = half * t;
    *p = NAME(expm1_near)(NAME(exp_reduced)(square, n) + ROUNDED_AWAY(half, t, square));
    return NAME(mills)(t, low);
}

INLINE F NAME(gelu)(F x) {
    const F t = LEAST_SIZE(K(GD_GELU_END_F32), ABS(x));
    F p, n, low, ratio = NAME(gelu_parts)(t, &low, &p, &n);
    const F y = t * ratio, y_low = FMA(t, low, ROUNDED_AWAY(t, ratio, y));
    return NAME(positive)(x) - SCALE(y + FMA(y, p, y_low), n);
}

/* Phi(x) + x phi(x), phi the density. */
INLINE F NAME(gelu_slope)(F x) {
    const F t = LEAST_SIZE(K(GD_GELU_END_F32), ABS(x));
    F p, n, low, y = NAME(gelu_parts)(t, &low, &p, &n);
    y = FMA(t, K(-0.398942280f), y) + low;
    y = SCALE(FMA(y, p, y), n);
    return PICK(LESS(x, K(0.0f)), y, K(1.0f) - y);
}

/* t e / (1 + e) for e = 2^n (1 + p): a quotient that is put right by what its roundings left. */
INLINE F NAME(gated_rest)(F t, F p, F n) {
    const F e = SCALE(p + K(1.0f), n), sum = e + K(1.0f), sum_low = e - (sum - K(1.0f));
    const F top = FMA(t, p, t), top_low = FMA(t, p, t - top), inverse = K(1.0f) / sum, y = top * inverse;
    return SCALE(FMA(FMA(-y, sum_low, top_low + LEFT(top, y, sum)), inverse, y), n);
}

/* The slope of x sigmoid(z) at x, from e = exp(-|z|) = 2^n (1 + p) and the slope dz of z. */
INLINE F NAME(gated_slope)(F x, F t, F p, F n, F dz) {
    const F m = p + K(1.0f), share = K(1.0f) / (SCALE(m, n) + K(1.0f));
    const F y = SCALE(m * share * FMA(-t * share, dz, K(1.0f)), n);
    return PICK(LESS(x, K(0.0f)), y, K(1.0f) - y);
}

/* -t (A + B t^2) = n ln2 + r for 0 <= t <= GD_GELU_TANH_END_F32: the exponent of gelu's tanh form, in two floats
 * because it reaches 100. */
INLINE F NAME(gelu_tanh_reduced)(F t, F *n) {
    const F square = t * t, square_low = ROUNDED_AWAY(t, t, square);
    const F bend = square * K(GD_GELU_B_F32);
    const F bend_low = FMA(square, K(GD_GELU_B_LO_F32), FMA(square_low, K(GD_GELU_B_F32), ROUNDED_AWAY(square, K(GD_GELU_B_F32), bend)));
    const F sum = bend + K(GD_GELU_A_F32), part = sum - bend;
    const F sum_low = ((bend - (sum - part)) + (K(GD_GELU_A_F32) - part)) + (bend_low + K(GD_GELU_A_LO_F32));
    const F z = -t * sum, low = ROUNDED_AWAY(-t, sum, z);
    return NAME(exp_reduced)(z, n) + FMA(-t, sum_low, low);
}

INLINE F NAME(gelu_tanh)(F x) {
    const F t = LEAST(K(GD_GELU_TANH_END_F32), ABS(x));
    F n, r = NAME(gelu_tanh_reduced)(t, &n);
    return NAME(positive)(x) - NAME(gated_rest)(t, NAME(expm1_near)(r), n);
}
INLINE F NAME(gelu_tanh_slope)(F x) {
    const F t = LEAST(K(GD_GELU_TANH_END_F32), ABS(x));
    F n, r = NAME(gelu_tanh_reduced)(t, &n);
    const F dz = FMA(t * t, K(3.0f * GD_GELU_B_F32), K(GD_GELU_A_F32));
    return NAME(gated_slope)(x, t, NAME(expm1_near)(r), n, dz);
}

INLINE F NAME(silu)(F x) {
    const F t = LEAST(K(GD_SILU_END_F32), ABS(x));
    F n, p = NAME(exp_parts)(-t, &n);
    return NAME(positive)(x) - NAME(gated_rest)(t, p, n);
}
INLINE F NAME(silu_slope)(F x) {
    const F t = LEAST(K(GD_SILU_END_F32), ABS(x));
    F n, p = NAME(exp_parts)(-t, &n);
    return NAME(gated_slope)(x, t, p, n, K(1.0f));
}

/* log(1 + exp(beta x)) / beta; x where beta x is above the threshold. */
INLINE F NAME(softplus)(F x, F beta, F inverse, F threshold) {
    const F z = x * beta, t = ABS(z);
    const F low = PICK(LESS(t, K(128.0f)), ROUNDED_AWAY(x, beta, z), K(0.0f));
    const F negative = PICK(LESS(z, K(0.0f)), low, -low);
    F n, p = NAME(expm1_near)(NAME(exp_reduced)(-LEAST(K(128.0f), t), &n) + negative);
    const F m = p + K(1.0f), e = SCALE(m, n), e_low = SCALE(p - (m - K(1.0f)), n);
    F q = FMA(K(GD_LOG1P_C9), e, K(GD_LOG1P_C8));
    q = FMA(q, e, K(GD_LOG1P_C7));
    q = FMA(q, e, K(GD_LOG1P_C6));
    q = FMA(q, e, K(GD_LOG1P_C5));
    q = FMA(q, e, K(GD_LOG1P_C4));
    q = FMA(q, e, K(GD_LOG1P_C3));
    q = FMA(q, e, K(GD_LOG1P_C2));
    q = FMA(q, e, K(GD_LOG1P_C1));
    q = FMA(q, e, K(GD_LOG1P_C0));
    const F curved = FMA(e * e, q, e_low * FMA(e, K(-0.485f), K(0.97f))); /* log(1+e) - e; the slope is about 1 / (1+e) */
    const F line = PICK(LESS(z, K(0.0f)), K(0.0f), z), sum = line + e, part = sum - line;
    const F sum_low = (line - (sum - part)) + (e - part); /* line + e = sum + sum_low, exactly */
    return PICK(LESS(threshold, z), x, (sum + (sum_low + curved)) * inverse);
}
INLINE F NAME(softplus_slope)(F x, F beta, F threshold) {
    const F z = x * beta;
    return PICK(LESS(threshold, z), K(1.0f), NAME(sigmoid)(z));
}

#include "elementary_more.h"

/* negative (exp(inner x) - 1) up to 0, positive x above. */
INLINE F NAME(elu)(F x, F negative, F positive, F inner) {
    return PICK(LESS(K(0.0f), x), x * positive, negative * NAME(expm1)(x * inner));
}
INLINE F NAME(elu_slope)(F x, F negative, F positive, F inner) {
    return PICK(LESS(K(0.0f), x), positive, negative * NAME(exp)(x * inner));
}

/* x tanh(softplus(x)) = x n / (n + 2) with n = e (e + 2), e = exp(x); below -110 it is -0. */
INLINE F NAME(mish)(F x) {
    const F e = NAME(exp)(LEAST(K(30.0f), x)), n = e * (e + K(2.0f));
    return MOST(K(-110.0f), x) * (n / (n + K(2.0f)));
}
INLINE F NAME(mish_slope)(F x) {
    const F t = MOST(K(-110.0f), LEAST(K(20.0f), x)), e = NAME(exp)(t), n = e * (e + K(2.0f)); /* above 20 it is 1 */
    const F share = K(1.0f) / (n + K(2.0f));
    return share * FMA(K(4.0f) * t * e, (e + K(1.0f)) * share, n);
}

/* Below -100 it is x. */
INLINE F NAME(log_sigmoid)(F x) { return -NAME(softplus)(-x, K(1.0f), K(1.0f), K(100.0f)); }

#undef PIECE
#undef F
#undef NAME
#undef INLINE
#undef K
#undef FMA
#undef LESS
#undef PICK
#undef LEAST
#undef LEAST_SIZE
#undef MOST
#undef ABS
#undef SIGNED
#undef SCALE
#undef HALF_POWER
#undef LOG1P_ENDS
#undef WORD
#undef WORD_OF
#undef WORD_PLUS
#undef ODD
#undef TURNED
#undef ROUNDED_AWAY
#undef LEFT
#undef MANTISSA
#undef LOG_ENDS
#undef I
#undef INTERVAL
#undef LOOKUP
#undef D
#undef DNAME
#undef DK
#undef DFMA
#undef DBITS
#undef DBITS_OF
#undef DPICK_BIT
#undef EQUAL
#undef WHOLE
#undef DLEAST
#undef DMOST
#undef DFROM_BITS
#undef DEXPONENT
