/* api_conv.c - public entry points of convolutions: one or two dimensions of space, with a batch or without. */
#include "conv.h"
#include "engine.h"

static const char *const NAMES[2][2] = {{"conv1d", "conv2d"}, {"conv_transpose1d", "conv_transpose2d"}};

/* The input as (N, C, H, W): a height of 1 where there is none, a batch of 1 where there is none; 0 with an error set. */
static gd_tensor as_images(gd_tensor x, int dims, const char *name) {
    gd_node *n = gd_node_of(x, name);
    if (!n) return 0;
    const int64_t rank = n->v.rank;
    if (rank != dims + 1 && rank != dims + 2) {
        gd_fail(GD_ERR_SHAPE, "%s: input is %s, must have %d dimensions, or %d without a batch", name, gd_text_view(&n->v), dims + 2, dims + 1);
        return 0;
    }
    for (int64_t d = GD_DIMS - dims - 1; d < GD_DIMS; d++)
        if (n->v.shape[d] == 0) {
            gd_fail(GD_ERR_SHAPE, "%s: input is %s: only the batch may be empty", name, gd_text_view(&n->v));
            return 0;
        }
    if (rank == 4) return x;
    const int64_t *s = gd_logical_shape(&n->v);
    const int64_t batch = rank == dims + 2 ? *s++ : 1;
    return gd_reshape(x, 4, (int64_t[]){batch, s[0], dims == 2 ? s[1] : 1, s[dims]});
}

static gd_tensor as_kernels(gd_tensor w, int dims, const char *name) {
    gd_node *n = gd_node_of(w, name);
    if (!n) return 0;
    if (n->v.rank != dims + 2) {
        gd_fail(GD_ERR_SHAPE, "%s: weight is %s, must have %d dimensions", name, gd_text_view(&n->v), dims + 2);
        return 0;
    }
    return dims == 2 ? w : gd_unsqueeze(w, 2);
}

/* The result with the dimensions that the input had. */
static gd_tensor as_input(gd_tensor y, int dims, bool batch) {
    gd_node *n = y && (dims == 1 || !batch) ? gd_node_peek(y) : NULL;
    if (!n) return y;
    const int64_t *s = n->v.shape;
    if (dims == 2) return gd_reshape(y, 3, s + 1);
    return batch ? gd_reshape(y, 3, (int64_t[]){s[0], s[1], s[3]}) : gd_reshape(y, 2, (int64_t[]){s[1], s[3]});
}

/* Numbers per dimension of space as the op wants them, `before` where there is no height. */
static void put(gd_attr *attr, int place, int dims, const int64_t *values, int64_t without) {
    attr->i[place] = dims == 2 ? values[0] : without;
    attr->i[place + 1] = values[dims - 1];
}

static gd_attr conv_attributes(int dims, const int64_t *stride, const int64_t *padding, const int64_t *dilation, int64_t groups) {
    gd_attr attr = {.i = {[6] = groups}};
    put(&attr, 0, dims, stride, 1);
    put(&attr, 2, dims, padding, 0);
    put(&attr, 4, dims, dilation, 1);
    put(&attr, 7, dims, padding, 0);
    return attr;
}

gd_tensor gd_conv_nd(int dims, gd_tensor x, gd_tensor weight, gd_tensor bias, const int64_t *stride, const int64_t *padding, const int64_t *padding_after,
                     const int64_t *dilation, int64_t groups) {
    const char *name = NAMES[0][dims == 2];
    GD_TRY_TENSOR(gd_optional(&bias, name));
    gd_attr attr = conv_attributes(dims, stride, padding, dilation, groups);
    put(&attr, 7, dims, padding_after, 0);
    gd_start start = gd_here();
    gd_tensor images = as_images(x, dims, name), kernels = images ? as_kernels(weight, dims, name) : 0;
    if (!kernels) return gd_or_return(start, 0);
    gd_tensor y = gd_record(GD_OP_conv, (gd_tensor[]){images, kernels, bias}, 3, &attr, NULL);
    return gd_or_return(start, as_input(y, dims, gd_node_peek(x)->v.rank == dims + 2));
}

