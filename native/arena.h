/* arena.h - arenas as the library's own files see them: address space, regions that bump through it, places to go back to. */
#ifndef GRADINO_ARENA_H
#define GRADINO_ARENA_H

#include <stdatomic.h>

#include "cuda/interface.h"
#include "kernel.h"
#include "status.h"

/* Under the address sanitizer the free bytes of an arena are poisoned: whoever leaves a buffer is caught. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GD_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define GD_ASAN 1
#endif
#ifdef GD_ASAN
#include <sanitizer/asan_interface.h>
#define GD_POISON(from, bytes) __asan_poison_memory_region(from, (size_t)(bytes))
#define GD_UNPOISON(from, bytes) __asan_unpoison_memory_region(from, (size_t)(bytes))
#else
#define GD_POISON(from, bytes) ((void)(from), (void)(bytes))
#define GD_UNPOISON(from, bytes) ((void)(from), (void)(bytes))
#endif

#pragma GCC visibility push(hidden)

typedef struct gd_node gd_node; /* engine.h */

/* ---- Handles: epoch (28 bits) | arena (10 bits) | index of the node (26 bits) ------------------- */
enum { GD_INDEX_BITS = 26, GD_ARENA_BITS = 10, GD_EPOCH_BITS = 28 };
enum { GD_MAX_ARENAS = 1 << GD_ARENA_BITS, GD_MAX_NODES = 1 << GD_INDEX_BITS };

/* Memory that outlives a reset for the sake of a caller's view. Sorted by address within its region. */
struct gd_export {
    gd_arena *arena;            /* NULL where no arena owns the bytes */
    struct gd_region *region;   /* of the arena */
    struct gd_param *param;     /* the parameter whose place in the slab must not be used again, or NULL */
    char *start, *end;
    gd_export *prev, *next;
};

typedef struct gd_span { /* reserved address space, committed from the front */
    char *base;
    int64_t asked, reserved, committed; /* reserved < asked: the system gave no more */
    uint8_t device;             /* whose addresses these are, as in gd_view */
} gd_span;

/* The streams whose kernels may still use what was in a region before its top went down. */
enum { GD_MAX_STREAMS = 32 }; /* of one device; a bit each */
typedef struct gd_region { /* bytes of an arena in one kind of memory, see region.c */
    gd_span span;
    char *top, *limit;          /* next free byte; end of what may be used without a look (committed, next hole) */
    gd_export *exports, *exports_tail, *hole; /* hole: the first export at or above top that must be skipped */
    char *own_top;              /* of gd_arena.last_thread, see there */
    int64_t high_water;
    uint32_t used, before, waited; /* of a device: streams that made something here, those before the top went down last, */
                                   /* and those that wait for them since */
} gd_region;

struct gd_arena {
    atomic_flag lock;
    uint32_t id, epoch, first_epoch; /* first: since it was opened */
    gd_span nodes_span;
    gd_region host, *region[GD_MAX_DEVICES]; /* of devices: made when something is first made there */
    int regions;                /* devices that have one are below */
    gd_node *nodes;
    int64_t node_count, node_ready; /* in use (read without the lock by gd_node_peek); committed */
    struct gd_object *objects;  /* of the caller, see call.c; newest first */
    void *last_thread;          /* who allocated last; */
    int64_t own_nodes;          /* from here, and from own_top of the regions on, all is that thread's: it may go back */
                                /* so far without taking what another one made */
    int64_t allocations, resets;
    atomic_int open_scopes, backwards; /* backwards: that run in it now */
    atomic_bool is_open, closing;
    bool is_permanent, is_step;
    char name[48];
};

extern gd_arena gd_arenas[GD_MAX_ARENAS];
enum { GD_PERMANENT = 0 }; /* its index */

void gd_flag_wait(atomic_flag *flag); /* until this thread has set it: the slow part of a lock */
static inline void gd_flag_lock(atomic_flag *flag) {
    if (__builtin_expect(atomic_flag_test_and_set_explicit(flag, memory_order_acquire), 0)) gd_flag_wait(flag);
}
static inline void gd_arena_lock(gd_arena *a) { gd_flag_lock(&a->lock); }
static inline void gd_arena_unlock(gd_arena *a) { atomic_flag_clear_explicit(&a->lock, memory_order_release); }

