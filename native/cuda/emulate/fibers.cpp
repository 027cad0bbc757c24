/* fibers.cpp - switching stacks: by hand on x86-64 and aarch64, by the C library elsewhere. */
#include "fibers.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

namespace gd_emulate {

enum : size_t { STACK = 128 * 1024, GUARD = 64 * 1024 }; /* kernels keep little on their stacks; pages are taken when touched */

bool fiber_open(fiber *f) {
    void *memory = mmap(nullptr, STACK + GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    f->stack = (char *)memory + GUARD;
    return mprotect(f->stack, STACK, PROT_READ | PROT_WRITE) == 0;
}

#if GD_UCONTEXT

void fiber_restart(fiber *f, void (*entry)()) {
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK;
    f->context.uc_link = nullptr;
    makecontext(&f->context, entry, 0);
}

void fiber_switch(fiber *from, fiber *to) { swapcontext(&from->context, &to->context); }

#else

/* Saves the registers that a call keeps on the stack, leaves its top at *from, and goes on from `to`. */
extern "C" void gd_emulate_switch(void **from, void *to);

#if defined(__x86_64__)
enum { SAVED = 6 }; /* rbp rbx r12-r15; the return address is above them */
asm(".text\n"
    ".p2align 4\n"
    ".type gd_emulate_switch, @function\n"
    "gd_emulate_switch:\n"
    "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
    "    ret\n"
    ".size gd_emulate_switch, .-gd_emulate_switch\n");

void fiber_restart(fiber *f, void (*entry)()) {
    void **top = (void **)(f->stack + STACK) - 1; /* at entry the stack is 8 off a multiple of 16, as after a call */
    top[0] = nullptr;
    *--top = (void *)entry;
    top -= SAVED;
    memset(top, 0, SAVED * sizeof(void *));
    f->top = top;
}
#else
enum { SAVED = 20 }; /* x19-x30, d8-d15 */
asm(".text\n"
    ".p2align 4\n"
    ".type gd_emulate_switch, %function\n"
    "gd_emulate_switch:\n"
    "    sub sp, sp, #160\n"
    "    stp x19, x20, [sp, #0]\n    stp x21, x22, [sp, #16]\n    stp x23, x24, [sp, #32]\n"
    "    stp x25, x26, [sp, #48]\n    stp x27, x28, [sp, #64]\n    stp x29, x30, [sp, #80]\n"
    "    stp d8, d9, [sp, #96]\n    stp d10, d11, [sp, #112]\n    stp d12, d13, [sp, #128]\n    stp d14, d15, [sp, #144]\n"
    "    mov x9, sp\n    str x9, [x0]\n    mov sp, x1\n"
    "    ldp x19, x20, [sp, #0]\n    ldp x21, x22, [sp, #16]\n    ldp x23, x24, [sp, #32]\n"
    "    ldp x25, x26, [sp, #48]\n    ldp x27, x28, [sp, #64]\n    ldp x29, x30, [sp, #80]\n"
    "    ldp d8, d9, [sp, #96]\n    ldp d10, d11, [sp, #112]\n    ldp d12, d13, [sp, #128]\n    ldp d14, d15, [sp, #144]\n"
    "    add sp, sp, #160\n"
    "    ret\n"
    ".size gd_emulate_switch, .-gd_emulate_switch\n");

void fiber_restart(fiber *f, void (*entry)()) {
    void **top = (void **)(f->stack + STACK) - SAVED;
    memset(top, 0, SAVED * sizeof(void *));
    top[11] = (void *)entry; /* x30 */
    f->top = top;
}
#endif

void fiber_switch(fiber *from, fiber *to) { gd_emulate_switch(&from->top, to->top); }

#endif

} // namespace gd_emulate
