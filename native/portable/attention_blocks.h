/* attention_blocks.h - blocks of queries and keys: template, included once per element type; attention_bwd.h follows it.
 * Scores stand transposed, scores[key][query] with GD_ATT_ROWS queries to a row, so that a vector holds one number of
 * each of its queries: keys, values and probabilities are read where they are, and nothing is summed across a vector.
 *
 * The includer defines ATT(name), ATT_T the element computed in, ATT_DTYPE, ATT_BITS, and on `lanes` queries (whole
 * vectors; what is past the last query may be anything):
 *   ATT(softmax_step)(scores, keys, lanes, scale, most, sum, correction)  scores become exp(scale score - most); most and
 *       sum are brought up to date, correction is what earlier sums are to be multiplied by; returns whether any is not 1
 *   ATT(slopes)(scores, slopes, keys, lanes, scale, lse, delta, by)  scores become probabilities, slopes p (slope - delta) by */

/* Rows [t, t + n) of head h as the products read them: in place, or as float32 in the buffer. */
static const ATT_T *ATT(rows)(const gd_view *v, int64_t b, int64_t h, int64_t t, int64_t n, ATT_T *buffer, int64_t *rs, int64_t *cs) {
    const char *from = element(v, b, h, t);
    *rs = v->strides[2], *cs = v->strides[3];
    if (!gd_is_half(v->dtype)) return (const ATT_T *)(const void *)from;
    *rs = v->shape[3], *cs = 1;
    widen_rows(v, from, n, v->shape[3], (float *)(void *)buffer);
    return buffer;
}

/* Rows of sums are rounded into a tensor of bfloat16 or float16. */
static void ATT(narrow)(const gd_view *out, int64_t b, int64_t h, int64_t t, int64_t n, const ATT_T *rows) {
    for (int64_t r = 0; r < n; r++)
        GD_KERNEL(narrow_half)((uint16_t *)(uintptr_t)element(out, b, h, t + r), (const float *)(const void *)(rows + r * out->shape[3]), out->shape[3], out->dtype);
}

static inline ATT_T ATT(mask_number)(const gd_view *m, int64_t at) {
    if (m->dtype == ATT_DTYPE) return ((const ATT_T *)m->data)[at];
    if (m->dtype == GD_FLOAT32) return (ATT_T)((const float *)m->data)[at];
    return (ATT_T)half_as_f32(((const uint16_t *)m->data)[at], m->dtype);
}

/* What the mask says of n rows and some keys: forbidden scores become -inf, a float mask is added to scaled scores.
 * *scale: what the scores are still to be multiplied by. False: none of them is allowed. */
static bool ATT(apply_mask)(const job *j, int64_t b, int64_t h, int64_t t0, int64_t n, int64_t s0, int64_t keys, ATT_T *scores, ATT_T *scale) {
    const gd_view *m = j->mask;
    bool any = !m || m->dtype != GD_BOOL;
    *scale = (ATT_T)j->scale;
    if ((m && m->dtype != GD_BOOL) || !(j->scale > 0)) { /* scores are not in order before they are scaled */
        for (int64_t s = 0; s < keys; s++)
            for (int64_t r = 0; r < n; r++) scores[s * GD_ATT_ROWS + r] *= (ATT_T)j->scale;
        *scale = 1;
    }
    if (m) {
        int64_t st[4];
        for (int d = 0; d < 4; d++) st[d] = m->shape[d] == 1 ? 0 : m->strides[d];
        const int64_t at = b * st[0] + h * st[1] + t0 * st[2] + s0 * st[3];
        if (m->dtype != GD_BOOL) {
            for (int64_t r = 0; r < n; r++)
                for (int64_t s = 0; s < keys; s++) scores[s * GD_ATT_ROWS + r] += ATT(mask_number)(m, at + r * st[2] + s * st[3]);
        } else if (st[2] == 0) {
            for (int64_t s = 0; s < keys; s++) {
                if (((const uint8_t *)m->data)[at + s * st[3]]) any = true;
                else
                    for (int64_t r = 0; r < n; r++) scores[s * GD_ATT_ROWS + r] = -(ATT_T)INFINITY;
            }
        } else {
            for (int64_t r = 0; r < n; r++) {
                const uint8_t *allowed = (const uint8_t *)m->data + at + r * st[2];
                for (int64_t s = 0; s < keys; s++) {
                    const bool keep = allowed[s * st[3]] != 0;
                    any |= keep;
                    scores[s * GD_ATT_ROWS + r] = keep ? scores[s * GD_ATT_ROWS + r] : -(ATT_T)INFINITY;
                }
            }
        }
    }
    if (j->after >= 0) /* rows r with s0 + s > t0 + r + shift + after */
        for (int64_t s = 0; s < keys; s++) {
            const int64_t end = least(n, s0 + s - (t0 + j->shift + j->after));
            for (int64_t r = 0; r < end; r++) scores[s * GD_ATT_ROWS + r] = -(ATT_T)INFINITY;
        }
    if (j->before >= 0) /* rows r with s0 + s < t0 + r + shift - before */
        for (int64_t s = 0; s < keys; s++)
            for (int64_t r = most(0, s0 + s - (t0 + j->shift - j->before) + 1); r < n; r++) scores[s * GD_ATT_ROWS + r] = -(ATT_T)INFINITY;
    return any;
}

