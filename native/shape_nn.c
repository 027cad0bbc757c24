/* shape_nn.c - shape rules of norms, losses, matrix products and recurrent layers. */
#include "gemm.h"
#include "norm.h"
#include "rnn.h"
#include "rules.h"
#include "shape.h"
#include "thread.h"

/* ---- Norms -------------------------------------------------------------------------------------------------- */

/* Attribute i[0] counts normalised dimensions of x; optional parameter k must have their shape. */
static gd_status check_norm(const gd_shape_call *c, const gd_view *x, int k, const char *what) {
    const int64_t count = c->attr->i[0];
    if (!c->in[k]) return GD_OK;
    const gd_view *p = gd_in(c, k);
    if (p->dtype != x->dtype && !(gd_is_half(x->dtype) && p->dtype == GD_FLOAT32)) /* in mixed precision parameters stay float32 */
        return gd_fail(GD_ERR_DTYPE, "%s: input is %s, %s is %s: they must have one dtype", c->name, gd_dtype_name(x->dtype), what, gd_dtype_name(p->dtype));
    if (p->rank != count || memcmp(gd_logical_shape(p), x->shape + GD_DIMS - count, sizeof(int64_t) * (size_t)count) != 0)
        return gd_fail(GD_ERR_SHAPE, "%s: %s has shape %s, must be that of the normalised dimensions, %s", c->name, what, gd_text_view(p),
                       gd_text_shape(count, x->shape + GD_DIMS - count));
    return GD_OK;
}

static gd_status check_norm_dims(const gd_shape_call *c, int k) {
    const int64_t count = c->attr->i[0];
    GD_TRY(gd_shape_need_float(c, k));
    if (count < 1 || count > gd_in(c, k)->rank)
        return gd_fail(GD_ERR_SHAPE, "%s: %lld normalised dimensions of an input of shape %s: there must be at least one, and as many in the input", c->name,
                       (long long)count, gd_text_view(gd_in(c, k)));
    return GD_OK;
}

/* Rows of x, each of which is normalised; their length goes to *n. */
static int64_t norm_rows(const gd_view *x, int64_t count, int64_t *n) {
    int64_t rows = 1;
    *n = 1;
    for (int d = 0; d < GD_DIMS; d++) *(d < GD_DIMS - count ? &rows : n) *= x->shape[d];
    return rows;
}

/* layer_norm (x, weight?, bias?) and rms_norm (x, weight?) */
gd_status gd_shape_norm(gd_shape_call *c) {
    if (!c->in[0]) return gd_node_missing(0, c->name), gd_last_status();
    GD_TRY(check_norm_dims(c, 0));
    const gd_view *x = gd_in(c, 0);
    GD_TRY(check_norm(c, x, 1, "weight"));
    if (c->nin > 2) GD_TRY(check_norm(c, x, 2, "bias"));
    if (c->nin > 2 && c->in[1] && c->in[2]) GD_TRY(gd_shape_need_same_dtype(c, 1, 2));
    int64_t n, rows = norm_rows(x, c->attr->i[0], &n), statistics[2] = {rows, c->nin > 2 ? 2 : 1};
    GD_TRY(gd_shape_like(c, 0, x, x->dtype));
    return gd_shape_out(c, 1, 2, statistics, GD_FLOAT64);
}

