/* tensor.c - nodes: making, finding and describing tensors; reading and writing their elements. */
#include "engine.h"
#include "half.h"

#include <math.h>

const char *gd_dtype_name(int dtype) {
    static const char *const names[GD_DTYPES] = {"float32", "float64", "int64", "int32", "bool", "bfloat16", "float16"};
    return dtype >= 0 && dtype < GD_DTYPES ? names[dtype] : "unknown dtype";
}

gd_node *gd_node_missing(gd_tensor h, const char *who) {
    if (h <= GD_ABSENT) {
        if (h || gd_last_status() >= 0) gd_fail(GD_ERR, "%s: an input is no tensor (handle %d)", who, (int)h);
        return NULL;
    }
    gd_arena *a = gd_arena_by_handle(h);
    uint32_t epoch = (uint32_t)(h >> (GD_INDEX_BITS + GD_ARENA_BITS));
    if (epoch < a->first_epoch) /* of an earlier arena in the same slot, whose name is forgotten */
        gd_fail(GD_ERR_STALE, "%s: this tensor is gone: its arena was closed since", who);
    else if (a->is_permanent)
        gd_fail(GD_ERR_STALE, "%s: this tensor is gone: it was a gradient cleared by zero_grad (use .clone() to keep one), or a parameter that was freed", who);
    else
        gd_fail(GD_ERR_STALE,
                "%s: this tensor is gone: its arena '%s' was %s since. Take .item() or .numpy() inside the block, or .keep() to carry a tensor out of it", who,
                a->name, a->is_open && !a->closing ? "reset" : "closed");
    return NULL;
}

gd_status gd_view_init(gd_view *v, int64_t rank, const int64_t *shape, int dtype, const char *who) {
    if (rank < 0 || rank > GD_DIMS) return gd_fail(GD_ERR_SHAPE, "%s: rank %lld: tensors have at most four dimensions", who, (long long)rank);
    if (dtype < 0 || dtype >= GD_DTYPES) return gd_fail(GD_ERR_DTYPE, "%s: %d is no dtype", who, dtype);
    int64_t pad = GD_DIMS - rank, count = 1, span = 1;
    v->rank = (uint8_t)rank;
    v->dtype = (uint8_t)dtype;
    v->device = 0;
    for (int64_t d = GD_DIMS - 1; d >= 0; d--) {
        int64_t size = d < pad ? 1 : shape[d - pad];
        if (size < 0) return gd_fail(GD_ERR_SHAPE, "%s: shape %s has a negative size", who, gd_text_shape(rank, shape));
        v->shape[d] = size;
        v->strides[d] = span;
        if (__builtin_mul_overflow(count, size, &count) || __builtin_mul_overflow(span, size ? size : 1, &span) || span > INT64_MAX / 16)
            return gd_fail(GD_ERR_MEMORY, "%s: shape %s has more elements than memory can ever hold", who, gd_text_shape(rank, shape));
    }
    return GD_OK;
}

gd_view gd_view_like(const gd_view *v) {
    gd_view like = *v;
    like.data = NULL;
    for (int64_t d = GD_DIMS - 1, span = 1; d >= 0; span *= v->shape[d] ? v->shape[d] : 1, d--) like.strides[d] = span;
    return like;
}

gd_node *gd_node_new(gd_arena *a, const gd_view *like) {
    if (!a) return NULL;
    gd_arena_lock(a);
    gd_place place = gd_arena_at(a);
    void *data = gd_arena_bytes_on(a, like->device, gd_numel(like) * gd_dtype_bytes(like->dtype));
    gd_node *n = data ? gd_arena_node(a) : NULL;
    if (!n) gd_arena_undo(a, &place);
    gd_arena_unlock(a);
    if (!n) return NULL;
    n->v = *like;
    n->v.data = data;
    return n;
}

void gd_node_retag(gd_node *n) {
    gd_tensor step = (gd_tensor)1 << (GD_INDEX_BITS + GD_ARENA_BITS);
    gd_tensor self = n->self + step;
    if (self < step) self += step; /* epoch 0 is never used */
    __atomic_store_n(&n->self, self, __ATOMIC_RELAXED);
    n->base = self;
}

int64_t gd_view_bytes(const gd_view *v, char **start) {
    int64_t before = 0, after = 0; /* elements from the first one, either way */
    *start = v->data;
    if (gd_numel(v) == 0) return 0;
    for (int d = 0; d < GD_DIMS; d++) *(v->strides[d] < 0 ? &before : &after) += (v->shape[d] - 1) * v->strides[d];
    *start += before * gd_dtype_bytes(v->dtype);
    return (after - before + 1) * gd_dtype_bytes(v->dtype);
}

