/* optim.c - SGD and Adam for AVX-512; so far the AVX2 kernels do all of it. */
#include "../kernel.h"

void gd_sgd_avx512(const gd_optim_args *a) { gd_sgd_avx2(a); }
void gd_adam_avx512(const gd_optim_args *a) { gd_adam_avx2(a); }
