/* shape_pool.c - shape rules of pooling, resizing and pixel shuffle. */
#include "pool.h"
#include "resize.h"
#include "rules.h"
#include "shape.h"
#include "thread.h"

enum { LARGEST = INT32_MAX }; /* sizes and places within a plane */

/* The input's leading dimensions, and these sizes of the last two. */
static gd_status plane_out(gd_shape_call *c, int k, const gd_view *x, int64_t h, int64_t w, int dtype) {
    int64_t shape[GD_DIMS] = {x->shape[0], x->shape[1], h, w};
    return gd_shape_out(c, k, x->rank, shape + GD_DIMS - x->rank, dtype);
}

static const char *const axis_names[] = {"height", "width"};

/* The number of windows along one axis. */
static gd_status count_windows(const gd_shape_call *c, int axis, int64_t in, bool dilates, int64_t *out) {
    gd_pool_axis a = gd_pool_axis_of(c->attr, axis, in, 0, dilates);
    const char *name = axis_names[axis];
    if (a.adaptive) {
        if (a.kernel < 0 || a.kernel > LARGEST) return gd_fail(GD_ERR_VALUE, "%s: output %s is %lld, must be at least 0 and at most %d", c->name, name, (long long)a.kernel, LARGEST);
        *out = a.kernel;
        return GD_OK;
    }
    if (a.kernel < 1 || a.stride < 1 || a.dilation < 1 || a.kernel > LARGEST || a.stride > LARGEST || a.dilation > LARGEST)
        return gd_fail(GD_ERR_VALUE, "%s: along the %s kernel_size is %lld, stride %lld, dilation %lld: they must be at least 1 and at most 2147483647", c->name, name,
                       (long long)a.kernel, (long long)a.stride, (long long)a.dilation);
    const int64_t reach = (a.kernel - 1) * a.dilation + 1;
    if (a.pad < 0 || a.pad > reach / 2)
        return gd_fail(GD_ERR_VALUE, "%s: along the %s padding is %lld, must be from 0 to half of the window, which has %lld elements", c->name, name,
                       (long long)a.pad, (long long)reach);
    const int64_t room = in + 2 * a.pad - reach + (c->attr->i[GD_POOL_CEIL] ? a.stride - 1 : 0);
    *out = room < 0 ? 0 : room / a.stride + 1;
    if (c->attr->i[GD_POOL_CEIL] && *out > 0 && (*out - 1) * a.stride >= in + a.pad) --*out; /* no window starts in the padding behind */
    if (*out < 1)
        return gd_fail(GD_ERR_SHAPE, "%s: the %s of the input is %lld, too small for a window of %lld elements with padding %lld", c->name, name,
                       (long long)in, (long long)reach, (long long)a.pad);
    return GD_OK;
}

/* Leading dimensions may be empty, planes not. */
static gd_status need_plane(const gd_shape_call *c, const gd_view *x) {
    if (x->rank < 2) return gd_fail(GD_ERR_SHAPE, "%s: the input has shape %s, but must have channels and a place", c->name, gd_text_view(x));
    const bool rows = c->attr->i[GD_POOL_DIMS] == 1;
    if ((!rows && x->shape[2] == 0) || x->shape[3] == 0)
        return gd_fail(GD_ERR_SHAPE, "%s: the input has shape %s: what is pooled must have elements", c->name, gd_text_view(x));
    if (x->shape[3] > LARGEST || x->shape[2] > LARGEST || x->shape[2] * x->shape[3] > LARGEST)
        return gd_fail(GD_ERR_SHAPE, "%s: the input has shape %s: planes may have at most %d elements", c->name, gd_text_view(x), LARGEST);
    return GD_OK;
}

static gd_status windows(gd_shape_call *c, bool dilates, int64_t out[2]) {
    const gd_view *x = gd_in(c, 0);
    GD_TRY(need_plane(c, x));
    GD_TRY(count_windows(c, 0, x->shape[2], dilates, &out[0]));
    return count_windows(c, 1, x->shape[3], dilates, &out[1]);
}

gd_status gd_shape_max_pool(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0);
    int64_t out[2], nothing = 0;
    if (x->dtype == GD_BOOL) return gd_fail(GD_ERR_DTYPE, "max_pool: not for bool tensors");
    GD_TRY(windows(c, true, out));
    if (c->in[0]->flags & GD_REQUIRES_GRAD && gd_self()->grad_enabled) c->attr->i[GD_POOL_INDICES] = 1;
    GD_TRY(plane_out(c, 0, x, out[0], out[1], x->dtype));
    return c->attr->i[GD_POOL_INDICES] ? plane_out(c, 1, x, out[0], out[1], GD_INT64) : gd_shape_out(c, 1, 1, &nothing, GD_INT64);
}

/* Recorded by vjp_max_pool and max_unpool. The kernel passes over indices outside of the plane. */
gd_status gd_shape_max_pool_bwd(gd_shape_call *c) {
    const gd_view *g = gd_in(c, 0);
    const int64_t h = c->attr->i[0], w = c->attr->i[1];
    GD_TRY(gd_shape_need_int64(c, 1));
    if (g->dtype == GD_BOOL) return gd_fail(GD_ERR_DTYPE, "%s: not for bool tensors", c->name);
    if (!gd_same_shape(g, gd_in(c, 1)) || h < 0 || w < 0 || h > LARGEST || w > LARGEST || (c->attr->i[GD_POOL_DIMS] == 1 && h != g->shape[2]))
        return gd_fail(GD_ERR_SHAPE, "%s: values of shape %s and indices of shape %s do not fit each other, or a plane of %lld x %lld", c->name,
                       gd_text_view(g), gd_text_view(gd_in(c, 1)), (long long)h, (long long)w);
    return plane_out(c, 0, g, h, w, g->dtype);
}

