/* device.cuh - what all CUDA kernels are written in: one C++17 source for nvcc and for the emulator (emulate/), so whatever
 * C++ cannot say by itself has a name here: launches, shared arrays, halves, dtypes, views, reductions, wide loads, faults.
 *
 * Shared memory: GD_SHARED and GD_DYNAMIC_SHARED only. An element is read as a value and assigned as a whole (of a float4 in
 * shared memory take a copy before its .x). Pointers into it have the type gd_shared_pointer<T>: `&tile[i][j]`, and
 * gd_shared_cast<U>(pointer). Arrays start at multiples of 16 bytes.
 * Arithmetic: built without contraction, so write fmaf where it is wanted. */
#ifndef GRADINO_DEVICE_CUH
#define GRADINO_DEVICE_CUH

#include <cuda_runtime.h>
#include <math.h>

#include "../half.h"
#include "interface.h"

#define GD_DEVICE static __device__ __forceinline__
/* A function of the interface: GD_CUDA_KERNEL(neg) { launches, reading a }; GD_CUDA_WORKSPACE(sum) { return bytes; } */
#define GD_CUDA_KERNEL(op) extern "C" void gd_##op##_cuda(const gd_args *a)
#define GD_CUDA_WORKSPACE(op) extern "C" int64_t gd_##op##_cuda_workspace(const gd_args *a)
#define GD_CUDA_OPTIM(name) extern "C" void gd_##name##_cuda(const gd_optim_args *a)

/* Stands before a loop of few rounds, which is to be written out. */
#if defined(__CUDACC__)
#define GD_UNROLL _Pragma("unroll")
#else
#define GD_UNROLL
#endif

enum { GD_WARP = 32 };
#define GD_ALL_LANES 0xffffffffu

/* ---- Launches and shared memory ----------------------------------------------------------------------------------
 * GD_LAUNCH(kernel, grid, block, shared_bytes, stream, arguments...): `stream` is a gd_stream (a->stream) or its handle; a
 * template's name stands in parentheses: GD_LAUNCH((scale<float, 4>), ...). An empty grid launches nothing. */
static inline void *gd_handle_of(const gd_stream *s) { return s->handle; }
static inline void *gd_handle_of(void *handle) { return handle; }
static inline dim3 gd_extent(dim3 d) { return d; }
static inline dim3 gd_extent(int64_t n) { return dim3((unsigned)n); }

#if defined(__CUDACC__)

enum { GD_SHARED_UNASKED = 48 * 1024 }; /* dynamic shared memory that a kernel may have without asking */
#define GD_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                                                \
    do {                                                                                                                       \
        const dim3 grid_ = gd_extent(grid);                                                                                    \
        const size_t shared_ = (size_t)(shared_bytes);                                                                         \
        if ((uint64_t)grid_.x * grid_.y * grid_.z == 0) break;                                                                 \
        if (shared_ > GD_SHARED_UNASKED) cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_); \
        kernel<<<grid_, gd_extent(block), shared_, (cudaStream_t)gd_handle_of(stream)>>>(__VA_ARGS__);                         \
    } while (0)

#define GD_SHARED_1(type, name, a) __shared__ __align__(16) type name[a]
#define GD_SHARED_2(type, name, a, b) __shared__ __align__(16) type name[a][b]
#define GD_SHARED_3(type, name, a, b, c) __shared__ __align__(16) type name[a][b][c]
#define GD_SHARED_4(type, name, a, b, c, d) __shared__ __align__(16) type name[a][b][c][d]
#define GD_SHARED_PICK(a, b, c, d, name, ...) name
#define GD_SHARED(type, name, ...) \
    GD_SHARED_PICK(__VA_ARGS__, GD_SHARED_4, GD_SHARED_3, GD_SHARED_2, GD_SHARED_1)(type, name, __VA_ARGS__)
extern __shared__ __align__(16) unsigned char gd_dynamic_bytes[];
#define GD_DYNAMIC_SHARED(type, name) type *const name = reinterpret_cast<type *>(gd_dynamic_bytes)

template <typename T> using gd_shared_pointer = T *;
template <typename U, typename T> GD_DEVICE U *gd_shared_cast(T *p) { return reinterpret_cast<U *>(p); }

#else