bool gd_views_overlap(const gd_view *a, const gd_view *b) {
    char *from_a, *from_b;
    int64_t bytes_a = gd_view_bytes(a, &from_a), bytes_b = gd_view_bytes(b, &from_b);
    return a->device == b->device && bytes_a && bytes_b && from_a < from_b + bytes_b && from_b < from_a + bytes_a;
}

int64_t gd_dim(const gd_view *v, int64_t dim, const char *who) {
    int64_t rank = v->rank ? v->rank : 1; /* a scalar accepts 0 and -1, as in PyTorch */
    if (dim < -rank || dim >= rank)
        return gd_fail(GD_ERR_INDEX, "%s: dimension %lld of a tensor of shape %s: it must be in [%lld, %lld]", who, (long long)dim, gd_text_view(v),
                       (long long)-rank, (long long)(rank - 1));
    return GD_DIMS - rank + (dim < 0 ? dim + rank : dim);
}

gd_status gd_check(gd_tensor t) { return gd_node_of(t, "tensor") ? GD_OK : gd_last_status(); }

int64_t gd_shape(gd_tensor t, int64_t *shape) {
    gd_node *n = gd_node_of(t, "shape");
    if (!n) return gd_last_status();
    memcpy(shape, gd_logical_shape(&n->v), sizeof(int64_t) * n->v.rank);
    return n->v.rank;
}

gd_status gd_info(gd_tensor t, gd_tensor_info *out) {
    gd_node *n = gd_node_of(t, "tensor");
    if (!n) return gd_last_status();
    int pad = GD_DIMS - n->v.rank;
    *out = (gd_tensor_info){.data = n->v.data,
                            .numel = gd_numel(&n->v),
                            .rank = n->v.rank,
                            .dtype = n->v.dtype,
                            .requires_grad = (n->flags & GD_REQUIRES_GRAD) != 0,
                            .is_leaf = (n->flags & GD_LEAF) != 0,
                            .is_parameter = (n->flags & GD_PARAMETER) != 0,
                            .retains_grad = (n->flags & GD_RETAIN_GRAD) != 0,
                            .has_grad = (n->work & GD_GRAD_SET) != 0,
                            .contiguous = gd_is_contiguous(&n->v),
                            .has_node = !(n->flags & GD_LEAF),
                            .is_grad_buffer = (gd_storage(n)->flags & GD_GRAD_BUFFER) != 0,
                            .version = gd_storage_version(n),
                            .is_external = (gd_storage(n)->flags & GD_EXTERNAL) != 0,
                            .op = n->op < 0 ? -1 : n->op,
                            .out_index = n->out_index,
                            .base = n->base,
                            .device = n->v.device};
    for (int d = 0; d < n->v.rank; d++) {
        out->shape[d] = n->v.shape[d + pad];
        out->strides[d] = n->v.strides[d + pad];
    }
    return gd_done();
}

/* ---- Making ------------------------------------------------------------------------------------------------ */

gd_tensor gd_empty(int64_t rank, const int64_t *shape, int dtype) {
    gd_view v;
    GD_TRY_TENSOR(gd_view_init(&v, rank, shape, dtype, "empty"));
    v.device = gd_self()->device;
    gd_node *n = gd_node_new(gd_arena_active(), &v);
    return n ? n->self : 0;
}

gd_tensor gd_from_data(int64_t rank, const int64_t *shape, int dtype, const void *data) {
    gd_tensor h = gd_empty(rank, shape, dtype);
    gd_node *n = h ? gd_node_peek(h) : NULL;
    if (!n) return 0;
    size_t bytes = (size_t)(gd_numel(&n->v) * gd_dtype_bytes(dtype));
    if (bytes && !data) return gd_fail(GD_ERR_VALUE, "tensor: no data (NULL) for shape %s", gd_text_shape(rank, shape)), 0;
    if (n->v.device) return gd_device_write(n->v.device, n->v.data, data, (int64_t)bytes) < 0 ? 0 : h;
    if (bytes) memcpy(n->v.data, data, bytes);
    return h;
}

gd_tensor gd_from_external(int64_t rank, const int64_t *shape, const int64_t *strides, int dtype, void *data) {
    return gd_from_device(0, rank, shape, strides, dtype, data);
}

gd_tensor gd_from_device(int device, int64_t rank, const int64_t *shape, const int64_t *strides, int dtype, void *data) {
    gd_view v;
    if (device) GD_TRY_TENSOR(gd_device_need(device, "from_dlpack"));
    GD_TRY_TENSOR(gd_view_init(&v, rank, shape, dtype, "from_numpy"));
    if ((!data && gd_numel(&v)) || (uintptr_t)data % (uintptr_t)gd_dtype_bytes(dtype)) {
        gd_fail(GD_ERR_VALUE, "from_numpy: %p is no place for elements of %s: it must be a multiple of their size", data, gd_dtype_name(dtype));
        return 0;
    }
    gd_arena *a = gd_arena_active();
    if (!a) return 0;
    gd_arena_lock(a);
    gd_node *n = gd_arena_node(a);
    gd_arena_unlock(a);
    if (!n) return 0;
    n->v = v;
    n->v.data = data;
    n->v.device = (uint8_t)device;
    n->flags |= GD_EXTERNAL;
    for (int64_t d = 0; d < rank; d++) n->v.strides[GD_DIMS - rank + d] = strides[d];
    return n->self;
}

