/* attention_bwd.cu - gradients of attention. Scores of a tile are computed again from what forward left, the logsumexp. dq adds up
 * over the keys in a block of its own; dk and dv over heads and queries in another; dmask over what the mask was broadcast to in a
 * third: always in ascending order, so nothing is added atomically. */
#include "attention_tile.cuh"

/* delta = sum of g y per row: a warp for each. */
template <typename T> __global__ void __launch_bounds__(256, 2) attention_delta_kernel(const gd_att_job j, int64_t rows) {
    typedef gd_inside_t<T> I;
    const int lane = (int)threadIdx.x % GD_WARP;
    const int64_t row = (int64_t)blockIdx.x * (blockDim.x / GD_WARP) + threadIdx.x / GD_WARP;
    if (row >= rows) return;
    const int64_t t = row % j.rows, bh = row / j.rows, b = bh / j.heads, h = bh % j.heads;
    const T *g = gd_att_head<T>(j.g, b, h) + t * j.g.t, *y = gd_att_head<T>(j.y, b, h) + t * j.y.t;
    double sum = 0;
    for (int64_t c = lane; c < j.e; c += GD_WARP) sum = fma((double)gd_wide(g[c * j.g.d]), (double)gd_wide(y[c * j.y.d]), sum);
    sum = gd_warp_sum(sum);
    if (lane == 0) ((I *)j.delta)[row] = (I)sum;
}

/* Of rows t0 .. and keys s ..: the probabilities with dropout's factor, and the gradient of the scores after scale and mask, which is
 * exactly 0 where the probability is. Barriers inside. */
template <typename T, typename I>
GD_DEVICE void gd_att_slopes(const gd_att_job &j, int64_t b, int64_t h, int64_t t0, int64_t s, gd_shared_pointer<I> memory, I (&p)[gd_att_shape<I>::N][gd_att_shape<I>::N],
                             I (&ds)[gd_att_shape<I>::N][gd_att_shape<I>::N]) {
    typedef gd_att_shape<I> S;
    const int ty = (int)threadIdx.x / 16, tx = (int)threadIdx.x % 16;
    const T *q = gd_att_head<T>(j.q, b, h) + t0 * j.q.t, *g = gd_att_head<T>(j.g, b, h) + t0 * j.g.t;
    const T *k = gd_att_head<T>(j.k, b, h / j.group) + s * j.k.t, *v = gd_att_head<T>(j.v, b, h / j.group) + s * j.v.t;
    gd_att_clear(p);
    gd_att_clear(ds);
    gd_att_product<T, I>(q, j.q.t, j.q.d, j.rows - t0, k, j.k.t, j.k.d, j.keys - s, j.d, memory, p);
    gd_att_product<T, I>(g, j.g.t, j.g.d, j.rows - t0, v, j.v.t, j.v.d, j.keys - s, j.e, memory, ds);
GD_UNROLL
    for (int i = 0; i < S::N; i++) {
        const int64_t t = t0 + ty * S::N + i, row = (b * j.heads + h) * j.rows + (t < j.rows ? t : 0);
        const I lse = ((const I *)j.lse)[row], delta = ((const I *)j.delta)[row];
        uint32_t words[4];
        if (j.drops) gd_att_words(j, b, h, t, s + tx * S::N, words);
GD_UNROLL
        for (int c = 0; c < S::N; c++) {
            const I kept = !j.drops ? (I)1 : gd_att_keeps(j, words[(tx * S::N + c) % 4]) ? (I)j.keep_scale : (I)0;
            const I weight = gd_exp_of(gd_att_score<I>(j, b, h, t, s + tx * S::N + c, p[i][c]) - lse);
            ds[i][c] = weight == 0 ? (I)0 : weight * (kept * ds[i][c] - delta);
            p[i][c] = weight == 0 ? (I)0 : weight * kept;
        }
    }
}

