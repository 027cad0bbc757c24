/* matmul.cu - matmul and linear as matrix products: which dimensions merge into rows. */
#include "gemm.cuh"

static inline int64_t step(const gd_view *v, int d) { return v->shape[d] == 1 ? 0 : v->strides[d]; }

/* Outer dimensions become rows where A steps evenly through them and B stays the same; C is contiguous. */
static void merge_rows(gd_product *p) {
    for (int d = 1; d >= 0; d--) {
        if (p->count[d] == 1) continue;
        if (p->b_step[d] != 0 || (p->m != 1 && p->a_step[d] != p->m * p->a_rs)) break;
        if (p->m == 1) p->a_rs = p->a_step[d];
        p->m *= p->count[d];
        p->count[d] = 1;
    }
    p->c_step[1] = p->m * p->n;
    p->c_step[0] = p->count[1] * p->c_step[1];
}

/* out (..., M, N) = [out +] a (..., M, K) b (..., K, N) */
static gd_product matmul_product(const gd_args *args) {
    const gd_view *a = args->in[0], *b = args->in[1], *out = args->out[0];
    gd_product p = {};
    p.a = a->data, p.b = b->data, p.c = out->data;
    p.m = out->shape[2], p.n = out->shape[3], p.k = a->shape[3];
    p.a_rs = a->strides[2], p.a_cs = a->strides[3], p.b_rs = b->strides[2], p.b_cs = b->strides[3];
    p.c_rs = p.n, p.c_cs = 1;
    p.accumulate = args->attr->i[0] != 0;
    p.dtype = out->dtype;
    for (int d = 0; d < 2; d++) p.count[d] = out->shape[d], p.a_step[d] = step(a, d), p.b_step[d] = step(b, d);
    merge_rows(&p);
    return p;
}

/* out (..., N) = x (..., K) w^T + bias; w (N, K), bias (N) or absent */
static gd_product linear_product(const gd_args *args) {
    const gd_view *x = args->in[0], *w = args->in[1], *bias = args->nin > 2 ? args->in[2] : NULL, *out = args->out[0];
    gd_product p = {};
    p.a = x->data, p.b = w->data, p.c = out->data, p.bias = bias ? bias->data : NULL;
    p.m = x->shape[2], p.n = w->shape[2], p.k = w->shape[3];
    p.a_rs = x->strides[2], p.a_cs = x->strides[3], p.b_rs = w->strides[3], p.b_cs = w->strides[2];
    p.c_rs = p.n, p.c_cs = 1;
    p.bias_cs = bias ? bias->strides[3] : 0;
    p.dtype = out->dtype;
    for (int d = 0; d < 2; d++) p.count[d] = x->shape[d], p.a_step[d] = step(x, d);
    merge_rows(&p);
    return p;
}

GD_CUDA_KERNEL(matmul) {
    const gd_product p = matmul_product(a);
    gd_product_run(&p, a->workspace, a->stream);
}
GD_CUDA_WORKSPACE(matmul) {
    const gd_product p = matmul_product(a);
    return gd_product_bytes(&p);
}

GD_CUDA_KERNEL(linear) {
    const gd_product p = linear_product(a);
    gd_product_run(&p, a->workspace, a->stream);
}
GD_CUDA_WORKSPACE(linear) {
    const gd_product p = linear_product(a);
    return gd_product_bytes(&p);
}
