/* arena.c - arenas: bump allocation in reserved address space, marks and resets.
 * Every tensor is one node (a fixed-size record) in the arena's node span and its bytes in the data span. */
#include "engine.h"
#include "profile.h"

#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>

gd_arena gd_arenas[GD_MAX_ARENAS];

static const int64_t DEFAULT_RESERVE = (int64_t)64 << 30;
enum { MARK = -2 }; /* the op of a mark's node */
static const uint32_t LAST_EPOCH = (1u << GD_EPOCH_BITS) - 1;
/* Results outside every step arena that are worth a warning. */
static const int64_t WARN_BYTES = (int64_t)256 << 20, WARN_NODES = 1 << 19;
static atomic_bool warned;
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

static char *align_up(char *p) { return (char *)(((uintptr_t)p + GD_ALIGN - 1) & ~(uintptr_t)(GD_ALIGN - 1)); }

/* ---- Allocation ------------------------------------------------------------------------------------- */

static void set_limit(gd_arena *a) {
    char *end = a->data.base + a->data.committed;
    a->limit = a->hole && a->hole->start < end ? a->hole->start : end;
}

void gd_arena_set_hole(gd_arena *a, gd_export *hole) {
    a->hole = hole;
    set_limit(a);
}

/* After the top went down. An export is wholly above the top or wholly below it. */
static void find_hole(gd_arena *a) {
    gd_export *hole = a->hole, *before = hole ? hole->prev : a->exports_tail;
    for (; before && before->start >= a->top; before = before->prev) hole = before;
    gd_arena_set_hole(a, hole);
}

void gd_arena_poison(const gd_arena *a, char *from, char *to) {
#ifdef GD_ASAN
    if (to <= from) return;
    GD_POISON(from, to - from);
    for (gd_export *e = a->exports; e; e = e->next) GD_UNPOISON(e->start, e->end - e->start);
#else
    (void)a, (void)from, (void)to;
#endif
}

static gd_status out_of_memory(gd_arena *a, int64_t bytes, const char *why) {
    const char *limited = gd_span_limited(&a->data);
    return gd_fail(GD_ERR_MEMORY,
                   "arena '%s' is out of memory: %lld bytes requested, %lld used, %lld committed, %lld reserved%s%s. "
                   "%s, or reset it more often",
                   a->name, (long long)bytes, (long long)(a->top - a->data.base), (long long)a->data.committed, (long long)a->data.reserved, limited, why,
                   *limited ? "Raise the limit" : "Open it with a larger reserve");
}

/* Leaves holes behind and commits more, until `bytes` fit below the limit. asked: before rounding, for the message. */
static gd_status make_room(gd_arena *a, int64_t bytes, int64_t asked) {
    char *top = a->top;
    gd_export *hole = a->hole;
    while (hole && hole->start - top < bytes) {
        if (hole->end > top) top = align_up(hole->end);
        hole = hole->next;
    }
    if (bytes > a->data.base + a->data.reserved - top) return out_of_memory(a, asked, "");
    char *before = a->data.base + a->data.committed;
    if (gd_span_commit(&a->data, top + bytes - a->data.base, a->name) < 0) return out_of_memory(a, asked, " and the system gave no more");
    gd_arena_poison(a, before, a->data.base + a->data.committed);
    a->top = top;
    a->hole = hole;
    set_limit(a);
    if (a->is_permanent && top - a->data.base + bytes > WARN_BYTES && !atomic_exchange(&warned, true))
        gd_warn("more than %lld MiB of tensors were made outside any step arena, where nothing is freed. "
                "Write `with gd.step_arena():` around each training or evaluation step",
                (long long)(WARN_BYTES >> 20));
    return GD_OK;
}

/* Notes who allocates. */
static void note_thread(gd_arena *a) {
    gd_thread *self = gd_self();
    if (a->last_thread == self) return;
    a->last_thread = self;
    a->own_top = a->top;
    a->own_nodes = a->node_count;
}

static void set_node_count(gd_arena *a, int64_t count) { __atomic_store_n(&a->node_count, count, __ATOMIC_RELEASE); }

void *gd_arena_bytes(gd_arena *a, int64_t bytes) {
    if (__builtin_expect(gd_allocation_fails(), 0)) {
        out_of_memory(a, bytes, " (a failure asked for by a test)");
        return NULL;
    }
    if (bytes < 0 || bytes > INT64_MAX - GD_ALIGN) {
        out_of_memory(a, bytes, "");
        return NULL;
    }
    int64_t asked = bytes;
    bytes = (bytes + GD_ALIGN - 1) & -(int64_t)GD_ALIGN;
    note_thread(a);
    if (__builtin_expect(a->limit - a->top < bytes, 0) && make_room(a, bytes, asked) < 0) return NULL;
    char *p = a->top;
    GD_UNPOISON(p, asked);
    a->top += bytes;
    a->allocations++;
    if (a->top - a->data.base > a->high_water) a->high_water = a->top - a->data.base;
    return p;
}

