/* launch.h - between a launch and the shared memory of its blocks. */
#ifndef GRADINO_EMULATE_LAUNCH_H
#define GRADINO_EMULATE_LAUNCH_H

#include <stddef.h>

namespace gd_emulate {

enum { MOST_THREADS = 1024 };

void shared_begin(size_t dynamic); /* of a launch, with so many bytes of dynamic shared memory */
void copies_begin(int thread);     /* a thread begins: it has none under way */

} // namespace gd_emulate

#endif
