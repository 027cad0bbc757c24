/* recycle.h - memory of gradients that a backward is done with: its next ones are written there, so that a deep
 * graph needs no more of it than a shallow one. */
#ifndef GRADINO_RECYCLE_H
#define GRADINO_RECYCLE_H

#include "engine.h"

#pragma GCC visibility push(hidden)

/* A tensor that an op makes during a backward without create_graph is marked GD_PASSING and counts in `pending` who
 * holds its memory: the rule that made it, each input it was given to, and grad(), which hands it out. Only the run
 * itself has handles to it. When the last one lets go, the memory is free and the handles are stale. */
enum { GD_FREE_SIZES = 48 }; /* powers of two, from GD_ALIGN on */
typedef struct gd_recycler {
    gd_arena *arena;
    int64_t least;                /* bytes that are worth it */
    gd_node *made;                /* by the rule that runs, newest first */
    uint64_t filled;              /* a bit per size: whether its list is not empty, */
    gd_node *free[GD_FREE_SIZES]; /* last freed first; undefined where it is */
} gd_recycler;

void gd_recycler_start(gd_recycler *r, gd_arena *a);
/* Free memory of a device for so many bytes, of a size that is put into *room; NULL if there is none. Lock of the arena held. */
void *gd_recycler_take(gd_recycler *r, int device, int64_t bytes, int64_t *room);
/* n has `room` bytes of its own and is held by the rule that runs. */
void gd_recycler_made(gd_recycler *r, gd_node *n, int64_t room);
void gd_recycler_free(gd_recycler *r, gd_node *storage);
void gd_recycler_sweep_made(gd_recycler *r);
/* The rule has ended: what nobody else holds is free. */
static inline void gd_recycler_sweep(gd_recycler *r) {
    if (r->made) gd_recycler_sweep_made(r);
}

/* The storage of h. The memory of another tensor than one marked GD_PASSING is not recycled. */
static inline gd_node *gd_storage_of(gd_tensor h) {
    gd_node *n = gd_node_peek(h);
    return n ? gd_storage(n) : NULL;
}
static inline void gd_recycler_hold(gd_tensor h) {
    gd_node *storage = gd_storage_of(h);
    if (storage && storage->work & GD_PASSING) storage->pending++;
}
static inline void gd_recycler_drop(gd_recycler *r, gd_tensor h) {
    gd_node *storage = gd_storage_of(h);
    if (storage && storage->work & GD_PASSING && --storage->pending == 0) gd_recycler_free(r, storage);
}

#pragma GCC visibility pop
#endif
