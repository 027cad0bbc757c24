/* reduce.cuh - how a reduction walks its input. An operation is a fold: what one element adds to an accumulator, how two
 * accumulators join, and what the result is.
 *
 * A block has 256 threads for `across` outputs and `along` parts of each. Few long outputs are cut into chunks, whose
 * accumulators join in a second launch. How things are cut depends on the sizes alone, so results do not depend on the card. */
#ifndef GRADINO_CUDA_REDUCE_CUH
#define GRADINO_CUDA_REDUCE_CUH

#include "axes.cuh"

enum {
    GD_REDUCE_THREADS = 256,
    GD_REDUCE_CHUNK = 8192, /* elements of a chunk at least: a thread has 32 */
    GD_REDUCE_BLOCKS = 1024 /* so many are wanted: enough for any card */
};

struct gd_reduce_plan {
    int across, along;
    bool columns; /* neighbouring threads take neighbouring outputs, not neighbouring elements */
    int64_t groups, chunk, chunks;
};

static inline gd_reduce_plan gd_reduce_plan_of(const gd_rows *x) {
    gd_reduce_plan p;
    const int64_t outputs = x->rows.size, count = x->row.size;
    const int64_t beside = x->rows.stride[x->rows.n - 1], next = x->row.stride[x->row.n - 1];
    p.columns = outputs > 1 && beside == 1 && next != 1 && x->rows.shape[x->rows.n - 1] >= 8;
    if (p.columns) {
        p.along = 8;
    } else {
        p.along = 1;
        while (p.along < GD_REDUCE_THREADS && p.along * 4 < count) p.along *= 2;
    }
    p.across = GD_REDUCE_THREADS / p.along;
    p.groups = gd_blocks(outputs, p.across);
    const int64_t least = p.columns ? 256 : GD_REDUCE_CHUNK;
    int64_t chunks = p.groups > 0 ? GD_REDUCE_BLOCKS / p.groups : 1;
    if (chunks > count / least) chunks = count / least;
    if (chunks < 1) chunks = 1;
    p.chunk = gd_blocks(gd_blocks(count, chunks), 1024) * 1024;
    p.chunks = count > 0 ? gd_blocks(count, p.chunk) : 1;
    return p;
}

/* The accumulators of `along` threads for each of `across` outputs join pairwise; thread 0 of each output has the result. */
template <class F> __device__ typename F::Acc gd_reduce_join(const F &f, typename F::Acc acc, int part, int along, int slot, int step) {
    typedef typename F::Acc Acc;
    GD_SHARED(Acc, parts, GD_REDUCE_THREADS);
    parts[slot] = acc;
    for (int half = along / 2; half > 0; half /= 2) {
        __syncthreads();
        if (part < half) {
            acc = f.join(acc, (Acc)parts[slot + half * step]);
            parts[slot] = acc;
        }
    }
    return acc;
}

/* blockIdx.x: a chunk of a group of outputs. Chunks leave their accumulators in `partials`, (chunks, outputs). */
template <class F> __global__ void __launch_bounds__(GD_REDUCE_THREADS, 2)
gd_reduce_kernel(gd_rows x, gd_reduce_plan p, F f, typename F::Acc *partials) {
    typedef typename F::T T;
    typedef typename F::Acc Acc;
    const int thread = threadIdx.x;
    const int which = p.columns ? thread % p.across : thread / p.along, part = p.columns ? thread / p.across : thread % p.along;
    const int64_t group = blockIdx.x % p.groups, chunk = blockIdx.x / p.groups, o = group * p.across + which;
    Acc acc = f.none();
    if (o < x.rows.size) {
        const int64_t base = x.rows.offset(o), first = chunk * p.chunk, last = first + p.chunk < x.row.size ? first + p.chunk : x.row.size;
        if (!p.columns && x.vector) {
            int64_t k = first + 4 * part;
            for (; k + 4 <= last; k += 4 * p.along) {
                T v[4];
                gd_load_4(x.data, x.dtype, base + k, v);
                f.step_4(acc, v, k);
            }
            for (int64_t j = k; j < last && j < k + 4; j++) f.step(acc, x.template load<T>(base, j), j);
        } else {
GD_UNROLL
            for (int64_t k = first + part; k < last; k += p.along) f.step(acc, x.template load<T>(base, k), k);
        }
    }
    acc = gd_reduce_join(f, acc, part, p.along, thread, p.columns ? p.across : 1);
    if (part != 0 || o >= x.rows.size) return;
    if (p.chunks > 1) partials[chunk * x.rows.size + o] = acc;
    else f.store(o, acc, x.row.size);
}

/* A block for each output. */
template <class F> __global__ void __launch_bounds__(GD_REDUCE_THREADS, 2)
gd_reduce_chunks(const typename F::Acc *partials, int64_t outputs, int64_t chunks, int64_t count, F f) {
    const int64_t o = blockIdx.x;
    typename F::Acc acc = f.none();
    for (int64_t c = threadIdx.x; c < chunks; c += GD_REDUCE_THREADS) acc = f.join(acc, partials[c * outputs + o]);
    acc = gd_reduce_join(f, acc, (int)threadIdx.x, (int)GD_REDUCE_THREADS, (int)threadIdx.x, 1);
    if (threadIdx.x == 0) f.store(o, acc, count);
}

template <class F> static void gd_reduce_run(const gd_args *a, const F &f) {
    typedef typename F::Acc Acc;
    const gd_rows x = gd_rows_of(a->in[0], a->attr->i[0]);
    const gd_reduce_plan p = gd_reduce_plan_of(&x);
    if (x.rows.size == 0) return;
    Acc *partials = (Acc *)a->workspace;
    GD_LAUNCH((gd_reduce_kernel<F>), p.groups * p.chunks, GD_REDUCE_THREADS, 0, a->stream, x, p, f, partials);
    if (p.chunks > 1) GD_LAUNCH((gd_reduce_chunks<F>), x.rows.size, GD_REDUCE_THREADS, 0, a->stream, partials, x.rows.size, p.chunks, x.row.size, f);
}

enum { GD_REDUCE_ACC = 24 }; /* bytes of the largest accumulator */
static inline int64_t gd_reduce_workspace(const gd_args *a) {
    const gd_rows x = gd_rows_of(a->in[0], a->attr->i[0]);
    const gd_reduce_plan p = gd_reduce_plan_of(&x);
    return p.chunks > 1 ? p.chunks * x.rows.size * GD_REDUCE_ACC : 0;
}

/* A fold that takes elements one by one. */
#define GD_STEPS_ALONE                                                     \
    __device__ void step_4(Acc &acc, const T (&v)[4], int64_t k) const {   \
        for (int j = 0; j < 4; j++) step(acc, v[j], k + j);                \
    }

#endif
