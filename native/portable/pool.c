/* pool.c - maxima and averages of windows, and their gradients. A row of results is worked on window element by window
 * element, so that compilers vectorise along the row. */
#include "../pool.h"

#include <math.h>
#include <string.h>

#include "planes.h"

enum {
    LANES = 8,         /* maxima side by side */
    CHUNK = 256,       /* maxima of a piece of short rows */
    KNOWN = 16         /* elements of a window whose places are computed once */
};

typedef struct pooling {
    const gd_view *x;     /* or the incoming gradient */
    char *out;
    int64_t *indices;     /* or NULL */
    const int64_t *from;  /* max_pool_bwd: where the gradient goes, its strides in `from_view` */
    const gd_view *from_view;
    double *sums;         /* avg_pool_bwd: a row for each worker */
    gd_pool_axis h, w;
    int64_t rows, per_task, divisor;
    int64_t least[KNOWN], most[KNOWN]; /* inside() of all results, for the first elements of a window */
    int64_t whole_from, whole_to;      /* results whose windows lie inside the input along w */
    bool planar, count_pad, assign;
    int64_t results; /* maxima of short rows: all of them */
    void (*row)(const struct pooling *p, int64_t row, int worker);
} pooling;

static void pool_task(void *ctx, int64_t i, int worker) {
    const pooling *p = ctx;
    for (int64_t row = i * p->per_task; row < (i + 1) * p->per_task && row < p->rows; row++) p->row(p, row, worker);
}

/* All rows; `work` is the number of elements that one of them reads. */
static void pool_rows(pooling *p, int64_t rows, int64_t work) {
    p->rows = rows;
    run_items(rows, work, &p->per_task, pool_task, p);
}

/* The results least .. most whose element k of the window lies inside the input. */
static void inside_all(const gd_pool_axis *a, int64_t k, int64_t *least, int64_t *most) {
    const int64_t before = a->pad - k * a->dilation, room = a->in - 1 + before; /* before <= o stride <= room */
    *least = before > 0 ? (before + a->stride - 1) / a->stride : 0;
    *most = room < 0 ? 0 : room / a->stride + 1;
}

/* Of those the ones from .. to: lo .. hi. */
static void inside(const pooling *p, int64_t k, int64_t from, int64_t to, int64_t *lo, int64_t *hi) {
    if (k < KNOWN) *lo = p->least[k], *hi = p->most[k];
    else inside_all(&p->w, k, lo, hi);
    if (*lo < from) *lo = from;
    if (*hi > to) *hi = to;
}

/* What is the same for all rows. */
static void know(pooling *p) {
    const gd_pool_axis *w = &p->w;
    if (w->adaptive) return;
    for (int64_t k = 0; k < w->kernel && k < KNOWN; k++) inside_all(w, k, &p->least[k], &p->most[k]);
    const int64_t room = w->in + w->pad - (w->kernel - 1) * w->dilation - 1;
    p->whole_from = (w->pad + w->stride - 1) / w->stride;
    p->whole_to = room < 0 ? 0 : room / w->stride + 1;
    if (p->whole_to > w->out) p->whole_to = w->out;
    if (p->whole_from > p->whole_to) p->whole_from = p->whole_to;
}

/* Rows of fewer than LANES results whose windows, also along h, all lie inside the input. */
static bool short_rows(const pooling *p) {
    const gd_pool_axis *h = &p->h, *w = &p->w;
    return !w->adaptive && !h->adaptive && w->out < LANES && p->whole_from == 0 && p->whole_to == w->out && h->pad == 0 &&
           (h->out - 1) * h->stride + (h->kernel - 1) * h->dilation < h->in;
}

/* ---- Maxima: a NaN wins, the last of several; else the first of the largest -------------------------------------- */

#define MAX_STEPS(T, I, STEP)                                                                             \
    for (int64_t o = lo; o < hi; o++) {                                                                   \
        const T v = x[o * (STEP)];                                                                        \
        const I place = (I)(at + o * by);                                                                 \
        const bool better = (v > best[o - from]) | (v != v);                                              \
        best[o - from] = better ? v : best[o - from];                                                     \
        where[o - from] = better ? place : where[o - from];                                               \
    }
#define MAX_VALUES(T, STEP)                                                                               \
    for (int64_t o = lo; o < hi; o++) {                                                                   \
        const T v = x[o * (STEP)];                                                                        \
        best[o - from] = ((v > best[o - from]) | (v != v)) ? v : best[o - from];                          \
    }

