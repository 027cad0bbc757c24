/* elementwise.h - loops of the AVX-512 elementwise kernels over rows of float32 or float64: whole
 * vectors, then one masked tail with the same formula. Other dtypes and strides go to AVX2.
 * bfloat16 and float16 become float32 as they are loaded, and are rounded as they are stored (bf16.h's vectors). */
#ifndef GRADINO_AVX512_ELEMENTWISE_H
#define GRADINO_AVX512_ELEMENTWISE_H

#include <immintrin.h>

#include "../cpu.h"
#include "../portable/elementwise.h"
#include "halves.h"

/* What the element types, called ps and pd as in the intrinsics, and bf and hf for the halves, have for names. */
typedef float gd_element_ps;
typedef double gd_element_pd;
typedef uint16_t gd_element_bf, gd_element_hf;
typedef __m512 gd_vector_ps, gd_vector_bf, gd_vector_hf;
typedef __m512d gd_vector_pd;
typedef __mmask16 gd_lanes_ps, gd_lanes_bf, gd_lanes_hf;
typedef __mmask8 gd_lanes_pd;
enum { GD_LANES_ps = 16, GD_LANES_pd = 8, GD_LANES_bf = 16, GD_LANES_hf = 16 };

/* Loads, repeats and stores of each. */
#define GD_DEFINE_ACCESS(t)                                                                                                  \
    GD_EW_INLINE gd_vector_##t gd_load_##t(const gd_element_##t *p) { return _mm512_loadu_##t(p); }                          \
    GD_EW_INLINE gd_vector_##t gd_load_part_##t(gd_lanes_##t k, const gd_element_##t *p) { return _mm512_maskz_loadu_##t(k, p); } \
    GD_EW_INLINE gd_vector_##t gd_repeat_##t(const gd_element_##t *p, bool wide) { (void)wide; return _mm512_set1_##t(*p); } \
    GD_EW_INLINE void gd_store_##t(gd_element_##t *p, gd_vector_##t v) { _mm512_storeu_##t(p, v); }                          \
    GD_EW_INLINE void gd_stream_##t(gd_element_##t *p, gd_vector_##t v) { _mm512_stream_##t(p, v); }                         \
    GD_EW_INLINE void gd_store_part_##t(gd_element_##t *p, gd_lanes_##t k, gd_vector_##t v) { _mm512_mask_storeu_##t(p, k, v); }
GD_DEFINE_ACCESS(ps)
GD_DEFINE_ACCESS(pd)
#define GD_DEFINE_HALF_ACCESS(t, half)                                                                                       \
    GD_EW_INLINE __m512 gd_load_##t(const uint16_t *p) { return gd_f32_of_##half##512(_mm256_loadu_si256((const __m256i *)(const void *)p)); } \
    GD_EW_INLINE __m512 gd_load_part_##t(__mmask16 k, const uint16_t *p) { return gd_f32_of_##half##512(_mm256_maskz_loadu_epi16(k, p)); } \
    GD_EW_INLINE __m512 gd_repeat_##t(const uint16_t *p, bool wide) { /* wide: a float32 */                                  \
        return wide ? _mm512_set1_ps(*(const float *)(const void *)p) : gd_f32_of_##half##512(_mm256_set1_epi16((short)*p)); \
    }                                                                                                                        \
    GD_EW_INLINE void gd_store_##t(uint16_t *p, __m512 v) { _mm256_storeu_si256((__m256i *)(void *)p, gd_##half##_of_f32512(v)); } \
    GD_EW_INLINE void gd_stream_##t(uint16_t *p, __m512 v) { _mm256_stream_si256((__m256i *)(void *)p, gd_##half##_of_f32512(v)); } \
    GD_EW_INLINE void gd_store_part_##t(uint16_t *p, __mmask16 k, __m512 v) { _mm256_mask_storeu_epi16(p, k, gd_##half##_of_f32512(v)); }
