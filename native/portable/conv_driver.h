/* conv_driver.h - convolutions for every ISA: what one is made of, and its tasks.
 *
 * Lanes of a vector are neighbouring points of the result's grid, rows of a register tile are results. A source is
 * copied with its zero border, an item of work at a time, so that a tap is an offset; columns are sorted by their
 * remainder of the stride, so that neighbouring points read neighbours whatever the stride is. Gradients for the weight
 * have results in the lanes and taps of channels in the rows.
 *
 * The includer defines vectors and tiles for f32 and f64 (conv_tile.h) and before including:
 *   CONV_MR, CONV_SUM_MR   rows of the register tiles of products and of weight gradients
 *   CONV_NARROW            up to so many rows a tile takes CONV_MOST_UNITS vectors, else 2
 *   CONV_MASKED            1 if tiles read only the points they are asked for, 0 if whole vectors */
enum { CONV_UNITS = GD_CONV_POINTS + CONV_MOST_UNITS, CONV_TOTAL_ROWS = 64 };

/* Part of the result that is computed at once. */
typedef struct conv_item {
    int64_t image, images, group, out, outs, row, rows, column, columns;
    int64_t weights; /* which packed weights */
} conv_item;

typedef struct conv_job {
    gd_conv_cut cut;
    const void *source, *w, *b; /* w: for weight gradients the gradient of the result */
    void *result;
    int64_t s_image, s_channel, s_row, s_column; /* strides in elements */
    int64_t w_group, w_out, w_channel, w_row, w_column, b_step, g_image;
    int64_t tile_outs, block_lanes; /* rows of a register tile; results of an item with padding */
    int64_t per_task;
    bool in_place, narrow;
    int64_t *x_off, *w_off, *class_start; /* per tap, sorted by class */
    char *weights, *bias, *tiles, *partial; /* workspace */
    void (*item)(const struct conv_job *q, conv_item it, int worker);
} conv_job;

/* The images, rows and columns of block number `block`. */
static inline void place_block(const gd_conv_cut *p, int64_t block, conv_item *it) {
    it->column = block % p->blocks[1] * p->block[1];
    it->row = (block /= p->blocks[1]) % p->blocks[0] * p->block[0];
    it->image = block / p->blocks[0] * p->images;
    it->columns = gd_conv_min(p->block[1], p->grid[1] - it->column);
    it->rows = gd_conv_min(p->block[0], p->grid[0] - it->row);
    it->images = gd_conv_min(p->images, p->n - it->image);
}

#define TILE_T float
#define TILE(name) name##_f32
#define CONV(name) conv_##name##_f32
#include "conv_body.h"
#undef TILE_T
#undef TILE
#undef CONV
#define TILE_T double
#define TILE(name) name##_f64
#define CONV(name) conv_##name##_f64
#include "conv_body.h"
#undef TILE_T
#undef TILE
#undef CONV

static void item_task(void *ctx, int64_t task, int worker) {
    const conv_job *q = ctx;
    const gd_conv_cut *p = &q->cut;
    const int64_t blocks = p->image_blocks * p->blocks[0] * p->blocks[1], items = blocks * p->groups * p->out_blocks;
    for (int64_t i = task * q->per_task; i < gd_conv_min((task + 1) * q->per_task, items); i++) {
        int64_t rest = i;
        conv_item it = {.out = rest % p->out_blocks * p->block_outs};
        place_block(p, (rest /= p->out_blocks) % blocks, &it);
        it.group = rest / blocks;
        it.outs = gd_conv_min(p->block_outs, p->outs - it.out);
        it.weights = it.group * p->out_blocks + it.out / p->block_outs;
        q->item(q, it, worker);
    }
}

static void run_tasks(int64_t tasks, void (*task)(void *, int64_t, int), conv_job *q, bool serial) {
    if (serial) for (int64_t i = 0; i < tasks; i++) task(q, i, 0);
    else gd_parallel(tasks, task, q);
}

static inline void strides_of_source(conv_job *q, const gd_view *source) {
    q->source = source->data;
    q->s_image = source->strides[0], q->s_channel = source->strides[1];
    q->s_row = source->strides[2], q->s_column = source->strides[3];
}

/* Offsets of taps (y, x) from their point's source, in the copied tile, or 0 where the source is read in place. */
static int64_t tile_offset(const conv_job *q, int64_t y, int64_t x) {
    const gd_conv_cut *p = &q->cut;
    const int64_t dx = x - p->low[1];
    return q->in_place ? 0 : (y - p->low[0]) * p->row + dx % p->step[1] * p->tile[1] + dx / p->step[1];
}

/* Tap (ky, kx) belongs to the points of one class; taps of a class stand in the weight's order. */
static void make_table(conv_job *q, const gd_conv *c, bool backward) {
    const gd_conv_cut *p = &q->cut;
    int64_t at = 0, class = 0;
    for (int64_t a = 0; a < p->classes[0]; a++)
        for (int64_t b = 0; b < p->classes[1]; b++) {
            q->class_start[class++] = at;
            for (int64_t ky = 0; ky < p->kernel[0]; ky++) {
                const int64_t y = backward ? a + c->pad[0] - ky * c->dilation[0] : ky * c->dilation[0] - c->pad[0];
                if (backward && y % c->stride[0]) continue;
                for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
                    const int64_t x = backward ? b + c->pad[1] - kx * c->dilation[1] : kx * c->dilation[1] - c->pad[1];
                    if (backward && x % c->stride[1]) continue;
                    q->x_off[at] = tile_offset(q, backward ? y / c->stride[0] : y, backward ? x / c->stride[1] : x);
                    q->w_off[at++] = (ky * p->kernel[1] + kx) * q->tile_outs;
                }
            }
        }
    q->class_start[class] = at;
}

