/* slab.c - where parameters live: five parallel regions (value, gradient, previous gradient, two Adam moments)
 * in which a parameter stands at one offset, so that a whole model is one run of flat memory. */
#include <pthread.h>
#include <stdlib.h>

#include "engine.h"
#include "param.h"

typedef struct hole { int64_t at, bytes; } hole;
typedef struct slab {
    gd_span region[GD_REGIONS];
    int64_t used, taken; /* bytes from the front; places in use */
    hole *holes; /* places given back, by offset, none adjacent */
    int64_t hole_count, hole_room;
} slab;

static const int64_t SLAB_RESERVE = (int64_t)16 << 30, SMALLEST_SLAB = 1 << 20;
static slab slabs[1 + GD_MAX_DEVICES][4]; /* by device; float32, float64, bfloat16, float16 */
static pthread_mutex_t slab_mutex = PTHREAD_MUTEX_INITIALIZER;

void gd_slab_lock(void) { pthread_mutex_lock(&slab_mutex); }
void gd_slab_unlock(void) { pthread_mutex_unlock(&slab_mutex); }

/* All regions of one size, at most `bytes`; `first` becomes what the first of them got. */
static gd_status open_regions(gd_span *made, int device, int64_t bytes, int64_t *first) {
    for (int r = 0; r < GD_REGIONS; r++) {
        gd_status status = device ? gd_device_span_reserve(&made[r], device, bytes, "parameters") : gd_span_reserve(&made[r], bytes, false, "parameters");
        if (status < 0) {
            while (r--) gd_span_release(&made[r]);
            return status;
        }
        if (made[r].reserved < bytes) bytes = made[r].reserved;
        if (r == 0) *first = bytes;
    }
    return GD_OK;
}

/* Where address space is so short that the first region leaves too little for the others, all become smaller. */
static gd_status slab_open(slab *s, int device) {
    if (s->region[0].base) return GD_OK;
    gd_span made[GD_REGIONS];
    gd_status status;
    int64_t bytes = SLAB_RESERVE, first = 0;
    while ((status = open_regions(made, device, bytes, &first)) < 0 && !device && first / 2 >= SMALLEST_SLAB) {
        bytes = first / 2;
        first = 0;
        gd_clear_error();
    }
    if (status < 0) return status;
    for (int r = 0; r < GD_REGIONS; r++)
        if (!device) made[r].asked = SLAB_RESERVE;
    memcpy(s->region, made, sizeof made);
    return GD_OK;
}

static int64_t take_hole(slab *s, int64_t bytes) {
    for (int64_t i = 0; i < s->hole_count; i++) {
        hole *h = &s->holes[i];
        if (h->bytes < bytes) continue;
        int64_t at = h->at;
        h->at += bytes;
        h->bytes -= bytes;
        if (!h->bytes) memmove(h, h + 1, sizeof *h * (size_t)(--s->hole_count - i));
        return at;
    }
    return -1;
}

/* Room for as many holes as there can be with one place more: between two of them lies a place in use. */
static gd_status make_hole_room(slab *s) {
    if (s->taken + 2 <= s->hole_room) return GD_OK;
    int64_t room = s->hole_room ? 2 * s->hole_room : 64;
    hole *bigger = gd_allocation_fails() ? NULL : realloc(s->holes, sizeof *bigger * (size_t)room);
    if (!bigger) return gd_fail(GD_ERR_MEMORY, "parameters: no memory to keep a list of %lld places", (long long)room);
    s->holes = bigger;
    s->hole_room = room;
    return GD_OK;
}

static void add_hole(slab *s, int64_t at, int64_t bytes) {
    int64_t i = 0;
    while (i < s->hole_count && s->holes[i].at < at) i++;
    bool joins_left = i > 0 && s->holes[i - 1].at + s->holes[i - 1].bytes == at;
    bool joins_right = i < s->hole_count && at + bytes == s->holes[i].at;
    if (joins_left && joins_right) {
        s->holes[i - 1].bytes += bytes + s->holes[i].bytes;
        memmove(&s->holes[i], &s->holes[i + 1], sizeof *s->holes * (size_t)(--s->hole_count - i));
    } else if (joins_left) {
        s->holes[i - 1].bytes += bytes;
    } else if (joins_right) {
        s->holes[i].at = at;
        s->holes[i].bytes += bytes;
    } else {
        memmove(&s->holes[i + 1], &s->holes[i], sizeof *s->holes * (size_t)(s->hole_count++ - i));
        s->holes[i] = (hole){at, bytes};
    }
    hole *last = s->hole_count ? &s->holes[s->hole_count - 1] : NULL;
    if (last && last->at + last->bytes == s->used) { /* the end of the slab is free again */
        s->used = last->at;
        s->hole_count--;
    }
    s->taken--;
}

static slab *slab_of(int device, int dtype) { return &slabs[device][gd_is_half(dtype) ? 2 + (dtype == GD_FLOAT16) : dtype == GD_FLOAT64]; }

/* What a device hands out is not zero yet. */
static gd_status commit(gd_span *region, int64_t bytes) {
    const int64_t before = region->committed;
    GD_TRY(gd_span_commit(region, bytes, "parameters"));
    if (region->device && region->committed > before) gd_device_fill(region->device, region->base + before, 0, region->committed - before);
    return GD_OK;
}

gd_status gd_slab_take(int device, int dtype, int64_t bytes, void **ptr) {
    slab *s = slab_of(device, dtype);
    GD_TRY(slab_open(s, device));
    GD_TRY(make_hole_room(s));
    if (gd_allocation_fails()) return gd_fail(GD_ERR_MEMORY, "parameters: %lld bytes refused (a failure asked for by a test)", (long long)bytes);
    int64_t at = take_hole(s, bytes);
    if (at < 0) {
        at = s->used;
        for (int r = 0; r < GD_REGIONS; r++) GD_TRY(commit(&s->region[r], at + bytes));
        s->used = at + bytes;
    }
    s->taken++;
    for (int r = 0; r < GD_REGIONS; r++) ptr[r] = s->region[r].base + at;
    return GD_OK;
}

int64_t gd_slab_bytes(int device, bool committed) {
    int64_t bytes = 0;
    gd_slab_lock();
    for (int k = 0; k < 4; k++)
        for (int r = 0; r < GD_REGIONS; r++) bytes += committed ? slabs[device][k].region[r].committed : slabs[device][k].used;
    gd_slab_unlock();
    return bytes;
}

void gd_slab_give_back(int device, int dtype, const void *ptr, int64_t bytes) {
    slab *s = slab_of(device, dtype);
    add_hole(s, (const char *)ptr - s->region[0].base, bytes);
}
