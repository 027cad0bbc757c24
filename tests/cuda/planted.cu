/* planted.cu - kernels with faults that the emulator must find, and right ones that it must let pass. Each stands in for the op
 * that test_emulator.py calls; all sum the elements of blocks of BLOCK in some way, or break off. */
#include "mma.cuh"

enum { BLOCK = 64 };

/* ---- Right ------------------------------------------------------------------------------------------------------------- */

/* Sums of blocks by shuffles, in every element. */
__global__ void right_shuffles(const float *x, float *y) {
    const int64_t i = gd_thread_index();
    y[i] = gd_block_sum(x[i]);
}

/* The same by halving in shared memory. */
__global__ void right_halving(const float *x, float *y) {
    GD_SHARED(float, part, BLOCK);
    const int t = (int)threadIdx.x;
    part[t] = x[gd_thread_index()];
    for (int n = BLOCK / 2; n > 0; n /= 2) {
        __syncthreads();
        if (t < n) part[t] += part[t + n];
    }
    __syncthreads();
    y[gd_thread_index()] = part[0];
}

/* The same within warps: what a warp orders needs no barrier of the block. */
__global__ void right_warps(const float *x, float *y) {
    GD_SHARED(float, part, BLOCK);
    GD_SHARED(float, whole, BLOCK / GD_WARP);
    const int t = (int)threadIdx.x, lane = t % GD_WARP;
    part[t] = x[gd_thread_index()];
    for (int n = GD_WARP / 2; n > 0; n /= 2) {
        __syncwarp();
        if (lane < n) part[t] += part[t + n];
    }
    if (lane == 0) whole[t / GD_WARP] = part[t];
    __syncthreads();
    y[gd_thread_index()] = whole[0] + whole[1];
}

/* Votes, counts, atomics on integers, and dynamic shared memory: a sum of whole numbers. */
__global__ void right_integers(const float *x, float *y) {
    GD_DYNAMIC_SHARED(int, sum);
    const int value = (int)x[gd_thread_index()];
    if (threadIdx.x == 0) sum[0] = 0;
    const int odd = __syncthreads_count(value & 1), above = __popc(__ballot_sync(GD_ALL_LANES, value > 1));
    atomicAdd(&sum[0], value);
    __syncthreads();
    const bool fits = odd <= BLOCK && above <= GD_WARP && __all_sync(GD_ALL_LANES, above >= 0) && !__syncthreads_or(value < -1000);
    y[gd_thread_index()] = fits ? (float)(int)sum[0] : -1.0f;
}

/* By tensor cores: the elements as four rows of a matrix times ones are sums of rows; ones times those are the sum. */
__global__ void right_product(const float *x, float *y) {
    GD_SHARED(gd_bf16, a, 16, 24);
    const int lane = (int)threadIdx.x, quad = lane % 4;
    const uint32_t ones[2] = {gd_pair_of<gd_bf16>(1, 1), gd_pair_of<gd_bf16>(1, 1)};
    const uint32_t more_ones[4] = {gd_tf32(1), gd_tf32(1), gd_tf32(1), gd_tf32(1)};
    uint32_t rows[4], sums[2] = {0, 0};
    float d[4] = {0, 0, 0, 0}, e[4] = {0, 0, 0, 0};
    for (int k = lane; k < 256; k += GD_WARP) a[k / 16][k % 16] = gd_narrow<gd_bf16>(k < BLOCK ? x[blockIdx.x * BLOCK + k] : 0.0f);
    __syncthreads();
    gd_load_matrices(rows, &a[lane % 16][lane / 16 * 8]);
    gd_mma_16816<gd_bf16>(d, rows, ones); /* d[0]: the sum of row lane / 4 */
    sums[0] = gd_tf32(__shfl_sync(GD_ALL_LANES, d[0], 4 * quad)); /* (k = quad, n): row quad */
    gd_mma_1688(e, more_ones, sums);
    y[blockIdx.x * BLOCK + lane] = y[blockIdx.x * BLOCK + lane + GD_WARP] = e[0];
}

/* Copies that land by themselves, two groups under way. */
__global__ void right_copies(const float *x, float *y) {
    GD_SHARED(float, part, 2, BLOCK);
    const int t = (int)threadIdx.x;
    const float *from = x + (int64_t)blockIdx.x * BLOCK;
    if (t < BLOCK / 4) gd_async_copy_16(&part[0][4 * t], from + 4 * t);
    gd_async_commit();
    if (t < BLOCK / 4) gd_async_copy_16(&part[1][4 * t], from + 4 * t, false);
    gd_async_commit();
    gd_async_wait<1>();
    __syncthreads();
    const float sum = gd_block_sum((float)part[0][t]);
    gd_async_wait<0>();
    __syncthreads();
    y[gd_thread_index()] = sum + part[1][t];
}

#define RIGHT(op, kernel, block, shared)                                                                                            \
    GD_CUDA_KERNEL(op) {                                                                                                            \
        GD_LAUNCH(kernel, gd_blocks(gd_numel(a->in[0]), BLOCK), block, shared, a->stream, (const float *)a->in[0]->data, (float *)a->out[0]->data); \
    }
