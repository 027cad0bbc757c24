/* sort.c - sort: the values along a dimension in order, and where they stood; stable.
 * Values become words with their places (items.h). 64-bit values go by their upper halves first, then each run of equal
 * ones by the lower halves. */
#include "items.h"

enum { TASK = 16 * 1024 /* entries of whole lines that one task sorts: about 100 us */ };

typedef struct sorting {
    const gd_view *x;
    gd_view *values, *indices;
    int dim;
    uint64_t flip; /* all bits for a descending order */
    int64_t n, lines, task_lines, keep;
    char *space;
    int64_t line_bytes;
    void (*line)(const struct sorting *r, int64_t l, char *space);
} sorting;

/* Items of a line, each its value's word above its place. */
typedef struct loading {
    const void *x;
    int64_t step, n;
    uint64_t flip;
    uint64_t *item;
} loading;

#define UPPER(word32) ((uint64_t)(uint32_t)(word32) << 32)

#define DEFINE_LOAD(name, T, upper)                                                                              \
    static void load_##name(void *ctx, int64_t i, int worker) {                                                  \
        const loading *r = ctx;                                                                                  \
        const T *x = r->x;                                                                                       \
        const int64_t first = i * GD_SORT_BLOCK, last = first + GD_SORT_BLOCK < r->n ? first + GD_SORT_BLOCK : r->n; \
        const uint32_t flip = (uint32_t)r->flip;                                                                 \
        (void)worker;                                                                                            \
        if (r->step == 1) for (int64_t k = first; k < last; k++) r->item[k] = UPPER((upper(x[k])) ^ flip) | (uint64_t)k; \
        else for (int64_t k = first; k < last; k++) r->item[k] = UPPER((upper(x[k * r->step])) ^ flip) | (uint64_t)k; \
    }
#define UPPER_F64(x) (uint32_t)(word_of_f64(x) >> 32)
#define UPPER_I64(x) (uint32_t)(word_of_i64(x) >> 32)
DEFINE_LOAD(f32, float, word_of_f32)
DEFINE_LOAD(f64, double, UPPER_F64)
DEFINE_LOAD(i64, int64_t, UPPER_I64)
DEFINE_LOAD(i32, int32_t, word_of_i32)
DEFINE_LOAD(bool, uint8_t, word_of_bool)

/* Runs of equal upper halves in the order of the lower ones. */
#define DEFINE_REFINE(name, T, word)                                                                     \
    static void refine_##name(const loading *r, uint64_t *other, uint32_t *count) {                      \
        const T *x = r->x;                                                                               \
        uint64_t *item = r->item;                                                                        \
        for (int64_t first = 0, last; first < r->n; first = last) {                                      \
            const uint64_t upper = item[first] >> 32;                                                    \
            for (last = first + 1; last < r->n && item[last] >> 32 == upper;) last++;                    \
            if (last - first == 1) continue;                                                             \
            for (int64_t k = first; k < last; k++)                                                       \
                item[k] = UPPER((uint32_t)(word(x[(uint32_t)item[k] * r->step]) ^ r->flip)) | (uint32_t)item[k]; \
            sort_items(item + first, other, last - first, count);                                        \
        }                                                                                                \
    }
DEFINE_REFINE(f64, double, word_of_f64)
DEFINE_REFINE(i64, int64_t, word_of_i64)

typedef struct storing {
    const uint64_t *item;
    const void *x;
    void *values;
    int64_t *indices;
    int64_t n, step, to_step;
} storing;

#define DEFINE_STORE(bytes, T)                                                                           \
    static void store_##bytes(void *ctx, int64_t i, int worker) {                                        \
        const storing *s = ctx;                                                                          \
        const int64_t first = i * GD_SORT_BLOCK, last = first + GD_SORT_BLOCK < s->n ? first + GD_SORT_BLOCK : s->n; \
        (void)worker;                                                                                    \
        for (int64_t k = first; k < last; k++) {                                                         \
            const int64_t place = (uint32_t)s->item[k];                                                  \
            ((T *)s->values)[k * s->to_step] = ((const T *)s->x)[place * s->step];                       \
            s->indices[k * s->to_step] = place;                                                          \
        }                                                                                                \
    }
DEFINE_STORE(1, uint8_t)
DEFINE_STORE(4, uint32_t)
DEFINE_STORE(8, uint64_t)

static void in_blocks(int64_t n, void (*task)(void *ctx, int64_t i, int worker), void *ctx) {
    if (n >= GD_SORT_SPLIT) gd_parallel(gd_sort_blocks(n), task, ctx);
    else
        for (int64_t i = 0; i < gd_sort_blocks(n); i++) task(ctx, i, 0);
}

