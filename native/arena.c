/* arena.c - arenas: bump allocation in reserved address space, marks and resets.
 * Every tensor is one node (a fixed-size record) in the arena's node span and its bytes in the data span. */
#include "engine.h"
#include "param.h"
#include "profile.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

gd_arena gd_arenas[GD_MAX_ARENAS];

static const int64_t DEFAULT_RESERVE = (int64_t)64 << 30;
enum { MARK = -2 }; /* the op of a mark's node */
static const uint32_t LAST_EPOCH = (1u << GD_EPOCH_BITS) - 1;
/* Results outside every step arena that are worth a warning; so many bytes of them are one, too, see region.c. */
static const int64_t WARN_NODES = 1 << 19;
static atomic_flag table_lock = ATOMIC_FLAG_INIT;

static void lock_table(void) { gd_flag_lock(&table_lock); }
static void unlock_table(void) { atomic_flag_clear_explicit(&table_lock, memory_order_release); }

/* Nodes of an arena are mapped and unmapped under this lock, so that other threads can look at them under it. Nothing
 * else is locked inside. */
static atomic_flag mapping_lock = ATOMIC_FLAG_INIT;
static void map_nodes(gd_arena *a, gd_node *nodes) {
    gd_flag_lock(&mapping_lock);
    if (!nodes) gd_span_release(&a->nodes_span);
    a->nodes = nodes;
    atomic_flag_clear_explicit(&mapping_lock, memory_order_release);
}

bool gd_lives_elsewhere(gd_tensor h) {
    gd_flag_lock(&mapping_lock);
    const bool lives = gd_node_peek(h) != NULL;
    atomic_flag_clear_explicit(&mapping_lock, memory_order_release);
    return lives;
}

/* The other thread may be changing the node. What is read then is from before or after, and both are right. */
__attribute__((no_sanitize("thread"), noinline)) static bool had_backward(const gd_node *n) { return n->work & GD_FREED; }

bool gd_user_waits_elsewhere(gd_tensor user) {
    gd_flag_lock(&mapping_lock);
    const gd_node *n = gd_node_peek(user);
    const bool waits = n && !had_backward(n);
    atomic_flag_clear_explicit(&mapping_lock, memory_order_release);
    return waits;
}

/* A short spin, then the processor for whoever holds it. */
void gd_flag_wait(atomic_flag *flag) {
    for (int tries = 0; atomic_flag_test_and_set_explicit(flag, memory_order_acquire); tries++)
        if (tries >= 64) sched_yield();
}

/* ---- Allocation ------------------------------------------------------------------------------------- */

/* Notes who allocates. */
static void note_thread(gd_arena *a) {
    gd_thread *self = gd_self();
    if (a->last_thread == self) return;
    a->last_thread = self;
    a->own_nodes = a->node_count;
    a->host.own_top = a->host.top;
    for (int k = 0; k < a->regions; k++)
        if (a->region[k]) a->region[k]->own_top = a->region[k]->top;
}

static void set_node_count(gd_arena *a, int64_t count) { __atomic_store_n(&a->node_count, count, __ATOMIC_RELEASE); }

static gd_status refused(const gd_arena *a, const gd_region *r, int64_t bytes, const char *why) {
    return gd_region_out_of_memory(r, a->name, bytes, why);
}

static void *take(gd_arena *a, gd_region *r, int64_t bytes) {
    if (__builtin_expect(gd_allocation_fails(), 0)) {
        refused(a, r, bytes, " (a failure asked for by a test)");
        return NULL;
    }
    if (bytes < 0 || bytes > INT64_MAX - GD_ALIGN) {
        refused(a, r, bytes, "");
        return NULL;
    }
    note_thread(a);
    void *p = gd_region_take(r, bytes, a->name, a->is_permanent);
    a->allocations += p != NULL;
    return p;
}

void *gd_arena_bytes(gd_arena *a, int64_t bytes) { return take(a, &a->host, bytes); }

