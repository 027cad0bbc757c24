/* export.c - memory handed out to the caller, by numpy() say: while an export lives, its bytes are not used
 * again, whatever happens to the tensor, its arena or its parameter. */
#include <stdlib.h>

#include "kept.h"
#include "param.h"

static char *round_down(char *p) { return (char *)((uintptr_t)p & ~(uintptr_t)(GD_ALIGN - 1)); }
static char *round_up(char *p) { return round_down(p + GD_ALIGN - 1); }

/* Into the region's list, which is sorted by address. Lock held. */
static void insert(gd_region *a, gd_export *e) {
    gd_export *before = a->exports_tail;
    while (before && before->start > e->start) before = before->prev;
    e->prev = before;
    e->next = before ? before->next : a->exports;
    *(e->prev ? &e->prev->next : &a->exports) = e;
    *(e->next ? &e->next->prev : &a->exports_tail) = e;
}

gd_export *gd_export_open(gd_tensor t) {
    gd_node *n = gd_node_of(t, "numpy");
    if (!n) return NULL;
    gd_export *e = gd_allocation_fails() ? NULL : malloc(sizeof *e);
    if (!e) {
        gd_fail(GD_ERR_MEMORY, "numpy: no memory for an export");
        return NULL;
    }
    /* Only what this view reaches: a small part of a large tensor does not hold on to all of it. */
    char *start;
    int64_t bytes = gd_view_bytes(&n->v, &start);
    *e = (gd_export){.start = round_down(start), .end = round_up(start + bytes)};
    gd_node *storage = gd_storage(n);
    gd_arena *a = gd_arena_by_handle(storage->self);
    gd_arena_lock(a);
    storage->flags = (uint16_t)((storage->flags & ~GD_KEPT) | GD_SEEN); /* its bytes are the caller's, too: it stays */
    e->region = e->end > e->start ? gd_arena_region_of(a, e->start) : NULL;
    if (e->region) {
        e->arena = a;
        insert(e->region, e);
    }
    gd_arena_unlock(a);
    if (storage->param && storage->param->in_slab) {
        e->param = storage->param;
        gd_param_hold(e->param);
    }
    return e;
}

void gd_export_close(gd_export *e) {
    if (!e) return;
    gd_arena *a = e->arena;
    bool last = false;
    if (a) {
        gd_arena_lock(a);
        gd_region *r = e->region;
        *(e->prev ? &e->prev->next : &r->exports) = e->next;
        *(e->next ? &e->next->prev : &r->exports_tail) = e->prev;
        if (r->hole == e) gd_region_set_hole(r, e->next);
        if (e->start >= r->top) gd_region_poison(r, e->start, e->end);
        last = a->closing && !gd_arena_has_exports(a);
        gd_arena_unlock(a);
    }
    if (e->param) gd_param_drop(e->param);
    free(e);
    if (last) gd_arena_release(a);
}
