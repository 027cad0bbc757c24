/* gemm_own.h - large products in which workers share nothing but the operands: each packs for itself what it reads
 * again and again, so that they wait for each other only at the end, and no packed line travels between caches.
 *
 * By rows: a worker packs all of B of a chunk once, and A of the rows of each task, while A of the next one is fetched.
 * Where B has its columns side by side, tiles that read masked vectors take it where it is, and the next panel is fetched.
 * By columns: B panel by panel, and A is read in place.
 * What several workers pack is small beside what each of them multiplies it with. */
#include "../thread.h"
#include "gemm_fetch.h"

/* Tasks of each worker, at least, so that a slow one is helped. */
enum { OWN_TASKS = 4 };
/* Rows of B a multiple of so many bytes apart share few places in the caches, and are packed. */
enum { OWN_COLLIDES = 4096 };

typedef struct own {
    const gd_gemm_args *g;
    int64_t esize, width, step; /* width: columns of a full panel; step: rows of a register tile */
    int64_t j0, n, k0, k;       /* the chunk: first column and columns, k */
    int64_t share, size, tasks; /* rows (or columns) of a worker, and of a task; tasks of a worker */
    int64_t b_bytes, worker_bytes;
    char *workers;
    bool a_in_place, b_in_place;
} own;

/* Gives every worker its share of so many rows (or columns), in a few tasks of whole units. */
static void own_share(own *q, int64_t all, int64_t unit, int64_t most, int64_t workers) {
    q->share = gemm_ceil(all, workers);
    q->size = gemm_min(gemm_ceil(gemm_ceil(q->share, unit), OWN_TASKS) * unit, most);
    q->tasks = gemm_ceil(q->share, q->size);
}

/* The rows (or columns) [*first, *last) of a task. */
static bool own_part(const own *q, int64_t task, int64_t all, int64_t *first, int64_t *last) {
    const int64_t base = task / q->tasks * q->share;
    *first = base + task % q->tasks * q->size;
    *last = gemm_min(gemm_min(base + q->share, all), *first + q->size);
    return *first < *last;
}

/* Lanes side by side (rows of A, columns of B) of a k block as lines to fetch; none where both strides are wide. */
static gemm_lines own_lines(const void *first, int64_t lane_stride, int64_t k_stride, int64_t lanes, int64_t kb, int64_t esize) {
    if (k_stride == 1) return gemm_lines_of(first, lanes, kb * esize, lane_stride * esize);
    if (lane_stride == 1) return gemm_lines_of(first, kb, lanes * esize, k_stride * esize);
    return (gemm_lines){0};
}

/* ---- By rows ----------------------------------------------------------------------------------- */

/* Where column j (a multiple of the width) of the k block at k0 lies in a packed chunk of B. */
static inline char *own_b(const own *q, char *packed, int64_t k0, int64_t kb, int64_t j) {
    return packed + gemm_ceil(q->n * q->esize, GEMM_PANEL) * GEMM_PANEL * (k0 - q->k0) + j * kb * q->esize;
}

/* The worker's packed chunk of B, behind a number that says whether it is there already. */
static char *own_chunk_of_b(const own *q, int worker) {
    const gd_gemm_args *g = q->g;
    int64_t *done = (int64_t *)(void *)(q->workers + worker * q->worker_bytes);
    char *packed = (char *)done + GD_ALIGN;
    if (*done || q->b_in_place) return packed;
    for (int64_t k0 = q->k0; k0 < q->k0 + q->k; k0 += GD_GEMM_KC) {
        const int64_t kb = gemm_min(GD_GEMM_KC, q->k0 + q->k - k0), rest = q->n % q->width;
        pack_panels(g->dtype, at(g->b, k0 * g->b_rs + q->j0 * g->b_cs, q->esize), g->b_cs, g->b_rs, q->n, kb, q->width,
                    rest ? panel_width(g->dtype, (int)rest) : q->width, own_b(q, packed, k0, kb, 0));
    }
    *done = 1;
    return packed;
}

/* Some rows of the chunk, all its columns and k. */
static void own_rows_task(void *ctx, int64_t task, int worker) {
    const own *q = ctx;
    const gd_gemm_args *g = q->g;
    int64_t i0, i1;
    if (!own_part(q, task, g->m, &i0, &i1)) return;
    char *packed = own_chunk_of_b(q, worker), *a = q->a_in_place ? NULL : packed + q->b_bytes;
    const int64_t last = gemm_min(g->m, task / q->tasks * q->share + q->share); /* of this worker's rows */
    for (int64_t k0 = q->k0; k0 < q->k0 + q->k; k0 += GD_GEMM_KC) {
        const int64_t kb = gemm_min(GD_GEMM_KC, q->k0 + q->k - k0);
        gemm_ahead ahead = {0};
        const bool more_k = k0 + kb < q->k0 + q->k;
        const int64_t next_k = more_k ? k0 + kb : q->k0, next_i = more_k ? i0 : i1, next_rows = more_k ? i1 - i0 : gemm_min(q->size, last - i1);
        const int64_t next_kb = gemm_min(GD_GEMM_KC, q->k0 + q->k - next_k);
        if (a && next_rows > 0)
            ahead.list[1] = own_lines(at(g->a, next_i * g->a_rs + next_k * g->a_cs, q->esize), g->a_rs, g->a_cs, next_rows, next_kb, q->esize);
        if (a) pack_panels(g->dtype, at(g->a, i0 * g->a_rs + k0 * g->a_cs, q->esize), g->a_rs, g->a_cs, i1 - i0, kb, GEMM_MR, GEMM_MR, a);
        for (int64_t j = 0; j < q->n; j += q->width) {
            const int n = (int)gemm_min(q->width, q->n - j);
            const columns b = q->b_in_place ? (columns){at(g->b, k0 * g->b_rs + q->j0 + j, q->esize), g->b_rs}
                                            : (columns){own_b(q, packed, k0, kb, j), panel_width(g->dtype, n)};
            const int64_t next_n = gemm_min(q->width, q->n - j - q->width);
            if (q->b_in_place && next_n > 0)
                ahead.list[0] = own_lines(at(g->b, k0 * g->b_rs + q->j0 + j + q->width, q->esize), 1, g->b_rs, next_n, kb, q->esize);
            panel_ahead(g, k0, kb, i0, i1, q->j0 + j, n, b, a, q->esize, &ahead);
        }
    }
}

