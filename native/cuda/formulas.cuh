/* formulas.cuh - functions of one name for float and double, where their formulas have two. */
#ifndef GRADINO_CUDA_FORMULAS_CUH
#define GRADINO_CUDA_FORMULAS_CUH

#include "device.cuh"

#include "../scalar.h"

#define GD_FORMULA(name, f32, f64)                              \
    GD_DEVICE float name(float x) { return f32; }               \
    GD_DEVICE double name(double x) { return f64; }
GD_FORMULA(gd_size_of, fabsf(x), fabs(x))
GD_FORMULA(gd_root_of, sqrtf(x), sqrt(x))
GD_FORMULA(gd_exp_of, expf(x), exp(x))
GD_FORMULA(gd_log_of, gd_log_f32(x), log(x))
GD_FORMULA(gd_log1p_of, gd_log1p_f32(x), log1p(x))
GD_FORMULA(gd_tanh_of, gd_tanh_f32(x), tanh(x))
GD_FORMULA(gd_sigmoid_of, gd_sigmoid_f32(x), gd_sigmoid_f64(x))
GD_FORMULA(gd_log_sigmoid_of, gd_log_sigmoid_f32(x), gd_log_sigmoid_f64(x))
#undef GD_FORMULA

/* a b + c, rounded once. */
GD_DEVICE float gd_fused(float a, float b, float c) { return fmaf(a, b, c); }
GD_DEVICE double gd_fused(double a, double b, double c) { return fma(a, b, c); }

#endif
