/* scatter.cu - writing where an index says: scatter with its reductions, and scatter_add_zeros, gather's transpose.
 * Every element of the result takes what comes to it in the order of the index. Two ways, with the same results: a thread walks
 * along a line of the index, or, where there are few lines, a thread looks through a line for what comes to its element. */
#include "../scattering.h"
#include <type_traits>

#include "each.cuh"

enum {
    ENTRIES = 1024,         /* of the index in shared memory */
    LOOK_THROUGH = 1 << 21  /* elements of the result up to which that is faster */
};

template <typename T, typename S> struct scattering {
    T *out;
    const S *src;
    const int64_t *index;
    gd_place lines; /* shape of the index, one entry of each line */
    int64_t out_strides[4], src_strides[4], index_strides[4];
    int64_t count, n, size; /* lines; entries of one; places along the dimension */
    gd_fault *fault;
    int dim, op;
    bool fresh; /* what was there does not count */
};

template <typename T> GD_DEVICE T least_of() { return (T)-INFINITY; }
template <> __device__ inline int64_t least_of<int64_t>() { return INT64_MIN; }
template <> __device__ inline int32_t least_of<int32_t>() { return INT32_MIN; }
template <typename T> GD_DEVICE T most_of() { return (T)INFINITY; }
template <> __device__ inline int64_t most_of<int64_t>() { return INT64_MAX; }
template <> __device__ inline int32_t most_of<int32_t>() { return INT32_MAX; }

template <typename T> struct wrapping { typedef T type; };
template <> struct wrapping<int64_t> { typedef uint64_t type; };
template <> struct wrapping<int32_t> { typedef uint32_t type; };

template <int MODE, typename T> struct step {
    typedef typename wrapping<T>::type U;
    static constexpr bool BOOL = sizeof(T) == 1, AND = MODE == GD_SCATTER_MUL || MODE == GD_SCATTER_MIN;
    static __device__ __forceinline__ T of(T a, T v) {
        if constexpr (MODE == GD_SCATTER_SET) return v;
        else if constexpr (BOOL) return AND ? (T)(a & v) : (T)(a | v);
        else if constexpr (MODE == GD_SCATTER_ADD) return (T)((U)a + (U)v);
        else if constexpr (MODE == GD_SCATTER_MUL) return (T)((U)a * (U)v);
        else if constexpr (MODE == GD_SCATTER_MAX) return v != v || v > a ? v : a;
        else return v != v || v < a ? v : a;
    }
    static __device__ __forceinline__ T neutral() {
        if constexpr (MODE == GD_SCATTER_SET) return T{};
        else if constexpr (BOOL) return (T)AND;
        else if constexpr (MODE == GD_SCATTER_MAX) return least_of<T>();
        else if constexpr (MODE == GD_SCATTER_MIN) return most_of<T>();
        else return (T)(MODE == GD_SCATTER_MUL);
    }
};

GD_DEVICE int64_t dot(const int64_t *at, const int64_t *strides) {
    return at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2] + at[3] * strides[3];
}

/* What a source is added as: a half as float32, where that is what is summed up. */
template <typename T, typename S> GD_DEVICE T taken(S v) {
    if constexpr (gd_is_half_type<T>::value) return v;
    else return (T)gd_wide(v);
}

template <int MODE, typename T, typename S> struct walk_each {
    scattering<T, S> s;
    __device__ void operator()(int64_t line) const {
        int64_t at[4];
        gd_coordinates(s.lines, line, at);
        const int64_t *index = s.index + dot(at, s.index_strides);
        const S *src = s.src + dot(at, s.src_strides);
        T *out = s.out + dot(at, s.out_strides);
        const int64_t along = s.out_strides[s.dim], index_step = s.index_strides[s.dim], src_step = s.src_strides[s.dim];
        if (s.fresh)
            for (int64_t k = 0; k < s.n; k++) {
                const int64_t place = gd_wrap_index(s.fault, s.op, index[k * index_step], s.size);
                if (place >= 0) out[place * along] = step<MODE, T>::neutral();
            }
        for (int64_t k = 0; k < s.n; k++) {
            const int64_t place = gd_wrap_index(s.fault, s.op, index[k * index_step], s.size);
            if (place >= 0) out[place * along] = step<MODE, T>::of(out[place * along], taken<T>(src[k * src_step]));
        }
    }
};

