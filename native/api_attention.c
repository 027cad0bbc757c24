/* api_attention.c - public entry points of attention and of the rotary embedding. */
#include "attention.h"
#include "engine.h"
#include "random.h"

/* t with its leading dimension d of the four repeated n times if it is 1; 0 with an error set. */
static gd_tensor repeated(gd_tensor t, int d, int64_t n) {
    const gd_view *v = &gd_node_peek(t)->v;
    if (v->shape[d] != 1 || n == 1) return t;
    const int64_t rank = v->rank > GD_DIMS - d ? v->rank : GD_DIMS - d;
    int64_t shape[GD_DIMS];
    for (int64_t i = 0; i < rank; i++) shape[i] = v->shape[GD_DIMS - rank + i];
    shape[rank - (GD_DIMS - d)] = n;
    return gd_expand(t, rank, shape);
}

gd_tensor gd_attention(gd_tensor q, gd_tensor k, gd_tensor v, gd_tensor mask, int64_t before, int64_t after, int at_end, double scale, double dropout_p) {
    gd_tensor in[] = {q, k, v, mask};
    GD_TRY_TENSOR(gd_optional(&in[3], "attention"));
    int64_t batches = 1, heads = 1;
    for (int i = 0; i < 3; i++) {
        gd_node *n = gd_node_of(in[i], "attention");
        if (!n) return 0;
        if (n->v.shape[0] != 1) batches = n->v.shape[0];
        if (i && n->v.shape[1] != 1) heads = n->v.shape[1];
    }
    gd_start start = gd_here();
    for (int i = 0; i < 3; i++) { /* batches and heads broadcast; one head of keys for all queries needs no help */
        in[i] = repeated(in[i], 0, batches);
        if (in[i] && (i == 0 || heads != 1)) in[i] = repeated(in[i], 1, heads);
        if (!in[i]) return gd_or_return(start, 0);
    }
    gd_attr attr = {.i = {[GD_ATT_BEFORE] = before, [GD_ATT_AFTER] = after, [GD_ATT_AT_END] = at_end != 0}, .f = {scale, dropout_p}};
    if (!(dropout_p > 0 && dropout_p <= 1)) return gd_or_return(start, gd_record(GD_OP_attention, in, 4, &attr, NULL));
    const gd_view *vq = &gd_node_peek(in[0])->v;
    const int64_t counters = vq->shape[0] * vq->shape[1] * vq->shape[2] * ((gd_node_peek(in[1])->v.shape[2] + 3) / 4);
    gd_draw_counters(&attr, counters * GD_PER_COUNTER);
    return gd_or_return(start, gd_drawn_counters(gd_record(GD_OP_attention, in, 4, &attr, NULL), &attr, counters * GD_PER_COUNTER));
}

gd_tensor gd_rotary(gd_tensor x, gd_tensor cos, gd_tensor sin, int neighbours) {
    return GD_RECORD(rotary, &(gd_attr){.i = {neighbours != 0}}, x, cos, sin);
}
