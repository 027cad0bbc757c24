/* loss.c - cross entropy for AVX-512: loss.h with vector row functions, and a way past it for rows that fit
 * one vector, of which a group shares the logarithm. */
#include "vrows.h"

#include "../loss.h"

/* Class targets, no smoothing, at most `width` contiguous classes. */
static bool is_short(const gd_entropy *e, int64_t width) {
    return e->classes <= width && e->x_step == 1 && !e->probabilities && e->smoothing == 0;
}

/* The same arithmetic as entropy_<name> and entropy_bwd_<name> of loss.h. */
#define DEFINE_SHORT(name, T, V, W, S, MASK)                                                                 \
    /* W rows at a time: row i of the group leaves its maximum, sum and logit in lane i. */                  \
    static void entropy_short_##name(const gd_entropy *e, int64_t first, int64_t last, gd_loss_sum *sum) {   \
        const MASK classes = e->classes == W ? (MASK)-1 : GD_LANES_##S(e->classes);                          \
        for (; first < last; first += W) {                                                                   \
            const int64_t rows = last - first < W ? last - first : W;                                        \
            const MASK group = rows == W ? (MASK)-1 : GD_LANES_##S(rows);                                    \
            const T *x = (const T *)e->x + first * e->x_row;                                                 \
            V most = _mm512_setzero_##S(), total = _mm512_set1_##S(1), logit = most, weight = total;         \
            MASK valid = 0;                                                                                  \
            for (int64_t i = 0; i < rows; i++, x += e->x_row) {                                              \
                const MASK lane = (MASK)(1u << i);                                                           \
                const V v = load_or_##name(x, classes, -(T)INFINITY), m = gd_largest_##S(v);                 \
                const V exps = _mm512_maskz_mov_##S(classes, gd_exp_##S##512(_mm512_sub_##S(v, m)));         \
                most = _mm512_mask_mov_##S(most, lane, m);                                                   \
                total = _mm512_mask_mov_##S(total, lane, gd_sum_##S(exps));                                  \
                const int64_t label = gd_entropy_label(e, first + i);                                        \
                if (label < 0) continue;                                                                     \
                const T w = weight_##name(e, label);                                                         \
                valid |= lane;                                                                               \
                logit = _mm512_mask_mov_##S(logit, lane, _mm512_set1_##S(x[label]));                         \
                weight = _mm512_mask_mov_##S(weight, lane, _mm512_set1_##S(w));                              \
                sum->weight += (double)w;                                                                    \
            }                                                                                                \
            const V ls = gd_log_##S##512(total);                                                             \
            V loss = _mm512_mul_##S(weight, _mm512_sub_##S(ls, _mm512_sub_##S(logit, most)));                \
            loss = _mm512_maskz_mov_##S(valid, loss);                                                        \
            _mm512_mask_storeu_##S((T *)e->lse + first, group, _mm512_add_##S(most, ls));                    \
            if (e->reduction == GD_NONE) _mm512_mask_storeu_##S((T *)e->loss + first, group, loss);          \
            T each[W];                                                                                       \
            _mm512_storeu_##S(each, loss);                                                                   \
            for (int64_t i = 0; i < rows; i++) sum->loss += (double)each[i];                                 \
        }                                                                                                    \
    }                                                                                                        \
    static void entropy_bwd_short_##name(const gd_entropy *e, int64_t first, int64_t last) {                 \
        const MASK classes = e->classes == W ? (MASK)-1 : GD_LANES_##S(e->classes);                          \
        const T *x = (const T *)e->x + first * e->x_row, *lse = e->lse;                                      \
        T *dx = (T *)e->dx + first * e->classes, g = first < last ? GD_ENTROPY_GRADIENT(T, e, first) : 0;    \
        for (; first < last; first++, x += e->x_row, dx += e->classes) {                                     \
            const int64_t label = gd_entropy_label(e, first);                                                \
            if (e->g_step) g = GD_ENTROPY_GRADIENT(T, e, first);                                             \
            if (g == 0 || label < 0) {                                                                       \
                _mm512_mask_storeu_##S(dx, classes, _mm512_setzero_##S());                                   \
                continue;                                                                                    \
            }                                                                                                \
            const V shifted = _mm512_sub_##S(load_##name(x, classes), _mm512_set1_##S(lse[first]));          \
            const V exps = _mm512_maskz_mov_##S(classes, gd_exp_##S##512(shifted));                          \
            const V vg = _mm512_set1_##S(g), hard = _mm512_set1_##S(weight_##name(e, label));                \
            const V scaled = _mm512_mul_##S(exps, _mm512_mul_##S(vg, _mm512_div_##S(hard, gd_sum_##S(exps)))); \
            const MASK lane = (MASK)(1u << label);                                                           \
            _mm512_mask_storeu_##S(dx, classes, _mm512_mask_sub_##S(scaled, lane, scaled, _mm512_mul_##S(vg, hard))); \
        }                                                                                                    \
    }                                                                                                        \
    static void entropy_rows_##name(const gd_entropy *e, int64_t first, int64_t last, gd_loss_sum *sum) {    \
        if (is_short(e, W)) entropy_short_##name(e, first, last, sum);                                       \
        else for (; first < last; first++) entropy_##name(e, first, sum);                                    \
    }                                                                                                        \
    static void entropy_bwd_rows_##name(const gd_entropy *e, int64_t first, int64_t last, gd_loss_sum *sum) { \
        (void)sum;                                                                                           \
        if (is_short(e, W)) entropy_bwd_short_##name(e, first, last);                                        \
        else for (; first < last; first++) entropy_bwd_##name(e, first);                                     \
    }
DEFINE_SHORT(f32, float, __m512, 16, ps, __mmask16)
DEFINE_SHORT(f64, double, __m512d, 8, pd, __mmask8)

void gd_cross_entropy_avx512(const gd_args *a) { gd_entropy_forward(a, entropy_rows_f32, entropy_rows_f64); }
void gd_cross_entropy_bwd_avx512(const gd_args *a) { gd_entropy_backward(a, entropy_bwd_rows_f32, entropy_bwd_rows_f64); }
