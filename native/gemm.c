/* gemm.c - memory the matrix product needs, the same on every ISA. */
#include "gemm.h"

#include "gemm_blocks.h"
#include "thread.h"

int64_t gd_gemm_workspace(int64_t m, int64_t n, int64_t k, int dtype) {
    int64_t esize = gd_dtype_bytes(dtype), workers = gd_parallel_width();
    if (m == 0 || n == 0 || k == 0) return 0;
    int64_t bytes = workers * gemm_panel_bytes(k);
    if (!gemm_is_large(m, n, k)) return bytes;
    if (m > GEMM_SHARED_ROWS) bytes += gemm_block_b_bytes(n, k, esize);
    return bytes + workers * gemm_block_a_bytes(k, esize);
}

int64_t gd_gemm_packed_bytes(int64_t k, int64_t n, int dtype) {
    return gemm_ceil(n * gd_dtype_bytes(dtype), GEMM_PANEL) * GEMM_PANEL * k;
}
