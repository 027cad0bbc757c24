/* cpu.c - finds out what CPU and operating system support, and chooses the kernel set.
 * Sources: Intel SDM volume 2 (CPUID, XGETBV) and volume 1 chapter 13; AMD APM volume 3 appendix E. */
#include "cpu.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel.h"
#include "status.h"

#if GD_X86
#include <cpuid.h>
#endif

enum { PROBLEM_BYTES = 256, FEATURES_BYTES = 160, SUPPORTED_BYTES = 32 };

static const char *const isa_names[GD_ISAS] = {"portable", "avx2", "avx512"};
static const gd_caches common_caches = {32 << 10, 512 << 10, 8 << 20};

atomic_int gd_isa_in_use = GD_ISA_PORTABLE;

static gd_isa best_isa;                /* the strongest that CPU and system support */
static bool has_bf16_pairs;            /* beyond the sets: dot products of AVX512_BF16 */
static gd_caches caches;
static char features[FEATURES_BYTES], supported[SUPPORTED_BYTES];
static char environment_problem[PROBLEM_BYTES]; /* what is wrong with GRADINO_ISA */

/* ---- Detection -------------------------------------------------------------------------------- */

#if GD_X86
/* The registers that say what there is. */
typedef struct registers {
    unsigned leaf1_ecx, leaf7_ebx, leaf7_ecx, leaf7_1_eax;
    unsigned xcr0; /* register state the system saves; 0 where it does not say */
} registers;

enum { YMM_STATE = 0x6, ZMM_STATE = 0xe6 }; /* of XCR0: xmm, ymm; and opmask, zmm0-15, zmm16-31 */

static registers read_registers(void) {
    registers r = {0};
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return r;
    r.leaf1_ecx = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        r.leaf7_ebx = b;
        r.leaf7_ecx = c;
        if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) r.leaf7_1_eax = a;
    }
    if (r.leaf1_ecx & bit_OSXSAVE) {
        unsigned high;
        __asm__ volatile("xgetbv" : "=a"(r.xcr0), "=d"(high) : "c"(0));
    }
    return r;
}

/* Feature names in `text`, and has_bf16_pairs; the best kernel set as result. A feature counts if the system saves its registers. */
static gd_isa evaluate(registers r, char *text) {
    bool ymm = (r.xcr0 & YMM_STATE) == YMM_STATE, zmm = (r.xcr0 & ZMM_STATE) == ZMM_STATE;
    const struct {
        const char *name;
        bool has;
    } known[] = {
        {"sse4.2", r.leaf1_ecx & bit_SSE4_2},
        {"avx", ymm && (r.leaf1_ecx & bit_AVX)},
        {"f16c", ymm && (r.leaf1_ecx & bit_F16C)},
        {"fma", ymm && (r.leaf1_ecx & bit_FMA)},
        {"avx2", ymm && (r.leaf7_ebx & bit_AVX2)},
        {"avx512f", zmm && (r.leaf7_ebx & bit_AVX512F)},
        {"avx512dq", zmm && (r.leaf7_ebx & bit_AVX512DQ)},
        {"avx512bw", zmm && (r.leaf7_ebx & bit_AVX512BW)},
        {"avx512vl", zmm && (r.leaf7_ebx & bit_AVX512VL)},
        {"avx512vnni", zmm && (r.leaf7_ecx & bit_AVX512VNNI)},
        {"avx512bf16", zmm && (r.leaf7_1_eax & bit_AVX512BF16)},
    };
    enum { FMA = 3, AVX2, F, DQ, BW, VL, BF16 = 10 };
    size_t length = 0;
    text[0] = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].has) length += (size_t)snprintf(text + length, FEATURES_BYTES - length, "%s%s", length ? " " : "", known[i].name);
    }
    has_bf16_pairs = known[BF16].has;
    if (!known[AVX2].has || !known[FMA].has) return GD_ISA_PORTABLE;
    return known[F].has && known[DQ].has && known[BW].has && known[VL].has ? GD_ISA_AVX512 : GD_ISA_AVX2;
}

