/* kept.h - tensors that keep() put into the permanent arena, as their makers and readers see them. */
#ifndef GRADINO_KEPT_H
#define GRADINO_KEPT_H

#include "engine.h"
#include "param.h"

#pragma GCC visibility push(hidden)

enum { GD_KEPT = 1 << 7 }; /* one more flag of nodes: its place is used again once it was given up */
/* A kept tensor is a leaf, so the fields for recorded inputs are free: the oldest and the newest tensor that may
 * still read it, the next one in a list, and whether it was given up. */
enum { GD_FIRST_USER = 0, GD_LAST_USER = 1, GD_NEXT_KEPT = 2, GD_GIVEN_UP = 0 /* in version_small */ };

/* A new tensor in the permanent arena; NULL with an error set. */
gd_node *gd_kept_new(const gd_view *like);
/* Nobody holds the handle any more. Its place is used again when nothing that read it lives. */
void gd_kept_give_up(gd_tensor kept);
/* Notes that `user`, a view or the result of a recorded op, may still read it. Of several the oldest dies last
 * where arenas nest. */
static inline void gd_kept_used(gd_node *kept, gd_tensor user) {
    if (!gd_lives(__atomic_load_n(&kept->in_small[GD_FIRST_USER], __ATOMIC_RELAXED))) {
        gd_tensor last = __atomic_load_n(&kept->in_small[GD_LAST_USER], __ATOMIC_RELAXED);
        __atomic_store_n(&kept->in_small[GD_FIRST_USER], gd_lives(last) ? last : user, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&kept->in_small[GD_LAST_USER], user, __ATOMIC_RELAXED);
}

#pragma GCC visibility pop
#endif