/* Columns c0 .. of rows t0 .. of a gradient. */
template <typename T, typename I>
GD_DEVICE void gd_att_store(const gd_att_tensor &to, int64_t b, int64_t h, int64_t t0, int64_t rows, int64_t c0, int64_t columns,
                            const I (&x)[gd_att_shape<I>::N][gd_att_shape<I>::COLUMNS]) {
    typedef gd_att_shape<I> S;
    const int ty = (int)threadIdx.x / 16, tx = (int)threadIdx.x % 16;
    T *out = gd_att_head<T>(to, b, h);
GD_UNROLL
    for (int i = 0; i < S::N; i++)
GD_UNROLL
        for (int c = 0; c < S::COLUMNS; c++) {
            const int64_t t = t0 + ty * S::N + i, column = c0 + tx * S::COLUMNS + c;
            if (t < rows && column < columns) out[t * to.t + column * to.d] = gd_narrow<T>(x[i][c]);
        }
}

/* A block: a tile of queries of one head, a chunk of columns. */
template <typename T>
__global__ void __launch_bounds__(gd_att_shape<gd_inside_t<T>>::THREADS, 1) attention_dq_kernel(const gd_att_job j, int64_t row_blocks, int64_t chunks) {
    typedef gd_inside_t<T> I;
    typedef gd_att_shape<I> S;
    GD_SHARED(I, memory, S::OPERANDS);
    GD_SHARED(I, weights, S::TILE, S::PITCH); /* [key][row] */
    const int64_t chunk = (int64_t)blockIdx.x % chunks, bh = (int64_t)blockIdx.x / chunks % (j.batches * j.heads);
    const int64_t t0 = (row_blocks - 1 - (int64_t)blockIdx.x / chunks / (j.batches * j.heads)) * S::TILE, b = bh / j.heads, h = bh % j.heads;
    const int ty = (int)threadIdx.x / 16, tx = (int)threadIdx.x % 16;
    const T *k = gd_att_head<T>(j.k, b, h / j.group);
    I dq[S::N][S::COLUMNS], p[S::N][S::N], ds[S::N][S::N];
    int64_t s0, s1;
    gd_att_clear(dq);
    gd_att_key_range(j, t0, t0 + S::TILE < j.rows ? t0 + S::TILE : j.rows, S::TILE, &s0, &s1);
    for (int64_t s = s0; s < s1; s += S::TILE) {
        gd_att_slopes<T, I>(j, b, h, t0, s, memory, p, ds);
GD_UNROLL
        for (int i = 0; i < S::N; i++)
GD_UNROLL
            for (int c = 0; c < S::N; c++) weights[tx * S::N + c][ty * S::N + i] = ds[i][c] * (I)j.scale;
        gd_att_combine<T, I>(weights, k + s * j.k.t, j.k.t, j.k.d, j.keys - s, chunk * S::CHUNK, j.d, memory, dq);
    }
    gd_att_store<T, I>(j.dq, b, h, t0, j.rows, chunk * S::CHUNK, j.d, dq);
}

