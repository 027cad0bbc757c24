/* loss_pairs.cu - losses of two tensors of one shape, element by element, and their slopes: squared error, smooth L1 and Huber,
 * binary cross entropy of probabilities and of logits. */
#include "formulas.cuh"
#include "loss.cuh"

enum { EACH = 16 }; /* elements of a thread, where they are added up */

/* A rule gives the loss of x and y, and its slope in x. */
template <class T> struct mse_rule {
    explicit mse_rule(const gd_attr &) {}
    __device__ T loss(T x, T y) const { return (x - y) * (x - y); }
    __device__ T slope(T x, T y) const { return (x - y) + (x - y); }
};

/* curve d^2 / 2 below beta, from there on flat (|d| - beta / 2) */
template <class T> struct smooth_rule {
    T beta, flat, curve;
    explicit smooth_rule(const gd_attr &at) : beta((T)at.f[0]), flat(at.i[1] ? beta : 1), curve(at.i[1] || beta == 0 ? 1 : 1 / beta) {}
    __device__ T loss(T x, T y) const {
        const T d = x - y;
        return gd_size_of(d) < beta ? (d * d) / 2 * curve : flat * (gd_size_of(d) - beta / 2);
    }
    __device__ T slope(T x, T y) const {
        const T d = x - y;
        return gd_size_of(d) < beta ? d * curve : d > 0 ? flat : d < 0 ? -flat : 0 * d;
    }
};

/* Both terms of a certain and right answer are 0: nothing is lost beside a large logit. */
template <class T> struct logits_rule {
    explicit logits_rule(const gd_attr &) {}
    __device__ T loss(T x, T y) const { return gd_fused(-x, y, x < 0 ? (T)0 : x) - gd_log_sigmoid_of(gd_size_of(x)); }
    __device__ T slope(T x, T y) const { return gd_sigmoid_of(x) - y; }
};

/* Logarithms are at least -100; the spread is bounded in float32 for both, as PyTorch has it. */
template <class T> struct probabilities_rule {
    explicit probabilities_rule(const gd_attr &) {}
    static __device__ T bounded(T l) { return l < -100 ? -100 : l; }
    __device__ T loss(T x, T y) const { return (y - 1) * bounded(gd_log1p_of(-x)) - y * bounded(gd_log_of(x)); }
    __device__ T slope(T x, T y) const {
        const T spread = (1 - x) * x, least = (T)1e-12f;
        return (x - y) / (spread < least ? least : spread);
    }
};

template <class Rule, class T> __global__ void __launch_bounds__(GD_LOSS_THREADS, 2) pair_losses(gd_rows x, gd_rows y, void *out, int dtype, Rule rule) {
    const int64_t k = gd_thread_index();
    if (k < x.row.size) gd_store<T>(out, dtype, k, rule.loss(x.template load<T>(0, k), y.template load<T>(0, k)));
}

template <class Rule, class T> __global__ void __launch_bounds__(GD_LOSS_THREADS, 2) pair_sums(gd_rows x, gd_rows y, gd_loss_pair *pairs, Rule rule) {
    const int64_t first = (int64_t)blockIdx.x * GD_LOSS_THREADS * EACH + threadIdx.x;
    double sum = 0;
    GD_UNROLL
    for (int j = 0; j < EACH; j++) {
        const int64_t k = first + j * GD_LOSS_THREADS;
        if (k < x.row.size) sum += (double)rule.loss(x.template load<T>(0, k), y.template load<T>(0, k));
    }
    sum = gd_block_sum(sum);
    if (threadIdx.x == 0) pairs[blockIdx.x] = {sum, 0};
}

static int64_t blocks_of(const gd_args *a) { return gd_blocks(gd_numel(a->in[0]), GD_LOSS_THREADS * EACH); }
static int64_t workspace_of(const gd_args *a) { return a->attr->i[0] == GD_NONE ? 0 : gd_loss_room(blocks_of(a)) * (int64_t)sizeof(gd_loss_pair); }

template <class Rule, class T> static void forward(const gd_args *a) {
    const gd_rows x = gd_rows_of(a->in[0], 0xF), y = gd_rows_of(a->in[1], 0xF);
    const gd_view *out = a->out[0];
    const Rule rule(*a->attr);
    const int64_t n = x.row.size;
    if (a->attr->i[0] == GD_NONE) {
        GD_LAUNCH((pair_losses<Rule, T>), gd_blocks(n, GD_LOSS_THREADS), GD_LOSS_THREADS, 0, a->stream, x, y, out->data, (int)out->dtype, rule);
        return;
    }
    gd_loss_pair *pairs = (gd_loss_pair *)a->workspace;
    GD_LAUNCH((pair_sums<Rule, T>), blocks_of(a), GD_LOSS_THREADS, 0, a->stream, x, y, pairs, rule);
    const gd_loss_result r = {out->data, NULL, out->dtype, GD_FLOAT32, (double)n, a->attr->i[0] == GD_MEAN};
    gd_loss_total(pairs, blocks_of(a), r, a->stream, gd_is_same<T, double>);
}

/* dx = factor g slope; 0 where g is 0. */
template <class Rule, class T>
__global__ void __launch_bounds__(GD_LOSS_THREADS, 2) pair_slopes(gd_rows g, gd_rows x, gd_rows y, void *out, int dtype, T factor, Rule rule) {
    const int64_t k = gd_thread_index();
    if (k >= x.row.size) return;
    const T in = g.template load<T>(0, g.row.size == 1 ? 0 : k);
    gd_store<T>(out, dtype, k, in == 0 ? 0 : factor * in * rule.slope(x.template load<T>(0, k), y.template load<T>(0, k)));
}

template <class Rule, class T> static void backward(const gd_args *a) {
    const gd_rows g = gd_rows_of(a->in[0], 0xF), x = gd_rows_of(a->in[1], 0xF), y = gd_rows_of(a->in[2], 0xF);
    const T factor = (T)(a->attr->i[0] == GD_MEAN ? 1 / (double)x.row.size : 1);
    const gd_view *out = a->out[0];
    const Rule rule(*a->attr);
    GD_LAUNCH((pair_slopes<Rule, T>), gd_blocks(x.row.size, GD_LOSS_THREADS), GD_LOSS_THREADS, 0, a->stream, g, x, y, out->data, (int)out->dtype, factor, rule);
}

#define PAIR_LOSS(op, rule)                                                     \
    GD_CUDA_KERNEL(op) {                                                        \
        if (a->in[0]->dtype == GD_FLOAT64) forward<rule<double>, double>(a);    \
        else forward<rule<float>, float>(a);                                    \
    }                                                                           \
    GD_CUDA_KERNEL(op##_bwd) {                                                  \
        if (a->in[1]->dtype == GD_FLOAT64) backward<rule<double>, double>(a);   \
        else backward<rule<float>, float>(a);                                   \
    }                                                                           \
    GD_CUDA_WORKSPACE(op) { return workspace_of(a); }
PAIR_LOSS(mse_loss, mse_rule)
PAIR_LOSS(smooth_l1_loss, smooth_rule)
PAIR_LOSS(binary_cross_entropy_with_logits, logits_rule)
PAIR_LOSS(binary_cross_entropy, probabilities_rule)
