/* conv_body.h - what convolutions do per element type: copying a source with its borders, packing weights, and the
 * items of work. Template: the includer defines TILE_T, TILE(name) and CONV(name); see conv_driver.h. */

/* The source that grid points from (row, column) on see: images x channels x rows, with zeros around the image. The
 * columns of a row are sorted by phases of the column step. */
static void CONV(copy)(const conv_job *q, int64_t image, int64_t images, int64_t channel, int64_t channels, int64_t row, int64_t rows, int64_t column, TILE_T *to) {
    const gd_conv_cut *p = &q->cut;
    const int64_t y0 = row * p->step[0] + p->low[0], x0 = column * p->step[1] + p->low[1], step = p->step[1], columns = p->tile[1];
    const int64_t tile_rows = (rows - 1) * p->step[0] + p->span[0] + 1;
    const int64_t top = gd_conv_min(gd_conv_max(-y0, 0), tile_rows); /* rows of zeros, and where rows of the image end */
    const int64_t bottom = gd_conv_max(gd_conv_min(p->source[0] - y0, tile_rows), top);
    for (int64_t n = image; n < image + images; n++, to += p->block_channels * p->plane) {
        TILE_T *plane = to;
        for (int64_t c = 0; c < channels; c++, plane += p->plane) {
            const TILE_T *s = (const TILE_T *)q->source + n * q->s_image + (channel + c) * q->s_channel + (y0 + top) * q->s_row;
            memset(plane, 0, (size_t)(top * p->row) * sizeof(TILE_T));
            memset(plane + bottom * p->row, 0, (size_t)((tile_rows - bottom) * p->row) * sizeof(TILE_T));
            for (int64_t phase = 0; phase < step; phase++) {
                const int64_t first = x0 + phase; /* column j of the phase is first + j step; those in [from, end) are real */
                const int64_t from = first >= 0 ? 0 : gd_conv_min(gd_conv_ceil(-first, step), columns);
                const int64_t end = first >= p->source[1] ? from : gd_conv_max(gd_conv_min((p->source[1] - 1 - first) / step + 1, columns), from);
                TILE(copy_source)(s + first * q->s_column, q->s_row, step * q->s_column, bottom - top, from, end, columns,
                                plane + top * p->row + phase * columns, p->row);
            }
        }
    }
}

/* Weights of one group and part of its results: per register tile [channel][tap][result]; and their bias. */
static void CONV(pack_weights)(void *ctx, int64_t task, int worker) {
    const conv_job *q = ctx;
    const gd_conv_cut *p = &q->cut;
    const int64_t group = task / p->out_blocks, first = task % p->out_blocks * p->block_outs;
    const int64_t outs = gd_conv_min(p->block_outs, p->outs - first), k = p->channels * p->taps;
    TILE_T *to = (TILE_T *)q->weights + task * q->block_lanes * k;
    TILE_T *bias = (TILE_T *)q->bias + task * q->block_lanes;
    const TILE_T *w = (const TILE_T *)q->w + group * q->w_group, *b = (const TILE_T *)q->b;
    (void)worker;
    for (int64_t o = 0; o < outs; o++) {
        TILE_T *lane = to + o / q->tile_outs * q->tile_outs * k + o % q->tile_outs;
        for (int64_t c = 0; c < p->channels; c++) {
            const TILE_T *s = w + (first + o) * q->w_out + c * q->w_channel;
            for (int64_t y = 0; y < p->kernel[0]; y++)
                for (int64_t x = 0; x < p->kernel[1]; x++, lane += q->tile_outs) *lane = s[y * q->w_row + x * q->w_column];
        }
        if (b) bias[o] = b[(group * p->outs + first + o) * q->b_step];
    }
}

