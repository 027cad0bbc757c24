/* cuda_runtime.h - stands in for CUDA's: with it the .cu files are C++ for the CPU. Grids run block by block, each thread of a
 * block is a fiber (fibers.cpp, launch.cpp). A test tool: slow, and strict about what CUDA leaves undefined. */
#ifndef GRADINO_EMULATE_CUDA_RUNTIME_H
#define GRADINO_EMULATE_CUDA_RUNTIME_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <tuple>
#include <type_traits>

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __constant__ static const
#define __align__(n) alignas(n)

#include "vectors.h"

namespace gd_emulate {

/* The thread that runs now. */
struct position {
    uint3 thread, block;
    dim3 block_size, grid_size;
    int number, lane, warp; /* of the thread within its block, of its lane and warp */
};
extern position now;

/* ---- Launches -------------------------------------------------------------------------------------------------- */

/* The arguments are copied where the launch is put off. */
void run(const char *name, dim3 grid, dim3 block, size_t shared, void *stream, void (*call)(void *arguments), void *arguments, size_t bytes);

template <typename... Parameters, typename... Arguments>
void launch(const char *name, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared, void *stream, Arguments... arguments) {
    struct work {
        void (*kernel)(Parameters...);
        std::tuple<Parameters...> arguments;
    } all = {kernel, std::tuple<Parameters...>(arguments...)};
    run(name, grid, block, shared, stream, [](void *p) { std::apply(((work *)p)->kernel, ((work *)p)->arguments); }, &all, sizeof all);
}

/* Ends the kernel with an error that names it, the block and the thread; does not return. */
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- Barriers and what a warp does together ------------------------------------------------------------------------ */

enum barrier_kind { PLAIN, COUNT, AND, OR };
int barrier(int kind, int predicate, const char *file, int line);

/* All lanes of the mask meet here with data of their own; the last one to come runs `finish` for all of them. */
struct meeting {
    void (*finish)(meeting *m);
    uint32_t mask, present; /* present: those of the mask that have not exited */
    void *data[32];
};
void meet(uint32_t mask, void (*finish)(meeting *m), void *data, bool orders_memory);

enum shuffle_kind { AT, UP, DOWN, XOR };
uint64_t shuffle(uint32_t mask, uint64_t bits, int kind, int by, int width);
uint32_t ballot(uint32_t mask, int predicate);
uint32_t match(uint32_t mask, uint64_t bits);
uint32_t active_lanes();

/* ---- Shared memory: where it is, who touched it ----------------------------------------------------------------------- */

enum { SHARED_MOST = 99 * 1024, SHARED_STATIC = 48 * 1024, NOBODY = -1, SEVERAL = -2, ATOMICALLY = -3 };

/* Of each byte: the last write and the reads since the last barrier. Epochs count barriers and blocks, and never repeat. */
struct touched {
    uint32_t written, written_warp, read, read_warp;
    int16_t writer, reader, reader_group;
};
extern unsigned char shared_bytes[];
extern touched shared_touched[];
extern uint32_t epoch, first_epoch; /* now, and when the block began */
extern uint32_t warp_epoch[];       /* of each warp: how often __syncwarp ordered it */
extern bool checks_races;

[[noreturn]] void fail_unwritten(int32_t at, int size);
[[noreturn]] void fail_race(int32_t at, int size, const char *what, int other);
[[noreturn]] void fail_bounds(int64_t at, int64_t count, const char *what);
int32_t place(struct shared_slot *slot, size_t bytes);

/* Whether another thread's access, at that time, may be unordered with one of this thread's. */
inline bool unordered(uint32_t when, int who, int group, uint32_t when_warp) {
    return when == epoch && who != now.number && (group != now.warp || when_warp == warp_epoch[now.warp]);
}

inline void note_read(int32_t at, int size) {
    for (int k = 0; k < size; k += 2) {
        touched &t = shared_touched[at + k];
        if (t.written < first_epoch) fail_unwritten(at, size);
        if (!checks_races) continue;
        if (unordered(t.written, t.writer, t.writer >> 5, t.written_warp)) fail_race(at, size, "reads", t.writer);
        if (t.read != epoch || (t.reader_group == now.warp && t.read_warp != warp_epoch[now.warp])) {
            t.read = epoch, t.reader = (int16_t)now.number, t.reader_group = (int16_t)now.warp, t.read_warp = warp_epoch[now.warp];
        } else {
            if (t.reader != now.number) t.reader = SEVERAL;
            if (t.reader_group != now.warp) t.reader_group = SEVERAL;
        }
    }
}

inline void note_write(int32_t at, int size) {
    for (int k = 0; k < size; k += size > 1 ? 2 : 1) {
        touched &t = shared_touched[at + k];
        if (checks_races) {
            if (t.written >= first_epoch && unordered(t.written, t.writer, t.writer >> 5, t.written_warp)) fail_race(at, size, "writes", t.writer);
            if (unordered(t.read, t.reader, t.reader_group, t.read_warp)) fail_race(at, size, "writes", t.reader);
        }
        t.written = epoch, t.writer = (int16_t)now.number, t.written_warp = warp_epoch[now.warp];
    }
}

void note_atomic(int32_t at, int size);

template <typename T> T shared_read(int32_t at) {
    note_read(at, (int)sizeof(T));
    T x;
    memcpy((void *)&x, shared_bytes + at, sizeof(T));
    return x;
}
template <typename T> void shared_write(int32_t at, const T &x) {
    note_write(at, (int)sizeof(T));
    memcpy(shared_bytes + at, (const void *)&x, sizeof(T));
}

template <typename T> class shared_pointer;

/* One element: a value when read, and what stands there when assigned to. */
template <typename T> class shared_element {
    using value = std::remove_const_t<T>;
    int32_t at, first, end;

public:
    shared_element(int32_t at_, int32_t first_, int32_t end_) : at(at_), first(first_), end(end_) {}
    shared_element(const shared_element &) = default;
    operator value() const { return shared_read<value>(at); }
    shared_pointer<T> operator&() const { return shared_pointer<T>(at, first, end); }
    const shared_element &operator=(const value &x) const { return shared_write<value>(at, x), *this; }
    shared_element &operator=(const shared_element &other) { return shared_write<value>(at, (value)other), *this; }
    const shared_element &operator=(const shared_element &other) const { return shared_write<value>(at, (value)other), *this; }
#define GD_ASSIGNING(op) \
    template <typename U> const shared_element &operator op##=(const U &x) const { return *this = (value)((value)*this op x); }
    GD_ASSIGNING(+) GD_ASSIGNING(-) GD_ASSIGNING(*) GD_ASSIGNING(/) GD_ASSIGNING(%)
    GD_ASSIGNING(|) GD_ASSIGNING(&) GD_ASSIGNING(^) GD_ASSIGNING(<<) GD_ASSIGNING(>>)
#undef GD_ASSIGNING
    value operator++(int) const {
        const value old = *this;
        *this = (value)(old + 1);
        return old;
    }
    const shared_element &operator++() const { return *this = (value)((value)*this + 1); }
};

/* A pointer into shared memory that knows the array it points into. */
template <typename T> class shared_pointer {
    int32_t at, first, end;
    void check(int64_t where) const {
        if (where < first || where + (int64_t)sizeof(T) > end)
            fail_bounds((where - first) / (int64_t)sizeof(T), (end - first) / (int64_t)sizeof(T), "through a pointer");
        if (where % (int64_t)alignof(T)) fail("an address in shared memory that is not a multiple of %d", (int)alignof(T));
    }

public:
    shared_pointer() : at(0), first(0), end(0) {}
    shared_pointer(int32_t at_, int32_t first_, int32_t end_) : at(at_), first(first_), end(end_) {}
    operator shared_pointer<const T>() const { return shared_pointer<const T>(at, first, end); }
    template <typename U> shared_pointer<U> as() const { return shared_pointer<U>(at, first, end); }
    shared_element<T> operator[](int64_t i) const {
        const int64_t where = at + i * (int64_t)sizeof(T);
        check(where);
        return shared_element<T>((int32_t)where, first, end);
    }
    shared_element<T> operator*() const { return (*this)[0]; }
    shared_pointer operator+(int64_t i) const { return shared_pointer((int32_t)(at + i * (int64_t)sizeof(T)), first, end); }
    shared_pointer operator-(int64_t i) const { return *this + -i; }
    shared_pointer &operator+=(int64_t i) { return *this = *this + i; }
    shared_pointer &operator++() { return *this += 1; }
    int64_t operator-(const shared_pointer &other) const { return (at - other.at) / (int64_t)sizeof(T); }
    bool operator==(const shared_pointer &other) const { return at == other.at; }
    /* For what stands in for instructions: where `count` elements are, after the checks. */
    int32_t whole(int64_t count) const {
        check(at);
        check(at + (count - 1) * (int64_t)sizeof(T));
        return at;
    }
};

/* An array of several extents; each index is checked against its own. */
struct shared_slot {
    uint32_t launch = 0;
    int32_t at = 0;
};
template <typename T, int64_t First, int64_t... Rest> class shared_part {
    int32_t at, first, end;

public:
    shared_part(int32_t at_, int32_t first_, int32_t end_) : at(at_), first(first_), end(end_) {}
    auto operator[](int64_t i) const {
        if (i < 0 || i >= First) fail_bounds(i, First, "of an array");
        if constexpr (sizeof...(Rest) == 0) return shared_element<T>((int32_t)(at + i * (int64_t)sizeof(T)), first, end);
        else return shared_part<T, Rest...>((int32_t)(at + i * (int64_t)sizeof(T) * (Rest * ...)), first, end);
    }
    operator shared_pointer<T>() const {
        static_assert(sizeof...(Rest) == 0, "take the address of an element");
        return shared_pointer<T>(at, first, end);
    }
    shared_pointer<T> operator+(int64_t i) const { return shared_pointer<T>(*this) + i; }
    shared_element<T> operator*() const { return (*this)[0]; }
};
template <typename T, int64_t... Extents> class shared_array : public shared_part<T, Extents...> {
    static constexpr int32_t bytes = (int32_t)(sizeof(T) * (Extents * ...));
    explicit shared_array(int32_t at) : shared_part<T, Extents...>(at, at, at + bytes) {}

public:
    explicit shared_array(shared_slot &slot) : shared_array(place(&slot, bytes)) {}
};

extern int32_t dynamic_size;
template <typename T> shared_pointer<T> dynamic_shared() { return shared_pointer<T>(0, 0, dynamic_size); }

/* ---- Copies to shared memory that land when they are waited for ---------------------------------------------------------- */

void copy_later(int32_t to, const void *from, int bytes); /* from NULL: zeros */
void commit_copies();
void await_copies(int most);

/* ---- Tensor cores, for mma.cuh -------------------------------------------------------------------------------------------- */

void multiply_halves(bool bf16, float *d, const uint32_t *a, const uint32_t *b);
void multiply_tf32(float *d, const uint32_t *a, const uint32_t *b);
void load_matrices(bool turned, uint32_t *r, int32_t at);

} // namespace gd_emulate

#define threadIdx (gd_emulate::now.thread)
#define blockIdx (gd_emulate::now.block)
#define blockDim (gd_emulate::now.block_size)
#define gridDim (gd_emulate::now.grid_size)
#define warpSize 32

#define __syncthreads() ((void)gd_emulate::barrier(gd_emulate::PLAIN, 0, __FILE__, __LINE__))
#define __syncthreads_count(predicate) gd_emulate::barrier(gd_emulate::COUNT, (predicate), __FILE__, __LINE__)
#define __syncthreads_and(predicate) gd_emulate::barrier(gd_emulate::AND, (predicate), __FILE__, __LINE__)
#define __syncthreads_or(predicate) gd_emulate::barrier(gd_emulate::OR, (predicate), __FILE__, __LINE__)

#include "intrinsics.h"
#include "runtime_api.h"

#endif
