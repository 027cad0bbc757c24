/* pool.c - drives the thread pool from C: every task once, nested and concurrent calls, changes of
 * the thread count, forks in the middle. Built with thread.c, limits.c and cpu.c by test_threads.py. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "gradino.h"
#include "thread.h"

enum { TASKS = 257, CELLS = 64 };

#define CHECK(condition, ...)                                                      \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);        \
            fprintf(stderr, __VA_ARGS__);                                          \
            fputc('\n', stderr);                                                   \
            exit(1);                                                               \
        }                                                                          \
    } while (0)

/* Plain memory on purpose: that the pool orders every access is what the thread sanitizer checks. */
typedef struct work {
    int done[TASKS];
    int64_t cells[CELLS]; /* per worker, as workspace is */
    int width;
    bool nested;
} work;

static void nested_task(void *ctx, int64_t i, int worker) {
    CHECK(worker == 0, "a nested call ran on worker %d", worker);
    ((int *)ctx)[i]++;
}

static void task(void *ctx, int64_t i, int worker) {
    work *w = ctx;
    CHECK(worker >= 0 && worker < w->width, "worker %d of %d", worker, w->width);
    w->done[i]++;
    if (worker < CELLS) w->cells[worker] += i;
    if (w->nested) {
        int inner[4] = {0};
        CHECK(gd_parallel_width() == 1, "the width inside a task is %d", gd_parallel_width());
        gd_parallel(4, nested_task, inner);
        for (int k = 0; k < 4; k++) CHECK(inner[k] == 1, "nested task %d ran %d times", k, inner[k]);
    }
}

/* One job; every task must have run once, and the sum over workers' cells be that of all tasks. */
static void one_job(int64_t ntasks, bool nested) {
    work w = {.nested = nested};
    gd_parallel_refresh();
    w.width = gd_parallel_width();
    gd_parallel(ntasks, task, &w);
    int64_t sum = 0;
    for (int k = 0; k < CELLS; k++) sum += w.cells[k];
    for (int64_t k = 0; k < TASKS; k++) CHECK(w.done[k] == (k < ntasks), "task %ld of %ld ran %d times", (long)k, (long)ntasks, w.done[k]);
    if (w.width <= CELLS) CHECK(sum == ntasks * (ntasks - 1) / 2, "sum %ld", (long)sum);
}

static void set_threads(int n) {
    CHECK(gd_set_num_threads(n) == GD_OK, "%s", gd_last_error());
    CHECK(gd_get_num_threads() == n && gd_parallel_width() == n, "%d threads, width %d", gd_get_num_threads(), gd_parallel_width());
}

static void test_counts(void) {
    static const int counts[] = {1, 2, 3, 8, 2, 5, 1, 4};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        set_threads(counts[c]);
        for (int64_t n = 0; n <= TASKS; n += n < 8 ? 1 : 83) {
            one_job(n, false);
            one_job(n, true);
        }
    }
    CHECK(gd_set_num_threads(0) == GD_ERR_VALUE && gd_set_num_threads(GD_MAX_THREADS + 1) == GD_ERR_VALUE, "accepted");
    CHECK(strstr(gd_last_error(), "1025") && strstr(gd_last_error(), "1024"), "%s", gd_last_error());
}

static atomic_bool stop;

static void *keep_calling(void *unused) {
    (void)unused;
    while (!atomic_load(&stop)) one_job(TASKS, true);
    return NULL;
}

static void *keep_changing(void *unused) {
    (void)unused;
    for (int n = 1; !atomic_load(&stop); n = n % 6 + 1) CHECK(gd_set_num_threads(n) == GD_OK, "%s", gd_last_error());
    return NULL;
}

/* Callers and changers from many threads at once. */
static void test_concurrent(int rounds) {
    pthread_t callers[3], changer;
    set_threads(3);
    atomic_store(&stop, false);
    for (int k = 0; k < 3; k++) CHECK(!pthread_create(&callers[k], NULL, keep_calling, NULL), "no thread");
    CHECK(!pthread_create(&changer, NULL, keep_changing, NULL), "no thread");
    for (int k = 0; k < rounds; k++) one_job(TASKS, false);
    atomic_store(&stop, true);
    for (int k = 0; k < 3; k++) pthread_join(callers[k], NULL);
    pthread_join(changer, NULL);
}

