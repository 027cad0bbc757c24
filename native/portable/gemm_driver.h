/* gemm_driver.h - blocking, packing order and threading of the matrix product, for every ISA.
 * Large products: chunks of A and B are packed by all threads, then tasks of some rows and columns run
 * their register tiles over all k blocks of the chunk. Small ones pack at most one panel of B at a time.
 *
 * The includer defines before including:
 *   GEMM_MR          rows of a register tile with packed A; GEMM_MR_DIRECT with A in place
 *   GEMM_NV_BYTES    bytes of a register tile's full width, two vectors
 *   GEMM_MASKED      1 if a tile reads only the n columns it is asked for, 0 if whole vectors
 *   gemm_tile, and
 *   pick_tile(dtype, packed, mr, n)  the tile function for mr rows and n columns
 *   panel_width(dtype, n)            columns a tile for n columns reads (and a panel for it has)
 *   pack_f32(src, lane_stride, k_stride, lanes, k, width, dst), and _f64
 *       dst[k][width] = src lanes (elements `lane_stride` apart), the rest of the width 0
 *   pack_transposed_f32(src, lane_stride, lanes, k, width, dst), and _f64
 *       the same for lanes that are contiguous along k
 *   GEMM_TRANSPOSES_PARTS            1 if it also takes fewer lanes than the width
 *   pack_rows_f32(src, k_stride, panels, k, width, dst), and _f64
 *       the same for whole panels of lanes side by side, one panel after another
 * and includes gemm_thin_tile.h for float32 and float64. */
#include "gemm_panel.h"
#include "gemm_thin.h"
#include "gemm_own.h"

/* Packing: rows of A by one task, and what stays on the calling thread (elements; some us). */
enum { GEMM_PACK_TILES = 4, GEMM_PACK_ALONE = 1 << 15 };
/* Register tiles above each other in one task: from the most down to one until there are enough tasks. */
enum { GEMM_TASK_TILES = 8, GEMM_TASKS_PER_WORKER = 32 };
/* Tasks of fewer multiply-adds are not worth claiming. */
enum { GEMM_TASK_LEAST = 1 << 17 };

/* A chunk of a large product, as tasks see it. */
typedef struct job {
    const gd_gemm_args *g;
    int64_t esize, width, step; /* width: columns of a full panel; step: rows of a register tile */
    int64_t i0, m, j0, n, k0, k; /* the chunk: first row and rows, columns, k */
    int64_t rows, columns, row_tasks; /* of one task; tasks above each other */
    char *a, *b, *buffers; /* packed chunks, NULL: not packed; workers' panels */
    int64_t a_tasks, a_groups, b_groups; /* of packing: all for A; per k block for A and B */
    bool in_place;
} job;

/* Where packed row i (a multiple of MR) or column j (of the width) of the k block at k0 starts. */
static inline char *packed_a(const job *q, int64_t k0, int64_t kb, int64_t i) {
    return q->a + (gemm_ceil(q->m, GEMM_MR) * GEMM_MR * (k0 - q->k0) + i * kb) * q->esize;
}
static inline char *packed_b(const job *q, int64_t k0, int64_t kb, int64_t j) {
    return q->b + gemm_ceil(q->n * q->esize, GEMM_PANEL) * GEMM_PANEL * (k0 - q->k0) + j * kb * q->esize;
}

static void pack_task(void *ctx, int64_t task, int worker) {
    const job *q = ctx;
    const gd_gemm_args *g = q->g;
    (void)worker;
    const bool is_a = task < q->a_tasks;
    const int64_t groups = is_a ? q->a_groups : q->b_groups, number = is_a ? task : task - q->a_tasks;
    const int64_t k0 = q->k0 + number / groups * GD_GEMM_KC, kb = gemm_min(GD_GEMM_KC, q->k0 + q->k - k0);
    if (is_a) {
        const int64_t step = GEMM_PACK_TILES * GEMM_MR, i = number % groups * step;
        pack_panels(g->dtype, at(g->a, (q->i0 + i) * g->a_rs + k0 * g->a_cs, q->esize), g->a_rs, g->a_cs, gemm_min(step, q->m - i), kb,
                    GEMM_MR, GEMM_MR, packed_a(q, k0, kb, i));
        return;
    }
    const int64_t step = GEMM_GROUP / q->esize, j = number % groups * step, n = gemm_min(step, q->n - j), rest = n % q->width;
    pack_panels(g->dtype, at(g->b, k0 * g->b_rs + (q->j0 + j) * g->b_cs, q->esize), g->b_cs, g->b_rs, n, kb, q->width,
                rest ? panel_width(g->dtype, (int)rest) : q->width, packed_b(q, k0, kb, j));
}

