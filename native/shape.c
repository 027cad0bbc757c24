/* shape.c - shape rules of elementwise, reduction and softmax ops, and the helpers all rules share.
 * A rule checks inputs and attributes and says what the outputs look like; kernels rely on it. */
#include "rules.h"
#include "shape.h"
#include "softmax.h"
#include "thread.h"

gd_status gd_shape_out(gd_shape_call *c, int k, int64_t rank, const int64_t *shape, int dtype) {
    return gd_view_init(&c->out[k], rank, shape, dtype, c->name);
}

gd_status gd_shape_like(gd_shape_call *c, int k, const gd_view *v, int dtype) {
    gd_view *out = &c->out[k];
    int64_t span = 1;
    for (int d = GD_DIMS - 1; d >= 0; d--) {
        out->shape[d] = v->shape[d];
        out->strides[d] = span;
        span *= v->shape[d] ? v->shape[d] : 1;
    }
    out->rank = v->rank;
    out->dtype = (uint8_t)dtype;
    for (int d = 0; d < GD_DIMS; d++)
        if (v->strides[d] == 0 && v->shape[d] > 1) /* an expanded input may be larger than memory */
            return gd_view_init(out, v->rank, gd_logical_shape(v), dtype, c->name);
    return GD_OK;
}

gd_status gd_shape_broadcast(gd_shape_call *c, int first, int count, int dtype) {
    gd_view like = *gd_in(c, first);
    bool same = true;
    for (int k = first + 1; k < first + count; k++) {
        const gd_view *v = gd_in(c, k);
        if (v->rank > like.rank) like.rank = v->rank;
        for (int d = 0; d < GD_DIMS; d++) {
            if (v->shape[d] == like.shape[d]) continue;
            if (like.shape[d] == 1) like.shape[d] = v->shape[d];
            else if (v->shape[d] != 1) {
                const gd_view *a = gd_in(c, first);
                return gd_fail(GD_ERR_SHAPE, "%s: shapes %s and %s cannot be broadcast: dimension %d is %lld and %lld; sizes must be equal, or one of them 1",
                               c->name, gd_text_view(a), gd_text_view(v), d - GD_DIMS, (long long)like.shape[d], (long long)v->shape[d]);
            }
            same = false;
        }
    }
    if (same) return gd_shape_like(c, 0, &like, dtype);
    return gd_shape_out(c, 0, like.rank, gd_logical_shape(&like), dtype);
}

gd_status gd_shape_need_float(const gd_shape_call *c, int k) {
    if (gd_is_float(gd_in(c, k)->dtype)) return GD_OK;
    return gd_fail(GD_ERR_DTYPE, "%s: input %d is %s, but must be floating point", c->name, k, gd_dtype_name(gd_in(c, k)->dtype));
}

gd_status gd_shape_need_same_dtype(const gd_shape_call *c, int i, int j) {
    if (gd_in(c, i)->dtype == gd_in(c, j)->dtype) return GD_OK;
    return gd_fail(GD_ERR_DTYPE, "%s: input %d is %s and input %d is %s: they must have one dtype", c->name, i, gd_dtype_name(gd_in(c, i)->dtype), j,
                   gd_dtype_name(gd_in(c, j)->dtype));
}

gd_status gd_shape_need_int64(const gd_shape_call *c, int k) {
    if (gd_in(c, k)->dtype == GD_INT64) return GD_OK;
    return gd_fail(GD_ERR_DTYPE, "%s: input %d is %s, but indices and labels must be int64", c->name, k, gd_dtype_name(gd_in(c, k)->dtype));
}

gd_status gd_shape_need_dim(const gd_shape_call *c, int k) {
    const gd_view *v = gd_in(c, 0);
    int64_t dim = c->attr->i[k], rank = v->rank ? v->rank : 1;
    if (dim >= GD_DIMS - rank && dim < GD_DIMS) return GD_OK;
    return gd_fail(GD_ERR_VALUE, "%s: attribute %d is %lld, which is no dimension of shape %s: counted in four, they are %lld to 3", c->name, k,
                   (long long)dim, gd_text_view(v), (long long)(GD_DIMS - rank));
}

/* Checks run in tasks of so many elements: about 10 us. */
enum { RANGE_TASK = 16 * 1024 };

