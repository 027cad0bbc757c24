/* random.h - the counter-based generator Philox4x32-10: random numbers without state.
 * Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011). */
#ifndef GRADINO_RANDOM_H
#define GRADINO_RANDOM_H

#include <stdint.h>

#include "both.h"

/* Element k of a random tensor depends on the seed, the tensor's offset and k alone: it uses counter
 * offset + k / 4. A counter gives four words of 32 bits, one for each element; kinds that need 64 bits
 * an element take eight words, from two halves of the same counter. */
enum { GD_PER_COUNTER = 4 };

/* How many counters n elements use; the next tensor's offset is so much further. */
static inline int64_t gd_random_counters(int64_t n) {
    return n / GD_PER_COUNTER + (n % GD_PER_COUNTER != 0);
}

#define GD_PHILOX_ROUNDS 10
#define GD_PHILOX_M0 0xD2511F53u
#define GD_PHILOX_M1 0xCD9E8D57u
#define GD_PHILOX_W0 0x9E3779B9u
#define GD_PHILOX_W1 0xBB67AE85u

/* words = Philox of the counter (counter, half) under the key seed. */
GD_BOTH void gd_philox(uint64_t seed, uint64_t counter, uint32_t half, uint32_t words[4]) {
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = half, c3 = 0;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < GD_PHILOX_ROUNDS; round++) {
        const uint64_t p0 = (uint64_t)GD_PHILOX_M0 * c0, p1 = (uint64_t)GD_PHILOX_M1 * c2;
        const uint32_t low0 = (uint32_t)p0, low1 = (uint32_t)p1;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = low1;
        c3 = low0;
        k0 += GD_PHILOX_W0;
        k1 += GD_PHILOX_W1;
    }
    words[0] = c0, words[1] = c1, words[2] = c2, words[3] = c3;
}

/* Uniform in [0, 1): 24 and 53 random bits. */
GD_BOTH float gd_unit_f32(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }
GD_BOTH double gd_unit_f64(uint64_t word) { return (double)(word >> 11) * 0x1p-53; }

#endif
