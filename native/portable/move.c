/* move.c - copying by place and by index: cat, unslice, index_select, gather, their transposes, one_hot, nonzero.
 * Indices were range-checked before; negative ones count from the end. Additions keep the index's order. */
#include <string.h>

#include "../kernel.h"
#include "../thread.h"

enum {
    TASK_BYTES = 256 * 1024,  /* moved by one task: about 10 us */
    SERIAL_BYTES = 512 * 1024, /* at most so much is not worth waking a thread */
    FEW = 256                 /* entries of a line that are too few for a task */
};

static void copy_one(char *dst, const char *src, int64_t bytes) {
    if (bytes == 4) memcpy(dst, src, 4);
    else if (bytes == 8) memcpy(dst, src, 8);
    else if (bytes == 2) memcpy(dst, src, 2);
    else *dst = *src;
}

/* n elements, dst_step and src_step elements apart. */
static void copy_line(char *dst, int64_t dst_step, const char *src, int64_t src_step, int64_t n, int64_t bytes) {
    if (dst_step == 1 && src_step == 1) {
        memcpy(dst, src, (size_t)(n * bytes));
    } else if (bytes == 4) {
        for (int64_t k = 0; k < n; k++) memcpy(dst + 4 * k * dst_step, src + 4 * k * src_step, 4);
    } else if (bytes == 8) {
        for (int64_t k = 0; k < n; k++) memcpy(dst + 8 * k * dst_step, src + 8 * k * src_step, 8);
    } else if (bytes == 2) {
        for (int64_t k = 0; k < n; k++) memcpy(dst + 2 * k * dst_step, src + 2 * k * src_step, 2);
    } else {
        for (int64_t k = 0; k < n; k++) dst[k * dst_step] = src[k * src_step];
    }
}

/* A copy between strided blocks of one shape; outermost dimension first. */
typedef struct block_copy {
    char *dst;
    const char *src;
    int64_t shape[4], dst_stride[4], src_stride[4], bytes, task_rows;
} block_copy;

static void copy_rows(const block_copy *c, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++)
        for (int64_t j = 0; j < c->shape[1]; j++)
            for (int64_t k = 0; k < c->shape[2]; k++) {
                const int64_t to = i * c->dst_stride[0] + j * c->dst_stride[1] + k * c->dst_stride[2];
                const int64_t from = i * c->src_stride[0] + j * c->src_stride[1] + k * c->src_stride[2];
                copy_line(c->dst + to * c->bytes, c->dst_stride[3], c->src + from * c->bytes, c->src_stride[3], c->shape[3], c->bytes);
            }
}

static void copy_task(void *ctx, int64_t i, int worker) {
    const block_copy *c = ctx;
    (void)worker;
    int64_t last = (i + 1) * c->task_rows;
    copy_rows(c, i * c->task_rows, last < c->shape[0] ? last : c->shape[0]);
}

/* dst (strides in elements) = src; merges dimensions that both sides walk as one. */
static void copy_block(void *dst, const int64_t *dst_stride, const gd_view *src) {
    block_copy c = {.dst = dst, .src = src->data, .bytes = gd_dtype_bytes(src->dtype)};
    int64_t bytes = gd_numel(src) * c.bytes;
    if (bytes == 0) return;
    int at = 4;
    for (int d = 3; d >= 0; d--) {
        const int64_t size = src->shape[d], to = dst_stride[d], from = src->strides[d];
        if (size == 1) continue;
        if (at < 4 && to == c.dst_stride[at] * c.shape[at] && from == c.src_stride[at] * c.shape[at]) {
            c.shape[at] *= size;
            continue;
        }
        at--;
        c.shape[at] = size, c.dst_stride[at] = to, c.src_stride[at] = from;
    }
    while (at > 0) at--, c.shape[at] = 1, c.dst_stride[at] = c.src_stride[at] = at == 3;
    int64_t row_bytes = bytes / c.shape[0];
    c.task_rows = row_bytes < TASK_BYTES ? TASK_BYTES / row_bytes : 1;
    if (bytes <= SERIAL_BYTES) copy_rows(&c, 0, c.shape[0]);
    else gd_parallel((c.shape[0] + c.task_rows - 1) / c.task_rows, copy_task, &c);
}

/* ---- cat, unslice ------------------------------------------------------------------------------------ */

void GD_KERNEL(cat)(const gd_args *a) {
    const gd_view *out = a->out[0];
    const int d = (int)a->attr->i[0];
    int64_t at = 0;
    for (int k = 0; k < a->nin; k++) {
        if (gd_numel(a->in[k]) == 0) continue;
        copy_block((char *)out->data + at * out->strides[d] * gd_dtype_bytes(out->dtype), out->strides, a->in[k]);
        at += a->in[k]->shape[d];
    }
}

