/* reduce.h - how a reduction walks its input, once for all operations and instruction sets.
 * An operation is a gd_fold: how one block of elements becomes a partial result, and how those join.
 *
 * The order of the arithmetic is canonical: a function of the number of reduced elements alone. They
 * are cut into blocks of GD_BLOCK (lanes inside a block are the fold's affair: element k of a block
 * always joins lane k mod lanes), blocks join in order into tiles of GD_TILE, tiles join in order. So
 * a result depends neither on strides, nor on the neighbouring outputs, nor on the threads. */
#ifndef GRADINO_REDUCE_H
#define GRADINO_REDUCE_H

#include <string.h>

#include "kernel.h"
#include "thread.h"

enum {
    GD_BLOCK = 1024,              /* elements: float32 partial sums stay accurate, a block fits L1 */
    GD_TILE_BLOCKS = 8,           /* blocks per tile */
    GD_TILE = GD_BLOCK * GD_TILE_BLOCKS,
    GD_NARROW = 64,               /* columns of a task at least, where few tasks are to be had: 256 bytes of a row */
    GD_PANEL = 512,               /* columns worked on together: 2 KiB of a row, whose lanes are 32 KiB of float32 */
    GD_PANEL_ROWS = 64,           /* rows of a panel worked on before the next ones: they stay in L2 */
    GD_SMALL = 32,                /* so few reduced elements take a shorter way through the code */
    GD_TASK = 64 * 1024,          /* elements per task of a threaded reduction */
    GD_SERIAL = 64 * 1024,        /* at most so many elements are not worth waking a thread */
    GD_EVEN_TASKS = 8,            /* tasks of columns that threads can share evenly enough */
    GD_FEW_TASKS = 32,            /* fewer tasks of whole outputs may leave threads idle: split outputs too */
    GD_SPLIT_TILES = 4096         /* partials of one split reduction, on the stack (32 KiB) */
};

typedef union gd_partial {
    double f;
    int64_t i;
} gd_partial;

typedef struct gd_fold {
    int64_t bytes; /* of one input element */
    /* out[r] = the partial of the run of n <= GD_BLOCK elements at x + r * stride, for every r < rows */
    void (*rows)(const void *x, int64_t stride, int64_t rows, int64_t n, gd_partial *out);
    /* out[c] = the partial of x[offsets[0] + c], ..., x[offsets[n - 1] + c], for every c < cols <= GD_PANEL;
     * the same bits as rows would give. NULL: rows on gathered elements does the work. */
    void (*columns)(const void *x, const int64_t *offsets, int64_t n, int64_t cols, gd_partial *out);
    void (*join)(gd_partial *acc, const gd_partial *next, int64_t n); /* acc[k] = acc[k] op next[k] */
    /* out[first + k] = the result of p[k], for k < n; count is the number of reduced elements */
    void (*finish)(const gd_partial *p, int64_t n, int64_t count, void *out, int64_t first);
    gd_partial empty; /* the partial of no elements */
} gd_fold;

/* Steps of a fold: accumulator a, element v. Ties keep a, so the first of equals; a NaN, once in, stays. */
#define GD_ADD(a, v) ((a) + (v))
#define GD_MUL(a, v) ((a) * (v))
#define GD_MAX(a, v) ((v) != (v) ? (v) : (v) > (a) ? (v) : (a))
#define GD_MIN(a, v) ((v) != (v) ? (v) : (v) < (a) ? (v) : (a))

