/* region.c - the bytes of an arena in one kind of memory, the host's or a device's: bump allocation in reserved address space,
 * which steps over what was exported. Lock of the arena held throughout. */
#include "engine.h"

/* Results outside every step arena that are worth a warning. */
static const int64_t WARN_BYTES = (int64_t)256 << 20;
static atomic_bool warned;

bool gd_region_warns(void) { return !atomic_exchange(&warned, true); }

static char *align_up(char *p) { return (char *)(((uintptr_t)p + GD_ALIGN - 1) & ~(uintptr_t)(GD_ALIGN - 1)); }

static void set_limit(gd_region *r) {
    char *end = r->span.base + r->span.committed;
    r->limit = r->hole && r->hole->start < end ? r->hole->start : end;
}

void gd_region_set_hole(gd_region *r, gd_export *hole) {
    r->hole = hole;
    set_limit(r);
}

/* After the top went down. An export is wholly above the top or wholly below it. */
static void find_hole(gd_region *r) {
    gd_export *hole = r->hole, *before = hole ? hole->prev : r->exports_tail;
    for (; before && before->start >= r->top; before = before->prev) hole = before;
    gd_region_set_hole(r, hole);
}

void gd_region_poison(const gd_region *r, char *from, char *to) {
#ifdef GD_ASAN
    if (to <= from || r->span.device) return;
    GD_POISON(from, to - from);
    for (gd_export *e = r->exports; e; e = e->next) GD_UNPOISON(e->start, e->end - e->start);
#else
    (void)r, (void)from, (void)to;
#endif
}

void gd_region_set(gd_region *r, gd_span span) {
    *r = (gd_region){.span = span, .top = span.base, .own_top = span.base};
    set_limit(r);
    if (!span.device) GD_POISON(span.base, span.committed);
}

void gd_region_close(gd_region *r) {
    if (r->span.base) gd_span_release(&r->span);
    *r = (gd_region){0};
}

gd_status gd_region_out_of_memory(const gd_region *r, const char *name, int64_t bytes, const char *why) {
    const char *limited = gd_span_limited(&r->span);
    return gd_fail(GD_ERR_MEMORY,
                   "arena '%s' is out of memory%s: %lld bytes requested, %lld used, %lld committed, %lld reserved%s%s. "
                   "%s, or reset it more often",
                   name, r->span.device ? gd_text_on_device(r->span.device) : "", (long long)bytes, (long long)(r->top - r->span.base),
                   (long long)r->span.committed, (long long)r->span.reserved, limited, why, *limited ? "Raise the limit" : "Open it with a larger reserve");
}

/* Leaves holes behind and commits more, until `bytes` fit below the limit. asked: before rounding, for the message. */
static gd_status make_room(gd_region *r, int64_t bytes, int64_t asked, const char *name, bool permanent) {
    char *top = r->top;
    gd_export *hole = r->hole;
    while (hole && hole->start - top < bytes) {
        if (hole->end > top) top = align_up(hole->end);
        hole = hole->next;
    }
    if (bytes > r->span.base + r->span.reserved - top) return gd_region_out_of_memory(r, name, asked, "");
    char *before = r->span.base + r->span.committed;
    if (gd_span_commit(&r->span, top + bytes - r->span.base, name) < 0)
        return gd_region_out_of_memory(r, name, asked, r->span.device ? " and the device has no more" : " and the system gave no more");
    gd_region_poison(r, before, r->span.base + r->span.committed);
    r->top = top;
    r->hole = hole;
    set_limit(r);
    if (permanent && top - r->span.base + bytes > WARN_BYTES && gd_region_warns())
        gd_warn("more than %lld MiB of tensors were made outside any step arena, where nothing is freed. "
                "Write `with gd.step_arena():` around each training or evaluation step",
                (long long)(WARN_BYTES >> 20));
    return GD_OK;
}

void *gd_region_take(gd_region *r, int64_t bytes, const char *name, bool permanent) {
    int64_t asked = bytes;
    bytes = (bytes + GD_ALIGN - 1) & -(int64_t)GD_ALIGN;
    if (__builtin_expect(r->limit - r->top < bytes, 0) && make_room(r, bytes, asked, name, permanent) < 0) return NULL;
    char *p = r->top;
    if (!r->span.device) GD_UNPOISON(p, asked);
    r->top += bytes;
    if (r->top - r->span.base > r->high_water) r->high_water = r->top - r->span.base;
    return p;
}

void gd_region_lower(gd_region *r, char *top) {
    gd_region_poison(r, top, r->top);
    if (r->span.device && top < r->top) gd_device_lowered(r);
    r->top = top;
    find_hole(r);
}
