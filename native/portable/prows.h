/* prows.h - the row functions of softmax_driver.h and loss.h in portable C: loops that compilers vectorise. */
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
    }
GD_DEFINE_PROWS(f32, float)
GD_DEFINE_PROWS(f64, double)

#endif
