/* shape_conv.c - shape rules of convolutions, their gradients, and patches. */
#include "conv.h"
#include "rules.h"
#include "shape.h"
#include "thread.h"

enum { MOST = 1 << 30 }; /* of stride, padding and dilation: no sum of a few overflows */
static const double MOST_PADDED = 1e15; /* bytes of a padded image */
static const double MOST_WEIGHTS = 1e17; /* weights, which may be more than there are in memory: what repeats is packed, too */

/* Stride, padding, dilation at i[at], i[at + 2], i[at + 4], and what else is a size. */
static gd_status check_numbers(const gd_shape_call *c, const char *const *names, const int *places, const int64_t *least, int count) {
    for (int k = 0; k < count; k++)
        for (int d = 0; d < 2; d++) {
            const int64_t value = c->attr->i[places[k] + d];
            if (value < least[k] || value > MOST)
                return gd_fail(GD_ERR_VALUE, "%s: %s is %lld, must be from %lld to %d", c->name, names[k], (long long)value, (long long)least[k], MOST);
        }
    return GD_OK;
}

static gd_status check_conv(const gd_shape_call *c) {
    static const char *const names[] = {"stride", "padding", "dilation", "padding"};
    static const int places[] = {0, 2, 4, 7};
    static const int64_t least[] = {1, 0, 1, -MOST}; /* padding after: negative where the end is left out */
    if (c->attr->i[6] < 1) return gd_fail(GD_ERR_VALUE, "%s: groups is %lld, must be at least 1", c->name, (long long)c->attr->i[6]);
    return check_numbers(c, names, places, least, 4);
}

static gd_status check_float_pair(const gd_shape_call *c, const char *first, const char *second) {
    GD_TRY(gd_shape_need_float(c, 0));
    if (gd_in(c, 0)->dtype == gd_in(c, 1)->dtype) return GD_OK;
    return gd_fail(GD_ERR_DTYPE, "%s: %s is %s and %s is %s: they must have one dtype", c->name, first, gd_dtype_name(gd_in(c, 0)->dtype), second,
                   gd_dtype_name(gd_in(c, 1)->dtype));
}

static gd_status check_bias(const gd_shape_call *c, int64_t channels) {
    if (!c->in[2]) return GD_OK;
    const gd_view *b = gd_in(c, 2);
    if (b->dtype != gd_in(c, 0)->dtype)
        return gd_fail(GD_ERR_DTYPE, "%s: input is %s and bias is %s: they must have one dtype", c->name, gd_dtype_name(gd_in(c, 0)->dtype), gd_dtype_name(b->dtype));
    if (b->rank != 1 || b->shape[3] != channels)
        return gd_fail(GD_ERR_SHAPE, "%s: bias is %s, must be (%lld,): one number per channel of the result", c->name, gd_text_view(b), (long long)channels);
    return GD_OK;
}

static gd_status check_rank(const gd_shape_call *c, int k, const char *what) {
    if (gd_in(c, k)->rank == 4) return GD_OK;
    return gd_fail(GD_ERR_SHAPE, "%s: %s is %s, must have four dimensions", c->name, what, gd_text_view(gd_in(c, k)));
}

/* Points of the result along each dimension for an input of size in[2], at least one. */
static gd_status conv_points(const gd_shape_call *c, const int64_t *in, const int64_t *kernel, const int64_t *stride, const int64_t *before,
                             const int64_t *after, const int64_t *dilation, int64_t *out) {
    int64_t padded[2];
    for (int d = 0; d < 2; d++) {
        int64_t reach;
        if (in[d] > INT64_MAX - 2 * (int64_t)MOST)
            return gd_fail(GD_ERR_MEMORY, "%s: an image of size (%lld, %lld) is too large", c->name, (long long)in[0], (long long)in[1]);
        padded[d] = in[d] + before[d] + after[d];
        if (kernel[d] < 1) return gd_fail(GD_ERR_SHAPE, "%s: the kernel is %s: sizes must be at least 1", c->name, gd_text_shape(2, kernel));
        if (__builtin_mul_overflow(kernel[d] - 1, dilation[d], &reach) || reach >= padded[d])
            return gd_fail(GD_ERR_SHAPE, "%s: the kernel %s (dilation %s) is larger than the padded input, (%lld, %lld)", c->name, gd_text_shape(2, kernel),
                           gd_text_shape(2, dilation), (long long)(in[0] + before[0] + after[0]), (long long)(in[1] + before[1] + after[1]));
        out[d] = (padded[d] - reach - 1) / stride[d] + 1;
    }
    if ((double)padded[0] * (double)padded[1] * 8 > MOST_PADDED)
        return gd_fail(GD_ERR_MEMORY, "%s: the padded input, (%lld, %lld), is too large", c->name, (long long)padded[0], (long long)padded[1]);
    return GD_OK;
}

