/* attention_job.h - an attention call as its tasks see it: sizes, what a query may attend to, dropout; for every ISA. */
#ifndef GRADINO_ATTENTION_JOB_H
#define GRADINO_ATTENTION_JOB_H

#include <string.h>

#include "../attention.h"
#include "../half.h"
#include "../random.h"
#include "../thread.h"

/* Below this many multiply-adds everything runs on the calling thread (some 10 us). */
static const double attention_alone = 1 << 19;

typedef struct job {
    const gd_view *q, *k, *v, *mask, *g, *y, *lse; /* g, y, lse: backward */
    gd_view *out[4];                              /* forward: y, logsumexp; backward: dq, dk, dv, dmask */
    int64_t batches, heads, group, rows, keys, d, dv; /* group: query heads that share a head of keys */
    int64_t row_blocks, key_blocks;
    int64_t before, after, shift; /* row t stands at key t + shift */
    int64_t wanted;
    double scale, keep_scale;
    uint64_t seed, offset;
    int32_t threshold; /* dropout keeps words of 24 bits from here on */
    bool drops, half;
    gd_attention_room room;
    char *workspace;
} job;

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static job job_of(const gd_args *a, bool backward) {
    const int first = backward ? 1 : 0;
    const gd_attr *at = a->attr;
    job j = {.q = a->in[first], .k = a->in[first + 1], .v = a->in[first + 2], .mask = a->in[first + 3], .scale = at->f[0], .workspace = a->workspace};
    if (backward) j.g = a->in[0], j.y = a->in[5], j.lse = a->in[6];
    for (int k = 0; k < a->nout; k++) j.out[k] = a->out[k];
    j.batches = j.q->shape[0], j.heads = j.q->shape[1], j.rows = j.q->shape[2], j.d = j.q->shape[3];
    j.keys = j.k->shape[2], j.dv = j.v->shape[3];
    j.group = j.k->shape[1] ? j.heads / j.k->shape[1] : 1;
    j.row_blocks = (j.rows + GD_ATT_ROWS - 1) / GD_ATT_ROWS;
    j.key_blocks = (j.keys + GD_ATT_KEYS - 1) / GD_ATT_KEYS;
    j.before = at->i[GD_ATT_BEFORE], j.after = at->i[GD_ATT_AFTER];
    j.shift = at->i[GD_ATT_AT_END] ? j.keys - j.rows : 0;
    j.wanted = at->i[GD_ATT_WANTED];
    const double p = at->f[1];
    j.drops = p > 0;
    j.keep_scale = p < 1 ? 1 / (1 - p) : 0;
    j.threshold = (int32_t)__builtin_ceil(p * 0x1p24);
    j.seed = (uint64_t)at->i[GD_ATT_SEED], j.offset = (uint64_t)at->i[GD_ATT_OFFSET];
    j.half = gd_is_half(j.q->dtype);
    j.room = gd_attention_room_of(j.keys, j.d, j.dv, j.q->dtype, backward);
    return j;
}

/* The keys [*s0, *s1) that rows [t0, t1) see between them, from the start of a block on. */
static void key_range(const job *j, int64_t t0, int64_t t1, int64_t *s0, int64_t *s1) {
    *s0 = j->before < 0 ? 0 : most(0, t0 + j->shift - j->before) / GD_ATT_KEYS * GD_ATT_KEYS;
    *s1 = j->after < 0 ? j->keys : most(0, least(j->keys, t1 + j->shift + j->after));
}

/* Of the `keys` keys at s0, how many a strip or panel that ends before row t0 + end can see; whole strips, so possibly some more. */
static inline int64_t seen_keys(const job *j, int64_t t0, int64_t end, int64_t s0, int64_t keys) {
    if (j->after < 0) return keys;
    const int64_t strip = GD_ATT_STRIP, whole = (t0 + j->shift + j->after - s0 + strip - 1) & -strip;
    return most(0, least(keys, whole + ((end + strip - 1) & -strip)));
}

/* The other way round: the first of n rows at t0 that can see the strip of keys at s0 + x; a whole strip, or n. */
static inline int64_t seeing_row(const job *j, int64_t t0, int64_t n, int64_t s0, int64_t x) {
    if (j->after < 0) return 0;
    const int64_t strip = GD_ATT_STRIP, whole = (t0 + j->shift + j->after - s0 + strip - 1) & -strip;
    return least(n, most(0, x / strip * strip - whole));
}

static inline const char *element(const gd_view *v, int64_t b, int64_t h, int64_t t) {
    return (const char *)v->data + (b * v->strides[0] + h * v->strides[1] + t * v->strides[2]) * gd_dtype_bytes(v->dtype);
}

/* One element of a half as float32, and back. */
static inline float half_as_f32(uint16_t h, int dtype) { return dtype == GD_BFLOAT16 ? gd_f32_of_bf16(h) : gd_f32_of_f16(h); }

/* n rows of `columns` elements as float32, rows side by side. */
static void widen_rows(const gd_view *v, const char *from, int64_t n, int64_t columns, float *to) {
    const uint16_t *h = (const uint16_t *)(const void *)from;
    if (v->strides[3] == 1 && v->strides[2] == columns) {
        GD_KERNEL(widen_half)(to, h, n * columns, v->dtype);
        return;
    }
    for (int64_t r = 0; r < n; r++, h += v->strides[2], to += columns) {
        if (v->strides[3] == 1) GD_KERNEL(widen_half)(to, h, columns, v->dtype);
        else
            for (int64_t c = 0; c < columns; c++) to[c] = half_as_f32(h[c * v->strides[3]], v->dtype);
    }
}

/* Words of the four keys from 4 s4 on, for n queries from t0 on: words[k][query]. Each (batch, head, query) has a
 * counter of its own for every four keys. */
static void dropout_words(const job *j, int64_t b, int64_t h, int64_t t0, int64_t n, int64_t s4, uint32_t words[4][GD_ATT_ROWS]) {
    const uint64_t step = (uint64_t)(j->keys + 3) / 4, first = j->offset + (uint64_t)((b * j->heads + h) * j->rows + t0) * step + (uint64_t)s4;
    const uint32_t key0 = (uint32_t)j->seed, key1 = (uint32_t)(j->seed >> 32);
    for (int64_t r = 0; r < n; r++) {
        const uint64_t counter = first + (uint64_t)r * step, low = UINT32_MAX;
        uint64_t c0 = counter & low, c1 = counter >> 32, c2 = 0, c3 = 0;
        uint32_t k0 = key0, k1 = key1;
        for (int round = 0; round < GD_PHILOX_ROUNDS; round++, k0 += GD_PHILOX_W0, k1 += GD_PHILOX_W1) {
            const uint64_t p0 = GD_PHILOX_M0 * (c0 & low), p1 = GD_PHILOX_M1 * (c2 & low);
            c0 = (p1 >> 32) ^ c1 ^ k0;
            c2 = (p0 >> 32) ^ c3 ^ k1;
            c1 = p1;
            c3 = p0;
        }
        words[0][r] = (uint32_t)c0, words[1][r] = (uint32_t)c1, words[2][r] = (uint32_t)c2, words[3][r] = (uint32_t)c3;
    }
}

static void run_tasks(const job *j, int64_t tasks, void (*task)(void *ctx, int64_t i, int worker)) {
    const double work = (double)(j->batches * j->heads) * (double)j->rows * (double)j->keys * (double)(j->d + j->dv);
    if (work <= attention_alone)
        for (int64_t i = 0; i < tasks; i++) task((void *)(uintptr_t)j, i, 0);
    else gd_parallel(tasks, task, (void *)(uintptr_t)j);
}

#endif
