/* channel_norm_driver.h - batch norm and group norm and their gradients, out of row functions that the including file has
 * defined: row_moments (norm_driver.h) and, for name f32 and f64, type T, contiguous arrays of n <= GD_BLOCK elements,
 *   void row_affine_<name>(x, c, w, b, y, n, stream)         y = xh w + b
 *   bool row_plane_dots_<name>(g, x, c, n, sums)             sums[0] += sum(g), sums[1] += sum(g xh); whether a g is not 0
 *   void row_plane_dx_<name>(g, x, c, w, a, dx, n, stream)   dx = scale (g w - a[0] - a[1] xh); a NULL: scale g w
 *   void norm_fence()                                        after the streaming of a task
 * with xh = (x - high - low) scale; terms with g = 0 are 0.
 *
 * Work is cut into units (a plane, or a tile of a large one), whose float64 sums join in order into those of a segment.
 * Many segments: each is a task of its own, whose elements are still in the cache when they are read again. Few: the units
 * are tasks. Both ways have the same bits. Small planes are worked on as columns, across channels (channel_columns.h). */
#ifndef GRADINO_CHANNEL_NORM_DRIVER_H
#define GRADINO_CHANNEL_NORM_DRIVER_H

#include "channel_norm.h"
#include "rows.h"

typedef struct gd_channel_run {
    gd_channels x, g;
    gd_channel_cut cut;
    int64_t groups, count;       /* elements of a segment */
    const char *w, *b;           /* one per channel, or NULL */
    int64_t w_step, b_step;
    double eps, *stats;          /* (segments, 3) */
    char *out, *dw, *db;         /* y, or dx, each or NULL */
    double *sums, *totals;       /* (units, 2 or 3), of backward also (segments, 3) */
    bool own, stream;            /* own: the statistics are those of x */
    int passes;                  /* over x for its moments */
    int64_t per_task;            /* segments or units of a task */
    /* of one unit or segment */
    void (*gather)(const struct gd_channel_run *r, int64_t unit);
    void (*join)(const struct gd_channel_run *r, int64_t segment, int pass);
    void (*put)(const struct gd_channel_run *r, int64_t unit);
    void (*strip)(const struct gd_channel_run *r, int64_t first, int64_t channels);
} gd_channel_run;

/* Where a unit stands. */
typedef struct gd_channel_unit { int64_t n, c, first, last, segment; } gd_channel_unit;

static inline gd_channel_unit channel_unit(const gd_channel_run *r, int64_t unit) {
    gd_channel_unit u;
    const int64_t plane = unit / r->cut.tiles;
    u.n = plane / r->x.c, u.c = plane % r->x.c;
    u.first = unit % r->cut.tiles * GD_CHANNEL_UNIT;
    u.last = u.first + GD_CHANNEL_UNIT < r->x.s ? u.first + GD_CHANNEL_UNIT : r->x.s;
    u.segment = r->groups ? u.n * r->groups + u.c / r->cut.planes : u.c;
    return u;
}

static inline const char *channel_plane(const gd_channels *v, int64_t n, int64_t c) { return v->x + (n * v->n_step + c * v->c_step) * v->bytes; }

/* Elements first .. first + n of a plane side by side: where they are, or copied to the buffer. */
static inline const void *channel_block(const gd_channels *v, const char *plane, int64_t first, int64_t n, void *buffer) {
    if (v->dense) return plane + first * v->bytes;
    char *to = buffer;
    for (int64_t row = first / v->w, at = first % v->w; n; row++, at = 0) {
        const int64_t run = v->w - at < n ? v->w - at : n;
        gd_walk_copy(to, plane + (row * v->h_step + at * v->w_step) * v->bytes, v->w_step, run, v->bytes);
        to += run * v->bytes;
        n -= run;
    }
    return buffer;
}

#define GD_EACH_UNIT_BLOCK(u) \
    for (int64_t first = (u).first, n = 0; first < (u).last && (n = (u).last - first < GD_BLOCK ? (u).last - first : GD_BLOCK); first += n)

/* Unit number k of a segment, in the order in which sums join. */
static inline int64_t channel_unit_of(const gd_channel_run *r, int64_t segment, int64_t k) {
    const int64_t plane = k / r->cut.tiles, tile = k % r->cut.tiles;
    const int64_t at = r->groups ? segment * r->cut.planes + plane : plane * r->x.c + segment;
    return at * r->cut.tiles + tile;
}

