/* gemm_blocks.h - sizes that the matrix product's drivers and its workspace have in common.
 * They move work around; the value of an element never depends on them (see gemm.h). */
#ifndef GRADINO_GEMM_BLOCKS_H
#define GRADINO_GEMM_BLOCKS_H

#include "gemm.h"

enum {
    GEMM_MC = 336,         /* most rows of a tile of C: 24 x 14 and 56 x 6; its packed A stays in L2 */
    GEMM_NC = 1024,        /* most columns of a tile of C; packing its rows of A is paid off over them */
    GEMM_SHARED_ROWS = 168, /* above it packed B is shared by tiles above each other */
    GEMM_PANEL = 128,      /* bytes of one k of a packed panel of B: two AVX-512 vectors, the widest in use */
};

/* Before a loop with a constant count, so that arrays of vectors become registers. */
#if defined(__clang__)
#define GEMM_UNROLL _Pragma("clang loop unroll(full)")
#else
#define GEMM_UNROLL _Pragma("GCC unroll 16")
#endif

/* Products below this many multiply-adds run on the calling thread (about 20 us of one core). */
static const int64_t gemm_large = 1 << 20;

static inline int64_t gemm_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t gemm_ceil(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* Whether m n k is above the limit; without overflow for any sizes that fit in memory. */
static inline bool gemm_is_large(int64_t m, int64_t n, int64_t k) {
    return (double)m * (double)n * (double)k > (double)gemm_large;
}

/* Bytes of one panel buffer, of packed B of one k block, and of packed A of one tile. */
static inline int64_t gemm_panel_bytes(int64_t k) {
    return GEMM_PANEL * gemm_min(k, GD_GEMM_KC);
}
static inline int64_t gemm_block_b_bytes(int64_t n, int64_t k, int64_t esize) {
    return gemm_ceil(n * esize, GEMM_PANEL) * gemm_panel_bytes(k);
}
static inline int64_t gemm_block_a_bytes(int64_t k, int64_t esize) {
    return gemm_ceil(GEMM_MC * gemm_min(k, GD_GEMM_KC) * esize, GD_ALIGN) * GD_ALIGN;
}

#endif
