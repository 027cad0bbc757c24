/* api_ops.c - public entry points of elementwise ops and reductions: dtype promotion and attributes. */
#include <math.h>

#include "random.h"
#include "rules.h"

/* ---- Promotion: PyTorch's rules ---------------------------------------------------------------------------- */

static atomic_int default_dtype = GD_FLOAT32; /* of floats made from integers and of numbers beside them */

int gd_default_dtype(void) { return atomic_load_explicit(&default_dtype, memory_order_relaxed); }

gd_status gd_set_default_dtype(int dtype) {
    if (dtype < 0 || dtype >= GD_DTYPES || !gd_is_float(dtype))
        return gd_fail(GD_ERR_DTYPE, "set_default_dtype: the default must be a floating point dtype");
    atomic_store(&default_dtype, dtype);
    return GD_OK;
}

static int category(int dtype) { return dtype == GD_BOOL ? 0 : gd_is_float(dtype) ? 2 : 1; }

static int wider(int a, int b) {
    static const int order[GD_DTYPES] = {[GD_BOOL] = 0, [GD_INT32] = 1, [GD_INT64] = 2, [GD_BFLOAT16] = 3, [GD_FLOAT16] = 3, [GD_FLOAT32] = 4, [GD_FLOAT64] = 5};
    if (gd_is_half(a) && gd_is_half(b) && a != b) return GD_FLOAT32;
    return order[a] >= order[b] ? a : b;
}

/* 2: has dimensions, 1: a scalar tensor, 0: made from a Python number */
static int weight(const gd_node *n) { return n->flags & GD_WEAK ? 0 : n->v.rank ? 2 : 1; }

static int promote(const gd_node *a, const gd_node *b) {
    int wa = weight(a), wb = weight(b);
    if (wa == wb) return wider(a->v.dtype, b->v.dtype);
    const gd_node *strong = wa > wb ? a : b, *weak = wa > wb ? b : a;
    if (category(weak->v.dtype) <= category(strong->v.dtype)) return strong->v.dtype;
    return weight(weak) == 0 && gd_is_float(weak->v.dtype) ? gd_default_dtype() : weak->v.dtype;
}

gd_tensor gd_cast(gd_tensor a, int dtype) {
    gd_node *n = gd_node_of(a, "cast");
    if (!n) return 0;
    return n->v.dtype == dtype ? a : GD_RECORD(cast, &(gd_attr){.i = {dtype}}, a);
}

/* The op that does `op` on bools, or -1 where it makes no sense. */
static int bool_op(int op) {
    switch (op) {
    case GD_OP_add: case GD_OP_maximum: return GD_OP_logical_or;
    case GD_OP_mul: case GD_OP_minimum: return GD_OP_logical_and;
    case GD_OP_sub: return -1;
    default: return op;
    }
}

/* Arithmetic of bfloat16 and float16 takes numbers as they are, as PyTorch's does; other ops round them first. */
int gd_number_dtype(int op, int dtype) {
    gd_status (*rule)(gd_shape_call *) = gd_ops[op].shape;
    return rule == gd_shape_binary || rule == gd_shape_binary_float || rule == gd_shape_same ? gd_dtype_inside(dtype) : dtype;
}

static bool is_number(const gd_node *n) { return n->flags & GD_WEAK && n->v.dtype == GD_FLOAT32; }

