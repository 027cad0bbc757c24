/* scan.cu - cumsum, cumprod, logcumsumexp, cummax, cummin, linear_scan: results of all entries so far along a dimension. Floats are
 * carried in float64. A block takes a long line, 1024 entries at a time; lines that are short, or many and side by side, have a
 * thread each. */
#include "axes.cuh"

enum {
    THREADS = 256,
    EACH = 4,          /* entries of a thread, one after the other */
    TILE = THREADS * EACH,
    SHORT = 32,        /* so short lines are walked by a thread */
    MANY = 4096        /* so many lines side by side, too */
};

template <class T> using wide_of = std::conditional_t<gd_is_same<T, float> || gd_is_same<T, double>, double, uint64_t>;

/* A rule: what an entry is to begin with, how what came before joins it, and where the result goes. `at`: the output's offset. */
template <class Element, class R> struct sum_rule {
    typedef Element T;
    typedef wide_of<T> Acc;
    R *out;
    int dtype;
    __device__ Acc none() const { return 0; }
    __device__ Acc of(T v, int64_t) const { return (Acc)v; }
    __device__ Acc join(Acc a, Acc b) const { return a + b; }
    __device__ void put(int64_t at, Acc acc) const { gd_store<R>(out, dtype, at, (R)acc); }
};

template <class Element, class R> struct product_rule {
    typedef Element T;
    typedef wide_of<T> Acc;
    R *out;
    int dtype;
    __device__ Acc none() const { return 1; }
    __device__ Acc of(T v, int64_t) const { return (Acc)v; }
    __device__ Acc join(Acc a, Acc b) const { return a * b; }
    __device__ void put(int64_t at, Acc acc) const { gd_store<R>(out, dtype, at, (R)acc); }
};

/* log(exp(a) + exp(b)) */
template <class Element, class R> struct lse_rule {
    typedef Element T;
    typedef double Acc;
    R *out;
    int dtype;
    __device__ Acc none() const { return -(double)INFINITY; }
    __device__ Acc of(T v, int64_t) const { return (double)v; }
    __device__ Acc join(Acc a, Acc b) const {
        if (a != a || b != b) return a + b;
        const double most = a > b ? a : b, least = a > b ? b : a;
        if (most == least && !(most - most == 0)) return most; /* both infinite, of one sign */
        return most + log1p(exp(least - most));
    }
    __device__ void put(int64_t at, Acc acc) const { gd_store<R>(out, dtype, at, (R)acc); }
};

/* Of equal ones the last; a NaN stays. */
template <class T> struct best_acc {
    int64_t place; /* -1: none yet */
    T value;
};
template <class Element, bool LARGEST> struct best_rule {
    typedef Element T;
    typedef best_acc<T> Acc;
    void *out;
    int64_t *places;
    int dtype;
    __device__ Acc none() const { return {-1, (T)0}; }
    __device__ Acc of(T v, int64_t k) const { return {k, v}; }
    __device__ Acc join(Acc a, Acc b) const {
        if (a.place < 0 || b.place < 0) return a.place < 0 ? b : a;
        return b.value != b.value || (LARGEST ? b.value >= a.value : b.value <= a.value) ? b : a;
    }
    __device__ void put(int64_t at, Acc acc) const {
        gd_store<T>(out, dtype, at, acc.value);
        places[at] = acc.place;
    }
};

template <class Rule> __global__ void __launch_bounds__(THREADS, 2) scan_by_threads(gd_rows x, gd_rows y, bool reverse, Rule rule) {
    typedef typename Rule::T T;
    const int64_t line = gd_thread_index(), n = x.row.size;
    if (line >= x.rows.size) return;
    const int64_t base = x.rows.offset(line), to = y.rows.offset(line);
    typename Rule::Acc acc = rule.none();
    for (int64_t p = 0; p < n; p++) {
        const int64_t k = reverse ? n - 1 - p : p;
        acc = rule.join(acc, rule.of(x.template load<T>(base, k), k));
        rule.put(to + y.row.offset(k), acc);
    }
}

template <class Rule> __global__ void __launch_bounds__(THREADS, 2) scan_by_blocks(gd_rows x, gd_rows y, bool reverse, Rule rule) {
    typedef typename Rule::T T;
    typedef typename Rule::Acc Acc;
    GD_SHARED(Acc, parts, 2, THREADS);
    const int64_t base = x.rows.offset(blockIdx.x), to = y.rows.offset(blockIdx.x), n = x.row.size;
    const int thread = threadIdx.x;
    Acc carry = rule.none();
    for (int64_t first = 0; first < n; first += TILE) {
        const int64_t from = first + thread * EACH;
        Acc acc[EACH];
        GD_UNROLL
        for (int j = 0; j < EACH; j++) {
            const int64_t k = reverse ? n - 1 - (from + j) : from + j;
            acc[j] = from + j < n ? rule.of(x.template load<T>(base, k), k) : rule.none();
            if (j > 0) acc[j] = rule.join(acc[j - 1], acc[j]);
        }
        int now = 0;
        Acc mine = acc[EACH - 1];
        parts[now][thread] = mine;
        for (int step = 1; step < THREADS; step *= 2, now = 1 - now) {
            __syncthreads();
            if (thread >= step) mine = rule.join((Acc)parts[now][thread - step], mine);
            parts[1 - now][thread] = mine;
        }
        __syncthreads();
        const Acc before = thread > 0 ? rule.join(carry, (Acc)parts[now][thread - 1]) : carry;
        carry = rule.join(carry, (Acc)parts[now][THREADS - 1]);
        GD_UNROLL
        for (int j = 0; j < EACH; j++)
            if (from + j < n) rule.put(to + y.row.offset(reverse ? n - 1 - (from + j) : from + j), rule.join(before, acc[j]));
        __syncthreads();
    }
}

