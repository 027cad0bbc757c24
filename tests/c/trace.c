/* trace.c - record.c of a library that writes down every op it runs: attributes, inputs and results, into the file
 * that GRADINO_TRACE names. Built by test_aarch64.py; replay.c reads it. One thread at a time. */
#define gd_record gd_record_untraced
#define gd_call gd_call_untraced
#include "../../native/record.c"
#undef gd_record
#undef gd_call

#include <stdio.h>
#include <stdlib.h>

#include "trace.h"

#pragma GCC visibility push(hidden)
gd_tensor gd_record(int op, const gd_tensor *in, int64_t nin, const gd_attr *attr, void *dest);
#pragma GCC visibility pop
__attribute__((visibility("default"))) gd_tensor gd_call(int op, const gd_tensor *in, int64_t count, const gd_attr *attr);

static FILE *file;
static bool busy; /* what copying out runs is not written down */

static void put(const void *p, size_t bytes) {
    if (fwrite(p, 1, bytes, file) != bytes) abort();
}

/* A tensor: how it lies, and its elements in order. */
static void put_tensor(gd_tensor t) {
    if (t == GD_ABSENT) t = 0;
    trace_tensor head = {.present = t != 0};
    gd_tensor_info info;
    if (t) {
        if (gd_info(t, &info) < 0) abort();
        head.dtype = info.dtype;
        head.rank = info.rank;
        head.numel = info.numel;
        for (int d = 0; d < info.rank; d++) head.shape[d] = info.shape[d], head.strides[d] = info.strides[d];
    }
    put(&head, sizeof head);
    if (!t || !head.numel) return;
    int64_t bytes = head.numel * gd_dtype_bytes(head.dtype);
    void *data = malloc((size_t)bytes);
    if (!data || gd_copy_out(t, data, bytes) < 0) abort();
    put(data, (size_t)bytes);
    free(data);
}

/* Inputs are written before the op runs, because it may write into one of them. */
static bool begin(int op, const gd_tensor *in, int64_t nin, const gd_attr *attr, const void *dest) {
    if (busy || dest || op < 0 || op >= GD_OPS || !gd_ops[op].kernel[0] || !getenv("GRADINO_TRACE")) return false;
    for (int64_t k = 0; k < nin; k++) {
        if (in[k] > GD_ABSENT && gd_check(in[k]) < 0) return false;
    }
    if (!file && !(file = fopen(getenv("GRADINO_TRACE"), "wb"))) abort();
    busy = true;
    trace_call head = {.nin = (int32_t)nin};
    snprintf(head.name, sizeof head.name, "%s", gd_ops[op].name);
    if (attr) head.attr = *attr;
    put(&head, sizeof head);
    for (int64_t k = 0; k < nin; k++) put_tensor(in[k]);
    return true;
}

static gd_tensor end(int op, bool traced, gd_tensor result) {
    if (!traced) return result;
    int32_t nout = result ? gd_ops[op].nout : 0; /* 0: it was refused, and is so again */
    put(&nout, sizeof nout);
    for (int k = 0; k < nout; k++) put_tensor(k ? gd_output(result, k) : result);
    busy = false;
    fflush(file);
    return result;
}

gd_tensor gd_record(int op, const gd_tensor *in, int64_t nin, const gd_attr *attr, void *dest) {
    bool traced = begin(op, in, nin, attr, dest);
    return end(op, traced, gd_record_untraced(op, in, nin, attr, dest));
}

gd_tensor gd_call(int op, const gd_tensor *in, int64_t count, const gd_attr *attr) {
    bool traced = begin(op, in, count, attr, NULL);
    return end(op, traced, gd_call_untraced(op, in, count, attr));
}
