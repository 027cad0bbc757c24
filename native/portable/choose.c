/* choose.c - pairs of which one is chosen, and what integers and bools do bit by bit.
 * One line an op: its expression for all dtypes; x and y are the elements, u the unsigned type to compute in. */
#include "elementwise.h"

#define CHOOSE(op, expression)                                           \
    GD_LOOP2(op##_f32, float, float, expression)                         \
    GD_LOOP2(op##_f64, double, double, expression)                       \
    GD_LOOP2(op##_i64, int64_t, int64_t, expression)                     \
    GD_LOOP2(op##_i32, int32_t, int32_t, expression)                     \
    GD_LOOP2(op##_bool, uint8_t, uint8_t, expression)                    \
    GD_ELEMENTWISE(op, 2, GD_TILE_LIGHT, op##_f32, op##_f64, op##_i64, op##_i32, op##_bool)

/* NaN loses on either side. */
CHOOSE(fmax, ((x >= y) | (y != y)) ? x : y)
CHOOSE(fmin, ((x <= y) | (y != y)) ? x : y)
CHOOSE(heaviside, x != x ? x : x == 0 ? y : (x > 0))

#define INTEGERS(op, tile, integer, boolean)                                  \
    GD_LOOP2_WITH(op##_i64, int64_t, int64_t, GD_UNSIGNED(uint64_t), integer) \
    GD_LOOP2_WITH(op##_i32, int32_t, int32_t, GD_UNSIGNED(uint32_t), integer) \
    GD_LOOP2(op##_bool, uint8_t, uint8_t, boolean)                            \
    GD_ELEMENTWISE(op, 2, tile, NULL, NULL, op##_i64, op##_i32, op##_bool)

INTEGERS(bitwise_and, GD_TILE_LIGHT, (u)x & (u)y, x & y)
INTEGERS(bitwise_or, GD_TILE_LIGHT, (u)x | (u)y, x | y)
INTEGERS(bitwise_xor, GD_TILE_LIGHT, (u)x ^ (u)y, x ^ y)

/* A shift by fewer than 0 or by all bits shifts everything out: 0, or the sign to the right. */
#define BITS (8 * (int)sizeof(u))
#define OUT ((y < 0) | (y >= BITS))
INTEGERS(bitwise_left_shift, GD_TILE_LIGHT, OUT ? 0 : (u)x << (OUT ? 0 : y), x & !y)
INTEGERS(bitwise_right_shift, GD_TILE_LIGHT, x >> (OUT ? BITS - 1 : y), x & !y)

/* Euclid's; sizes are unsigned, so that the least integer has one. */
static inline uint64_t gcd_of(int64_t x, int64_t y) {
    uint64_t a = x < 0 ? 0 - (uint64_t)x : (uint64_t)x, b = y < 0 ? 0 - (uint64_t)y : (uint64_t)y;
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}
INTEGERS(gcd, GD_TILE_HEAVY, gcd_of(x, y), x | y)
