/* channel_norm.h - batch norm and group norm as their shape rules and kernels see them: x as (N, C, S), how it is cut
 * into units of work, and the workspace that takes. */
#ifndef GRADINO_CHANNEL_NORM_H
#define GRADINO_CHANNEL_NORM_H

#include "norm.h"

enum {
    GD_CHANNEL_UNIT = 8 * 1024,    /* elements of a plane that are one unit: about 2 us */
    GD_CHANNEL_SEGMENTS = 16,      /* with fewer segments, units are tasks instead of segments */
    GD_CHANNEL_COLUMNS = 16,       /* planes smaller than this are worked on as columns, across channels */
    GD_CHANNEL_STRIP = 64          /* columns worked on together: their float64 sums stay in L1 */
};
enum { GD_STATISTICS = 3 };        /* mean, 1 / sqrt(var + eps), var */

/* x (N, C), (N, C, L) or (N, C, H, W) as n samples of c channels, whose planes have h rows of w elements. */
typedef struct gd_channels {
    const char *x;
    int64_t bytes, n, c, h, w, s;  /* s = h w */
    int64_t n_step, c_step, h_step, w_step;
    bool dense;                    /* the elements of a plane lie side by side */
} gd_channels;

static inline gd_channels gd_channels_of(const gd_view *v) {
    const int n = GD_DIMS - v->rank, c = n + 1;
    gd_channels r = {.x = v->data, .bytes = gd_dtype_bytes(v->dtype), .n = v->shape[n], .c = v->shape[c], .h = 1, .w = 1, .n_step = v->strides[n],
                     .c_step = v->strides[c], .w_step = 1};
    if (v->rank > 2) r.w = v->shape[3], r.w_step = v->strides[3];
    if (v->rank > 3) r.h = v->shape[2], r.h_step = v->strides[2];
    r.s = r.h * r.w;
    r.dense = (r.w == 1 || r.w_step == 1) && (r.h == 1 || r.h_step == r.w * (r.w == 1 ? 1 : r.w_step));
    if (r.w == 1 && r.h > 1) r.dense = r.h_step == 1;
    return r;
}

/* A segment is what shares statistics: a channel of all samples (groups 0), or a group of channels of one sample. */
typedef struct gd_channel_cut {
    int64_t segments, planes;      /* planes of one segment */
    int64_t tiles, units;          /* units of a plane, and of all */
    bool columns;
} gd_channel_cut;

static inline gd_channel_cut gd_channel_cut_of(const gd_channels *x, int64_t groups) {
    gd_channel_cut cut;
    cut.segments = groups ? x->n * groups : x->c;
    cut.planes = groups ? x->c / groups : x->n;
    cut.tiles = (x->s + GD_CHANNEL_UNIT - 1) / GD_CHANNEL_UNIT;
    cut.units = x->n * x->c * cut.tiles;
    cut.columns = !groups && x->s < GD_CHANNEL_COLUMNS;
    return cut;
}

/* Bytes of workspace: two (forward) or three float64 sums of each unit, backward also of each segment; columns need none. */
static inline int64_t gd_channel_workspace(const gd_channels *x, int64_t groups, int sums) {
    const gd_channel_cut cut = gd_channel_cut_of(x, groups);
    return cut.columns ? 0 : (cut.units * sums + (sums == 3 ? 3 * cut.segments : 0)) * (int64_t)sizeof(double);
}

#endif
