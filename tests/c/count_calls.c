/* count_calls.c - preloaded into Python by test_steady_state.py: counts calls of the malloc and mmap families
 * whose caller lies in an address range, that of libgradino. glibc only. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_uintptr_t from, to;
static atomic_long calls;

void count_calls_from(uintptr_t first, uintptr_t last);
long counted_calls(void);
void count_calls_from(uintptr_t first, uintptr_t last) { atomic_store(&from, first), atomic_store(&to, last), atomic_store(&calls, 0); }
long counted_calls(void) { return atomic_load(&calls); }

#define COUNT()                                                                                           \
    do {                                                                                                  \
        uintptr_t caller = (uintptr_t)__builtin_return_address(0);                                        \
        if (caller >= atomic_load(&from) && caller < atomic_load(&to)) atomic_fetch_add(&calls, 1);       \
    } while (0)

void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void __libc_free(void *);
void *malloc(size_t n) { COUNT(); return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { COUNT(); return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { COUNT(); return __libc_realloc(p, n); }
void free(void *p) { COUNT(); __libc_free(p); }

void *mmap(void *p, size_t n, int prot, int flags, int fd, off_t offset) { COUNT(); return (void *)syscall(SYS_mmap, p, n, prot, flags, fd, offset); }
int munmap(void *p, size_t n) { COUNT(); return (int)syscall(SYS_munmap, p, n); }
int mprotect(void *p, size_t n, int prot) { COUNT(); return (int)syscall(SYS_mprotect, p, n, prot); }
int madvise(void *p, size_t n, int advice) { COUNT(); return (int)syscall(SYS_madvise, p, n, advice); }