static gd_status need_divisor(const gd_shape_call *c) {
    if (c->attr->i[GD_POOL_DIVISOR] >= 0 || !c->attr->i[GD_POOL_ADAPTIVE]) return GD_OK;
    return gd_fail(GD_ERR_VALUE, "%s: adaptive windows have no divisor", c->name);
}

gd_status gd_shape_avg_pool(gd_shape_call *c) {
    int64_t out[2];
    GD_TRY(gd_shape_need_float(c, 0));
    GD_TRY(need_divisor(c));
    GD_TRY(windows(c, false, out));
    return plane_out(c, 0, gd_in(c, 0), out[0], out[1], gd_in(c, 0)->dtype);
}

/* Recorded only by vjp_avg_pool. */
gd_status gd_shape_avg_pool_bwd(gd_shape_call *c) {
    const gd_view *g = gd_in(c, 0);
    const int64_t h = c->attr->i[GD_POOL_INPUT], w = c->attr->i[GD_POOL_INPUT + 1];
    int64_t out[2];
    GD_TRY(gd_shape_need_float(c, 0));
    if (h < 1 || w < 1 || h > LARGEST || w > LARGEST) return gd_fail(GD_ERR_SHAPE, "%s: a plane of %lld x %lld", c->name, (long long)h, (long long)w);
    GD_TRY(count_windows(c, 0, h, false, &out[0]));
    GD_TRY(count_windows(c, 1, w, false, &out[1]));
    if (g->shape[2] != out[0] || g->shape[3] != out[1]) return gd_fail(GD_ERR_SHAPE, "%s: its inputs do not belong together", c->name);
    c->workspace = w * (int64_t)sizeof(double) * gd_parallel_width();
    return plane_out(c, 0, g, h, w, g->dtype);
}

/* ---- Resizing ---------------------------------------------------------------------------------------------- */

static gd_status resized(gd_shape_call *c, const int64_t in[2], const int64_t out[2], const int64_t to[2]) {
    for (int k = 0; k < 2; k++)
        if (in[k] < 1 || out[k] < 1 || in[k] > LARGEST || out[k] > LARGEST)
            return gd_fail(GD_ERR_SHAPE, "%s: from %lld x %lld to %lld x %lld: sizes must be at least 1 and at most 2147483647", c->name, (long long)in[0], (long long)in[1],
                           (long long)out[0], (long long)out[1]);
    if (c->attr->i[GD_RESIZE_MODE] < 0 || c->attr->i[GD_RESIZE_MODE] > GD_LINEAR) return gd_fail(GD_ERR_VALUE, "%s: unknown mode", c->name);
    c->workspace = (out[0] + out[1]) * (int64_t)sizeof(gd_resize_source);
    return plane_out(c, 0, gd_in(c, 0), to[0], to[1], gd_in(c, 0)->dtype);
}

gd_status gd_shape_resize(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0);
    GD_TRY(gd_shape_need_float(c, 0));
    return resized(c, x->shape + 2, c->attr->i, c->attr->i);
}

/* Recorded only by vjp_resize. */
gd_status gd_shape_resize_bwd(gd_shape_call *c) {
    const gd_view *g = gd_in(c, 0);
    GD_TRY(gd_shape_need_float(c, 0));
    if (g->shape[2] != c->attr->i[0] || g->shape[3] != c->attr->i[1]) return gd_fail(GD_ERR_SHAPE, "%s: its inputs do not belong together", c->name);
    return resized(c, c->attr->i + GD_RESIZE_INPUT, c->attr->i, c->attr->i + GD_RESIZE_INPUT);
}

gd_status gd_shape_pixel_shuffle(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0);
    const int64_t r = c->attr->i[0];
    const bool inverse = c->attr->i[1] != 0;
    if (x->rank < 3) return gd_fail(GD_ERR_SHAPE, "%s: the input has shape %s, but must have at least three dimensions", c->name, gd_text_view(x));
    if (r < 1 || r > INT16_MAX) return gd_fail(GD_ERR_VALUE, "%s: the factor is %lld, must be at least 1 and at most %d", c->name, (long long)r, INT16_MAX);
    if (inverse ? x->shape[2] % r || x->shape[3] % r : x->shape[1] % (r * r) != 0)
        return gd_fail(GD_ERR_SHAPE, "%s: an input of shape %s does not fit the factor %lld: %s", c->name, gd_text_view(x), (long long)r,
                       inverse ? "height and width must be multiples of it" : "the channels must be a multiple of its square");
    int64_t shape[GD_DIMS] = {x->shape[0], inverse ? x->shape[1] * r * r : x->shape[1] / (r * r), inverse ? x->shape[2] / r : x->shape[2] * r,
                              inverse ? x->shape[3] / r : x->shape[3] * r};
    return gd_shape_out(c, 0, x->rank, shape + GD_DIMS - x->rank, x->dtype);
}