/* In gd_fold.rows: the tree of at most four lanes of A, spelled out; short rows are common. */
#define GD_FOLD_FIRST(A, INIT, STEP, LOAD, k) ((A)STEP((A)(INIT), (A)LOAD(x[k])))
#define GD_FOLD_SHORT(A, F, INIT, STEP, LOAD)                                      \
    if (n <= 4) {                                                                  \
        A even = GD_FOLD_FIRST(A, INIT, STEP, LOAD, 0);                            \
        if (n > 2) even = (A)STEP(even, GD_FOLD_FIRST(A, INIT, STEP, LOAD, 2));    \
        if (n > 1) {                                                               \
            A odd = GD_FOLD_FIRST(A, INIT, STEP, LOAD, 1);                         \
            if (n > 3) odd = (A)STEP(odd, GD_FOLD_FIRST(A, INIT, STEP, LOAD, 3));  \
            even = (A)STEP(even, odd);                                             \
        }                                                                          \
        out[r].F = even;                                                           \
        continue;                                                                  \
    }

/* Defines gd_fold.join for partials in field F. */
#define GD_DEFINE_JOIN(name, T, F, STEP)                                          \
    static void join_##name(gd_partial *acc, const gd_partial *next, int64_t n) { \
        for (int64_t k = 0; k < n; k++) {                                         \
            T a = (T)acc[k].F, v = (T)next[k].F, joined = STEP(a, v);             \
            memcpy(acc + k, &joined, sizeof joined);                              \
        }                                                                         \
    }

/* Defines gd_fold.finish: the result is `value`, an expression in p[k] and count. */
#define GD_DEFINE_FINISH(name, T, value)                                                                 \
    static void finish_##name(const gd_partial *p, int64_t n, int64_t count, void *out, int64_t first) { \
        T *y = (T *)out + first;                                                                         \
        (void)count;                                                                                     \
        for (int64_t k = 0; k < n; k++) y[k] = (T)(value);                                               \
    }

/* The four dimensions sorted into kept and reduced ones, outermost first; dimensions of size 1 are
 * dropped and those that can be walked as one are merged. */
typedef struct gd_walk {
    const char *x;
    int64_t bytes, outputs, count;
    int64_t kept_shape[5], kept_stride[5], red_shape[5], red_stride[5];
    int kept, red;
} gd_walk;

static inline void gd_walk_add(int64_t *shape, int64_t *stride, int *n, int64_t size, int64_t step) {
    if (*n > 0 && stride[*n - 1] == step * size) {
        shape[*n - 1] *= size;
        stride[*n - 1] = step;
    } else {
        shape[*n] = size;
        stride[(*n)++] = step;
    }
}

/* In place, because a copy of what was just written in pieces stalls for longer than this takes. */
static inline void gd_walk_init(gd_walk *w, const gd_view *x, int64_t mask) {
    w->x = x->data;
    w->bytes = gd_dtype_bytes(x->dtype);
    w->outputs = w->count = 1;
    w->kept = w->red = 0;
    for (int d = 0; d < GD_DIMS; d++) {
        int64_t size = x->shape[d];
        if (size == 1) continue;
        if (mask >> d & 1) {
            w->count *= size;
            gd_walk_add(w->red_shape, w->red_stride, &w->red, size, x->strides[d]);
        } else {
            w->outputs *= size;
            gd_walk_add(w->kept_shape, w->kept_stride, &w->kept, size, x->strides[d]);
        }
    }
    if (w->kept == 0) w->kept_shape[0] = 1, w->kept_stride[0] = 0, w->kept = 1;
    if (w->red == 0) w->red_shape[0] = 1, w->red_stride[0] = 1, w->red = 1;
}

static inline gd_walk gd_walk_of(const gd_view *x, int64_t mask) {
    gd_walk w;
    gd_walk_init(&w, x, mask);
    return w;
}

/* Offset in elements of the k-th element in row-major order of n dimensions. */
static inline int64_t gd_walk_offset(const int64_t *shape, const int64_t *stride, int n, int64_t k) {
    int64_t offset = 0;
    for (int d = n - 1; d > 0; d--) {
        offset += k % shape[d] * stride[d];
        k /= shape[d];
    }
    return offset + k * stride[0];
}

