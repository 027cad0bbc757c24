/* devices.h - between launches and the emulated devices: turns, streams, and when memory may be touched. */
#ifndef GRADINO_EMULATE_DEVICES_H
#define GRADINO_EMULATE_DEVICES_H

#include <functional>

namespace gd_emulate {

/* While one lives, this thread alone is the devices, and their memory is open. Nests. */
struct device_time {
    device_time();
    ~device_time();
    device_time(const device_time &) = delete;
};

bool puts_off();                                      /* GRADINO_EMULATE_DEFER: work is done when somebody waits for it */
void submit(void *stream, std::function<void()> work); /* now, or when it is waited for */

const char *take_message(); /* of the last kernel that failed in this thread */
bool has_failed();

} // namespace gd_emulate

#endif
