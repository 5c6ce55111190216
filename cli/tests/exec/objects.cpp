// Leaves eight allocations, each made by a different construct of C++. The tests find their lines by the comments.
#include <cstddef>
#include <dlfcn.h>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "objects.hpp"

int (*cuMemAlloc)(unsigned long long *address, size_t bytes);
int (*cuMemFree)(unsigned long long address);
int (*cuEventCreate)(void **event, unsigned flags);
int (*cuEventDestroy)(void *event);

namespace pool {

// Keeps what it allocates.
template <typename T, int count> struct Block {
    unsigned long long address;
    explicit Block(const std::vector<T> &like) {
        cuMemAlloc(&address, sizeof(T) * count + like.size()); /* in a constructor */
    }
};

namespace {
template <typename T> struct Allocator {
    using value_type = T;
    T *allocate(size_t count) {
        unsigned long long address;
        cuMemAlloc(&address, sizeof(T) * count); /* in an allocator */
        return static_cast<T *>(::operator new(sizeof(T) * count));
    }
    void deallocate(T *items, size_t) { ::operator delete(items); }
};
} // namespace

} // namespace pool

static void fill() {
    std::vector<float, pool::Allocator<float>> weights(256); /* by a container */
}

int main() {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    auto look_up = [driver](const char *name) { return dlsym(driver, name); };
    auto cuInit = reinterpret_cast<int (*)(unsigned)>(look_up("cuInit"));
    auto cuDevicePrimaryCtxRetain = reinterpret_cast<int (*)(void **, int)>(look_up("cuDevicePrimaryCtxRetain"));
    auto cuCtxSetCurrent = reinterpret_cast<int (*)(void *)>(look_up("cuCtxSetCurrent"));
    cuMemAlloc = reinterpret_cast<decltype(cuMemAlloc)>(look_up("cuMemAlloc_v2"));
    cuMemFree = reinterpret_cast<decltype(cuMemFree)>(look_up("cuMemFree_v2"));
    cuEventCreate = reinterpret_cast<decltype(cuEventCreate)>(look_up("cuEventCreate"));
    cuEventDestroy = reinterpret_cast<decltype(cuEventDestroy)>(look_up("cuEventDestroy_v2"));
    void *context;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 9;

    auto block = std::make_unique<pool::Block<double, 64>>(std::vector<double>()); /* makes a block */
    fill();
    std::function<void(size_t)> later = [](size_t bytes) {
        unsigned long long address;
        cuMemAlloc(&address, bytes); /* in a lambda */
    };
    later(128);
    std::thread worker([context, cuCtxSetCurrent] {
        unsigned long long address;
        cuCtxSetCurrent(context);
        cuMemAlloc(&address, 64); /* on a thread */
    });
    worker.join();
    multiply();
    take(16); /* through a wrapper */
    prepare();
    take_and_record(); /* through a wrapper that calls another function */
    return 0;
}
