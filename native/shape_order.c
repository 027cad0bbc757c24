/* shape_order.c - shape rules of what orders, scans and scatters along one dimension, and of vector_norm. */
#include <math.h>

#include "rules.h"
#include "scattering.h"
#include "shape.h"
#include "sorting.h"
#include "thread.h"

static gd_status need_places(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0);
    GD_TRY(gd_shape_need_dim(c, 0));
    if (x->shape[c->attr->i[0]] > UINT32_MAX) return gd_fail(GD_ERR_MEMORY, "%s: more than 2^32 entries in one line", c->name);
    return GD_OK;
}

static int64_t lines_of(const gd_view *x, int64_t dim) { return x->shape[dim] ? gd_numel(x) / x->shape[dim] : 0; }

gd_status gd_shape_sort(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0);
    GD_TRY(need_places(c));
    const int64_t dim = c->attr->i[0];
    c->workspace = gd_sort_bytes(x->shape[dim], lines_of(x, dim), gd_parallel_width());
    GD_TRY(gd_shape_like(c, 0, x, x->dtype));
    return gd_shape_like(c, 1, x, GD_INT64);
}

gd_status gd_shape_topk(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0);
    GD_TRY(need_places(c));
    const int64_t dim = c->attr->i[0], k = c->attr->i[1], n = x->shape[dim], width = gd_parallel_width();
    if (k < 0 || k > n || (x->rank == 0 && k == 0))
        return gd_fail(GD_ERR_VALUE, "topk: k is %lld, must be in [0, %lld], the size of dimension %lld", (long long)k, (long long)n, (long long)(dim - GD_DIMS));
    c->workspace = k == 0 ? 0 : gd_top_selects(n, k, gd_dtype_bytes(x->dtype) == 8) ? gd_top_bytes(n, k, width) : gd_sort_bytes(n, lines_of(x, dim), width);
    gd_view out = *x;
    out.shape[dim] = k;
    GD_TRY(gd_shape_out(c, 0, x->rank, gd_logical_shape(&out), x->dtype));
    return gd_shape_out(c, 1, x->rank, gd_logical_shape(&out), GD_INT64);
}

gd_status gd_shape_searchsorted(gd_shape_call *c) {
    if (!c->in[0] || !c->in[1]) return gd_node_missing(0, c->name), gd_last_status();
    const gd_view *sorted = gd_in(c, 0), *values = gd_in(c, 1), *order = c->in[2] ? gd_in(c, 2) : NULL;
    GD_TRY(gd_shape_need_same_dtype(c, 0, 1));
    bool fits = sorted->rank == 1 || (sorted->rank == values->rank && sorted->rank > 0);
    for (int d = 0; d < 3; d++) fits &= sorted->rank == 1 || sorted->shape[d] == values->shape[d];
    if (!fits)
        return gd_fail(GD_ERR_SHAPE, "%s: sorted has shape %s and values %s: sorted must have one dimension, or the same as values but for the last", c->name,
                       gd_text_view(sorted), gd_text_view(values));
    if (order) {
        GD_TRY(gd_shape_need_int64(c, 2));
        if (order->rank != sorted->rank || !gd_same_shape(order, sorted))
            return gd_fail(GD_ERR_SHAPE, "%s: sorter has shape %s, must have that of sorted, %s", c->name, gd_text_view(order), gd_text_view(sorted));
        GD_TRY(gd_shape_check_range(c, order, 0, sorted->shape[3], 0, "sorter"));
    }
    return gd_shape_like(c, 0, values, GD_INT64);
}

gd_status gd_shape_cumsum(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0);
    GD_TRY(gd_shape_need_dim(c, 0));
    return gd_shape_like(c, 0, x, gd_is_float(x->dtype) ? x->dtype : GD_INT64);
}

gd_status gd_shape_logcumsumexp(gd_shape_call *c) {
    GD_TRY(gd_shape_need_float(c, 0));
    return gd_shape_cumsum(c);
}

gd_status gd_shape_cummax(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0);
    GD_TRY(gd_shape_need_dim(c, 0));
    GD_TRY(gd_shape_like(c, 0, x, x->dtype));
    return gd_shape_like(c, 1, x, GD_INT64);
}

gd_status gd_shape_linear_scan(gd_shape_call *c) {
    GD_TRY(gd_shape_need_dim(c, 0));
    return gd_shape_slope(c);
}

gd_status gd_shape_scatter(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0), *index = gd_in(c, 1), *src = gd_in(c, 2);
    const int64_t mode = c->attr->i[1];
    GD_TRY(gd_shape_need_dim(c, 0));
    GD_TRY(gd_shape_need_int64(c, 1));
    GD_TRY(gd_shape_need_same_dtype(c, 0, 2));
    if (mode < 0 || mode >= GD_SCATTER_MODES) return gd_fail(GD_ERR_VALUE, "scatter: mode %lld: there are %d", (long long)mode, GD_SCATTER_MODES);
    const int64_t dim = c->attr->i[0], size = x->shape[dim];
    if (gd_numel(index)) {
        bool fits = (index->rank ? index->rank : 1) == (x->rank ? x->rank : 1) && (src->rank ? src->rank : 1) == (x->rank ? x->rank : 1);
        for (int d = 0; d < GD_DIMS; d++) fits &= index->shape[d] <= src->shape[d] && (d == dim || index->shape[d] <= x->shape[d]);
        if (!fits)
            return gd_fail(GD_ERR_SHAPE, "scatter: index %s does not fit input %s and source %s: same number of dimensions, none larger than the source's, nor than "
                           "the input's except dimension %lld", gd_text_view(index), gd_text_view(x), gd_text_view(src), (long long)(dim - GD_DIMS));
        if (size == 0) return gd_fail(GD_ERR_INDEX, "scatter: dimension %lld is empty", (long long)(dim - GD_DIMS));
        GD_TRY(gd_shape_check_range(c, index, -size, size, 0, "index"));
    }
    return gd_shape_like(c, 0, x, x->dtype);
}

gd_status gd_shape_vector_norm(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0);
    const double p = c->attr->f[0];
    GD_TRY(gd_shape_reduce_float(c));
    if (isnan(p)) return gd_fail(GD_ERR_VALUE, "%s: p is NaN", c->name);
    int64_t count = 1;
    for (int d = 0; d < GD_DIMS; d++)
        if (c->attr->i[0] >> d & 1) count *= x->shape[d];
    if (count == 0 && (p < 0 || isinf(p)) && gd_numel(&c->out[0]))
        return gd_fail(GD_ERR_SHAPE, "%s: shape %s has no elements to choose from in the reduced dimensions", c->name, gd_text_view(x));
    return GD_OK;
}
