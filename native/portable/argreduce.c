/* argreduce.c - argmax, argmin, max_dim, min_dim: where the extreme value of a reduction stands.
 * The first NaN wins, else the first of equal values; indices count in the reduced dimensions. */
#include "../tiles.h"

/* The extreme of n integers. */
#define DEFINE_INT_EXTREMES(name, T)                                    \
    static inline T gd_row_max_##name(const T *x, int64_t n) {          \
        T best = x[0];                                                  \
        for (int64_t k = 1; k < n; k++) best = x[k] > best ? x[k] : best; \
        return best;                                                    \
    }                                                                   \
    static inline T gd_row_min_##name(const T *x, int64_t n) {          \
        T best = x[0];                                                  \
        for (int64_t k = 1; k < n; k++) best = x[k] < best ? x[k] : best; \
        return best;                                                    \
    }
DEFINE_INT_EXTREMES(i64, int64_t)
DEFINE_INT_EXTREMES(i32, int32_t)
DEFINE_INT_EXTREMES(bool, uint8_t)

/* The extreme of each block first, then its place, if it beats the blocks before. A NaN is the extreme
 * of its block and ends the search. A part holds the value in F of its union, and its place. */
#define DEFINE_ARG(name, extreme, T, F, MORE)                                                    \
    static void name##_tile(const gd_tiles *r, const char *x, double about, int64_t first, int64_t last, gd_tile_part *part) { \
        int64_t buffer[GD_BLOCK], index = first;                                                 \
        T best = 0;                                                                              \
        (void)about;                                                                             \
        for (int64_t at = first; at < last && best == best; at += GD_BLOCK) {                    \
            int64_t n = last - at < GD_BLOCK ? last - at : GD_BLOCK, k = 0;                      \
            const T *v = gd_walk_run(&r->w, x, at, n, buffer);                                   \
            const T block = extreme(v, n);                                                       \
            if (block == block && at > first && !(block MORE best)) continue;                    \
            if (block == block) while (v[k] != block) k++;                                       \
            else while (v[k] == v[k]) k++;                                                       \
            best = v[k];                                                                         \
            index = at + k;                                                                      \
        }                                                                                        \
        part->a.F = best;                                                                        \
        part->index = index;                                                                     \
    }                                                                                            \
    static void name##_join(gd_tile_part *part, const gd_tile_part *next) {                      \
        const T best = (T)part->a.F, other = (T)next->a.F;                                       \
        if (best == best && (other MORE best || other != other)) *part = *next;                  \
    }                                                                                            \
    static void name(const gd_tiles *r, int64_t o) {                                             \
        const gd_tile_part total = gd_tiles_total(r, gd_walk_output(&r->w, o), 0);               \
        ((int64_t *)r->indices)[o] = total.index;                                                \
        if (r->out) ((T *)r->out)[o] = (T)total.a.F;                                             \
    }

#define DEFINE_ARGS(name, T, F) \
    DEFINE_ARG(largest_##name, gd_row_max_##name, T, F, >) \
    DEFINE_ARG(smallest_##name, gd_row_min_##name, T, F, <)

DEFINE_ARGS(f32, float, f)
DEFINE_ARGS(f64, double, f)
DEFINE_ARGS(i64, int64_t, i)
DEFINE_ARGS(i32, int32_t, i)
DEFINE_ARGS(bool, uint8_t, i)

#define ARG(name) {.tile = name##_tile, .join = name##_join, .output = name}
static const gd_tiles largest[GD_DTYPES] = {ARG(largest_f32), ARG(largest_f64), ARG(largest_i64), ARG(largest_i32), ARG(largest_bool)};
static const gd_tiles smallest[GD_DTYPES] = {ARG(smallest_f32), ARG(smallest_f64), ARG(smallest_i64), ARG(smallest_i32), ARG(smallest_bool)};

static void arg_all(const gd_args *a, const gd_tiles *family, void *values, void *indices) {
    gd_tiles r = family[a->in[0]->dtype];
    gd_walk_init(&r.w, a->in[0], a->attr->i[0]);
    r.out = values, r.indices = indices;
    if (r.w.count > 0) gd_tiles_all(&r); /* nothing to choose from is refused by the shape rule */
}

void GD_KERNEL(max_dim)(const gd_args *a) { arg_all(a, largest, a->out[0]->data, a->out[1]->data); }
void GD_KERNEL(min_dim)(const gd_args *a) { arg_all(a, smallest, a->out[0]->data, a->out[1]->data); }
void GD_KERNEL(argmax)(const gd_args *a) { arg_all(a, largest, NULL, a->out[0]->data); }
void GD_KERNEL(argmin)(const gd_args *a) { arg_all(a, smallest, NULL, a->out[0]->data); }
