/* arrange.cu - flip; and the transposes of the views diagonal and unfold. Overlapping windows are added up in their order. */
#include "each.cuh"

/* ---- flip: a copy with negative strides ------------------------------------------------------------------------------------- */

template <typename W> struct flip_each {
    const W *x;
    W *y;
    gd_place from;
    __device__ void operator()(int64_t i) const { y[i] = x[gd_offset(from, i)]; }
};

GD_CUDA_KERNEL(flip) {
    gd_view x = *a->in[0], out = *a->out[0];
    int64_t bytes = gd_dtype_bytes(x.dtype);
    if (gd_numel(&x) == 0) return;
    if (!(a->attr->i[0] >> 3 & 1)) bytes = gd_widest_words(&x, &out, bytes);
    for (int d = 0; d < 4; d++) {
        if (!(a->attr->i[0] >> d & 1)) continue;
        x.data = (char *)x.data + (x.shape[d] - 1) * x.strides[d] * bytes;
        x.strides[d] = -x.strides[d];
    }
    GD_DISPATCH_WIDE_WORDS(bytes, W, {
        const flip_each<W> f = {(const W *)x.data, (W *)out.data, gd_place_of(&x)};
        gd_each(f, gd_numel(&out), a->stream);
    });
}

/* ---- undiagonal: (b.., n) -> zeros (.., size, .., size, ..) with b on a diagonal --------------------------------------------- */

template <typename W> struct undiagonal_each {
    const W *g;
    W *y;
    gd_place out;
    int64_t strides[4], step, n, offset; /* strides in g of the result's dimensions that are not the diagonal's; its own */
    int d1, d2;
    __device__ void operator()(int64_t i) const {
        int64_t at[4], from = 0;
        gd_coordinates(out, i, at);
        const int64_t l = offset >= 0 ? at[d1] : at[d2];
        for (int d = 0; d < 4; d++) from += at[d] * strides[d];
        y[i] = at[d2] - at[d1] == offset && l < n ? g[from + l * step] : W{};
    }
};

GD_CUDA_KERNEL(undiagonal) {
    const gd_view *g = a->in[0], *out = a->out[0];
    GD_DISPATCH_WORDS(gd_dtype_bytes(g->dtype), W, {
        undiagonal_each<W> f = {(const W *)g->data, (W *)out->data, gd_place_of(out), {}, g->strides[3], g->shape[3], a->attr->i[0], (int)a->attr->i[1], (int)a->attr->i[2]};
        for (int d = 0, k = 1; d < 4; d++)
            if (d != f.d1 && d != f.d2) f.strides[d] = g->strides[k++];
        gd_each(f, gd_numel(out), a->stream);
    });
}

/* ---- unfold_bwd: (.., windows, .., entries) -> (.., size, ..): windows are added up -------------------------------------------- */

template <typename T> struct unfold_bwd_each {
    const T *g;
    T *y;
    gd_place out;
    int64_t strides[4]; /* of g for each dimension of the result; windows for the unfolded one */
    int64_t entry_step, windows, entries, apart;
    int dim;
    __device__ void operator()(int64_t i) const {
        int64_t at[4], from = 0;
        gd_coordinates(out, i, at);
        for (int d = 0; d < 4; d++)
            if (d != dim) from += at[d] * strides[d];
        int64_t w = at[dim] < entries ? 0 : (at[dim] - entries) / apart + 1;
        gd_inside_t<T> sum = 0;
        for (; w < windows && w * apart <= at[dim]; w++) sum += gd_wide(g[from + w * strides[dim] + (at[dim] - w * apart) * entry_step]);
        y[i] = gd_narrow<T>(sum);
    }
};

/* i[0] counts among the dimensions of the result, which has one fewer than g: its first one is missing. */
GD_CUDA_KERNEL(unfold_bwd) {
    const gd_view *g = a->in[0], *out = a->out[0];
    const int dim = (int)a->attr->i[0];
    GD_DISPATCH_FLOATS(g->dtype, T, {
        unfold_bwd_each<T> f = {(const T *)g->data, (T *)out->data, gd_place_of(out), {}, g->strides[3], g->shape[dim - 1], g->shape[3], a->attr->i[2], dim};
        for (int d = 1; d < 4; d++) f.strides[d] = g->strides[d - 1];
        gd_each(f, gd_numel(out), a->stream);
    });
}
