/* conv.c - convolutions and their gradients with GCC vector extensions: register tiles.
 * Vectors and packing are those of the matrix product. */
#include <string.h>

#include "../conv.h"
#include "../gemm_blocks.h"
#include "../kernel.h"
#include "../thread.h"
#include "gemm_vector.h"

enum { CONV_MR = GEMM_MR, CONV_SUM_MR = GEMM_MR, CONV_NARROW = 2, CONV_MOST_UNITS = 4, CONV_MASKED = 0 };

#include "conv_copy.h"
#include "conv_operands.h"
#include "gemm_pack.h"
#include "gemm_transpose.h"

/* A unit is one vector of points side by side; lanes past the last are read, from the copied tile, but not written. */
#define DEFINE_UNITS(T, s, V)                                                                                       \
    typedef int mask_t_##s;                                                                                         \
    static inline int lanes_##s(void) { return GEMM_VECTOR / (int)sizeof(T); }                                      \
    static inline int best_fold_##s(int64_t columns) {                                                              \
        (void)columns;                                                                                              \
        return 1;                                                                                                   \
    }                                                                                                               \
    static inline int mask_##s(int n, int rows, int fold) {                                                         \
        (void)fold;                                                                                                 \
        return rows ? n : 0;                                                                                        \
    }                                                                                                               \
    static inline __attribute__((always_inline)) V gather_##s(const T *p, int64_t step, int n, int fold) {          \
        (void)step, (void)fold, (void)n;                                                                            \
        return load_b_##s(p, n);                                                                                    \
    }                                                                                                               \
    static inline __attribute__((always_inline)) V gather_own_##s(const T *p, int64_t step, int n, int fold) {      \
        (void)step, (void)fold;                                                                                     \
        return load_##s(p, n);                                                                                      \
    }                                                                                                               \
    static inline __attribute__((always_inline)) void scatter_##s(T *p, int64_t step, V v, int n, int fold) {       \
        (void)step, (void)fold;                                                                                     \
        store_##s(p, v, n);                                                                                         \
    }                                                                                                               \
    static inline void pack_lanes_of_##s(const T *src, int64_t lane_stride, int64_t k_stride, int64_t lanes, int64_t k, int64_t width, T *dst) { \
        if (k_stride == 1 && lane_stride != 1 && lanes == width) pack_transposed_##s(src, lane_stride, lanes, k, width, dst); \
        else pack_##s(src, lane_stride, k_stride, lanes, k, width, dst);                                            \
    }
DEFINE_UNITS(float, f32, v_f32)
DEFINE_UNITS(double, f64, v_f64)
DEFINE_COPY_ROWS(float, copy_source_f32)
DEFINE_COPY_ROWS(double, copy_source_f64)

#define TILE_T float
#define TILE_V v_f32
#define TILE_W (GEMM_VECTOR / 4)
#define TILE(name) name##_f32
#include "conv_tile.h"
#undef TILE_T
#undef TILE_V
#undef TILE_W
#undef TILE
#define TILE_T double
#define TILE_V v_f64
#define TILE_W (GEMM_VECTOR / 8)
#define TILE(name) name##_f64
#include "conv_tile.h"
#undef TILE_T
#undef TILE_V
#undef TILE_W
#undef TILE

#if GEMM_VECTOR == 32
#define TILE_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#else
#define TILE_ROWS(X) X(1) X(2) X(3) X(4)
#endif
#define TILE_FNS(s, mr)                                                                                                       \
    static void product_##s##_##mr(const conv_tile *t) { product_##s(mr, mr <= CONV_NARROW ? CONV_MOST_UNITS : 2, 1, t); }    \
    static void sums_##s##_##mr##x1(const conv_sums *t) { sums_##s(mr, 1, t); }                                               \
    static void sums_##s##_##mr##x2(const conv_sums *t) { sums_##s(mr, 2, t); }                                               \
    static void dots_##s##_##mr(const conv_sums *t) { dots_##s(mr, t); }
#define F32_FNS(mr) TILE_FNS(f32, mr)
#define F64_FNS(mr) TILE_FNS(f64, mr)
TILE_ROWS(F32_FNS)
TILE_ROWS(F64_FNS)

#define PICK(s, P, S, D)                                                              \
    static inline conv_fn *pick_product_##s(int mr, int fold) {                       \
        static conv_fn *const fn[] = {TILE_ROWS(P)};                                  \
        (void)fold;                                                                   \
        return fn[mr - 1];                                                            \
    }                                                                                 \
    static inline sums_fn *pick_sums_##s(int mr, int nv) {                            \
        static sums_fn *const fn[][2] = {TILE_ROWS(S)};                               \
        return fn[mr - 1][nv - 1];                                                    \
    }                                                                                 \
    static inline sums_fn *pick_dots_##s(int mr) {                                    \
        static sums_fn *const fn[] = {TILE_ROWS(D)};                                  \
        return fn[mr - 1];                                                            \
    }
#define P_F32(mr) product_f32_##mr,
#define S_F32(mr) {sums_f32_##mr##x1, sums_f32_##mr##x2},
#define D_F32(mr) dots_f32_##mr,
#define P_F64(mr) product_f64_##mr,
#define S_F64(mr) {sums_f64_##mr##x1, sums_f64_##mr##x2},
#define D_F64(mr) dots_f64_##mr,
PICK(f32, P_F32, S_F32, D_F32)
PICK(f64, P_F64, S_F64, D_F64)

#include "conv_driver.h"
