/* attention.cuh - an attention call as its kernels see it: sizes, what a query may attend to, dropout.
 * After Dao et al., FlashAttention, 2022. */
#ifndef GRADINO_CUDA_ATTENTION_CUH
#define GRADINO_CUDA_ATTENTION_CUH

#include "formulas.cuh"

#include "../random.h"

/* Attributes; see native/attention.h. */
enum { GD_ATT_BEFORE, GD_ATT_AFTER, GD_ATT_AT_END, GD_ATT_WANTED, GD_ATT_SEED = 6, GD_ATT_OFFSET = 7 };
enum { GD_ATT_DQ = 1, GD_ATT_DK = 2, GD_ATT_DV = 4, GD_ATT_DMASK = 8 };

/* A tensor (B,H,T,D): where its element (b, h, 0, 0) is, and steps from row to row and from column to column. */
struct gd_att_tensor {
    char *data;
    int64_t b, h, t, d;
};

struct gd_att_job {
    gd_att_tensor q, k, v, g, y, dq, dk, dv;
    const void *mask;
    int64_t mask_b, mask_h, mask_t, mask_s;
    void *lse, *delta;                                   /* (B,H,T) of the type computed in */
    int64_t batches, heads, group, rows, keys, d, e;     /* group: query heads that share a head of keys */
    int64_t before, after, shift;                        /* row t stands at key t + shift */
    uint64_t seed, offset;
    double scale, keep_scale;
    int32_t threshold;  /* dropout keeps words of 24 bits from here on */
    int mask_dtype;     /* -1: no mask */
    int wanted;
    bool drops;
};

static inline gd_att_tensor gd_att_tensor_of(const gd_view *v) {
    gd_att_tensor t = {};
    if (v) t = {(char *)v->data, v->strides[0], v->strides[1], v->strides[2], v->strides[3]};
    return t;
}

static inline gd_att_job gd_att_job_of(const gd_args *a, bool backward) {
    const gd_view *const *in = a->in + (backward ? 1 : 0), *q = in[0], *k = in[1], *v = in[2], *mask = in[3];
    const gd_attr *at = a->attr;
    gd_att_job j = {};
    j.q = gd_att_tensor_of(q), j.k = gd_att_tensor_of(k), j.v = gd_att_tensor_of(v);
    j.batches = q->shape[0], j.heads = q->shape[1], j.rows = q->shape[2], j.d = q->shape[3], j.keys = k->shape[2], j.e = v->shape[3];
    j.group = k->shape[1] ? j.heads / k->shape[1] : 1;
    j.before = at->i[GD_ATT_BEFORE], j.after = at->i[GD_ATT_AFTER];
    j.shift = at->i[GD_ATT_AT_END] ? j.keys - j.rows : 0;
    j.wanted = (int)at->i[GD_ATT_WANTED];
    j.scale = at->f[0];
    const double p = at->f[1];
    j.drops = p > 0;
    j.keep_scale = p < 1 ? 1 / (1 - p) : 0;
    j.threshold = (int32_t)ceil(p * 0x1p24);
    j.seed = (uint64_t)at->i[GD_ATT_SEED], j.offset = (uint64_t)at->i[GD_ATT_OFFSET];
    j.mask_dtype = -1;
    if (mask) {
        int64_t step[4];
        for (int i = 0; i < 4; i++) step[i] = mask->shape[i] == 1 ? 0 : mask->strides[i];
        j.mask = mask->data, j.mask_dtype = mask->dtype;
        j.mask_b = step[0], j.mask_h = step[1], j.mask_t = step[2], j.mask_s = step[3];
    }
    if (!backward) {
        j.y = gd_att_tensor_of(a->out[0]);
        j.lse = a->out[1]->data;
        return j;
    }
    j.g = gd_att_tensor_of(a->in[0]), j.y = gd_att_tensor_of(a->in[5]);
    j.lse = a->in[6]->data, j.delta = a->workspace;
    j.dq = gd_att_tensor_of(a->out[0]), j.dk = gd_att_tensor_of(a->out[1]), j.dv = gd_att_tensor_of(a->out[2]);
    return j;
}

template <typename T> GD_DEVICE T *gd_att_head(const gd_att_tensor &t, int64_t b, int64_t h) { return (T *)t.data + b * t.b + h * t.h; }

/* The keys [*s0, *s1) that rows [t0, t1) see between them, from the start of a block of keys on. */
GD_DEVICE void gd_att_key_range(const gd_att_job &j, int64_t t0, int64_t t1, int64_t block, int64_t *s0, int64_t *s1) {
    const int64_t first = t0 + j.shift - j.before, end = t1 + j.shift + j.after;
    *s0 = j.before < 0 || first < 0 ? 0 : first / block * block;
    *s1 = j.after < 0 ? j.keys : end < 0 ? 0 : end < j.keys ? end : j.keys;
}

/* The rows [*t0, *t1) that see a key of [s0, s1), from the start of a block of rows on. */
GD_DEVICE void gd_att_row_range(const gd_att_job &j, int64_t s0, int64_t s1, int64_t block, int64_t *t0, int64_t *t1) {
    const int64_t first = s0 - j.shift - j.after, end = s1 - j.shift + j.before;
    *t0 = j.after < 0 || first < 0 ? 0 : first / block * block;
    *t1 = j.before < 0 ? j.rows : end < 0 ? 0 : end < j.rows ? end : j.rows;
}

/* A score as softmax takes it: scaled, with what the mask says; -inf where row t may not attend to key s. */
template <typename I> GD_DEVICE I gd_att_score(const gd_att_job &j, int64_t b, int64_t h, int64_t t, int64_t s, I product) {
    if (t >= j.rows || s >= j.keys) return -(I)INFINITY;
    if ((j.after >= 0 && s > t + j.shift + j.after) || (j.before >= 0 && s < t + j.shift - j.before)) return -(I)INFINITY;
    I x = product * (I)j.scale;
    if (j.mask_dtype < 0) return x;
    const int64_t at = b * j.mask_b + h * j.mask_h + t * j.mask_t + s * j.mask_s;
    switch (j.mask_dtype) {
    case GD_BOOL: return ((const uint8_t *)j.mask)[at] ? x : -(I)INFINITY;
    case GD_FLOAT32: return x + (I)((const float *)j.mask)[at];
    case GD_FLOAT64: return x + (I)((const double *)j.mask)[at];
    case GD_BFLOAT16: return x + (I)gd_wide(((const gd_bf16 *)j.mask)[at]);
    default: return x + (I)gd_wide(((const gd_f16 *)j.mask)[at]);
    }
}

/* Dropout's words of keys 4 (s / 4) .. + 3 of row t: each (batch, head, row) has a counter of its own for every four keys. */
GD_DEVICE void gd_att_words(const gd_att_job &j, int64_t b, int64_t h, int64_t t, int64_t s, uint32_t *words) {
    const uint64_t step = (uint64_t)(j.keys + 3) / 4;
    gd_philox(j.seed, j.offset + (uint64_t)((b * j.heads + h) * j.rows + t) * step + (uint64_t)s / 4, 0, words);
}
GD_DEVICE bool gd_att_keeps(const gd_att_job &j, uint32_t word) { return (int32_t)(word >> 8) >= j.threshold; }

#endif
