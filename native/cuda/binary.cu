/* binary.cu - ops with two inputs that broadcast, comparisons, powers and where.
 * One line an op: its expression for float32, float64, integers and bool; x and y are the elements. */
#include "elementwise.cuh"

#include "../scalar.h"

#define BINARY(op, each, f32, f64, integer, boolean)                             \
    GD_FUNCTOR_2(op##_of, T, T, , , GD_ALL_KINDS(f32, f64, integer, boolean))    \
    GD_KERNEL_ALL(op, each)
#define COMPARE(op, expression)                                                  \
    GD_FUNCTOR_2(op##_of, uint8_t, T, , , return (uint8_t)(expression))          \
    GD_KERNEL_ALL(op, GD_EW_EACH)

/* Bool is the ring where it is closed: or, exclusive or, and. */
BINARY(add, GD_EW_EACH, x + y, x + y, (u)x + (u)y, x | y)
BINARY(sub, GD_EW_EACH, x - y, x - y, (u)x - (u)y, x ^ y)
BINARY(mul, GD_EW_EACH, x * y, x * y, (u)x * (u)y, x & y)

GD_FUNCTOR_2(div_of, T, T, , , return x / y)
GD_KERNEL_FLOATS(div, GD_EW_EACH)

/* NaN on either side wins: a NaN y loses the comparison and is taken, a NaN x is asked for. */
BINARY(maximum, GD_EW_EACH, x > y || x != x ? x : y, x > y || x != x ? x : y, x > y ? x : y, x | y)
BINARY(minimum, GD_EW_EACH, x < y || x != x ? x : y, x < y || x != x ? x : y, x < y ? x : y, x & y)

/* (g, slope): a zero gradient stays zero, also where the slope is infinite or NaN. */
GD_FUNCTOR_2(chain_of, T, T, , , return x == 0 ? 0 : x * y)
GD_KERNEL_FLOATS(chain, GD_EW_EACH)

COMPARE(eq, x == y)
COMPARE(ne, x != y)
COMPARE(lt, x < y)
COMPARE(le, x <= y)
COMPARE(gt, x > y)
COMPARE(ge, x >= y)
COMPARE(logical_and, x != 0 && y != 0)
COMPARE(logical_or, x != 0 || y != 0)
COMPARE(logical_xor, (x != 0) != (y != 0))

/* x^y by repeated squaring, wrapping; y < 0 is refused before a kernel runs. */
static __device__ uint64_t pow_of_u64(uint64_t x, uint64_t y) {
    uint64_t result = 1;
    for (; y != 0; y >>= 1, x *= x)
        if (y & 1) result *= x;
    return result;
}
BINARY(pow, 1, gd_pow_f32(x, y), gd_pow_f64(x, y), pow_of_u64((u)x, (u)y), x | !y)

/* ---- where: only bits move, so the element size is all that counts ------------------------------------------------- */

template <class T> struct where_of {
    typedef uint8_t A;
    typedef T B, C, R;
    enum { INPUTS = 3 };
    __device__ R operator()(A chosen, B x, C y) const { return chosen ? x : y; }
};

GD_CUDA_KERNEL(where) {
    switch (gd_dtype_bytes(a->out[0]->dtype)) {
    case 1: gd_ew_run(a, where_of<uint8_t>()); break;
    case 2: gd_ew_run(a, where_of<uint16_t>()); break;
    case 4: gd_ew_run(a, where_of<uint32_t>()); break;
    default: gd_ew_run(a, where_of<uint64_t>());
    }
}
