/* probe.c - the probes with AVX-512, and with its dot products of bfloat16 pairs where the processor has them. */
#define PROBE_CHAINS 24 /* of 32 registers */
#include "../probe_loops.h"

#include <immintrin.h>

PROBE_ARITHMETIC(float32, float, __m512, __m512, _mm512_set1_ps(0.999f), _mm512_set1_ps(0.001f), _mm512_fmadd_ps, 16, PROBE_FIRST)
PROBE_ARITHMETIC(float64, double, __m512d, __m512d, _mm512_set1_pd(0.999), _mm512_set1_pd(0.001), _mm512_fmadd_pd, 8, PROBE_FIRST)

/* Each lane adds two products: zeros, because the time does not depend on values, and denormals are not wanted. */
#define DOT(sum, x, y) _mm512_dpbf16_ps(sum, x, y)
#define ZEROS (__m512bh) _mm512_setzero_si512()
__attribute__((target("avx512bf16")))
PROBE_ARITHMETIC(bfloat16, float, __m512, __m512bh, ZEROS, ZEROS, DOT, 32, PROBE_FIRST)

double gd_probe_arithmetic_avx512(int kind, int64_t rounds) {
    switch (kind) {
    case GD_PROBE_FLOAT32: return float32(rounds);
    case GD_PROBE_FLOAT64: return float64(rounds);
    case GD_PROBE_BFLOAT16: return __builtin_cpu_supports("avx512bf16") ? bfloat16(rounds) : 0;
    default: return 0;
    }
}

static inline __m512 load(const float *p) { return _mm512_loadu_ps(p); }
static inline void store(float *p, __m512 v) { _mm512_storeu_ps(p, v); }
static inline void stream(float *p, __m512 v) { _mm512_stream_ps(p, v); }
static inline void stream_end(void) { _mm_sfence(); }

PROBE_MEMORY(GD_ISA, __m512, 16)
