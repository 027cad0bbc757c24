/* halves.h - vectors of bfloat16 and float16 to and from float32, with AVX-512; the bits of half.h.
 * The instruction for bfloat16 drops denormals, so that one is integer arithmetic. */
#ifndef GRADINO_AVX512_HALVES_H
#define GRADINO_AVX512_HALVES_H

#include <immintrin.h>

static inline __m512 gd_f32_of_bf16512(__m256i h) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16)); }

/* As gd_bf16_of_f32 in half.h. */
static inline __m256i gd_bf16_of_f32512(__m512 x) {
    const __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
    const __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), quiet));
}

static inline __m512 gd_f32_of_f16512(__m256i h) { return _mm512_cvtph_ps(h); }
static inline __m256i gd_f16_of_f32512(__m512 x) { return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

#endif