/* offsets[0..n) of the reduced elements first, first + 1, ... relative to the output's first element. */
static inline void gd_walk_offsets(const gd_walk *w, int64_t first, int64_t n, int64_t *offsets) {
    int64_t inner = w->red_shape[w->red - 1], step = w->red_stride[w->red - 1];
    if (w->red == 1) {
        for (int64_t k = 0; k < n; k++) offsets[k] = (first + k) * step;
        return;
    }
    for (int64_t k = 0, at = first % inner; k < n; at = 0) {
        int64_t base = gd_walk_offset(w->red_shape, w->red_stride, w->red, first + k - at);
        for (; at < inner && k < n; at++, k++) offsets[k] = base + at * step;
    }
}

/* Asks L2 for n elements of `bytes` that will be read soon. */
static inline void gd_walk_ask(const void *x, int64_t n, int64_t bytes) {
    for (int64_t at = 0; at < n * bytes; at += 64) __builtin_prefetch((const char *)x + at, 0, 2);
}

/* Copies n elements of 1, 2, 4 or 8 bytes, `step` elements apart, to dst. */
static inline void gd_walk_copy(char *dst, const char *src, int64_t step, int64_t n, int64_t bytes) {
    if (step == 1) {
        memcpy(dst, src, (size_t)(n * bytes));
    } else if (bytes == 4) {
        for (int64_t k = 0; k < n; k++) memcpy(dst + 4 * k, src + 4 * k * step, 4);
    } else if (bytes == 8) {
        for (int64_t k = 0; k < n; k++) memcpy(dst + 8 * k, src + 8 * k * step, 8);
    } else if (bytes == 2) {
        for (int64_t k = 0; k < n; k++) memcpy(dst + 2 * k, src + 2 * k * step, 2);
    } else {
        for (int64_t k = 0; k < n; k++) dst[k] = src[k * step];
    }
}

/* The reduced elements first .. first + n of the output at x, side by side: where they are if they
 * lie so, else copied to buffer (n elements). */
static inline const void *gd_walk_run(const gd_walk *w, const char *x, int64_t first, int64_t n, void *buffer) {
    int64_t inner = w->red_shape[w->red - 1], step = w->red_stride[w->red - 1];
    if (w->red == 1 && step == 1) return x + first * w->bytes;
    char *dst = buffer;
    int64_t at = w->red == 1 ? first : first % inner;
    if (step == 1 && at + n <= inner) return x + (gd_walk_offset(w->red_shape, w->red_stride, w->red, first - at) + at) * w->bytes;
    for (int64_t k = 0; k < n; at = 0) {
        int64_t base = gd_walk_offset(w->red_shape, w->red_stride, w->red, first + k - at);
        int64_t run = inner - at < n - k ? inner - at : n - k;
        gd_walk_copy(dst + k * w->bytes, x + (base + at * step) * w->bytes, step, run, w->bytes);
        k += run;
    }
    return buffer;
}

/* The first element of output o. */
static inline const char *gd_walk_output(const gd_walk *w, int64_t o) {
    return w->x + gd_walk_offset(w->kept_shape, w->kept_stride, w->kept, o) * w->bytes;
}

/* ---- running a fold ---------------------------------------------------------------------------- */

typedef struct gd_fold_run {
    const gd_fold *fold;
    gd_walk w;
    void *out;
    bool by_columns;
    int64_t task_outputs;             /* threads over outputs: outputs per task */
    const char *tile_x;               /* threads over tiles: the outputs at tile_x, ... */
    int64_t tile_cols, tile_first;    /* ... so many, from this tile on, ... */
    gd_partial *partials;             /* ... into partials (tiles, tile_cols) */
} gd_fold_run;

