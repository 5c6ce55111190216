// Counts the resources of a program that is linked to the shared CUDA runtime, independently of the harness. If this
// library is preloaded, its functions take precedence over the runtime's. When the program ends, what was created but
// not freed is written as JSON to the file $RUNTIME_CALLS.PID. scripts/hecbench uses it.
//
//     g++ -shared -fPIC -o count.so count-runtime-calls.cpp -I/usr/local/cuda/include -ldl

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <string>
#include <unistd.h>
#include <utility>

namespace {

// An address is unique among memory, but may equal a handle.
enum Space { MEMORY, STREAM, EVENT, GRAPH, EXEC, TEXTURE, SURFACE, POOL, ARRAY, REGISTERED };

struct Held {
    const char *kind;
    size_t bytes;
};

struct Counts {
    std::mutex lock;
    std::map<std::pair<Space, uintptr_t>, Held> live;
    long created = 0, failed_frees = 0;
};

// This is never destroyed, because the program's own statics may free resources in their destructors.
Counts &counts() {
    static Counts *all = new Counts;
    return *all;
}

template <typename Handle> uintptr_t number(Handle handle) { return (uintptr_t)handle; }

void created(Space space, uintptr_t handle, const char *kind, size_t bytes) {
    std::lock_guard<std::mutex> guard(counts().lock);
    if (handle == 0) return;
    counts().live[{space, handle}] = {kind, bytes};
    counts().created++;
}

template <typename Function> Function *real(const char *name) {
    return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

// Removes the address before the call, because another thread may receive the same address immediately.
template <typename Call> cudaError_t freed(Space space, uintptr_t handle, Call call) {
    Held held = {nullptr, 0};
    {
        std::lock_guard<std::mutex> guard(counts().lock);
        auto found = counts().live.find({space, handle});
        if (found != counts().live.end()) {
            held = found->second;
            counts().live.erase(found);
        }
    }
    cudaError_t error = call();
    // While the program ends, the runtime rejects calls, because it has freed everything anyway.
    if (error != cudaSuccess && error != cudaErrorCudartUnloading) {
        std::lock_guard<std::mutex> guard(counts().lock);
        counts().failed_frees++;
        if (held.kind) counts().live[{space, handle}] = held;
    }
    return error;
}

__attribute__((destructor)) void write() {
    const char *name = getenv("RUNTIME_CALLS");
    if (!name || counts().created == 0) return;
    std::map<std::string, std::pair<long, size_t>> sums;
    for (auto &held : counts().live) {
        auto &sum = sums[held.second.kind];
        sum.first++;
        sum.second += held.second.bytes;
    }
    FILE *file = fopen((std::string(name) + "." + std::to_string(getpid())).c_str(), "w");
    if (!file) return;
    fprintf(file, "{\"created\": %ld, \"failed_frees\": %ld, \"live\": {", counts().created, counts().failed_frees);
    const char *separator = "";
    for (auto &sum : sums) {
        fprintf(file, "%s\"%s\": [%ld, %zu]", separator, sum.first.c_str(), sum.second.first, sum.second.second);
        separator = ", ";
    }
    fprintf(file, "}}\n");
    fclose(file);
}

} // namespace

#define CREATES(name, parameters, arguments, space, handle, kind, bytes)                                               \
    extern "C" cudaError_t name parameters {                                                                           \
        static auto *call = real<cudaError_t parameters>(#name);                                                       \
        cudaError_t error = call arguments;                                                                            \
        if (error == cudaSuccess) created(space, number(handle), kind, bytes);                                         \
        return error;                                                                                                  \
    }
#define FREES(name, parameters, arguments, space, handle)                                                              \
    extern "C" cudaError_t name parameters {                                                                           \
        static auto *call = real<cudaError_t parameters>(#name);                                                       \
        return freed(space, number(handle), [&] { return call arguments; });                                           \
    }

using Stream = cudaStream_t;
using Format = const cudaChannelFormatDesc *;

CREATES(cudaMalloc, (void **p, size_t n), (p, n), MEMORY, *p, "linear", n)
CREATES(cudaMallocManaged, (void **p, size_t n, unsigned f), (p, n, f), MEMORY, *p, "managed", n)
CREATES(cudaMallocPitch, (void **p, size_t *q, size_t w, size_t h), (p, q, w, h), MEMORY, *p, "pitched", *q * h)
CREATES(cudaMalloc3D, (cudaPitchedPtr * p, cudaExtent x), (p, x), MEMORY, p->ptr, "pitched",
        p->pitch * x.height * x.depth)
CREATES(cudaMallocAsync, (void **p, size_t n, Stream s), (p, n, s), MEMORY, *p, "stream-ordered", n)
CREATES(cudaMallocFromPoolAsync, (void **p, size_t n, cudaMemPool_t q, Stream s), (p, n, q, s), MEMORY, *p,
        "stream-ordered", n)
CREATES(cudaMallocHost, (void **p, size_t n), (p, n), MEMORY, *p, "pinned", n)
CREATES(cudaHostAlloc, (void **p, size_t n, unsigned f), (p, n, f), MEMORY, *p, "pinned", n)
CREATES(cudaHostRegister, (void *p, size_t n, unsigned f), (p, n, f), REGISTERED, p, "registered", n)
CREATES(cudaMallocArray, (cudaArray_t * a, Format d, size_t w, size_t h, unsigned f), (a, d, w, h, f), ARRAY, *a,
        "array", 0)
CREATES(cudaMalloc3DArray, (cudaArray_t * a, Format d, cudaExtent x, unsigned f), (a, d, x, f), ARRAY, *a, "array", 0)
CREATES(cudaMallocMipmappedArray, (cudaMipmappedArray_t * a, Format d, cudaExtent x, unsigned l, unsigned f),
        (a, d, x, l, f), ARRAY, *a, "array", 0)
CREATES(cudaStreamCreate, (Stream * s), (s), STREAM, *s, "stream", 0)
CREATES(cudaStreamCreateWithFlags, (Stream * s, unsigned f), (s, f), STREAM, *s, "stream", 0)
CREATES(cudaStreamCreateWithPriority, (Stream * s, unsigned f, int p), (s, f, p), STREAM, *s, "stream", 0)
CREATES(cudaEventCreate, (cudaEvent_t * e), (e), EVENT, *e, "event", 0)
CREATES(cudaEventCreateWithFlags, (cudaEvent_t * e, unsigned f), (e, f), EVENT, *e, "event", 0)
CREATES(cudaGraphCreate, (cudaGraph_t * g, unsigned f), (g, f), GRAPH, *g, "graph", 0)
CREATES(cudaGraphClone, (cudaGraph_t * g, cudaGraph_t o), (g, o), GRAPH, *g, "graph", 0)
CREATES(cudaStreamEndCapture, (Stream s, cudaGraph_t *g), (s, g), GRAPH, *g, "graph", 0)
CREATES(cudaGraphInstantiate, (cudaGraphExec_t * x, cudaGraph_t g, unsigned long long f), (x, g, f), EXEC, *x,
        "exec graph", 0)
CREATES(cudaCreateTextureObject,
        (cudaTextureObject_t * t, const cudaResourceDesc *r, const cudaTextureDesc *d, const cudaResourceViewDesc *v),
        (t, r, d, v), TEXTURE, *t, "texture", 0)
CREATES(cudaCreateSurfaceObject, (cudaSurfaceObject_t * s, const cudaResourceDesc *r), (s, r), SURFACE, *s, "surface",
        0)
CREATES(cudaMemPoolCreate, (cudaMemPool_t * p, const cudaMemPoolProps *q), (p, q), POOL, *p, "pool", 0)

FREES(cudaFree, (void *p), (p), MEMORY, p)
FREES(cudaFreeAsync, (void *p, Stream s), (p, s), MEMORY, p)
FREES(cudaFreeHost, (void *p), (p), MEMORY, p)
FREES(cudaHostUnregister, (void *p), (p), REGISTERED, p)
FREES(cudaFreeArray, (cudaArray_t a), (a), ARRAY, a)
FREES(cudaFreeMipmappedArray, (cudaMipmappedArray_t a), (a), ARRAY, a)
FREES(cudaStreamDestroy, (Stream s), (s), STREAM, s)
FREES(cudaEventDestroy, (cudaEvent_t e), (e), EVENT, e)
FREES(cudaGraphDestroy, (cudaGraph_t g), (g), GRAPH, g)
FREES(cudaGraphExecDestroy, (cudaGraphExec_t x), (x), EXEC, x)
FREES(cudaDestroyTextureObject, (cudaTextureObject_t t), (t), TEXTURE, t)
FREES(cudaDestroySurfaceObject, (cudaSurfaceObject_t s), (s), SURFACE, s)
FREES(cudaMemPoolDestroy, (cudaMemPool_t p), (p), POOL, p)

extern "C" cudaError_t cudaDeviceReset() {
    cudaError_t error = real<cudaError_t()>("cudaDeviceReset")();
    if (error == cudaSuccess) {
        std::lock_guard<std::mutex> guard(counts().lock);
        counts().live.clear();
    }
    return error;
}
