/* probe.c - what this processor can do at most, and what calls of the library cost without Python.
 * Built and loaded by probe.py. Every function returns the seconds that n repetitions took. */
#include <gradino.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

double probe_copy(char *to, const char *from, int64_t bytes, int64_t n);
double probe_update(float *p, float *m, float *v, const float *g, int64_t count, int64_t n);

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Fused multiply-adds: 12 chains hide the latency of two units. lanes() says how many floats a vector has. */

enum { CHAINS = 12 };
static volatile float sink;

#define DEFINE_FMA(name, isa, V, LANES, SET, FMA, FIRST)                  \
    double probe_fma_##name(int64_t n);                                   \
    __attribute__((target(isa))) double probe_fma_##name(int64_t n) {     \
        V sum[CHAINS], x = SET(0.999f), y = SET(0.001f);                  \
        for (int i = 0; i < CHAINS; i++) sum[i] = SET((float)i);          \
        double start = now();                                             \
        for (int64_t k = 0; k < n; k++)                                   \
            for (int i = 0; i < CHAINS; i++) sum[i] = FMA(sum[i], x, y);  \
        double seconds = now() - start;                                   \
        for (int i = 1; i < CHAINS; i++) sum[0] = FMA(sum[i], x, sum[0]); \
        sink = FIRST(sum[0]);                                             \
        return seconds;                                                   \
    }                                                                     \
    int probe_lanes_##name(void);                                         \
    int probe_lanes_##name(void) { return LANES * CHAINS; }
#if defined(__x86_64__)
#define MULTIPLY_ADD(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c) /* what the portable kernels have */
DEFINE_FMA(portable, "sse2", __m128, 4, _mm_set1_ps, MULTIPLY_ADD, _mm_cvtss_f32)
DEFINE_FMA(avx512, "avx512f", __m512, 16, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_cvtss_f32)
DEFINE_FMA(avx2, "avx2,fma", __m256, 8, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_cvtss_f32)
#endif

/* ---- Memory */

double probe_copy(char *to, const char *from, int64_t bytes, int64_t n) {
    double start = now();
    for (int64_t k = 0; k < n; k++) {
        memcpy(to, from, (size_t)bytes);
        __asm__ volatile("" : : "r"(to) : "memory");
    }
    return now() - start;
}

/* What an optimizer with two moments reads and writes in place, with next to no arithmetic. */
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static void update(float *p, float *m, float *v, const float *g, int64_t count) {
    typedef float wide __attribute__((vector_size(64)));
    for (int64_t k = 0; k + 16 <= count; k += 16) {
        wide a[4];
        memcpy(&a[0], p + k, 64), memcpy(&a[1], m + k, 64), memcpy(&a[2], v + k, 64), memcpy(&a[3], g + k, 64);
        a[0] += a[3], a[1] += a[3], a[2] += a[3];
        memcpy(p + k, &a[0], 64), memcpy(m + k, &a[1], 64), memcpy(v + k, &a[2], 64);
    }
}

double probe_update(float *p, float *m, float *v, const float *g, int64_t count, int64_t n) {
    double start = now();
    for (int64_t k = 0; k < n; k++) update(p, m, v, g, count);
    return now() - start;
}

/* ---- Calls of the library, t: its tensors */

#define DEFINE_CALL(name, call)                                                       \
    double probe_##name(const gd_tensor *t, gd_optimizer *o, int64_t n);              \
    double probe_##name(const gd_tensor *t, gd_optimizer *o, int64_t n) {             \
        (void)t, (void)o;                                                             \
        double start = now();                                                         \
        for (int64_t k = 0; k < n; k++) (void)(call);                                 \
        return now() - start;                                                         \
    }
DEFINE_CALL(scope, gd_scope_exit(gd_scope_enter_step()))
DEFINE_CALL(linear, gd_linear(t[0], t[1], t[2]))
DEFINE_CALL(unary, gd_unary((int)t[1], t[0]))
DEFINE_CALL(cross_entropy, gd_cross_entropy(t[0], t[1], 0, -100, 1, 0.0))
DEFINE_CALL(backward, gd_backward(t[0], 0, 1, 0, NULL))
DEFINE_CALL(step, gd_optimizer_step(o))
DEFINE_CALL(zero_grad, gd_optimizer_zero_grad(o))
DEFINE_CALL(item, gd_item_float(t[0]))
