/* probe_loops.h - templates of the probes' loops, for a vector type and its operations. */
#include "probe.h"

/* Chains of dependent operations that run side by side: they hide a latency of 4 to 6 cycles of two units,
 * and fit 16 registers with the two operands. */
#ifndef PROBE_CHAINS
#define PROBE_CHAINS 12
#endif

#if defined(__clang__)
#define PROBE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PROBE_UNROLL _Pragma("GCC unroll 32")
#endif

static volatile double probe_sink; /* keeps results, and with them the loops, alive */

/* Rounds of sum = sum x + y in every chain; two operations for each of `lanes` products of a vector. */
#define PROBE_ARITHMETIC(name, T, V, X, x_value, y_value, fma, lanes, first)                 \
    static double name(int64_t rounds) {                                                     \
        V sum[PROBE_CHAINS];                                                                 \
        X x = x_value, y = y_value;                                                          \
        PROBE_UNROLL for (int i = 0; i < PROBE_CHAINS; i++) sum[i] = (V){0} + (T)i;          \
        for (int64_t k = 0; k < rounds; k++) {                                               \
            PROBE_UNROLL for (int i = 0; i < PROBE_CHAINS; i++) sum[i] = fma(sum[i], x, y);  \
        }                                                                                    \
        PROBE_UNROLL for (int i = 1; i < PROBE_CHAINS; i++) sum[0] += sum[i];                \
        probe_sink = first(sum[0]);                                                          \
        return 2.0 * (lanes) * PROBE_CHAINS * (double)rounds;                                \
    }

#define PROBE_FIRST(v) ((double)(v)[0])

/* The passes over memory, for a vector type with load(p), store(p, v) and stream(p, v), which writes past the caches.
 * Two streams side by side (four that are only read) keep more requests for memory on their way than one does. */
#define PROBE_PASS(streams, statement)                               \
    for (int64_t i = 0; i < n / (streams); i += lanes) {             \
        PROBE_UNROLL for (int s = 0; s < (streams); s++) {           \
            const int64_t at = s * (n / (streams)) + i;              \
            statement;                                               \
        }                                                            \
    }                                                                \
    break
#define PROBE_MEMORY(isa, V, vector_lanes)                                                                    \
    void GD_CAT3(gd_, probe_memory, isa)(int kind, float *a, const float *b, const float *c, int64_t n) {     \
        const int64_t lanes = vector_lanes;                                                                   \
        const V three = (V){0} + 3.0f;                                                                        \
        V sum[4] = {{0}, {0}, {0}, {0}};                                                                      \
        switch (kind) {                                                                                       \
        case GD_PROBE_COPY: PROBE_PASS(2, stream(a + at, load(b + at)));                                      \
        case GD_PROBE_TRIAD: PROBE_PASS(2, stream(a + at, load(b + at) + three * load(c + at)));              \
        case GD_PROBE_UPDATE: PROBE_PASS(2, store(a + at, load(a + at) + three * load(b + at)));              \
        case GD_PROBE_READ: PROBE_PASS(4, sum[s] += load(b + at));                                            \
        default: break;                                                                                       \
        }                                                                                                     \
        probe_sink = PROBE_FIRST(sum[0] + sum[1] + sum[2] + sum[3]);                                          \
        stream_end();                                                                                         \
    }
