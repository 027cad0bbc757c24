/* span.c - address space reserved once and committed from the front, so memory grows without moving.
 * Also the switch that makes a chosen allocation fail, for tests. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "engine.h"

enum { PAGE = 4096 };
static const int64_t HUGE_PAGE = 2 << 20;      /* spans start on a huge page boundary */
static const int64_t SMALLEST_DEFAULT = 2 << 20; /* a default reserve shrinks to this before it gives up */
static const int64_t SHARE = 4;                  /* and takes this part of what it could get: others need room too */
static const int64_t FIRST_COMMIT = 256 << 10, LARGEST_COMMIT = 64 << 20;
static const int64_t WORTH_RETURNING = 1 << 20; /* fewer bytes are zeroed faster than faulted in again */

static atomic_llong fail_countdown; /* > 0: allocations until one fails */
static atomic_llong allocation_count;
static atomic_int fail_armed;

int64_t gd_test_fail_allocation(int64_t nth) {
    int64_t count = atomic_exchange(&allocation_count, 0);
    atomic_store(&fail_countdown, nth);
    atomic_store(&fail_armed, 1);
    if (nth == 0) atomic_store(&fail_armed, 0);
    return count;
}

bool gd_allocation_fails(void) {
    if (__builtin_expect(!atomic_load_explicit(&fail_armed, memory_order_relaxed), 1)) return false;
    atomic_fetch_add(&allocation_count, 1);
    return atomic_fetch_sub(&fail_countdown, 1) == 1;
}

static int64_t round_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

static char *map_aligned(int64_t bytes) {
    char *at = mmap(NULL, (size_t)(bytes + HUGE_PAGE), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return NULL;
    char *base = (char *)round_up((int64_t)(intptr_t)at, HUGE_PAGE);
    if (base > at) munmap(at, (size_t)(base - at));
    munmap(base + bytes, (size_t)(at + HUGE_PAGE - base));
    return base;
}

gd_status gd_span_reserve(gd_span *s, int64_t bytes, bool exact, const char *what) {
    *s = (gd_span){0};
    if (bytes <= 0 || bytes > ((int64_t)1 << 46))
        return gd_fail(GD_ERR_VALUE, "%s: cannot reserve %lld bytes: the size must be between 1 and 2^46", what, (long long)bytes);
    bytes = round_up(bytes, PAGE);
    s->asked = bytes;
    while (!gd_allocation_fails()) {
        s->base = map_aligned(bytes);
        if (s->base) {
            s->reserved = bytes < s->asked && bytes / SHARE > SMALLEST_DEFAULT ? round_up(bytes / SHARE, PAGE) : bytes;
            if (s->reserved < bytes) munmap(s->base + s->reserved, (size_t)(bytes - s->reserved));
            return GD_OK;
        }
        if (exact || bytes / 2 < SMALLEST_DEFAULT) break;
        bytes = round_up(bytes / 2, PAGE);
    }
    return gd_fail(GD_ERR_MEMORY, "%s: the system refused to reserve %lld bytes of address space (is there a limit such as ulimit -v?)", what,
                   (long long)s->asked);
}

/* For messages: "", or why less is reserved than was asked for. */
const char *gd_span_limited(const gd_span *s) {
    static _Thread_local char text[120];
    text[0] = 0;
    if (s->reserved < s->asked)
        snprintf(text, sizeof text, " of %lld wanted, as a limit on address space such as ulimit -v gave no more", (long long)s->asked);
    return text;
}

gd_status gd_span_commit(gd_span *s, int64_t bytes, const char *what) {
    if (bytes <= s->committed) return GD_OK;
    if (s->device) return gd_device_span_commit(s, bytes, what);
    if (bytes > s->reserved)
        return gd_fail(GD_ERR_MEMORY, "%s: %lld bytes are needed, %lld are reserved%s", what, (long long)bytes, (long long)s->reserved, gd_span_limited(s));
    /* grow by what is already there, within bounds: few system calls, little waste */
    int64_t step = s->committed < FIRST_COMMIT ? FIRST_COMMIT : s->committed > LARGEST_COMMIT ? LARGEST_COMMIT : s->committed;
    int64_t target = round_up(bytes > s->committed + step ? bytes : s->committed + step, PAGE);
    if (target > s->reserved) target = s->reserved;
    int64_t floor = round_up(bytes, PAGE);
    bool refused = gd_allocation_fails();
    while (refused || mprotect(s->base + s->committed, (size_t)(target - s->committed), PROT_READ | PROT_WRITE) != 0) {
        if (refused || target <= floor)
            return gd_fail(GD_ERR_MEMORY, "%s: the system refused %lld bytes (%lld are committed, %lld reserved)", what,
                           (long long)(target - s->committed), (long long)s->committed, (long long)s->reserved);
        target = floor;
    }
#ifdef MADV_HUGEPAGE
    if (target >= 2 * HUGE_PAGE) { /* advice only; a refusal changes nothing */
        int saved = errno;
        madvise(s->base, (size_t)(target / HUGE_PAGE * HUGE_PAGE), MADV_HUGEPAGE);
        errno = saved;
    }
#endif
    s->committed = target;
    return GD_OK;
}

void gd_zero_pages(int device, void *from, int64_t bytes) {
    if (device) {
        gd_device_fill(device, from, 0, bytes);
        return;
    }
    char *at = from, *end = at + bytes;
    char *first = (char *)round_up((int64_t)(intptr_t)at, PAGE), *last = (char *)((intptr_t)end & -(intptr_t)PAGE);
    if (bytes < WORTH_RETURNING || madvise(first, (size_t)(last - first), MADV_DONTNEED) != 0) {
        memset(from, 0, (size_t)bytes);
        return;
    }
    memset(at, 0, (size_t)(first - at));
    memset(last, 0, (size_t)(end - last));
}

void gd_span_release(gd_span *s) {
    if (s->device) {
        gd_device_span_release(s);
        return;
    }
    GD_UNPOISON(s->base, s->committed);
    if (s->base) munmap(s->base, (size_t)s->reserved);
    *s = (gd_span){0};
}
