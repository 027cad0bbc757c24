/* gemm_driver.h - blocking, packing order and threading of the matrix product, for every ISA.
 * After BLIS (Van Zee, van de Geijn 2015): k blocks, tiles of C, panels of B, register tiles; plus a
 * path for small and thin products that packs at most one panel of B at a time.
 *
 * The includer defines before including:
 *   GEMM_MR          rows of a register tile with packed A; GEMM_MR_DIRECT with A in place
 *   GEMM_NV_BYTES    bytes of a register tile's full width, two vectors
 *   GEMM_MASKED      1 if a tile reads only the n columns it is asked for, 0 if whole vectors
 *   GEMM_THIN_ROWS   most rows of a thin tile, which reads float32 B with k side by side; 0: none
 *   gemm_tile, and
 *   pick_tile(dtype, packed, mr, n)  the tile function for mr rows and n columns
 *   pick_thin(mr)                    the thin one, for any n up to the full width
 *   panel_width(dtype, n)            columns a tile for n columns reads (and a panel for it has)
 *   pack(dtype, src, lane_stride, k_stride, lanes, k, width, dst)
 *       dst[k][width] = src lanes (elements `lane_stride` apart), the rest of the width 0. */
#include <string.h>

#include "../gemm.h"
#include "../gemm_blocks.h"
#include "../thread.h"

/* B in place of a panel pays while it is read about once, or stays in L1. */
enum { GEMM_DIRECT_ROWS = 32, GEMM_DIRECT_BYTES = 32 << 10 };
/* A is packed if each packed element is then used for this many columns. */
enum { GEMM_PACK_A_COLUMNS = 96 };
/* Columns of B packed by one task. */
enum { GEMM_PACK_COLUMNS = 128 };
/* Multiply-adds of one task of a product with few columns. */
enum { GEMM_THIN_TASK = 1 << 18 };
/* Tiles of C are not split below this: packing and waking would cost more than balance gives. */
enum { GEMM_MIN_ROWS = 56, GEMM_MIN_COLUMNS = 128, GEMM_TASKS_PER_WORKER = 4 };

static inline const char *at(const void *base, int64_t elements, int64_t esize) {
    return (const char *)base + elements * esize;
}

/* Where a k block starts from: C so far, or the bias, or nothing. */
static inline const void *init_of(const gd_gemm_args *g, int64_t k0, int64_t i, int64_t j, int64_t esize, int64_t *init_rs) {
    *init_rs = g->c_rs;
    if (k0 > 0 || g->accumulate) return at(g->c, i * g->c_rs + j, esize);
    *init_rs = 0;
    return g->bias ? at(g->bias, j, esize) : NULL;
}

/* c (m x n) = init where there is nothing to add. */
static void fill_init(const gd_gemm_args *g) {
    int64_t esize = gd_dtype_bytes(g->dtype);
    if (g->accumulate) return;
    for (int64_t i = 0; i < g->m; i++) {
        char *row = (char *)g->c + i * g->c_rs * esize;
        if (g->bias) memcpy(row, g->bias, (size_t)(g->n * esize));
        else memset(row, 0, (size_t)(g->n * esize));
    }
}

/* The product with strides of dimensions of size 1 made harmless. */
static inline gd_gemm_args normalised(const gd_gemm_args *g) {
    gd_gemm_args h = *g;
    if (h.n == 1) h.b_cs = 1;
    if (h.m == 1) h.a_rs = 1;
    return h;
}

/* Columns of B as a tile reads them. */
typedef struct columns {
    const void *b;
    int64_t b_rs, b_cs;
} columns;

static inline tile_fn *tile_for(int dtype, bool packed, int mr, int n, const columns *b) {
    return b->b_cs == 1 ? pick_tile(dtype, packed, mr, n) : pick_thin(mr);
}

/* Rows [i0, i1) of one panel: n columns from j on, of the k block at k0. A is read in place, or from
 * packed_a (this block's, whose row 0 is i0). */
static inline void panel(const gd_gemm_args *g, int64_t k0, int64_t kb, int64_t i0, int64_t i1, int64_t j, int n, columns b,
                         const void *packed_a, int64_t esize) {
    const bool packed = packed_a != NULL;
    const int rows = packed ? GEMM_MR : GEMM_MR_DIRECT;
    gemm_tile t = {.k = kb, .n = n, .b = b.b, .b_rs = b.b_rs, .b_cs = b.b_cs, .a_rs = g->a_rs, .a_cs = g->a_cs, .c_rs = g->c_rs};
    for (int64_t i = i0; i < i1; i += rows) {
        int mr = (int)gemm_min(rows, i1 - i);
        t.a = packed ? at(packed_a, (i - i0) * kb, esize) : at(g->a, i * g->a_rs + k0 * g->a_cs, esize);
        t.c = (char *)g->c + (i * g->c_rs + j) * esize;
        t.init = init_of(g, k0, i, j, esize, &t.init_rs);
        tile_for(g->dtype, packed, mr, n, &b)(&t);
    }
}

