/* rnn.cu - LSTM: one launch for a step of all rows, forward a warp for each hidden unit of a row, which sums the products of its four
 * gates. c' = f c + i g, h' = o tanh(c'), gates in order i f g o (PyTorch's). What goes from step to step is float32 or float64. */
#include "axes.cuh"
#include "formulas.cuh"

enum { THREADS = 256, UNITS = THREADS / GD_WARP };

/* A gradient of 0 stays 0, whatever the slope. */
template <class T> __device__ T chain(T gradient, T slope) { return gradient == 0 ? 0 : gradient * slope; }

/* (T,B,.) or, batch_first, (B,T,.); a matrix is one step. data NULL: zeros. */
struct series {
    void *data;
    int64_t t, b, unit;
    int dtype;
    template <class T> __device__ T at(int64_t i, int64_t row, int64_t j) const { return data ? gd_load<T>(data, dtype, i * t + row * b + j * unit) : (T)0; }
    template <class T> __device__ void put(int64_t i, int64_t row, int64_t j, T x) const { gd_store<T>(data, dtype, i * t + row * b + j * unit, x); }
};
static series series_of(const gd_view *v, bool batch_first) {
    if (!v) return {NULL, 0, 0, 0, GD_FLOAT32};
    return {v->data, v->strides[batch_first ? 2 : 1], v->strides[batch_first ? 1 : 2], v->strides[3], v->dtype};
}
static series matrix_of(const gd_view *v) {
    if (!v) return {NULL, 0, 0, 0, GD_FLOAT32};
    return {v->data, 0, v->strides[2], v->strides[3], v->dtype};
}

/* A row with `length` real steps computes at t < length. */
struct steps {
    int64_t T, B, H, I;
    const int64_t *lengths;
    int64_t length_step;
    bool reverse;
    __device__ int64_t length(int64_t b) const { return lengths && lengths[b * length_step] < T ? lengths[b * length_step] : T; }
    __device__ bool is_first(int64_t t, int64_t b) const { return t == (reverse ? length(b) - 1 : 0); }
    __device__ int64_t before(int64_t t) const { return reverse ? t + 1 : t - 1; }
};

static steps steps_of(const gd_args *a, const gd_view *any, const gd_view *lengths, int64_t hidden, int64_t inputs) {
    const bool batch_first = a->attr->i[1] != 0;
    return {any->shape[batch_first ? 2 : 1], any->shape[batch_first ? 1 : 2], hidden, inputs, lengths ? (const int64_t *)lengths->data : NULL,
            lengths ? lengths->strides[3] : 0, a->attr->i[0] != 0};
}

/* Copies between a matrix (B, H) and a state, which is contiguous. */
template <class T> __global__ void __launch_bounds__(THREADS) state_from(series from, T *state, int64_t rows, int64_t n) {
    const int64_t k = gd_thread_index();
    if (k < rows * n) state[k] = from.at<T>(0, k / n, k % n);
}
template <class T> __global__ void __launch_bounds__(THREADS) state_to(const T *state, series to, int64_t rows, int64_t n) {
    const int64_t k = gd_thread_index();
    if (k < rows * n) to.put<T>(0, k / n, k % n, state[k]);
}

struct weights { series w_ih, w_hh, b_ih, b_hh; };
struct results { series y, gates, cells; };

