/* channel_norm.cu - batch norm and group norm and their gradients. x is planes, one for each channel of each sample; a segment, of
 * planes that share statistics, is a channel of all samples or a group of channels of one. Planes leave float64 sums, which join in
 * order to those of their segment. */
#include "teams.cuh"

#include "../norm.h"

enum { SMALL = 32, STATISTICS = 3 /* mean, 1 / sqrt(var + eps), var */ };

/* Planes of samples and channels; dimensions behind the channels' make up a plane. */
static int64_t plane_mask(const gd_view *x) { return (int64_t)0xF & ~(((int64_t)1 << (GD_DIMS - x->rank + 2)) - 1); }

/* Which planes are a segment. Numbers: one for each channel; data NULL: none. */
struct cut {
    int64_t channels, samples, groups; /* groups 0: batch norm */
    int64_t segments, planes, size;    /* planes of a segment, elements of a plane */

    __device__ int64_t segment_of(int64_t plane) const { return groups ? plane / planes : plane % channels; }
    __device__ int64_t plane_of(int64_t segment, int64_t k) const { return groups ? segment * planes + k : k * channels + segment; }
};

static cut cut_of(const gd_view *x, int64_t groups) {
    const int n = GD_DIMS - x->rank;
    cut r = {x->shape[n + 1], x->shape[n], groups, 0, 0, 1};
    for (int d = n + 2; d < GD_DIMS; d++) r.size *= x->shape[d];
    r.segments = groups ? r.samples * groups : r.channels;
    r.planes = groups ? r.channels / groups : r.samples;
    return r;
}

struct numbers {
    void *data;
    int dtype;
    int64_t step;
    template <class T> __device__ T of(int64_t c, T none) const { return data ? gd_load<T>(data, dtype, c * step) : none; }
};
static numbers numbers_of(const gd_view *v) {
    if (!v) return {NULL, GD_FLOAT32, 0};
    return {v->data, v->dtype, v->strides[3]};
}

template <class T> struct constants {
    T high, low, scale;
    __device__ explicit constants(const double *stats) : high((T)stats[0]), low((T)(stats[0] - (double)(T)stats[0])), scale((T)stats[1]) {}
    __device__ T of(T x) const { return (x - high - low) * scale; }
};

#define LAUNCH_PLANES_OF(T, kernel, size, planes, ...)                                                                                                  \
    if ((size) < SMALL) GD_LAUNCH((kernel<T, GD_BY_THREAD>), gd_blocks(planes, GD_TEAM_THREADS), GD_TEAM_THREADS, 0, a->stream, __VA_ARGS__);           \
    else if ((size) <= GD_TEAM_SHORT) GD_LAUNCH((kernel<T, GD_BY_WARP>), gd_blocks(planes, 8), GD_TEAM_THREADS, 0, a->stream, __VA_ARGS__);             \
    else GD_LAUNCH((kernel<T, GD_BY_BLOCK>), planes, GD_TEAM_THREADS, 0, a->stream, __VA_ARGS__);
#define LAUNCH_PLANES(x, kernel, ...)                                                                  \
    if ((x).dtype == GD_FLOAT64) { LAUNCH_PLANES_OF(double, kernel, (x).row.size, (x).rows.size, __VA_ARGS__) } \
    else { LAUNCH_PLANES_OF(float, kernel, (x).row.size, (x).rows.size, __VA_ARGS__) }

/* ---- Forward ------------------------------------------------------------------------------------------------------------------ */

/* moments (planes, 2): a plane's mean, and the squares about it. */
template <class T, int KIND> __global__ void __launch_bounds__(GD_TEAM_THREADS, 2) plane_moments(gd_rows x, double *moments) {
    const gd_team<KIND> team;
    const bool live = team.row < x.rows.size;
    const int64_t base = live ? x.rows.offset(team.row) : 0, n = live ? x.row.size : 0;
    double mean = live ? (double)x.template load<T>(base, 0) : 0, squares = 0;
    for (int pass = 0; pass < (sizeof(T) == 8 ? 2 : 1); pass++) { /* float64: a second time, about the mean */
        double s = 0, q = 0;
        team.each(n, x.vector, [&](int64_t k, bool four) { gd_deviations<T>(x, base, k, four, mean, &s, &q); });
        s = team.sum(s);
        const double shift = s / (double)x.row.size;
        squares = team.sum(q) - shift * s;
        mean += shift;
    }
    if (live && team.lane == 0) moments[2 * team.row] = mean, moments[2 * team.row + 1] = squares < 0 ? 0 : squares;
}