/* The partial of one tile of one output. */
static inline void gd_fold_tile_run(const gd_fold *f, const gd_walk *w, const char *x, int64_t tile, gd_partial *out) {
    int64_t first = tile * GD_TILE, n = w->count - first < GD_TILE ? w->count - first : GD_TILE;
    int64_t blocks = 0;
    gd_partial p[GD_TILE_BLOCKS];
    if (w->red == 1 && w->red_stride[0] == 1) {
        const char *run = x + first * w->bytes;
        blocks = n / GD_BLOCK;
        if (blocks) f->rows(run, GD_BLOCK, blocks, GD_BLOCK, p);
        int64_t rest = n % GD_BLOCK;
        if (rest) f->rows(run + blocks * GD_BLOCK * w->bytes, 0, 1, rest, p + blocks);
        blocks += rest != 0;
    } else {
        int64_t buffer[GD_BLOCK];
        for (int64_t k = 0; k < n; k += GD_BLOCK) {
            int64_t m = n - k < GD_BLOCK ? n - k : GD_BLOCK;
            f->rows(gd_walk_run(w, x, first + k, m, buffer), 0, 1, m, p + blocks++);
        }
    }
    for (int64_t b = 1; b < blocks; b++) f->join(p, p + b, 1);
    *out = p[0];
}

/* The partials of one tile of cols <= GD_PANEL outputs that lie side by side. */
static inline void gd_fold_tile_columns(const gd_fold *f, const gd_walk *w, const char *x, int64_t tile, int64_t cols, gd_partial *out) {
    int64_t end = (tile + 1) * GD_TILE < w->count ? (tile + 1) * GD_TILE : w->count;
    int64_t offsets[GD_BLOCK];
    gd_partial p[GD_PANEL];
    for (int64_t k = tile * GD_TILE; k < end; k += GD_BLOCK) {
        int64_t n = end - k < GD_BLOCK ? end - k : GD_BLOCK;
        bool first = k == tile * GD_TILE;
        gd_walk_offsets(w, k, n, offsets);
        f->columns(x, offsets, n, cols, first ? out : p);
        if (!first) f->join(out, p, cols);
    }
}

/* Outputs first .. last, one after the other. */
static inline void gd_fold_outputs(const gd_fold_run *r, int64_t first, int64_t last) {
    const gd_fold *f = r->fold;
    const gd_walk *w = &r->w;
    int64_t inner = w->kept_shape[w->kept - 1], tiles = (w->count + GD_TILE - 1) / GD_TILE;
    gd_partial p[GD_PANEL], next[GD_PANEL];
    for (int64_t o = first, n; o < last; o += n) {
        int64_t at = w->kept == 1 ? o : o % inner;
        n = inner - at < last - o ? inner - at : last - o;
        if (n > GD_PANEL) n = GD_PANEL;
        const char *x = gd_walk_output(w, o);
        if (r->by_columns) {
            gd_fold_tile_columns(f, w, x, 0, n, p);
            for (int64_t t = 1; t < tiles; t++) {
                gd_fold_tile_columns(f, w, x, t, n, next);
                f->join(p, next, n);
            }
        } else if (w->count <= GD_BLOCK && w->red == 1 && w->red_stride[0] == 1) {
            f->rows(x, w->kept_stride[w->kept - 1], n, w->count, p);
        } else {
            n = 1;
            gd_fold_tile_run(f, w, x, 0, p);
            for (int64_t t = 1; t < tiles; t++) {
                gd_fold_tile_run(f, w, x, t, next);
                f->join(p, next, 1);
            }
        }
        f->finish(p, n, w->count, r->out, o);
    }
}

static inline void gd_fold_output_task(void *ctx, int64_t i, int worker) {
    const gd_fold_run *r = ctx;
    (void)worker;
    int64_t first = i * r->task_outputs, last = first + r->task_outputs;
    gd_fold_outputs(r, first, last < r->w.outputs ? last : r->w.outputs);
}

static inline void gd_fold_tile_task(void *ctx, int64_t i, int worker) {
    const gd_fold_run *r = ctx;
    (void)worker;
    gd_partial *p = r->partials + i * r->tile_cols;
    if (r->by_columns) gd_fold_tile_columns(r->fold, &r->w, r->tile_x, r->tile_first + i, r->tile_cols, p);
    else gd_fold_tile_run(r->fold, &r->w, r->tile_x, r->tile_first + i, p);
}

