/* moments.h - var, std and logsumexp, each in one pass over memory (var of float64 in two), out of row functions that
 * the including file has defined: row_moments (norm_driver.h), row_max and row_exp_sum (softmax_driver.h). */
#ifndef GRADINO_MOMENTS_H
#define GRADINO_MOMENTS_H

#include "tiles.h"

/* ---- var: the moments about an element, whose square differs from the mean's by at most n variances ---------- */

#define GD_EACH_TILE_BLOCK(T)                                                                                 \
    for (int64_t at = first, n = 0; at < last && (n = last - at < GD_BLOCK ? last - at : GD_BLOCK); at += n)  \
        for (const T *v = gd_walk_run(&r->w, x, at, n, buffer); v; v = NULL)

static void var_join(gd_tile_part *part, const gd_tile_part *next) { part->a.f += next->a.f, part->b += next->b; }

/* PASSES: float64 data takes its moments a second time, about the mean that the first time gave. */
#define GD_DEFINE_VAR(name, T, PASSES)                                                                        \
    static void var_tile_##name(const gd_tiles *r, const char *x, double about, int64_t first, int64_t last, gd_tile_part *part) { \
        int64_t buffer[GD_BLOCK];                                                                             \
        *part = (gd_tile_part){.b = 0};                                                                       \
        GD_EACH_TILE_BLOCK(T) row_moments_##name(v, about, n, &part->a.f, &part->b);                          \
    }                                                                                                         \
    static double variance_##name(const gd_tiles *r, int64_t o) {                                             \
        const char *x = gd_walk_output(&r->w, o);                                                             \
        const double count = (double)r->w.count, divisor = count - r->number;                                 \
        double mean = count > 0 ? (double)*(const T *)x : 0, squares = 0;                                     \
        for (int pass = 0; pass < PASSES && count > 0; pass++) {                                              \
            const gd_tile_part total = gd_tiles_total(r, x, mean);                                            \
            const double shift = total.a.f / count;                                                           \
            squares = total.b - shift * total.a.f;                                                            \
            mean += shift;                                                                                    \
        }                                                                                                     \
        return (squares < 0 ? 0 : squares) / (divisor > 0 ? divisor : 0);                                     \
    }                                                                                                         \
    static void var_##name(const gd_tiles *r, int64_t o) { ((T *)r->out)[o] = (T)variance_##name(r, o); }     \
    static void std_##name(const gd_tiles *r, int64_t o) { ((T *)r->out)[o] = (T)sqrt(variance_##name(r, o)); }
GD_DEFINE_VAR(f32, float, 1)
GD_DEFINE_VAR(f64, double, 2)

/* ---- logsumexp: every tile about its own maximum ---------------------------------------------------------------- */

/* a: the maximum, b: the sum of exp(x - maximum). An infinite or NaN maximum stands for itself: b is 0. */
static void lse_join(gd_tile_part *part, const gd_tile_part *next) {
    const double m = part->a.f, v = next->a.f;
    if (m != m || v <= -INFINITY) return;
    if (v != v || !isfinite(m) || !isfinite(v)) {
        if (!(v < m)) *part = *next;
    } else if (v > m) {
        part->b = part->b * exp(m - v) + next->b;
        part->a.f = v;
    } else {
        part->b += next->b * exp(v - m);
    }
}

#define GD_DEFINE_LOGSUMEXP(name, T)                                                                          \
    static void lse_tile_##name(const gd_tiles *r, const char *x, double about, int64_t first, int64_t last, gd_tile_part *part) { \
        int64_t buffer[GD_BLOCK];                                                                             \
        T e[GD_BLOCK], largest = -(T)INFINITY;                                                                \
        bool nan = false;                                                                                     \
        double sum = 0;                                                                                       \
        (void)about;                                                                                          \
        GD_EACH_TILE_BLOCK(T) {                                                                               \
            const T most = row_max_##name(v, n);                                                              \
            largest = most > largest ? most : largest;                                                        \
        }                                                                                                     \
        GD_EACH_TILE_BLOCK(T) {                                                                               \
            const double more = (double)row_exp_sum_##name(v, isfinite(largest) ? largest : 0, e, n);         \
            nan = nan || more != more;                                                                        \
            sum += more;                                                                                      \
        }                                                                                                     \
        *part = (gd_tile_part){.a.f = nan ? (double)NAN : (double)largest, .b = isfinite(largest) && !nan ? sum : 0}; \
    }                                                                                                         \
    static void lse_##name(const gd_tiles *r, int64_t o) {                                                    \
        if (r->w.count == 0) {                                                                                \
            ((T *)r->out)[o] = -(T)INFINITY;                                                                  \
            return;                                                                                           \
        }                                                                                                     \
        const gd_tile_part total = gd_tiles_total(r, gd_walk_output(&r->w, o), 0);                            \
        ((T *)r->out)[o] = (T)(isfinite(total.a.f) ? total.a.f + log(total.b) : total.a.f);                   \
    }
GD_DEFINE_LOGSUMEXP(f32, float)
GD_DEFINE_LOGSUMEXP(f64, double)

static inline void gd_var_all(const gd_args *a) {
    const bool single = a->in[0]->dtype == GD_FLOAT32;
    gd_tiles r = {.w = gd_walk_of(a->in[0], a->attr->i[0]), .out = a->out[0]->data, .number = a->attr->f[0], .join = var_join,
                  .tile = single ? var_tile_f32 : var_tile_f64, .output = single ? var_f32 : var_f64};
    gd_tiles_all(&r);
}

/* The root is taken of the float64: a float32 has no room for the square of 1e20. */
static inline void gd_std_all(const gd_args *a) {
    const bool single = a->in[0]->dtype == GD_FLOAT32;
    gd_tiles r = {.w = gd_walk_of(a->in[0], a->attr->i[0]), .out = a->out[0]->data, .number = a->attr->f[0], .join = var_join,
                  .tile = single ? var_tile_f32 : var_tile_f64, .output = single ? std_f32 : std_f64};
    gd_tiles_all(&r);
}

static inline void gd_logsumexp_all(const gd_args *a) {
    const bool single = a->in[0]->dtype == GD_FLOAT32;
    gd_tiles r = {.w = gd_walk_of(a->in[0], a->attr->i[0]), .out = a->out[0]->data, .join = lse_join,
                  .tile = single ? lse_tile_f32 : lse_tile_f64, .output = single ? lse_f32 : lse_f64};
    gd_tiles_all(&r);
}

#endif
