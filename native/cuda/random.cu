/* random.cu - tensors from nothing: arange, eye, and the random ones, with dropout and one_hot.
 * Random numbers are Philox of seed, offset and element index (native/random.h): the same as on the CPU. */
#include "axes.cuh"
#include "formulas.cuh"

#include "../random.h"

enum { THREADS = 256 };

/* ---- arange, eye, one_hot ------------------------------------------------------------------------------------------------ */

/* float64 as the result's type, rounded once. */
template <class T> __device__ T number_of(double x, int dtype) {
    if constexpr (gd_is_same<T, float>) return dtype >= GD_BFLOAT16 ? gd_odd_f32_of_f64(x) : (float)x;
    else return (T)x;
}

template <class T> __global__ void __launch_bounds__(THREADS) arange(void *out, int dtype, int64_t count, double start, double step, int64_t first, int64_t by) {
    const int64_t k = gd_thread_index();
    if (k >= count) return;
    const uint64_t whole = (uint64_t)first + (uint64_t)k * (uint64_t)by;
    if constexpr (gd_is_same<T, float> || gd_is_same<T, double>) gd_store<T>(out, dtype, k, number_of<T>(start + (double)k * step, dtype));
    else gd_store<T>(out, dtype, k, sizeof(T) == 1 ? (T)(whole != 0) : (T)whole);
}

#define EACH_TYPE(dtype, kernel, n, ...)                                                                                             \
    switch (gd_dtype_inside(dtype)) {                                                                                                \
    case GD_FLOAT32: GD_LAUNCH((kernel<float>), gd_blocks(n, THREADS), THREADS, 0, a->stream, __VA_ARGS__); break;                   \
    case GD_FLOAT64: GD_LAUNCH((kernel<double>), gd_blocks(n, THREADS), THREADS, 0, a->stream, __VA_ARGS__); break;                  \
    case GD_INT64: GD_LAUNCH((kernel<int64_t>), gd_blocks(n, THREADS), THREADS, 0, a->stream, __VA_ARGS__); break;                   \
    case GD_INT32: GD_LAUNCH((kernel<int32_t>), gd_blocks(n, THREADS), THREADS, 0, a->stream, __VA_ARGS__); break;                   \
    default: GD_LAUNCH((kernel<uint8_t>), gd_blocks(n, THREADS), THREADS, 0, a->stream, __VA_ARGS__);                                \
    }

GD_CUDA_KERNEL(arange) {
    const gd_view *out = a->out[0];
    const int64_t n = gd_numel(out);
    EACH_TYPE(out->dtype, arange, n, out->data, (int)out->dtype, n, a->attr->f[0], a->attr->f[1], a->attr->i[6], a->attr->i[7])
}

template <class T> __global__ void __launch_bounds__(THREADS) eye(void *out, int dtype, int64_t count, int64_t columns) {
    const int64_t k = gd_thread_index();
    if (k < count) gd_store<T>(out, dtype, k, (T)(k / columns == k % columns));
}

GD_CUDA_KERNEL(eye) {
    const gd_view *out = a->out[0];
    const int64_t n = gd_numel(out);
    EACH_TYPE(out->dtype, eye, n, out->data, (int)out->dtype, n, out->shape[3])
}

/* out (.., classes): 1 where the class is that of x; negative ones count from the end. */
__global__ void __launch_bounds__(THREADS) one_hot_kernel(gd_place place, const int64_t *x, int64_t count, int64_t classes, int64_t *out, gd_fault *fault) {
    const int64_t k = gd_thread_index();
    if (k >= count * classes) return;
    const int64_t row = k / classes, column = k - row * classes;
    const int64_t given = x[gd_offset(place, row)], label = given < 0 ? given + classes : given;
    if (label < 0 || label >= classes) {
        if (column == 0) gd_note_fault(fault, GD_OP_one_hot, given, classes);
    }
    out[k] = label == column;
}

GD_CUDA_KERNEL(one_hot) {
    const gd_view *x = a->in[0];
    const int64_t count = gd_numel(x), classes = a->attr->i[0];
    GD_LAUNCH(one_hot_kernel, gd_blocks(count * classes, THREADS), THREADS, 0, a->stream, gd_place_of(x), (const int64_t *)x->data, count, classes,
              (int64_t *)a->out[0]->data, a->stream->fault);
}

