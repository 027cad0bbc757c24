/* patches.c - im2col and col2im: all patches of an image as columns, and their sum. */
#include <string.h>

#include "../kernel.h"
#include "../thread.h"

enum { TASK = 1 << 14 }; /* elements of a task: about 5 us */

typedef struct patches {
    const gd_view *image, *columns; /* (N, C, H, W) and (N, C KH KW, L) */
    int64_t stride[2], padding[2], dilation[2], kernel[2], points[2], size[2], per_task;
    void (*channel)(const struct patches *p, int64_t n, int64_t c);
} patches;

/* Points along d whose tap k lies inside the image: [*first, *end). */
static void inside(const patches *p, int d, int64_t k, int64_t *first, int64_t *end) {
    const int64_t s = p->stride[d], from = k * p->dilation[d] - p->padding[d]; /* place of point 0 */
    *first = from >= 0 ? 0 : (-from + s - 1) / s;
    *end = from >= p->size[d] ? 0 : (p->size[d] - 1 - from) / s + 1;
    if (*end > p->points[d]) *end = p->points[d];
    if (*first > *end) *first = *end;
}

#define DEFINE_PATCHES(T, s)                                                                                                            \
    static void im2col_##s(const patches *p, int64_t n, int64_t c) {                                                                    \
        const gd_view *x = p->image;                                                                                                    \
        const int64_t taps = p->kernel[0] * p->kernel[1], h = p->points[0], w = p->points[1];                                           \
        T *y = (T *)p->columns->data + (n * x->shape[1] + c) * taps * h * w;                                                            \
        const T *plane = (const T *)x->data + n * x->strides[0] + c * x->strides[1];                                                    \
        for (int64_t k = 0; k < taps; k++) {                                                                                            \
            int64_t r0, r1, q0, q1;                                                                                                     \
            const int64_t ky = k / p->kernel[1], kx = k % p->kernel[1], x0 = kx * p->dilation[1] - p->padding[1];                       \
            inside(p, 0, ky, &r0, &r1);                                                                                                 \
            inside(p, 1, kx, &q0, &q1);                                                                                                 \
            for (int64_t r = 0; r < h; r++, y += w) {                                                                                   \
                const bool real = r >= r0 && r < r1;                                                                                    \
                const T *row = plane + (real ? (r * p->stride[0] + ky * p->dilation[0] - p->padding[0]) * x->strides[2] : 0);           \
                for (int64_t q = 0; q < w; q++)                                                                                         \
                    y[q] = real && q >= q0 && q < q1 ? row[(q * p->stride[1] + x0) * x->strides[3]] : 0;                                \
            }                                                                                                                           \
        }                                                                                                                               \
    }                                                                                                                                   \
    /* Taps are added in their order. */                                                                                                \
    static void col2im_##s(const patches *p, int64_t n, int64_t c) {                                                                    \
        const gd_view *x = p->columns;                                                                                                  \
        const int64_t taps = p->kernel[0] * p->kernel[1], h = p->size[0], w = p->size[1];                                               \
        T *plane = (T *)p->image->data + (n * p->image->shape[1] + c) * h * w;                                                          \
        const T *from = (const T *)x->data + n * x->strides[1] + c * taps * x->strides[2];                                              \
        memset(plane, 0, (size_t)(h * w) * sizeof(T));                                                                                  \
        for (int64_t k = 0; k < taps; k++, from += x->strides[2]) {                                                                     \
            int64_t r0, r1, q0, q1;                                                                                                     \
            const int64_t ky = k / p->kernel[1], kx = k % p->kernel[1], x0 = kx * p->dilation[1] - p->padding[1];                       \
            inside(p, 0, ky, &r0, &r1);                                                                                                 \
            inside(p, 1, kx, &q0, &q1);                                                                                                 \
            for (int64_t r = r0; r < r1; r++) {                                                                                         \
                T *row = plane + (r * p->stride[0] + ky * p->dilation[0] - p->padding[0]) * w;                                          \
                for (int64_t q = q0; q < q1; q++) row[q * p->stride[1] + x0] += from[(r * p->points[1] + q) * x->strides[3]];           \
            }                                                                                                                           \
        }                                                                                                                               \
    }
DEFINE_PATCHES(float, f32)
DEFINE_PATCHES(double, f64)

static void task(void *ctx, int64_t i, int worker) {
    const patches *p = ctx;
    const int64_t channels = p->image->shape[1], all = p->image->shape[0] * channels, end = (i + 1) * p->per_task;
    (void)worker;
    for (int64_t k = i * p->per_task; k < (end < all ? end : all); k++) p->channel(p, k / channels, k % channels);
}

static void run(const gd_args *a, const gd_view *image, const gd_view *columns, void (*f32)(const patches *, int64_t, int64_t),
                void (*f64)(const patches *, int64_t, int64_t)) {
    patches p = {.image = image, .columns = columns, .channel = image->dtype == GD_FLOAT32 ? f32 : f64};
    for (int d = 0; d < 2; d++) {
        p.stride[d] = a->attr->i[d];
        p.padding[d] = a->attr->i[2 + d];
        p.dilation[d] = a->attr->i[4 + d];
        p.kernel[d] = a->attr->i[6 + d];
        p.size[d] = image->shape[2 + d];
        p.points[d] = (p.size[d] + 2 * p.padding[d] - p.dilation[d] * (p.kernel[d] - 1) - 1) / p.stride[d] + 1;
    }
    const int64_t all = image->shape[0] * image->shape[1], work = p.kernel[0] * p.kernel[1] * p.points[0] * p.points[1] + p.size[0] * p.size[1];
    if (all == 0) return;
    p.per_task = work < TASK ? TASK / work : 1;
    const int64_t tasks = (all + p.per_task - 1) / p.per_task;
    if (tasks <= 2) for (int64_t i = 0; i < tasks; i++) task(&p, i, 0);
    else gd_parallel(tasks, task, &p);
}

void GD_KERNEL(im2col)(const gd_args *a) { run(a, a->in[0], a->out[0], im2col_f32, im2col_f64); }
void GD_KERNEL(col2im)(const gd_args *a) { run(a, a->out[0], a->in[0], col2im_f32, col2im_f64); }
