/* elementwise.cuh - walks the views of an elementwise kernel: dimensions that all operands step through evenly are merged,
 * and a thread takes a few neighbouring elements, 16 bytes at a time where memory allows. */
#ifndef GRADINO_CUDA_ELEMENTWISE_CUH
#define GRADINO_CUDA_ELEMENTWISE_CUH

#include "device.cuh"
#include "storage.cuh"

enum {
    GD_EW_THREADS = 256,
    GD_EW_EACH = 4,    /* elements of a thread: 16 bytes of float32 */
    GD_EW_OPERANDS = 4 /* the output, which is number 0, and up to three inputs */
};

/* The operands of one call; dimension 0 is the innermost. Strides are in elements. */
struct gd_ew {
    char *data[GD_EW_OPERANDS];
    int64_t count, shape[GD_DIMS], stride[GD_EW_OPERANDS][GD_DIMS];
    gd_divider divider[GD_DIMS];
    int dims;
    uint8_t dtype[GD_EW_OPERANDS];
    bool wide;   /* too many elements for 32 bits */
    bool vector; /* four neighbours of every operand are one aligned piece of memory, or one element */

    /* Offsets of element k in the operands, in elements. */
    template <int OPERANDS> __device__ void offsets(int64_t k, int64_t *at) const {
        for (int j = 0; j < OPERANDS; j++) at[j] = 0;
GD_UNROLL
        for (int d = 0; d < GD_DIMS; d++) {
            if (d == dims) break;
            int64_t index = k, rest = 0;
            if (d + 1 < dims) {
                rest = wide ? k / shape[d] : (int64_t)gd_divide((uint32_t)k, divider[d]);
                index = k - rest * shape[d];
            }
            for (int j = 0; j < OPERANDS; j++) at[j] += index * stride[j][d];
            k = rest;
        }
    }

    /* The elements of operand J from `at` on: side by side, or one that repeats. */
    template <int J, int EACH, class T> __device__ void load(const int64_t *at, T (&x)[EACH]) const {
        if constexpr (EACH == GD_EW_EACH) {
            if (stride[J][0] == 1) {
                gd_load_4(data[J], dtype[J], at[J], x);
                return;
            }
        }
        const T value = gd_load<T>(data[J], dtype[J], at[J]);
        for (int v = 0; v < EACH; v++) x[v] = value;
    }
};

static inline void gd_ew_append(gd_ew *w, int operands, int64_t size, const int64_t *strides) {
    if (w->dims > 0) {
        const int last = w->dims - 1;
        bool even = true;
        for (int j = 0; j < operands; j++) even &= strides[j] == w->stride[j][last] * w->shape[last];
        if (even) {
            w->shape[last] *= size;
            return;
        }
    }
    w->shape[w->dims] = size;
    for (int j = 0; j < operands; j++) w->stride[j][w->dims] = strides[j];
    w->dims++;
}