/* Loops over lanes become vectors only where they are not unrolled first: else each lane is a branch. */
#define NO_UNROLL _Pragma("GCC unroll 1")

/* LANES results side by side whose windows lie inside the input along w: a fixed number of them stays in registers. */
#define MAX_BLOCK(T, I, STEP)                                                                             \
    for (int64_t h = h0; h < h1; h += p->h.dilation)                                                      \
        for (int64_t k = 0; k < p->w.kernel; k++) {                                                       \
            const int64_t start = o * p->w.stride + k * p->w.dilation - p->w.pad;                         \
            const I at = (I)(h * width + start), by = (I)p->w.stride;                                     \
            const T *x = (const T *)(const void *)row_of(p->x, plane, h) + start * xs;                    \
            NO_UNROLL for (int l = 0; l < LANES; l++) {                                                   \
                const T v = x[l * (STEP)];                                                                \
                const bool better = (v > best[l]) | (v != v);                                             \
                best[l] = better ? v : best[l];                                                           \
                where[l] = better ? at + by * l : where[l];                                               \
            }                                                                                             \
        }

/* I: an integer of T's size, which holds places within a plane. */
#define DEFINE_MAX(name, T, I, LEAST)                                                                     \
    static void max_tile_##name(const pooling *p, int64_t plane, int64_t oh, int64_t from, int64_t to, T *y, int64_t *index) { \
        T best[GD_POOL_TILE];                                                                             \
        I where[GD_POOL_TILE];                                                                            \
        int64_t h0, h1, lo, hi;                                                                           \
        const int64_t xs = p->x->strides[3], by = p->w.stride, step = by * xs, width = p->planar ? p->w.in : 0; \
        gd_pool_window(&p->h, oh, &h0, &h1);                                                              \
        const int64_t top = h0 < p->h.in ? h0 : p->h.in - 1; /* dilation may step over a small input */   \
        for (int64_t o = from; o < to; o++) best[o - from] = LEAST;                                       \
        for (int64_t o = from; index && o < to; o++) where[o - from] = (I)(top * width + o * by - p->w.pad); \
        for (int64_t o = from; index && o < to && o * by < p->w.pad; o++) { /* starts in the padding */   \
            int64_t first, last;                                                                          \
            gd_pool_window(&p->w, o, &first, &last);                                                      \
            where[o - from] = (I)(top * width + (first < p->w.in ? first : p->w.in - 1));                 \
        }                                                                                                 \
        for (int64_t h = h0; h < h1; h += p->h.dilation)                                                  \
            for (int64_t k = 0; k < p->w.kernel; k++) {                                                   \
                const int64_t start = k * p->w.dilation - p->w.pad, at = h * width + start;               \
                const T *x = (const T *)(const void *)row_of(p->x, plane, h) + start * xs;                \
                inside(p, k, from, to, &lo, &hi);                                                         \
                if (!index) {                                                                             \
                    if (step == 1) MAX_VALUES(T, 1)                                                       \
                    else if (step == 2) MAX_VALUES(T, 2)                                                  \
                    else MAX_VALUES(T, step)                                                              \
                } else if (step == 1) MAX_STEPS(T, I, 1)                                                  \
                else if (step == 2) MAX_STEPS(T, I, 2)                                                    \
                else MAX_STEPS(T, I, step)                                                                \
            }                                                                                             \
        memcpy(y + from, best, (size_t)(to - from) * sizeof *y);                                          \
        for (int64_t o = from; index && o < to; o++) index[o] = (int64_t)where[o - from];                 \
    }                                                                                                     \
    static void max_block_##name(const pooling *p, int64_t plane, int64_t oh, int64_t o, T *y, int64_t *index) { \
        T best[LANES];                                                                                    \
        I where[LANES];                                                                                   \
        int64_t h0, h1;                                                                                   \
        const int64_t xs = p->x->strides[3], step = p->w.stride * xs, width = p->planar ? p->w.in : 0;    \
        gd_pool_window(&p->h, oh, &h0, &h1);                                                              \
        const int64_t first = (h0 < p->h.in ? h0 : p->h.in - 1) * width + o * p->w.stride - p->w.pad;     \
        for (int l = 0; l < LANES; l++) best[l] = LEAST, where[l] = (I)(first + l * p->w.stride);         \
        if (step == 1) MAX_BLOCK(T, I, 1)                                                                 \
        else if (step == 2) MAX_BLOCK(T, I, 2)                                                            \
        else MAX_BLOCK(T, I, step)                                                                        \
        memcpy(y + o, best, sizeof best);                                                                 \
        for (int l = 0; index && l < LANES; l++) index[o + l] = (int64_t)where[l];                        \
    }                                                                                                     \
    static void max_adaptive_##name(const pooling *p, int64_t plane, int64_t oh, T *y, int64_t *index) {  \
        int64_t h0, h1, w0, w1;                                                                           \
        const int64_t xs = p->x->strides[3], width = p->planar ? p->w.in : 0;                             \
        gd_pool_window(&p->h, oh, &h0, &h1);                                                              \
        for (int64_t o = 0; o < p->w.out; o++) {                                                          \
            gd_pool_window(&p->w, o, &w0, &w1);                                                           \
            T best = LEAST;                                                                               \
            int64_t where = h0 * width + w0;                                                              \
            for (int64_t h = h0; h < h1; h++) {                                                           \
                const T *x = (const T *)(const void *)row_of(p->x, plane, h);                             \
                for (int64_t w = w0; w < w1; w++) {                                                       \
                    const T v = x[w * xs];                                                                \
                    if (v > best || v != v) best = v, where = h * width + w;                              \
                }                                                                                         \
            }                                                                                             \
            y[o] = best;                                                                                  \
            if (index) index[o] = where;                                                                  \
        }                                                                                                 \
    }                                                                                                     \
    static void max_row_##name(const pooling *p, int64_t row, int worker) {                               \
        const int64_t plane = row / p->h.out, oh = row % p->h.out;                                        \
        T *y = (T *)(void *)p->out + row * p->w.out;                                                      \
        int64_t *index = p->indices ? p->indices + row * p->w.out : NULL;                                 \
        (void)worker;                                                                                     \
        if (p->w.adaptive) {                                                                              \
            max_adaptive_##name(p, plane, oh, y, index);                                                  \
            return;                                                                                       \
        }                                                                                                 \
        const bool blocks = p->whole_to - p->whole_from >= LANES;                                         \
        const int64_t before = blocks ? p->whole_from : 0, behind = blocks ? p->whole_to : 0;             \
        if (before) max_tile_##name(p, plane, oh, 0, before, y, index);                                   \
        for (int64_t o = before; o < behind; o += LANES) /* the last one may do some again */             \
            max_block_##name(p, plane, oh, o + LANES < behind ? o : behind - LANES, y, index);            \
        for (int64_t from = behind; from < p->w.out; from += GD_POOL_TILE)                                \
            max_tile_##name(p, plane, oh, from, from + GD_POOL_TILE < p->w.out ? from + GD_POOL_TILE : p->w.out, y, index); \
    }                                                                                                     \
    /* Results of short rows, CHUNK of them from piece * CHUNK on: LANES side by side, whatever rows they are of. All \
     * windows lie inside the input. Lanes past the last one repeat it. */                                \
    static void max_short_##name(const pooling *p, int64_t piece, int worker) {                           \
        const int64_t end = (piece + 1) * CHUNK < p->results ? (piece + 1) * CHUNK : p->results;          \
        const int64_t xs = p->x->strides[3], width = p->planar ? p->w.in : 0;                             \
        const int64_t down = p->h.stride * p->x->strides[2], right = p->w.stride * xs;                    \
        int64_t i = piece * CHUNK, row = i / p->w.out, o = i % p->w.out, oh = row % p->h.out, plane = row / p->h.out; \
        const T *x = (const T *)(const void *)row_of(p->x, plane, 0);                                     \
        T *y = (T *)(void *)p->out;                                                                       \
        (void)worker;                                                                                     \
        while (i < end) {                                                                                 \
            const T *from[LANES];                                                                         \
            T best[LANES];                                                                                \
            I where[LANES];                                                                               \
            const int n = end - i < LANES ? (int)(end - i) : LANES;                                       \
            for (int l = 0; l < LANES; l++) {                                                             \
                from[l] = x + oh * down + o * right;                                                      \
                where[l] = (I)(oh * p->h.stride * width + o * p->w.stride);                               \
                best[l] = LEAST;                                                                          \
                if (l + 1 >= n && i + n == end) continue;                                                 \
                if (++o < p->w.out) continue;                                                             \
                o = 0;                                                                                    \
                if (++oh < p->h.out) continue;                                                            \
                oh = 0;                                                                                   \
                x = (const T *)(const void *)row_of(p->x, ++plane, 0);                                    \
            }                                                                                             \
            I start[LANES];                                                                               \
            memcpy(start, where, sizeof start);                                                           \
            for (int64_t h = 0; h < p->h.kernel; h++)                                                     \
                for (int64_t k = 0; k < p->w.kernel; k++) {                                               \
                    const int64_t tap = h * p->h.dilation * p->x->strides[2] + k * p->w.dilation * xs;    \
                    const I at = (I)(h * p->h.dilation * width + k * p->w.dilation);                      \
                    T v[LANES];                                                                           \
                    for (int l = 0; l < LANES; l++) v[l] = from[l][tap];                                  \
                    NO_UNROLL for (int l = 0; l < LANES; l++) {                                           \
                        const bool better = (v[l] > best[l]) | (v[l] != v[l]);                            \
                        best[l] = better ? v[l] : best[l];                                                \
                        where[l] = better ? start[l] + at : where[l];                                     \
                    }                                                                                     \
                }                                                                                         \
            memcpy(y + i, best, (size_t)n * sizeof *y);                                                   \
            for (int l = 0; p->indices && l < n; l++) p->indices[i + l] = (int64_t)where[l];              \
            i += n;                                                                                       \
        }                                                                                                 \
    }                                                                                                     \
    /* A plane (or, of one dimension, a row): out[index] += g, in order. */                               \
    static void max_bwd_##name(const pooling *p, int64_t plane, int worker) {                             \
        const int64_t rows = p->planar ? p->x->shape[2] : 1, room = p->planar ? p->h.in * p->w.in : p->w.in; \
        const int64_t g_step = p->x->strides[3], i_step = p->from_view->strides[3];                       \
        T *dx = (T *)(void *)p->out + plane * room;                                                       \
        (void)worker;                                                                                     \
        memset(dx, 0, (size_t)room * sizeof *dx);                                                         \
        const int64_t at = p->planar ? plane : plane / p->x->shape[2], h = p->planar ? 0 : plane % p->x->shape[2]; \
        const T *g = (const T *)(const void *)row_of(p->x, at, h);                                        \
        const int64_t *index = (const int64_t *)(const void *)row_of(p->from_view, at, h);                \
        for (int64_t r = 0; r < rows; r++, g += p->x->strides[2], index += p->from_view->strides[2]) {    \
            for (int64_t o = 0; o < p->x->shape[3]; o++) {                                                \
                const int64_t to = index[o * i_step];                                                     \
                if (to < 0 || to >= room) continue;                                                       \
                if (p->assign) dx[to] = g[o * g_step];                                                    \
                else dx[to] = ADD_##name(dx[to], g[o * g_step]);                                          \
            }                                                                                             \
        }                                                                                                 \
    }
