/* binary.c - ops with two inputs that broadcast, comparisons, and where.
 * One line an op: its expression for floats, integers and bool; x and y are the elements. */
#include "elementwise.h"

#include "../scalar.h"

#define BINARY(op, tile, f32, f64, integer, boolean)                          \
    GD_LOOP2(op##_f32, float, float, f32)                                     \
    GD_LOOP2(op##_f64, double, double, f64)                                   \
    GD_LOOP2_WITH(op##_i64, int64_t, int64_t, GD_UNSIGNED(uint64_t), integer) \
    GD_LOOP2_WITH(op##_i32, int32_t, int32_t, GD_UNSIGNED(uint32_t), integer) \
    GD_LOOP2(op##_bool, uint8_t, uint8_t, boolean)                            \
    GD_ELEMENTWISE(op, 2, tile, op##_f32, op##_f64, op##_i64, op##_i32, op##_bool)

#define COMPARE(op, expression)                       \
    GD_LOOP2(op##_f32, uint8_t, float, expression)    \
    GD_LOOP2(op##_f64, uint8_t, double, expression)   \
    GD_LOOP2(op##_i64, uint8_t, int64_t, expression)  \
    GD_LOOP2(op##_i32, uint8_t, int32_t, expression)  \
    GD_LOOP2(op##_bool, uint8_t, uint8_t, expression) \
    GD_ELEMENTWISE(op, 2, GD_TILE_LIGHT, op##_f32, op##_f64, op##_i64, op##_i32, op##_bool)

/* An op that is another one with its inputs exchanged. */
#define SWAPPED(op, other)                          \
    void GD_KERNEL(op)(const gd_args *a) {          \
        const gd_view *in[] = {a->in[1], a->in[0]}; \
        gd_args exchanged = *a;                     \
        exchanged.in = in;                          \
        GD_KERNEL(other)(&exchanged);               \
    }

/* Integers compute in the unsigned type u, which wraps without undefined behaviour. Bool is the
 * ring where it is closed: or, exclusive or, and. */
BINARY(add, GD_TILE_LIGHT, x + y, x + y, (u)x + (u)y, x | y)
BINARY(sub, GD_TILE_LIGHT, x - y, x - y, (u)x - (u)y, x ^ y)
BINARY(mul, GD_TILE_LIGHT, x * y, x * y, (u)x * (u)y, x & y)

GD_LOOP2(div_f32, float, float, x / y)
GD_LOOP2(div_f64, double, double, x / y)
GD_ELEMENTWISE(div, 2, GD_TILE_LIGHT, div_f32, div_f64)

/* NaN on either side wins: a NaN y loses the comparison and is taken, a NaN x is asked for. */
#define MAXIMUM ((x > y) | (x != x)) ? x : y
#define MINIMUM ((x < y) | (x != x)) ? x : y
BINARY(maximum, GD_TILE_LIGHT, MAXIMUM, MAXIMUM, x > y ? x : y, x | y)
BINARY(minimum, GD_TILE_LIGHT, MINIMUM, MINIMUM, x < y ? x : y, x & y)

/* (g, slope): a zero gradient stays zero, also where the slope is infinite or NaN. */
GD_LOOP2(chain_f32, float, float, x == 0 ? 0 : x * y)
GD_LOOP2(chain_f64, double, double, x == 0 ? 0 : x * y)
GD_ELEMENTWISE(chain, 2, GD_TILE_LIGHT, chain_f32, chain_f64)

COMPARE(eq, x == y)
COMPARE(ne, x != y)
COMPARE(lt, x < y)
COMPARE(le, x <= y)
SWAPPED(gt, lt)
SWAPPED(ge, le)
COMPARE(logical_and, (x != 0) & (y != 0))
COMPARE(logical_or, (x != 0) | (y != 0))
COMPARE(logical_xor, (x != 0) ^ (y != 0))

/* ---- Powers ---------------------------------------------------------------------------------- */

/* x^y by repeated squaring, wrapping; y < 0 is refused before a kernel runs. */
static inline uint64_t pow_of_u64(uint64_t x, uint64_t y) {
    uint64_t result = 1;
    for (; y != 0; y >>= 1, x *= x)
        if (y & 1) result *= x;
    return result;
}

BINARY(pow, GD_TILE_HEAVY, gd_pow_f32(x, y), gd_pow_f64(x, y), pow_of_u64((u)x, (u)y), x | !y)

/* ---- Where ----------------------------------------------------------------------------------- */

/* One row: condition and output contiguous, and each branch a row or one value. */
#define WHERE_ROW(first, second) \
    GD_INDEPENDENT for (int64_t i = 0; i < n; i++) o[i] = c[i] ? (first) : (second);

/* (condition, x, y): only bits move, so the element size is all that counts. */
#define WHERE_LOOP(name, word)                                                                      \
    static void name(const gd_row_span *s) {                                                            \
        const int64_t n = s->n, so = s->step[0], sc = s->step[1], sx = s->step[2], sy = s->step[3]; \
        word *o = (word *)(void *)s->data[0];                                                       \
        const uint8_t *c = (const uint8_t *)s->data[1];                                             \
        const word *x = (const word *)(void *)s->data[2], *y = (const word *)(void *)s->data[3];    \
        for (int64_t row = 0; row < s->rows; row++) {                                               \
            const word x0 = *x, y0 = *y;                                                            \
            switch (s->kind) {                                                                      \
            case GD_CONTIGUOUS: WHERE_ROW(x[i], y[i]) break;                                        \
            case GD_B_SCALAR: WHERE_ROW(x0, y[i]) break;                                            \
            case GD_C_SCALAR: WHERE_ROW(x[i], y0) break;                                            \
            case GD_B_SCALAR | GD_C_SCALAR: WHERE_ROW(x0, y0) break;                                \
            default:                                                                                \
                for (int64_t i = 0; i < n; i++) o[i * so] = c[i * sc] ? x[i * sx] : y[i * sy];      \
            }                                                                                       \
            o += s->row_step[0];                                                                    \
            c += s->row_step[1];                                                                    \
            x += s->row_step[2];                                                                    \
            y += s->row_step[3];                                                                    \
        }                                                                                           \
    }
WHERE_LOOP(where_8, uint8_t)
WHERE_LOOP(where_16, gd_word16)
WHERE_LOOP(where_32, gd_word32)
WHERE_LOOP(where_64, gd_word64)

void GD_KERNEL(where)(const gd_args *a) {
    static gd_loop *const loops[GD_DTYPES] = {where_32, where_64, where_64, where_32, where_8, where_16, where_16};
    gd_elementwise3(a, loops[a->out[0]->dtype], GD_TILE_LIGHT);
}
