/* order.h - the order of threads and blocks: as they are numbered, or shuffled by a seed. */
#ifndef GRADINO_EMULATE_ORDER_H
#define GRADINO_EMULATE_ORDER_H

#include <stdint.h>

namespace gd_emulate {

static uint64_t seed, draws; /* seed 0: as they are numbered */
static uint32_t random_below(uint32_t n) {
    draws = draws * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((draws >> 33) % n);
}
struct shuffled_order {
    uint64_t n, factor, shift;
    void draw(uint64_t n_) {
        n = n_, factor = 1, shift = 0;
        if (!seed || n < 2) return;
        shift = random_below(n > 0x7fffffff ? 0x7fffffff : (uint32_t)n);
        do factor = 1 + random_below(n > 0x7fffffff ? 0x7fffffff : (uint32_t)n);
        while (common(factor, n) != 1);
    }
    uint64_t at(uint64_t i) const { return seed ? (uint64_t)(((unsigned __int128)i * factor + shift) % n) : i; }
    static uint64_t common(uint64_t a, uint64_t b) {
        while (b) {
            const uint64_t rest = a % b;
            a = b, b = rest;
        }
        return a;
    }
};

} // namespace gd_emulate

#endif