#define ADD_f32(a, b) ((a) + (b))
#define ADD_f64(a, b) ((a) + (b))
#define ADD_i64(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define ADD_i32(a, b) ((int32_t)((uint32_t)(a) + (uint32_t)(b)))
DEFINE_MAX(f32, float, int32_t, -INFINITY)
DEFINE_MAX(f64, double, int64_t, -(double)INFINITY)
DEFINE_MAX(i64, int64_t, int64_t, INT64_MIN)
DEFINE_MAX(i32, int32_t, int32_t, INT32_MIN)

typedef void pool_row(const pooling *p, int64_t row, int worker);

void GD_KERNEL(max_pool)(const gd_args *a) {
    static pool_row *const row[] = {max_row_f32, max_row_f64, max_row_i64, max_row_i32};
    const gd_view *x = a->in[0], *y = a->out[0];
    pooling p = {.x = x, .out = y->data, .row = row[x->dtype], .planar = a->attr->i[GD_POOL_DIMS] != 1};
    if (gd_numel(y) == 0) return;
    if (a->attr->i[GD_POOL_INDICES]) p.indices = a->out[1]->data;
    p.h = gd_pool_axis_of(a->attr, 0, x->shape[2], y->shape[2], true);
    p.w = gd_pool_axis_of(a->attr, 1, x->shape[3], y->shape[3], true);
    know(&p);
    if (short_rows(&p)) {
        static pool_row *const piece[] = {max_short_f32, max_short_f64, max_short_i64, max_short_i32};
        p.row = piece[x->dtype];
        p.results = gd_numel(y);
        pool_rows(&p, (p.results + CHUNK - 1) / CHUNK, CHUNK * p.h.kernel * p.w.kernel);
        return;
    }
    const int64_t window = p.h.adaptive ? (p.h.in / p.h.out + 1) * (p.w.in / p.w.out + 1) : p.h.kernel * p.w.kernel;
    pool_rows(&p, y->shape[0] * y->shape[1] * y->shape[2], p.w.out * window);
}

