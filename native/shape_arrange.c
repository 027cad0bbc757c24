/* shape_arrange.c - shape rules of what arranges the elements of a tensor: pad, flip, diagonal, unfold. */
#include "arrange.h"
#include "rules.h"
#include "shape.h"

static const char *const PAD_MODES[GD_PAD_MODES] = {"constant", "reflect", "replicate", "circular"};

/* Checks the padding of a tensor of these sizes (of the four), and gives the padded ones. */
static gd_status padded(gd_shape_call *c, const int64_t *size, int64_t rank, int64_t *shape) {
    const int64_t mode = c->attr->i[0], *before = c->attr->i + 1, *after = c->attr->i + 5;
    if (mode < 0 || mode >= GD_PAD_MODES) return gd_fail(GD_ERR_VALUE, "%s: mode %lld: there are %d", c->name, (long long)mode, GD_PAD_MODES);
    for (int d = 0; d < GD_DIMS; d++) {
        int64_t most = before[d] > after[d] ? before[d] : after[d];
        if (__builtin_add_overflow(size[d], before[d], &shape[d]) || __builtin_add_overflow(shape[d], after[d], &shape[d]))
            return gd_fail(GD_ERR_MEMORY, "%s: more elements than memory can ever hold", c->name);
        if (shape[d] < 0 || (d < GD_DIMS - rank && (before[d] || after[d])) ||
            (mode == GD_PAD_CONSTANT && (-before[d] > size[d] || -after[d] > size[d])))
            return gd_fail(GD_ERR_SHAPE, "%s: %lld and %lld do not fit dimension %d of %lld entries", c->name, (long long)before[d], (long long)after[d],
                           d - GD_DIMS, (long long)size[d]);
        if (mode == GD_PAD_REFLECT && most >= size[d] && most > 0)
            return gd_fail(GD_ERR_SHAPE, "%s: reflect: padding %lld must be less than %lld, the size of dimension %d", c->name, (long long)most,
                           (long long)size[d], d - GD_DIMS);
        if (mode != GD_PAD_CONSTANT && size[d] == 0 && shape[d] > 0)
            return gd_fail(GD_ERR_SHAPE, "%s: %s: dimension %d is empty, there is nothing to repeat", c->name, PAD_MODES[mode], d - GD_DIMS);
    }
    c->workspace = gd_pad_runs(size[3], before[3], after[3], shape[3], (int)mode) * (int64_t)sizeof(gd_pad_run);
    return GD_OK;
}

gd_status gd_shape_pad(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0);
    int64_t shape[GD_DIMS];
    GD_TRY(padded(c, x->shape, x->rank, shape));
    return gd_shape_out(c, 0, x->rank, shape + GD_DIMS - x->rank, x->dtype);
}

gd_status gd_shape_pad_bwd(gd_shape_call *c) {
    const gd_view *g = gd_in(c, 0);
    const int64_t *size = c->attr->i + 9;
    int64_t shape[GD_DIMS];
    GD_TRY(gd_shape_need_float(c, 0));
    GD_TRY(padded(c, size, g->rank, shape));
    for (int d = 0; d < GD_DIMS; d++)
        if (size[d] < 0 || shape[d] != g->shape[d]) return gd_fail(GD_ERR_SHAPE, "%s: shape %s is not the padded one's", c->name, gd_text_view(g));
    return gd_shape_out(c, 0, g->rank, size + GD_DIMS - g->rank, g->dtype);
}

gd_status gd_shape_flip(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0);
    const int64_t leading = GD_DIMS - x->rank, mask = c->attr->i[0];
    if (mask < 0 || mask > 15 || (mask & (((int64_t)1 << leading) - 1) && x->rank))
        return gd_fail(GD_ERR_VALUE, "flip: %lld is no mask of the dimensions of shape %s", (long long)mask, gd_text_view(x));
    return gd_shape_like(c, 0, x, x->dtype);
}

static int64_t diagonal_length(int64_t rows, int64_t columns, int64_t offset) {
    int64_t n = offset >= 0 ? rows : rows + offset, m = offset >= 0 ? columns - offset : columns;
    return n < m ? (n > 0 ? n : 0) : m > 0 ? m : 0;
}

static gd_status need_two_dims(const gd_shape_call *c, int64_t rank) {
    const int64_t d1 = c->attr->i[1], d2 = c->attr->i[2], first = GD_DIMS - rank;
    if (rank <= GD_DIMS && d1 >= first && d2 >= first && d1 < GD_DIMS && d2 < GD_DIMS && d1 != d2) return GD_OK;
    return gd_fail(GD_ERR_VALUE, "%s: needs two different dimensions of %lld, got %lld and %lld (counted in four)", c->name, (long long)rank, (long long)d1,
                   (long long)d2);
}