/* All k blocks of the chunk for some rows and columns of C. */
static void tile_task(void *ctx, int64_t task, int worker) {
    const job *q = ctx;
    const gd_gemm_args *g = q->g;
    const int64_t i0 = task % q->row_tasks * q->rows, i1 = gemm_min(q->m, i0 + q->rows);
    const int64_t j0 = task / q->row_tasks * q->columns, j1 = gemm_min(q->n, j0 + q->columns);
    for (int64_t k0 = q->k0; k0 < q->k0 + q->k; k0 += GD_GEMM_KC) {
        const int64_t kb = gemm_min(GD_GEMM_KC, q->k0 + q->k - k0);
        const char *a = q->a ? packed_a(q, k0, kb, i0) : NULL;
        for (int64_t j = j0; j < j1; j += q->width) {
            const int n = (int)gemm_min(q->width, j1 - j);
            const columns b = q->b ? (columns){packed_b(q, k0, kb, j), panel_width(g->dtype, n)}
                                   : panel_b(g, q->in_place, k0, kb, q->j0 + j, n, q->buffers + worker * gemm_panel_bytes(g->k), q->esize);
            panel(g, k0, kb, q->i0 + i0, q->i0 + i1, q->j0 + j, n, b, a, q->esize);
        }
    }
}

/* Rows and columns of a task: few enough tasks to be worth claiming, enough for all to end at once. */
static void cut(job *q, bool shares) {
    const int64_t wanted = GEMM_TASKS_PER_WORKER * gd_parallel_width();
    q->columns = GEMM_GROUP / q->esize;
    if (!shares) { /* panels of B are packed per task, so a task takes all rows */
        q->rows = gemm_max(q->m, 1);
        while (q->columns > q->width && 4 * gemm_ceil(q->n, q->columns) < wanted) q->columns /= 2;
    } else {
        const int64_t tile = q->step * gemm_min(q->n, q->columns) * q->k;
        int64_t tiles = GEMM_TASK_TILES * gemm_ceil(GEMM_TASK_LEAST, tile);
        while (tiles > 1 && tiles * tile >= 2 * GEMM_TASK_LEAST &&
               gemm_ceil(q->m, tiles * q->step) * gemm_ceil(q->n, q->columns) < wanted) tiles /= 2;
        q->rows = tiles * q->step;
        while (tiles == 1 && q->columns > q->width && q->rows * q->columns * q->k >= 2 * GEMM_TASK_LEAST &&
               gemm_ceil(q->m, q->rows) * gemm_ceil(q->n, q->columns) < wanted) q->columns /= 2;
    }
    q->row_tasks = gemm_ceil(q->m, q->rows);
}

/* One chunk: packs A, and B unless the chunk above has, then multiplies. */
static void chunk(job *q, bool shares, bool packs_b) {
    const int64_t blocks = gemm_ceil(q->k, GD_GEMM_KC);
    q->a_groups = q->a ? gemm_ceil(q->m, GEMM_PACK_TILES * GEMM_MR) : 0;
    q->b_groups = packs_b ? gemm_ceil(q->n, GEMM_GROUP / q->esize) : 0;
    q->a_tasks = blocks * q->a_groups;
    const int64_t tasks = q->a_tasks + blocks * q->b_groups;
    if ((q->a ? q->m : 0) + (packs_b ? q->n : 0) <= GEMM_PACK_ALONE / q->k) {
        for (int64_t i = 0; i < tasks; i++) pack_task(q, i, 0);
    } else {
        gd_parallel(tasks, pack_task, q);
    }
    cut(q, shares);
    gd_parallel(q->row_tasks * gemm_ceil(q->n, q->columns), tile_task, q);
}