/* (g, indices) -> zeros with g added (or written) at the indices */
void GD_KERNEL(max_pool_bwd)(const gd_args *a) {
    static pool_row *const row[] = {max_bwd_f32, max_bwd_f64, max_bwd_i64, max_bwd_i32};
    const gd_view *g = a->in[0], *dx = a->out[0];
    pooling p = {.x = g, .from_view = a->in[1], .out = dx->data, .row = row[g->dtype], .planar = a->attr->i[GD_POOL_DIMS] != 1,
                 .assign = a->attr->i[2] != 0};
    if (gd_numel(dx) == 0) return;
    p.h.in = dx->shape[2], p.w.in = dx->shape[3];
    const int64_t planes = dx->shape[0] * dx->shape[1] * (p.planar ? 1 : dx->shape[2]);
    pool_rows(&p, planes, (gd_numel(g) + gd_numel(dx)) / planes);
}

/* ---- Averages: sums are float64 ----------------------------------------------------------------------------------- */

/* What the sums of the windows from .. to of row oh are divided by; infinity where there is no element. */
static void divisors(const pooling *p, int64_t oh, int64_t from, int64_t to, double *by) {
    int64_t h0, h1, w0, w1;
    const int64_t h = gd_pool_window(&p->h, oh, &h0, &h1), high = p->count_pad ? h : h1 - h0;
    const double whole = h1 <= h0 ? INFINITY : (double)(p->divisor ? p->divisor : high * p->w.kernel);
    for (int64_t o = from; o < to; o++) {
        if (o == p->whole_from && !p->w.adaptive)
            for (; o < p->whole_to && o < to; o++) by[o - from] = whole;
        if (o == to) return;
        const int64_t w = gd_pool_window(&p->w, o, &w0, &w1), wide = p->count_pad ? w : w1 - w0;
        by[o - from] = h1 <= h0 || w1 <= w0 ? INFINITY : (double)(p->divisor ? p->divisor : high * wide);
    }
}