GD_DEFINE_HALF_ACCESS(bf, bf16)
GD_DEFINE_HALF_ACCESS(hf, f16)

/* The first `left` lanes, 0 < left < all of them. */
#define GD_FIRST_LANES(t, left) ((gd_lanes_##t)((1u << (left)) - 1u))

/* A store that leaves the caches alone where the output is larger than they are: memory is then written without being
 * read before. Tasks begin at multiples of a vector, so an aligned output is aligned for each. */
#define GD_STORE_OR_STREAM(t, to, v)        \
    do {                                    \
        if (stream)                         \
            gd_stream_##t(to, v);     \
        else                                \
            gd_store_##t(to, v);     \
    } while (0)
#define GD_END_STREAM \
    if (stream) _mm_sfence()

/* Stores of vectors, and of comparison results as bytes 0 and 1. */
#define GD_STORE_values(t, to, v) GD_STORE_OR_STREAM(t, to, v)
#define GD_STORE_TAIL_values(t, to, lanes, v) gd_store_part_##t(to, lanes, v)
#define GD_STORE_flags(t, to, v) gd_store_flags_##t(to, v)
#define GD_STORE_TAIL_flags(t, to, lanes, v) _mm_mask_storeu_epi8(to, lanes, _mm_maskz_set1_epi8(v, 1))
#define gd_store_flags_ps(to, v) _mm_storeu_si128((__m128i *)(void *)(to), _mm_maskz_set1_epi8(v, 1))
#define gd_store_flags_pd(to, v) _mm_storeu_si64(to, _mm_maskz_set1_epi8(v, 1))
#define gd_store_flags_bf gd_store_flags_ps
#define gd_store_flags_hf gd_store_flags_ps

#define GD_LOAD(t, from) gd_load_##t((from) + i)
#define GD_LOAD_TAIL(t, from) gd_load_part_##t(lanes, (from) + i)

/* A loop over one input: x is the vector; declarations stand before the loop and may use the span s. */
#define GD_VECTOR_LOOP1(name, t, declarations, expression)                     \
    static void name(const gd_row_span *s) {                                       \
        declarations;                                                          \
        const int64_t n = s->n;                                                \
        const bool stream = s->stream;                                         \
        gd_element_##t *o = (gd_element_##t *)(void *)s->data[0];              \
        const gd_element_##t *px = (const gd_element_##t *)(void *)s->data[1]; \
        for (int64_t row = 0; row < s->rows; row++) {                          \
            int64_t i = 0;                                                     \
            for (; i + GD_LANES_##t <= n; i += GD_LANES_##t) {                 \
                const gd_vector_##t x = GD_LOAD(t, px);                        \
                GD_STORE_OR_STREAM(t, o + i, expression);                      \
            }                                                                  \
            if (i < n) {                                                       \
                const gd_lanes_##t lanes = GD_FIRST_LANES(t, n - i);           \
                const gd_vector_##t x = GD_LOAD_TAIL(t, px);                   \
                gd_store_part_##t(o + i, lanes, expression);                   \
            }                                                                  \
            o += s->row_step[0];                                               \
            px += s->row_step[1];                                              \
        }                                                                      \
        GD_END_STREAM;                                                         \
    }

#define GD_VECTOR_ROW2(t, store, x_full, x_tail, y_full, y_tail, expression) \
    do {                                                                     \
        int64_t i = 0;                                                       \
        for (; i + GD_LANES_##t <= n; i += GD_LANES_##t) {                   \
            const gd_vector_##t x = x_full, y = y_full;                      \
            GD_STORE_##store(t, o + i, expression);                          \
        }                                                                    \
        if (i < n) {                                                         \
            const gd_lanes_##t lanes = GD_FIRST_LANES(t, n - i);             \
            const gd_vector_##t x = x_tail, y = y_tail;                      \
            GD_STORE_TAIL_##store(t, o + i, lanes, expression);              \
        }                                                                    \
    } while (0)

