/* api_view.c - public entry points of views: tensors over the memory of another. */
#include "engine.h"

gd_tensor gd_contiguous(gd_tensor t) {
    gd_node *n = gd_node_of(t, "contiguous");
    if (!n) return 0;
    return gd_is_contiguous(&n->v) ? t : GD_RECORD(copy, NULL, t);
}

static gd_tensor reshape(gd_tensor a, int64_t rank, const int64_t *shape, bool may_copy) {
    gd_node *n = gd_node_of(a, "reshape");
    if (!n) return 0;
    if (rank < 0 || rank > GD_DIMS) {
        gd_fail(GD_ERR_SHAPE, "reshape: rank %lld: tensors have at most four dimensions", (long long)rank);
        return 0;
    }
    gd_attr attr = {.i = {[4] = rank}};
    int64_t known = 1, count = gd_numel(&n->v), open = -1;
    for (int64_t d = 0; d < rank; d++) {
        attr.i[d] = shape[d];
        if (shape[d] == -1 && open < 0) open = d;
        else if (shape[d] < 0 || __builtin_mul_overflow(known, shape[d], &known)) {
            gd_fail(GD_ERR_SHAPE, "reshape: %s is no shape: sizes must be at least 0, one of them may be -1", gd_text_shape(rank, shape));
            return 0;
        }
    }
    if (open >= 0) {
        if (known == 0 || count % known) {
            gd_fail(GD_ERR_SHAPE, "reshape: shape %s has %lld elements, which does not fit %s", gd_text_view(&n->v), (long long)count, gd_text_shape(rank, shape));
            return 0;
        }
        attr.i[open] = count / known;
    }
    if (may_copy && !gd_is_contiguous(&n->v)) { /* a view if the strides allow it */
        gd_shape_call probe = {.name = "reshape", .in = &n, .nin = 1, .attr = &attr, .nout = 1, .op = GD_OP_reshape};
        if (gd_ops[GD_OP_reshape].shape(&probe) < 0) {
            gd_clear_error();
            gd_start start = gd_here();
            a = GD_RECORD(copy, NULL, a);
            return gd_or_return(start, a ? GD_RECORD(reshape, &attr, a) : 0);
        }
    }
    return GD_RECORD(reshape, &attr, a);
}

gd_tensor gd_reshape(gd_tensor a, int64_t rank, const int64_t *shape) { return reshape(a, rank, shape, true); }
gd_tensor gd_view_as(gd_tensor a, int64_t rank, const int64_t *shape) { return reshape(a, rank, shape, false); }

gd_tensor gd_permute(gd_tensor a, int64_t rank, const int64_t *dims) {
    gd_node *n = gd_node_of(a, "permute");
    if (!n) return 0;
    if (rank != n->v.rank) {
        gd_fail(GD_ERR_SHAPE, "permute: %lld dimensions named for shape %s: each must be named once", (long long)rank, gd_text_view(&n->v));
        return 0;
    }
    gd_attr attr = {.i = {0, 1, 2, 3, rank}};
    for (int64_t d = 0; d < rank; d++) {
        int64_t from = gd_dim(&n->v, dims[d], "permute");
        if (from < 0) return 0;
        attr.i[GD_DIMS - rank + d] = from;
    }
    return GD_RECORD(permute, &attr, a);
}

gd_tensor gd_transpose(gd_tensor a, int64_t dim0, int64_t dim1) {
    gd_node *n = gd_node_of(a, "transpose");
    if (!n) return 0;
    int64_t d0 = gd_dim(&n->v, dim0, "transpose"), d1 = gd_dim(&n->v, dim1, "transpose");
    if (d0 < 0 || d1 < 0) return 0;
    gd_attr attr = {.i = {0, 1, 2, 3, n->v.rank}};
    attr.i[d0] = d1;
    attr.i[d1] = d0;
    return GD_RECORD(permute, &attr, a);
}

gd_tensor gd_expand(gd_tensor a, int64_t rank, const int64_t *shape) {
    gd_attr attr = {.i = {[4] = rank}};
    for (int64_t d = 0; d < rank && d < GD_DIMS; d++) attr.i[d] = shape[d];
    return GD_RECORD(expand, &attr, a);
}

