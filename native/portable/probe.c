/* probe.c - the probes with AVX2, with NEON, and with the compiler's vectors elsewhere (there a multiplication and
 * an addition, as baseline x86-64 has nothing that fuses them). */
#if defined(__aarch64__)
#define PROBE_CHAINS 24 /* of 32 registers; up to four units */
#endif
#include "../probe_loops.h"

#include <string.h>
#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
enum { VECTOR = 32 };
#define FMA_F32 _mm256_fmadd_ps
#define FMA_F64 _mm256_fmadd_pd
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
enum { VECTOR = 16 };
#define FMA_F32(a, b, c) vfmaq_f32(c, a, b)
#define FMA_F64(a, b, c) vfmaq_f64(c, a, b)
#else
#if defined(__x86_64__)
#include <immintrin.h>
#endif
enum { VECTOR = 16 };
#define FMA_F32(a, b, c) ((a) * (b) + (c))
#define FMA_F64(a, b, c) ((a) * (b) + (c))
#endif

typedef float v_f32 __attribute__((vector_size(VECTOR)));
typedef double v_f64 __attribute__((vector_size(VECTOR)));
typedef float u_f32 __attribute__((vector_size(VECTOR), aligned(4), may_alias));

PROBE_ARITHMETIC(float32, float, v_f32, v_f32, (v_f32){0} + 0.999f, (v_f32){0} + 0.001f, FMA_F32, VECTOR / 4, PROBE_FIRST)
PROBE_ARITHMETIC(float64, double, v_f64, v_f64, (v_f64){0} + 0.999, (v_f64){0} + 0.001, FMA_F64, VECTOR / 8, PROBE_FIRST)

double GD_KERNEL(probe_arithmetic)(int kind, int64_t rounds) {
    switch (kind) {
    case GD_PROBE_FLOAT32: return float32(rounds);
    case GD_PROBE_FLOAT64: return float64(rounds);
    default: return 0;
    }
}

static inline v_f32 load(const float *p) { return *(const u_f32 *)p; }
static inline void store(float *p, v_f32 v) { *(u_f32 *)p = v; }

#if defined(__AVX2__)
static inline void stream(float *p, v_f32 v) { _mm256_stream_ps(p, (__m256)v); }
static inline void stream_end(void) { _mm_sfence(); }
#elif defined(__x86_64__)
static inline void stream(float *p, v_f32 v) { _mm_stream_ps(p, (__m128)v); }
static inline void stream_end(void) { _mm_sfence(); }
#else
static inline void stream(float *p, v_f32 v) { store(p, v); }
static inline void stream_end(void) {}
#endif

PROBE_MEMORY(GD_ISA, v_f32, VECTOR / 4)
