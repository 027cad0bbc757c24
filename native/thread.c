/* thread.c - the thread pool: workers claim the tasks of one job at a time from a counter.
 * Started on first use, rebuilt after a fork, asleep (futex) between jobs after a short spin. */
#define _GNU_SOURCE
#include "thread.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "cpu.h"
#include "kernel.h"
#include "status.h"

#if GD_X86
#include <xmmintrin.h>
#endif

enum {
    STACK_BYTES = 8 << 20,
    SPIN_NS = 50000, /* waking a sleeper costs about as much in a virtual machine; longer would steal time from other processes */
    SPIN_CHECKS = 16, /* looks at the word between two looks at the clock */
};

/* The gate of a job, one word: whether it may be joined, whether its caller sleeps until the last
 * worker leaves, how many workers it allows, how many are in it. */
enum { OPEN = 1u << 31, CALLER_SLEEPS = 1u << 30, WIDTH_SHIFT = 12, WIDTH = 0xfffu << WIDTH_SHIFT, ACTIVE = 0xfffu };
_Static_assert(GD_MAX_THREADS <= 0xfff, "a thread count fits its field of the gate");

typedef void task_fn(void *ctx, int64_t i, int worker);

static struct {
    _Alignas(64) atomic_uint epoch; /* changes when workers should look up; they sleep on it */
    atomic_int sleepers;            /* workers that sleep or are about to */
    _Alignas(64) atomic_uint gate;
    /* The tasks from next to end that are left of a worker's share. Those who are done with their own help the others. */
    struct {
        _Alignas(64) atomic_llong next;
        int64_t end;
    } share[GD_MAX_THREADS];
    /* The job: written by its caller while nobody is in, read by those who passed the gate. */
    _Alignas(64) task_fn *task;
    void *ctx;
    int shares;
    unsigned csr;          /* the caller's floating-point modes, so that every task runs in the same */
    atomic_bool spin;      /* whether waiting threads spin before they sleep */
    atomic_int keep;       /* workers numbered from here on end */
    atomic_bool owned;     /* held by the thread that runs a job or changes the pool; guards the rest */
    int workers;           /* running; numbered from 1, the caller is worker 0 */
    bool refused;          /* the system would not start another */
    pthread_t handle[GD_MAX_THREADS];
} pool;

static atomic_int threads; /* what the user sees; 0: not yet decided */
#define PER_THREAD static _Thread_local __attribute__((tls_model("initial-exec")))
PER_THREAD int width_here; /* the width this thread was last told; 0: none yet */
PER_THREAD bool inside;    /* this thread runs a task of a job */

/* ---- Waiting ---------------------------------------------------------------------------------- */

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* a real pause, where `yield` is a no-op */
#endif
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Spins while *word is `seen`, for SPIN_NS at most; says whether it changed. */
static bool changes_soon(atomic_uint *word, unsigned seen) {
    if (atomic_load_explicit(word, memory_order_acquire) != seen) return true;
    if (!atomic_load_explicit(&pool.spin, memory_order_relaxed)) return false;
    int64_t end = now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < SPIN_CHECKS; i++) {
            relax();
            if (atomic_load_explicit(word, memory_order_acquire) != seen) return true;
        }
    } while (now_ns() < end);
    return false;
}

