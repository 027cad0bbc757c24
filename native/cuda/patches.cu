/* patches.cu - im2col and col2im: all patches of an image as columns, and their sum. */
#include "each.cuh"

struct patches {
    int64_t stride[2], padding[2], dilation[2], kernel[2], points[2], size[2], strides[4]; /* the last: of the input */
};

static patches patches_of(const gd_args *a, const gd_view *image) {
    patches p = {};
    const int64_t *i = a->attr->i;
    for (int d = 0; d < 2; d++) {
        p.stride[d] = i[d], p.padding[d] = i[2 + d], p.dilation[d] = i[4 + d], p.kernel[d] = i[6 + d];
        p.size[d] = image->shape[2 + d];
        p.points[d] = (p.size[d] + 2 * p.padding[d] - p.dilation[d] * (p.kernel[d] - 1) - 1) / p.stride[d] + 1;
    }
    for (int d = 0; d < 4; d++) p.strides[d] = a->in[0]->strides[d];
    return p;
}

/* image (N,C,H,W) -> columns (N, C KH KW, OH OW) */
template <typename T> struct im2col_each {
    const T *x;
    T *y;
    patches p;
    gd_place out;
    __device__ void operator()(int64_t i) const {
        int64_t at[4];
        gd_coordinates(out, i, at);
        const int64_t kx = at[2] % p.kernel[1], ky = at[2] / p.kernel[1] % p.kernel[0], c = at[2] / p.kernel[1] / p.kernel[0];
        const int64_t h = at[3] / p.points[1] * p.stride[0] + ky * p.dilation[0] - p.padding[0];
        const int64_t w = at[3] % p.points[1] * p.stride[1] + kx * p.dilation[1] - p.padding[1];
        const bool inside = h >= 0 && h < p.size[0] && w >= 0 && w < p.size[1];
        y[i] = inside ? x[at[1] * p.strides[0] + c * p.strides[1] + h * p.strides[2] + w * p.strides[3]] : T{};
    }
};

/* columns -> image: taps are added in their order */
template <typename T> struct col2im_each {
    const T *x;
    T *y;
    patches p;
    gd_place out;
    __device__ void operator()(int64_t i) const {
        int64_t at[4];
        gd_coordinates(out, i, at);
        const T *from = x + at[0] * p.strides[1] + at[1] * p.kernel[0] * p.kernel[1] * p.strides[2];
        gd_inside_t<T> sum = 0;
        for (int64_t ky = 0; ky < p.kernel[0]; ky++) {
            const int64_t h = at[2] + p.padding[0] - ky * p.dilation[0];
            if (h < 0 || h % p.stride[0] || h / p.stride[0] >= p.points[0]) continue;
            for (int64_t kx = 0; kx < p.kernel[1]; kx++) {
                const int64_t w = at[3] + p.padding[1] - kx * p.dilation[1];
                if (w < 0 || w % p.stride[1] || w / p.stride[1] >= p.points[1]) continue;
                sum += gd_wide(from[(ky * p.kernel[1] + kx) * p.strides[2] + (h / p.stride[0] * p.points[1] + w / p.stride[1]) * p.strides[3]]);
            }
        }
        y[i] = gd_narrow<T>(sum);
    }
};

GD_CUDA_KERNEL(im2col) {
    const gd_view *x = a->in[0], *out = a->out[0];
    GD_DISPATCH_FLOATS(x->dtype, T, {
        const im2col_each<T> f = {(const T *)x->data, (T *)out->data, patches_of(a, x), gd_place_of(out)};
        gd_each(f, gd_numel(out), a->stream);
    });
}

GD_CUDA_KERNEL(col2im) {
    const gd_view *x = a->in[0], *out = a->out[0];
    GD_DISPATCH_FLOATS(x->dtype, T, {
        const col2im_each<T> f = {(const T *)x->data, (T *)out->data, patches_of(a, out), gd_place_of(out)};
        gd_each(f, gd_numel(out), a->stream);
    });
}