static gd_status check_weights(const gd_shape_call *c, const gd_view *w) {
    double count = 1;
    for (int d = 0; d < GD_DIMS; d++) count *= (double)w->shape[d];
    if (count > MOST_WEIGHTS) return gd_fail(GD_ERR_MEMORY, "%s: weight is %s: more than memory can ever hold", c->name, gd_text_view(w));
    return GD_OK;
}

/* Channels of x (N, C, ...) and w (O, C / groups, ...). */
static gd_status check_channels(const gd_shape_call *c, const gd_view *x, const gd_view *w) {
    const int64_t groups = c->attr->i[6];
    if (w->shape[0] % groups || w->shape[0] == 0)
        return gd_fail(GD_ERR_SHAPE, "%s: weight is %s with %lld groups: its first dimension must be a multiple of groups", c->name, gd_text_view(w),
                       (long long)groups);
    if (w->shape[1] > INT64_MAX / groups || x->shape[1] != w->shape[1] * groups)
        return gd_fail(GD_ERR_SHAPE, "%s: input is %s, weight is %s, groups is %lld: the input must have weight.shape[1] * groups channels", c->name,
                       gd_text_view(x), gd_text_view(w), (long long)groups);
    return GD_OK;
}

static gd_status check_inputs(const gd_shape_call *c, const char *first, const char *second) {
    if (!c->in[0] || !c->in[1]) return gd_node_missing(0, c->name), gd_last_status();
    GD_TRY(check_float_pair(c, first, second));
    GD_TRY(check_rank(c, 0, first));
    GD_TRY(check_rank(c, 1, second));
    return check_conv(c);
}

gd_status gd_shape_conv(gd_shape_call *c) {
    GD_TRY(check_inputs(c, "input", "weight"));
    GD_TRY(check_weights(c, gd_in(c, 1)));
    const gd_view *x = gd_in(c, 0), *w = gd_in(c, 1);
    const int64_t *i = c->attr->i;
    int64_t shape[4] = {x->shape[0], w->shape[0]};
    GD_TRY(check_channels(c, x, w));
    GD_TRY(check_bias(c, w->shape[0]));
    GD_TRY(conv_points(c, x->shape + 2, w->shape + 2, i, i + 2, i + 7, i + 4, shape + 2));
    GD_TRY(gd_shape_out(c, 0, 4, shape, x->dtype));
    const gd_conv conv = gd_conv_of(x, w, &c->out[0], c->attr);
    const gd_conv_cut cut = gd_conv_cut_gather(&conv, false, x, gd_dtype_bytes(x->dtype));
    c->workspace = gd_conv_gather_workspace(&cut, gd_parallel_width());
    return GD_OK;
}

gd_status gd_shape_conv_bwd_input(gd_shape_call *c) {
    GD_TRY(check_inputs(c, "input", "weight"));
    GD_TRY(check_weights(c, gd_in(c, 1)));
    const gd_view *g = gd_in(c, 0), *w = gd_in(c, 1);
    const int64_t *i = c->attr->i;
    if (i[6] > INT64_MAX / gd_conv_max(w->shape[1], 1)) return gd_fail(GD_ERR_VALUE, "%s: groups is %lld", c->name, (long long)i[6]);
    int64_t shape[4] = {g->shape[0], w->shape[1] * i[6], i[9], i[10]}, points[2];
    if (w->shape[0] % i[6] || w->shape[0] == 0 || w->shape[1] == 0 || g->shape[1] != w->shape[0])
        return gd_fail(GD_ERR_SHAPE, "%s: input is %s, weight is %s, groups is %lld: the input must have weight.shape[0] channels, a multiple of groups, "
                                     "and the result at least one",
                       c->name, gd_text_view(g), gd_text_view(w), (long long)i[6]);
    GD_TRY(check_bias(c, shape[1]));
    if (i[9] < 1 || i[10] < 1) return gd_fail(GD_ERR_SHAPE, "%s: the result would have size (%lld, %lld)", c->name, (long long)i[9], (long long)i[10]);
    GD_TRY(conv_points(c, i + 9, w->shape + 2, i, i + 2, i + 7, i + 4, points));
    if (points[0] != g->shape[2] || points[1] != g->shape[3])
        return gd_fail(GD_ERR_SHAPE, "%s: input is %s, but a result of size (%lld, %lld) belongs to one of size (%lld, %lld)", c->name, gd_text_view(g),
                       (long long)i[9], (long long)i[10], (long long)points[0], (long long)points[1]);
    GD_TRY(gd_shape_out(c, 0, 4, shape, g->dtype));
    const gd_conv conv = gd_conv_of(&c->out[0], w, g, c->attr);
    const gd_conv_cut cut = gd_conv_cut_gather(&conv, true, g, gd_dtype_bytes(g->dtype));
    c->workspace = gd_conv_gather_workspace(&cut, gd_parallel_width());
    return GD_OK;
}