/* keep[key][query]: 0 where dropout drops, else 1 / (1 - p). s0 is a multiple of four. */
static void ATT(dropout_mask)(const job *j, int64_t b, int64_t h, int64_t t0, int64_t n, int64_t s0, int64_t keys, ATT_T *keep) {
    uint32_t words[4][GD_ATT_ROWS];
    const ATT_T scale = (ATT_T)j->keep_scale;
    for (int64_t s = 0; s < keys; s += 4) {
        dropout_words(j, b, h, t0, n, (s0 + s) / 4, words);
        for (int64_t k = 0; k < 4 && s + k < keys; k++)
            for (int64_t r = 0; r < n; r++) keep[(s + k) * GD_ATT_ROWS + r] = (int32_t)(words[k][r] >> 8) >= j->threshold ? scale : 0;
    }
}

static void ATT(multiply)(ATT_T *x, const ATT_T *by, int64_t keys, int64_t n) {
    for (int64_t s = 0; s < keys; s++)
        for (int64_t r = 0; r < n; r++) x[s * GD_ATT_ROWS + r] *= by[s * GD_ATT_ROWS + r];
}

static inline int64_t ATT(lanes)(int64_t n) {
    const int64_t whole = GD_ALIGN / (int64_t)sizeof(ATT_T);
    return (n + whole - 1) / whole * whole;
}

/* Packs n queries (or slopes), columns of `from`, panel by panel. */
static void ATT(pack_queries)(int64_t size, int64_t n, const ATT_T *from, int64_t rs, int64_t cs, char *to) {
    const int64_t bytes = gd_gemm_packed_bytes(size, GD_ATT_PANEL, ATT_DTYPE);
    for (int64_t r = 0; r < n; r += GD_ATT_PANEL, to += bytes)
        GD_KERNEL(gemm_pack)(ATT_DTYPE, size, least(GD_ATT_PANEL, n - r), from + r * rs, cs, rs, to);
}

/* scores (keys x n) = rows of keys or values, which `product` names, times packed queries or slopes; those that no query
 * of a panel sees are left as they are. */
static void ATT(times_queries)(const job *j, int64_t t0, int64_t n, int64_t s0, int64_t keys, gd_gemm_args *product, ATT_T *scores, const char *packed) {
    const int64_t bytes = gd_gemm_packed_bytes(product->k, GD_ATT_PANEL, ATT_DTYPE);
    for (int64_t r = 0; r < n; r += GD_ATT_PANEL, packed += bytes) {
        product->n = least(GD_ATT_PANEL, n - r), product->m = seen_keys(j, t0, r + product->n, s0, keys), product->c = scores + r;
        GD_KERNEL(gemm_packed)(product, packed);
    }
}

/* out (n rows) = or += scores^T times packed rows of the block's keys, strips that see as many keys together. */
static void ATT(times_keys)(const job *j, int64_t t0, int64_t n, int64_t s0, int64_t keys, const ATT_T *scores, const char *packed, int64_t columns, ATT_T *out,
                            int64_t rs, bool adds) {
    gd_gemm_args product = {.n = columns, .a_rs = 1, .a_cs = GD_ATT_ROWS, .c_rs = rs, .accumulate = adds, .dtype = ATT_DTYPE};
    for (int64_t r = 0, end; r < n; r = end) {
        product.k = seen_keys(j, t0, r + GD_ATT_STRIP, s0, keys);
        for (end = r + GD_ATT_STRIP; end < n && seen_keys(j, t0, end + GD_ATT_STRIP, s0, keys) == product.k;) end += GD_ATT_STRIP;
        product.m = least(end, n) - r, product.a = scores + r, product.c = out + r * rs;
        GD_KERNEL(gemm_packed_rows)(&product, packed, keys, 0);
    }
}

