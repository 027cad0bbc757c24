/* steady.c - counts what a training step asks of the system: from the third step on it must be nothing.
 * This program's malloc and mmap family stands in for the C library's and counts while `counting`; page faults
 * are counted by the kernel. Usage: steady mlp|lstm THREADS. Built by test_steady_state.py; glibc only. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gradino.h"

#include "check.h"

/* ---- Counting ------------------------------------------------------------------------------------------- */

static atomic_bool counting;
static atomic_int calls;
static void count(void) {
    if (atomic_load(&counting)) atomic_fetch_add(&calls, 1);
}

void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
void __libc_free(void *);
void *malloc(size_t n) { return count(), __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return count(), __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return count(), __libc_realloc(p, n); }
void *aligned_alloc(size_t a, size_t n) { return count(), __libc_memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) { return count(), (*p = __libc_memalign(a, n)) ? 0 : 12; }
void free(void *p) { count(), __libc_free(p); }

static long call(long number, long a, long b, long c, long d, long e, long f) { return count(), syscall(number, a, b, c, d, e, f); }
void *mmap(void *p, size_t n, int prot, int flags, int fd, off_t offset) { return (void *)call(SYS_mmap, (long)p, (long)n, prot, flags, fd, offset); }
int munmap(void *p, size_t n) { return (int)call(SYS_munmap, (long)p, (long)n, 0, 0, 0, 0); }
int mprotect(void *p, size_t n, int prot) { return (int)call(SYS_mprotect, (long)p, (long)n, prot, 0, 0, 0); }
int madvise(void *p, size_t n, int advice) { return (int)call(SYS_madvise, (long)p, (long)n, advice, 0, 0, 0); }

static long faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

/* ---- Training ------------------------------------------------------------------------------------------- */

enum { MOST = 16 };
typedef struct model {
    gd_tensor p[MOST], x, y;
    int64_t count;
    bool lstm;
    gd_optimizer *optimizer;
} model;

static void add(model *m, int64_t rank, int64_t rows, int64_t columns) {
    CHECK(m->p[m->count++] = gd_parameter(gd_uniform(rank, (int64_t[]){rows, columns}, GD_FLOAT32, -0.3, 0.3), 1));
}

static model make(bool lstm) {
    enum { BATCH = 64, INPUT = 40, HIDDEN = 96, CLASSES = 10, STEPS = 12 };
    model m = {.lstm = lstm};
    if (lstm) {
        add(&m, 2, 4 * HIDDEN, INPUT), add(&m, 2, 4 * HIDDEN, HIDDEN), add(&m, 1, 4 * HIDDEN, 0), add(&m, 1, 4 * HIDDEN, 0);
        m.x = gd_normal(3, (int64_t[]){STEPS, BATCH, INPUT}, GD_FLOAT32, 0, 1);
    } else {
        add(&m, 2, HIDDEN, INPUT), add(&m, 1, HIDDEN, 0);
        m.x = gd_normal(2, (int64_t[]){BATCH, INPUT}, GD_FLOAT32, 0, 1);
    }
    add(&m, 2, CLASSES, HIDDEN), add(&m, 1, CLASSES, 0);
    m.y = gd_randint(1, (int64_t[]){BATCH}, 0, CLASSES);
    m.optimizer = gd_optimizer_open(GD_ADAMW);
    CHECK(m.x && m.y && gd_optimizer_add_group(m.optimizer, m.p, m.count) >= 0);
    CHECK(gd_optimizer_set_hyper(m.optimizer, 0, &(gd_hyper){.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}) >= 0);
    return m;
}

static double step(const model *m) {
    int64_t scope = gd_scope_enter_step();
    const gd_tensor *p = m->p;
    gd_tensor h, drop;
    if (m->lstm) {
        h = gd_select(gd_lstm(m->x, 0, 0, p[0], p[1], p[2], p[3], 0, 0, 0), 0, -1);
        p += 4;
    } else {
        h = gd_relu(gd_linear(m->x, p[0], p[1]));
        p += 2;
    }
    drop = gd_dropout(h, 0.1, 1);
    gd_tensor many[20], loss = gd_cross_entropy(gd_linear(drop, p[0], p[1]), m->y, 0, -100, 1, 0.1);
    for (int k = 0; k < 20; k++) many[k] = gd_reduce(GD_OP_mean, gd_square(h), NULL, 0, 0, 0);
    loss = gd_add(loss, gd_reduce(GD_OP_sum, gd_stack(many, 20, 0), NULL, 0, 0, 0)); /* a list too long for the stack */
    CHECK(gd_backward(loss, 0, 0, 0, NULL) >= 0 && gd_optimizer_step(m->optimizer) >= 0 && gd_optimizer_zero_grad(m->optimizer) >= 0);
    double value = gd_item_float(loss);
    CHECK(gd_scope_exit(scope) >= 0);
    return value;
}

int main(int argc, char **argv) {
    enum { WINDOWS = 5, LENGTH = 40 };
    CHECK(argc == 3 && gd_set_num_threads(atoi(argv[2])) >= 0);
    model m = make(strcmp(argv[1], "lstm") == 0);
    atomic_store(&counting, true);
    CHECK(gd_arena_close(gd_arena_open(1 << 20, 0, NULL)) >= 0); /* for the counter to see */
    double first = step(&m), last = step(&m);
    int warm_up = atomic_exchange(&calls, 0);
    long fewest = -1;
    for (int w = 0; w < WINDOWS; w++) { /* a page may be taken away by the system at any time: the calmest stretch counts */
        long before = faults();
        for (int k = 0; k < LENGTH; k++) last = step(&m);
        long now = faults() - before;
        if (fewest < 0 || now < fewest) fewest = now;
    }
    atomic_store(&counting, false);
    printf("first steps: calls %d\n", warm_up);
    printf("later steps: calls %d, page faults %ld, loss %g to %g\n", atomic_load(&calls), fewest, first, last);
    CHECK(last < first);
    return 0;
}