/* A block: a tile of keys of one of their heads, a chunk of columns of both. */
template <typename T>
__global__ void __launch_bounds__(gd_att_shape<gd_inside_t<T>>::THREADS, 1) attention_dkv_kernel(const gd_att_job j, int64_t chunks) {
    typedef gd_inside_t<T> I;
    typedef gd_att_shape<I> S;
    GD_SHARED(I, memory, S::OPERANDS);
    GD_SHARED(I, weights, S::TILE, S::PITCH); /* [row][key] */
    const int64_t heads = j.heads / j.group, chunk = (int64_t)blockIdx.x % chunks, bh = (int64_t)blockIdx.x / chunks % (j.batches * heads);
    const int64_t s = (int64_t)blockIdx.x / chunks / (j.batches * heads) * S::TILE, b = bh / heads, c0 = chunk * S::CHUNK;
    const int ty = (int)threadIdx.x / 16, tx = (int)threadIdx.x % 16;
    I dk[S::N][S::COLUMNS], dv[S::N][S::COLUMNS], p[S::N][S::N], ds[S::N][S::N];
    int64_t t0, t1;
    gd_att_clear(dk);
    gd_att_clear(dv);
    gd_att_row_range(j, s, s + S::TILE < j.keys ? s + S::TILE : j.keys, S::TILE, &t0, &t1);
    for (int64_t h = bh % heads * j.group; h < (bh % heads + 1) * j.group; h++) {
        const T *q = gd_att_head<T>(j.q, b, h), *g = gd_att_head<T>(j.g, b, h);
        for (int64_t t = t0; t < t1; t += S::TILE) {
            gd_att_slopes<T, I>(j, b, h, t, s, memory, p, ds);
            if (j.wanted & GD_ATT_DV && c0 < j.e) {
GD_UNROLL
                for (int i = 0; i < S::N; i++)
GD_UNROLL
                    for (int c = 0; c < S::N; c++) weights[ty * S::N + i][tx * S::N + c] = p[i][c];
                gd_att_combine<T, I>(weights, g + t * j.g.t, j.g.t, j.g.d, j.rows - t, c0, j.e, memory, dv);
                __syncthreads();
            }
            if (j.wanted & GD_ATT_DK && c0 < j.d) {
GD_UNROLL
                for (int i = 0; i < S::N; i++)
GD_UNROLL
                    for (int c = 0; c < S::N; c++) weights[ty * S::N + i][tx * S::N + c] = ds[i][c] * (I)j.scale;
                gd_att_combine<T, I>(weights, q + t * j.q.t, j.q.t, j.q.d, j.rows - t, c0, j.d, memory, dk);
            }
        }
    }
    if (j.wanted & GD_ATT_DV) gd_att_store<T, I>(j.dv, b, bh % heads, s, j.keys, c0, j.e, dv);
    if (j.wanted & GD_ATT_DK) gd_att_store<T, I>(j.dk, b, bh % heads, s, j.keys, c0, j.d, dk);
}

/* A block: a tile of the mask, or, where it has one row or one key, what that was broadcast to. */
template <typename T, typename M>
__global__ void __launch_bounds__(gd_att_shape<gd_inside_t<T>>::THREADS, 1) attention_dmask_kernel(const gd_att_job j, gd_place mask, M *dmask, int64_t row_tiles, int64_t key_tiles) {
    typedef gd_inside_t<T> I;
    typedef gd_att_shape<I> S;
    GD_SHARED(I, memory, S::OPERANDS);
    GD_SHARED(I, tile, S::TILE, S::PITCH);
    const int64_t key_tile = (int64_t)blockIdx.x % key_tiles, row_tile = (int64_t)blockIdx.x / key_tiles % row_tiles, mbh = (int64_t)blockIdx.x / key_tiles / row_tiles;
    const int64_t mb = mbh / mask.shape[1], mh = mbh % mask.shape[1];
    const bool all_b = mask.shape[0] == 1, all_h = mask.shape[1] == 1, all_t = mask.shape[2] == 1, all_s = mask.shape[3] == 1;
    const int ty = (int)threadIdx.x / 16, tx = (int)threadIdx.x % 16, thread = (int)threadIdx.x;
    I sum[S::N][S::N], p[S::N][S::N], ds[S::N][S::N];
    gd_att_clear(sum);
    for (int64_t b = all_b ? 0 : mb; b < (all_b ? j.batches : mb + 1); b++)
        for (int64_t h = all_h ? 0 : mh; h < (all_h ? j.heads : mh + 1); h++)
            for (int64_t t = all_t ? 0 : row_tile * S::TILE; t < (all_t ? j.rows : (row_tile + 1) * S::TILE); t += S::TILE)
                for (int64_t s = all_s ? 0 : key_tile * S::TILE; s < (all_s ? j.keys : (key_tile + 1) * S::TILE); s += S::TILE) {
                    gd_att_slopes<T, I>(j, b, h, t, s, memory, p, ds);
GD_UNROLL
                    for (int i = 0; i < S::N; i++)
GD_UNROLL
                        for (int c = 0; c < S::N; c++) sum[i][c] += ds[i][c];
                }
    __syncthreads();
GD_UNROLL
    for (int i = 0; i < S::N; i++)
GD_UNROLL
        for (int c = 0; c < S::N; c++) tile[ty * S::N + i][tx * S::N + c] = sum[i][c];
    __syncthreads();
    const int rows = all_t ? 1 : S::TILE, keys = all_s ? 1 : S::TILE;
    for (int i = thread; i < rows * keys; i += S::THREADS) { /* what a row or a key stands for is added up in order */
        const int row = i / keys, key = i % keys;
        const int64_t t = all_t ? 0 : row_tile * S::TILE + row, s = all_s ? 0 : key_tile * S::TILE + key;
        if (t >= mask.shape[2] || s >= mask.shape[3]) continue;
        I x = (I)0;
        for (int a = 0; a < (all_t ? S::TILE : 1); a++)
            for (int c = 0; c < (all_s ? S::TILE : 1); c++) x += (I)tile[row + a][key + c];
        dmask[((mb * mask.shape[1] + mh) * mask.shape[2] + t) * mask.shape[3] + s] = gd_narrow<M>(x);
    }
}

