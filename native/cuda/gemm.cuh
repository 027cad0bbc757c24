/* gemm.cuh - matrix product as other families use it (matmul, linear, lstm).
 * One canonical order for every element of C, whatever the kernel, the tile and the number of blocks that share k:
 *   c = init;  for each chunk of k, ascending:  c += sum of a b over the chunk, which starts at 0 and runs over ascending k,
 * where init is C itself (accumulate), the bias, or 0, and chunks follow from k alone. So a row has the same bits alone and in a batch. */
#ifndef GRADINO_CUDA_GEMM_CUH
#define GRADINO_CUDA_GEMM_CUH

#include "device.cuh"

enum {
    GD_PRODUCT_CHUNK = 512,      /* terms of a chunk, as on the CPU; */
    GD_PRODUCT_MOST_CHUNKS = 64  /* a multiple of that where there would be more chunks */
};

/* C (m x n) = init + A (m x k) B (k x n), for count[0] x count[1] pairs of A and B. Any strides, in elements. */
typedef struct gd_product {
    const void *a, *b, *bias; /* bias: n values, or NULL; not together with accumulate */
    void *c;
    int64_t m, n, k;
    int64_t a_rs, a_cs, b_rs, b_cs, c_rs, c_cs;
    int64_t bias_rs, bias_cs; /* the first is 0 */
    int64_t count[2], a_step[2], b_step[2], c_step[2];
    bool accumulate, wide; /* wide: C is float32 though A and B are halves */
    uint8_t dtype;
} gd_product;

int64_t gd_product_bytes(const gd_product *p); /* workspace */
void gd_product_run(const gd_product *p, void *workspace, const gd_stream *s);

/* ---- What its kernels share ----------------------------------------------------------------------------------------------- */

/* How a product is cut. */
typedef struct gd_product_cut {
    int64_t tiles_m, tiles_n, chunks, chunk; /* chunk: its terms */
    int64_t parts;                           /* blocks that share k: 1, or each has one chunk and adds to `partial` */
    bool a_k_fast, b_k_fast;                 /* which way threads walk through A and B */
    bool a_vectors, b_vectors;               /* whether eight halves can be read at once */
} gd_product_cut;

/* The tile of a block: pair of matrices, first row and column, chunks. */
struct gd_product_tile {
    int64_t pair, row, col, first, last;
    int64_t a, b, c; /* offsets of its matrices */
};

__device__ inline gd_product_tile gd_product_place(const gd_product &p, const gd_product_cut &q, int tile_m, int tile_n) {
    gd_product_tile t;
    int64_t i = blockIdx.x;
    t.row = i % q.tiles_m * tile_m;
    i /= q.tiles_m;
    t.col = i % q.tiles_n * tile_n;
    i /= q.tiles_n;
    const int64_t part = i % q.parts;
    t.pair = i / q.parts;
    t.first = q.parts > 1 ? part : 0;
    t.last = q.parts > 1 ? part + 1 : q.chunks;
    const int64_t i0 = t.pair / p.count[1], i1 = t.pair % p.count[1];
    t.a = i0 * p.a_step[0] + i1 * p.a_step[1];
    t.b = i0 * p.b_step[0] + i1 * p.b_step[1];
    t.c = i0 * p.c_step[0] + i1 * p.c_step[1];
    return t;
}

/* What a result starts from. */
template <typename T, typename O, typename C>
__device__ inline C gd_product_init(const gd_product &p, int64_t at, int64_t row, int64_t col) {
    if (p.accumulate) return (C)gd_wide(((const O *)p.c)[at]);
    if (p.bias) return (C)gd_wide(((const T *)p.bias)[row * p.bias_rs + col * p.bias_cs]);
    return (C)0;
}

/* Kernels of halves (gemm_mma.cu): tensor cores. `tile`: 64 or 128. */
void gd_product_halves(const gd_product &p, const gd_product_cut &q, int tile, void *partial, const gd_stream *s);

#endif