/* ---- Random numbers: a thread makes the four of a counter -------------------------------------------------------------------- */

struct making {
    void *out;
    int dtype;
    int64_t count;
    uint64_t seed, counter;

    /* The words of this thread's four elements, from `first` on: 32 or 64 bits each. */
    __device__ void words(int64_t first, uint32_t (&word)[4]) const { gd_philox(seed, counter + (uint64_t)(first / GD_PER_COUNTER), 0, word); }
    __device__ void words(int64_t first, uint64_t (&word)[4]) const {
        uint32_t part[4];
        for (uint32_t half = 0; half < 2; half++) {
            gd_philox(seed, counter + (uint64_t)(first / GD_PER_COUNTER), half, part);
            for (int j = 0; j < 2; j++) word[2 * half + j] = part[2 * j] | (uint64_t)part[2 * j + 1] << 32;
        }
    }
    template <class T> __device__ void put(int64_t first, const T (&y)[4]) const {
        if (first + 4 <= count) {
            gd_store_4(out, dtype, first, y);
            return;
        }
        for (int j = 0; j < 4; j++)
            if (first + j < count) gd_store<T>(out, dtype, first + j, y[j]);
    }
};

static making making_of(const gd_args *a) {
    return {a->out[0]->data, a->out[0]->dtype, gd_numel(a->out[0]), (uint64_t)a->attr->i[6], (uint64_t)a->attr->i[7]};
}
#define EACH_COUNTER(m, kernel, ...) GD_LAUNCH(kernel, gd_blocks(m.count, GD_PER_COUNTER * THREADS), THREADS, 0, a->stream, m, __VA_ARGS__)
#define FIRST (gd_thread_index() * GD_PER_COUNTER)

/* The type of as many bits as a word of T. */
template <class T> using word_of = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
template <class T> using signed_of = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;

static __device__ float unit_of(uint32_t word) { return gd_unit_f32(word); }
static __device__ double unit_of(uint64_t word) { return gd_unit_f64(word); }

/* low + u (high - low), and never high. Halves: the largest one that is not above it. */
template <class T> __global__ void __launch_bounds__(THREADS) uniform(making m, T low, T width, T top) {
    const int64_t first = FIRST;
    if (first >= m.count) return;
    word_of<T> word[4];
    T y[4];
    m.words(first, word);
    for (int j = 0; j < 4; j++) {
        const T v = gd_fused(unit_of(word[j]), width, low);
        y[j] = v < top ? v : top;
    }
    if constexpr (gd_is_same<T, float>) {
        for (int j = 0; j < 4 && m.dtype == GD_BFLOAT16; j++) {
            const uint16_t h = gd_bf16_of_f32(y[j]);
            y[j] = gd_f32_of_bf16(gd_half_below(h, gd_f32_of_bf16(h), y[j]));
        }
        for (int j = 0; j < 4 && m.dtype == GD_FLOAT16; j++) {
            const uint16_t h = gd_f16_of_f32(y[j]);
            y[j] = gd_f32_of_f16(gd_half_below(h, gd_f32_of_f16(h), y[j]));
        }
    }
    m.put(first, y);
}

GD_CUDA_KERNEL(uniform) {
    const making m = making_of(a);
    const double from = a->attr->f[0], to = a->attr->f[1];
    if (m.dtype == GD_FLOAT64) {
        EACH_COUNTER(m, (uniform<double>), from, to - from, from < to ? nextafter(to, -(double)INFINITY) : to);
    } else {
        const float low = (float)from, high = (float)to, top = from < to && (double)high >= to ? nextafterf(high, -INFINITY) : high;
        EACH_COUNTER(m, (uniform<float>), low, (float)(to - from), top);
    }
}

/* sin and cos of x, |x| <= pi/4: Taylor series, below 1 ULP there. */
static __device__ float sin_near(float x) {
    const float z = x * x;
    return x + x * z * (-1.0f / 6 + z * (1.0f / 120 + z * (-1.0f / 5040 + z * (1.0f / 362880))));
}
static __device__ float cos_near(float x) {
    const float z = x * x;
    return 1.0f + z * (-0.5f + z * (1.0f / 24 + z * (-1.0f / 720 + z * (1.0f / 40320))));
}
static __device__ double sin_near(double x) { return sin(x); }
static __device__ double cos_near(double x) { return cos(x); }

