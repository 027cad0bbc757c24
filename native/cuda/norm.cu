/* norm.cu - layer norm and RMS norm over the last dimensions, and their gradients. Statistics are float64; the mean goes into
 * float32 as two parts. The gradients of weight and bias are float64 sums of chunks of rows, which join in order. */
#include "teams.cuh"

#include "../norm.h"

/* The normalised element is (x - high - low) scale. */
template <class T> struct constants {
    T high, low, scale;
    __device__ constants(double mean, double factor) : high((T)mean), low((T)(mean - (double)(T)mean)), scale((T)factor) {}
    __device__ T of(T x) const { return (x - high - low) * scale; }
};

/* Row statistics: (rows, 2), or (rows, 1) without the mean. */
struct statistics {
    double *at;
    bool centred;
    __device__ void put(int64_t row, double mean, double scale) const {
        if (centred) at[2 * row] = mean, at[2 * row + 1] = scale;
        else at[row] = scale;
    }
    template <class T> __device__ constants<T> get(int64_t row) const { return centred ? constants<T>(at[2 * row], at[2 * row + 1]) : constants<T>(0, at[row]); }
};

/* ---- Forward ----------------------------------------------------------------------------------------------------------------- */

/* Moments about the row's first element; float64 takes them a second time, about the mean that the first time gave. */
template <class T, int KIND>
__global__ void __launch_bounds__(GD_TEAM_THREADS, 2) norm_rows(gd_rows x, gd_rows w, gd_rows b, gd_rows y, statistics stats, double eps) {
    const gd_team<KIND> team;
    const bool live = team.row < x.rows.size, vector = x.vector && y.vector && (!w.data || w.vector) && (!b.data || b.vector);
    const int64_t base = live ? x.rows.offset(team.row) : 0, to = live ? y.rows.offset(team.row) : 0, n = live ? x.row.size : 0;
    double mean = live && stats.centred ? (double)x.template load<T>(base, 0) : 0, square = 0;
    for (int pass = 0; pass < (sizeof(T) == 8 && stats.centred ? 2 : 1); pass++) {
        double s = 0, q = 0;
        team.each(n, vector, [&](int64_t k, bool four) { gd_deviations<T>(x, base, k, four, mean, &s, &q); });
        const double shift = stats.centred ? team.sum(s) / (double)x.row.size : 0;
        square = team.sum(q) / (double)x.row.size - shift * shift;
        mean += shift;
    }
    const double scale = 1 / sqrt((square < 0 ? 0 : square) + eps);
    if (live && team.lane == 0) stats.put(team.row, mean, scale);
    const constants<T> c(mean, scale);
    team.each(n, vector, [&](int64_t k, bool four) {
        T v[4], wv[4], bv[4];
        gd_read(x, base, k, four, v);
        if (w.data) gd_read(w, 0, k, four, wv);
        if (b.data) gd_read(b, 0, k, four, bv);
        GD_EACH_OF(j, four) {
            v[j] = c.of(v[j]);
            if (w.data && b.data) v[j] = gd_fused(v[j], wv[j], bv[j]);
            else if (w.data) v[j] *= wv[j];
            else if (b.data) v[j] += bv[j];
        }
        gd_write(y, to, k, four, v);
    });
}

/* A weight or a bias as one row; data NULL if there is none. */
static gd_rows parameter(const gd_view *v) {
    gd_rows none;
    memset(&none, 0, sizeof none);
    return v ? gd_rows_of(v, 0xF) : none;
}

static void forward(const gd_args *a, bool centred) {
    const int64_t mask = gd_norm_mask(a->attr->i[0]);
    const gd_rows x = gd_rows_of(a->in[0], mask), y = gd_rows_of(a->out[0], mask), w = parameter(a->in[1]), b = parameter(centred ? a->in[2] : NULL);
    const statistics stats = {(double *)a->out[1]->data, centred};
    if (x.rows.size * x.row.size == 0) return;
    GD_LAUNCH_TEAMS(norm_rows, x, a->stream, x, w, b, y, stats, a->attr->f[0])
}
GD_CUDA_KERNEL(layer_norm) { forward(a, true); }
GD_CUDA_KERNEL(rms_norm) { forward(a, false); }

