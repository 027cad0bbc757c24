/* reduce.cu - sum, mean, prod, amax, amin, any, all, argmax, argmin, max_dim, min_dim: the folds; reduce.cuh walks the input.
 * Sums of floats are float64: 1e8 ones give 1e8. Integers wrap. */
#include "reduce.cuh"

/* What sums and products of T are carried in. */
template <class T> using wide_of = std::conditional_t<gd_is_same<T, float> || gd_is_same<T, double>, double, uint64_t>;

/* Where the results go, as R. */
template <class R> struct result_of {
    void *data;
    int dtype;
    __device__ void store(int64_t o, R value) const { gd_store<R>(data, dtype, o, value); }
};
template <class R> static result_of<R> result_in(const gd_view *v) { return {v->data, v->dtype}; }

/* ---- sum, mean, prod -------------------------------------------------------------------------------------------------- */

template <class Element, class R> struct sum_fold {
    typedef Element T;
    typedef wide_of<T> Acc;
    result_of<R> out;
    bool mean;
    __device__ Acc none() const { return 0; }
    __device__ void step(Acc &acc, T v, int64_t) const { acc += (Acc)v; }
    /* Pairs of float32 are rounded, but not the sum of all. */
    __device__ void step_4(Acc &acc, const T (&v)[4], int64_t) const { acc += ((Acc)v[0] + (Acc)v[1]) + ((Acc)v[2] + (Acc)v[3]); }
    __device__ Acc join(Acc a, Acc b) const { return a + b; }
    __device__ void store(int64_t o, Acc acc, int64_t count) const { out.store(o, (R)(mean ? acc / (Acc)count : acc)); }
};

template <class Element, class R> struct prod_fold {
    typedef Element T;
    typedef wide_of<T> Acc;
    result_of<R> out;
    __device__ Acc none() const { return 1; }
    __device__ void step(Acc &acc, T v, int64_t) const { acc *= (Acc)v; }
    GD_STEPS_ALONE
    __device__ Acc join(Acc a, Acc b) const { return a * b; }
    __device__ void store(int64_t o, Acc acc, int64_t) const { out.store(o, (R)acc); }
};