/* Box and Muller's transform of pairs of words: radius from the first, angle from the second, of which two bits are the
 * quarter of the circle. */
template <class T> __global__ void __launch_bounds__(THREADS) normal(making m, T mean, T deviation) {
    typedef word_of<T> W;
    typedef signed_of<T> S;
    const int bits = 8 * (int)sizeof(T);
    const T unit = (T)1 / (T)((W)1 << (bits - 1)), eighth = (T)0.78539816339744830962 * unit;
    const int64_t first = FIRST;
    if (first >= m.count) return;
    W word[4];
    T y[4];
    m.words(first, word);
    for (int k = 0; k < 4; k += 2) {
        const T u = ((T)(S)(word[k] >> 1) + (T)0.5) * unit, radius = gd_root_of((T)-2 * gd_log_of(u)) * deviation;
        const T angle = (T)(S)(word[k + 1] << 2) * eighth;
        const S quarter = (S)(word[k + 1] >> (bits - 2));
        const T s = sin_near(angle), c = cos_near(angle), along = quarter & 1 ? s : c, across = quarter & 1 ? c : s;
        y[k] = gd_fused(quarter == 1 || quarter == 2 ? -along : along, radius, mean);
        y[k + 1] = gd_fused(quarter >= 2 ? -across : across, radius, mean);
    }
    m.put(first, y);
}

GD_CUDA_KERNEL(normal) {
    const making m = making_of(a);
    if (m.dtype == GD_FLOAT64) EACH_COUNTER(m, (normal<double>), a->attr->f[0], a->attr->f[1]);
    else EACH_COUNTER(m, (normal<float>), (float)a->attr->f[0], (float)a->attr->f[1]);
}

/* low + the high half of word * (high - low) */
template <class T> __global__ void __launch_bounds__(THREADS) randint(making m, uint64_t low, uint64_t span) {
    const int64_t first = FIRST;
    if (first >= m.count) return;
    uint64_t word[4];
    T y[4];
    m.words(first, word);
    for (int j = 0; j < 4; j++) {
        const uint64_t a0 = (uint32_t)word[j], a1 = word[j] >> 32, b0 = (uint32_t)span, b1 = span >> 32;
        const uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (uint32_t)middle;
        const uint64_t high = a1 * b1 + (middle >> 32) + (other >> 32);
        y[j] = (T)(low + (span ? high : word[j]));
    }
    m.put(first, y);
}

/* A float of any size that an int64 could be bounded by, modulo 2^64. */
static uint64_t wrapped(double x) { return x < 0 ? 0 - (uint64_t)-x : (uint64_t)x; }

GD_CUDA_KERNEL(randint) {
    const making m = making_of(a);
    const uint64_t low = wrapped(a->attr->f[0]), span = wrapped(a->attr->f[1]) - low;
    if (m.dtype == GD_INT32) EACH_COUNTER(m, (randint<int32_t>), low, span);
    else EACH_COUNTER(m, (randint<int64_t>), low, span);
}

/* x / (1 - p) where u >= p, else exactly 0, whatever x is. threshold: p in units of 2^-24. */
template <class T> __global__ void __launch_bounds__(THREADS) dropout(making m, gd_rows x, T scale, int32_t threshold) {
    const int64_t first = FIRST;
    if (first >= m.count) return;
    uint32_t word[4];
    T v[4] = {};
    m.words(first, word);
    if (x.vector && first + 4 <= m.count) {
        gd_load_4(x.data, x.dtype, first, v);
    } else {
        for (int j = 0; j < 4; j++)
            if (first + j < m.count) v[j] = x.template load<T>(0, first + j);
    }
    for (int j = 0; j < 4; j++) v[j] = (int32_t)(word[j] >> 8) >= threshold ? v[j] * scale : 0;
    m.put(first, v);
}

GD_CUDA_KERNEL(dropout) {
    const making m = making_of(a);
    const double p = a->attr->f[0], scale = p < 1 ? 1 / (1 - p) : 0;
    const int32_t threshold = (int32_t)ceil(p * 0x1p24);
    const gd_rows x = gd_rows_of(a->in[0], 0xF);
    if (m.dtype == GD_FLOAT64) EACH_COUNTER(m, (dropout<double>), x, scale, threshold);
    else EACH_COUNTER(m, (dropout<float>), x, (float)scale, threshold);
}
