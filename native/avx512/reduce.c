/* reduce.c - reductions for AVX-512; so far the AVX2 kernels do all of it. */
#include "../kernel.h"

void gd_sum_avx512(const gd_args *a) { gd_sum_avx2(a); }
void gd_mean_avx512(const gd_args *a) { gd_mean_avx2(a); }
void gd_amax_avx512(const gd_args *a) { gd_amax_avx2(a); }
void gd_amin_avx512(const gd_args *a) { gd_amin_avx2(a); }
