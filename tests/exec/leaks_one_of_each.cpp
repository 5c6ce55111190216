// Leaks one resource of each kind through the CUDA runtime. `on-a-gpu` compiles and runs it.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define DONE(call) \
    do { \
        cudaError_t error = (call); \
        if (error != cudaSuccess) { \
            std::fprintf(stderr, #call ": %s\n", cudaGetErrorString(error)); \
            std::exit(70); \
        } \
    } while (0)

int main(int count, char **)
{
    void *memory;
    size_t pitch;
    cudaStream_t stream;
    cudaEvent_t event;
    cudaArray_t array;
    cudaGraph_t graph;
    cudaMemPool_t pool;
    DONE(cudaMalloc(&memory, 4096));
    if (count > 1) { // with any argument, frees everything that was allocated so far
        DONE(cudaFree(memory));
        return 0;
    }
    DONE(cudaMallocPitch(&memory, &pitch, 100, 3));
    DONE(cudaMallocManaged(&memory, 5000));
    DONE(cudaMallocHost(&memory, 6000));
    static char page[8192];
    DONE(cudaHostRegister(page, sizeof page, cudaHostRegisterDefault));
    DONE(cudaMallocAsync(&memory, 7000, nullptr));
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    DONE(cudaMallocArray(&array, &format, 64, 64));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc texture_format = {};
    cudaTextureObject_t texture;
    DONE(cudaCreateTextureObject(&texture, &resource, &texture_format, nullptr));
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    DONE(cudaMemPoolCreate(&pool, &properties));
    DONE(cudaStreamCreate(&stream));
    DONE(cudaEventCreate(&event));
    DONE(cudaGraphCreate(&graph, 0));
    DONE(cudaDeviceSynchronize());
    return 0;
}
