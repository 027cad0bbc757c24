/* attention_tile.cuh - blocks of attention without tensor cores: 16 x 16 threads hold a tile of rows x keys, N x N elements each.
 * Sizes of heads are any: sums over them run in strips, results are made in chunks of columns. */
#ifndef GRADINO_CUDA_ATTENTION_TILE_CUH
#define GRADINO_CUDA_ATTENTION_TILE_CUH

#include "attention.cuh"

/* I: the type computed in. */
template <typename I> struct gd_att_shape {
    enum { N = sizeof(I) == 8 ? 2 : 4, TILE = 16 * N, PITCH = TILE + 4, STRIP = 32, CHUNK = 64, COLUMNS = CHUNK / 16, CHUNK_PITCH = CHUNK + 4, THREADS = 256,
           /* elements of the shared memory in which operands lie: two strips, or rows x a chunk */
           OPERANDS = 2 * STRIP * PITCH > TILE * CHUNK_PITCH ? 2 * STRIP * PITCH : TILE * CHUNK_PITCH };
};

/* acc[i][k] += sum over columns of a[row i of this thread] b[row k]: a and b have TILE rows, of which some exist. Barriers inside. */
template <typename T, typename I>
GD_DEVICE void gd_att_product(const T *a, int64_t a_row, int64_t a_col, int64_t a_rows, const T *b, int64_t b_row, int64_t b_col, int64_t b_rows, int64_t columns,
                              gd_shared_pointer<I> memory, I (&acc)[gd_att_shape<I>::N][gd_att_shape<I>::N]) {
    typedef gd_att_shape<I> S;
    const int t = (int)threadIdx.x, ty = t / 16, tx = t % 16;
    for (int64_t c0 = 0; c0 < columns; c0 += S::STRIP) {
        __syncthreads();
        for (int i = t; i < S::TILE * S::STRIP; i += S::THREADS) {
            const int row = i / S::STRIP, c = i % S::STRIP;
            const bool inside = c0 + c < columns;
            memory[c * S::PITCH + row] = inside && row < a_rows ? (I)gd_wide(a[row * a_row + (c0 + c) * a_col]) : (I)0;
            memory[(S::STRIP + c) * S::PITCH + row] = inside && row < b_rows ? (I)gd_wide(b[row * b_row + (c0 + c) * b_col]) : (I)0;
        }
        __syncthreads();
        for (int c = 0; c < S::STRIP; c++) {
            I x[S::N], y[S::N];
GD_UNROLL
            for (int i = 0; i < S::N; i++) x[i] = memory[c * S::PITCH + ty * S::N + i], y[i] = memory[(S::STRIP + c) * S::PITCH + tx * S::N + i];
GD_UNROLL
            for (int i = 0; i < S::N; i++)
GD_UNROLL
                for (int k = 0; k < S::N; k++) acc[i][k] = fma(x[i], y[k], acc[i][k]);
        }
    }
}

/* acc[i][c] += sum over the TILE lines of weights[line][row i of this thread] x[line][c0 + column c of this thread]. Barriers inside:
 * the first one also makes the weights seen. */
template <typename T, typename I, typename W>
GD_DEVICE void gd_att_combine(const W &weights, const T *x, int64_t x_row, int64_t x_col, int64_t lines, int64_t c0, int64_t columns, gd_shared_pointer<I> memory,
                              I (&acc)[gd_att_shape<I>::N][gd_att_shape<I>::COLUMNS]) {
    typedef gd_att_shape<I> S;
    const int t = (int)threadIdx.x, ty = t / 16, tx = t % 16;
    __syncthreads();
    for (int i = t; i < S::TILE * S::CHUNK; i += S::THREADS) {
        const int line = i / S::CHUNK, c = i % S::CHUNK;
        memory[line * S::CHUNK_PITCH + c] = line < lines && c0 + c < columns ? (I)gd_wide(x[line * x_row + (c0 + c) * x_col]) : (I)0;
    }
    __syncthreads();
    for (int line = 0; line < S::TILE; line++) {
        I w[S::N], y[S::COLUMNS];
GD_UNROLL
        for (int i = 0; i < S::N; i++) w[i] = weights[line][ty * S::N + i];
GD_UNROLL
        for (int c = 0; c < S::COLUMNS; c++) y[c] = memory[line * S::CHUNK_PITCH + tx * S::COLUMNS + c];
GD_UNROLL
        for (int i = 0; i < S::N; i++)
GD_UNROLL
            for (int c = 0; c < S::COLUMNS; c++) acc[i][c] = fma(w[i], y[c], acc[i][c]);
    }
}

template <typename I, int A, int B> GD_DEVICE void gd_att_clear(I (&acc)[A][B]) {
GD_UNROLL
    for (int i = 0; i < A; i++)
GD_UNROLL
        for (int k = 0; k < B; k++) acc[i][k] = (I)0;
}

#endif