static void own_by_rows(own *q, const gemm_plan *p) {
    const gd_gemm_args *g = q->g;
    const int workers = gd_parallel_width();
    q->b_in_place = GEMM_MASKED && (reads_in_place(g, q->esize) || (g->b_cs == 1 && g->b_rs * q->esize % OWN_COLLIDES != 0));
    own_share(q, g->m, q->step, GEMM_ROW_STEP, workers);
    for (q->j0 = 0; q->j0 < g->n; q->j0 += p->columns) {
        q->n = gemm_min(p->columns, g->n - q->j0);
        for (q->k0 = 0; q->k0 < g->k; q->k0 += p->depth) {
            q->k = gemm_min(p->depth, g->k - q->k0);
            for (int w = 0; w < workers; w++) *(int64_t *)(void *)(q->workers + w * q->worker_bytes) = 0;
            gd_parallel(q->tasks * workers, own_rows_task, q);
        }
    }
}

/* ---- By columns -------------------------------------------------------------------------------- */

/* Fetches a part of the panel of B that comes next into L2, while this one is multiplied: its lines, whichever way
 * they run, `count` of them from number `first` on. */
static inline void own_fetch(const gd_gemm_args *g, const char *b, int64_t esize, int64_t n, int64_t kb, int64_t first, int64_t count) {
    const bool along_k = g->b_rs == 1;
    const int64_t length = (along_k ? kb : n) * esize, lines = length / GD_ALIGN + 1, stride = (along_k ? g->b_cs : g->b_rs) * esize;
    const int64_t end = gemm_min(first + count, (along_k ? n : kb) * lines);
    for (int64_t i = first; i < end; i++) __builtin_prefetch(b + i / lines * stride + gemm_min(i % lines * GD_ALIGN, length - 1), 0, 2);
}

/* Some columns, all rows and k. */
static void own_columns_task(void *ctx, int64_t task, int worker) {
    const own *q = ctx;
    const gd_gemm_args *g = q->g;
    const int64_t groups = gemm_ceil(g->m, q->step);
    int64_t j0, j1;
    if (!own_part(q, task, g->n, &j0, &j1)) return;
    for (int64_t j = j0; j < j1; j += q->width) {
        const int n = (int)gemm_min(q->width, j1 - j);
        for (int64_t k0 = 0; k0 < g->k; k0 += GD_GEMM_KC) {
            const int64_t kb = gemm_min(GD_GEMM_KC, g->k - k0);
            const columns b = panel_b(g, q->b_in_place, k0, kb, j, n, q->workers + worker * q->worker_bytes, q->esize);
            const bool more_k = k0 + kb < g->k;
            const int64_t next_k0 = more_k ? k0 + kb : 0, next_kb = gemm_min(GD_GEMM_KC, g->k - next_k0);
            const int64_t next_j = more_k ? j : j + q->width, next_n = gemm_min(q->width, g->n - next_j);
            const int64_t lines = (next_n * next_kb * q->esize) / GD_ALIGN + gemm_max(next_n, next_kb), share = gemm_ceil(lines, groups);
            const char *next = at(g->b, next_k0 * g->b_rs + next_j * g->b_cs, q->esize);
            for (int64_t i = 0, done = 0; i < g->m; i += q->step, done += share) {
                if (next_n > 0 && !q->b_in_place) own_fetch(g, next, q->esize, next_n, next_kb, done, share);
                panel(g, k0, kb, i, gemm_min(i + q->step, g->m), j, n, b, NULL, q->esize);
            }
        }
    }
}

static void own_product(const gd_gemm_args *g, const gemm_plan *p, char *workspace) {
    own q = {.g = g, .esize = gd_dtype_bytes(g->dtype), .workers = workspace, .b_bytes = p->b_bytes, .worker_bytes = p->worker_bytes,
             .a_in_place = !p->packs_a};
    q.width = GEMM_NV_BYTES / q.esize;
    q.step = q.a_in_place ? GEMM_MR_DIRECT : GEMM_MR;
    if (p->way == GEMM_BY_ROWS) {
        own_by_rows(&q, p);
        return;
    }
    const int64_t workers = gd_parallel_width(), panels = gemm_ceil(g->n, q.width);
    q.b_in_place = reads_in_place(g, q.esize);
    own_share(&q, gemm_ceil(panels, workers) * workers * q.width, q.width, q.width, workers);
    gd_parallel(q.tasks * workers, own_columns_task, &q);
}