/* Recorded by the vjp rules of the two above. */
gd_status gd_shape_conv_bwd_weight(gd_shape_call *c) {
    GD_TRY(check_inputs(c, "gradient", "input"));
    const gd_view *g = gd_in(c, 0), *x = gd_in(c, 1);
    const int64_t *i = c->attr->i;
    int64_t shape[4] = {g->shape[1], x->shape[1] / i[6], i[9], i[10]}, points[2];
    if (g->shape[1] % i[6] || x->shape[1] % i[6] || g->shape[1] == 0 || x->shape[1] == 0)
        return gd_fail(GD_ERR_SHAPE, "%s: gradient is %s, input is %s: channels must be multiples of groups, %lld, and at least one", c->name, gd_text_view(g), gd_text_view(x),
                       (long long)i[6]);
    GD_TRY(conv_points(c, x->shape + 2, i + 9, i, i + 2, i + 7, i + 4, points));
    if (points[0] != g->shape[2] || points[1] != g->shape[3] || x->shape[0] != g->shape[0])
        return gd_fail(GD_ERR_SHAPE, "%s: gradient is %s and input is %s, which do not belong together", c->name, gd_text_view(g), gd_text_view(x));
    GD_TRY(gd_shape_out(c, 0, 4, shape, x->dtype));
    const gd_conv conv = gd_conv_of(x, &c->out[0], g, c->attr);
    const gd_conv_cut cut = gd_conv_cut_weight(&conv, x, g, gd_dtype_bytes(x->dtype));
    c->workspace = gd_conv_weight_workspace(&cut, gd_parallel_width());
    return GD_OK;
}

/* ---- Patches ------------------------------------------------------------------------------------------------------- */

static gd_status check_patches(const gd_shape_call *c, const int64_t *in, int64_t *points) {
    static const char *const names[] = {"stride", "padding", "dilation", "kernel_size"};
    static const int places[] = {0, 2, 4, 6};
    static const int64_t least[] = {1, 0, 1, 1};
    const int64_t *i = c->attr->i;
    GD_TRY(check_numbers(c, names, places, least, 4));
    return conv_points(c, in, i + 6, i, i + 2, i + 2, i + 4, points);
}

gd_status gd_shape_im2col(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0);
    int64_t points[2], rows;
    GD_TRY(gd_shape_need_float(c, 0));
    GD_TRY(check_rank(c, 0, "input"));
    GD_TRY(check_patches(c, x->shape + 2, points));
    if (__builtin_mul_overflow(x->shape[1], c->attr->i[6] * c->attr->i[7], &rows))
        return gd_fail(GD_ERR_MEMORY, "%s: input is %s: more elements than memory can ever hold", c->name, gd_text_view(x));
    return gd_shape_out(c, 0, 3, (int64_t[]){x->shape[0], rows, points[0] * points[1]}, x->dtype);
}

gd_status gd_shape_col2im(gd_shape_call *c) {
    const gd_view *x = gd_in(c, 0);
    const int64_t *i = c->attr->i;
    int64_t points[2];
    GD_TRY(gd_shape_need_float(c, 0));
    if (x->rank != 3) return gd_fail(GD_ERR_SHAPE, "%s: input is %s, must have three dimensions", c->name, gd_text_view(x));
    if (i[9] < 1 || i[10] < 1) return gd_fail(GD_ERR_VALUE, "%s: output_size is (%lld, %lld), must be at least 1", c->name, (long long)i[9], (long long)i[10]);
    GD_TRY(check_patches(c, i + 9, points));
    if (x->shape[2] % (i[6] * i[7]))
        return gd_fail(GD_ERR_SHAPE, "%s: input is %s: its second dimension must be a multiple of the kernel's size, %lld x %lld", c->name, gd_text_view(x),
                       (long long)i[6], (long long)i[7]);
    if (x->shape[3] != points[0] * points[1])
        return gd_fail(GD_ERR_SHAPE, "%s: input is %s, but there are %lld x %lld patches in an output of size (%lld, %lld)", c->name, gd_text_view(x),
                       (long long)points[0], (long long)points[1], (long long)i[9], (long long)i[10]);
    return gd_shape_out(c, 0, 4, (int64_t[]){x->shape[1], x->shape[2] / (i[6] * i[7]), i[9], i[10]}, x->dtype);
}