/* out = 0 but for g at start + k * step of every dimension. */
void GD_KERNEL(unslice)(const gd_args *a) {
    const gd_view *g = a->in[0], *out = a->out[0];
    const int64_t *start = a->attr->i, *step = a->attr->i + 4, bytes = gd_dtype_bytes(out->dtype);
    int64_t stride[4], offset = 0;
    if (gd_numel(out) == 0) return;
    memset(out->data, 0, (size_t)(gd_numel(out) * bytes));
    for (int d = 0; d < GD_DIMS; d++) {
        stride[d] = out->strides[d] * step[d];
        offset += out->strides[d] * start[d];
    }
    if (gd_numel(g)) copy_block((char *)out->data + offset * bytes, stride, g);
}

/* ---- index_select and its transpose ---------------------------------------------------------------------
 * One dimension splits the others: x is (outer, size, inner), with outer and inner each up to three strided
 * dimensions, and slab j of the n selected ones is index[j] of x. */

typedef struct indexing {
    const gd_view *x; /* index_select: x; index_add_zeros: g */
    const gd_view *index;
    char *out; /* contiguous */
    int64_t outer, inner, size, bytes, task;
    int dim;
    bool inner_is_run; /* the inner dimensions of x are contiguous */
} indexing;

/* Offset of element k in row-major order of the dimensions first .. last. */
static int64_t offset_of(const gd_view *x, int first, int last, int64_t k) {
    int64_t offset = 0;
    for (int d = last - 1; d >= first && k; d--) {
        offset += k % x->shape[d] * x->strides[d];
        k /= x->shape[d];
    }
    return offset;
}

static int64_t index_at(const gd_view *index, int64_t j, int64_t size) {
    const int64_t i = ((const int64_t *)index->data)[j * index->strides[3]];
    return i < 0 ? i + size : i;
}

static indexing indexing_of(const gd_args *a, int64_t size) {
    const gd_view *x = a->in[0];
    indexing r = {.x = x, .index = a->in[1], .out = a->out[0]->data, .outer = 1, .inner = 1, .size = size};
    r.bytes = gd_dtype_bytes(x->dtype);
    r.dim = (int)a->attr->i[0];
    r.inner_is_run = true;
    for (int d = 0; d < r.dim; d++) r.outer *= x->shape[d];
    for (int d = 3; d > r.dim; d--) {
        if (x->shape[d] != 1 && x->strides[d] != r.inner) r.inner_is_run = false;
        r.inner *= x->shape[d];
    }
    return r;
}

static void select_slab(const indexing *r, int64_t o, int64_t j, int64_t n) {
    const gd_view *x = r->x;
    const int64_t from = offset_of(x, 0, r->dim, o) + index_at(r->index, j, r->size) * x->strides[r->dim];
    char *dst = r->out + (o * n + j) * r->inner * r->bytes;
    const char *src = (const char *)x->data + from * r->bytes;
    if (r->inner == 1) copy_one(dst, src, r->bytes);
    else if (r->inner_is_run) memcpy(dst, src, (size_t)(r->inner * r->bytes));
    else
        for (int64_t k = 0; k < r->inner; k++)
            copy_one(dst + k * r->bytes, src + offset_of(x, r->dim + 1, 4, k) * r->bytes, r->bytes);
}

static void select_task(void *ctx, int64_t i, int worker) {
    const indexing *r = ctx;
    const int64_t n = r->index->shape[3], end = (i + 1) * r->task;
    (void)worker;
    for (int64_t s = i * r->task; s < end && s < r->outer * n; s++) select_slab(r, s / n, s % n, n);
}

/* Slabs of one element: each line of x gives n of its entries. A task takes a piece of a line. */
#define DEFINE_SELECT(name, T)                                                                                       \
    static void name(T *restrict out, const T *restrict x, int64_t step, const gd_view *index, int64_t first, int64_t last, int64_t size) { \
        const int64_t *at = (const int64_t *)index->data, by = index->strides[3];                                    \
        if (by == 1 && step == 1) for (int64_t j = first; j < last; j++) out[j] = x[at[j] + (size & (at[j] >> 63))]; \
        else for (int64_t j = first; j < last; j++) out[j] = x[(at[j * by] + (size & (at[j * by] >> 63))) * step];    \
    }
DEFINE_SELECT(select_1, uint8_t)
DEFINE_SELECT(select_2, uint16_t)
DEFINE_SELECT(select_4, uint32_t)
DEFINE_SELECT(select_8, uint64_t)

