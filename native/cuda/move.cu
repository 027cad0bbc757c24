/* move.cu - copying by place and by index: cat, unslice, index_select, and the transpose of that.
 * Negative indices count from the end. Additions keep the index's order. */
#include "each.cuh"

/* ---- cat: a few inputs at a time, each in its blocks ------------------------------------------------------------------------- */

enum { PIECES = 8 };

struct cat_piece {
    const void *from;
    void *to;
    gd_place src, dst;
    int64_t n, first_block;
};
struct cat_pieces {
    cat_piece piece[PIECES];
    int count;
};

template <typename W> __global__ void __launch_bounds__(GD_EACH_THREADS) cat_kernel(const cat_pieces p) {
    int k = 0;
    while (k + 1 < p.count && (int64_t)blockIdx.x >= p.piece[k + 1].first_block) k++;
    const cat_piece &c = p.piece[k];
    const int64_t i = ((int64_t)blockIdx.x - c.first_block) * GD_EACH_THREADS + threadIdx.x;
    if (i < c.n) ((W *)c.to)[gd_offset(c.dst, i)] = ((const W *)c.from)[gd_offset(c.src, i)];
}

GD_CUDA_KERNEL(cat) {
    const gd_view *out = a->out[0];
    const int d = (int)a->attr->i[0];
    int64_t at = 0;
    for (int first = 0; first < a->nin; first += PIECES) {
        gd_view from[PIECES], to[PIECES];
        cat_pieces p = {};
        int64_t bytes = gd_dtype_bytes(out->dtype), blocks = 0;
        for (int k = first; k < a->nin && k < first + PIECES; k++) {
            if (gd_numel(a->in[k]) == 0) continue;
            gd_view *f = &from[p.count], *t = &to[p.count++];
            *f = *t = *a->in[k];
            t->data = (char *)out->data + at * out->strides[d] * bytes;
            for (int e = 0; e < 4; e++) t->strides[e] = out->strides[e];
            at += f->shape[d];
        }
        for (bool even = p.count > 0; bytes < 16; bytes *= 2) {
            for (int k = 0; k < p.count; k++) even = even && gd_pairs_up(&from[k], bytes) && gd_pairs_up(&to[k], bytes);
            if (!even) break;
            for (int k = 0; k < p.count; k++) gd_pair_up(&from[k]), gd_pair_up(&to[k]);
        }
        for (int k = 0; k < p.count; k++) {
            p.piece[k] = {from[k].data, to[k].data, gd_place_of(&from[k]), gd_place_of(&to[k]), gd_numel(&from[k]), blocks};
            blocks += gd_blocks(p.piece[k].n, GD_EACH_THREADS);
        }
        GD_DISPATCH_WIDE_WORDS(bytes, W, GD_LAUNCH(cat_kernel<W>, blocks, GD_EACH_THREADS, 0, a->stream, p));
    }
}

/* ---- unslice: 0 but for g at start + k step of every dimension ----------------------------------------------------------------- */

template <typename W> struct unslice_each {
    const W *g;
    W *y;
    gd_place out;
    int64_t start[4], step[4], shape[4], strides[4]; /* the last two: of g */
    __device__ void operator()(int64_t i) const {
        int64_t at[4], from = 0;
        bool inside = true;
        gd_coordinates(out, i, at);
GD_UNROLL
        for (int d = 0; d < 4; d++) {
            const int64_t r = at[d] - start[d], q = step[d] == 1 ? r : r / step[d];
            inside = inside && r >= 0 && q < shape[d] && q * step[d] == r;
            from += q * strides[d];
        }
        y[i] = inside ? g[from] : W{};
    }
};

