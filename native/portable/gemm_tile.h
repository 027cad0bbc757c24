/* gemm_tile.h - the register tile of the matrix product: template, included once per vector type.
 * The includer defines TILE(name), TILE_T element, TILE_V vector, TILE_W lanes, and the functions
 * TILE(load)(p, n), TILE(store)(p, v, n) of n lanes, TILE(load_b) the same or whole vectors,
 * TILE(set1), TILE(fma), TILE(add). */

/* c (mr x n) = init + acc */
static inline __attribute__((always_inline)) void TILE(finish)(const int mr, const int nv, TILE_V acc[][2], const gemm_tile *t) {
    const int tail = t->n - (nv - 1) * TILE_W;
    TILE_T *c = t->c;
    const TILE_T *init = t->init;
    if (init) {
        GEMM_UNROLL for (int i = 0; i < mr; i++) {
            GEMM_UNROLL for (int v = 0; v < nv; v++) {
                TILE_V start = TILE(load)(init + i * t->init_rs + v * TILE_W, v == nv - 1 ? tail : TILE_W);
                acc[i][v] = TILE(add)(start, acc[i][v]);
            }
        }
    }
    GEMM_UNROLL for (int i = 0; i < mr; i++) {
        GEMM_UNROLL for (int v = 0; v < nv; v++) {
            TILE(store)(c + i * t->c_rs + v * TILE_W, acc[i][v], v == nv - 1 ? tail : TILE_W);
        }
    }
}

/* c (mr x n) = init + a (mr x k) b (k x n), n <= nv vectors; mr, nv and packed are constants.
 * Every element: acc = fma(a, b, acc) from 0 over ascending k, then init + acc. */
static inline __attribute__((always_inline)) void TILE(tile)(const int mr, const int nv, const bool packed, const gemm_tile *t) {
    const TILE_T *a = t->a, *b = t->b;
    const int64_t a_rs = packed ? 1 : t->a_rs, a_cs = packed ? GEMM_MR : t->a_cs, b_rs = t->b_rs;
    const int tail = t->n - (nv - 1) * TILE_W;
    TILE_V acc[GEMM_MR][2], vb[2];
    GEMM_UNROLL for (int i = 0; i < mr; i++) {
        GEMM_UNROLL for (int v = 0; v < nv; v++) acc[i][v] = TILE(set1)(0);
    }
    if (packed) {
        GEMM_UNROLL for (int i = 0; i < mr; i++) {
            GEMM_UNROLL for (int v = 0; v < nv; v++) __builtin_prefetch((const TILE_T *)t->c + i * t->c_rs + v * TILE_W, 1);
        }
    }
    gemm_lines ahead = packed ? *t->ahead : (gemm_lines){0};
    for (int64_t k = t->k; k > 0; k--, a += a_cs, b += b_rs) {
        if (packed) gemm_fetch_line(&ahead);
        GEMM_UNROLL for (int v = 0; v < nv; v++) vb[v] = TILE(load_b)(b + v * TILE_W, v == nv - 1 ? tail : TILE_W);
        GEMM_UNROLL for (int i = 0; i < mr; i++) {
            TILE_V va = TILE(set1)(a[i * a_rs]);
            GEMM_UNROLL for (int v = 0; v < nv; v++) acc[i][v] = TILE(fma)(va, vb[v], acc[i][v]);
        }
    }
    if (packed) *t->ahead = ahead;
    TILE(finish)(mr, nv, acc, t);
}
