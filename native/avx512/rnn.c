/* rnn.c - LSTM: the gates of one step with AVX-512; the rest is in portable/rnn_driver.h.
 * c' = f c + i g, h' = o tanh(c'), gates in order i f g o (PyTorch's). */
#include <immintrin.h>

#include "../kernel.h"
#include "../portable/rnn_driver.h"
#include "vmath.h"

/* Gates need their functions to 2.6 ULP where the result is a normal number, but no exact -0 or
 * subnormals; so in float32 they are cheaper here than the ops sigmoid and tanh. NaN passes the limits. */

/* p * x + c, with a constant c. */
#define GATE_STEP(p, x, c) _mm512_fmadd_ps(p, x, _mm512_set1_ps(c))

/* 1 / (1 + exp(-x)): exp(-x) = 2^n exp(-t), t = x + n ln2. */
GD_VMATH __m512 gate_sigmoid_ps(__m512 x) {
    const __m512 one = _mm512_set1_ps(1.0f), round = _mm512_set1_ps(GD_ROUND_F32);
    x = _mm512_min_ps(_mm512_set1_ps(-GD_EXP_MIN_F32), _mm512_max_ps(_mm512_set1_ps(-GD_EXP_MAX_F32), x));
    const __m512 n = _mm512_sub_ps(_mm512_fnmadd_ps(x, _mm512_set1_ps(GD_LOG2E_F32), round), round);
    __m512 t = _mm512_fmadd_ps(n, _mm512_set1_ps(GD_LN2_HI_F32), x);
    t = _mm512_fmadd_ps(n, _mm512_set1_ps(GD_LN2_LO_F32), t);
    __m512 q = GATE_STEP(_mm512_set1_ps(GD_EXP_C4), t, -GD_EXP_C3);
    q = GATE_STEP(q, t, GD_EXP_C2);
    q = GATE_STEP(q, t, -GD_EXP_C1);
    q = GATE_STEP(q, t, GD_EXP_C0);
    q = _mm512_fmsub_ps(_mm512_mul_ps(t, t), q, t);
    const __m512 e = _mm512_scalef_ps(_mm512_add_ps(q, one), n);
    return _mm512_div_ps(one, _mm512_add_ps(one, e));
}

/* e / (e + 1), e = (exp(2x) - 1) / 2 = 2^n m + (2^n - 1) / 2, m = (exp(2t) - 1) / 2, t = x - n ln2 / 2:
 * nothing cancels, so small x need no formula of their own. */
GD_VMATH __m512 gate_tanh_ps(__m512 x) {
    const __m512 one = _mm512_set1_ps(1.0f), round = _mm512_set1_ps(GD_ROUND_F32), half = _mm512_set1_ps(0.5f);
    x = _mm512_min_ps(_mm512_set1_ps(10.0f), _mm512_max_ps(_mm512_set1_ps(-10.0f), x)); /* tanh is 1 before this */
    const __m512 n = _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(2 * GD_LOG2E_F32), round), round);
    __m512 t = _mm512_fnmadd_ps(n, _mm512_set1_ps(GD_LN2_HI_F32 / 2), x);
    t = _mm512_fnmadd_ps(n, _mm512_set1_ps(GD_LN2_LO_F32 / 2), t);
    __m512 q = GATE_STEP(_mm512_set1_ps(32 * GD_EXP_C4), t, 16 * GD_EXP_C3);
    q = GATE_STEP(q, t, 8 * GD_EXP_C2);
    q = GATE_STEP(q, t, 4 * GD_EXP_C1);
    q = GATE_STEP(q, t, 2 * GD_EXP_C0);
    const __m512 m = _mm512_fmadd_ps(_mm512_mul_ps(t, t), q, t), power = _mm512_scalef_ps(one, n);
    const __m512 e = _mm512_fmadd_ps(power, m, _mm512_fmsub_ps(power, half, half));
    return _mm512_div_ps(e, _mm512_add_ps(e, one));
}

#define gate_sigmoid_pd gd_sigmoid_pd512
#define gate_tanh_pd gd_tanh_pd512

