/* gemm_blocks.h - sizes that the matrix product's drivers and its workspace have in common.
 * They move work around; the value of an element never depends on them (see gemm.h). */
#ifndef GRADINO_GEMM_BLOCKS_H
#define GRADINO_GEMM_BLOCKS_H

#include "gemm.h"

enum {
    GEMM_ROW_STEP = 84,     /* rows of a chunk come in these: whole register tiles of 14, 6 and 4 rows */
    GEMM_PANEL = 128,       /* bytes of one k of a packed panel of B: two AVX-512 vectors, the widest in use */
    GEMM_GROUP = 512,       /* bytes of one k of the columns of one task: over a k block they stay in L2 */
    GEMM_SHARED_ROWS = 168, /* above it packed B is shared; below, each task packs the panels of its columns */
    GEMM_PACK_A_ROWS = 8,   /* A is packed above as many rows ... */
    GEMM_PACK_A_COLUMNS = 96, /* ... and if each packed element is then used for as many columns */
};

/* Thin products: rows at once, columns of a chunk's accumulators (they stay in L1), k of one pass over them. */
enum { THIN_ROWS = 4, THIN_COLUMNS = 1024, STREAM_K = 8 };

/* Before a loop with a constant count, so that arrays of vectors become registers. */
#if defined(__clang__)
#define GEMM_UNROLL _Pragma("clang loop unroll(full)")
#else
#define GEMM_UNROLL _Pragma("GCC unroll 16")
#endif

/* Products below this many multiply-adds run on the calling thread (about 10 us of one core). */
static const int64_t gemm_large = 1 << 19;

static inline int64_t gemm_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t gemm_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static inline int64_t gemm_ceil(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* Whether m n k is above the limit; without overflow for any sizes that fit in memory. */
static inline bool gemm_is_large(int64_t m, int64_t n, int64_t k) {
    return (double)m * (double)n * (double)k > (double)gemm_large;
}

/* Bytes of one packed panel of B of one k block. */
static inline int64_t gemm_panel_bytes(int64_t k) {
    return GEMM_PANEL * gemm_min(k, GD_GEMM_KC);
}

/* Who packs: all together for all, or each worker for itself, which then takes rows or columns of its own. */
typedef enum gemm_way { GEMM_SHARED, GEMM_BY_ROWS, GEMM_BY_COLUMNS } gemm_way;

/* Chunks of a large product: A (rows x depth) and B (depth x columns) are packed and multiplied before the next.
 * depth is whole k blocks. Bytes are 0 where an operand is not packed as a chunk. */
typedef struct gemm_plan {
    gemm_way way;
    bool packs_a;
    int64_t rows, columns, depth;
    int64_t a_bytes, b_bytes; /* of packed chunks, shared or each worker's */
    int64_t worker_bytes;     /* of all that a worker packs for itself */
} gemm_plan;

#pragma GCC visibility push(hidden)
/* From the sizes of the caches; the same on every ISA. */
gemm_plan gd_gemm_plan(int64_t m, int64_t n, int64_t k, int64_t esize);
#pragma GCC visibility pop

#endif