/* Orders dimensions by the output's strides, smallest innermost, so that it is written in the order of its memory. */
static inline void gd_ew_sort(gd_ew *w, int operands) {
    const gd_ew old = *w;
    int order[GD_DIMS] = {0, 1, 2, 3};
    for (int d = 1; d < old.dims; d++) {
        int at = d;
        for (; at > 0 && old.stride[0][order[at - 1]] > old.stride[0][d]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    w->dims = 0;
    for (int d = 0; d < old.dims; d++) {
        int64_t strides[GD_EW_OPERANDS];
        for (int j = 0; j < operands; j++) strides[j] = old.stride[j][order[d]];
        gd_ew_append(w, operands, old.shape[order[d]], strides);
    }
}

/* Whether operand j can be read four elements at a time: its inner step is 1 and all else keeps the alignment, or it is 0. */
static inline bool gd_ew_aligned(const gd_ew *w, int j) {
    if (w->stride[j][0] == 0 && j > 0) return true;
    const int64_t bytes = gd_dtype_bytes(w->dtype[j]), piece = 4 * bytes < 16 ? 4 * bytes : 16;
    bool fits = w->stride[j][0] == 1 && (uintptr_t)w->data[j] % (uintptr_t)piece == 0;
    for (int d = 1; d < w->dims; d++) fits &= w->stride[j][d] % GD_EW_EACH == 0;
    return fits;
}

/* Prepares the walk over an output and `operands - 1` inputs. */
static inline void gd_ew_begin(gd_ew *w, const gd_args *a, int operands) {
    const gd_view *view[GD_EW_OPERANDS] = {a->out[0]};
    for (int j = 1; j < operands; j++) view[j] = a->in[j - 1];
    memset(w, 0, sizeof *w);
    w->count = 1;
    for (int d = GD_DIMS - 1; d >= 0; d--) {
        const int64_t size = view[0]->shape[d];
        w->count *= size;
        if (size == 1) continue;
        int64_t strides[GD_EW_OPERANDS];
        strides[0] = view[0]->strides[d];
        for (int j = 1; j < operands; j++) strides[j] = view[j]->shape[d] == 1 ? 0 : view[j]->strides[d];
        gd_ew_append(w, operands, size, strides);
    }
    for (int d = 1; d < w->dims; d++)
        if (w->stride[0][d] < w->stride[0][d - 1]) {
            gd_ew_sort(w, operands);
            break;
        }
    if (w->dims == 0) {
        w->dims = 1, w->shape[0] = 1;
        for (int j = 0; j < operands; j++) w->stride[j][0] = 1;
    }
    w->wide = w->count > INT32_MAX;
    if (w->count > 0 && !w->wide)
        for (int d = 0; d < w->dims; d++) w->divider[d] = gd_divider_by(w->shape[d]);
    w->vector = w->dims == 1 || w->shape[0] % GD_EW_EACH == 0;
    for (int j = 0; j < operands; j++) {
        w->data[j] = (char *)view[j]->data;
        w->dtype[j] = view[j]->dtype;
        w->vector &= gd_ew_aligned(w, j);
    }
}

/* out = f(a, b, c), for a functor f with the types R, A, B, C and the number of inputs that count. EACH: 4, or 1 for functions
 * that are so long that four of them side by side would not pay. */
template <class F, int EACH> __global__ void __launch_bounds__(GD_EW_THREADS, 2) gd_ew_kernel(gd_ew w, F f) {
    typename F::A a[EACH] = {};
    typename F::B b[EACH] = {};
    typename F::C c[EACH] = {};
    typename F::R r[EACH];
    int64_t at[EACH][GD_EW_OPERANDS];
    const int64_t first = ((int64_t)blockIdx.x * GD_EW_THREADS + threadIdx.x) * EACH;
    if (first >= w.count) return;
    const int n = w.count - first < EACH ? (int)(w.count - first) : EACH;
    const bool together = w.vector && n == EACH;
    if (together) {
        w.template offsets<F::INPUTS + 1>(first, at[0]);
        if constexpr (F::INPUTS > 0) w.template load<1>(at[0], a);
        if constexpr (F::INPUTS > 1) w.template load<2>(at[0], b);
        if constexpr (F::INPUTS > 2) w.template load<3>(at[0], c);
    } else {
GD_UNROLL
        for (int v = 0; v < EACH; v++) {
            if (v >= n) break;
            w.template offsets<F::INPUTS + 1>(first + v, at[v]);
            if constexpr (F::INPUTS > 0) a[v] = gd_load<typename F::A>(w.data[1], w.dtype[1], at[v][1]);
            if constexpr (F::INPUTS > 1) b[v] = gd_load<typename F::B>(w.data[2], w.dtype[2], at[v][2]);
            if constexpr (F::INPUTS > 2) c[v] = gd_load<typename F::C>(w.data[3], w.dtype[3], at[v][3]);
        }
    }
GD_UNROLL
    for (int v = 0; v < EACH; v++) {
        if constexpr (F::INPUTS == 0) r[v] = f();
        if constexpr (F::INPUTS == 1) r[v] = f(a[v]);
        if constexpr (F::INPUTS == 2) r[v] = f(a[v], b[v]);
        if constexpr (F::INPUTS == 3) r[v] = f(a[v], b[v], c[v]);
    }
    if constexpr (EACH == GD_EW_EACH) {
        if (together) {
            gd_store_4(w.data[0], w.dtype[0], at[0][0], r);
            return;
        }
    }
GD_UNROLL
    for (int v = 0; v < EACH; v++) {
        if (v >= n) break;
        gd_store(w.data[0], w.dtype[0], at[v][0], r[v]);
    }
}

template <class F, int EACH = GD_EW_EACH> static void gd_ew_run(const gd_args *a, const F &f) {
    gd_ew w;
    gd_ew_begin(&w, a, F::INPUTS + 1);
    if (w.count == 0) return;
    GD_LAUNCH((gd_ew_kernel<F, EACH>), gd_blocks(w.count, GD_EW_THREADS * EACH), GD_EW_THREADS, 0, a->stream, w, f);
}

/* ---- Functors: made once of the op's attributes `at`, on the host; what they compute are statements of x and y ----- */

#define GD_FUNCTOR_1(name, result, type, fields, making, ...)      \
    template <class T> struct name {                               \
        typedef type A;                                            \
        typedef result R;                                          \
        typedef uint8_t B, C;                                      \
        enum { INPUTS = 1 };                                       \
        fields;                                                    \
        explicit name(const gd_attr &at) {                         \
            (void)at;                                              \
            making;                                                \
        }                                                          \
        __device__ R operator()(A x) const { __VA_ARGS__; }        \
    };

#define GD_FUNCTOR_2(name, result, type, fields, making, ...)      \
    template <class T> struct name {                               \
        typedef type A, B;                                         \
        typedef result R;                                          \
        typedef uint8_t C;                                         \
        enum { INPUTS = 2 };                                       \
        fields;                                                    \
        explicit name(const gd_attr &at) {                         \
            (void)at;                                              \
            making;                                                \
        }                                                          \
        __device__ R operator()(A x, B y) const { __VA_ARGS__; }   \
    };

/* In a functor of any T: integers compute in the unsigned type u, which wraps without undefined behaviour. */
#define GD_FLOATS_OR(f32, f64, other)                            \
    if constexpr (gd_is_same<T, float>) return (R)(f32);       \
    else if constexpr (gd_is_same<T, double>) return (R)(f64); \
    else { other; }
#define GD_FLOATS(f32, f64) GD_FLOATS_OR(f32, f64, return 0)
#define GD_INTEGERS(integer, boolean)                     \
    typedef gd_unsigned<T> u;                             \
    (void)sizeof(u);                                      \
    if constexpr (sizeof(T) == 1) return (R)(boolean);    \
    else return (R)(integer)
#define GD_ALL_KINDS(f32, f64, integer, boolean) GD_FLOATS_OR(f32, f64, GD_INTEGERS(integer, boolean))

/* The kernel of an op from its functor, for the dtypes of the first input that it knows. */
#define GD_KERNEL_FLOATS(op, each)                                                                  \
    GD_CUDA_KERNEL(op) {                                               \
        if (a->in[0]->dtype == GD_FLOAT64) gd_ew_run<op##_of<double>, each>(a, op##_of<double>(*a->attr)); \
        else gd_ew_run<op##_of<float>, each>(a, op##_of<float>(*a->attr));                          \
    }

#define GD_KERNEL_INTEGERS(op, each)                                                                \
    GD_CUDA_KERNEL(op) {                                               \
        switch (a->in[0]->dtype) {                                                                  \
        case GD_INT64: gd_ew_run<op##_of<int64_t>, each>(a, op##_of<int64_t>(*a->attr)); break;     \
        case GD_INT32: gd_ew_run<op##_of<int32_t>, each>(a, op##_of<int32_t>(*a->attr)); break;     \
        default: gd_ew_run<op##_of<uint8_t>, each>(a, op##_of<uint8_t>(*a->attr));                  \
        }                                                                                           \
    }

#define GD_KERNEL_ALL(op, each)                                                                     \
    GD_CUDA_KERNEL(op) {                                               \
        switch (gd_dtype_inside(a->in[0]->dtype)) {                                                 \
        case GD_FLOAT32: gd_ew_run<op##_of<float>, each>(a, op##_of<float>(*a->attr)); break;       \
        case GD_FLOAT64: gd_ew_run<op##_of<double>, each>(a, op##_of<double>(*a->attr)); break;     \
        case GD_INT64: gd_ew_run<op##_of<int64_t>, each>(a, op##_of<int64_t>(*a->attr)); break;     \
        case GD_INT32: gd_ew_run<op##_of<int32_t>, each>(a, op##_of<int32_t>(*a->attr)); break;     \
        default: gd_ew_run<op##_of<uint8_t>, each>(a, op##_of<uint8_t>(*a->attr));                  \
        }                                                                                           \
    }

#endif
