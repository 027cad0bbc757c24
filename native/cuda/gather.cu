/* gather.cu - one index per element: gather. Negative indices count from the end. */
#include "each.cuh"

/* out has the index's shape, x may be larger in the other dimensions. */
template <typename W> struct gather_each {
    const W *x;
    W *y;
    const int64_t *index;
    gd_place places; /* of the index */
    int64_t strides[4], size; /* of x */
    gd_fault *fault;
    int dim;
    __device__ void operator()(int64_t i) const {
        int64_t at[4];
        gd_coordinates(places, i, at);
        at[dim] = gd_wrap_index(fault, GD_OP_gather, index[gd_offset_at(places, at[0], at[1], at[2], at[3])], size);
        y[i] = at[dim] < 0 ? W{} : x[at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2] + at[3] * strides[3]];
    }
};

GD_CUDA_KERNEL(gather) {
    const gd_view *x = a->in[0], *index = a->in[1];
    const int dim = (int)a->attr->i[0];
    GD_DISPATCH_WORDS(gd_dtype_bytes(x->dtype), W, {
        gather_each<W> f = {(const W *)x->data, (W *)a->out[0]->data, (const int64_t *)index->data, gd_place_of(index), {}, x->shape[dim], a->stream->fault, dim};
        for (int d = 0; d < 4; d++) f.strides[d] = x->strides[d];
        gd_each(f, gd_numel(index), a->stream);
    });
}
