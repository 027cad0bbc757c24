/* nonzero.cu - the places of what is not zero, in row-major order: blocks count theirs, the counts are added up, then each
 * block knows where its places go. */
#include "each.cuh"

enum { THREADS = 256, EACH = 16, BLOCK = THREADS * EACH, SCAN = 1024 };

template <typename T> GD_DEVICE bool is_set(T x) { return x != 0; }
GD_DEVICE bool is_set(gd_bf16 x) { return (x.bits & 0x7fffu) != 0; }
GD_DEVICE bool is_set(gd_f16 x) { return (x.bits & 0x7fffu) != 0; }

template <typename T> __global__ void __launch_bounds__(THREADS) count_kernel(const T *x, gd_place place, int64_t n, int64_t *counts) {
    const int64_t start = (int64_t)blockIdx.x * BLOCK;
    int count = 0;
    for (int k = 0; k < EACH; k++) {
        const int64_t i = start + k * THREADS + threadIdx.x;
        if (i < n) count += is_set(x[gd_offset(place, i)]);
    }
    count = gd_block_reduce(count, gd_plus(), 0);
    if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

/* counts become the number of what comes before each block; the sum goes to counts[blocks]. One block. */
__global__ void __launch_bounds__(SCAN) scan_kernel(int64_t *counts, int64_t blocks) {
    GD_SHARED(int64_t, sums, 2, SCAN);
    const int t = (int)threadIdx.x;
    int64_t before = 0;
    for (int64_t start = 0; start < blocks; start += SCAN) {
        const int64_t own = start + t < blocks ? counts[start + t] : 0;
        int now = 0;
        sums[0][t] = own;
        __syncthreads();
        for (int reach = 1; reach < SCAN; reach *= 2, now ^= 1) {
            sums[now ^ 1][t] = t >= reach ? sums[now][t] + sums[now][t - reach] : sums[now][t];
            __syncthreads();
        }
        if (start + t < blocks) counts[start + t] = before + sums[now][t] - own;
        before += sums[now][SCAN - 1];
        __syncthreads();
    }
    if (t == 0) counts[blocks] = before;
}

template <typename T>
__global__ void __launch_bounds__(THREADS) find_kernel(const T *x, gd_place place, int64_t n, const int64_t *counts, int rank, int64_t room, int64_t *out) {
    GD_SHARED(int, warps, THREADS / GD_WARP);
    const int lane = (int)threadIdx.x % GD_WARP, warp = (int)threadIdx.x / GD_WARP;
    int64_t before = counts[blockIdx.x];
    for (int k = 0; k < EACH; k++) {
        const int64_t i = (int64_t)blockIdx.x * BLOCK + k * THREADS + threadIdx.x;
        const bool set = i < n && is_set(x[gd_offset(place, i)]);
        const uint32_t ballot = __ballot_sync(GD_ALL_LANES, set);
        if (lane == 0) warps[warp] = __popc(ballot);
        __syncthreads();
        int64_t to = before + __popc(ballot & ((1u << lane) - 1));
        for (int w = 0; w < THREADS / GD_WARP; w++) {
            if (w < warp) to += warps[w];
            before += warps[w];
        }
        if (set && to < room) {
            int64_t at[4];
            gd_coordinates(place, i, at);
            for (int d = 0; d < rank; d++) out[to * rank + d] = at[4 - rank + d];
        }
        __syncthreads();
    }
}

/* How many are not zero, after the counts of the blocks, in the workspace. */
static int64_t *count_all(const gd_args *a) {
    const gd_view *x = a->in[0];
    const int64_t n = gd_numel(x), blocks = gd_blocks(n, BLOCK);
    int64_t *counts = (int64_t *)a->workspace;
    GD_DISPATCH_ALL(x->dtype, T, GD_LAUNCH(count_kernel<T>, blocks, THREADS, 0, a->stream, (const T *)x->data, gd_place_of(x), n, counts));
    GD_LAUNCH(scan_kernel, 1, SCAN, 0, a->stream, counts, blocks);
    return counts + blocks;
}

GD_CUDA_WORKSPACE(nonzero) { return (gd_blocks(gd_numel(a->in[0]), BLOCK) + 1) * (int64_t)sizeof(int64_t); }

GD_CUDA_KERNEL(nonzero) {
    const gd_view *x = a->in[0];
    const int64_t n = gd_numel(x), room = a->out[0]->shape[2];
    if (n == 0 || room == 0) return;
    const int64_t *counts = count_all(a) - gd_blocks(n, BLOCK);
    GD_DISPATCH_ALL(x->dtype, T, GD_LAUNCH(find_kernel<T>, gd_blocks(n, BLOCK), THREADS, 0, a->stream, (const T *)x->data, gd_place_of(x), n, counts, (int)x->rank, room,
                                           (int64_t *)a->out[0]->data));
}
