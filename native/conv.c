/* conv.c - how convolutions are cut to fit the caches, and the memory they need; the same on every ISA. */
#include "conv.h"

#include <string.h>

static inline int64_t clamp(int64_t x, int64_t least, int64_t most) { return gd_conv_max(least, gd_conv_min(x, most)); }

static inline int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/* Length of equal parts of size, each a multiple of step and, rounding aside, at most limit. */
static inline int64_t part(int64_t size, int64_t limit, int64_t step) {
    return gd_conv_ceil(gd_conv_ceil(size, gd_conv_ceil(size, limit)), step) * step;
}

gd_conv gd_conv_of(const gd_view *x, const gd_view *w, const gd_view *y, const gd_attr *attr) {
    const int64_t groups = attr->i[6];
    gd_conv c = {.n = x->shape[0], .groups = groups, .cin = x->shape[1] / groups, .cout = w->shape[0] / groups};
    for (int d = 0; d < 2; d++) {
        c.in[d] = x->shape[2 + d];
        c.out[d] = y->shape[2 + d];
        c.kernel[d] = w->shape[2 + d];
        c.stride[d] = attr->i[d];
        c.pad[d] = attr->i[2 + d];
        c.dilation[d] = attr->i[4 + d];
    }
    return c;
}

/* A 1 x 1 kernel that reads every point once takes the rows of an image for one. */
static void flatten(gd_conv_cut *q, const gd_view *source) {
    const int64_t h = q->source[0], w = q->source[1];
    if (q->taps != 1 || q->low[0] || q->low[1] || q->step[0] != 1 || q->step[1] != 1 || q->classes[0] * q->classes[1] != 1 || h != q->grid[0] ||
        w != q->grid[1] || source->strides[2] != w * source->strides[3])
        return;
    q->source[0] = q->grid[0] = q->result[0] = 1;
    q->source[1] = q->grid[1] = q->result[1] = h * w;
}

/* Sizes of an item of about `points` grid points, and of the source that it sees. */
static void cut_points(gd_conv_cut *q, const gd_view *source, int64_t points) {
    const int64_t h = q->grid[0], w = q->grid[1];
    q->block[1] = w <= points ? w : gd_conv_min(part(w, points, points >= 32 ? 32 : 1), w);
    q->blocks[1] = gd_conv_ceil(w, q->block[1]);
    q->block[0] = part(h, clamp(points / q->block[1], 1, h), 1);
    q->blocks[0] = gd_conv_ceil(h, q->block[0]);
    q->images = 1;
    if (q->blocks[0] == 1 && q->blocks[1] == 1) q->images = clamp(points / (h * w), 1, gd_conv_max(q->n * q->groups / GD_CONV_ITEMS, 1));
    q->images = gd_conv_min(q->images, gd_conv_max(q->n, 1));
    q->image_blocks = gd_conv_ceil(q->n, q->images);
    q->in_place = q->taps == 1 && source->strides[3] == 1;
    for (int d = 0; d < 2; d++) {
        if (q->grid[d] == 1) q->step[d] = 1;
        if (q->low[d] || q->span[d] || (q->grid[d] - 1) * q->step[d] >= q->source[d]) q->in_place = false;
    }
    if (q->step[1] != 1) q->in_place = false;
    q->tile[0] = (q->block[0] - 1) * q->step[0] + q->span[0] + 1;
    q->tile[1] = gd_conv_ceil((q->block[1] - 1) * q->step[1] + q->span[1] + 1, q->step[1]);
    q->row = q->step[1] * q->tile[1];
    /* An odd number of cache lines, so that the same place of many channels does not fall into the same sets. */
    q->plane = (gd_conv_ceil(q->tile[0] * q->row, 16) | 1) * 16;
}

