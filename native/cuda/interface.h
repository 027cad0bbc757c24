/* interface.h - what libgradino and its CUDA part know of each other. The CUDA part is a shared object of its own with one entry
 * point, gd_cuda_open; the library finds it at run time and asks it for everything else by this table. */
#ifndef GRADINO_CUDA_INTERFACE_H
#define GRADINO_CUDA_INTERFACE_H

#include "../kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GD_CUDA_ABI = 1, GD_MAX_DEVICES = 8 };

/* A value that a kernel must not use, such as a class label out of range: the kernel notes the first one it meets here and computes
 * something harmless instead. Lies in memory that host and device see; the host looks whenever it waits for the device. */
typedef struct gd_fault {
    int32_t kind; /* 0: none */
    int32_t op;   /* of the op table */
    int64_t value, limit;
} gd_fault;
enum gd_fault_kind { GD_FAULT_NONE, GD_FAULT_INDEX /* value is not in 0 .. limit - 1 (nor -limit .. -1, where the op allows that) */ };

/* Where a kernel runs: ordered after everything given to the same stream before. */
typedef struct gd_stream {
    void *handle;        /* cudaStream_t */
    gd_fault *fault;     /* as the device sees it */
    int device;          /* of cuda:<device>; it is the current one of this thread when a kernel is called */
    int multiprocessors; /* for grids over independent work only: no result may depend on it */
} gd_stream;

typedef struct gd_cuda_device {
    char name[128];
    int major, minor, multiprocessors;
    int64_t memory, granularity; /* bytes in all; unit of reserve and commit */
} gd_cuda_device;

/* Kernels of the device: same arguments, with addresses of the device, a->stream set, and workspace as asked for below. They return
 * at once and cannot fail, but for launches, which `launched` reports. */
typedef int64_t gd_cuda_workspace(const gd_args *a); /* bytes; outputs have shapes but no memory yet */

enum gd_copy_kind { GD_COPY_TO_DEVICE, GD_COPY_TO_HOST, GD_COPY_WITHIN, GD_COPY_BETWEEN };

/* Functions return NULL, or the text of what went wrong (valid until the thread's next call). */
typedef struct gd_cuda {
    int abi, ops;        /* GD_CUDA_ABI and GD_OPS of the build: checked when it is opened */
    bool emulated;       /* runs on the CPU: for tests */
    gd_kernel *const *kernel;             /* by op; NULL for views and for what is not there */
    gd_cuda_workspace *const *workspace;  /* by op; NULL: none */
    gd_optim_kernel *const *optim;        /* by number in the op table */

    const char *(*device_count)(int *count);
    const char *(*describe)(int device, gd_cuda_device *out);
    const char *(*set_device)(int device);
    const char *(*memory_free)(int device, int64_t *bytes);

    /* Address space of a device, committed from the front in multiples of the granularity; never moves. */
    const char *(*reserve)(int device, int64_t bytes, void **base);
    const char *(*commit)(int device, void *base, int64_t from, int64_t to);
    const char *(*release)(int device, void *base, int64_t reserved, int64_t committed);
    const char *(*pin)(int64_t bytes, void **memory); /* host memory that the device copies from while the host goes on */
    const char *(*unpin)(void *memory);
    const char *(*fault_new)(gd_fault **host, gd_fault **device); /* zeroed, seen by both */

    const char *(*stream_new)(int device, int priority, void **stream); /* does not wait for the default stream */
    const char *(*stream_free)(void *stream);
    const char *(*stream_wait)(void *stream);                 /* the host waits */
    const char *(*stream_done)(void *stream, bool *done);
    const char *(*event_new)(int device, bool timed, void **event);
    const char *(*event_free)(void *event);
    const char *(*event_record)(void *event, void *stream);
    const char *(*event_await)(void *event, void *stream);    /* the stream waits for the event */
    const char *(*event_wait)(void *event);                   /* the host waits */
    const char *(*event_done)(void *event, bool *done);
    const char *(*event_elapsed)(void *first, void *second, float *milliseconds);

    /* In the order of the stream; the host goes on, unless host memory is pageable. */
    const char *(*copy)(const gd_stream *s, void *to, int to_device, const void *from, int from_device, int64_t bytes, int kind);
    const char *(*fill)(const gd_stream *s, void *to, int byte, int64_t bytes);
    const char *(*launched)(void); /* after a kernel was called: whether the launch failed */
    const char *(*synchronize)(int device);
} gd_cuda;

/* THE entry point. NULL where there is no driver or device, with the reason in `message`. */
typedef const gd_cuda *gd_cuda_open_function(char *message, size_t room);

#ifdef __cplusplus
}
#endif
#endif
