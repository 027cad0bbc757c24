/* devices.cpp - the emulated devices: memory, streams, events, copies. Device memory is host memory that, with
 * GRADINO_EMULATE_GUARD=1, can be touched by launches and copies only; GRADINO_EMULATE_DEVICES says how many devices there are. */
#include "devices.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "cuda_runtime.h"

enum : size_t { GRANULARITY = 2 * 1024 * 1024, MEMORY = (size_t)8 << 30 };
enum { MOST_DEVICES = 16 };

struct CUstream_st {
    int device;
    uint64_t issued = 0, finished = 0;
    std::deque<std::function<void()>> queue;
};
struct CUevent_st {
    bool timed;
    CUstream_st *stream = nullptr; /* what it waits for: the stream's work up to `number` */
    uint64_t number = 0;
    double when = 0;
};

namespace gd_emulate {

struct mapping {
    size_t bytes;
    int device;
};
static std::map<uintptr_t, size_t> reserved;
static std::map<uintptr_t, mapping> mapped; /* with access, neighbours joined */
static std::map<unsigned long long, mapping> created;
static std::map<uintptr_t, size_t> pinned;
static std::set<CUstream_st *> streams;
static size_t in_use[MOST_DEVICES];
static thread_local int device_now;
static std::recursive_mutex turn;
static int depth;

static bool is_on(const char *name) {
    const char *text = getenv(name);
    return text && *text && strcmp(text, "0") != 0;
}
static bool guards() {
    static const bool on = is_on("GRADINO_EMULATE_GUARD");
    return on;
}
bool puts_off() {
    static const bool on = is_on("GRADINO_EMULATE_DEFER");
    return on;
}

static void protect_all(int how) {
    for (const auto &m : mapped) mprotect((void *)m.first, m.second.bytes, how);
}

device_time::device_time() {
    turn.lock();
    if (depth++ == 0 && guards()) protect_all(PROT_READ | PROT_WRITE);
}
device_time::~device_time() {
    if (--depth == 0 && guards()) protect_all(PROT_NONE);
    turn.unlock();
}

static double clock_now() {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static CUstream_st *stream_of(void *handle) {
    static CUstream_st first{};
    return handle ? (CUstream_st *)handle : &first;
}

static void finish_until(CUstream_st *s, uint64_t number) {
    while (s->finished < number && !s->queue.empty()) {
        const std::function<void()> work = std::move(s->queue.front());
        s->queue.pop_front();
        work();
        s->finished++;
    }
}

void submit(void *stream, std::function<void()> work) {
    CUstream_st *s = stream_of(stream);
    const std::lock_guard<std::recursive_mutex> mine(turn);
    s->issued++;
    if (puts_off()) {
        s->queue.push_back(std::move(work));
    } else {
        work();
        s->finished++;
    }
}

static void finish(CUstream_st *s) {
    const std::lock_guard<std::recursive_mutex> mine(turn);
    finish_until(s, s->issued);
}

/* Whether all of it is memory of a device. */
static bool is_device(const void *p, size_t bytes) {
    const std::lock_guard<std::recursive_mutex> mine(turn);
    auto m = mapped.upper_bound((uintptr_t)p);
    if (m == mapped.begin()) return false;
    --m;
    return (uintptr_t)p + bytes <= m->first + m->second.bytes;
}
static bool is_pinned(const void *p) {
    const std::lock_guard<std::recursive_mutex> mine(turn);
    auto m = pinned.upper_bound((uintptr_t)p);
    return m != pinned.begin() && (--m, (uintptr_t)p < m->first + m->second);
}

static cudaError_t result() { return has_failed() ? cudaErrorLaunchFailure : cudaSuccess; }

} // namespace gd_emulate

using namespace gd_emulate;

const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorLaunchFailure: return take_message();
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorNotReady: return "not ready";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    default: return "invalid argument";
    }
}
cudaError_t cudaGetLastError() { return result(); }

