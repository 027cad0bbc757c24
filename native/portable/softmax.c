/* softmax.c - softmax, log_softmax and their gradients: the row functions; softmax.h makes the kernels of them.
 * Loops that compilers vectorise, with sums in fixed lanes. */
#include "prows.h"

#define DEFINE_ROWS(name, T)                                                                              \
    static inline void row_shift_##name(const T *x, T a, T b, T *y, int64_t n) {                          \
        for (int64_t k = 0; k < n; k++) y[k] = x[k] - a - b;                                              \
    }                                                                                                     \
    static inline T row_sum_##name(const T *g, int64_t n) {                                               \
        T sum;                                                                                            \
        GD_ROW_SUM(sum, T, n, g[k]);                                                                      \
        return sum;                                                                                       \
    }                                                                                                     \
    static inline T row_dot_##name(const T *g, const T *y, int64_t n) {                                   \
        T sum, term[GD_BLOCK];                                                                            \
        for (int64_t k = 0; k < n; k++) term[k] = g[k] == 0 ? 0 : g[k] * y[k];                            \
        GD_ROW_SUM(sum, T, n, term[k]); /* which must not choose itself */                                \
        return sum;                                                                                       \
    }                                                                                                     \
    static inline bool row_any_##name(const T *g, int64_t n) {                                            \
        for (int64_t k = 0; k < n; k++)                                                                   \
            if (g[k] != 0) return true;                                                                   \
        return false;                                                                                     \
    }                                                                                                     \
    static inline void row_softmax_bwd_##name(const T *g, const T *y, T s, T *dx, int64_t n) {            \
        for (int64_t k = 0; k < n; k++) dx[k] = y[k] * (g[k] - s);                                        \
    }                                                                                                     \
    static inline void row_log_softmax_bwd_##name(const T *g, const T *y, T s, T *dx, int64_t n) {        \
        for (int64_t k = 0; k < n; k++) dx[k] = GD_FMA(-gd_exp_##name(y[k]), s, g[k]);                    \
    }
DEFINE_ROWS(f32, float)
DEFINE_ROWS(f64, double)

#include "../softmax.h"

#define DEFINE_KERNEL(op)                                                                \
    static void op##_rows_f32(const gd_softmax_run *r, int64_t first, int64_t last) {    \
        for (; first < last; first++) op##_f32(r, first);                                \
    }                                                                                    \
    static void op##_rows_f64(const gd_softmax_run *r, int64_t first, int64_t last) {    \
        for (; first < last; first++) op##_f64(r, first);                                \
    }                                                                                    \
    void GD_KERNEL(op)(const gd_args *a) { gd_softmax_all(a, op##_rows_f32, op##_rows_f64); }
DEFINE_KERNEL(softmax)
DEFINE_KERNEL(log_softmax)
DEFINE_KERNEL(softmax_bwd)
DEFINE_KERNEL(log_softmax_bwd)
