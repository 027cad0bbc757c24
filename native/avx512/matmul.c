/* matmul.c - matmul and linear with the AVX-512 matrix product; integers as with AVX2. */
#include "../portable/matmul_driver.h"

void gd_matmul_avx512(const gd_args *args) {
    const uint8_t dtype = args->out[0]->dtype;
    if (dtype == GD_FLOAT32 || dtype == GD_FLOAT64) matmul_float(args);
    else gd_matmul_avx2(args);
}

void gd_linear_avx512(const gd_args *args) {
    linear_float(args);
}
