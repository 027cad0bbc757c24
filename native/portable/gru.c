/* gru.c - one step of a GRU after its two products, and its gradients: r, z, n from the pre-activations of input and
 * state in this order (PyTorch's), the reset gate after the product: n = tanh(in + r hn), h' = n + z (h - n). */
#include "../kernel.h"
#include "../scalar.h"
#include "../thread.h"

enum {
    TASK = 2048,      /* hidden units of all rows in a task: three transcendental functions each, some 10 us */
    SERIAL = 2 * TASK /* at most so many are not worth waking a thread */
};

/* Rows of `hidden` units; strides in elements. Forward: gi, gh, h -> y, gates. Backward: g, gates, gh, h -> dgi, dgh, dh. */
typedef struct cell {
    const char *gi, *gh, *h, *g;
    char *gates, *y, *dgi, *dgh, *dh;
    int64_t rows, hidden, task_rows;
    int64_t gi_rs, gi_s, gh_rs, gh_s, h_rs, h_s, g_rs, g_s;
} cell;

#define DEFINE_GRU(name, T)                                                                                            \
    static inline __attribute__((always_inline)) void step_##name(int64_t n, const T *gi, int64_t si, const T *gh, int64_t sh, const T *h, \
                                                                  int64_t s, T *restrict gates, T *restrict y) {       \
        for (int64_t j = 0; j < n; j++) {                                                                              \
            const T r = gd_sigmoid_##name(gi[j * si] + gh[j * sh]), z = gd_sigmoid_##name(gi[(n + j) * si] + gh[(n + j) * sh]); \
            const T c = gd_tanh_##name(GD_FMA(r, gh[(2 * n + j) * sh], gi[(2 * n + j) * si]));                         \
            gates[j] = r;                                                                                              \
            gates[n + j] = z;                                                                                          \
            gates[2 * n + j] = c;                                                                                      \
            y[j] = GD_FMA(z, h[j * s] - c, c);                                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    static inline __attribute__((always_inline)) void slopes_##name(int64_t n, const T *g, int64_t sg, const T *gates, const T *gh, int64_t sh, \
                                                                    const T *h, int64_t s, T *restrict dgi, T *restrict dgh, T *restrict dh) { \
        for (int64_t j = 0; j < n; j++) {                                                                              \
            const T in = g[j * sg], r = gates[j], z = gates[n + j], c = gates[2 * n + j];                              \
            const T dz = in == 0 ? 0 : in * ((h[j * s] - c) * (z * (1 - z)));                                          \
            const T dc = in == 0 ? 0 : in * ((1 - z) * GD_FMA(-c, c, (T)1));                                           \
            const T dr = dc == 0 ? 0 : dc * (gh[(2 * n + j) * sh] * (r * (1 - r)));                                    \
            dgi[j] = dgh[j] = dr;                                                                                      \
            dgi[n + j] = dgh[n + j] = dz;                                                                              \
            dgi[2 * n + j] = dc;                                                                                       \
            dgh[2 * n + j] = dc * r;                                                                                   \
            dh[j] = in == 0 ? 0 : in * z;                                                                              \
        }                                                                                                              \
    }                                                                                                                  \
    static void forward_##name(void *ctx, int64_t task, int worker) {                                                  \
        const cell *q = ctx;                                                                                           \
        const int64_t n = q->hidden, last = (task + 1) * q->task_rows < q->rows ? (task + 1) * q->task_rows : q->rows; \
        (void)worker;                                                                                                  \
        for (int64_t b = task * q->task_rows; b < last; b++) {                                                         \
            const T *gi = (const T *)q->gi + b * q->gi_rs, *gh = (const T *)q->gh + b * q->gh_rs, *h = (const T *)q->h + b * q->h_rs; \
            T *gates = (T *)q->gates + b * 3 * n, *y = (T *)q->y + b * n;                                              \
            if (q->gi_s == 1 && q->gh_s == 1 && q->h_s == 1) step_##name(n, gi, 1, gh, 1, h, 1, gates, y);             \
            else step_##name(n, gi, q->gi_s, gh, q->gh_s, h, q->h_s, gates, y);                                        \
        }                                                                                                              \
    }                                                                                                                  \
    static void backward_##name(void *ctx, int64_t task, int worker) {                                                 \
        const cell *q = ctx;                                                                                           \
        const int64_t n = q->hidden, last = (task + 1) * q->task_rows < q->rows ? (task + 1) * q->task_rows : q->rows; \
        (void)worker;                                                                                                  \
        for (int64_t b = task * q->task_rows; b < last; b++) {                                                         \
            const T *g = (const T *)q->g + b * q->g_rs, *gh = (const T *)q->gh + b * q->gh_rs, *h = (const T *)q->h + b * q->h_rs; \
            const T *gates = (const T *)q->gates + b * 3 * n;                                                          \
            T *dgi = (T *)q->dgi + b * 3 * n, *dgh = (T *)q->dgh + b * 3 * n, *dh = (T *)q->dh + b * n;                \
            if (q->g_s == 1 && q->gh_s == 1 && q->h_s == 1) slopes_##name(n, g, 1, gates, gh, 1, h, 1, dgi, dgh, dh);  \
            else slopes_##name(n, g, q->g_s, gates, gh, q->gh_s, h, q->h_s, dgi, dgh, dh);                             \
        }                                                                                                              \
    }
DEFINE_GRU(f32, float)
DEFINE_GRU(f64, double)

static void all_rows(cell *q, void (*task)(void *, int64_t, int)) {
    if (q->rows * q->hidden == 0) return;
    q->task_rows = q->hidden < TASK ? TASK / q->hidden : 1;
    const int64_t tasks = (q->rows + q->task_rows - 1) / q->task_rows;
    if (q->rows * q->hidden <= SERIAL) for (int64_t t = 0; t < tasks; t++) task(q, t, 0);
    else gd_parallel(tasks, task, q);
}

void GD_KERNEL(gru_cell)(const gd_args *a) {
    const gd_view *gi = a->in[0], *gh = a->in[1], *h = a->in[2];
    cell q = {.gi = gi->data, .gi_rs = gi->strides[2], .gi_s = gi->strides[3], .gh = gh->data, .gh_rs = gh->strides[2], .gh_s = gh->strides[3],
              .h = h->data, .h_rs = h->strides[2], .h_s = h->strides[3], .rows = h->shape[2], .hidden = h->shape[3], .y = a->out[0]->data,
              .gates = a->out[1]->data};
    all_rows(&q, h->dtype == GD_FLOAT32 ? forward_f32 : forward_f64);
}

void GD_KERNEL(gru_cell_bwd)(const gd_args *a) {
    const gd_view *g = a->in[0], *gh = a->in[2], *h = a->in[3];
    cell q = {.g = g->data, .g_rs = g->strides[2], .g_s = g->strides[3], .gates = a->in[1]->data, .gh = gh->data, .gh_rs = gh->strides[2],
              .gh_s = gh->strides[3], .h = h->data, .h_rs = h->strides[2], .h_s = h->strides[3], .rows = h->shape[2], .hidden = h->shape[3],
              .dgi = a->out[0]->data, .dgh = a->out[1]->data, .dh = a->out[2]->data};
    all_rows(&q, h->dtype == GD_FLOAT32 ? backward_f32 : backward_f64);
}
