/* loss.cu - cross entropy and negative log-likelihood, and their gradients, for any number of classes: one pass over the logits
 * for the loss, a second one only with smoothing or probabilities. Labels are checked here. */
#include "loss.cuh"
#include "teams.cuh"

/* The loss of a row is  hard (ls - (x[label] - m)) + sum over c of q[c] (ls - (x[c] - m))  with m the largest logit and
 * ls = log sum exp(x - m). Class targets: hard = (1 - s) w[label], q[c] = w[c] s / C with s the smoothing. Probability targets t:
 * hard = 0, q[c] = w[c] ((1 - s) t[c] + s / C). The gradient of the row is (hard + sum q) softmax(x) - hard onehot(label) - q. */
struct targets {
    const int64_t *labels; /* NULL: probabilities */
    gd_rows t, weight;     /* weight.data NULL: 1 */
    int64_t label_step, ignored, classes;
    double smoothing;
    bool soft; /* some q is not 0 */
    int op;
    gd_fault *fault;

    /* The label of row i; -1: ignored, or not usable. */
    __device__ int64_t label(int64_t i) const {
        if (!labels) return 0;
        const int64_t given = labels[i * label_step];
        return given == ignored || !gd_index_ok(fault, op, given, classes) ? -1 : given;
    }
    template <class T> __device__ T weight_of(int64_t c) const { return weight.data ? weight.template load<T>(0, c) : (T)1; }
    template <class T> __device__ T q(int64_t i, int64_t c) const {
        const T share = (T)(smoothing / (double)classes);
        const T at = labels ? share : (T)(1 - smoothing) * t.template load<T>(t.rows.offset(i), c) + share;
        return at * weight_of<T>(c);
    }
    template <class T> __device__ T hard(int64_t label) const { return labels ? (T)(1 - smoothing) * weight_of<T>(label) : (T)0; }
};

static targets targets_of(const gd_args *a, int op, const gd_view *x, const gd_view *target, const gd_view *weight) {
    targets r;
    memset(&r, 0, sizeof r);
    if (target->dtype == GD_INT64) r.labels = (const int64_t *)target->data, r.label_step = target->strides[3];
    else r.t = gd_rows_of(target, 1 << 3);
    if (weight) r.weight = gd_rows_of(weight, 0xF);
    r.ignored = a->attr->i[0], r.classes = x->shape[3], r.smoothing = a->attr->f[0];
    r.soft = !r.labels || r.smoothing > 0;
    r.op = op, r.fault = a->stream ? a->stream->fault : NULL;
    return r;
}

/* ---- cross_entropy ------------------------------------------------------------------------------------------------------------ */

template <class T, int KIND>
__global__ void __launch_bounds__(GD_TEAM_THREADS, 2) entropy_rows(gd_rows x, targets t, T *lse, void *loss, int loss_dtype, gd_loss_pair *pairs) {
    const gd_team<KIND> team;
    const int64_t row = team.row;
    const bool live = row < x.rows.size;
    const int64_t base = live ? x.rows.offset(row) : 0, n = live ? x.row.size : 0;
    gd_online<T> found;
    team.each(n, x.vector, [&](int64_t k, bool four) {
        T v[4];
        gd_read(x, base, k, four, v);
        found.add(v, four);
    });
    found.join(team);
    const T m = found.most, ls = gd_log_of((T)found.sum);
    double soft = 0;
    if (t.soft) {
        team.each(n, false, [&](int64_t k, bool) {
            const T q = t.template q<T>(row, k);
            if (q != 0) soft += (double)(q * (ls - (x.template load<T>(base, k) - m)));
        });
        soft = team.sum(soft);
    }
    if (!live || team.lane != 0) return;
    const int64_t label = t.label(row);
    T sum = 0;
    double weight = 0;
    if (label >= 0) {
        if (t.labels) {
            sum = t.template hard<T>(label) * (ls - (x.template load<T>(base, label) - m));
            weight = (double)t.template weight_of<T>(label);
        }
        if (t.soft) sum += (T)soft;
    }
    lse[row] = m + ls;
    if (loss) gd_store<T>(loss, loss_dtype, row, sum);
    pairs[row] = {(double)sum, weight};
}

