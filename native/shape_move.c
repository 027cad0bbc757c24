/* shape_move.c - shape rules of views, of ops that move data, and of ops that fill a new tensor. */
#include "counting.h"
#include "rules.h"
#include "shape.h"

static gd_status view_out(gd_shape_call *c, const gd_view *v) {
    c->out[0] = *v;
    return GD_OK;
}

/* New strides for the same elements in another shape, or false where a copy is needed. Both shapes have
 * four dimensions; groups of old dimensions that lie contiguous are cut anew. */
static bool reshape_strides(const gd_view *v, gd_view *out) {
    int64_t size[GD_DIMS], stride[GD_DIMS];
    int n = 0;
    for (int d = 0; d < GD_DIMS; d++) { /* merge what is contiguous */
        if (v->shape[d] == 1) continue;
        if (n && stride[n - 1] == v->shape[d] * v->strides[d]) {
            size[n - 1] *= v->shape[d];
            stride[n - 1] = v->strides[d];
        } else {
            size[n] = v->shape[d];
            stride[n++] = v->strides[d];
        }
    }
    if (n == 0) size[0] = 1, stride[0] = 1, n = 1;
    int at = n - 1;
    int64_t left = size[at], step = stride[at];
    for (int d = GD_DIMS - 1; d >= 0; d--) {
        out->strides[d] = step;
        if (out->shape[d] == 1) continue;
        while (left == 1 && at > 0) {
            left = size[--at];
            step = stride[at];
        }
        if (left % out->shape[d]) return false;
        out->strides[d] = step;
        left /= out->shape[d];
        step *= out->shape[d];
    }
    return true;
}

gd_status gd_shape_reshape(gd_shape_call *c) {
    const gd_view *v = gd_in(c, 0);
    gd_view out;
    GD_TRY(gd_view_init(&out, c->attr->i[4], c->attr->i, v->dtype, "reshape"));
    if (gd_numel(&out) != gd_numel(v))
        return gd_fail(GD_ERR_SHAPE, "reshape: shape %s has %lld elements, %s would have %lld", gd_text_view(v), (long long)gd_numel(v), gd_text_view(&out),
                       (long long)gd_numel(&out));
    out.data = v->data;
    if (gd_numel(v) > 0 && !gd_is_contiguous(v) && !reshape_strides(v, &out))
        return gd_fail(GD_ERR_SHAPE, "view: the strides of shape %s do not allow shape %s without a copy; use reshape", gd_text_view(v), gd_text_view(&out));
    return view_out(c, &out);
}

gd_status gd_shape_permute(gd_shape_call *c) {
    const gd_view *v = gd_in(c, 0);
    gd_view out = *v;
    out.rank = (uint8_t)c->attr->i[4];
    int seen = 0;
    for (int d = 0; d < GD_DIMS; d++) {
        int64_t from = c->attr->i[d];
        if (from < 0 || from >= GD_DIMS || seen >> from & 1) return gd_fail(GD_ERR_SHAPE, "permute: dimensions must be each of shape %s's once", gd_text_view(v));
        seen |= 1 << from;
        out.shape[d] = v->shape[from];
        out.strides[d] = v->strides[from];
    }
    int64_t rank = c->attr->i[4], leading = 1;
    for (int64_t d = 0; d < GD_DIMS - rank && d < GD_DIMS; d++) leading *= out.shape[d];
    if (rank < 0 || rank > GD_DIMS || leading != 1)
        return gd_fail(GD_ERR_SHAPE, "permute: shape %s cannot become one of %lld dimensions", gd_text_view(v), (long long)rank);
    return view_out(c, &out);
}

gd_status gd_shape_expand(gd_shape_call *c) {
    const gd_view *v = gd_in(c, 0);
    int64_t rank = c->attr->i[4];
    gd_view out = *v;
    if (rank < v->rank || rank > GD_DIMS)
        return gd_fail(GD_ERR_SHAPE, "expand: shape %s cannot have %lld dimensions: at least its own, at most four", gd_text_view(v), (long long)rank);
    out.rank = (uint8_t)rank;
    int64_t count = 1;
    for (int64_t d = GD_DIMS - 1; d >= GD_DIMS - rank; d--) {
        int64_t size = c->attr->i[d - (GD_DIMS - rank)];
        if (size == -1 && d >= GD_DIMS - v->rank) size = v->shape[d];
        if (size < 0 || (size != v->shape[d] && v->shape[d] != 1))
            return gd_fail(GD_ERR_SHAPE, "expand: shape %s cannot become %s: only dimensions of size 1 can grow", gd_text_view(v),
                           gd_text_shape(rank, c->attr->i));
        if (size != v->shape[d]) out.strides[d] = 0;
        out.shape[d] = size;
        if (__builtin_mul_overflow(count, size ? size : 1, &count)) return gd_fail(GD_ERR_MEMORY, "expand: %s has more elements than 2^63", gd_text_shape(rank, c->attr->i));
    }
    return view_out(c, &out);
}

