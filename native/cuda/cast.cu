/* cast.cu - casts between all dtypes, copies and fill. To bfloat16 and float16 every value is rounded once, to the nearest. */
#include "elementwise.cuh"

#include "../half.h"

/* Truncates; NaN and what does not fit become the least integer, as x86 hardware has it. The comparison with `below` also keeps
 * doubles that truncate to INT32_MIN. */
template <class T, class F> __device__ T truncated(F x, F below, F above, T otherwise) { return x > below && x < above ? (T)x : otherwise; }
static __device__ int32_t i32_of(float x) { return truncated<int32_t>(x, -0x1.000002p31f, 0x1p31f, INT32_MIN); }
static __device__ int32_t i32_of(double x) { return truncated<int32_t>(x, -2147483649.0, 0x1p31, INT32_MIN); }
static __device__ int64_t i64_of(float x) { return truncated<int64_t>(x, -0x1.000002p63f, 0x1p63f, INT64_MIN); }
static __device__ int64_t i64_of(double x) { return truncated<int64_t>(x, -0x1.0000000000001p63, 0x1p63, INT64_MIN); }

/* `half`: the float32 will be rounded to a half, which must be the only rounding. */
template <class To, class From> struct cast_of {
    typedef From A;
    typedef To R;
    typedef uint8_t B, C;
    enum { INPUTS = 1 };
    bool half;
    __device__ R operator()(A x) const {
        constexpr bool from_float = gd_is_same<From, float> || gd_is_same<From, double>;
        if constexpr (gd_is_same<To, uint8_t>) return x != 0;
        else if constexpr (gd_is_same<To, int32_t> && from_float) return i32_of(x);
        else if constexpr (gd_is_same<To, int64_t> && from_float) return i64_of(x);
        else if constexpr (gd_is_same<To, float> && gd_is_same<From, double>) return half ? gd_odd_f32_of_f64(x) : (float)x;
        else if constexpr (gd_is_same<To, float> && gd_is_same<From, int64_t>) return half ? gd_odd_f32_of_f64(gd_odd_f64_of_i64(x)) : (float)x;
        else if constexpr (gd_is_same<To, float> && gd_is_same<From, int32_t>) return half ? gd_odd_f32_of_f64((double)x) : (float)x;
        else if constexpr (gd_is_same<To, int32_t>) return (int32_t)(uint32_t)x;
        else return (To)x;
    }
};

template <class From> static void cast_from(const gd_args *a) {
    const int to = a->out[0]->dtype;
    const bool half = gd_is_half(to);
    switch (gd_dtype_inside(to)) {
    case GD_FLOAT32: gd_ew_run(a, cast_of<float, From>{half}); break;
    case GD_FLOAT64: gd_ew_run(a, cast_of<double, From>{half}); break;
    case GD_INT64: gd_ew_run(a, cast_of<int64_t, From>{half}); break;
    case GD_INT32: gd_ew_run(a, cast_of<int32_t, From>{half}); break;
    default: gd_ew_run(a, cast_of<uint8_t, From>{half});
    }
}

GD_CUDA_KERNEL(copy);

GD_CUDA_KERNEL(cast) {
    if (a->in[0]->dtype == a->out[0]->dtype) {
        gd_copy_cuda(a);
        return;
    }
    switch (gd_dtype_inside(a->in[0]->dtype)) {
    case GD_FLOAT32: cast_from<float>(a); break;
    case GD_FLOAT64: cast_from<double>(a); break;
    case GD_INT64: cast_from<int64_t>(a); break;
    case GD_INT32: cast_from<int32_t>(a); break;
    default: cast_from<uint8_t>(a);
    }
}

/* ---- Copies: only bits move ------------------------------------------------------------------------------------------- */

enum { TILE = 32, TILE_ROWS = 8 }; /* rows of threads of a tile, each of which takes four elements */

template <class T> struct copy_of {
    typedef T A, R;
    typedef uint8_t B, C;
    enum { INPUTS = 1 };
    __device__ R operator()(A x) const { return x; }
};

/* Tiles of a walk whose dimension 0 is contiguous in the output and whose dimension 1 is so in the input: read along the one,
 * written along the other. blockIdx.x counts tiles along dimension 0, then 1, then the dimensions 2 and 3. */