/* How a product reads B: in place, in thin tiles, or by packing. */
typedef enum access { PACKED, IN_PLACE, THIN } access;

static inline access access_of(const gd_gemm_args *g, int64_t esize) {
    if (g->b_cs == 1) {
        bool in_cache = g->n * gemm_min(g->k, GD_GEMM_KC) * esize <= GEMM_DIRECT_BYTES;
        return g->m <= GEMM_DIRECT_ROWS || in_cache ? IN_PLACE : PACKED;
    }
    return g->b_rs == 1 && g->m <= GEMM_THIN_ROWS && g->dtype == GD_FLOAT32 ? THIN : PACKED;
}

/* The n columns of B from j on, for k block k0; buffer holds them if they are packed. */
static inline columns panel_b(const gd_gemm_args *g, access how, int64_t k0, int64_t kb, int64_t j, int n, void *buffer, int64_t esize) {
    const void *b = at(g->b, k0 * g->b_rs + j * g->b_cs, esize);
    const int64_t width = panel_width(g->dtype, n);
    if (how == THIN || (how == IN_PLACE && (GEMM_MASKED || n == width))) return (columns){b, g->b_rs, g->b_cs};
    pack(g->dtype, b, g->b_cs, g->b_rs, n, kb, width, buffer);
    return (columns){buffer, width, 1};
}

/* The whole product on this thread; buffer holds one panel. */
static void small(const gd_gemm_args *g, void *buffer) {
    const int64_t esize = gd_dtype_bytes(g->dtype), width = GEMM_NV_BYTES / esize;
    const access how = access_of(g, esize);
    for (int64_t k0 = 0; k0 < g->k; k0 += GD_GEMM_KC) {
        int64_t kb = gemm_min(GD_GEMM_KC, g->k - k0);
        for (int64_t j = 0; j < g->n; j += width) {
            int n = (int)gemm_min(width, g->n - j);
            panel(g, k0, kb, 0, g->m, j, n, panel_b(g, how, k0, kb, j, n, buffer, esize), NULL, esize);
        }
    }
}

/* Few columns, many rows: C^T = B^T A^T, so that vectors run along the rows of A, if they are side by
 * side or a thin tile can take them. Tiles go through a buffer, from which C is written by element. */
static bool want_transposed(const gd_gemm_args *g) {
    const int64_t lanes = GEMM_NV_BYTES / gd_dtype_bytes(g->dtype) / 2;
    if (g->m < lanes || g->n >= lanes || g->k < lanes / 2) return false;
    return g->a_rs == 1 ? g->k >= 2 * lanes : g->a_cs == 1 && g->n <= GEMM_THIN_ROWS && g->dtype == GD_FLOAT32;
}

