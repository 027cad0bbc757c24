/* matmul.c - matmul and linear on bfloat16: packing, blocking and threads of the product (bf16.h).
 * A is packed for all tasks; B, too, where many rows read it, else each task packs the panel that it is at. */
#include "../bf16.h"
#include "../gemm.h"
#include "../thread.h"
#include "thin.h"

enum {
    TASK_ROWS = 8 * TILE_ROWS,       /* rows of a task: its sums stay in L1, a block of its A in L2 */
    TASK_PANELS = 8,                 /* panels of B of a task, at most */
    TASKS_PER_WORKER = 16,           /* fewer panels until there are as many tasks */
    BLOCK_PAIRS = GD_GEMM_KC / 2,
    PACK_PANELS = 4,                 /* of one packing task */
    PACK_ALONE = 1 << 15,            /* elements packed on the calling thread: some us */
};

typedef struct product {
    const gd_gemm_args *g;
    int64_t pairs, row_tasks, panels; /* panels: of B, in one task */
    int64_t a_tasks;                  /* of packing */
    uint32_t *a, *b;                  /* packed; b NULL: not for all */
    char *own;                        /* workers' panels and sums */
} product;

static inline int64_t aligned(int64_t bytes) {
    return gemm_ceil(bytes, GD_ALIGN) * GD_ALIGN;
}

/* Workspace: all of A, all of B where it is shared, and for each worker a block of a panel of B, and sums. */
static inline bool shares_b(const gd_gemm_args *g) { return g->m > TASK_ROWS; }
static inline int64_t a_bytes(const gd_gemm_args *g) { return aligned(g->m * ((g->k + 1) / 2) * 4); }
static inline int64_t b_bytes(const gd_gemm_args *g) {
    return shares_b(g) ? gemm_ceil(g->n, LANES) * LANES * ((g->k + 1) / 2) * 4 : 0;
}
static inline int64_t panel_bytes(const gd_gemm_args *g) {
    return shares_b(g) ? 0 : aligned(gemm_min((g->k + 1) / 2, BLOCK_PAIRS) * TILE_COLUMNS * 4);
}
static inline int64_t own_bytes(const gd_gemm_args *g) {
    return panel_bytes(g) + (g->k > GD_GEMM_KC ? gemm_min(g->m, TASK_ROWS) * TILE_COLUMNS * 4 : 0);
}
static inline int64_t product_bytes(const gd_gemm_args *g, int64_t workers) {
    return a_bytes(g) + b_bytes(g) + workers * own_bytes(g);
}

static inline int64_t width_of(int64_t n) { return n <= LANES ? LANES : TILE_COLUMNS; }

static void pack_task(void *ctx, int64_t task, int worker) {
    const product *p = ctx;
    const gd_gemm_args *g = p->g;
    (void)worker;
    const bool is_a = task < p->a_tasks;
    const int64_t width = is_a ? TILE_ROWS : TILE_COLUMNS, lanes = is_a ? g->m : g->n;
    const int64_t from = (is_a ? task : task - p->a_tasks) * PACK_PANELS * width, end = gemm_min(lanes, from + PACK_PANELS * width);
    for (int64_t l = from; l < end; l += width) {
        const int64_t real = gemm_min(width, end - l);
        if (is_a) pack((const uint16_t *)g->a + l * g->a_rs, g->a_rs, g->a_cs, real, g->k, real, p->a + l * p->pairs);
        else pack((const uint16_t *)g->b + l * g->b_cs, g->b_cs, g->b_rs, real, g->k, width_of(real), p->b + l * p->pairs);
    }
}

/* Rows [i0, i1) and columns [j, j + n) of one panel. */
static void run_panel(const product *p, int64_t i0, int64_t i1, int64_t j, int n, char *own) {
    const gd_gemm_args *g = p->g;
    float *sums = (float *)(void *)(own + panel_bytes(g));
    const int64_t width = width_of(n);
    const bool thin = !p->b && i1 - i0 <= THIN_MOST && g->b_rs == 1;
    for (int64_t k0 = 0; k0 < g->k; k0 += GD_GEMM_KC) {
        const int64_t kb = gemm_min(GD_GEMM_KC, g->k - k0);
        tile t = {.pairs = (kb + 1) / 2, .init_rs = g->accumulate ? g->c_rs : 0, .c_rs = g->c_rs, .n = n, .first = k0 == 0, .last = k0 + kb == g->k};
        const uint16_t *b = (const uint16_t *)g->b + k0 * g->b_rs + j * g->b_cs;
        if (thin) {
            t.b = NULL;
        } else if (p->b) {
            t.b = p->b + j * p->pairs + k0 / 2 * width;
        } else {
            pack(b, g->b_cs, g->b_rs, n, kb, width, (uint32_t *)(void *)own);
            t.b = (const uint32_t *)(const void *)own;
        }
        for (int64_t i = i0; i < i1; i += TILE_ROWS) {
            const int64_t mr = gemm_min(TILE_ROWS, i1 - i);
            t.a = p->a + i * p->pairs + k0 / 2 * mr;
            t.c = (uint16_t *)g->c + i * g->c_rs + j;
            t.sums = sums + (i - i0) * TILE_COLUMNS;
            if (t.first) t.init = g->accumulate ? t.c : g->bias ? (const uint16_t *)g->bias + j : NULL;
            if (thin) thin_fns[mr - 1][n > LANES](&t, b, g->b_cs, kb);
            else tile_fns[mr - 1][n > LANES](&t);
        }
    }
}