template <class Rule> static void scan(const gd_args *a, bool reverse, const Rule &rule) {
    const int64_t mask = (int64_t)1 << a->attr->i[0];
    const gd_rows x = gd_rows_of(a->in[0], mask), y = gd_rows_of(a->out[0], mask);
    const int64_t lines = x.rows.size, n = x.row.size;
    if (lines * n == 0) return;
    if (n <= SHORT || (a->attr->i[0] < 3 && lines >= MANY)) GD_LAUNCH((scan_by_threads<Rule>), gd_blocks(lines, THREADS), THREADS, 0, a->stream, x, y, reverse, rule);
    else GD_LAUNCH((scan_by_blocks<Rule>), lines, THREADS, 0, a->stream, x, y, reverse, rule);
}

#define SCAN(rule, T, R) scan(a, a->attr->i[1] != 0, rule<T, R>{(R *)a->out[0]->data, (int)a->out[0]->dtype})
#define NUMBERS(rule)                                           \
    switch (gd_dtype_inside(a->in[0]->dtype)) {                 \
    case GD_FLOAT32: SCAN(rule, float, float); break;           \
    case GD_FLOAT64: SCAN(rule, double, double); break;         \
    case GD_INT64: SCAN(rule, int64_t, int64_t); break;         \
    case GD_INT32: SCAN(rule, int32_t, int64_t); break;         \
    default: SCAN(rule, uint8_t, int64_t);                      \
    }
GD_CUDA_KERNEL(cumsum) { NUMBERS(sum_rule) }
GD_CUDA_KERNEL(cumprod) { NUMBERS(product_rule) }
GD_CUDA_KERNEL(logcumsumexp) {
    if (a->in[0]->dtype == GD_FLOAT64) SCAN(lse_rule, double, double);
    else SCAN(lse_rule, float, float);
}

template <bool LARGEST> static void best(const gd_args *a) {
    void *out = a->out[0]->data;
    int64_t *places = (int64_t *)a->out[1]->data;
    const int dtype = a->out[0]->dtype;
    switch (gd_dtype_inside(dtype)) {
    case GD_FLOAT32: scan(a, false, best_rule<float, LARGEST>{out, places, dtype}); break;
    case GD_FLOAT64: scan(a, false, best_rule<double, LARGEST>{out, places, dtype}); break;
    case GD_INT64: scan(a, false, best_rule<int64_t, LARGEST>{out, places, dtype}); break;
    case GD_INT32: scan(a, false, best_rule<int32_t, LARGEST>{out, places, dtype}); break;
    default: scan(a, false, best_rule<uint8_t, LARGEST>{out, places, dtype});
    }
}
GD_CUDA_KERNEL(cummax) { best<true>(a); }
GD_CUDA_KERNEL(cummin) { best<false>(a); }

/* y[k] = b[k] + a[k] y[k - 1], or with a[k + 1] y[k + 1]. A thread walks a line: cut in pieces, products of many a could overflow
 * where the result does not. */
template <class T> __global__ void __launch_bounds__(THREADS, 2) linear_lines(gd_rows a, gd_rows b, gd_rows y, bool reverse) {
    const int64_t line = gd_thread_index(), n = y.row.size;
    if (line >= y.rows.size) return;
    const int64_t from_a = a.rows.offset(line), from_b = b.rows.offset(line), to = y.rows.offset(line);
    double c = 0;
    for (int64_t p = 0; p < n; p++) {
        const int64_t k = reverse ? n - 1 - p : p;
        const double entry = (double)b.template load<T>(from_b, k);
        c = p > 0 ? entry + (double)a.template load<T>(from_a, reverse ? k + 1 : k) * c : entry;
        gd_store<T>(const_cast<void *>(y.data), y.dtype, to + y.row.offset(k), (T)c);
    }
}

GD_CUDA_KERNEL(linear_scan) {
    const int64_t mask = (int64_t)1 << a->attr->i[0];
    const gd_rows x = gd_rows_of(a->in[0], mask), b = gd_rows_of(a->in[1], mask), y = gd_rows_of(a->out[0], mask);
    const bool reverse = a->attr->i[1] != 0;
    const int64_t blocks = gd_blocks(y.rows.size, THREADS);
    if (y.rows.size * y.row.size == 0) return;
    if (y.dtype == GD_FLOAT64) GD_LAUNCH((linear_lines<double>), blocks, THREADS, 0, a->stream, x, b, y, reverse);
    else GD_LAUNCH((linear_lines<float>), blocks, THREADS, 0, a->stream, x, b, y, reverse);
}