static inline double *channel_stats(const gd_channel_run *r, int64_t segment) { return r->stats + GD_STATISTICS * segment; }

static inline void channel_finish(const gd_channel_run *r, double *stats, double variance) {
    stats[2] = variance < 0 ? 0 : variance;
    stats[1] = 1 / __builtin_sqrt(stats[2] + r->eps);
}

#define GD_DEFINE_CHANNEL_NORM(name, T)                                                                       \
    static inline T channel_number_##name(const char *p, int64_t step, int64_t c, T none) { return p ? ((const T *)p)[c * step] : none; } \
    static inline gd_norm_##name channel_constants_##name(const double *stats) {                              \
        const T high = (T)stats[0];                                                                           \
        return (gd_norm_##name){high, (T)(stats[0] - (double)high), (T)stats[1]};                             \
    }                                                                                                         \
    /* The first element of a segment: its moments are taken about that. */                                   \
    static inline double channel_pivot_##name(const gd_channel_run *r, int64_t segment) {                     \
        const gd_channel_unit u = channel_unit(r, channel_unit_of(r, segment, 0));                            \
        return (double)*(const T *)channel_plane(&r->x, u.n, u.c);                                            \
    }                                                                                                         \
    static void channel_moments_##name(const gd_channel_run *r, int64_t unit) {                               \
        int64_t buffer[GD_BLOCK];                                                                             \
        const gd_channel_unit u = channel_unit(r, unit);                                                      \
        const char *x = channel_plane(&r->x, u.n, u.c);                                                       \
        double s = 0, q = 0;                                                                                  \
        const double about = channel_stats(r, u.segment)[0];                                                  \
        GD_EACH_UNIT_BLOCK(u) row_moments_##name(channel_block(&r->x, x, first, n, buffer), about, n, &s, &q); \
        r->sums[2 * unit] = s, r->sums[2 * unit + 1] = q;                                                     \
    }                                                                                                         \
    /* pass -1: before the first one. */                                                                      \
    static void channel_join_##name(const gd_channel_run *r, int64_t segment, int pass) {                     \
        double *stats = channel_stats(r, segment), s = 0, q = 0;                                              \
        if (pass < 0) {                                                                                       \
            stats[0] = channel_pivot_##name(r, segment);                                                      \
            return;                                                                                           \
        }                                                                                                     \
        for (int64_t k = 0, units = r->cut.planes * r->cut.tiles; k < units; k++) {                           \
            const double *sums = r->sums + 2 * channel_unit_of(r, segment, k);                                \
            s += sums[0], q += sums[1];                                                                       \
        }                                                                                                     \
        const double shift = s / (double)r->count;                                                            \
        stats[0] += shift;                                                                                    \
        channel_finish(r, stats, q / (double)r->count - shift * shift);                                       \
    }                                                                                                         \
    static void channel_put_##name(const gd_channel_run *r, int64_t unit) {                                   \
        int64_t buffer[GD_BLOCK];                                                                             \
        const gd_channel_unit u = channel_unit(r, unit);                                                      \
        const char *x = channel_plane(&r->x, u.n, u.c);                                                       \
        const gd_norm_##name c = channel_constants_##name(channel_stats(r, u.segment));                       \
        const T w = channel_number_##name(r->w, r->w_step, u.c, 1), b = channel_number_##name(r->b, r->b_step, u.c, 0); \
        T *y = (T *)r->out + (u.n * r->x.c + u.c) * r->x.s;                                                   \
        GD_EACH_UNIT_BLOCK(u) row_affine_##name(channel_block(&r->x, x, first, n, buffer), &c, w, b, y + first, n, r->stream); \
    }                                                                                                         \
    static void channel_dots_##name(const gd_channel_run *r, int64_t unit) {                                  \
        int64_t x_buffer[GD_BLOCK], g_buffer[GD_BLOCK];                                                       \
        const gd_channel_unit u = channel_unit(r, unit);                                                      \
        const char *x = channel_plane(&r->x, u.n, u.c), *g = channel_plane(&r->g, u.n, u.c);                  \
        const gd_norm_##name c = channel_constants_##name(channel_stats(r, u.segment));                       \
        double *sums = r->sums + 3 * unit;                                                                    \
        bool any = false;                                                                                     \
        sums[0] = sums[1] = 0;                                                                                \
        GD_EACH_UNIT_BLOCK(u) any |= row_plane_dots_##name(channel_block(&r->g, g, first, n, g_buffer), channel_block(&r->x, x, first, n, x_buffer), &c, n, sums); \
        sums[2] = any;                                                                                        \
    }                                                                                                         \
    /* The sums of a segment, each weighted with its channel's weight. Sums of batch norm's channels are the  \
     * gradients of their parameters, too. */                                                                 \
    static void channel_join_dots_##name(const gd_channel_run *r, int64_t segment, int pass) {                \
        double total[3] = {0, 0, 0};                                                                          \
        (void)pass;                                                                                           \
        for (int64_t k = 0, units = r->cut.planes * r->cut.tiles; k < units; k++) {                           \
            const int64_t unit = channel_unit_of(r, segment, k);                                              \
            const double *sums = r->sums + 3 * unit;                                                          \
            const double w = r->groups ? (double)channel_number_##name(r->w, r->w_step, unit / r->cut.tiles % r->x.c, 1) : 1; \
            if (sums[2] == 0) continue;                                                                       \
            total[0] += sums[0] * w, total[1] += sums[1] * w, total[2] = 1;                                   \
        }                                                                                                     \
        if (!r->groups) {                                                                                     \
            const double w = (double)channel_number_##name(r->w, r->w_step, segment, 1);                      \
            if (r->dw) ((T *)r->dw)[segment] = (T)total[1];                                                   \
            if (r->db) ((T *)r->db)[segment] = (T)total[0];                                                   \
            total[0] *= w, total[1] *= w;                                                                     \
        }                                                                                                     \
        memcpy(r->totals + 3 * segment, total, sizeof total);                                                 \
    }                                                                                                         \
    static void channel_slope_##name(const gd_channel_run *r, int64_t unit) {                                 \
        int64_t x_buffer[GD_BLOCK], g_buffer[GD_BLOCK];                                                       \
        const gd_channel_unit u = channel_unit(r, unit);                                                      \
        const char *x = channel_plane(&r->x, u.n, u.c), *g = channel_plane(&r->g, u.n, u.c);                  \
        const gd_norm_##name c = channel_constants_##name(channel_stats(r, u.segment));                       \
        const double *sums = r->totals + 3 * u.segment;                                                       \
        const T w = channel_number_##name(r->w, r->w_step, u.c, 1);                                           \
        const T a[2] = {(T)(sums[0] / (double)r->count), (T)(sums[1] / (double)r->count)};                    \
        T *dx = (T *)r->out + (u.n * r->x.c + u.c) * r->x.s;                                                  \
        if (sums[2] == 0) { /* no gradient: what x holds, NaN say, is nobody's affair */                      \
            memset(dx + u.first, 0, (size_t)(u.last - u.first) * sizeof *dx);                                 \
            return;                                                                                           \
        }                                                                                                     \
        GD_EACH_UNIT_BLOCK(u) row_plane_dx_##name(channel_block(&r->g, g, first, n, g_buffer), channel_block(&r->x, x, first, n, x_buffer), &c, w, \
                                                  r->own ? a : NULL, dx + first, n, r->stream);               \
    }                                                                                                         \
    /* Group norm: the gradients of the parameters, over all samples. */                                      \
    static void channel_parameters_##name(const gd_channel_run *r) {                                          \
        for (int64_t c = 0; c < r->x.c; c++) {                                                                \
            double total[2] = {0, 0};                                                                         \
            for (int64_t n = 0; n < r->x.n; n++)                                                              \
                for (int64_t tile = 0; tile < r->cut.tiles; tile++) {                                         \
                    const double *sums = r->sums + 3 * ((n * r->x.c + c) * r->cut.tiles + tile);              \
                    total[0] += sums[0], total[1] += sums[1];                                                 \
                }                                                                                             \
            if (r->dw) ((T *)r->dw)[c] = (T)total[1];                                                         \
            if (r->db) ((T *)r->db)[c] = (T)total[0];                                                         \
        }                                                                                                     \
    }
