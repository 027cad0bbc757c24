/* rnn_driver.h - LSTM forward and backward over time, for every ISA and dtype.
 * Rows of the batch are independent: a block of GD_RNN_ROWS goes through all its steps as one task,
 * without waiting for others, its state and the packed weights in cache.
 *
 * The includer defines, for rows of h units (gates: 4 h in order i f g o):
 *   gates_forward(dtype, h, gates, c, hidden, cell_out, y_out)
 *       gates: pre-activations in, activations out; c: state in and out; hidden, cell_out, y_out: new h, c, h
 *   gates_backward(dtype, h, gates, cell, c_before, dy, dh, dc, dgates)
 *       dh + dy and dc are gradients of h and c after the step; dgates of the pre-activations; dc then
 *       belongs to c before the step. */
#include <string.h>

#include "../gemm.h"
#include "../rnn.h"
#include "../thread.h"

/* Below this many multiply-adds in all, waking other threads costs more than they save. */
static const int64_t rnn_parallel = 1 << 18;

/* A tensor by step, row and unit; strides in bytes. data may be NULL: absent. */
typedef struct series {
    char *data;
    int64_t t, b, unit;
} series;

/* (T,B,.) or, batch_first, (B,T,.) */
static series series_of(const gd_view *v, bool batch_first) {
    if (!v) return (series){0};
    const int64_t esize = gd_dtype_bytes(v->dtype), outer = v->strides[1] * esize, inner = v->strides[2] * esize;
    return (series){v->data, batch_first ? inner : outer, batch_first ? outer : inner, v->strides[3] * esize};
}

/* (B,.) */
static series state_of(const gd_view *v) {
    if (!v) return (series){0};
    const int64_t esize = gd_dtype_bytes(v->dtype);
    return (series){v->data, 0, v->strides[2] * esize, v->strides[3] * esize};
}

static inline char *row(const series *s, int64_t t, int64_t b) {
    return s->data + t * s->t + b * s->b;
}

/* dst (n, contiguous) = that row, or 0 where the tensor is absent. */
static void load_row(char *dst, const series *s, int64_t t, int64_t b, int64_t n, int64_t esize) {
    const size_t bytes = (size_t)(n * esize);
    if (n == 0) return;
    if (!s->data) {
        memset(dst, 0, bytes);
        return;
    }
    const char *src = row(s, t, b);
    if (s->unit == esize) {
        memcpy(dst, src, bytes);
        return;
    }
    for (int64_t i = 0; i < n; i++) memcpy(dst + i * esize, src + i * s->unit, (size_t)esize);
}

static inline void clear_row(char *dst, int64_t n, int64_t esize) {
    if (n > 0) memset(dst, 0, (size_t)(n * esize));
}

/* Steps of one call and who is awake when: a row with `length` real steps computes at t < length. */
typedef struct steps {
    int64_t T, B, H, esize;
    const int64_t *lengths;
    int64_t lengths_stride;
    uint8_t dtype;
    bool reverse;
} steps;

static inline int64_t length_of(const steps *s, int64_t b) {
    return s->lengths ? s->lengths[b * s->lengths_stride] : s->T;
}

/* The first run of rows from *b on, below end, that compute at step t: [*b, result). */
static int64_t run_of_rows(const steps *s, int64_t t, int64_t *b, int64_t end) {
    while (*b < end && length_of(s, *b) <= t) ++*b;
    int64_t last = *b;
    while (last < end && length_of(s, last) > t) last++;
    return last;
}

static steps steps_of(const gd_args *a, const gd_view *any_series, const gd_view *lengths) {
    const bool batch_first = a->attr->i[1] != 0;
    return (steps){.T = any_series->shape[batch_first ? 2 : 1], .B = any_series->shape[batch_first ? 1 : 2],
                   .lengths = lengths ? lengths->data : NULL, .lengths_stride = lengths ? lengths->strides[3] : 0,
                   .esize = gd_dtype_bytes(any_series->dtype), .dtype = any_series->dtype, .reverse = a->attr->i[0] != 0};
}

/* All rows in blocks, on other threads too if the whole is worth it. */
static void run_blocks(const steps *s, int64_t inputs, void (*task)(void *, int64_t, int), void *ctx) {
    int64_t blocks = (s->B + GD_RNN_ROWS - 1) / GD_RNN_ROWS;
    if ((double)s->T * (double)s->B * 4.0 * (double)s->H * (double)(s->H + inputs) > (double)rnn_parallel) {
        gd_parallel(blocks, task, ctx);
        return;
    }
    for (int64_t i = 0; i < blocks; i++) task(ctx, i, 0);
}

/* ---- forward --------------------------------------------------------------------------------- */

typedef struct lstm {
    steps s;
    series x, h0, c0, y, h_n, c_n, gates, cells;
    int64_t I;
    char *bias, *w_ih, *w_hh, *state; /* workspace: summed biases, packed weights, workers' states */
} lstm;

