/* each.cuh - kernels in which every thread computes one element of the result, from what its coordinates say.
 * Also words: where elements lie side by side they are moved up to 16 bytes at a time. */
#ifndef GRADINO_CUDA_EACH_CUH
#define GRADINO_CUDA_EACH_CUH

#include "device.cuh"

enum { GD_EACH_THREADS = 256 };

/* f(i) for i = 0 .. n - 1. */
template <typename F> __global__ void __launch_bounds__(GD_EACH_THREADS) gd_each_kernel(const F f, int64_t n) {
    const int64_t i = gd_thread_index();
    if (i < n) f(i);
}
template <typename F> static void gd_each(const F &f, int64_t n, const gd_stream *s) {
    GD_LAUNCH((gd_each_kernel<F>), gd_blocks(n, GD_EACH_THREADS), GD_EACH_THREADS, 0, s, f, n);
}

/* Coordinates of element i of a shape, in the order of the four dimensions. */
GD_DEVICE void gd_coordinates(const gd_place &p, int64_t i, int64_t *at) {
    if (p.small) {
        const uint32_t n = (uint32_t)i, a = gd_divide(n, p.by[2]), b = gd_divide(a, p.by[1]), c = gd_divide(b, p.by[0]);
        at[0] = c, at[1] = b - c * p.by[0].d, at[2] = a - b * p.by[1].d, at[3] = n - a * p.by[2].d;
        return;
    }
    const int64_t a = i / p.shape[3], b = a / p.shape[2], c = b / p.shape[1];
    at[0] = c, at[1] = b - c * p.shape[1], at[2] = a - b * p.shape[2], at[3] = i - a * p.shape[3];
}

/* A place in a dimension that an index from the data names, negative ones counted from the end; -1, and a fault, if there is none. */
GD_DEVICE int64_t gd_wrap_index(gd_fault *fault, int op, int64_t index, int64_t size) {
    const int64_t i = index < 0 ? index + size : index;
    if (i >= 0 && i < size) return i;
    gd_note_fault(fault, op, index, size);
    return -1;
}

/* ---- Words -------------------------------------------------------------------------------------------------------------------- */

/* Whether pairs of neighbours in the last dimension are one element of twice the size, in an array of that many bytes an element. */
static inline bool gd_pairs_up(const gd_view *v, int64_t bytes) {
    bool even = v->strides[3] == 1 && v->shape[3] % 2 == 0 && (uintptr_t)v->data % (uintptr_t)(2 * bytes) == 0;
    for (int d = 0; d < 3; d++) even = even && (v->strides[d] % 2 == 0 || v->shape[d] == 1);
    return even;
}
static inline void gd_pair_up(gd_view *v) {
    v->shape[3] /= 2;
    for (int d = 0; d < 3; d++) v->strides[d] /= 2;
}
/* Takes elements of both together as often as can be, up to 16 bytes; returns the bytes of what are elements then. */
static inline int64_t gd_widest_words(gd_view *a, gd_view *b, int64_t bytes) {
    for (; bytes < 16 && gd_pairs_up(a, bytes) && gd_pairs_up(b, bytes); bytes *= 2) gd_pair_up(a), gd_pair_up(b);
    return bytes;
}
#define GD_DISPATCH_WIDE_WORDS(bytes, W, ...) \
    GD_SWITCH(bytes, GD_CASE(1, W, uint8_t, __VA_ARGS__) GD_CASE(2, W, uint16_t, __VA_ARGS__) GD_CASE(4, W, uint32_t, __VA_ARGS__) \
              GD_CASE(8, W, uint2, __VA_ARGS__) GD_CASE(16, W, uint4, __VA_ARGS__))

#endif
