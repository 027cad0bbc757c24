/* api_channel_norm.c - public entry points of batch, group and instance norm. Running statistics are updated here, in
 * place, after the op: kernels are pure. */
#include "channel_norm.h"
#include "engine.h"
#include "half.h"

/* A number of a floating point tensor. */
static double number_at(const gd_view *v, int64_t k) {
    const char *p = (const char *)v->data + k * v->strides[3] * gd_dtype_bytes(v->dtype);
    switch (v->dtype) {
    case GD_FLOAT32: return (double)*(const float *)(const void *)p;
    case GD_FLOAT64: return *(const double *)(const void *)p;
    case GD_BFLOAT16: return (double)gd_f32_of_bf16(*(const uint16_t *)(const void *)p);
    default: return (double)gd_f32_of_f16(*(const uint16_t *)(const void *)p);
    }
}

static void put_number_at(const gd_view *v, int64_t k, double x) {
    void *p = (char *)v->data + k * v->strides[3] * gd_dtype_bytes(v->dtype);
    switch (v->dtype) {
    case GD_FLOAT32: *(float *)p = (float)x; break;
    case GD_FLOAT64: *(double *)p = x; break;
    case GD_BFLOAT16: *(uint16_t *)p = gd_bf16_of_f64(x); break;
    default: *(uint16_t *)p = gd_f16_of_f64(x);
    }
}

/* What a training call updates; nodes are NULL where absent. */
typedef struct running { gd_node *mean, *var, *batches; } running;

/* One number per channel that may be written. */
static gd_status find_running(gd_node **n, gd_tensor t, const gd_view *x, const char *who, const char *what) {
    GD_TRY(gd_optional(&t, who));
    if (!t) return GD_OK;
    if (!(*n = gd_node_of(t, who))) return gd_last_status();
    const int64_t channels = x->rank > 1 ? x->shape[GD_DIMS - x->rank + 1] : 0;
    if (!gd_is_float((*n)->v.dtype)) return gd_fail(GD_ERR_DTYPE, "%s: %s is %s, must be floating point", who, what, gd_dtype_name((*n)->v.dtype));
    if ((*n)->v.rank != 1 || (*n)->v.shape[3] != channels)
        return gd_fail(GD_ERR_SHAPE, "%s: %s has shape %s, must be (%lld,): one per channel of the input, %s", who, what, gd_text_view(&(*n)->v),
                       (long long)channels, gd_text_view(x));
    return gd_check_writable(*n, who);
}

static gd_status find_all_running(running *r, const gd_view *x, gd_tensor mean, gd_tensor var, gd_tensor batches, const char *who) {
    GD_TRY(find_running(&r->mean, mean, x, who, "running_mean"));
    GD_TRY(find_running(&r->var, var, x, who, "running_var"));
    GD_TRY(gd_optional(&batches, who));
    if (!batches) return GD_OK;
    if (!(r->batches = gd_node_of(batches, who))) return gd_last_status();
    if (r->batches->v.dtype != GD_INT64 || r->batches->v.rank != 0)
        return gd_fail(GD_ERR_SHAPE, "%s: num_batches_tracked is %s of shape %s, must be an int64 scalar", who, gd_dtype_name(r->batches->v.dtype),
                       gd_text_view(&r->batches->v));
    return gd_check_writable(r->batches, who);
}

/* Mixes in the statistics, of which sets (instances) are averaged; each was taken of `count` elements. */
static void update(const running *r, const gd_view *statistics, int64_t sets, int64_t channels, int64_t count, double momentum) {
    if (r->batches) {
        int64_t *batches = r->batches->v.data;
        ++*batches;
        gd_storage(r->batches)->version++;
        if (momentum != momentum) momentum = 1 / (double)*batches;
    }
    if (sets == 0 || count == 0) return;
    const double unbiased = (double)count / (double)(count - 1);
    for (int64_t c = 0; c < channels; c++) {
        double mean = 0, var = 0;
        for (int64_t s = 0; s < sets; s++) {
            const double *at = (const double *)statistics->data + GD_STATISTICS * (s * channels + c);
            mean += at[0], var += at[2] * unbiased;
        }
        if (r->mean) put_number_at(&r->mean->v, c, momentum * mean / (double)sets + (1 - momentum) * number_at(&r->mean->v, c));
        if (r->var) put_number_at(&r->var->v, c, momentum * var / (double)sets + (1 - momentum) * number_at(&r->var->v, c));
    }
    if (r->mean) gd_storage(r->mean)->version++;
    if (r->var) gd_storage(r->var)->version++;
}

/* The same on a device, by ops: new = momentum mean + (1 - momentum) old. */
static gd_status mix(gd_node *old_one, gd_tensor statistics, int64_t which, gd_tensor momentum, double factor) {
    gd_tensor each = gd_select(statistics, 2, which), mean = each ? gd_reduce(GD_OP_mean, each, (int64_t[]){0}, 1, 0, 0) : 0;
    gd_tensor fresh = gd_mul(gd_mul(mean, gd_scalar(factor, 0, GD_FLOAT64)), momentum);
    gd_tensor old = gd_mul(gd_cast(old_one->self, GD_FLOAT64), gd_binary_scalar(GD_OP_sub, momentum, 1, 1, GD_FLOAT32, 1));
    gd_tensor sum = gd_add(fresh, old);
    return sum ? gd_copy_in(old_one->self, sum) : gd_last_status();
}

