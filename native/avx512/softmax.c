/* softmax.c - softmax for AVX-512; so far the AVX2 kernels do all of it. */
#include "../kernel.h"

void gd_softmax_avx512(const gd_args *a) { gd_softmax_avx2(a); }
void gd_log_softmax_avx512(const gd_args *a) { gd_log_softmax_avx2(a); }
void gd_softmax_bwd_avx512(const gd_args *a) { gd_softmax_bwd_avx2(a); }
void gd_log_softmax_bwd_avx512(const gd_args *a) { gd_log_softmax_bwd_avx2(a); }