/* Blocks of one line: GD_EACH_THREADS places each. I: the type in which a result is computed. */
template <int MODE, typename T, typename I> __global__ void __launch_bounds__(GD_EACH_THREADS) look_kernel(const scattering<T, T> s, int64_t tiles) {
    GD_SHARED(int64_t, entry, ENTRIES);
    const int64_t line = (int64_t)blockIdx.x / tiles, place = (int64_t)blockIdx.x % tiles * GD_EACH_THREADS + threadIdx.x;
    int64_t at[4];
    gd_coordinates(s.lines, line, at);
    const int64_t *index = s.index + dot(at, s.index_strides);
    const T *src = s.src + dot(at, s.src_strides);
    T *out = s.out + dot(at, s.out_strides) + place * s.out_strides[s.dim];
    bool hit = false;
    I value = I{};
    for (int64_t k0 = 0; k0 < s.n; k0 += ENTRIES) {
        const int here = (int)(s.n - k0 < ENTRIES ? s.n - k0 : (int64_t)ENTRIES);
        __syncthreads();
        for (int k = (int)threadIdx.x; k < here; k += GD_EACH_THREADS) entry[k] = gd_wrap_index(s.fault, s.op, index[(k0 + k) * s.index_strides[s.dim]], s.size);
        __syncthreads();
        if (place >= s.size) continue;
        for (int k = 0; k < here; k++) {
            if (entry[k] != place) continue;
            if (!hit) value = s.fresh ? step<MODE, I>::neutral() : taken<I>(*out);
            hit = true;
            value = step<MODE, I>::of(value, taken<I>(src[(k0 + k) * s.src_strides[s.dim]]));
        }
    }
    if (hit) *out = gd_narrow<T>(value);
}

template <typename T, typename S> static scattering<T, S> scattering_of(T *out, const gd_view *shape, const gd_view *src, const gd_view *index, const gd_args *a, int op) {
    scattering<T, S> s = {};
    s.out = out, s.src = (const S *)src->data, s.index = (const int64_t *)index->data;
    gd_view lines = *index;
    s.dim = (int)a->attr->i[0], s.op = op;
    lines.shape[s.dim] = 1;
    s.lines = gd_place_of(&lines);
    s.count = gd_numel(&lines), s.n = index->shape[s.dim], s.size = shape->shape[s.dim];
    s.fault = a->stream->fault;
    for (int d = 0; d < 4; d++) s.out_strides[d] = shape->strides[d], s.src_strides[d] = src->strides[d], s.index_strides[d] = index->strides[d];
    return s;
}

static bool looks_through(const gd_view *index, const gd_view *out, int dim) {
    return (double)gd_numel(index) / (double)index->shape[dim] * (double)out->shape[dim] <= LOOK_THROUGH;
}

template <typename T, typename S> struct convert_each {
    T *to;
    const S *from;
    gd_place place;
    __device__ void operator()(int64_t i) const { to[i] = gd_narrow<T>(gd_wide(from[gd_offset(place, i)])); }
};
template <typename T> struct zero_each {
    T *to;
    __device__ void operator()(int64_t i) const { to[i] = T{}; }
};

/* x, if there is one, or zeros, as `to`. */
template <typename T, typename S> static void begin_with(T *to, const gd_view *x, int64_t n, const gd_stream *s) {
    const convert_each<T, S> copy = {to, x ? (const S *)x->data : NULL, x ? gd_place_of(x) : gd_place{}};
    const zero_each<T> zero = {to};
    if (x) gd_each(copy, n, s);
    else gd_each(zero, n, s);
}

