/* stream.c - streams and events of devices. Each thread gives its work to one stream of each device, at first the device's own.
 * An arena's memory is used again in the order of its stream; where several used it, one waits for the others. */
#include <stdio.h>

#include "device.h"

int gd_device_stream_number(int device) {
    const int number = gd_self()->stream[device - 1];
    return gd_devices[device - 1].taken[number] ? number : 0;
}

static gd_status failed(int device, const char *what, const char *why) {
    return why ? gd_fail(GD_ERR_DEVICE, "%s: %s failed: %s", gd_text_device(device), what, why) : GD_OK;
}

/* The event that says how far a stream is. */
static const char *record(int device, int number, void **event) {
    gd_device *d = &gd_devices[device - 1];
    const char *why = d->event[number] ? NULL : gd_cuda_now->event_new(device - 1, false, &d->event[number]);
    if (!why) why = gd_cuda_now->event_record(d->event[number], d->stream[number].handle);
    *event = d->event[number];
    return why;
}

const char *gd_device_await(int device, int number, int first_device, int first) {
    void *event;
    const char *why = record(first_device, first, &event);
    return why ? why : gd_cuda_now->event_await(event, gd_devices[device - 1].stream[number].handle);
}

/* ---- Memory that is used again ---------------------------------------------------------------------------------------- */

void gd_device_lowered(gd_region *r) {
    r->before |= r->used;
    r->used = r->waited = 0;
}

void gd_device_used(gd_region *r) {
    const int device = r->span.device, own = gd_device_stream_number(device);
    const uint32_t bit = 1u << own;
    r->used |= bit;
    if (__builtin_expect((r->before & ~bit) == 0 || r->waited & bit, 1)) return;
    for (int k = 0; k < GD_MAX_STREAMS; k++) {
        if (k == own || !(r->before >> k & 1) || !gd_devices[device - 1].taken[k]) continue;
        const char *why = gd_device_await(device, own, device, k);
        if (why) gd_device_note(device, GD_ERR_DEVICE, why);
    }
    r->waited |= bit;
}

/* ---- The caller's streams ------------------------------------------------------------------------------------------------ */

static gd_status check_stream(int device, int stream) {
    GD_TRY(gd_device_need(device, "stream"));
    if (stream >= 0 && stream < GD_MAX_STREAMS && gd_devices[device - 1].taken[stream]) return GD_OK;
    return gd_fail(GD_ERR_VALUE, "stream: %s has no stream number %d", gd_text_device(device), stream);
}

static int take_place(gd_device *d) {
    int at = -1;
    gd_flag_lock(&gd_devices_lock);
    for (int k = 1; k < GD_MAX_STREAMS && at < 0; k++)
        if (!d->taken[k]) at = k;
    if (at > 0) d->taken[at] = true, d->streams++;
    atomic_flag_clear_explicit(&gd_devices_lock, memory_order_release);
    return at;
}

int gd_stream_new(int device, int priority) {
    GD_TRY(gd_device_need(device, "stream"));
    gd_device *d = &gd_devices[device - 1];
    GD_TRY(failed(device, "waiting for it", gd_cuda_now->synchronize(device - 1))); /* what numbers were kept are there for all streams */
    const int at = take_place(d);
    if (at < 0) return gd_fail(GD_ERR_DEVICE, "stream: %s has %d streams, the most there can be", gd_text_device(device), GD_MAX_STREAMS);
    d->stream[at] = d->stream[0];
    const char *why = gd_cuda_now->stream_new(device - 1, priority, &d->stream[at].handle);
    if (why) d->taken[at] = false;
    GD_TRY(failed(device, "making a stream", why));
    return at;
}

/* A stream of another library: it is used, not owned. */
gd_status gd_stream_free(int device, int stream) {
    GD_TRY(check_stream(device, stream));
    if (stream == 0) return gd_fail(GD_ERR_VALUE, "stream: the device's own stream cannot be closed");
    gd_device *d = &gd_devices[device - 1];
    const char *why = gd_cuda_now->stream_wait(d->stream[stream].handle);
    if (!why) why = gd_cuda_now->stream_free(d->stream[stream].handle);
    if (d->event[stream]) gd_cuda_now->event_free(d->event[stream]);
    d->event[stream] = NULL;
    d->taken[stream] = false;
    return failed(device, "closing a stream", why);
}

