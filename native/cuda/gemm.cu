/* gemm.cu - matrix product: how it is cut, and the kernels without tensor cores.
 * A block computes a tile of C from strips of A and B in shared memory; each thread holds a part of the tile in registers. */
#include "gemm.cuh"

enum {
    MANY_BLOCKS = 128,  /* so many are wanted: about the multiprocessors of a large card */
    THIN = 8            /* rows or columns of a thin product, which reads the other matrix once */
};

/* Shapes of tiles: block, strip of k, part of a thread. */
template <int BM_, int BN_, int BK_, int TM_, int TN_> struct shape_of {
    enum { BM = BM_, BN = BN_, BK = BK_, TM = TM_, TN = TN_, ROWS = BM_ / TM_, COLS = BN_ / TN_, THREADS = ROWS * COLS };
};
typedef shape_of<128, 128, 8, 8, 8> large_shape;
typedef shape_of<64, 64, 16, 4, 4> middle_shape;
typedef shape_of<32, 32, 16, 4, 4> small_shape;
typedef shape_of<THIN, 128, 16, 8, 1> thin_shape;

/* Elements of a strip that a thread takes from memory: LINES rows of A (columns of B) x BK terms. */
template <typename T, int LINES, int BK, int THREADS> struct strip {
    enum { EACH = LINES * BK / THREADS };
    const T *from;
    int64_t line_step, step, left; /* of the chunk */
    int line, k, line_by, k_by;    /* of the first element, and from each to the next */
    uint32_t inside;               /* bit i: line of element i exists */
    T element[EACH];

    __device__ void begin(const T *base, int64_t line_stride, int64_t k_stride, int64_t lines, bool k_fast) {
        const int t = (int)threadIdx.x;
        line = k_fast ? t / BK : t % LINES;
        k = k_fast ? t % BK : t / LINES;
        line_by = k_fast ? THREADS / BK : 0;
        k_by = k_fast ? 0 : THREADS / LINES;
        from = base + line * line_stride + k * k_stride;
        line_step = line_by * line_stride + k_by * k_stride;
        step = BK * k_stride;
        inside = 0;
        for (int i = 0; i < EACH; i++) inside |= (uint32_t)(line + i * line_by < lines) << i;
    }
    __device__ void load() { /* zeros past the last line and term */
GD_UNROLL
        for (int i = 0; i < EACH; i++) element[i] = (inside >> i & 1u) && k + i * k_by < left ? from[i * line_step] : (T)0;
        from += step;
        left -= BK;
    }
};

template <typename T> __device__ inline T multiply_add(T a, T b, T c) { return a * b + c; }
template <> __device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
template <> __device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }

/* Line i of those that a thread holds: in groups of four, so that threads side by side read side by side. */
template <int PER_THREAD, int THREADS> __device__ inline int line_of(int thread, int i) {
    constexpr int group = PER_THREAD < 4 ? PER_THREAD : 4;
    return i / group * (group * THREADS) + thread * group + i % group;
}

