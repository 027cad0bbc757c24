/* cpu.h - what this machine can do and what of it is used: instruction sets, caches, processors. */
#ifndef GRADINO_CPU_H
#define GRADINO_CPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gradino.h"

#pragma GCC visibility push(hidden)

/* The kernel sets, weakest first; each falls back on the ones before it. */
typedef enum gd_isa { GD_ISA_PORTABLE, GD_ISA_AVX2, GD_ISA_AVX512, GD_ISAS } gd_isa;

/* Bytes; never 0: where the system does not tell, what is common. The last level is shared by cores. */
typedef struct gd_caches {
    int64_t l1d, l2, l3;
} gd_caches;

extern atomic_int gd_isa_in_use;

/* The kernel set that ops run now. */
static inline gd_isa gd_current_isa(void) { return (gd_isa)atomic_load_explicit(&gd_isa_in_use, memory_order_relaxed); }

/* Whether products of bfloat16 run on the processor's dot products of pairs: with the AVX-512 set, where it has them. */
bool gd_multiplies_bf16_pairs(void);

gd_caches gd_cache_sizes(void);

/* Processors this process may keep busy: the least of those online, the caller's affinity mask
 * and the cgroup quota, rounded up. */
int gd_usable_cpus(void);

/* The limits that this comes from, and what the environment asks for; leaves the caches alone. */
void gd_processor_limits(gd_machine *out);

/* GD_OK, or GD_WARNING with a warning where GRADINO_NUM_THREADS is not a thread count. */
gd_status gd_check_thread_environment(void);

#pragma GCC visibility pop
#endif
