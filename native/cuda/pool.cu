/* pool.cu - maxima and averages of windows, and their gradients: a thread for each element of the result.
 * Sums of averages are float64. */
#include "../pool.h"

#include "each.cuh"

struct pooling {
    gd_pool_axis h, w;
    int64_t strides[4]; /* of the input, or of the gradient */
    int64_t divisor;
    bool planar, count_pad;
};

static pooling pooling_of(const gd_args *a, const gd_view *large, const gd_view *small, bool dilates) {
    pooling p = {};
    p.h = gd_pool_axis_of(a->attr, 0, large->shape[2], small->shape[2], dilates);
    p.w = gd_pool_axis_of(a->attr, 1, large->shape[3], small->shape[3], dilates);
    for (int d = 0; d < 4; d++) p.strides[d] = a->in[0]->strides[d];
    p.divisor = a->attr->i[GD_POOL_DIVISOR];
    p.count_pad = a->attr->i[GD_POOL_COUNT_PAD] != 0;
    p.planar = a->attr->i[GD_POOL_DIMS] != 1;
    return p;
}

GD_DEVICE int64_t plane_of(const pooling &p, const int64_t *at) { return at[0] * p.strides[0] + at[1] * p.strides[1]; }

/* ---- Maxima: a NaN wins, the last of several; else the first of the largest ---------------------------------------------------- */

template <typename T> GD_DEVICE T smallest() { return (T)-INFINITY; }
template <> __device__ inline int64_t smallest<int64_t>() { return INT64_MIN; }
template <> __device__ inline int32_t smallest<int32_t>() { return INT32_MIN; }

template <typename T> struct max_pool_each {
    const T *x;
    T *y;
    int64_t *index; /* or NULL */
    pooling p;
    gd_place out;
    __device__ void operator()(int64_t i) const {
        typedef gd_inside_t<T> I;
        int64_t at[4], h0, h1, w0, w1;
        gd_coordinates(out, i, at);
        gd_pool_window(&p.h, at[2], &h0, &h1);
        gd_pool_window(&p.w, at[3], &w0, &w1);
        const T *plane = x + plane_of(p, at);
        const int64_t width = p.planar ? p.w.in : 0; /* dilation may step over a small input: then the last place counts */
        int64_t where = (h0 < p.h.in ? h0 : p.h.in - 1) * width + (w0 < p.w.in ? w0 : p.w.in - 1);
        I best = smallest<I>();
        for (int64_t h = h0; h < h1; h += p.h.dilation)
            for (int64_t w = w0; w < w1; w += p.w.dilation) {
                const I v = gd_wide(plane[h * p.strides[2] + w * p.strides[3]]);
                if (v > best || v != v) best = v, where = h * width + w;
            }
        y[i] = gd_narrow<T>(best);
        if (index) index[i] = where;
    }
};

GD_CUDA_KERNEL(max_pool) {
    const gd_view *x = a->in[0], *y = a->out[0];
    GD_DISPATCH_NUMBERS(x->dtype, T, {
        const max_pool_each<T> f = {(const T *)x->data, (T *)y->data, a->attr->i[GD_POOL_INDICES] ? (int64_t *)a->out[1]->data : NULL, pooling_of(a, x, y, true), gd_place_of(y)};
        gd_each(f, gd_numel(y), a->stream);
    });
}

/* (g, indices) -> zeros with g added, or written, at the indices. A block has a piece of a plane (or, of one dimension, of a row) of
 * the result in shared memory; what comes there is added in the order of the plane by that thread of which it is the place. */
enum { BWD_THREADS = 256, BWD_ENTRIES = 512 };