/* Where there are several chunks C holds the sum so far: registers have room for one sum only. */
template <typename T, typename S>
__global__ void __launch_bounds__(S::THREADS, 1) product_kernel(const gd_product p, const gd_product_cut q, T *partial) {
    GD_SHARED(T, as, 2, S::BK, S::BM + 4);
    GD_SHARED(T, bs, 2, S::BK, S::BN + 4);
    const gd_product_tile tile = gd_product_place(p, q, S::BM, S::BN);
    const int ty = (int)threadIdx.x / S::COLS, tx = (int)threadIdx.x % S::COLS;
    T acc[S::TM][S::TN];
    strip<T, S::BM, S::BK, S::THREADS> a;
    strip<T, S::BN, S::BK, S::THREADS> b;
    const auto store = [&](int64_t chunk) {
GD_UNROLL
        for (int i = 0; i < S::TM; i++)
GD_UNROLL
            for (int j = 0; j < S::TN; j++) {
                const int64_t row = tile.row + line_of<S::TM, S::ROWS>(ty, i), col = tile.col + line_of<S::TN, S::COLS>(tx, j);
                if (row >= p.m || col >= p.n) continue;
                const int64_t at = tile.c + row * p.c_rs + col * p.c_cs;
                T *c = (T *)p.c + at;
                if (q.parts > 1) partial[((chunk * p.count[0] * p.count[1] + tile.pair) * p.m + row) * p.n + col] = acc[i][j];
                else *c = (chunk == 0 ? gd_product_init<T, T, T>(p, at, row, col) : *c) + acc[i][j];
            }
    };
    for (int64_t chunk = tile.first; chunk < tile.last; chunk++) {
        const int64_t k0 = chunk * q.chunk, terms = p.k - k0 < q.chunk ? p.k - k0 : q.chunk;
        a.begin((const T *)p.a + tile.a + tile.row * p.a_rs + k0 * p.a_cs, p.a_rs, p.a_cs, p.m - tile.row, q.a_k_fast);
        b.begin((const T *)p.b + tile.b + tile.col * p.b_cs + k0 * p.b_rs, p.b_cs, p.b_rs, p.n - tile.col, q.b_k_fast);
        a.left = b.left = terms;
GD_UNROLL
        for (int i = 0; i < S::TM; i++)
GD_UNROLL
            for (int j = 0; j < S::TN; j++) acc[i][j] = (T)0;
        a.load();
        b.load();
        int now = 0;
        for (int64_t k = 0; k < terms; k += S::BK, now ^= 1) {
GD_UNROLL
            for (int i = 0; i < a.EACH; i++) as[now][a.k + i * a.k_by][a.line + i * a.line_by] = a.element[i];
GD_UNROLL
            for (int i = 0; i < b.EACH; i++) bs[now][b.k + i * b.k_by][b.line + i * b.line_by] = b.element[i];
            __syncthreads(); /* one is enough: who writes a strip's memory again has passed the barrier after its last reading */
            a.load();
            b.load();
GD_UNROLL
            for (int l = 0; l < S::BK; l++) {
                T x[S::TM], y[S::TN];
GD_UNROLL
                for (int i = 0; i < S::TM; i++) x[i] = as[now][l][line_of<S::TM, S::ROWS>(ty, i)];
GD_UNROLL
                for (int j = 0; j < S::TN; j++) y[j] = bs[now][l][line_of<S::TN, S::COLS>(tx, j)];
GD_UNROLL
                for (int i = 0; i < S::TM; i++)
GD_UNROLL
                    for (int j = 0; j < S::TN; j++) acc[i][j] = multiply_add(x[i], y[j], acc[i][j]);
            }
        }
        __syncthreads(); /* the next chunk writes the first strip's memory */
        store(chunk);
    }
    if (q.chunks == 0) { /* nothing to sum */
GD_UNROLL
        for (int i = 0; i < S::TM; i++)
GD_UNROLL
            for (int j = 0; j < S::TN; j++) acc[i][j] = (T)0;
        store(0);
    }
}

/* C = init + the parts, in their order. */
template <typename T, typename O, typename C>
__global__ void __launch_bounds__(256) add_parts_kernel(const gd_product p, const gd_product_cut q, const C *partial) {
    const int64_t one = p.m * p.n, all = p.count[0] * p.count[1] * one, k = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= all) return;
    const int64_t pair = k / one, row = k % one / p.n, col = k % p.n;
    const int64_t at = pair / p.count[1] * p.c_step[0] + pair % p.count[1] * p.c_step[1] + row * p.c_rs + col * p.c_cs;
    C sum = gd_product_init<T, O, C>(p, at, row, col);
    for (int64_t part = 0; part < q.parts; part++) sum += partial[part * all + k];
    ((O *)p.c)[at] = gd_narrow<O>(sum);
}

/* ---- Cutting --------------------------------------------------------------------------------------------------------------- */

enum tile_kind { SMALL, MIDDLE, LARGE, THIN_ROWS };

static int64_t tile_rows(const gd_product *p, int kind) {
    if (gd_is_half(p->dtype)) return kind == SMALL ? 64 : 128;
    return kind == THIN_ROWS ? THIN : kind == SMALL ? 32 : kind == MIDDLE ? 64 : 128;
}
static int64_t tile_columns(const gd_product *p, int kind) { return kind == THIN_ROWS ? 128 : tile_rows(p, kind); }

static int64_t tiles_of(const gd_product *p, int kind) {
    return gd_blocks(p->m, tile_rows(p, kind)) * gd_blocks(p->n, tile_columns(p, kind)) * p->count[0] * p->count[1];
}

/* Columns become rows of the transposed product where they are few. */
static gd_product lying(const gd_product *p) {
    if (p->n > THIN || p->m <= THIN || gd_is_half(p->dtype)) return *p;
    gd_product t = *p;
    t.m = p->n, t.n = p->m;
    t.a = p->b, t.a_rs = p->b_cs, t.a_cs = p->b_rs;
    t.b = p->a, t.b_rs = p->a_cs, t.b_cs = p->a_rs;
    t.c_rs = p->c_cs, t.c_cs = p->c_rs;
    t.bias_rs = p->bias_cs, t.bias_cs = p->bias_rs;
    for (int d = 0; d < 2; d++) t.a_step[d] = p->b_step[d], t.b_step[d] = p->a_step[d];
    return t;
}

