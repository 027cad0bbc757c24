/* vector_norm.c - (sum |x|^p)^(1/p) over some dimensions, without over- or underflow on the way.
 * Sums are float64. What float64 cannot hold either is divided by the largest element first. */
#include <math.h>

#include "../tiles.h"

/* Defines a tile's part: STEP over the absolute values of its elements. about: what they are divided by. */
#define DEFINE_TILE(name, T, START, STEP)                                                                                  \
    static void name(const gd_tiles *r, const char *x, double about, int64_t first, int64_t last, gd_tile_part *part) {    \
        int64_t buffer[GD_BLOCK];                                                                                          \
        const double p = r->number;                                                                                        \
        double total = START;                                                                                              \
        (void)about, (void)p;                                                                                              \
        for (int64_t at = first; at < last; at += GD_BLOCK) {                                                              \
            const int64_t n = last - at < GD_BLOCK ? last - at : GD_BLOCK;                                                 \
            const T *row = gd_walk_run(&r->w, x, at, n, buffer);                                                           \
            enum { LANES = 8 };                                                                                            \
            double lane[LANES];                                                                                            \
            for (int l = 0; l < LANES; l++) lane[l] = START;                                                               \
            int64_t k = 0;                                                                                                 \
            for (; k + LANES <= n; k += LANES)                                                                             \
                for (int l = 0; l < LANES; l++) lane[l] = STEP(lane[l], fabs((double)row[k + l]));                         \
            for (int l = 0; k < n; k++, l++) lane[l] = STEP(lane[l], fabs((double)row[k]));                                \
            for (int l = 0; l < LANES; l++) total = JOIN_##name(total, lane[l]);                                           \
        }                                                                                                                  \
        part->a.f = total;                                                                                                 \
    }
#define STEP_COUNT(t, v) ((t) + ((v) != 0))
#define STEP_SUM(t, v) ((t) + (v))
#define STEP_SQUARE(t, v) ((t) + (v) * (v))
#define STEP_SCALED(t, v) ((t) + ((v) / about) * ((v) / about))
#define STEP_POWER(t, v) ((t) + pow((v) / about, p))
#define JOIN_SUM(t, v) ((t) + (v))
#define JOIN_count_f32 JOIN_SUM
#define JOIN_count_f64 JOIN_SUM
#define JOIN_sum_f32 JOIN_SUM
#define JOIN_sum_f64 JOIN_SUM
#define JOIN_square_f32 JOIN_SUM
#define JOIN_square_f64 JOIN_SUM
#define JOIN_scaled_f32 JOIN_SUM
#define JOIN_scaled_f64 JOIN_SUM
#define JOIN_power_f32 JOIN_SUM
#define JOIN_power_f64 JOIN_SUM
#define JOIN_most_f32 GD_MAX
#define JOIN_most_f64 GD_MAX
#define JOIN_least_f32 GD_MIN
#define JOIN_least_f64 GD_MIN

#define DEFINE_TILES(T, t)                                   \
    DEFINE_TILE(count_##t, T, 0, STEP_COUNT)                 \
    DEFINE_TILE(sum_##t, T, 0, STEP_SUM)                     \
    DEFINE_TILE(square_##t, T, 0, STEP_SQUARE)               \
    DEFINE_TILE(scaled_##t, T, 0, STEP_SCALED)               \
    DEFINE_TILE(power_##t, T, 0, STEP_POWER)                 \
    DEFINE_TILE(most_##t, T, 0, GD_MAX)                      \
    DEFINE_TILE(least_##t, T, (double)INFINITY, GD_MIN)
DEFINE_TILES(float, f32)
DEFINE_TILES(double, f64)

static void join_sum(gd_tile_part *part, const gd_tile_part *next) { part->a.f += next->a.f; }
static void join_most(gd_tile_part *part, const gd_tile_part *next) { part->a.f = GD_MAX(part->a.f, next->a.f); }
static void join_least(gd_tile_part *part, const gd_tile_part *next) { part->a.f = GD_MIN(part->a.f, next->a.f); }

typedef void tile_of(const gd_tiles *r, const char *x, double about, int64_t first, int64_t last, gd_tile_part *part);
typedef void join_of(gd_tile_part *part, const gd_tile_part *next);

static double total_of(const gd_tiles *r, const char *x, double about, tile_of *tile, join_of *join) {
    gd_tiles part = *r;
    part.tile = tile, part.join = join;
    return gd_tiles_total(&part, x, about).a.f;
}

static void store(const gd_tiles *r, int64_t o, double norm) {
    if (r->w.bytes == 4) ((float *)r->out)[o] = (float)norm;
    else ((double *)r->out)[o] = norm;
}

#define TILE(name) (r->w.bytes == 4 ? name##_f32 : name##_f64)

static void output_count(const gd_tiles *r, int64_t o) { store(r, o, total_of(r, gd_walk_output(&r->w, o), 1, TILE(count), join_sum)); }
static void output_sum(const gd_tiles *r, int64_t o) { store(r, o, total_of(r, gd_walk_output(&r->w, o), 1, TILE(sum), join_sum)); }
static void output_most(const gd_tiles *r, int64_t o) { store(r, o, total_of(r, gd_walk_output(&r->w, o), 1, TILE(most), join_most)); }
static void output_least(const gd_tiles *r, int64_t o) { store(r, o, total_of(r, gd_walk_output(&r->w, o), 1, TILE(least), join_least)); }

static void output_square(const gd_tiles *r, int64_t o) {
    const char *x = gd_walk_output(&r->w, o);
    const double sum = total_of(r, x, 1, TILE(square), join_sum);
    if (r->w.bytes == 4 || (sum > 0x1p-900 && sum < 0x1p1000) || sum != sum) {
        store(r, o, sqrt(sum));
        return;
    }
    const double most = total_of(r, x, 1, TILE(most), join_most);
    store(r, o, most == 0 || !(most < (double)INFINITY) ? most : most * sqrt(total_of(r, x, most, TILE(scaled), join_sum)));
}

/* Divided by the largest element, or by the smallest one for a negative p, powers are at most 1. */
static void output_power(const gd_tiles *r, int64_t o) {
    const char *x = gd_walk_output(&r->w, o);
    const double about = r->number > 0 ? total_of(r, x, 1, TILE(most), join_most) : total_of(r, x, 1, TILE(least), join_least);
    if (about == 0 || !(about < (double)INFINITY)) store(r, o, about);
    else store(r, o, about * pow(total_of(r, x, about, TILE(power), join_sum), 1 / r->number));
}

void GD_KERNEL(vector_norm)(const gd_args *a) {
    const double p = a->attr->f[0];
    gd_tiles r = {.out = a->out[0]->data, .number = p};
    gd_walk_init(&r.w, a->in[0], a->attr->i[0]);
    if (r.w.outputs == 0) return;
    if (r.w.count == 0) { /* the shape rule lets only norms pass that are 0 then */
        for (int64_t o = 0; o < r.w.outputs; o++) store(&r, o, 0);
        return;
    }
    r.output = p == 0 ? output_count : p == 1 ? output_sum : p == 2 ? output_square : p == (double)INFINITY ? output_most : p == -(double)INFINITY ? output_least : output_power;
    gd_tiles_all(&r);
}