/* Recorded only by the norms' vjp rules. */
gd_status gd_shape_norm_bwd(gd_shape_call *c) {
    if (!c->in[0] || !c->in[1] || !c->in[3]) return gd_node_missing(0, c->name), gd_last_status();
    GD_TRY(check_norm_dims(c, 1));
    GD_TRY(gd_shape_need_same_dtype(c, 1, 0));
    const gd_view *x = gd_in(c, 1), *statistics = gd_in(c, 3);
    const int64_t count = c->attr->i[0], wanted = c->attr->i[1], nothing = 0;
    GD_TRY(check_norm(c, x, 2, "weight"));
    int64_t n, rows = norm_rows(x, count, &n);
    if (!gd_same_shape(x, gd_in(c, 0)) || statistics->dtype != GD_FLOAT64 || statistics->shape[2] != rows || statistics->shape[3] != c->nout - 1 ||
        gd_numel(statistics) != rows * (c->nout - 1) || !gd_is_contiguous(statistics))
        return gd_fail(GD_ERR_SHAPE, "%s: its inputs do not belong together", c->name);
    GD_TRY(wanted & GD_NORM_DX ? gd_shape_like(c, 0, x, x->dtype) : gd_shape_out(c, 0, 1, &nothing, x->dtype));
    const int parameters = c->attr->i[2] ? GD_FLOAT32 : x->dtype;
    for (int k = 1; k < c->nout; k++)
        GD_TRY(wanted >> k & 1 ? gd_shape_out(c, k, count, x->shape + GD_DIMS - count, parameters) : gd_shape_out(c, k, 1, &nothing, x->dtype));
    if (wanted & (GD_NORM_DW | GD_NORM_DB)) c->workspace = gd_norm_bwd_workspace(rows, n, x->dtype, gd_parallel_width());
    return GD_OK;
}

/* ---- Losses ------------------------------------------------------------------------------------------------- */

gd_status gd_shape_cross_entropy(gd_shape_call *c) {
    if (!c->in[0] || !c->in[1]) return gd_node_missing(0, c->name), gd_last_status();
    const gd_view *x = gd_in(c, 0), *t = gd_in(c, 1);
    GD_TRY(gd_shape_need_float(c, 0));
    if (x->rank != 2) return gd_fail(GD_ERR_SHAPE, "cross_entropy: logits have shape %s, must be (N, C)", gd_text_view(x));
    int64_t n = x->shape[2], classes = x->shape[3];
    if (c->in[2]) {
        GD_TRY(gd_shape_need_same_dtype(c, 0, 2));
        if (gd_in(c, 2)->rank != 1 || gd_in(c, 2)->shape[3] != classes)
            return gd_fail(GD_ERR_SHAPE, "cross_entropy: weight has shape %s, must be (%lld,): one per class", gd_text_view(gd_in(c, 2)), (long long)classes);
    }
    if (!(c->attr->f[0] >= 0 && c->attr->f[0] <= 1))
        return gd_fail(GD_ERR_VALUE, "cross_entropy: label_smoothing is %g, must be in [0, 1]", c->attr->f[0]);
    if (c->attr->i[1] < 0 || c->attr->i[1] > 2) return gd_fail(GD_ERR_VALUE, "cross_entropy: reduction must be none, mean or sum");
    if (gd_is_float(t->dtype)) {
        GD_TRY(gd_shape_need_same_dtype(c, 0, 1));
        if (!gd_same_shape(x, t) || t->rank != x->rank)
            return gd_fail(GD_ERR_SHAPE, "cross_entropy: probability targets have shape %s, must be that of the logits, %s", gd_text_view(t), gd_text_view(x));
    } else {
        GD_TRY(gd_shape_need_int64(c, 1));
        if (t->rank != 1 || t->shape[3] != n)
            return gd_fail(GD_ERR_SHAPE, "cross_entropy: class targets have shape %s, logits %s: there must be one label per row", gd_text_view(t), gd_text_view(x));
        GD_TRY(gd_shape_check_range(c, t, 0, classes, c->attr->i[0], "label"));
    }
    GD_TRY(gd_shape_out(c, 0, c->attr->i[1] == 0 ? 1 : 0, &n, x->dtype));
    GD_TRY(gd_shape_out(c, 1, 1, &n, gd_dtype_inside(x->dtype)));
    return gd_shape_out(c, 2, 0, NULL, gd_dtype_inside(x->dtype));
}

