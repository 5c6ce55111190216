// Softmax (kind 0) and its logarithm (kind 1) over the middle dimension of outer × size × inner,
// with one block per line.

extern "C" __global__ void softmax(u32 kind, const float *in, u64 lines, u64 size, u64 inner,
                                   float *out) {
    for (u64 line = blockIdx.x; line < lines; line += gridDim.x) {
        u64 start = line / inner * size * inner + line % inner;
        float largest = -INFINITY;
        for (u64 i = threadIdx.x; i < size; i += blockDim.x)
            largest = fmaxf(largest, in[start + i * inner]);
        largest = block_max(largest);
        float total = 0.0f;
        for (u64 i = threadIdx.x; i < size; i += blockDim.x)
            total += expf(in[start + i * inner] - largest);
        total = block_sum(total);
        float log_total = logf(total);
        for (u64 i = threadIdx.x; i < size; i += blockDim.x) {
            float shifted = in[start + i * inner] - largest;
            out[start + i * inner] = kind == 0 ? expf(shifted) / total : shifted - log_total;
        }
    }
}

extern "C" __global__ void softmax_backward(u32 kind, const float *gradient, const float *result,
                                            u64 lines, u64 size, u64 inner, float *out) {
    for (u64 line = blockIdx.x; line < lines; line += gridDim.x) {
        u64 start = line / inner * size * inner + line % inner;
        float total = 0.0f;
        for (u64 i = threadIdx.x; i < size; i += blockDim.x) {
            u64 place = start + i * inner;
            total += kind == 0 ? gradient[place] * result[place] : gradient[place];
        }
        total = block_sum(total);
        for (u64 i = threadIdx.x; i < size; i += blockDim.x) {
            u64 place = start + i * inner;
            out[place] = kind == 0 ? (gradient[place] - total) * result[place]
                                   : gradient[place] - expf(result[place]) * total;
        }
    }
}
