/* elementwise.h - loops of the AVX-512 elementwise kernels over rows of float32 or float64: whole
 * vectors, then one masked tail with the same formula. Other dtypes and strides go to AVX2. */
#ifndef GRADINO_AVX512_ELEMENTWISE_H
#define GRADINO_AVX512_ELEMENTWISE_H

#include <immintrin.h>

#include "../cpu.h"
#include "../portable/elementwise.h"

/* What the element types, called ps and pd as in the intrinsics, have for names. */
typedef float gd_element_ps;
typedef double gd_element_pd;
typedef __m512 gd_vector_ps;
typedef __m512d gd_vector_pd;
typedef __mmask16 gd_lanes_ps;
typedef __mmask8 gd_lanes_pd;
enum { GD_LANES_ps = 16, GD_LANES_pd = 8 };

/* The first `left` lanes, 0 < left < all of them. */
#define GD_FIRST_LANES(t, left) ((gd_lanes_##t)((1u << (left)) - 1u))

/* A store that leaves the caches alone where the output is larger than they are: memory is then written without being
 * read before. Tasks begin at multiples of a vector, so an aligned output is aligned for each. */
#define GD_STORE_OR_STREAM(t, to, v)        \
    do {                                    \
        if (stream)                         \
            _mm512_stream_##t(to, v);       \
        else                                \
            _mm512_storeu_##t(to, v);       \
    } while (0)
#define GD_END_STREAM \
    if (stream) _mm_sfence()

/* Stores of vectors, and of comparison results as bytes 0 and 1. */
#define GD_STORE_values(t, to, v) GD_STORE_OR_STREAM(t, to, v)
#define GD_STORE_TAIL_values(t, to, lanes, v) _mm512_mask_storeu_##t(to, lanes, v)
#define GD_STORE_flags(t, to, v) gd_store_flags_##t(to, v)
#define GD_STORE_TAIL_flags(t, to, lanes, v) _mm_mask_storeu_epi8(to, lanes, _mm_maskz_set1_epi8(v, 1))
#define gd_store_flags_ps(to, v) _mm_storeu_si128((__m128i *)(void *)(to), _mm_maskz_set1_epi8(v, 1))
#define gd_store_flags_pd(to, v) _mm_storeu_si64(to, _mm_maskz_set1_epi8(v, 1))

#define GD_LOAD(t, from) _mm512_loadu_##t((from) + i)
#define GD_LOAD_TAIL(t, from) _mm512_maskz_loadu_##t(lanes, (from) + i)

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
                _mm512_mask_storeu_##t(o + i, lanes, expression);              \
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
                const gd_vector_##t repeated = _mm512_set1_##t(*py);                              \
                GD_VECTOR_ROW2(t, store, GD_LOAD(t, px), GD_LOAD_TAIL(t, px), repeated, repeated, \
                               expression);                                                       \
            } else {                                                                              \
                const gd_vector_##t repeated = _mm512_set1_##t(*px);                              \
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

/* The kernel of an op from its loops op_ps and op_pd. */
#define GD_VECTOR_KERNEL(op, inputs, tile)                                                \
    void gd_##op##_avx512(const gd_args *a) {                                             \
        if (!gd_vector_elementwise##inputs(a, op##_ps, op##_pd, tile)) gd_##op##_avx2(a); \
    }

#endif
