/* conv_tile.h - the register tiles of convolutions: template, included once per vector type.
 * The includer defines TILE(name), TILE_T element, TILE_V vector, TILE_W lanes, and besides what gemm_vector.h has
 * TILE(mask_t), TILE(mask)(n, rows, fold), and TILE(gather)(p, step, mask, fold), TILE(scatter)(p, step, v, mask, fold): a
 * vector of `fold` rows of TILE_W / fold points each, `step` elements apart, the first n points of the first `rows`.
 * gather may read past the last point, of a copied tile, gather_own may not.
 * Operands stand in conv_driver.h. */

/* mr results x nv units of points: y = init + sum over channels and taps of w x. All but t are constants. */
static inline __attribute__((always_inline)) void TILE(product)(const int mr, const int nv, const int fold, const conv_tile *t) {
    const TILE_T *w = t->w, *x[CONV_MOST_UNITS];
    const int64_t *const x_off = t->x_off, *const w_off = t->w_off, taps = t->taps, step = t->x_step;
    TILE(mask_t) mask[CONV_MOST_UNITS];
    TILE_V acc[CONV_MR][CONV_MOST_UNITS], vx[CONV_MOST_UNITS];
    GEMM_UNROLL for (int v = 0; v < nv; v++) {
        x[v] = (const TILE_T *)t->x + t->unit[v].x;
        mask[v] = TILE(mask)(t->unit[v].n, t->unit[v].rows, fold);
    }
    GEMM_UNROLL for (int i = 0; i < mr; i++) {
        GEMM_UNROLL for (int v = 0; v < nv; v++) acc[i][v] = TILE(set1)(0);
    }
    for (int64_t c = t->channels; c > 0; c--, w += t->w_plane) {
        for (int64_t k = 0; k < taps; k++) {
            const TILE_T *wk = w + w_off[k];
            GEMM_UNROLL for (int v = 0; v < nv; v++) vx[v] = TILE(gather)(x[v] + x_off[k], step, mask[v], fold);
            GEMM_UNROLL for (int i = 0; i < mr; i++) {
                TILE_V vw = TILE(set1)(wk[i]);
                GEMM_UNROLL for (int v = 0; v < nv; v++) acc[i][v] = TILE(fma)(vw, vx[v], acc[i][v]);
            }
        }
        GEMM_UNROLL for (int v = 0; v < nv; v++) x[v] += t->x_plane;
    }
    const TILE_T *init = t->init;
    TILE_T *y = t->y;
    GEMM_UNROLL for (int i = 0; i < mr; i++, y += t->y_plane) {
        GEMM_UNROLL for (int v = 0; v < nv; v++) {
            TILE_T *to = y + t->unit[v].y;
            TILE_V sum = acc[i][v];
            if (init) sum = TILE(add)(TILE(set1)(init[i]), sum);
            else if (t->accumulate) sum = TILE(add)(TILE(gather_own)(to, t->y_step, mask[v], fold), sum);
            TILE(scatter)(to, t->y_step, sum, mask[v], fold);
        }
    }
}

/* mr taps of channels x nv vectors of results: sum (mr x lanes) += sum over points of x g; g is packed, lanes side by side. */
static inline __attribute__((always_inline)) void TILE(sums)(const int mr, const int nv, const conv_sums *t) {
    const TILE_T *g = t->g, *image = t->x;
    TILE_V acc[CONV_SUM_MR][2], vg[2];
    GEMM_UNROLL for (int i = 0; i < mr; i++) {
        GEMM_UNROLL for (int v = 0; v < nv; v++) acc[i][v] = TILE(set1)(0);
    }
    for (int64_t n = 0; n < t->images; n++, image += t->x_image) {
        const TILE_T *row = image;
        for (int64_t r = 0; r < t->rows; r++, row += t->x_row) {
            const TILE_T *x[CONV_SUM_MR];
            GEMM_UNROLL for (int i = 0; i < mr; i++) x[i] = row + t->x_off[i];
            for (int64_t q = 0; q < t->columns; q++, g += nv * TILE_W) {
                GEMM_UNROLL for (int v = 0; v < nv; v++) vg[v] = TILE(load_b)(g + v * TILE_W, TILE_W);
                GEMM_UNROLL for (int i = 0; i < mr; i++) {
                    TILE_V vx = TILE(set1)(x[i][q]);
                    GEMM_UNROLL for (int v = 0; v < nv; v++) acc[i][v] = TILE(fma)(vx, vg[v], acc[i][v]);
                }
            }
        }
    }
    TILE_T *sum = t->sum;
    GEMM_UNROLL for (int i = 0; i < mr; i++, sum += t->lanes) {
        GEMM_UNROLL for (int v = 0; v < nv; v++) {
            TILE_T *to = sum + v * TILE_W;
            if (t->accumulate) acc[i][v] = TILE(add)(TILE(load_b)(to, TILE_W), acc[i][v]);
            TILE(store)(to, acc[i][v], TILE_W);
        }
    }
}

/* mr taps of channels: sum[i] += sum over points of x g, lane by lane of a vector, then the lanes by halves. */
static inline __attribute__((always_inline)) void TILE(dots)(const int mr, const conv_sums *t) {
    const TILE_T *g = t->g, *image = t->x;
    TILE_V acc[CONV_SUM_MR];
    GEMM_UNROLL for (int i = 0; i < mr; i++) acc[i] = TILE(set1)(0);
    for (int64_t n = 0; n < t->images; n++, image += t->x_image) {
        const TILE_T *row = image;
        for (int64_t r = 0; r < t->rows; r++, row += t->x_row, g += t->columns) {
            for (int64_t q = 0; q < t->columns; q += TILE_W) {
                const int count = t->columns - q < TILE_W ? (int)(t->columns - q) : TILE_W;
                const TILE_V vg = TILE(load)(g + q, count);
                GEMM_UNROLL for (int i = 0; i < mr; i++) acc[i] = TILE(fma)(TILE(load)(row + t->x_off[i] + q, count), vg, acc[i]);
            }
        }
    }
    TILE_T *sum = t->sum;
    GEMM_UNROLL for (int i = 0; i < mr; i++, sum += t->lanes) {
        TILE_T lane[TILE_W];
        TILE(store)(lane, acc[i], TILE_W);
        for (int half = TILE_W / 2; half > 0; half /= 2)
            for (int l = 0; l < half; l++) lane[l] += lane[l + half];
        *sum = t->accumulate ? *sum + lane[0] : lane[0];
    }
}