static void large(const gd_gemm_args *g, char *workspace) {
    const gemm_plan p = gd_gemm_plan(g->m, g->n, g->k, gd_dtype_bytes(g->dtype));
    if (p.way != GEMM_SHARED) {
        own_product(g, &p, workspace);
        return;
    }
    job q = {.g = g, .esize = gd_dtype_bytes(g->dtype), .a = p.a_bytes ? workspace : NULL};
    const bool shares = p.b_bytes > 0;
    q.in_place = reads_in_place(g, q.esize);
    q.b = shares && !q.in_place ? workspace + p.a_bytes : NULL;
    q.buffers = workspace + p.a_bytes + p.b_bytes;
    q.width = GEMM_NV_BYTES / q.esize;
    q.step = q.a ? GEMM_MR : GEMM_MR_DIRECT;
    for (q.j0 = 0; q.j0 < g->n; q.j0 += p.columns) {
        q.n = gemm_min(p.columns, g->n - q.j0);
        for (q.k0 = 0; q.k0 < g->k; q.k0 += p.depth) {
            q.k = gemm_min(p.depth, g->k - q.k0);
            for (q.i0 = 0; q.i0 < g->m; q.i0 += p.rows) {
                q.m = gemm_min(p.rows, g->m - q.i0);
                chunk(&q, shares, q.b && q.i0 == 0);
            }
        }
    }
}

/* The product with strides of dimensions of size 1 made harmless. */
static inline gd_gemm_args normalised(const gd_gemm_args *g) {
    gd_gemm_args h = *g;
    if (h.n == 1) h.b_cs = 1;
    if (h.m == 1) h.a_rs = 1;
    return h;
}

void GD_KERNEL(gemm)(const gd_gemm_args *g, void *workspace) {
    if (g->m == 0 || g->n == 0) return;
    if (g->k == 0) {
        fill_init(g);
        return;
    }
    const gd_gemm_args h = normalised(g);
    thin t;
    if (as_thin(&h, &t)) run_thin(&t);
    else if (gemm_is_large(h.m, h.n, h.k)) large(&h, workspace);
    else small(&h, workspace);
}

/* Packed B: k blocks one after another, each all panels of that block, the last one narrower. */
void GD_KERNEL(gemm_pack)(int dtype, int64_t k, int64_t n, const void *b, int64_t b_rs, int64_t b_cs, void *dst) {
    const int64_t esize = gd_dtype_bytes(dtype), width = GEMM_NV_BYTES / esize, rest = n % width;
    const int64_t block = gemm_ceil(n * esize, GEMM_PANEL) * GEMM_PANEL;
    for (int64_t k0 = 0; k0 < k; k0 += GD_GEMM_KC) {
        pack_panels(dtype, at(b, k0 * b_rs, esize), b_cs, b_rs, n, gemm_min(GD_GEMM_KC, k - k0), width,
                    rest ? panel_width(dtype, (int)rest) : width, (char *)dst + k0 * block);
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
            const columns b = {(const char *)packed + k0 * block + j * kb * esize, panel_width(g->dtype, n)};
            panel(g, k0, kb, 0, g->m, j, n, b, NULL, esize);
        }
    }
}

void GD_KERNEL(gemm_packed_rows)(const gd_gemm_args *g, const void *packed, int64_t k, int64_t first) {
    if (g->m == 0 || g->n == 0) return;
    if (g->k == 0) {
        fill_init(g);
        return;
    }
    const int64_t esize = gd_dtype_bytes(g->dtype), width = GEMM_NV_BYTES / esize;
    for (int64_t j = 0; j < g->n; j += width) {
        const int n = (int)gemm_min(width, g->n - j);
        const int64_t lanes = panel_width(g->dtype, n);
        panel(g, 0, g->k, 0, g->m, j, n, (columns){at(packed, j * k + first * lanes, esize), lanes}, NULL, esize);
    }
}