/* A loop over two inputs, one of which may be a single value in a row: x and y are the vectors. */
#define GD_VECTOR_LOOP2(name, t, to, store, declarations, expression)                             \
    static void name(const gd_row_span *s) {                                                          \
        declarations;                                                                             \
        const int64_t n = s->n;                                                                   \
        const bool stream = s->stream;                                                            \
        to *o = (to *)(void *)s->data[0];                                                         \
        const gd_element_##t *px = (const gd_element_##t *)(void *)s->data[1];                    \
        const gd_element_##t *py = (const gd_element_##t *)(void *)s->data[2];                    \
        for (int64_t row = 0; row < s->rows; row++) {                                             \
            if (s->kind == GD_CONTIGUOUS) {                                                       \
                GD_VECTOR_ROW2(t, store, GD_LOAD(t, px), GD_LOAD_TAIL(t, px), GD_LOAD(t, py),     \
                               GD_LOAD_TAIL(t, py), expression);                                  \
            } else if (s->kind == GD_B_SCALAR) {                                                  \
                const gd_vector_##t repeated = gd_repeat_##t(py, s->wide);        \
                GD_VECTOR_ROW2(t, store, GD_LOAD(t, px), GD_LOAD_TAIL(t, px), repeated, repeated, \
                               expression);                                                       \
            } else {                                                                              \
                const gd_vector_##t repeated = gd_repeat_##t(px, s->wide);        \
                GD_VECTOR_ROW2(t, store, repeated, repeated, GD_LOAD(t, py), GD_LOAD_TAIL(t, py), \
                               expression);                                                       \
            }                                                                                     \
            o += s->row_step[0];                                                                  \
            px += s->row_step[1];                                                                 \
            py += s->row_step[2];                                                                 \
        }                                                                                         \
        GD_END_STREAM;                                                                            \
    }

/* Runs a one-input loop on elements with any steps, a buffer at a time: for functions that have other
 * bits than AVX2's, because a value may not depend on the layout. */
enum { GD_STAGE = 128 };
#define GD_STAGED(name, type, loop)                                                                          \
    static void name(const gd_row_span *s) {                                                                     \
        _Alignas(64) type buffer[GD_STAGE];                                                                  \
        gd_row_span part = {.data = {(char *)buffer, (char *)buffer}, .rows = 1, .attr = s->attr};               \
        for (int64_t row = 0; row < s->rows; row++) {                                                        \
            for (int64_t from = 0; from < s->n; from += GD_STAGE) {                                          \
                type *o = (type *)(void *)s->data[0] + row * s->row_step[0] + from * s->step[0];             \
                const type *x = (const type *)(void *)s->data[1] + row * s->row_step[1] + from * s->step[1]; \
                part.n = s->n - from < GD_STAGE ? s->n - from : GD_STAGE;                                    \
                for (int64_t i = 0; i < part.n; i++) buffer[i] = x[i * s->step[1]];                          \
                loop(&part);                                                                                 \
                for (int64_t i = 0; i < part.n; i++) o[i * s->step[0]] = buffer[i];                          \
            }                                                                                                \
        }                                                                                                    \
    }

GD_EW_INLINE gd_loop *gd_vector_loop(const gd_args *a, gd_loop *f32, gd_loop *f64) {
    const int dtype = a->in[0]->dtype;
    return dtype == GD_FLOAT32 ? f32 : dtype == GD_FLOAT64 ? f64 : NULL;
}

/* Whether an output is to be streamed: flat, aligned, larger than the last cache, and not one of the inputs. */
enum { GD_STREAM_LEAST = 4 << 20 }; /* bytes; smaller ones are not even looked at */
GD_EW_INLINE bool gd_streams(const gd_walk *w, int64_t count) {
    const int64_t bytes = count * w->bytes[0];
    if (bytes < GD_STREAM_LEAST || w->dims != 1 || (uintptr_t)w->span.data[0] % 64 != 0) return false;
    for (int j = 1; j < w->operands; j++)
        if (w->span.data[j] == w->span.data[0]) return false;
    return bytes > gd_cache_sizes().l3;
}

