/* cast.c - casts between float32 and bfloat16 or float16, contiguous; all others are AVX2's. */
#include "../half.h"
#include "elementwise.h"

enum { LANES = 16 };

#define WIDEN(half)                                                                                         \
    static void f32_from_##half(const gd_row_span *s) {                                                     \
        const int64_t n = s->n;                                                                             \
        float *o = (float *)(void *)s->data[0];                                                             \
        const uint16_t *x = (const uint16_t *)(const void *)s->data[1];                                     \
        for (int64_t row = 0; row < s->rows; row++, o += s->row_step[0], x += s->row_step[1]) {             \
            int64_t i = 0;                                                                                  \
            for (; i + LANES <= n; i += LANES)                                                              \
                _mm512_storeu_ps(o + i, gd_f32_of_##half##512(_mm256_loadu_si256((const __m256i *)(const void *)(x + i)))); \
            if (i < n) {                                                                                    \
                const __mmask16 lanes = GD_FIRST_LANES(ps, n - i);                                          \
                _mm512_mask_storeu_ps(o + i, lanes, gd_f32_of_##half##512(_mm256_maskz_loadu_epi16(lanes, x + i))); \
            }                                                                                               \
        }                                                                                                   \
    }
WIDEN(bf16)
WIDEN(f16)

#define NARROW(half)                                                                                        \
    static void half##_from_f32(const gd_row_span *s) {                                                     \
        const int64_t n = s->n;                                                                             \
        uint16_t *o = (uint16_t *)(void *)s->data[0];                                                       \
        const float *x = (const float *)(const void *)s->data[1];                                           \
        for (int64_t row = 0; row < s->rows; row++, o += s->row_step[0], x += s->row_step[1]) {             \
            int64_t i = 0;                                                                                  \
            for (; i + LANES <= n; i += LANES)                                                              \
                _mm256_storeu_si256((__m256i *)(void *)(o + i), gd_##half##_of_f32512(_mm512_loadu_ps(x + i)));     \
            if (i < n) {                                                                                    \
                const __mmask16 lanes = GD_FIRST_LANES(ps, n - i);                                          \
                _mm256_mask_storeu_epi16(o + i, lanes, gd_##half##_of_f32512(_mm512_maskz_loadu_ps(lanes, x + i))); \
            }                                                                                               \
        }                                                                                                   \
    }
NARROW(bf16)
NARROW(f16)

static gd_row_span run_of(void *to, const void *from, int64_t n) {
    return (gd_row_span){.data = {to, (char *)(uintptr_t)from}, .n = n, .rows = 1, .step = {1, 1}, .kind = GD_CONTIGUOUS};
}

void gd_narrow_half_avx512(uint16_t *to, const float *from, int64_t n, int dtype) {
    const gd_row_span s = run_of(to, from, n);
    (dtype == GD_BFLOAT16 ? bf16_from_f32 : f16_from_f32)(&s);
}

void gd_widen_half_avx512(float *to, const uint16_t *from, int64_t n, int dtype) {
    const gd_row_span s = run_of(to, from, n);
    (dtype == GD_BFLOAT16 ? f32_from_bf16 : f32_from_f16)(&s);
}

void gd_cast_avx512(const gd_args *a) {
    static gd_loop *const widen[GD_DTYPES] = {[GD_BFLOAT16] = f32_from_bf16, [GD_FLOAT16] = f32_from_f16};
    static gd_loop *const narrow[GD_DTYPES] = {[GD_BFLOAT16] = bf16_from_f32, [GD_FLOAT16] = f16_from_f32};
    const int from = a->in[0]->dtype, to = a->out[0]->dtype;
    gd_loop *const loop = to == GD_FLOAT32 ? widen[from] : from == GD_FLOAT32 ? narrow[to] : NULL;
    if (loop) {
        gd_walk w;
        const int64_t count = gd_walk_begin(&w, a, 2);
        if (w.span.kind == GD_CONTIGUOUS) {
            gd_walk_run(&w, count, loop, GD_TILE_LIGHT);
            return;
        }
    }
    gd_cast_avx2(a);
}
