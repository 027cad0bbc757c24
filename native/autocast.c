/* autocast.c - mixed precision: the inputs of an op as its row in ops.def wants them while autocast is on. */
#include <stdlib.h>

#include "engine.h"

/* The casts of leaves, so that a weight used in every time step is cast once. One that is not there is made again:
 * the table has no chains and never grows. */
enum { CASTS = 1024 };
struct gd_cast_cache {
    uint32_t round; /* entries of earlier rounds do not count */
    struct { gd_tensor from, to; uint32_t version, round; } entry[CASTS];
};

void gd_autocast_forget(gd_thread *t) { t->casts->round++; }

void gd_autocast_end(gd_thread *t) {
    free(t->casts);
    t->casts = NULL;
}

static gd_tensor cast_leaf(gd_thread *t, const gd_node *n, uint32_t version, int dtype) {
    if (!t->casts && (gd_allocation_fails() || !(t->casts = calloc(1, sizeof *t->casts)))) {
        gd_fail(GD_ERR_MEMORY, "autocast: no memory for the table of casts, %zu bytes", sizeof *t->casts);
        return 0;
    }
    const gd_tensor from = n->self;
    const size_t place = (size_t)((from * 0x9E3779B97F4A7C15u) >> 32) % CASTS;
    if (t->casts->entry[place].from == from && t->casts->entry[place].round == t->casts->round && t->casts->entry[place].version == version) {
        const gd_node *made = gd_node_peek(t->casts->entry[place].to);
        /* one made under no_grad has no graph, and one of another dtype is another mode's */
        if (made && made->v.dtype == dtype && ((made->flags & GD_REQUIRES_GRAD) != 0) == t->grad_enabled) return made->self;
    }
    const gd_tensor to = gd_cast(from, dtype);
    if (!to) return 0;
    t->casts->entry[place].from = from;
    t->casts->entry[place].to = to;
    t->casts->entry[place].version = version;
    t->casts->entry[place].round = t->casts->round;
    return to;
}

gd_tensor gd_autocast_input(int op, gd_tensor in) {
    gd_thread *t = gd_self();
    const uint8_t flags = gd_ops[op].flags;
    gd_node *n = gd_node_of(in, gd_ops[op].name);
    if (!n) return 0;
    const int from = n->v.dtype, lower = t->autocast - 1;
    if (!t->autocast || (from != GD_FLOAT32 && !gd_is_half(from))) return in;
    const int dtype = flags & GD_OP_LOWER ? lower : flags & GD_OP_FULL ? GD_FLOAT32 : from;
    if (from == dtype) return in;
    const bool remember = t->autocast_cache && n->flags & GD_LEAF && n->flags & GD_REQUIRES_GRAD && n->base == in;
    return remember ? cast_leaf(t, n, gd_storage_version(n), dtype) : gd_cast(in, dtype);
}

gd_tensor gd_autocast_full(gd_tensor in) {
    gd_node *n = gd_node_of(in, "autocast");
    if (!n) return 0;
    return gd_self()->autocast && gd_is_half(n->v.dtype) ? gd_cast(in, GD_FLOAT32) : in;
}
