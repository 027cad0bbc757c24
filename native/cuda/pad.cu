/* pad.cu - pad, which also cuts, rolls and repeats, and its transpose, which adds up what shows an entry in row-major order. */
#include "../arrange.h"
#include "each.cuh"

struct padding {
    int64_t before[4], size[4], strides[4]; /* size and strides: of pad's input, of pad_bwd's gradient */
    int mode;
};

static padding padding_of(const gd_args *a) {
    padding p = {};
    for (int d = 0; d < 4; d++) p.before[d] = a->attr->i[1 + d], p.size[d] = a->in[0]->shape[d], p.strides[d] = a->in[0]->strides[d];
    p.mode = (int)a->attr->i[0];
    return p;
}

template <typename W> struct pad_each {
    const W *x;
    W *y;
    W value;
    padding p;
    gd_place out;
    __device__ void operator()(int64_t i) const {
        int64_t at[4], from = 0;
        bool inside = true;
        gd_coordinates(out, i, at);
GD_UNROLL
        for (int d = 0; d < 4; d++) {
            const int64_t place = gd_pad_place(at[d] - p.before[d], p.size[d], p.mode);
            inside = inside && place >= 0;
            from += place * p.strides[d];
        }
        y[i] = inside ? x[from] : value;
    }
};

template <typename T> static T constant_of(const gd_attr *attr) { return gd_narrow<T>(attr->f[0]); }
template <> int64_t constant_of(const gd_attr *attr) { return attr->i[9]; }
template <> int32_t constant_of(const gd_attr *attr) { return (int32_t)attr->i[9]; }
template <> uint8_t constant_of(const gd_attr *attr) { return attr->i[9] != 0; }

GD_CUDA_KERNEL(pad) {
    const gd_view *x = a->in[0], *out = a->out[0];
    GD_DISPATCH_ALL(x->dtype, T, {
        const pad_each<T> f = {(const T *)x->data, (T *)out->data, constant_of<T>(a->attr), padding_of(a), gd_place_of(out)};
        gd_each(f, gd_numel(out), a->stream);
    });
}

/* The padded places that show entry s, in ascending order: up to three, or first, first + step, ... */
struct shown {
    int64_t first, second, third, step;
    int count;
    __device__ int64_t at(int k) const { return step ? first + k * step : k == 0 ? first : k == 1 ? second : third; }
    __device__ void add(int64_t place, int64_t large) {
        if (place < 0 || place >= large) return;
        if (count == 0) first = place;
        else if (count == 1) second = place;
        else third = place;
        count++;
    }
};

GD_DEVICE shown places_of(int64_t s, int64_t before, int64_t small, int64_t large, int mode) {
    shown r = {0, 0, 0, 0, 0};
    const int64_t own = before + s;
    if (mode == GD_PAD_CIRCULAR || (mode == GD_PAD_REPLICATE && (s == 0 || s == small - 1))) {
        r.step = mode == GD_PAD_CIRCULAR ? small : 1;
        const bool left = mode == GD_PAD_CIRCULAR || s == 0, right = mode == GD_PAD_CIRCULAR || s == small - 1;
        r.first = left ? own - (own > 0 ? own / r.step * r.step : 0) : own;
        if (r.first < 0) r.first += (r.step - 1 - r.first) / r.step * r.step;
        const int64_t last = right ? large - 1 : own < large - 1 ? own : large - 1;
        r.count = r.first > last ? 0 : (int)((last - r.first) / r.step + 1);
        return r;
    }
    if (mode == GD_PAD_REFLECT && s > 0) r.add(before - s, large);
    r.add(own, large);
    if (mode == GD_PAD_REFLECT && s < small - 1) r.add(before + 2 * (small - 1) - s, large);
    return r;
}

template <typename T> struct pad_bwd_each {
    const T *g;
    T *y;
    padding p;
    gd_place out;
    __device__ void operator()(int64_t i) const {
        int64_t at[4];
        shown places[4];
        gd_coordinates(out, i, at);
GD_UNROLL
        for (int d = 0; d < 4; d++) places[d] = places_of(at[d], p.before[d], out.shape[d], p.size[d], p.mode);
        gd_inside_t<T> sum = 0;
        for (int b = 0; b < places[0].count; b++)
            for (int c = 0; c < places[1].count; c++)
                for (int h = 0; h < places[2].count; h++)
                    for (int w = 0; w < places[3].count; w++)
                        sum += gd_wide(g[places[0].at(b) * p.strides[0] + places[1].at(c) * p.strides[1] + places[2].at(h) * p.strides[2] + places[3].at(w) * p.strides[3]]);
        y[i] = gd_narrow<T>(sum);
    }
};

GD_CUDA_KERNEL(pad_bwd) {
    const gd_view *g = a->in[0], *out = a->out[0];
    GD_DISPATCH_FLOATS(g->dtype, T, {
        const pad_bwd_each<T> f = {(const T *)g->data, (T *)out->data, padding_of(a), gd_place_of(out)};
        gd_each(f, gd_numel(out), a->stream);
    });
}