/* A warp joins the moments of the planes of a segment. */
__global__ void __launch_bounds__(GD_TEAM_THREADS) segment_moments(cut c, const double *moments, double eps, double *stats) {
    const gd_team<GD_BY_WARP> team;
    const int64_t n = team.row < c.segments && c.size > 0 ? c.planes : 0;
    const double count = (double)c.planes;
    double sum = 0, squares = 0;
    for (int64_t k = team.lane; k < n; k += team.WIDTH) sum += moments[2 * c.plane_of(team.row, k)];
    const double mean = n > 0 ? team.sum(sum) / count : team.sum(sum);
    for (int64_t k = team.lane; k < n; k += team.WIDTH) {
        const double *plane = moments + 2 * c.plane_of(team.row, k), d = plane[0] - mean;
        squares += fma((double)c.size * d, d, plane[1]);
    }
    squares = team.sum(squares);
    if (team.row >= c.segments || team.lane != 0) return;
    const double variance = n > 0 ? squares / (count * (double)c.size) : 0;
    stats[STATISTICS * team.row] = mean;
    stats[STATISTICS * team.row + 1] = 1 / sqrt(variance + eps);
    stats[STATISTICS * team.row + 2] = variance;
}

template <class T> __global__ void __launch_bounds__(GD_TEAM_THREADS) given_statistics(numbers mean, numbers var, int64_t channels, double eps, double *stats) {
    const int64_t c = gd_thread_index();
    if (c >= channels) return;
    const double variance = (double)var.template of<T>(c, 0);
    stats[STATISTICS * c] = (double)mean.template of<T>(c, 0);
    stats[STATISTICS * c + 1] = 1 / sqrt(variance + eps);
    stats[STATISTICS * c + 2] = variance;
}

template <class T, int KIND>
__global__ void __launch_bounds__(GD_TEAM_THREADS, 2) plane_affine(gd_rows x, gd_rows y, cut c, const double *stats, numbers w, numbers b) {
    const gd_team<KIND> team;
    if (team.row >= x.rows.size) return;
    const int64_t base = x.rows.offset(team.row), to = y.rows.offset(team.row), channel = team.row % c.channels;
    const constants<T> by(stats + STATISTICS * c.segment_of(team.row));
    const T weight = w.template of<T>(channel, 1), bias = b.template of<T>(channel, 0);
    team.each(x.row.size, x.vector && y.vector, [&](int64_t k, bool four) {
        T v[4];
        gd_read(x, base, k, four, v);
        GD_EACH_OF(j, four) v[j] = gd_fused(by.of(v[j]), weight, bias);
        gd_write(y, to, k, four, v);
    });
}

/* (x, weight?, bias?, mean?, var?) -> y, statistics. groups 0: batch norm. */
static void forward(const gd_args *a, int64_t groups) {
    const int64_t mask = plane_mask(a->in[0]);
    const gd_rows x = gd_rows_of(a->in[0], mask), y = gd_rows_of(a->out[0], mask);
    const cut c = cut_of(a->in[0], groups);
    const double eps = a->attr->f[0];
    double *stats = (double *)a->out[1]->data, *moments = (double *)a->workspace;
    const bool empty = x.rows.size * x.row.size == 0;
    if (c.segments == 0) return;
    if (groups || a->attr->i[0]) {
        if (!empty) { LAUNCH_PLANES(x, plane_moments, x, moments) }
        GD_LAUNCH(segment_moments, gd_blocks(c.segments, 8), GD_TEAM_THREADS, 0, a->stream, c, moments, eps, stats);
    } else {
        const numbers mean = numbers_of(a->in[3]), var = numbers_of(a->in[4]);
        const int64_t blocks = gd_blocks(c.channels, GD_TEAM_THREADS);
        if (mean.dtype == GD_FLOAT64) GD_LAUNCH((given_statistics<double>), blocks, GD_TEAM_THREADS, 0, a->stream, mean, var, c.channels, eps, stats);
        else GD_LAUNCH((given_statistics<float>), blocks, GD_TEAM_THREADS, 0, a->stream, mean, var, c.channels, eps, stats);
    }
    if (!empty) { LAUNCH_PLANES(x, plane_affine, x, y, c, stats, numbers_of(a->in[1]), numbers_of(a->in[2])) }
}
GD_CUDA_KERNEL(batch_norm) { forward(a, 0); }
GD_CUDA_KERNEL(group_norm) { forward(a, a->attr->i[0]); }