static gd_tensor binary(int op, gd_tensor a, gd_tensor b, gd_node *na, gd_node *nb) {
    int dtype = na->v.dtype == nb->v.dtype ? na->v.dtype : promote(na, nb);
    gd_status (*rule)(gd_shape_call *) = gd_ops[op].shape;
    if (dtype == GD_BOOL) {
        int other = bool_op(op);
        if (other < 0) {
            gd_fail(GD_ERR_DTYPE, "%s: not for bool tensors; use logical_xor or logical_not", gd_ops[op].name);
            return 0;
        }
        op = other;
        if (rule == gd_shape_pow || rule == gd_shape_binary_int_div) dtype = GD_INT64;
    }
    if (rule == gd_shape_binary_float && !gd_is_float(dtype)) dtype = gd_default_dtype();
    if (na->v.dtype == dtype && nb->v.dtype == dtype) return gd_record(op, (gd_tensor[]){a, b}, 2, NULL, NULL);
    if (gd_number_dtype(op, dtype) != dtype && (is_number(na) || is_number(nb))) return gd_record(op, (gd_tensor[]){a, b}, 2, NULL, NULL);
    gd_start start = gd_here();
    a = gd_cast(a, dtype);
    b = a ? gd_cast(b, dtype) : 0;
    return gd_or_return(start, b ? gd_record(op, (gd_tensor[]){a, b}, 2, NULL, NULL) : 0);
}

static bool is_op(int op, int nin) {
    if (op >= 0 && op < GD_OPS && gd_ops[op].nin == nin) return true;
    gd_fail(GD_ERR_VALUE, "op %d (%s) does not take %d inputs", op, gd_op_name(op), nin);
    return false;
}

gd_tensor gd_unary(int op, gd_tensor a) {
    gd_node *n = is_op(op, 1) ? gd_node_of(a, gd_ops[op].name) : NULL;
    if (!n) return 0;
    if (!gd_is_float(n->v.dtype)) {
        if (gd_ops[op].shape == gd_shape_unary_float) {
            gd_start start = gd_here();
            a = gd_cast(a, gd_default_dtype());
            return gd_or_return(start, a ? gd_record(op, &a, 1, NULL, NULL) : 0);
        }
        if (n->v.dtype == GD_BOOL && gd_ops[op].shape == gd_shape_unary_num) {
            gd_fail(GD_ERR_DTYPE, "%s: not for bool tensors", gd_ops[op].name);
            return 0;
        }
    }
    return gd_record(op, &a, 1, NULL, NULL);
}

gd_tensor gd_binary(int op, gd_tensor a, gd_tensor b) {
    gd_node *na = is_op(op, 2) ? gd_node_of(a, gd_ops[op].name) : NULL, *nb = na ? gd_node_of(b, gd_ops[op].name) : NULL;
    return nb ? binary(op, a, b, na, nb) : 0;
}

gd_tensor gd_binary_scalar(int op, gd_tensor a, double value, int64_t ivalue, int kind, int reversed) {
    gd_node *na = is_op(op, 2) ? gd_node_of(a, gd_ops[op].name) : NULL;
    if (!na) return 0;
    /* straight into the dtype it will have, where that is clear: one cast less */
    int dtype = category(kind) <= category(na->v.dtype) ? na->v.dtype : gd_is_float(kind) ? gd_default_dtype() : kind;
    if (gd_is_float(dtype) && !gd_is_float(kind)) value = (double)ivalue;
    if (dtype == GD_INT32 && ivalue != (int32_t)ivalue) {
        gd_fail(GD_ERR_VALUE, "%s: the number %lld does not fit int32", gd_ops[op].name, (long long)ivalue);
        return 0;
    }
    gd_start start = gd_here();
    gd_tensor s = gd_scalar(value, ivalue, gd_number_dtype(op, dtype));
    gd_node *ns = gd_node_of(s, gd_ops[op].name);
    if (!ns) return 0;
    return gd_or_return(start, reversed ? binary(op, s, a, ns, na) : binary(op, a, s, na, ns));
}

gd_tensor gd_where(gd_tensor cond, gd_tensor a, gd_tensor b) {
    gd_node *nc = gd_node_of(cond, "where"), *na = nc ? gd_node_of(a, "where") : NULL, *nb = na ? gd_node_of(b, "where") : NULL;
    if (!nb) return 0;
    int dtype = promote(na, nb);
    gd_start start = gd_here();
    a = gd_cast(a, dtype);
    b = a ? gd_cast(b, dtype) : 0;
    return gd_or_return(start, b ? GD_RECORD(where, NULL, cond, a, b) : 0);
}

