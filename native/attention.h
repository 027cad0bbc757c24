/* attention.h - attention as its shape rule and kernels see it: how it is cut into blocks, what a query may attend to,
 * and the workspace that takes. After Dao et al., FlashAttention, 2022. */
#ifndef GRADINO_ATTENTION_H
#define GRADINO_ATTENTION_H

#include "gemm.h"

enum {
    GD_ATT_ROWS = 64,  /* queries of a block: four vectors of float32 with AVX-512 */
    GD_ATT_KEYS = 64,  /* keys of a block: with the queries, scores of 16 KiB, which stay in L1 */
    GD_ATT_PANEL = 32, /* queries packed together: two vectors, as a tile of the product is wide */
    GD_ATT_STRIP = 16, /* queries, or keys, whose share of a block on the diagonal is worked on without what no query of them sees */
    GD_ATT_STATS = 5,  /* numbers per query: largest score, sum, correction, logsumexp, delta */
    GD_ATT_LIMIT = 1 << 30 /* of a window, so that sums with positions do not overflow */
};

/* Attributes: i[0], i[1] how many keys before and after its own position a query sees, -1 for all; i[2] = 1 where the
 * last query stands at the last key (else the first at the first); i[3] the gradients that backward makes, as bits;
 * i[6], i[7] seed and offset of dropout; f[0] scale, f[1] probability of dropout. */
enum { GD_ATT_BEFORE, GD_ATT_AFTER, GD_ATT_AT_END, GD_ATT_WANTED, GD_ATT_SEED = 6, GD_ATT_OFFSET = 7 };
enum { GD_ATT_DQ = 1, GD_ATT_DK = 2, GD_ATT_DV = 4, GD_ATT_DMASK = 8 };

/* Where one worker's blocks lie in its part of the workspace: bytes from its start. */
typedef struct gd_attention_room {
    int64_t qt, gt, q, g, k, v;         /* packed for the product: queries and slopes, transposed and as they are; keys, values */
    int64_t scores, slopes, keep;       /* keys x queries */
    int64_t stats;
    int64_t rows_q, rows_g, rows_k, rows_v; /* float32 of bfloat16 and float16 */
    int64_t out, dk, dv;                /* sums that are rounded to such at the end: a block's, and for dk and dv all keys' */
    int64_t bytes;
} gd_attention_room;

static inline int64_t gd_attention_take(gd_attention_room *r, int64_t bytes) {
    const int64_t at = r->bytes;
    r->bytes += (bytes + GD_ALIGN - 1) & -(int64_t)GD_ALIGN;
    return at;
}

/* For heads of d (queries, keys) and dv (values) elements; dtype is that of the tensors. */
static inline gd_attention_room gd_attention_room_of(int64_t keys, int64_t d, int64_t dv, int dtype, bool backward) {
    gd_attention_room r = {0};
    const int inside = gd_dtype_inside(dtype);
    const int64_t esize = gd_dtype_bytes(inside), tile = GD_ATT_ROWS * GD_ATT_KEYS * esize;
    const bool half = gd_is_half(dtype);
    r.qt = gd_attention_take(&r, gd_gemm_packed_bytes(d, GD_ATT_ROWS, inside));
    r.v = gd_attention_take(&r, gd_gemm_packed_bytes(GD_ATT_KEYS, dv, inside));
    r.scores = gd_attention_take(&r, tile);
    r.keep = gd_attention_take(&r, tile);
    r.stats = gd_attention_take(&r, GD_ATT_STATS * GD_ATT_ROWS * esize);
    if (backward) {
        r.slopes = gd_attention_take(&r, tile);
        r.gt = gd_attention_take(&r, gd_gemm_packed_bytes(dv, GD_ATT_ROWS, inside));
        r.q = gd_attention_take(&r, gd_gemm_packed_bytes(GD_ATT_ROWS, d, inside));
        r.g = gd_attention_take(&r, gd_gemm_packed_bytes(GD_ATT_ROWS, dv, inside));
        r.k = gd_attention_take(&r, gd_gemm_packed_bytes(GD_ATT_KEYS, d, inside));
    }
    if (!half) return r;
    r.rows_q = gd_attention_take(&r, GD_ATT_ROWS * d * esize);
    r.rows_k = gd_attention_take(&r, GD_ATT_KEYS * d * esize);
    r.rows_v = gd_attention_take(&r, GD_ATT_KEYS * dv * esize);
    r.rows_g = gd_attention_take(&r, GD_ATT_ROWS * dv * esize);
    r.out = gd_attention_take(&r, GD_ATT_ROWS * (d > dv ? d : dv) * esize);
    if (!backward) return r;
    r.dk = gd_attention_take(&r, keys * d * esize);
    r.dv = gd_attention_take(&r, keys * dv * esize);
    return r;
}

#endif
