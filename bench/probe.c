/* probe.c - what a memcpy and calls of the library cost without Python.
 * Built and loaded by probe.py. Every function returns the seconds that n repetitions took. */
#include <gradino.h>
#include <string.h>
#include <time.h>

double probe_copy(char *to, const char *from, int64_t bytes, int64_t n);
double probe_update(float *p, float *m, float *v, const float *g, int64_t count, int64_t n);

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

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