#define GD_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                                           \
    gd_emulate::launch(#kernel, kernel, gd_extent(grid), gd_extent(block), (size_t)(shared_bytes), gd_handle_of(stream), __VA_ARGS__)
#define GD_SHARED(type, name, ...)              \
    static gd_emulate::shared_slot name##_slot; \
    const gd_emulate::shared_array<type, __VA_ARGS__> name(name##_slot)
#define GD_DYNAMIC_SHARED(type, name) const gd_emulate::shared_pointer<type> name = gd_emulate::dynamic_shared<type>()

template <typename T> using gd_shared_pointer = gd_emulate::shared_pointer<T>;
template <typename U, typename T> GD_DEVICE gd_shared_pointer<U> gd_shared_cast(gd_shared_pointer<T> p) { return p.template as<U>(); }

#endif

/* Blocks of `each` that n things need. */
static inline int64_t gd_blocks(int64_t n, int64_t each) { return (n + each - 1) / each; }

GD_DEVICE int64_t gd_thread_index() { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
GD_DEVICE int64_t gd_thread_count() { return (int64_t)gridDim.x * blockDim.x; }

/* ---- Element types: bool is uint8_t, of 0 and 1 ------------------------------------------------------------------ */

struct gd_bf16 { uint16_t bits; };
struct gd_f16 { uint16_t bits; };

/* What a T is computed in: halves in float32, all else in itself. */
template <typename T> struct gd_inside { using type = T; };
template <> struct gd_inside<gd_bf16> { using type = float; };
template <> struct gd_inside<gd_f16> { using type = float; };
template <typename T> using gd_inside_t = typename gd_inside<T>::type;
template <typename T> struct gd_is_half_type { static constexpr bool value = false; };
template <> struct gd_is_half_type<gd_bf16> { static constexpr bool value = true; };
template <> struct gd_is_half_type<gd_f16> { static constexpr bool value = true; };

/* Exact: a half as float, anything else as it is. */
template <typename T> GD_DEVICE T gd_wide(T x) { return x; }
GD_DEVICE float gd_wide(gd_bf16 x) { return gd_f32_of_bits((uint32_t)x.bits << 16); }
GD_DEVICE float gd_wide(gd_f16 x) {
#if defined(__CUDA_ARCH__)
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits));
    return f;
#else
    return gd_f32_of_f16(x.bits);
#endif
}

/* gd_narrow<T>(x): rounded once, to the nearest, halves to even; NaN stays NaN. */
template <typename T> struct gd_narrowing {
    template <typename S> GD_DEVICE T of(S x) { return (T)x; }
};
template <> struct gd_narrowing<gd_bf16> {
    GD_DEVICE gd_bf16 of(float x) {
        gd_bf16 y;
#if defined(__CUDA_ARCH__)
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
        y.bits = gd_bf16_of_f32(x);
#endif
        return y;
    }
    GD_DEVICE gd_bf16 of(double x) { return of(gd_odd_f32_of_f64(x)); }
    GD_DEVICE gd_bf16 of(int64_t x) { return of(gd_odd_f64_of_i64(x)); }
    GD_DEVICE gd_bf16 of(int32_t x) { return of((double)x); }
    GD_DEVICE gd_bf16 of(uint8_t x) { return of((float)x); }
    GD_DEVICE gd_bf16 of(gd_bf16 x) { return x; }
};
template <> struct gd_narrowing<gd_f16> {
    GD_DEVICE gd_f16 of(float x) {
        gd_f16 y;
#if defined(__CUDA_ARCH__)
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
        y.bits = gd_f16_of_f32(x);
#endif
        return y;
    }
    GD_DEVICE gd_f16 of(double x) { return of(gd_odd_f32_of_f64(x)); }
    GD_DEVICE gd_f16 of(int64_t x) { return of(gd_odd_f64_of_i64(x)); }
    GD_DEVICE gd_f16 of(int32_t x) { return of((double)x); }
    GD_DEVICE gd_f16 of(uint8_t x) { return of((float)x); }
    GD_DEVICE gd_f16 of(gd_f16 x) { return x; }
};
template <typename T, typename S> GD_DEVICE T gd_narrow(S x) { return gd_narrowing<T>::of(x); }

/* Runs the statements with T being the element type. */
#define GD_CASE(number, T, type, ...) \
    case number: {                    \
        using T = type;               \
        __VA_ARGS__;                  \
    } break;
#define GD_FLOAT_CASES(T, ...)                    \
    GD_CASE(GD_FLOAT32, T, float, __VA_ARGS__)    \
    GD_CASE(GD_FLOAT64, T, double, __VA_ARGS__)   \
    GD_CASE(GD_BFLOAT16, T, gd_bf16, __VA_ARGS__) \
    GD_CASE(GD_FLOAT16, T, gd_f16, __VA_ARGS__)
#define GD_INTEGER_CASES(T, ...)               \
    GD_CASE(GD_INT64, T, int64_t, __VA_ARGS__) \
    GD_CASE(GD_INT32, T, int32_t, __VA_ARGS__)
#define GD_SWITCH(dtype, ...) \
    switch (dtype) {          \
        __VA_ARGS__           \
        default: break;       \
    }
#define GD_DISPATCH_FLOATS(dtype, T, ...) GD_SWITCH(dtype, GD_FLOAT_CASES(T, __VA_ARGS__))
#define GD_DISPATCH_INTEGERS(dtype, T, ...) GD_SWITCH(dtype, GD_INTEGER_CASES(T, __VA_ARGS__))
#define GD_DISPATCH_INTEGERS_AND_BOOL(dtype, T, ...) \
    GD_SWITCH(dtype, GD_INTEGER_CASES(T, __VA_ARGS__) GD_CASE(GD_BOOL, T, uint8_t, __VA_ARGS__))
#define GD_DISPATCH_NUMBERS(dtype, T, ...) GD_SWITCH(dtype, GD_FLOAT_CASES(T, __VA_ARGS__) GD_INTEGER_CASES(T, __VA_ARGS__))
#define GD_DISPATCH_ALL(dtype, T, ...) \
    GD_SWITCH(dtype, GD_FLOAT_CASES(T, __VA_ARGS__) GD_INTEGER_CASES(T, __VA_ARGS__) GD_CASE(GD_BOOL, T, uint8_t, __VA_ARGS__))
/* The same for moving data: W is the unsigned type of as many bytes. */
#define GD_DISPATCH_WORDS(bytes, W, ...) \
    GD_SWITCH(bytes, GD_CASE(1, W, uint8_t, __VA_ARGS__) GD_CASE(2, W, uint16_t, __VA_ARGS__) GD_CASE(4, W, uint32_t, __VA_ARGS__) \
              GD_CASE(8, W, uint64_t, __VA_ARGS__))

/* ---- Wide loads: N elements at once; 16 bytes where N is gd_per_16<T> ----------------------------------------------- */

template <typename T, int N> struct alignas(sizeof(T) * N) gd_pack { T at[N]; };
template <typename T> constexpr int gd_per_16 = 16 / (int)sizeof(T);

static __host__ __device__ __forceinline__ bool gd_is_aligned(const void *p, size_t bytes) { return ((uintptr_t)p & (bytes - 1)) == 0; }

template <int N, typename T> GD_DEVICE gd_pack<T, N> gd_load_pack(const T *p) { return *reinterpret_cast<const gd_pack<T, N> *>(p); }
template <int N, typename T> GD_DEVICE void gd_store_pack(T *p, const gd_pack<T, N> &x) { *reinterpret_cast<gd_pack<T, N> *>(p) = x; }
#if !defined(__CUDACC__)
template <int N, typename T> GD_DEVICE gd_pack<T, N> gd_load_pack(gd_shared_pointer<T> p) { return *p.template as<gd_pack<T, N>>(); }
template <int N, typename T> GD_DEVICE void gd_store_pack(gd_shared_pointer<T> p, const gd_pack<T, N> &x) { *p.template as<gd_pack<T, N>>() = x; }
#endif

/* ---- Views on the device ------------------------------------------------------------------------------------------ */

/* n / d and n % d for n < 2^31 without a division. */
struct gd_divider {
    uint32_t d, factor, shift;
};
static inline gd_divider gd_divider_by(int64_t d) {
    gd_divider by = {(uint32_t)d, 0, 0};
    while (((uint64_t)1 << by.shift) < by.d) by.shift++;
    by.factor = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << by.shift) - by.d)) / (by.d ? by.d : 1) + 1);
    return by;
}
GD_DEVICE uint32_t gd_divide(uint32_t n, gd_divider by) { return (__umulhi(n, by.factor) + n) >> by.shift; }

