/* random.c - tensors from nothing: fill, arange, eye, and the random ones, with dropout.
 * Random numbers are Philox of seed, offset and element index (random.h), so a part can be made alone. */
#include "../random.h"

#include "../reduce.h"
#include "../scalar.h"

#if GD_X86
#include <immintrin.h>
#endif

enum {
    COUNTERS = 64,                     /* Philox blocks worked on together, in vectors */
    BATCH = COUNTERS * GD_PER_COUNTER, /* elements */
    TASK = 64 * BATCH,                 /* elements per task: about 10 us */
    SERIAL = 2 * TASK                  /* at most so many elements are not worth waking a thread */
};
_Static_assert((int)BATCH <= (int)GD_BLOCK, "dropout gathers a batch in a block");

/* Vectors of 64-bit lanes for 32-bit values; the upper halves are ignored. */
#if defined(__AVX2__)
enum { LANES = 4 };
#else
enum { LANES = 2 };
#endif
typedef uint64_t lanes __attribute__((vector_size(LANES * 8)));

/* The 64-bit products of the lower halves. */
static inline lanes multiply(lanes a, uint32_t b) {
#if GD_X86 && defined(__AVX2__)
    return (lanes)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
#elif GD_X86
    return (lanes)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x(b));
#else
    return (a & UINT32_MAX) * b;
#endif
}

/* words[4 * b + j] = word j of counter + b, as gd_philox gives it. */
static void philox_batch(uint64_t seed, uint64_t counter, uint32_t half, uint32_t words[BATCH]) {
    enum { CHAINS = 2, STEP = CHAINS * LANES }; /* chains hide the multiplier's latency */
    for (int b = 0; b < COUNTERS; b += STEP) {
        lanes c0[CHAINS], c1[CHAINS], c2[CHAINS], c3[CHAINS];
        for (int i = 0; i < CHAINS; i++) {
            uint64_t start[LANES];
            for (int l = 0; l < LANES; l++) start[l] = counter + (uint64_t)(b + i * LANES + l);
            memcpy(c0 + i, start, sizeof start);
            c1[i] = c0[i] >> 32, c2[i] = (lanes){0} + half, c3[i] = (lanes){0};
        }
        uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
        for (int round = 0; round < GD_PHILOX_ROUNDS; round++) {
            for (int i = 0; i < CHAINS; i++) {
                const lanes p0 = multiply(c0[i], GD_PHILOX_M0), p1 = multiply(c2[i], GD_PHILOX_M1);
                c0[i] = (p1 >> 32) ^ c1[i] ^ k0;
                c2[i] = (p0 >> 32) ^ c3[i] ^ k1;
                c1[i] = p1;
                c3[i] = p0;
            }
            k0 += GD_PHILOX_W0;
            k1 += GD_PHILOX_W1;
        }
        for (int i = 0; i < CHAINS; i++)
            for (int l = 0; l < LANES; l++) {
                uint32_t *w = words + 4 * (b + i * LANES + l);
                w[0] = (uint32_t)c0[i][l], w[1] = (uint32_t)c1[i][l], w[2] = (uint32_t)c2[i][l], w[3] = (uint32_t)c3[i][l];
            }
    }
}

/* The same for 64-bit words: elements 0 and 1 of a counter come from its half 0, 2 and 3 from half 1. */
static void philox_batch_wide(uint64_t seed, uint64_t counter, uint64_t wide[BATCH]) {
    uint32_t words[BATCH];
    for (uint32_t half = 0; half < 2; half++) {
        philox_batch(seed, counter, half, words);
        for (int b = 0; b < COUNTERS; b++)
            for (int j = 0; j < 2; j++)
                wide[4 * b + 2 * (int)half + j] = words[4 * b + 2 * j] | (uint64_t)words[4 * b + 2 * j + 1] << 32;
    }
}

/* A kernel as tasks: make(r, first, n) writes elements first .. first + n, n <= BATCH, first a multiple of BATCH. */
typedef struct making {
    const gd_attr *attr;
    void *out;
    int64_t count;
    bool narrow; /* randint's numbers are int32 */
    gd_walk x; /* dropout's input */
    void (*make)(const struct making *r, int64_t first, int64_t n);
} making;

static void make_range(const making *r, int64_t first, int64_t last) {
    for (; first < last; first += BATCH) r->make(r, first, last - first < BATCH ? last - first : BATCH);
}

