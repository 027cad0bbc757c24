/* loss.c - losses for AVX-512; so far the AVX2 kernels do all of it. */
#include "../kernel.h"

void gd_cross_entropy_avx512(const gd_args *a) { gd_cross_entropy_avx2(a); }
void gd_cross_entropy_bwd_avx512(const gd_args *a) { gd_cross_entropy_bwd_avx2(a); }
void gd_mse_loss_avx512(const gd_args *a) { gd_mse_loss_avx2(a); }
void gd_mse_loss_bwd_avx512(const gd_args *a) { gd_mse_loss_bwd_avx2(a); }
