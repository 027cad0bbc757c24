/* gemm.c - matrix product with GCC vector extensions: vectors, register tiles, packing.
 * 6 x 2 vectors of 32 bytes with AVX2 (16 registers), else 4 x 2 vectors of 16 bytes. */
#include "../gemm_blocks.h"
#include "../kernel.h"
#include "gemm_fetch.h"
#include "gemm_vector.h"
enum { GEMM_NV_BYTES = 2 * GEMM_VECTOR, GEMM_MASKED = 0 };

/* Operands of one register tile; strides in elements; init is added last, NULL for none. */
typedef struct gemm_tile {
    const void *a, *b, *init;
    void *c;
    int64_t k, a_rs, a_cs, b_rs, c_rs, init_rs; /* columns of b and c are side by side */
    int n;
    gemm_lines *ahead; /* with packed A: what is fetched meanwhile */
} gemm_tile;
typedef void tile_fn(const gemm_tile *t);

#include "gemm_pack.h"
#include "gemm_transpose.h"

#define TILE_T float
#define TILE_V v_f32
#define TILE_W (GEMM_VECTOR / 4)
#define TILE(name) name##_f32
#include "gemm_tile.h"
#include "gemm_thin_tile.h"
#undef TILE_T
#undef TILE_V
#undef TILE_W
#undef TILE
#define TILE_T double
#define TILE_V v_f64
#define TILE_W (GEMM_VECTOR / 8)
#define TILE(name) name##_f64
#include "gemm_tile.h"
#include "gemm_thin_tile.h"

/* Tile functions for every number of rows and of vectors; [rows - 1][vectors - 1]. */
#define TILE_FN(s, kind, packed, mr, nv)                                  \
    static void kind##_##s##_##mr##x##nv(const gemm_tile *t) {            \
        tile_##s(mr, nv, packed, t);                                      \
    }
#define TILE_FNS(s, mr)                                                   \
    TILE_FN(s, direct, false, mr, 1) TILE_FN(s, direct, false, mr, 2)     \
    TILE_FN(s, packed, true, mr, 1) TILE_FN(s, packed, true, mr, 2)
#define TILE_ROW(s, kind, mr) {kind##_##s##_##mr##x1, kind##_##s##_##mr##x2},
#if GEMM_VECTOR == 32
#define TILE_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#else
#define TILE_ROWS(X) X(1) X(2) X(3) X(4)
#endif
#define F32_FNS(mr) TILE_FNS(f32, mr)
#define F64_FNS(mr) TILE_FNS(f64, mr)
TILE_ROWS(F32_FNS)
TILE_ROWS(F64_FNS)
#define DIRECT_F32(mr) TILE_ROW(f32, direct, mr)
#define PACKED_F32(mr) TILE_ROW(f32, packed, mr)
#define DIRECT_F64(mr) TILE_ROW(f64, direct, mr)
#define PACKED_F64(mr) TILE_ROW(f64, packed, mr)
static tile_fn *const tile_fns[2][2][GEMM_MR][2] = {{{TILE_ROWS(DIRECT_F32)}, {TILE_ROWS(PACKED_F32)}},
                                                 {{TILE_ROWS(DIRECT_F64)}, {TILE_ROWS(PACKED_F64)}}};

static inline int64_t panel_width(int dtype, int n) {
    int lanes = GEMM_VECTOR / (dtype == GD_FLOAT32 ? 4 : 8);
    return n <= lanes ? lanes : 2 * lanes;
}

static inline tile_fn *pick_tile(int dtype, bool packed, int mr, int n) {
    return tile_fns[dtype == GD_FLOAT64][packed][mr - 1][n > GEMM_VECTOR / (dtype == GD_FLOAT32 ? 4 : 8)];
}

#define GEMM_TRANSPOSES_PARTS 0
#include "gemm_driver.h"