#define DEFINE_AVG(name, T)                                                                               \
    static void avg_tile_##name(const pooling *p, int64_t plane, int64_t oh, int64_t from, int64_t to, T *y) { \
        double sum[GD_POOL_TILE] = {0}, by[GD_POOL_TILE];                                                 \
        int64_t h0, h1, w0, w1, lo, hi;                                                                   \
        const int64_t xs = p->x->strides[3], step = p->w.stride * xs;                                     \
        gd_pool_window(&p->h, oh, &h0, &h1);                                                              \
        for (int64_t h = h0; h < h1; h++) {                                                               \
            const T *row = (const T *)(const void *)row_of(p->x, plane, h);                               \
            if (p->w.adaptive) {                                                                          \
                for (int64_t o = from; o < to; o++) {                                                     \
                    gd_pool_window(&p->w, o, &w0, &w1);                                                   \
                    for (int64_t w = w0; w < w1; w++) sum[o - from] += (double)row[w * xs];               \
                }                                                                                         \
                continue;                                                                                 \
            }                                                                                             \
            for (int64_t k = 0; k < p->w.kernel; k++) {                                                   \
                const T *x = row + (k - p->w.pad) * xs;                                                   \
                inside(p, k, from, to, &lo, &hi);                                                         \
                if (step == 1) for (int64_t o = lo; o < hi; o++) sum[o - from] += (double)x[o];           \
                else if (step == 2) for (int64_t o = lo; o < hi; o++) sum[o - from] += (double)x[o * 2];  \
                else for (int64_t o = lo; o < hi; o++) sum[o - from] += (double)x[o * step];              \
            }                                                                                             \
        }                                                                                                 \
        divisors(p, oh, from, to, by);                                                                    \
        for (int64_t o = from; o < to; o++) y[o] = (T)(sum[o - from] / by[o - from]);                     \
    }                                                                                                     \
    static void avg_row_##name(const pooling *p, int64_t row, int worker) {                               \
        T *y = (T *)(void *)p->out + row * p->w.out;                                                      \
        (void)worker;                                                                                     \
        for (int64_t from = 0; from < p->w.out; from += GD_POOL_TILE)                                     \
            avg_tile_##name(p, row / p->h.out, row % p->h.out, from, from + GD_POOL_TILE < p->w.out ? from + GD_POOL_TILE : p->w.out, y); \
    }                                                                                                     \
    /* A row of the input: what all windows that it is in give it. */                                     \
    static void avg_bwd_##name(const pooling *p, int64_t row, int worker) {                               \
        const int64_t plane = row / p->h.in, ih = row % p->h.in, gs = p->x->strides[3];                   \
        double *sum = p->sums + worker * p->w.in;                                                         \
        T *dx = (T *)(void *)p->out + row * p->w.in;                                                      \
        double share[GD_POOL_TILE], by[GD_POOL_TILE];                                                     \
        int64_t h0, h1, w0, w1, lo, hi;                                                                   \
        memset(sum, 0, (size_t)p->w.in * sizeof *sum);                                                    \
        int64_t oh = p->h.adaptive ? ih * p->h.out / p->h.in : (ih + p->h.pad - p->h.kernel) / p->h.stride; \
        for (oh = oh > 0 ? oh - 1 : 0; oh < p->h.out; oh++) {                                             \
            gd_pool_window(&p->h, oh, &h0, &h1);                                                          \
            if (h0 > ih) break;                                                                           \
            if (h1 <= ih) continue;                                                                       \
            const T *g = (const T *)(const void *)row_of(p->x, plane, oh);                                \
            for (int64_t from = 0; from < p->w.out; from += GD_POOL_TILE) {                               \
                const int64_t to = from + GD_POOL_TILE < p->w.out ? from + GD_POOL_TILE : p->w.out;       \
                divisors(p, oh, from, to, by);                                                            \
                for (int64_t o = from; o < to; o++) share[o - from] = (double)g[o * gs] / by[o - from];   \
                for (int64_t o = from; p->w.adaptive && o < to; o++) {                                    \
                    gd_pool_window(&p->w, o, &w0, &w1);                                                   \
                    for (int64_t w = w0; w < w1; w++) sum[w] += share[o - from];                          \
                }                                                                                         \
                for (int64_t k = 0; !p->w.adaptive && k < p->w.kernel; k++) {                             \
                    double *at = sum + k - p->w.pad;                                                      \
                    inside(p, k, from, to, &lo, &hi);                                                     \
                    if (p->w.stride == 1) for (int64_t o = lo; o < hi; o++) at[o] += share[o - from];     \
                    else for (int64_t o = lo; o < hi; o++) at[o * p->w.stride] += share[o - from];        \
                }                                                                                         \
            }                                                                                             \
        }                                                                                                 \
        for (int64_t w = 0; w < p->w.in; w++) dx[w] = (T)sum[w];                                          \
    }
