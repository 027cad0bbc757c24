/* elementwise.h - walks the views of an elementwise kernel as rows of one or more elements.
 * Dimensions that all operands step through evenly are merged, so most calls are one flat loop. */
#ifndef GRADINO_ELEMENTWISE_H
#define GRADINO_ELEMENTWISE_H

#include <assert.h>

#include "../kernel.h"
#include "../thread.h"

/* Elements of one parallel task, which takes a few microseconds, and of a call that stays on its thread, because a parallel
 * region costs as much. Tasks are small enough for shares of a hundred thousand elements to be even. */
enum {
    GD_TILE_LIGHT = 16384, /* a few instructions for each element: bound by memory */
    GD_ALONE_LIGHT = 65536,
    GD_TILE_HEAVY = 8192,  /* elementary functions, divisions of integers */
    GD_ALONE_HEAVY = 2 * GD_TILE_HEAVY
};

enum { GD_OPERANDS = 4 }; /* the output and up to three inputs */

/* Elements of which only the bits count: they may alias any type of their size. */
typedef uint16_t __attribute__((may_alias)) gd_word16;
typedef uint32_t __attribute__((may_alias)) gd_word32;
typedef uint64_t __attribute__((may_alias)) gd_word64;

/* Which operands a row reads as one value. Any other step is GD_STRIDED. */
enum { GD_CONTIGUOUS = 0, GD_A_SCALAR = 1 << 1, GD_B_SCALAR = 1 << 2, GD_C_SCALAR = 1 << 3, GD_STRIDED = -1 };

/* rows x n elements. Operand 0 is the output. Steps are in elements. */
typedef struct gd_row_span {
    char *data[GD_OPERANDS];
    int64_t n, rows;
    int64_t step[GD_OPERANDS], row_step[GD_OPERANDS];
    int kind;
    bool stream; /* AVX-512: store past the caches */
    bool wide;   /* AVX-512: among halves, the value that repeats is a float32 */
    const gd_attr *attr;
} gd_row_span;

typedef void gd_loop(const gd_row_span *span);

/* All of one call: the span of the first rows, and how to reach the others. */
typedef struct gd_walk {
    gd_row_span span;
    int dims; /* merged dimensions; 0 is the innermost, whose size and steps are span's */
    int operands;
    int64_t shape[GD_DIMS];
    int64_t strides[GD_DIMS][GD_OPERANDS];
    int64_t bytes[GD_OPERANDS];
    gd_loop *loop;
    int64_t tile, rows, per_row; /* for tasks: all rows; tasks in a row, or 0: rows in a task are tile / n */
} gd_walk;

/* Tells the compiler that iterations are independent: an output is either exactly an input or
 * does not overlap it, and each element is read before it is written. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* some loops call libm and stay scalar */
#define GD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define GD_INDEPENDENT _Pragma("GCC ivdep")
#else
#define GD_INDEPENDENT
#endif

#define GD_EW_INLINE static inline __attribute__((always_inline))
#define GD_EW_SHARED static __attribute__((noinline, unused)) /* one copy in each file that wants it */

/* Appends a dimension outside the ones already there, merged with the last where all steps allow. */
GD_EW_INLINE void gd_walk_append(gd_walk *w, int operands, int64_t size, const int64_t *strides) {
    if (w->dims > 0) {
        const int last = w->dims - 1;
        bool even = true;
        for (int j = 0; j < operands; j++) even &= strides[j] == w->strides[last][j] * w->shape[last];
        if (even) {
            w->shape[last] *= size;
            return;
        }
    }
    w->shape[w->dims] = size;
    for (int j = 0; j < operands; j++) w->strides[w->dims][j] = strides[j];
    w->dims++;
}

/* Orders the dimensions by the output's strides, smallest innermost, and merges again: an output
 * that is itself a transposed view is then written in the order of its memory. */
