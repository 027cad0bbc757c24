/* search.c - searchsorted: where values would go in a sorted line. */
#include "../kernel.h"
#include "../thread.h"

enum {
    TASK = 4 * 1024,  /* values per task: some 100 us */
    SERIAL = 2 * TASK /* at most so many values are not worth waking a thread */
};

typedef struct searching {
    const gd_view *sorted, *values, *order;
    int64_t *out;
    bool right;
    int64_t count;
} searching;

/* Element k of v in row-major order. */
static int64_t offset_of(const gd_view *v, int64_t k) {
    int64_t offset = 0;
    for (int d = GD_DIMS - 1; d >= 0; d--) {
        offset += k % v->shape[d] * v->strides[d];
        k /= v->shape[d];
    }
    return offset;
}

/* The line of `sorted` that belongs to value k: the only one, or that of its leading dimensions. */
static int64_t line_of(const searching *r, const gd_view *v, int64_t k) {
    const int64_t line = r->sorted->rank == 1 ? 0 : k / r->values->shape[3], n = v->shape[3];
    return n ? offset_of(v, line * n) : 0;
}

#define DEFINE_SEARCH(name, T)                                                                               \
    static void search_##name(void *ctx, int64_t i, int worker) {                                            \
        const searching *r = ctx;                                                                            \
        const int64_t end = (i + 1) * TASK < r->count ? (i + 1) * TASK : r->count, n = r->sorted->shape[3];  \
        const int64_t step = r->sorted->strides[3], order_step = r->order ? r->order->strides[3] : 0;        \
        (void)worker;                                                                                        \
        const bool flat = gd_is_contiguous(r->values);                                                       \
        const T *x = NULL;                                                                                   \
        const int64_t *order = NULL;                                                                         \
        for (int64_t k = i * TASK; k < end; k++) {                                                           \
            const T value = ((const T *)r->values->data)[flat ? k : offset_of(r->values, k)];                \
            if (!x || r->sorted->rank != 1) {                                                                \
                x = (const T *)r->sorted->data + line_of(r, r->sorted, k);                                   \
                order = r->order ? (const int64_t *)r->order->data + line_of(r, r->order, k) : NULL;         \
            }                                                                                                \
            int64_t low = 0, left = n;                                                                       \
            if (step == 1 && !order) { /* without a branch that could be mispredicted */                     \
                while (left > 1) {                                                                           \
                    const int64_t half = left / 2;                                                           \
                    const T v = x[low + half - 1];                                                           \
                    const bool before = r->right ? !(v > value) : !(v >= value);                             \
                    low += before * half;                                                                    \
                    left -= half;                                                                            \
                }                                                                                            \
                if (left) low += r->right ? !(x[low] > value) : !(x[low] >= value);                          \
                r->out[k] = low;                                                                             \
                continue;                                                                                    \
            }                                                                                                \
            while (left > 0) {                                                                               \
                const int64_t half = left / 2, at = low + half;                                              \
                const T v = x[(order ? order[at * order_step] : at) * step];                                 \
                const bool before = r->right ? !(v > value) : !(v >= value);                                 \
                low = before ? at + 1 : low;                                                                 \
                left = before ? left - half - 1 : half;                                                      \
            }                                                                                                \
            r->out[k] = low;                                                                                 \
        }                                                                                                    \
    }
DEFINE_SEARCH(f32, float)
DEFINE_SEARCH(f64, double)
DEFINE_SEARCH(i64, int64_t)
DEFINE_SEARCH(i32, int32_t)
DEFINE_SEARCH(bool, uint8_t)

void GD_KERNEL(searchsorted)(const gd_args *a) {
    static void (*const tasks[GD_DTYPES])(void *ctx, int64_t i, int worker) = {search_f32, search_f64, search_i64, search_i32, search_bool};
    searching r = {a->in[0], a->in[1], a->in[2], a->out[0]->data, a->attr->i[0] != 0, gd_numel(a->in[1])};
    const int64_t count = (r.count + TASK - 1) / TASK;
    if (r.count > SERIAL) gd_parallel(count, tasks[r.sorted->dtype], &r);
    else
        for (int64_t i = 0; i < count; i++) tasks[r.sorted->dtype](&r, i, 0);
}