/* Results of a class for the item's points; `to` is the result of the first of them. */
static void CONV(multiply)(const conv_job *q, const conv_item *it, int64_t class, int64_t channel, const TILE_T *x, int64_t x_image, int64_t x_plane,
                           int64_t x_row, int64_t columns, TILE_T *to, int64_t y_image, int64_t y_plane, int64_t y_row) {
    const gd_conv_cut *p = &q->cut;
    const int64_t k0 = q->class_start[class], k = p->channels * p->taps;
    const int fold = TILE(best_fold)(columns), lanes = TILE(lanes)() / fold;
    conv_unit unit[CONV_UNITS];
    int64_t units = 0;
    for (int64_t n = 0; n < it->images; n++)
        for (int64_t r = 0; r < it->rows; r += fold)
            for (int64_t c = 0; c < columns; c += lanes)
                unit[units++] = (conv_unit){n * x_image + r * x_row + c, n * y_image + r * y_row + c, (int)gd_conv_min(lanes, columns - c),
                                            (int)gd_conv_min(fold, it->rows - r)};
    for (int v = 0; v < CONV_MOST_UNITS; v++) unit[units + v] = (conv_unit){unit[0].x, unit[0].y, 0, 0};
    conv_tile t = {.x = x, .x_plane = x_plane, .x_step = x_row, .x_off = q->x_off + k0, .taps = q->class_start[class + 1] - k0,
                   .channels = gd_conv_min(p->block_channels, p->channels - channel), .y_plane = y_plane, .y_step = y_row,
                   .w_off = q->w_off + k0, .w_plane = p->taps * q->tile_outs, .accumulate = channel > 0};
    const TILE_T *w = (const TILE_T *)q->weights + it->weights * q->block_lanes * k + channel * t.w_plane;
    const TILE_T *bias = q->b && channel == 0 ? (const TILE_T *)q->bias + it->weights * q->block_lanes : NULL;
    for (int64_t o = 0; o < it->outs; o += q->tile_outs, w += q->tile_outs * k) {
        const int mr = (int)gd_conv_min(q->tile_outs, it->outs - o), nv = mr <= CONV_NARROW ? CONV_MOST_UNITS : 2;
        conv_fn *const run = TILE(pick_product)(mr, fold);
        t.w = w;
        t.init = bias ? bias + o : NULL;
        t.y = to + o * y_plane;
        for (int64_t u = 0; u < units; u += nv) {
            t.unit = unit + u;
            run(&t);
        }
    }
}

/* Rows of points of all column classes, each dense in the scratch, become rows of the result. */
static void CONV(interleave)(const conv_job *q, const conv_item *it, int64_t class_row, const TILE_T *from, int64_t per_class) {
    const gd_conv_cut *p = &q->cut;
    const int64_t classes = p->classes[1], plane = p->result[0] * p->result[1];
    for (int64_t n = 0; n < it->images; n++)
        for (int64_t o = 0; o < it->outs; o++)
            for (int64_t r = 0; r < it->rows; r++, from += p->block[1]) {
                TILE_T *to = (TILE_T *)q->result + ((it->image + n) * p->groups * p->outs + it->group * p->outs + it->out + o) * plane +
                             ((it->row + r) * p->classes[0] + class_row) * p->result[1] + it->column * classes;
                const int64_t width = gd_conv_min(it->columns * classes, p->result[1] - it->column * classes);
                for (int64_t b = 0; b < classes; b++) {
                    const TILE_T *s = from + b * per_class;
                    const int64_t count = (width - b + classes - 1) / classes;
                    if (classes == 2) for (int64_t c = 0; c < count; c++) to[2 * c + b] = s[c];
                    else for (int64_t c = 0; c < count; c++) to[c * classes + b] = s[c];
                }
            }
}

/* Points of a class along dimension d among `count` from `first` on. */
static inline int64_t CONV(of_class)(const gd_conv_cut *p, int d, int64_t class, int64_t first, int64_t count) {
    return gd_conv_min(count, gd_conv_ceil(p->result[d] - class, p->classes[d]) - first);
}