static int64_t rows_of(const gd_args *a, int k) { return a->in[k]->shape[2]; }
GD_CUDA_WORKSPACE(cross_entropy) { return gd_loss_room(rows_of(a, 0)) * (int64_t)sizeof(gd_loss_pair); }

GD_CUDA_KERNEL(cross_entropy) {
    const gd_view *x = a->in[0], *out = a->out[0];
    const gd_rows rows = gd_rows_of(x, 1 << 3);
    const targets t = targets_of(a, GD_OP_cross_entropy, x, a->in[1], a->in[2]);
    const bool none = a->attr->i[1] == GD_NONE;
    void *each = none ? out->data : NULL;
    gd_loss_pair *pairs = (gd_loss_pair *)a->workspace;
    const gd_loss_result r = {none ? NULL : out->data, a->out[2]->data, out->dtype, a->out[2]->dtype, t.labels ? 0 : (double)rows.rows.size, a->attr->i[1] == GD_MEAN};
    if (rows.rows.size > 0) {
        if (x->dtype == GD_FLOAT64) { GD_LAUNCH_TEAMS_OF(double, entropy_rows, rows, a->stream, rows, t, (double *)a->out[1]->data, each, (int)out->dtype, pairs) }
        else { GD_LAUNCH_TEAMS_OF(float, entropy_rows, rows, a->stream, rows, t, (float *)a->out[1]->data, each, (int)out->dtype, pairs) }
    }
    gd_loss_total(pairs, rows.rows.size, r, a->stream, x->dtype == GD_FLOAT64);
}

/* What flows into the rows: one number, or one for each; of a mean, divided by the normaliser. */
struct incoming {
    const void *g, *norm;
    int dtype, norm_dtype;
    int64_t step;
    template <class T> __device__ T of(int64_t row) const {
        const T in = gd_load<T>(g, dtype, row * step), all = norm ? gd_load<T>(norm, norm_dtype, 0) : (T)1;
        return in == 0 || all == 0 ? 0 : in / all;
    }
};

static incoming incoming_of(const gd_args *a, const gd_view *norm) {
    const gd_view *g = a->in[0];
    const int64_t reduction = a->attr->i[1];
    return {g->data, reduction == GD_MEAN ? norm->data : NULL, g->dtype, norm->dtype, reduction == GD_NONE ? g->strides[3] : 0};
}

/* exp(x - lse) is the softmax but for the rounding of a large lse, so it is divided by its sum. */
template <class T, int KIND>
__global__ void __launch_bounds__(GD_TEAM_THREADS, 2) entropy_bwd_rows(gd_rows x, targets t, const T *lse, incoming in, gd_rows dx) {
    const gd_team<KIND> team;
    const int64_t row = team.row;
    const bool live = row < x.rows.size, vector = x.vector && dx.vector;
    const int64_t base = live ? x.rows.offset(row) : 0, to = live ? dx.rows.offset(row) : 0, n = live ? x.row.size : 0;
    const int64_t label = live ? t.label(row) : -1;
    const T g = label < 0 ? 0 : in.template of<T>(row), about = live ? lse[row] : 0;
    double total = 0, mass = 0;
    if (g != 0)
        team.each(n, vector, [&](int64_t k, bool four) {
            T v[4], part = 0;
            gd_read(x, base, k, four, v);
            GD_EACH_OF(j, four) {
                part += gd_exp_of(v[j] - about);
                if (t.soft) mass += (double)t.template q<T>(row, k + j);
            }
            total += (double)part;
        });
    total = team.sum(total);
    if (t.soft) mass = team.sum(mass);
    const T hard = label < 0 ? 0 : t.template hard<T>(label), scale = g * (T)(((double)hard + mass) / total);
    team.each(n, vector, [&](int64_t k, bool four) {
        T v[4];
        gd_read(x, base, k, four, v);
        GD_EACH_OF(j, four) {
            T d = gd_exp_of(v[j] - about) * scale;
            if (t.soft) d = gd_fused(gd_exp_of(v[j] - about), scale, -(g * t.template q<T>(row, k + j)));
            if (t.labels && k + j == label) d -= g * hard;
            v[j] = g == 0 ? 0 : d;
        }
        gd_write(dx, to, k, four, v);
    });
}