GD_DEFINE_CHANNEL_NORM(f32, float)
GD_DEFINE_CHANNEL_NORM(f64, double)

#include "channel_columns.h"

/* ---- Tasks --------------------------------------------------------------------------------------------------- */

static inline void channel_gather_task(void *ctx, int64_t i, int worker) {
    const gd_channel_run *r = ctx;
    (void)worker;
    for (int64_t unit = i * r->per_task; unit < (i + 1) * r->per_task && unit < r->cut.units; unit++) r->gather(r, unit);
}

static inline void channel_put_task(void *ctx, int64_t i, int worker) {
    const gd_channel_run *r = ctx;
    (void)worker;
    for (int64_t unit = i * r->per_task; unit < (i + 1) * r->per_task && unit < r->cut.units; unit++) r->put(r, unit);
    norm_fence();
}

/* A whole segment: its sums and, while it is in the cache, its elements. */
static inline void channel_segment(const gd_channel_run *r, int64_t segment, bool put) {
    const int64_t units = r->cut.planes * r->cut.tiles;
    if (r->passes) r->join(r, segment, -1);
    for (int pass = 0; pass < (r->passes ? r->passes : 1); pass++) {
        for (int64_t k = 0; k < units; k++) r->gather(r, channel_unit_of(r, segment, k));
        r->join(r, segment, pass);
    }
    for (int64_t k = 0; put && k < units; k++) r->put(r, channel_unit_of(r, segment, k));
}

