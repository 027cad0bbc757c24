/* conv.cu - convolutions and their gradients as matrix products whose operands are gathered where they lie: no patches are stored.
 * The first operand has a row for each channel of the result, the second a column for each of its places; k runs over what is summed:
 *   forward          rows o       columns n, oh, ow     k c, kh, kw     w and x
 *   gradient of x    rows c       columns n, h, w       k o, kh, kw     w and g
 *   gradient of w    rows o       columns c, kh, kw     k n, oh, ow     g and x
 * Sums are cut into chunks along k, each from 0 over ascending k, which are added in order: a result does not depend on the others of
 * its batch. Only gradients of weights share the chunks of a result among blocks. */
#include "device.cuh"

enum { FORWARD, INPUT, WEIGHT };
enum {
    TILE = 64, STRIP = 16, PITCH = TILE + 4, SIDE = 16, N = TILE / SIDE, THREADS = SIDE * SIDE, LOADS = TILE * STRIP / THREADS,
    CHUNK = 512,         /* terms of a chunk at least, as in products */
    MANY_BLOCKS = 512,   /* of the gradient of weights: chunks become blocks' own where there would be fewer */
    MOST_PARTS = 256
};

/* Three sizes that an index runs over, the last one fastest. */
struct three {
    int64_t b, c;
    gd_divider by_b, by_c;
    bool small;
    __device__ void split(int64_t i, int64_t *at) const {
        if (small) {
            const uint32_t n = (uint32_t)i, q = gd_divide(n, by_c), r = gd_divide(q, by_b);
            at[0] = r, at[1] = q - r * (uint32_t)b, at[2] = n - q * (uint32_t)c;
            return;
        }
        const int64_t q = i / c;
        at[0] = q / b, at[1] = q - at[0] * b, at[2] = i - q * c;
    }
};
static three three_of(int64_t a, int64_t b, int64_t c) {
    three t = {b, c, {}, {}, a * b * c < (int64_t)1 << 31};
    t.by_b = gd_divider_by(t.small ? b : 1), t.by_c = gd_divider_by(t.small ? c : 1);
    return t;
}

struct conv_job {
    const void *x, *w, *g, *bias; /* x: the input; g: the gradient of the result */
    void *out;
    int64_t xs[4], ws[4], gs[4], bias_step;
    int64_t in[2], result[2], stride[2], pad[2], dilation[2]; /* height, width */
    int64_t groups, rows, columns, k;                         /* of a group */
    int64_t cin, cout;                                        /* channels of a group */
    int64_t tiles_m, tiles_n, chunk, chunks, parts;
    three column, term;
};

template <typename T, int PASS> __device__ gd_inside_t<T> first_operand(const conv_job &j, int64_t group, int64_t row, int64_t k) {
    int64_t at[3];
    j.term.split(k, at);
    if (PASS == FORWARD) return gd_wide(((const T *)j.w)[(group * j.cout + row) * j.ws[0] + at[0] * j.ws[1] + at[1] * j.ws[2] + at[2] * j.ws[3]]);
    if (PASS == INPUT) return gd_wide(((const T *)j.w)[(group * j.cout + at[0]) * j.ws[0] + row * j.ws[1] + at[1] * j.ws[2] + at[2] * j.ws[3]]);
    return gd_wide(((const T *)j.g)[at[0] * j.gs[0] + (group * j.cout + row) * j.gs[1] + at[1] * j.gs[2] + at[2] * j.gs[3]]);
}

/* `column`: split already. 0 where nothing of the picture is met. */
template <typename T, int PASS> __device__ gd_inside_t<T> second_operand(const conv_job &j, int64_t group, const int64_t *column, int64_t k) {
    int64_t at[3];
    j.term.split(k, at);
    if (PASS == INPUT) {
        const int64_t h = column[1] + j.pad[0] - at[1] * j.dilation[0], w = column[2] + j.pad[1] - at[2] * j.dilation[1];
        if (h < 0 || w < 0) return 0;
        const int64_t oh = h / j.stride[0], ow = w / j.stride[1];
        if (oh >= j.result[0] || ow >= j.result[1] || oh * j.stride[0] != h || ow * j.stride[1] != w) return 0;
        return gd_wide(((const T *)j.g)[column[0] * j.gs[0] + (group * j.cout + at[0]) * j.gs[1] + oh * j.gs[2] + ow * j.gs[3]]);
    }
    const int64_t *place = PASS == FORWARD ? column : at, *tap = PASS == FORWARD ? at : column; /* n, oh, ow; c, kh, kw */
    const int64_t h = place[1] * j.stride[0] + tap[1] * j.dilation[0] - j.pad[0], w = place[2] * j.stride[1] + tap[2] * j.dilation[1] - j.pad[1];
    if (h < 0 || w < 0 || h >= j.in[0] || w >= j.in[1]) return 0;
    return gd_wide(((const T *)j.x)[place[0] * j.xs[0] + (group * j.cin + tap[0]) * j.xs[1] + h * j.xs[2] + w * j.xs[3]]);
}

