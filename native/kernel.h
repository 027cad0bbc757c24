/* kernel.h - what a kernel sees: views in, views out, attributes, workspace.
 * A kernel is pure: it cannot fail, allocate, lock, print or keep state. Shape rules run before it. */
#ifndef GRADINO_KERNEL_H
#define GRADINO_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gradino.h"

#if defined(__x86_64__) && !defined(GD_NO_X86)
#define GD_X86 1
#else
#define GD_X86 0
#endif

enum { GD_DIMS = 4, GD_MAX_OUT = 6, GD_ALIGN = 64 };
#ifdef __cplusplus
static_assert(GD_DIMS == 4, "kernels unroll four dimensions");
#else
_Static_assert(GD_DIMS == 4, "kernels unroll four dimensions");
#endif

/* A tensor as kernels see it: always four dimensions, missing leading ones are 1.
 * Strides are in elements; stride 0 broadcasts. `rank` is what the user sees. */
typedef struct gd_view {
    void *data;
    int64_t shape[4];
    int64_t strides[4];
    uint8_t dtype; /* gd_dtype */
    uint8_t rank;  /* 0..4 */
    uint8_t device; /* 0: the CPU, else 1 + the number of the CUDA device whose address `data` is */
} gd_view;

/* Inputs may be NULL where the op allows an absent one. Outputs are contiguous, except for the
 * elementwise family (unary, binary, where, clamp, cast, copy, fill), which writes any strides.
 * An output of an elementwise op may be exactly one of its inputs. Sizes may be 0. */
typedef struct gd_args {
    const gd_view *const *in;
    gd_view *const *out;
    const gd_attr *attr;
    void *workspace; /* the bytes the shape rule asked for, 64-byte aligned, contents undefined */
    const struct gd_stream *stream; /* where a kernel of a device runs, see cuda/interface.h; NULL on the CPU */
    int nin, nout;
} gd_args;

typedef void gd_kernel(const gd_args *a);

/* An optimizer kernel updates one contiguous run of n elements at the same place of the five
 * parallel slab regions. Corrections are computed in float64 by the caller. */
typedef struct gd_optim_args {
    void *param;      /* updated */
    const void *grad; /* read */
    void *momentum;   /* the "previous gradient" region: SGD's momentum buffer */
    void *exp_avg, *exp_avg_sq, *max_exp_avg_sq; /* moments, first and second (or what stands for them); the last is amsgrad's */
                                                 /* all of these are NULL where the update does not use them */
    int64_t n;
    double lr, beta1, beta2, eps, weight_decay, sgd_momentum, dampening;
    double bias_correction1, bias_correction2; /* 1 - beta^step */
    double rate, mean_rate; /* Adagrad: the decayed lr; NAdam: of gradient and mean; RAdam: the rectification, or 0 */
    double initial;         /* Adagrad: the sum of squares before the first step */
    const struct gd_stream *stream; /* as in gd_args */
    uint8_t dtype;
    bool nesterov, maximize, centered, decoupled_decay, first_step; /* first_step: momentum buffer or sum not yet written */
} gd_optim_args;
typedef void gd_optim_kernel(const gd_optim_args *a);

/* Kernel names are computable: gd_<op>_<isa>. Each portable/ file is compiled once with
 * GD_ISA=portable and, on x86-64, again with GD_ISA=avx2 (and -mavx2 -mfma); avx512/ with avx512. */
#define GD_CAT3_(a, b, c) a##b##_##c
#define GD_CAT3(a, b, c) GD_CAT3_(a, b, c)
#ifdef GD_ISA
#define GD_KERNEL(op) GD_CAT3(gd_, op, GD_ISA)
#endif

/* Every kernel's prototype, from the op table. (The CUDA part is in C++ and has its own, see cuda/table.cu.) */
#ifndef __cplusplus
#pragma GCC visibility push(hidden)
#define GD_DECLARE_P(type, op) type gd_##op##_portable, gd_##op##_avx2;
#define GD_DECLARE_PV(type, op) type gd_##op##_portable, gd_##op##_avx2, gd_##op##_avx512;
#define GD_DECLARE_N(type, op)
#define OP(name, nin, nout, shape, vjp, saves, flags, kernels) GD_DECLARE_##kernels(gd_kernel, name)
#define OPTIM(name, kernels) GD_DECLARE_##kernels(gd_optim_kernel, name)
#include "ops.def"
#undef OP
#undef OPTIM
#pragma GCC visibility pop
#endif

static inline int64_t gd_numel(const gd_view *v) {
    return v->shape[0] * v->shape[1] * v->shape[2] * v->shape[3];
}

/* bfloat16 and float16, in which nothing is computed: float32 is. */
static inline bool gd_is_half(int dtype) { return dtype >= GD_BFLOAT16; }
static inline int gd_dtype_inside(int dtype) { return gd_is_half(dtype) ? GD_FLOAT32 : dtype; }

static inline int64_t gd_dtype_bytes(int dtype) {
    static const uint8_t bytes[] = {4, 8, 8, 4, 1, 2, 2};
    return bytes[dtype];
}

static inline bool gd_is_contiguous(const gd_view *v) {
    int64_t expect = 1;
    for (int d = GD_DIMS - 1; d >= 0; d--) {
        if (v->shape[d] != 1 && v->strides[d] != expect) return gd_numel(v) == 0;
        expect *= v->shape[d];
    }
    return true;
}

#endif
