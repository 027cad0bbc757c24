/* optim.c - SGD and Adam: one pass over the parallel slab regions, with PyTorch's formulas in
 * PyTorch's order (torch/optim/sgd.py and adam.py, the single-tensor versions). */
#include "../optim_tasks.h"
#include "../scalar.h"

/* Hyper-parameters go to the dtype once, as PyTorch does with its scalars. */
#define DEFINE_SGD(name, T)                                                                     \
    static void sgd_##name(const gd_optim_args *a, int64_t first, int64_t last) {               \
        T *restrict param = (T *)a->param, *restrict buffer = (T *)a->momentum;                 \
        const T *restrict grad = (const T *)a->grad;                                            \
        const T step = (T)-a->lr, decay = (T)a->weight_decay, momentum = (T)a->sgd_momentum;    \
        const T fresh = (T)(1 - a->dampening), sign = a->maximize ? -1 : 1;                     \
        const bool decays = a->weight_decay != 0;                                               \
        if (a->sgd_momentum == 0) {                                                             \
            for (int64_t k = first; k < last; k++) {                                            \
                T g = sign * grad[k];                                                           \
                if (decays) g = GD_FMA(decay, param[k], g);                                     \
                param[k] = GD_FMA(step, g, param[k]);                                           \
            }                                                                                   \
        } else {                                                                                \
            const bool starts = a->first_step, nesterov = a->nesterov;                          \
            for (int64_t k = first; k < last; k++) {                                            \
                T g = sign * grad[k];                                                           \
                if (decays) g = GD_FMA(decay, param[k], g);                                     \
                const T b = starts ? g : GD_FMA(fresh, g, buffer[k] * momentum);                \
                buffer[k] = b;                                                                  \
                param[k] = GD_FMA(step, nesterov ? GD_FMA(momentum, b, g) : b, param[k]);       \
            }                                                                                   \
        }                                                                                       \
    }
DEFINE_SGD(f32, float)
DEFINE_SGD(f64, double)

#define DEFINE_ADAM(name, T, sqrt)                                                              \
    static inline __attribute__((always_inline)) void adam_loop_##name(                         \
        const gd_optim_args *a, int64_t first, int64_t last, bool decoupled, bool decays, bool amsgrad) { \
        T *restrict param = (T *)a->param, *restrict mean = (T *)a->exp_avg;                    \
        T *restrict square = (T *)a->exp_avg_sq, *restrict largest = (T *)a->max_exp_avg_sq;    \
        const T *restrict grad = (const T *)a->grad;                                            \
        const T sign = a->maximize ? -1 : 1, decay = (T)a->weight_decay;                        \
        const T shrink = (T)(1 - a->lr * a->weight_decay), eps = (T)a->eps;                     \
        const T weight = (T)(1 - a->beta1), beta2 = (T)a->beta2, fresh = (T)(1 - a->beta2);     \
        const T step = (T)-(a->lr / a->bias_correction1), correction = (T)__builtin_sqrt(a->bias_correction2); \
        const bool near_mean = weight < (T)0.5; /* lerp starts at the nearer end */             \
        const T slope = near_mean ? weight : weight - 1;                                        \
        for (int64_t k = first; k < last; k++) {                                                \
            T p = param[k], g = sign * grad[k];                                                 \
            if (decays && decoupled) p *= shrink;                                               \
            if (decays && !decoupled) g = GD_FMA(decay, p, g);                                  \
            const T m = GD_FMA(slope, g - mean[k], near_mean ? mean[k] : g);                    \
            T v = square[k] * beta2 + fresh * g * g;                                            \
            mean[k] = m;                                                                        \
            square[k] = v;                                                                      \
            if (amsgrad) {                                                                      \
                const T old = largest[k];                                                       \
                v = v != v ? v : old < v ? v : old;                                             \
                largest[k] = v;                                                                 \
            }                                                                                   \
            param[k] = p + step * m / (sqrt(v) / correction + eps);                             \
        }                                                                                       \
    }                                                                                           \
    static void adam_##name(const gd_optim_args *a, int64_t first, int64_t last) {              \
        const bool decays = a->weight_decay != 0;                                               \
        if (a->max_exp_avg_sq) adam_loop_##name(a, first, last, a->decoupled_decay, decays, true); \
        else if (!decays) adam_loop_##name(a, first, last, false, false, false);                \
        else if (a->decoupled_decay) adam_loop_##name(a, first, last, true, true, false);       \
        else adam_loop_##name(a, first, last, false, true, false);                              \
    }
DEFINE_ADAM(f32, float, __builtin_sqrtf)
DEFINE_ADAM(f64, double, __builtin_sqrt)

void GD_KERNEL(sgd)(const gd_optim_args *a) { gd_optim_all(a, a->dtype == GD_FLOAT32 ? sgd_f32 : sgd_f64); }
void GD_KERNEL(adam)(const gd_optim_args *a) { gd_optim_all(a, a->dtype == GD_FLOAT32 ? adam_f32 : adam_f64); }
