/* resize.c - planes resized by nearest elements or linear interpolation, the gradient of that, and pixel shuffle. */
#include "../resize.h"

#include <math.h>
#include <string.h>

#include "planes.h"

/* Linear: a position between two elements. */
static gd_resize_source between(double at, int64_t in) {
    const int64_t low = at < 0 ? 0 : at < (double)(in - 1) ? (int64_t)at : in - 1;
    const double part = at < 0 ? 0 : at - (double)low < 1 ? at - (double)low : 1;
    return (gd_resize_source){low, low < in - 1 ? low + 1 : low, {1 - part, part}};
}

/* The sources of all outputs along one axis; scale is the user's, 0 for that of the sizes. Nearest elements are found in
 * the data's dtype, and rounded down as float32, so that they are PyTorch's. */
#define DEFINE_SOURCES(name, T)                                                                           \
    static void sources_##name(gd_resize_source *to, int64_t in, int64_t out, int mode, bool align, double scale) { \
        const double step = align ? (out > 1 ? (double)(in - 1) / (double)(out - 1) : 0) : scale > 0 ? 1 / scale : (double)in / (double)out; \
        const T by = scale > 0 ? (T)(1 / scale) : (T)in / (T)out;                                         \
        for (int64_t o = 0; o < out; o++) {                                                               \
            if (mode == GD_LINEAR) {                                                                      \
                to[o] = between(align ? step * (double)o : step * ((double)o + 0.5) - 0.5, in);           \
                continue;                                                                                 \
            }                                                                                             \
            const int64_t at = (int64_t)(float)(by * (mode == GD_NEAREST ? (T)o : (T)o + (T)0.5)), low = at < in ? at : in - 1; \
            to[o] = (gd_resize_source){low, low, {1, 0}};                                                 \
        }                                                                                                 \
    }
DEFINE_SOURCES(f32, float)
DEFINE_SOURCES(f64, double)

typedef struct resizing {
    const gd_view *x;              /* or the incoming gradient */
    const gd_view *y;
    const gd_resize_source *h, *w; /* of each output row and column */
    bool linear;
    int64_t items, per_task;
    void (*item)(const struct resizing *r, int64_t item);
} resizing;

static void resize_task(void *ctx, int64_t i, int worker) {
    const resizing *r = ctx;
    (void)worker;
    for (int64_t k = i * r->per_task; k < (i + 1) * r->per_task && k < r->items; k++) r->item(r, k);
}

static void resize_items(resizing *r, int64_t items, int64_t work) {
    r->items = items;
    run_items(items, work, &r->per_task, resize_task, r);
}

#define DEFINE_RESIZE(name, T)                                                                            \
    /* One row of the output. */                                                                          \
    static void resize_row_##name(const resizing *r, int64_t row) {                                       \
        const int64_t plane = row / r->y->shape[2], oh = row % r->y->shape[2], n = r->y->shape[3], xs = r->x->strides[3]; \
        const gd_resize_source h = r->h[oh];                                                              \
        const T *low = (const T *)(const void *)row_of(r->x, plane, h.low), *high = (const T *)(const void *)row_of(r->x, plane, h.high); \
        T *y = (T *)r->y->data + row * n;                                                                 \
        const T h0 = (T)h.weight[0], h1 = (T)h.weight[1];                                                 \
        if (!r->linear) {                                                                                 \
            if (oh > 0 && r->h[oh - 1].low == h.low && row % r->per_task) memcpy(y, y - n, (size_t)n * sizeof *y); \
            else for (int64_t o = 0; o < n; o++) y[o] = low[r->w[o].low * xs];                            \
            return;                                                                                       \
        }                                                                                                 \
        for (int64_t o = 0; o < n; o++) {                                                                 \
            const int64_t a = r->w[o].low * xs, b = r->w[o].high * xs;                                    \
            const T w0 = (T)r->w[o].weight[0], w1 = (T)r->w[o].weight[1];                                 \
            y[o] = h0 * (w0 * low[a] + w1 * low[b]) + h1 * (w0 * high[a] + w1 * high[b]);                 \
        }                                                                                                 \
    }                                                                                                     \
    /* One plane of the input's gradient, in the order of the output. */                                  \
    static void resize_bwd_plane_##name(const resizing *r, int64_t plane) {                               \
        const int64_t out_h = r->x->shape[2], out_w = r->x->shape[3], h = r->y->shape[2], w = r->y->shape[3], gs = r->x->strides[3]; \
        T *dx = (T *)r->y->data + plane * h * w;                                                          \
        memset(dx, 0, (size_t)(h * w) * sizeof *dx);                                                      \
        for (int64_t oh = 0; oh < out_h; oh++) {                                                          \
            const gd_resize_source at = r->h[oh];                                                         \
            const T *g = (const T *)(const void *)row_of(r->x, plane, oh);                                \
            T *low = dx + at.low * w, *high = dx + at.high * w;                                           \
            const T h0 = (T)at.weight[0], h1 = (T)at.weight[1];                                           \
            for (int64_t o = 0; o < out_w; o++) {                                                         \
                const T v = g[o * gs];                                                                    \
                const gd_resize_source from = r->w[o];                                                    \
                if (!r->linear) {                                                                         \
                    low[from.low] += v;                                                                   \
                    continue;                                                                             \
                }                                                                                         \
                const T w0 = (T)from.weight[0], w1 = (T)from.weight[1];                                   \
                low[from.low] += h0 * w0 * v;                                                             \
                low[from.high] += h0 * w1 * v;                                                            \
                high[from.low] += h1 * w0 * v;                                                            \
                high[from.high] += h1 * w1 * v;                                                           \
            }                                                                                             \
        }                                                                                                 \
    }
