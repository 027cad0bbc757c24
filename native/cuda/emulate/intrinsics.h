/* intrinsics.h - CUDA's built-in functions, as far as the kernels use them. Included by cuda_runtime.h. */
#ifndef GRADINO_EMULATE_INTRINSICS_H
#define GRADINO_EMULATE_INTRINSICS_H

#define GD_BUILTIN static inline __attribute__((always_inline, unused))

/* ---- Warps ----------------------------------------------------------------------------------------------------------- */

namespace gd_emulate {
template <typename T> T shuffled(uint32_t mask, T x, int kind, int by, int width) {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value, "what a lane can give another");
    uint64_t bits = 0;
    memcpy(&bits, (const void *)&x, sizeof(T));
    bits = shuffle(mask, bits, kind, by, width);
    memcpy((void *)&x, &bits, sizeof(T));
    return x;
}
inline void nothing(meeting *) {}
} // namespace gd_emulate

template <typename T> T __shfl_sync(unsigned mask, T x, int lane, int width = 32) { return gd_emulate::shuffled(mask, x, gd_emulate::AT, lane, width); }
template <typename T> T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32) {
    return gd_emulate::shuffled(mask, x, gd_emulate::UP, (int)by, width);
}
template <typename T> T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32) {
    return gd_emulate::shuffled(mask, x, gd_emulate::DOWN, (int)by, width);
}
template <typename T> T __shfl_xor_sync(unsigned mask, T x, int by, int width = 32) { return gd_emulate::shuffled(mask, x, gd_emulate::XOR, by, width); }

GD_BUILTIN void __syncwarp(unsigned mask = 0xffffffffu) { gd_emulate::meet(mask, gd_emulate::nothing, nullptr, true); }
GD_BUILTIN unsigned __ballot_sync(unsigned mask, int predicate) { return gd_emulate::ballot(mask, predicate); }
GD_BUILTIN int __any_sync(unsigned mask, int predicate) { return gd_emulate::ballot(mask, predicate) != 0; }
GD_BUILTIN int __all_sync(unsigned mask, int predicate) { return gd_emulate::ballot(mask, !predicate) == 0; }
template <typename T> unsigned __match_any_sync(unsigned mask, T x) {
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof(T));
    return gd_emulate::match(mask, bits);
}
GD_BUILTIN unsigned __activemask() { return gd_emulate::active_lanes(); }

/* ---- Memory ---------------------------------------------------------------------------------------------------------- */

GD_BUILTIN void __threadfence() {}
GD_BUILTIN void __threadfence_block() {}
GD_BUILTIN void __threadfence_system() {}
template <typename T> T __ldg(const T *p) { return *p; }
template <typename T> T __ldcs(const T *p) { return *p; }
template <typename T> T __ldcg(const T *p) { return *p; }
template <typename T> T __ldca(const T *p) { return *p; }
template <typename T> T __ldlu(const T *p) { return *p; }
template <typename T> void __stcs(T *p, T x) { *p = x; }
template <typename T> void __stcg(T *p, T x) { *p = x; }
template <typename T> void __stwb(T *p, T x) { *p = x; }

/* Threads change places at barriers only, so an atomic operation is an ordinary one. There are none on floats. */
#define GD_ATOMIC(name, expression)                                                         \
    template <typename T> T name(T *p, std::common_type_t<T> x) {                           \
        static_assert(std::is_integral<T>::value, "the order of atomics on floats would show"); \
        const T old = *p;                                                                   \
        *p = (T)(expression);                                                               \
        return old;                                                                         \
    }                                                                                       \
    template <typename T> T name(gd_emulate::shared_pointer<T> p, std::common_type_t<T> x) { \
        static_assert(std::is_integral<T>::value, "the order of atomics on floats would show"); \
        const int32_t at = p.whole(1);                                                      \
        gd_emulate::note_atomic(at, sizeof(T));                                             \
        T old;                                                                              \
        memcpy(&old, gd_emulate::shared_bytes + at, sizeof(T));                             \
        const T value = (T)(expression);                                                    \
        memcpy(gd_emulate::shared_bytes + at, &value, sizeof(T));                           \
        return old;                                                                         \
    }
GD_ATOMIC(atomicAdd, (std::make_unsigned_t<T>)old + (std::make_unsigned_t<T>)x)
GD_ATOMIC(atomicSub, (std::make_unsigned_t<T>)old - (std::make_unsigned_t<T>)x)
GD_ATOMIC(atomicMax, old > x ? old : x)
GD_ATOMIC(atomicMin, old < x ? old : x)
GD_ATOMIC(atomicOr, old | x)
GD_ATOMIC(atomicAnd, old & x)
GD_ATOMIC(atomicXor, old ^ x)
GD_ATOMIC(atomicExch, x)
GD_ATOMIC(atomicInc, old >= x ? 0 : old + 1)
#undef GD_ATOMIC
template <typename T> T atomicCAS(T *p, std::common_type_t<T> compare, std::common_type_t<T> x) {
    const T old = *p;
    if (old == compare) *p = x;
    return old;
}
template <typename T> T atomicCAS(gd_emulate::shared_pointer<T> p, std::common_type_t<T> compare, std::common_type_t<T> x) {
    const int32_t at = p.whole(1);
    gd_emulate::note_atomic(at, sizeof(T));
    T old;
    memcpy(&old, gd_emulate::shared_bytes + at, sizeof(T));
    if (old == compare) memcpy(gd_emulate::shared_bytes + at, &x, sizeof(T));
    return old;
}

