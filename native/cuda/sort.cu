/* sort.cu - sort, topk and searchsorted along a dimension; stable, NaN is the largest.
 * A block sorts a tile in shared memory (Batcher's bitonic network); tiles merge pairwise: each item finds its place by looking
 * for itself in the other run. Of topk, runs keep no more than k items. */
#include "axes.cuh"

enum { THREADS = 256, TILE = 1024 };

/* A word that orders the value, and its place in the line. So no two are equal, and any sort is stable. */
struct item {
    uint64_t word;
    uint32_t place;
};
static __device__ __forceinline__ bool comes_first(const item &a, const item &b) { return a.word < b.word || (a.word == b.word && a.place < b.place); }

static __device__ uint64_t word_of(float x) {
    const float plain = x + 0.0f; /* -0 becomes 0 */
    const uint32_t bits = gd_bits_of_f32(plain);
    return x == x ? bits ^ ((uint32_t)((int32_t)bits >> 31) | 0x80000000u) : UINT32_MAX;
}
static __device__ uint64_t word_of(double x) {
    const double plain = x + 0.0;
    uint64_t bits;
    memcpy(&bits, &plain, sizeof bits);
    return x == x ? bits ^ ((uint64_t)((int64_t)bits >> 63) | 0x8000000000000000u) : UINT64_MAX;
}
static __device__ uint64_t word_of(int64_t x) { return (uint64_t)x ^ 0x8000000000000000u; }
static __device__ uint64_t word_of(int32_t x) { return (uint32_t)x ^ 0x80000000u; }
static __device__ uint64_t word_of(uint8_t x) { return x; }

/* What one call sorts. keep: items of a run, and of the result. */
struct sorting {
    gd_rows x, values, indices;
    uint64_t flip; /* all bits for a descending order */
    int64_t tiles, keep;
};

template <class T> __device__ void put(const sorting &s, int64_t line, int64_t k, uint32_t place) {
    const T value = s.x.template load<T>(s.x.rows.offset(line), place);
    gd_store<T>(const_cast<void *>(s.values.data), s.values.dtype, s.values.rows.offset(line) + s.values.row.offset(k), value);
    static_cast<int64_t *>(const_cast<void *>(s.indices.data))[s.indices.rows.offset(line) + s.indices.row.offset(k)] = place;
}

/* Sorts tile blockIdx.x % tiles of a line into `items`, or into the result if it is the only one. room: a power of two. */
template <class T> __global__ void __launch_bounds__(THREADS, 2) sort_tiles(sorting s, int room, item *items) {
    GD_SHARED(uint64_t, word, TILE);
    GD_SHARED(uint32_t, place, TILE);
    const int64_t line = blockIdx.x / s.tiles, first = blockIdx.x % s.tiles * TILE, left = s.x.row.size - first;
    const int n = left < TILE ? (int)left : TILE;
    const int64_t base = s.x.rows.offset(line);
    for (int k = threadIdx.x; k < room; k += THREADS) {
        word[k] = k < n ? word_of(s.x.template load<T>(base, first + k)) ^ s.flip : UINT64_MAX;
        place[k] = k < n ? (uint32_t)(first + k) : UINT32_MAX;
    }
    for (int size = 2; size <= room; size *= 2)
        for (int step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            for (int pair = threadIdx.x; pair < room / 2; pair += THREADS) {
                const int low = 2 * pair - (pair & (step - 1)), high = low + step;
                const item a = {word[low], place[low]}, b = {word[high], place[high]};
                const bool rising = (low & size) == 0;
                if (comes_first(b, a) == rising) {
                    word[low] = b.word, place[low] = b.place;
                    word[high] = a.word, place[high] = a.place;
                }
            }
        }
    __syncthreads();
    for (int k = threadIdx.x; k < n && k < s.keep; k += THREADS) {
        if (s.tiles == 1) put<T>(s, line, k, place[k]);
        else items[line * s.x.row.size + first + k] = {word[k], place[k]};
    }
}

/* Runs of `run` items merge pairwise, from one buffer to the other; the last time into the result. */
template <class T> __global__ void __launch_bounds__(THREADS) merge_runs(sorting s, const item *from, item *to, int64_t run) {
    const int64_t k = gd_thread_index(), n = s.x.row.size;
    if (k >= n * s.x.rows.size) return;
    const int64_t line = k / n, at = k - line * n, mine = at / run * run, place = at - mine;
    const bool second = (at / run) % 2 == 1;
    const int64_t other = second ? mine - run : mine + run, first = second ? other : mine;
    if (place >= s.keep) return;
    const item *items = from + line * n, me = items[at];
    int64_t low = 0, high = other >= n ? 0 : n - other < run ? n - other : run;
    if (high > s.keep) high = s.keep;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (comes_first(items[other + middle], me)) low = middle + 1;
        else high = middle;
    }
    const int64_t rank = place + low;
    if (rank >= s.keep) return;
    if (2 * run >= n) put<T>(s, line, rank, me.place);
    else to[line * n + first + rank] = me;
}