template <class T>
__global__ void __launch_bounds__(THREADS) lstm_step(steps s, int64_t t, series x, weights w, const T *h, T *h_next, T *c, results out) {
    const int lane = threadIdx.x % GD_WARP;
    const int64_t k = (int64_t)blockIdx.x * UNITS + threadIdx.x / GD_WARP, b = k / s.H, j = k - b * s.H;
    if (b >= s.B) return;
    if (t >= s.length(b)) {
        if (lane != 0) return;
        h_next[k] = h[k];
        out.y.put<T>(t, b, j, 0);
        out.cells.put<T>(t, b, j, 0);
        for (int g = 0; g < 4; g++) out.gates.put<T>(t, b, g * s.H + j, 0);
        return;
    }
    T pre[4] = {0, 0, 0, 0};
    for (int64_t i = lane; i < s.I; i += GD_WARP) {
        const T v = x.at<T>(t, b, i);
        for (int g = 0; g < 4; g++) pre[g] = gd_fused(v, w.w_ih.at<T>(0, g * s.H + j, i), pre[g]);
    }
    for (int64_t i = lane; i < s.H; i += GD_WARP) {
        const T v = h[b * s.H + i];
        for (int g = 0; g < 4; g++) pre[g] = gd_fused(v, w.w_hh.at<T>(0, g * s.H + j, i), pre[g]);
    }
    for (int g = 0; g < 4; g++) pre[g] = gd_warp_sum(pre[g]) + (w.b_ih.at<T>(0, 0, g * s.H + j) + w.b_hh.at<T>(0, 0, g * s.H + j));
    if (lane != 0) return;
    const T gate[4] = {gd_sigmoid_of(pre[0]), gd_sigmoid_of(pre[1]), gd_tanh_of(pre[2]), gd_sigmoid_of(pre[3])};
    const T cell = gd_fused(gate[1], c[k], gate[0] * gate[2]), y = gate[3] * gd_tanh_of(cell);
    c[k] = cell;
    h_next[k] = y;
    out.cells.put<T>(t, b, j, cell);
    out.y.put<T>(t, b, j, y);
    for (int g = 0; g < 4; g++) out.gates.put<T>(t, b, g * s.H + j, gate[g]);
}

template <class T> static void forward(const gd_args *a) {
    const gd_view *const *in = a->in;
    const bool batch_first = a->attr->i[1] != 0;
    const steps s = steps_of(a, in[0], in[7], in[4]->shape[3], in[0]->shape[3]);
    const weights w = {matrix_of(in[3]), matrix_of(in[4]), matrix_of(in[5]), matrix_of(in[6])};
    const results out = {series_of(a->out[0], batch_first), series_of(a->out[3], batch_first), series_of(a->out[4], batch_first)};
    const int64_t all = s.B * s.H, blocks = gd_blocks(all, THREADS);
    T *h = (T *)a->workspace, *h_next = h + all, *c = h_next + all;
    const series x = series_of(in[0], batch_first);
    GD_LAUNCH((state_from<T>), blocks, THREADS, 0, a->stream, matrix_of(in[1]), h, s.B, s.H);
    GD_LAUNCH((state_from<T>), blocks, THREADS, 0, a->stream, matrix_of(in[2]), c, s.B, s.H);
    for (int64_t step = 0; step < s.T && all > 0; step++) {
        const int64_t t = s.reverse ? s.T - 1 - step : step;
        GD_LAUNCH((lstm_step<T>), gd_blocks(all, UNITS), THREADS, 0, a->stream, s, t, x, w, h, h_next, c, out);
        std::swap(h, h_next);
    }
    GD_LAUNCH((state_to<T>), blocks, THREADS, 0, a->stream, h, matrix_of(a->out[1]), s.B, s.H);
    GD_LAUNCH((state_to<T>), blocks, THREADS, 0, a->stream, c, matrix_of(a->out[2]), s.B, s.H);
}
GD_CUDA_KERNEL(lstm) {
    if (a->in[0]->dtype == GD_FLOAT64) forward<double>(a);
    else forward<float>(a);
}
GD_CUDA_WORKSPACE(lstm) {
    const int64_t rows = a->in[0]->shape[a->attr->i[1] ? 1 : 2];
    return 3 * rows * a->in[4]->shape[3] * (int64_t)sizeof(double);
}

/* ---- Backward ----------------------------------------------------------------------------------------------------------------- */

struct given { series dy, gates, cells, y, h0, c0; };