static void CONV(item)(const conv_job *q, conv_item it, int worker) {
    const gd_conv_cut *p = &q->cut;
    TILE_T *tile = (TILE_T *)(q->tiles + worker * (p->tile_bytes + p->scratch_bytes));
    TILE_T *scratch = (TILE_T *)((char *)tile + p->tile_bytes);
    const bool direct = p->classes[0] * p->classes[1] == 1;
    const int64_t all_rows = it.rows, plane = p->result[0] * p->result[1];
    TILE_T *result = (TILE_T *)q->result + ((it.image * p->groups + it.group) * p->outs + it.out) * plane + it.row * p->result[1] + it.column;
    for (int64_t a = 0; a < p->classes[0]; a++) {
        it.rows = CONV(of_class)(p, 0, a, it.row, all_rows);
        if (it.rows <= 0) continue;
        const int64_t dense_plane = it.rows * p->block[1], dense_image = it.outs * dense_plane;
        for (int64_t block = 0; block < p->channel_blocks; block++) {
            const int64_t channel = block * p->block_channels, channels = gd_conv_min(p->block_channels, p->channels - channel);
            const TILE_T *x = tile;
            int64_t x_image = p->block_channels * p->plane, x_plane = p->plane, x_row = p->step[0] * p->row;
            if (q->in_place) {
                x = (const TILE_T *)q->source + it.image * q->s_image + (it.group * p->channels + channel) * q->s_channel +
                    it.row * p->step[0] * q->s_row + it.column * q->s_column;
                x_image = q->s_image, x_plane = q->s_channel, x_row = p->step[0] * q->s_row;
            } else if (a == 0 || p->channel_blocks > 1) {
                CONV(copy)(q, it.image, it.images, it.group * p->channels + channel, channels, it.row, all_rows, it.column, tile);
            }
            for (int64_t b = 0; b < p->classes[1]; b++) {
                const int64_t columns = CONV(of_class)(p, 1, b, it.column, it.columns);
                if (columns <= 0) continue;
                if (direct) CONV(multiply)(q, &it, 0, channel, x, x_image, x_plane, x_row, columns, result, p->groups * p->outs * plane, plane, p->result[1]);
                else CONV(multiply)(q, &it, a * p->classes[1] + b, channel, x, x_image, x_plane, x_row, columns, scratch + b * it.images * dense_image,
                                    dense_image, dense_plane, p->block[1]);
            }
        }
        if (!direct) CONV(interleave)(q, &it, a, scratch, it.images * dense_image);
    }
}

/* ---- Gradient for the weight -------------------------------------------------------------------------------------- */

/* The gradient of the block's points and results: [panel][point][lane], or dense rows of points where there are few results. */
static void CONV(pack_gradient)(const conv_job *q, const conv_item *it, TILE_T *to) {
    const int64_t width = 2 * TILE(lanes)(), points = it->images * it->rows * it->columns;
    const TILE_T *g = (const TILE_T *)q->w + it->image * q->g_image + (it->group * q->cut.outs + it->out) * q->w_out + it->row * q->w_row + it->column * q->w_column;
    if (q->narrow) {
        for (int64_t o = 0; o < it->outs; o++)
            for (int64_t n = 0; n < it->images; n++)
                for (int64_t r = 0; r < it->rows; r++, to += it->columns) {
                    const TILE_T *s = g + n * q->g_image + o * q->w_out + r * q->w_row;
                    for (int64_t c = 0; c < it->columns; c++) to[c] = s[c * q->w_column];
                }
        return;
    }
    const bool whole = q->w_row == it->columns * q->w_column; /* rows follow each other */
    const int64_t rows = whole ? 1 : it->rows, columns = whole ? it->rows * it->columns : it->columns;
    for (int64_t o = 0; o < it->outs; o += width, g += width * q->w_out, to += points * width) {
        const int64_t lanes = gd_conv_min(width, it->outs - o), panel = lanes <= width / 2 ? width / 2 : width;
        TILE_T *row = to;
        for (int64_t n = 0; n < it->images; n++)
            for (int64_t r = 0; r < rows; r++, row += columns * panel)
                TILE(pack_lanes_of)(g + n * q->g_image + r * q->w_row, q->w_out, q->w_column, lanes, columns, panel, row);
    }
}

