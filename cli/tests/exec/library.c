/* A library that never frees what it creates. The test chooses the names of the library and of its function. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

static void *function(void *driver, const char *name) { return dlsym(driver, name); }

#ifndef CREATES
#define CREATES "cuMemAlloc_v2"
#endif

int FUNCTION(void *driver)
{
    static uint64_t made;
    int is_memory = CREATES[2] == 'M';
    void *creates = function(driver, CREATES);
    int is_module = CREATES[3] == 'o';
    int error = is_module   ? ((int (*)(uint64_t *, const void *))creates)(&made, "kernels")
                : is_memory ? ((int (*)(uint64_t *, size_t))creates)(&made, 4096)
                            : ((int (*)(uint64_t *, unsigned))creates)(&made, 0);
    return error; /* Not a tail call: the frame stays. */
}

#ifdef CONSTRUCTOR
/* A function of the program, which the loader calls while it holds its lock. */
extern void in_constructor(void);
__attribute__((constructor)) static void begins(void) { in_constructor(); }
#endif

#ifdef LARGE_TABLES
/* Twenty thousand functions, so that the tables for unwinding have 600 KiB. */
__asm__(".text; .rept 20000; .cfi_startproc; nop; .cfi_endproc; .endr");
#endif
