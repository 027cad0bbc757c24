/* matmul_driver.h - matmul and linear as calls of the matrix product, for every ISA: which
 * dimensions merge into rows, and who computes which of many small products. */
#include <string.h>

#include "../gemm.h"
#include "../gemm_blocks.h"
#include "../thread.h"

/* Bytes of workspace of a product that is not large by itself. */
#ifndef MATMUL_SMALL_BYTES
#define MATMUL_SMALL_BYTES(g) gemm_panel_bytes((g)->k)
#endif

/* Multiply-adds of one task, where many small products are shared out. */
enum { MATMUL_TASK = 1 << 18 };

/* count[0] x count[1] products of count[2] rows each; per dimension strides of A (the last is its
 * row stride) and B. C is contiguous. `g` is the first product, with all its rows. */
typedef struct products {
    int64_t count[3], a[3], b[2];
    gd_gemm_args g;
    int64_t per_task; /* products of one task */
    char *workspace;
} products;

/* Outer dimensions become rows where A steps evenly through them and B stays the same. */
static void merge_rows(products *p) {
    gd_gemm_args *g = &p->g;
    g->m = p->count[2];
    g->a_rs = p->a[2];
    for (int d = 1; d >= 0; d--) {
        if (p->count[d] == 1) continue;
        if (p->b[d] != 0 || (g->m != 1 && p->a[d] != g->m * g->a_rs)) return;
        if (g->m == 1) g->a_rs = p->a[d];
        g->m *= p->count[d];
        p->count[d] = 1;
    }
}

/* Product number i, in the order of C. */
static void one_product(const products *p, int64_t i, void *workspace) {
    const int64_t esize = gd_dtype_bytes(p->g.dtype), i0 = i / p->count[1], i1 = i % p->count[1];
    gd_gemm_args g = p->g;
    g.a = (const char *)g.a + (i0 * p->a[0] + i1 * p->a[1]) * esize;
    g.b = (const char *)g.b + (i0 * p->b[0] + i1 * p->b[1]) * esize;
    g.c = (char *)g.c + i * g.m * g.n * esize;
    GD_KERNEL(gemm)(&g, workspace);
}

static void products_task(void *ctx, int64_t task, int worker) {
    const products *p = ctx;
    int64_t end = gemm_min(p->count[0] * p->count[1], (task + 1) * p->per_task);
    void *workspace = p->workspace + worker * MATMUL_SMALL_BYTES(&p->g);
    for (int64_t i = task * p->per_task; i < end; i++) one_product(p, i, workspace);
}

/* Whether workers take whole products: many that are not large by themselves. */
static inline bool shares_products(const products *p) {
    const gd_gemm_args *g = &p->g;
    const int64_t total = p->count[0] * p->count[1];
    return total > 1 && !gemm_is_large(g->m, g->n, g->k) && (double)total * (double)(g->m * g->n * g->k) > (double)gemm_large;
}

static void run_products(products *p) {
    const gd_gemm_args *g = &p->g;
    const int64_t total = p->count[0] * p->count[1];
    if (total == 0 || g->m == 0 || g->n == 0) return;
    if (shares_products(p)) { /* they need little workspace each, so that it is enough for all workers */
        p->per_task = gemm_ceil(MATMUL_TASK, g->m * g->n * g->k + 1);
        gd_parallel(gemm_ceil(total, p->per_task), products_task, p);
        return;
    }
    for (int64_t i = 0; i < total; i++) one_product(p, i, p->workspace);
}

static inline int64_t step(const gd_view *v, int d) {
    return v->shape[d] == 1 ? 0 : v->strides[d];
}

/* out (..., M, N) = [out +] a (..., M, K) b (..., K, N) */
static products matmul_products(const gd_args *args) {
    const gd_view *a = args->in[0], *b = args->in[1], *out = args->out[0];
    products p = {.count = {out->shape[0], out->shape[1], out->shape[2]},
                  .a = {step(a, 0), step(a, 1), a->strides[2]},
                  .b = {step(b, 0), step(b, 1)},
                  .workspace = args->workspace};
    p.g = (gd_gemm_args){.n = out->shape[3], .k = a->shape[3], .a = a->data, .a_cs = a->strides[3], .b = b->data,
                         .b_rs = b->strides[2], .b_cs = b->strides[3], .c = out->data, .c_rs = out->shape[3],
                         .accumulate = args->attr->i[0] != 0, .dtype = out->dtype};
    merge_rows(&p);
    return p;
}

static void matmul_float(const gd_args *args) {
    products p = matmul_products(args);
    run_products(&p);
}

/* The bias as the product wants it, side by side. */
static const void *flat_bias(const gd_view *bias, void *workspace) {
    if (!bias || gd_linear_bias_bytes(bias) == 0) return bias ? bias->data : NULL;
    const int64_t esize = gd_dtype_bytes(bias->dtype);
    for (int64_t j = 0; j < bias->shape[3]; j++)
        memcpy((char *)workspace + j * esize, (const char *)bias->data + j * bias->strides[3] * esize, (size_t)esize);
    return workspace;
}

/* out (..., N) = x (..., K) w^T + bias; w (N, K), bias (N) or absent, and to be set */
static products linear_products(const gd_args *args) {
    const gd_view *x = args->in[0], *w = args->in[1], *bias = args->nin > 2 ? args->in[2] : NULL, *out = args->out[0];
    products p = {.count = {x->shape[0], x->shape[1], x->shape[2]},
                  .a = {x->strides[0], x->strides[1], x->strides[2]},
                  .workspace = args->workspace ? (char *)args->workspace + gd_linear_bias_bytes(bias) : NULL};
    p.g = (gd_gemm_args){.n = w->shape[2], .k = w->shape[3], .a = x->data, .a_cs = x->strides[3], .b = w->data,
                         .b_rs = w->strides[3], .b_cs = w->strides[2], .c = out->data, .c_rs = w->shape[2],
                         .dtype = out->dtype};
    merge_rows(&p);
    return p;
}

static void linear_float(const gd_args *args) {
    products p = linear_products(args);
    p.g.bias = flat_bias(args->nin > 2 ? args->in[2] : NULL, args->workspace);
    run_products(&p);
}
