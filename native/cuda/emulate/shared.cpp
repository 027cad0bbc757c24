/* shared.cpp - shared memory: where arrays lie in it, what was touched by whom, and copies that arrive later. */
#include <stdio.h>

#include <vector>

#include "cuda_runtime.h"
#include "launch.h"

namespace gd_emulate {

alignas(128) unsigned char shared_bytes[SHARED_MOST + 16];
touched shared_touched[SHARED_MOST + 16];
bool checks_races = true;
int32_t dynamic_size;
static int32_t static_size; /* of the launch so far, after the dynamic part */
static uint32_t launches;

void shared_begin(size_t dynamic) {
    launches++;
    static_size = 0;
    dynamic_size = dynamic < SHARED_MOST ? (int32_t)dynamic : (int32_t)SHARED_MOST;
}

int32_t place(shared_slot *slot, size_t bytes) {
    if (slot->launch != launches) {
        const int32_t first = (dynamic_size + 15) & -16;
        static_size = (static_size + 15) & -16;
        slot->launch = launches;
        slot->at = first + static_size;
        static_size += (int32_t)bytes;
        if (static_size > SHARED_STATIC) fail("%d bytes of static shared memory: at most %d", static_size, SHARED_STATIC);
        if (slot->at + (int32_t)bytes > SHARED_MOST) fail("%d bytes of shared memory: at most %d", slot->at + (int32_t)bytes, SHARED_MOST);
    }
    return slot->at;
}

void fail_bounds(int64_t at, int64_t extent, const char *what) {
    fail("out of bounds of shared memory: element %lld of %lld %s", (long long)at, (long long)extent, what);
}

void fail_unwritten(int32_t at, int size) {
    fail("reads %d bytes at %d of shared memory that this block has not written", size, (int)at);
}

void fail_race(int32_t at, int size, const char *what, int other) {
    char who[32];
    if (other >= 0) snprintf(who, sizeof who, "thread %d", other);
    else snprintf(who, sizeof who, other == ATOMICALLY ? "an atomic operation" : "several threads");
    fail("a race: %s %d bytes at %d of shared memory, which %s touched, with no barrier between", what, size, (int)at, who);
}

void note_atomic(int32_t at, int size) {
    for (int k = 0; k < size; k += 2) {
        touched &t = shared_touched[at + k];
        if (t.written < first_epoch) fail_unwritten(at, size);
        if (checks_races) {
            if (t.writer != ATOMICALLY && unordered(t.written, t.writer, t.writer >> 5, t.written_warp)) fail_race(at, size, "changes", t.writer);
            if (unordered(t.read, t.reader, t.reader_group, t.read_warp)) fail_race(at, size, "changes", t.reader);
        }
        t.written = epoch, t.writer = ATOMICALLY, t.written_warp = 0;
    }
}

/* ---- Copies that land when the thread waits for them ---------------------------------------------------------------------- */

struct copy {
    int32_t to;
    const void *from;
    int bytes, group;
};
static struct {
    int group; /* how many were committed */
    std::vector<copy> copies;
} under_way[MOST_THREADS];

void copies_begin(int thread) {
    under_way[thread].group = 0;
    under_way[thread].copies.clear();
}
void copy_later(int32_t to, const void *from, int bytes) { under_way[now.number].copies.push_back({to, from, bytes, under_way[now.number].group}); }
void commit_copies() { under_way[now.number].group++; }
void await_copies(int most) {
    const int group = under_way[now.number].group;
    std::vector<copy> &copies = under_way[now.number].copies;
    size_t landed = 0;
    while (landed < copies.size() && copies[landed].group < group - most) {
        const copy c = copies[landed++];
        note_write(c.to, c.bytes);
        if (c.from) memcpy(shared_bytes + c.to, c.from, (size_t)c.bytes);
        else memset(shared_bytes + c.to, 0, (size_t)c.bytes);
    }
    copies.erase(copies.begin(), copies.begin() + (ptrdiff_t)landed);
}

} // namespace gd_emulate