static void make_task(void *ctx, int64_t i, int worker) {
    const making *r = ctx;
    (void)worker;
    make_range(r, i * TASK, (i + 1) * TASK < r->count ? (i + 1) * TASK : r->count);
}

static void make_all(making *r) {
    if (r->count <= SERIAL) make_range(r, 0, r->count);
    else gd_parallel((r->count + TASK - 1) / TASK, make_task, r);
}

static uint64_t seed_of(const making *r) { return (uint64_t)r->attr->i[6]; }
static uint64_t counter_of(const making *r, int64_t first) { return (uint64_t)r->attr->i[7] + (uint64_t)(first / GD_PER_COUNTER); }

/* ---- fill, arange, eye ------------------------------------------------------------------------------ */

/* out[...] = value, any strides. */
#define DEFINE_FILL(name, T, value)                                                                   \
    static void fill_##name(const gd_view *out, const gd_attr *attr) {                                \
        const T v = (T)(value);                                                                       \
        const int64_t *shape = out->shape, *stride = out->strides;                                    \
        for (int64_t i = 0; i < shape[0]; i++)                                                        \
            for (int64_t j = 0; j < shape[1]; j++)                                                    \
                for (int64_t k = 0; k < shape[2]; k++) {                                              \
                    T *y = (T *)out->data + i * stride[0] + j * stride[1] + k * stride[2];            \
                    if (stride[3] == 1) for (int64_t l = 0; l < shape[3]; l++) y[l] = v;              \
                    else for (int64_t l = 0; l < shape[3]; l++) y[l * stride[3]] = v;                 \
                }                                                                                     \
    }
DEFINE_FILL(f32, float, attr->f[0])
DEFINE_FILL(f64, double, attr->f[0])
DEFINE_FILL(i64, int64_t, attr->i[6])
DEFINE_FILL(i32, int32_t, attr->i[6])
DEFINE_FILL(bool, uint8_t, attr->i[6] != 0)

void GD_KERNEL(fill)(const gd_args *a) {
    static void (*const fill[GD_DTYPES])(const gd_view *out, const gd_attr *attr) = {fill_f32, fill_f64, fill_i64, fill_i32, fill_bool};
    gd_view out = *a->out[0];
    if (gd_numel(&out) == 0) return;
    if (gd_is_contiguous(&out)) {
        out.shape[3] = gd_numel(&out);
        out.shape[0] = out.shape[1] = out.shape[2] = out.strides[3] = 1;
    }
    fill[out.dtype](&out, a->attr);
}

#define DEFINE_MAKE(name, T, value)                                               \
    static void name(const making *r, int64_t first, int64_t n) {                 \
        const gd_attr *attr = r->attr;                                            \
        (void)attr;                                                               \
        T *y = (T *)r->out + first;                                               \
        for (int64_t k = 0; k < n; k++) y[k] = (T)(value);                        \
    }
DEFINE_MAKE(arange_f32, float, attr->f[0] + (double)(first + k) * attr->f[1])
DEFINE_MAKE(arange_f64, double, attr->f[0] + (double)(first + k) * attr->f[1])
DEFINE_MAKE(arange_i64, int64_t, (uint64_t)attr->i[6] + (uint64_t)(first + k) * (uint64_t)attr->i[7])
DEFINE_MAKE(arange_i32, int32_t, (uint64_t)attr->i[6] + (uint64_t)(first + k) * (uint64_t)attr->i[7])
DEFINE_MAKE(arange_bool, uint8_t, (uint64_t)attr->i[6] + (uint64_t)(first + k) * (uint64_t)attr->i[7] != 0)

void GD_KERNEL(arange)(const gd_args *a) {
    static void (*const arange[GD_DTYPES])(const making *r, int64_t first, int64_t n) = {arange_f32, arange_f64, arange_i64, arange_i32, arange_bool};
    making r = {.attr = a->attr, .out = a->out[0]->data, .count = gd_numel(a->out[0]), .make = arange[a->out[0]->dtype]};
    make_all(&r);
}