static gd_status update_on_device(const running *r, gd_tensor statistics, int64_t sets, int64_t channels, int64_t count, double momentum) {
    if (r->batches) {
        gd_tensor more = gd_binary_scalar(GD_OP_add, r->batches->self, 1, 1, GD_INT64, 0);
        GD_TRY(more ? gd_copy_in(r->batches->self, more) : gd_last_status());
    }
    if (sets == 0 || count == 0) return GD_OK;
    gd_tensor share = momentum == momentum || !r->batches ? gd_scalar(momentum, 0, GD_FLOAT64)
                                                           : gd_reciprocal(gd_cast(r->batches->self, GD_FLOAT64));
    statistics = gd_reshape(gd_detach(statistics), 3, (int64_t[]){sets, channels, GD_STATISTICS});
    if (r->mean) GD_TRY(mix(r->mean, statistics, 0, share, 1));
    if (r->var) GD_TRY(mix(r->var, statistics, 2, share, (double)count / (double)(count - 1)));
    return GD_OK;
}

/* After the op: y, or 0 with an error set. */
static gd_tensor updated(gd_tensor y, const running *r, int64_t sets, int64_t channels, int64_t count, double momentum) {
    const gd_node *statistics = y ? gd_node_peek(gd_output(y, 1)) : NULL;
    if (!statistics) return 0;
    if (!statistics->v.device) {
        update(r, &statistics->v, sets, channels, count, momentum);
        return y;
    }
    gd_start start = gd_here();
    const gd_status status = update_on_device(r, statistics->self, sets, channels, count, momentum);
    if (start.arena) gd_arena_return(start.arena, &start.place);
    return status < 0 ? 0 : y;
}

/* Elements that one channel's statistics are taken of: of all samples, or of one. */
static int64_t elements(const gd_view *x, bool batch) {
    int64_t count = 1;
    for (int d = GD_DIMS - x->rank; d < GD_DIMS; d++)
        if (d != GD_DIMS - x->rank + 1 && (batch || d != GD_DIMS - x->rank)) count *= x->shape[d];
    return count;
}

gd_tensor gd_batch_norm(gd_tensor x, gd_tensor weight, gd_tensor bias, gd_tensor running_mean, gd_tensor running_var, gd_tensor num_batches, int training,
                        double momentum, double eps) {
    const char *who = "batch_norm";
    gd_node *n = gd_node_of(x, who);
    if (!n) return 0;
    const gd_view *v = &n->v;
    running r = {0};
    const int64_t count = elements(v, true);
    GD_TRY_TENSOR(gd_optional(&weight, who));
    GD_TRY_TENSOR(gd_optional(&bias, who));
    if (!training) {
        GD_TRY_TENSOR(gd_optional(&running_mean, who));
        GD_TRY_TENSOR(gd_optional(&running_var, who));
        return gd_record(GD_OP_batch_norm, (gd_tensor[]){x, weight, bias, running_mean, running_var}, 5, &(gd_attr){.i = {0}, .f = {eps}}, NULL);
    }
    if (count == 1 && v->rank > 1) {
        gd_fail(GD_ERR_VALUE, "batch_norm: expected more than 1 value per channel when training, got an input of shape %s", gd_text_view(v));
        return 0;
    }
    GD_TRY_TENSOR(find_all_running(&r, v, running_mean, running_var, num_batches, who));
    gd_tensor y = gd_record(GD_OP_batch_norm, (gd_tensor[]){x, weight, bias, 0, 0}, 5, &(gd_attr){.i = {1}, .f = {eps}}, NULL);
    return updated(y, &r, 1, v->rank > 1 ? v->shape[GD_DIMS - v->rank + 1] : 0, count, momentum);
}

gd_tensor gd_group_norm(gd_tensor x, int64_t groups, gd_tensor weight, gd_tensor bias, double eps) {
    const char *who = "group_norm";
    gd_node *n = gd_node_of(x, who);
    if (!n || gd_optional(&weight, who) < 0 || gd_optional(&bias, who) < 0) return 0;
    return gd_record(GD_OP_group_norm, (gd_tensor[]){x, weight, bias}, 3, &(gd_attr){.i = {groups}, .f = {eps}}, NULL);
}

gd_tensor gd_instance_norm(gd_tensor x, gd_tensor weight, gd_tensor bias, gd_tensor running_mean, gd_tensor running_var, int use_input_stats,
                           double momentum, double eps) {
    const char *who = "instance_norm";
    gd_node *n = gd_node_of(x, who);
    if (!n) return 0;
    const gd_view *v = &n->v;
    running r = {0};
    if (!use_input_stats) return gd_batch_norm(x, weight, bias, running_mean, running_var, GD_ABSENT, 0, momentum, eps);
    const int64_t count = elements(v, false), channels = v->rank > 1 ? v->shape[GD_DIMS - v->rank + 1] : 0;
    if (count == 1 && v->rank > 1) {
        gd_fail(GD_ERR_VALUE, "instance_norm: expected more than 1 spatial element when training, got an input of shape %s", gd_text_view(v));
        return 0;
    }
    GD_TRY_TENSOR(find_all_running(&r, v, running_mean, running_var, GD_ABSENT, who));
    const int64_t samples = v->rank > 1 ? v->shape[GD_DIMS - v->rank] : 0;
    gd_tensor y = gd_group_norm(x, channels > 1 ? channels : 1, weight, bias, eps);
    return updated(y, &r, samples, channels, count, momentum);
}
