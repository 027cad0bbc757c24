/* optim.cu - the optimizers: one pass over the parallel slab regions, with PyTorch's formulas in PyTorch's order (the
 * single-tensor versions in torch/optim). A thread takes four neighbouring elements. */
#include "axes.cuh"
#include "formulas.cuh"

enum { THREADS = 256 };

/* The regions of one element. Those that an optimizer does not use are never stored. */
template <class T> struct state { T param, momentum, mean, square, largest; };
enum { PARAM = 1, MOMENTUM = 2, MEAN = 4, SQUARE = 8, LARGEST = 16 };

/* Hyper-parameters go to the dtype once, as PyTorch does with its scalars. lerp starts at the nearer end. */
template <class T> struct common {
    T sign, decay, shrink, eps, slope, keep, fresh;
    bool near_mean;
    int regions; /* that are read and written */

    void init(const gd_optim_args *a, double weight, double beta) {
        sign = a->maximize ? -1 : 1;
        decay = a->decoupled_decay ? 0 : (T)a->weight_decay;
        shrink = a->decoupled_decay && a->weight_decay != 0 ? (T)(1 - a->lr * a->weight_decay) : 1;
        eps = (T)a->eps;
        near_mean = (T)weight < (T)0.5;
        slope = near_mean ? (T)weight : (T)weight - 1;
        keep = (T)beta, fresh = (T)(1 - beta);
        regions = PARAM | (a->momentum ? MOMENTUM : 0) | (a->exp_avg ? MEAN : 0) | (a->exp_avg_sq ? SQUARE : 0) | (a->max_exp_avg_sq ? LARGEST : 0);
    }
    __device__ T gradient(T g, T param) const { return decay != 0 ? gd_fused(decay, param, sign * g) : sign * g; }
    __device__ T lerp(T mean, T g) const { return gd_fused(slope, g - mean, near_mean ? mean : g); }
    __device__ T squares(T square, T g) const { return square * keep + fresh * g * g; }
};

struct regions { void *param, *momentum, *mean, *square, *largest; };

template <class Rule, class T> __global__ void __launch_bounds__(THREADS, 2) update(regions r, const void *grad, int dtype, int64_t n, bool aligned, Rule rule) {
    const int64_t first = 4 * gd_thread_index();
    if (first >= n) return;
    const bool four = aligned && first + 4 <= n;
    const int used = rule.regions;
    T g[4], p[4], b[4] = {}, m[4] = {}, s[4] = {}, l[4] = {};
    auto get = [&](const void *from, T(&to)[4]) {
        if (four) gd_load_4(from, dtype, first, to);
        else for (int j = 0; j < 4; j++) to[j] = first + j < n ? gd_load<T>(from, dtype, first + j) : 0;
    };
    auto put = [&](void *to, const T(&from)[4]) {
        if (four) gd_store_4(to, dtype, first, from);
        else for (int j = 0; j < 4; j++) if (first + j < n) gd_store<T>(to, dtype, first + j, from[j]);
    };
    get(grad, g);
    get(r.param, p);
    if (used & MOMENTUM) get(r.momentum, b);
    if (used & MEAN) get(r.mean, m);
    if (used & SQUARE) get(r.square, s);
    if (used & LARGEST) get(r.largest, l);
    GD_UNROLL
    for (int j = 0; j < 4; j++) {
        state<T> x = {p[j], b[j], m[j], s[j], l[j]};
        rule.step(x, g[j]);
        p[j] = x.param, b[j] = x.momentum, m[j] = x.mean, s[j] = x.square, l[j] = x.largest;
    }
    put(r.param, p);
    if (used & MOMENTUM) put(r.momentum, b);
    if (used & MEAN) put(r.mean, m);
    if (used & SQUARE) put(r.square, s);
    if (used & LARGEST) put(r.largest, l);
}