template <class T> static void sort_lines(const gd_args *a, const sorting &s) {
    const int64_t n = s.x.row.size, lines = s.x.rows.size;
    int room = 2;
    while (room < TILE && room < n) room *= 2;
    item *from = (item *)a->workspace, *to = from + n * lines;
    GD_LAUNCH((sort_tiles<T>), lines * s.tiles, THREADS, 0, a->stream, s, room, from);
    for (int64_t run = TILE; run < n; run *= 2) {
        GD_LAUNCH((merge_runs<T>), gd_blocks(n * lines, THREADS), THREADS, 0, a->stream, s, from, to, run);
        std::swap(from, to);
    }
}

static void sort(const gd_args *a, int64_t keep, bool descending) {
    const int64_t mask = (int64_t)1 << a->attr->i[0];
    sorting s = {gd_rows_of(a->in[0], mask), gd_rows_of(a->out[0], mask), gd_rows_of(a->out[1], mask), descending ? UINT64_MAX : 0, 0, keep};
    s.tiles = gd_blocks(s.x.row.size, TILE);
    if (s.x.rows.size * s.x.row.size == 0 || keep == 0) return;
    switch (gd_dtype_inside(s.x.dtype)) {
    case GD_FLOAT32: sort_lines<float>(a, s); break;
    case GD_FLOAT64: sort_lines<double>(a, s); break;
    case GD_INT64: sort_lines<int64_t>(a, s); break;
    case GD_INT32: sort_lines<int32_t>(a, s); break;
    default: sort_lines<uint8_t>(a, s);
    }
}
GD_CUDA_KERNEL(sort) { sort(a, a->in[0]->shape[a->attr->i[0]], a->attr->i[1] != 0); }
GD_CUDA_KERNEL(topk) { sort(a, a->attr->i[1], a->attr->i[2] != 0); }

/* Two buffers of items for lines of several tiles. */
static int64_t workspace_of(const gd_args *a) { return a->in[0]->shape[a->attr->i[0]] <= TILE ? 0 : 2 * gd_numel(a->in[0]) * (int64_t)sizeof(item); }
GD_CUDA_WORKSPACE(sort) { return workspace_of(a); }
GD_CUDA_WORKSPACE(topk) { return workspace_of(a); }

/* ---- searchsorted: where values would go in a sorted line --------------------------------------------------------------------- */

struct searching {
    gd_rows sorted, order; /* order.data NULL: the lines are in order */
    gd_place values;
    bool one_line, right;
    int64_t count, per_line;
    int64_t *out;
    gd_fault *fault;
};

template <class T> __global__ void __launch_bounds__(THREADS) search(searching s, const void *values, int dtype) {
    const int64_t k = gd_thread_index(), n = s.sorted.row.size;
    if (k >= s.count) return;
    const T value = gd_load<T>(values, dtype, gd_offset(s.values, k));
    const int64_t line = s.one_line ? 0 : k / s.per_line, base = s.sorted.rows.offset(line), places = s.order.data ? s.order.rows.offset(line) : 0;
    int64_t low = 0, left = n;
    while (left > 0) {
        const int64_t half = left / 2, at = low + half;
        int64_t place = s.order.data ? s.order.template load<int64_t>(places, at) : at;
        if (s.order.data && !gd_index_ok(s.fault, GD_OP_searchsorted, place, n)) place = 0;
        const T v = s.sorted.template load<T>(base, place);
        const bool before = s.right ? !(v > value) : !(v >= value);
        low = before ? at + 1 : low;
        left = before ? left - half - 1 : half;
    }
    s.out[k] = low;
}

GD_CUDA_KERNEL(searchsorted) {
    const gd_view *sorted = a->in[0], *values = a->in[1], *order = a->in[2];
    searching s;
    memset(&s, 0, sizeof s);
    s.sorted = gd_rows_of(sorted, 1 << 3);
    if (order) s.order = gd_rows_of(order, 1 << 3);
    s.values = gd_place_of(values);
    s.one_line = sorted->rank == 1, s.right = a->attr->i[0] != 0;
    s.count = gd_numel(values), s.per_line = values->shape[3];
    s.out = (int64_t *)a->out[0]->data, s.fault = a->stream->fault;
    const int64_t blocks = gd_blocks(s.count, THREADS);
    const void *data = values->data;
    const int dtype = values->dtype;
    switch (gd_dtype_inside(sorted->dtype)) {
    case GD_FLOAT32: GD_LAUNCH((search<float>), blocks, THREADS, 0, a->stream, s, data, dtype); break;
    case GD_FLOAT64: GD_LAUNCH((search<double>), blocks, THREADS, 0, a->stream, s, data, dtype); break;
    case GD_INT64: GD_LAUNCH((search<int64_t>), blocks, THREADS, 0, a->stream, s, data, dtype); break;
    case GD_INT32: GD_LAUNCH((search<int32_t>), blocks, THREADS, 0, a->stream, s, data, dtype); break;
    default: GD_LAUNCH((search<uint8_t>), blocks, THREADS, 0, a->stream, s, data, dtype);
    }
}