static void sort_line(const sorting *r, int64_t l, char *space) {
    static void (*const load[GD_DTYPES])(void *ctx, int64_t i, int worker) = {load_f32, load_f64, load_i64, load_i32, load_bool};
    const int64_t bytes = gd_dtype_bytes(r->x->dtype), n = r->n;
    uint64_t *item = (uint64_t *)space, *other = item + n;
    uint32_t *count = (uint32_t *)(other + n);
    loading in = {(const char *)r->x->data + line_offset(r->x, r->dim, l) * bytes, r->x->strides[r->dim], n, r->flip, item};
    if (r->x->dtype == GD_BOOL) in.flip &= 1;
    in_blocks(n, load[r->x->dtype], &in);
    sort_items(item, other, n, count);
    if (r->x->dtype == GD_FLOAT64) refine_f64(&in, other, count);
    if (r->x->dtype == GD_INT64) refine_i64(&in, other, count);
    const int64_t to = line_offset(r->values, r->dim, l);
    storing out = {item, in.x, (char *)r->values->data + to * bytes, (int64_t *)r->indices->data + to, r->keep, in.step, r->values->strides[r->dim]};
    in_blocks(r->keep, bytes == 8 ? store_8 : bytes == 4 ? store_4 : store_1, &out);
}

/* ---- The largest or smallest few: candidates below the worst of the best so far, put in order when there are many ---- */

typedef struct picking {
    uint64_t *item, *other;
    uint32_t *count;
    int64_t k, n, room;
    uint32_t bound; /* upper half of the k-th so far */
} picking;

static picking picking_in(char *space, int64_t k) {
    const int64_t room = gd_top_room(k);
    uint64_t *item = (uint64_t *)space;
    return (picking){item, item + room, (uint32_t *)(item + 2 * room), k, 0, room, UINT32_MAX};
}

enum { INSERTED = 32 }; /* so few are kept in order one by one */

static void insert(picking *p, uint64_t item) {
    int64_t at = p->n < p->k ? p->n++ : p->k - 1;
    for (; at > 0 && p->item[at - 1] > item; at--) p->item[at] = p->item[at - 1];
    p->item[at] = item;
    if (p->n == p->k) p->bound = (uint32_t)(p->item[p->k - 1] >> 32);
}

static void keep_best(picking *p) {
    if (p->k <= INSERTED) return;
    sort_items(p->item, p->other, p->n, p->count);
    if (p->n < p->k) return;
    p->n = p->k;
    p->bound = (uint32_t)(p->item[p->k - 1] >> 32);
}

enum { LOOK = 32 }; /* entries that are passed over together where none is a candidate */

/* Entries first .. last of a line. What equals the bound may be better only while there are fewer than k. */
#define DEFINE_PICK(name, T, word)                                                                       \
    static void pick_##name(picking *p, const T *x, int64_t step, uint32_t flip, int64_t first, int64_t last) { \
        uint32_t w[LOOK];                                                                                \
        for (int64_t at = first; at < last; at += LOOK) {                                                \
            const int64_t n = last - at < LOOK ? last - at : LOOK;                                       \
            uint32_t any = 0;                                                                            \
            const uint32_t bound = p->bound;                                                             \
            if (step == 1) for (int64_t k = 0; k < n; k++) w[k] = word(x[at + k]) ^ flip, any |= w[k] < bound; \
            else for (int64_t k = 0; k < n; k++) w[k] = word(x[(at + k) * step]) ^ flip, any |= w[k] < bound; \
            if (!any && bound != UINT32_MAX) continue;                                                   \
            for (int64_t k = 0; k < n; k++) {                                                            \
                if (w[k] >= p->bound && p->n >= p->k) continue;                                          \
                const uint64_t item = UPPER(w[k]) | (uint64_t)(at + k);                                  \
                if (p->k <= INSERTED) {                                                                  \
                    insert(p, item);                                                                     \
                    continue;                                                                            \
                }                                                                                        \
                p->item[p->n++] = item;                                                                  \
                if (p->n == p->room) keep_best(p);                                                       \
            }                                                                                            \
        }                                                                                                \
        keep_best(p);                                                                                    \
    }
DEFINE_PICK(f32, float, word_of_f32)
DEFINE_PICK(i32, int32_t, word_of_i32)
DEFINE_PICK(bool, uint8_t, word_of_bool)

static void pick(picking *p, const sorting *r, const char *x, int64_t first, int64_t last) {
    const int64_t step = r->x->strides[r->dim];
    if (r->x->dtype == GD_FLOAT32) pick_f32(p, (const float *)(const void *)x, step, (uint32_t)r->flip, first, last);
    else if (r->x->dtype == GD_INT32) pick_i32(p, (const int32_t *)(const void *)x, step, (uint32_t)r->flip, first, last);
    else pick_bool(p, (const uint8_t *)x, step, (uint32_t)r->flip & 1, first, last);
}

