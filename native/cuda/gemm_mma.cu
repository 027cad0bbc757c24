/* gemm_mma.cu - matrix product of bfloat16 and float16 with tensor cores: sums in float32, one rounding at the end.
 * Strips of A and B lie in shared memory with k along their rows, as pairs of halves, which is how fragments take them. */
#include "gemm.cuh"
#include "mma.cuh"

enum {
    BK = 32,          /* terms of a strip: two steps of the tensor cores */
    WORDS = BK / 2,   /* pairs of a row */
    PITCH = WORDS + 4 /* words from row to row: the eight rows that a warp reads at once lie in different banks */
};

/* WM x WN: the part of a tile that a warp computes. */
template <int TILE_, int WM_, int WN_> struct warps_of {
    enum { TILE = TILE_, WM = WM_, WN = WN_, COLS = TILE_ / WN_, THREADS = (TILE_ / WM_) * COLS * 32, MS = WM_ / 16, NS = WN_ / 8 };
};
typedef warps_of<128, 64, 32> large_warps;
typedef warps_of<64, 32, 32> small_warps;

/* Eight halves `step` apart, of which `n` exist, as four words. */
__device__ inline uint4 eight_halves(const uint16_t *from, int64_t step, int64_t n, bool vector) {
    if (vector && n >= 8) return *(const uint4 *)(const void *)from;
    uint32_t h[8];
GD_UNROLL
    for (int i = 0; i < 8; i++) h[i] = i < n ? from[i * step] : 0u;
    return make_uint4(h[0] | h[1] << 16, h[2] | h[3] << 16, h[4] | h[5] << 16, h[6] | h[7] << 16);
}

/* A thread's part of a strip of LINES rows of A (columns of B): two runs of eight halves. Where k is fast they lie along k,
 * else they are the same eight lines of two terms side by side. */
template <int LINES, int THREADS> struct strip {
    const uint16_t *from;
    int64_t line_stride, k_stride, lines, left;
    int line, k;
    bool k_fast, vectors;
    uint4 run[2];

    static_assert(LINES * BK == 16 * THREADS, "two runs of eight");
    __device__ void begin(const uint16_t *base, int64_t by_line, int64_t by_k, int64_t line_count, int64_t terms, bool along_k, bool in_vectors) {
        const int t = (int)threadIdx.x;
        k_fast = along_k, vectors = in_vectors;
        line = k_fast ? t / (BK / 8) : t / WORDS * 8;
        k = k_fast ? t % (BK / 8) * 8 : t % WORDS * 2;
        from = base + line * by_line + k * by_k;
        line_stride = by_line, k_stride = by_k, lines = line_count, left = terms;
    }
    __device__ void load() {
GD_UNROLL
        for (int i = 0; i < 2; i++) {
            if (k_fast) {
                const int64_t at = line + i * (LINES / 2);
                run[i] = eight_halves(from + i * (LINES / 2) * line_stride, k_stride, at < lines ? left - k : 0, vectors);
            } else {
                run[i] = eight_halves(from + i * k_stride, line_stride, k + i < left ? lines - line : 0, vectors);
            }
        }
        from += BK * k_stride;
        left -= BK;
    }
    template <typename M> __device__ void store(M &to, int now) const {
        if (k_fast) {
GD_UNROLL
            for (int i = 0; i < 2; i++) {
                const int row = line + i * (LINES / 2), word = k / 2;
                to[now][row][word] = run[i].x, to[now][row][word + 1] = run[i].y, to[now][row][word + 2] = run[i].z, to[now][row][word + 3] = run[i].w;
            }
            return;
        }
        const uint32_t first[4] = {run[0].x, run[0].y, run[0].z, run[0].w}, second[4] = {run[1].x, run[1].y, run[1].z, run[1].w};
GD_UNROLL
        for (int i = 0; i < 4; i++) {
            to[now][line + 2 * i][k / 2] = (first[i] & 0xffffu) | second[i] << 16;
            to[now][line + 2 * i + 1][k / 2] = first[i] >> 16 | (second[i] & 0xffff0000u);
        }
    }
};