template <class T> __global__ void __launch_bounds__(TILE *TILE_ROWS) copy_across(gd_ew w) {
    GD_SHARED(T, tile, TILE, TILE + 1);
    const int64_t tiles_0 = (w.shape[0] + TILE - 1) / TILE, tiles_1 = (w.shape[1] + TILE - 1) / TILE, depth = w.dims > 2 ? w.shape[2] : 1;
    const int64_t block = blockIdx.x, from_0 = block % tiles_0 * TILE, from_1 = block / tiles_0 % tiles_1 * TILE, outer = block / tiles_0 / tiles_1;
    const int64_t index_2 = outer % depth, index_3 = outer / depth;
    const T *x = (const T *)w.data[1] + index_2 * w.stride[1][2] + index_3 * w.stride[1][3];
    T *y = (T *)w.data[0] + index_2 * w.stride[0][2] + index_3 * w.stride[0][3];
    for (int k = threadIdx.y; k < TILE; k += TILE_ROWS) {
        const int64_t i = from_0 + k, j = from_1 + threadIdx.x;
        if (i < w.shape[0] && j < w.shape[1]) tile[k][threadIdx.x] = x[i * w.stride[1][0] + j];
    }
    __syncthreads();
    for (int k = threadIdx.y; k < TILE; k += TILE_ROWS) {
        const int64_t i = from_0 + threadIdx.x, j = from_1 + k;
        if (i < w.shape[0] && j < w.shape[1]) y[i + j * w.stride[0][1]] = tile[threadIdx.x][k];
    }
}

/* Dimensions outside the innermost may come in any order. */
static void exchange(gd_ew *w, int d, int e) {
    for (int j = 0; j < 2; j++) std::swap(w->stride[j][d], w->stride[j][e]);
    std::swap(w->shape[d], w->shape[e]);
}

template <class T> static void copy_words(const gd_args *a) {
    gd_ew w;
    gd_ew_begin(&w, a, 2);
    for (int d = 2; d < w.dims; d++)
        if (w.stride[1][d] == 1) exchange(&w, 1, d);
    const bool across = w.dims > 1 && w.stride[0][0] == 1 && w.stride[1][0] > 1 && w.stride[1][1] == 1 && w.shape[0] > 8 && w.shape[1] > 8;
    if (!across) {
        gd_ew_run(a, copy_of<T>());
    } else if (w.count > 0) {
        const int64_t outer = (w.dims > 2 ? w.shape[2] : 1) * (w.dims > 3 ? w.shape[3] : 1);
        const int64_t tiles = ((w.shape[0] + TILE - 1) / TILE) * ((w.shape[1] + TILE - 1) / TILE) * outer;
        GD_LAUNCH((copy_across<T>), tiles, dim3(TILE, TILE_ROWS), 0, a->stream, w);
    }
}

GD_CUDA_KERNEL(copy) {
    switch (gd_dtype_bytes(a->out[0]->dtype)) {
    case 1: copy_words<uint8_t>(a); break;
    case 2: copy_words<uint16_t>(a); break;
    case 4: copy_words<uint32_t>(a); break;
    default: copy_words<uint64_t>(a);
    }
}

/* ---- fill: out[...] = value, any strides ------------------------------------------------------------------------------- */

template <class T, class From> struct fill_with {
    typedef T A, R;
    typedef uint8_t B, C;
    enum { INPUTS = 0 };
    From value;
    cast_of<T, From> as;
    __device__ R operator()() const { return as(value); }
};

GD_CUDA_KERNEL(fill) {
    const double number = a->attr->f[0];
    const int64_t whole = a->attr->i[6];
    const int dtype = a->out[0]->dtype;
    switch (gd_dtype_inside(dtype)) {
    case GD_FLOAT32: gd_ew_run(a, fill_with<float, double>{number, {gd_is_half(dtype)}}); break;
    case GD_FLOAT64: gd_ew_run(a, fill_with<double, double>{number, {false}}); break;
    case GD_INT64: gd_ew_run(a, fill_with<int64_t, int64_t>{whole, {false}}); break;
    case GD_INT32: gd_ew_run(a, fill_with<int32_t, int64_t>{whole, {false}}); break;
    default: gd_ew_run(a, fill_with<uint8_t, int64_t>{whole, {false}});
    }
}