/* The largest tile that gives work to all, else the smallest. All give the same bits. */
static int kind_of(const gd_product *p) {
    if (gd_is_half(p->dtype)) return tiles_of(p, LARGE) >= MANY_BLOCKS ? LARGE : SMALL;
    if (p->m <= THIN && p->n > 32) return THIN_ROWS;
    if (p->dtype == GD_FLOAT32 && tiles_of(p, LARGE) >= MANY_BLOCKS) return LARGE;
    return tiles_of(p, MIDDLE) >= MANY_BLOCKS ? MIDDLE : SMALL;
}

static bool reads_vectors(const void *base, int64_t rs, int64_t cs, const int64_t *step) {
    const int64_t other = rs == 1 ? cs : rs;
    return (rs == 1 || cs == 1) && other % 8 == 0 && step[0] % 8 == 0 && step[1] % 8 == 0 && (uintptr_t)base % 16 == 0;
}

static gd_product_cut cut_of(const gd_product *p, int kind) {
    gd_product_cut q;
    q.tiles_m = gd_blocks(p->m, tile_rows(p, kind));
    q.tiles_n = gd_blocks(p->n, tile_columns(p, kind));
    q.chunk = GD_PRODUCT_CHUNK * (p->k ? gd_blocks(p->k, GD_PRODUCT_CHUNK * GD_PRODUCT_MOST_CHUNKS) : 1);
    q.chunks = gd_blocks(p->k, q.chunk);
    q.parts = q.chunks > 1 && tiles_of(p, kind) < MANY_BLOCKS ? q.chunks : 1;
    q.a_k_fast = p->a_rs != 1 || p->a_cs == 1;
    q.b_k_fast = p->b_cs != 1 || p->b_rs == 1;
    q.a_vectors = reads_vectors(p->a, p->a_rs, p->a_cs, p->a_step);
    q.b_vectors = reads_vectors(p->b, p->b_cs, p->b_rs, p->b_step);
    return q;
}

static int calc_bytes(int dtype) { return dtype == GD_FLOAT64 || dtype == GD_INT64 ? 8 : 4; }

int64_t gd_product_bytes(const gd_product *product) {
    const gd_product p = lying(product);
    const gd_product_cut q = cut_of(&p, kind_of(&p));
    return q.parts > 1 ? q.parts * p.count[0] * p.count[1] * p.m * p.n * calc_bytes(p.dtype) : 0;
}

/* ---- Running --------------------------------------------------------------------------------------------------------------- */

template <typename T, typename S> static void run_shape(const gd_product &p, const gd_product_cut &q, void *partial, const gd_stream *s) {
    const int64_t blocks = q.tiles_m * q.tiles_n * q.parts * p.count[0] * p.count[1];
    GD_LAUNCH((product_kernel<T, S>), blocks, S::THREADS, 0, s, p, q, (T *)partial);
}

template <typename T, typename O, typename C> static void add_parts(const gd_product &p, const gd_product_cut &q, const void *partial, const gd_stream *s) {
    if (q.parts > 1) GD_LAUNCH((add_parts_kernel<T, O, C>), gd_blocks(p.count[0] * p.count[1] * p.m * p.n, 256), 256, 0, s, p, q, (const C *)partial);
}

template <typename T> static void run_plain(const gd_product &p, const gd_product_cut &q, int kind, void *partial, const gd_stream *s) {
    if (kind == THIN_ROWS) run_shape<T, thin_shape>(p, q, partial, s);
    else if (kind == SMALL) run_shape<T, small_shape>(p, q, partial, s);
    else run_shape<T, middle_shape>(p, q, partial, s);
    add_parts<T, T, T>(p, q, partial, s);
}

void gd_product_run(const gd_product *product, void *workspace, const gd_stream *s) {
    const gd_product p = lying(product);
    if (p.m * p.n * p.count[0] * p.count[1] == 0) return;
    const int kind = kind_of(&p);
    const gd_product_cut q = cut_of(&p, kind);
    switch (p.dtype) {
    case GD_FLOAT32:
        if (kind == LARGE) run_shape<float, large_shape>(p, q, workspace, s), add_parts<float, float, float>(p, q, workspace, s);
        else run_plain<float>(p, q, kind, workspace, s);
        break;
    case GD_FLOAT64: run_plain<double>(p, q, kind, workspace, s); break;
    case GD_INT64: run_plain<uint64_t>(p, q, kind, workspace, s); break;
    case GD_INT32: run_plain<uint32_t>(p, q, kind, workspace, s); break;
    case GD_BFLOAT16:
        gd_product_halves(p, q, (int)tile_rows(&p, kind), workspace, s);
        if (p.wide) add_parts<gd_bf16, float, float>(p, q, workspace, s);
        else add_parts<gd_bf16, gd_bf16, float>(p, q, workspace, s);
        break;
    default:
        gd_product_halves(p, q, (int)tile_rows(&p, kind), workspace, s);
        if (p.wide) add_parts<gd_f16, float, float>(p, q, workspace, s);
        else add_parts<gd_f16, gd_f16, float>(p, q, workspace, s);
    }
}