/* Data and unified caches by CPUID: leaf 4 of Intel, its twin 0x8000001d of AMD. */
static gd_caches cpuid_caches(void) {
    gd_caches found = {0};
    unsigned a, b, c, d;
    unsigned leaf = __get_cpuid(0x80000001, &a, &b, &c, &d) && (c & 1u << 22) ? 0x8000001d : 4; /* topology extensions */
    for (unsigned i = 0; i < 16 && __get_cpuid_count(leaf, i, &a, &b, &c, &d) && (a & 31); i++) {
        if ((a & 31) == 2) continue; /* instructions */
        int64_t ways = (b >> 22) + 1, partitions = (b >> 12 & 0x3ff) + 1, line = (b & 0xfff) + 1, sets = (int64_t)c + 1;
        int64_t *level[] = {NULL, &found.l1d, &found.l2, &found.l3};
        if ((a >> 5 & 7) <= 3 && level[a >> 5 & 7]) *level[a >> 5 & 7] = ways * partitions * line * sets;
    }
    return found;
}
#endif

/* Cache sizes as the C library tells them, where it does. */
static gd_caches system_caches(void) {
    gd_caches found = {0};
#ifdef _SC_LEVEL1_DCACHE_SIZE
    found.l1d = sysconf(_SC_LEVEL1_DCACHE_SIZE);
    found.l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    found.l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    return found;
}

static int64_t first_positive(int64_t a, int64_t b, int64_t c) { return a > 0 ? a : b > 0 ? b : c; }

static void detect(void) {
    gd_caches told = {0}, system = system_caches();
#if GD_X86
    best_isa = evaluate(read_registers(), features);
    told = cpuid_caches();
#elif defined(__ARM_NEON)
    strcpy(features, "neon");
#endif
    caches = (gd_caches){
        first_positive(told.l1d, system.l1d, common_caches.l1d),
        first_positive(told.l2, system.l2, common_caches.l2),
        first_positive(told.l3, system.l3, common_caches.l3),
    };
    size_t length = 0;
    for (int i = 0; i <= (int)best_isa; i++) {
        length += (size_t)snprintf(supported + length, SUPPORTED_BYTES - length, "%s%s", i ? " " : "", isa_names[i]);
    }
}

/* ---- Choice ----------------------------------------------------------------------------------- */

/* The kernel set of that name (NULL or "": the best); -1 with the reason in `problem`. */
static int find_isa(const char *name, const char *where, char *problem) {
    if (!name || !*name) return (int)best_isa;
    for (int i = 0; i < GD_ISAS; i++) {
        if (strcmp(name, isa_names[i]) != 0) continue;
        if (i <= (int)best_isa) return i;
        snprintf(problem, PROBLEM_BYTES, "%s: '%s' is not supported by this CPU and operating system; supported here: %s", where, name, supported);
        return -1;
    }
    snprintf(problem, PROBLEM_BYTES, "%s: '%.40s' is not an instruction set; supported here: %s", where, name, supported);
    return -1;
}

__attribute__((constructor)) static void choose_at_load(void) {
    detect();
    int isa = find_isa(getenv("GRADINO_ISA"), "GRADINO_ISA", environment_problem);
    gd_isa_in_use = isa < 0 ? (int)best_isa : isa;
}

gd_status gd_set_isa(const char *name) {
    char problem[PROBLEM_BYTES];
    int isa = find_isa(name, "set_isa", problem);
    if (isa < 0) return gd_fail(GD_ERR_VALUE, "%s", problem);
    atomic_store(&gd_isa_in_use, isa);
    return GD_OK;
}

const char *gd_get_isa(void) { return isa_names[gd_current_isa()]; }

const char *gd_supported_isas(void) { return supported; }

const char *gd_cpu_features(void) { return features; }

bool gd_multiplies_bf16_pairs(void) { return has_bf16_pairs && gd_current_isa() == GD_ISA_AVX512; }

gd_caches gd_cache_sizes(void) { return caches; }

void gd_machine_describe(gd_machine *out) {
    *out = (gd_machine){.l1d = caches.l1d, .l2 = caches.l2, .l3 = caches.l3};
    gd_processor_limits(out);
}

const char *gd_version(void) { return GD_VERSION; }

gd_status gd_init_status(void) {
    if (*environment_problem) return gd_fail(GD_ERR_VALUE, "%s", environment_problem);
    return gd_check_thread_environment();
}