gd_status gd_shape_diagonal(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0);
    const int64_t offset = c->attr->i[0], d1 = c->attr->i[1], d2 = c->attr->i[2];
    GD_TRY(need_two_dims(c, x->rank));
    gd_view out = *x;
    out.rank = (uint8_t)(x->rank - 1);
    out.shape[0] = 1, out.strides[0] = 0;
    for (int d = 0, k = 1; d < GD_DIMS; d++)
        if (d != d1 && d != d2) out.shape[k] = x->shape[d], out.strides[k++] = x->strides[d];
    out.shape[3] = diagonal_length(x->shape[d1], x->shape[d2], offset);
    out.strides[3] = x->strides[d1] + x->strides[d2];
    if (gd_numel(&out)) out.data = (char *)x->data + (offset >= 0 ? offset * x->strides[d2] : -offset * x->strides[d1]) * gd_dtype_bytes(x->dtype);
    c->out[0] = out;
    return GD_OK;
}

gd_status gd_shape_undiagonal(gd_shape_call *c) {
    const gd_view *g = gd_in(c, 0);
    const int64_t d1 = c->attr->i[1], d2 = c->attr->i[2], rank = g->rank + 1;
    int64_t shape[GD_DIMS] = {1, 1, 1, 1};
    if (g->rank == 0 || g->rank == GD_DIMS)
        return gd_fail(GD_ERR_SHAPE, "diag_embed: shape %s: it needs one to three dimensions, the result has one more, and tensors have at most four", gd_text_view(g));
    GD_TRY(need_two_dims(c, rank));
    for (int d = 0, k = 1; d < GD_DIMS; d++)
        if (d != d1 && d != d2) shape[d] = g->shape[k++];
    shape[d1] = c->attr->i[3], shape[d2] = c->attr->i[4];
    if (shape[d1] < 0 || shape[d2] < 0 || diagonal_length(shape[d1], shape[d2], c->attr->i[0]) != g->shape[3])
        return gd_fail(GD_ERR_SHAPE, "%s: %lld elements are not that diagonal of %lld by %lld", c->name, (long long)g->shape[3], (long long)shape[d1],
                       (long long)shape[d2]);
    return gd_shape_out(c, 0, rank, shape + GD_DIMS - rank, g->dtype);
}

static gd_status need_windows(gd_shape_call *c, int64_t entries) {
    const int64_t size = c->attr->i[1], step = c->attr->i[2];
    if (size < 0 || size > entries) return gd_fail(GD_ERR_SHAPE, "unfold: windows of %lld entries do not fit %lld", (long long)size, (long long)entries);
    if (step < 1) return gd_fail(GD_ERR_VALUE, "unfold: step is %lld, must be at least 1", (long long)step);
    return GD_OK;
}

gd_status gd_shape_unfold(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0);
    GD_TRY(gd_shape_need_dim(c, 0));
    const int64_t dim = c->attr->i[0], size = c->attr->i[1], step = c->attr->i[2];
    if (x->rank == GD_DIMS)
        return gd_fail(GD_ERR_SHAPE, "unfold: shape %s has four dimensions already, and tensors have at most four", gd_text_view(x));
    GD_TRY(need_windows(c, x->shape[dim]));
    gd_view out = *x;
    out.rank = (uint8_t)(x->rank ? x->rank + 1 : 1);
    for (int d = 0; d < 3; d++) out.shape[d] = x->shape[d + 1], out.strides[d] = x->strides[d + 1];
    out.shape[dim - 1] = (x->shape[dim] - size) / step + 1;
    out.strides[dim - 1] = out.shape[dim - 1] > 1 ? x->strides[dim] * step : x->strides[dim];
    out.shape[3] = size, out.strides[3] = x->strides[dim];
    c->out[0] = out;
    return GD_OK;
}

gd_status gd_shape_unfold_bwd(gd_shape_call *c) {
    const gd_view *g = gd_in(c, 0);
    const int64_t dim = c->attr->i[0], step = c->attr->i[2], size = c->attr->i[3];
    GD_TRY(gd_shape_need_float(c, 0));
    if (g->rank == 0 || dim < 1 || dim >= GD_DIMS) return gd_fail(GD_ERR_SHAPE, "%s: shape %s has no windows", c->name, gd_text_view(g));
    GD_TRY(need_windows(c, size));
    if (g->shape[3] != c->attr->i[1] || g->shape[dim - 1] != (size - c->attr->i[1]) / step + 1)
        return gd_fail(GD_ERR_SHAPE, "%s: shape %s does not fit %lld entries", c->name, gd_text_view(g), (long long)size);
    int64_t shape[GD_DIMS] = {1, g->shape[0], g->shape[1], g->shape[2]}, rank = g->rank - 1;
    shape[dim] = size;
    return gd_shape_out(c, 0, rank, shape + GD_DIMS - rank, g->dtype);
}
