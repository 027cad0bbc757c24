/* elementary_wide.h - the parts of float32 functions that need float64 inside, for one number and for a vector.
 * Included, without a guard, where D, DK, DFMA and so on are defined: by scalar.h and avx512/vmath.h. */

/* sin(x + quarter pi/2) for |x| <= 1e6 or NaN. The polynomials on |r| <= pi/4 are those of FreeBSD's
 * k_sinf.c and k_cosf.c. */
INLINE D DNAME(sin_near)(D x, DBITS quarter) {
    const D round = DK(0x1.8p52); /* adding it rounds to an integer, found in the low bits */
    const D shifted = DFMA(x, DK(0.63661977236758134), round), n = shifted - round;
    DBITS bits;
    DBITS_OF(shifted, bits);
    bits += quarter;
    D r = DFMA(n, DK(-0x1.921fb544p+0), x); /* 33 bits: the product is exact */
    r = DFMA(n, DK(-0x1.0b4611a626331p-34), r);
    const D z = r * r;
    D sine = DFMA(DFMA(DK(0x16cd878c3b46a7p-71), z, DK(-0x1a00f9e2cae774p-65)), z, DK(0x111110896efbb2p-59));
    sine = r * DFMA(DFMA(sine, z, DK(-0x15555554cbac77p-55)), z, DK(1.0)); /* keeps -0 */
    D cosine = DFMA(DFMA(DK(0x199342e0ee5069p-68), z, DK(-0x16c087e80f1e27p-62)), z, DK(0x155553e1053a42p-57));
    cosine = DFMA(DFMA(cosine, z, DK(-0x1ffffffd0c5e81p-54)), z, DK(1.0));
    const D y = DPICK_BIT(bits, 1, cosine, sine);
    return DPICK_BIT(bits, 2, -y, y);
}

/* log2(2^e m) for 0.75 <= m < 1.5, relative error 2^-41: 2 atanh(s) = 2 s (1 + s^2/3 + s^4/5 + ...) / ln2, |s| <= 0.2. */
INLINE D DNAME(log2_wide)(D m, D e) {
    const D f = m - DK(1.0), s = f / (f + DK(2.0)), z = s * s;
    D p = DFMA(DK(2.885390081777926815 / 15), z, DK(2.885390081777926815 / 13));
    p = DFMA(p, z, DK(2.885390081777926815 / 11));
    p = DFMA(p, z, DK(2.885390081777926815 / 9));
    p = DFMA(p, z, DK(2.885390081777926815 / 7));
    p = DFMA(p, z, DK(2.885390081777926815 / 5));
    p = DFMA(p, z, DK(2.885390081777926815 / 3));
    return DFMA(s, DFMA(p, z, DK(2.885390081777926815)), e);
}

INLINE D DNAME(log10_wide)(D m, D e) { return DNAME(log2_wide)(m, e) * DK(0.30102999566398119521); }

/* 2^t, relative error 2^-36; beyond what float32 can tell apart t counts as 200. */
INLINE D DNAME(exp2_wide)(D t) {
    const D round = DK(0x1.8p52);
    t = DMOST(DK(-200.0), DLEAST(DK(200.0), t));
    const D shifted = t + round, r = t - (shifted - round);
    D p = DFMA(DK(1.01780860092396997e-7), r, DK(1.32154867901443095e-6)); /* ln2^k / k! */
    p = DFMA(p, r, DK(1.52527338040598403e-5));
    p = DFMA(p, r, DK(1.54035303933816099e-4));
    p = DFMA(p, r, DK(1.33335581464284434e-3));
    p = DFMA(p, r, DK(9.61812910762847716e-3));
    p = DFMA(p, r, DK(5.55041086648215800e-2));
    p = DFMA(p, r, DK(2.40226506959100712e-1));
    p = DFMA(p, r, DK(6.93147180559945309e-1));
    p = DFMA(p, r, DK(1.0));
    DBITS whole, bits;
    DBITS_OF(shifted, whole);
    DBITS_OF(p, bits);
    bits += DEXPONENT(whole);
    DFROM_BITS(bits, p);
    return p;
}

INLINE D DNAME(pow_wide)(D m, D e, D y) { return DNAME(exp2_wide)(DNAME(log2_wide)(m, e) * y); }