/* result (N, outs, ...) = bias + weights gathered over the source; backward: the gradient for the input. */
static void gather(const gd_args *args, bool backward) {
    const gd_view *source = args->in[0], *w = args->in[1], *bias = args->in[2], *result = args->out[0];
    const gd_conv c = backward ? gd_conv_of(result, w, source, args->attr) : gd_conv_of(source, w, result, args->attr);
    const int64_t esize = gd_dtype_bytes(result->dtype);
    if (gd_numel(result) == 0) return;
    conv_job q = {.cut = gd_conv_cut_gather(&c, backward, source, esize), .result = result->data, .w = w->data, .b = bias ? bias->data : NULL};
    const gd_conv_cut *p = &q.cut;
    const bool f32 = result->dtype == GD_FLOAT32;
    const int lanes = (int)((f32 ? lanes_f32() : lanes_f64()));
    strides_of_source(&q, source);
    q.in_place = p->in_place && (CONV_MASKED || (p->grid[1] % lanes == 0 && p->block[1] % lanes == 0));
    q.w_out = w->strides[backward], q.w_channel = w->strides[!backward], q.w_row = w->strides[2], q.w_column = w->strides[3];
    q.w_group = c.cout * w->strides[0];
    q.b_step = bias ? bias->strides[3] : 0;
    q.tile_outs = gd_conv_ceil(p->block_outs, gd_conv_ceil(p->block_outs, CONV_MR));
    q.block_lanes = gd_conv_ceil(p->block_outs, q.tile_outs) * q.tile_outs;
    q.weights = args->workspace;
    q.bias = q.weights + p->weight_bytes;
    q.x_off = (int64_t *)(void *)(q.bias + p->bias_bytes);
    q.w_off = q.x_off + p->taps;
    q.class_start = q.w_off + p->taps;
    q.tiles = q.bias + p->bias_bytes + p->table_bytes;
    q.item = f32 ? conv_item_f32 : conv_item_f64;
    make_table(&q, &c, backward);
    const double work = gd_conv_work(p);
    const int64_t packs = p->groups * p->out_blocks, items = packs * p->image_blocks * p->blocks[0] * p->blocks[1];
    run_tasks(packs, f32 ? conv_pack_weights_f32 : conv_pack_weights_f64, &q, packs == 1 || packs * p->block_outs * p->channels * p->taps < GD_CONV_TASK);
    q.per_task = (int64_t)gd_conv_max((int64_t)(GD_CONV_TASK / (work / (double)items + 1)), 1);
    run_tasks(gd_conv_ceil(items, q.per_task), item_task, &q, work < GD_CONV_TASK);
}

static void weight_gradient(const gd_args *args) {
    const gd_view *g = args->in[0], *x = args->in[1], *dw = args->out[0];
    const gd_conv c = gd_conv_of(x, dw, g, args->attr);
    const int64_t esize = gd_dtype_bytes(dw->dtype);
    if (gd_numel(dw) == 0) return;
    conv_job q = {.cut = gd_conv_cut_weight(&c, x, g, esize), .result = dw->data, .w = g->data};
    const gd_conv_cut *p = &q.cut;
    if (p->chunks == 0) {
        memset(dw->data, 0, (size_t)(gd_numel(dw) * esize));
        return;
    }
    const bool f32 = dw->dtype == GD_FLOAT32;
    const int64_t lanes = f32 ? lanes_f32() : lanes_f64();
    strides_of_source(&q, x);
    q.g_image = g->strides[0], q.w_out = g->strides[1], q.w_row = g->strides[2], q.w_column = g->strides[3];
    q.in_place = p->in_place;
    q.narrow = p->outs < GD_CONV_NARROW;
    q.tile_outs = CONV_SUM_MR;
    q.block_lanes = q.narrow ? p->block_outs : gd_conv_ceil(p->block_outs, lanes) * lanes;
    q.partial = args->workspace;
    q.x_off = (int64_t *)(void *)(q.partial + p->partial_bytes);
    q.tiles = q.partial + p->partial_bytes + p->table_bytes;
    for (int64_t channel = 0, at = 0; channel < p->block_channels; channel++)
        for (int64_t ky = 0; ky < p->kernel[0]; ky++)
            for (int64_t kx = 0; kx < p->kernel[1]; kx++)
                q.x_off[at++] = channel * (q.in_place ? q.s_channel : p->plane) + tile_offset(&q, ky * c.dilation[0] - c.pad[0], kx * c.dilation[1] - c.pad[1]);
    const double work = gd_conv_work(p);
    const int64_t tasks = p->chunks * p->groups * p->out_blocks * p->channel_blocks, k = p->channels * p->taps;
    run_tasks(tasks, f32 ? conv_sum_task_f32 : conv_sum_task_f64, &q, work < GD_CONV_TASK);
    run_tasks(p->groups * p->out_blocks * gd_conv_ceil(k, CONV_TOTAL_ROWS), f32 ? conv_total_task_f32 : conv_total_task_f64, &q,
              p->chunks * gd_numel(dw) < GD_CONV_TASK / 4);
}

void GD_KERNEL(conv)(const gd_args *a) { gather(a, false); }
void GD_KERNEL(conv_bwd_input)(const gd_args *a) { gather(a, true); }
void GD_KERNEL(conv_bwd_weight)(const gd_args *a) { weight_gradient(a); }