static void tile_task(void *ctx, int64_t task, int worker) {
    const product *p = ctx;
    const gd_gemm_args *g = p->g;
    const int64_t i0 = task % p->row_tasks * TASK_ROWS, j0 = task / p->row_tasks * p->panels * TILE_COLUMNS;
    const int64_t i1 = gemm_min(g->m, i0 + TASK_ROWS), j1 = gemm_min(g->n, j0 + p->panels * TILE_COLUMNS);
    for (int64_t j = j0; j < j1; j += TILE_COLUMNS)
        run_panel(p, i0, i1, j, (int)gemm_min(TILE_COLUMNS, j1 - j), p->own + worker * own_bytes(g));
}

/* c = init, where there is nothing to add. */
static void fill_init(const gd_gemm_args *g) {
    for (int64_t i = 0; i < g->m && !g->accumulate; i++) {
        uint16_t *row = (uint16_t *)g->c + i * g->c_rs;
        for (int64_t j = 0; j < g->n; j++) row[j] = g->bias ? ((const uint16_t *)g->bias)[j] : 0;
    }
}

static void gd_gemm_avx512bf16(const gd_gemm_args *given, void *workspace) {
    gd_gemm_args g = *given;
    if (g.k == 0) fill_init(&g);
    if (g.m == 0 || g.n == 0 || g.k == 0) return;
    if (g.k == 1) g.a_cs = g.b_rs = 1; /* strides of dimensions of size 1 may be anything */
    if (g.m == 1 && g.a_cs != 1) g.a_rs = 1;
    if (g.n == 1 && g.b_rs != 1) g.b_cs = 1;
    product p = {.g = &g, .pairs = (g.k + 1) / 2, .panels = TASK_PANELS, .a = workspace};
    if (shares_b(&g)) p.b = (uint32_t *)(void *)((char *)workspace + a_bytes(&g));
    p.own = (char *)workspace + a_bytes(&g) + b_bytes(&g);
    p.row_tasks = gemm_ceil(g.m, TASK_ROWS);
    p.a_tasks = gemm_ceil(g.m, PACK_PANELS * TILE_ROWS);
    const bool large = gemm_is_large(g.m, g.n, g.k);
    const int64_t packing = p.a_tasks + (p.b ? gemm_ceil(g.n, PACK_PANELS * TILE_COLUMNS) : 0);
    if (!large || g.m + (p.b ? g.n : 0) <= PACK_ALONE / g.k)
        for (int64_t i = 0; i < packing; i++) pack_task(&p, i, 0);
    else gd_parallel(packing, pack_task, &p);
    const int64_t wanted = TASKS_PER_WORKER * (int64_t)gd_parallel_width();
    while (p.panels > 1 && p.row_tasks * gemm_ceil(g.n, p.panels * TILE_COLUMNS) < wanted) p.panels /= 2;
    const int64_t tasks = p.row_tasks * gemm_ceil(g.n, p.panels * TILE_COLUMNS);
    if (large) gd_parallel(tasks, tile_task, &p);
    else
        for (int64_t i = 0; i < tasks; i++) tile_task(&p, i, 0);
}

#define MATMUL_SMALL_BYTES(g) product_bytes(g, 1)
#include "../portable/matmul_driver.h"

void gd_matmul_avx512bf16(const gd_args *args) { matmul_float(args); }
void gd_linear_avx512bf16(const gd_args *args) { linear_float(args); }

static int64_t bytes_of(const products *p) {
    const bool alone = gd_parallel_width() == 1 || !(shares_products(p) || gemm_is_large(p->g.m, p->g.n, p->g.k));
    const int64_t workers = alone ? 1 : gd_parallel_width();
    return shares_products(p) ? workers * product_bytes(&p->g, 1) : product_bytes(&p->g, workers);
}

int64_t gd_matmul_bytes_avx512bf16(const gd_args *args) {
    const products p = matmul_products(args);
    return bytes_of(&p);
}

int64_t gd_linear_bytes_avx512bf16(const gd_args *args) {
    const products p = linear_products(args);
    return bytes_of(&p) + gd_linear_bias_bytes(args->nin > 2 ? args->in[2] : NULL);
}