/* Forks while other threads are inside jobs: each child must work, with a pool of its own. */
static void test_fork(int rounds) {
    pthread_t callers[2];
    set_threads(4);
    one_job(TASKS, true);
    atomic_store(&stop, false);
    for (int k = 0; k < 2; k++) CHECK(!pthread_create(&callers[k], NULL, keep_calling, NULL), "no thread");
    for (int k = 0; k < rounds; k++) {
        pid_t child = fork();
        CHECK(child >= 0, "no process");
        if (!child) {
            alarm(10);
            for (int j = 0; j < 20; j++) one_job(TASKS, true);
            set_threads(2);
            one_job(TASKS, false);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with status %x", (unsigned)status);
        one_job(TASKS, true);
    }
    atomic_store(&stop, true);
    for (int k = 0; k < 2; k++) pthread_join(callers[k], NULL);
}

/* Floating-point modes: subnormals live in every worker, and where a caller has switched them off its
 * tasks do without them on every worker too, or results would depend on who ran what. */
static void subnormal_task(void *ctx, int64_t i, int worker) {
    (void)worker;
    volatile float tiny = 1e-40f, one = 1.0f;
    ((float *)ctx)[i] = tiny * one;
    usleep(50); /* leave some for the others */
}

static void test_modes(int rounds) {
    set_threads(4);
    for (int k = 0; k < rounds; k++) {
        float product[64];
        bool flush = k % 2;
#ifdef __x86_64__
        unsigned modes = _mm_getcsr();
        if (flush) _mm_setcsr(modes | 0x8040); /* flush to zero, denormals are zero */
        gd_parallel(64, subnormal_task, product);
        _mm_setcsr(modes);
#else
        flush = false;
        gd_parallel(64, subnormal_task, product);
#endif
        for (int i = 0; i < 64; i++) CHECK((product[i] == 0) == flush, "1e-40 x 1 is %g with flush %d", (double)product[i], flush);
    }
}

static void empty_task(void *ctx, int64_t i, int worker) { (void)ctx, (void)i, (void)worker; }

static void spin_task(void *ctx, int64_t i, int worker) {
    (void)i, (void)worker;
    for (volatile int k = 0; k < *(int *)ctx; k++) {
    }
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Many small jobs, as a training step has them; for whoever times the process. */
static void many_jobs(int rounds) {
    int work_size = 1000;
    for (int k = 0; k < rounds; k++) {
        gd_parallel(8, spin_task, &work_size);
        spin_task(&work_size, 0, 0);
    }
}

/* Prints what a job costs, in microseconds: empty ones back to back, and with time between them. */
static void measure(int rounds) {
    int pause = 1000, work_size = 40000;
    for (int mode = 0; mode < 3; mode++) {
        double total = 0;
        for (int k = 0; k < rounds; k++) {
            if (mode == 1) usleep(100);
            if (mode == 2) spin_task(&pause, 0, 0);
            double from = seconds();
            gd_parallel(8, empty_task, NULL);
            total += seconds() - from;
        }
        printf("%s: %.2f us a job\n", (const char *[]){"back to back", "after a sleep", "after work"}[mode], total / rounds * 1e6);
    }
    for (; work_size >= 500; work_size /= 3) {
        double together = -seconds();
        for (int k = 0; k < rounds; k++) gd_parallel(8, spin_task, &work_size);
        together += seconds();
        double alone = -seconds();
        for (int k = 0; k < 8 * rounds; k++) spin_task(&work_size, 0, 0);
        alone += seconds();
        printf("eight tasks of %.2f us: %.2f us a job, alone %.2f us\n", alone / rounds / 8 * 1e6, together / rounds * 1e6, alone / rounds * 1e6);
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int rounds = argc > 2 ? atoi(argv[2]) : 200;
    if (!strcmp(what, "counts")) test_counts();
    else if (!strcmp(what, "concurrent")) test_concurrent(rounds);
    else if (!strcmp(what, "fork")) test_fork(rounds);
    else if (!strcmp(what, "modes")) test_modes(rounds);
    else if (!strcmp(what, "jobs")) many_jobs(rounds);
    else if (!strcmp(what, "measure")) measure(rounds);
    else return fprintf(stderr, "usage: pool counts|concurrent|fork|modes|jobs|measure [rounds]\n"), 2;
    puts("ok");
    return 0;
}
