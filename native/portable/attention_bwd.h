/* attention_bwd.h - gradients of attention: template like attention_blocks.h, included once per element type.
 * Scores of a block are computed again from what forward left, the logsumexp. dq adds up over blocks of keys, dk and dv
 * over heads and blocks of queries, always in ascending order: how blocks are dealt to threads changes no bit. */

/* A block of queries with all that does not depend on the keys. */
typedef struct ATT(block) {
    const job *j;
    int64_t b, h, t0, n, lanes;
    char *own;
    ATT_T *scores, *slopes, *keep, *lse, *delta;
} ATT(block);

/* Packs queries and slopes; delta = sum of g y per row. */
static ATT(block) ATT(block_of)(const job *j, int64_t b, int64_t h, int64_t i, int worker) {
    ATT(block) k = {.j = j, .b = b, .h = h, .t0 = i * GD_ATT_ROWS, .own = j->workspace + worker * j->room.bytes};
    k.n = least(GD_ATT_ROWS, j->rows - k.t0);
    k.lanes = ATT(lanes)(k.n);
    k.scores = (ATT_T *)(void *)(k.own + j->room.scores);
    k.slopes = (ATT_T *)(void *)(k.own + j->room.slopes);
    k.keep = (ATT_T *)(void *)(k.own + j->room.keep);
    k.lse = (ATT_T *)(void *)(k.own + j->room.stats);
    k.delta = k.lse + GD_ATT_ROWS;
    int64_t rs, cs, y_rs, y_cs;
    const ATT_T *y = ATT(rows)(j->y, b, h, k.t0, k.n, (ATT_T *)(void *)(k.own + j->room.out), &y_rs, &y_cs);
    const ATT_T *g = ATT(rows)(j->g, b, h, k.t0, k.n, (ATT_T *)(void *)(k.own + j->room.rows_g), &rs, &cs);
    for (int64_t r = 0; r < k.lanes; r++) k.lse[r] = (ATT_T)INFINITY, k.delta[r] = 0;
    memcpy(k.lse, (const ATT_T *)j->lse->data + (b * j->heads + h) * j->rows + k.t0, (size_t)k.n * sizeof(ATT_T));
    for (int64_t r = 0; r < k.n; r++) {
        double part[8] = {0}; /* fixed lanes, which compilers turn into vectors */
        const ATT_T *gr = g + r * rs, *yr = y + r * y_rs;
        int64_t c = 0;
        for (; cs == 1 && y_cs == 1 && c + 8 <= j->dv; c += 8)
            for (int lane = 0; lane < 8; lane++) part[lane] += (double)gr[c + lane] * (double)yr[c + lane];
        for (; c < j->dv; c++) part[c % 8] += (double)gr[c * cs] * (double)yr[c * y_cs];
        k.delta[r] = (ATT_T)(((part[0] + part[4]) + (part[1] + part[5])) + ((part[2] + part[6]) + (part[3] + part[7])));
    }
    ATT(pack_queries)(j->dv, k.n, g, rs, cs, k.own + j->room.gt);
    if (j->wanted & GD_ATT_DV) GD_KERNEL(gemm_pack)(ATT_DTYPE, k.n, j->dv, g, rs, cs, k.own + j->room.g);
    const ATT_T *q = ATT(rows)(j->q, b, h, k.t0, k.n, (ATT_T *)(void *)(k.own + j->room.rows_q), &rs, &cs);
    ATT(pack_queries)(j->d, k.n, q, rs, cs, k.own + j->room.qt);
    if (j->wanted & GD_ATT_DK) GD_KERNEL(gemm_pack)(ATT_DTYPE, k.n, j->d, q, rs, cs, k.own + j->room.q);
    return k;
}

/* Probabilities (times dropout's factor) into scores, the gradient of scaled scores, times `by`, into slopes, both for the keys
 * that a strip sees. *rows, rs, cs: the keys, as float32 if need be. False: none of them is seen. */