/* Where the result of a row and a column lies; it is contiguous. */
template <int PASS> __device__ int64_t result_at(const conv_job &j, int64_t group, int64_t row, const int64_t *column, int64_t index) {
    if (PASS == WEIGHT) return (group * j.rows + row) * j.columns + index;
    const int64_t *size = PASS == FORWARD ? j.result : j.in;
    return ((column[0] * j.groups * j.rows + group * j.rows + row) * size[0] + column[1]) * size[1] + column[2];
}

template <typename T, int PASS> __global__ void __launch_bounds__(THREADS, 1) conv_kernel(const conv_job j, gd_inside_t<T> *partial) {
    typedef gd_inside_t<T> I;
    GD_SHARED(I, as, STRIP, PITCH);
    GD_SHARED(I, bs, STRIP, PITCH);
    int64_t i = blockIdx.x;
    const int64_t row0 = i % j.tiles_m * TILE;
    i /= j.tiles_m;
    const int64_t column0 = i % j.tiles_n * TILE;
    i /= j.tiles_n;
    const int64_t part = i % j.parts, group = i / j.parts;
    const int t = (int)threadIdx.x, ty = t / SIDE, tx = t % SIDE;
    /* neighbouring threads read what lies side by side: along k, but for pictures, whose columns do */
    const bool by_column = PASS != WEIGHT;
    int64_t columns[LOADS][3];
GD_UNROLL
    for (int l = 0; l < LOADS; l++) {
        const int64_t c = column0 + (by_column ? t % TILE : t / STRIP + l * (THREADS / STRIP));
        j.column.split(c < j.columns ? c : 0, columns[l]);
    }
    I acc[N][N], sum[N][N];
GD_UNROLL
    for (int a = 0; a < N; a++)
GD_UNROLL
        for (int b = 0; b < N; b++) sum[a][b] = 0;
    for (int64_t chunk = j.parts > 1 ? part : 0; chunk < (j.parts > 1 ? part + 1 : j.chunks); chunk++) {
        const int64_t k_end = (chunk + 1) * j.chunk < j.k ? (chunk + 1) * j.chunk : j.k;
GD_UNROLL
        for (int a = 0; a < N; a++)
GD_UNROLL
            for (int b = 0; b < N; b++) acc[a][b] = 0;
        for (int64_t k0 = chunk * j.chunk; k0 < k_end; k0 += STRIP) {
            __syncthreads();
GD_UNROLL
            for (int l = 0; l < LOADS; l++) {
                const int a_line = t / STRIP + l * (THREADS / STRIP), a_k = t % STRIP;
                const int b_line = by_column ? t % TILE : a_line, b_k = by_column ? t / TILE + l * (THREADS / TILE) : a_k;
                as[a_k][a_line] = row0 + a_line < j.rows && k0 + a_k < k_end ? first_operand<T, PASS>(j, group, row0 + a_line, k0 + a_k) : (I)0;
                bs[b_k][b_line] = column0 + b_line < j.columns && k0 + b_k < k_end ? second_operand<T, PASS>(j, group, columns[l], k0 + b_k) : (I)0;
            }
            __syncthreads();
GD_UNROLL
            for (int k = 0; k < STRIP; k++) {
                I x[N], y[N];
GD_UNROLL
                for (int a = 0; a < N; a++) x[a] = as[k][ty * N + a], y[a] = bs[k][tx + SIDE * a];
GD_UNROLL
                for (int a = 0; a < N; a++)
GD_UNROLL
                    for (int b = 0; b < N; b++) acc[a][b] = fma(x[a], y[b], acc[a][b]);
            }
        }
GD_UNROLL
        for (int a = 0; a < N; a++)
GD_UNROLL
            for (int b = 0; b < N; b++) sum[a][b] += acc[a][b];
    }
GD_UNROLL
    for (int b = 0; b < N; b++) {
        const int64_t index = column0 + tx + SIDE * b;
        if (index >= j.columns) continue;
        int64_t column[3] = {0, 0, 0};
        if (PASS != WEIGHT) j.column.split(index, column);
GD_UNROLL
        for (int a = 0; a < N; a++) {
            const int64_t row = row0 + ty * N + a;
            if (row >= j.rows) continue;
            if (j.parts > 1) {
                partial[((part * j.groups + group) * j.rows + row) * j.columns + index] = sum[a][b];
            } else {
                const I bias = j.bias ? gd_wide(((const T *)j.bias)[(group * j.rows + row) * j.bias_step]) : (I)0;
                ((T *)j.out)[result_at<PASS>(j, group, row, column, index)] = gd_narrow<T>(sum[a][b] + bias);
            }
        }
    }
}