typedef struct range_check {
    const int64_t *x;
    int64_t n, low, last;
    bool bad;
} range_check;

static void range_task(void *ctx, int64_t i, int worker) {
    range_check *r = ctx;
    const int64_t end = (i + 1) * RANGE_TASK < r->n ? (i + 1) * RANGE_TASK : r->n;
    uint64_t outside = 0; /* the sign of either difference; wrapped around it would still be negative */
    (void)worker;
    for (int64_t k = i * RANGE_TASK; k < end; k++) outside |= ((uint64_t)r->x[k] - (uint64_t)r->low) | ((uint64_t)r->last - (uint64_t)r->x[k]);
    if (outside >> 63) __atomic_store_n(&r->bad, true, __ATOMIC_RELAXED);
}

/* Whether all are in [low, high), where low <= 0 < high: a quick look at what lies side by side. */
static bool all_within(const gd_view *v, int64_t low, int64_t high) {
    range_check r = {v->data, gd_numel(v), low, high - 1, false};
    if (low > 0 || high < 1 || !gd_is_contiguous(v)) return false;
    const int64_t tasks = (r.n + RANGE_TASK - 1) / RANGE_TASK;
    if (tasks > 4) gd_parallel(tasks, range_task, &r);
    else
        for (int64_t i = 0; i < tasks; i++) range_task(&r, i, 0);
    return !r.bad;
}

gd_status gd_shape_check_range(const gd_shape_call *c, const gd_view *v, int64_t low, int64_t high, int64_t ignore, const char *what) {
    if (v->device) return GD_OK; /* its kernel looks */
    gd_view once = *v; /* what repeats with stride 0 is looked at once */
    for (int d = 0; d < GD_DIMS; d++)
        if (once.strides[d] == 0 && once.shape[d] > 1) once.shape[d] = 1;
    v = &once;
    if (all_within(v, low, high)) return GD_OK;
    for (int64_t a = 0; a < v->shape[0]; a++)
        for (int64_t b = 0; b < v->shape[1]; b++)
            for (int64_t i = 0; i < v->shape[2]; i++) {
                const int64_t *row = (const int64_t *)v->data + a * v->strides[0] + b * v->strides[1] + i * v->strides[2];
                for (int64_t j = 0; j < v->shape[3]; j++) {
                    int64_t x = row[j * v->strides[3]];
                    if ((x < low || x >= high) && x != ignore)
                        return gd_fail(GD_ERR_INDEX, "%s: %s %lld is out of range: it must be in [%lld, %lld)", c->name, what, (long long)x, (long long)low,
                                       (long long)high);
                }
            }
    return GD_OK;
}

/* ---- Elementwise ------------------------------------------------------------------------------------------ */

gd_status gd_shape_unary_num(gd_shape_call *c) { return gd_shape_like(c, 0, gd_in(c, 0), gd_in(c, 0)->dtype); }

gd_status gd_shape_clamp(gd_shape_call *c) { return gd_shape_unary_num(c); }

gd_status gd_shape_unary_float(gd_shape_call *c) {
    GD_TRY(gd_shape_need_float(c, 0));
    return gd_shape_like(c, 0, gd_in(c, 0), gd_in(c, 0)->dtype);
}

gd_status gd_shape_softplus(gd_shape_call *c) { return gd_shape_unary_float(c); }
gd_status gd_shape_curve(gd_shape_call *c) { return gd_shape_unary_float(c); }

gd_status gd_shape_unary_bool(gd_shape_call *c) { return gd_shape_like(c, 0, gd_in(c, 0), GD_BOOL); }
gd_status gd_shape_copy(gd_shape_call *c) { return gd_shape_like(c, 0, gd_in(c, 0), gd_in(c, 0)->dtype); }

gd_status gd_shape_cast(gd_shape_call *c) {
    int64_t dtype = c->attr->i[0];
    if (dtype < 0 || dtype >= GD_DTYPES) return gd_fail(GD_ERR_DTYPE, "cast: %lld is no dtype", (long long)dtype);
    return gd_shape_like(c, 0, gd_in(c, 0), (int)dtype);
}

gd_status gd_shape_same(gd_shape_call *c) { /* gradients and slopes */
    GD_TRY(gd_shape_need_float(c, 0));
    return gd_shape_binary(c);
}

