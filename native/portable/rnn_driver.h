/* rnn_driver.h - LSTM forward and backward over time, for every ISA and dtype.
 * Rows of the batch are independent: a block of them goes through all its steps as one task, without
 * waiting for others. Within a step the pre-activations of a few units at a time stay in L1 between the
 * products and the gates, so that gates, cells and outputs are written once and nothing else is.
 *
 * The includer defines, on the two structures below,
 *   gates_forward(dtype, const cell_rows *)  and  gates_backward(dtype, const slope_rows *) */
#include <string.h>

#include "../gemm.h"
#include "../rnn.h"
#include "../thread.h"

/* Below this many multiply-adds in all, waking other threads costs more than they save. */
static const int64_t rnn_parallel = 1 << 18;

static inline int64_t rnn_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t rnn_blocks(int64_t n, int64_t size) {
    return (n + size - 1) / size;
}

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

static inline void clear_row(char *dst, int64_t n, int64_t esize) {
    if (n > 0) memset(dst, 0, (size_t)(n * esize));
}

/* dst (n, contiguous) = that row, or 0 where the tensor is absent. */
static void load_row(char *dst, const series *s, int64_t t, int64_t b, int64_t n, int64_t esize) {
    if (n == 0) return;
    if (!s->data) {
        clear_row(dst, n, esize);
        return;
    }
    const char *src = row(s, t, b);
    if (s->unit == esize) {
        memcpy(dst, src, (size_t)(n * esize));
        return;
    }
    for (int64_t i = 0; i < n; i++) memcpy(dst + i * esize, src + i * s->unit, (size_t)esize);
}

/* Steps of one call and who is awake when: a row with `length` real steps computes at t < length. */
typedef struct steps {
    int64_t T, B, H, esize, rows; /* rows: of a task */
    const int64_t *lengths;
    int64_t lengths_stride;
    uint8_t dtype;
    bool reverse;
} steps;

static inline int64_t length_of(const steps *s, int64_t b) {
    return s->lengths ? s->lengths[b * s->lengths_stride] : s->T;
}

/* Time runs from step 0 to the last real one, or back if reversed. */
static inline bool is_first(const steps *s, int64_t t, int64_t b) {
    return t == (s->reverse ? length_of(s, b) - 1 : 0);
}
static inline int64_t before(const steps *s, int64_t t) {
    return s->reverse ? t + 1 : t - 1;
}
static inline int64_t last_step(const steps *s, int64_t b) {
    return s->reverse ? 0 : length_of(s, b) - 1;
}

/* The first run of rows from *b on, below end, that compute at step t, all or none of them for the first
 * time: [*b, result). */
static int64_t run_of_rows(const steps *s, int64_t t, int64_t *b, int64_t end) {
    while (*b < end && length_of(s, *b) <= t) ++*b;
    int64_t last = *b;
    while (last < end && length_of(s, last) > t && is_first(s, t, last) == is_first(s, t, *b)) last++;
    return last;
}

static steps steps_of(const gd_args *a, const gd_view *any_series, const gd_view *lengths) {
    const bool batch_first = a->attr->i[1] != 0;
    return (steps){.T = any_series->shape[batch_first ? 2 : 1], .B = any_series->shape[batch_first ? 1 : 2],
                   .lengths = lengths ? lengths->data : NULL, .lengths_stride = lengths ? lengths->strides[3] : 0,
                   .esize = gd_dtype_bytes(any_series->dtype), .dtype = any_series->dtype, .reverse = a->attr->i[0] != 0};
}

/* Tasks, on other threads too if the multiply-adds of all of them are worth it. */
static void run_tasks(int64_t tasks, double work, void (*task)(void *, int64_t, int), void *ctx) {
    if (work > (double)rnn_parallel) {
        gd_parallel(tasks, task, ctx);
        return;
    }
    for (int64_t i = 0; i < tasks; i++) task(ctx, i, 0);
}

