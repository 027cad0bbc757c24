/* softmax.cu - softmax, log_softmax along one dimension, and their gradients: one pass for the maximum and the sum, one for the
 * result, which finds the row in the cache. A row with NaN or +inf in it, or with nothing but -inf, is NaN. */
#include "teams.cuh"

template <class T, int KIND> __global__ void __launch_bounds__(GD_TEAM_THREADS, 2) softmax_rows(gd_rows x, gd_rows y, bool logarithm) {
    const gd_team<KIND> team;
    const bool live = team.row < x.rows.size, vector = x.vector && y.vector;
    const int64_t base = live ? x.rows.offset(team.row) : 0, to = live ? y.rows.offset(team.row) : 0, n = live ? x.row.size : 0;
    gd_online<T> found;
    team.each(n, vector, [&](int64_t k, bool four) {
        T v[4];
        gd_read(x, base, k, four, v);
        found.add(v, four);
    });
    found.join(team);
    const T most = found.most, scale = (T)(1 / found.sum), shift = gd_log_of((T)found.sum);
    team.each(n, vector, [&](int64_t k, bool four) {
        T v[4];
        gd_read(x, base, k, four, v);
        GD_EACH_OF(j, four) v[j] = logarithm ? v[j] - most - shift : gd_exp_of(v[j] - most) * scale;
        gd_write(y, to, k, four, v);
    });
}

static void softmax(const gd_args *a, bool logarithm) {
    const int64_t mask = (int64_t)1 << a->attr->i[0];
    const gd_rows x = gd_rows_of(a->in[0], mask), y = gd_rows_of(a->out[0], mask);
    if (x.rows.size * x.row.size == 0) return;
    GD_LAUNCH_TEAMS(softmax_rows, x, a->stream, x, y, logarithm)
}
GD_CUDA_KERNEL(softmax) { softmax(a, false); }
GD_CUDA_KERNEL(log_softmax) { softmax(a, true); }

/* dx = y (g - sum(g y)), or g - exp(y) sum(g); 0 in a row without incoming gradient. Terms with g = 0 are 0. */
template <class T, int KIND> __global__ void __launch_bounds__(GD_TEAM_THREADS, 2) softmax_bwd_rows(gd_rows g, gd_rows y, gd_rows dx, bool logarithm) {
    const gd_team<KIND> team;
    const bool live = team.row < g.rows.size, vector = g.vector && y.vector && dx.vector;
    const int64_t from_g = live ? g.rows.offset(team.row) : 0, from_y = live ? y.rows.offset(team.row) : 0, to = live ? dx.rows.offset(team.row) : 0;
    const int64_t n = live ? g.row.size : 0;
    double sum = 0;
    float any = 0;
    team.each(n, vector, [&](int64_t k, bool four) {
        T gv[4], yv[4], part = 0;
        gd_read(g, from_g, k, four, gv);
        if (!logarithm) gd_read(y, from_y, k, four, yv);
        GD_EACH_OF(j, four) {
            if (gv[j] != 0) any = 1;
            if (logarithm) part += gv[j];
            else if (gv[j] != 0) part += gv[j] * yv[j];
        }
        sum += (double)part;
    });
    const T total = (T)team.sum(sum);
    const bool flows = team.most(any) > 0;
    team.each(n, vector, [&](int64_t k, bool four) {
        T gv[4], yv[4];
        gd_read(g, from_g, k, four, gv);
        gd_read(y, from_y, k, four, yv);
        GD_EACH_OF(j, four) {
            const T d = logarithm ? gd_fused(-gd_exp_of(yv[j]), total, gv[j]) : yv[j] * (gv[j] - total);
            gv[j] = flows ? d : 0;
        }
        gd_write(dx, to, k, four, gv);
    });
}

static void softmax_bwd(const gd_args *a, bool logarithm) {
    const int64_t mask = (int64_t)1 << a->attr->i[0];
    const gd_rows g = gd_rows_of(a->in[0], mask), y = gd_rows_of(a->in[1], mask), dx = gd_rows_of(a->out[0], mask);
    if (g.rows.size * g.row.size == 0) return;
    GD_LAUNCH_TEAMS(softmax_bwd_rows, g, a->stream, g, y, dx, logarithm)
}
GD_CUDA_KERNEL(softmax_bwd) { softmax_bwd(a, false); }
GD_CUDA_KERNEL(log_softmax_bwd) { softmax_bwd(a, true); }