/* A number that stands in float32 beside bfloat16 or float16, so that it is not rounded. */
static bool is_number_beside(const gd_shape_call *c, int k, int other) {
    return c->in[k]->flags & GD_WEAK && gd_in(c, k)->dtype == GD_FLOAT32 && gd_is_half(gd_in(c, other)->dtype);
}

/* Of one shape: their own gradients do not sum over what was broadcast. */
gd_status gd_shape_slope(gd_shape_call *c) {
    const gd_view *g = gd_in(c, 0), *y = gd_in(c, 1);
    if (g->rank != y->rank || memcmp(g->shape, y->shape, sizeof g->shape) != 0)
        return gd_fail(GD_ERR_SHAPE, "%s: shapes %s and %s: they must be equal", c->name, gd_text_view(g), gd_text_view(y));
    return gd_shape_same(c);
}

gd_status gd_shape_binary(gd_shape_call *c) {
    if (is_number_beside(c, 0, 1)) return gd_shape_broadcast(c, 0, 2, gd_in(c, 1)->dtype);
    if (!is_number_beside(c, 1, 0)) GD_TRY(gd_shape_need_same_dtype(c, 0, 1));
    return gd_shape_broadcast(c, 0, 2, gd_in(c, 0)->dtype);
}

gd_status gd_shape_binary_float(gd_shape_call *c) {
    GD_TRY(gd_shape_need_float(c, 0));
    return gd_shape_binary(c);
}

/* Looks through an integer tensor for the first element that `bad` accepts; elements of any integer dtype. */
static bool any_int(const gd_view *v, bool (*bad)(int64_t)) {
    if (v->device) return false; /* kernels make something harmless of it, as PyTorch's */
    for (int64_t a = 0; a < v->shape[0]; a++)
        for (int64_t b = 0; b < v->shape[1]; b++)
            for (int64_t i = 0; i < v->shape[2]; i++)
                for (int64_t j = 0; j < v->shape[3]; j++) {
                    int64_t at = a * v->strides[0] + b * v->strides[1] + i * v->strides[2] + j * v->strides[3];
                    int64_t x = v->dtype == GD_INT64 ? ((const int64_t *)v->data)[at]
                              : v->dtype == GD_INT32 ? ((const int32_t *)v->data)[at]
                                                     : ((const uint8_t *)v->data)[at];
                    if (bad(x)) return true;
                }
    return false;
}
static bool is_zero(int64_t x) { return x == 0; }
static bool is_negative(int64_t x) { return x < 0; }

gd_status gd_shape_binary_int_div(gd_shape_call *c) {
    GD_TRY(gd_shape_binary(c));
    const gd_view *b = gd_in(c, 1);
    if (!gd_is_float(b->dtype) && gd_numel(&c->out[0]) && any_int(b, is_zero))
        return gd_fail(GD_ERR_ZERO_DIVISION, "%s: the divisor of shape %s (%s) has a zero: integers cannot be divided by it", c->name, gd_text_view(b),
                       gd_dtype_name(b->dtype));
    return GD_OK;
}

gd_status gd_shape_pow(gd_shape_call *c) {
    GD_TRY(gd_shape_binary(c));
    const gd_view *b = gd_in(c, 1);
    if (!gd_is_float(b->dtype) && any_int(b, is_negative))
        return gd_fail(GD_ERR_VALUE, "pow: integers cannot be raised to negative integer powers; make one of them floating point");
    return GD_OK;
}

gd_status gd_shape_compare(gd_shape_call *c) {
    GD_TRY(gd_shape_need_same_dtype(c, 0, 1));
    return gd_shape_broadcast(c, 0, 2, GD_BOOL);
}

gd_status gd_shape_where(gd_shape_call *c) {
    if (gd_in(c, 0)->dtype != GD_BOOL) return gd_fail(GD_ERR_DTYPE, "where: the condition is %s, but must be bool", gd_dtype_name(gd_in(c, 0)->dtype));
    GD_TRY(gd_shape_need_same_dtype(c, 1, 2));
    return gd_shape_broadcast(c, 0, 3, gd_in(c, 1)->dtype);
}

gd_status gd_shape_dropout(gd_shape_call *c) {
    GD_TRY(gd_shape_need_float(c, 0));
    return gd_shape_like(c, 0, gd_in(c, 0), gd_in(c, 0)->dtype);
}