/* A block of queries against all keys: y, logsumexp. Tasks begin with the last rows, which a causal mask gives most keys. */
static void ATT(forward_task)(void *ctx, int64_t task, int worker) {
    const job *j = ctx;
    const int64_t bh = task % (j->batches * j->heads), i = j->row_blocks - 1 - task / (j->batches * j->heads);
    const int64_t b = bh / j->heads, h = bh % j->heads, t0 = i * GD_ATT_ROWS, n = least(GD_ATT_ROWS, j->rows - t0), lanes = ATT(lanes)(n);
    char *own = j->workspace + worker * j->room.bytes;
    ATT_T *scores = (ATT_T *)(void *)(own + j->room.scores), *keep = (ATT_T *)(void *)(own + j->room.keep);
    ATT_T *most_so_far = (ATT_T *)(void *)(own + j->room.stats), *sum = most_so_far + GD_ATT_ROWS, *correction = sum + GD_ATT_ROWS;
    ATT_T *rows_k = (ATT_T *)(void *)(own + j->room.rows_k), *rows_v = (ATT_T *)(void *)(own + j->room.rows_v);
    ATT_T *o = j->half ? (ATT_T *)(void *)(own + j->room.out) : (ATT_T *)(uintptr_t)element(j->out[0], b, h, t0);
    const int64_t o_rs = j->half ? j->dv : j->out[0]->strides[2];
    ATT_T *lse = (ATT_T *)j->out[1]->data + (b * j->heads + h) * j->rows + t0;
    int64_t s0, s1, rs, cs;
    const ATT_T *q = ATT(rows)(j->q, b, h, t0, n, (ATT_T *)(void *)(own + j->room.rows_q), &rs, &cs);
    ATT(pack_queries)(j->d, n, q, rs, cs, own + j->room.qt);
    for (int64_t r = 0; r < lanes; r++) most_so_far[r] = -(ATT_T)INFINITY, sum[r] = 0;
    bool started = false;
    key_range(j, t0, t0 + n, &s0, &s1);
    for (int64_t s = s0; s < s1; s += GD_ATT_KEYS) {
        const int64_t keys = least(GD_ATT_KEYS, s1 - s);
        gd_gemm_args product = {.k = j->d, .c_rs = GD_ATT_ROWS, .dtype = ATT_DTYPE};
        product.a = ATT(rows)(j->k, b, h / j->group, s, keys, rows_k, &product.a_rs, &product.a_cs);
        ATT(times_queries)(j, t0, n, s, keys, &product, scores, own + j->room.qt);
        ATT_T scale;
        if (!ATT(apply_mask)(j, b, h, t0, n, s, keys, scores, &scale)) continue;
        bool moved = false;
        for (int64_t r = 0; r < lanes; r += GD_ATT_STRIP)
            moved |= ATT(softmax_step)(scores + r, seen_keys(j, t0, r + GD_ATT_STRIP, s, keys), least(GD_ATT_STRIP, lanes - r), scale, most_so_far + r, sum + r,
                                       correction + r);
        if (j->drops) {
            ATT(dropout_mask)(j, b, h, t0, n, s, keys, keep);
            ATT(multiply)(scores, keep, keys, n);
        }
        for (int64_t r = 0; r < n && started && moved; r++)
            for (int64_t c = 0; c < j->dv; c++) o[r * o_rs + c] *= correction[r];
        const ATT_T *v = ATT(rows)(j->v, b, h / j->group, s, keys, rows_v, &rs, &cs);
        GD_KERNEL(gemm_pack)(ATT_DTYPE, keys, j->dv, v, rs, cs, own + j->room.v);
        ATT(times_keys)(j, t0, n, s, keys, scores, own + j->room.v, j->dv, o, o_rs, started);
        started = true;
    }
    for (int64_t r = 0; r < n; r++) {
        const bool dead = !started || sum[r] == 0; /* nothing to attend to: the result is 0, and in backward so is each probability */
        const ATT_T by = dead ? 0 : 1 / sum[r];
        if (dead)
            for (int64_t c = 0; c < j->dv; c++) o[r * o_rs + c] = 0;
        else
            for (int64_t c = 0; c < j->dv; c++) o[r * o_rs + c] *= by;
        lse[r] = dead ? (ATT_T)INFINITY : most_so_far[r] + ATT(log)(sum[r]);
    }
    if (j->half) ATT(narrow)(j->out[0], b, h, t0, n, o);
}

static void ATT(forward)(const job *j) { run_tasks(j, j->row_blocks * j->batches * j->heads, ATT(forward_task)); }