/* SEVERAL: chunks are added up, else there is one. */
template <typename T, typename O, typename S, bool SEVERAL>
__global__ void __launch_bounds__(S::THREADS) product_halves_kernel(const gd_product p, const gd_product_cut q, float *partial) {
    GD_SHARED(uint32_t, as, 2, S::TILE, PITCH);
    GD_SHARED(uint32_t, bs, 2, S::TILE, PITCH);
    const gd_product_tile tile = gd_product_place(p, q, S::TILE, S::TILE);
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, group = lane / 4, quad = lane % 4;
    const int row0 = warp / S::COLS * S::WM, col0 = warp % S::COLS * S::WN;
    float acc[S::MS][S::NS][4], sum[SEVERAL ? S::MS : 1][SEVERAL ? S::NS : 1][4];
    strip<S::TILE, S::THREADS> a, b;
    if (SEVERAL)
GD_UNROLL
        for (int i = 0; i < S::MS; i++)
GD_UNROLL
            for (int j = 0; j < S::NS; j++)
GD_UNROLL
                for (int e = 0; e < 4; e++) {
                    const int64_t row = tile.row + row0 + i * 16 + group + e / 2 * 8, col = tile.col + col0 + j * 8 + quad * 2 + e % 2;
                    const bool inside = row < p.m && col < p.n;
                    sum[SEVERAL ? i : 0][SEVERAL ? j : 0][e] = inside ? gd_product_init<T, O, float>(p, tile.c + row * p.c_rs + col * p.c_cs, row, col) : 0.0f;
                }
    for (int64_t chunk = tile.first; chunk < tile.last; chunk++) {
        const int64_t k0 = chunk * q.chunk, terms = p.k - k0 < q.chunk ? p.k - k0 : q.chunk;
        a.begin((const uint16_t *)p.a + tile.a + tile.row * p.a_rs + k0 * p.a_cs, p.a_rs, p.a_cs, p.m - tile.row, terms, q.a_k_fast, q.a_vectors);
        b.begin((const uint16_t *)p.b + tile.b + tile.col * p.b_cs + k0 * p.b_rs, p.b_cs, p.b_rs, p.n - tile.col, terms, q.b_k_fast, q.b_vectors);
GD_UNROLL
        for (int i = 0; i < S::MS; i++)
GD_UNROLL
            for (int j = 0; j < S::NS; j++)
GD_UNROLL
                for (int e = 0; e < 4; e++) acc[i][j][e] = 0.0f;
        a.load();
        b.load();
        int now = 0;
        for (int64_t k = 0; k < terms; k += BK, now ^= 1) {
            a.store(as, now);
            b.store(bs, now);
            __syncthreads(); /* one is enough: who writes a strip's memory again has passed the barrier after its last reading */
            a.load();
            b.load();
GD_UNROLL
            for (int l = 0; l < WORDS; l += 8) {
                uint32_t x[S::MS][4], y[S::NS][2];
GD_UNROLL
                for (int i = 0; i < S::MS; i++)
GD_UNROLL
                    for (int e = 0; e < 4; e++) x[i][e] = as[now][row0 + i * 16 + group + e % 2 * 8][l + quad + e / 2 * 4];
GD_UNROLL
                for (int j = 0; j < S::NS; j++)
GD_UNROLL
                    for (int e = 0; e < 2; e++) y[j][e] = bs[now][col0 + j * 8 + group][l + quad + e * 4];
GD_UNROLL
                for (int i = 0; i < S::MS; i++)
GD_UNROLL
                    for (int j = 0; j < S::NS; j++) gd_mma_16816<T>(acc[i][j], x[i], y[j]);
            }
        }
        __syncthreads(); /* the next chunk writes the first strip's memory */
        if (SEVERAL)
GD_UNROLL
            for (int i = 0; i < S::MS; i++)
GD_UNROLL
                for (int j = 0; j < S::NS; j++)
GD_UNROLL
                    for (int e = 0; e < 4; e++) sum[SEVERAL ? i : 0][SEVERAL ? j : 0][e] += acc[i][j][e];
    }
GD_UNROLL
    for (int i = 0; i < S::MS; i++)
GD_UNROLL
        for (int j = 0; j < S::NS; j++)
GD_UNROLL
            for (int e = 0; e < 4; e++) {
                const int64_t row = tile.row + row0 + i * 16 + group + e / 2 * 8, col = tile.col + col0 + j * 8 + quad * 2 + e % 2;
                if (row >= p.m || col >= p.n) continue;
                const int64_t at = tile.c + row * p.c_rs + col * p.c_cs;
                if (q.parts > 1) partial[((tile.first * p.count[0] * p.count[1] + tile.pair) * p.m + row) * p.n + col] = acc[i][j][e];
                else if (SEVERAL) ((O *)p.c)[at] = gd_narrow<O>(sum[SEVERAL ? i : 0][SEVERAL ? j : 0][e]);
                else ((O *)p.c)[at] = gd_narrow<O>(gd_product_init<T, O, float>(p, at, row, col) + (q.chunks ? acc[i][j][e] : 0.0f));
            }
}

template <typename T, typename O, typename S> static void run_warps(const gd_product &p, const gd_product_cut &q, float *partial, const gd_stream *s) {
    const int64_t blocks = q.tiles_m * q.tiles_n * q.parts * p.count[0] * p.count[1];
    if (q.chunks > 1 && q.parts == 1) GD_LAUNCH((product_halves_kernel<T, O, S, true>), blocks, S::THREADS, 0, s, p, q, partial);
    else GD_LAUNCH((product_halves_kernel<T, O, S, false>), blocks, S::THREADS, 0, s, p, q, partial);
}

template <typename T, typename O> static void run_tile(const gd_product &p, const gd_product_cut &q, int tile, float *partial, const gd_stream *s) {
    if (tile == large_warps::TILE) run_warps<T, O, large_warps>(p, q, partial, s);
    else run_warps<T, O, small_warps>(p, q, partial, s);
}

void gd_product_halves(const gd_product &p, const gd_product_cut &q, int tile, void *partial, const gd_stream *s) {
    float *parts = (float *)partial;
    if (p.dtype == GD_BFLOAT16) {
        if (p.wide) run_tile<gd_bf16, float>(p, q, tile, parts, s);
        else run_tile<gd_bf16, gd_bf16>(p, q, tile, parts, s);
    } else if (p.wide) run_tile<gd_f16, float>(p, q, tile, parts, s);
    else run_tile<gd_f16, gd_f16>(p, q, tile, parts, s);
}
