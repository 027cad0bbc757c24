/* vjp_attention.c - gradients of attention and of the rotary embedding. */
#include "attention.h"
#include "shape.h"
#include "vjp.h"

#include <math.h>
#include <string.h>

/* (B,H,T,D) as (B,Hk,H/Hk T,D): query heads that share keys stand below each other. */
static gd_tensor grouped(gd_tensor x, int64_t kv_heads) {
    const gd_view *v = gd_view_of(x);
    return gd_reshape(x, 4, (int64_t[]){v->shape[0], kv_heads, kv_heads ? v->shape[1] / kv_heads * v->shape[2] : 0, v->shape[3]});
}

static gd_tensor four(gd_tensor x) { return gd_reshape(x, 4, gd_view_of(x)->shape); }

/* Which of S keys each of T queries may see: bool, broadcastable to (B,H,T,S); 0 without error: all. */
static gd_tensor seen(const gd_vjp *v, int64_t rows, int64_t keys, gd_tensor mask) {
    const int64_t *at = v->node->attr.i, shift = at[GD_ATT_AT_END] ? keys - rows : 0;
    gd_tensor allowed = 0;
    if (at[GD_ATT_BEFORE] >= 0 || at[GD_ATT_AFTER] >= 0) {
        gd_tensor place = gd_unsqueeze(gd_arange(0, 1, shift, 1, rows, GD_INT64), 1), key = gd_arange(0, 1, 0, 1, keys, GD_INT64);
        gd_tensor ahead = BIN(sub, key, place);
        if (at[GD_ATT_AFTER] >= 0) allowed = BIN(le, ahead, gd_scalar(0, at[GD_ATT_AFTER], GD_INT64));
        if (at[GD_ATT_BEFORE] >= 0) {
            gd_tensor near = BIN(ge, ahead, gd_scalar(0, -at[GD_ATT_BEFORE], GD_INT64));
            allowed = allowed ? BIN(logical_and, allowed, near) : near;
        }
    }
    if (!mask) return allowed;
    const int dtype = gd_view_of(mask)->dtype;
    gd_tensor open = dtype == GD_BOOL ? mask : BIN(gt, gd_detach(mask), gd_scalar(-HUGE_VAL, 0, dtype));
    return allowed ? BIN(logical_and, open, allowed) : open;
}

/* As ordinary ops, each with its own gradient; here there is a matrix of scores. */
static gd_status attention_as_ops(gd_vjp *v) {
    const gd_node *node = v->node;
    const gd_tensor mask = node->in[3];
    const double scale = node->attr.f[0];
    if (node->attr.f[1] > 0)
        return gd_fail(GD_ERR, "attention: with dropout its second derivative is not available; build it from matmul, softmax and dropout for create_graph=True");
    const gd_view *q_view = gd_view_of(A), *k_view = gd_view_of(B);
    const int64_t heads = k_view->shape[1], rows = q_view->shape[2], keys = k_view->shape[2];
    const int64_t all[] = {q_view->shape[0], q_view->shape[1], rows, keys};
    gd_tensor q = grouped(A, heads), k = four(B), val = four(C), g = grouped(four(G), heads);
    gd_tensor scores = TIMES(gd_reshape(GD_RECORD(matmul, NULL, q, gd_swap_last(k)), 4, all), scale);
    if (mask && gd_view_of(mask)->dtype != GD_BOOL) scores = BIN(add, scores, mask);
    const int dtype = gd_view_of(A)->dtype;
    gd_tensor allowed = seen(v, rows, keys, mask), none = gd_scalar(0, 0, dtype);
    if (allowed) scores = gd_where(allowed, scores, gd_scalar(dtype == GD_FLOAT16 ? -6e4 : -1e30, 0, dtype));
    gd_tensor p = gd_softmax(GD_OP_softmax, scores, -1);
    if (allowed) p = gd_where(allowed, p, none);
    gd_tensor slope = gd_reshape(GD_RECORD(matmul, NULL, g, gd_swap_last(val)), 4, all);
    gd_tensor mean = gd_reduce_keep(GD_OP_sum, BIN(mul, slope, p), 8), ds = BIN(mul, p, BIN(sub, slope, mean));
    gd_tensor dscaled = grouped(TIMES(ds, scale), heads);
    GIVE(0, gd_reshape_like(GD_RECORD(matmul, NULL, dscaled, k), A));
    GIVE(1, gd_reshape_like(GD_RECORD(matmul, NULL, gd_swap_last(dscaled), q), B));
    GIVE(2, gd_reshape_like(GD_RECORD(matmul, NULL, gd_swap_last(grouped(p, heads)), g), C));
    if (mask && gd_vjp_needs(v, 3)) return gd_vjp_give(v, 3, gd_sum_to(ds, mask));
    return GD_OK;
}