template <typename I> GD_DEVICE I sum_of(I a, I b) { return a + b; }
GD_DEVICE int64_t sum_of(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
GD_DEVICE int32_t sum_of(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }

template <typename T>
__global__ void __launch_bounds__(BWD_THREADS)
    max_pool_bwd_kernel(const T *g, const int64_t *index, T *dx, gd_place from, gd_place index_from, int64_t room, int64_t entries, int64_t tiles, bool assign) {
    typedef gd_inside_t<T> I;
    GD_SHARED(int64_t, places, BWD_ENTRIES);
    GD_SHARED(I, values, BWD_ENTRIES);
    const int64_t plane = (int64_t)blockIdx.x / tiles, first = (int64_t)blockIdx.x % tiles * BWD_THREADS, own = first + threadIdx.x;
    I sum = 0;
    for (int64_t k0 = 0; k0 < entries; k0 += BWD_ENTRIES) {
        __syncthreads();
        for (int k = (int)threadIdx.x; k < BWD_ENTRIES && k0 + k < entries; k += BWD_THREADS) {
            const int64_t i = plane * entries + k0 + k;
            places[k] = index[gd_offset(index_from, i)];
            values[k] = gd_wide(g[gd_offset(from, i)]);
        }
        __syncthreads();
        const int here = (int)(entries - k0 < BWD_ENTRIES ? entries - k0 : (int64_t)BWD_ENTRIES);
        for (int k = 0; k < here; k++)
            if (places[k] == own) sum = assign ? (I)values[k] : sum_of(sum, (I)values[k]);
    }
    if (own < room) dx[plane * room + own] = gd_narrow<T>(sum);
}

GD_CUDA_KERNEL(max_pool_bwd) {
    const gd_view *g = a->in[0], *index = a->in[1], *dx = a->out[0];
    const bool planar = a->attr->i[GD_POOL_DIMS] != 1;
    if (gd_numel(dx) == 0) return;
    const int64_t room = (planar ? dx->shape[2] : 1) * dx->shape[3], entries = (planar ? g->shape[2] : 1) * g->shape[3], tiles = gd_blocks(room, BWD_THREADS);
    GD_DISPATCH_NUMBERS(g->dtype, T, GD_LAUNCH(max_pool_bwd_kernel<T>, gd_numel(dx) / room * tiles, BWD_THREADS, 0, a->stream, (const T *)g->data, (const int64_t *)index->data,
                                               (T *)dx->data, gd_place_of(g), gd_place_of(index), room, entries, tiles, a->attr->i[2] != 0));
}

/* ---- Averages ------------------------------------------------------------------------------------------------------------------- */

/* What the sum of a window is divided by; infinity where there is no element. Its bounds, too. */
GD_DEVICE double divisor_of(const pooling &p, int64_t oh, int64_t ow, int64_t *h0, int64_t *h1, int64_t *w0, int64_t *w1) {
    const int64_t h = gd_pool_window(&p.h, oh, h0, h1), w = gd_pool_window(&p.w, ow, w0, w1);
    if (*h1 <= *h0 || *w1 <= *w0) return (double)INFINITY;
    return (double)(p.divisor ? p.divisor : p.count_pad ? h * w : (*h1 - *h0) * (*w1 - *w0));
}

template <typename T> struct avg_pool_each {
    const T *x;
    T *y;
    pooling p;
    gd_place out;
    __device__ void operator()(int64_t i) const {
        int64_t at[4], h0, h1, w0, w1;
        gd_coordinates(out, i, at);
        const double by = divisor_of(p, at[2], at[3], &h0, &h1, &w0, &w1);
        const T *plane = x + plane_of(p, at);
        double sum = 0;
        for (int64_t h = h0; h < h1; h++)
            for (int64_t w = w0; w < w1; w++) sum += (double)gd_wide(plane[h * p.strides[2] + w * p.strides[3]]);
        y[i] = gd_narrow<T>((gd_inside_t<T>)(sum / by));
    }
};

/* The first window that may hold element `at`. */
GD_DEVICE int64_t first_window(const gd_pool_axis &a, int64_t at) {
    const int64_t o = a.adaptive ? at * a.out / a.in : (at + a.pad - a.kernel) / a.stride;
    return o > 0 ? o - 1 : 0;
}

template <typename T> struct avg_pool_bwd_each {
    const T *g;
    T *dx;
    pooling p;
    gd_place out;
    __device__ void operator()(int64_t i) const {
        int64_t at[4], h0, h1, w0, w1;
        gd_coordinates(out, i, at);
        const T *plane = g + plane_of(p, at);
        double sum = 0;
        for (int64_t oh = first_window(p.h, at[2]); oh < p.h.out; oh++) {
            gd_pool_window(&p.h, oh, &h0, &h1);
            if (h0 > at[2]) break;
            if (h1 <= at[2]) continue;
            for (int64_t ow = first_window(p.w, at[3]); ow < p.w.out; ow++) {
                const double by = divisor_of(p, oh, ow, &h0, &h1, &w0, &w1);
                if (w0 > at[3]) break;
                if (w1 > at[3]) sum += (double)gd_wide(plane[oh * p.strides[2] + ow * p.strides[3]]) / by;
            }
        }
        dx[i] = gd_narrow<T>((gd_inside_t<T>)sum);
    }
};

GD_CUDA_KERNEL(avg_pool) {
    const gd_view *x = a->in[0], *y = a->out[0];
    GD_DISPATCH_FLOATS(x->dtype, T, {
        const avg_pool_each<T> f = {(const T *)x->data, (T *)y->data, pooling_of(a, x, y, false), gd_place_of(y)};
        gd_each(f, gd_numel(y), a->stream);
    });
}

GD_CUDA_KERNEL(avg_pool_bwd) {
    const gd_view *g = a->in[0], *dx = a->out[0];
    GD_DISPATCH_FLOATS(g->dtype, T, {
        const avg_pool_bwd_each<T> f = {(const T *)g->data, (T *)dx->data, pooling_of(a, dx, g, false), gd_place_of(dx)};
        gd_each(f, gd_numel(dx), a->stream);
    });
}