static const char *line_at(const sorting *r, int64_t l) { return (const char *)r->x->data + line_offset(r->x, r->dim, l) * gd_dtype_bytes(r->x->dtype); }

static void store_best(const sorting *r, int64_t l, const uint64_t *item) {
    const int64_t bytes = gd_dtype_bytes(r->x->dtype), to = line_offset(r->values, r->dim, l);
    storing out = {item, line_at(r, l), (char *)r->values->data + to * bytes, (int64_t *)r->indices->data + to, r->keep, r->x->strides[r->dim],
                   r->values->strides[r->dim]};
    in_blocks(r->keep, bytes == 4 ? store_4 : store_1, &out);
}

static void top_line(const sorting *r, int64_t l, char *space) {
    picking p = picking_in(space, r->keep);
    pick(&p, r, line_at(r, l), 0, r->n);
    store_best(r, l, p.item);
}

typedef struct top_split {
    const sorting *r;
    const char *x;
    uint64_t *best; /* (tiles, k) */
} top_split;

static void top_tile(void *ctx, int64_t i, int worker) {
    const top_split *s = ctx;
    const int64_t last = (i + 1) * GD_TOP_TILE, k = s->r->keep;
    picking p = picking_in(s->r->space + worker * s->r->line_bytes, k);
    pick(&p, s->r, s->x, i * GD_TOP_TILE, last < s->r->n ? last : s->r->n);
    memcpy(s->best + i * k, p.item, (size_t)p.n * sizeof *p.item);
    for (int64_t j = p.n; j < k; j++) s->best[i * k + j] = UINT64_MAX;
}

/* All threads look through a long line. */
static void top_long_line(const sorting *r, int64_t l, uint64_t *best) {
    const int64_t tiles = (r->n + GD_TOP_TILE - 1) / GD_TOP_TILE, all = tiles * r->keep;
    top_split s = {r, line_at(r, l), best};
    gd_parallel(tiles, top_tile, &s);
    sort_items(best, best + all, all, (uint32_t *)(best + 2 * all));
    store_best(r, l, best);
}

/* ---- Kernels ---------------------------------------------------------------------------------------------------- */

static void some_lines(void *ctx, int64_t i, int worker) {
    const sorting *r = ctx;
    const int64_t last = (i + 1) * r->task_lines < r->lines ? (i + 1) * r->task_lines : r->lines;
    for (int64_t l = i * r->task_lines; l < last; l++) r->line(r, l, r->space + worker * r->line_bytes);
}

static sorting sorting_of(const gd_args *a, bool descending) {
    sorting r = {.x = a->in[0], .values = a->out[0], .indices = a->out[1], .dim = (int)a->attr->i[0], .flip = descending ? UINT64_MAX : 0};
    r.n = r.x->shape[r.dim], r.keep = r.values->shape[r.dim];
    r.lines = r.keep ? gd_numel(r.values) / r.keep : 0;
    r.space = a->workspace;
    return r;
}

static void sort_lines(sorting *r) {
    if (r->lines == 0) return;
    r->line_bytes = (gd_sort_line_bytes(r->n) + 63) & -(int64_t)64;
    r->line = sort_line;
    r->task_lines = r->n >= GD_SORT_SPLIT ? r->lines : r->n < TASK ? TASK / r->n : 1;
    if (r->task_lines >= r->lines) some_lines(r, 0, 0);
    else gd_parallel((r->lines + r->task_lines - 1) / r->task_lines, some_lines, r);
}

void GD_KERNEL(sort)(const gd_args *a) {
    sorting r = sorting_of(a, a->attr->i[1] != 0);
    sort_lines(&r);
}

void GD_KERNEL(topk)(const gd_args *a) {
    sorting r = sorting_of(a, a->attr->i[2] != 0);
    if (!gd_top_selects(r.n, r.keep, gd_dtype_bytes(r.x->dtype) == 8)) {
        sort_lines(&r);
        return;
    }
    if (r.lines == 0) return;
    r.line_bytes = (gd_sort_line_bytes(gd_top_room(r.keep)) + 63) & -(int64_t)64;
    if (r.n >= GD_SORT_SPLIT) {
        for (int64_t l = 0; l < r.lines; l++) top_long_line(&r, l, (uint64_t *)(void *)(r.space + gd_parallel_width() * r.line_bytes));
        return;
    }
    r.line = top_line;
    r.task_lines = r.n < 4 * TASK ? 4 * TASK / r.n : 1;
    if (r.task_lines >= r.lines) some_lines(&r, 0, 0);
    else gd_parallel((r.lines + r.task_lines - 1) / r.task_lines, some_lines, &r);
}
