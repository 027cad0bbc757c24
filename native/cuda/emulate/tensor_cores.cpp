/* tensor_cores.cpp - what a warp multiplies together, from the fragments that its lanes hold (see mma.cuh). */
#include "../../half.h"
#include "cuda_runtime.h"

namespace gd_emulate {

struct multiplying {
    float *d;
    const uint32_t *a, *b;
};

static void check_whole_warp(uint32_t present, const char *what) {
    if (present != 0xffffffffu) fail("%s with lanes %08x of 32", what, present);
}

/* d += a b, in the order of k. */
static void multiply(meeting *m, int k, const float (*a)[16], const float (*b)[8]) {
    for (int lane = 0; lane < 32; lane++) {
        multiplying *x = (multiplying *)m->data[lane];
        for (int e = 0; e < 4; e++) {
            const int row = lane / 4 + e / 2 * 8, col = lane % 4 * 2 + e % 2;
            for (int t = 0; t < k; t++) x->d[e] = fmaf(a[row][t], b[t][col], x->d[e]);
        }
    }
}

template <bool BF16> static void finish_halves(meeting *m) {
    float a[16][16], b[16][8];
    check_whole_warp(m->present, "a product");
    for (int lane = 0; lane < 32; lane++) {
        const multiplying *x = (multiplying *)m->data[lane];
        const int g = lane / 4, q = lane % 4;
        for (int half = 0; half < 2; half++) {
            for (int e = 0; e < 4; e++) {
                const uint16_t bits = (uint16_t)(x->a[e] >> 16 * half);
                a[g + e % 2 * 8][2 * q + half + e / 2 * 8] = BF16 ? gd_f32_of_bf16(bits) : gd_f32_of_f16(bits);
            }
            for (int e = 0; e < 2; e++) {
                const uint16_t bits = (uint16_t)(x->b[e] >> 16 * half);
                b[2 * q + half + e * 8][g] = BF16 ? gd_f32_of_bf16(bits) : gd_f32_of_f16(bits);
            }
        }
    }
    multiply(m, 16, a, b);
}

static void finish_tf32(meeting *m) {
    float a[16][16], b[8][8];
    check_whole_warp(m->present, "a product");
    for (int lane = 0; lane < 32; lane++) {
        const multiplying *x = (multiplying *)m->data[lane];
        const int g = lane / 4, q = lane % 4;
        for (int e = 0; e < 4; e++) a[g + e % 2 * 8][q + e / 2 * 4] = gd_f32_of_bits(x->a[e] & 0xffffe000u);
        for (int e = 0; e < 2; e++) b[q + e * 4][g] = gd_f32_of_bits(x->b[e] & 0xffffe000u);
    }
    multiply(m, 8, a, b);
}

void multiply_halves(bool bf16, float *d, const uint32_t *a, const uint32_t *b) {
    multiplying x = {d, a, b};
    meet(0xffffffffu, bf16 ? finish_halves<true> : finish_halves<false>, &x, false);
}

void multiply_tf32(float *d, const uint32_t *a, const uint32_t *b) {
    multiplying x = {d, a, b};
    meet(0xffffffffu, finish_tf32, &x, false);
}

struct loading {
    uint32_t *r;
    int32_t at;
    bool turned;
};

static void finish_matrices(meeting *m) {
    check_whole_warp(m->present, "matrices are read");
    for (int lane = 0; lane < 32; lane++) {
        const loading *x = (loading *)m->data[lane];
        for (int k = 0; k < 4; k++) {
            uint16_t pair[2];
            for (int half = 0; half < 2; half++) {
                const int row = x->turned ? lane % 4 * 2 + half : lane / 4, col = x->turned ? lane / 4 : lane % 4 * 2 + half;
                const loading *of = (loading *)m->data[8 * k + row];
                memcpy(&pair[half], shared_bytes + of->at + 2 * col, 2);
            }
            x->r[k] = (uint32_t)pair[0] | (uint32_t)pair[1] << 16;
        }
    }
}

void load_matrices(bool turned, uint32_t *r, int32_t at) {
    note_read(at, 16); /* by the lane that gives the address: a warp reads together */
    loading x = {r, at, turned};
    meet(0xffffffffu, finish_matrices, &x, false);
}

} // namespace gd_emulate