RIGHT(neg, right_shuffles, BLOCK, 0)
RIGHT(abs, right_halving, BLOCK, 0)
RIGHT(sign, right_warps, BLOCK, 0)
RIGHT(square, right_integers, BLOCK, sizeof(int))
RIGHT(floor, right_product, GD_WARP, 0)
RIGHT(ceil, right_copies, BLOCK, 0)

/* ---- Wrong ------------------------------------------------------------------------------------------------------------- */

__global__ void no_barrier(const float *x, float *y) {
    GD_SHARED(float, part, BLOCK);
    part[threadIdx.x] = x[gd_thread_index()];
    y[gd_thread_index()] = part[BLOCK - 1 - threadIdx.x];
}

/* Halving without the barrier between rounds: some orders of the threads give the right sum. */
__global__ void no_inner_barrier(const float *x, float *y) {
    GD_SHARED(float, part, BLOCK);
    const int t = (int)threadIdx.x;
    part[t] = x[gd_thread_index()];
    __syncthreads();
    for (int n = BLOCK / 2; n > 0; n /= 2)
        if (t < n) part[t] += part[t + n];
    __syncthreads();
    y[gd_thread_index()] = part[0];
}

__global__ void one_too_far(const float *x, float *y) {
    GD_SHARED(float, part, 2, BLOCK);
    part[1][threadIdx.x] = part[0][threadIdx.x] = x[gd_thread_index()];
    __syncthreads();
    y[gd_thread_index()] = part[0][threadIdx.x + 1]; /* of the first row: it is inside the array */
}

__global__ void dynamic_too_far(const float *x, float *y) {
    GD_DYNAMIC_SHARED(float, part);
    part[threadIdx.x] = x[gd_thread_index()];
    __syncthreads();
    y[gd_thread_index()] = part[0];
}

__global__ void wrong_width(const float *x, float *y) {
    const int64_t i = gd_thread_index();
    y[i] = gd_warp_reduce(x[i], gd_plus(), 16);
}

__global__ void barrier_in_a_branch(const float *x, float *y) {
    if (threadIdx.x < BLOCK / 2) __syncthreads();
    y[gd_thread_index()] = x[gd_thread_index()];
}

__global__ void two_barriers(const float *x, float *y) {
    if (threadIdx.x < BLOCK / 2) __syncthreads();
    else __syncthreads();
    y[gd_thread_index()] = x[gd_thread_index()];
}

__global__ void never_written(const float *x, float *y) {
    GD_SHARED(float, part, BLOCK);
    if (threadIdx.x != 5) part[threadIdx.x] = x[gd_thread_index()];
    __syncthreads();
    y[gd_thread_index()] = part[threadIdx.x];
}

__global__ void lane_that_left(const float *x, float *y) {
    const int64_t i = gd_thread_index();
    if (threadIdx.x % GD_WARP >= 24) return;
    y[i] = __shfl_down_sync(GD_ALL_LANES, x[i], 8);
}

__global__ void not_in_the_mask(const float *x, float *y) {
    const int64_t i = gd_thread_index();
    y[i] = __shfl_xor_sync(0x0000ffffu, x[i], 1);
}

__global__ void lanes_apart(const float *x, float *y) {
    const int64_t i = gd_thread_index();
    if (threadIdx.x % 2) y[i] = __shfl_sync(GD_ALL_LANES, x[i], 0);
    else y[i] = (float)__ballot_sync(GD_ALL_LANES, x[i] > 0);
}

__global__ void far_away(const float *, float *y) { y[gd_thread_index() + ((int64_t)1 << 28)] = 1; }

__global__ void copy_not_awaited(const float *x, float *y) {
    GD_SHARED(float, part, BLOCK);
    if (threadIdx.x < BLOCK / 4) gd_async_copy_16(&part[4 * threadIdx.x], x + blockIdx.x * BLOCK + 4 * threadIdx.x);
    gd_async_commit();
    gd_async_wait<1>();
    __syncthreads();
    y[gd_thread_index()] = part[threadIdx.x];
}

__global__ void not_aligned(const float *x, float *y) {
    GD_SHARED(float, part, BLOCK);
    part[threadIdx.x] = x[gd_thread_index()];
    __syncthreads();
    y[gd_thread_index()] = gd_load_pack<4>(&part[1]).at[0];
}

#define WRONG(op, kernel) RIGHT(op, kernel, BLOCK, 0)
WRONG(exp, no_barrier)
WRONG(expm1, no_inner_barrier)
WRONG(log, one_too_far)
RIGHT(log1p, dynamic_too_far, BLOCK, (BLOCK - 1) * sizeof(float))
WRONG(log2, wrong_width)
WRONG(sin, barrier_in_a_branch)
WRONG(cos, two_barriers)
WRONG(tanh, never_written)
WRONG(sigmoid, lane_that_left)
WRONG(erf, not_in_the_mask)
WRONG(gelu, lanes_apart)
WRONG(sqrt, far_away)
WRONG(rsqrt, copy_not_awaited)
WRONG(reciprocal, not_aligned)
RIGHT(silu, right_shuffles, 2 * 1024, 0)
RIGHT(mish, right_shuffles, BLOCK, 100 * 1024)