GD_CUDA_KERNEL(cross_entropy_bwd) {
    const gd_view *x = a->in[1];
    const gd_rows rows = gd_rows_of(x, 1 << 3), dx = gd_rows_of(a->out[0], 1 << 3);
    const targets t = targets_of(a, GD_OP_cross_entropy_bwd, x, a->in[2], a->in[3]);
    const incoming in = incoming_of(a, a->in[5]);
    if (rows.rows.size * rows.row.size == 0) return;
    if (x->dtype == GD_FLOAT64) { GD_LAUNCH_TEAMS_OF(double, entropy_bwd_rows, rows, a->stream, rows, t, (const double *)a->in[4]->data, in, dx) }
    else { GD_LAUNCH_TEAMS_OF(float, entropy_bwd_rows, rows, a->stream, rows, t, (const float *)a->in[4]->data, in, dx) }
}

/* ---- nll_loss ------------------------------------------------------------------------------------------------------------------ */

template <class T> __global__ void __launch_bounds__(GD_LOSS_THREADS) nll_rows(gd_rows x, targets t, void *loss, int loss_dtype, gd_loss_pair *pairs) {
    const int64_t row = gd_thread_index();
    if (row >= x.rows.size) return;
    const int64_t label = t.label(row);
    T at = 0;
    double weight = 0;
    if (label >= 0) {
        const T w = t.template weight_of<T>(label);
        at = -w * x.template load<T>(x.rows.offset(row), label);
        weight = (double)w;
    }
    if (loss) gd_store<T>(loss, loss_dtype, row, at);
    pairs[row] = {(double)at, weight};
}

GD_CUDA_WORKSPACE(nll_loss) { return gd_loss_room(rows_of(a, 0)) * (int64_t)sizeof(gd_loss_pair); }

GD_CUDA_KERNEL(nll_loss) {
    const gd_view *x = a->in[0], *out = a->out[0];
    const gd_rows rows = gd_rows_of(x, 1 << 3);
    targets t = targets_of(a, GD_OP_nll_loss, x, a->in[1], a->in[2]);
    const bool none = a->attr->i[1] == GD_NONE, wide = x->dtype == GD_FLOAT64;
    void *each = none ? out->data : NULL;
    gd_loss_pair *pairs = (gd_loss_pair *)a->workspace;
    const gd_loss_result r = {none ? NULL : out->data, a->out[1]->data, out->dtype, a->out[1]->dtype, 0, a->attr->i[1] == GD_MEAN};
    const int64_t blocks = gd_blocks(rows.rows.size, GD_LOSS_THREADS);
    if (wide) GD_LAUNCH((nll_rows<double>), blocks, GD_LOSS_THREADS, 0, a->stream, rows, t, each, (int)out->dtype, pairs);
    else GD_LAUNCH((nll_rows<float>), blocks, GD_LOSS_THREADS, 0, a->stream, rows, t, each, (int)out->dtype, pairs);
    gd_loss_total(pairs, rows.rows.size, r, a->stream, wide);
}

template <class T> __global__ void __launch_bounds__(GD_LOSS_THREADS) nll_bwd(targets t, incoming in, void *out, int dtype, int64_t count) {
    const int64_t k = gd_thread_index();
    if (k >= count) return;
    const int64_t row = k / t.classes, label = t.label(row);
    T d = 0;
    if (label >= 0 && k - row * t.classes == label) {
        const T g = gd_load<T>(in.g, in.dtype, row * in.step), all = in.norm ? gd_load<T>(in.norm, in.norm_dtype, 0) : (T)1;
        if (g != 0) d = -t.template weight_of<T>(label) * g / all;
    }
    gd_store<T>(out, dtype, k, d);
}

GD_CUDA_KERNEL(nll_loss_bwd) {
    const gd_view *x = a->in[1], *out = a->out[0];
    const targets t = targets_of(a, GD_OP_nll_loss_bwd, x, a->in[2], a->in[3]);
    const incoming in = incoming_of(a, a->in[4]);
    const int64_t count = gd_numel(out), blocks = gd_blocks(count, GD_LOSS_THREADS);
    if (x->dtype == GD_FLOAT64) GD_LAUNCH((nll_bwd<double>), blocks, GD_LOSS_THREADS, 0, a->stream, t, in, out->data, (int)out->dtype, count);
    else GD_LAUNCH((nll_bwd<float>), blocks, GD_LOSS_THREADS, 0, a->stream, t, in, out->data, (int)out->dtype, count);
}