gd_tensor gd_conv_transpose_nd(int dims, gd_tensor x, gd_tensor weight, gd_tensor bias, const int64_t *stride, const int64_t *padding,
                               const int64_t *output_padding, const int64_t *dilation, int64_t groups) {
    const char *name = NAMES[1][dims == 2];
    GD_TRY_TENSOR(gd_optional(&bias, name));
    gd_attr attr = conv_attributes(dims, stride, padding, dilation, groups);
    gd_start start = gd_here();
    gd_tensor images = as_images(x, dims, name), kernels = images ? as_kernels(weight, dims, name) : 0;
    if (!kernels) return gd_or_return(start, 0);
    const gd_view *v = &gd_node_peek(images)->v, *w = &gd_node_peek(kernels)->v;
    for (int d = 0; d < 2; d++) {
        const int64_t extra = d == 0 && dims == 1 ? 0 : output_padding[d == 0 ? 0 : dims - 1], s = attr.i[d], dilated = attr.i[4 + d];
        int64_t size = 0, reach = 0;
        if (s < 1 || dilated < 1) { /* before it divides */
            gd_fail(GD_ERR_VALUE, "%s: stride is %lld and dilation %lld, must be at least 1", name, (long long)s, (long long)dilated);
            return gd_or_return(start, 0);
        }
        if (extra < 0 || (extra >= s && extra >= dilated)) {
            gd_fail(GD_ERR_VALUE, "%s: output_padding is %lld, must be from 0 to below the stride, %lld, or the dilation, %lld", name, (long long)extra,
                    (long long)s, (long long)dilated);
            return gd_or_return(start, 0);
        }
        if (__builtin_mul_overflow(v->shape[2 + d] - 1, s, &size) || __builtin_mul_overflow(w->shape[2 + d] - 1, dilated, &reach) ||
            __builtin_add_overflow(size, reach, &size) || __builtin_add_overflow(size, 1 + extra, &size) ||
            __builtin_sub_overflow(size, attr.i[2 + d], &size) || __builtin_sub_overflow(size, attr.i[2 + d], &size)) {
            gd_fail(GD_ERR_VALUE, "%s: the result would be larger than memory", name);
            return gd_or_return(start, 0);
        }
        attr.i[9 + d] = size;
        /* Where the dilation allows whole strides of output_padding, no point reaches the end of the result. */
        attr.i[7 + d] -= extra / s * s;
    }
    gd_tensor y = gd_record(GD_OP_conv_bwd_input, (gd_tensor[]){images, kernels, bias}, 3, &attr, NULL);
    return gd_or_return(start, as_input(y, dims, gd_node_peek(x)->v.rank == dims + 2));
}

static gd_attr patch_attributes(const int64_t *kernel, const int64_t *dilation, const int64_t *padding, const int64_t *stride) {
    return (gd_attr){.i = {stride[0], stride[1], padding[0], padding[1], dilation[0], dilation[1], kernel[0], kernel[1]}};
}

gd_tensor gd_im2col(gd_tensor x, const int64_t *kernel, const int64_t *dilation, const int64_t *padding, const int64_t *stride) {
    const gd_attr attr = patch_attributes(kernel, dilation, padding, stride);
    gd_start start = gd_here();
    gd_tensor images = as_images(x, 2, "unfold"), y = images ? GD_RECORD(im2col, &attr, images) : 0;
    if (y && gd_node_peek(x)->v.rank == 3) y = gd_squeeze(y, 0, 0);
    return gd_or_return(start, y);
}

gd_tensor gd_col2im(gd_tensor x, const int64_t *size, const int64_t *kernel, const int64_t *dilation, const int64_t *padding, const int64_t *stride) {
    gd_attr attr = patch_attributes(kernel, dilation, padding, stride);
    gd_node *n = gd_node_of(x, "fold");
    if (!n) return 0;
    const bool batch = n->v.rank != 2;
    attr.i[9] = size[0];
    attr.i[10] = size[1];
    gd_start start = gd_here();
    gd_tensor patches = batch ? x : gd_unsqueeze(x, 0), y = patches ? GD_RECORD(col2im, &attr, patches) : 0;
    if (y && !batch) y = gd_squeeze(y, 0, 0);
    return gd_or_return(start, y);
}
