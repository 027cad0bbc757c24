/* replay.c - runs the ops of a trace again, on another machine or with other kernels, and compares.
 * Usage: replay TRACE TOLERANCES [DEVICE [OP...]]: on the CPU or on device number DEVICE, of all ops or of these. A line of TOLERANCES: op, relative and absolute tolerance in float32, the same in
 * float64, and 1 where they refer to the largest value of the call instead of each result. Halves may be
 * one step further off; integers must be equal.
 * Prints a checksum of all results, which must not depend on the number of threads. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "kernel.h"
#include "trace.h"

enum { MOST_INPUTS = 64, MOST_OPS = 512, MOST_FAILURES = 20, MOST_OF_OP = 2 /* that are printed, on a device */ };

typedef struct tolerance {
    double rtol[2], atol[2];
    int scaled;
    int64_t calls, failures;
    bool left_out;
} tolerance;

typedef struct value { /* a tensor of the trace */
    trace_tensor head;
    void *data;
} value;

static tolerance tolerances[MOST_OPS];
/* Halves are rounded last: one step more, where what was rounded differs a little. */
static const double step_of[GD_DTYPES] = {[GD_BFLOAT16] = 0x1p-7, [GD_FLOAT16] = 0x1p-10};
static const double least_of[GD_DTYPES] = {[GD_BFLOAT16] = 0x1p-133, [GD_FLOAT16] = 0x1p-24};
static FILE *trace;
static int failures, device, op_now;
static uint64_t checksum = 14695981039346656037u; /* FNV-1a */

/* Whether a failure of the op is to be printed. */
static bool says(void) {
    failures++;
    return tolerances[op_now].failures++ < MOST_OF_OP || !device;
}

static void *take(size_t bytes) {
    void *p = malloc(bytes ? bytes : 1);
    CHECK(p);
    return p;
}

static void get(void *p, size_t bytes) { CHECK(fread(p, 1, bytes, trace) == bytes); }

static value get_value(void) {
    value v;
    get(&v.head, sizeof v.head);
    size_t bytes = v.head.present ? (size_t)(v.head.numel * gd_dtype_bytes(v.head.dtype)) : 0;
    v.data = take(bytes);
    get(v.data, bytes);
    return v;
}

/* The value as a tensor that lies as it lay; *memory is to be freed. */
static gd_tensor laid_out(const value *v, char **memory) {
    const trace_tensor *h = &v->head;
    int64_t span = 1, index[4] = {0}, size = gd_dtype_bytes(h->dtype);
    for (int d = 0; d < h->rank; d++) span += h->numel ? (h->shape[d] - 1) * h->strides[d] : 0;
    *memory = take((size_t)(span * size));
    memset(*memory, 0, (size_t)(span * size));
    for (int64_t i = 0; i < h->numel; i++) {
        int64_t at = 0;
        for (int d = 0; d < h->rank; d++) at += index[d] * h->strides[d];
        memcpy(*memory + at * size, (char *)v->data + i * size, (size_t)size);
        for (int d = h->rank - 1; d >= 0 && ++index[d] == h->shape[d]; d--) index[d] = 0;
    }
    gd_tensor t;
    if (device) { /* the whole memory goes over, and the same part of it is looked at */
        const int64_t one = 1;
        gd_tensor_info info;
        CHECK((t = gd_from_external(1, &span, &one, h->dtype, *memory)) && (t = gd_to_device(t, device, 0)) && gd_info(t, &info) >= 0);
        t = gd_from_device(device, h->rank, h->shape, h->strides, h->dtype, info.data);
    } else {
        t = gd_from_external(h->rank, h->shape, h->strides, h->dtype, *memory);
    }
    CHECK(t);
    return t;
}

/* A bfloat16 or float16 as a number. */
static double half(uint16_t bits, int dtype) {
    if (dtype == GD_BFLOAT16) {
        uint32_t wide = (uint32_t)bits << 16;
        float x;
        memcpy(&x, &wide, sizeof x);
        return (double)x;
    }
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double x = exponent == 31 ? (fraction ? NAN : INFINITY) : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return bits >> 15 ? -x : x;
}

static double number(const value *v, int64_t i) {
    switch (v->head.dtype) {
    case GD_FLOAT32: return (double)((float *)v->data)[i];
    case GD_FLOAT64: return ((double *)v->data)[i];
    default: return half(((uint16_t *)v->data)[i], v->head.dtype);
    }
}

static bool is_float(const value *v) { return v->head.present && gd_dtype_inside(v->head.dtype) <= GD_FLOAT64; }

static double largest(const value *v) {
    double most = 0;
    for (int64_t i = 0; is_float(v) && i < v->head.numel; i++) {
        double x = fabs(number(v, i));
        if (x > most && x < INFINITY) most = x;
    }
    return most;
}

