/* attention.cu - scaled dot product attention: one pass over the keys with an online softmax, never a matrix of all scores.
 * A block has a tile of queries of one head and a chunk of columns of the result, and goes through the keys. */
#include "attention_tile.cuh"

template <typename T>
__global__ void __launch_bounds__(gd_att_shape<gd_inside_t<T>>::THREADS, 1) attention_kernel(const gd_att_job j, int64_t row_blocks, int64_t chunks) {
    typedef gd_inside_t<T> I;
    typedef gd_att_shape<I> S;
    GD_SHARED(I, memory, S::OPERANDS);
    GD_SHARED(I, weights, S::TILE, S::PITCH); /* [key][row] */
    /* blocks of the last rows, which a causal mask gives most keys, begin first */
    const int64_t chunk = (int64_t)blockIdx.x % chunks, bh = (int64_t)blockIdx.x / chunks % (j.batches * j.heads);
    const int64_t t0 = (row_blocks - 1 - (int64_t)blockIdx.x / chunks / (j.batches * j.heads)) * S::TILE, b = bh / j.heads, h = bh % j.heads;
    const int ty = (int)threadIdx.x / 16, tx = (int)threadIdx.x % 16;
    const T *q = gd_att_head<T>(j.q, b, h) + t0 * j.q.t, *k = gd_att_head<T>(j.k, b, h / j.group), *v = gd_att_head<T>(j.v, b, h / j.group);
    I most[S::N], sum[S::N], out[S::N][S::COLUMNS];
    int64_t s0, s1;
    gd_att_clear(out);
GD_UNROLL
    for (int i = 0; i < S::N; i++) most[i] = -(I)INFINITY, sum[i] = (I)0;
    gd_att_key_range(j, t0, t0 + S::TILE < j.rows ? t0 + S::TILE : j.rows, S::TILE, &s0, &s1);
    for (int64_t s = s0; s < s1; s += S::TILE) {
        I score[S::N][S::N];
        gd_att_clear(score);
        gd_att_product<T, I>(q, j.q.t, j.q.d, j.rows - t0, k + s * j.k.t, j.k.t, j.k.d, j.keys - s, j.d, memory, score);
GD_UNROLL
        for (int i = 0; i < S::N; i++) {
            const int64_t t = t0 + ty * S::N + i;
            I top = most[i], part = (I)0;
GD_UNROLL
            for (int c = 0; c < S::N; c++) {
                score[i][c] = gd_att_score<I>(j, b, h, t, s + tx * S::N + c, score[i][c]);
                top = score[i][c] > top ? score[i][c] : top;
            }
GD_UNROLL
            for (int step = 8; step > 0; step /= 2) {
                const I other = __shfl_xor_sync(GD_ALL_LANES, top, step);
                top = other > top ? other : top;
            }
            const I from = top == -(I)INFINITY ? (I)0 : top, correction = gd_exp_of(most[i] - from);
GD_UNROLL
            for (int c = 0; c < S::N; c++) {
                score[i][c] = gd_exp_of(score[i][c] - from);
                part += score[i][c];
            }
GD_UNROLL
            for (int step = 8; step > 0; step /= 2) part += __shfl_xor_sync(GD_ALL_LANES, part, step);
            sum[i] = fma(sum[i], correction, part);
            most[i] = top;
GD_UNROLL
            for (int c = 0; c < S::COLUMNS; c++) out[i][c] *= correction;
            if (j.drops) {
                uint32_t words[4];
                gd_att_words(j, b, h, t, s + tx * S::N, words);
GD_UNROLL
                for (int c = 0; c < S::N; c++) score[i][c] = gd_att_keeps(j, words[(tx * S::N + c) % 4]) ? score[i][c] * (I)j.keep_scale : (I)0;
            }
GD_UNROLL
            for (int c = 0; c < S::N; c++) weights[tx * S::N + c][ty * S::N + i] = score[i][c];
        }
        gd_att_combine<T, I>(weights, v + s * j.v.t, j.v.t, j.v.d, j.keys - s, chunk * S::CHUNK, j.e, memory, out);
    }
    T *y = gd_att_head<T>(j.y, b, h);
GD_UNROLL
    for (int i = 0; i < S::N; i++) {
        const int64_t t = t0 + ty * S::N + i;
        if (t >= j.rows) continue;
        const bool dead = sum[i] == (I)0; /* nothing to attend to: the result is 0, and in backward so is each probability */
GD_UNROLL
        for (int c = 0; c < S::COLUMNS; c++) {
            const int64_t column = chunk * S::CHUNK + tx * S::COLUMNS + c;
            if (column < j.e) y[t * j.y.t + column * j.y.d] = gd_narrow<T>(dead ? (I)0 : out[i][c] / sum[i]);
        }
        if (chunk == 0 && tx == 0) ((I *)j.lse)[bh * j.rows + t] = dead ? (I)INFINITY : most[i] + gd_log_of(sum[i]);
    }
}

/* (q (B,H,T,D), k (B,Hk,S,D), v (B,Hk,S,E), mask?) -> y (B,H,T,E), logsumexp (B,H,T) */
GD_CUDA_KERNEL(attention) {
    const gd_att_job j = gd_att_job_of(a, false);
    const int dtype = a->out[0]->dtype;
    if (j.batches * j.heads * j.rows == 0) return;
    GD_DISPATCH_FLOATS(dtype, T, {
        typedef gd_att_shape<gd_inside_t<T>> S;
        const int64_t row_blocks = gd_blocks(j.rows, S::TILE), chunks = j.e ? gd_blocks(j.e, S::CHUNK) : 1;
        GD_LAUNCH(attention_kernel<T>, row_blocks * chunks * j.batches * j.heads, S::THREADS, 0, a->stream, j, row_blocks, chunks);
    });
}
