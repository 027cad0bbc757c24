/* rnn.c - memory the recurrent kernels need, the same on every ISA. */
#include "rnn.h"

#include "gemm.h"
#include "thread.h"

static inline int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* The next place of a workspace, after that many more bytes. */
static int64_t take(int64_t *total, int64_t bytes) {
    const int64_t at = *total;
    *total += ceil_div(bytes, GD_ALIGN) * GD_ALIGN;
    return at;
}

/* Rows of a task: enough tasks for all threads, then the more rows share weights the better. Weights that stay in
 * L2 are read fast enough for two register tiles, and more tasks even out threads of different speed; others come
 * from memory for every task and step. A row has the same bits in any task, so this may depend on the threads. */
enum { WEIGHTS_IN_L2 = 512 << 10 };
static int64_t rows_of(int64_t B, int64_t weight_bytes) {
    const int64_t most = weight_bytes <= WEIGHTS_IN_L2 ? 2 * GD_RNN_ROWS : GD_RNN_MOST_ROWS;
    const int64_t rows = ceil_div(ceil_div(B, gd_parallel_width()), GD_RNN_ROWS) * GD_RNN_ROWS;
    return rows < GD_RNN_ROWS ? GD_RNN_ROWS : rows > most ? most : rows;
}

gd_lstm_layout gd_lstm_layout_of(int64_t B, int64_t I, int64_t H, int dtype) {
    const int64_t esize = gd_dtype_bytes(dtype), blocks = ceil_div(H, GD_RNN_UNITS), longest = I > H ? I : H;
    gd_lstm_layout q = {.rows = rows_of(B, 4 * H * (I + H) * esize)};
    q.ih_bytes = ceil_div(gd_gemm_packed_bytes(I, GD_RNN_GATES, dtype), GD_ALIGN) * GD_ALIGN;
    q.hh_bytes = ceil_div(gd_gemm_packed_bytes(H, GD_RNN_GATES, dtype), GD_ALIGN) * GD_ALIGN;
    q.bias = take(&q.total, 4 * H * esize);
    q.w_ih = take(&q.total, blocks * q.ih_bytes);
    q.w_hh = take(&q.total, blocks * q.hh_bytes);
    q.h0 = take(&q.total, B * H * esize);
    q.c0 = take(&q.total, B * H * esize);
    q.worker_bytes = GD_RNN_GATES * (q.rows > longest ? q.rows : longest) * esize;
    q.workers = take(&q.total, gd_parallel_width() * q.worker_bytes);
    return q;
}

gd_lstm_bwd_layout gd_lstm_bwd_layout_of(int64_t B, int64_t H, int dtype) {
    const int64_t esize = gd_dtype_bytes(dtype);
    gd_lstm_bwd_layout q = {.rows = rows_of(B, 4 * H * H * esize)};
    q.hh_bytes = ceil_div(gd_gemm_packed_bytes(4 * H, GD_RNN_COLUMNS, dtype), GD_ALIGN) * GD_ALIGN;
    q.w_hh = take(&q.total, ceil_div(H, GD_RNN_COLUMNS) * q.hh_bytes);
    q.zeros = take(&q.total, H * esize);
    q.worker_bytes = ceil_div(4 * q.rows * H * esize, GD_ALIGN) * GD_ALIGN;
    q.workers = take(&q.total, gd_parallel_width() * q.worker_bytes);
    return q;
}