/* The region of a device, which is opened when something is first made there. */
static gd_region *device_region(gd_arena *a, int device) {
    gd_region **r = &a->region[device - 1];
    if (*r && (*r)->span.base) return *r;
    if (!*r) *r = gd_allocation_fails() ? NULL : calloc(1, sizeof **r);
    if (!*r) {
        gd_fail(GD_ERR_MEMORY, "arena '%s': no memory for its region of a device", a->name);
        return NULL;
    }
    if (gd_region_open(*r, device, a->name) < 0) return NULL;
    if (a->regions < device) a->regions = device;
    return *r;
}

void *gd_arena_bytes_on(gd_arena *a, int device, int64_t bytes) {
    if (!device) return take(a, &a->host, bytes);
    gd_region *r = device_region(a, device);
    if (!r) return NULL;
    gd_device_used(r);
    return take(a, r, bytes);
}

static gd_status grow_nodes(gd_arena *a) {
    int64_t count = a->node_count + 1;
    if (count > GD_MAX_NODES || gd_span_commit(&a->nodes_span, count * (int64_t)sizeof(gd_node), a->name) < 0)
        return gd_fail(GD_ERR_MEMORY, "arena '%s' is out of memory: it holds %lld tensors and can describe no more. Reset it more often", a->name,
                       (long long)a->node_count);
    a->node_ready = a->nodes_span.committed / (int64_t)sizeof(gd_node);
    if (a->is_permanent && count > WARN_NODES && gd_region_warns())
        gd_warn("more than %lld tensors were made outside any step arena, where nothing is freed. "
                "Write `with gd.step_arena():` around each training or evaluation step",
                (long long)WARN_NODES);
    return GD_OK;
}

gd_node *gd_arena_node(gd_arena *a) {
    if (__builtin_expect(gd_allocation_fails(), 0)) {
        refused(a, &a->host, (int64_t)sizeof(gd_node), " (a failure asked for by a test)");
        return NULL;
    }
    note_thread(a);
    if (__builtin_expect(a->node_count >= a->node_ready, 0) && grow_nodes(a) < 0) return NULL;
    gd_node *n = &a->nodes[a->node_count];
    gd_tensor self = (gd_tensor)a->epoch << (GD_INDEX_BITS + GD_ARENA_BITS) | (gd_tensor)a->id << GD_INDEX_BITS | (gd_tensor)a->node_count;
    __atomic_store_n(&n->self, self, __ATOMIC_RELAXED);
    n->base = self;
    gd_node_clear(n);
    set_node_count(a, a->node_count + 1);
    return n;
}

gd_place gd_arena_place(gd_arena *a) {
    gd_arena_lock(a);
    gd_place place = gd_arena_at(a);
    gd_arena_unlock(a);
    return place;
}

static bool epoch_left(const gd_arena *a) { return a->epoch < LAST_EPOCH; }

/* Keeps the first `place.nodes` tensors. The new epoch makes every handle of the others stale, also when
 * their places are used again. */
static void lower(gd_arena *a, const gd_place *place) {
    a->epoch++;
    if (a->objects) gd_objects_drop(a, place->nodes);
    gd_arena_undo(a, place);
    if (a->host.top < a->host.own_top) a->host.own_top = a->host.top;
    for (int k = 0; k < a->regions; k++)
        if (a->region[k] && a->region[k]->top < a->region[k]->own_top) a->region[k]->own_top = a->region[k]->top;
    if (place->nodes < a->own_nodes) a->own_nodes = place->nodes;
}

void gd_arena_undo(gd_arena *a, const gd_place *place) {
    set_node_count(a, place->nodes);
    gd_region_lower(&a->host, place->top);
    for (int k = 0; k < a->regions; k++) {
        gd_region *r = a->region[k];
        if (!r || !r->span.base) continue;
        char *top = k < place->regions && place->device_top[k] ? place->device_top[k] : r->span.base;
        if (top != r->top) gd_region_lower(r, top);
    }
}

/* Whether all of the place is this thread's own, in every region. */
static bool is_own(const gd_arena *a, const gd_place *place) {
    if (a->last_thread != gd_self() || place->top < a->host.own_top || place->nodes < a->own_nodes) return false;
    for (int k = 0; k < a->regions; k++)
        if (k < place->regions && place->device_top[k] && place->device_top[k] < a->region[k]->own_top) return false;
    return true;
}