#define DEFINE_TRANSPOSED(T, name)                                                                                     \
    static void name(const gd_gemm_args *g, void *buffer) {                                                            \
        enum { WIDTH = GEMM_NV_BYTES / sizeof(T) };                                                                    \
        T out[GEMM_MR_DIRECT * WIDTH], *c = g->c;                                                                      \
        const T *bias = g->bias;                                                                                       \
        const gd_gemm_args s = {.b = g->a, .b_rs = g->a_cs, .b_cs = g->a_rs, .dtype = g->dtype};                       \
        const access how = g->a_rs == 1 ? IN_PLACE : THIN;                                                             \
        for (int64_t k0 = 0; k0 < g->k; k0 += GD_GEMM_KC) {                                                            \
            const int64_t kb = gemm_min(GD_GEMM_KC, g->k - k0);                                                        \
            for (int64_t j = 0; j < g->m; j += WIDTH) {                                                                \
                const int n = (int)gemm_min(WIDTH, g->m - j);                                                          \
                const columns b = panel_b(&s, how, k0, kb, j, n, buffer, sizeof(T));                                   \
                gemm_tile t = {.k = kb, .n = n, .b = b.b, .b_rs = b.b_rs, .b_cs = b.b_cs, .c = out, .c_rs = WIDTH};    \
                t.a_rs = g->b_cs;                                                                                      \
                t.a_cs = g->b_rs;                                                                                      \
                for (int64_t i = 0; i < g->n; i += GEMM_MR_DIRECT) {                                                   \
                    const int mr = (int)gemm_min(GEMM_MR_DIRECT, g->n - i);                                            \
                    t.a = at(g->b, i * g->b_cs + k0 * g->b_rs, sizeof(T));                                             \
                    tile_for(g->dtype, false, mr, n, &b)(&t);                                                          \
                    for (int x = 0; x < n; x++) {                                                                      \
                        T *row = c + (j + x) * g->c_rs + i;                                                            \
                        for (int y = 0; y < mr; y++) {                                                                 \
                            T sum = out[y * WIDTH + x];                                                                \
                            if (k0 > 0 || g->accumulate) sum = row[y] + sum;                                           \
                            else if (bias) sum = bias[i + y] + sum;                                                    \
                            row[y] = sum;                                                                              \
                        }                                                                                              \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
DEFINE_TRANSPOSED(float, transposed_f32)
DEFINE_TRANSPOSED(double, transposed_f64)

static void transposed(const gd_gemm_args *g, void *buffer) {
    (g->dtype == GD_FLOAT32 ? transposed_f32 : transposed_f64)(g, buffer);
}

/* A large one, in tasks of some rows; each worker has its panel. */
typedef struct transposed_job {
    const gd_gemm_args *g;
    int64_t rows;
    char *workspace;
} transposed_job;

static void transposed_task(void *ctx, int64_t task, int worker) {
    const transposed_job *q = ctx;
    const int64_t esize = gd_dtype_bytes(q->g->dtype), i = task * q->rows;
    gd_gemm_args g = *q->g;
    g.m = gemm_min(q->rows, g.m - i);
    g.a = at(g.a, i * g.a_rs, esize);
    g.c = (char *)g.c + i * g.c_rs * esize;
    transposed(&g, q->workspace + worker * gemm_panel_bytes(g.k));
}

static void large_transposed(const gd_gemm_args *g, void *workspace) {
    const int64_t width = GEMM_NV_BYTES / gd_dtype_bytes(g->dtype);
    transposed_job q = {g, gemm_ceil(gemm_ceil(GEMM_THIN_TASK, g->n * g->k), width) * width, workspace};
    gd_parallel(gemm_ceil(g->m, q.rows), transposed_task, &q);
}

/* One k block of a large product, as tasks see it. */
typedef struct job {
    gd_gemm_args g;
    int64_t k0, kb, esize, width; /* width: columns of a full panel */
    int64_t rows, columns, row_tiles, tasks; /* of a tile of C; tiles above each other; all tiles */
    access how;
    bool pack_a;
    char *shared_b; /* packed B of this k block, or NULL: every task packs its panels */
    char *worker;   /* workers' own memory: packed A and one panel */
    int64_t worker_bytes, a_bytes;
} job;

static void pack_task(void *ctx, int64_t task, int worker) {
    const job *q = ctx;
    (void)worker;
    int64_t end = gemm_min(q->g.n, (task + 1) * GEMM_PACK_COLUMNS);
    for (int64_t j = task * GEMM_PACK_COLUMNS; j < end; j += q->width) {
        int n = (int)gemm_min(q->width, end - j);
        panel_b(&q->g, PACKED, q->k0, q->kb, j, n, q->shared_b + j * q->kb * q->esize, q->esize);
    }
}

static void tile_task(void *ctx, int64_t task, int worker) {
    const job *q = ctx;
    const gd_gemm_args *g = &q->g;
    int64_t i0 = task % q->row_tiles * q->rows, i1 = gemm_min(g->m, i0 + q->rows);
    int64_t j0 = task / q->row_tiles * q->columns, j1 = gemm_min(g->n, j0 + q->columns);
    char *packed_a = q->pack_a ? q->worker + worker * q->worker_bytes : NULL;
    char *buffer = q->worker + worker * q->worker_bytes + q->a_bytes;
    if (packed_a) {
        for (int64_t i = i0; i < i1; i += GEMM_MR) {
            pack(g->dtype, at(g->a, i * g->a_rs + q->k0 * g->a_cs, q->esize), g->a_rs, g->a_cs, gemm_min(GEMM_MR, i1 - i), q->kb,
                 GEMM_MR, packed_a + (i - i0) * q->kb * q->esize);
        }
    }
    for (int64_t j = j0; j < j1; j += q->width) {
        int n = (int)gemm_min(q->width, j1 - j);
        columns b = q->shared_b ? (columns){q->shared_b + j * q->kb * q->esize, panel_width(g->dtype, n), 1}
                                : panel_b(g, q->how, q->k0, q->kb, j, n, buffer, q->esize);
        panel(g, q->k0, q->kb, i0, i1, j, n, b, packed_a, q->esize);
    }
}

/* Length of equal parts of size, each at most limit and a multiple of step. */
static inline int64_t part(int64_t size, int64_t limit, int64_t step) {
    return gemm_ceil(gemm_ceil(size, gemm_ceil(size, limit)), step) * step;
}

/* Tiles of C: as large as caches allow, then smaller until every worker has a few. */
static void split(job *q) {
    const int64_t step = q->pack_a ? GEMM_MR : GEMM_MR_DIRECT, workers = gd_parallel_width();
    const int64_t wanted = workers == 1 ? 1 : GEMM_TASKS_PER_WORKER * workers;
    q->rows = part(q->g.m, GEMM_MC, step);
    q->columns = part(q->g.n, GEMM_NC, q->width);
    for (;;) {
        q->row_tiles = gemm_ceil(q->g.m, q->rows);
        q->tasks = q->row_tiles * gemm_ceil(q->g.n, q->columns);
        if (q->tasks >= wanted) return;
        if (q->g.m > GEMM_SHARED_ROWS && q->rows >= 2 * GEMM_MIN_ROWS) q->rows = part(q->g.m, q->rows / 2, step);
        else if (q->columns >= 2 * GEMM_MIN_COLUMNS) q->columns = part(q->g.n, q->columns / 2, q->width);
        else return;
    }
}

static void large(const gd_gemm_args *g, void *memory) {
    char *workspace = memory;
    job q = {.g = *g, .esize = gd_dtype_bytes(g->dtype)};
    q.width = GEMM_NV_BYTES / q.esize;
    q.how = access_of(g, q.esize);
    q.pack_a = g->n >= GEMM_PACK_A_COLUMNS && g->m > GEMM_MR_DIRECT;
    split(&q);
    if (g->m > GEMM_SHARED_ROWS) {
        if (q.how == PACKED) q.shared_b = workspace;
        workspace += gemm_block_b_bytes(g->n, g->k, q.esize);
    }
    q.worker = workspace;
    q.a_bytes = gemm_block_a_bytes(g->k, q.esize);
    q.worker_bytes = q.a_bytes + gemm_panel_bytes(g->k);
    for (q.k0 = 0; q.k0 < g->k; q.k0 += GD_GEMM_KC) {
        q.kb = gemm_min(GD_GEMM_KC, g->k - q.k0);
        if (q.shared_b) gd_parallel(gemm_ceil(g->n, GEMM_PACK_COLUMNS), pack_task, &q);
        gd_parallel(q.tasks, tile_task, &q);
    }
}

void GD_KERNEL(gemm)(const gd_gemm_args *g, void *workspace) {
    if (g->m == 0 || g->n == 0) return;
    if (g->k == 0) {
        fill_init(g);
        return;
    }
    const gd_gemm_args h = normalised(g);
    const bool threads = gemm_is_large(h.m, h.n, h.k);
    if (want_transposed(&h)) (threads ? large_transposed : transposed)(&h, workspace);
    else if (threads) large(&h, workspace);
    else small(&h, workspace);
}

/* Packed B: k blocks one after another, each all panels of that block, the last one narrower. */
void GD_KERNEL(gemm_pack)(int dtype, int64_t k, int64_t n, const void *b, int64_t b_rs, int64_t b_cs, void *dst) {
    const int64_t esize = gd_dtype_bytes(dtype), width = GEMM_NV_BYTES / esize;
    const int64_t block = gemm_ceil(n * esize, GEMM_PANEL) * GEMM_PANEL;
    gd_gemm_args g = {.n = n, .k = k, .b = b, .b_rs = b_rs, .b_cs = b_cs, .dtype = (uint8_t)dtype};
    for (int64_t k0 = 0; k0 < k; k0 += GD_GEMM_KC) {
        int64_t kb = gemm_min(GD_GEMM_KC, k - k0);
        for (int64_t j = 0; j < n; j += width) {
            panel_b(&g, PACKED, k0, kb, j, (int)gemm_min(width, n - j), (char *)dst + k0 * block + j * kb * esize, esize);
        }
    }
}

void GD_KERNEL(gemm_packed)(const gd_gemm_args *g, const void *packed) {
    if (g->m == 0 || g->n == 0) return;
    if (g->k == 0) {
        fill_init(g);
        return;
    }
    const int64_t esize = gd_dtype_bytes(g->dtype), width = GEMM_NV_BYTES / esize;
    const int64_t block = gemm_ceil(g->n * esize, GEMM_PANEL) * GEMM_PANEL;
    for (int64_t k0 = 0; k0 < g->k; k0 += GD_GEMM_KC) {
        int64_t kb = gemm_min(GD_GEMM_KC, g->k - k0);
        for (int64_t j = 0; j < g->n; j += width) {
            int n = (int)gemm_min(width, g->n - j);
            const columns b = {(const char *)packed + k0 * block + j * kb * esize, panel_width(g->dtype, n), 1};
            panel(g, k0, kb, 0, g->m, j, n, b, NULL, esize);
        }
    }
}
