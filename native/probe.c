/* probe.c - measures what this machine can do at most: arithmetic, memory, and what a call costs.
 * The loops run on all threads in use, with the kernel set in use; the caller takes the best of many samples. */
#define _GNU_SOURCE
#include "probe.h"

#include <stdatomic.h>
#include <time.h>

#include "cpu.h"
#include "engine.h"
#include "thread.h"

enum {
    TASKS_PER_THREAD = 4,  /* a thread that starts late leaves its share to the others */
    ELEMENTS_AT_ONCE = 64, /* what one round of any pass over memory takes */
    PATIENCE = 1 << 16,    /* times that a thread looks for the others: some 100 us */
};

typedef struct probe {
    int kind;
    int64_t n;
    float *a;
    const float *b, *c;
    int expected;
    atomic_int arrived;
} probe;

#if GD_X86
#define BY_ISA(name) {gd_probe_##name##_portable, gd_probe_##name##_avx2, gd_probe_##name##_avx512}
#else
#define BY_ISA(name) {gd_probe_##name##_portable}
#endif
static double (*const arithmetic[GD_ISAS])(int, int64_t) = BY_ISA(arithmetic);
static void (*const memory[GD_ISAS])(int, float *, const float *, const float *, int64_t) = BY_ISA(memory);

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void arithmetic_task(void *context, int64_t i, int worker) {
    const probe *p = context;
    (void)i, (void)worker;
    arithmetic[gd_current_isa()](p->kind, p->n);
}

static void memory_task(void *context, int64_t i, int worker) {
    const probe *p = context;
    (void)worker;
    const int64_t at = i * p->n;
    memory[gd_current_isa()](p->kind, p->a + at, p->b + at, p->c + at, p->n);
}

/* Waits for the other threads of the region, but not for ever: they may not come, in a nested call say. */
static void meeting_task(void *context, int64_t i, int worker) {
    probe *p = context;
    (void)i, (void)worker;
    atomic_fetch_add(&p->arrived, 1);
    for (int k = 0; k < PATIENCE && atomic_load(&p->arrived) < p->expected; k++) {}
}

double gd_probe(int kind, int64_t n, void *a, const void *b, const void *c, double *seconds) {
    static const double bytes[] = {[GD_PROBE_COPY] = 8, [GD_PROBE_TRIAD] = 12, [GD_PROBE_UPDATE] = 12, [GD_PROBE_READ] = 4};
    gd_parallel_refresh();
    const int width = gd_parallel_width();
    const int64_t tasks = TASKS_PER_THREAD * (int64_t)width;
    probe p = {.kind = kind, .n = n, .a = a, .b = b, .c = c, .expected = width};
    double work = 0, start = now();
    switch (kind) {
    case GD_PROBE_FLOAT32:
    case GD_PROBE_FLOAT64:
    case GD_PROBE_BFLOAT16:
        work = arithmetic[gd_current_isa()](kind, 1) * (double)n * (double)tasks;
        start = now();
        if (work > 0) gd_parallel(tasks, arithmetic_task, &p);
        break;
    case GD_PROBE_COPY:
    case GD_PROBE_TRIAD:
    case GD_PROBE_UPDATE:
    case GD_PROBE_READ:
        p.n = n / width / ELEMENTS_AT_ONCE * ELEMENTS_AT_ONCE; /* one piece for each thread: small ones in turn are slower */
        gd_parallel(width, memory_task, &p);
        work = bytes[kind] * (double)p.n * width;
        break;
    case GD_PROBE_REGION:
        for (int64_t k = 0; k < n; k++) {
            atomic_store(&p.arrived, 0);
            gd_parallel(width, meeting_task, &p);
        }
        work = (double)n;
        break;
    default: gd_fail(GD_ERR_VALUE, "probe: there is no kind %d", kind); return -1;
    }
    *seconds = now() - start;
    return work;
}