gd_tensor gd_scalar(double value, int64_t ivalue, int dtype) {
    if (dtype < 0 || dtype >= GD_DTYPES) {
        gd_fail(GD_ERR_DTYPE, "scalar: %d is no dtype", dtype);
        return 0;
    }
    gd_view v = {.shape = {1, 1, 1, 1}, .strides = {1, 1, 1, 1}, .dtype = (uint8_t)dtype};
    gd_node *n = gd_node_new(gd_arena_active(), &v);
    if (!n) return 0;
    switch (dtype) {
    case GD_FLOAT32: *(float *)n->v.data = (float)value; break;
    case GD_FLOAT64: *(double *)n->v.data = value; break;
    case GD_INT64: *(int64_t *)n->v.data = ivalue; break;
    case GD_INT32: *(int32_t *)n->v.data = (int32_t)ivalue; break;
    case GD_BFLOAT16: *(uint16_t *)n->v.data = gd_bf16_of_f64(value); break;
    case GD_FLOAT16: *(uint16_t *)n->v.data = gd_f16_of_f64(value); break;
    default: *(uint8_t *)n->v.data = ivalue != 0;
    }
    n->flags |= GD_WEAK;
    return n->self;
}

/* ---- Reading and writing ------------------------------------------------------------------------------------ */

gd_status gd_item(gd_tensor t, double *value, int64_t *ivalue) {
    gd_node *n = gd_node_of(t, "item");
    if (!n) return gd_last_status();
    if (gd_numel(&n->v) != 1)
        return gd_fail(GD_ERR_SHAPE, "item: shape %s has %lld elements: item() needs exactly one", gd_text_view(&n->v), (long long)gd_numel(&n->v));
    int64_t word; /* for a copy of one on a device */
    const void *at = n->v.data;
    if (n->v.device) {
        GD_TRY(gd_device_read(n->v.device, &word, at, gd_dtype_bytes(n->v.dtype)));
        at = &word;
    }
    switch (n->v.dtype) {
    case GD_FLOAT32: *value = *(const float *)at; break;
    case GD_FLOAT64: *value = *(const double *)at; break;
    case GD_INT64: *ivalue = *(const int64_t *)at; break;
    case GD_INT32: *ivalue = *(const int32_t *)at; break;
    case GD_BFLOAT16: *value = gd_f32_of_bf16(*(const uint16_t *)at); break;
    case GD_FLOAT16: *value = gd_f32_of_f16(*(const uint16_t *)at); break;
    default: *ivalue = *(const uint8_t *)at;
    }
    return GD_OK;
}

int gd_dtype_of(gd_tensor t) {
    gd_node *n = gd_node_of(t, "dtype");
    return n ? n->v.dtype : gd_last_status();
}

double gd_item_float(gd_tensor t) {
    double value = NAN;
    int64_t ivalue = 0;
    gd_clear_error();
    return gd_item(t, &value, &ivalue) < 0 ? NAN : value;
}

int64_t gd_item_int(gd_tensor t) {
    double value = 0;
    int64_t ivalue = 0;
    gd_clear_error();
    gd_item(t, &value, &ivalue);
    return ivalue;
}

gd_status gd_copy_out(gd_tensor t, void *data, int64_t bytes) {
    gd_node *n = gd_node_of(t, "copy out");
    if (!n) return gd_last_status();
    int64_t need = gd_numel(&n->v) * gd_dtype_bytes(n->v.dtype);
    if (need != bytes) return gd_fail(GD_ERR_SHAPE, "copy out: %lld bytes for a tensor of %lld", (long long)bytes, (long long)need);
    gd_view to;
    GD_TRY(gd_view_init(&to, n->v.rank, gd_logical_shape(&n->v), n->v.dtype, "copy out"));
    to.data = data;
    if (n->v.device) GD_TRY(gd_transfer(&to, &n->v, true));
    else if (bytes) gd_copy_view(&to, &n->v);
    return gd_done();
}

static const char WRITE[] = "in-place write"; /* what messages call x[i] = v, add_, copy_ and the like */