static void select_piece(void *ctx, int64_t i, int worker) {
    const indexing *r = ctx;
    const int64_t n = r->index->shape[3], pieces = (n + r->task - 1) / r->task, first = i % pieces * r->task, o = i / pieces;
    const int64_t last = first + r->task < n ? first + r->task : n, step = r->x->strides[r->dim];
    const char *x = (const char *)r->x->data + offset_of(r->x, 0, r->dim, o) * r->bytes;
    void *out = r->out + o * n * r->bytes;
    (void)worker;
    if (r->bytes == 4) select_4(out, (const void *)x, step, r->index, first, last, r->size);
    else if (r->bytes == 8) select_8(out, (const void *)x, step, r->index, first, last, r->size);
    else if (r->bytes == 2) select_2(out, (const void *)x, step, r->index, first, last, r->size);
    else select_1(out, (const void *)x, step, r->index, first, last, r->size);
}

static void select_elements(indexing *r) {
    const int64_t n = r->index->shape[3], bytes = r->outer * n * r->bytes;
    r->task = bytes <= SERIAL_BYTES || n * r->bytes < TASK_BYTES ? n : TASK_BYTES / r->bytes;
    const int64_t tasks = r->outer * ((n + r->task - 1) / r->task);
    if (bytes > SERIAL_BYTES) gd_parallel(tasks, select_piece, r);
    else
        for (int64_t i = 0; i < tasks; i++) select_piece(r, i, 0);
}

void GD_KERNEL(index_select)(const gd_args *a) {
    indexing r = indexing_of(a, a->in[0]->shape[a->attr->i[0]]);
    if (r.inner == 1 && r.outer > 0 && (r.outer == 1 || r.index->shape[3] >= FEW) && r.index->shape[3] > 0) {
        select_elements(&r);
        return;
    }
    const int64_t slabs = r.outer * r.index->shape[3], slab_bytes = r.inner * r.bytes;
    if (slabs * slab_bytes == 0) return;
    r.task = slabs * slab_bytes <= SERIAL_BYTES ? slabs : slab_bytes < TASK_BYTES ? TASK_BYTES / slab_bytes : 1;
    if (r.task == slabs) select_task(&r, 0, 0);
    else gd_parallel((slabs + r.task - 1) / r.task, select_task, &r);
}

/* Adds columns first .. last of slab j of g, for every j in order. Tasks split the inner elements. */
#define DEFINE_INDEX_ADD(name, T, SUM)                                                                \
    static void index_add_##name(const indexing *r, int64_t o, int64_t first, int64_t last) {         \
        const gd_view *g = r->x;                                                                      \
        const T *slab = (const T *)g->data + offset_of(g, 0, r->dim, o);                              \
        for (int64_t j = 0; j < r->index->shape[3]; j++, slab += g->strides[r->dim]) {                \
            T *y = (T *)r->out + (o * r->size + index_at(r->index, j, r->size)) * r->inner;           \
            if (r->inner_is_run)                                                                      \
                for (int64_t k = first; k < last; k++) y[k] = (T)((SUM)y[k] + (SUM)slab[k]);          \
            else                                                                                      \
                for (int64_t k = first; k < last; k++)                                                \
                    y[k] = (T)((SUM)y[k] + (SUM)slab[offset_of(g, r->dim + 1, 4, k)]);                \
        }                                                                                             \
    }
DEFINE_INDEX_ADD(f32, float, float)
DEFINE_INDEX_ADD(f64, double, double)
DEFINE_INDEX_ADD(i64, int64_t, uint64_t)
DEFINE_INDEX_ADD(i32, int32_t, uint32_t)
DEFINE_INDEX_ADD(bool, uint8_t, bool)

static void index_add_task(void *ctx, int64_t i, int worker) {
    static void (*const add[GD_DTYPES])(const indexing *r, int64_t o, int64_t first, int64_t last) = {
        index_add_f32, index_add_f64, index_add_i64, index_add_i32, index_add_bool};
    const indexing *r = ctx;
    const int64_t pieces = (r->inner + r->task - 1) / r->task, first = i % pieces * r->task;
    (void)worker;
    add[r->x->dtype](r, i / pieces, first, first + r->task < r->inner ? first + r->task : r->inner);
}

void GD_KERNEL(index_add_zeros)(const gd_args *a) {
    indexing r = indexing_of(a, a->attr->i[1]);
    const int64_t out_bytes = r.outer * r.size * r.inner * r.bytes, n = r.index->shape[3];
    if (out_bytes == 0) return;
    memset(r.out, 0, (size_t)out_bytes);
    const int64_t bytes = r.outer * n * r.inner * r.bytes, column_bytes = n * r.bytes;
    if (bytes == 0) return;
    r.task = TASK_BYTES / column_bytes < 64 ? 64 : TASK_BYTES / column_bytes / 64 * 64; /* whole cache lines */
    if (bytes <= SERIAL_BYTES) {
        r.task = r.inner;
        for (int64_t o = 0; o < r.outer; o++) index_add_task(&r, o, 0);
    } else {
        gd_parallel(r.outer * ((r.inner + r.task - 1) / r.task), index_add_task, &r);
    }
}