/* Recorded only by vjp_cross_entropy; checked so that no caller of gd_call can make a kernel leave its buffers. */
gd_status gd_shape_cross_entropy_bwd(gd_shape_call *c) {
    for (int k = 0; k < 6; k++)
        if (k != 3 && !c->in[k]) return gd_node_missing(0, c->name), gd_last_status();
    const gd_view *g = gd_in(c, 0), *x = gd_in(c, 1), *t = gd_in(c, 2), *lse = gd_in(c, 4);
    GD_TRY(gd_shape_need_float(c, 1));
    bool fits = x->rank == 2 && gd_numel(lse) == x->shape[2] && gd_is_contiguous(lse) && gd_numel(gd_in(c, 5)) == 1 &&
                gd_numel(g) == (c->attr->i[1] == 0 ? x->shape[2] : 1) && (!c->in[3] || gd_numel(gd_in(c, 3)) == x->shape[3]) &&
                (gd_is_float(t->dtype) ? gd_same_shape(t, x) : gd_numel(t) == x->shape[2] && t->rank == 1);
    if (!fits) return gd_fail(GD_ERR_SHAPE, "cross_entropy_bwd: its inputs do not belong together");
    for (int k = 0; k < 4; k++)
        if (c->in[k] && (k != 2 || gd_is_float(t->dtype))) GD_TRY(gd_shape_need_same_dtype(c, 1, k));
    for (int k = 4; k < 6; k++) /* the statistics */
        if (gd_in(c, k)->dtype != gd_dtype_inside(x->dtype)) return gd_fail(GD_ERR_DTYPE, "cross_entropy_bwd: its inputs do not belong together");
    if (!gd_is_float(t->dtype)) {
        GD_TRY(gd_shape_need_int64(c, 2));
        GD_TRY(gd_shape_check_range(c, t, 0, x->shape[3], c->attr->i[0], "label"));
    }
    return gd_shape_like(c, 0, x, x->dtype);
}

/* ---- Matrix products --------------------------------------------------------------------------------------------- */

/* Workspace of a product whose result has this shape. The kernel takes as many outer dimensions for rows as strides
 * allow, and a product of fewer rows may need more: each number of rows that it may come to is asked about. */
static int64_t product_workspace(const int64_t *shape, int64_t k, int dtype) {
    int64_t rows = 1, most = 0;
    for (int d = 2; d >= 0; d--) {
        rows *= shape[d];
        int64_t bytes = gd_gemm_workspace(rows, shape[3], k, dtype);
        if (bytes > most) most = bytes;
    }
    return most;
}

gd_status gd_shape_matmul(gd_shape_call *c) {
    const gd_view *a = gd_in(c, 0), *b = gd_in(c, 1);
    GD_TRY(gd_shape_need_same_dtype(c, 0, 1));
    if (a->dtype == GD_BOOL) return gd_fail(GD_ERR_DTYPE, "matmul: not for bool");
    if (c->attr->i[0] && !c->dest) return gd_fail(GD_ERR_VALUE, "matmul: there is nothing to accumulate into");
    if (a->rank < 2 || b->rank < 2 || a->shape[3] != b->shape[2])
        return gd_fail(GD_ERR_SHAPE, "matmul: a is %s, b is %s: the last dimension of a must equal the last but one of b", gd_text_view(a), gd_text_view(b));
    int64_t shape[GD_DIMS] = {0, 0, a->shape[2], b->shape[3]};
    for (int d = 0; d < 2; d++) {
        if (a->shape[d] != b->shape[d] && a->shape[d] != 1 && b->shape[d] != 1)
            return gd_fail(GD_ERR_SHAPE, "matmul: a is %s, b is %s: leading dimensions must be equal, or one of them 1", gd_text_view(a), gd_text_view(b));
        shape[d] = a->shape[d] == 1 ? b->shape[d] : a->shape[d];
    }
    int64_t rank = a->rank > b->rank ? a->rank : b->rank;
    c->workspace = gd_is_float(a->dtype) ? product_workspace(shape, a->shape[3], a->dtype) : 0;
    return gd_shape_out(c, 0, rank, shape + GD_DIMS - rank, a->dtype);
}