/* Bytes at the top of the arena, 64-byte aligned, uninitialised; NULL with an error set. Lock held. */
void *gd_arena_bytes(gd_arena *a, int64_t bytes);
/* A node with handle and defaults set (leaf, no op). Lock held. NULL with an error set. */
gd_node *gd_arena_node(gd_arena *a);
/* The same of a device's memory, as gd_view counts them; 0: the host's. */
void *gd_arena_bytes_on(gd_arena *a, int device, int64_t bytes);
/* A place in the arena that this thread can return to as long as nobody else has allocated. */
typedef struct gd_place {
    char *top;
    int64_t nodes;
    int regions;                     /* so many of device_top are set; NULL where there was none */
    char *device_top[GD_MAX_DEVICES];
} gd_place;
gd_place gd_arena_place(gd_arena *a);
/* With the lock held. */
static inline gd_place gd_arena_at(const gd_arena *a) {
    gd_place place;
    place.top = a->host.top;
    place.nodes = a->node_count;
    place.regions = a->regions;
    for (int k = 0; k < a->regions; k++) place.device_top[k] = a->region[k] ? a->region[k]->top : NULL;
    return place;
}
/* Forgets what was allocated since; false if another thread has allocated meanwhile (nothing done). */
bool gd_arena_return(gd_arena *a, const gd_place *place);
/* The same inside one stretch with the lock held: nobody has seen what is forgotten. */
void gd_arena_undo(gd_arena *a, const gd_place *place);
/* For a call made of several ops: gd_here() before the first, then gd_or_return() passes the result on, and on
 * failure forgets what the first ones made in the active arena. */
typedef struct gd_start { gd_arena *arena; gd_place place; } gd_start;
gd_start gd_here(void);
static inline gd_tensor gd_or_return(gd_start start, gd_tensor result) {
    if (__builtin_expect(!result, 0) && start.arena) gd_arena_return(start.arena, &start.place);
    return result;
}
/* Lowers the top after workspace was used; nodes stay. */
void gd_arena_drop_bytes(gd_arena *a, int device, char *from, char *to);
/* The region that an address lies in, or NULL; whether any has exports. Lock held. */
gd_region *gd_arena_region_of(gd_arena *a, const char *address);
bool gd_arena_has_exports(const gd_arena *a);

/* ---- Regions (region.c). Lock of the arena held ---- */
void gd_region_set(gd_region *r, gd_span span);
void gd_region_close(gd_region *r);
void *gd_region_take(gd_region *r, int64_t bytes, const char *name, bool permanent); /* NULL with an error set */
void gd_region_lower(gd_region *r, char *top);
/* The next export that the top must step over. */
void gd_region_set_hole(gd_region *r, gd_export *hole);
/* For the address sanitizer: the bytes between are free, but for exports. */
void gd_region_poison(const gd_region *r, char *from, char *to);
gd_status gd_region_out_of_memory(const gd_region *r, const char *name, int64_t bytes, const char *why);
bool gd_region_warns(void); /* true once: of too many tensors outside step arenas */
static inline bool gd_region_has(const gd_region *r, const char *address) {
    return r->span.base && address >= r->span.base && address < r->span.base + r->span.reserved;
}
/* Frees the memory of a closed arena whose last export is gone. */
void gd_arena_release(gd_arena *a);
void gd_arena_lock_all(void);   /* around fork */
void gd_arena_unlock_all(void);

/* Address space, for arenas and slabs. */
gd_status gd_span_reserve(gd_span *s, int64_t bytes, bool exact, const char *what);
const char *gd_span_limited(const gd_span *s);
gd_status gd_span_commit(gd_span *s, int64_t bytes, const char *what); /* at least `bytes` from the front */
void gd_span_release(gd_span *s);
/* Zeros committed bytes; of many, the pages go back to the system. device: as in gd_view. */
void gd_zero_pages(int device, void *from, int64_t bytes);
/* Tests: true when this allocation is to fail. */
bool gd_allocation_fails(void);

#pragma GCC visibility pop
#endif