DEFINE_AVG(f32, float)
DEFINE_AVG(f64, double)

static pooling averages(const gd_args *a, int64_t in_h, int64_t in_w, int64_t out_h, int64_t out_w) {
    return (pooling){.x = a->in[0], .out = a->out[0]->data, .count_pad = a->attr->i[GD_POOL_COUNT_PAD] != 0, .divisor = a->attr->i[GD_POOL_DIVISOR],
                     .h = gd_pool_axis_of(a->attr, 0, in_h, out_h, false), .w = gd_pool_axis_of(a->attr, 1, in_w, out_w, false)};
}

void GD_KERNEL(avg_pool)(const gd_args *a) {
    const gd_view *x = a->in[0], *y = a->out[0];
    if (gd_numel(y) == 0) return;
    pooling p = averages(a, x->shape[2], x->shape[3], y->shape[2], y->shape[3]);
    p.row = x->dtype == GD_FLOAT32 ? avg_row_f32 : avg_row_f64;
    know(&p);
    const int64_t window = p.h.adaptive ? (p.h.in / p.h.out + 1) * (p.w.in / p.w.out + 1) : p.h.kernel * p.w.kernel;
    pool_rows(&p, y->shape[0] * y->shape[1] * y->shape[2], p.w.out * window);
}

void GD_KERNEL(avg_pool_bwd)(const gd_args *a) {
    const gd_view *g = a->in[0], *dx = a->out[0];
    if (gd_numel(dx) == 0) return;
    pooling p = averages(a, dx->shape[2], dx->shape[3], g->shape[2], g->shape[3]);
    p.row = g->dtype == GD_FLOAT32 ? avg_bwd_f32 : avg_bwd_f64;
    p.sums = a->workspace;
    know(&p);
    const int64_t windows = p.h.adaptive ? 2 : (p.h.kernel + p.h.stride - 1) / p.h.stride; /* that a row is in */
    pool_rows(&p, dx->shape[0] * dx->shape[1] * dx->shape[2], windows * p.w.in);
}