#ifdef __linux__
/* Sleeps if *word is `value`; may return early. */
static void sleep_on(atomic_uint *word, unsigned value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(atomic_uint *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void reset_sleep(void) {}
#else
static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sleep_end = PTHREAD_COND_INITIALIZER;

static void sleep_on(atomic_uint *word, unsigned value) {
    pthread_mutex_lock(&sleep_lock);
    if (atomic_load(word) == value) pthread_cond_wait(&sleep_end, &sleep_lock);
    pthread_mutex_unlock(&sleep_lock);
}

static void wake(atomic_uint *word, int count) {
    (void)word, (void)count;
    pthread_mutex_lock(&sleep_lock);
    pthread_cond_broadcast(&sleep_end);
    pthread_mutex_unlock(&sleep_lock);
}

static void reset_sleep(void) {
    pthread_mutex_init(&sleep_lock, NULL);
    pthread_cond_init(&sleep_end, NULL);
}
#endif

/* ---- Workers ---------------------------------------------------------------------------------- */

static unsigned float_modes(void) {
#if GD_X86
    return _mm_getcsr() & ~0x3fu; /* without the sticky exception flags */
#else
    return 0;
#endif
}

static void set_float_modes(unsigned modes) {
#if GD_X86
    if (float_modes() != modes) _mm_setcsr(modes);
#else
    (void)modes;
#endif
}

/* Each worker has tasks that lie side by side, and the same ones from job to job where sizes agree: what it wrote
 * it reads again, from its own cache. On processors whose cores share no cache anything else costs twice the time. */
static void share_tasks(int64_t ntasks, int shares) {
    int64_t first = 0;
    pool.shares = shares;
    for (int s = 0; s < shares; s++) {
        const int64_t end = first + ntasks / shares + (s < ntasks % shares);
        pool.share[s].end = end;
        atomic_store_explicit(&pool.share[s].next, first, memory_order_relaxed);
        first = end;
    }
}

static void claim_tasks(int worker) {
    task_fn *task = pool.task;
    void *ctx = pool.ctx;
    const int shares = pool.shares;
    for (int k = 0, s = worker % shares; k < shares; k++, s = s + 1 < shares ? s + 1 : 0) {
        const int64_t end = pool.share[s].end;
        if (atomic_load_explicit(&pool.share[s].next, memory_order_relaxed) >= end) continue;
        for (int64_t i; (i = atomic_fetch_add_explicit(&pool.share[s].next, 1, memory_order_relaxed)) < end;) task(ctx, i, worker);
    }
}

/* Enters the job that is open, if one is and has room for this worker. */
static bool enter_job(int worker) {
    unsigned gate = atomic_load_explicit(&pool.gate, memory_order_relaxed);
    while ((gate & OPEN) && (unsigned)worker < (gate & WIDTH) >> WIDTH_SHIFT) {
        if (atomic_compare_exchange_weak_explicit(&pool.gate, &gate, gate + 1, memory_order_acquire, memory_order_relaxed)) return true;
    }
    return false;
}

static void leave_job(void) {
    unsigned gate = atomic_fetch_sub_explicit(&pool.gate, 1, memory_order_release) - 1;
    if (!(gate & ACTIVE) && (gate & CALLER_SLEEPS)) wake(&pool.gate, 1);
}

/* Waits until the epoch is no longer `seen`; returns it. */
static unsigned next_epoch(unsigned seen) {
    if (!changes_soon(&pool.epoch, seen)) {
        atomic_fetch_add(&pool.sleepers, 1);
        while (atomic_load(&pool.epoch) == seen) sleep_on(&pool.epoch, seen);
        atomic_fetch_sub(&pool.sleepers, 1);
    }
    return atomic_load(&pool.epoch);
}

static void *worker_main(void *number) {
    int worker = (int)(intptr_t)number;
    inside = true;
    /* One behind: it was started for a job that may be open already. */
    for (unsigned seen = atomic_load(&pool.epoch) - 1;;) {
        seen = next_epoch(seen);
        if (worker >= atomic_load(&pool.keep)) return NULL;
        if (!enter_job(worker)) continue;
        set_float_modes(pool.csr);
        claim_tasks(worker);
        leave_job();
    }
}

/* Signals are for the program's own threads; faults stay open so that a crash handler can report them. */
static void block_signals(sigset_t *previous) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigset_t all;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, previous);
}

/* With more threads than processors a spinning one keeps another from running. */
static void choose_spin(void) { atomic_store(&pool.spin, gd_get_num_threads() <= gd_usable_cpus()); }

