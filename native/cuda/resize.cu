/* resize.cu - planes resized by nearest elements or linear interpolation, the gradient of that, and pixel shuffle.
 * The gradient looks for the results that an element went into: they are added in their order. */
#include "../resize.h"

#include "each.cuh"

struct resize_axis {
    int64_t in, out;
    double step;  /* linear */
    double scale; /* the user's, 0 for that of the sizes */
    bool align;
};

struct resizing {
    resize_axis axis[2];
    int64_t strides[4]; /* of the input, or of the gradient */
    int mode;
};

static resizing resizing_of(const gd_args *a, const gd_view *in, const gd_view *out) {
    resizing r = {};
    for (int d = 0; d < 2; d++) {
        const int64_t n = in->shape[2 + d], m = out->shape[2 + d];
        const double scale = a->attr->f[d];
        const bool align = a->attr->i[GD_RESIZE_ALIGN] != 0;
        r.axis[d] = {n, m, align ? (m > 1 ? (double)(n - 1) / (double)(m - 1) : 0) : scale > 0 ? 1 / scale : (double)n / (double)m, scale, align};
    }
    for (int d = 0; d < 4; d++) r.strides[d] = a->in[0]->strides[d];
    r.mode = (int)a->attr->i[GD_RESIZE_MODE];
    return r;
}

/* Where result o comes from: low weight[0] + high weight[1]. Nearest elements are found in T and rounded down as float32, so
 * that they are PyTorch's. */
template <typename T> GD_DEVICE gd_resize_source source_of(const resize_axis &a, int mode, int64_t o) {
    gd_resize_source s;
    if (mode != GD_LINEAR) {
        const T by = a.scale > 0 ? (T)(1 / a.scale) : (T)a.in / (T)a.out;
        const int64_t at = (int64_t)(float)(by * (mode == GD_NEAREST ? (T)o : (T)o + (T)0.5));
        s.low = s.high = at < a.in ? at : a.in - 1;
        s.weight[0] = 1, s.weight[1] = 0;
        return s;
    }
    const double at = a.align ? a.step * (double)o : a.step * ((double)o + 0.5) - 0.5;
    s.low = at < 0 ? 0 : at < (double)(a.in - 1) ? (int64_t)at : a.in - 1;
    s.high = s.low < a.in - 1 ? s.low + 1 : s.low;
    const double part = at < 0 ? 0 : at - (double)s.low < 1 ? at - (double)s.low : 1;
    s.weight[0] = 1 - part, s.weight[1] = part;
    return s;
}

template <typename T> struct resize_each {
    const T *x;
    T *y;
    resizing r;
    gd_place out;
    __device__ void operator()(int64_t i) const {
        typedef gd_inside_t<T> I;
        int64_t at[4];
        gd_coordinates(out, i, at);
        const gd_resize_source h = source_of<I>(r.axis[0], r.mode, at[2]), w = source_of<I>(r.axis[1], r.mode, at[3]);
        const T *plane = x + at[0] * r.strides[0] + at[1] * r.strides[1], *low = plane + h.low * r.strides[2], *high = plane + h.high * r.strides[2];
        const int64_t a = w.low * r.strides[3], b = w.high * r.strides[3];
        if (r.mode != GD_LINEAR) {
            y[i] = low[a];
            return;
        }
        const I h0 = (I)h.weight[0], h1 = (I)h.weight[1], w0 = (I)w.weight[0], w1 = (I)w.weight[1];
        y[i] = gd_narrow<T>(h0 * (w0 * gd_wide(low[a]) + w1 * gd_wide(low[b])) + h1 * (w0 * gd_wide(high[a]) + w1 * gd_wide(high[b])));
    }
};

/* The first result whose source may be `at`: sources never descend. */
template <typename I> GD_DEVICE int64_t first_result(const resize_axis &a, int mode, int64_t at) {
    int64_t low = 0, high = a.out;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (source_of<I>(a, mode, middle).high < at) low = middle + 1;
        else high = middle;
    }
    return low;
}

template <typename T> struct resize_bwd_each {
    const T *g;
    T *dx;
    resizing r;
    gd_place out;
    __device__ void operator()(int64_t i) const {
        typedef gd_inside_t<T> I;
        int64_t at[4];
        gd_coordinates(out, i, at);
        const T *plane = g + at[0] * r.strides[0] + at[1] * r.strides[1];
        const int64_t first = first_result<I>(r.axis[1], r.mode, at[3]);
        I sum = 0;
        for (int64_t oh = first_result<I>(r.axis[0], r.mode, at[2]); oh < r.axis[0].out; oh++) {
            const gd_resize_source h = source_of<I>(r.axis[0], r.mode, oh);
            if (h.low > at[2]) break;
            const I by_h = (h.low == at[2] ? (I)h.weight[0] : (I)0) + (h.high == at[2] ? (I)h.weight[1] : (I)0);
            for (int64_t ow = first; ow < r.axis[1].out; ow++) {
                const gd_resize_source w = source_of<I>(r.axis[1], r.mode, ow);
                if (w.low > at[3]) break;
                const I by_w = (w.low == at[3] ? (I)w.weight[0] : (I)0) + (w.high == at[3] ? (I)w.weight[1] : (I)0);
                sum += by_h * by_w * gd_wide(plane[oh * r.strides[2] + ow * r.strides[3]]);
            }
        }
        dx[i] = gd_narrow<T>(sum);
    }
};

GD_CUDA_KERNEL(resize) {
    const gd_view *x = a->in[0], *y = a->out[0];
    GD_DISPATCH_FLOATS(x->dtype, T, {
        const resize_each<T> f = {(const T *)x->data, (T *)y->data, resizing_of(a, x, y), gd_place_of(y)};
        gd_each(f, gd_numel(y), a->stream);
    });
}

GD_CUDA_KERNEL(resize_bwd) {
    const gd_view *g = a->in[0], *dx = a->out[0];
    GD_DISPATCH_FLOATS(g->dtype, T, {
        const resize_bwd_each<T> f = {(const T *)g->data, (T *)dx->data, resizing_of(a, dx, g), gd_place_of(dx)};
        gd_each(f, gd_numel(dx), a->stream);
    });
}

/* ---- Pixel shuffle: channel (c r + i) r + j at (h, w) is channel c at (h r + i, w r + j) -------------------------------------------- */

template <typename W> struct shuffle_each {
    const W *x;
    W *y;
    int64_t r, strides[4];
    gd_place out;
    bool inverse;
    __device__ void operator()(int64_t i) const {
        int64_t at[4], c, h, w;
        gd_coordinates(out, i, at);
        if (inverse) c = at[1] / (r * r), h = at[2] * r + at[1] / r % r, w = at[3] * r + at[1] % r;
        else c = (at[1] * r + at[2] % r) * r + at[3] % r, h = at[2] / r, w = at[3] / r;
        y[i] = x[at[0] * strides[0] + c * strides[1] + h * strides[2] + w * strides[3]];
    }
};

GD_CUDA_KERNEL(pixel_shuffle) {
    const gd_view *x = a->in[0], *y = a->out[0];
    GD_DISPATCH_WORDS(gd_dtype_bytes(x->dtype), W, {
        shuffle_each<W> f = {(const W *)x->data, (W *)y->data, a->attr->i[0], {}, gd_place_of(y), a->attr->i[1] != 0};
        for (int d = 0; d < 4; d++) f.strides[d] = x->strides[d];
        gd_each(f, gd_numel(y), a->stream);
    });
}
