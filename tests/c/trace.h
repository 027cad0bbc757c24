/* trace.h - the file between trace.c and replay.c: a trace_call, its inputs, an int32_t number of results, the
 * results. Each tensor is a trace_tensor and, if it has any, its elements. */
#ifndef TRACE_H
#define TRACE_H

#include "gradino.h"

typedef struct trace_call {
    char name[60];
    int32_t nin;
    gd_attr attr;
} trace_call;

typedef struct trace_tensor {
    int32_t present, dtype, rank, unused;
    int64_t numel, shape[4], strides[4];
} trace_tensor;

#endif