static bool is_at(const gd_arena *a, const gd_place *place) {
    bool same = place->top == a->host.top && place->nodes == a->node_count;
    for (int k = 0; k < a->regions && same; k++)
        same = !a->region[k] || a->region[k]->top == (k < place->regions && place->device_top[k] ? place->device_top[k] : a->region[k]->span.base);
    return same;
}

bool gd_arena_return(gd_arena *a, const gd_place *place) {
    gd_arena_lock(a);
    bool same = is_at(a, place), own = is_own(a, place) && epoch_left(a);
    if (own && !same) lower(a, place);
    gd_arena_unlock(a);
    if (own && !same) gd_profile_arena(GD_PROFILE_RETURN, a);
    return own || same;
}

void gd_arena_drop_bytes(gd_arena *a, int device, char *from, char *to) {
    gd_arena_lock(a);
    gd_region *r = device ? a->region[device - 1] : &a->host;
    if (r->top == to) { /* no export lies between */
        if (!device) GD_POISON(from, to - from);
        r->top = from;
    }
    gd_arena_unlock(a);
}

gd_region *gd_arena_region_of(gd_arena *a, const char *address) {
    if (gd_region_has(&a->host, address)) return &a->host;
    for (int k = 0; k < a->regions; k++)
        if (a->region[k] && gd_region_has(a->region[k], address)) return a->region[k];
    return NULL;
}

bool gd_arena_has_exports(const gd_arena *a) {
    bool any = a->host.exports != NULL;
    for (int k = 0; k < a->regions; k++) any |= a->region[k] && a->region[k]->exports;
    return any;
}

/* ---- Opening and closing ------------------------------------------------------------------------------ */

static void arena_setup(gd_arena *a, gd_span data, gd_span nodes, const char *name) {
    gd_region_set(&a->host, data);
    a->nodes_span = nodes;
    map_nodes(a, (gd_node *)(void *)nodes.base);
    set_node_count(a, 0);
    a->node_ready = nodes.committed / (int64_t)sizeof(gd_node);
    a->objects = NULL;
    a->last_thread = NULL;
    a->own_nodes = 0;
    a->regions = 0;
    a->allocations = a->resets = 0;
    a->open_scopes = a->backwards = 0;
    a->closing = a->is_step = false;
    a->is_permanent = a->id == GD_PERMANENT;
    a->first_epoch = a->epoch;
    snprintf(a->name, sizeof a->name, "%s", name && *name ? name : "arena");
    a->is_open = true;
}

static gd_arena *arena_open(int id_from, int64_t reserve, int64_t commit, const char *name) {
    gd_span data, nodes;
    bool exact = reserve > 0;
    if (reserve == 0) reserve = DEFAULT_RESERVE;
    if (reserve < 0 || commit < 0 || commit > reserve) {
        gd_fail(GD_ERR_VALUE, "Arena: reserve is %lld and commit is %lld bytes: both must be at least 0, and commit at most reserve", (long long)reserve,
                (long long)commit);
        return NULL;
    }
    if (gd_span_reserve(&data, reserve, exact, "Arena") < 0) return NULL;
    /* enough nodes for an arena full of the smallest tensors, and as many views again; fewer where address space is short */
    int64_t count = data.reserved < reserve ? data.reserved / (int64_t)sizeof(gd_node) : data.reserved / GD_ALIGN * 2;
    count = count < 4096 ? 4096 : count > GD_MAX_NODES ? GD_MAX_NODES : count;
    if (gd_span_reserve(&nodes, count * (int64_t)sizeof(gd_node), false, "Arena") < 0) {
        gd_span_release(&data);
        return NULL;
    }
    if (commit > 0 && gd_span_commit(&data, commit, "Arena") < 0) {
        gd_span_release(&data);
        gd_span_release(&nodes);
        return NULL;
    }
    lock_table();
    gd_arena *a = NULL;
    for (int id = id_from; id < GD_MAX_ARENAS && !a; id++) /* half of the epochs at least are left for its resets */
        if (!gd_arenas[id].is_open && gd_arenas[id].epoch < LAST_EPOCH / 2) a = &gd_arenas[id];
    if (a) {
        a->id = (uint32_t)(a - gd_arenas);
        a->epoch++;
        arena_setup(a, data, nodes, name);
    }
    unlock_table();
    if (!a) {
        gd_span_release(&data);
        gd_span_release(&nodes);
        gd_fail(GD_ERR_ARENA, "Arena: %d arenas are open, the most there can be: close some", GD_MAX_ARENAS);
    }
    return a;
}

