/* rnn.c - LSTM: gates of one row in plain C; the rest is in rnn_driver.h.
 * c' = f c + i g, h' = o tanh(c'), gates in order i f g o (PyTorch's). */
#include "../kernel.h"
#include "../scalar.h"

#define DEFINE_GATES(T, s)                                                                                               \
    static void gates_forward_##s(int64_t h, T *restrict gates, T *restrict c, T *restrict hidden, T *restrict cell_out,  \
                                  T *restrict y_out) {                                                                   \
        for (int64_t j = 0; j < h; j++) {                                                                                \
            const T i = gd_sigmoid_##s(gates[j]), f = gd_sigmoid_##s(gates[h + j]);                                      \
            const T g = gd_tanh_##s(gates[2 * h + j]), o = gd_sigmoid_##s(gates[3 * h + j]);                             \
            const T cell = GD_FMA(f, c[j], i * g), y = o * gd_tanh_##s(cell);                                            \
            gates[j] = i;                                                                                                \
            gates[h + j] = f;                                                                                            \
            gates[2 * h + j] = g;                                                                                        \
            gates[3 * h + j] = o;                                                                                        \
            c[j] = cell_out[j] = cell;                                                                                   \
            hidden[j] = y_out[j] = y;                                                                                    \
        }                                                                                                                \
    }                                                                                                                    \
    /* A gradient of 0 stays 0, whatever the slope. */                                                                   \
    static inline T chain_##s(T gradient, T slope) {                                                                     \
        return gradient == 0 ? 0 : gradient * slope;                                                                     \
    }                                                                                                                    \
    static void gates_backward_##s(int64_t h, const T *restrict gates, const T *restrict cell, const T *restrict c_before, \
                                   const T *restrict dy, const T *restrict dh, T *restrict dc, T *restrict dgates) {     \
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
    }
DEFINE_GATES(float, f32)
DEFINE_GATES(double, f64)

static void gates_forward(int dtype, int64_t h, void *gates, void *c, void *hidden, void *cell_out, void *y_out) {
    if (dtype == GD_FLOAT32) gates_forward_f32(h, gates, c, hidden, cell_out, y_out);
    else gates_forward_f64(h, gates, c, hidden, cell_out, y_out);
}

static void gates_backward(int dtype, int64_t h, const void *gates, const void *cell, const void *c_before, const void *dy,
                           const void *dh, void *dc, void *dgates) {
    if (dtype == GD_FLOAT32) gates_backward_f32(h, gates, cell, c_before, dy, dh, dc, dgates);
    else gates_backward_f64(h, gates, cell, c_before, dy, dh, dc, dgates);
}

#include "rnn_driver.h"

void GD_KERNEL(lstm)(const gd_args *args) {
    lstm_forward(args);
}

void GD_KERNEL(lstm_bwd)(const gd_args *args) {
    lstm_backward(args);
}
