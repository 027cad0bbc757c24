/* recycle.c - the free memory of a backward: lists by size, linked through the nodes whose memory it was. */
#include "recycle.h"

/* Fields for recorded inputs, of which these tensors have none: the next node in a list; bytes of the memory. */
enum { NEXT = 0, ROOM = 1 };
enum { LOOK_AT = 8 }; /* free places that each new tensor looks at */

/* A smaller tensor weighs little more than its node, which is not used again. */
static atomic_llong least_bytes = 2048;

int64_t gd_test_recycling(int64_t least) { return atomic_exchange(&least_bytes, least < 1 ? 1 : least); }

void gd_recycler_start(gd_recycler *r, gd_arena *a) {
    r->arena = a;
    r->least = atomic_load_explicit(&least_bytes, memory_order_relaxed);
    r->made = NULL;
    r->filled = 0;
}

static gd_node *next_of(const gd_node *n) { return (gd_node *)(uintptr_t)n->in_small[NEXT]; }
static int64_t room_of(const gd_node *n) { return (int64_t)n->in_small[ROOM]; }
static void link_to(gd_node *n, gd_node *next) { n->in_small[NEXT] = (gd_tensor)(uintptr_t)next; }

static int size_of(int64_t bytes) {
    int size = 63 - __builtin_clzll((unsigned long long)bytes / GD_ALIGN);
    return size < GD_FREE_SIZES ? size : GD_FREE_SIZES - 1;
}

/* The smallest that is large enough, of the last ones freed and at most twice as large as needed. */
void *gd_recycler_take(gd_recycler *r, int device, int64_t bytes, int64_t *room) {
    const int64_t need = (bytes + GD_ALIGN - 1) & -(int64_t)GD_ALIGN;
    const int size = size_of(need);
    if (!(r->filled >> size & 1)) return NULL;
    gd_node **list = &r->free[size], *best = NULL, *before_best = NULL, *before = NULL;
    int looked = 0;
    for (gd_node *n = *list; n && looked < LOOK_AT; before = n, n = next_of(n), looked++) {
        if (n->v.device != device || room_of(n) < need || (best && room_of(n) >= room_of(best))) continue;
        best = n;
        before_best = before;
        if (room_of(n) == need) break;
    }
    if (!best) return NULL;
    if (before_best) link_to(before_best, next_of(best));
    else if (!(*list = next_of(best))) r->filled &= ~((uint64_t)1 << size);
    *room = room_of(best);
    if (!device) GD_UNPOISON(best->v.data, bytes);
    r->arena->allocations++;
    return best->v.data;
}

void gd_recycler_made(gd_recycler *r, gd_node *n, int64_t room) {
    n->work |= GD_PASSING;
    n->pending = 1;
    n->in_small[ROOM] = (gd_tensor)room;
    link_to(n, r->made);
    r->made = n;
}

void gd_recycler_free(gd_recycler *r, gd_node *storage) {
    const int64_t room = room_of(storage);
    const int size = size_of(room);
    if (!storage->v.device) GD_POISON(storage->v.data, room);
    __atomic_store_n(&storage->self, ~storage->self, __ATOMIC_RELAXED); /* no handle of a node here: those have its index */
    link_to(storage, r->filled >> size & 1 ? r->free[size] : NULL);
    r->free[size] = storage;
    r->filled |= (uint64_t)1 << size;
}

void gd_recycler_sweep_made(gd_recycler *r) {
    for (gd_node *n = r->made, *next; n; n = next) {
        next = next_of(n);
        if (--n->pending == 0) gd_recycler_free(r, n);
    }
    r->made = NULL;
}