/* A view without its address: where element i, counted in the order of the four dimensions, lies. */
struct gd_place {
    int64_t shape[4], strides[4];
    gd_divider by[3]; /* sizes of dimensions 1, 2, 3 */
    bool contiguous, small; /* small: fewer than 2^31 elements */
};
static inline gd_place gd_place_of(const gd_view *v) {
    gd_place p;
    for (int d = 0; d < 4; d++) p.shape[d] = v->shape[d], p.strides[d] = v->shape[d] == 1 ? 0 : v->strides[d];
    p.contiguous = gd_is_contiguous(v);
    p.small = gd_numel(v) < (int64_t)1 << 31;
    for (int d = 0; d < 3; d++) p.by[d] = gd_divider_by(p.small ? v->shape[d + 1] : 1);
    return p;
}
/* The same with another view's shape: dimensions of size 1 repeat. */
static inline gd_place gd_place_as(const gd_view *v, const gd_view *shape) {
    gd_view wide = *v;
    for (int d = 0; d < 4; d++) {
        if (v->shape[d] == 1) wide.strides[d] = 0;
        wide.shape[d] = shape->shape[d];
    }
    return gd_place_of(&wide);
}
GD_DEVICE int64_t gd_offset_at(const gd_place &p, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    return i0 * p.strides[0] + i1 * p.strides[1] + i2 * p.strides[2] + i3 * p.strides[3];
}
GD_DEVICE int64_t gd_offset(const gd_place &p, int64_t i) {
    if (p.contiguous) return i;
    if (p.small) {
        const uint32_t n = (uint32_t)i, a = gd_divide(n, p.by[2]), i3 = n - a * p.by[2].d;
        const uint32_t b = gd_divide(a, p.by[1]), i2 = a - b * p.by[1].d, c = gd_divide(b, p.by[0]), i1 = b - c * p.by[0].d;
        return gd_offset_at(p, c, i1, i2, i3);
    }
    const int64_t a = i / p.shape[3], b = a / p.shape[2], c = b / p.shape[1];
    return gd_offset_at(p, c, b - c * p.shape[1], a - b * p.shape[2], i - a * p.shape[3]);
}