/* A kernel of a fold of elements T into results R: integers and bool give int64. */
#define NUMBERS(fold, ...)                                                                                                  \
    switch (gd_dtype_inside(a->in[0]->dtype)) {                                                                             \
    case GD_FLOAT32: gd_reduce_run(a, fold<float, float>{result_in<float>(a->out[0]), ##__VA_ARGS__}); break;               \
    case GD_FLOAT64: gd_reduce_run(a, fold<double, double>{result_in<double>(a->out[0]), ##__VA_ARGS__}); break;            \
    case GD_INT64: gd_reduce_run(a, fold<int64_t, int64_t>{result_in<int64_t>(a->out[0]), ##__VA_ARGS__}); break;           \
    case GD_INT32: gd_reduce_run(a, fold<int32_t, int64_t>{result_in<int64_t>(a->out[0]), ##__VA_ARGS__}); break;           \
    default: gd_reduce_run(a, fold<uint8_t, int64_t>{result_in<int64_t>(a->out[0]), ##__VA_ARGS__});                        \
    }
#define WORKSPACE(op) \
    GD_CUDA_WORKSPACE(op) { return gd_reduce_workspace(a); }

GD_CUDA_KERNEL(sum) { NUMBERS(sum_fold, false) }
GD_CUDA_KERNEL(prod) { NUMBERS(prod_fold) }
GD_CUDA_KERNEL(mean) {
    if (a->in[0]->dtype == GD_FLOAT64) gd_reduce_run(a, sum_fold<double, double>{result_in<double>(a->out[0]), true});
    else gd_reduce_run(a, sum_fold<float, float>{result_in<float>(a->out[0]), true});
}
WORKSPACE(sum)
WORKSPACE(prod)
WORKSPACE(mean)

/* ---- amax, amin: NaN wins ------------------------------------------------------------------------------------------------ */

template <class T> __device__ T least_of() {
    if constexpr (gd_is_same<T, float> || gd_is_same<T, double>) return -(T)INFINITY;
    else return sizeof(T) == 8 ? (T)INT64_MIN : sizeof(T) == 4 ? (T)INT32_MIN : (T)0;
}
template <class T> __device__ T most_of() {
    if constexpr (gd_is_same<T, float> || gd_is_same<T, double>) return (T)INFINITY;
    else return sizeof(T) == 8 ? (T)INT64_MAX : sizeof(T) == 4 ? (T)INT32_MAX : (T)1;
}

template <class Element, bool LARGEST> struct extreme_fold {
    typedef Element T;
    typedef T Acc;
    result_of<T> out;
    __device__ Acc none() const { return LARGEST ? least_of<T>() : most_of<T>(); }
    __device__ void step(Acc &acc, T v, int64_t) const { acc = join(acc, v); }
    GD_STEPS_ALONE
    __device__ Acc join(Acc a, Acc b) const { return b != b || (LARGEST ? b > a : b < a) ? b : a; }
    __device__ void store(int64_t o, Acc acc, int64_t) const { out.store(o, acc); }
};

template <bool LARGEST> static void extreme(const gd_args *a) {
    const gd_view *out = a->out[0];
    switch (gd_dtype_inside(out->dtype)) {
    case GD_FLOAT32: gd_reduce_run(a, extreme_fold<float, LARGEST>{result_in<float>(out)}); break;
    case GD_FLOAT64: gd_reduce_run(a, extreme_fold<double, LARGEST>{result_in<double>(out)}); break;
    case GD_INT64: gd_reduce_run(a, extreme_fold<int64_t, LARGEST>{result_in<int64_t>(out)}); break;
    case GD_INT32: gd_reduce_run(a, extreme_fold<int32_t, LARGEST>{result_in<int32_t>(out)}); break;
    default: gd_reduce_run(a, extreme_fold<uint8_t, LARGEST>{result_in<uint8_t>(out)});
    }
}
GD_CUDA_KERNEL(amax) { extreme<true>(a); }
GD_CUDA_KERNEL(amin) { extreme<false>(a); }
WORKSPACE(amax)
WORKSPACE(amin)

/* ---- argmax, argmin, max_dim, min_dim: the first NaN wins, else the first of equal ones ------------------------------------ */

template <class T> struct place_acc {
    int64_t index; /* -1: none yet */
    T value;
};

template <class Element, bool LARGEST> struct place_fold {
    typedef Element T;
    typedef place_acc<T> Acc;
    result_of<T> values; /* data NULL: only places are wanted */
    int64_t *indices;
    __device__ Acc none() const { return {-1, (T)0}; }
    __device__ void step(Acc &acc, T v, int64_t k) const { acc = join(acc, {k, v}); }
    GD_STEPS_ALONE
    __device__ Acc join(Acc a, Acc b) const {
        if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
        const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
        const bool same = (a_nan && b_nan) || a.value == b.value, better = b_nan ? !a_nan : !a_nan && (LARGEST ? b.value > a.value : b.value < a.value);
        return better || (same && b.index < a.index) ? b : a;
    }
    __device__ void store(int64_t o, Acc acc, int64_t) const {
        if (acc.index < 0) return; /* nothing to choose from: refused before */
        if (values.data) values.store(o, acc.value);
        indices[o] = acc.index;
    }
};

template <bool LARGEST> static void place(const gd_args *a, const gd_view *values, const gd_view *indices) {
    gd_view none = {};
    if (!values) values = &none;
    int64_t *at = (int64_t *)indices->data;
    switch (gd_dtype_inside(a->in[0]->dtype)) {
    case GD_FLOAT32: gd_reduce_run(a, place_fold<float, LARGEST>{result_in<float>(values), at}); break;
    case GD_FLOAT64: gd_reduce_run(a, place_fold<double, LARGEST>{result_in<double>(values), at}); break;
    case GD_INT64: gd_reduce_run(a, place_fold<int64_t, LARGEST>{result_in<int64_t>(values), at}); break;
    case GD_INT32: gd_reduce_run(a, place_fold<int32_t, LARGEST>{result_in<int32_t>(values), at}); break;
    default: gd_reduce_run(a, place_fold<uint8_t, LARGEST>{result_in<uint8_t>(values), at});
    }
}
GD_CUDA_KERNEL(argmax) { place<true>(a, NULL, a->out[0]); }
GD_CUDA_KERNEL(argmin) { place<false>(a, NULL, a->out[0]); }
GD_CUDA_KERNEL(max_dim) { place<true>(a, a->out[0], a->out[1]); }
GD_CUDA_KERNEL(min_dim) { place<false>(a, a->out[0], a->out[1]); }
WORKSPACE(argmax)
WORKSPACE(argmin)
WORKSPACE(max_dim)
WORKSPACE(min_dim)

/* ---- any, all: what is not zero is true, NaN too ------------------------------------------------------------------------------ */

template <class Element, bool ALL> struct truth_fold {
    typedef Element T;
    typedef uint8_t Acc;
    uint8_t *out;
    __device__ Acc none() const { return ALL; }
    __device__ void step(Acc &acc, T v, int64_t) const { acc = join(acc, v != 0); }
    GD_STEPS_ALONE
    __device__ Acc join(Acc a, Acc b) const { return ALL ? a & b : a | b; }
    __device__ void store(int64_t o, Acc acc, int64_t) const { out[o] = acc; }
};

template <bool ALL> static void truth(const gd_args *a) {
    uint8_t *out = (uint8_t *)a->out[0]->data;
    switch (gd_dtype_inside(a->in[0]->dtype)) {
    case GD_FLOAT32: gd_reduce_run(a, truth_fold<float, ALL>{out}); break;
    case GD_FLOAT64: gd_reduce_run(a, truth_fold<double, ALL>{out}); break;
    case GD_INT64: gd_reduce_run(a, truth_fold<int64_t, ALL>{out}); break;
    case GD_INT32: gd_reduce_run(a, truth_fold<int32_t, ALL>{out}); break;
    default: gd_reduce_run(a, truth_fold<uint8_t, ALL>{out});
    }
}
GD_CUDA_KERNEL(any) { truth<false>(a); }
GD_CUDA_KERNEL(all) { truth<true>(a); }
WORKSPACE(any)
WORKSPACE(all)
