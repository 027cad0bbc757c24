/* attention_driver.h - the attention kernels of an ISA from its softmax_step, slopes and log of float32 and float64. */
#define ATT(name) name##_f32
#define ATT_T float
#define ATT_DTYPE GD_FLOAT32
#include "attention_blocks.h"
#include "attention_bwd.h"
#undef ATT
#undef ATT_T
#undef ATT_DTYPE
#define ATT(name) name##_f64
#define ATT_T double
#define ATT_DTYPE GD_FLOAT64
#include "attention_blocks.h"
#include "attention_bwd.h"

/* (q (B,H,T,D), k (B,Hk,S,D), v (B,Hk,S,E), mask?) -> y (B,H,T,E), logsumexp (B,H,T) */
void GD_KERNEL(attention)(const gd_args *a) {
    const job j = job_of(a, false);
    if (gd_dtype_inside(j.q->dtype) == GD_FLOAT32) forward_f32(&j);
    else forward_f64(&j);
}

/* (g like y, q, k, v, mask?, y, logsumexp) -> dq, dk, dv, dmask */
void GD_KERNEL(attention_bwd)(const gd_args *a) {
    const job j = job_of(a, true);
    if (gd_dtype_inside(j.q->dtype) == GD_FLOAT32) backward_f32(&j);
    else backward_f64(&j);
}