/* ---- Reductions in a fixed order; every thread gets the result -------------------------------------------------------- */

struct gd_plus {
    template <typename T> __device__ T operator()(T a, T b) const { return a + b; }
};
struct gd_times {
    template <typename T> __device__ T operator()(T a, T b) const { return a * b; }
};
struct gd_larger { /* NaN wins */
    template <typename T> __device__ T operator()(T a, T b) const { return a > b || a != a ? a : b; }
};
struct gd_smaller {
    template <typename T> __device__ T operator()(T a, T b) const { return a < b || a != a ? a : b; }
};

/* Over the lanes of a warp (or of its aligned groups of `width`), all of which must come here. */
template <typename T, typename Op> GD_DEVICE T gd_warp_reduce(T x, Op op, int width = GD_WARP) {
    for (int step = width / 2; step > 0; step /= 2) x = op(x, (T)__shfl_xor_sync(GD_ALL_LANES, x, step));
    return x;
}
template <typename T> GD_DEVICE T gd_warp_sum(T x) { return gd_warp_reduce(x, gd_plus()); }
template <typename T> GD_DEVICE T gd_warp_max(T x) { return gd_warp_reduce(x, gd_larger()); }

/* Over all threads of a block of one dimension, a multiple of 32. Two barriers; may follow itself. */
template <typename T, typename Op> GD_DEVICE T gd_block_reduce(T x, Op op, T neutral) {
    GD_SHARED(T, parts, GD_WARP);
    const int lane = threadIdx.x % GD_WARP, warp = threadIdx.x / GD_WARP, warps = blockDim.x / GD_WARP;
    x = gd_warp_reduce(x, op);
    if (warps == 1) return x;
    if (lane == 0) parts[warp] = x;
    __syncthreads();
    x = gd_warp_reduce(lane < warps ? (T)parts[lane] : neutral, op);
    __syncthreads();
    return x;
}
template <typename T> GD_DEVICE T gd_block_sum(T x) { return gd_block_reduce(x, gd_plus(), (T)0); }
template <typename T> GD_DEVICE T gd_block_max(T x) { return gd_block_reduce(x, gd_larger(), (T)-INFINITY); }

/* ---- Faults: indices that come with the data -------------------------------------------------------------------------- */

/* Notes that `value` is not in 0 .. limit - 1, if nothing was noted before: pass a->stream->fault to the kernel. */
GD_DEVICE void gd_note_fault(gd_fault *fault, int op, int64_t value, int64_t limit) {
    if (atomicCAS((int *)&fault->kind, (int)GD_FAULT_NONE, (int)GD_FAULT_INDEX) != GD_FAULT_NONE) return;
    fault->op = op;
    fault->value = value;
    fault->limit = limit;
}
/* Whether an index from the data may be used; notes it if not. */
GD_DEVICE bool gd_index_ok(gd_fault *fault, int op, int64_t value, int64_t limit) {
    if (value >= 0 && value < limit) return true;
    gd_note_fault(fault, op, value, limit);
    return false;
}

#endif
