/* counting.h - the blocks in which nonzero counts. */
#ifndef GRADINO_COUNTING_H
#define GRADINO_COUNTING_H

#include <stdint.h>

enum { GD_COUNT_BLOCK = 16 * 1024 }; /* elements: some 5 us */

static inline int64_t gd_count_blocks(int64_t n) { return (n + GD_COUNT_BLOCK - 1) / GD_COUNT_BLOCK; }

#endif
