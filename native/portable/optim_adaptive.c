/* optim_adaptive.c - RMSprop, Adagrad, Adadelta, Adamax, NAdam, RAdam and Lion: one pass over the parallel slab regions,
 * with PyTorch's formulas in PyTorch's order (the single-tensor versions in torch/optim). */
#include "../optim_tasks.h"
#include "../scalar.h"

/* What all begin with: the regions (NULL where unused), and the gradient at k, its sign turned for maximize. */
#define REGIONS(T)                                                                                   \
    T *restrict param = (T *)a->param, *restrict buffer = (T *)a->momentum;                          \
    T *restrict mean = (T *)a->exp_avg, *restrict square = (T *)a->exp_avg_sq;                       \
    const T *restrict grad = (const T *)a->grad;                                                     \
    const T sign = a->maximize ? -1 : 1, eps = (T)a->eps;                                            \
    const T decay = a->decoupled_decay ? 0 : (T)a->weight_decay;                                     \
    const T shrink = a->decoupled_decay && a->weight_decay != 0 ? (T)(1 - a->lr * a->weight_decay) : 1; \
    (void)buffer, (void)mean, (void)square, (void)eps, (void)decay, (void)shrink
/* Its weight decay added, unless that is decoupled. */
#define GRADIENT(T) const T g = decay != 0 ? GD_FMA(decay, param[k], sign * grad[k]) : sign * grad[k]
/* mean = lerp(mean, g, weight), which starts at the nearer end. */
#define LERP_FACTORS(T, w)                \
    const T weight = (T)(w);              \
    const bool near_mean = weight < (T)0.5; \
    const T slope = near_mean ? weight : weight - 1
#define LERP(g) GD_FMA(slope, (g) - mean[k], near_mean ? mean[k] : (g))
#define SQUARES(T, b) const T keep = (T)(b), fresh = (T)(1 - (b))
#define SQUARE(g) (square[k] * keep + fresh * (g) * (g))

