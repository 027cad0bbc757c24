/* runtime.cu - the CUDA part's one entry point, and what the library asks of a device: memory, streams, events, copies.
 * Memory is address space of the driver, to which pages are added at its end. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>
#if defined(__CUDACC__)
#include <cuda.h>
#endif

#include "interface.h"

extern "C" {
extern gd_kernel *const gd_cuda_kernels[];
extern gd_cuda_workspace *const gd_cuda_workspaces[];
extern gd_optim_kernel *const gd_cuda_optims[];
__attribute__((visibility("default"))) const gd_cuda *gd_cuda_open(char *message, size_t room);
}

enum { MESSAGE = 1024 };
static thread_local char text_of_failure[MESSAGE];

static const char *failure(const char *what, const char *why) {
    snprintf(text_of_failure, sizeof text_of_failure, "%s: %s", what, why);
    return text_of_failure;
}
#define TRY(call)                                                                            \
    do {                                                                                     \
        const cudaError_t error_ = (call);                                                   \
        if (error_ != cudaSuccess) {                                                         \
            cudaGetLastError(); /* not to be found again by the next launch */               \
            return failure(#call, cudaGetErrorString(error_));                               \
        }                                                                                    \
    } while (0)

/* ---- The driver's part: libcuda is not linked against, so that the package loads where there is none ---------------- */

#define DRIVER_FUNCTIONS(X)                                                                                                       \
    X(cuMemGetAllocationGranularity) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemCreate) X(cuMemRelease) X(cuMemMap) \
    X(cuMemUnmap) X(cuMemSetAccess) X(cuGetErrorString)

static struct {
#define X(name) decltype(&name) do_##name;
    DRIVER_FUNCTIONS(X)
#undef X
} driver;

#if defined(__CUDACC__)
static const char *find(const char *name, void **function) {
    cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    const cudaError_t error = cudaGetDriverEntryPointByVersion(name, function, 12000, cudaEnableDefault, &found);
#else
    const cudaError_t error = cudaGetDriverEntryPoint(name, function, cudaEnableDefault, &found);
#endif
    if (error != cudaSuccess) return failure(name, cudaGetErrorString(error));
    return found == cudaDriverEntryPointSuccess && *function ? NULL : failure(name, "the driver does not have it");
}
#define FIND(name) find(#name, (void **)&driver.do_##name)
#else
#define FIND(name) (driver.do_##name = name, (const char *)NULL)
#endif

static const char *find_driver() {
    const char *why = NULL;
#define X(name) \
    if (!why) why = FIND(name);
    DRIVER_FUNCTIONS(X)
#undef X
    return why;
}

