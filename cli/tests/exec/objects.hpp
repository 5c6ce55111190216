// Functions in a different file from their callers.
#include <cstddef>

extern int (*cuMemAlloc)(unsigned long long *address, size_t bytes);
extern int (*cuMemFree)(unsigned long long address);
extern int (*cuEventCreate)(void **event, unsigned flags);
extern int (*cuEventDestroy)(void *event);

#include "include/cuda_runtime.h"

// Only wraps a call.
inline unsigned long long take(size_t bytes) {
    unsigned long long address;
    cuMemAlloc(&address, bytes);
    return address;
}

// Makes several calls, and forgets one of its buffers.
inline void multiply() {
    unsigned long long left, right;
    cuMemAlloc(&left, 32); /* one of several */
    cuMemAlloc(&right, 32);
    cuMemFree(right);
}

// Makes two different calls, and forgets its buffer.
inline void prepare() {
    unsigned long long address;
    void *event;
    cuMemAlloc(&address, 8); /* beside another call */
    createEvent(&event);
    cuEventDestroy(event);
}

inline void record() {
    void *event;
    cuEventCreate(&event, 0);
    cuEventDestroy(event);
}

// Wraps a call, and calls another function that also makes a call.
inline void take_and_record() {
    unsigned long long address;
    cuMemAlloc(&address, 4);
    record();
}