template <class Rule, class T> static void run(const gd_optim_args *a) {
    Rule rule;
    rule.init_rule(a);
    const regions r = {a->param, a->momentum, a->exp_avg, a->exp_avg_sq, a->max_exp_avg_sq};
    const uintptr_t together = (uintptr_t)a->param | (uintptr_t)a->grad | (uintptr_t)a->momentum | (uintptr_t)a->exp_avg | (uintptr_t)a->exp_avg_sq |
                               (uintptr_t)a->max_exp_avg_sq;
    GD_LAUNCH((update<Rule, T>), gd_blocks(a->n, 4 * THREADS), THREADS, 0, a->stream, r, a->grad, (int)a->dtype, a->n, together % 16 == 0, rule);
}

#define OPTIMIZER(name)                                         \
    GD_CUDA_OPTIM(name) {                                       \
        if (a->dtype == GD_FLOAT64) run<name##_rule<double>, double>(a); \
        else run<name##_rule<float>, float>(a);                 \
    }

template <class T> struct sgd_rule : common<T> {
    T rate, momentum, fresh_share;
    bool starts, nesterov;
    void init_rule(const gd_optim_args *a) {
        this->init(a, 0, 0);
        this->decay = (T)a->weight_decay;
        rate = (T)-a->lr, momentum = (T)a->sgd_momentum, fresh_share = (T)(1 - a->dampening);
        starts = a->first_step, nesterov = a->nesterov;
        if (a->sgd_momentum == 0) this->regions = PARAM;
    }
    __device__ void step(state<T> &x, T grad) const {
        const T g = this->gradient(grad, x.param);
        T direction = g;
        if (momentum != 0) {
            x.momentum = starts ? g : gd_fused(fresh_share, g, x.momentum * momentum);
            direction = nesterov ? gd_fused(momentum, x.momentum, g) : x.momentum;
        }
        x.param = gd_fused(rate, direction, x.param);
    }
};
OPTIMIZER(sgd)

template <class T> struct adam_rule : common<T> {
    T rate, correction;
    void init_rule(const gd_optim_args *a) {
        this->init(a, 1 - a->beta1, a->beta2);
        rate = (T)-(a->lr / a->bias_correction1), correction = (T)sqrt(a->bias_correction2);
    }
    __device__ void step(state<T> &x, T grad) const {
        const T g = this->gradient(grad, x.param), p = x.param * this->shrink;
        x.mean = this->lerp(x.mean, g);
        x.square = this->squares(x.square, g);
        T v = x.square;
        if (this->regions & LARGEST) {
            if (v == v && !(x.largest < v)) v = x.largest;
            x.largest = v;
        }
        x.param = p + rate * x.mean / (gd_root_of(v) / correction + this->eps);
    }
};
OPTIMIZER(adam)

template <class T> struct rmsprop_rule : common<T> {
    T rate, factor;
    bool centered;
    void init_rule(const gd_optim_args *a) {
        this->init(a, 1 - a->beta2, a->beta2);
        rate = (T)-a->lr, factor = (T)a->sgd_momentum;
        centered = a->centered;
    }
    __device__ void step(state<T> &x, T grad) const {
        const T g = this->gradient(grad, x.param);
        x.square = this->squares(x.square, g);
        T spread = x.square;
        if (centered) {
            x.mean = this->lerp(x.mean, g);
            spread = x.square - x.mean * x.mean;
        }
        const T root = gd_root_of(spread) + this->eps;
        if (this->regions & MOMENTUM) {
            x.momentum = x.momentum * factor + g / root;
            x.param = gd_fused(rate, x.momentum, x.param);
        } else {
            x.param += rate * g / root;
        }
    }
};
OPTIMIZER(rmsprop)

