/* axes.cuh - a tensor as rows of elements: some of its dimensions count the rows, the others the elements of a row.
 * Dimensions of size 1 are dropped and those that can be walked as one are merged, so most calls have one of each. */
#ifndef GRADINO_CUDA_AXES_CUH
#define GRADINO_CUDA_AXES_CUH

#include "device.cuh"
#include "storage.cuh"

/* Some dimensions of a view, outermost first, and how far apart their elements are. */
struct gd_axes {
    int64_t size, shape[GD_DIMS], stride[GD_DIMS]; /* size: elements in all */
    gd_divider by[GD_DIMS];
    int n;
    bool wide; /* too many elements for 32 bits */

    /* Offset of element k in row-major order. */
    __device__ int64_t offset(int64_t k) const {
        if (n == 1) return k * stride[0];
        int64_t at = 0;
        for (int d = n - 1; d > 0; d--) {
            const int64_t rest = wide ? k / shape[d] : (int64_t)gd_divide((uint32_t)k, by[d]);
            at += (k - rest * shape[d]) * stride[d];
            k = rest;
        }
        return at + k * stride[0];
    }
};

/* A tensor as rows.size rows of row.size elements. */
struct gd_rows {
    const void *data;
    gd_axes rows, row;
    int dtype;
    bool vector; /* rows start at multiples of 16 bytes (or of 4 elements) and their elements lie side by side */

    template <class T> __device__ T load(int64_t base, int64_t k) const { return gd_load<T>(data, dtype, base + row.offset(k)); }
};

static inline void gd_axes_add(gd_axes *a, int64_t size, int64_t stride) {
    a->size *= size;
    if (size == 1) return;
    if (a->n > 0 && a->stride[a->n - 1] == stride * size) {
        a->shape[a->n - 1] *= size;
        a->stride[a->n - 1] = stride;
    } else {
        a->shape[a->n] = size;
        a->stride[a->n++] = stride;
    }
}

static inline void gd_axes_finish(gd_axes *a) {
    if (a->n == 0) a->shape[0] = 1, a->stride[0] = 1, a->n = 1;
    a->wide = a->size > INT32_MAX;
    for (int d = 0; d < a->n && a->size > 0 && !a->wide; d++) a->by[d] = gd_divider_by(a->shape[d]);
}

/* Rows made of the dimensions in the mask (bit d of the four). */
static inline gd_rows gd_rows_of(const gd_view *v, int64_t mask) {
    gd_rows r;
    memset(&r, 0, sizeof r);
    r.data = v->data, r.dtype = v->dtype;
    r.rows.size = r.row.size = 1;
    for (int d = 0; d < GD_DIMS; d++) gd_axes_add(mask >> d & 1 ? &r.row : &r.rows, v->shape[d], v->strides[d]);
    gd_axes_finish(&r.rows);
    gd_axes_finish(&r.row);
    const int64_t bytes = gd_dtype_bytes(v->dtype), piece = 4 * bytes < 16 ? 4 * bytes : 16;
    r.vector = r.row.n == 1 && r.row.stride[0] == 1 && (uintptr_t)v->data % (uintptr_t)piece == 0;
    for (int d = 0; d < r.rows.n; d++) r.vector &= r.rows.stride[d] % 4 == 0 || r.rows.size == 1;
    return r;
}

#endif