gd_status gd_shape_linear(gd_shape_call *c) {
    if (!c->in[0] || !c->in[1]) return gd_node_missing(0, c->name), gd_last_status();
    const gd_view *x = gd_in(c, 0), *w = gd_in(c, 1), *b = c->in[2] ? gd_in(c, 2) : NULL;
    GD_TRY(gd_shape_need_float(c, 0));
    if (w->dtype != x->dtype || (b && b->dtype != x->dtype))
        return gd_fail(GD_ERR_DTYPE, "linear: input is %s, weight %s%s%s: they must have one dtype", gd_dtype_name(x->dtype), gd_dtype_name(w->dtype),
                       b ? ", bias " : "", b ? gd_dtype_name(b->dtype) : "");
    if (x->rank < 1 || w->rank != 2 || x->shape[3] != w->shape[3])
        return gd_fail(GD_ERR_SHAPE, "linear: input is %s, weight is %s: the weight must be (out, in) and the last dimension of the input must equal `in`",
                       gd_text_view(x), gd_text_view(w));
    if (b && (b->rank != 1 || b->shape[3] != w->shape[2]))
        return gd_fail(GD_ERR_SHAPE, "linear: bias is %s, must be (%lld,)", gd_text_view(b), (long long)w->shape[2]);
    int64_t shape[GD_DIMS] = {x->shape[0], x->shape[1], x->shape[2], w->shape[2]};
    c->workspace = gd_linear_bias_bytes(b) + product_workspace(shape, x->shape[3], x->dtype);
    return gd_shape_out(c, 0, x->rank, shape + GD_DIMS - x->rank, x->dtype);
}

/* ---- Recurrent --------------------------------------------------------------------------------------------------- */

static gd_status need_shape(gd_shape_call *c, int k, const char *what, int64_t rank, int64_t s0, int64_t s1) {
    const gd_view *v = gd_in(c, k);
    int64_t want[2] = {s0, s1};
    if (v->rank == rank && v->shape[3] == want[rank - 1] && (rank < 2 || v->shape[2] == s0)) return GD_OK;
    return gd_fail(GD_ERR_SHAPE, "%s: %s has shape %s, must be %s", c->name, what, gd_text_view(v), gd_text_shape(rank, want));
}

/* Each sequence's length must lie among the steps there are. */
static gd_status need_lengths(gd_shape_call *c, int k, int64_t steps) {
    const gd_view *v = gd_in(c, k);
    GD_TRY(gd_shape_need_int64(c, k));
    for (int64_t b = 0; b < v->shape[3] && !v->device; b++) {
        int64_t length = ((const int64_t *)v->data)[b * v->strides[3]];
        if (length < 0 || length > steps)
            return gd_fail(GD_ERR_INDEX, "%s: length %lld of sequence %lld is impossible: the input has %lld steps, so it must be from 0 to %lld", c->name,
                           (long long)length, (long long)b, (long long)steps, (long long)steps);
    }
    return GD_OK;
}

gd_status gd_shape_lstm(gd_shape_call *c) {
    if (!c->in[0] || !c->in[3] || !c->in[4]) return gd_node_missing(0, c->name), gd_last_status();
    const gd_view *x = gd_in(c, 0), *w = gd_in(c, 3);
    GD_TRY(gd_shape_need_float(c, 0));
    static const char *const names[] = {"input", "h0", "c0", "w_ih", "w_hh", "b_ih", "b_hh", "lengths"};
    for (int k = 1; k < 7; k++)
        if (c->in[k] && gd_in(c, k)->dtype != x->dtype)
            return gd_fail(GD_ERR_DTYPE, "lstm: input is %s and %s is %s: they must have one dtype", gd_dtype_name(x->dtype), names[k],
                           gd_dtype_name(gd_in(c, k)->dtype));
    if (x->rank != 3 || w->rank != 2 || w->shape[2] % 4 || w->shape[3] != x->shape[3])
        return gd_fail(GD_ERR_SHAPE, "lstm: input is %s, w_ih is %s: they must be (T, B, I), or (B, T, I) with batch_first, and (4H, I)", gd_text_view(x),
                       gd_text_view(w));
    bool batch_first = c->attr->i[1] != 0;
    int64_t steps = x->shape[batch_first ? 2 : 1], batch = x->shape[batch_first ? 1 : 2], hidden = w->shape[2] / 4;
    GD_TRY(need_shape(c, 4, names[4], 2, 4 * hidden, hidden));
    for (int k = 1; k < 3; k++)
        if (c->in[k]) GD_TRY(need_shape(c, k, names[k], 2, batch, hidden));
    for (int k = 5; k < 7; k++)
        if (c->in[k]) GD_TRY(need_shape(c, k, names[k], 1, 4 * hidden, 0));
    if (c->in[7]) {
        if (gd_in(c, 7)->rank != 1 || gd_in(c, 7)->shape[3] != batch)
            return gd_fail(GD_ERR_SHAPE, "lstm: lengths has shape %s, must be (%lld,): one per sequence", gd_text_view(gd_in(c, 7)), (long long)batch);
        GD_TRY(need_lengths(c, 7, steps));
    }
    int64_t y[3] = {x->shape[1], x->shape[2], hidden}, gates[3] = {x->shape[1], x->shape[2], 4 * hidden}, state[2] = {batch, hidden};
    GD_TRY(gd_shape_out(c, 0, 3, y, x->dtype));
    GD_TRY(gd_shape_out(c, 1, 2, state, x->dtype));
    GD_TRY(gd_shape_out(c, 2, 2, state, x->dtype));
    GD_TRY(gd_shape_out(c, 3, 3, gates, gd_dtype_inside(x->dtype)));
    c->workspace = gd_lstm_layout_of(batch, x->shape[3], hidden, x->dtype).total;
    return gd_shape_out(c, 4, 3, y, gd_dtype_inside(x->dtype));
}

