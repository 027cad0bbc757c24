/* gemm_panel.h - one panel of B times rows of A, and small products panel by panel, for every ISA.
 * What the includer defines stands in gemm_driver.h. */
#include <string.h>

#include "../gemm.h"
#include "../gemm_blocks.h"

/* B in place of a panel pays while it is read about once, or stays in L1. */
enum { GEMM_DIRECT_ROWS = 32, GEMM_DIRECT_BYTES = 32 << 10 };

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

/* Lanes side by side for the tiles: of one panel, and of whole panels one after another. */
static void pack(int dtype, const void *src, int64_t lane_stride, int64_t k_stride, int64_t lanes, int64_t k, int64_t width, void *dst) {
    const bool f32 = dtype == GD_FLOAT32;
    if (k_stride == 1 && lane_stride != 1 && (GEMM_TRANSPOSES_PARTS || lanes == width)) {
        if (f32) pack_transposed_f32(src, lane_stride, lanes, k, width, dst);
        else pack_transposed_f64(src, lane_stride, lanes, k, width, dst);
    } else {
        (f32 ? pack_f32 : pack_f64)(src, lane_stride, k_stride, lanes, k, width, dst);
    }
}

static void pack_rows(int dtype, const void *src, int64_t k_stride, int64_t panels, int64_t k, int64_t width, void *dst) {
    if (dtype == GD_FLOAT32) pack_rows_f32(src, k_stride, panels, k, width, dst);
    else pack_rows_f64(src, k_stride, panels, k, width, dst);
}

/* Columns of B as a tile reads them, side by side, rows b_rs apart. */
typedef struct columns {
    const void *b;
    int64_t b_rs;
} columns;

/* Rows [i0, i1) of one panel: n columns from j on, of the k block at k0. A is read in place, or from
 * packed_a (this block's, whose row 0 is i0); then what is `ahead` is fetched meanwhile. */
static inline void panel_ahead(const gd_gemm_args *g, int64_t k0, int64_t kb, int64_t i0, int64_t i1, int64_t j, int n, columns b,
                               const void *packed_a, int64_t esize, gemm_ahead *ahead) {
    const bool packed = packed_a != NULL;
    const int rows = packed ? GEMM_MR : GEMM_MR_DIRECT;
    gemm_tile t = {.k = kb, .n = n, .b = b.b, .b_rs = b.b_rs, .a_rs = g->a_rs, .a_cs = g->a_cs, .c_rs = g->c_rs};
    for (int64_t i = i0; i < i1; i += rows) {
        int mr = (int)gemm_min(rows, i1 - i);
        t.a = packed ? at(packed_a, (i - i0) * kb, esize) : at(g->a, i * g->a_rs + k0 * g->a_cs, esize);
        t.c = (char *)g->c + (i * g->c_rs + j) * esize;
        t.init = init_of(g, k0, i, j, esize, &t.init_rs);
        t.ahead = ahead->list + (ahead->list[0].rows <= 0);
        pick_tile(g->dtype, packed, mr, n)(&t);
    }
}

static inline void panel(const gd_gemm_args *g, int64_t k0, int64_t kb, int64_t i0, int64_t i1, int64_t j, int n, columns b,
                         const void *packed_a, int64_t esize) {
    gemm_ahead nothing = {0};
    panel_ahead(g, k0, kb, i0, i1, j, n, b, packed_a, esize, &nothing);
}

/* Whether tiles read B where it is. */
static inline bool reads_in_place(const gd_gemm_args *g, int64_t esize) {
    return g->b_cs == 1 && (g->m <= GEMM_DIRECT_ROWS || g->n * gemm_min(g->k, GD_GEMM_KC) * esize <= GEMM_DIRECT_BYTES);
}

/* The n columns of B from j on, for the k block at k0; buffer holds them if they are packed. */
static inline columns panel_b(const gd_gemm_args *g, bool in_place, int64_t k0, int64_t kb, int64_t j, int n, void *buffer, int64_t esize) {
    const void *b = at(g->b, k0 * g->b_rs + j * g->b_cs, esize);
    const int64_t width = panel_width(g->dtype, n);
    if (in_place && (GEMM_MASKED || n == width)) return (columns){b, g->b_rs};
    pack(g->dtype, b, g->b_cs, g->b_rs, n, kb, width, buffer);
    return (columns){buffer, width};
}

/* The whole product on this thread; buffer holds one panel. */
static void small(const gd_gemm_args *g, void *buffer) {
    const int64_t esize = gd_dtype_bytes(g->dtype), width = GEMM_NV_BYTES / esize;
    const bool in_place = reads_in_place(g, esize);
    for (int64_t k0 = 0; k0 < g->k; k0 += GD_GEMM_KC) {
        int64_t kb = gemm_min(GD_GEMM_KC, g->k - k0);
        for (int64_t j = 0; j < g->n; j += width) {
            int n = (int)gemm_min(width, g->n - j);
            panel(g, k0, kb, 0, g->m, j, n, panel_b(g, in_place, k0, kb, j, n, buffer, esize), NULL, esize);
        }
    }
}

/* Packs lanes (rows of A, columns of B) as panels of `width` lanes one after another; the last is
 * `tail` wide if it is not full. */
static void pack_panels(int dtype, const void *src, int64_t lane_stride, int64_t k_stride, int64_t lanes, int64_t k, int64_t width,
                        int64_t tail, char *dst) {
    const int64_t esize = gd_dtype_bytes(dtype), rest = lanes % width, full = lanes - rest;
    if (full > 0 && lane_stride == 1) {
        pack_rows(dtype, src, k_stride, full / width, k, width, dst);
    } else {
        for (int64_t l = 0; l < full; l += width)
            pack(dtype, at(src, l * lane_stride, esize), lane_stride, k_stride, width, k, width, dst + l * k * esize);
    }
    if (rest > 0) pack(dtype, at(src, full * lane_stride, esize), lane_stride, k_stride, rest, k, tail, dst + full * k * esize);
}
