/* gemm.c - how the matrix product is cut to fit the caches, and the memory it needs; the same on
 * every ISA. After BLIS (Van Zee, van de Geijn 2015), with both operands packed for all threads. */
#include "gemm.h"

#include "cpu.h"
#include "gemm_blocks.h"
#include "thread.h"

/* Packed A is read once per group of columns, so it should stay in a core's L2, beside such a group of B; packed
 * B in the last level, beside what other cores do. Bounds: what is known to work well. */
enum { A_LEAST = 1 << 18, A_MOST = 1 << 21, B_LEAST = 1 << 20, B_MOST = 1 << 22, L3_SHARE = 8 };

static inline int64_t clamp(int64_t x, int64_t least, int64_t most) {
    return gemm_max(least, gemm_min(x, most));
}

/* Length of equal parts of size, each a multiple of step and, rounding aside, at most limit. */
static inline int64_t part(int64_t size, int64_t limit, int64_t step) {
    return gemm_ceil(gemm_ceil(size, gemm_ceil(size, limit)), step) * step;
}

/* Rows, or columns, of each worker from which it may as well pack B for itself: waiting for each other twice for
 * every chunk, and moving packed lines between caches, costs more. By columns A is read where it is, again and again:
 * so many rows at most. */
enum { OWN_ROWS = 128, OWN_COLUMNS = 64, OWN_A_ROWS = 256 };

static gemm_way way_of(int64_t m, int64_t n) {
    const int64_t workers = gd_parallel_width();
    if (n >= OWN_COLUMNS * workers && m <= OWN_A_ROWS) return GEMM_BY_COLUMNS;
    return m >= OWN_ROWS * workers ? GEMM_BY_ROWS : GEMM_SHARED;
}

static inline int64_t aligned(int64_t bytes) {
    return gemm_ceil(bytes, GD_ALIGN) * GD_ALIGN;
}

/* B in chunks of at most so many bytes. */
static void cut_b(gemm_plan *p, int64_t n, int64_t block, int64_t group, int64_t bytes) {
    p->columns = part(n, gemm_max(bytes / block, group), group);
    p->depth = gemm_min(p->depth, gemm_max(bytes / (p->columns * block), 1) * GD_GEMM_KC);
}

gemm_plan gd_gemm_plan(int64_t m, int64_t n, int64_t k, int64_t esize) {
    const gd_caches caches = gd_cache_sizes();
    const int64_t a_most = clamp(caches.l2 * 2 / 3, A_LEAST, A_MOST), b_most = clamp(caches.l3 / L3_SHARE, B_LEAST, B_MOST);
    const int64_t block = GD_GEMM_KC * esize, group = GEMM_GROUP / esize;
    gemm_plan p = {.way = way_of(m, n), .rows = m, .columns = n, .depth = k};
    if (p.way == GEMM_BY_COLUMNS) {
        p.worker_bytes = gemm_panel_bytes(k);
        return p;
    }
    p.packs_a = m > GEMM_PACK_A_ROWS && n >= GEMM_PACK_A_COLUMNS;
    if (p.way == GEMM_BY_ROWS) {
        cut_b(&p, n, block, group, b_most / 2);
        p.b_bytes = gemm_ceil(gemm_min(p.columns, n) * esize, GEMM_PANEL) * GEMM_PANEL * p.depth;
        p.worker_bytes = GD_ALIGN + p.b_bytes + (p.packs_a ? aligned(GEMM_ROW_STEP * gemm_min(k, GD_GEMM_KC) * esize) : 0);
        return p;
    }
    if (p.packs_a) {
        p.rows = part(m, gemm_max(a_most / block, GEMM_ROW_STEP), GEMM_ROW_STEP);
        p.depth = gemm_min(p.depth, gemm_max(a_most / (p.rows * block), 1) * GD_GEMM_KC);
    }
    if (m > GEMM_SHARED_ROWS) {
        cut_b(&p, n, block, group, b_most);
        p.b_bytes = gemm_ceil(gemm_min(p.columns, n) * esize, GEMM_PANEL) * GEMM_PANEL * p.depth;
    }
    if (p.packs_a) p.a_bytes = aligned(p.rows * p.depth * esize);
    return p;
}

int64_t gd_gemm_workspace(int64_t m, int64_t n, int64_t k, int dtype) {
    const int64_t panels = gd_parallel_width() * gemm_panel_bytes(k);
    if (m == 0 || n == 0 || k == 0) return 0;
    if (!gemm_is_large(m, n, k)) return panels;
    const gemm_plan p = gd_gemm_plan(m, n, k, gd_dtype_bytes(dtype));
    return p.way == GEMM_SHARED ? panels + p.a_bytes + p.b_bytes : gd_parallel_width() * p.worker_bytes;
}

int64_t gd_gemm_packed_bytes(int64_t k, int64_t n, int dtype) {
    return gemm_ceil(n * gd_dtype_bytes(dtype), GEMM_PANEL) * GEMM_PANEL * k;
}
