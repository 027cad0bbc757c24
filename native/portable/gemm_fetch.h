/* gemm_fetch.h - what a product needs next, fetched into L2 line by line while register tiles multiply: one line for
 * each k of a tile, which hides behind its multiply-adds. Packing then reads from L2 what would come from further away. */
#ifndef GRADINO_GEMM_FETCH_H
#define GRADINO_GEMM_FETCH_H

#include "../kernel.h"

/* Lines to fetch: `rows` times `length` bytes, `stride` bytes apart; `at` is the next one, of a row that ends at `end`. */
typedef struct gemm_lines {
    const char *at, *end;
    int64_t length, stride, rows;
} gemm_lines;

static inline gemm_lines gemm_lines_of(const void *first, int64_t rows, int64_t length, int64_t stride) {
    const char *at = first;
    return (gemm_lines){at - (uintptr_t)at % GD_ALIGN, at + length, length, stride, rows};
}

static inline void gemm_fetch_line(gemm_lines *l) {
    if (l->rows <= 0) return;
    __builtin_prefetch(l->at, 0, 2);
    l->at += GD_ALIGN;
    if (l->at < l->end) return;
    l->end += l->stride;
    l->at = l->end - l->length;
    l->at -= (uintptr_t)l->at % GD_ALIGN;
    l->rows--;
}

/* What is fetched first, and what then. */
typedef struct gemm_ahead {
    gemm_lines list[2];
} gemm_ahead;

#endif