gd_tensor gd_squeeze(gd_tensor a, int64_t dim, int all) {
    gd_node *n = gd_node_of(a, "squeeze");
    if (!n) return 0;
    int64_t shape[GD_DIMS], rank = 0, drop = all ? -1 : gd_dim(&n->v, dim, "squeeze");
    if (!all && drop < 0) return 0;
    for (int d = GD_DIMS - n->v.rank; d < GD_DIMS; d++)
        if (n->v.shape[d] != 1 || (!all && d != drop)) shape[rank++] = n->v.shape[d];
    return rank == n->v.rank ? a : gd_reshape(a, rank, shape);
}

gd_tensor gd_unsqueeze(gd_tensor a, int64_t dim) {
    gd_node *n = gd_node_of(a, "unsqueeze");
    if (!n) return 0;
    int64_t rank = n->v.rank + 1, at = dim < 0 ? dim + rank : dim, shape[GD_DIMS + 1];
    if (at < 0 || at >= rank) {
        gd_fail(GD_ERR_INDEX, "unsqueeze: dimension %lld of shape %s: it must be in [%lld, %lld]", (long long)dim, gd_text_view(&n->v), (long long)-rank,
                (long long)(rank - 1));
        return 0;
    }
    for (int64_t d = 0, from = GD_DIMS - n->v.rank; d < rank; d++) shape[d] = d == at ? 1 : n->v.shape[from++];
    return gd_reshape(a, rank, shape);
}

gd_tensor gd_slice(gd_tensor a, int64_t dim, int64_t start, int64_t stop, int64_t step) {
    gd_node *n = gd_node_of(a, "slice");
    if (!n) return 0;
    int64_t d = gd_dim(&n->v, dim, "slice");
    if (d < 0) return 0;
    if (step < 1) {
        gd_fail(GD_ERR_VALUE, "slice: step is %lld, must be at least 1", (long long)step);
        return 0;
    }
    int64_t size = n->v.shape[d];
    start = start < 0 ? (start + size < 0 ? 0 : start + size) : start > size ? size : start;
    stop = stop < 0 ? (stop + size < 0 ? 0 : stop + size) : stop > size ? size : stop;
    int64_t length = stop > start ? (stop - start - 1) / step + 1 : 0;
    if (length == 0) start = 0;
    gd_attr attr = {.i = {0, 0, 0, 0, 1, 1, 1, 1, n->v.shape[0], n->v.shape[1], n->v.shape[2], n->v.shape[3]}};
    attr.i[d] = start;
    attr.i[4 + d] = length > 1 ? step : 1;
    attr.i[8 + d] = length;
    return GD_RECORD(slice, &attr, a);
}

gd_tensor gd_select(gd_tensor a, int64_t dim, int64_t index) {
    gd_node *n = gd_node_of(a, "index");
    if (!n) return 0;
    int64_t d = gd_dim(&n->v, dim, "index");
    if (d < 0) return 0;
    if (n->v.rank == 0) {
        gd_fail(GD_ERR_INDEX, "index: a scalar has no dimension to index; use .item()");
        return 0;
    }
    int64_t size = n->v.shape[d], at = index < 0 ? index + size : index, shape[GD_DIMS], rank = 0;
    if (at < 0 || at >= size) {
        gd_fail(GD_ERR_INDEX, "index: %lld is out of range for dimension %lld of shape %s", (long long)index, (long long)(d - GD_DIMS + n->v.rank),
                gd_text_view(&n->v));
        return 0;
    }
    for (int k = GD_DIMS - n->v.rank; k < GD_DIMS; k++)
        if (k != d) shape[rank++] = n->v.shape[k];
    gd_start start = gd_here();
    gd_tensor part = gd_slice(a, d - GD_DIMS, at, at + 1, 1);
    return gd_or_return(start, part ? gd_reshape(part, rank, shape) : 0);
}

gd_tensor gd_detach(gd_tensor a) { return GD_RECORD(detach, NULL, a); }
