/* items.h - sorting words: by insertion, by merging, and by their upper halves digit by digit.
 * An item's upper half orders its value, the lower one is its place in the line (sorting.h). */
#ifndef GRADINO_ITEMS_H
#define GRADINO_ITEMS_H

#include <string.h>

#include "../kernel.h"
#include "../sorting.h"
#include "../thread.h"

enum { FEW = 16, SOME = 768 }; /* sorted by insertion, and by merging; above that digits are faster */

/* ---- Words that order values: smaller values, smaller words. NaN is the largest, and both zeros are one. ---------- */

static inline uint32_t word_of_f32(float x) {
    uint32_t bits;
    x += 0.0f; /* -0 becomes 0 */
    memcpy(&bits, &x, sizeof bits);
    const uint32_t word = bits ^ ((uint32_t)((int32_t)bits >> 31) | 0x80000000u);
    return x == x ? word : UINT32_MAX;
}
static inline uint64_t word_of_f64(double x) {
    uint64_t bits;
    x += 0.0;
    memcpy(&bits, &x, sizeof bits);
    const uint64_t word = bits ^ ((uint64_t)((int64_t)bits >> 63) | 0x8000000000000000u);
    return x == x ? word : UINT64_MAX;
}
static inline uint64_t word_of_i64(int64_t x) { return (uint64_t)x ^ 0x8000000000000000u; }
static inline uint32_t word_of_i32(int32_t x) { return (uint32_t)x ^ 0x80000000u; }
static inline uint32_t word_of_bool(uint8_t x) { return x; }

/* ---- Few items ------------------------------------------------------------------------------------------------ */

static inline void insertion_sort(uint64_t *item, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        const uint64_t v = item[i];
        int64_t k = i;
        for (; k > 0 && item[k - 1] > v; k--) item[k] = item[k - 1];
        item[k] = v;
    }
}

static inline void merge_runs(const uint64_t *a, int64_t na, const uint64_t *b, int64_t nb, uint64_t *to) {
    const uint64_t *a_end = a + na, *b_end = b + nb;
    while (a < a_end && b < b_end) {
        const uint64_t x = *a, y = *b;
        const int64_t second = y < x;
        *to++ = second ? y : x;
        b += second;
        a += 1 - second;
    }
    if (a < a_end) memcpy(to, a, (size_t)(a_end - a) * sizeof *to);
    else if (b < b_end) memcpy(to, b, (size_t)(b_end - b) * sizeof *to);
}

static inline void merge_sort(uint64_t *item, uint64_t *other, int64_t n) {
    for (int64_t i = 0; i < n; i += FEW) insertion_sort(item + i, n - i < FEW ? n - i : FEW);
    uint64_t *from = item, *to = other;
    for (int64_t run = FEW; run < n; run *= 2) {
        for (int64_t i = 0; i < n; i += 2 * run) {
            const int64_t first = n - i < run ? n - i : run, second = n - i - first < run ? n - i - first : run;
            merge_runs(from + i, first, from + i + first, second, to + i);
        }
        uint64_t *swap = from;
        from = to, to = swap;
    }
    if (from != item) memcpy(item, from, (size_t)n * sizeof *item);
}

/* ---- Many: the four digits of the upper halves, the lowest first -------------------------------------------------- */

typedef struct digit_pass {
    const uint64_t *from;
    uint64_t *to;
    int64_t n;
    int shift;
    uint32_t *count; /* (blocks, GD_SORT_DIGITS): how many, then where the next one goes */
} digit_pass;

static inline void count_block(void *ctx, int64_t i, int worker) {
    const digit_pass *p = ctx;
    const int64_t last = (i + 1) * GD_SORT_BLOCK < p->n ? (i + 1) * GD_SORT_BLOCK : p->n;
    uint32_t *count = p->count + i * GD_SORT_DIGITS;
    (void)worker;
    memset(count, 0, GD_SORT_DIGITS * sizeof *count);
    for (int64_t k = i * GD_SORT_BLOCK; k < last; k++) count[p->from[k] >> p->shift & (GD_SORT_DIGITS - 1)]++;
}

