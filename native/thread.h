/* thread.h - the pool as kernels use it. Work is split into tasks of fixed size, never by the
 * number of threads, so results do not depend on it. */
#ifndef GRADINO_THREAD_H
#define GRADINO_THREAD_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

enum { GD_MAX_THREADS = 1024 };

/* Runs task(ctx, i, worker) for every i in [0, ntasks), each once, on any thread, and returns when
 * all are done. worker is in [0, gd_parallel_width()) and no two running tasks share one, so it
 * may index per-worker workspace. Nested calls and calls while another thread holds the pool run
 * on the calling thread (worker 0). Does not allocate. */
void gd_parallel(int64_t ntasks, void (*task)(void *ctx, int64_t i, int worker), void *ctx);

/* Largest number of workers a gd_parallel call of this thread may use now (>= 1). */
int gd_parallel_width(void);

/* Takes up a thread count that another thread has set. Called where an op is dispatched and nowhere
 * else: between its shape rule, which sizes per-worker workspace, and its kernel the width must stay. */
void gd_parallel_refresh(void);

#pragma GCC visibility pop
#endif