/* dg (B, 4H): of the pre-activations of this step; dc becomes that of the cell before it. */
template <class T> __global__ void __launch_bounds__(THREADS) lstm_slopes(steps s, int64_t t, given v, const T *dh, T *dc, T *dg, series dgates, series hprev) {
    const int64_t k = gd_thread_index(), b = k / s.H, j = k - b * s.H, H = s.H;
    if (b >= s.B) return;
    T d[4] = {0, 0, 0, 0}, before = 0;
    if (t < s.length(b)) {
        const bool first = s.is_first(t, b);
        const T i = v.gates.at<T>(t, b, j), f = v.gates.at<T>(t, b, H + j), g = v.gates.at<T>(t, b, 2 * H + j), o = v.gates.at<T>(t, b, 3 * H + j);
        const T c_before = first ? v.c0.at<T>(0, b, j) : v.cells.at<T>(s.before(t), b, j), tanh_c = gd_tanh_of(v.cells.at<T>(t, b, j));
        const T dhidden = dh[k] + v.dy.at<T>(t, b, j), dcell = dc[k] + chain(dhidden, o * gd_fused(-tanh_c, tanh_c, (T)1));
        d[0] = chain(dcell, g * (i * (1 - i)));
        d[1] = chain(dcell, c_before * (f * (1 - f)));
        d[2] = chain(dcell, i * gd_fused(-g, g, (T)1));
        d[3] = chain(dhidden, tanh_c * (o * (1 - o)));
        dc[k] = chain(dcell, f);
        before = first ? v.h0.at<T>(0, b, j) : v.y.at<T>(s.before(t), b, j);
    }
    for (int gate = 0; gate < 4; gate++) {
        dg[4 * b * H + gate * H + j] = d[gate];
        dgates.put<T>(t, b, gate * H + j, d[gate]);
    }
    if (hprev.data) hprev.put<T>(t, b, j, before);
}

/* dh = dg w_hh, for the rows that compute at step t. */
template <class T> __global__ void __launch_bounds__(THREADS) lstm_back(steps s, int64_t t, const T *dg, series w_hh, T *dh) {
    const int64_t k = gd_thread_index(), b = k / s.H, j = k - b * s.H;
    if (b >= s.B || t >= s.length(b)) return;
    T sum = 0;
    for (int64_t r = 0; r < 4 * s.H; r++) sum = gd_fused(dg[4 * b * s.H + r], w_hh.at<T>(0, r, j), sum);
    dh[k] = sum;
}

template <class T> static void backward(const gd_args *a) {
    const gd_view *const *in = a->in;
    const bool batch_first = a->attr->i[1] != 0;
    const steps s = steps_of(a, in[4], in[9], in[3]->shape[3], 0);
    const given v = {series_of(in[0], batch_first), series_of(in[4], batch_first), series_of(in[5], batch_first), series_of(in[6], batch_first),
                     matrix_of(in[7]), matrix_of(in[8])};
    const series dgates = series_of(a->out[0], batch_first), hprev = series_of(a->attr->i[2] ? NULL : a->out[1], batch_first), w_hh = matrix_of(in[3]);
    const int64_t all = s.B * s.H, blocks = gd_blocks(all, THREADS);
    T *dh = (T *)a->workspace, *dc = dh + all, *dg = dc + all;
    GD_LAUNCH((state_from<T>), blocks, THREADS, 0, a->stream, matrix_of(in[1]), dh, s.B, s.H);
    GD_LAUNCH((state_from<T>), blocks, THREADS, 0, a->stream, matrix_of(in[2]), dc, s.B, s.H);
    for (int64_t step = 0; step < s.T && all > 0; step++) {
        const int64_t t = s.reverse ? step : s.T - 1 - step;
        GD_LAUNCH((lstm_slopes<T>), blocks, THREADS, 0, a->stream, s, t, v, dh, dc, dg, dgates, hprev);
        GD_LAUNCH((lstm_back<T>), blocks, THREADS, 0, a->stream, s, t, dg, w_hh, dh);
    }
    if (a->attr->i[3]) return;
    GD_LAUNCH((state_to<T>), blocks, THREADS, 0, a->stream, dh, matrix_of(a->out[2]), s.B, s.H);
    GD_LAUNCH((state_to<T>), blocks, THREADS, 0, a->stream, dc, matrix_of(a->out[3]), s.B, s.H);
}
GD_CUDA_KERNEL(lstm_bwd) {
    if (a->in[4]->dtype == GD_FLOAT64) backward<double>(a);
    else backward<float>(a);
}
GD_CUDA_WORKSPACE(lstm_bwd) {
    const int64_t rows = a->in[4]->shape[a->attr->i[1] ? 1 : 2];
    return 6 * rows * a->in[3]->shape[3] * (int64_t)sizeof(double);
}