static inline void move_block(void *ctx, int64_t i, int worker) {
    const digit_pass *p = ctx;
    const int64_t last = (i + 1) * GD_SORT_BLOCK < p->n ? (i + 1) * GD_SORT_BLOCK : p->n;
    uint32_t *next = p->count + i * GD_SORT_DIGITS;
    (void)worker;
    for (int64_t k = i * GD_SORT_BLOCK; k < last; k++) p->to[next[p->from[k] >> p->shift & (GD_SORT_DIGITS - 1)]++] = p->from[k];
}

static inline void sort_digits_split(uint64_t *item, uint64_t *other, int64_t n, uint32_t *count) {
    const int64_t blocks = gd_sort_blocks(n);
    digit_pass p = {item, other, n, 32, count};
    for (; p.shift < 64; p.shift += 8) {
        gd_parallel(blocks, count_block, &p);
        uint32_t at = 0;
        bool one_digit = false;
        for (int d = 0; d < GD_SORT_DIGITS; d++) {
            const uint32_t first = at;
            for (int64_t b = 0; b < blocks; b++) {
                const uint32_t c = count[b * GD_SORT_DIGITS + d];
                count[b * GD_SORT_DIGITS + d] = at;
                at += c;
            }
            one_digit |= at - first == (uint32_t)n;
        }
        if (one_digit) continue;
        gd_parallel(blocks, move_block, &p);
        uint64_t *moved = p.to;
        p.to = (uint64_t *)(uintptr_t)p.from, p.from = moved;
    }
    if (p.from != item) memcpy(item, p.from, (size_t)n * sizeof *item);
}

static inline void sort_digits(uint64_t *item, uint64_t *other, int64_t n) {
    uint32_t count[4][GD_SORT_DIGITS];
    memset(count, 0, sizeof count);
    for (int64_t k = 0; k < n; k++)
        for (int d = 0; d < 4; d++) count[d][item[k] >> (32 + 8 * d) & (GD_SORT_DIGITS - 1)]++;
    uint64_t *from = item, *to = other;
    for (int d = 0; d < 4; d++) {
        const int shift = 32 + 8 * d;
        uint32_t *next = count[d], at = 0;
        if (next[from[0] >> shift & (GD_SORT_DIGITS - 1)] == (uint32_t)n) continue;
        for (int k = 0; k < GD_SORT_DIGITS; k++) {
            const uint32_t c = next[k];
            next[k] = at;
            at += c;
        }
        for (int64_t k = 0; k < n; k++) to[next[from[k] >> shift & (GD_SORT_DIGITS - 1)]++] = from[k];
        uint64_t *swap = from;
        from = to, to = swap;
    }
    if (from != item) memcpy(item, from, (size_t)n * sizeof *item);
}

/* Items, whose lower halves ascend where the upper ones are equal, in order. `other` has room for n, `count` for the
 * counters of sorting.h. */
static inline void sort_items(uint64_t *item, uint64_t *other, int64_t n, uint32_t *count) {
    if (n <= FEW) insertion_sort(item, n);
    else if (n <= SOME) merge_sort(item, other, n);
    else if (n < GD_SORT_SPLIT) sort_digits(item, other, n);
    else sort_digits_split(item, other, n, count);
}

/* ---- Lines: all entries along one dimension --------------------------------------------------------------------- */

/* Offset of line l of v along dim: its place in the other three dimensions, in row-major order. */
static inline int64_t line_offset(const gd_view *v, int dim, int64_t l) {
    int64_t offset = 0;
    for (int d = GD_DIMS - 1; d >= 0; d--) {
        if (d == dim) continue;
        offset += l % v->shape[d] * v->strides[d];
        l /= v->shape[d];
    }
    return offset;
}

#endif
