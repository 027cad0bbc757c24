/* gemm_thin_tile.h - one k block of a thin product: template, included once per vector type.
 * The includer defines what gemm_tile.h asks for, and TILE(load_transposed)(src, lane_stride, lanes, ks, r):
 * r[j] = k number j of W lanes, k side by side; past `lanes` any values, past ks zeros. */

/* acc (mr x n) = [acc +] x (mr x ks) mat (ks x n), one vector: the last has `lanes` columns. */
static inline __attribute__((always_inline)) void TILE(stream_vector)(const int mr, const int ks, const bool first, const bool far,
                                                                      TILE_V vx[][STREAM_K], const TILE_T *mat, int64_t k_stride,
                                                                      const int lanes, TILE_T *acc) {
    TILE_V sum[THIN_ROWS];
    GEMM_UNROLL for (int i = 0; i < mr; i++) sum[i] = first ? TILE(set1)(0) : TILE(load)(acc + i * THIN_COLUMNS, TILE_W);
    GEMM_UNROLL for (int q = 0; q < ks; q++) {
        TILE_V row = TILE(load)(mat + q * k_stride, lanes);
        if (far) __builtin_prefetch(mat + (ks + q) * k_stride, 0, 2); /* into L2 */
        GEMM_UNROLL for (int i = 0; i < mr; i++) sum[i] = TILE(fma)(vx[i][q], row, sum[i]);
    }
    GEMM_UNROLL for (int i = 0; i < mr; i++) TILE(store)(acc + i * THIN_COLUMNS, sum[i], TILE_W);
}

/* The same for n columns, with ks rows of the matrix at once: the accumulators are loaded and stored once for them. */
static inline __attribute__((always_inline)) void TILE(stream_pass)(const int mr, const int ks, const bool first, const bool far, const TILE_T *x,
                                                                    int64_t x_rs, int64_t x_cs, const TILE_T *mat, int64_t k_stride, int n,
                                                                    TILE_T *acc) {
    TILE_V vx[THIN_ROWS][STREAM_K];
    GEMM_UNROLL for (int i = 0; i < mr; i++) {
        GEMM_UNROLL for (int q = 0; q < ks; q++) vx[i][q] = TILE(set1)(x[i * x_rs + q * x_cs]);
    }
    int j = 0;
    for (; j + TILE_W <= n; j += TILE_W) TILE(stream_vector)(mr, ks, first, far, vx, mat + j, k_stride, TILE_W, acc + j);
    if (j < n) TILE(stream_vector)(mr, ks, first, far, vx, mat + j, k_stride, n - j, acc + j);
}

static inline __attribute__((always_inline)) void TILE(stream)(const int mr, const int ks, const bool far, const TILE_T *x, int64_t x_rs,
                                                               int64_t x_cs, const TILE_T *mat, int64_t k_stride, int n, int64_t kb, TILE_T *acc) {
    int64_t q = kb < ks ? 1 : ks;
    if (kb < ks) TILE(stream_pass)(mr, 1, true, false, x, x_rs, x_cs, mat, k_stride, n, acc);
    else TILE(stream_pass)(mr, ks, true, far, x, x_rs, x_cs, mat, k_stride, n, acc);
    for (; q + ks <= kb; q += ks) TILE(stream_pass)(mr, ks, false, far, x + q * x_cs, x_rs, x_cs, mat + q * k_stride, k_stride, n, acc);
    for (; q < kb; q++) TILE(stream_pass)(mr, 1, false, false, x + q * x_cs, x_rs, x_cs, mat + q * k_stride, k_stride, n, acc);
}