/* One part of the results and of the source's channels, over one part of the batch. */
static void CONV(sum_task)(void *ctx, int64_t task, int worker) {
    const conv_job *q = ctx;
    const gd_conv_cut *p = &q->cut;
    const int64_t width = 2 * TILE(lanes)(), k = p->channels * p->taps;
    int64_t at = task;
    const int64_t channel_block = at % p->channel_blocks, out_block = (at /= p->channel_blocks) % p->out_blocks;
    const int64_t group = (at /= p->out_blocks) % p->groups, chunk = at / p->groups;
    const int64_t channel = channel_block * p->block_channels, channels = gd_conv_min(p->block_channels, p->channels - channel);
    conv_item it = {.group = group, .out = out_block * p->block_outs};
    it.outs = gd_conv_min(p->block_outs, p->outs - it.out);
    TILE_T *tile = (TILE_T *)(q->tiles + worker * (p->tile_bytes + p->gradient_bytes));
    TILE_T *gradient = (TILE_T *)((char *)tile + p->tile_bytes);
    TILE_T *sum = (TILE_T *)q->partial + (((chunk * p->groups + group) * p->out_blocks + out_block) * k + channel * p->taps) * q->block_lanes;
    const int64_t blocks = p->image_blocks * p->blocks[0] * p->blocks[1], first = chunk * p->chunk_blocks;
    for (int64_t block = first; block < gd_conv_min(first + p->chunk_blocks, blocks); block++) {
        place_block(p, block, &it);
        const TILE_T *x = tile;
        const int64_t points = it.images * it.rows * it.columns, rows = channels * p->taps;
        conv_sums t = {.images = it.images, .rows = it.rows, .columns = it.columns, .x_image = p->block_channels * p->plane,
                       .x_row = p->step[0] * p->row, .lanes = q->block_lanes, .accumulate = block > first};
        if (q->in_place) {
            x = (const TILE_T *)q->source + it.image * q->s_image + (group * p->channels + channel) * q->s_channel + it.row * p->step[0] * q->s_row +
                it.column * q->s_column;
            t.x_image = q->s_image, t.x_row = p->step[0] * q->s_row;
        } else {
            CONV(copy)(q, it.image, it.images, group * p->channels + channel, channels, it.row, it.rows, it.column, tile);
        }
        CONV(pack_gradient)(q, &it, gradient);
        t.x = x;
        if (q->narrow) {
            for (int64_t o = 0; o < it.outs; o++)
                for (int64_t i = 0; i < rows; i += q->tile_outs) {
                    t.g = gradient + o * points;
                    t.x_off = q->x_off + i;
                    t.sum = sum + i * q->block_lanes + o;
                    TILE(pick_dots)((int)gd_conv_min(q->tile_outs, rows - i))(&t);
                }
            continue;
        }
        for (int64_t o = 0; o < it.outs; o += width) {
            const int nv = it.outs - o <= width / 2 ? 1 : 2;
            t.g = gradient + o * points;
            for (int64_t i = 0; i < rows; i += q->tile_outs) {
                t.x_off = q->x_off + i;
                t.sum = sum + i * q->block_lanes + o;
                TILE(pick_sums)((int)gd_conv_min(q->tile_outs, rows - i), nv)(&t);
            }
        }
    }
}

/* Parts of the batch are added up in order: [tap of a channel][lane] to [result][tap of a channel]. */
static void CONV(total_task)(void *ctx, int64_t task, int worker) {
    const conv_job *q = ctx;
    const gd_conv_cut *p = &q->cut;
    const int64_t k = p->channels * p->taps, steps = gd_conv_ceil(k, CONV_TOTAL_ROWS), k0 = task % steps * CONV_TOTAL_ROWS;
    const int64_t rows = gd_conv_min(CONV_TOTAL_ROWS, k - k0), out_block = task / steps % p->out_blocks, group = task / steps / p->out_blocks;
    const int64_t chunk_size = p->groups * p->out_blocks * k * q->block_lanes, out = out_block * p->block_outs;
    const TILE_T *from = (const TILE_T *)q->partial + ((group * p->out_blocks + out_block) * k + k0) * q->block_lanes;
    TILE_T *to = (TILE_T *)q->result + (group * p->outs + out) * k + k0;
    (void)worker;
    for (int64_t o = 0; o < gd_conv_min(p->block_outs, p->outs - out); o++, to += k) {
        for (int64_t i = 0; i < rows; i++) to[i] = from[i * q->block_lanes + o];
        for (int64_t c = 1; c < p->chunks; c++)
            for (int64_t i = 0; i < rows; i++) to[i] += from[c * chunk_size + i * q->block_lanes + o];
    }
}
