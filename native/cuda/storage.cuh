/* storage.cuh - elements as kernels compute with them: bfloat16 and float16 are read as float32 and rounded once when they are
 * written; other dtypes are what they are. The dtype is a value, so that kernels exist once for all three kinds of floats. */
#ifndef GRADINO_CUDA_STORAGE_CUH
#define GRADINO_CUDA_STORAGE_CUH

#include <type_traits>

#include "device.cuh"

template <class A, class B> constexpr bool gd_is_same = std::is_same<A, B>::value;
/* The unsigned integer of T's size. */
template <class T> using gd_unsigned = std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint8_t>>;

template <class T> __device__ __forceinline__ T gd_load(const void *x, int dtype, int64_t at) {
    (void)dtype;
    return static_cast<const T *>(x)[at];
}
template <> __device__ __forceinline__ float gd_load<float>(const void *x, int dtype, int64_t at) {
    if (dtype == GD_FLOAT32) return static_cast<const float *>(x)[at];
    if (dtype == GD_BFLOAT16) return gd_wide(static_cast<const gd_bf16 *>(x)[at]);
    return gd_wide(static_cast<const gd_f16 *>(x)[at]);
}

template <class T> __device__ __forceinline__ void gd_store(void *y, int dtype, int64_t at, T value) {
    (void)dtype;
    static_cast<T *>(y)[at] = value;
}
template <> __device__ __forceinline__ void gd_store<float>(void *y, int dtype, int64_t at, float value) {
    if (dtype == GD_FLOAT32) static_cast<float *>(y)[at] = value;
    else if (dtype == GD_BFLOAT16) static_cast<gd_bf16 *>(y)[at] = gd_narrow<gd_bf16>(value);
    else static_cast<gd_f16 *>(y)[at] = gd_narrow<gd_f16>(value);
}

/* ---- Four neighbours in one piece of at most 16 bytes, which is aligned ------------------------------------------- */

template <class S, class T> __device__ __forceinline__ void gd_widen_4(const S *x, T (&to)[4]) {
    const gd_pack<S, 4> piece = gd_load_pack<4>(x);
GD_UNROLL
    for (int k = 0; k < 4; k++) to[k] = gd_wide(piece.at[k]);
}
template <class S, class T> __device__ __forceinline__ void gd_narrow_4(S *y, const T (&from)[4]) {
    gd_pack<S, 4> piece;
GD_UNROLL
    for (int k = 0; k < 4; k++) piece.at[k] = gd_narrow<S>(from[k]);
    gd_store_pack<4>(y, piece);
}

template <class T> __device__ __forceinline__ void gd_load_4(const void *x, int dtype, int64_t at, T (&to)[4]) {
    const T *from = static_cast<const T *>(x) + at;
    if constexpr (gd_is_same<T, float>) {
        if (dtype == GD_FLOAT32) gd_widen_4(from, to);
        else if (dtype == GD_BFLOAT16) gd_widen_4(static_cast<const gd_bf16 *>(x) + at, to);
        else gd_widen_4(static_cast<const gd_f16 *>(x) + at, to);
    } else if constexpr (sizeof(T) == 8) {
        const gd_pack<T, 2> first = gd_load_pack<2>(from), second = gd_load_pack<2>(from + 2);
        to[0] = first.at[0], to[1] = first.at[1], to[2] = second.at[0], to[3] = second.at[1];
    } else {
        gd_widen_4(from, to);
    }
}

template <class T> __device__ __forceinline__ void gd_store_4(void *y, int dtype, int64_t at, const T (&from)[4]) {
    T *to = static_cast<T *>(y) + at;
    if constexpr (gd_is_same<T, float>) {
        if (dtype == GD_FLOAT32) gd_narrow_4(to, from);
        else if (dtype == GD_BFLOAT16) gd_narrow_4(static_cast<gd_bf16 *>(y) + at, from);
        else gd_narrow_4(static_cast<gd_f16 *>(y) + at, from);
    } else if constexpr (sizeof(T) == 8) {
        gd_store_pack<2>(to, gd_pack<T, 2>{{from[0], from[1]}});
        gd_store_pack<2>(to + 2, gd_pack<T, 2>{{from[2], from[3]}});
    } else {
        gd_narrow_4(to, from);
    }
}

#endif