/* ---- Backward: dx ------------------------------------------------------------------------------------------------------------- */

/* dx = scale (g w - mean(g w) - xh mean(g w xh)); 0 in a row without incoming gradient. Terms with g = 0 are 0. */
template <class T, int KIND>
__global__ void __launch_bounds__(GD_TEAM_THREADS, 2) norm_dx_rows(gd_rows x, gd_rows g, gd_rows w, gd_rows dx, statistics stats) {
    const gd_team<KIND> team;
    const bool live = team.row < x.rows.size, vector = x.vector && g.vector && dx.vector && (!w.data || w.vector);
    const int64_t from_x = live ? x.rows.offset(team.row) : 0, from_g = live ? g.rows.offset(team.row) : 0, to = live ? dx.rows.offset(team.row) : 0;
    const int64_t n = live ? x.row.size : 0;
    const constants<T> c = stats.template get<T>(live ? team.row : 0);
    double s = 0, q = 0;
    float any = 0;
    team.each(n, vector, [&](int64_t k, bool four) {
        T xv[4], gv[4], wv[4], first = 0, second = 0;
        gd_read(x, from_x, k, four, xv);
        gd_read(g, from_g, k, four, gv);
        if (w.data) gd_read(w, 0, k, four, wv);
        GD_EACH_OF(j, four) {
            if (gv[j] == 0) continue;
            const T gw = w.data ? gv[j] * wv[j] : gv[j];
            any = 1;
            first += gw;
            second += gw * c.of(xv[j]);
        }
        s += (double)first, q += (double)second;
    });
    const T a0 = stats.centred ? (T)(team.sum(s) / (double)x.row.size) : 0, a1 = (T)(team.sum(q) / (double)x.row.size);
    const bool flows = team.most(any) > 0;
    team.each(n, vector, [&](int64_t k, bool four) {
        T xv[4], gv[4], wv[4];
        gd_read(x, from_x, k, four, xv);
        gd_read(g, from_g, k, four, gv);
        if (w.data) gd_read(w, 0, k, four, wv);
        GD_EACH_OF(j, four) {
            const T gw = w.data ? gv[j] * wv[j] : gv[j];
            gv[j] = flows ? c.scale * gd_fused(-a1, c.of(xv[j]), gw - a0) : 0;
        }
        gd_write(dx, to, k, four, gv);
    });
}

/* ---- Backward: the gradients of weight and bias ------------------------------------------------------------------------------- */

enum {
    COLUMNS = 32, PARTS = GD_TEAM_THREADS / COLUMNS,
    CHUNKS = 128,    /* of rows, at most */
    CHUNK_ROWS = 64  /* at least */
};

static int64_t chunk_rows(int64_t rows) {
    const int64_t fair = gd_blocks(rows, CHUNKS);
    return fair > CHUNK_ROWS ? fair : (int64_t)CHUNK_ROWS;
}

/* partials (chunks, 2, n): sums of g xh and of g over the rows of a chunk. */
template <class T>
__global__ void __launch_bounds__(GD_TEAM_THREADS, 2) norm_parameters(gd_rows x, gd_rows g, statistics stats, int64_t rows_each, int64_t groups, double *partials) {
    GD_SHARED(double, weight, PARTS, COLUMNS);
    GD_SHARED(double, bias, PARTS, COLUMNS);
    const int column = threadIdx.x % COLUMNS, part = threadIdx.x / COLUMNS;
    const int64_t chunk = blockIdx.x / groups, k = blockIdx.x % groups * COLUMNS + column, n = x.row.size;
    const int64_t first = chunk * rows_each, last = first + rows_each < x.rows.size ? first + rows_each : x.rows.size;
    double dw = 0, db = 0;
    if (k < n)
        for (int64_t row = first + part; row < last; row += PARTS) {
            const T gv = g.template load<T>(g.rows.offset(row), k);
            if (gv == 0) continue;
            dw += (double)(gv * stats.template get<T>(row).of(x.template load<T>(x.rows.offset(row), k)));
            db += (double)gv;
        }
    weight[part][column] = dw;
    bias[part][column] = db;
    __syncthreads();
    if (part != 0 || k >= n) return;
    for (int p = 1; p < PARTS; p++) dw += weight[p][column], db += bias[p][column];
    partials[2 * chunk * n + k] = dw;
    partials[(2 * chunk + 1) * n + k] = db;
}