int gd_stream_use(int device, int stream) {
    GD_TRY(check_stream(device, stream));
    const int before = gd_device_stream_number(device);
    gd_self()->stream[device - 1] = (uint8_t)stream;
    return before;
}

int gd_stream_current(int device) {
    GD_TRY(gd_device_need(device, "stream"));
    return gd_device_stream_number(device);
}

uint64_t gd_stream_handle(int device, int stream) {
    return check_stream(device, stream) < 0 ? 0 : (uint64_t)(uintptr_t)gd_devices[device - 1].stream[stream].handle;
}

gd_status gd_stream_wait(int device, int stream) {
    GD_TRY(check_stream(device, stream));
    GD_TRY(failed(device, "what was given to it", gd_cuda_now->stream_wait(gd_devices[device - 1].stream[stream].handle)));
    return gd_device_report(device);
}

int gd_stream_done(int device, int stream) {
    bool done = false;
    GD_TRY(check_stream(device, stream));
    GD_TRY(failed(device, "what was given to it", gd_cuda_now->stream_done(gd_devices[device - 1].stream[stream].handle, &done)));
    return done;
}

gd_status gd_stream_await(int device, int stream, int first_device, int first) {
    GD_TRY(check_stream(device, stream));
    GD_TRY(check_stream(first_device, first));
    return failed(device, "waiting for a stream", gd_device_await(device, stream, first_device, first));
}

/* Work of this thread's stream and of another library's, by its handle, in order: what is given to the one later waits for
 * what the other was given before. */
gd_status gd_stream_meet(int device, uint64_t handle, int theirs_waits) {
    GD_TRY(gd_device_need(device, "stream"));
    gd_device *d = &gd_devices[device - 1];
    const int own = gd_device_stream_number(device);
    void *other = (void *)(uintptr_t)handle, *event = NULL;
    if (other == d->stream[own].handle) return GD_OK;
    const char *why = gd_cuda_now->event_new(device - 1, false, &event);
    if (!why) why = gd_cuda_now->event_record(event, theirs_waits ? d->stream[own].handle : other);
    if (!why) why = gd_cuda_now->event_await(event, theirs_waits ? other : d->stream[own].handle);
    if (event) gd_cuda_now->event_free(event);
    return failed(device, "waiting for a stream of another library", why);
}

gd_status gd_device_synchronize(int device) {
    GD_TRY(gd_device_need(device, "synchronize"));
    GD_TRY(failed(device, "what was given to it", gd_cuda_now->synchronize(device - 1)));
    return gd_device_report(device);
}

/* ---- Events ----------------------------------------------------------------------------------------------------------------- */

void *gd_event_new(int device, int timed) {
    void *event = NULL;
    if (gd_device_need(device, "event") < 0) return NULL;
    return failed(device, "making an event", gd_cuda_now->event_new(device - 1, timed != 0, &event)) < 0 ? NULL : event;
}

gd_status gd_event_free(void *event) { return event && gd_device_need(1, "event") >= 0 ? failed(1, "event", gd_cuda_now->event_free(event)) : GD_OK; }

gd_status gd_event_record(void *event, int device, int stream) {
    GD_TRY(check_stream(device, stream));
    return failed(device, "recording an event", gd_cuda_now->event_record(event, gd_devices[device - 1].stream[stream].handle));
}

gd_status gd_event_await(void *event, int device, int stream) {
    GD_TRY(check_stream(device, stream));
    return failed(device, "waiting for an event", gd_cuda_now->event_await(event, gd_devices[device - 1].stream[stream].handle));
}

gd_status gd_event_wait(void *event, int device) {
    GD_TRY(gd_device_need(device, "event"));
    GD_TRY(failed(device, "waiting for an event", gd_cuda_now->event_wait(event)));
    return gd_device_report(device);
}

int gd_event_done(void *event, int device) {
    bool done = false;
    GD_TRY(gd_device_need(device, "event"));
    GD_TRY(failed(device, "event", gd_cuda_now->event_done(event, &done)));
    return done;
}

double gd_event_elapsed(void *first, void *second, int device) {
    float milliseconds = 0;
    if (gd_device_need(device, "event") < 0) return -1;
    return failed(device, "elapsed_time", gd_cuda_now->event_elapsed(first, second, &milliseconds)) < 0 ? -1 : (double)milliseconds;
}