static bool ATT(block_scores)(const ATT(block) *k, int64_t s, int64_t keys, ATT_T by, const ATT_T **rows, int64_t *rs, int64_t *cs) {
    const job *j = k->j;
    gd_gemm_args product = {.k = j->d, .c_rs = GD_ATT_ROWS, .dtype = ATT_DTYPE};
    product.a = *rows = ATT(rows)(j->k, k->b, k->h / j->group, s, keys, (ATT_T *)(void *)(k->own + j->room.rows_k), rs, cs);
    product.a_rs = *rs, product.a_cs = *cs;
    ATT(times_queries)(j, k->t0, k->n, s, keys, &product, k->scores, k->own + j->room.qt);
    ATT_T scale;
    if (!ATT(apply_mask)(j, k->b, k->h, k->t0, k->n, s, keys, k->scores, &scale)) return false;
    product.k = j->dv;
    product.a = ATT(rows)(j->v, k->b, k->h / j->group, s, keys, (ATT_T *)(void *)(k->own + j->room.rows_v), &product.a_rs, &product.a_cs);
    ATT(times_queries)(j, k->t0, k->n, s, keys, &product, k->slopes, k->own + j->room.gt);
    if (j->drops) {
        ATT(dropout_mask)(j, k->b, k->h, k->t0, k->n, s, keys, k->keep);
        ATT(multiply)(k->slopes, k->keep, keys, k->n);
    }
    for (int64_t r = 0; r < k->lanes; r += GD_ATT_STRIP)
        ATT(slopes)(k->scores + r, k->slopes + r, seen_keys(j, k->t0, r + GD_ATT_STRIP, s, keys), least(GD_ATT_STRIP, k->lanes - r), scale, k->lse + r, k->delta + r, by);
    if (j->drops) ATT(multiply)(k->scores, k->keep, keys, k->n);
    return true;
}

/* Where sums go: rows `rs` apart, the first is number `first`; NULL: nowhere. From row `written` on there is nothing yet. */
typedef struct ATT(sums) {
    ATT_T *at;
    int64_t rs, first, written, columns;
} ATT(sums);

static ATT(sums) ATT(sums_of)(const job *j, int which, int64_t b, int64_t h, int64_t first, void *buffer) {
    const gd_view *out = j->out[which];
    ATT(sums) s = {.rs = j->half ? out->shape[3] : out->strides[2], .first = first, .written = first, .columns = out->shape[3]};
    if (j->wanted >> which & 1) s.at = j->half ? (ATT_T *)buffer : (ATT_T *)(uintptr_t)element(out, b, h, first);
    return s;
}

/* Rows up to `end` that hold nothing become 0. */
static void ATT(clear_to)(ATT(sums) *s, int64_t end) {
    for (; s->written < end; s->written++)
        if (s->at && s->columns) memset(s->at + (s->written - s->first) * s->rs, 0, (size_t)s->columns * sizeof(ATT_T));
}

/* Whether what comes to rows [from, to) is added to what is there; if not, it may be written over it. */
static bool ATT(adds)(ATT(sums) *s, int64_t from, int64_t to) {
    const bool adds = from < s->written;
    ATT(clear_to)(s, adds ? to : from);
    s->written = most(s->written, to);
    return adds;
}

static void ATT(finish)(const job *j, ATT(sums) *s, int which, int64_t b, int64_t h, int64_t end) {
    ATT(clear_to)(s, end);
    if (s->at && j->half) ATT(narrow)(j->out[which], b, h, s->first, end - s->first, s->at);
}

/* sums of the keys from s on += scores times packed rows of queries or slopes, strips that are seen by as many together. */
static void ATT(times_rows)(const ATT(block) *k, int64_t s, int64_t keys, const ATT_T *scores, const char *packed, ATT(sums) *sums) {
    const job *j = k->j;
    gd_gemm_args product = {.n = sums->columns, .a_rs = GD_ATT_ROWS, .a_cs = 1, .c_rs = sums->rs, .accumulate = ATT(adds)(sums, s, s + keys), .dtype = ATT_DTYPE};
    for (int64_t x = 0, end; x < keys; x = end) {
        const int64_t row = seeing_row(j, k->t0, k->n, s, x);
        for (end = x + GD_ATT_STRIP; end < keys && seeing_row(j, k->t0, k->n, s, end) == row;) end += GD_ATT_STRIP;
        product.m = least(end, keys) - x, product.k = k->n - row, product.a = scores + x * GD_ATT_ROWS + row, product.c = sums->at + (s + x - sums->first) * sums->rs;
        GD_KERNEL(gemm_packed_rows)(&product, packed, k->n, row);
    }
}

