/* binary.c - ops with two inputs, comparisons and where, float32 and float64: operands are rows
 * or one value in a row. A formula is written once for both vector types t; x and y are vectors. */
#include "../half.h"
#include "elementwise.h"

#include "vmath.h"

#define BINARY(op, formula)                                     \
    GD_VECTOR_LOOP2(op##_ps, ps, float, values, , formula(ps))  \
    GD_VECTOR_LOOP2(op##_pd, pd, double, values, , formula(pd)) \
    GD_VECTOR_LOOP2(op##_bf, bf, uint16_t, values, , formula(ps)) \
    GD_VECTOR_LOOP2(op##_hf, hf, uint16_t, values, , formula(ps)) \
    GD_VECTOR_KERNEL(op, 2, GD_TILE_LIGHT)

#define IS(t, a, comparison, b) _mm512_cmp_##t##_mask(a, b, _CMP_##comparison)

#define ADD(t) _mm512_add_##t(x, y)
#define SUB(t) _mm512_sub_##t(x, y)
#define MUL(t) _mm512_mul_##t(x, y)
#define DIV(t) _mm512_div_##t(x, y)
/* max and min return their second operand where either is NaN, so a NaN y passes and a NaN x is put back. */
#define MAXIMUM(t) _mm512_mask_mov_##t(_mm512_max_##t(x, y), IS(t, x, UNORD_Q, x), x)
#define MINIMUM(t) _mm512_mask_mov_##t(_mm512_min_##t(x, y), IS(t, x, UNORD_Q, x), x)
/* (g, slope): a zero gradient stays zero, also where the slope is infinite or NaN. */
#define CHAIN(t) _mm512_maskz_mul_##t(IS(t, x, NEQ_UQ, _mm512_setzero_##t()), x, y)

BINARY(add, ADD)
BINARY(sub, SUB)
BINARY(mul, MUL)
BINARY(div, DIV)
BINARY(maximum, MAXIMUM)
BINARY(minimum, MINIMUM)
BINARY(chain, CHAIN)

GD_VECTOR_LOOP2(pow_ps, ps, float, values, , gd_pow_ps512(x, y))
void gd_pow_avx512(const gd_args *a) {
    if (!gd_vector_elementwise2(a, pow_ps, NULL, GD_TILE_HEAVY)) gd_pow_avx2(a);
}

#define COMPARE(op, comparison)                                              \
    GD_VECTOR_LOOP2(op##_ps, ps, uint8_t, flags, , IS(ps, x, comparison, y)) \
    GD_VECTOR_LOOP2(op##_pd, pd, uint8_t, flags, , IS(pd, x, comparison, y)) \
    GD_VECTOR_LOOP2(op##_bf, bf, uint8_t, flags, , IS(ps, x, comparison, y)) \
    GD_VECTOR_LOOP2(op##_hf, hf, uint8_t, flags, , IS(ps, x, comparison, y)) \
    GD_VECTOR_KERNEL(op, 2, GD_TILE_LIGHT)

COMPARE(eq, EQ_OQ)
COMPARE(ne, NEQ_UQ)
COMPARE(lt, LT_OQ)
COMPARE(le, LE_OQ)
COMPARE(gt, GT_OQ)
COMPARE(ge, GE_OQ)

#define HALVES(op) [GD_OP_##op] = {op##_bf, op##_hf}
bool gd_binary_halves_avx512(int op, const gd_args *a) {
    static gd_loop *const loops[GD_OPS][2] = {HALVES(add), HALVES(sub), HALVES(mul), HALVES(div), HALVES(maximum), HALVES(minimum), HALVES(chain),
                                              HALVES(eq), HALVES(ne), HALVES(lt), HALVES(le), HALVES(gt), HALVES(ge)};
    return gd_vector_halves(a, loops[op]);
}

/* ---- Where: only bits move, so int32 goes with float32, int64 with float64, and halves are 16 bits */

typedef uint16_t gd_element_half;
typedef __m512i gd_vector_half;
typedef __mmask32 gd_lanes_half;
enum { GD_LANES_half = 32 };
#define gd_load_half(p) _mm512_loadu_epi16(p)
#define gd_load_part_half(k, p) _mm512_maskz_loadu_epi16(k, p)
#define gd_repeat_half(p, wide) _mm512_set1_epi16((short)*(p))
#define gd_store_half(p, v) _mm512_storeu_epi16(p, v)
#define gd_store_part_half(p, k, v) _mm512_mask_storeu_epi16(p, k, v)
#define PICK_ps(k, x, y) _mm512_mask_mov_ps(y, k, x)
#define PICK_pd(k, x, y) _mm512_mask_mov_pd(y, k, x)
#define PICK_half(k, x, y) _mm512_mask_mov_epi16(y, k, x)

/* Which lanes have a condition that is not 0. */
static inline __mmask32 chosen(const uint8_t *condition, __mmask32 lanes) {
    const __m256i bytes = _mm256_maskz_loadu_epi8(lanes, condition);
    return _mm256_test_epi8_mask(bytes, bytes);
}

#define WHERE_ROW(t, x_full, x_tail, y_full, y_tail)                                          \
    do {                                                                                      \
        int64_t i = 0;                                                                        \
        for (; i + GD_LANES_##t <= n; i += GD_LANES_##t) {                                    \
            const gd_lanes_##t first = (gd_lanes_##t)chosen(c + i, (gd_lanes_##t)-1);         \
            gd_store_##t(o + i, PICK_##t(first, x_full, y_full));                             \
        }                                                                                     \
        if (i < n) {                                                                          \
            const gd_lanes_##t lanes = GD_FIRST_LANES(t, n - i);                              \
            const gd_lanes_##t first = (gd_lanes_##t)chosen(c + i, lanes);                    \
            gd_store_part_##t(o + i, lanes, PICK_##t(first, x_tail, y_tail));                 \
        }                                                                                     \
    } while (0)

#define WHERE_LOOP(t)                                                                                   \
    static void where_##t(const gd_row_span *s) {                                                           \
        const int64_t n = s->n;                                                                         \
        gd_element_##t *o = (gd_element_##t *)(void *)s->data[0];                                       \
        const uint8_t *c = (const uint8_t *)s->data[1];                                                 \
        const gd_element_##t *px = (const gd_element_##t *)(void *)s->data[2];                          \
        const gd_element_##t *py = (const gd_element_##t *)(void *)s->data[3];                          \
        for (int64_t row = 0; row < s->rows; row++) {                                                   \
            const gd_vector_##t x = gd_repeat_##t(px, false), y = gd_repeat_##t(py, false);              \
            switch (s->kind) {                                                                          \
            case GD_CONTIGUOUS:                                                                         \
                WHERE_ROW(t, GD_LOAD(t, px), GD_LOAD_TAIL(t, px), GD_LOAD(t, py), GD_LOAD_TAIL(t, py)); \
                break;                                                                                  \
            case GD_B_SCALAR: WHERE_ROW(t, x, x, GD_LOAD(t, py), GD_LOAD_TAIL(t, py)); break;           \
            case GD_C_SCALAR: WHERE_ROW(t, GD_LOAD(t, px), GD_LOAD_TAIL(t, px), y, y); break;           \
            default: WHERE_ROW(t, x, x, y, y);                                                          \
            }                                                                                           \
            o += s->row_step[0];                                                                        \
            c += s->row_step[1];                                                                        \
            px += s->row_step[2];                                                                       \
            py += s->row_step[3];                                                                       \
        }                                                                                               \
    }
WHERE_LOOP(ps)
WHERE_LOOP(pd)
WHERE_LOOP(half)

void gd_where_avx512(const gd_args *a) {
    static gd_loop *const loops[GD_DTYPES] = {where_ps, where_pd, where_pd, where_ps, [GD_BFLOAT16] = where_half, [GD_FLOAT16] = where_half};
    gd_loop *const loop = loops[a->out[0]->dtype];
    if (loop) {
        gd_walk w;
        const int64_t count = gd_walk_begin(&w, a, 4);
        if (w.span.kind != GD_STRIDED && !(w.span.kind & GD_A_SCALAR)) {
            gd_walk_run(&w, count, loop, GD_TILE_LIGHT);
            return;
        }
    }
    gd_where_avx2(a);
}