/* Few outputs of many elements: threads share the tiles of one group of outputs. */
static inline void gd_fold_by_tiles(gd_fold_run *r) {
    const gd_walk *w = &r->w;
    int64_t inner = w->kept_shape[w->kept - 1], tiles = (w->count + GD_TILE - 1) / GD_TILE;
    gd_partial partials[GD_SPLIT_TILES], total[GD_PANEL];
    r->partials = partials;
    for (int64_t o = 0; o < w->outputs; o += r->tile_cols) {
        int64_t cols = w->kept == 1 ? inner - o : inner - o % inner;
        r->tile_cols = !r->by_columns ? 1 : cols < GD_PANEL ? cols : GD_PANEL;
        r->tile_x = gd_walk_output(w, o);
        int64_t most = GD_SPLIT_TILES / r->tile_cols;
        for (r->tile_first = 0; r->tile_first < tiles; r->tile_first += most) {
            int64_t n = tiles - r->tile_first < most ? tiles - r->tile_first : most;
            gd_parallel(n, gd_fold_tile_task, r);
            int64_t k = 0;
            if (r->tile_first == 0) memcpy(total, partials, (size_t)r->tile_cols * sizeof *total), k = 1;
            for (; k < n; k++) r->fold->join(total, partials + k * r->tile_cols, r->tile_cols);
        }
        r->fold->finish(total, r->tile_cols, w->count, r->out, o);
    }
    r->partials = NULL;
}

/* out (the kept dimensions, contiguous) = fold of x over the dimensions in mask. */
static inline void gd_fold_all(const gd_fold *fold, const gd_view *x, int64_t mask, void *out) {
    gd_fold_run r;
    gd_walk *w = &r.w;
    r.fold = fold;
    r.out = out;
    gd_walk_init(w, x, mask);
    if (w->outputs == 0) return;
    if (w->count == 0) {
        for (int64_t o = 0; o < w->outputs; o++) fold->finish(&fold->empty, 1, 0, out, o);
        return;
    }
    r.by_columns = fold->columns && w->kept_stride[w->kept - 1] == 1 && w->kept_shape[w->kept - 1] > 1 &&
                   (w->count == 1 || w->red_stride[w->red - 1] != 1);
    if (r.by_columns && w->count <= GD_SMALL && w->outputs <= GD_PANEL && w->kept == 1) { /* a bias gradient of a small net */
        int64_t offsets[GD_SMALL];
        gd_partial p[GD_PANEL];
        gd_walk_offsets(w, 0, w->count, offsets);
        fold->columns(w->x, offsets, w->count, w->outputs, p);
        fold->finish(p, w->outputs, w->count, out, 0);
        return;
    }
    if (w->count * w->outputs <= GD_SERIAL) {
        gd_fold_outputs(&r, 0, w->outputs);
        return;
    }
    int64_t n = GD_TASK / w->count;
    if (r.by_columns) {
        const int64_t even = w->outputs / GD_EVEN_TASKS / GD_NARROW * GD_NARROW, least = even < GD_NARROW ? GD_NARROW : even < GD_PANEL ? even : GD_PANEL;
        r.task_outputs = n < GD_PANEL ? (n > least ? n / GD_NARROW * GD_NARROW : least) : n / GD_PANEL * GD_PANEL;
    } else {
        r.task_outputs = n < 1 ? 1 : n;
    }
    int64_t tasks = (w->outputs + r.task_outputs - 1) / r.task_outputs;
    if (tasks < GD_FEW_TASKS && w->count >= 2 * GD_TILE) gd_fold_by_tiles(&r);
    else gd_parallel(tasks, gd_fold_output_task, &r);
}

#endif
