/* rotary.cu - the rotary embedding of positions: x (B,H,T,D), cos and sin broadcast to (B,H,T,R): the first 2 R of D turn, neighbours
 * or halves with each other. */
#include "each.cuh"

template <typename T> struct rotary_each {
    const T *x, *cos, *sin;
    T *y;
    gd_place out, cos_at, sin_at; /* out: its shape, and the strides of x */
    int64_t y_strides[4], half;
    bool neighbours, backwards;
    __device__ void operator()(int64_t i) const {
        typedef gd_inside_t<T> I;
        int64_t at[4];
        gd_coordinates(out, i, at);
        const int64_t d = at[3], to = at[0] * y_strides[0] + at[1] * y_strides[1] + at[2] * y_strides[2] + d * y_strides[3];
        const T *row = x + gd_offset_at(out, at[0], at[1], at[2], 0);
        const I own = gd_wide(row[d * out.strides[3]]);
        if (d >= 2 * half) {
            y[to] = gd_narrow<T>(own);
            return;
        }
        const bool second = neighbours ? d % 2 == 1 : d >= half;
        const int64_t c = neighbours ? d / 2 : second ? d - half : d, apart = neighbours ? 1 : half;
        const I other = gd_wide(row[(second ? d - apart : d + apart) * out.strides[3]]);
        const I by_cos = gd_wide(cos[gd_offset_at(cos_at, at[0], at[1], at[2], c)]), given = gd_wide(sin[gd_offset_at(sin_at, at[0], at[1], at[2], c)]);
        const I by_sin = backwards ? -given : given;
        y[to] = gd_narrow<T>(fma(own, by_cos, second ? other * by_sin : -(other * by_sin)));
    }
};

GD_CUDA_KERNEL(rotary) {
    const gd_view *x = a->in[0], *y = a->out[0];
    GD_DISPATCH_FLOATS(x->dtype, T, {
        rotary_each<T> f = {};
        f.x = (const T *)x->data, f.cos = (const T *)a->in[1]->data, f.sin = (const T *)a->in[2]->data, f.y = (T *)y->data;
        f.out = gd_place_of(x), f.cos_at = gd_place_of(a->in[1]), f.sin_at = gd_place_of(a->in[2]);
        for (int d = 0; d < 4; d++) f.y_strides[d] = y->strides[d];
        f.half = a->in[1]->shape[3], f.neighbours = a->attr->i[0] != 0, f.backwards = a->attr->i[1] != 0;
        gd_each(f, gd_numel(y), a->stream);
    });
}