/* Starts workers until there are `count`, or as many as the system allows. Owner only. */
static void start_workers(int count) {
    if (pool.workers >= count || pool.refused) return;
    sigset_t previous;
    pthread_attr_t attributes;
    block_signals(&previous);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    atomic_store(&pool.keep, GD_MAX_THREADS);
    choose_spin();
    while (pool.workers < count) {
        int worker = pool.workers + 1;
        if (pthread_create(&pool.handle[worker], &attributes, worker_main, (void *)(intptr_t)worker)) {
            pool.refused = true;
            break;
        }
#ifdef __linux__
        pthread_setname_np(pool.handle[worker], "gradino");
#endif
        pool.workers = worker;
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
}

/* Ends workers until at most `count` are left. Owner only. */
static void stop_workers(int count) {
    if (pool.workers <= count) return;
    atomic_store(&pool.keep, count + 1);
    atomic_fetch_add(&pool.epoch, 1);
    wake(&pool.epoch, INT_MAX);
    for (; pool.workers > count; pool.workers--) pthread_join(pool.handle[pool.workers], NULL);
}

static bool try_own(void) {
    return !atomic_load_explicit(&pool.owned, memory_order_relaxed) && !atomic_exchange_explicit(&pool.owned, true, memory_order_acquire);
}

static void disown(void) { atomic_store_explicit(&pool.owned, false, memory_order_release); }

/* In the child of a fork only the forking thread is left, whatever the others were doing. */
static void reset_in_child(void) {
    reset_sleep();
    atomic_store(&pool.epoch, 0);
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.gate, 0);
    pool.workers = 0;
    pool.refused = false;
    inside = false;
    disown();
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, reset_in_child); }

/* ---- Interface -------------------------------------------------------------------------------- */

void gd_parallel(int64_t ntasks, task_fn *task, void *ctx) {
    int width = ntasks > 1 ? gd_parallel_width() : 1;
    bool nested = inside;
    if (width < 2 || !try_own()) {
        inside = true;
        for (int64_t i = 0; i < ntasks; i++) task(ctx, i, 0);
        inside = nested;
        return;
    }
    int helpers = (int)(ntasks < width ? ntasks : width) - 1;
    start_workers(helpers);

    pool.task = task;
    pool.ctx = ctx;
    pool.csr = float_modes();
    share_tasks(ntasks, helpers + 1);
    atomic_store_explicit(&pool.gate, OPEN | (unsigned)width << WIDTH_SHIFT, memory_order_release);
    atomic_fetch_add(&pool.epoch, 1); /* before the look at sleepers, as they look at it after counting themselves */
    if (atomic_load(&pool.sleepers)) wake(&pool.epoch, pool.workers < width ? helpers : INT_MAX);

    inside = true;
    claim_tasks(0);
    inside = false;

    /* Late workers stay outside; those inside finish their last task. */
    atomic_fetch_and_explicit(&pool.gate, ~(unsigned)OPEN, memory_order_relaxed);
    for (unsigned gate; (gate = atomic_load_explicit(&pool.gate, memory_order_acquire)) & ACTIVE;) {
        if (changes_soon(&pool.gate, gate)) continue;
        gate = atomic_fetch_or(&pool.gate, CALLER_SLEEPS) | CALLER_SLEEPS;
        if (gate & ACTIVE) sleep_on(&pool.gate, gate);
    }
    disown();
}

int gd_parallel_width(void) {
    if (inside) return 1;
    if (!width_here) width_here = gd_get_num_threads();
    return width_here;
}

void gd_parallel_refresh(void) { width_here = gd_get_num_threads(); }

int gd_get_num_threads(void) {
    int now = atomic_load_explicit(&threads, memory_order_relaxed);
    if (now) return now;
    int chosen = gd_default_num_threads();
    return atomic_compare_exchange_strong(&threads, &now, chosen) ? chosen : now;
}

gd_status gd_set_num_threads(int n) {
    if (n < 1 || n > GD_MAX_THREADS) return gd_fail(GD_ERR_VALUE, "set_num_threads: got %d, must be from 1 to %d", n, GD_MAX_THREADS);
    if (inside) return gd_fail(GD_ERR, "set_num_threads: called from inside a parallel task");
    while (!try_own()) sched_yield(); /* another thread's job, which ends by itself */
    atomic_store(&threads, n);
    width_here = n;
    stop_workers(n - 1);
    pool.refused = false;
    choose_spin();
    disown();
    return GD_OK;
}
