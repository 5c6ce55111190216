// Functions in another file than those that call them.
#include <cstddef>

extern int (*cuMemAlloc)(unsigned long long *address, size_t bytes);
extern int (*cuMemFree)(unsigned long long address);

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
