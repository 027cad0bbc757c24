/* gru.cu - one step of a GRU after its two products, and its gradients: r, z, n from the pre-activations of input and state in this
 * order (PyTorch's), the reset gate after the product: n = tanh(in + r hn), h' = n + z (h - n). A thread takes one hidden unit. */
#include "axes.cuh"
#include "formulas.cuh"

enum { THREADS = 256 };

/* A matrix (rows, units or three times as many). */
struct matrix {
    void *data;
    int64_t row, step;
    int dtype;
    template <class T> __device__ T at(int64_t b, int64_t j) const { return gd_load<T>(data, dtype, b * row + j * step); }
    template <class T> __device__ void put(int64_t b, int64_t j, T x) const { gd_store<T>(data, dtype, b * row + j * step, x); }
};
static matrix matrix_of(const gd_view *v) { return {v->data, v->strides[2], v->strides[3], v->dtype}; }

template <class T> __global__ void __launch_bounds__(THREADS) gru_step(matrix gi, matrix gh, matrix h, matrix y, matrix gates, int64_t rows, int64_t n) {
    const int64_t k = gd_thread_index(), b = k / n, j = k - b * n;
    if (b >= rows) return;
    const T r = gd_sigmoid_of(gi.at<T>(b, j) + gh.at<T>(b, j)), z = gd_sigmoid_of(gi.at<T>(b, n + j) + gh.at<T>(b, n + j));
    const T c = gd_tanh_of(gd_fused(r, gh.at<T>(b, 2 * n + j), gi.at<T>(b, 2 * n + j)));
    gates.put<T>(b, j, r);
    gates.put<T>(b, n + j, z);
    gates.put<T>(b, 2 * n + j, c);
    y.put<T>(b, j, gd_fused(z, h.at<T>(b, j) - c, c));
}

GD_CUDA_KERNEL(gru_cell) {
    const matrix gi = matrix_of(a->in[0]), gh = matrix_of(a->in[1]), h = matrix_of(a->in[2]), y = matrix_of(a->out[0]), gates = matrix_of(a->out[1]);
    const int64_t rows = a->in[2]->shape[2], n = a->in[2]->shape[3], blocks = gd_blocks(rows * n, THREADS);
    if (h.dtype == GD_FLOAT64) GD_LAUNCH((gru_step<double>), blocks, THREADS, 0, a->stream, gi, gh, h, y, gates, rows, n);
    else GD_LAUNCH((gru_step<float>), blocks, THREADS, 0, a->stream, gi, gh, h, y, gates, rows, n);
}

/* A gradient of 0 stays 0, whatever the slope. */
template <class T>
__global__ void __launch_bounds__(THREADS) gru_slopes(matrix g, matrix gates, matrix gh, matrix h, matrix dgi, matrix dgh, matrix dh, int64_t rows, int64_t n) {
    const int64_t k = gd_thread_index(), b = k / n, j = k - b * n;
    if (b >= rows) return;
    const T in = g.at<T>(b, j), r = gates.at<T>(b, j), z = gates.at<T>(b, n + j), c = gates.at<T>(b, 2 * n + j);
    const T dz = in == 0 ? 0 : in * ((h.at<T>(b, j) - c) * (z * (1 - z)));
    const T dc = in == 0 ? 0 : in * ((1 - z) * gd_fused(-c, c, (T)1));
    const T dr = dc == 0 ? 0 : dc * (gh.at<T>(b, 2 * n + j) * (r * (1 - r)));
    dgi.put<T>(b, j, dr), dgh.put<T>(b, j, dr);
    dgi.put<T>(b, n + j, dz), dgh.put<T>(b, n + j, dz);
    dgi.put<T>(b, 2 * n + j, dc), dgh.put<T>(b, 2 * n + j, dc * r);
    dh.put<T>(b, j, in == 0 ? 0 : in * z);
}

GD_CUDA_KERNEL(gru_cell_bwd) {
    const matrix g = matrix_of(a->in[0]), gates = matrix_of(a->in[1]), gh = matrix_of(a->in[2]), h = matrix_of(a->in[3]);
    const matrix dgi = matrix_of(a->out[0]), dgh = matrix_of(a->out[1]), dh = matrix_of(a->out[2]);
    const int64_t rows = a->in[3]->shape[2], n = a->in[3]->shape[3], blocks = gd_blocks(rows * n, THREADS);
    if (h.dtype == GD_FLOAT64) GD_LAUNCH((gru_slopes<double>), blocks, THREADS, 0, a->stream, g, gates, gh, h, dgi, dgh, dh, rows, n);
    else GD_LAUNCH((gru_slopes<float>), blocks, THREADS, 0, a->stream, g, gates, gh, h, dgi, dgh, dh, rows, n);
}