gd_arena *gd_arena_open(int64_t reserve, int64_t commit, const char *name) { return arena_open(GD_PERMANENT + 1, reserve, commit, name); }

gd_arena *gd_arena_permanent(void) {
    gd_arena *a = &gd_arenas[GD_PERMANENT];
    if (__builtin_expect(a->is_open, 1)) return a;
    static atomic_flag once = ATOMIC_FLAG_INIT;
    gd_flag_lock(&once);
    if (!a->is_open) a = arena_open(GD_PERMANENT, 0, 0, "permanent");
    atomic_flag_clear(&once);
    return a;
}

static gd_status check_open(const gd_arena *a, const char *what) {
    if (!a) return gd_fail(gd_last_status() < 0 ? gd_last_status() : GD_ERR_ARENA, "%s: no arena (opening it failed)", what);
    if (!a->is_open || a->closing) return gd_fail(GD_ERR_ARENA, "%s: arena '%s' is closed", what, a->name);
    return GD_OK;
}

void gd_arena_release(gd_arena *a) {
    lock_table();
    gd_span_release(&a->host.span);
    for (int k = 0; k < a->regions; k++)
        if (a->region[k]) gd_region_close(a->region[k]);
    map_nodes(a, NULL);
    a->is_open = false;
    unlock_table();
}

/* Gives back the pages that no export needs; the arena itself goes with its last export. */
static void discard_unexported(gd_arena *a) {
    const intptr_t page = 4096;
    char *from = a->host.span.base;
    for (int k = 0; k < a->regions; k++)
        if (a->region[k] && !a->region[k]->exports) gd_region_close(a->region[k]);
    for (gd_export *e = a->host.exports;; e = e->next) {
        char *to = e ? (char *)((intptr_t)e->start & -page) : a->host.span.base + a->host.span.committed / page * page;
        if (to > from) madvise(from, (size_t)(to - from), MADV_DONTNEED);
        if (!e) break;
        char *after = (char *)(((intptr_t)e->end + page - 1) & -page);
        if (after > from) from = after;
    }
    map_nodes(a, NULL);
}

gd_status gd_arena_close(gd_arena *a) {
    GD_TRY(check_open(a, "close"));
    if (a->is_permanent) return gd_fail(GD_ERR_ARENA, "close: the permanent arena cannot be closed");
    if (a->open_scopes) return gd_fail(GD_ERR_ARENA, "close: arena '%s' is active: leave its `with` block first", a->name);
    gd_arena_lock(a);
    lower(a, &(gd_place){.top = a->host.span.base});
    a->closing = true;
    bool kept = gd_arena_has_exports(a);
    if (kept) discard_unexported(a);
    gd_arena_unlock(a);
    if (!kept) gd_arena_release(a);
    return GD_OK;
}

gd_status gd_arena_reset(gd_arena *a) {
    GD_TRY(check_open(a, "reset"));
    if (a->is_permanent) return gd_fail(GD_ERR_ARENA, "reset: the permanent arena cannot be reset: parameters live there");
    if (a->backwards) return gd_fail(GD_ERR_ARENA, "reset: a backward runs in arena '%s'", a->name);
    if (!epoch_left(a)) return gd_fail(GD_ERR_ARENA, "reset: arena '%s' was reset 2^%d times, as often as it can be: open a new one", a->name, GD_EPOCH_BITS);
    gd_arena_lock(a);
    lower(a, &(gd_place){.top = a->host.span.base});
    a->resets++;
    gd_arena_unlock(a);
    gd_profile_arena(GD_PROFILE_RESET, a);
    return GD_OK;
}