static double work_of(const steps *s, int64_t inputs) {
    return (double)s->T * (double)s->B * 4.0 * (double)s->H * (double)(s->H + inputs);
}

/* ---- forward --------------------------------------------------------------------------------- */

typedef struct lstm {
    steps s;
    gd_lstm_layout at;
    series x, h0, c0, y, h_n, c_n, gates, cells;
    const gd_view *const *in;
    int64_t I;
    char *workspace;
} lstm;

/* Units of block number `block`. */
static inline int64_t units_of(const lstm *q, int64_t block) {
    return rnn_min(GD_RNN_UNITS, q->s.H - block * GD_RNN_UNITS);
}

/* Packs the rows of w (4H,k) that belong to a block of units, gate after gate, as the columns of a product. */
static void pack_block(const lstm *q, const gd_view *w, int64_t block, char *scratch, char *packed) {
    const int64_t e = q->s.esize, k = w->shape[3], units = units_of(q, block);
    const series rows = {w->data, 0, w->strides[2] * e, w->strides[3] * e};
    for (int64_t gate = 0; gate < 4; gate++) {
        for (int64_t u = 0; u < units; u++)
            load_row(scratch + (gate * units + u) * k * e, &rows, 0, gate * q->s.H + block * GD_RNN_UNITS + u, k, e);
    }
    GD_KERNEL(gemm_pack)(q->s.dtype, k, 4 * units, scratch, 1, k, packed);
}

/* The same of the two biases' sum. */
#define DEFINE_SUM_BIAS(T, name)                                                            \
    static void name(const lstm *q, int64_t block, T *out) {                                \
        const int64_t units = units_of(q, block);                                           \
        for (int64_t i = 0; i < 4 * units; i++) {                                           \
            const int64_t from = i / units * q->s.H + block * GD_RNN_UNITS + i % units;     \
            out[i] = 0;                                                                     \
            for (int b = 5; b < 7; b++)                                                     \
                if (q->in[b]) out[i] += ((const T *)q->in[b]->data)[from * q->in[b]->strides[3]]; \
        }                                                                                   \
    }
DEFINE_SUM_BIAS(float, sum_bias_f32)
DEFINE_SUM_BIAS(double, sum_bias_f64)

static void prepare_task(void *ctx, int64_t block, int worker) {
    const lstm *q = ctx;
    char *scratch = q->workspace + q->at.workers + worker * q->at.worker_bytes;
    char *bias = q->workspace + q->at.bias + block * GD_RNN_GATES * q->s.esize;
    pack_block(q, q->in[3], block, scratch, q->workspace + q->at.w_ih + block * q->at.ih_bytes);
    pack_block(q, q->in[4], block, scratch, q->workspace + q->at.w_hh + block * q->at.hh_bytes);
    if (q->s.dtype == GD_FLOAT32) sum_bias_f32(q, block, (float *)bias);
    else sum_bias_f64(q, block, (double *)bias);
}

/* Rows of one step and block of units; strides in elements. */
typedef struct cell_rows {
    int64_t rows, units;
    const void *pre;           /* pre-activations: four gates, `units` of each, GD_RNN_GATES from row to row */
    void *gates, *cell, *y;    /* gates: activated, `hidden` from gate to gate */
    const void *c_before;      /* cells before the step */
    int64_t hidden, gates_rs, cell_rs, y_rs, c_before_rs;
} cell_rows;
static void gates_forward(int dtype, const cell_rows *r);

static const double no_cells[GD_RNN_UNITS]; /* zeros, for either dtype */