static int64_t planes_of(const gd_view *x) { return x->shape[GD_DIMS - x->rank] * x->shape[GD_DIMS - x->rank + 1]; }
GD_CUDA_WORKSPACE(batch_norm) { return planes_of(a->in[0]) * 2 * (int64_t)sizeof(double); }
GD_CUDA_WORKSPACE(group_norm) { return planes_of(a->in[0]) * 2 * (int64_t)sizeof(double); }

/* ---- Backward ----------------------------------------------------------------------------------------------------------------- */

/* sums (planes, 3): of g, of g xh, and whether a g is not 0. Terms with g = 0 are 0. */
template <class T, int KIND> __global__ void __launch_bounds__(GD_TEAM_THREADS, 2) plane_dots(gd_rows x, gd_rows g, cut c, const double *stats, double *sums) {
    const gd_team<KIND> team;
    const bool live = team.row < x.rows.size;
    const int64_t from_x = live ? x.rows.offset(team.row) : 0, from_g = live ? g.rows.offset(team.row) : 0, n = live ? x.row.size : 0;
    const constants<T> by(stats + STATISTICS * c.segment_of(live ? team.row : 0));
    double s = 0, q = 0;
    float any = 0;
    team.each(n, x.vector && g.vector, [&](int64_t k, bool four) {
        T xv[4], gv[4], first = 0, second = 0;
        gd_read(x, from_x, k, four, xv);
        gd_read(g, from_g, k, four, gv);
        GD_EACH_OF(j, four) {
            if (gv[j] == 0) continue;
            any = 1;
            first += gv[j];
            second += gv[j] * by.of(xv[j]);
        }
        s += (double)first, q += (double)second;
    });
    s = team.sum(s), q = team.sum(q), any = team.most(any);
    if (live && team.lane == 0) sums[3 * team.row] = s, sums[3 * team.row + 1] = q, sums[3 * team.row + 2] = (double)any;
}

/* totals (segments, 3): the sums of its planes, each weighted with its channel's weight. */
template <class T> __global__ void __launch_bounds__(GD_TEAM_THREADS) segment_dots(cut c, const double *sums, numbers w, double *totals) {
    const gd_team<GD_BY_WARP> team;
    const int64_t n = team.row < c.segments ? c.planes : 0;
    double s = 0, q = 0;
    float any = 0;
    for (int64_t k = team.lane; k < n; k += team.WIDTH) {
        const int64_t plane = c.plane_of(team.row, k);
        if (sums[3 * plane + 2] == 0) continue;
        const double weight = (double)w.template of<T>(plane % c.channels, 1);
        s += sums[3 * plane] * weight, q += sums[3 * plane + 1] * weight;
        any = 1;
    }
    s = team.sum(s), q = team.sum(q), any = team.most(any);
    if (n > 0 && team.lane == 0) totals[3 * team.row] = s, totals[3 * team.row + 1] = q, totals[3 * team.row + 2] = (double)any;
}

/* The gradients of weight and bias: a warp adds up the planes of a channel over all samples. */
template <class T> __global__ void __launch_bounds__(GD_TEAM_THREADS) channel_parameters(cut c, const double *sums, numbers dw, numbers db) {
    const gd_team<GD_BY_WARP> team;
    const int64_t n = team.row < c.channels && c.size > 0 ? c.samples : 0;
    double s = 0, q = 0;
    for (int64_t k = team.lane; k < n; k += team.WIDTH) {
        const double *plane = sums + 3 * (k * c.channels + team.row);
        s += plane[0], q += plane[1];
    }
    s = team.sum(s), q = team.sum(q);
    if (team.row >= c.channels || team.lane != 0) return;
    if (dw.data) gd_store<T>(dw.data, dw.dtype, team.row, (T)q);
    if (db.data) gd_store<T>(db.data, db.dtype, team.row, (T)s);
}

