/* rnn.c - LSTM: the gates of one step in plain C; the rest is in rnn_driver.h.
 * c' = f c + i g, h' = o tanh(c'), gates in order i f g o (PyTorch's). */
#include "../kernel.h"
#include "../scalar.h"
#include "rnn_driver.h"

#define DEFINE_GATES(T, s)                                                                                               \
    static void cells_##s(int64_t n, int64_t h, const T *restrict pre, const T *restrict c_before, T *restrict gates,    \
                          T *restrict cell_out, T *restrict y) {                                                         \
        for (int64_t j = 0; j < n; j++) {                                                                                \
            const T i = gd_sigmoid_##s(pre[j]), f = gd_sigmoid_##s(pre[n + j]);                                          \
            const T g = gd_tanh_##s(pre[2 * n + j]), o = gd_sigmoid_##s(pre[3 * n + j]);                                 \
            const T cell = GD_FMA(f, c_before[j], i * g);                                                                \
            gates[j] = i;                                                                                                \
            gates[h + j] = f;                                                                                            \
            gates[2 * h + j] = g;                                                                                        \
            gates[3 * h + j] = o;                                                                                        \
            cell_out[j] = cell;                                                                                          \
            y[j] = o * gd_tanh_##s(cell);                                                                                \
        }                                                                                                                \
    }                                                                                                                    \
    /* A gradient of 0 stays 0, whatever the slope. */                                                                   \
    static inline T chain_##s(T gradient, T slope) {                                                                     \
        return gradient == 0 ? 0 : gradient * slope;                                                                     \
    }                                                                                                                    \
    static void slopes_##s(int64_t h, const T *restrict gates, const T *restrict cell, const T *restrict c_before,       \
                           const T *restrict dy, const T *restrict dh, T *restrict dc, T *restrict dgates) {             \
        for (int64_t j = 0; j < h; j++) {                                                                                \
            const T i = gates[j], f = gates[h + j], g = gates[2 * h + j], o = gates[3 * h + j];                          \
            const T tanh_c = gd_tanh_##s(cell[j]), dhidden = dh[j] + dy[j];                                              \
            const T dcell = dc[j] + chain_##s(dhidden, o * GD_FMA(-tanh_c, tanh_c, (T)1));                               \
            dgates[j] = chain_##s(dcell, g * (i * (1 - i)));                                                             \
            dgates[h + j] = chain_##s(dcell, c_before[j] * (f * (1 - f)));                                               \
            dgates[2 * h + j] = chain_##s(dcell, i * GD_FMA(-g, g, (T)1));                                               \
            dgates[3 * h + j] = chain_##s(dhidden, tanh_c * (o * (1 - o)));                                              \
            dc[j] = chain_##s(dcell, f);                                                                                 \
        }                                                                                                                \
    }                                                                                                                    \
    static void gates_forward_##s(const cell_rows *r) {                                                                  \
        for (int64_t b = 0; b < r->rows; b++)                                                                            \
            cells_##s(r->units, r->hidden, (const T *)r->pre + b * GD_RNN_GATES, (const T *)r->c_before + b * r->c_before_rs, \
                      (T *)r->gates + b * r->gates_rs, (T *)r->cell + b * r->cell_rs, (T *)r->y + b * r->y_rs);          \
    }                                                                                                                    \
    static void gates_backward_##s(const slope_rows *r) {                                                                \
        for (int64_t b = 0; b < r->rows; b++)                                                                            \
            slopes_##s(r->hidden, (const T *)r->gates + b * r->gates_rs, (const T *)r->cell + b * r->cell_rs,            \
                       (const T *)r->c_before + b * r->c_before_rs, (const T *)r->dy + b * r->dy_rs,                     \
                       (const T *)r->dh + b * r->state_rs, (T *)r->dc + b * r->state_rs, (T *)r->dgates + b * r->dgates_rs); \
    }
DEFINE_GATES(float, f32)
DEFINE_GATES(double, f64)

static void gates_forward(int dtype, const cell_rows *r) {
    if (dtype == GD_FLOAT32) gates_forward_f32(r);
    else gates_forward_f64(r);
}

static void gates_backward(int dtype, const slope_rows *r) {
    if (dtype == GD_FLOAT32) gates_backward_f32(r);
    else gates_backward_f64(r);
}

void GD_KERNEL(lstm)(const gd_args *args) {
    lstm_forward(args);
}

void GD_KERNEL(lstm_bwd)(const gd_args *args) {
    lstm_backward(args);
}