GD_EW_SHARED void gd_walk_sort(gd_walk *w) {
    const gd_walk old = *w;
    int order[GD_DIMS];
    for (int d = 0; d < old.dims; d++) {
        int at = d;
        for (; at > 0 && old.strides[order[at - 1]][0] > old.strides[d][0]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    w->dims = 0;
    for (int d = 0; d < old.dims; d++) gd_walk_append(w, old.operands, old.shape[order[d]], old.strides[order[d]]);
}

/* Prepares the walk over an output and `operands - 1` inputs. Returns the number of elements. */
GD_EW_INLINE int64_t gd_walk_begin(gd_walk *w, const gd_args *a, int operands) {
    const gd_view *view[GD_OPERANDS];
    view[0] = a->out[0];
    for (int j = 1; j < operands; j++) view[j] = a->in[j - 1];
    w->dims = 0;
    w->operands = operands;
    int64_t count = 1;
    for (int d = GD_DIMS - 1; d >= 0; d--) {
        const int64_t size = view[0]->shape[d];
        if (size == 1) continue;
        int64_t strides[GD_OPERANDS];
        strides[0] = view[0]->strides[d];
        for (int j = 1; j < operands; j++) strides[j] = view[j]->shape[d] == 1 ? 0 : view[j]->strides[d];
        gd_walk_append(w, operands, size, strides);
        count *= size;
    }
    if (w->dims == 0) { /* a single element */
        w->dims = 1;
        w->shape[0] = 1;
        for (int j = 0; j < operands; j++) w->strides[0][j] = 1;
    }
    for (int d = 1; d < w->dims; d++) {
        if (w->strides[d][0] < w->strides[d - 1][0]) {
            gd_walk_sort(w);
            break;
        }
    }
    gd_row_span *s = &w->span;
    s->attr = a->attr;
    s->stream = s->wide = false;
    s->n = w->shape[0];
    s->rows = w->dims > 1 ? w->shape[1] : 1;
    int kind = 0;
    bool strided = w->strides[0][0] != 1;
    for (int j = 0; j < operands; j++) {
        const int64_t step = w->strides[0][j];
        s->data[j] = (char *)view[j]->data;
        s->step[j] = step;
        s->row_step[j] = w->dims > 1 ? w->strides[1][j] : 0;
        w->bytes[j] = gd_dtype_bytes(view[j]->dtype);
        strided |= step != 1 && step != 0;
        kind |= step == 0 ? 1 << j : 0;
    }
    s->kind = strided ? GD_STRIDED : kind;
    return count;
}

/* Runs elements [from, to) of the rows [first, end), counted over all dimensions but the innermost. */
GD_EW_SHARED void gd_walk_rows(const gd_walk *w, int64_t first, int64_t end, int64_t from, int64_t to) {
    gd_row_span s = w->span;
    s.n = to - from;
    const int64_t along = w->dims > 1 ? w->shape[1] : 1;
    while (first < end) {
        int64_t index[GD_DIMS] = {from, first % along, first / along, 0};
        if (w->dims > 3) {
            index[3] = index[2] / w->shape[2];
            index[2] %= w->shape[2];
        }
        s.rows = end - first < along - index[1] ? end - first : along - index[1];
        for (int j = 0; j < w->operands; j++) {
            int64_t offset = 0;
            for (int d = 0; d < w->dims; d++) offset += index[d] * w->strides[d][j];
            s.data[j] = w->span.data[j] + offset * w->bytes[j];
        }
        w->loop(&s);
        first += s.rows;
    }
}

static inline void gd_walk_task(void *context, int64_t i, int worker) {
    const gd_walk *w = context;
    const int64_t n = w->shape[0];
    (void)worker;
    if (w->per_row > 0) {
        const int64_t row = i / w->per_row, from = i % w->per_row * w->tile;
        gd_walk_rows(w, row, row + 1, from, n - from < w->tile ? n : from + w->tile);
    } else {
        const int64_t rows = w->tile / n, first = i * rows;
        gd_walk_rows(w, first, w->rows - first < rows ? w->rows : first + rows, 0, n);
    }
}

/* Runs a prepared walk of `count` elements. */
GD_EW_INLINE void gd_walk_run(gd_walk *w, int64_t count, gd_loop *loop, int64_t tile) {
    const bool alone = count < (tile == GD_TILE_LIGHT ? GD_ALONE_LIGHT : GD_ALONE_HEAVY);
    if (alone && w->dims <= 2) {
        if (count > 0) loop(&w->span);
        return;
    }
    if (count == 0) return;
    w->loop = loop;
    w->tile = tile;
    w->rows = count / w->shape[0];
    w->per_row = w->shape[0] > tile ? (w->shape[0] + tile - 1) / tile : 0;
    if (alone) {
        gd_walk_rows(w, 0, w->rows, 0, w->shape[0]);
    } else {
        const int64_t rows = w->per_row > 0 ? 1 : tile / w->shape[0];
        const int64_t tasks = w->per_row > 0 ? w->rows * w->per_row : (w->rows + rows - 1) / rows;
        gd_parallel(tasks, gd_walk_task, w);
    }
}

/* Whole kernels with one, two and three inputs. */
GD_EW_SHARED void gd_elementwise1(const gd_args *a, gd_loop *loop, int64_t tile) {
    gd_walk w;
    const int64_t count = gd_walk_begin(&w, a, 2);
    assert(loop); /* the shape rules let only such dtypes through */
    gd_walk_run(&w, count, loop, tile);
}

GD_EW_SHARED void gd_elementwise2(const gd_args *a, gd_loop *loop, int64_t tile) {
    gd_walk w;
    const int64_t count = gd_walk_begin(&w, a, 3);
    assert(loop);
    gd_walk_run(&w, count, loop, tile);
}

GD_EW_SHARED void gd_elementwise3(const gd_args *a, gd_loop *loop, int64_t tile) {
    gd_walk w;
    const int64_t count = gd_walk_begin(&w, a, 4);
    assert(loop);
    gd_walk_run(&w, count, loop, tile);
}

/* ---- Loops -------------------------------------------------------------------------------- */

/* A loop over one input: x is the element; declarations stand before the loop and may use the span s. */
#define GD_LOOP1(name, to, ti, expression) GD_LOOP1_WITH(name, to, ti, , expression)
#define GD_LOOP1_WITH(name, to, ti, declarations, expression)     \
    static void name(const gd_row_span *s) {                          \
        declarations;                                             \
        const int64_t n = s->n, so = s->step[0], sx = s->step[1]; \
        to *o = (to *)(void *)s->data[0];                         \
        const ti *px = (const ti *)(void *)s->data[1];            \
        for (int64_t row = 0; row < s->rows; row++) {             \
            if (s->kind == GD_CONTIGUOUS) {                       \
                GD_INDEPENDENT for (int64_t i = 0; i < n; i++) {  \
                    const ti x = px[i];                           \
                    o[i] = (to)(expression);                      \
                }                                                 \
            } else {                                              \
                for (int64_t i = 0; i < n; i++) {                 \
                    const ti x = px[i * sx];                      \
                    o[i * so] = (to)(expression);                 \
                }                                                 \
            }                                                     \
            o += s->row_step[0];                                  \
            px += s->row_step[1];                                 \
        }                                                         \
    }

/* A loop over two inputs: x and y are the elements. */
#define GD_LOOP2(name, to, ti, expression) GD_LOOP2_WITH(name, to, ti, , expression)
#define GD_LOOP2_WITH(name, to, ti, declarations, expression)                                \
    static void name(const gd_row_span *s) {                                                     \
        declarations;                                                                        \
        const int64_t n = s->n, so = s->step[0], sx = s->step[1], sy = s->step[2];           \
        to *o = (to *)(void *)s->data[0];                                                    \
        const ti *px = (const ti *)(void *)s->data[1], *py = (const ti *)(void *)s->data[2]; \
        for (int64_t row = 0; row < s->rows; row++) {                                        \
            if (s->kind == GD_CONTIGUOUS) {                                                  \
                GD_INDEPENDENT for (int64_t i = 0; i < n; i++) {                             \
                    const ti x = px[i], y = py[i];                                           \
                    o[i] = (to)(expression);                                                 \
                }                                                                            \
            } else if (s->kind == GD_B_SCALAR) {                                             \
                const ti y = *py;                                                            \
                GD_INDEPENDENT for (int64_t i = 0; i < n; i++) {                             \
                    const ti x = px[i];                                                      \
                    o[i] = (to)(expression);                                                 \
                }                                                                            \
            } else if (s->kind == GD_A_SCALAR) {                                             \
                const ti x = *px;                                                            \
                GD_INDEPENDENT for (int64_t i = 0; i < n; i++) {                             \
                    const ti y = py[i];                                                      \
                    o[i] = (to)(expression);                                                 \
                }                                                                            \
            } else {                                                                         \
                for (int64_t i = 0; i < n; i++) {                                            \
                    const ti x = px[i * sx], y = py[i * sy];                                 \
                    o[i * so] = (to)(expression);                                            \
                }                                                                            \
            }                                                                                \
            o += s->row_step[0];                                                             \
            px += s->row_step[1];                                                            \
            py += s->row_step[2];                                                            \
        }                                                                                    \
    }

/* A declaration for integer loops: u is the unsigned type to compute in. */
#define GD_UNSIGNED(type) \
    typedef type u;       \
    (void)sizeof(u)

/* The kernel of an op from its loops in the order of gd_dtype; the first input's dtype chooses. */
#define GD_ELEMENTWISE(op, inputs, tile, ...)                    \
    void GD_KERNEL(op)(const gd_args *a) {                       \
        static gd_loop *const loops[GD_DTYPES] = {__VA_ARGS__};  \
        gd_elementwise##inputs(a, loops[a->in[0]->dtype], tile); \
    }

#endif
