/* scope.c - what each thread has active: its arena, its step arenas, whether it records the graph.
 * A scope that nobody will leave any more is abandoned: it ends as soon as it is its thread's innermost. */
#include <pthread.h>
#include <stdlib.h>

#include "kept.h"
#include "param.h"

_Thread_local gd_thread *gd_thread_self __attribute__((tls_model("initial-exec")));

static pthread_key_t thread_key;
static atomic_llong next_id = 1;
static gd_thread *threads; /* all that there are */
static pthread_mutex_t threads_mutex = PTHREAD_MUTEX_INITIALIZER;

/* A thread that ends closes its step arenas; views of their tensors stay valid. */
static void thread_end(void *p) {
    gd_thread *t = p;
    pthread_mutex_lock(&threads_mutex);
    *(t->prev ? &t->prev->next : &threads) = t->next;
    if (t->next) t->next->prev = t->prev;
    pthread_mutex_unlock(&threads_mutex);
    for (int i = 0; i < t->nscopes; i++)
        if (t->scopes[i].arena) t->scopes[i].arena->open_scopes--;
    for (int i = 0; i < GD_MAX_SCOPES; i++)
        if (t->steps[i]) gd_arena_close(t->steps[i]);
    gd_thread_self = NULL;
    gd_autocast_end(t);
    free(t);
}

/* A child must not find a lock held by a thread it does not have. In the order in which others nest them. */
static void before_fork(void) {
    gd_slab_lock();
    gd_arena_lock_all();
    pthread_mutex_lock(&threads_mutex);
}

static void after_fork(void) {
    pthread_mutex_unlock(&threads_mutex);
    gd_arena_unlock_all();
    gd_slab_unlock();
}

__attribute__((constructor)) static void scope_load(void) {
    pthread_key_create(&thread_key, thread_end);
    pthread_atfork(before_fork, after_fork, after_fork);
    gd_thread_start(); /* opens the permanent arena while there is one thread; tried again later if it fails */
    gd_clear_error();
}

gd_thread *gd_thread_start(void) {
    static gd_thread spare; /* shared by threads for which there is no memory: better than none */
    gd_thread *t = calloc(1, sizeof *t);
    if (!t) t = &spare;
    t->grad_enabled = t->grad_base = true;
    gd_thread_self = t; /* before anything that may fail and leave its message here */
    if (t != &spare) {
        pthread_setspecific(thread_key, t);
        pthread_mutex_lock(&threads_mutex);
        t->next = threads;
        if (threads) threads->prev = t;
        threads = t;
        pthread_mutex_unlock(&threads_mutex);
    }
    t->active = gd_arena_permanent();
    return t;
}

gd_arena *gd_arena_active(void) {
    gd_thread *t = gd_self();
    if (!t->active) t->active = gd_arena_permanent();
    return t->active;
}

gd_start gd_here(void) {
    gd_start start = {.arena = gd_arena_active()};
    if (start.arena) start.place = gd_arena_place(start.arena);
    return start;
}

/* ---- Scopes ---------------------------------------------------------------------------------------------- */

static int64_t id_at(const _Atomic int64_t *id) { return atomic_load_explicit(id, memory_order_relaxed); }
static int64_t new_id(void) { return atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed); }

static gd_status leave_innermost(gd_thread *t) {
    int at = --t->nscopes;
    gd_arena *a = t->scopes[at].arena;
    atomic_store_explicit(&t->scopes[at].id, 0, memory_order_relaxed);
    a->open_scopes--;
    t->active = at > 0 ? t->scopes[at - 1].arena : gd_arena_permanent();
    if (!t->scopes[at].step) return GD_OK;
    t->nsteps--;
    if (a->epoch + 2 >= (1u << GD_EPOCH_BITS) - 1) { /* used up: the next step opens a fresh one */
        t->steps[t->nsteps] = NULL;
        return gd_arena_close(a);
    }
    return gd_arena_reset(a);
}

/* What holds now: of each kind what the innermost mode of that kind says. */
static void apply_modes(gd_thread *t) {
    bool grad = t->grad_base, cache = false;
    int autocast = 0;
    for (int i = 0; i < t->nmodes; i++) {
        if (t->modes[i].grad != GD_INHERIT) grad = t->modes[i].grad;
        if (t->modes[i].autocast == GD_INHERIT) continue;
        autocast = t->modes[i].autocast;
        cache = t->modes[i].cache;
    }
    t->grad_enabled = grad;
    t->autocast = (uint8_t)autocast;
    t->autocast_cache = cache;
    if (!autocast && t->casts) gd_autocast_forget(t);
}