gd_status gd_shape_slice(gd_shape_call *c) {
    const gd_view *v = gd_in(c, 0);
    gd_view out = *v;
    int64_t offset = 0;
    for (int d = 0; d < GD_DIMS; d++) {
        int64_t start = c->attr->i[d], step = c->attr->i[4 + d], length = c->attr->i[8 + d];
        if (start < 0 || step < 1 || length < 0 || (length && (start >= v->shape[d] || length - 1 > (v->shape[d] - 1 - start) / step)))
            return gd_fail(GD_ERR_INDEX, "slice: start %lld, step %lld, length %lld do not fit dimension %d of shape %s", (long long)start, (long long)step,
                           (long long)length, d - GD_DIMS, gd_text_view(v));
        if (length) offset += start * v->strides[d];
        out.shape[d] = length;
        if (length > 1) out.strides[d] *= step;
    }
    if (gd_numel(&out)) out.data = (char *)v->data + offset * gd_dtype_bytes(v->dtype);
    return view_out(c, &out);
}

gd_status gd_shape_detach(gd_shape_call *c) { return view_out(c, gd_in(c, 0)); }

/* ---- Moving data ------------------------------------------------------------------------------------------------- */

gd_status gd_shape_cat(gd_shape_call *c) {
    if (c->nin < 1) return gd_fail(GD_ERR_VALUE, "cat: needs at least one tensor");
    GD_TRY(gd_shape_need_dim(c, 0));
    int64_t dim = c->attr->i[0], total = 0;
    const gd_view *first = gd_in(c, 0);
    if (first->rank == 0) return gd_fail(GD_ERR_SHAPE, "cat: scalars cannot be concatenated; use stack");
    for (int k = 0; k < c->nin; k++) {
        const gd_view *v = gd_in(c, k);
        GD_TRY(gd_shape_need_same_dtype(c, 0, k));
        bool fits = v->rank == first->rank;
        for (int d = 0; d < GD_DIMS; d++) fits &= d == dim || v->shape[d] == first->shape[d];
        if (!fits)
            return gd_fail(GD_ERR_SHAPE, "cat: shapes %s and %s (tensor %d) differ outside dimension %lld", gd_text_view(first), gd_text_view(v), k,
                           (long long)(dim - GD_DIMS));
        if (__builtin_add_overflow(total, v->shape[dim], &total)) return gd_fail(GD_ERR_MEMORY, "cat: the result has more than 2^63 elements");
    }
    gd_view out = *first;
    out.shape[dim] = total;
    return gd_shape_out(c, 0, first->rank, gd_logical_shape(&out), first->dtype);
}

/* The sliced tensor's shape stands in i[12] (rank) and packed behind the slice: see vjp_slice. */
gd_status gd_shape_unslice(gd_shape_call *c) {
    const gd_view *g = gd_in(c, 0);
    const int64_t *at = c->attr->i, *shape = c->attr->i + 8, rank = c->attr->i[12];
    for (int d = 0; d < GD_DIMS; d++)
        if (rank < 0 || rank > GD_DIMS || (d < GD_DIMS - rank && shape[d] != 1) || at[d] < 0 || at[4 + d] < 1 ||
            (g->shape[d] && (at[d] >= shape[d] || g->shape[d] - 1 > (shape[d] - 1 - at[d]) / at[4 + d])))
            return gd_fail(GD_ERR_INDEX, "unslice: shape %s does not fit the place it goes to", gd_text_view(g));
    return gd_shape_out(c, 0, rank, shape + GD_DIMS - rank, g->dtype);
}

gd_status gd_shape_index_select(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0), *index = gd_in(c, 1);
    GD_TRY(gd_shape_need_dim(c, 0));
    int64_t dim = c->attr->i[0];
    GD_TRY(gd_shape_need_int64(c, 1));
    if (x->rank == 0 && index->shape[3] != 1) return gd_fail(GD_ERR_SHAPE, "index_select: from a scalar one index selects, got %lld", (long long)index->shape[3]);
    if (index->rank > 1) return gd_fail(GD_ERR_SHAPE, "index_select: index has shape %s, must have one dimension", gd_text_view(index));
    GD_TRY(gd_shape_check_range(c, index, -x->shape[dim], x->shape[dim], 0, "index"));
    if (x->shape[dim] == 0 && index->shape[3] > 0) return gd_fail(GD_ERR_INDEX, "index_select: dimension %lld is empty", (long long)(dim - GD_DIMS));
    gd_view out = *x;
    out.shape[dim] = index->shape[3];
    return gd_shape_out(c, 0, x->rank, gd_logical_shape(&out), x->dtype);
}

/* Of the ops that add up what was picked: dimension i[0] of their result has `size` places for the index. */
static gd_status need_picked(gd_shape_call *c, int64_t size) {
    GD_TRY(gd_shape_need_dim(c, 0));
    GD_TRY(gd_shape_need_int64(c, 1));
    if (size < 0 || (size == 0 && gd_numel(gd_in(c, 1)))) return gd_fail(GD_ERR_INDEX, "%s: %lld places", c->name, (long long)size);
    return gd_shape_check_range(c, gd_in(c, 1), -size, size, 0, "index");
}

