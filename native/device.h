/* device.h - what is known of the devices that were opened, for the files that run on them: device.c, stream.c, transfer.c. */
#ifndef GRADINO_DEVICE_H
#define GRADINO_DEVICE_H

#include "engine.h"

#pragma GCC visibility push(hidden)

typedef struct gd_device {
    bool open;
    int streams;                     /* so many were made; [0] is the device's own */
    gd_stream stream[GD_MAX_STREAMS];
    void *event[GD_MAX_STREAMS];     /* for others to wait for what it was given; made when one is needed */
    bool taken[GD_MAX_STREAMS];
    gd_fault *fault;                 /* as the host sees it */
    gd_cuda_device about;
    gd_status failed;                /* of a call that could not say so: reported by the next one that can */
    char failure[GD_MESSAGE_BYTES / 2];
} gd_device;

extern gd_device gd_devices[GD_MAX_DEVICES];
extern atomic_flag gd_devices_lock;

/* Notes what the next call is to report. */
void gd_device_note(int device, gd_status status, const char *why);
/* What was noted, and what kernels met; GD_OK if nothing. */
gd_status gd_device_report(int device);
/* The stream of this thread, with its number. */
int gd_device_stream_number(int device);
/* Stream `number` goes on when all given to `first` so far is done. NULL, or what went wrong. */
const char *gd_device_await(int device, int number, int first_device, int first);

#pragma GCC visibility pop
#endif