/* dx = scale (g w - mean(g w) - xh mean(g w xh)), without the means where the statistics were given; 0 without any gradient. */
template <class T, int KIND>
__global__ void __launch_bounds__(GD_TEAM_THREADS, 2) plane_slope(gd_rows x, gd_rows g, gd_rows dx, cut c, const double *stats, numbers w, const double *totals, bool own) {
    const gd_team<KIND> team;
    if (team.row >= x.rows.size) return;
    const int64_t from_x = x.rows.offset(team.row), from_g = g.rows.offset(team.row), to = dx.rows.offset(team.row), segment = c.segment_of(team.row);
    const constants<T> by(stats + STATISTICS * segment);
    const double *total = totals + 3 * segment, count = (double)c.planes * (double)c.size;
    const T weight = w.template of<T>(team.row % c.channels, 1), a0 = (T)(total[0] / count), a1 = (T)(total[1] / count);
    const bool flows = total[2] != 0;
    team.each(x.row.size, x.vector && g.vector && dx.vector, [&](int64_t k, bool four) {
        T xv[4], gv[4];
        gd_read(x, from_x, k, four, xv);
        gd_read(g, from_g, k, four, gv);
        GD_EACH_OF(j, four) {
            const T gw = gv[j] * weight, d = by.scale * (own ? gd_fused(-a1, by.of(xv[j]), gw - a0) : gw);
            gv[j] = flows ? d : 0;
        }
        gd_write(dx, to, k, four, gv);
    });
}

/* (g, x, weight?, statistics) -> dx, dweight, dbias; those that are not wanted are empty. */
static void backward(const gd_args *a, int64_t groups) {
    const int64_t mask = plane_mask(a->in[1]), wanted = a->attr->i[1];
    const gd_rows g = gd_rows_of(a->in[0], mask), x = gd_rows_of(a->in[1], mask);
    const cut c = cut_of(a->in[1], groups);
    const numbers w = numbers_of(a->in[2]), none = {NULL, GD_FLOAT32, 0};
    const double *stats = (const double *)a->in[3]->data;
    double *sums = (double *)a->workspace, *totals = sums + 3 * x.rows.size;
    const bool wide = x.dtype == GD_FLOAT64, empty = x.rows.size * x.row.size == 0;
    if (!empty) { LAUNCH_PLANES(x, plane_dots, x, g, c, stats, sums) }
    if (wanted & (GD_NORM_DW | GD_NORM_DB) && c.channels > 0) {
        const numbers dw = wanted & GD_NORM_DW ? numbers_of(a->out[1]) : none, db = wanted & GD_NORM_DB ? numbers_of(a->out[2]) : none;
        if (wide) GD_LAUNCH((channel_parameters<double>), gd_blocks(c.channels, 8), GD_TEAM_THREADS, 0, a->stream, c, sums, dw, db);
        else GD_LAUNCH((channel_parameters<float>), gd_blocks(c.channels, 8), GD_TEAM_THREADS, 0, a->stream, c, sums, dw, db);
    }
    if (empty || !(wanted & GD_NORM_DX)) return;
    const gd_rows dx = gd_rows_of(a->out[0], mask);
    const bool own = groups || a->attr->i[0];
    if (wide) GD_LAUNCH((segment_dots<double>), gd_blocks(c.segments, 8), GD_TEAM_THREADS, 0, a->stream, c, sums, w, totals);
    else GD_LAUNCH((segment_dots<float>), gd_blocks(c.segments, 8), GD_TEAM_THREADS, 0, a->stream, c, sums, w, totals);
    LAUNCH_PLANES(x, plane_slope, x, g, dx, c, stats, w, totals, own)
}
GD_CUDA_KERNEL(batch_norm_bwd) { backward(a, 0); }
GD_CUDA_KERNEL(group_norm_bwd) { backward(a, a->attr->i[0]); }

static int64_t bwd_workspace(const gd_args *a, int64_t groups) {
    const cut c = cut_of(a->in[1], groups);
    return 3 * (planes_of(a->in[1]) + c.segments) * (int64_t)sizeof(double);
}
GD_CUDA_WORKSPACE(batch_norm_bwd) { return bwd_workspace(a, 0); }
GD_CUDA_WORKSPACE(group_norm_bwd) { return bwd_workspace(a, a->attr->i[0]); }
