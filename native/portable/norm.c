/* norm.c - layer norm, RMS norm and their gradients: the row functions; norm_driver.h makes the kernels of them.
 * Loops that compilers vectorise; what chooses goes to a buffer before it is summed. */
#include "../norm.h"
#include "prows.h"

static inline void norm_fence(void) {}

#define DEFINE_ROWS(name, T)                                                                              \
    static inline void row_norm_##name(const T *x, const gd_norm_##name *c, const T *w, const T *b, T *y, int64_t n, bool stream) { \
        const T high = c->high, low = c->low, scale = c->scale;                                           \
        (void)stream;                                                                                     \
        for (int64_t k = 0; k < n; k++) y[k] = (x[k] - high - low) * scale;                               \
        if (w && b) for (int64_t k = 0; k < n; k++) y[k] = GD_FMA(y[k], w[k], b[k]);                      \
        else if (w) for (int64_t k = 0; k < n; k++) y[k] *= w[k];                                         \
        else if (b) for (int64_t k = 0; k < n; k++) y[k] += b[k];                                         \
    }                                                                                                     \
    static inline bool row_norm_dots_##name(const T *g, const T *x, const gd_norm_##name *c, const T *w,  \
                                            T *dw, T *db, int64_t n, double *sums) {                      \
        const T high = c->high, low = c->low, scale = c->scale;                                           \
        T part, gw[GD_BLOCK], xh[GD_BLOCK], term[GD_BLOCK];                                               \
        int any = 0;                                                                                      \
        for (int64_t k = 0; k < n; k++) any |= g[k] != 0;                                                 \
        for (int64_t k = 0; k < n; k++) xh[k] = g[k] == 0 ? 0 : (x[k] - high - low) * scale;              \
        if (dw) for (int64_t k = 0; k < n; k++) dw[k] = GD_FMA(g[k], xh[k], dw[k]);                       \
        if (db) for (int64_t k = 0; k < n; k++) db[k] += g[k];                                            \
        if (w) for (int64_t k = 0; k < n; k++) gw[k] = g[k] == 0 ? 0 : g[k] * w[k];                       \
        else memcpy(gw, g, (size_t)n * sizeof *g);                                                        \
        for (int64_t k = 0; k < n; k++) term[k] = gw[k] * xh[k];                                          \
        GD_ROW_SUM(part, T, n, gw[k]);                                                                    \
        sums[0] += (double)part;                                                                          \
        GD_ROW_SUM(part, T, n, term[k]);                                                                  \
        sums[1] += (double)part;                                                                          \
        return any;                                                                                       \
    }                                                                                                     \
    static inline void row_norm_dx_##name(const T *g, const T *x, const gd_norm_##name *c, const T *w, const T *a, T *dx, int64_t n, bool stream) { \
        const T high = c->high, low = c->low, scale = c->scale, a0 = a[0], a1 = a[1];                     \
        (void)stream;                                                                                     \
        if (w) for (int64_t k = 0; k < n; k++) dx[k] = scale * GD_FMA(-a1, (x[k] - high - low) * scale, g[k] * w[k] - a0); \
        else for (int64_t k = 0; k < n; k++) dx[k] = scale * GD_FMA(-a1, (x[k] - high - low) * scale, g[k] - a0); \
    }
DEFINE_ROWS(f32, float)
DEFINE_ROWS(f64, double)

#include "../norm_driver.h"

void GD_KERNEL(layer_norm)(const gd_args *a) { gd_norm_forward(a, true); }
void GD_KERNEL(rms_norm)(const gd_args *a) { gd_norm_forward(a, false); }
void GD_KERNEL(layer_norm_bwd)(const gd_args *a) { gd_norm_backward(a, true); }
void GD_KERNEL(rms_norm_bwd)(const gd_args *a) { gd_norm_backward(a, false); }
