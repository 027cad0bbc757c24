/* loss.c - cross entropy and its gradient, as PyTorch defines it.
 * Ignored rows have no loss and a gradient of exactly 0; sums over rows are float64. */
#include "prows.h"

#include "../loss.h"

#define DEFINE_ROWS(name)                                                                                    \
    static void entropy_rows_##name(const gd_entropy *e, int64_t first, int64_t last, gd_loss_sum *sum) {    \
        for (; first < last; first++) entropy_##name(e, first, sum);                                         \
    }                                                                                                        \
    static void entropy_bwd_rows_##name(const gd_entropy *e, int64_t first, int64_t last, gd_loss_sum *sum) { \
        (void)sum;                                                                                           \
        for (; first < last; first++) entropy_bwd_##name(e, first);                                          \
    }
DEFINE_ROWS(f32)
DEFINE_ROWS(f64)

void GD_KERNEL(cross_entropy)(const gd_args *a) { gd_entropy_forward(a, entropy_rows_f32, entropy_rows_f64); }
void GD_KERNEL(cross_entropy_bwd)(const gd_args *a) { gd_entropy_backward(a, entropy_bwd_rows_f32, entropy_bwd_rows_f64); }