/* ---- Numbers --------------------------------------------------------------------------------------------------------- */

template <typename T> T gd_emulate_bits(const void *p) {
    T x;
    memcpy(&x, p, sizeof(T));
    return x;
}
GD_BUILTIN int __float_as_int(float x) { return gd_emulate_bits<int>(&x); }
GD_BUILTIN unsigned __float_as_uint(float x) { return gd_emulate_bits<unsigned>(&x); }
GD_BUILTIN float __int_as_float(int x) { return gd_emulate_bits<float>(&x); }
GD_BUILTIN float __uint_as_float(unsigned x) { return gd_emulate_bits<float>(&x); }
GD_BUILTIN long long __double_as_longlong(double x) { return gd_emulate_bits<long long>(&x); }
GD_BUILTIN double __longlong_as_double(long long x) { return gd_emulate_bits<double>(&x); }

GD_BUILTIN int __popc(unsigned x) { return __builtin_popcount(x); }
GD_BUILTIN int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
GD_BUILTIN int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
GD_BUILTIN int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
GD_BUILTIN int __ffs(int x) { return __builtin_ffs(x); }
GD_BUILTIN int __ffsll(long long x) { return __builtin_ffsll(x); }
GD_BUILTIN unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
GD_BUILTIN int __mulhi(int a, int b) { return (int)((int64_t)a * b >> 32); }
GD_BUILTIN unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    __extension__ typedef unsigned __int128 wide;
    return (unsigned long long)((wide)a * b >> 64);
}
GD_BUILTIN unsigned __brev(unsigned x) {
    unsigned y = 0;
    for (int k = 0; k < 32; k++) y |= (x >> k & 1u) << (31 - k);
    return y;
}

GD_BUILTIN int min(int a, int b) { return a < b ? a : b; }
GD_BUILTIN int max(int a, int b) { return a > b ? a : b; }
GD_BUILTIN unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
GD_BUILTIN unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
GD_BUILTIN long min(long a, long b) { return a < b ? a : b; }
GD_BUILTIN long max(long a, long b) { return a > b ? a : b; }
GD_BUILTIN unsigned long min(unsigned long a, unsigned long b) { return a < b ? a : b; }
GD_BUILTIN unsigned long max(unsigned long a, unsigned long b) { return a > b ? a : b; }
GD_BUILTIN long long min(long long a, long long b) { return a < b ? a : b; }
GD_BUILTIN long long max(long long a, long long b) { return a > b ? a : b; }
GD_BUILTIN float min(float a, float b) { return fminf(a, b); }
GD_BUILTIN float max(float a, float b) { return fmaxf(a, b); }
GD_BUILTIN double min(double a, double b) { return fmin(a, b); }
GD_BUILTIN double max(double a, double b) { return fmax(a, b); }

GD_BUILTIN float rsqrtf(float x) { return 1.0f / sqrtf(x); }
GD_BUILTIN double rsqrt(double x) { return 1.0 / sqrt(x); }
#define __expf(x) expf(x) /* the C library has declared functions of these names */
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
GD_BUILTIN float __fdividef(float a, float b) { return a / b; }
GD_BUILTIN float __frcp_rn(float x) { return 1.0f / x; }
GD_BUILTIN float __fsqrt_rn(float x) { return sqrtf(x); }
GD_BUILTIN float __fadd_rn(float a, float b) { return a + b; }
GD_BUILTIN float __fsub_rn(float a, float b) { return a - b; }
GD_BUILTIN float __fmul_rn(float a, float b) { return a * b; }
GD_BUILTIN float __fdiv_rn(float a, float b) { return a / b; }
GD_BUILTIN float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
GD_BUILTIN double __dadd_rn(double a, double b) { return a + b; }
GD_BUILTIN double __dmul_rn(double a, double b) { return a * b; }
GD_BUILTIN double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
GD_BUILTIN float __saturatef(float x) { return x != x || x < 0 ? 0.0f : x > 1 ? 1.0f : x; }
GD_BUILTIN int __float2int_rn(float x) { return (int)rintf(x); }
GD_BUILTIN int __float2int_rz(float x) { return (int)x; }
GD_BUILTIN void __trap() { gd_emulate::fail("trap"); }

#undef GD_BUILTIN

#endif