static inline void channel_segment_task(void *ctx, int64_t i, int worker) {
    const gd_channel_run *r = ctx;
    (void)worker;
    for (int64_t s = i * r->per_task; s < (i + 1) * r->per_task && s < r->cut.segments; s++) channel_segment(r, s, r->out != NULL);
    norm_fence();
}

static inline void channel_tasks(gd_channel_run *r, int64_t items, int64_t item_elements, void (*task)(void *ctx, int64_t i, int worker)) {
    r->per_task = item_elements < GD_NORM_TASK ? GD_NORM_TASK / (item_elements ? item_elements : 1) : 1;
    const int64_t tasks = (items + r->per_task - 1) / r->per_task;
    if (items * item_elements <= GD_NORM_SERIAL) for (int64_t i = 0; i < tasks; i++) task(r, i, 0);
    else gd_parallel(tasks, task, r);
}

/* only_put: the statistics are there already. */
static inline void channel_run(gd_channel_run *r, bool only_put) {
    const int64_t unit = r->x.s < GD_CHANNEL_UNIT ? r->x.s : GD_CHANNEL_UNIT;
    if (!only_put && (r->cut.segments >= GD_CHANNEL_SEGMENTS || gd_parallel_width() == 1)) {
        channel_tasks(r, r->cut.segments, r->count, channel_segment_task);
        return;
    }
    for (int64_t s = 0; s < r->cut.segments && !only_put && r->passes; s++) r->join(r, s, -1);
    for (int pass = 0; pass < (r->passes ? r->passes : 1) && !only_put; pass++) {
        channel_tasks(r, r->cut.units, unit, channel_gather_task);
        for (int64_t s = 0; s < r->cut.segments; s++) r->join(r, s, pass);
    }
    if (r->out) channel_tasks(r, r->cut.units, unit, channel_put_task);
}

static inline void channel_strip_task(void *ctx, int64_t i, int worker) {
    const gd_channel_run *r = ctx;
    const int64_t most = GD_CHANNEL_STRIP / r->x.s, left = r->x.c - i * most;
    (void)worker;
    r->strip(r, i * most, left < most ? left : most);
}

static inline void channel_strips(gd_channel_run *r) {
    const int64_t most = GD_CHANNEL_STRIP / r->x.s, tasks = (r->x.c + most - 1) / most;
    if (r->x.c * r->count <= GD_NORM_SERIAL) for (int64_t i = 0; i < tasks; i++) channel_strip_task(r, i, 0);
    else gd_parallel(tasks, channel_strip_task, r);
}

/* ---- Kernels ------------------------------------------------------------------------------------------------- */

static inline void channel_vector(const gd_view *v, const char **p, int64_t *step) {
    *p = v ? v->data : NULL;
    *step = v ? v->strides[3] : 0;
}

