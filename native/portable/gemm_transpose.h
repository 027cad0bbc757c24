/* gemm_transpose.h - transposes in registers with GCC vector extensions, for packing and thin products.
 * Included by gemm.c after its vector types v_f32, v_f64 (GEMM_VECTOR bytes) and load_, store_. */
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(type, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(type, a, b, ...) __builtin_shuffle(a, b, (type){__VA_ARGS__})
#endif
typedef int32_t m_f32 __attribute__((vector_size(GEMM_VECTOR)));
typedef int64_t m_f64 __attribute__((vector_size(GEMM_VECTOR)));

/* One stage: pairs of rows `step` apart, a and b, become low(a, b) and high(a, b). */
#define STAGE(type, V, count, step, low, high)                                    \
    GEMM_UNROLL for (int i = 0; i < count; i++) {                                 \
        if (i & step) continue;                                                   \
        V a = r[i], b = r[i + step];                                              \
        r[i] = SHUFFLE(type, a, b, EXPAND low);                                   \
        r[i + step] = SHUFFLE(type, a, b, EXPAND high);                           \
    }
#define EXPAND(...) __VA_ARGS__

#if GEMM_VECTOR == 32
static inline __attribute__((always_inline)) void transpose_f32(v_f32 r[8]) {
    STAGE(m_f32, v_f32, 8, 4, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))
    STAGE(m_f32, v_f32, 8, 2, (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15))
    STAGE(m_f32, v_f32, 8, 1, (0, 8, 2, 10, 4, 12, 6, 14), (1, 9, 3, 11, 5, 13, 7, 15))
}
static inline __attribute__((always_inline)) void transpose_f64(v_f64 r[4]) {
    STAGE(m_f64, v_f64, 4, 2, (0, 1, 4, 5), (2, 3, 6, 7))
    STAGE(m_f64, v_f64, 4, 1, (0, 4, 2, 6), (1, 5, 3, 7))
}
#else
static inline __attribute__((always_inline)) void transpose_f32(v_f32 r[4]) {
    STAGE(m_f32, v_f32, 4, 2, (0, 1, 4, 5), (2, 3, 6, 7))
    STAGE(m_f32, v_f32, 4, 1, (0, 4, 2, 6), (1, 5, 3, 7))
}
static inline __attribute__((always_inline)) void transpose_f64(v_f64 r[2]) {
    STAGE(m_f64, v_f64, 2, 1, (0, 2), (1, 3))
}
#endif

/* r[j] = k number j of W lanes, k side by side; lanes past the last are copies of it, k past ks are 0.
 * Packing `in` lanes of a panel of `width`, `out` wide; then whole panels of lanes side by side. */
#define DEFINE_TRANSPOSED(T, s, W)                                                                                                   \
    static inline __attribute__((always_inline)) void load_transposed_##s(const T *src, int64_t lane_stride, const int lanes,        \
                                                                          const int ks, v_##s r[W]) {                                \
        GEMM_UNROLL for (int i = 0; i < W; i++) r[i] = load_##s(src + (i < lanes ? i : lanes - 1) * lane_stride, ks);                \
        transpose_##s(r);                                                                                                            \
    }                                                                                                                                \
    static inline __attribute__((always_inline)) void pack_lanes_##s(const T *src, int64_t lane_stride, const int in, int64_t k,     \
                                                                     int64_t width, T *dst) {                                        \
        for (int64_t q = 0; q < k; q += W) {                                                                                         \
            const int ks = k - q < W ? (int)(k - q) : W;                                                                             \
            v_##s r[W];                                                                                                              \
            if (ks == W) load_transposed_##s(src + q, lane_stride, in, W, r);                                                        \
            else load_transposed_##s(src + q, lane_stride, in, ks, r);                                                               \
            GEMM_UNROLL for (int j = 0; j < W; j++) {                                                                                \
                if (j < ks) memcpy(dst + (q + j) * width, &r[j], (size_t)in * sizeof(T));                                            \
            }                                                                                                                        \
        }                                                                                                                            \
    }                                                                                                                                \
    static inline void pack_transposed_##s(const T *src, int64_t lane_stride, int64_t lanes, int64_t k, int64_t width, T *dst) {            \
        int64_t l = 0;                                                                                                               \
        for (; l + W <= lanes; l += W) pack_lanes_##s(src + l * lane_stride, lane_stride, W, k, width, dst + l);                     \
        if (l == lanes) return;                                                                                                      \
        if (lanes - l == GEMM_MR % (W)) pack_lanes_##s(src + l * lane_stride, lane_stride, GEMM_MR % (W), k, width, dst + l);            \
        else pack_##s(src + l * lane_stride, lane_stride, 1, lanes - l, k, width, dst + l);                           \
    }                                                                                                                                \
    static inline __attribute__((always_inline)) void copy_rows_##s(const T *src, int64_t k_stride, int64_t panels, int64_t k,       \
                                                                    const int64_t width, T *dst) {                                   \
        for (int64_t q = 0; q < k; q++) {                                                                                            \
            for (int64_t p = 0; p < panels; p++)                                                                                     \
                memcpy(dst + p * k * width + q * width, src + q * k_stride + p * width, (size_t)width * sizeof(T));                  \
        }                                                                                                                            \
    }                                                                                                                                \
    static inline void pack_rows_##s(const T *src, int64_t k_stride, int64_t panels, int64_t k, int64_t width, T *dst) {                    \
        if (width == GEMM_MR) copy_rows_##s(src, k_stride, panels, k, GEMM_MR, dst);                                                 \
        else copy_rows_##s(src, k_stride, panels, k, 2 * (W), dst);                                                                    \
    }
DEFINE_TRANSPOSED(float, f32, GEMM_VECTOR / 4)
DEFINE_TRANSPOSED(double, f64, GEMM_VECTOR / 8)
