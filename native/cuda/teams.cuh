/* teams.cuh - rows that threads work on together: a warp takes a short row, a block a long one, and rows that stand side by side
 * are taken as columns, 32 at once; rows of a few elements have a thread each. What a row's threads find out separately they join in a fixed order. */
#ifndef GRADINO_CUDA_TEAMS_CUH
#define GRADINO_CUDA_TEAMS_CUH

#include "axes.cuh"
#include "formulas.cuh"

enum gd_team_kind { GD_BY_WARP, GD_BY_BLOCK, GD_BY_COLUMNS, GD_BY_THREAD };
enum {
    GD_TEAM_THREADS = 256,
    GD_TEAM_SHORT = 1024, /* elements that a warp takes: 32 for each thread */
    GD_TEAM_COLUMNS = 32
};

template <int KIND> struct gd_team {
    enum { WIDTH = KIND == GD_BY_WARP ? 32 : KIND == GD_BY_BLOCK ? GD_TEAM_THREADS : KIND == GD_BY_THREAD ? 1 : GD_TEAM_THREADS / GD_TEAM_COLUMNS };
    enum { ROWS = GD_TEAM_THREADS / WIDTH };
    int64_t row; /* may be beyond the last: its threads still join */
    int lane;    /* of WIDTH */

    __device__ gd_team() {
        const int thread = threadIdx.x;
        lane = KIND == GD_BY_COLUMNS ? thread / GD_TEAM_COLUMNS : thread % WIDTH;
        row = (int64_t)blockIdx.x * ROWS + (KIND == GD_BY_COLUMNS ? thread % GD_TEAM_COLUMNS : thread / WIDTH);
    }

    /* Every thread of the row gets op over all of them. */
    template <class T, class Op> __device__ T join(T x, Op op, T neutral) const {
        if constexpr (KIND == GD_BY_THREAD) return x;
        else if constexpr (KIND == GD_BY_WARP) return gd_warp_reduce(x, op);
        else if constexpr (KIND == GD_BY_BLOCK) return gd_block_reduce(x, op, neutral);
        else {
            GD_SHARED(T, parts, GD_TEAM_THREADS);
            const int column = threadIdx.x % GD_TEAM_COLUMNS;
            parts[threadIdx.x] = x;
            __syncthreads();
            T all = parts[column];
            for (int part = 1; part < WIDTH; part++) all = op(all, (T)parts[part * GD_TEAM_COLUMNS + column]);
            __syncthreads();
            return all;
        }
    }
    template <class T> __device__ T sum(T x) const { return join(x, gd_plus(), (T)0); }
    template <class T> __device__ T most(T x) const { return join(x, gd_larger(), (T)-INFINITY); }

    /* f(k, four) for this thread's elements of n: k alone, or k and the next three, which are one piece of memory. */
    template <class F> __device__ void each(int64_t n, bool vector, F f) const {
        int64_t from = 0;
        if (KIND != GD_BY_COLUMNS && vector) {
            for (int64_t k = 4 * lane; k + 4 <= n; k += 4 * WIDTH) f(k, true);
            from = n & ~(int64_t)3;
        }
        for (int64_t k = from + lane; k < n; k += WIDTH) f(k, false);
    }
};

template <class T> __device__ __forceinline__ void gd_read(const gd_rows &x, int64_t base, int64_t k, bool four, T (&v)[4]) {
    if (four) gd_load_4(x.data, x.dtype, base + k, v);
    else v[0] = x.template load<T>(base, k);
}
template <class T> __device__ __forceinline__ void gd_write(const gd_rows &y, int64_t base, int64_t k, bool four, const T (&v)[4]) {
    void *data = const_cast<void *>(y.data);
    if (four) gd_store_4(data, y.dtype, base + k, v);
    else gd_store<T>(data, y.dtype, base + y.row.offset(k), v[0]);
}
/* Over the elements of a piece. */
#define GD_EACH_OF(j, four) \
    GD_UNROLL               \
    for (int j = 0; j < 4; j++) if (j == 0 || (four))

/* The sums of four elements' deviations from `mean`, and of their squares, with what came before. */
template <class T> __device__ __forceinline__ void gd_deviations(const gd_rows &x, int64_t base, int64_t k, bool four, double mean, double *sum, double *squares) {
    T v[4];
    gd_read(x, base, k, four, v);
    GD_EACH_OF(j, four) {
        const double d = (double)v[j] - mean;
        *sum += d;
        *squares = fma(d, d, *squares);
    }
}

static inline gd_team_kind gd_team_of(const gd_rows *x) {
    const bool beside = x->rows.size >= 8 && x->rows.stride[x->rows.n - 1] == 1 && x->rows.shape[x->rows.n - 1] >= 8;
    if (beside && x->row.stride[x->row.n - 1] != 1) return GD_BY_COLUMNS;
    return x->row.size <= GD_TEAM_SHORT ? GD_BY_WARP : GD_BY_BLOCK;
}

/* Launches kernel<T, kind> for the rows of x, float64 or what is computed in float32. */
#define GD_LAUNCH_TEAMS_OF(T, kernel, x, stream, ...)                                                                                                 \
    switch (gd_team_of(&(x))) {                                                                                                                       \
    case GD_BY_WARP: GD_LAUNCH((kernel<T, GD_BY_WARP>), gd_blocks((x).rows.size, 8), GD_TEAM_THREADS, 0, stream, __VA_ARGS__); break;                 \
    case GD_BY_BLOCK: GD_LAUNCH((kernel<T, GD_BY_BLOCK>), (x).rows.size, GD_TEAM_THREADS, 0, stream, __VA_ARGS__); break;                             \
    default: GD_LAUNCH((kernel<T, GD_BY_COLUMNS>), gd_blocks((x).rows.size, GD_TEAM_COLUMNS), GD_TEAM_THREADS, 0, stream, __VA_ARGS__);               \
    }
#define GD_LAUNCH_TEAMS(kernel, x, stream, ...)                                                   \
    if ((x).dtype == GD_FLOAT64) { GD_LAUNCH_TEAMS_OF(double, kernel, x, stream, __VA_ARGS__) }   \
    else { GD_LAUNCH_TEAMS_OF(float, kernel, x, stream, __VA_ARGS__) }

/* The largest of a row, and the sum of exp(x - it) over those that were looked at: found out in one pass. */
template <class T> struct gd_online {
    T most;
    double sum;

    __device__ gd_online() : most(-(T)INFINITY), sum(0) {}
    /* The largest of all n > 0 values is considered first, so that their exponentials need one factor. */
    __device__ void add(const T (&v)[4], bool four) {
        T high = v[0];
        GD_EACH_OF(j, four) high = v[j] > high || v[j] != v[j] ? v[j] : high;
        if (high != high) {
            sum = (double)NAN;
            return;
        }
        if (high > most) {
            if (sum != 0) sum *= (double)gd_exp_of(most - high);
            most = high;
        }
        if (most <= -(T)INFINITY) return;
        T part = 0;
        GD_EACH_OF(j, four) part += gd_exp_of(v[j] - most);
        sum += (double)part;
    }
    /* The same of the whole row. */
    template <class Team> __device__ void join(const Team &team) {
        const T all = team.most(most);
        sum = team.sum(sum == 0 ? 0 : sum * (double)gd_exp_of(most - all)); /* +inf - +inf is the NaN that it should be */
        most = all;
    }
};

#endif
