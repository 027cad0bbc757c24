/* moments.cu - var, std, logsumexp and vector_norm, each in one pass over memory. */
#include "formulas.cuh"
#include "reduce.cuh"

/* ---- var, std: moments of parts about their own mean, joined as Chan, Golub and LeVeque do (1979) ------------------------ */

struct moments_acc { double n, mean, squares; };

template <class Element> struct var_fold {
    typedef Element T;
    typedef moments_acc Acc;
    void *out;
    int dtype;
    double correction;
    bool root;
    __device__ Acc none() const { return {0, 0, 0}; }
    __device__ void step(Acc &acc, T v, int64_t) const {
        const double d = (double)v - acc.mean;
        acc.n += 1;
        acc.mean += d / acc.n;
        acc.squares = fma(d, (double)v - acc.mean, acc.squares);
    }
    __device__ void step_4(Acc &acc, const T (&v)[4], int64_t) const {
        const double about = (double)v[0], b = (double)v[1] - about, c = (double)v[2] - about, d = (double)v[3] - about;
        const double shift = 0.25 * (b + (c + d)); /* of the mean from v[0] */
        const double squares = fma(shift, shift, (b - shift) * (b - shift)) + fma(c - shift, c - shift, (d - shift) * (d - shift));
        acc = join(acc, {4, about + shift, squares});
    }
    __device__ Acc join(Acc a, Acc b) const {
        if (a.n == 0 || b.n == 0) return a.n == 0 ? b : a;
        const double n = a.n + b.n, share = b.n / n, d = b.mean - a.mean;
        return {n, fma(d, share, a.mean), fma(d * d * share, a.n, a.squares + b.squares)};
    }
    __device__ void store(int64_t o, Acc acc, int64_t count) const {
        const double divisor = (double)count - correction, variance = acc.squares / (divisor > 0 ? divisor : 0);
        gd_store<T>(out, dtype, o, (T)(root ? sqrt(variance) : variance));
    }
};

static void variance(const gd_args *a, bool root) {
    const gd_view *out = a->out[0];
    if (out->dtype == GD_FLOAT64) gd_reduce_run(a, var_fold<double>{out->data, out->dtype, a->attr->f[0], root});
    else gd_reduce_run(a, var_fold<float>{out->data, out->dtype, a->attr->f[0], root});
}
GD_CUDA_KERNEL(var) { variance(a, false); }
GD_CUDA_KERNEL(std) { variance(a, true); }
GD_CUDA_WORKSPACE(var) { return gd_reduce_workspace(a); }
GD_CUDA_WORKSPACE(std) { return gd_reduce_workspace(a); }

/* ---- logsumexp: parts about their own maximum ------------------------------------------------------------------------------ */

template <class T> struct lse_acc {
    double sum;
    T most; /* an infinite or NaN maximum stands for itself */
};

template <class Element> struct lse_fold {
    typedef Element T;
    typedef lse_acc<T> Acc;
    void *out;
    int dtype;
    __device__ Acc none() const { return {0, -(T)INFINITY}; }
    __device__ void step(Acc &acc, T v, int64_t) const { acc = join(acc, {1, v}); }
    __device__ void step_4(Acc &acc, const T (&v)[4], int64_t k) const {
        const T ab = v[0] > v[1] ? v[0] : v[1], cd = v[2] > v[3] ? v[2] : v[3], most = ab > cd ? ab : cd;
        const bool plain = most - most == 0 && v[0] == v[0] && v[1] == v[1] && v[2] == v[2] && v[3] == v[3];
        if (plain) acc = join(acc, {(double)((gd_exp_of(v[0] - most) + gd_exp_of(v[1] - most)) + (gd_exp_of(v[2] - most) + gd_exp_of(v[3] - most))), most});
        else for (int j = 0; j < 4; j++) step(acc, v[j], k + j);
    }
    __device__ Acc join(Acc a, Acc b) const {
        if (a.most != a.most || b.most <= -(T)INFINITY) return a;
        if (b.most != b.most || a.most <= -(T)INFINITY) return b;
        if (a.most >= (T)INFINITY) return a;
        if (b.most >= (T)INFINITY) return b;
        if (b.most > a.most) return {a.sum * (double)gd_exp_of(a.most - b.most) + b.sum, b.most};
        return {a.sum + b.sum * (double)gd_exp_of(b.most - a.most), a.most};
    }
    __device__ void store(int64_t o, Acc acc, int64_t) const {
        gd_store<T>(out, dtype, o, acc.most - acc.most == 0 ? (T)((double)acc.most + log(acc.sum)) : acc.most);
    }
};

GD_CUDA_KERNEL(logsumexp) {
    const gd_view *out = a->out[0];
    if (out->dtype == GD_FLOAT64) gd_reduce_run(a, lse_fold<double>{out->data, out->dtype});
    else gd_reduce_run(a, lse_fold<float>{out->data, out->dtype});
}
GD_CUDA_WORKSPACE(logsumexp) { return gd_reduce_workspace(a); }

/* ---- vector_norm: (sum |x|^p)^(1/p) ------------------------------------------------------------------------------------------ */

/* sum (|x| / about)^p, about the largest element (the smallest, if p < 0), so that no power overflows. For p = 0 and 1, and
 * for p = 2 of float32, whose squares float64 holds, about is 1. */
struct norm_acc { double about, sum; };

template <class Element> struct norm_fold {
    typedef Element T;
    typedef norm_acc Acc;
    void *out;
    int dtype;
    double p;
    bool plain; /* about is 1 */
    __device__ Acc none() const { return {plain ? 1.0 : p > 0 ? 0.0 : (double)INFINITY, 0}; }
    __device__ void step(Acc &acc, T v, int64_t) const {
        const double size = fabs((double)v);
        if (plain) acc.sum += p == 0 ? (double)(size != 0) : p == 1 ? size : size * size;
        else acc = join(acc, {size, 1});
    }
    GD_STEPS_ALONE
    __device__ Acc join(Acc a, Acc b) const {
        if (plain) return {1, a.sum + b.sum};
        if (a.about != a.about || b.about != b.about) return {a.about + b.about, 1}; /* NaN */
        const bool second = p > 0 ? b.about > a.about : b.about < a.about;
        const Acc first = second ? b : a, rest = second ? a : b;
        if (rest.sum == 0 || first.about == 0 || first.about >= (double)INFINITY || !(p - p == 0)) return first;
        const double q = rest.about / first.about;
        return {first.about, fma(rest.sum, p == 2 ? q * q : pow(q, p), first.sum)};
    }
    __device__ void store(int64_t o, Acc acc, int64_t count) const {
        double norm = acc.sum;
        if (plain && p == 2) norm = sqrt(acc.sum);
        if (!plain) norm = acc.about;
        if (!plain && p - p == 0 && acc.about != 0 && acc.about < (double)INFINITY) norm = acc.about * (p == 2 ? sqrt(acc.sum) : pow(acc.sum, 1 / p));
        gd_store<T>(out, dtype, o, (T)(count == 0 ? 0 : norm));
    }
};

GD_CUDA_KERNEL(vector_norm) {
    const gd_view *out = a->out[0];
    const double p = a->attr->f[0];
    if (out->dtype == GD_FLOAT64) gd_reduce_run(a, norm_fold<double>{out->data, out->dtype, p, p == 0 || p == 1});
    else gd_reduce_run(a, norm_fold<float>{out->data, out->dtype, p, p == 0 || p == 1 || p == 2});
}
GD_CUDA_WORKSPACE(vector_norm) { return gd_reduce_workspace(a); }
