/* rnn.h - workspace of the recurrent kernels, for their shape rules; bytes, the same on every ISA. */
#ifndef GRADINO_RNN_H
#define GRADINO_RNN_H

#include "kernel.h"

/* Rows of a batch that one task takes through all steps: a register tile of the AVX-512 product.
 * More rows would reuse the weights more but leave fewer tasks for small batches. */
enum { GD_RNN_ROWS = 8 };

#pragma GCC visibility push(hidden)
/* T steps, B rows, I inputs, H hidden units; depends on gd_parallel_width(). */
int64_t gd_lstm_workspace(int64_t T, int64_t B, int64_t I, int64_t H, int dtype);
int64_t gd_lstm_bwd_workspace(int64_t T, int64_t B, int64_t I, int64_t H, int dtype);
#pragma GCC visibility pop

static inline int64_t gd_rnn_align(int64_t bytes) {
    return (bytes + GD_ALIGN - 1) / GD_ALIGN * GD_ALIGN;
}

/* What a worker keeps of its rows: h and c; or dh, dc, c0 and one row of dy. */
static inline int64_t gd_lstm_state_bytes(int64_t H, int dtype) {
    return gd_rnn_align(2 * GD_RNN_ROWS * H * gd_dtype_bytes(dtype));
}
static inline int64_t gd_lstm_bwd_state_bytes(int64_t H, int dtype) {
    return gd_rnn_align((3 * GD_RNN_ROWS + 1) * H * gd_dtype_bytes(dtype));
}

#endif