/* Zeros, then ones: a matrix of zeros is what memset is best at. */
void GD_KERNEL(eye)(const gd_args *a) {
    const gd_view *out = a->out[0];
    const int64_t columns = out->shape[3], n = out->shape[2] < columns ? out->shape[2] : columns, bytes = gd_dtype_bytes(out->dtype);
    const float f32 = 1;
    const double f64 = 1;
    const int64_t i64 = 1;
    const int32_t i32 = 1;
    const uint8_t yes = 1;
    const void *const one[] = {[GD_FLOAT32] = &f32, [GD_FLOAT64] = &f64, [GD_INT64] = &i64, [GD_INT32] = &i32, [GD_BOOL] = &yes};
    if (n == 0) return;
    memset(out->data, 0, (size_t)(gd_numel(out) * bytes));
    for (int64_t k = 0; k < n; k++) memcpy((char *)out->data + k * (columns + 1) * bytes, one[out->dtype], (size_t)bytes);
}

/* ---- uniform: low + u (high - low), and never high --------------------------------------------------- */

static float below_f32(float x) { return nextafterf(x, -INFINITY); }
static double below_f64(double x) { return nextafter(x, -(double)INFINITY); }

#define DEFINE_UNIFORM(name, T, WORD, BATCH_OF_WORDS)                                   \
    static void uniform_##name(const making *r, int64_t first, int64_t n) {             \
        const double from = r->attr->f[0], to = r->attr->f[1];                          \
        const T low = (T)from, width = (T)(to - from);                                  \
        T top = (T)to;                                                                  \
        if (from < to && top >= to) top = below_##name(top);                            \
        T *y = (T *)r->out + first;                                                     \
        WORD words[BATCH];                                                              \
        BATCH_OF_WORDS;                                                                 \
        for (int64_t k = 0; k < n; k++) {                                               \
            const T v = GD_FMA(gd_unit_##name(words[k]), width, low);                   \
            y[k] = v < top ? v : top;                                                   \
        }                                                                               \
    }
DEFINE_UNIFORM(f32, float, uint32_t, philox_batch(seed_of(r), counter_of(r, first), 0, words))
DEFINE_UNIFORM(f64, double, uint64_t, philox_batch_wide(seed_of(r), counter_of(r, first), words))

void GD_KERNEL(uniform)(const gd_args *a) {
    making r = {.attr = a->attr, .out = a->out[0]->data, .count = gd_numel(a->out[0])};
    r.make = a->out[0]->dtype == GD_FLOAT32 ? uniform_f32 : uniform_f64;
    make_all(&r);
}

/* ---- normal: Box and Muller's transform of pairs of words --------------------------------------------- */

/* sin and cos of x, |x| <= pi/4: Taylor series, below 1 ULP there. */
static inline float sin_near_f32(float x) {
    const float z = x * x;
    return x + x * z * (-1.0f / 6 + z * (1.0f / 120 + z * (-1.0f / 5040 + z * (1.0f / 362880))));
}
static inline float cos_near_f32(float x) {
    const float z = x * x;
    return 1.0f + z * (-0.5f + z * (1.0f / 24 + z * (-1.0f / 720 + z * (1.0f / 40320))));
}
static inline double sin_near_f64(double x) { return gd_sin_f64(x); }
static inline double cos_near_f64(double x) { return gd_cos_f64(x); }

/* Radius from the first word, u in (0, 1); angle from the second: two bits are the quarter of the circle,
 * the others the place in it. */
#define DEFINE_NORMAL(name, T, WORD, SIGNED, BITS, BATCH_OF_WORDS)                                      \
    static void normal_##name(const making *r, int64_t first, int64_t n) {                              \
        const T mean = (T)r->attr->f[0], std = (T)r->attr->f[1];                                        \
        const T unit = (T)1 / (T)((WORD)1 << (BITS - 1)), eighth = (T)0.78539816339744830962 * unit;    \
        T y[BATCH];                                                                                     \
        WORD words[BATCH];                                                                              \
        BATCH_OF_WORDS;                                                                                 \
        for (int k = 0; k < BATCH; k += 2) {                                                            \
            const T u = ((T)(SIGNED)(words[k] >> 1) + (T)0.5) * unit;                                   \
            const T radius = sqrt_##name((T)-2 * gd_log_##name(u)) * std;                               \
            const T angle = (T)(SIGNED)(words[k + 1] << 2) * eighth;                                    \
            const SIGNED quarter = (SIGNED)(words[k + 1] >> (BITS - 2));                                \
            const T s = sin_near_##name(angle), c = cos_near_##name(angle);                             \
            const T a = quarter & 1 ? s : c, b = quarter & 1 ? c : s;                                   \
            const bool left = quarter == 1 || quarter == 2, lower = quarter >= 2;                       \
            y[k] = GD_FMA(left ? -a : a, radius, mean);                                                 \
            y[k + 1] = GD_FMA(lower ? -b : b, radius, mean);                                            \
        }                                                                                               \
        memcpy((T *)r->out + first, y, (size_t)n * sizeof *y);                                          \
    }