/* Step t of rows [b, end): a block's pre-activations are b + W_ih x, then + W_hh h. An absent h0 takes no part. */
static void forward_block(const lstm *q, int64_t t, int64_t b, int64_t end, int64_t block, char *pre) {
    const steps *s = &q->s;
    const int64_t e = s->esize, unit0 = block * GD_RNN_UNITS, units = units_of(q, block);
    const bool first = is_first(s, t, b);
    const series *h = first ? &q->h0 : &q->y, *c = first ? &q->c0 : &q->cells;
    gd_gemm_args g = {.m = end - b, .n = 4 * units, .k = q->I, .dtype = s->dtype, .c = pre, .c_rs = GD_RNN_GATES,
                      .a = row(&q->x, t, b), .a_rs = q->x.b / e, .a_cs = q->x.unit / e,
                      .bias = q->workspace + q->at.bias + block * GD_RNN_GATES * e};
    GD_KERNEL(gemm_packed)(&g, q->workspace + q->at.w_ih + block * q->at.ih_bytes);
    if (h->data) {
        g.k = s->H;
        g.a = row(h, before(s, t), b);
        g.a_rs = h->b / e;
        g.a_cs = 1;
        g.bias = NULL;
        g.accumulate = true;
        GD_KERNEL(gemm_packed)(&g, q->workspace + q->at.w_hh + block * q->at.hh_bytes);
    }
    const cell_rows r = {.rows = end - b, .units = units, .hidden = s->H, .pre = pre,
                         .gates = row(&q->gates, t, b) + unit0 * e, .gates_rs = q->gates.b / e,
                         .cell = row(&q->cells, t, b) + unit0 * e, .cell_rs = q->cells.b / e,
                         .y = row(&q->y, t, b) + unit0 * e, .y_rs = q->y.b / e,
                         .c_before = c->data ? row(c, before(s, t), b) + unit0 * e : (const char *)no_cells,
                         .c_before_rs = c->data ? c->b / e : 0};
    gates_forward(s->dtype, &r);
}

/* Row b of a final state: that of its last step, or the initial one where there is none. */
static void final_row(const lstm *q, const series *out, const series *of, const series *initial, int64_t b) {
    const bool none = length_of(&q->s, b) == 0;
    load_row(row(out, 0, b), none ? initial : of, none ? 0 : last_step(&q->s, b), b, q->s.H, q->s.esize);
}

static void lstm_task(void *ctx, int64_t task, int worker) {
    const lstm *q = ctx;
    const steps *s = &q->s;
    const int64_t H = s->H, e = s->esize, b0 = task * s->rows, b1 = rnn_min(b0 + s->rows, s->B);
    char *pre = q->workspace + q->at.workers + worker * q->at.worker_bytes;
    for (int64_t step = 0; step < s->T; step++) {
        const int64_t t = s->reverse ? s->T - 1 - step : step;
        for (int64_t b = b0, end; b < b1; b = end) {
            end = run_of_rows(s, t, &b, b1);
            for (int64_t block = 0; b < end && block * GD_RNN_UNITS < H; block++) forward_block(q, t, b, end, block, pre);
        }
    }
    for (int64_t b = b0; b < b1; b++) {
        final_row(q, &q->h_n, &q->y, &q->h0, b);
        final_row(q, &q->c_n, &q->cells, &q->c0, b);
        for (int64_t t = length_of(s, b); t < s->T; t++) {
            clear_row(row(&q->y, t, b), H, e);
            clear_row(row(&q->cells, t, b), H, e);
            clear_row(row(&q->gates, t, b), 4 * H, e);
        }
    }
}

/* A given initial state whose units lie side by side, in place or as a copy; the same for every step. */
static series initial_state(const gd_view *v, const steps *s, char *copy) {
    const series given = state_of(v);
    if (!v || given.unit == s->esize || s->H == 0) return given;
    for (int64_t b = 0; b < s->B; b++) load_row(copy + b * s->H * s->esize, &given, 0, b, s->H, s->esize);
    return (series){copy, 0, s->H * s->esize, s->esize};
}

