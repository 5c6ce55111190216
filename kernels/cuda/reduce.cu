// Sums over the middle dimension of outer × size × inner.

// One block per line of adjacent elements; inner is 1.
extern "C" __global__ void sum_lines(const float *in, u64 outer, u64 size, float scale,
                                     float *out) {
    for (u64 line = blockIdx.x; line < outer; line += gridDim.x) {
        float sum = 0.0f;
        for (u64 i = threadIdx.x; i < size; i += blockDim.x)
            sum += in[line * size + i];
        sum = block_sum(sum);
        if (threadIdx.x == 0) out[line] = sum * scale;
    }
}

// Each block of 32 × 32 threads sums 32 neighbouring columns. Each warp sums every 32nd row of
// these columns.
extern "C" __global__ void sum_columns(const float *in, u64 outer, u64 size, u64 inner,
                                       float scale, float *out) {
    __shared__ float parts[32][33];
    u64 tiles = (inner + 31) / 32;
    for (u64 tile = blockIdx.x; tile < outer * tiles; tile += gridDim.x) {
        u64 block = tile / tiles;
        u64 column = tile % tiles * 32 + threadIdx.x;
        float sum = 0.0f;
        if (column < inner)
            for (u64 row = threadIdx.y; row < size; row += 32)
                sum += in[(block * size + row) * inner + column];
        __syncthreads();
        parts[threadIdx.y][threadIdx.x] = sum;
        __syncthreads();
        // After the transposition, a warp holds the partial sums of one column.
        sum = warp_sum(parts[threadIdx.x][threadIdx.y]);
        column = tile % tiles * 32 + threadIdx.y;
        if (threadIdx.x == 0 && column < inner) out[block * inner + column] = sum * scale;
    }
}

// Computes one partial sum per block. A second launch adds them up.
extern "C" __global__ void sum_parts(const float *in, u64 count, float *parts) {
    float sum = 0.0f;
    for (u64 i = first_index(); i < count; i += index_step())
        sum += in[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}
