/* sorting.h - what shape rules and kernels of sort and topk agree on: items, and the memory they need. */
#ifndef GRADINO_SORTING_H
#define GRADINO_SORTING_H

#include <stdint.h>

/* An item is one word: 32 bits that order the value, then its place. So no two are equal, and any sort is stable. */
enum {
    GD_SORT_BLOCK = 32 * 1024,     /* items that one task of a split pass moves: about 50 us */
    GD_SORT_SPLIT = 128 * 1024,    /* lines of at least so many entries are sorted by all threads together */
    GD_SORT_DIGITS = 256,          /* of one pass: its counters stay in L1 */
    GD_TOP_MOST = 1024,            /* more than so many are taken from a sorted line */
    GD_TOP_SHARE = 8,              /* more than one of so many, too */
    GD_TOP_TILE = 64 * 1024        /* entries of a long line that one task looks through: about 20 us */
};

static inline int64_t gd_sort_blocks(int64_t n) { return (n + GD_SORT_BLOCK - 1) / GD_SORT_BLOCK; }

/* Two buffers of n items, and the counters of its blocks. */
static inline int64_t gd_sort_line_bytes(int64_t n) {
    return 2 * n * (int64_t)sizeof(uint64_t) + (n >= GD_SORT_SPLIT ? gd_sort_blocks(n) : 1) * GD_SORT_DIGITS * (int64_t)sizeof(uint32_t) + 64;
}

static inline int64_t gd_sort_bytes(int64_t n, int64_t lines, int64_t width) {
    const int64_t line = (gd_sort_line_bytes(n) + 63) & -(int64_t)64;
    return n >= GD_SORT_SPLIT ? line : line * (lines < width ? lines : width);
}

/* The buffer of candidates: some are taken before it is put in order. */
static inline int64_t gd_top_room(int64_t k) { return 2 * k < 64 ? 64 : 2 * k; }

static inline int64_t gd_top_bytes(int64_t n, int64_t k, int64_t width) {
    const int64_t worker = (gd_sort_line_bytes(gd_top_room(k)) + 63) & -(int64_t)64, tiles = (n + GD_TOP_TILE - 1) / GD_TOP_TILE;
    return width * worker + (n >= GD_SORT_SPLIT ? ((gd_sort_line_bytes(tiles * k) + 63) & -(int64_t)64) : 0);
}

static inline int gd_top_selects(int64_t n, int64_t k, int wide) { return !wide && k <= GD_TOP_MOST && k <= n / GD_TOP_SHARE; }

#endif
