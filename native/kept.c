/* kept.c - tensors that keep() put into the permanent arena: when one is given up, its place serves the next of
 * its size, so a value carried from step to step takes no more room in the end than in the beginning. */
#include "kept.h"
#include "param.h"

/* Sizes in 64 bytes up to 4 KiB, above in eighths of a power of two. */
enum { SMALL = 4096, SMALL_SIZES = SMALL / GD_ALIGN, SIZES = SMALL_SIZES + 8 * 48 };
enum { LOOK_AT = 8 }; /* tensors given up that each new one looks at: more than come in, and little work */

/* Guarded by the permanent arena's lock. */
static gd_tensor first_waiting, last_waiting; /* given up, perhaps still read */
static gd_tensor free_places[1 + GD_MAX_DEVICES][SIZES]; /* by device */

/* Rounds bytes up to the size of a place; returns its number. */
static int place_size(int64_t *bytes) {
    *bytes = *bytes ? (*bytes + GD_ALIGN - 1) & -(int64_t)GD_ALIGN : GD_ALIGN;
    if (*bytes <= SMALL) return (int)(*bytes / GD_ALIGN) - 1;
    int shift = 63 - __builtin_clzll((unsigned long long)(*bytes - 1)) - 3; /* 9 to 16 eighths */
    *bytes = ((*bytes - 1) >> shift) + 1;
    int size = SMALL_SIZES + (shift - 9) * 8 + (int)*bytes - 9;
    *bytes <<= shift;
    return size;
}

static int64_t bytes_of(const gd_view *v) { return gd_numel(v) * gd_dtype_bytes(v->dtype); }

static void append(gd_node *n) {
    n->in_small[GD_NEXT_KEPT] = 0;
    gd_node *last = gd_node_peek(last_waiting);
    if (last) last->in_small[GD_NEXT_KEPT] = n->self;
    else first_waiting = n->self;
    last_waiting = n->self;
}

/* Whether a tensor that may read it lives; forever: in an arena that is never emptied. */
static bool is_read(const gd_node *n, bool *forever) {
    bool read = false;
    for (int k = GD_FIRST_USER; k <= GD_LAST_USER; k++)
        if (gd_lives(n->in_small[k])) {
            read = true;
            *forever |= gd_arena_by_handle(n->in_small[k])->is_permanent;
        }
    return read;
}

/* Takes in the places of some that wait. What became a leaf with a gradient, say, stays for good. */
static void collect(void) {
    for (int looked = 0; looked < LOOK_AT && first_waiting; looked++) {
        gd_node *n = gd_node_peek(first_waiting);
        if (!n) { /* cannot be: the permanent arena forgets nothing that was handed out */
            first_waiting = last_waiting = 0;
            return;
        }
        first_waiting = n->in_small[GD_NEXT_KEPT];
        if (!first_waiting) last_waiting = 0;
        bool forever = !(n->flags & GD_KEPT) || n->param || n->work & GD_GRAD_SET, read = is_read(n, &forever);
        if (forever) continue;
        if (read) {
            append(n);
            continue;
        }
        int64_t bytes = bytes_of(&n->v);
        int size = place_size(&bytes);
        gd_tensor *places = free_places[n->v.device];
        if (!n->v.device) GD_POISON(n->v.data, bytes);
        gd_node_retag(n);
        n->in_small[GD_NEXT_KEPT] = places[size];
        places[size] = n->self;
    }
}

gd_node *gd_kept_new(const gd_view *like) {
    gd_arena *a = gd_arena_permanent();
    if (!a) return NULL;
    int64_t bytes = bytes_of(like);
    int size = place_size(&bytes);
    gd_arena_lock(a);
    collect();
    gd_node *n = gd_node_peek(free_places[like->device][size]);
    void *data = n ? n->v.data : NULL;
    if (n) {
        free_places[like->device][size] = n->in_small[GD_NEXT_KEPT];
        gd_node_clear(n);
        if (!like->device) GD_UNPOISON(data, bytes_of(like));
    } else {
        gd_place place = gd_arena_at(a);
        data = gd_arena_bytes_on(a, like->device, bytes);
        n = data ? gd_arena_node(a) : NULL;
        if (!n) gd_arena_undo(a, &place);
    }
    if (n) {
        n->v = *like;
        n->v.data = data;
        n->flags |= GD_KEPT;
        memset(n->in_small, 0, sizeof n->in_small);
        n->version_small[GD_GIVEN_UP] = 0;
    }
    gd_arena_unlock(a);
    return n;
}

void gd_kept_give_up(gd_tensor kept) {
    gd_arena *a = gd_arena_by_handle(kept);
    gd_arena_lock(a);
    gd_node *n = gd_node_peek(kept);
    if (n && n->flags & GD_KEPT && !n->version_small[GD_GIVEN_UP]) {
        n->version_small[GD_GIVEN_UP] = 1;
        append(n);
    }
    gd_arena_unlock(a);
}