template <typename T> __global__ void __launch_bounds__(THREADS) conv_parts_kernel(const conv_job j, const gd_inside_t<T> *partial, int64_t all) {
    const int64_t i = gd_thread_index();
    if (i >= all) return;
    gd_inside_t<T> sum = 0;
    for (int64_t part = 0; part < j.parts; part++) sum += partial[part * all + i];
    ((T *)j.out)[i] = gd_narrow<T>(sum);
}

static void strides_of(int64_t *strides, const gd_view *v) {
    for (int d = 0; d < 4; d++) strides[d] = v->strides[d];
}

/* x, w, y: whose shapes say all. */
static conv_job job_of(const gd_args *a, int pass, const gd_view *x, const gd_view *w, const gd_view *y) {
    const int64_t *i = a->attr->i;
    conv_job j = {};
    for (int d = 0; d < 2; d++) j.stride[d] = i[d], j.pad[d] = i[2 + d], j.dilation[d] = i[4 + d], j.in[d] = x->shape[2 + d], j.result[d] = y->shape[2 + d];
    j.groups = i[6];
    j.cin = w->shape[1], j.cout = w->shape[0] / j.groups;
    const int64_t images = x->shape[0], kh = w->shape[2], kw = w->shape[3];
    const int64_t places = images * j.result[0] * j.result[1], taps = kh * kw;
    j.rows = pass == INPUT ? j.cin : j.cout;
    j.columns = pass == FORWARD ? places : pass == INPUT ? images * j.in[0] * j.in[1] : j.cin * taps;
    j.k = pass == FORWARD ? j.cin * taps : pass == INPUT ? j.cout * taps : places;
    j.column = pass == FORWARD ? three_of(images, j.result[0], j.result[1]) : pass == INPUT ? three_of(images, j.in[0], j.in[1]) : three_of(j.cin, kh, kw);
    j.term = pass == WEIGHT ? three_of(images, j.result[0], j.result[1]) : three_of(pass == INPUT ? j.cout : j.cin, kh, kw);
    j.tiles_m = gd_blocks(j.rows, TILE), j.tiles_n = gd_blocks(j.columns, TILE);
    j.chunk = CHUNK;
    if (pass == WEIGHT && j.k > (int64_t)CHUNK * MOST_PARTS) j.chunk = gd_blocks(j.k, (int64_t)CHUNK * MOST_PARTS) * CHUNK;
    j.chunks = gd_blocks(j.k, j.chunk);
    j.parts = pass == WEIGHT && j.chunks > 1 && j.tiles_m * j.tiles_n * j.groups < MANY_BLOCKS ? j.chunks : 1;
    j.out = a->out[0]->data;
    const gd_view *first = a->in[0], *second = a->in[1], *bias = a->nin > 2 ? a->in[2] : NULL;
    if (pass == FORWARD) j.x = first->data, strides_of(j.xs, first), j.w = second->data, strides_of(j.ws, second);
    if (pass == INPUT) j.g = first->data, strides_of(j.gs, first), j.w = second->data, strides_of(j.ws, second);
    if (pass == WEIGHT) j.g = first->data, strides_of(j.gs, first), j.x = second->data, strides_of(j.xs, second);
    if (bias) j.bias = bias->data, j.bias_step = bias->strides[3];
    return j;
}

template <int PASS> static void run(const conv_job &j, const gd_args *a) {
    const int64_t all = j.groups * j.rows * j.columns;
    if (all == 0) return;
    GD_DISPATCH_FLOATS(a->out[0]->dtype, T, {
        gd_inside_t<T> *partial = (gd_inside_t<T> *)a->workspace;
        GD_LAUNCH((conv_kernel<T, PASS>), j.tiles_m * j.tiles_n * j.parts * j.groups, THREADS, 0, a->stream, j, partial);
        if (j.parts > 1) GD_LAUNCH(conv_parts_kernel<T>, gd_blocks(all, THREADS), THREADS, 0, a->stream, j, (const gd_inside_t<T> *)partial, all);
    });
}

/* x (N,C,H,W), w (O,C/groups,KH,KW), bias (O)? -> (N,O,OH,OW) */
GD_CUDA_KERNEL(conv) { run<FORWARD>(job_of(a, FORWARD, a->in[0], a->in[1], a->out[0]), a); }

/* g (N,O,OH,OW), w, bias (C)? -> (N,C,H,W) */
GD_CUDA_KERNEL(conv_bwd_input) { run<INPUT>(job_of(a, INPUT, a->out[0], a->in[1], a->in[0]), a); }

/* g, x -> (O,C/groups,KH,KW) */
GD_CUDA_KERNEL(conv_bwd_weight) { run<WEIGHT>(job_of(a, WEIGHT, a->in[1], a->out[0], a->in[0]), a); }
GD_CUDA_WORKSPACE(conv_bwd_weight) {
    const conv_job j = job_of(a, WEIGHT, a->in[1], a->out[0], a->in[0]);
    return j.parts > 1 ? j.parts * j.groups * j.rows * j.columns * (a->out[0]->dtype == GD_FLOAT64 ? 8 : 4) : 0;
}