/* Without statistics of its own: those given. */
static inline void channel_given(const gd_channel_run *r, const gd_view *mean, const gd_view *var) {
    for (int64_t c = 0; c < r->cut.segments; c++) {
        const bool single = mean->dtype == GD_FLOAT32;
        double *stats = channel_stats(r, c);
        stats[0] = single ? (double)((const float *)mean->data)[c * mean->strides[3]] : ((const double *)mean->data)[c * mean->strides[3]];
        stats[2] = single ? (double)((const float *)var->data)[c * var->strides[3]] : ((const double *)var->data)[c * var->strides[3]];
        stats[1] = 1 / __builtin_sqrt(stats[2] + r->eps);
    }
}

/* (x, weight?, bias?, mean?, var?) -> y, statistics. groups 0: batch norm. */
static inline void gd_channel_norm_forward(const gd_args *a, int64_t groups) {
    gd_channel_run r = {.x = gd_channels_of(a->in[0]), .groups = groups, .eps = a->attr->f[0], .out = a->out[0]->data, .stats = a->out[1]->data,
                        .sums = a->workspace, .own = groups || a->attr->i[0]};
    const bool single = r.x.bytes == 4;
    channel_vector(a->in[1], &r.w, &r.w_step);
    channel_vector(a->in[2], &r.b, &r.b_step);
    r.cut = gd_channel_cut_of(&r.x, groups);
    r.count = r.cut.planes * r.x.s;
    r.stream = gd_numel(a->in[0]) * r.x.bytes >= GD_NORM_STREAM;
    r.passes = single ? 1 : 2;
    r.gather = single ? channel_moments_f32 : channel_moments_f64;
    r.join = single ? channel_join_f32 : channel_join_f64;
    r.put = single ? channel_put_f32 : channel_put_f64;
    r.strip = single ? channel_strip_f32 : channel_strip_f64;
    if (!r.own) channel_given(&r, a->in[3], a->in[4]);
    if (r.count == 0) {
        for (int64_t s = 0; s < r.cut.segments && r.own; s++) channel_stats(&r, s)[0] = 0, channel_finish(&r, channel_stats(&r, s), 0);
        return;
    }
    if (r.cut.segments == 0) return;
    if (r.cut.columns) channel_strips(&r);
    else channel_run(&r, !r.own);
}

/* (g, x, weight?, statistics) -> dx, dweight, dbias; those that are not wanted are empty. */
static inline void gd_channel_norm_backward(const gd_args *a, int64_t groups) {
    const int wanted = (int)a->attr->i[1];
    gd_channel_run r = {.x = gd_channels_of(a->in[1]), .g = gd_channels_of(a->in[0]), .groups = groups, .stats = a->in[3]->data, .sums = a->workspace,
                        .own = groups || a->attr->i[0]};
    const bool single = r.x.bytes == 4;
    channel_vector(a->in[2], &r.w, &r.w_step);
    r.cut = gd_channel_cut_of(&r.x, groups);
    r.count = r.cut.planes * r.x.s;
    r.out = wanted & GD_NORM_DX ? a->out[0]->data : NULL;
    r.dw = wanted & GD_NORM_DW ? a->out[1]->data : NULL;
    r.db = wanted & GD_NORM_DB ? a->out[2]->data : NULL;
    r.stream = gd_numel(a->in[1]) * r.x.bytes >= GD_NORM_STREAM;
    r.gather = single ? channel_dots_f32 : channel_dots_f64;
    r.join = single ? channel_join_dots_f32 : channel_join_dots_f64;
    r.put = single ? channel_slope_f32 : channel_slope_f64;
    r.strip = single ? channel_strip_bwd_f32 : channel_strip_bwd_f64;
    if (r.count == 0 || r.cut.segments == 0) {
        for (int k = 1; k < 3; k++)
            if (wanted >> k & 1 && r.x.c) memset(a->out[k]->data, 0, (size_t)(r.x.c * r.x.bytes));
        return;
    }
    r.totals = r.sums + 3 * r.cut.units;
    if (r.cut.columns) channel_strips(&r);
    else channel_run(&r, false);
    if (groups && (r.dw || r.db)) (single ? channel_parameters_f32 : channel_parameters_f64)(&r);
}

#endif
