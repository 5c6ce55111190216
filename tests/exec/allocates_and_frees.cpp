// Allocates memory, launches a kernel that uses it, and frees it, 2,500 times, to show what a checker
// costs. Prints how many seconds the loop takes.
#include <chrono>
#include <cstdio>
#include <cuda_runtime.h>

__global__ void fill(float *memory) { memory[threadIdx.x] = 1; }

int main()
{
    cudaFree(nullptr);
    auto start = std::chrono::steady_clock::now();
    for (int round = 0; round < 2500; round++) {
        float *memory = nullptr;
        if (cudaMalloc(&memory, 1 << 16) != cudaSuccess) return 70;
        fill<<<1, 256>>>(memory);
        if (cudaFree(memory) != cudaSuccess) return 71;
    }
    std::chrono::duration<double> loop = std::chrono::steady_clock::now() - start;
    std::printf("%.6f\n", loop.count());
    return 0;
}