/* Recorded only by vjp_lstm, whose inputs come from lstm's own outputs. */
gd_status gd_shape_lstm_bwd(gd_shape_call *c) {
    for (int k = 3; k < 7; k++)
        if (!c->in[k]) return gd_node_missing(0, c->name), gd_last_status();
    const gd_view *gates = gd_in(c, 4), *y = gd_in(c, 6);
    bool batch_first = c->attr->i[1] != 0;
    int64_t steps = y->shape[batch_first ? 2 : 1], batch = y->shape[batch_first ? 1 : 2], hidden = y->shape[3];
    const int64_t want[10][4] = {{1, y->shape[1], y->shape[2], hidden}, {1, 1, batch, hidden}, {1, 1, batch, hidden}, {1, 1, 4 * hidden, hidden},
                                 {1, y->shape[1], y->shape[2], 4 * hidden}, {1, y->shape[1], y->shape[2], hidden}, {1, y->shape[1], y->shape[2], hidden},
                                 {1, 1, batch, hidden}, {1, 1, batch, hidden}, {1, 1, 1, batch}};
    GD_TRY(gd_shape_need_float(c, 6));
    for (int k = 0; k < 10; k++) {
        if (!c->in[k]) continue;
        bool saved = k == 4 || k == 5; /* gates and cells */
        if (k < 9 && !saved) GD_TRY(gd_shape_need_same_dtype(c, 6, k));
        if (saved && gd_in(c, k)->dtype != gd_dtype_inside(y->dtype)) return gd_fail(GD_ERR_DTYPE, "lstm_bwd: its inputs do not belong together");
        if (memcmp(gd_in(c, k)->shape, want[k], sizeof want[k]) != 0)
            return gd_fail(GD_ERR_SHAPE, "lstm_bwd: input %d has shape %s, which does not belong to y of shape %s", k, gd_text_view(gd_in(c, k)), gd_text_view(y));
    }
    if (c->in[9]) GD_TRY(need_lengths(c, 9, steps));
    GD_TRY(gd_shape_like(c, 0, gates, y->dtype));
    int64_t hprev[3] = {c->attr->i[2] ? 0 : y->shape[1], y->shape[2], hidden}, initial[2] = {c->attr->i[3] ? 0 : batch, hidden};
    GD_TRY(gd_shape_out(c, 1, 3, hprev, y->dtype));
    GD_TRY(gd_shape_out(c, 2, 2, initial, y->dtype));
    c->workspace = gd_lstm_bwd_layout_of(batch, hidden, y->dtype).total;
    return gd_shape_out(c, 3, 2, initial, y->dtype);
}