cudaError_t cudaGetDeviceCount(int *count) {
    const char *text = getenv("GRADINO_EMULATE_DEVICES");
    const int n = text ? atoi(text) : 2;
    *count = n < 0 ? 0 : n > MOST_DEVICES ? MOST_DEVICES : n;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) { return *device = device_now, cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
    int count;
    cudaGetDeviceCount(&count);
    if (device < 0 || device >= count) return cudaErrorInvalidDevice;
    device_now = device;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
    static const int values[] = {4, 8, 0, 1};
    return *value = values[attribute], cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int) {
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "emulated device");
    out->totalGlobalMem = MEMORY;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    *total = MEMORY;
    *free = MEMORY - in_use[device_now];
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
    const std::lock_guard<std::recursive_mutex> mine(turn);
    for (CUstream_st *s : streams) finish(s);
    finish(stream_of(nullptr));
    return result();
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned) {
    if (posix_memalign(memory, 4096, bytes ? bytes : 1) != 0) return cudaErrorMemoryAllocation;
    const std::lock_guard<std::recursive_mutex> mine(turn);
    pinned[(uintptr_t)*memory] = bytes;
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void *memory) {
    cudaDeviceSynchronize();
    const std::lock_guard<std::recursive_mutex> mine(turn);
    if (memory && !pinned.erase((uintptr_t)memory)) return cudaErrorInvalidValue;
    free(memory);
    return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned) { return *device = host, cudaSuccess; }

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { return *least = 0, *greatest = -5, cudaSuccess; }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned, int) {
    *stream = new CUstream_st();
    (*stream)->device = device_now;
    const std::lock_guard<std::recursive_mutex> mine(turn);
    streams.insert(*stream);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    const std::lock_guard<std::recursive_mutex> mine(turn);
    finish(stream);
    streams.erase(stream);
    delete stream;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return finish(stream_of(stream)), result(); }
cudaError_t cudaStreamQuery(cudaStream_t stream) {
    /* What is put off gets on a little whenever somebody looks. */
    const std::lock_guard<std::recursive_mutex> mine(turn);
    CUstream_st *s = stream_of(stream);
    if (s->finished == s->issued) return result();
    finish_until(s, s->finished + 1);
    return cudaErrorNotReady;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    *event = new CUevent_st();
    (*event)->timed = !(flags & cudaEventDisableTiming);
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    cudaEventSynchronize(event); /* work that is put off knows it */
    delete event;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    const std::lock_guard<std::recursive_mutex> mine(turn);
    submit(stream, [event] { event->when = clock_now(); });
    event->stream = stream_of(stream);
    event->number = event->stream->issued;
    return cudaSuccess;
}
static bool alive(CUstream_st *s) { return s == stream_of(nullptr) || streams.count(s); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    CUstream_st *s = event->stream;
    const uint64_t number = event->number;
    if (!s) return cudaSuccess;
    submit(stream, [=] {
        if (alive(s)) finish_until(s, number);
    });
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    const std::lock_guard<std::recursive_mutex> mine(turn);
    if (event->stream && alive(event->stream)) finish_until(event->stream, event->number);
    return result();
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    const std::lock_guard<std::recursive_mutex> mine(turn);
    if (!event->stream || !alive(event->stream) || event->stream->finished >= event->number) return result();
    finish_until(event->stream, event->stream->finished + 1);
    return cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t first, cudaEvent_t second) {
    if (!first->timed || !second->timed || !first->stream || !second->stream) return cudaErrorInvalidValue;
    *milliseconds = (float)(second->when - first->when);
    return cudaSuccess;
}

/* ---- Copies ---------------------------------------------------------------------------------------------------------- */

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    if (bytes == 0) return cudaSuccess;
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind != cudaMemcpyDefault && (is_device(to, bytes) != to_device || is_device(from, bytes) != from_device)) return cudaErrorInvalidValue;
    submit(stream, [=] {
        device_time in_it;
        memmove(to, from, bytes);
    });
    const void *host = to_device && from_device ? nullptr : to_device ? from : to;
    if (host && !is_pinned(host)) finish(stream_of(stream));
    return cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t bytes, cudaStream_t stream) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}
cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream) {
    if (bytes == 0) return cudaSuccess;
    if (!is_device(to, bytes)) return cudaErrorInvalidValue;
    submit(stream, [=] {
        device_time in_it;
        memset(to, byte, bytes);
    });
    return cudaSuccess;
}

/* ---- Memory ---------------------------------------------------------------------------------------------------------- */

CUresult cuGetErrorString(CUresult error, const char **text) {
    *text = error == CUDA_SUCCESS ? "no error" : error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "invalid argument";
    return CUDA_SUCCESS;
}
CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *, CUmemAllocationGranularity_flags) {
    return *bytes = GRANULARITY, CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr *base, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
    if (bytes == 0 || bytes % GRANULARITY) return CUDA_ERROR_INVALID_VALUE;
    void *p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    const std::lock_guard<std::recursive_mutex> mine(turn);
    reserved[(uintptr_t)p] = bytes;
    *base = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr base, size_t bytes) {
    const std::lock_guard<std::recursive_mutex> mine(turn);
    auto r = reserved.find((uintptr_t)base);
    if (r == reserved.end() || r->second != bytes) return CUDA_ERROR_INVALID_VALUE;
    reserved.erase(r);
    munmap((void *)(uintptr_t)base, bytes);
    return CUDA_SUCCESS;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *of, unsigned long long) {
    static unsigned long long last;
    const std::lock_guard<std::recursive_mutex> mine(turn);
    if (bytes == 0 || bytes % GRANULARITY) return CUDA_ERROR_INVALID_VALUE;
    if (in_use[of->location.id] + bytes > MEMORY) return CUDA_ERROR_OUT_OF_MEMORY;
    created[++last] = {bytes, of->location.id};
    *handle = last;
    return CUDA_SUCCESS;
}
/* The memory lives on while it is mapped: nothing is left to do. */
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    const std::lock_guard<std::recursive_mutex> mine(turn);
    return created.erase(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t, CUmemGenericAllocationHandle handle, unsigned long long) {
    const std::lock_guard<std::recursive_mutex> mine(turn);
    auto c = created.find(handle);
    if (c == created.end() || c->second.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
    auto r = reserved.upper_bound((uintptr_t)at);
    if (r == reserved.begin() || (--r, (uintptr_t)at + bytes > r->first + r->second)) return CUDA_ERROR_INVALID_VALUE;
    if (is_device((void *)(uintptr_t)at, 1)) return CUDA_ERROR_INVALID_VALUE;
    in_use[c->second.device] += bytes;
    auto before = mapped.lower_bound((uintptr_t)at);
    if (before != mapped.begin() && (--before, before->first + before->second.bytes == (uintptr_t)at && before->first >= r->first))
        before->second.bytes += bytes;
    else
        mapped[(uintptr_t)at] = c->second;
    return CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *, size_t) {
    const std::lock_guard<std::recursive_mutex> mine(turn);
    void *p = (void *)(uintptr_t)at;
    if (!is_device(p, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (!guards() || depth) return mprotect(p, bytes, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
    const std::lock_guard<std::recursive_mutex> mine(turn);
    cudaDeviceSynchronize();
    auto m = mapped.upper_bound((uintptr_t)at);
    if (m == mapped.begin()) return CUDA_ERROR_INVALID_VALUE;
    --m;
    const uintptr_t first = m->first, from = (uintptr_t)at, to = from + bytes, end = first + m->second.bytes;
    const int device = m->second.device;
    if (to > end) return CUDA_ERROR_INVALID_VALUE;
    mapped.erase(m);
    if (first < from) mapped[first] = {from - first, device};
    if (to < end) mapped[to] = {end - to, device};
    in_use[device] -= bytes;
    mmap((void *)from, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return CUDA_SUCCESS;
}