GD_CUDA_KERNEL(unslice) {
    gd_view g = *a->in[0], out = *a->out[0];
    int64_t bytes = gd_dtype_bytes(out.dtype), start[4], step[4];
    for (int d = 0; d < 4; d++) start[d] = a->attr->i[d], step[d] = a->attr->i[4 + d];
    for (; step[3] == 1 && start[3] % 2 == 0 && bytes < 16 && gd_pairs_up(&g, bytes) && gd_pairs_up(&out, bytes); bytes *= 2, start[3] /= 2)
        gd_pair_up(&g), gd_pair_up(&out);
    GD_DISPATCH_WIDE_WORDS(bytes, W, {
        unslice_each<W> f = {(const W *)g.data, (W *)out.data, gd_place_of(&out), {}, {}, {}, {}};
        for (int d = 0; d < 4; d++) f.start[d] = start[d], f.step[d] = step[d], f.shape[d] = g.shape[d], f.strides[d] = g.strides[d];
        gd_each(f, gd_numel(&out), a->stream);
    });
}

/* ---- index_select: one dimension's places come from the index -------------------------------------------------------------------- */

template <typename W> struct select_each {
    const W *x;
    W *y;
    const int64_t *index;
    int64_t index_step, size; /* size: of x along the dimension */
    gd_place out, from;       /* from: x with the shape of out */
    gd_fault *fault;
    int dim;
    __device__ void operator()(int64_t i) const {
        int64_t at[4];
        gd_coordinates(out, i, at);
        at[dim] = gd_wrap_index(fault, GD_OP_index_select, index[at[dim] * index_step], size);
        y[i] = at[dim] < 0 ? W{} : x[gd_offset_at(from, at[0], at[1], at[2], at[3])];
    }
};

GD_CUDA_KERNEL(index_select) {
    const gd_view *index = a->in[1];
    const int dim = (int)a->attr->i[0];
    gd_view x = *a->in[0], out = *a->out[0];
    int64_t bytes = gd_dtype_bytes(out.dtype);
    const int64_t size = x.shape[dim];
    if (dim != 3) bytes = gd_widest_words(&x, &out, bytes);
    GD_DISPATCH_WIDE_WORDS(bytes, W, {
        select_each<W> f = {(const W *)x.data, (W *)out.data, (const int64_t *)index->data, index->strides[3], size, gd_place_of(&out), {}, a->stream->fault, dim};
        for (int d = 0; d < 4; d++) f.from.strides[d] = x.strides[d];
        gd_each(f, gd_numel(&out), a->stream);
    });
}

/* ---- index_add_zeros: (g, index) -> zeros with slab j of g added to slab index[j] -------------------------------------------------
 * First it is found where in the index each slab of the result occurs first and last. Then a warp adds up some columns of a slab:
 * it looks through the index between those places, 32 entries at a time. */

enum { ADD_WARPS = 8, ADD_COLUMNS = 4 }; /* warps of a block, columns of a lane */

struct occurrence {
    int32_t *first, *last; /* by slab */
};

__global__ void __launch_bounds__(GD_EACH_THREADS) clear_occurrences_kernel(occurrence o, int64_t size) {
    const int64_t i = gd_thread_index();
    if (i < size) o.first[i] = 0x7fffffff, o.last[i] = -1;
}
__global__ void __launch_bounds__(GD_EACH_THREADS)
    find_occurrences_kernel(occurrence o, const int64_t *index, int64_t step, int64_t n, int64_t size, gd_fault *fault) {
    const int64_t j = gd_thread_index();
    if (j >= n) return;
    const int64_t slab = gd_wrap_index(fault, GD_OP_index_add_zeros, index[j * step], size);
    if (slab < 0) return;
    atomicMin(&o.first[slab], (int)j);
    atomicMax(&o.last[slab], (int)j);
}

template <typename T> struct adding {
    const T *g;
    T *y;
    const int64_t *index;
    int64_t index_step, size, inner, column_tiles, slabs; /* slabs: of all outer places */
    gd_place outer, columns; /* of g: dimensions before and after the indexed one */
    int64_t slab_step;
    bool run; /* the columns of g lie side by side */
};