DEFINE_RESIZE(f32, float)
DEFINE_RESIZE(f64, double)

/* The tables, into the workspace: `in` and `out` are height and width. */
static resizing prepared(const gd_args *a, const int64_t *in, const int64_t *out) {
    gd_resize_source *h = a->workspace, *w = h + out[0];
    const int mode = (int)a->attr->i[GD_RESIZE_MODE];
    const bool align = a->attr->i[GD_RESIZE_ALIGN] != 0;
    void (*fill)(gd_resize_source *to, int64_t in, int64_t out, int mode, bool align, double scale) = a->in[0]->dtype == GD_FLOAT32 ? sources_f32 : sources_f64;
    fill(h, in[0], out[0], mode, align, a->attr->f[0]);
    fill(w, in[1], out[1], mode, align, a->attr->f[1]);
    return (resizing){.x = a->in[0], .y = a->out[0], .h = h, .w = w, .linear = mode == GD_LINEAR};
}

void GD_KERNEL(resize)(const gd_args *a) {
    const gd_view *x = a->in[0], *y = a->out[0];
    if (gd_numel(y) == 0) return;
    resizing r = prepared(a, x->shape + 2, y->shape + 2);
    r.item = x->dtype == GD_FLOAT32 ? resize_row_f32 : resize_row_f64;
    resize_items(&r, y->shape[0] * y->shape[1] * y->shape[2], y->shape[3]);
}

void GD_KERNEL(resize_bwd)(const gd_args *a) {
    const gd_view *g = a->in[0], *dx = a->out[0];
    if (gd_numel(dx) == 0) return;
    resizing r = prepared(a, dx->shape + 2, g->shape + 2);
    r.item = g->dtype == GD_FLOAT32 ? resize_bwd_plane_f32 : resize_bwd_plane_f64;
    resize_items(&r, dx->shape[0] * dx->shape[1], g->shape[2] * g->shape[3]);
}

/* ---- Pixel shuffle: a row of the output takes its elements from one row (or, inverse, from a part of one) ---------- */

typedef struct shuffling {
    const gd_view *x, *y;
    int64_t factor, rows, per_task;
    bool inverse;
} shuffling;

/* n elements, steps apart in the source and in the destination. */
#define COPY_STEPS(BYTES) \
    for (int64_t k = 0; k < n; k++) memcpy(to + k * to_step * BYTES, from + k * from_step * BYTES, BYTES)

static void copy_steps(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, int64_t bytes) {
    if (bytes == 4) COPY_STEPS(4);
    else if (bytes == 2) COPY_STEPS(2);
    else if (bytes == 8) COPY_STEPS(8);
    else COPY_STEPS(1);
}

static void shuffle_row(const shuffling *s, int64_t row) {
    const gd_view *x = s->x, *y = s->y;
    const int64_t r = s->factor, bytes = gd_dtype_bytes(x->dtype), h = row % y->shape[2], c = row / y->shape[2] % y->shape[1];
    const int64_t n = row / y->shape[2] / y->shape[1], width = y->shape[3];
    char *to = (char *)y->data + row * width * bytes;
    if (s->inverse) { /* c = (channel r + i) r + j takes (h r + i, w r + j) */
        const char *from = row_of(x, n * x->shape[1] + c / (r * r), h * r + c / r % r);
        copy_steps(to, 1, from + c % r * x->strides[3] * bytes, r * x->strides[3], width, bytes);
        return;
    }
    for (int64_t j = 0; j < r; j++)
        copy_steps(to + j * bytes, r, row_of(x, n * x->shape[1] + (c * r + h % r) * r + j, h / r), x->strides[3], x->shape[3], bytes);
}

static void shuffle_task(void *ctx, int64_t i, int worker) {
    const shuffling *s = ctx;
    (void)worker;
    for (int64_t row = i * s->per_task; row < (i + 1) * s->per_task && row < s->rows; row++) shuffle_row(s, row);
}

void GD_KERNEL(pixel_shuffle)(const gd_args *a) {
    const gd_view *y = a->out[0];
    shuffling s = {.x = a->in[0], .y = y, .factor = a->attr->i[0], .inverse = a->attr->i[1] != 0};
    if (gd_numel(y) == 0) return;
    s.rows = gd_numel(y) / y->shape[3];
    s.per_task = y->shape[3] < TASK ? TASK / y->shape[3] : 1;
    const int64_t tasks = (s.rows + s.per_task - 1) / s.per_task;
    if (gd_numel(y) <= SERIAL) for (int64_t i = 0; i < tasks; i++) shuffle_task(&s, i, 0);
    else gd_parallel(tasks, shuffle_task, &s);
}
