/* api_pool.c - public entry points of pooling, resizing and pixel shuffle. */
#include "engine.h"
#include "pool.h"
#include "resize.h"

/* Pooled dimensions, one of them for channels, and perhaps the batch. */
static gd_node *pooled(gd_tensor x, int dims, const char *who) {
    gd_node *n = gd_node_of(x, who);
    if (!n) return NULL;
    if (dims < 1 || dims > 2 || n->v.rank < dims + 1 || n->v.rank > dims + 2) {
        gd_fail(GD_ERR_SHAPE, "%s%dd: the input has shape %s, must be (%s) or (N, %s)", who, dims, gd_text_view(&n->v), dims == 1 ? "C, L" : "C, H, W",
                dims == 1 ? "C, L" : "C, H, W");
        return NULL;
    }
    return n;
}

/* Sizes of (H, W); one-dimensional windows leave the first dimension of the two alone. */
static void put_sizes(gd_attr *attr, int dims, const int64_t *size, int count) {
    for (int k = 0; k < count; k++) attr->i[k] = size[k];
    if (dims == 2) return;
    attr->i[GD_POOL_KERNEL] = attr->i[GD_POOL_STRIDE] = 1;
    attr->i[GD_POOL_PAD] = 0;
    if (count > GD_POOL_DILATION) attr->i[GD_POOL_DILATION] = 1;
}

gd_tensor gd_max_pool(gd_tensor x, int dims, const int64_t size[8], int ceil_mode, int want_indices) {
    gd_attr attr = {.i = {[GD_POOL_CEIL] = ceil_mode != 0, [GD_POOL_DIMS] = dims, [GD_POOL_INDICES] = want_indices != 0}};
    if (!pooled(x, dims, "max_pool")) return 0;
    put_sizes(&attr, dims, size, 8);
    return GD_RECORD(max_pool, &attr, x);
}

gd_tensor gd_avg_pool(gd_tensor x, int dims, const int64_t size[6], int ceil_mode, int count_include_pad, int64_t divisor) {
    gd_attr attr = {.i = {[GD_POOL_COUNT_PAD] = count_include_pad != 0, [GD_POOL_DIVISOR] = divisor, [GD_POOL_CEIL] = ceil_mode != 0, [GD_POOL_DIMS] = dims}};
    if (!pooled(x, dims, "avg_pool")) return 0;
    put_sizes(&attr, dims, size, 6);
    return GD_RECORD(avg_pool, &attr, x);
}

gd_tensor gd_adaptive_pool(gd_tensor x, int dims, const int64_t out[2], int largest, int want_indices) {
    gd_node *n = pooled(x, dims, largest ? "adaptive_max_pool" : "adaptive_avg_pool");
    if (!n) return 0;
    gd_attr attr = {.i = {[GD_POOL_ADAPTIVE] = 1, [GD_POOL_DIMS] = dims}};
    const int64_t *in = n->v.shape + 2;
    bool even = true;
    for (int k = 0; k < 2; k++) {
        attr.i[k] = (k == 0 && dims == 1) || out[k] == -1 ? in[k] : out[k];
        even &= attr.i[k] > 0 && in[k] > 0 && in[k] % attr.i[k] == 0;
    }
    if (largest) {
        attr.i[GD_POOL_INDICES] = want_indices != 0;
        return GD_RECORD(max_pool, &attr, x);
    }
    if (even && gd_is_float(n->v.dtype) && attr.i[1] == 1 && (dims == 1 || attr.i[0] == 1)) /* the mean of whole planes */
        return gd_record(GD_OP_mean, &x, 1, &(gd_attr){.i = {dims == 1 ? 8 : 12, 1}}, NULL);
    if (even) { /* windows of one size, side by side */
        attr.i[GD_POOL_ADAPTIVE] = 0;
        for (int k = 0; k < 2; k++) {
            const int64_t size = in[k] / attr.i[k];
            attr.i[GD_POOL_KERNEL + k] = size, attr.i[GD_POOL_STRIDE + k] = size;
        }
    }
    return GD_RECORD(avg_pool, &attr, x);
}

gd_tensor gd_max_unpool(gd_tensor x, gd_tensor indices, int dims, const int64_t out[2]) {
    gd_node *n = pooled(x, dims, "max_unpool"), *index = n ? gd_node_of(indices, "max_unpool") : NULL;
    if (!index) return 0;
    gd_attr attr = {.i = {dims == 1 ? n->v.shape[2] : out[0], out[1], 1, [GD_POOL_DIMS] = dims}};
    return GD_RECORD(max_pool_bwd, &attr, x, indices);
}

gd_tensor gd_resize(gd_tensor x, int dims, const int64_t out[2], int mode, int align_corners, const double scale[2]) {
    gd_node *n = gd_node_of(x, "interpolate");
    if (!n) return 0;
    if (dims < 1 || dims > 2 || n->v.rank != dims + 2) {
        gd_fail(GD_ERR_SHAPE, "interpolate: the input has shape %s, must be (N, C, L) or (N, C, H, W)", gd_text_view(&n->v));
        return 0;
    }
    gd_attr attr = {.i = {out[0], out[1], [GD_RESIZE_MODE] = mode, [GD_RESIZE_ALIGN] = align_corners != 0}, .f = {scale[0], scale[1]}};
    if (dims == 1) attr.i[0] = n->v.shape[2], attr.f[0] = 0;
    for (int k = 0; k < 2; k++) { /* as PyTorch does, whatever the scale */
        const int64_t in = n->v.shape[2 + k];
        if (out[k] == in ? mode == GD_LINEAR || (mode == GD_NEAREST && dims == 2) : mode == GD_NEAREST && dims == 2 && out[k] == 2 * in) attr.f[k] = 0;
    }
    return GD_RECORD(resize, &attr, x);
}

gd_tensor gd_pixel_shuffle(gd_tensor x, int64_t factor, int inverse) {
    const gd_attr attr = {.i = {factor, inverse != 0}};
    return GD_RECORD(pixel_shuffle, &attr, x);
}