static void lstm_forward(const gd_args *a) {
    const gd_view *const *in = a->in, *x = in[0];
    const bool batch_first = a->attr->i[1] != 0;
    lstm q = {.s = steps_of(a, x, in[7]), .in = in, .I = x->shape[3], .workspace = a->workspace, .x = series_of(x, batch_first),
              .y = series_of(a->out[0], batch_first), .h_n = state_of(a->out[1]), .c_n = state_of(a->out[2]),
              .gates = series_of(a->out[3], batch_first), .cells = series_of(a->out[4], batch_first)};
    q.s.H = in[4]->shape[3];
    q.at = gd_lstm_layout_of(q.s.B, q.I, q.s.H, x->dtype);
    q.s.rows = q.at.rows;
    q.h0 = initial_state(in[1], &q.s, q.workspace + q.at.h0);
    q.c0 = initial_state(in[2], &q.s, q.workspace + q.at.c0);
    run_tasks(rnn_blocks(q.s.H, GD_RNN_UNITS), work_of(&q.s, q.I), prepare_task, &q);
    run_tasks(rnn_blocks(q.s.B, q.s.rows), work_of(&q.s, q.I), lstm_task, &q);
}

/* ---- backward -------------------------------------------------------------------------------- */

typedef struct lstm_bwd {
    steps s;
    gd_lstm_bwd_layout at;
    series dy, dh_n, dc_n, gates, cells, y, h0, c0, dgates, hprev, dh0, dc0;
    const gd_view *w_hh;
    char *workspace;
    bool want_hprev, want_initial; /* hprev; dh0 and dc0 */
} lstm_bwd;

static void prepare_bwd_task(void *ctx, int64_t block, int worker) {
    const lstm_bwd *q = ctx;
    const gd_view *w = q->w_hh;
    const int64_t j = block * GD_RNN_COLUMNS, n = rnn_min(GD_RNN_COLUMNS, q->s.H - j);
    (void)worker;
    GD_KERNEL(gemm_pack)(q->s.dtype, 4 * q->s.H, n, (const char *)w->data + j * w->strides[3] * q->s.esize, w->strides[2], w->strides[3],
                         q->workspace + q->at.w_hh + block * q->at.hh_bytes);
}

/* Rows of one step; strides in elements. dh + dy and dc are gradients of h and c after the step; dc then
 * belongs to c before it. dgates: of the pre-activations. */
typedef struct slope_rows {
    int64_t rows, hidden;
    const void *gates, *cell, *c_before, *dy, *dh;
    void *dc, *dgates;
    int64_t gates_rs, cell_rs, c_before_rs, dy_rs, state_rs, dgates_rs; /* state_rs: of dh and dc */
} slope_rows;
static void gates_backward(int dtype, const slope_rows *r);

/* What a worker keeps of its rows. */
typedef struct bwd_state {
    char *dh, *dc, *c0, *dy;
} bwd_state;

/* Step t of rows [b, end), which are number r0 and so on of their task. */
static void backward_rows(const lstm_bwd *q, int64_t t, int64_t b, int64_t end, int64_t r0, const bwd_state *m) {
    const steps *s = &q->s;
    const int64_t H = s->H, e = s->esize, offset = r0 * H * e;
    const char *zeros = q->workspace + q->at.zeros;
    const bool first = is_first(s, t, b);
    slope_rows r = {.rows = end - b, .hidden = H, .gates = row(&q->gates, t, b), .gates_rs = q->gates.b / e,
                    .cell = row(&q->cells, t, b), .cell_rs = q->cells.b / e,
                    .c_before = first ? m->c0 + offset : row(&q->cells, before(s, t), b), .c_before_rs = first ? H : q->cells.b / e,
                    .dh = m->dh + offset, .dc = m->dc + offset, .state_rs = H,
                    .dgates = row(&q->dgates, t, b), .dgates_rs = q->dgates.b / e};
    if (!q->dy.data) {
        r.dy = zeros;
    } else if (q->dy.unit == e) {
        r.dy = row(&q->dy, t, b);
        r.dy_rs = q->dy.b / e;
    } else {
        r.dy = m->dy;
        r.dy_rs = H;
        for (int64_t i = b; i < end; i++) load_row(m->dy + (i - b) * H * e, &q->dy, t, i, H, e);
    }
    gates_backward(s->dtype, &r);
    for (int64_t i = b; i < end && q->want_hprev; i++)
        load_row(row(&q->hprev, t, i), first ? &q->h0 : &q->y, first ? 0 : before(s, t), i, H, e);
    if (first && !q->want_initial) return;
    for (int64_t j = 0; j < H; j += GD_RNN_COLUMNS) {
        const gd_gemm_args g = {.m = end - b, .n = rnn_min(GD_RNN_COLUMNS, H - j), .k = 4 * H, .a = r.dgates, .a_rs = r.dgates_rs, .a_cs = 1,
                                .c = m->dh + offset + j * e, .c_rs = H, .dtype = s->dtype};
        GD_KERNEL(gemm_packed)(&g, q->workspace + q->at.w_hh + j / GD_RNN_COLUMNS * q->at.hh_bytes);
    }
}