/* (g, q, k, v, mask?, y, logsumexp) -> dq, dk, dv, dmask */
GD_CUDA_KERNEL(attention_bwd) {
    const gd_att_job j = gd_att_job_of(a, true);
    const int64_t rows = j.batches * j.heads * j.rows;
    GD_DISPATCH_FLOATS(a->in[1]->dtype, T, {
        typedef gd_att_shape<gd_inside_t<T>> S;
        const int64_t chunks_d = j.d ? gd_blocks(j.d, S::CHUNK) : 1, chunks_e = j.e ? gd_blocks(j.e, S::CHUNK) : 1, chunks = chunks_d > chunks_e ? chunks_d : chunks_e;
        const int64_t row_blocks = gd_blocks(j.rows, S::TILE), key_blocks = gd_blocks(j.keys, S::TILE), key_heads = j.batches * (j.heads / j.group);
        GD_LAUNCH(attention_delta_kernel<T>, gd_blocks(rows, 256 / GD_WARP), 256, 0, a->stream, j, rows);
        if (j.wanted & GD_ATT_DQ) GD_LAUNCH(attention_dq_kernel<T>, row_blocks * chunks_d * j.batches * j.heads, S::THREADS, 0, a->stream, j, row_blocks, chunks_d);
        if (j.wanted & (GD_ATT_DK | GD_ATT_DV)) GD_LAUNCH(attention_dkv_kernel<T>, key_blocks * chunks * key_heads, S::THREADS, 0, a->stream, j, chunks);
        if (j.wanted & GD_ATT_DMASK) {
            const gd_view *mask = a->in[4];
            const int64_t row_tiles = mask->shape[2] == 1 ? 1 : row_blocks, key_tiles = mask->shape[3] == 1 ? 1 : key_blocks;
            GD_DISPATCH_FLOATS(mask->dtype, M, {
                GD_LAUNCH((attention_dmask_kernel<T, M>), mask->shape[0] * mask->shape[1] * row_tiles * key_tiles, S::THREADS, 0, a->stream, j, gd_place_of(mask),
                          (M *)a->out[3]->data, row_tiles, key_tiles);
            });
        }
    });
}
GD_CUDA_WORKSPACE(attention_bwd) {
    const gd_view *q = a->in[1];
    return q->shape[0] * q->shape[1] * q->shape[2] * (q->dtype == GD_FLOAT64 ? 8 : 4);
}
