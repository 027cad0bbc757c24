/* divide.c - quotients and remainders: with Python's rules (floor_divide, remainder) and with C's (fmod).
 * Floats go by blocks: where all quotients are small one fused step gives the exact remainder, else the C library does. */
#include "elementwise.h"

#include "../scalar.h"

/* ---- Integers: 0 for a zero divisor, which is refused before a kernel runs. -1 would overflow with INT_MIN -- */

#define INTEGER_DIVISION(type, unsigned_type, suffix)                                                    \
    static inline type floor_divide_of_##suffix(type x, type y) {                                        \
        if (y == 0) return 0;                                                                            \
        if (y == -1) return (type)(0 - (unsigned_type)x);                                                \
        const type quotient = x / y, rest = x % y;                                                       \
        return quotient - (rest != 0 && (rest < 0) != (y < 0));                                          \
    }                                                                                                    \
    static inline type fmod_of_##suffix(type x, type y) { return y == 0 || y == -1 ? 0 : x % y; }        \
    static inline type remainder_of_##suffix(type x, type y) {                                           \
        const type rest = fmod_of_##suffix(x, y);                                                        \
        return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;                                     \
    }                                                                                                    \
    GD_LOOP2(floor_divide_##suffix, type, type, floor_divide_of_##suffix(x, y))                          \
    GD_LOOP2(remainder_##suffix, type, type, remainder_of_##suffix(x, y))                                \
    GD_LOOP2(fmod_##suffix, type, type, fmod_of_##suffix(x, y))
INTEGER_DIVISION(int64_t, uint64_t, i64)
INTEGER_DIVISION(int32_t, uint32_t, i32)

/* ---- Floats, from the remainder that has the sign of x ------------------------------------------------------ */

enum { BLOCK = 64 }; /* elements that are looked through for a quotient that is not small */

/* c - a*b for c near a*b, exactly, where the target has the instruction; elsewhere no quotient of float64 is small. */
static inline double left_f64(double c, double a, double b) { return GD_FMA(-a, b, c); }
static inline float left_f32(float c, float a, float b) { return gd_left_f32(c, a, b); }

/* Quotients below it are exact but for one unit, which shows in the remainder. Without the instruction the products of
 * halves must be exact, too. */
#define SMALL_f32 4194304.0f
#define SMALL_f64 (GD_HAS_FMA ? 0x1p50 : -1.0)
#define LEAST_f32 (GD_HAS_FMA ? 0.0f : 1e-20f)
#define LEAST_f64 0.0

/* As NumPy: from the exact remainder, so that x is near floor_divide(x, y) * y + remainder(x, y).
 * A zero remainder takes the divisor's sign, a zero quotient that of x / y. */
#define FLOAT_DIVISION(type, suffix, f)                                                                  \
    static inline type fmod_from_##suffix(type x, type y, type rest) {                                   \
        (void)x, (void)y;                                                                                \
        return rest;                                                                                     \
    }                                                                                                    \
    static inline type remainder_from_##suffix(type x, type y, type rest) {                              \
        (void)x;                                                                                         \
        const type same = rest == 0 ? copysign##f(0, y) : rest;                                          \
        return rest != 0 && (rest < 0) != (y < 0) ? rest + y : same;                                     \
    }                                                                                                    \
    static inline type floor_divide_from_##suffix(type x, type y, type rest) {                           \
        const type quotient = (x - rest) / y - (type)(rest != 0 && (rest < 0) != (y < 0));               \
        const type whole = floor##f(quotient), nearest = quotient - whole > (type)0.5 ? whole + 1 : whole; \
        const type signed_zero = copysign##f(0, x / y), result = quotient == 0 ? signed_zero : nearest;  \
        return y == 0 ? x / y : result;                                                                  \
    }                                                                                                    \
    /* The remainder by way of q = trunc(x / y): one divisor too far where its sign is not that of x. */ \
    static inline type rest_##suffix(type x, type y, type q) {                                           \
        const type rest = left_##suffix(x, q, y), back = rest + copysign##f(y, x);                       \
        return copysign##f(rest != 0 && (rest < 0) != (x < 0) ? back : rest, x);                         \
    }                                                                                                    \
    FLOAT_LOOP(floor_divide, type, suffix, f)                                                            \
    FLOAT_LOOP(remainder, type, suffix, f)                                                               \
    FLOAT_LOOP(fmod, type, suffix, f)

#define FLOAT_LOOP(op, type, suffix, f)                                                                  \
    static void op##_block_##suffix(type *o, const type *x, const type *y) {                             \
        int hard = 0;                                                                                    \
        for (int i = 0; i < BLOCK; i++)                                                                  \
            hard |= !(fabs##f(x[i] / y[i]) < SMALL_##suffix) | !(fabs##f(y[i]) < (type)INFINITY) |       \
                    !(fabs##f(x[i]) >= LEAST_##suffix);                                                  \
        if (hard) {                                                                                      \
            for (int i = 0; i < BLOCK; i++) o[i] = op##_from_##suffix(x[i], y[i], fmod##f(x[i], y[i]));  \
        } else {                                                                                         \
            GD_INDEPENDENT for (int i = 0; i < BLOCK; i++)                                               \
                o[i] = op##_from_##suffix(x[i], y[i], rest_##suffix(x[i], y[i], trunc##f(x[i] / y[i]))); \
        }                                                                                                \
    }                                                                                                    \
    static void op##_##suffix(const gd_row_span *s) {                                                    \
        for (int64_t row = 0; row < s->rows; row++) {                                                    \
            type *o = (type *)(void *)s->data[0] + row * s->row_step[0];                                 \
            const type *x = (const type *)(void *)s->data[1] + row * s->row_step[1];                     \
            const type *y = (const type *)(void *)s->data[2] + row * s->row_step[2];                     \
            for (int64_t from = 0; from < s->n; from += BLOCK) {                                         \
                const int n = s->n - from < BLOCK ? (int)(s->n - from) : BLOCK;                          \
                type a[BLOCK], b[BLOCK], r[BLOCK];                                                       \
                for (int i = 0; i < n; i++) a[i] = x[(from + i) * s->step[1]];                           \
                for (int i = 0; i < n; i++) b[i] = y[(from + i) * s->step[2]];                           \
                for (int i = n; i < BLOCK; i++) a[i] = b[i] = 1;                                         \
                op##_block_##suffix(r, a, b);                                                            \
                for (int i = 0; i < n; i++) o[(from + i) * s->step[0]] = r[i];                           \
            }                                                                                            \
        }                                                                                                \
    }
FLOAT_DIVISION(float, f32, f)
FLOAT_DIVISION(double, f64, )

GD_LOOP2(floor_divide_bool, uint8_t, uint8_t, x & y)
GD_LOOP2(remainder_bool, uint8_t, uint8_t, x & !y)

GD_ELEMENTWISE(floor_divide, 2, GD_TILE_HEAVY, floor_divide_f32, floor_divide_f64, floor_divide_i64, floor_divide_i32, floor_divide_bool)
GD_ELEMENTWISE(remainder, 2, GD_TILE_HEAVY, remainder_f32, remainder_f64, remainder_i64, remainder_i32, remainder_bool)
GD_ELEMENTWISE(fmod, 2, GD_TILE_HEAVY, fmod_f32, fmod_f64, fmod_i64, fmod_i32, remainder_bool)
