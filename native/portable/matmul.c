/* matmul.c - matmul and linear; integers with plain loops, floats through the matrix product. */
#include "matmul_driver.h"

/* out (M, N) += a (M, K) b (K, N), wrapping. */
#define DEFINE_MATMUL_INT(U, name)                                                                                   \
    static void name(const gd_args *args) {                                                                          \
        const gd_view *a = args->in[0], *b = args->in[1], *out = args->out[0];                                       \
        const int64_t batches = out->shape[1], m = out->shape[2], n = out->shape[3], k = a->shape[3];                \
        const int64_t b_rs = b->strides[2], b_cs = b->strides[3];                                                    \
        U *c = out->data;                                                                                            \
        if (gd_numel(out) == 0) return;                                                                              \
        if (args->attr->i[0] == 0) memset(c, 0, (size_t)gd_numel(out) * sizeof(U));                                  \
        for (int64_t row = 0; row < out->shape[0] * batches * m; row++, c += n) {                                    \
            int64_t i = row % m, i1 = row / m % batches, i0 = row / m / batches;                                     \
            const U *pa = (const U *)a->data + i0 * step(a, 0) + i1 * step(a, 1) + i * a->strides[2];                \
            const U *pb = (const U *)b->data + i0 * step(b, 0) + i1 * step(b, 1);                                    \
            for (int64_t q = 0; q < k; q++) {                                                                        \
                const U x = pa[q * a->strides[3]];                                                                   \
                for (int64_t j = 0; j < n; j++) c[j] += x * pb[q * b_rs + j * b_cs];                                 \
            }                                                                                                        \
        }                                                                                                            \
    }
DEFINE_MATMUL_INT(uint64_t, matmul_i64)
DEFINE_MATMUL_INT(uint32_t, matmul_i32)

void GD_KERNEL(matmul)(const gd_args *args) {
    switch (args->out[0]->dtype) {
    case GD_INT64: matmul_i64(args); break;
    case GD_INT32: matmul_i32(args); break;
    default: matmul_float(args);
    }
}

void GD_KERNEL(linear)(const gd_args *args) {
    linear_float(args);
}