gd_tensor gd_clamp(gd_tensor a, double min, double max) {
    gd_node *n = gd_node_of(a, "clamp");
    if (!n) return 0;
    if (isnan(min) && isnan(max)) {
        gd_fail(GD_ERR_VALUE, "clamp: at least one of min and max must be given");
        return 0;
    }
    if (n->v.dtype == GD_BOOL) {
        gd_fail(GD_ERR_DTYPE, "clamp: not for bool tensors");
        return 0;
    }
    gd_attr attr = {.f = {min, max}};
    return GD_RECORD(clamp, &attr, a);
}

gd_tensor gd_softplus(gd_tensor a, double beta, double threshold) {
    gd_node *n = gd_node_of(a, "softplus");
    if (!n) return 0;
    gd_attr attr = {.f = {beta, threshold}};
    gd_start start = gd_here();
    if (!gd_is_float(n->v.dtype)) a = gd_cast(a, gd_default_dtype());
    return gd_or_return(start, a ? GD_RECORD(softplus, &attr, a) : 0);
}

/* ---- Reductions ------------------------------------------------------------------------------------------------ */

gd_tensor gd_reduce(int op, gd_tensor a, const int64_t *dims, int64_t ndims, int keepdim, double correction) {
    gd_node *n = is_op(op, 1) ? gd_node_of(a, gd_ops[op].name) : NULL;
    if (!n) return 0;
    gd_attr attr = {.i = {0, keepdim != 0}, .f = {correction}};
    for (int64_t k = 0; k < ndims; k++) {
        int64_t d = gd_dim(&n->v, dims[k], gd_ops[op].name);
        if (d < 0) return 0;
        if (attr.i[0] >> d & 1) {
            gd_fail(GD_ERR_VALUE, "%s: dimension %lld stands twice in dim", gd_ops[op].name, (long long)dims[k]);
            return 0;
        }
        attr.i[0] |= (int64_t)1 << d;
    }
    if (ndims == 0) attr.i[0] = 15;
    return gd_record(op, &a, 1, &attr, NULL);
}

gd_tensor gd_softmax(int op, gd_tensor a, int64_t dim) {
    gd_node *n = is_op(op, 1) ? gd_node_of(a, gd_ops[op].name) : NULL;
    if (!n) return 0;
    int64_t d = gd_dim(&n->v, dim, gd_ops[op].name);
    if (d < 0) return 0;
    return gd_record(op, &a, 1, &(gd_attr){.i = {d}}, NULL);
}

/* ---- Filling -------------------------------------------------------------------------------------------------------- */

static gd_tensor factory(int op, int64_t rank, const int64_t *shape, int dtype, gd_attr attr) {
    if (rank < 0 || rank > GD_DIMS) {
        gd_fail(GD_ERR_SHAPE, "%s: rank %lld: tensors have at most four dimensions", gd_ops[op].name, (long long)rank);
        return 0;
    }
    for (int64_t d = 0; d < rank; d++) attr.i[d] = shape[d];
    attr.i[4] = rank;
    attr.i[5] = dtype;
    return gd_record(op, NULL, 0, &attr, NULL);
}

gd_tensor gd_full(int64_t rank, const int64_t *shape, int dtype, double value, int64_t ivalue) {
    return factory(GD_OP_fill, rank, shape, dtype, (gd_attr){.f = {value}, .i = {[6] = ivalue}});
}

gd_tensor gd_arange(double start, double step, int64_t istart, int64_t istep, int64_t count, int dtype) {
    return factory(GD_OP_arange, 1, &count, dtype, (gd_attr){.f = {start, step}, .i = {[6] = istart, [7] = istep}});
}

gd_tensor gd_eye(int64_t n, int64_t m, int dtype) { return factory(GD_OP_eye, 2, (int64_t[]){n, m}, dtype, (gd_attr){.f = {0}}); }

/* ---- Random numbers: one counter for the process ------------------------------------------------------------------- */