#define DEFINE_SUM_BIAS(T, name)                                                        \
    static void name(T *out, int64_t n, const gd_view *a, const gd_view *b) {           \
        for (int64_t i = 0; i < n; i++) {                                               \
            T x = a ? ((const T *)a->data)[i * a->strides[3]] : 0;                      \
            out[i] = b ? x + ((const T *)b->data)[i * b->strides[3]] : x;               \
        }                                                                               \
    }
DEFINE_SUM_BIAS(float, sum_bias_f32)
DEFINE_SUM_BIAS(double, sum_bias_f64)

/* gates of all real steps of row b = bias + x w_ih^T. By row, not by step: each panel of the weights
 * is then used for T rows while it is in L1. */
static void project_row(const lstm *q, int64_t b) {
    if (length_of(&q->s, b) == 0) return;
    const int64_t e = q->s.esize;
    gd_gemm_args g = {.m = length_of(&q->s, b), .n = 4 * q->s.H, .k = q->I, .dtype = q->s.dtype, .bias = q->bias,
                      .a = row(&q->x, 0, b), .a_rs = q->x.t / e, .a_cs = q->x.unit / e,
                      .c = row(&q->gates, 0, b), .c_rs = q->gates.t / e};
    GD_KERNEL(gemm_packed)(&g, q->w_ih);
}

static void lstm_task(void *ctx, int64_t task, int worker) {
    const lstm *q = ctx;
    const steps *s = &q->s;
    const int64_t H = s->H, e = s->esize, b0 = task * GD_RNN_ROWS, b1 = b0 + GD_RNN_ROWS < s->B ? b0 + GD_RNN_ROWS : s->B;
    char *h = q->state + worker * gd_lstm_state_bytes(H, s->dtype), *c = h + GD_RNN_ROWS * H * e;
    for (int64_t b = b0; b < b1; b++) {
        project_row(q, b);
        load_row(h + (b - b0) * H * e, &q->h0, 0, b, H, e);
        load_row(c + (b - b0) * H * e, &q->c0, 0, b, H, e);
        for (int64_t t = length_of(s, b); t < s->T; t++) {
            clear_row(row(&q->y, t, b), H, e);
            clear_row(row(&q->cells, t, b), H, e);
            clear_row(row(&q->gates, t, b), 4 * H, e);
        }
    }
    for (int64_t step = 0; step < s->T; step++) {
        const int64_t t = s->reverse ? s->T - 1 - step : step;
        for (int64_t b = b0, end; b < b1; b = end) {
            end = run_of_rows(s, t, &b, b1);
            gd_gemm_args g = {.m = end - b, .n = 4 * H, .k = H, .a = h + (b - b0) * H * e, .a_rs = H, .a_cs = 1, .accumulate = true,
                              .c = row(&q->gates, t, b), .c_rs = q->gates.b / e, .dtype = s->dtype};
            GD_KERNEL(gemm_packed)(&g, q->w_hh);
            for (int64_t r = b; r < end; r++) {
                gates_forward(s->dtype, H, row(&q->gates, t, r), c + (r - b0) * H * e, h + (r - b0) * H * e, row(&q->cells, t, r),
                              row(&q->y, t, r));
            }
        }
    }
    for (int64_t b = b0; b < b1 && H > 0; b++) {
        memcpy(row(&q->h_n, 0, b), h + (b - b0) * H * e, (size_t)(H * e));
        memcpy(row(&q->c_n, 0, b), c + (b - b0) * H * e, (size_t)(H * e));
    }
}

static void lstm_forward(const gd_args *a) {
    const gd_view *const *in = a->in, *x = in[0], *w_ih = in[3], *w_hh = in[4];
    const bool batch_first = a->attr->i[1] != 0;
    const int64_t H = w_hh->shape[3], I = w_ih->shape[3];
    const int dtype = x->dtype;
    lstm q = {.s = steps_of(a, x, in[7]), .I = I, .x = series_of(x, batch_first), .h0 = state_of(in[1]), .c0 = state_of(in[2]),
              .y = series_of(a->out[0], batch_first), .h_n = state_of(a->out[1]), .c_n = state_of(a->out[2]),
              .gates = series_of(a->out[3], batch_first), .cells = series_of(a->out[4], batch_first)};
    q.s.H = H;
    q.bias = a->workspace;
    q.w_ih = q.bias + gd_rnn_align(4 * H * q.s.esize);
    q.w_hh = q.w_ih + gd_rnn_align(gd_gemm_packed_bytes(I, 4 * H, dtype));
    q.state = q.w_hh + gd_rnn_align(gd_gemm_packed_bytes(H, 4 * H, dtype));
    if (dtype == GD_FLOAT32) sum_bias_f32((float *)q.bias, 4 * H, in[5], in[6]);
    else sum_bias_f64((double *)q.bias, 4 * H, in[5], in[6]);
    GD_KERNEL(gemm_pack)(dtype, I, 4 * H, w_ih->data, w_ih->strides[3], w_ih->strides[2], q.w_ih);
    GD_KERNEL(gemm_pack)(dtype, H, 4 * H, w_hh->data, w_hh->strides[3], w_hh->strides[2], q.w_hh);
    run_blocks(&q.s, I, lstm_task, &q);
}

