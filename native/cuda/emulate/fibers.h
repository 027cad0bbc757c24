/* fibers.h - stacks that are switched between without the system. */
#ifndef GRADINO_EMULATE_FIBERS_H
#define GRADINO_EMULATE_FIBERS_H

#include <stddef.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#define GD_UCONTEXT 1
#else
#define GD_UCONTEXT 0
#endif

namespace gd_emulate {

struct fiber {
    void *top; /* of its stack, where its registers are while it waits */
    char *stack;
#if GD_UCONTEXT
    ucontext_t context;
#endif
};

/* A fiber that will run `entry`, which never returns, when it is first switched to. False where there is no memory. */
bool fiber_open(fiber *f);
void fiber_restart(fiber *f, void (*entry)());
void fiber_switch(fiber *from, fiber *to);

} // namespace gd_emulate

#endif
