/* bf16.h - matmul and linear on bfloat16 with the processor's dot products of pairs (AVX512_BF16).
 * One canonical order for every element, on every path, size and thread count, as in gemm.h:
 *   c = init;  for each block of GD_GEMM_KC along k, ascending:  c += sum over the block's pairs of a*b,
 * where a block's sum starts at 0 and each instruction adds a pair to it, all in float32; init is C, the bias or 0,
 * widened. One rounding to bfloat16 at the end. The instruction takes denormals for 0 and makes none. */
#ifndef GRADINO_BF16_H
#define GRADINO_BF16_H

#include "kernel.h"

#if GD_X86
#pragma GCC visibility push(hidden)
gd_kernel gd_matmul_avx512bf16, gd_linear_avx512bf16;
/* Bytes of workspace of these; data of the views is not looked at. */
int64_t gd_matmul_bytes_avx512bf16(const gd_args *a);
int64_t gd_linear_bytes_avx512bf16(const gd_args *a);
#pragma GCC visibility pop
#endif

#endif