static gd_status grow_nodes(gd_arena *a) {
    int64_t count = a->node_count + 1;
    if (count > GD_MAX_NODES || gd_span_commit(&a->nodes_span, count * (int64_t)sizeof(gd_node), a->name) < 0)
        return gd_fail(GD_ERR_MEMORY, "arena '%s' is out of memory: it holds %lld tensors and can describe no more. Reset it more often", a->name,
                       (long long)a->node_count);
    a->node_ready = a->nodes_span.committed / (int64_t)sizeof(gd_node);
    if (a->is_permanent && count > WARN_NODES && !atomic_exchange(&warned, true))
        gd_warn("more than %lld tensors were made outside any step arena, where nothing is freed. "
                "Write `with gd.step_arena():` around each training or evaluation step",
                (long long)WARN_NODES);
    return GD_OK;
}

gd_node *gd_arena_node(gd_arena *a) {
    if (__builtin_expect(gd_allocation_fails(), 0)) {
        out_of_memory(a, (int64_t)sizeof(gd_node), " (a failure asked for by a test)");
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
    gd_place place = {a->top, a->node_count};
    gd_arena_unlock(a);
    return place;
}

static bool epoch_left(const gd_arena *a) { return a->epoch < LAST_EPOCH; }

/* Keeps the first `nodes` tensors. The new epoch makes every handle of the others stale, also when
 * their places are used again. */
static void lower(gd_arena *a, char *top, int64_t nodes) {
    a->epoch++;
    if (a->objects) gd_objects_drop(a, nodes);
    gd_arena_undo(a, (gd_place){top, nodes});
    if (top < a->own_top) a->own_top = top;
    if (nodes < a->own_nodes) a->own_nodes = nodes;
}

void gd_arena_undo(gd_arena *a, gd_place place) {
    set_node_count(a, place.nodes);
    gd_arena_poison(a, place.top, a->top);
    a->top = place.top;
    find_hole(a);
}

bool gd_arena_return(gd_arena *a, gd_place place) {
    gd_arena_lock(a);
    bool same = place.top == a->top && place.nodes == a->node_count;
    bool own = a->last_thread == gd_self() && place.top >= a->own_top && place.nodes >= a->own_nodes && epoch_left(a);
    if (own && !same) lower(a, place.top, place.nodes);
    gd_arena_unlock(a);
    if (own && !same) gd_profile_arena(GD_PROFILE_RETURN, a);
    return own || same;
}

void gd_arena_drop_bytes(gd_arena *a, char *from, char *to) {
    gd_arena_lock(a);
    if (a->top == to) { /* no export lies between */
        GD_POISON(from, to - from);
        a->top = from;
    }
    gd_arena_unlock(a);
}

/* ---- Opening and closing ------------------------------------------------------------------------------ */

static void arena_setup(gd_arena *a, gd_span data, gd_span nodes, const char *name) {
    a->data = data;
    a->nodes_span = nodes;
    a->top = data.base;
    map_nodes(a, (gd_node *)(void *)nodes.base);
    set_node_count(a, 0);
    a->node_ready = nodes.committed / (int64_t)sizeof(gd_node);
    a->exports = a->exports_tail = a->hole = NULL;
    a->objects = NULL;
    a->last_thread = NULL;
    a->own_top = data.base;
    a->own_nodes = 0;
    a->high_water = a->allocations = a->resets = 0;
    a->open_scopes = a->backwards = 0;
    a->closing = a->is_step = false;
    a->is_permanent = a->id == GD_PERMANENT;
    a->first_epoch = a->epoch;
    snprintf(a->name, sizeof a->name, "%s", name && *name ? name : "arena");
    set_limit(a);
    GD_POISON(data.base, data.committed);
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
    gd_span_release(&a->data);
    map_nodes(a, NULL);
    a->is_open = false;
    unlock_table();
}

/* Gives back the pages that no export needs; the arena itself goes with its last export. */
static void discard_unexported(gd_arena *a) {
    const intptr_t page = 4096;
    char *from = a->data.base;
    for (gd_export *e = a->exports;; e = e->next) {
        char *to = e ? (char *)((intptr_t)e->start & -page) : a->data.base + a->data.committed / page * page;
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
    lower(a, a->data.base, 0);
    a->closing = true;
    bool kept = a->exports != NULL;
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
    lower(a, a->data.base, 0);
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
        n->v = (gd_view){.data = a->top, .dtype = GD_BOOL, .rank = 1, .shape = {1, 1, 1, 0}, .strides = {0, 0, 0, 1}};
        n->op = MARK;
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
    gd_arena_lock(a);
    lower(a, n->v.data, n - a->nodes + 1);
    gd_arena_unlock(a);
    gd_profile_arena(GD_PROFILE_REWIND, a);
    return GD_OK;
}

gd_arena_stats gd_arena_get_stats(const gd_arena *arena) {
    gd_arena_stats stats = {0};
    if (!arena || !arena->is_open) return stats;
    gd_arena *a = &gd_arenas[arena->id]; /* the lock is not part of what is constant */
    gd_arena_lock(a);
    if (!a->closing) stats = (gd_arena_stats){a->data.reserved, a->data.committed, a->top - a->data.base, a->high_water, a->allocations, a->resets};
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
