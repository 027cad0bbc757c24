/* gemm_vector.h - the vectors that the matrix product and convolutions compute with, in AVX-512; tails are masked. */
#include <immintrin.h>

/* Vector operations: f32 and f64 full width, h32 and h64 half width (256 bits). */
#define DEFINE_VECTOR(T, s, V, bits, type, MASK)                    \
    static inline V load_##s(const T *p, int n) {                   \
        return _mm##bits##_maskz_loadu_##type((MASK)((1u << n) - 1), p); \
    }                                                               \
    static inline V load_b_##s(const T *p, int n) {                 \
        return load_##s(p, n);                                      \
    }                                                               \
    static inline void store_##s(T *p, V v, int n) {                \
        _mm##bits##_mask_storeu_##type(p, (MASK)((1u << n) - 1), v);     \
    }                                                               \
    static inline V set1_##s(T x) {                                 \
        return _mm##bits##_set1_##type(x);                          \
    }                                                               \
    static inline V fma_##s(V a, V b, V c) {                        \
        return _mm##bits##_fmadd_##type(a, b, c);                   \
    }                                                               \
    static inline V add_##s(V a, V b) {                             \
        return _mm##bits##_add_##type(a, b);                        \
    }
DEFINE_VECTOR(float, f32, __m512, 512, ps, __mmask16)
DEFINE_VECTOR(double, f64, __m512d, 512, pd, __mmask8)
DEFINE_VECTOR(float, h32, __m256, 256, ps, __mmask8)
DEFINE_VECTOR(double, h64, __m256d, 256, pd, __mmask8)
