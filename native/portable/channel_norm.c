/* channel_norm.c - batch norm, group norm and their gradients: the row functions; channel_norm_driver.h makes the kernels
 * of them. Loops that compilers vectorise; what chooses goes to a buffer before it is summed. */
#include "../channel_norm.h"
#include "prows.h"

static inline void norm_fence(void) {}

#define DEFINE_PLANES(name, T)                                                                            \
    static inline void row_affine_##name(const T *x, const gd_norm_##name *c, T w, T b, T *y, int64_t n, bool stream) { \
        const T high = c->high, low = c->low, scale = c->scale;                                           \
        (void)stream;                                                                                     \
        for (int64_t k = 0; k < n; k++) y[k] = GD_FMA((x[k] - high - low) * scale, w, b);                 \
    }                                                                                                     \
    static inline bool row_plane_dots_##name(const T *g, const T *x, const gd_norm_##name *c, int64_t n, double *sums) { \
        const T high = c->high, low = c->low, scale = c->scale;                                           \
        T part, term[GD_BLOCK];                                                                           \
        int any = 0;                                                                                      \
        for (int64_t k = 0; k < n; k++) any |= g[k] != 0;                                                 \
        for (int64_t k = 0; k < n; k++) term[k] = g[k] == 0 ? 0 : g[k] * ((x[k] - high - low) * scale);   \
        GD_ROW_SUM(part, T, n, g[k]);                                                                     \
        sums[0] += (double)part;                                                                          \
        GD_ROW_SUM(part, T, n, term[k]);                                                                  \
        sums[1] += (double)part;                                                                          \
        return any;                                                                                       \
    }                                                                                                     \
    static inline void row_plane_dx_##name(const T *g, const T *x, const gd_norm_##name *c, T w, const T *a, T *dx, int64_t n, bool stream) { \
        const T high = c->high, low = c->low, scale = c->scale, a0 = a ? a[0] : 0, a1 = a ? a[1] : 0;     \
        (void)stream;                                                                                     \
        if (a) for (int64_t k = 0; k < n; k++) dx[k] = scale * GD_FMA(-a1, (x[k] - high - low) * scale, g[k] * w - a0); \
        else for (int64_t k = 0; k < n; k++) dx[k] = scale * (g[k] * w);                                  \
    }
DEFINE_PLANES(f32, float)
DEFINE_PLANES(f64, double)

#include "../channel_norm_driver.h"

void GD_KERNEL(batch_norm)(const gd_args *a) { gd_channel_norm_forward(a, 0); }
void GD_KERNEL(group_norm)(const gd_args *a) { gd_channel_norm_forward(a, a->attr->i[0]); }
void GD_KERNEL(batch_norm_bwd)(const gd_args *a) { gd_channel_norm_backward(a, 0); }
void GD_KERNEL(group_norm_bwd)(const gd_args *a) { gd_channel_norm_backward(a, a->attr->i[0]); }