static void lstm_bwd_task(void *ctx, int64_t task, int worker) {
    const lstm_bwd *q = ctx;
    const steps *s = &q->s;
    const int64_t H = s->H, e = s->esize, b0 = task * s->rows, b1 = rnn_min(b0 + s->rows, s->B), part = s->rows * H * e;
    char *memory = q->workspace + q->at.workers + worker * q->at.worker_bytes;
    const bwd_state m = {memory, memory + part, memory + 2 * part, memory + 3 * part};
    for (int64_t b = b0; b < b1; b++) {
        load_row(m.dh + (b - b0) * H * e, &q->dh_n, 0, b, H, e);
        load_row(m.dc + (b - b0) * H * e, &q->dc_n, 0, b, H, e);
        load_row(m.c0 + (b - b0) * H * e, &q->c0, 0, b, H, e);
        for (int64_t t = length_of(s, b); t < s->T; t++) {
            clear_row(row(&q->dgates, t, b), 4 * H, e);
            if (q->want_hprev) clear_row(row(&q->hprev, t, b), H, e);
        }
    }
    for (int64_t step = 0; step < s->T; step++) {
        const int64_t t = s->reverse ? step : s->T - 1 - step;
        for (int64_t b = b0, end; b < b1; b = end) {
            end = run_of_rows(s, t, &b, b1);
            if (b < end) backward_rows(q, t, b, end, b - b0, &m);
        }
    }
    for (int64_t b = b0; b < b1 && H > 0 && q->want_initial; b++) {
        memcpy(row(&q->dh0, 0, b), m.dh + (b - b0) * H * e, (size_t)(H * e));
        memcpy(row(&q->dc0, 0, b), m.dc + (b - b0) * H * e, (size_t)(H * e));
    }
}

static void lstm_backward(const gd_args *a) {
    const gd_view *const *in = a->in;
    const bool batch_first = a->attr->i[1] != 0;
    lstm_bwd q = {.s = steps_of(a, in[4], in[9]), .w_hh = in[3], .workspace = a->workspace,
                  .dy = series_of(in[0], batch_first), .dh_n = state_of(in[1]), .dc_n = state_of(in[2]),
                  .gates = series_of(in[4], batch_first), .cells = series_of(in[5], batch_first), .y = series_of(in[6], batch_first),
                  .h0 = state_of(in[7]), .c0 = state_of(in[8]), .dgates = series_of(a->out[0], batch_first),
                  .hprev = series_of(a->out[1], batch_first), .dh0 = state_of(a->out[2]), .dc0 = state_of(a->out[3]),
                  .want_hprev = !a->attr->i[2], .want_initial = !a->attr->i[3]};
    q.s.H = in[3]->shape[3];
    q.at = gd_lstm_bwd_layout_of(q.s.B, q.s.H, q.s.dtype);
    q.s.rows = q.at.rows;
    clear_row(q.workspace + q.at.zeros, q.s.H, q.s.esize);
    run_tasks(rnn_blocks(q.s.H, GD_RNN_COLUMNS), work_of(&q.s, 0), prepare_bwd_task, &q);
    run_tasks(rnn_blocks(q.s.B, q.s.rows), work_of(&q.s, 0), lstm_bwd_task, &q);
}