template <class T> struct adagrad_rule : common<T> {
    T rate, initial;
    bool starts;
    void init_rule(const gd_optim_args *a) {
        this->init(a, 0, 0);
        rate = (T)-a->rate, initial = (T)a->initial;
        starts = a->first_step;
    }
    __device__ void step(state<T> &x, T grad) const {
        const T g = this->gradient(grad, x.param);
        x.square = (starts ? initial : x.square) + g * g;
        x.param += rate * g / (gd_root_of(x.square) + this->eps);
    }
};
OPTIMIZER(adagrad)

/* mean: the running average of squared updates. */
template <class T> struct adadelta_rule : common<T> {
    T rate;
    void init_rule(const gd_optim_args *a) {
        this->init(a, 0, a->beta2);
        rate = (T)-a->lr;
    }
    __device__ void step(state<T> &x, T grad) const {
        const T g = this->gradient(grad, x.param);
        x.square = this->squares(x.square, g);
        const T delta = gd_root_of(x.mean + this->eps) / gd_root_of(x.square + this->eps) * g;
        x.mean = this->squares(x.mean, delta);
        x.param = gd_fused(rate, delta, x.param);
    }
};
OPTIMIZER(adadelta)

/* square: the decayed maximum of absolute gradients; NaN stays. */
template <class T> struct adamax_rule : common<T> {
    T rate;
    void init_rule(const gd_optim_args *a) {
        this->init(a, 1 - a->beta1, a->beta2);
        rate = (T)-(a->lr / a->bias_correction1);
    }
    __device__ void step(state<T> &x, T grad) const {
        const T g = this->gradient(grad, x.param), old = x.square * this->keep, now = gd_size_of(g) + this->eps;
        x.mean = this->lerp(x.mean, g);
        x.square = old != old || old > now ? old : now;
        x.param += rate * x.mean / x.square;
    }
};
OPTIMIZER(adamax)

template <class T> struct nadam_rule : common<T> {
    T rate, mean_rate, correction;
    void init_rule(const gd_optim_args *a) {
        this->init(a, 1 - a->beta1, a->beta2);
        rate = (T)a->rate, mean_rate = (T)a->mean_rate, correction = (T)a->bias_correction2;
    }
    __device__ void step(state<T> &x, T grad) const {
        const T g = this->gradient(grad, x.param);
        x.mean = this->lerp(x.mean, g);
        x.square = this->squares(x.square, g);
        const T root = gd_root_of(x.square / correction) + this->eps;
        x.param = x.param * this->shrink + rate * g / root + mean_rate * x.mean / root;
    }
};
OPTIMIZER(nadam)

template <class T> struct radam_rule : common<T> {
    T lr, correction, rate, second;
    bool rectified;
    void init_rule(const gd_optim_args *a) {
        this->init(a, 1 - a->beta1, a->beta2);
        lr = (T)a->lr, correction = (T)a->bias_correction1, rate = (T)a->rate, second = (T)sqrt(a->bias_correction2);
        rectified = a->rate != 0;
    }
    __device__ void step(state<T> &x, T grad) const {
        const T g = this->gradient(grad, x.param);
        x.mean = this->lerp(x.mean, g);
        x.square = this->squares(x.square, g);
        T move = x.mean / correction * lr;
        if (rectified) move = move * (second / (gd_root_of(x.square) + this->eps)) * rate;
        x.param = x.param * this->shrink - move;
    }
};
OPTIMIZER(radam)

template <class T> struct lion_rule : common<T> {
    T beta1, fresh1, lr;
    void init_rule(const gd_optim_args *a) {
        this->init(a, 0, a->beta2);
        beta1 = (T)a->beta1, fresh1 = (T)(1 - a->beta1), lr = (T)a->lr;
    }
    __device__ void step(state<T> &x, T grad) const {
        const T g = this->sign * grad, c = x.mean * beta1 + fresh1 * g, direction = c != c ? c : (T)((c > 0) - (c < 0));
        x.mean = x.mean * this->keep + this->fresh * g;
        x.param = x.param * this->shrink - lr * direction;
    }
};
OPTIMIZER(lion)
