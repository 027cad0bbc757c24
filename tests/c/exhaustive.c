/* exhaustive.c - the largest error of a float32 function over a range of bit patterns, on every instruction set.
 * Usage: exhaustive FUNCTION FIRST COUNT STEP. Prints, per instruction set: name, error in ULP, the worst input. */
#include <gradino.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 14, ISAS = 3 };
static const double NEARLY_HALF = 0.49; /* from here on correctly rounded results are not looked at: theirs is at most 0.5 */

/* ---- References: float64, from the C library. Where a limit is finite, infinities have it. -------------------- */

static double reference_rsqrt(double x) { return 1.0 / sqrt(x); }
static double reference_reciprocal(double x) { return 1.0 / x; }
static double reference_sigmoid(double x) { return x < 0 ? exp(x) / (1.0 + exp(x)) : 1.0 / (1.0 + exp(-x)); }
static double reference_gelu(double x) { return x == -INFINITY ? -0.0 : x * 0.5 * erfc(-x * M_SQRT1_2); }
static double reference_silu(double x) { return x == -INFINITY ? -0.0 : x / (1.0 + exp(-x)); }
static double reference_softplus(double x) { return x > 20.0 ? x : log1p(exp(x)); }
static double reference_gelu_tanh(double x) {
    const double u = M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x);
    return x == -INFINITY ? -0.0 : x / (1.0 + exp(-2.0 * u)); /* x (1 + tanh(u)) / 2, without cancellation */
}

static double reference_log_sigmoid(double x) { return x > 0 ? -log1p(exp(-x)) : x - log1p(exp(x)); }

static gd_tensor run_softplus(gd_tensor x) { return gd_softplus(x, 1.0, 20.0); }

typedef struct function {
    const char *name;
    gd_tensor (*run)(gd_tensor);
    double (*reference)(double);
    bool own; /* AVX-512 has a formula of its own, and so other bits than AVX2 */
} function;

static const function functions[] = {
    {"exp", gd_exp, exp, false}, {"expm1", gd_expm1, expm1, false}, {"log", gd_log, log, false}, {"log1p", gd_log1p, log1p, false},
    {"log2", gd_log2, log2, false}, {"sin", gd_sin, sin, false}, {"cos", gd_cos, cos, false}, {"tanh", gd_tanh, tanh, true},
    {"sigmoid", gd_sigmoid, reference_sigmoid, false}, {"erf", gd_erf, erf, false}, {"gelu", gd_gelu, reference_gelu, true},
    {"gelu_tanh", gd_gelu_tanh, reference_gelu_tanh, true}, {"silu", gd_silu, reference_silu, true},
    {"softplus", run_softplus, reference_softplus, true},
    {"log_sigmoid", gd_log_sigmoid, reference_log_sigmoid, true}, {"sqrt", gd_sqrt, sqrt, false}, {"rsqrt", gd_rsqrt, reference_rsqrt, false},
    {"reciprocal", gd_reciprocal, reference_reciprocal, false},
};

/* The distance of got from the exact value in units in the last place of the latter; INFINITY where only one is NaN,
 * or a zero has the wrong sign. Beyond the largest float a unit is what it is below, and infinity stands for 2^128. */
static double ulps(float got, double exact) {
    if (isnan(exact) || isnan(got)) return isnan(exact) && isnan(got) ? 0.0 : INFINITY;
    if (exact == 0.0 && got == 0.0) return !signbit(exact) == !signbit(got) ? 0.0 : INFINITY;
    if (isinf(exact)) return got == (float)exact ? 0.0 : INFINITY;
    int exponent;
    frexp(exact, &exponent);
    if (exact == 0.0 || exponent < -125) exponent = -125;
    if (exponent > 128) return isinf(got) && (got > 0) == (exact > 0) ? 0.0 : INFINITY;
    const double value = isinf(got) ? copysign(0x1p128, got) : (double)got;
    return fabs(value - exact) / ldexp(1.0, exponent - 24);
}

/* Whether a result is the exact value rounded correctly: that is most often so, and quickly seen. */
static bool is_nearest(float got, float nearest) {
    uint32_t a, b;
    memcpy(&a, &got, sizeof a);
    memcpy(&b, &nearest, sizeof b);
    return a == b || (got != got && nearest != nearest);
}

static void stop(const char *what) {
    fprintf(stderr, "exhaustive: %s: %s\n", what, gd_last_error());
    exit(1);
}

int main(int count, char **words) {
    if (count != 5) {
        fprintf(stderr, "usage: exhaustive FUNCTION FIRST COUNT STEP\n");
        return 2;
    }
    const function *f = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, words[1]) == 0) f = &functions[i];
    if (!f) stop(words[1]);
    const uint64_t first = strtoull(words[2], NULL, 0), inputs = strtoull(words[3], NULL, 0), step = strtoull(words[4], NULL, 0);
    char names[64], *isa[ISAS];
    int isas = 0;
    snprintf(names, sizeof names, "%s", gd_supported_isas());
    for (char *name = strtok(names, " "); name && isas < ISAS; name = strtok(NULL, " ")) isa[isas++] = name;
    if (gd_set_num_threads(1) < 0) stop("one thread");

    static float x[CHUNK], y[CHUNK];
    static double exact[CHUNK];
    static float nearest[CHUNK];
    double worst[ISAS] = {0};
    float at[ISAS] = {0};
    uint64_t differ = 0; /* elements in which the last two sets, AVX2 and AVX-512, have other bits */
    static float before[CHUNK];
    for (uint64_t done = 0; done < inputs; done += CHUNK) {
        const int64_t n = inputs - done < CHUNK ? (int64_t)(inputs - done) : CHUNK;
        for (int64_t i = 0; i < n; i++) {
            const uint32_t bits = (uint32_t)(first + (done + (uint64_t)i) * step);
            memcpy(&x[i], &bits, sizeof bits);
            exact[i] = f->reference((double)x[i]);
            nearest[i] = (float)exact[i];
        }
        const int64_t scope = gd_scope_enter_step();
        const gd_tensor t = gd_from_data(1, &n, GD_FLOAT32, x);
        for (int k = 0; k < isas; k++) {
            if (gd_set_isa(isa[k]) < 0) stop(isa[k]);
            if (gd_copy_out(f->run(t), y, n * 4) < 0) stop(f->name);
            if (k == 2 && !f->own && memcmp(y, before, (size_t)n * 4) == 0) { /* AVX-512 has AVX2's bits */
                if (worst[1] > worst[2]) worst[2] = worst[1], at[2] = at[1];
                break;
            }
            for (int64_t i = 0; i < n; i++) {
                if (k == 2) differ += !f->own && !is_nearest(y[i], before[i]);
                if (worst[k] > NEARLY_HALF && is_nearest(y[i], nearest[i])) continue;
                const double error = ulps(y[i], exact[i]);
                if (error > worst[k]) worst[k] = error, at[k] = x[i];
            }
            memcpy(before, y, sizeof y);
        }
        if (gd_scope_exit(scope) < 0) stop("leaving the arena");
    }
    for (int k = 0; k < isas; k++) printf("%s %.6f %.9g\n", isa[k], worst[k], (double)at[k]);
    if (isas == ISAS) printf("differ %llu 0\n", (unsigned long long)differ);
    return 0;
}
