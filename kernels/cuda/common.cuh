// Code that all kernels share. It is prepended to each source before compilation.
//
// Counts and offsets are 64 bits wide: a tensor may have more than 2^32 elements.

typedef unsigned long long u64;
typedef unsigned int u32;

#define MAX_RANK 6

// The standard headers that define these are not available at run time.
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)

// A shape with the strides of up to two operands, in elements. The pointers already include the
// offsets.
struct Strided {
    u64 sizes[MAX_RANK];
    u64 first[MAX_RANK];
    u64 second[MAX_RANK];
    u32 rank;
};

__device__ inline u64 first_index() {
    return blockIdx.x * (u64)blockDim.x + threadIdx.x;
}

__device__ inline u64 index_step() {
    return gridDim.x * (u64)blockDim.x;
}

// Computes the offsets of the operands' elements for a row-major index.
__device__ inline void locate(const Strided &layout, u64 index, u64 *first, u64 *second) {
    *first = 0;
    *second = 0;
    for (int dim = (int)layout.rank - 1; dim >= 0; --dim) {
        u64 place = index % layout.sizes[dim];
        index /= layout.sizes[dim];
        *first += place * layout.first[dim];
        *second += place * layout.second[dim];
    }
}

__device__ inline float warp_sum(float value) {
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffffu, value, offset);
    return value;
}

__device__ inline float warp_max(float value) {
    for (int offset = 16; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_down_sync(0xffffffffu, value, offset));
    return value;
}

// Returns the sum over a block of whole warps to every thread. The function may be called again
// immediately.
__device__ inline float block_sum(float value) {
    __shared__ float parts[32];
    value = warp_sum(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        value = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0.0f;
        value = warp_sum(value);
        if (threadIdx.x == 0) parts[0] = value;
    }
    __syncthreads();
    return parts[0];
}

// Returns the largest value in a block of whole warps to every thread.
__device__ inline float block_max(float value) {
    __shared__ float parts[32];
    value = warp_max(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        value = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : -INFINITY;
        value = warp_max(value);
        if (threadIdx.x == 0) parts[0] = value;
    }
    __syncthreads();
    return parts[0];
}