gd_status gd_shape_index_add_zeros(gd_shape_call *c) {
    gd_view out = *gd_in(c, 0);
    GD_TRY(need_picked(c, c->attr->i[1]));
    if (out.rank == 0 || gd_in(c, 1)->rank != 1 || gd_in(c, 1)->shape[3] != out.shape[c->attr->i[0]])
        return gd_fail(GD_ERR_SHAPE, "%s: an index of shape %s does not fit %s", c->name, gd_text_view(gd_in(c, 1)), gd_text_view(&out));
    out.shape[c->attr->i[0]] = c->attr->i[1];
    return gd_shape_out(c, 0, out.rank, gd_logical_shape(&out), out.dtype);
}

gd_status gd_shape_gather(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0), *index = gd_in(c, 1);
    GD_TRY(gd_shape_need_dim(c, 0));
    int64_t dim = c->attr->i[0];
    GD_TRY(gd_shape_need_int64(c, 1));
    bool fits = (x->rank ? x->rank : 1) == (index->rank ? index->rank : 1);
    for (int d = 0; d < GD_DIMS; d++) fits &= d == dim || index->shape[d] <= x->shape[d];
    if (!fits)
        return gd_fail(GD_ERR_SHAPE, "gather: index %s does not fit input %s: same number of dimensions, none larger except dimension %lld", gd_text_view(index),
                       gd_text_view(x), (long long)(dim - GD_DIMS));
    if (x->shape[dim] == 0 && gd_numel(index)) return gd_fail(GD_ERR_INDEX, "gather: dimension %lld is empty", (long long)(dim - GD_DIMS));
    GD_TRY(gd_shape_check_range(c, index, -x->shape[dim], x->shape[dim], 0, "index"));
    return gd_shape_out(c, 0, index->rank, gd_logical_shape(index), x->dtype);
}

/* i[2..5]: the gathered tensor's shape, whose other dimensions may be larger than the index's. */
gd_status gd_shape_scatter_add_zeros(gd_shape_call *c) {
    const gd_view *g = gd_in(c, 0), *index = gd_in(c, 1);
    const int64_t *shape = c->attr->i + 2;
    GD_TRY(gd_shape_need_dim(c, 0));
    GD_TRY(need_picked(c, shape[c->attr->i[0]]));
    bool fits = true;
    for (int d = 0; d < GD_DIMS; d++)
        fits &= index->shape[d] <= g->shape[d] && (d == c->attr->i[0] || index->shape[d] <= shape[d]) && (d >= GD_DIMS - g->rank || shape[d] == 1);
    if (!fits) return gd_fail(GD_ERR_SHAPE, "%s: an index of shape %s does not fit %s", c->name, gd_text_view(index), gd_text_view(g));
    return gd_shape_out(c, 0, g->rank, shape + GD_DIMS - g->rank, g->dtype);
}

gd_status gd_shape_one_hot(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0);
    GD_TRY(gd_shape_need_int64(c, 0));
    int64_t classes = c->attr->i[0];
    if (classes < 1) return gd_fail(GD_ERR_VALUE, "one_hot: %lld classes: there must be at least one", (long long)classes);
    GD_TRY(gd_shape_check_range(c, x, 0, classes, 0, "label"));
    if (x->rank == GD_DIMS) return gd_fail(GD_ERR_SHAPE, "one_hot: shape %s has four dimensions already, and tensors have at most four", gd_text_view(x));
    int64_t shape[GD_DIMS];
    memcpy(shape, gd_logical_shape(x), sizeof(int64_t) * x->rank);
    shape[x->rank] = classes;
    return gd_shape_out(c, 0, x->rank + 1, shape, GD_INT64);
}

/* i[0] = the number of nonzero elements, counted by the caller. */
gd_status gd_shape_nonzero(gd_shape_call *c) {
    int64_t shape[2] = {c->attr->i[0], gd_in(c, 0)->rank};
    c->workspace = gd_count_blocks(gd_numel(gd_in(c, 0))) * (int64_t)sizeof(int64_t); /* whatever the strides: halves become contiguous */
    return gd_shape_out(c, 0, 2, shape, GD_INT64);
}

gd_status gd_shape_factory(gd_shape_call *c) {
    int64_t rank = c->attr->i[4], dtype = c->attr->i[5];
    if (dtype < 0 || dtype >= GD_DTYPES) return gd_fail(GD_ERR_DTYPE, "%s: %lld is no dtype", c->name, (long long)dtype);
    bool floats = c->op == GD_OP_uniform || c->op == GD_OP_normal, integers = c->op == GD_OP_randint;
    if ((floats && !gd_is_float((int)dtype)) || (integers && dtype != GD_INT64 && dtype != GD_INT32))
        return gd_fail(GD_ERR_DTYPE, "%s: not for %s", c->name, gd_dtype_name((int)dtype));
    if ((c->op == GD_OP_arange && rank != 1) || (c->op == GD_OP_eye && rank != 2))
        return gd_fail(GD_ERR_SHAPE, "%s: rank is %lld, must be %d", c->name, (long long)rank, c->op == GD_OP_eye ? 2 : 1);
    return gd_shape_out(c, 0, rank, c->attr->i, (int)dtype);
}
