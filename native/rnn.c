/* rnn.c - memory the recurrent kernels need, the same on every ISA. */
#include "rnn.h"

#include "gemm.h"
#include "thread.h"

int64_t gd_lstm_workspace(int64_t T, int64_t B, int64_t I, int64_t H, int dtype) {
    (void)T, (void)B;
    return gd_rnn_align(4 * H * gd_dtype_bytes(dtype)) + gd_rnn_align(gd_gemm_packed_bytes(I, 4 * H, dtype)) +
           gd_rnn_align(gd_gemm_packed_bytes(H, 4 * H, dtype)) + gd_parallel_width() * gd_lstm_state_bytes(H, dtype);
}

int64_t gd_lstm_bwd_workspace(int64_t T, int64_t B, int64_t I, int64_t H, int dtype) {
    (void)T, (void)B, (void)I;
    return gd_rnn_align(gd_gemm_packed_bytes(4 * H, H, dtype)) + gd_parallel_width() * gd_lstm_bwd_state_bytes(H, dtype);
}