static atomic_ullong rng_seed = 0x67726164696e6fULL, rng_position;

void gd_manual_seed(uint64_t seed) {
    atomic_store(&rng_seed, seed);
    atomic_store(&rng_position, 0);
}

void gd_get_rng_state(uint64_t state[2]) {
    state[0] = atomic_load(&rng_seed);
    state[1] = atomic_load(&rng_position);
}

void gd_set_rng_state(const uint64_t state[2]) {
    atomic_store(&rng_seed, state[0]);
    atomic_store(&rng_position, state[1]);
}

/* Sets seed and position in attr and moves the position past what `count` elements use. */
static void draw(gd_attr *attr, int64_t count) {
    attr->i[6] = (int64_t)atomic_load(&rng_seed);
    attr->i[7] = (int64_t)atomic_fetch_add(&rng_position, (unsigned long long)gd_random_counters(count));
}

/* After a failure: gives the numbers back, unless another thread has drawn since. */
static gd_tensor drawn(gd_tensor result, const gd_attr *attr, int64_t count) {
    if (result) return result;
    unsigned long long now = (unsigned long long)(attr->i[7] + gd_random_counters(count));
    atomic_compare_exchange_strong(&rng_position, &now, (unsigned long long)attr->i[7]);
    return 0;
}

void gd_draw_counters(gd_attr *attr, int64_t count) { draw(attr, count); }
gd_tensor gd_drawn_counters(gd_tensor result, const gd_attr *attr, int64_t count) { return drawn(result, attr, count); }

static gd_tensor random_factory(int op, int64_t rank, const int64_t *shape, int dtype, double a, double b) {
    gd_view v;
    GD_TRY_TENSOR(gd_view_init(&v, rank, shape, dtype, gd_ops[op].name));
    gd_attr attr = {.f = {a, b}};
    draw(&attr, gd_numel(&v));
    return drawn(factory(op, rank, shape, dtype, attr), &attr, gd_numel(&v));
}

static bool need_float(int dtype, const char *who) {
    if (gd_is_float(dtype)) return true;
    gd_fail(GD_ERR_DTYPE, "%s: dtype is %s, must be floating point", who, gd_dtype_name(dtype));
    return false;
}

gd_tensor gd_uniform(int64_t rank, const int64_t *shape, int dtype, double low, double high) {
    return need_float(dtype, "rand") ? random_factory(GD_OP_uniform, rank, shape, dtype, low, high) : 0;
}

gd_tensor gd_normal(int64_t rank, const int64_t *shape, int dtype, double mean, double std) {
    if (!need_float(dtype, "randn")) return 0;
    if (!(std >= 0)) {
        gd_fail(GD_ERR_VALUE, "normal: std is %g, must be at least 0", std);
        return 0;
    }
    return random_factory(GD_OP_normal, rank, shape, dtype, mean, std);
}

gd_tensor gd_randint(int64_t rank, const int64_t *shape, int64_t low, int64_t high) {
    const int64_t exact = (int64_t)1 << 53; /* bounds travel as float64 */
    if (low >= high || low < -exact || high > exact) {
        gd_fail(GD_ERR_VALUE, "randint: low %lld must be less than high %lld, both within 2^53", (long long)low, (long long)high);
        return 0;
    }
    return random_factory(GD_OP_randint, rank, shape, GD_INT64, (double)low, (double)high);
}

gd_tensor gd_dropout(gd_tensor x, double p, int training) {
    gd_node *n = gd_node_of(x, "dropout");
    if (!n) return 0;
    if (!(p >= 0 && p <= 1)) {
        gd_fail(GD_ERR_VALUE, "dropout: p is %g, must be in [0, 1]", p);
        return 0;
    }
    if (!training || p == 0) return x;
    gd_attr attr = {.f = {p}};
    draw(&attr, gd_numel(&n->v));
    return drawn(GD_RECORD(dropout, &attr, x), &attr, gd_numel(&n->v));
}
