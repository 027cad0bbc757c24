/* softmax.c - softmax, log_softmax and their gradients: the row functions; softmax_driver.h makes the
 * kernels of them.
 * Loops that compilers vectorise, with sums in fixed lanes. */
#include "../softmax.h"
#include "prows.h"

#define DEFINE_ROWS(name, T)                                                                              \
    static inline void row_shift_##name(const T *x, T a, T b, T *y, int64_t n, bool stream) {             \
        (void)stream;                                                                                     \
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
    static inline void row_softmax_bwd_##name(const T *g, const T *y, T s, T *dx, int64_t n, bool stream) { \
        (void)stream;                                                                                     \
        for (int64_t k = 0; k < n; k++) dx[k] = y[k] * (g[k] - s);                                        \
    }                                                                                                     \
    static inline void row_log_softmax_bwd_##name(const T *g, const T *y, T s, T *dx, int64_t n, bool stream) { \
        (void)stream;                                                                                     \
        for (int64_t k = 0; k < n; k++) dx[k] = GD_FMA(-gd_exp_##name(y[k]), s, g[k]);                    \
    }

/* Columns side by side: every element is one of a row of its own. */
#define DEFINE_COLUMNS(name, T)                                                                           \
    enum { LANES_##name = GD_ROW_LANES };                                                                 \
    static inline void columns_max_##name(T *most, const T *x, int64_t n) {                               \
        for (int64_t c = 0; c < n; c++) most[c] = x[c] > most[c] ? x[c] : most[c];                        \
    }                                                                                                     \
    static inline void columns_exp_##name(const T *x, const T *most, T *e, T *lane, int64_t n) {          \
        for (int64_t c = 0; c < n; c++) {                                                                 \
            const T v = gd_exp_##name(x[c] - most[c]);                                                    \
            e[c] = v;                                                                                     \
            lane[c] += v;                                                                                 \
        }                                                                                                 \
    }                                                                                                     \
    static inline void columns_log_##name(T *sum, int64_t n) {                                            \
        for (int64_t c = 0; c < n; c++) sum[c] = gd_log_##name(sum[c]);                                   \
    }                                                                                                     \
    static inline void columns_scale_##name(const T *e, const T *s, T *y, int64_t n, bool stream) {       \
        (void)stream;                                                                                     \
        for (int64_t c = 0; c < n; c++) y[c] = s[c] * e[c];                                               \
    }                                                                                                     \
    static inline void columns_shift_##name(const T *x, const T *a, const T *b, T *y, int64_t n, bool stream) { \
        (void)stream;                                                                                     \
        for (int64_t c = 0; c < n; c++) y[c] = x[c] - a[c] - b[c];                                        \
    }                                                                                                     \
    static inline void columns_sum_##name(const T *g, T *lane, T *any, int64_t n) {                       \
        for (int64_t c = 0; c < n; c++) lane[c] += g[c];                                                  \
        for (int64_t c = 0; c < n; c++) any[c] = g[c] != 0 ? 1 : any[c];                                  \
    }                                                                                                     \
    static inline void columns_dot_##name(const T *g, const T *y, T *lane, T *any, int64_t n) {           \
        T term[GD_SOFTMAX_PANEL];                                                                         \
        for (int64_t c = 0; c < n; c++) term[c] = g[c] == 0 ? 0 : g[c] * y[c];                            \
        for (int64_t c = 0; c < n; c++) lane[c] += term[c];                                               \
        for (int64_t c = 0; c < n; c++) any[c] = g[c] != 0 ? 1 : any[c];                                  \
    }                                                                                                     \
    static inline void columns_softmax_bwd_##name(const T *g, const T *y, const T *s, const T *any, T *dx, int64_t n, bool stream) { \
        (void)stream;                                                                                     \
        for (int64_t c = 0; c < n; c++) {                                                                 \
            const T d = y[c] * (g[c] - s[c]);                                                             \
            dx[c] = any[c] != 0 ? d : 0;                                                                  \
        }                                                                                                 \
    }                                                                                                     \
    static inline void columns_log_softmax_bwd_##name(const T *g, const T *y, const T *s, const T *any, T *dx, int64_t n, bool stream) { \
        (void)stream;                                                                                     \
        for (int64_t c = 0; c < n; c++) {                                                                 \
            const T d = GD_FMA(-gd_exp_##name(y[c]), s[c], g[c]);                                         \
            dx[c] = any[c] != 0 ? d : 0;                                                                  \
        }                                                                                                 \
    }

#define DEFINE_FUNCTIONS(name, T) DEFINE_ROWS(name, T) DEFINE_COLUMNS(name, T)
DEFINE_FUNCTIONS(f32, float)
DEFINE_FUNCTIONS(f64, double)
static inline void softmax_fence(void) {}

#include "../softmax_driver.h"

#define DEFINE_KERNEL(op) \
    void GD_KERNEL(op)(const gd_args *a) { gd_softmax_run_all(a, op##_all_f32, op##_all_f64); }
DEFINE_KERNEL(softmax)
DEFINE_KERNEL(log_softmax)
DEFINE_KERNEL(softmax_bwd)
DEFINE_KERNEL(log_softmax_bwd)