/* Runs the loop of the inputs' dtype; false where there is none for it or for the strides. */
GD_EW_SHARED bool gd_vector_elementwise1(const gd_args *a, gd_loop *f32, gd_loop *f64, int64_t tile) {
    gd_loop *const loop = gd_vector_loop(a, f32, f64);
    if (!loop) return false;
    gd_walk w;
    const int64_t count = gd_walk_begin(&w, a, 2);
    if (w.span.kind != GD_CONTIGUOUS) return false;
    w.span.stream = gd_streams(&w, count);
    gd_walk_run(&w, count, loop, tile);
    return true;
}

/* The same for an op of floats only, whose staged loops take the other strides. */
GD_EW_SHARED void gd_vector_staged1(const gd_args *a, gd_loop *const loops[2], gd_loop *const staged[2], int64_t tile) {
    gd_walk w;
    const int64_t count = gd_walk_begin(&w, a, 2);
    const int dtype = a->in[0]->dtype;
    assert(dtype == GD_FLOAT32 || dtype == GD_FLOAT64);
    w.span.stream = w.span.kind == GD_CONTIGUOUS && gd_streams(&w, count);
    gd_walk_run(&w, count, (w.span.kind == GD_CONTIGUOUS ? loops : staged)[dtype], tile);
}

GD_EW_SHARED bool gd_vector_elementwise2(const gd_args *a, gd_loop *f32, gd_loop *f64, int64_t tile) {
    gd_loop *const loop = gd_vector_loop(a, f32, f64);
    if (!loop) return false;
    gd_walk w;
    const int64_t count = gd_walk_begin(&w, a, 3);
    if (w.span.kind == GD_STRIDED || w.span.kind == (GD_A_SCALAR | GD_B_SCALAR)) return false;
    w.span.stream = gd_streams(&w, count);
    gd_walk_run(&w, count, loop, tile);
    return true;
}

/* Runs an op on halves of one kind, one of which may be a float32 number; false where there is no loop for it or for the strides. */
GD_EW_SHARED bool gd_vector_halves(const gd_args *a, gd_loop *const loops[2]) {
    const int out = a->out[0]->dtype;
    int half = out;
    if (!loops[0]) return false;
    for (int k = 0; k < a->nin; k++)
        if (gd_is_half(a->in[k]->dtype)) half = a->in[k]->dtype;
    if (out != half && out != GD_BOOL) return false;
    gd_walk w;
    const int64_t count = gd_walk_begin(&w, a, a->nin + 1);
    if (a->nin == 1 ? w.span.kind != GD_CONTIGUOUS : w.span.kind == GD_STRIDED || w.span.kind == (GD_A_SCALAR | GD_B_SCALAR)) return false;
    for (int k = 0; k < a->nin; k++) {
        if (a->in[k]->dtype == half) continue;
        if (a->in[k]->dtype != GD_FLOAT32 || gd_numel(a->in[k]) != 1 || w.span.kind != (k ? GD_B_SCALAR : GD_A_SCALAR)) return false;
        w.span.wide = true;
    }
    w.span.stream = gd_streams(&w, count);
    gd_walk_run(&w, count, loops[half == GD_FLOAT16], GD_TILE_LIGHT);
    return true;
}

/* The kernel of an op from its loops op_ps and op_pd. */
#define GD_VECTOR_KERNEL(op, inputs, tile)                                                \
    void gd_##op##_avx512(const gd_args *a) {                                             \
        if (!gd_vector_elementwise##inputs(a, op##_ps, op##_pd, tile)) gd_##op##_avx2(a); \
    }

#endif