template <typename T> GD_DEVICE T add_up(T a, T b) { return a + b; }
GD_DEVICE int64_t add_up(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
GD_DEVICE int32_t add_up(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
GD_DEVICE uint8_t add_up(uint8_t a, uint8_t b) { return a | b; }

template <typename T> __global__ void __launch_bounds__(ADD_WARPS *GD_WARP) index_add_kernel(const adding<T> p, occurrence o) {
    const int64_t work = (int64_t)blockIdx.x * ADD_WARPS + threadIdx.x / GD_WARP, tile = work % p.column_tiles, slab = work / p.column_tiles;
    const int lane = (int)threadIdx.x % GD_WARP;
    if (slab >= p.slabs) return;
    const int64_t target = slab % p.size, first = o.first[target], last = o.last[target], c0 = tile * (GD_WARP * ADD_COLUMNS) + lane;
    const T *g = p.g + gd_offset(p.outer, slab / p.size);
    gd_inside_t<T> sum[ADD_COLUMNS];
    int64_t at[ADD_COLUMNS];
GD_UNROLL
    for (int c = 0; c < ADD_COLUMNS; c++) {
        const int64_t column = c0 + c * GD_WARP;
        sum[c] = 0;
        at[c] = column >= p.inner ? 0 : p.run ? column : gd_offset(p.columns, column);
    }
    for (int64_t j0 = first; j0 <= last; j0 += GD_WARP) {
        const int64_t j = j0 + lane, entry = j <= last ? p.index[j * p.index_step] : 0;
        uint32_t hits = __ballot_sync(GD_ALL_LANES, j <= last && (entry < 0 ? entry + p.size : entry) == target);
        for (; hits; hits &= hits - 1) {
            const T *from = g + (j0 + __ffs((int)hits) - 1) * p.slab_step;
GD_UNROLL
            for (int c = 0; c < ADD_COLUMNS; c++)
                if (c0 + c * GD_WARP < p.inner) sum[c] = add_up(sum[c], gd_wide(from[at[c]]));
        }
    }
GD_UNROLL
    for (int c = 0; c < ADD_COLUMNS; c++)
        if (c0 + c * GD_WARP < p.inner) p.y[slab * p.inner + c0 + c * GD_WARP] = gd_narrow<T>(sum[c]);
}

GD_CUDA_WORKSPACE(index_add_zeros) { return 2 * a->attr->i[1] * (int64_t)sizeof(int32_t); }

GD_CUDA_KERNEL(index_add_zeros) {
    const gd_view *g = a->in[0], *index = a->in[1];
    const int dim = (int)a->attr->i[0];
    const int64_t size = a->attr->i[1], n = index->shape[3];
    if (gd_numel(a->out[0]) == 0) return;
    occurrence o = {(int32_t *)a->workspace, (int32_t *)a->workspace + size};
    gd_view outer = *g, columns = *g;
    for (int d = 0; d < 4; d++) (d < dim ? columns : outer).shape[d] = 1;
    columns.shape[dim] = 1;
    GD_LAUNCH(clear_occurrences_kernel, gd_blocks(size, GD_EACH_THREADS), GD_EACH_THREADS, 0, a->stream, o, size);
    GD_LAUNCH(find_occurrences_kernel, gd_blocks(n, GD_EACH_THREADS), GD_EACH_THREADS, 0, a->stream, o, (const int64_t *)index->data, index->strides[3], n, size,
              a->stream->fault);
    GD_DISPATCH_ALL(g->dtype, T, {
        adding<T> p = {};
        p.g = (const T *)g->data, p.y = (T *)a->out[0]->data, p.index = (const int64_t *)index->data;
        p.index_step = index->strides[3], p.size = size, p.inner = gd_numel(&columns);
        p.column_tiles = gd_blocks(p.inner, GD_WARP * ADD_COLUMNS);
        p.slabs = gd_numel(&outer) * size;
        p.outer = gd_place_of(&outer), p.columns = gd_place_of(&columns);
        p.slab_step = g->strides[dim];
        p.run = p.columns.contiguous;
        GD_LAUNCH(index_add_kernel<T>, gd_blocks(p.slabs * p.column_tiles, ADD_WARPS), ADD_WARPS * GD_WARP, 0, a->stream, p, o);
    });
}