/* A mark is a node without bytes: its handle goes stale like any other, so an old mark is recognised. */
gd_tensor gd_arena_mark(gd_arena *a) {
    GD_TRY_TENSOR(check_open(a, "mark"));
    gd_arena_lock(a);
    gd_node *n = gd_arena_node(a);
    if (n) {
        n->v = (gd_view){.data = a->host.top, .dtype = GD_BOOL, .rank = 1, .shape = {1, 1, 1, 0}, .strides = {0, 0, 0, 1}};
        n->op = MARK;
        n->attr.i[GD_MAX_DEVICES] = a->regions;
        for (int k = 0; k < a->regions; k++) n->attr.i[k] = a->region[k] ? (int64_t)(intptr_t)a->region[k]->top : 0;
    }
    gd_arena_unlock(a);
    gd_profile_arena(GD_PROFILE_MARK, a);
    return n ? n->self : 0;
}

gd_status gd_arena_rewind(gd_arena *a, gd_tensor mark) {
    GD_TRY(check_open(a, "rewind"));
    if (a->is_permanent) return gd_fail(GD_ERR_ARENA, "rewind: the permanent arena cannot be rewound: parameters live there");
    if (a->backwards) return gd_fail(GD_ERR_ARENA, "rewind: a backward runs in arena '%s'", a->name);
    if (!epoch_left(a)) return gd_fail(GD_ERR_ARENA, "rewind: arena '%s' was rewound as often as it can be: open a new one", a->name);
    gd_node *n = gd_node_peek(mark);
    if (!n || n->op != MARK || gd_arena_by_handle(mark) != a)
        return gd_fail(GD_ERR_ARENA, "rewind: this is not a mark of arena '%s', or the arena was reset or rewound past it", a->name);
    gd_place place = {.top = n->v.data, .nodes = n - a->nodes + 1, .regions = (int)n->attr.i[GD_MAX_DEVICES]};
    for (int k = 0; k < place.regions; k++) place.device_top[k] = (char *)(intptr_t)n->attr.i[k];
    gd_arena_lock(a);
    lower(a, &place);
    gd_arena_unlock(a);
    gd_profile_arena(GD_PROFILE_REWIND, a);
    return GD_OK;
}

gd_arena_stats gd_arena_get_stats(const gd_arena *arena) {
    gd_arena_stats stats = {0};
    if (!arena || !arena->is_open) return stats;
    gd_arena *a = &gd_arenas[arena->id]; /* the lock is not part of what is constant */
    gd_arena_lock(a);
    if (!a->closing) stats = (gd_arena_stats){a->host.span.reserved, a->host.span.committed, a->host.top - a->host.span.base, a->host.high_water, a->allocations, a->resets};
    gd_arena_unlock(a);
    return stats;
}

gd_arena_stats gd_arena_get_device_stats(const gd_arena *arena, int device) {
    gd_arena_stats stats = {0};
    if (!arena || !arena->is_open || device < 0 || device >= GD_MAX_DEVICES) return stats;
    gd_arena *a = &gd_arenas[arena->id];
    gd_arena_lock(a);
    const gd_region *r = device < a->regions ? a->region[device] : NULL;
    if (r && r->span.base) stats = (gd_arena_stats){r->span.reserved, r->span.committed, r->top - r->span.base, r->high_water, a->allocations, a->resets};
    gd_arena_unlock(a);
    return stats;
}

const char *gd_arena_name(const gd_arena *a) { return a ? a->name : ""; }
int gd_arena_number(const gd_arena *a) { return a ? (int)a->id : -1; }

gd_arena *gd_arena_of(gd_tensor t) {
    gd_node *n = gd_node_of(t, "arena");
    return n ? gd_arena_by_handle(n->base) : NULL;
}

int64_t gd_arena_list(gd_arena **out, int64_t capacity) {
    int64_t count = 0;
    for (int id = 0; id < GD_MAX_ARENAS; id++)
        if (gd_arenas[id].is_open && !gd_arenas[id].closing && count++ < capacity) out[count - 1] = &gd_arenas[id];
    return count;
}

/* ---- Fork -------------------------------------------------------------------------------------------------- */

void gd_arena_lock_all(void) {
    lock_table();
    for (int id = 0; id < GD_MAX_ARENAS; id++) gd_arena_lock(&gd_arenas[id]);
    gd_flag_lock(&mapping_lock);
}

void gd_arena_unlock_all(void) {
    atomic_flag_clear_explicit(&mapping_lock, memory_order_release);
    for (int id = 0; id < GD_MAX_ARENAS; id++) gd_arena_unlock(&gd_arenas[id]);
    unlock_table();
}