#define DEFINE_RULES(name, T, sqrt, abs)                                                             \
    static inline __attribute__((always_inline)) void rmsprop_loop_##name(                           \
        const gd_optim_args *a, int64_t first, int64_t last, bool centered, bool momentum) {         \
        REGIONS(T);                                                                                  \
        LERP_FACTORS(T, 1 - a->beta2);                                                               \
        SQUARES(T, a->beta2);                                                                        \
        const T step = (T)-a->lr, factor = (T)a->sgd_momentum;                                       \
        for (int64_t k = first; k < last; k++) {                                                     \
            GRADIENT(T);                                                                             \
            const T v = SQUARE(g);                                                                   \
            square[k] = v;                                                                           \
            T spread = v;                                                                            \
            if (centered) {                                                                          \
                const T m = LERP(g);                                                                 \
                mean[k] = m;                                                                         \
                spread = v - m * m;                                                                  \
            }                                                                                        \
            const T root = sqrt(spread) + eps;                                                       \
            if (momentum) {                                                                          \
                const T b = buffer[k] * factor + g / root;                                           \
                buffer[k] = b;                                                                       \
                param[k] = GD_FMA(step, b, param[k]);                                                \
            } else {                                                                                 \
                param[k] += step * g / root;                                                         \
            }                                                                                        \
        }                                                                                            \
    }                                                                                                \
    static void rmsprop_##name(const gd_optim_args *a, int64_t first, int64_t last) {                \
        if (a->centered && a->momentum) rmsprop_loop_##name(a, first, last, true, true);             \
        else if (a->centered) rmsprop_loop_##name(a, first, last, true, false);                      \
        else if (a->momentum) rmsprop_loop_##name(a, first, last, false, true);                      \
        else rmsprop_loop_##name(a, first, last, false, false);                                      \
    }                                                                                                \
    static void adagrad_##name(const gd_optim_args *a, int64_t first, int64_t last) {                \
        REGIONS(T);                                                                                  \
        const T step = (T)-a->rate, initial = (T)a->initial;                                         \
        const bool starts = a->first_step;                                                           \
        for (int64_t k = first; k < last; k++) {                                                     \
            GRADIENT(T);                                                                             \
            const T v = (starts ? initial : square[k]) + g * g;                                      \
            square[k] = v;                                                                           \
            param[k] += step * g / (sqrt(v) + eps);                                                  \
        }                                                                                            \
    }                                                                                                \
    /* mean: the running average of squared updates. */                                              \
    static void adadelta_##name(const gd_optim_args *a, int64_t first, int64_t last) {               \
        REGIONS(T);                                                                                  \
        SQUARES(T, a->beta2);                                                                        \
        const T step = (T)-a->lr;                                                                    \
        for (int64_t k = first; k < last; k++) {                                                     \
            GRADIENT(T);                                                                             \
            const T v = SQUARE(g), delta = sqrt(mean[k] + eps) / sqrt(v + eps) * g;                  \
            square[k] = v;                                                                           \
            mean[k] = mean[k] * keep + fresh * delta * delta;                                        \
            param[k] = GD_FMA(step, delta, param[k]);                                                \
        }                                                                                            \
    }                                                                                                \
    /* square: the decayed maximum of absolute gradients; NaN stays. */                              \
    static void adamax_##name(const gd_optim_args *a, int64_t first, int64_t last) {                 \
        REGIONS(T);                                                                                  \
        LERP_FACTORS(T, 1 - a->beta1);                                                               \
        const T keep = (T)a->beta2, step = (T)-(a->lr / a->bias_correction1);                        \
        for (int64_t k = first; k < last; k++) {                                                     \
            GRADIENT(T);                                                                             \
            const T m = LERP(g), old = square[k] * keep, now = abs(g) + eps;                         \
            const T most = old != old || old > now ? old : now;                                      \
            mean[k] = m;                                                                             \
            square[k] = most;                                                                        \
            param[k] += step * m / most;                                                             \
        }                                                                                            \
    }                                                                                                \
    static void nadam_##name(const gd_optim_args *a, int64_t first, int64_t last) {                  \
        REGIONS(T);                                                                                  \
        LERP_FACTORS(T, 1 - a->beta1);                                                               \
        SQUARES(T, a->beta2);                                                                        \
        const T rate = (T)a->rate, mean_rate = (T)a->mean_rate, correction = (T)a->bias_correction2; \
        for (int64_t k = first; k < last; k++) {                                                     \
            GRADIENT(T);                                                                             \
            const T m = LERP(g), v = SQUARE(g), root = sqrt(v / correction) + eps;                   \
            mean[k] = m;                                                                             \
            square[k] = v;                                                                           \
            param[k] = param[k] * shrink + rate * g / root + mean_rate * m / root;                   \
        }                                                                                            \
    }                                                                                                \
    static void radam_##name(const gd_optim_args *a, int64_t first, int64_t last) {                  \
        REGIONS(T);                                                                                  \
        LERP_FACTORS(T, 1 - a->beta1);                                                               \
        SQUARES(T, a->beta2);                                                                        \
        const T lr = (T)a->lr, correction = (T)a->bias_correction1, rate = (T)a->rate;               \
        const T second = (T)__builtin_sqrt(a->bias_correction2);                                     \
        const bool rectified = a->rate != 0;                                                         \
        for (int64_t k = first; k < last; k++) {                                                     \
            GRADIENT(T);                                                                             \
            const T m = LERP(g), v = SQUARE(g);                                                      \
            T update = m / correction * lr;                                                          \
            mean[k] = m;                                                                             \
            square[k] = v;                                                                           \
            if (rectified) update = update * (second / (sqrt(v) + eps)) * rate;                      \
            param[k] = param[k] * shrink - update;                                                   \
        }                                                                                            \
    }                                                                                                \
    static void lion_##name(const gd_optim_args *a, int64_t first, int64_t last) {                   \
        REGIONS(T);                                                                                  \
        const T beta1 = (T)a->beta1, fresh1 = (T)(1 - a->beta1), beta2 = (T)a->beta2;                \
        const T fresh2 = (T)(1 - a->beta2), lr = (T)a->lr;                                           \
        for (int64_t k = first; k < last; k++) {                                                     \
            const T g = sign * grad[k], c = mean[k] * beta1 + fresh1 * g;                            \
            const T direction = c != c ? c : (T)((c > 0) - (c < 0));                                 \
            mean[k] = mean[k] * beta2 + fresh2 * g;                                                  \
            param[k] = param[k] * shrink - lr * direction;                                           \
        }                                                                                            \
    }
DEFINE_RULES(f32, float, __builtin_sqrtf, __builtin_fabsf)
DEFINE_RULES(f64, double, __builtin_sqrt, __builtin_fabs)

#define DEFINE_KERNEL(op) \
    void GD_KERNEL(op)(const gd_optim_args *a) { gd_optim_all(a, a->dtype == GD_FLOAT32 ? op##_f32 : op##_f64); }
DEFINE_KERNEL(rmsprop)
DEFINE_KERNEL(adagrad)
DEFINE_KERNEL(adadelta)
DEFINE_KERNEL(adamax)
DEFINE_KERNEL(nadam)
DEFINE_KERNEL(radam)
DEFINE_KERNEL(lion)
