/* rows.h - what softmax, logsumexp and the losses need of one row of n contiguous elements.
 * Each row is worked on alone and in one order, so its result does not depend on its neighbours. */
#ifndef GRADINO_ROWS_H
#define GRADINO_ROWS_H

#include "reduce.h"
#include "scalar.h"

enum { GD_ROW_LANES = 16 };

/* The blocks of a row: elements first .. first + n. */
#define GD_EACH_BLOCK(count) \
    for (int64_t first = 0, n = 0; first < (count) && (n = (count) - first < GD_BLOCK ? (count) - first : GD_BLOCK); first += n)

/* The largest and the smallest element; NaN if any is NaN. Floats are compared as integers of the same
 * order, in which NaNs stand beyond the infinities: compilers vectorise that, and zeros have an order. */
#define GD_DEFINE_ROW_EXTREMES(name, T, I, SIGN, INF)                                \
    static inline I gd_row_key_##name(I bits) {                                      \
        return bits ^ ((bits >> SIGN) & (I)(((uint64_t)1 << SIGN) - 1));             \
    }                                                                                \
    static inline T gd_row_extreme_##name(const T *x, int64_t n, bool largest) {     \
        I bits, high = (I)(INT64_MIN >> (63 - SIGN)), low = ~high;                       \
        const T inf = INF;                                                           \
        for (int64_t k = 0; k < n; k++) {                                            \
            memcpy(&bits, x + k, sizeof bits);                                       \
            I key = gd_row_key_##name(bits);                                         \
            high = key > high ? key : high;                                          \
            low = key < low ? key : low;                                             \
        }                                                                            \
        memcpy(&bits, &inf, sizeof bits); /* the key of -inf is ~bits */              \
        if (high > bits || low < ~bits) return (T)NAN;                               \
        bits = gd_row_key_##name(largest ? high : low);                              \
        T extreme;                                                                   \
        memcpy(&extreme, &bits, sizeof extreme);                                     \
        return extreme;                                                              \
    }                                                                                \
    static inline T gd_row_max_##name(const T *x, int64_t n) { return gd_row_extreme_##name(x, n, true); } \
    static inline T gd_row_min_##name(const T *x, int64_t n) { return gd_row_extreme_##name(x, n, false); }
GD_DEFINE_ROW_EXTREMES(f32, float, int32_t, 31, INFINITY)
GD_DEFINE_ROW_EXTREMES(f64, double, int64_t, 63, (double)INFINITY)

/* e[k] = exp(x[k] - shift) */
#define GD_DEFINE_ROW_EXP(name, T)                                                   \
    static inline void gd_row_exp_##name(const T *x, T shift, T *e, int64_t n) {     \
        for (int64_t k = 0; k < n; k++) e[k] = gd_exp_##name(x[k] - shift);          \
    }
GD_DEFINE_ROW_EXP(f32, float)
GD_DEFINE_ROW_EXP(f64, double)

/* The sum over k < n <= GD_BLOCK of VALUE, an expression in k, in lanes of T. VALUE must not choose (?:):
 * GCC 12 with -fno-trapping-math then forgets lanes of doubles; choose into a buffer before. */
#define GD_ROW_SUM(result, T, n, VALUE)                                              \
    do {                                                                             \
        T lane_[GD_ROW_LANES] = {0};                                                 \
        int64_t at_ = 0;                                                             \
        for (; at_ + GD_ROW_LANES <= (n); at_ += GD_ROW_LANES)                       \
            for (int l_ = 0; l_ < GD_ROW_LANES; l_++) {                              \
                const int64_t k = at_ + l_;                                          \
                lane_[l_] += (VALUE);                                                \
            }                                                                        \
        for (int l_ = 0; at_ + l_ < (n); l_++) {                                     \
            const int64_t k = at_ + l_;                                              \
            lane_[l_] += (VALUE);                                                    \
        }                                                                            \
        for (int half_ = GD_ROW_LANES / 2; half_; half_ /= 2)                        \
            for (int l_ = 0; l_ < half_; l_++) lane_[l_] += lane_[l_ + half_];       \
        (result) = lane_[0];                                                         \
    } while (0)

#endif
