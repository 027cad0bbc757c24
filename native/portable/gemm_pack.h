/* gemm_pack.h - packing panels for the matrix product, any strides, in plain C.
 * dst[k][width] = src lanes (elements lane_stride apart), the rest of the width 0. */
#include <string.h>

/* Rows of 8 k at a time, so that a transposing read stays in a few cache lines per lane. */
#define DEFINE_PACK(T, name)                                                                                                    \
    static inline void name(const void *source, int64_t lane_stride, int64_t k_stride, int64_t lanes, int64_t k, int64_t width, void *to) { \
        enum { STEP = 8 };                                                                                                      \
        const T *src = source;                                                                                                  \
        T *dst = to;                                                                                                            \
        if (lanes < width) memset(dst, 0, (size_t)(k * width) * sizeof(T));                                                     \
        if (lane_stride == 1) {                                                                                                 \
            for (int64_t q = 0; q < k; q++) memcpy(dst + q * width, src + q * k_stride, (size_t)lanes * sizeof(T));             \
            return;                                                                                                             \
        }                                                                                                                       \
        for (int64_t q = 0; q < k; q += STEP) {                                                                                 \
            int64_t step = k - q < STEP ? k - q : STEP;                                                                         \
            for (int64_t lane = 0; lane < lanes; lane++) {                                                                      \
                const T *s = src + lane * lane_stride + q * k_stride;                                                           \
                for (int64_t x = 0; x < step; x++) dst[(q + x) * width + lane] = s[x * k_stride];                               \
            }                                                                                                                   \
        }                                                                                                                       \
    }
DEFINE_PACK(float, pack_f32)
DEFINE_PACK(double, pack_f64)