/* Compares result k of a call; says where it differs. */
static void compare(const char *name, int k, const value *want, gd_tensor t, double scale, const tolerance *allowed) {
    gd_tensor_info info;
    value got = *want;
    CHECK(gd_info(t, &info) >= 0);
    bool same = info.dtype == want->head.dtype && info.rank == want->head.rank;
    for (int d = 0; same && d < info.rank; d++) same = info.shape[d] == want->head.shape[d];
    if (!same) {
        if (says()) printf("%s, result %d: dtype %d and rank %d, or the shape, differ\n", name, k, info.dtype, info.rank);
        return;
    }
    int64_t size = gd_dtype_bytes(info.dtype), bytes = info.numel * size;
    got.data = take((size_t)bytes);
    if (bytes && gd_copy_out(t, got.data, bytes) < 0) {
        if (says()) printf("%s, result %d of dtype %d and %lld elements: %s\n", name, k, info.dtype, (long long)info.numel, gd_last_error());
        free(got.data);
        return;
    }
    for (int64_t i = 0; i < info.numel; i++) {
        bool right;
        if (is_float(want)) {
            double a = number(&got, i), b = number(want, i), magnitude = allowed->scaled && scale > fabs(b) ? scale : fabs(b);
            int f = info.dtype == GD_FLOAT64;
            double slack = allowed->atol[f] + allowed->rtol[f] * magnitude + step_of[info.dtype] * fabs(b) + least_of[info.dtype];
            right = a == b || (isnan(a) && isnan(b)) || (isfinite(b) && fabs(a - b) <= slack);
            if (!right && says()) printf("%s, result %d of dtype %d and %lld elements: at %lld it is %.17g, must be %.17g\n", name, k, info.dtype,
                               (long long)info.numel, (long long)i, a, b);
        } else {
            right = memcmp((char *)got.data + i * size, (char *)want->data + i * size, (size_t)size) == 0;
            if (!right && says()) printf("%s, result %d of dtype %d: element %lld differs\n", name, k, info.dtype, (long long)i);
        }
        if (!right) break;
    }
    for (int64_t i = 0; i < bytes; i++) checksum = (checksum ^ ((unsigned char *)got.data)[i]) * 1099511628211u;
    free(got.data);
}

/* The next call of the trace; false at its end. */
static bool replay(void) {
    trace_call call;
    if (fread(&call, 1, sizeof call, trace) != sizeof call) return false;
    value in[MOST_INPUTS];
    char *memory[MOST_INPUTS];
    gd_tensor inputs[MOST_INPUTS];
    CHECK(call.nin <= MOST_INPUTS);
    int64_t scope = gd_scope_enter_step();
    double scale = 0;
    int op = op_now = gd_op_find(call.name);
    CHECK(op >= 0);
    const bool left_out = tolerances[op].left_out;
    for (int k = 0; k < call.nin; k++) {
        in[k] = get_value();
        memory[k] = NULL;
        inputs[k] = in[k].head.present && !left_out ? laid_out(&in[k], &memory[k]) : 0;
        scale = fmax(scale, largest(&in[k]));
    }
    gd_tensor first = left_out ? 0 : gd_call(op, inputs, call.nin, &call.attr);
    int32_t nout;
    get(&nout, sizeof nout);
    bool refused = !first;
    if (device && first && !nout) refused = gd_device_synchronize(device) < 0; /* what is refused for its values is found late */
    if (refused != !nout && !left_out && says()) printf("%s: %s\n", call.name, first ? "went well, but was refused there" : gd_last_error());
    tolerances[op].calls += nout > 0 && !left_out;
    for (int k = 0; k < nout; k++) {
        value want = get_value();
        if (first) compare(call.name, k, &want, k ? gd_output(first, k) : first, fmax(scale, largest(&want)), &tolerances[op]);
        free(want.data);
    }
    gd_clear_error();
    CHECK(gd_scope_exit(scope) >= 0);
    for (int k = 0; k < call.nin; k++) {
        free(in[k].data);
        free(memory[k]);
    }
    return true;
}

int main(int argc, char **argv) {
    CHECK(argc >= 3 && gd_op_count() <= MOST_OPS);
    FILE *file = fopen(argv[2], "r");
    CHECK(file);
    char name[64];
    tolerance t = {.calls = 0};
    while (fscanf(file, "%59s %lf %lf %lf %lf %d", name, &t.rtol[0], &t.atol[0], &t.rtol[1], &t.atol[1], &t.scaled) == 6) {
        int op = gd_op_find(name);
        CHECK(op >= 0);
        tolerances[op] = t;
    }
    fclose(file);
    device = argc > 3 ? atoi(argv[3]) : 0;
    if (device) CHECK(gd_set_device(device) >= 0);
    for (int op = 0; op < gd_op_count(); op++) {
        tolerances[op].left_out = argc > 4;
        for (int k = 4; k < argc; k++) tolerances[op].left_out &= strcmp(argv[k], gd_op_name(op)) != 0;
    }
    CHECK((trace = fopen(argv[1], "rb")));
    int64_t calls = 0, ops = 0;
    while ((device || failures < MOST_FAILURES) && replay());
    fclose(trace);
    for (int op = 0; op < gd_op_count(); op++) {
        gd_op_info info;
        CHECK(gd_op_describe(op, &info) >= 0);
        if (tolerances[op].left_out) continue;
        ops += tolerances[op].calls > 0;
        calls += tolerances[op].calls;
        if (tolerances[op].failures) printf("%s: %lld failures in %lld calls\n", info.name, (long long)tolerances[op].failures, (long long)tolerances[op].calls);
        if (info.has_kernel && !tolerances[op].calls && (device || !failures)) {
            failures++;
            printf("%s: the trace has no call of it\n", info.name);
        }
    }
    printf("%lld calls of %lld ops with %s kernels; checksum %016llx\n", (long long)calls, (long long)ops, device ? "CUDA" : gd_get_isa(), (unsigned long long)checksum);
    return failures != 0;
}