/* ---- backward -------------------------------------------------------------------------------- */

typedef struct lstm_bwd {
    steps s;
    series dy, dh_n, dc_n, gates, cells, y, h0, c0, dgates, hprev, dh0, dc0;
    char *w_hh, *state; /* workspace */
} lstm_bwd;

/* The step before t of row b in the direction of time, or -1 if t is its first. */
static inline int64_t before(const steps *s, int64_t t, int64_t b) {
    if (!s->reverse) return t - 1;
    return t + 1 < length_of(s, b) ? t + 1 : -1;
}

static void lstm_bwd_task(void *ctx, int64_t task, int worker) {
    const lstm_bwd *q = ctx;
    const steps *s = &q->s;
    const int64_t H = s->H, e = s->esize, b0 = task * GD_RNN_ROWS, b1 = b0 + GD_RNN_ROWS < s->B ? b0 + GD_RNN_ROWS : s->B;
    char *dh = q->state + worker * gd_lstm_bwd_state_bytes(H, s->dtype), *dc = dh + GD_RNN_ROWS * H * e;
    char *c0 = dc + GD_RNN_ROWS * H * e, *dy_row = c0 + GD_RNN_ROWS * H * e;
    const bool dy_in_place = q->dy.data && q->dy.unit == e;
    if (!q->dy.data) clear_row(dy_row, H, e);
    for (int64_t b = b0; b < b1; b++) {
        load_row(dh + (b - b0) * H * e, &q->dh_n, 0, b, H, e);
        load_row(dc + (b - b0) * H * e, &q->dc_n, 0, b, H, e);
        load_row(c0 + (b - b0) * H * e, &q->c0, 0, b, H, e);
        for (int64_t t = length_of(s, b); t < s->T; t++) {
            clear_row(row(&q->dgates, t, b), 4 * H, e);
            clear_row(row(&q->hprev, t, b), H, e);
        }
    }
    for (int64_t step = 0; step < s->T; step++) {
        const int64_t t = s->reverse ? step : s->T - 1 - step;
        for (int64_t b = b0, end; b < b1; b = end) {
            end = run_of_rows(s, t, &b, b1);
            for (int64_t r = b; r < end; r++) {
                const int64_t t0 = before(s, t, r), offset = (r - b0) * H * e;
                const char *dy = dy_in_place ? row(&q->dy, t, r) : dy_row;
                if (q->dy.data && !dy_in_place) load_row(dy_row, &q->dy, t, r, H, e);
                load_row(row(&q->hprev, t, r), t0 < 0 ? &q->h0 : &q->y, t0 < 0 ? 0 : t0, r, H, e);
                gates_backward(s->dtype, H, row(&q->gates, t, r), row(&q->cells, t, r), t0 < 0 ? c0 + offset : row(&q->cells, t0, r),
                               dy, dh + offset, dc + offset, row(&q->dgates, t, r));
            }
            gd_gemm_args g = {.m = end - b, .n = H, .k = 4 * H, .a = row(&q->dgates, t, b), .a_rs = q->dgates.b / e, .a_cs = 1,
                              .c = dh + (b - b0) * H * e, .c_rs = H, .dtype = s->dtype};
            GD_KERNEL(gemm_packed)(&g, q->w_hh);
        }
    }
    for (int64_t b = b0; b < b1 && H > 0; b++) {
        memcpy(row(&q->dh0, 0, b), dh + (b - b0) * H * e, (size_t)(H * e));
        memcpy(row(&q->dc0, 0, b), dc + (b - b0) * H * e, (size_t)(H * e));
    }
}

static void lstm_backward(const gd_args *a) {
    const gd_view *const *in = a->in, *w_hh = in[3];
    const bool batch_first = a->attr->i[1] != 0;
    const int64_t H = w_hh->shape[3];
    lstm_bwd q = {.s = steps_of(a, in[4], in[9]), .dy = series_of(in[0], batch_first), .dh_n = state_of(in[1]), .dc_n = state_of(in[2]),
                  .gates = series_of(in[4], batch_first), .cells = series_of(in[5], batch_first), .y = series_of(in[6], batch_first),
                  .h0 = state_of(in[7]), .c0 = state_of(in[8]), .dgates = series_of(a->out[0], batch_first),
                  .hprev = series_of(a->out[1], batch_first), .dh0 = state_of(a->out[2]), .dc0 = state_of(a->out[3])};
    q.s.H = H;
    q.w_hh = a->workspace;
    q.state = q.w_hh + gd_rnn_align(gd_gemm_packed_bytes(4 * H, H, w_hh->dtype));
    GD_KERNEL(gemm_pack)(w_hh->dtype, 4 * H, H, w_hh->data, w_hh->strides[2], w_hh->strides[3], q.w_hh);
    run_blocks(&q.s, 0, lstm_bwd_task, &q);
}
