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