static const char *driver_failure(const char *what, CUresult error) {
    const char *why = NULL;
    driver.do_cuGetErrorString(error, &why);
    return failure(what, why ? why : "unknown error");
}
#define TRY_DRIVER(name, ...)                                                  \
    do {                                                                       \
        const CUresult error_ = driver.do_##name(__VA_ARGS__);                      \
        if (error_ != CUDA_SUCCESS) return driver_failure(#name, error_);      \
    } while (0)

/* ---- Devices ---------------------------------------------------------------------------------------------------- */

static CUmemAllocationProp memory_of(int device) {
    CUmemAllocationProp p;
    memset(&p, 0, sizeof p);
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.location.id = device;
    return p;
}

static const char *device_count(int *count) {
    TRY(cudaGetDeviceCount(count));
    if (*count > GD_MAX_DEVICES) *count = GD_MAX_DEVICES;
    return NULL;
}

static const char *describe(int device, gd_cuda_device *out) {
    cudaDeviceProp properties;
    TRY(cudaGetDeviceProperties(&properties, device));
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%.100s", properties.name);
    TRY(cudaDeviceGetAttribute(&out->major, cudaDevAttrComputeCapabilityMajor, device));
    TRY(cudaDeviceGetAttribute(&out->minor, cudaDevAttrComputeCapabilityMinor, device));
    TRY(cudaDeviceGetAttribute(&out->multiprocessors, cudaDevAttrMultiProcessorCount, device));
    out->memory = (int64_t)properties.totalGlobalMem;
    const CUmemAllocationProp p = memory_of(device);
    size_t bytes;
    TRY_DRIVER(cuMemGetAllocationGranularity, &bytes, &p, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    out->granularity = (int64_t)bytes;
    return NULL;
}

static const char *set_device(int device) {
    TRY(cudaSetDevice(device));
    return NULL;
}

static const char *memory_free(int device, int64_t *bytes) {
    size_t free_bytes, total;
    TRY(cudaSetDevice(device));
    TRY(cudaMemGetInfo(&free_bytes, &total));
    *bytes = (int64_t)free_bytes;
    return NULL;
}

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

static const char *reserve(int device, int64_t bytes, void **base) {
    CUdeviceptr at = 0;
    TRY(cudaSetDevice(device)); /* makes the driver's context, too */
    TRY_DRIVER(cuMemAddressReserve, &at, (size_t)bytes, 0, 0, 0);
    *base = (void *)(uintptr_t)at;
    return NULL;
}

static const char *commit(int device, void *base, int64_t from, int64_t to) {
    const CUdeviceptr at = (CUdeviceptr)(uintptr_t)base + (CUdeviceptr)from;
    const size_t bytes = (size_t)(to - from);
    const CUmemAllocationProp p = memory_of(device);
    CUmemGenericAllocationHandle handle;
    TRY_DRIVER(cuMemCreate, &handle, bytes, &p, 0);
    const CUresult mapped = driver.do_cuMemMap(at, bytes, 0, handle, 0);
    driver.do_cuMemRelease(handle); /* the mapping keeps it */
    if (mapped != CUDA_SUCCESS) return driver_failure("cuMemMap", mapped);
    CUmemAccessDesc access;
    access.location = p.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    const CUresult opened = driver.do_cuMemSetAccess(at, bytes, &access, 1);
    if (opened == CUDA_SUCCESS) return NULL;
    driver.do_cuMemUnmap(at, bytes);
    return driver_failure("cuMemSetAccess", opened);
}

static const char *release(int device, void *base, int64_t reserved, int64_t committed) {
    TRY(cudaSetDevice(device));
    TRY(cudaDeviceSynchronize()); /* nothing may run that uses it */
    if (committed > 0) TRY_DRIVER(cuMemUnmap, (CUdeviceptr)(uintptr_t)base, (size_t)committed);
    TRY_DRIVER(cuMemAddressFree, (CUdeviceptr)(uintptr_t)base, (size_t)reserved);
    return NULL;
}

static const char *pin(int64_t bytes, void **memory) {
    TRY(cudaHostAlloc(memory, (size_t)bytes, cudaHostAllocPortable));
    return NULL;
}
static const char *unpin(void *memory) {
    TRY(cudaFreeHost(memory));
    return NULL;
}

static const char *fault_new(gd_fault **host, gd_fault **device) {
    TRY(cudaHostAlloc((void **)host, sizeof **host, cudaHostAllocPortable | cudaHostAllocMapped));
    memset(*host, 0, sizeof **host);
    TRY(cudaHostGetDevicePointer((void **)device, *host, 0));
    return NULL;
}

/* ---- Streams and events ----------------------------------------------------------------------------------------- */

static const char *stream_new(int device, int priority, void **stream) {
    int least, greatest;
    TRY(cudaSetDevice(device));
    TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    priority = priority > least ? least : priority < greatest ? greatest : priority;
    TRY(cudaStreamCreateWithPriority((cudaStream_t *)stream, cudaStreamNonBlocking, priority));
    return NULL;
}
static const char *stream_free(void *stream) {
    TRY(cudaStreamDestroy((cudaStream_t)stream));
    return NULL;
}
static const char *stream_wait(void *stream) {
    TRY(cudaStreamSynchronize((cudaStream_t)stream));
    return NULL;
}
static const char *told_done(cudaError_t state, bool *done) {
    *done = state == cudaSuccess;
    if (state == cudaSuccess || state == cudaErrorNotReady) return NULL;
    return failure("waiting for the device", cudaGetErrorString(state));
}
static const char *stream_done(void *stream, bool *done) { return told_done(cudaStreamQuery((cudaStream_t)stream), done); }

static const char *event_new(int device, bool timed, void **event) {
    TRY(cudaSetDevice(device));
    TRY(cudaEventCreateWithFlags((cudaEvent_t *)event, timed ? cudaEventDefault : cudaEventDisableTiming));
    return NULL;
}
static const char *event_free(void *event) {
    TRY(cudaEventDestroy((cudaEvent_t)event));
    return NULL;
}
static const char *event_record(void *event, void *stream) {
    TRY(cudaEventRecord((cudaEvent_t)event, (cudaStream_t)stream));
    return NULL;
}
static const char *event_await(void *event, void *stream) {
    TRY(cudaStreamWaitEvent((cudaStream_t)stream, (cudaEvent_t)event, 0));
    return NULL;
}
static const char *event_wait(void *event) {
    TRY(cudaEventSynchronize((cudaEvent_t)event));
    return NULL;
}
static const char *event_done(void *event, bool *done) { return told_done(cudaEventQuery((cudaEvent_t)event), done); }
static const char *event_elapsed(void *first, void *second, float *milliseconds) {
    TRY(cudaEventElapsedTime(milliseconds, (cudaEvent_t)first, (cudaEvent_t)second));
    return NULL;
}

/* ---- Copies ----------------------------------------------------------------------------------------------------- */

static const char *copy(const gd_stream *s, void *to, int to_device, const void *from, int from_device, int64_t bytes, int kind) {
    static const cudaMemcpyKind kinds[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice};
    const cudaStream_t stream = (cudaStream_t)s->handle;
    if (kind == GD_COPY_BETWEEN) TRY(cudaMemcpyPeerAsync(to, to_device, from, from_device, (size_t)bytes, stream));
    else TRY(cudaMemcpyAsync(to, from, (size_t)bytes, kinds[kind], stream));
    return NULL;
}

static const char *fill(const gd_stream *s, void *to, int byte, int64_t bytes) {
    TRY(cudaMemsetAsync(to, byte, (size_t)bytes, (cudaStream_t)s->handle));
    return NULL;
}

static const char *launched() {
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? NULL : failure("launching a kernel", cudaGetErrorString(error));
}

static const char *synchronize(int device) {
    TRY(cudaSetDevice(device));
    TRY(cudaDeviceSynchronize());
    return NULL;
}

/* ---- The entry point -------------------------------------------------------------------------------------------- */

const gd_cuda *gd_cuda_open(char *message, size_t room) {
    static gd_cuda table;
    int count = 0;
    const char *why = device_count(&count);
    if (!why && count == 0) why = "there is no CUDA device";
    if (!why) why = find_driver();
    if (why) {
        snprintf(message, room, "%s", why);
        return NULL;
    }
    table.abi = GD_CUDA_ABI;
    table.ops = GD_OPS;
#if !defined(__CUDACC__)
    table.emulated = true;
#endif
    table.kernel = gd_cuda_kernels;
    table.workspace = gd_cuda_workspaces;
    table.optim = gd_cuda_optims;
#define FUNCTION(name) table.name = name;
    FUNCTION(device_count) FUNCTION(describe) FUNCTION(set_device) FUNCTION(memory_free)
    FUNCTION(reserve) FUNCTION(commit) FUNCTION(release) FUNCTION(pin) FUNCTION(unpin) FUNCTION(fault_new)
    FUNCTION(stream_new) FUNCTION(stream_free) FUNCTION(stream_wait) FUNCTION(stream_done)
    FUNCTION(event_new) FUNCTION(event_free) FUNCTION(event_record) FUNCTION(event_await) FUNCTION(event_wait) FUNCTION(event_done)
    FUNCTION(event_elapsed) FUNCTION(copy) FUNCTION(fill) FUNCTION(launched) FUNCTION(synchronize)
#undef FUNCTION
    return &table;
}