/* Ends what was abandoned and stands innermost. */
static void settle(gd_thread *t) {
    while (t->nscopes && __builtin_expect(id_at(&t->scopes[t->nscopes - 1].id) < 0, 0)) leave_innermost(t);
    while (t->nmodes && __builtin_expect(id_at(&t->modes[t->nmodes - 1].id) < 0, 0)) {
        atomic_store_explicit(&t->modes[--t->nmodes].id, 0, memory_order_relaxed);
        apply_modes(t);
    }
}

static int64_t enter(gd_arena *a, bool step) {
    gd_thread *t = gd_self();
    if (t->nscopes == GD_MAX_SCOPES) {
        gd_fail(GD_ERR_ARENA, "arena scopes nest %d deep, the most there can be", GD_MAX_SCOPES);
        return GD_ERR_ARENA;
    }
    int64_t id = new_id();
    atomic_store_explicit(&t->scopes[t->nscopes].id, id, memory_order_relaxed);
    t->scopes[t->nscopes].arena = a;
    t->scopes[t->nscopes].step = step;
    t->nscopes++;
    a->open_scopes++;
    t->active = a;
    return id;
}

int64_t gd_scope_enter(gd_arena *a) {
    settle(gd_self());
    if (!a || !a->is_open || a->closing) return gd_fail(GD_ERR_ARENA, "with arena: the arena is closed");
    return enter(a, false);
}

int64_t gd_scope_enter_step(void) {
    gd_thread *t = gd_self();
    settle(t);
    gd_arena *a = t->nsteps < GD_MAX_SCOPES ? t->steps[t->nsteps] : NULL;
    if (!a) {
        if (t->nsteps == GD_MAX_SCOPES) return gd_fail(GD_ERR_ARENA, "step arenas nest %d deep, the most there can be", GD_MAX_SCOPES);
        a = gd_arena_open(0, 0, "step");
        if (!a) return gd_last_status();
        a->is_step = true;
        t->steps[t->nsteps] = a;
    }
    int64_t id = enter(a, true);
    if (id > 0) t->nsteps++;
    return id;
}

static int find_scope(const gd_thread *t, int64_t id) {
    int at = t->nscopes - 1;
    while (at >= 0 && id_at(&t->scopes[at].id) != id && id_at(&t->scopes[at].id) != -id) at--;
    return at;
}

gd_status gd_scope_exit(int64_t id) {
    gd_thread *t = gd_self();
    settle(t);
    int at = find_scope(t, id);
    if (at < 0) return GD_OK; /* closed before, or of another thread: not ours to touch */
    if (at != t->nscopes - 1) {
        atomic_store_explicit(&t->scopes[at].id, -id, memory_order_relaxed);
        return gd_fail(GD_ERR_ARENA, "a scope of arena '%s' was left while an inner scope (arena '%s') is still open: leave the inner one first. "
                                     "It ends together with that one", t->scopes[at].arena->name, t->scopes[t->nscopes - 1].arena->name);
    }
    gd_status status = leave_innermost(t);
    settle(t);
    return status;
}

gd_status gd_scope_unwind(int64_t id) {
    gd_thread *t = gd_self();
    int at = find_scope(t, id);
    gd_status status = GD_OK;
    while (at >= 0 && t->nscopes > at) {
        gd_status one = leave_innermost(t);
        if (one < 0) status = one;
    }
    settle(t);
    return status;
}

/* A thread leaves its scopes without a lock. So another one only changes an id, and only if it is still there. */
static bool abandon(_Atomic int64_t *at, int64_t id) { return atomic_compare_exchange_strong(at, &id, -id); }

void gd_scope_abandon(int64_t id) {
    if (id <= 0) return;
    pthread_mutex_lock(&threads_mutex);
    bool found = false;
    for (gd_thread *t = threads; t && !found; t = t->next)
        for (int i = 0; i < GD_MAX_SCOPES && !found; i++) found = abandon(&t->scopes[i].id, id);
    pthread_mutex_unlock(&threads_mutex);
    settle(gd_self());
}

int gd_scope_is_open(int64_t id) {
    settle(gd_self());
    pthread_mutex_lock(&threads_mutex);
    bool found = false;
    for (gd_thread *t = threads; t && !found; t = t->next)
        for (int i = 0; i < GD_MAX_SCOPES && !found; i++) found = id > 0 && (id_at(&t->scopes[i].id) == id || id_at(&t->scopes[i].id) == -id);
    pthread_mutex_unlock(&threads_mutex);
    return found;
}

int64_t gd_scope_find(const gd_arena *a) {
    const gd_thread *t = gd_self();
    for (int at = t->nscopes - 1; at >= 0; at--)
        if (t->scopes[at].arena == a && !t->scopes[at].step && id_at(&t->scopes[at].id) > 0) return id_at(&t->scopes[at].id);
    return 0;
}

