/* probe.h - loops that do what the machine can do at most, one set per instruction set; probe.c times them. */
#ifndef GRADINO_PROBE_H
#define GRADINO_PROBE_H

#include "kernel.h"

#pragma GCC visibility push(hidden)
#define GD_DECLARE_PROBE(isa)                                                                               \
    /* Rounds of fused multiply-adds in registers (GD_PROBE_FLOAT32 ...); returns the operations done, 0 if \
     * this processor has none of that kind. */                                                             \
    double gd_probe_arithmetic_##isa(int kind, int64_t rounds);                                             \
    /* One pass over n elements (GD_PROBE_COPY ...). a is 64-byte aligned, n a multiple of 64; copy and     \
     * triad write past the caches where the instruction set can. */                                       \
    void gd_probe_memory_##isa(int kind, float *a, const float *b, const float *c, int64_t n);
GD_DECLARE_PROBE(portable)
#if GD_X86
GD_DECLARE_PROBE(avx2)
GD_DECLARE_PROBE(avx512)
#endif
#pragma GCC visibility pop
#endif
