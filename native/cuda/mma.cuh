/* mma.cuh - tensor cores and copies that go on by themselves (sm_80 and later); in the emulator with the same fragments.
 *
 * A warp multiplies: d (16, 8) += a (16, k) b (k, 8). With g = lane / 4 and q = lane % 4 a lane holds, of pairs of halves (k = 16,
 * the even k in the low half):  a: (g, 2q), (g + 8, 2q), (g, 2q + 8), (g + 8, 2q + 8);  b: (2q, g), (2q + 8, g);
 * of tf32 (k = 8):  a: (g, q), (g + 8, q), (g, q + 4), (g + 8, q + 4);  b: (q, g), (q + 4, g);
 * and of d:  (g, 2q), (g, 2q + 1), (g + 8, 2q), (g + 8, 2q + 1). All 32 lanes must come. */
#ifndef GRADINO_MMA_CUH
#define GRADINO_MMA_CUH

#include "device.cuh"

/* T: gd_bf16 or gd_f16. */
template <typename T> GD_DEVICE void gd_mma_16816(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    static_assert(gd_is_half_type<T>::value, "products of halves");
#if !defined(__CUDACC__)
    gd_emulate::multiply_halves(sizeof(T) == 2 && std::is_same<T, gd_bf16>::value, d, a, b);
#else
    if (std::is_same<T, gd_bf16>::value)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* A float as tf32: 10 bits of mantissa, to the nearest, halves away from zero. */
GD_DEVICE uint32_t gd_tf32(float x) {
#if defined(__CUDA_ARCH__)
    uint32_t y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
#else
    const uint32_t bits = gd_bits_of_f32(x);
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : (bits + 0x1000u) & 0xffffe000u;
#endif
}

GD_DEVICE void gd_mma_1688(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if !defined(__CUDACC__)
    gd_emulate::multiply_tf32(d, a, b);
#else
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* Two floats as a pair of halves, the first in the low half. */
template <typename T> GD_DEVICE uint32_t gd_pair_of(float low, float high) {
    return (uint32_t)gd_narrow<T>(low).bits | (uint32_t)gd_narrow<T>(high).bits << 16;
}

/* Four 8 x 8 matrices of halves from shared memory: lane l gives the address of row l % 8 of matrix l / 8, 16 bytes that are
 * aligned so, and gets of each matrix row g, columns 2q and 2q + 1; of the transposed ones with TURNED. */
template <bool TURNED = false, typename T> GD_DEVICE void gd_load_matrices(uint32_t (&r)[4], T row) {
#if !defined(__CUDACC__)
    gd_emulate::load_matrices(TURNED, r, gd_shared_cast<uint4>(row).whole(1));
#else
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    if (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
#endif
}

/* ---- Copies of 16 aligned bytes from global to shared memory -------------------------------------------------------------
 * They have landed, for the thread that gave them, after gd_async_wait<n>() when at most n groups were committed since; a
 * barrier shows them to others. With `there` false zeros land, and nothing is read. */
template <typename P, typename T> GD_DEVICE void gd_async_copy_16(P to, const T *from, bool there = true) {
#if !defined(__CUDACC__)
    if (!gd_is_aligned(from, 16)) gd_emulate::fail("an asynchronous copy from %p, which is not a multiple of 16", (const void *)from);
    gd_emulate::copy_later(gd_shared_cast<uint4>(gd_shared_pointer<T>(to)).whole(1), there ? from : nullptr, 16);
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "r"(there ? 16 : 0) : "memory");
#endif
}
GD_DEVICE void gd_async_commit() {
#if !defined(__CUDACC__)
    gd_emulate::commit_copies();
#else
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int N> GD_DEVICE void gd_async_wait() {
#if !defined(__CUDACC__)
    gd_emulate::await_copies(N);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

#endif
