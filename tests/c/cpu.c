/* cpu.c - the choice of a kernel set for CPUs and systems that are not at hand: evaluate() of
 * native/cpu.c with made-up registers. Includes that file; built by test_build.py. */
#include "../../native/cpu.c"

#if GD_X86
enum {
    AVX_1 = bit_OSXSAVE | bit_AVX | bit_SSE4_2,
    FMA_1 = AVX_1 | bit_FMA | bit_F16C,
    AVX512_7 = bit_AVX2 | bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL,
};

static int failures;

static void expect(const char *what, registers r, gd_isa isa, const char *names) {
    char text[FEATURES_BYTES];
    gd_isa got = evaluate(r, text);
    if (got == isa && !strcmp(text, names)) return;
    printf("%s: chose %s with \"%s\", not %s with \"%s\"\n", what, isa_names[got], text, isa_names[isa], names);
    failures++;
}

int main(void) {
    const unsigned all = (unsigned)AVX512_7;
    expect("nothing", (registers){0}, GD_ISA_PORTABLE, "");
    expect("AVX alone", (registers){.leaf1_ecx = AVX_1, .xcr0 = 7}, GD_ISA_PORTABLE, "sse4.2 avx");
    expect("AVX2 without FMA", (registers){.leaf1_ecx = AVX_1, .leaf7_ebx = bit_AVX2, .xcr0 = 7}, GD_ISA_PORTABLE, "sse4.2 avx avx2");
    expect("FMA without AVX2", (registers){.leaf1_ecx = FMA_1, .xcr0 = 7}, GD_ISA_PORTABLE, "sse4.2 avx f16c fma");
    expect("AVX2 and FMA", (registers){.leaf1_ecx = FMA_1, .leaf7_ebx = bit_AVX2, .xcr0 = 7}, GD_ISA_AVX2, "sse4.2 avx f16c fma avx2");
    expect("a system that saves no ymm", (registers){.leaf1_ecx = FMA_1, .leaf7_ebx = all, .xcr0 = 3}, GD_ISA_PORTABLE, "sse4.2");
    expect("a system without XSAVE", (registers){.leaf1_ecx = FMA_1 & ~bit_OSXSAVE, .leaf7_ebx = all}, GD_ISA_PORTABLE, "sse4.2");
    expect("a system that saves no zmm", (registers){.leaf1_ecx = FMA_1, .leaf7_ebx = all, .xcr0 = 7}, GD_ISA_AVX2, "sse4.2 avx f16c fma avx2");
    expect("a system that saves half of zmm", (registers){.leaf1_ecx = FMA_1, .leaf7_ebx = all, .xcr0 = 0x67}, GD_ISA_AVX2,
           "sse4.2 avx f16c fma avx2");
    expect("everything", (registers){.leaf1_ecx = FMA_1, .leaf7_ebx = all, .xcr0 = 0xe7}, GD_ISA_AVX512,
           "sse4.2 avx f16c fma avx2 avx512f avx512dq avx512bw avx512vl");
    expect("AVX-512F alone", (registers){.leaf1_ecx = FMA_1, .leaf7_ebx = bit_AVX2 | bit_AVX512F, .xcr0 = 0xe7}, GD_ISA_AVX2,
           "sse4.2 avx f16c fma avx2 avx512f");
    const unsigned parts[] = {bit_AVX512DQ, bit_AVX512BW, bit_AVX512VL};
    for (int i = 0; i < 3; i++) {
        char names[FEATURES_BYTES] = "sse4.2 avx f16c fma avx2 avx512f";
        if (i != 0) strcat(names, " avx512dq");
        if (i != 1) strcat(names, " avx512bw");
        if (i != 2) strcat(names, " avx512vl");
        expect("AVX-512 with a part missing", (registers){.leaf1_ecx = FMA_1, .leaf7_ebx = all & ~parts[i], .xcr0 = 0xe7}, GD_ISA_AVX2, names);
    }
    return failures != 0;
}
#else
int main(void) { return 0; }
#endif