template <class T> __global__ void __launch_bounds__(GD_TEAM_THREADS, 2) norm_total(const double *partials, int64_t chunks, int64_t step, int64_t n, void *out, int dtype) {
    const int64_t k = gd_thread_index();
    if (k >= n) return;
    double sum = 0;
    for (int64_t c = 0; c < chunks; c++) sum += partials[c * step + k];
    gd_store<T>(out, dtype, k, (T)sum);
}

static void backward(const gd_args *a, bool centred) {
    const int64_t mask = gd_norm_mask(a->attr->i[0]), wanted = a->attr->i[1];
    const gd_rows g = gd_rows_of(a->in[0], mask), x = gd_rows_of(a->in[1], mask), w = parameter(a->in[2]);
    const statistics stats = {(double *)a->in[3]->data, centred};
    const int64_t rows = x.rows.size, n = x.row.size;
    const bool wide = x.dtype == GD_FLOAT64;
    if (n == 0) return;
    if (wanted & GD_NORM_DX && rows > 0) {
        const gd_rows dx = gd_rows_of(a->out[0], mask);
        GD_LAUNCH_TEAMS(norm_dx_rows, x, a->stream, x, g, w, dx, stats)
    }
    if (!(wanted & (GD_NORM_DW | GD_NORM_DB))) return;
    const int64_t each = chunk_rows(rows), chunks = gd_blocks(rows, each), groups = gd_blocks(n, COLUMNS);
    double *partials = (double *)a->workspace;
    if (wide) GD_LAUNCH((norm_parameters<double>), chunks * groups, GD_TEAM_THREADS, 0, a->stream, x, g, stats, each, groups, partials);
    else GD_LAUNCH((norm_parameters<float>), chunks * groups, GD_TEAM_THREADS, 0, a->stream, x, g, stats, each, groups, partials);
    for (int k = 0; k < 1 + centred; k++) {
        if (!(wanted & (GD_NORM_DW << k))) continue;
        const gd_view *out = a->out[1 + k];
        if (wide) GD_LAUNCH((norm_total<double>), gd_blocks(n, GD_TEAM_THREADS), GD_TEAM_THREADS, 0, a->stream, partials + k * n, chunks, 2 * n, n, out->data, (int)out->dtype);
        else GD_LAUNCH((norm_total<float>), gd_blocks(n, GD_TEAM_THREADS), GD_TEAM_THREADS, 0, a->stream, partials + k * n, chunks, 2 * n, n, out->data, (int)out->dtype);
    }
}
GD_CUDA_KERNEL(layer_norm_bwd) { backward(a, true); }
GD_CUDA_KERNEL(rms_norm_bwd) { backward(a, false); }

static int64_t bwd_workspace(const gd_args *a) {
    if (!(a->attr->i[1] & (GD_NORM_DW | GD_NORM_DB))) return 0;
    const gd_rows x = gd_rows_of(a->in[1], gd_norm_mask(a->attr->i[0]));
    return 2 * x.row.size * gd_blocks(x.rows.size, chunk_rows(x.rows.size)) * (int64_t)sizeof(double);
}
GD_CUDA_WORKSPACE(layer_norm_bwd) { return bwd_workspace(a); }
GD_CUDA_WORKSPACE(rms_norm_bwd) { return bwd_workspace(a); }