gd_status gd_check_single(const gd_node *n, const char *who) {
    for (int d = 0; d < GD_DIMS; d++)
        if (n->v.strides[d] == 0 && n->v.shape[d] > 1 && gd_numel(&n->v) > 0)
            return gd_fail(GD_ERR, "%s: the tensor of shape %s is an expanded view: several of its elements are one place in memory. Write to a .clone()", who,
                           gd_text_view(&n->v));
    return GD_OK;
}

gd_status gd_check_writable(gd_node *n, const char *who) {
    GD_TRY(gd_check_single(n, who));
    if (!gd_self()->grad_enabled) return GD_OK;
    if (n->flags & GD_REQUIRES_GRAD) /* a detached view may be written: version counters tell backward */
        return gd_fail(GD_ERR, "%s: the tensor requires grad, and a write in place is not recorded: gradients would be wrong. "
                               "Write a .clone(), or inside no_grad()", who);
    return GD_OK;
}

gd_status gd_copy_overlapping(gd_view *dst, const gd_view *src) {
    gd_view like = gd_view_like(src);
    gd_arena *a = gd_arena_active();
    if (!a) return gd_last_status();
    gd_place place = gd_arena_place(a);
    gd_node *copy = gd_node_new(a, &like);
    if (!copy) return gd_last_status();
    gd_copy_view(&copy->v, src);
    gd_copy_view(dst, &copy->v);
    gd_arena_return(a, &place);
    return GD_OK;
}

gd_status gd_copy_in(gd_tensor t, gd_tensor source) {
    gd_node *n = gd_node_of(t, WRITE), *s = n ? gd_node_of(source, WRITE) : NULL;
    if (!s) return gd_last_status();
    GD_TRY(gd_check_writable(n, WRITE));
    if (gd_self()->grad_enabled && (s->flags & GD_REQUIRES_GRAD))
        return gd_fail(GD_ERR, "in-place write: the value requires grad, but this write is not recorded: its gradient would be lost. "
                               "Use gd_write, or write value.detach()");
    for (int d = 0; d < GD_DIMS; d++)
        if (s->v.shape[d] != n->v.shape[d] && s->v.shape[d] != 1)
            return gd_fail(GD_ERR_SHAPE, "setitem: a value of shape %s cannot be broadcast to %s", gd_text_view(&s->v), gd_text_view(&n->v));
    if (gd_views_overlap(&n->v, &s->v)) GD_TRY(gd_copy_overlapping(&n->v, &s->v)); /* the value as it was before the write */
    else gd_copy_view(&n->v, &s->v);
    gd_storage(n)->version++;
    return GD_OK;
}

gd_status gd_fill_in(gd_tensor t, double value, int64_t ivalue) {
    gd_node *n = gd_node_of(t, WRITE);
    if (!n) return gd_last_status();
    GD_TRY(gd_check_writable(n, WRITE));
    if (n->v.device) {
        gd_view to = n->v, *out[] = {&to};
        GD_TRY(gd_device_ready(GD_OP_fill, n->v.device));
        gd_run(GD_OP_fill, NULL, 0, out, 1, &(gd_attr){.f = {value}, .i = {[5] = n->v.dtype, [6] = ivalue}});
        gd_storage(n)->version++;
        return GD_OK;
    }
    union { float f32; double f64; int64_t i64; int32_t i32; uint16_t half; uint8_t b; } word;
    gd_view one = {.data = &word, .shape = {1, 1, 1, 1}, .dtype = n->v.dtype};
    switch (n->v.dtype) {
    case GD_FLOAT32: word.f32 = (float)value; break;
    case GD_FLOAT64: word.f64 = value; break;
    case GD_INT64: word.i64 = ivalue; break;
    case GD_INT32: word.i32 = (int32_t)ivalue; break;
    case GD_BFLOAT16: word.half = gd_bf16_of_f64(value); break;
    case GD_FLOAT16: word.half = gd_f16_of_f64(value); break;
    default: word.b = ivalue != 0;
    }
    gd_copy_view(&n->v, &one);
    gd_storage(n)->version++;
    return GD_OK;
}

gd_status gd_set_requires_grad(gd_tensor t, int on) {
    gd_node *n = gd_node_of(t, "requires_grad_");
    if (!n) return gd_last_status();
    if (on && !gd_is_float(n->v.dtype))
        return gd_fail(GD_ERR_DTYPE, "requires_grad_: only floating point tensors can require gradients, this one is %s", gd_dtype_name(n->v.dtype));
    if (!(n->flags & GD_LEAF)) {
        if (on) return GD_OK;
        return gd_fail(GD_ERR, "requires_grad_: only leaf tensors can stop requiring grad; use .detach() for the result of an op");
    }
    n->flags = (uint16_t)(on ? n->flags | GD_REQUIRES_GRAD : n->flags & ~GD_REQUIRES_GRAD);
    return GD_OK;
}