/* T: of the tensors. Halves that are combined walking are float32 in the workspace meanwhile. */
template <int MODE, typename T> static void run_mode(const gd_args *a, const gd_view *x, const gd_view *src, const gd_view *index, bool fresh, int op) {
    constexpr bool HALF = gd_is_half_type<T>::value && MODE != GD_SCATTER_SET;
    typedef gd_inside_t<T> I;
    const gd_view *out = a->out[0];
    const int64_t n = gd_numel(out);
    const bool none = gd_numel(index) == 0, look = none || looks_through(index, out, (int)a->attr->i[0]);
    T *y = (T *)out->data;
    if ((look || !HALF) && !(x && x->data == out->data)) begin_with<T, T>(y, x, n, a->stream); /* else it is written in place */
    if (none) return;
    if (look) {
        scattering<T, T> s = scattering_of<T, T>(y, out, src, index, a, op);
        s.fresh = fresh;
        const int64_t tiles = gd_blocks(s.size, GD_EACH_THREADS);
        GD_LAUNCH((look_kernel<MODE, T, typename std::conditional<HALF, I, T>::type>), s.count * tiles, GD_EACH_THREADS, 0, a->stream, s, tiles);
        return;
    }
    if constexpr (HALF) {
        I *sums = (I *)a->workspace;
        begin_with<I, T>(sums, x, n, a->stream);
        walk_each<MODE, I, T> walk = {scattering_of<I, T>(sums, out, src, index, a, op)};
        walk.s.fresh = fresh;
        gd_each(walk, walk.s.count, a->stream);
        const convert_each<T, I> round = {y, sums, gd_place_of(out)};
        gd_each(round, n, a->stream);
    } else {
        walk_each<MODE, T, T> walk = {scattering_of<T, T>(y, out, src, index, a, op)};
        walk.s.fresh = fresh;
        gd_each(walk, walk.s.count, a->stream);
    }
}

static int64_t sums_bytes(const gd_args *a, int index, int mode) {
    const gd_view *out = a->out[0];
    if (!gd_is_half(out->dtype) || mode == GD_SCATTER_SET || gd_numel(a->in[index]) == 0 || looks_through(a->in[index], out, (int)a->attr->i[0])) return 0;
    return gd_numel(out) * (int64_t)sizeof(float);
}

/* (x, index, src): x with src at the index. */
GD_CUDA_WORKSPACE(scatter) { return sums_bytes(a, 1, (int)a->attr->i[1]); }
GD_CUDA_KERNEL(scatter) {
    const gd_view *x = a->in[0], *index = a->in[1], *src = a->in[2];
    const bool fresh = a->attr->i[2] == 0;
    if (gd_numel(a->out[0]) == 0) return;
    switch (a->attr->i[1]) {
    case GD_SCATTER_ADD: GD_DISPATCH_ALL(x->dtype, T, (run_mode<GD_SCATTER_ADD, T>(a, x, src, index, fresh, GD_OP_scatter))); break;
    case GD_SCATTER_MUL: GD_DISPATCH_ALL(x->dtype, T, (run_mode<GD_SCATTER_MUL, T>(a, x, src, index, fresh, GD_OP_scatter))); break;
    case GD_SCATTER_MAX: GD_DISPATCH_ALL(x->dtype, T, (run_mode<GD_SCATTER_MAX, T>(a, x, src, index, fresh, GD_OP_scatter))); break;
    case GD_SCATTER_MIN: GD_DISPATCH_ALL(x->dtype, T, (run_mode<GD_SCATTER_MIN, T>(a, x, src, index, fresh, GD_OP_scatter))); break;
    default: GD_DISPATCH_WORDS(gd_dtype_bytes(x->dtype), W, (run_mode<GD_SCATTER_SET, W>(a, x, src, index, false, GD_OP_scatter)));
    }
}

/* (g, index): added up in zeros. */
GD_CUDA_WORKSPACE(scatter_add_zeros) { return sums_bytes(a, 1, GD_SCATTER_ADD); }
GD_CUDA_KERNEL(scatter_add_zeros) {
    if (gd_numel(a->out[0]) == 0) return;
    GD_DISPATCH_ALL(a->in[0]->dtype, T, (run_mode<GD_SCATTER_ADD, T>(a, NULL, a->in[0], a->in[1], false, GD_OP_scatter_add_zeros)));
}
