/* choose.cu - pairs of which one is chosen, and what integers and bools do bit by bit.
 * One line an op: its expression for all dtypes; x and y are the elements, u the unsigned type to compute in. */
#include "elementwise.cuh"

#define CHOOSE(op, expression)                                      \
    GD_FUNCTOR_2(op##_of, T, T, , , return (T)(expression))         \
    GD_KERNEL_ALL(op, GD_EW_EACH)
/* NaN loses on either side. */
CHOOSE(fmax, x >= y || y != y ? x : y)
CHOOSE(fmin, x <= y || y != y ? x : y)
CHOOSE(heaviside, x != x ? x : x == 0 ? y : (T)(x > 0))

#define INTEGERS(op, each, integer, boolean)                                \
    GD_FUNCTOR_2(op##_of, T, T, , , GD_INTEGERS(integer, boolean))          \
    GD_KERNEL_INTEGERS(op, each)
INTEGERS(bitwise_and, GD_EW_EACH, (u)x & (u)y, x & y)
INTEGERS(bitwise_or, GD_EW_EACH, (u)x | (u)y, x | y)
INTEGERS(bitwise_xor, GD_EW_EACH, (u)x ^ (u)y, x ^ y)

/* A shift by fewer than 0 or by all bits shifts everything out: 0, or the sign to the right. */
#define BITS (8 * (int)sizeof(u))
#define OUT (y < 0 || y >= BITS)
INTEGERS(bitwise_left_shift, GD_EW_EACH, OUT ? 0 : (u)x << (OUT ? 0 : y), x & !y)
INTEGERS(bitwise_right_shift, GD_EW_EACH, x >> (OUT ? BITS - 1 : y), x & !y)

/* Euclid's; sizes are unsigned, so that the least integer has one. */
static __device__ uint64_t gcd_of_sizes(uint64_t a, uint64_t b) {
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}
#define SIZE_OF(x) (x < 0 ? 0 - (uint64_t)x : (uint64_t)x)
INTEGERS(gcd, 1, gcd_of_sizes(SIZE_OF(x), SIZE_OF(y)), x | y)