gd_conv_cut gd_conv_cut_gather(const gd_conv *c, bool backward, const gd_view *source, int64_t esize) {
    gd_conv_cut q = {.n = c->n, .groups = c->groups, .channels = backward ? c->cout : c->cin, .outs = backward ? c->cin : c->cout};
    int64_t taps = 1; /* of one class */
    q.taps = c->kernel[0] * c->kernel[1];
    for (int d = 0; d < 2; d++) {
        const int64_t s = c->stride[d], reach = (c->kernel[d] - 1) * c->dilation[d];
        q.kernel[d] = c->kernel[d];
        q.source[d] = backward ? c->out[d] : c->in[d];
        q.result[d] = backward ? c->in[d] : c->out[d];
        q.classes[d] = backward ? clamp(c->in[d], 1, s) : 1;
        q.grid[d] = gd_conv_ceil(q.result[d], q.classes[d]);
        q.step[d] = backward ? 1 : s;
        q.low[d] = backward ? floor_div(c->pad[d] - reach + s - 1, s) : -c->pad[d];
        q.span[d] = backward ? gd_conv_max(floor_div(q.classes[d] - 1 + c->pad[d], s) - q.low[d], 0) : reach;
        taps *= gd_conv_ceil(c->kernel[d], backward ? s : 1);
    }
    if (q.n == 0 || q.grid[0] * q.grid[1] == 0) return q;
    flatten(&q, source);
    cut_points(&q, source, gd_conv_max(GD_CONV_POINTS / q.classes[1], 1));
    const int64_t channels = gd_conv_min(GD_CONV_KC / gd_conv_min(taps, GD_CONV_KC), GD_CONV_TILE / esize / gd_conv_min(q.plane, GD_CONV_TILE / esize));
    q.block_channels = q.channels ? part(q.channels, channels, 1) : 1;
    q.channel_blocks = gd_conv_max(gd_conv_ceil(q.channels, q.block_channels), 1); /* without channels one empty block */
    if (q.images > 1) { /* which nothing depends on */
        q.images = clamp(GD_CONV_TILE / esize / (q.block_channels * q.plane), 1, q.images);
        q.image_blocks = gd_conv_ceil(q.n, q.images);
    }
    const int64_t items = q.image_blocks * q.groups * q.blocks[0] * q.blocks[1];
    const int64_t parts = clamp(GD_CONV_ITEMS / items, 1, gd_conv_max(q.outs / GD_CONV_LEAST_OUTS, 1));
    q.block_outs = parts == 1 ? q.outs : gd_conv_min(part(q.outs, gd_conv_ceil(q.outs, parts), GD_CONV_LEAST_OUTS), q.outs);
    q.out_blocks = gd_conv_ceil(q.outs, q.block_outs);
    const int64_t lanes = q.groups * q.out_blocks * (q.block_outs + q.block_outs / 4 + 1); /* rounded up to whole register tiles */
    q.weight_bytes = gd_conv_round(lanes * q.channels * q.taps * esize);
    q.bias_bytes = gd_conv_round(lanes * esize);
    q.table_bytes = gd_conv_round((2 * q.taps + q.classes[0] * q.classes[1] + 1) * (int64_t)sizeof(int64_t));
    q.tile_bytes = gd_conv_round((q.images * q.block_channels * q.plane + 32) * esize); /* vectors end past the last row */
    if (q.classes[0] * q.classes[1] > 1)
        q.scratch_bytes = gd_conv_round(q.classes[1] * q.block_outs * q.images * q.block[0] * q.block[1] * esize);
    return q;
}

int64_t gd_conv_gather_workspace(const gd_conv_cut *q, int width) {
    return q->weight_bytes + q->bias_bytes + q->table_bytes + width * (q->tile_bytes + q->scratch_bytes);
}

gd_conv_cut gd_conv_cut_weight(const gd_conv *c, const gd_view *source, const gd_view *g, int64_t esize) {
    gd_conv_cut q = {.n = c->n, .groups = c->groups, .channels = c->cin, .outs = c->cout, .classes = {1, 1}, .taps = c->kernel[0] * c->kernel[1]};
    for (int d = 0; d < 2; d++) {
        q.kernel[d] = c->kernel[d];
        q.source[d] = c->in[d];
        q.result[d] = q.grid[d] = c->out[d];
        q.step[d] = c->stride[d];
        q.low[d] = -c->pad[d];
        q.span[d] = (c->kernel[d] - 1) * c->dilation[d];
    }
    if (q.n == 0 || q.grid[0] * q.grid[1] == 0 || q.channels * q.outs * q.taps == 0) return q;
    const bool narrow = q.outs < GD_CONV_NARROW;
    if (g->strides[2] == g->shape[3] * g->strides[3]) flatten(&q, source);
    cut_points(&q, source, narrow ? GD_CONV_DOT_POINTS : GD_CONV_POINTS);
    const int64_t room = gd_conv_min(gd_conv_ceil(GD_CONV_SUM_ROWS, q.taps), GD_CONV_TILE / esize / gd_conv_min(q.plane, GD_CONV_TILE / esize));
    q.block_channels = part(q.channels, gd_conv_max(room, 1), 1);
    q.channel_blocks = gd_conv_ceil(q.channels, q.block_channels);
    q.block_outs = narrow ? q.outs : part(q.outs, GD_CONV_SUM_OUTS, 1);
    q.out_blocks = gd_conv_ceil(q.outs, q.block_outs);
    if (q.images > 1) {
        q.images = clamp(GD_CONV_TILE / esize / (q.block_channels * q.plane), 1, q.images);
        q.image_blocks = gd_conv_ceil(q.n, q.images);
    }
    const int64_t blocks = q.image_blocks * q.blocks[0] * q.blocks[1], points = q.images * q.block[0] * q.block[1];
    const int64_t parts = gd_conv_ceil(GD_CONV_ITEMS, q.groups * q.channel_blocks * q.out_blocks);
    q.chunk_blocks = gd_conv_min(gd_conv_max(gd_conv_ceil(blocks, parts), gd_conv_ceil(GD_CONV_SUM_POINTS, points)), blocks);
    q.chunks = gd_conv_ceil(blocks, q.chunk_blocks);
    const int64_t lanes = narrow ? q.outs : (q.block_outs + 15) / 16 * 16; /* of one task: whole vectors on every ISA */
    q.partial_bytes = gd_conv_round(q.chunks * q.groups * q.out_blocks * q.channels * q.taps * lanes * esize);
    q.table_bytes = gd_conv_round(q.block_channels * q.taps * (int64_t)sizeof(int64_t));
    q.tile_bytes = gd_conv_round((q.images * q.block_channels * q.plane + 32) * esize);
    q.gradient_bytes = gd_conv_round(points * lanes * esize);
    return q;
}

int64_t gd_conv_weight_workspace(const gd_conv_cut *q, int width) {
    return q->partial_bytes + q->table_bytes + width * (q->tile_bytes + q->gradient_bytes);
}