/* One block of queries against the keys [from, to) that it sees, `from` the start of a block. */
static void ATT(backward_rows)(const ATT(block) *k, int64_t from, int64_t to, ATT(sums) *dq, ATT(sums) *dk, ATT(sums) *dv) {
    const job *j = k->j;
    int64_t s0, s1, rs, cs;
    key_range(j, k->t0, k->t0 + k->n, &s0, &s1);
    for (int64_t s = most(s0, from); s < least(s1, to); s += GD_ATT_KEYS) {
        const int64_t keys = least(GD_ATT_KEYS, s1 - s);
        const ATT_T *rows;
        if (!ATT(block_scores)(k, s, keys, (ATT_T)j->scale, &rows, &rs, &cs)) continue;
        if (dv->at) ATT(times_rows)(k, s, keys, k->scores, k->own + j->room.g, dv);
        if (dk->at) ATT(times_rows)(k, s, keys, k->slopes, k->own + j->room.q, dk);
        if (!dq->at) continue;
        GD_KERNEL(gemm_pack)(ATT_DTYPE, keys, j->d, rows, rs, cs, k->own + j->room.k);
        ATT(times_keys)(j, k->t0, k->n, s, keys, k->slopes, k->own + j->room.k, j->d, dq->at, dq->rs, ATT(adds)(dq, k->t0, k->t0 + k->n));
    }
}

/* The gradients of one head of keys and all query heads that share it, or of one block of its keys. */
static void ATT(keys_block)(const job *j, int64_t task, int64_t from, int64_t to, bool with_dq, int worker) {
    const int64_t kv_heads = j->k->shape[1], b = task / kv_heads, hk = task % kv_heads;
    char *own = j->workspace + worker * j->room.bytes;
    ATT(sums) dk = ATT(sums_of)(j, 1, b, hk, from, own + j->room.dk), dv = ATT(sums_of)(j, 2, b, hk, from, own + j->room.dv);
    for (int64_t h = hk * j->group; h < (hk + 1) * j->group; h++)
        for (int64_t i = 0; i < j->row_blocks; i++) {
            const int64_t t0 = i * GD_ATT_ROWS, n = least(GD_ATT_ROWS, j->rows - t0);
            int64_t s0, s1;
            key_range(j, t0, t0 + n, &s0, &s1);
            if (!with_dq && (s1 <= from || s0 >= to)) continue;
            const ATT(block) k = ATT(block_of)(j, b, h, i, worker);
            ATT(sums) dq = {0};
            if (with_dq) dq = ATT(sums_of)(j, 0, b, h, t0, own + j->room.out);
            ATT(backward_rows)(&k, from, to, &dq, &dk, &dv);
            if (dq.at) ATT(finish)(j, &dq, 0, b, h, t0 + n);
        }
    ATT(finish)(j, &dk, 1, b, hk, to);
    ATT(finish)(j, &dv, 2, b, hk, to);
}

static void ATT(backward_task)(void *ctx, int64_t task, int worker) {
    const job *j = ctx;
    ATT(keys_block)(j, task, 0, j->keys, true, worker);
}

/* With few heads: dk and dv by blocks of keys, dq by blocks of queries. */
static void ATT(backward_keys_task)(void *ctx, int64_t task, int worker) {
    const job *j = ctx;
    const int64_t from = task % j->key_blocks * GD_ATT_KEYS;
    ATT(keys_block)(j, task / j->key_blocks, from, least(j->keys, from + GD_ATT_KEYS), false, worker);
}

static void ATT(backward_queries_task)(void *ctx, int64_t task, int worker) {
    const job *j = ctx;
    const int64_t bh = task / j->row_blocks, i = j->row_blocks - 1 - task % j->row_blocks, b = bh / j->heads, h = bh % j->heads;
    const ATT(block) k = ATT(block_of)(j, b, h, i, worker);
    ATT(sums) dq = ATT(sums_of)(j, 0, b, h, k.t0, k.own + j->room.out), none[2] = {{0}, {0}};
    ATT(backward_rows)(&k, 0, j->keys, &dq, &none[0], &none[1]);
    ATT(finish)(j, &dq, 0, b, h, k.t0 + k.n);
}

/* ---- The gradient of an additive mask: one block of it summed over all that it was broadcast to ------------------------- */

