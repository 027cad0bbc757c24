/* cast.c - casts between all dtypes. To bfloat16 and float16 every value is rounded once, to the nearest.
 * Rows of one dtype are copies. */
#include "../half.h"
#include "elementwise.h"

/* Truncates; NaN and what does not fit become the least integer, as x86 hardware has it. The
 * comparison with `below` also keeps doubles that truncate to INT32_MIN. */
#define TRUNCATE(name, to, from, below, above, otherwise) \
    static inline to name(from x) {                       \
        const bool fits = x > (below) && x < (above);     \
        const to value = (to)(fits ? x : 0);              \
        return fits ? value : (otherwise);                \
    }
TRUNCATE(i32_of_f32, int32_t, float, -0x1.000002p31f, 0x1p31f, INT32_MIN)
TRUNCATE(i32_of_f64, int32_t, double, -2147483649.0, 0x1p31, INT32_MIN)
TRUNCATE(i64_of_f32, int64_t, float, -0x1.000002p63f, 0x1p63f, INT64_MIN)
TRUNCATE(i64_of_f64, int64_t, double, -0x1.0000000000001p63, 0x1p63, INT64_MIN)

GD_LOOP1(f64_from_f32, double, float, x)
GD_LOOP1(i64_from_f32, int64_t, float, i64_of_f32(x))
GD_LOOP1(i32_from_f32, int32_t, float, i32_of_f32(x))
GD_LOOP1(bool_from_f32, uint8_t, float, x != 0)
GD_LOOP1(f32_from_f64, float, double, x)
GD_LOOP1(i64_from_f64, int64_t, double, i64_of_f64(x))
GD_LOOP1(i32_from_f64, int32_t, double, i32_of_f64(x))
GD_LOOP1(bool_from_f64, uint8_t, double, x != 0)
GD_LOOP1(f32_from_i64, float, int64_t, x)
GD_LOOP1(f64_from_i64, double, int64_t, x)
GD_LOOP1(i32_from_i64, int32_t, int64_t, (uint32_t)x)
GD_LOOP1(bool_from_i64, uint8_t, int64_t, x != 0)
GD_LOOP1(f32_from_i32, float, int32_t, x)
GD_LOOP1(f64_from_i32, double, int32_t, x)
GD_LOOP1(i64_from_i32, int64_t, int32_t, x)
GD_LOOP1(bool_from_i32, uint8_t, int32_t, x != 0)
GD_LOOP1(f32_from_bool, float, uint8_t, x)
GD_LOOP1(f64_from_bool, double, uint8_t, x)
GD_LOOP1(i64_from_bool, int64_t, uint8_t, x)
GD_LOOP1(i32_from_bool, int32_t, uint8_t, x)

/* ---- bfloat16 and float16, which loops see as their bits -------------------------------------------- */

#define HALF_CASTS(half, half_of_f32, half_of_f64, f32_of_half)                                          \
    GD_LOOP1(f32_from_##half, float, uint16_t, f32_of_half(x))                                           \
    GD_LOOP1(f64_from_##half, double, uint16_t, f32_of_half(x))                                          \
    GD_LOOP1(i64_from_##half, int64_t, uint16_t, i64_of_f32(f32_of_half(x)))                             \
    GD_LOOP1(i32_from_##half, int32_t, uint16_t, i32_of_f32(f32_of_half(x)))                             \
    GD_LOOP1(bool_from_##half, uint8_t, uint16_t, (x & 0x7fffu) != 0)                                    \
    GD_LOOP1(half##_from_f32, uint16_t, float, half_of_f32(x))                                           \
    GD_LOOP1(half##_from_f64, uint16_t, double, half_of_f64(x))                                          \
    GD_LOOP1(half##_from_i64, uint16_t, int64_t, half_of_f64(gd_odd_f64_of_i64(x)))                      \
    GD_LOOP1(half##_from_i32, uint16_t, int32_t, half_of_f64(x))                                         \
    GD_LOOP1(half##_from_bool, uint16_t, uint8_t, half_of_f32(x))
HALF_CASTS(bf16, gd_bf16_of_f32, gd_bf16_of_f64, gd_f32_of_bf16)
HALF_CASTS(f16, gd_f16_of_f32, gd_f16_of_f64, gd_f32_of_f16)
GD_LOOP1(f16_from_bf16, uint16_t, uint16_t, gd_f16_of_f32(gd_f32_of_bf16(x)))
GD_LOOP1(bf16_from_f16, uint16_t, uint16_t, gd_bf16_of_f32(gd_f32_of_f16(x)))

void GD_KERNEL(cast)(const gd_args *a) {
    static gd_loop *const loops[GD_DTYPES][GD_DTYPES] = { /* [from][to] */
        {NULL, f64_from_f32, i64_from_f32, i32_from_f32, bool_from_f32, bf16_from_f32, f16_from_f32},
        {f32_from_f64, NULL, i64_from_f64, i32_from_f64, bool_from_f64, bf16_from_f64, f16_from_f64},
        {f32_from_i64, f64_from_i64, NULL, i32_from_i64, bool_from_i64, bf16_from_i64, f16_from_i64},
        {f32_from_i32, f64_from_i32, i64_from_i32, NULL, bool_from_i32, bf16_from_i32, f16_from_i32},
        {f32_from_bool, f64_from_bool, i64_from_bool, i32_from_bool, NULL, bf16_from_bool, f16_from_bool},
        {f32_from_bf16, f64_from_bf16, i64_from_bf16, i32_from_bf16, bool_from_bf16, NULL, f16_from_bf16},
        {f32_from_f16, f64_from_f16, i64_from_f16, i32_from_f16, bool_from_f16, bf16_from_f16, NULL},
    };
    gd_loop *const loop = loops[a->in[0]->dtype][a->out[0]->dtype];
    if (loop) gd_elementwise1(a, loop, GD_TILE_LIGHT);
    else GD_KERNEL(copy)(a);
}

static gd_row_span run_of(void *to, const void *from, int64_t n) {
    return (gd_row_span){.data = {to, (char *)(uintptr_t)from}, .n = n, .rows = 1, .step = {1, 1}, .kind = GD_CONTIGUOUS};
}

void GD_KERNEL(narrow_half)(uint16_t *to, const float *from, int64_t n, int dtype) {
    const gd_row_span s = run_of(to, from, n);
    (dtype == GD_BFLOAT16 ? bf16_from_f32 : f16_from_f32)(&s);
}

void GD_KERNEL(widen_half)(float *to, const uint16_t *from, int64_t n, int dtype) {
    const gd_row_span s = run_of(to, from, n);
    (dtype == GD_BFLOAT16 ? f32_from_bf16 : f32_from_f16)(&s);
}
