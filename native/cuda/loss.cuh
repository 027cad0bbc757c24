/* loss.cuh - sums of losses over rows or elements: float64 pairs of a loss and a weight, joined 4096 at a time in a fixed order. */
#ifndef GRADINO_CUDA_LOSS_CUH
#define GRADINO_CUDA_LOSS_CUH

#include "axes.cuh"

enum { GD_NONE = 0, GD_MEAN = 1, GD_SUM = 2 }; /* reductions */
enum { GD_LOSS_THREADS = 256, GD_LOSS_EACH = 4096 };

struct gd_loss_pair { double loss, weight; };

/* Where the sums go: data NULL, if not wanted. */
struct gd_loss_result {
    void *loss, *weight;
    int dtype, weight_dtype;
    double fixed; /* instead of the sum of the weights, if not 0 */
    bool mean;    /* the loss is divided by the weight */
};

template <class T> __device__ void gd_loss_put(const gd_loss_result &r, double loss, double weight) {
    if (r.fixed != 0) weight = r.fixed;
    if (r.mean) loss /= weight;
    if (r.loss) gd_store<T>(r.loss, r.dtype, 0, (T)loss);
    if (r.weight) gd_store<T>(r.weight, r.weight_dtype, 0, (T)weight);
}

/* to[b] = the sum of the pairs of block b; the only block gives the result. */
template <class T> __global__ void __launch_bounds__(GD_LOSS_THREADS) gd_loss_join(const gd_loss_pair *from, int64_t n, gd_loss_pair *to, gd_loss_result r) {
    const int64_t first = (int64_t)blockIdx.x * GD_LOSS_EACH, last = first + GD_LOSS_EACH < n ? first + GD_LOSS_EACH : n;
    double loss = 0, weight = 0;
    for (int64_t k = first + threadIdx.x; k < last; k += GD_LOSS_THREADS) loss += from[k].loss, weight += from[k].weight;
    loss = gd_block_sum(loss);
    weight = gd_block_sum(weight);
    if (threadIdx.x != 0) return;
    if (gridDim.x == 1) gd_loss_put<T>(r, loss, weight);
    else to[blockIdx.x] = {loss, weight};
}

/* Pairs of memory that the sum of n takes. */
static inline int64_t gd_loss_room(int64_t n) {
    int64_t room = n;
    while (n > 1) n = gd_blocks(n, GD_LOSS_EACH), room += n;
    return room;
}

/* The sum of n pairs, behind which there is room for the sums of their blocks. */
static inline void gd_loss_total(gd_loss_pair *pairs, int64_t n, const gd_loss_result &r, const gd_stream *stream, bool wide) {
    for (bool more = true; more;) {
        const int64_t blocks = n > 0 ? gd_blocks(n, GD_LOSS_EACH) : 1;
        gd_loss_pair *to = pairs + n;
        if (wide) GD_LAUNCH((gd_loss_join<double>), blocks, GD_LOSS_THREADS, 0, stream, pairs, n, to, r);
        else GD_LAUNCH((gd_loss_join<float>), blocks, GD_LOSS_THREADS, 0, stream, pairs, n, to, r);
        more = blocks > 1;
        pairs = to, n = blocks;
    }
}

#endif