/* ps/pd vectors of W lanes; n lanes of the last one are real. */
#define DEFINE_GATES(T, V, W, s, MASK)                                                                                     \
    static inline MASK lanes_##s(int64_t n) {                                                                              \
        return (MASK)(n >= W ? (1u << W) - 1 : (1u << n) - 1);                                                             \
    }                                                                                                                      \
    static void gates_forward_##s(const cell_rows *r) {                                                                    \
        const int64_t n = r->units, h = r->hidden;                                                                         \
        for (int64_t j = 0; j < n; j += W) {                                                                               \
            const MASK k = lanes_##s(n - j);                                                                               \
            const T *pre = (const T *)r->pre + j, *c_before = (const T *)r->c_before + j;                                  \
            T *gates = (T *)r->gates + j, *cell_out = (T *)r->cell + j, *y_out = (T *)r->y + j;                            \
            for (int64_t b = 0; b < r->rows; b++) {                                                                        \
                const V i = gate_sigmoid_##s(_mm512_maskz_loadu_##s(k, pre));                                              \
                const V f = gate_sigmoid_##s(_mm512_maskz_loadu_##s(k, pre + n));                                          \
                const V g = gate_tanh_##s(_mm512_maskz_loadu_##s(k, pre + 2 * n));                                         \
                const V o = gate_sigmoid_##s(_mm512_maskz_loadu_##s(k, pre + 3 * n));                                      \
                const V cell = _mm512_fmadd_##s(f, _mm512_maskz_loadu_##s(k, c_before), _mm512_mul_##s(i, g));             \
                _mm512_mask_storeu_##s(gates, k, i);                                                                       \
                _mm512_mask_storeu_##s(gates + h, k, f);                                                                   \
                _mm512_mask_storeu_##s(gates + 2 * h, k, g);                                                               \
                _mm512_mask_storeu_##s(gates + 3 * h, k, o);                                                               \
                _mm512_mask_storeu_##s(cell_out, k, cell);                                                                 \
                _mm512_mask_storeu_##s(y_out, k, _mm512_mul_##s(o, gate_tanh_##s(cell)));                                  \
                pre += GD_RNN_GATES;                                                                                       \
                c_before += r->c_before_rs;                                                                                \
                gates += r->gates_rs;                                                                                      \
                cell_out += r->cell_rs;                                                                                    \
                y_out += r->y_rs;                                                                                          \
            }                                                                                                              \
        }                                                                                                                  \
    }                                                                                                                      \
    /* A gradient of 0 stays 0, whatever the slope. */                                                                     \
    static inline V chain_##s(V gradient, V slope) {                                                                       \
        const MASK nonzero = _mm512_cmp_##s##_mask(gradient, _mm512_setzero_##s(), _CMP_NEQ_UQ);                           \
        return _mm512_maskz_mul_##s(nonzero, gradient, slope);                                                             \
    }                                                                                                                      \
    /* x (1 - x) */                                                                                                        \
    static inline V slope_##s(V x) {                                                                                       \
        return _mm512_mul_##s(x, _mm512_sub_##s(_mm512_set1_##s(1), x));                                                   \
    }                                                                                                                      \
    static void slopes_##s(int64_t h, const T *gates, const T *cell, const T *c_before, const T *dy, const T *dh, T *dc, T *dgates) { \
        const V one = _mm512_set1_##s(1);                                                                                  \
        for (int64_t j = 0; j < h; j += W) {                                                                               \
            const MASK k = lanes_##s(h - j);                                                                               \
            const T *at = gates + j;                                                                                       \
            T *to = dgates + j;                                                                                            \
            const V i = _mm512_maskz_loadu_##s(k, at), f = _mm512_maskz_loadu_##s(k, at + h);                              \
            const V g = _mm512_maskz_loadu_##s(k, at + 2 * h), o = _mm512_maskz_loadu_##s(k, at + 3 * h);                  \
            const V tanh_c = gate_tanh_##s(_mm512_maskz_loadu_##s(k, cell + j));                                           \
            const V dhidden = _mm512_add_##s(_mm512_maskz_loadu_##s(k, dh + j), _mm512_maskz_loadu_##s(k, dy + j));        \
            const V through = chain_##s(dhidden, _mm512_mul_##s(o, _mm512_fnmadd_##s(tanh_c, tanh_c, one)));               \
            const V dcell = _mm512_add_##s(_mm512_maskz_loadu_##s(k, dc + j), through);                                    \
            const V before_cell = _mm512_maskz_loadu_##s(k, c_before + j);                                                 \
            _mm512_mask_storeu_##s(to, k, chain_##s(dcell, _mm512_mul_##s(g, slope_##s(i))));                              \
            _mm512_mask_storeu_##s(to + h, k, chain_##s(dcell, _mm512_mul_##s(before_cell, slope_##s(f))));                \
            _mm512_mask_storeu_##s(to + 2 * h, k, chain_##s(dcell, _mm512_mul_##s(i, _mm512_fnmadd_##s(g, g, one))));      \
            _mm512_mask_storeu_##s(to + 3 * h, k, chain_##s(dhidden, _mm512_mul_##s(tanh_c, slope_##s(o))));               \
            _mm512_mask_storeu_##s(dc + j, k, chain_##s(dcell, f));                                                        \
        }                                                                                                                  \
    }                                                                                                                      \
    static void gates_backward_##s(const slope_rows *r) {                                                                  \
        for (int64_t b = 0; b < r->rows; b++) {                                                                            \
            slopes_##s(r->hidden, (const T *)r->gates + b * r->gates_rs, (const T *)r->cell + b * r->cell_rs,              \
                       (const T *)r->c_before + b * r->c_before_rs, (const T *)r->dy + b * r->dy_rs,                       \
                       (const T *)r->dh + b * r->state_rs, (T *)r->dc + b * r->state_rs, (T *)r->dgates + b * r->dgates_rs); \
        }                                                                                                                  \
    }
DEFINE_GATES(float, __m512, 16, ps, __mmask16)
DEFINE_GATES(double, __m512d, 8, pd, __mmask8)

static void gates_forward(int dtype, const cell_rows *r) {
    if (dtype == GD_FLOAT32) gates_forward_ps(r);
    else gates_forward_pd(r);
}

static void gates_backward(int dtype, const slope_rows *r) {
    if (dtype == GD_FLOAT32) gates_backward_ps(r);
    else gates_backward_pd(r);
}

void gd_lstm_avx512(const gd_args *args) {
    lstm_forward(args);
}

void gd_lstm_bwd_avx512(const gd_args *args) {
    lstm_backward(args);
}
