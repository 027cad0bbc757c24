/* launch.cpp - runs a grid: block after block, the threads of a block as fibers that change places where they wait for each
 * other. A thread that never waits costs a call: its fiber takes up the next one. */
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <vector>

#include "cuda_runtime.h"
#include "devices.h"
#include "fibers.h"
#include "launch.h"
#include "order.h"

namespace gd_emulate {

position now;

/* ---- State: one launch at a time ----------------------------------------------------------------------------------- */

enum { MOST_WARPS = MOST_THREADS / 32, MOST_MEETINGS = 16, MESSAGE = 1024 };
enum state : uint8_t { UNSTARTED, READY, RUNNING, AT_BARRIER, AT_MEETING, DONE };

struct thread {
    fiber *on;
    uint3 index;
    const char *file; /* of the barrier where it waits */
    int line, kind;
};
struct gathering { /* lanes of a warp that wait for each other */
    meeting m;
    uint32_t came;
    bool orders_memory;
};
struct warp {
    uint32_t exist, exited;
    int gatherings;
    gathering open[MOST_MEETINGS];
};

static thread_local char last_message[MESSAGE];
static const char *kernel_name;
static void (*kernel_call)(void *);
static void *kernel_arguments;
static bool running, failed;
static pthread_t runner;
static char message[MESSAGE];

static state states[MOST_THREADS];
static thread threads[MOST_THREADS];
static warp warps[MOST_WARPS];
static int count, started, done;
static uint16_t ready[MOST_THREADS]; /* a ring of threads that may go on */
static int ready_first, ready_count;
static int barrier_came, barrier_sum, barrier_result;

static fiber scheduler, *current;
static std::vector<fiber *> fibers, idle;

static shuffled_order thread_order;

const char *take_message() {
    static thread_local char taken[MESSAGE];
    memcpy(taken, last_message, sizeof taken);
    last_message[0] = 0;
    return taken;
}
bool has_failed() { return last_message[0] != 0; }

/* ---- Failing --------------------------------------------------------------------------------------------------------- */

static void describe(bool in_thread, const char *format, va_list words) {
    if (failed) return;
    failed = true;
    int n = snprintf(message, sizeof message, "kernel %s, block (%u,%u,%u)", kernel_name, now.block.x, now.block.y, now.block.z);
    if (in_thread) n += snprintf(message + n, sizeof message - (size_t)n, ", thread (%u,%u,%u)", now.thread.x, now.thread.y, now.thread.z);
    n += snprintf(message + n, sizeof message - (size_t)n, ": ");
    vsnprintf(message + n, sizeof message - (size_t)n, format, words);
}

void fail(const char *format, ...) {
    va_list words;
    va_start(words, format);
    describe(true, format, words);
    va_end(words);
    fiber_switch(current, &scheduler);
    abort(); /* nobody comes back */
}

__attribute__((format(printf, 1, 2))) static void fail_block(const char *format, ...) {
    va_list words;
    va_start(words, format);
    describe(false, format, words);
    va_end(words);
}

/* Memory that the kernel must not touch: the fiber is left where it is. */
static struct sigaction before_segv, before_bus;
static void on_fault(int number, siginfo_t *info, void *) {
    if (running && current && pthread_equal(runner, pthread_self()))
        fail("touches the address %p, where there is no memory of a device", info->si_addr);
    sigaction(number, number == SIGBUS ? &before_bus : &before_segv, nullptr); /* and faults again */
}

/* ---- Threads --------------------------------------------------------------------------------------------------------- */

/* This thread begins. */
static void begin_at(int t) {
    const dim3 size = now.block_size;
    const unsigned n = (unsigned)t;
    if (size.y == 1 && size.z == 1) now.thread = {n, 0, 0};
    else now.thread = {n % size.x, n / size.x % size.y, n / (size.x * size.y)};
    threads[t].index = now.thread;
    now.number = t, now.lane = t & 31, now.warp = t >> 5;
}

/* This one goes on. */
static void go_on_at(int t) {
    now.thread = threads[t].index;
    now.number = t, now.lane = t & 31, now.warp = t >> 5;
}

static void make_ready(int t) {
    states[t] = READY;
    ready[(ready_first + ready_count++) % MOST_THREADS] = (uint16_t)t;
}

/* Leaves this thread until it is made ready. */
static void wait(state why) {
    const int t = now.number;
    states[t] = why;
    threads[t].on = current;
    fiber_switch(current, &scheduler);
    states[t] = RUNNING;
}

static void close_meeting(warp *w, gathering *g);

/* Meetings that lacked only this thread go on without it. */
static void leave_warp() {
    warp *w = &warps[now.warp];
    w->exited |= 1u << now.lane;
    for (int k = 0; k < w->gatherings; k++) {
        gathering *g = &w->open[k];
        if (g->came == (g->m.mask & w->exist & ~w->exited)) close_meeting(w, g), k--;
    }
}

static void fiber_entry() {
    for (;;) {
        while (started < count && ready_count == 0) {
            const int t = (int)thread_order.at((uint64_t)started++);
            begin_at(t);
            states[t] = RUNNING;
            copies_begin(t);
            kernel_call(kernel_arguments);
            if (failed) break;
            states[t] = DONE;
            done++;
            leave_warp();
        }
        fiber *self = current;
        idle.push_back(self);
        fiber_switch(self, &scheduler);
    }
}

/* ---- Barriers -------------------------------------------------------------------------------------------------------- */

uint32_t epoch, first_epoch, warp_epoch[MOST_WARPS];

int barrier(int kind, int predicate, const char *file, int line) {
    thread *self = &threads[now.number];
    self->file = file, self->line = line, self->kind = kind;
    barrier_sum += predicate != 0;
    if (++barrier_came < count) {
        wait(AT_BARRIER);
        return barrier_result;
    }
    for (int t = 0; t < count; t++) {
        const thread *other = &threads[t];
        if (other->line != line || other->kind != kind || strcmp(other->file, file) != 0)
            fail("divergent barriers: this thread is at %s:%d, thread %d at %s:%d", file, line, t, other->file, other->line);
    }
    const int sum = barrier_sum;
    barrier_result = kind == COUNT ? sum : kind == AND ? sum == count : sum != 0;
    barrier_came = barrier_sum = 0;
    epoch++;
    for (int t = 0; t < count; t++)
        if (t != now.number) make_ready(t);
    return barrier_result;
}

/* ---- What a warp does together ---------------------------------------------------------------------------------------- */

static void close_meeting(warp *w, gathering *g) {
    g->m.present = g->came;
    g->m.finish(&g->m);
    const int number = (int)(w - warps);
    if (g->orders_memory) warp_epoch[number]++;
    const uint32_t came = g->came;
    *g = w->open[--w->gatherings];
    for (int lane = 0; lane < 32; lane++) {
        const int t = 32 * number + lane;
        if (came >> lane & 1 && states[t] == AT_MEETING) make_ready(t);
    }
}

void meet(uint32_t mask, void (*finish)(meeting *), void *data, bool orders_memory) {
    warp *w = &warps[now.warp];
    const uint32_t bit = 1u << now.lane;
    if (!(mask & bit)) fail("lane %d is not in the mask %08x that it gives", now.lane, mask);
    gathering *g = nullptr;
    for (int k = 0; k < w->gatherings && !g; k++)
        if (w->open[k].m.mask == mask && w->open[k].m.finish == finish) g = &w->open[k];
    if (!g) {
        if (w->gatherings == MOST_MEETINGS) fail("lanes of warp %d wait in %d different places", now.warp, MOST_MEETINGS);
        g = &w->open[w->gatherings++];
        g->m.finish = finish;
        g->m.mask = mask;
        g->came = 0;
        g->orders_memory = orders_memory;
    }
    g->m.data[now.lane] = data;
    g->came |= bit;
    if (g->came == (mask & w->exist & ~w->exited)) close_meeting(w, g);
    else wait(AT_MEETING);
}

struct shuffling {
    uint64_t bits, result;
    int kind, by, width, unfit; /* unfit: 1 + the lane that it wants and that is not there */
};

static void finish_shuffle(meeting *m) {
    for (int lane = 0; lane < 32; lane++) {
        if (!(m->present >> lane & 1)) continue;
        shuffling *s = (shuffling *)m->data[lane];
        const int first = lane & -s->width, last = first + s->width - 1;
        int from = lane;
        if (s->kind == AT) from = first + (s->by & (s->width - 1));
        else if (s->kind == UP) from = lane - s->by < first ? lane : lane - s->by;
        else if (s->kind == DOWN) from = lane + s->by > last ? lane : lane + s->by;
        else from = (lane ^ s->by) > last ? lane : lane ^ s->by;
        if (!(m->present >> from & 1)) s->unfit = 1 + from;
        else s->result = ((shuffling *)m->data[from])->bits;
    }
}

uint64_t shuffle(uint32_t mask, uint64_t bits, int kind, int by, int width) {
    if (width < 1 || width > 32 || width & (width - 1)) fail("a shuffle over %d lanes", width);
    shuffling s = {bits, 0, kind, by, width, 0};
    meet(mask, finish_shuffle, &s, false);
    if (s.unfit) fail("a shuffle from lane %d, which is not active", s.unfit - 1);
    return s.result;
}

struct voting {
    uint64_t bits;
    uint32_t result;
};
static void finish_ballot(meeting *m) {
    uint32_t votes = 0;
    for (int lane = 0; lane < 32; lane++)
        if (m->present >> lane & 1 && ((voting *)m->data[lane])->bits) votes |= 1u << lane;
    for (int lane = 0; lane < 32; lane++)
        if (m->present >> lane & 1) ((voting *)m->data[lane])->result = votes;
}
static void finish_match(meeting *m) {
    for (int lane = 0; lane < 32; lane++) {
        if (!(m->present >> lane & 1)) continue;
        voting *v = (voting *)m->data[lane];
        v->result = 0;
        for (int other = 0; other < 32; other++)
            if (m->present >> other & 1 && ((voting *)m->data[other])->bits == v->bits) v->result |= 1u << other;
    }
}
uint32_t ballot(uint32_t mask, int predicate) {
    voting v = {predicate != 0, 0};
    meet(mask, finish_ballot, &v, false);
    return v.result;
}
uint32_t match(uint32_t mask, uint64_t bits) {
    voting v = {bits, 0};
    meet(mask, finish_match, &v, false);
    return v.result;
}
uint32_t active_lanes() { return warps[now.warp].exist & ~warps[now.warp].exited; }

/* ---- A block, a grid --------------------------------------------------------------------------------------------------- */

/* Says who waits where when nobody can go on. */
static void report_standstill() {
    int at_barrier = 0, at_meeting = 0, waits = -1, meets = -1, exited = 0;
    for (int t = 0; t < count; t++) {
        at_barrier += states[t] == AT_BARRIER;
        at_meeting += states[t] == AT_MEETING;
        exited += states[t] == DONE;
        if (states[t] == AT_BARRIER && waits < 0) waits = t;
        if (states[t] == AT_MEETING && meets < 0) meets = t;
    }
    if (waits >= 0)
        fail_block("divergent barrier: %d of %d threads wait at %s:%d, such as thread %d; %d have exited, %d wait in their warp%s%.0d", at_barrier,
                   count, threads[waits].file, threads[waits].line, waits, exited, at_meeting, meets < 0 ? "" : ", such as another", meets);
    else
        fail_block("divergent warp: %d lanes, such as thread %d, wait for lanes of their mask that do not come; %d threads have exited", at_meeting,
                   meets, exited);
}

static void run_block() {
    memset(states, UNSTARTED, (size_t)count);
    started = done = ready_first = ready_count = barrier_came = barrier_sum = 0;
    epoch++;
    first_epoch = epoch;
    for (int w = 0; w < (count + 31) / 32; w++) {
        const int lanes = count - 32 * w < 32 ? count - 32 * w : 32;
        warps[w].exist = lanes == 32 ? 0xffffffffu : (1u << lanes) - 1;
        warps[w].exited = 0;
        warps[w].gatherings = 0;
        warp_epoch[w] = 1;
    }
    thread_order.draw((uint64_t)count);
    while (!failed) {
        if (ready_count > 0) {
            if (seed) { /* any of them */
                const int other = (ready_first + (int)random_below((uint32_t)ready_count)) % MOST_THREADS;
                const uint16_t t = ready[other];
                ready[other] = ready[ready_first], ready[ready_first] = t;
            }
            const int t = ready[ready_first];
            ready_first = (ready_first + 1) % MOST_THREADS;
            ready_count--;
            go_on_at(t);
            current = threads[t].on;
            fiber_switch(&scheduler, current);
        } else if (started < count) {
            if (idle.empty()) {
                fiber *f = new fiber();
                if (!fiber_open(f)) {
                    fail_block("no memory for the stacks of %d threads", count);
                    break;
                }
                fiber_restart(f, fiber_entry);
                fibers.push_back(f);
                idle.push_back(f);
            }
            current = idle.back();
            idle.pop_back();
            fiber_switch(&scheduler, current);
        } else {
            break;
        }
    }
    current = nullptr;
    if (!failed && done < count) report_standstill();
    if (failed) { /* stacks are left as they are */
        idle.clear();
        for (fiber *f : fibers) {
            fiber_restart(f, fiber_entry);
            idle.push_back(f);
        }
    }
}

/* A stack for the handler, which runs where a thread's own may have ended. */
static void prepare_signals() {
    static thread_local bool prepared;
    if (!prepared) {
        stack_t old;
        prepared = true;
        if (sigaltstack(nullptr, &old) == 0 && old.ss_flags & SS_DISABLE) {
            static thread_local char room[64 * 1024];
            stack_t own = {};
            own.ss_sp = room, own.ss_size = sizeof room;
            sigaltstack(&own, nullptr);
        }
    }
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &before_segv);
    sigaction(SIGBUS, &action, &before_bus);
}