/* ---- Reductions --------------------------------------------------------------------------------------------- */

static int64_t reduced_count(const gd_view *v, int64_t mask) {
    int64_t count = 1;
    for (int d = 0; d < GD_DIMS; d++)
        if (mask >> d & 1) count *= v->shape[d];
    return count;
}

static gd_status reduce_out(gd_shape_call *c, int k, int dtype) {
    const gd_view *v = gd_in(c, 0);
    int64_t shape[GD_DIMS], rank = 0, mask = c->attr->i[0];
    if (mask & ~15) return gd_fail(GD_ERR_VALUE, "%s: %lld is no mask of the four dimensions", c->name, (long long)mask);
    for (int d = GD_DIMS - v->rank; d < GD_DIMS; d++) {
        bool reduced = mask >> d & 1;
        if (!reduced || c->attr->i[1]) shape[rank++] = reduced ? 1 : v->shape[d];
    }
    return gd_shape_out(c, k, rank, shape, dtype);
}

static gd_status need_elements(gd_shape_call *c) {
    const gd_view *v = gd_in(c, 0);
    if (reduced_count(v, c->attr->i[0]) > 0) return GD_OK;
    int64_t kept = reduced_count(v, ~c->attr->i[0] & 15);
    if (kept == 0) return GD_OK; /* nothing to answer for */
    return gd_fail(GD_ERR_SHAPE, "%s: shape %s has no elements to choose from in the reduced dimensions", c->name, gd_text_view(v));
}

gd_status gd_shape_reduce_sum(gd_shape_call *c) {
    int dtype = gd_in(c, 0)->dtype;
    return reduce_out(c, 0, gd_is_float(dtype) ? dtype : GD_INT64);
}

gd_status gd_shape_reduce_float(gd_shape_call *c) {
    GD_TRY(gd_shape_need_float(c, 0));
    return reduce_out(c, 0, gd_in(c, 0)->dtype);
}

gd_status gd_shape_reduce_lse(gd_shape_call *c) { return gd_shape_reduce_float(c); }

gd_status gd_shape_reduce_max(gd_shape_call *c) {
    GD_TRY(need_elements(c));
    return reduce_out(c, 0, gd_in(c, 0)->dtype);
}

gd_status gd_shape_reduce_maxdim(gd_shape_call *c) {
    int64_t mask = c->attr->i[0];
    if (mask <= 0 || mask & (mask - 1)) return gd_fail(GD_ERR_VALUE, "%s: reduces one dimension, got mask %lld", c->name, (long long)mask);
    GD_TRY(need_elements(c));
    GD_TRY(reduce_out(c, 0, gd_in(c, 0)->dtype));
    return reduce_out(c, 1, GD_INT64);
}

gd_status gd_shape_reduce_arg(gd_shape_call *c) {
    GD_TRY(need_elements(c));
    return reduce_out(c, 0, GD_INT64);
}

gd_status gd_shape_reduce_bool(gd_shape_call *c) { return reduce_out(c, 0, GD_BOOL); }

/* ---- Softmax -------------------------------------------------------------------------------------------------- */

gd_status gd_shape_softmax(gd_shape_call *c) {
    GD_TRY(gd_shape_need_float(c, 0));
    GD_TRY(gd_shape_need_dim(c, 0));
    c->workspace = 2 * gd_softmax_stage(gd_in(c, 0), c->attr->i[0]) * gd_parallel_width();
    return gd_shape_like(c, 0, gd_in(c, 0), gd_in(c, 0)->dtype);
}

gd_status gd_shape_softmax_bwd(gd_shape_call *c) {
    GD_TRY(gd_shape_need_float(c, 0));
    GD_TRY(gd_shape_need_same_dtype(c, 0, 1));
    GD_TRY(gd_shape_need_dim(c, 0));
    if (!gd_same_shape(gd_in(c, 0), gd_in(c, 1)))
        return gd_fail(GD_ERR_SHAPE, "%s: shapes %s and %s differ", c->name, gd_text_view(gd_in(c, 0)), gd_text_view(gd_in(c, 1)));
    c->workspace = 2 * gd_softmax_stage(gd_in(c, 0), c->attr->i[0]) * gd_parallel_width();
    return gd_shape_like(c, 0, gd_in(c, 1), gd_in(c, 1)->dtype);
}
