/* gemm.c - matrix product with AVX-512: its register tiles.
 * 14 x 2 vectors with packed A (28 of 32 registers accumulate), 8 x 2 with A in place (8 pointers
 * still fit the address registers); 256-bit vectors for few columns. Tails are masked. */
#include "../gemm_blocks.h"
#include "../kernel.h"
#include "../portable/gemm_fetch.h"

enum { GEMM_MR = 14, GEMM_MR_DIRECT = 8, GEMM_NV_BYTES = 128, GEMM_MASKED = 1 };

/* Operands of one register tile; strides in elements; init is added last, NULL for none. */
typedef struct gemm_tile {
    const void *a, *b, *init;
    void *c;
    int64_t k, a_rs, a_cs, b_rs, c_rs, init_rs; /* columns of b and c are side by side */
    int n;
    gemm_lines *ahead; /* with packed A: what is fetched meanwhile */
} gemm_tile;
typedef void tile_fn(const gemm_tile *t);

#include "gemm_vector.h"
#include "gemm_pack.h"

#define TILE_T float
#define TILE_V __m512
#define TILE_W 16
#define TILE(name) name##_f32
#include "../portable/gemm_tile.h"
#include "../portable/gemm_thin_tile.h"
#undef TILE_V
#undef TILE_W
#undef TILE
#define TILE_V __m256
#define TILE_W 8
#define TILE(name) name##_h32
#include "../portable/gemm_tile.h"
#undef TILE_T
#undef TILE_V
#undef TILE_W
#undef TILE
#define TILE_T double
#define TILE_V __m512d
#define TILE_W 8
#define TILE(name) name##_f64
#include "../portable/gemm_tile.h"
#include "../portable/gemm_thin_tile.h"
#undef TILE_V
#undef TILE_W
#undef TILE
#define TILE_V __m256d
#define TILE_W 4
#define TILE(name) name##_h64
#include "../portable/gemm_tile.h"

#define TILE_FN(s, kind, packed, mr, nv)                       \
    static void kind##_##s##_##mr##x##nv(const gemm_tile *t) { \
        tile_##s(mr, nv, packed, t);                           \
    }
#define DIRECT_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define PACKED_ROWS(X) DIRECT_ROWS(X) X(9) X(10) X(11) X(12) X(13) X(14)

#define DIRECT_FNS(mr)                                                                         \
    TILE_FN(h32, direct, false, mr, 1) TILE_FN(f32, direct, false, mr, 1) TILE_FN(f32, direct, false, mr, 2) \
    TILE_FN(h64, direct, false, mr, 1) TILE_FN(f64, direct, false, mr, 1) TILE_FN(f64, direct, false, mr, 2)
#define PACKED_FNS(mr)                                                                         \
    TILE_FN(f32, packed, true, mr, 1) TILE_FN(f32, packed, true, mr, 2)                        \
    TILE_FN(f64, packed, true, mr, 1) TILE_FN(f64, packed, true, mr, 2)
DIRECT_ROWS(DIRECT_FNS)
PACKED_ROWS(PACKED_FNS)

/* [dtype][rows - 1][width: half a vector, one, two] */
#define DIRECT_F32(mr) {direct_h32_##mr##x1, direct_f32_##mr##x1, direct_f32_##mr##x2},
#define DIRECT_F64(mr) {direct_h64_##mr##x1, direct_f64_##mr##x1, direct_f64_##mr##x2},
#define PACKED_F32(mr) {packed_f32_##mr##x1, packed_f32_##mr##x1, packed_f32_##mr##x2},
#define PACKED_F64(mr) {packed_f64_##mr##x1, packed_f64_##mr##x1, packed_f64_##mr##x2},
static tile_fn *const direct_fns[2][GEMM_MR_DIRECT][3] = {{DIRECT_ROWS(DIRECT_F32)}, {DIRECT_ROWS(DIRECT_F64)}};
static tile_fn *const packed_fns[2][GEMM_MR][3] = {{PACKED_ROWS(PACKED_F32)}, {PACKED_ROWS(PACKED_F64)}};

static inline int width_class(int dtype, int n) {
    int lanes = dtype == GD_FLOAT32 ? 16 : 8;
    return (n > lanes / 2) + (n > lanes);
}

static inline int64_t panel_width(int dtype, int n) {
    return (dtype == GD_FLOAT32 ? 8 : 4) << width_class(dtype, n);
}

static inline tile_fn *pick_tile(int dtype, bool packed, int mr, int n) {
    const int f64 = dtype == GD_FLOAT64, width = width_class(dtype, n);
    return packed ? packed_fns[f64][mr - 1][width] : direct_fns[f64][mr - 1][width];
}

#define GEMM_TRANSPOSES_PARTS 1
#include "../portable/gemm_driver.h"
