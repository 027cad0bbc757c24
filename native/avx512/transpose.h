/* transpose.h - 16 x 16 transposes of 32-bit elements in registers, for packing: template, included once per element.
 * The includer defines TRANSPOSE (the name), TRANSPOSE_T, the type that strides count, and TRANSPOSE_LOAD(p, ks). */

/* 16 lanes x 16 k, k side by side in memory: r[j] = the lanes' k number j; what TRANSPOSE_LOAD leaves out
 * is 0. A lane's cache line is read once, so that lanes a large power of two apart, which collide in L1, cost nothing. */
static inline __attribute__((always_inline)) void TRANSPOSE(const TRANSPOSE_T *src, int64_t lane_stride, const int lanes, const int ks,
                                                            __m512 r[16]) {
    __m512 s[16];
    GEMM_UNROLL for (int i = 0; i < 16; i += 2) { /* pairs of lanes */
        __m512 even = TRANSPOSE_LOAD(src + (i < lanes ? i : lanes - 1) * lane_stride, ks);
        __m512 odd = TRANSPOSE_LOAD(src + (i + 1 < lanes ? i + 1 : lanes - 1) * lane_stride, ks);
        s[i] = _mm512_unpacklo_ps(even, odd);
        s[i + 1] = _mm512_unpackhi_ps(even, odd);
    }
    GEMM_UNROLL for (int i = 0; i < 16; i += 4) { /* r[i + j]: k = j, j + 4, j + 8, j + 12 of lanes i to i + 3 */
        GEMM_UNROLL for (int j = 0; j < 2; j++) {
            __m512d low = _mm512_castps_pd(s[i + j]), high = _mm512_castps_pd(s[i + j + 2]);
            r[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            r[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    }
    GEMM_UNROLL for (int j = 0; j < 4; j++) { /* 4 x 4 transposes of quarters */
        __m512 a = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x44), b = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xee);
        __m512 c = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x44), d = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xee);
        r[j] = _mm512_shuffle_f32x4(a, c, 0x88);
        r[4 + j] = _mm512_shuffle_f32x4(a, c, 0xdd);
        r[8 + j] = _mm512_shuffle_f32x4(b, d, 0x88);
        r[12 + j] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
}

#undef TRANSPOSE
#undef TRANSPOSE_T
#undef TRANSPOSE_LOAD