static void ATT(put_mask)(const gd_view *out, int64_t at, ATT_T x) {
    if (out->dtype == ATT_DTYPE) ((ATT_T *)out->data)[at] = x;
    else if (out->dtype == GD_FLOAT32) ((float *)out->data)[at] = (float)x;
    else ((uint16_t *)out->data)[at] = out->dtype == GD_BFLOAT16 ? gd_bf16_of_f32((float)x) : gd_f16_of_f32((float)x);
}

static void ATT(mask_task)(void *ctx, int64_t task, int worker) {
    const job *j = ctx;
    const gd_view *out = j->out[3];
    const bool each_row = out->shape[2] != 1 || j->rows == 1, each_key = out->shape[3] != 1 || j->keys == 1;
    const int64_t row_blocks = each_row ? j->row_blocks : 1, i0 = task % row_blocks, mh = task / row_blocks % out->shape[1], mb = task / row_blocks / out->shape[1];
    const int64_t b1 = out->shape[0] == 1 ? j->batches : mb + 1, h1 = out->shape[1] == 1 ? j->heads : mh + 1, i1 = each_row ? i0 + 1 : j->row_blocks;
    const int64_t t_first = i0 * GD_ATT_ROWS, t_count = each_row ? least(GD_ATT_ROWS, j->rows - t_first) : 1;
    const int64_t base = ((mb * out->shape[1] + mh) * out->shape[2] + (each_row ? t_first : 0)) * out->shape[3];
    ATT_T sum[GD_ATT_KEYS * GD_ATT_ROWS];
    double whole[GD_ATT_ROWS] = {0}; /* over all keys */
    for (int64_t s = 0; s < j->keys; s += GD_ATT_KEYS) {
        const int64_t keys = least(GD_ATT_KEYS, j->keys - s);
        memset(sum, 0, sizeof sum);
        for (int64_t b = mb; b < b1; b++)
            for (int64_t h = mh; h < h1; h++)
                for (int64_t i = i0; i < i1; i++) {
                    const ATT(block) k = ATT(block_of)(j, b, h, i, worker);
                    int64_t s0, s1, rs, cs;
                    const ATT_T *rows;
                    key_range(j, k.t0, k.t0 + k.n, &s0, &s1);
                    if (s < s0 || s >= s1) continue;
                    const int64_t seen = least(keys, s1 - s);
                    if (!ATT(block_scores)(&k, s, seen, 1, &rows, &rs, &cs)) continue;
                    for (int64_t x = 0; x < seen; x++)
                        for (int64_t r = seeing_row(j, k.t0, k.n, s, x); r < k.n; r++) sum[x * GD_ATT_ROWS + (each_row ? r : 0)] += k.slopes[x * GD_ATT_ROWS + r];
                }
        for (int64_t x = 0; x < keys; x++)
            for (int64_t r = 0; r < t_count; r++) {
                if (each_key) ATT(put_mask)(out, base + r * out->shape[3] + s + x, sum[x * GD_ATT_ROWS + r]);
                else whole[r] += (double)sum[x * GD_ATT_ROWS + r];
            }
    }
    for (int64_t r = 0; r < t_count && !each_key; r++) ATT(put_mask)(out, base + r * out->shape[3], (ATT_T)whole[r]);
}

static void ATT(backward)(const job *j) {
    const int64_t heads = j->batches * j->k->shape[1];
    if (heads >= 2 * gd_parallel_width()) {
        if (j->wanted & (GD_ATT_DQ | GD_ATT_DK | GD_ATT_DV)) run_tasks(j, heads, ATT(backward_task));
    } else {
        if (j->wanted & (GD_ATT_DK | GD_ATT_DV)) run_tasks(j, heads * j->key_blocks, ATT(backward_keys_task));
        if (j->wanted & GD_ATT_DQ) run_tasks(j, j->batches * j->heads * j->row_blocks, ATT(backward_queries_task));
    }
    if (!(j->wanted & GD_ATT_DMASK)) return;
    const gd_view *out = j->out[3];
    const int64_t row_blocks = out->shape[2] != 1 || j->rows == 1 ? j->row_blocks : 1;
    if (j->rows && j->keys) run_tasks(j, out->shape[0] * out->shape[1] * row_blocks, ATT(mask_task));
    else memset(out->data, 0, (size_t)(gd_numel(out) * gd_dtype_bytes(out->dtype)));
}