/* The tensor that q, k and v are the three parts of, as after x.split(C, 2) with heads as views: their gradients then are
 * written to the same parts of one, and need not be put together. NULL: they are not, not all of them are wanted, or they are on a device. */
static gd_node *parted(const gd_vjp *v) {
    gd_node *part[3], *whole = NULL;
    for (int k = 0; k < 3; k++) {
        part[k] = gd_node_peek(v->node->in[k]);
        if (!gd_vjp_needs(v, k)) return NULL;
        gd_node *storage = gd_storage(part[k]);
        if (k && (storage != whole || !gd_same_shape(&part[k]->v, &part[0]->v) || memcmp(part[k]->v.strides, part[0]->v.strides, sizeof part[0]->v.strides) != 0)) return NULL;
        whole = storage;
    }
    const gd_view *q = &part[0]->v;
    if (!whole || whole->v.device || whole->v.dtype != q->dtype || !gd_is_contiguous(&whole->v) || gd_numel(&whole->v) == 0 || gd_numel(&whole->v) != 3 * gd_numel(q)) return NULL;
    int64_t at[3], size[GD_DIMS + 1], stride[GD_DIMS + 1], dims = 0, step = 1;
    for (int k = 0; k < 3; k++) at[k] = ((const char *)part[k]->v.data - (const char *)whole->v.data) / gd_dtype_bytes(q->dtype);
    const int64_t most = at[0] > at[1] ? (at[0] > at[2] ? at[0] : at[2]) : at[1] > at[2] ? at[1] : at[2], apart = most / 2;
    for (int k = 0; k < 3; k++)
        if (at[k] != 0 && at[k] != apart && at[k] != 2 * apart) return NULL;
    if (apart == 0 || at[0] == at[1] || at[0] == at[2] || at[1] == at[2]) return NULL;
    for (int d = -1; d < GD_DIMS; d++) { /* the three parts as one more dimension; sorted, strides must be those of a contiguous tensor */
        if (d >= 0 && q->shape[d] == 1) continue;
        const int64_t n = d < 0 ? 3 : q->shape[d], s = d < 0 ? apart : q->strides[d];
        int64_t k = dims++;
        for (; k > 0 && stride[k - 1] > s; k--) stride[k] = stride[k - 1], size[k] = size[k - 1];
        stride[k] = s, size[k] = n;
    }
    for (int64_t k = 0; k < dims; step *= size[k++])
        if (stride[k] != step) return NULL;
    return whole;
}

RULE(attention) {
    if (v->g[1]) return gd_fail(GD_ERR, "attention: only the result has a gradient, not the logsumexp saved for backward");
    if (!G) return GD_OK;
    if (v->create_graph) return attention_as_ops(v);
    gd_attr attr = v->node->attr;
    attr.i[GD_ATT_WANTED] = 0;
    for (int k = 0; k < 4; k++)
        if (gd_vjp_needs(v, k)) attr.i[GD_ATT_WANTED] |= (int64_t)1 << k;
    gd_node *source = parted(v), *whole = NULL;
    if (source && !(whole = gd_node_peek(gd_vjp_like(v, source)))) return gd_last_status();
    gd_tensor d = gd_record(GD_OP_attention_bwd, (gd_tensor[]){G, A, B, C, v->node->in[3], Y, gd_output(Y, 1)}, 7, &attr, whole ? whole->v.data : NULL);
    for (int k = 0; k < 3 && d && whole; k++) gd_node_peek(gd_output(d, k))->base = whole->self;
    for (int k = 0; k < 4; k++) GIVE(k, d && k ? gd_output(d, k) : d);
    return GD_OK;
}

/* The inverse of a turn is its transpose. What cos and sin receive is made of ordinary ops. */
RULE(rotary) {
    gd_attr back = v->node->attr;
    back.i[1] = !back.i[1];
    GIVE(0, GD_RECORD(rotary, &back, G, B, C));
    if (!gd_vjp_needs(v, 1) && !gd_vjp_needs(v, 2)) return GD_OK;
    const gd_view *x = gd_view_of(A);
    const int64_t turned = gd_view_of(B)->shape[3], neighbours = v->node->attr.i[0];
    gd_tensor part[4]; /* x and g, first and second of each pair */
    for (int k = 0; k < 4; k++) {
        const int second = k & 1;
        const int64_t start = neighbours ? second : second * turned, stop = neighbours ? 2 * turned : start + turned;
        part[k] = gd_slice(k < 2 ? A : G, x->rank - 1, start, stop, neighbours ? 2 : 1);
    }
    GIVE(1, gd_sum_to(BIN(add, BIN(mul, part[0], part[2]), BIN(mul, part[1], part[3])), B));
    gd_tensor dsin = BIN(sub, BIN(mul, part[0], part[3]), BIN(mul, part[1], part[2]));
    GIVE(2, gd_sum_to(v->node->attr.i[1] ? U(neg, dsin) : dsin, C));
    return GD_OK;
}
