/* optim.c - SGD and Adam for AVX-512: one pass over the parallel slab regions, the same formulas in the
 * same order as portable/optim.c, so the same bits as the AVX2 kernels. */
#include "../optim_tasks.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

/* For elements T in vectors V of W lanes; S is ps or pd. Each _step_ does the lanes in mask at k. */
#define DEFINE_OPTIM(name, T, V, W, S, MASK)                                                                      \
    INLINE V sgd_gradient_##name(const gd_optim_args *a, int64_t k, MASK mask, V p, bool decays) {                \
        V g = _mm512_maskz_loadu_##S(mask, (const T *)a->grad + k);                                               \
        if (a->maximize) g = _mm512_xor_##S(g, _mm512_set1_##S((T)-0.0));                                         \
        return decays ? _mm512_fmadd_##S(_mm512_set1_##S((T)a->weight_decay), p, g) : g;                          \
    }                                                                                                             \
    INLINE void sgd_step_##name(const gd_optim_args *a, int64_t k, MASK mask, bool decays, bool momentum) {       \
        T *param = (T *)a->param + k, *buffer = (T *)a->momentum + k;                                             \
        const V p = _mm512_maskz_loadu_##S(mask, param), g = sgd_gradient_##name(a, k, mask, p, decays);          \
        V update = g;                                                                                             \
        if (momentum) {                                                                                           \
            const V factor = _mm512_set1_##S((T)a->sgd_momentum), fresh = _mm512_set1_##S((T)(1 - a->dampening)); \
            V b = g;                                                                                              \
            if (!a->first_step) b = _mm512_fmadd_##S(fresh, g, _mm512_mul_##S(_mm512_maskz_loadu_##S(mask, buffer), factor)); \
            _mm512_mask_storeu_##S(buffer, mask, b);                                                              \
            update = a->nesterov ? _mm512_fmadd_##S(factor, b, g) : b;                                            \
        }                                                                                                         \
        _mm512_mask_storeu_##S(param, mask, _mm512_fmadd_##S(_mm512_set1_##S((T)-a->lr), update, p));             \
    }                                                                                                             \
    INLINE void sgd_loop_##name(const gd_optim_args *a, int64_t first, int64_t last, bool decays, bool momentum) { \
        const gd_optim_args args = *a; /* a local one the stores cannot change */                                 \
        for (; first + W <= last; first += W) sgd_step_##name(&args, first, (MASK)-1, decays, momentum);          \
        if (first < last) sgd_step_##name(&args, first, (MASK)((1u << (last - first)) - 1), decays, momentum);    \
    }                                                                                                             \
    static void sgd_##name(const gd_optim_args *a, int64_t first, int64_t last) {                                 \
        const bool decays = a->weight_decay != 0;                                                                 \
        if (a->sgd_momentum != 0) sgd_loop_##name(a, first, last, decays, true);                                  \
        else sgd_loop_##name(a, first, last, decays, false);                                                      \
    }                                                                                                             \
    INLINE void adam_loop_##name(const gd_optim_args *a, int64_t first, int64_t last, bool decoupled, bool decays) { \
        const T weight = (T)(1 - a->beta1);                                                                       \
        const bool near_mean = weight < (T)0.5; /* lerp starts at the nearer end */                               \
        const V sign = _mm512_set1_##S(a->maximize ? (T)-0.0 : (T)0), decay = _mm512_set1_##S((T)a->weight_decay); \
        const V shrink = _mm512_set1_##S((T)(1 - a->lr * a->weight_decay)), eps = _mm512_set1_##S((T)a->eps);     \
        const V slope = _mm512_set1_##S(near_mean ? weight : weight - 1);                                         \
        const V beta2 = _mm512_set1_##S((T)a->beta2), fresh = _mm512_set1_##S((T)(1 - a->beta2));                 \
        const V step = _mm512_set1_##S((T)-(a->lr / a->bias_correction1));                                        \
        const V correction = _mm512_set1_##S((T)__builtin_sqrt(a->bias_correction2));                             \
        const T *grad = a->grad;                                                                                  \
        T *param = a->param, *mean = a->exp_avg, *square = a->exp_avg_sq, *largest = a->max_exp_avg_sq;           \
        for (int64_t k = first; k < last; k += W) {                                                               \
            const MASK mask = last - k >= W ? (MASK)-1 : (MASK)((1u << (last - k)) - 1);                          \
            V p = _mm512_maskz_loadu_##S(mask, param + k), old = _mm512_maskz_loadu_##S(mask, mean + k);          \
            V g = _mm512_xor_##S(_mm512_maskz_loadu_##S(mask, grad + k), sign);                                   \
            if (decays && decoupled) p = _mm512_mul_##S(p, shrink);                                               \
            if (decays && !decoupled) g = _mm512_fmadd_##S(decay, p, g);                                          \
            const V m = _mm512_fmadd_##S(slope, _mm512_sub_##S(g, old), near_mean ? old : g);                     \
            V v = _mm512_mul_##S(_mm512_maskz_loadu_##S(mask, square + k), beta2);                                \
            v = _mm512_add_##S(v, _mm512_mul_##S(_mm512_mul_##S(fresh, g), g));                                   \
            _mm512_mask_storeu_##S(mean + k, mask, m);                                                            \
            _mm512_mask_storeu_##S(square + k, mask, v);                                                          \
            if (largest) {                                                                                        \
                const V most = _mm512_max_##S(v, _mm512_maskz_loadu_##S(mask, largest + k));                      \
                v = _mm512_mask_mov_##S(most, _mm512_cmp_##S##_mask(v, v, _CMP_UNORD_Q), v);                      \
                _mm512_mask_storeu_##S(largest + k, mask, v);                                                     \
            }                                                                                                     \
            const V denominator = _mm512_add_##S(_mm512_div_##S(_mm512_sqrt_##S(v), correction), eps);            \
            const V update = _mm512_div_##S(_mm512_mul_##S(step, m), denominator);                                \
            _mm512_mask_storeu_##S(param + k, mask, _mm512_add_##S(p, update));                                   \
        }                                                                                                         \
    }                                                                                                             \
    static void adam_##name(const gd_optim_args *a, int64_t first, int64_t last) {                                \
        if (a->weight_decay == 0) adam_loop_##name(a, first, last, false, false);                                 \
        else if (a->decoupled_decay) adam_loop_##name(a, first, last, true, true);                                \
        else adam_loop_##name(a, first, last, false, true);                                                       \
    }
DEFINE_OPTIM(f32, float, __m512, 16, ps, __mmask16)
DEFINE_OPTIM(f64, double, __m512d, 8, pd, __mmask8)

void gd_sgd_avx512(const gd_optim_args *a) { gd_optim_all(a, a->dtype == GD_FLOAT32 ? sgd_f32 : sgd_f64); }
void gd_adam_avx512(const gd_optim_args *a) { gd_optim_all(a, a->dtype == GD_FLOAT32 ? adam_f32 : adam_f64); }