#define sqrt_f32 __builtin_sqrtf
#define sqrt_f64 __builtin_sqrt
DEFINE_NORMAL(f32, float, uint32_t, int32_t, 32, philox_batch(seed_of(r), counter_of(r, first), 0, words))
DEFINE_NORMAL(f64, double, uint64_t, int64_t, 64, philox_batch_wide(seed_of(r), counter_of(r, first), words))

void GD_KERNEL(normal)(const gd_args *a) {
    making r = {.attr = a->attr, .out = a->out[0]->data, .count = gd_numel(a->out[0])};
    r.make = a->out[0]->dtype == GD_FLOAT32 ? normal_f32 : normal_f64;
    make_all(&r);
}

/* ---- randint: low + the high half of word * (high - low) ------------------------------------------------ */

/* A float of any size that an int64 could be bounded by, modulo 2^64. */
static uint64_t wrapped(double x) {
    return x < 0 ? -(uint64_t)-x : (uint64_t)x;
}

static uint64_t multiply_high(uint64_t a, uint64_t b) {
    const uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    const uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (uint32_t)middle;
    return a1 * b1 + (middle >> 32) + (other >> 32);
}

static void randint_any(const making *r, int64_t first, int64_t n) {
    const uint64_t low = wrapped(r->attr->f[0]), span = wrapped(r->attr->f[1]) - low;
    uint64_t wide[BATCH];
    philox_batch_wide(seed_of(r), counter_of(r, first), wide);
    for (int64_t k = 0; k < n; k++) wide[k] = low + (span ? multiply_high(wide[k], span) : wide[k]);
    if (r->narrow) for (int64_t k = 0; k < n; k++) ((int32_t *)r->out)[first + k] = (int32_t)wide[k];
    else memcpy((int64_t *)r->out + first, wide, (size_t)n * sizeof *wide);
}

void GD_KERNEL(randint)(const gd_args *a) {
    making r = {.attr = a->attr, .out = a->out[0]->data, .count = gd_numel(a->out[0]), .make = randint_any};
    r.narrow = a->out[0]->dtype == GD_INT32;
    make_all(&r);
}

/* ---- dropout: x / (1 - p) where u >= p, else exactly 0, whatever x is -------------------------------------- */

/* The selection is a bit mask: a branch on random bits would be mispredicted half of the time. */
#define DEFINE_DROPOUT(name, T, BITS)                                                                    \
    static void dropout_##name(const making *r, int64_t first, int64_t n) {                              \
        const double p = r->attr->f[0];                                                                  \
        const T scale = p < 1 ? (T)(1 / (1 - p)) : 0;                                                    \
        const int32_t threshold = (int32_t)__builtin_ceil(p * 0x1p24); /* u >= p in units of 2^-24 */    \
        int64_t buffer[BATCH];                                                                           \
        uint32_t words[BATCH];                                                                           \
        const T *x = gd_walk_run(&r->x, r->x.x, first, n, buffer);                                       \
        T *y = (T *)r->out + first;                                                                      \
        philox_batch(seed_of(r), counter_of(r, first), 0, words);                                        \
        for (int64_t k = 0; k < n; k++) {                                                                \
            const T scaled = x[k] * scale;                                                               \
            BITS bits;                                                                                   \
            memcpy(&bits, &scaled, sizeof bits);                                                         \
            bits &= -(BITS)((int32_t)(words[k] >> 8) >= threshold);                                      \
            memcpy(y + k, &bits, sizeof bits);                                                           \
        }                                                                                                \
    }
DEFINE_DROPOUT(f32, float, uint32_t)
DEFINE_DROPOUT(f64, double, uint64_t)

void GD_KERNEL(dropout)(const gd_args *a) {
    making r = {.attr = a->attr, .out = a->out[0]->data, .x = gd_walk_of(a->in[0], 0xF)};
    r.count = r.x.count;
    r.make = a->in[0]->dtype == GD_FLOAT32 ? dropout_f32 : dropout_f64;
    make_all(&r);
}
