/* param.h - parameters: their slabs of five regions, and who still needs what was read of them. */
#ifndef GRADINO_PARAM_H
#define GRADINO_PARAM_H

#include "engine.h"

#pragma GCC visibility push(hidden)

enum { GD_REGIONS = 5 }; /* value, gradient, previous gradient (momentum), first and second Adam moment */
/* The slabs (slab.c): the same bytes in all regions, of float32 or float64. Unused bytes are always zero. Under the lock. */
void gd_slab_lock(void);
void gd_slab_unlock(void);
gd_status gd_slab_take(int device, int dtype, int64_t bytes, void **ptr);
void gd_slab_give_back(int device, int dtype, const void *ptr, int64_t bytes);
int64_t gd_slab_bytes(int device, bool committed); /* in use on a device, or held */
enum { GD_MAX_SQUARE = GD_REGIONS, GD_STATES }; /* number of amsgrad's largest second moment; of all states */
typedef struct gd_param {
    void *ptr[GD_REGIONS];
    gd_tensor state[GD_STATES];  /* a tensor over each, made on demand; [0] is the parameter */
    void *max_exp_avg_sq;        /* amsgrad only */
    const gd_optimizer *owner;   /* whose moments these are */
    int64_t group, index;        /* where the optimizer that took it last lists it */
    struct gd_param *next;       /* among the records of freed parameters, or the abandoned ones */
    gd_tensor first_user, last_user; /* results of recorded ops that read it: the oldest that may need it, the newest */
    int64_t bytes;               /* of one region, 64-byte multiple */
    int64_t holds;               /* exports of its values */
    uint8_t used;                /* bit per state that holds something */
    uint8_t dtype, device;
    bool in_slab, freed, abandoned;
} gd_param;
/* Of tensors that any thread may have made, and whose arena it may be closing. */
bool gd_lives_elsewhere(gd_tensor h);
bool gd_user_waits_elsewhere(gd_tensor user);
static inline bool gd_lives(gd_tensor h) {
    return h && (gd_arena_by_handle(h) == gd_self()->active ? gd_node_peek(h) != NULL : gd_lives_elsewhere(h));
}
/* Whether a backward may still come to the result of an op. */
static inline bool gd_user_waits(gd_tensor user) {
    if (!user) return false;
    if (gd_arena_by_handle(user) != gd_self()->active) return gd_user_waits_elsewhere(user);
    const gd_node *n = gd_node_peek(user);
    return n && !(n->work & GD_FREED);
}
/* Notes that the op of `user` read the parameter. Of several graphs the oldest dies last where arenas nest. */
static inline void gd_param_used(gd_param *p, const gd_node *user) {
    if (!gd_user_waits(__atomic_load_n(&p->first_user, __ATOMIC_RELAXED))) {
        gd_tensor last = __atomic_load_n(&p->last_user, __ATOMIC_RELAXED);
        __atomic_store_n(&p->first_user, gd_user_waits(last) ? last : user->self, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&p->last_user, user->self, __ATOMIC_RELAXED);
}
/* Gives a plain leaf the buffers an optimizer needs (in the permanent arena). */
gd_status gd_param_adopt(gd_node *n);
/* The gradient tensor of a parameter, made on demand; 0 with an error set. */
gd_tensor gd_param_state_tensor(gd_node *n, int which);
/* While a parameter is held its place in the slab is not used again, even if it is freed. */
void gd_param_hold(gd_param *p);
void gd_param_drop(gd_param *p);
/* A gradient with a graph stands beside the slab: takes over into the slab what was written to it in place. */
void gd_grad_settle(gd_node *n);
/* Memory for amsgrad's maximum. */
gd_status gd_param_amsgrad(gd_param *p);
void gd_grad_clear(gd_node *n);
gd_status gd_optimizer_apply(gd_optimizer *o, gd_node *parameter, const void *grad); /* one parameter, inside backward */
bool gd_optimizer_has(const gd_optimizer *o, gd_tensor parameter);

#pragma GCC visibility pop
#endif
