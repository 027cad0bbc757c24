/* tiles.h - reductions whose partial results are more than a number: moments, shifted exponentials, places.
 * The order is canonical as in reduce.h: tiles of GD_TILE elements, joined in order. Few long outputs are shared
 * among the threads tile by tile, many short ones output by output. */
#ifndef GRADINO_TILES_H
#define GRADINO_TILES_H

#include "rows.h"

enum { GD_TILE_PARTS = 512 }; /* partial results on the stack: 12 KiB */

/* What one tile, or several joined, came to; the reduction knows what the fields are. */
typedef struct gd_tile_part {
    union {
        double f;
        int64_t i;
    } a;
    double b;
    int64_t index;
} gd_tile_part;

typedef struct gd_tiles {
    gd_walk w;
    void *out, *indices;
    double number;            /* an attribute */
    bool split;               /* share the tiles of each output */
    int64_t task_outputs;
    /* *part = the result of elements first .. last of the output at x; about: a number for all tiles */
    void (*tile)(const struct gd_tiles *r, const char *x, double about, int64_t first, int64_t last, gd_tile_part *part);
    void (*join)(gd_tile_part *part, const gd_tile_part *next);
    void (*output)(const struct gd_tiles *r, int64_t o); /* calls gd_tiles_total and stores what comes of it */
} gd_tiles;

typedef struct gd_tiles_split {
    const gd_tiles *r;
    const char *x;
    double about;
    int64_t first;
    gd_tile_part *parts;
} gd_tiles_split;

static inline void gd_tiles_one(const gd_tiles *r, const char *x, double about, int64_t tile, gd_tile_part *part) {
    const int64_t first = tile * GD_TILE, last = first + GD_TILE;
    r->tile(r, x, about, first, last < r->w.count ? last : r->w.count, part);
}

static inline void gd_tiles_split_task(void *ctx, int64_t i, int worker) {
    const gd_tiles_split *s = ctx;
    (void)worker;
    gd_tiles_one(s->r, s->x, s->about, s->first + i, s->parts + i);
}

/* All tiles of the output at x, joined. There is at least one element. */
static inline gd_tile_part gd_tiles_total(const gd_tiles *r, const char *x, double about) {
    const int64_t tiles = (r->w.count + GD_TILE - 1) / GD_TILE;
    gd_tile_part total, next;
    if (!r->split) {
        gd_tiles_one(r, x, about, 0, &total);
        for (int64_t t = 1; t < tiles; t++) {
            gd_tiles_one(r, x, about, t, &next);
            r->join(&total, &next);
        }
        return total;
    }
    gd_tile_part parts[GD_TILE_PARTS];
    gd_tiles_split s = {r, x, about, 0, parts};
    for (; s.first < tiles; s.first += GD_TILE_PARTS) {
        const int64_t n = tiles - s.first < GD_TILE_PARTS ? tiles - s.first : GD_TILE_PARTS;
        gd_parallel(n, gd_tiles_split_task, &s);
        if (s.first == 0) total = parts[0];
        for (int64_t t = s.first == 0; t < n; t++) r->join(&total, parts + t);
    }
    return total;
}

static inline void gd_tiles_task(void *ctx, int64_t i, int worker) {
    const gd_tiles *r = ctx;
    (void)worker;
    const int64_t last = (i + 1) * r->task_outputs < r->w.outputs ? (i + 1) * r->task_outputs : r->w.outputs;
    for (int64_t o = i * r->task_outputs; o < last; o++) r->output(r, o);
}

static inline void gd_tiles_all(gd_tiles *r) {
    if (r->w.outputs == 0) return;
    const int64_t work = r->w.outputs * r->w.count;
    r->task_outputs = work <= GD_SERIAL ? r->w.outputs : r->w.count < GD_TASK ? GD_TASK / r->w.count : 1;
    int64_t tasks = (r->w.outputs + r->task_outputs - 1) / r->task_outputs;
    r->split = work > GD_SERIAL && tasks < GD_FEW_TASKS && r->w.count >= 2 * GD_TILE;
    if (r->split) r->task_outputs = r->w.outputs, tasks = 1;
    if (tasks == 1) gd_tiles_task(r, 0, 0);
    else gd_parallel(tasks, gd_tiles_task, r);
}

#endif
