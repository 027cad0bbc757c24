/* prows.h - row functions that several families share, in portable C: loops that compilers vectorise. */
#ifndef GRADINO_PORTABLE_PROWS_H
#define GRADINO_PORTABLE_PROWS_H

#include "../rows.h"

#define GD_DEFINE_PROWS(name, T)                                                                          \
    static inline T row_max_##name(const T *x, int64_t n) { return gd_row_max_##name(x, n); }             \
    static inline T row_exp_sum_##name(const T *x, T shift, T *e, int64_t n) {                            \
        T sum;                                                                                            \
        gd_row_exp_##name(x, shift, e, n);                                                                \
        GD_ROW_SUM(sum, T, n, e[k]);                                                                      \
        return sum;                                                                                       \
    }                                                                                                     \
    static inline T row_log_##name(T s) { return gd_log_##name(s); }                                      \
    static inline void row_scale_##name(const T *e, T s, T *y, int64_t n, bool stream) {                  \
        (void)stream;                                                                                     \
        for (int64_t k = 0; k < n; k++) y[k] = s * e[k];                                                  \
    }                                                                                                     \
    static inline void row_moments_##name(const T *x, double pivot, int64_t n, double *s, double *q) {    \
        double part, d[GD_BLOCK];                                                                         \
        for (int64_t k = 0; k < n; k++) d[k] = (double)x[k] - pivot;                                      \
        GD_ROW_SUM(part, double, n, d[k]);                                                                \
        *s += part;                                                                                       \
        GD_ROW_SUM(part, double, n, d[k] * d[k]);                                                         \
        *q += part;                                                                                       \
    }
GD_DEFINE_PROWS(f32, float)
GD_DEFINE_PROWS(f64, double)

#endif