/* `far`: the matrix comes from memory, and fetching the next rows early helps; from caches it would only cost. */
static void TILE(stream_block)(int r, bool far, const TILE_T *x, int64_t x_rs, int64_t x_cs, const TILE_T *mat, int64_t k_stride, int n,
                               int64_t kb, TILE_T *acc) {
    switch (r) {
    case 1:
        if (far) TILE(stream)(1, STREAM_K, true, x, x_rs, x_cs, mat, k_stride, n, kb, acc);
        else TILE(stream)(1, STREAM_K, false, x, x_rs, x_cs, mat, k_stride, n, kb, acc);
        break;
    case 2: TILE(stream)(2, STREAM_K, false, x, x_rs, x_cs, mat, k_stride, n, kb, acc); break;
    case 3: TILE(stream)(3, STREAM_K / 2, false, x, x_rs, x_cs, mat, k_stride, n, kb, acc); break;
    default: TILE(stream)(4, STREAM_K / 2, false, x, x_rs, x_cs, mat, k_stride, n, kb, acc); break;
    }
}

/* sum (mr x W lanes) += x (mr x ks) mat (ks x lanes), k side by side. */
static inline __attribute__((always_inline)) void TILE(dot_step)(const int mr, const int ks, const int lanes, const TILE_T *x, int64_t x_rs,
                                                                 int64_t x_cs, const TILE_T *mat, int64_t lane_stride, TILE_V sum[]) {
    TILE_V r[TILE_W];
    TILE(load_transposed)(mat, lane_stride, lanes, ks, r);
    GEMM_UNROLL for (int j = 0; j < TILE_W; j++) {
        if (j < ks) {
            GEMM_UNROLL for (int i = 0; i < mr; i++) sum[i] = TILE(fma)(TILE(set1)(x[i * x_rs + j * x_cs]), r[j], sum[i]);
        }
    }
}

/* acc (mr x lanes) = x (mr x kb) mat (kb x lanes). One vector at a time: more lanes would be more streams from memory
 * than prefetchers follow, and transposing takes as long as the chain of multiply-adds. */
static inline __attribute__((always_inline)) void TILE(dot)(const int mr, const int lanes, const TILE_T *x, int64_t x_rs, int64_t x_cs,
                                                            const TILE_T *mat, int64_t lane_stride, int64_t kb, TILE_T *acc) {
    TILE_V sum[THIN_ROWS];
    GEMM_UNROLL for (int i = 0; i < mr; i++) sum[i] = TILE(set1)(0);
    for (; kb >= TILE_W; kb -= TILE_W, x += TILE_W * x_cs, mat += TILE_W)
        TILE(dot_step)(mr, TILE_W, lanes, x, x_rs, x_cs, mat, lane_stride, sum);
    if (kb > 0) TILE(dot_step)(mr, (int)kb, lanes, x, x_rs, x_cs, mat, lane_stride, sum);
    GEMM_UNROLL for (int i = 0; i < mr; i++) TILE(store)(acc + i * THIN_COLUMNS, sum[i], TILE_W);
}

static inline __attribute__((always_inline)) void TILE(dots)(const int mr, const TILE_T *x, int64_t x_rs, int64_t x_cs, const TILE_T *mat,
                                                             int64_t lane_stride, int n, int64_t kb, TILE_T *acc) {
    int j = 0;
    for (; j + TILE_W <= n; j += TILE_W) TILE(dot)(mr, TILE_W, x, x_rs, x_cs, mat + j * lane_stride, lane_stride, kb, acc + j);
    if (j < n) TILE(dot)(mr, n - j, x, x_rs, x_cs, mat + j * lane_stride, lane_stride, kb, acc + j);
}

static void TILE(dot_block)(int r, const TILE_T *x, int64_t x_rs, int64_t x_cs, const TILE_T *mat, int64_t lane_stride, int n, int64_t kb,
                            TILE_T *acc) {
    switch (r) {
    case 1: TILE(dots)(1, x, x_rs, x_cs, mat, lane_stride, n, kb, acc); break;
    case 2: TILE(dots)(2, x, x_rs, x_cs, mat, lane_stride, n, kb, acc); break;
    case 3: TILE(dots)(3, x, x_rs, x_cs, mat, lane_stride, n, kb, acc); break;
    default: TILE(dots)(4, x, x_rs, x_cs, mat, lane_stride, n, kb, acc); break;
    }
}
