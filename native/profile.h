/* profile.h - what a running profile notes: one predictable branch where an op runs, nothing else while there is none. */
#ifndef GRADINO_PROFILE_H
#define GRADINO_PROFILE_H

#include "engine.h"

#pragma GCC visibility push(hidden)

extern atomic_bool gd_profiling;
/* The time an op began, or 0 while nothing is profiled. */
static inline int64_t gd_profile_began(void) {
    return __builtin_expect(atomic_load_explicit(&gd_profiling, memory_order_relaxed), 0) ? gd_profile_clock() : 0;
}
/* Notes an op that began then. arena: where its results lie, or NULL; workspace in bytes, still taken. */
void gd_profile_op(int op, const gd_args *a, gd_arena *arena, int64_t workspace, int64_t began);
/* An optimizer's kernel on n elements that reads and writes so many bytes of each. */
void gd_profile_update(gd_optim_op op, const gd_optim_args *a, int64_t began);
/* kind: GD_PROFILE_RESET and so on, after it happened. Lock not held. */
void gd_profile_note_arena(int kind, gd_arena *arena);
static inline void gd_profile_arena(int kind, gd_arena *arena) {
    if (__builtin_expect(atomic_load_explicit(&gd_profiling, memory_order_relaxed), 0)) gd_profile_note_arena(kind, arena);
}

#pragma GCC visibility pop
#endif
