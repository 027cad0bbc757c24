/* gemm_vector.h - the vectors that the matrix product and convolutions compute with: GCC vector extensions,
 * 32 bytes with AVX2, else 16. GEMM_MR: rows of a register tile of two vectors that the registers have room for. */
#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define GEMM_VECTOR 32
enum { GEMM_MR = 6, GEMM_MR_DIRECT = 4 };
#else
#if defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>
#endif
#define GEMM_VECTOR 16
enum { GEMM_MR = 4, GEMM_MR_DIRECT = 4 };
#endif

/* Vector operations by element type: v is a vector, u the same at any element's address. */
#define DEFINE_VECTOR(T, s, fma_code)                                                              \
    typedef T v_##s __attribute__((vector_size(GEMM_VECTOR)));                                     \
    typedef T u_##s __attribute__((vector_size(GEMM_VECTOR), aligned(sizeof(T)), may_alias));      \
    static inline v_##s load_##s(const T *p, int n) {                                              \
        if (n == GEMM_VECTOR / (int)sizeof(T)) return *(const u_##s *)p;                           \
        v_##s v = {0};                                                                             \
        for (int i = 0; i < n; i++) v[i] = p[i];                                                   \
        return v;                                                                                  \
    }                                                                                              \
    static inline v_##s load_b_##s(const T *p, int n) {                                            \
        (void)n;                                                                                   \
        return *(const u_##s *)p;                                                                  \
    }                                                                                              \
    static inline void store_##s(T *p, v_##s v, int n) {                                           \
        if (n == GEMM_VECTOR / (int)sizeof(T)) *(u_##s *)p = v;                                    \
        else                                                                                       \
            for (int i = 0; i < n; i++) p[i] = v[i];                                               \
    }                                                                                              \
    static inline v_##s set1_##s(T x) {                                                            \
        return x - (v_##s){0};                                                                     \
    }                                                                                              \
    static inline v_##s fma_##s(v_##s a, v_##s b, v_##s c) {                                       \
        return fma_code;                                                                           \
    }                                                                                              \
    static inline v_##s add_##s(v_##s a, v_##s b) {                                                \
        return a + b;                                                                              \
    }
#if GEMM_VECTOR == 32
DEFINE_VECTOR(float, f32, _mm256_fmadd_ps(a, b, c))
DEFINE_VECTOR(double, f64, _mm256_fmadd_pd(a, b, c))
#elif defined(__aarch64__) && defined(__ARM_NEON)
DEFINE_VECTOR(float, f32, vfmaq_f32(c, a, b))
DEFINE_VECTOR(double, f64, vfmaq_f64(c, a, b))
#else
DEFINE_VECTOR(float, f32, a * b + c)
DEFINE_VECTOR(double, f64, a * b + c)
#endif