gd_arena *gd_scope_arena(int64_t id) {
    gd_thread *t = gd_self();
    int at = find_scope(t, id);
    return at < 0 ? NULL : t->scopes[at].arena;
}

gd_tensor gd_keep(gd_tensor h, int64_t scope) {
    gd_node *n = gd_node_of(h, "keep");
    if (!n) return 0;
    gd_thread *t = gd_self();
    int at = scope ? find_scope(t, scope) : t->nscopes - 1;
    while (at > 0 && id_at(&t->scopes[at - 1].id) < 0) at--; /* one that ends together with this scope is no place to keep things */
    gd_arena *target = at > 0 ? t->scopes[at - 1].arena : gd_arena_permanent();
    gd_view like = gd_view_like(&n->v);
    gd_node *kept = target == gd_arena_permanent() ? gd_kept_new(&like) : gd_node_new(target, &like);
    if (!kept) return 0;
    gd_copy_view(&kept->v, &n->v);
    return kept->self;
}

/* ---- Recording -------------------------------------------------------------------------------------------- */

int gd_grad_enabled(void) {
    gd_thread *t = gd_self();
    settle(t);
    return t->grad_enabled;
}

static int64_t enter_mode(int grad, int autocast, bool cache) {
    gd_thread *t = gd_self();
    settle(t);
    if (t->nmodes == GD_MAX_MODES) return gd_fail(GD_ERR, "no_grad, enable_grad and autocast nest %d deep, the most there can be", GD_MAX_MODES);
    int64_t id = new_id();
    atomic_store_explicit(&t->modes[t->nmodes].id, id, memory_order_relaxed);
    t->modes[t->nmodes].grad = (int8_t)grad;
    t->modes[t->nmodes].autocast = (int8_t)autocast;
    t->modes[t->nmodes].cache = cache;
    t->nmodes++;
    apply_modes(t);
    return id;
}

int64_t gd_grad_mode_enter(int enabled) { return enter_mode(enabled != 0, GD_INHERIT, false); }

int64_t gd_autocast_enter(int dtype, int cache) {
    if (dtype >= 0 && !gd_is_half(dtype)) return gd_fail(GD_ERR_DTYPE, "autocast: dtype is %s, must be bfloat16 or float16", gd_dtype_name(dtype));
    return enter_mode(GD_INHERIT, dtype < -1 ? GD_INHERIT : dtype + 1, cache != 0);
}

int gd_autocast_dtype(void) {
    gd_thread *t = gd_self();
    settle(t);
    return t->autocast - 1;
}

int gd_autocast_cache(void) {
    gd_thread *t = gd_self();
    settle(t);
    return t->autocast_cache;
}

void gd_grad_mode_set(int enabled) {
    gd_thread *t = gd_self();
    settle(t);
    int at = t->nmodes - 1;
    while (at >= 0 && t->modes[at].grad == GD_INHERIT) at--;
    if (at >= 0) t->modes[at].grad = enabled != 0;
    else t->grad_base = enabled != 0;
    t->grad_enabled = enabled != 0;
}

/* A mode left late, by a generator say, is taken out of the middle and changes nothing for the newer ones. */
int gd_grad_mode_exit(int64_t id, int unwind) {
    gd_thread *t = gd_self();
    int at = t->nmodes - 1, end = t->nmodes;
    while (at >= 0 && id_at(&t->modes[at].id) != id && id_at(&t->modes[at].id) != -id) at--;
    if (at < 0) return 0;
    for (int next = unwind ? end : at + 1; next < end; next++, at++) {
        atomic_store_explicit(&t->modes[at].id, id_at(&t->modes[next].id), memory_order_relaxed);
        t->modes[at].grad = t->modes[next].grad;
        t->modes[at].autocast = t->modes[next].autocast;
        t->modes[at].cache = t->modes[next].cache;
    }
    t->nmodes = at;
    while (at < end) atomic_store_explicit(&t->modes[at++].id, 0, memory_order_relaxed);
    apply_modes(t);
    settle(t);
    return 1;
}

void gd_grad_mode_abandon(int64_t id) {
    if (id <= 0 || gd_grad_mode_exit(id, 0)) return;
    pthread_mutex_lock(&threads_mutex);
    bool found = false;
    for (gd_thread *t = threads; t && !found; t = t->next)
        for (int i = 0; i < GD_MAX_MODES && !found; i++) found = abandon(&t->modes[i].id, id);
    pthread_mutex_unlock(&threads_mutex);
}