static void read_environment() {
    static bool read;
    if (read) return;
    read = true;
    const char *text = getenv("GRADINO_EMULATE_SEED");
    seed = text ? strtoull(text, nullptr, 10) : 0;
    draws = seed;
    text = getenv("GRADINO_EMULATE_RACES");
    checks_races = !text || strcmp(text, "0") != 0;
}

static void run_now(const char *name, dim3 grid, dim3 block, size_t shared, void (*call)(void *), void *arguments) {
    const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z, size = (uint64_t)block.x * block.y * block.z;
    if (blocks == 0) return;
    device_time in_it;
    read_environment();
    kernel_name = name, kernel_call = call, kernel_arguments = arguments;
    failed = false;
    shared_begin(shared);
    now = position();
    now.block_size = block, now.grid_size = grid;
    count = (int)size;
    if (size == 0 || size > MOST_THREADS || block.z > 64) fail_block("%llu threads in a block", (unsigned long long)size);
    else if (grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535) fail_block("a grid of %u x %u x %u blocks", grid.x, grid.y, grid.z);
    else if (shared > SHARED_MOST) fail_block("%llu bytes of shared memory: at most %d", (unsigned long long)shared, SHARED_MOST);
    runner = pthread_self();
    prepare_signals();
    running = true;
    shuffled_order order;
    order.draw(blocks);
    for (uint64_t i = 0; i < blocks && !failed; i++) {
        const uint64_t b = order.at(i);
        now.block = {(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y), (unsigned)(b / grid.x / grid.y)};
        run_block();
    }
    running = false;
    sigaction(SIGSEGV, &before_segv, nullptr);
    sigaction(SIGBUS, &before_bus, nullptr);
    if (failed) {
        if (!last_message[0]) memcpy(last_message, message, sizeof message);
        const char *text = getenv("GRADINO_EMULATE_ABORT");
        if (text && *text) {
            fprintf(stderr, "%s\n", message);
            abort();
        }
    }
}

void run(const char *name, dim3 grid, dim3 block, size_t shared, void *stream, void (*call)(void *), void *arguments, size_t bytes) {
    if (!puts_off()) return run_now(name, grid, block, shared, call, arguments);
    const std::vector<char> kept((char *)arguments, (char *)arguments + bytes);
    submit(stream, [=]() mutable { run_now(name, grid, block, shared, call, (void *)kept.data()); });
}

} // namespace gd_emulate
