/* gemm.h - matrix product as other kernel families use it (linear, matmul, lstm).
 * One canonical order for every element of C, on every path, size and thread count:
 *   c = init;  for each block of GD_GEMM_KC along k, ascending:  c += sum of a*b over the block,
 * where the block sum starts at 0 and runs over ascending k with fused multiply-adds (where the
 * ISA has them), and init is C itself (accumulate), the bias, or 0 (then c = first block sum).
 * So a row computed alone has the same bits as in a batch. */
#ifndef GRADINO_GEMM_H
#define GRADINO_GEMM_H

#include "kernel.h"

enum { GD_GEMM_KC = 512 };

/* C (m x n) = init + A (m x k) B (k x n). Strides in elements; any strides for A and B
 * (transposed operands are strides), C has unit column stride. */
typedef struct gd_gemm_args {
    int64_t m, n, k;
    const void *a;
    int64_t a_rs, a_cs;
    const void *b;
    int64_t b_rs, b_cs;
    void *c;
    int64_t c_rs;
    const void *bias; /* n values or NULL; not together with accumulate */
    bool accumulate;
    uint8_t dtype; /* GD_FLOAT32 or GD_FLOAT64; bfloat16 and float16 come as float32, see half.c */
} gd_gemm_args;

/* Bytes at the start of linear's workspace for a bias that does not lie side by side. */
static inline int64_t gd_linear_bias_bytes(const gd_view *bias) {
    if (!bias || bias->strides[3] == 1 || bias->shape[3] == 1) return 0;
    return (bias->shape[3] * gd_dtype_bytes(bias->dtype) + GD_ALIGN - 1) & -(int64_t)GD_ALIGN;
}

#pragma GCC visibility push(hidden)
/* Bytes of workspace gd_gemm needs for this product, on any ISA; depends on gd_parallel_width(). */
int64_t gd_gemm_workspace(int64_t m, int64_t n, int64_t k, int dtype);
/* Bytes of B packed for gd_gemm_packed, on any ISA. */
int64_t gd_gemm_packed_bytes(int64_t k, int64_t n, int dtype);

#define GD_DECLARE_GEMM(isa)                                                                                        \
    /* The product; threaded over fixed tiles of C. */                                                              \
    void gd_gemm_##isa(const gd_gemm_args *g, void *workspace);                                                     \
    /* Packs B once, for many products with the same B (recurrent weights). */                                      \
    void gd_gemm_pack_##isa(int dtype, int64_t k, int64_t n, const void *b, int64_t b_rs, int64_t b_cs, void *dst); \
    /* The product with packed B: single-threaded, no workspace; g->b is ignored. */                                \
    void gd_gemm_packed_##isa(const gd_gemm_args *g, const void *packed);                                           \
    /* The same with the g->k rows from `first` on of a B that was packed with k <= GD_GEMM_KC of them. */           \
    void gd_gemm_packed_rows_##isa(const gd_gemm_args *g, const void *packed, int64_t k, int64_t first);
GD_DECLARE_GEMM(portable)
#if GD_X86
GD_DECLARE_GEMM(avx2)
GD_DECLARE_GEMM(avx512)
#endif
#pragma GCC visibility pop
#endif
