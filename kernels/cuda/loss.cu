// Losses.

__device__ inline float squared_difference(const float *a, const float *b, u64 i) {
    float difference = a[i] - b[i];
    return difference * difference;
}

// Computes one partial sum per block. With a single block, `scale` is 1 / count, and the partial
// sum is already the mean. Otherwise `scale` is 1.
extern "C" __global__ void mse_parts(const float *input, const float *target, u64 count,
                                     float scale, float *parts) {
    float sum = 0.0f;
    for (u64 i = first_index(); i < count; i += index_step())
        sum += squared_difference(input, target, i);
    sum = block_sum(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum * scale;
}

// One block adds up the partial sums, and stores the result in place of the first.
extern "C" __global__ void mse_total(float *parts, u32 count, float scale) {
    float sum = 0.0f;
    for (u32 i = threadIdx.x; i < count; i += blockDim.x)
        sum += parts[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) parts[0] = sum * scale;
}

extern "C" __global__ void mse_backward(const float *gradient, const float *input,
                                        const float *target, u64 count, float *out) {
    float factor = 2.0f * gradient[0] / (float)count;
    for (u64 i = first_index(); i < count; i += index_step())
        out[i] = factor * (input[i] - target[i]);
}

__device__ inline bool exists(long long chosen, u64 width) {
    return chosen >= 0 && (u64)chosen < width;
}

// The mean negative log-likelihood, in one block. A class outside the row makes it NaN.
extern "C" __global__ void nll(const float *log_probabilities, const long long *classes, u64 rows,
                               u64 width, float *out, float *weight) {
    float sum = 0.0f;
    for (u64 row = threadIdx.x; row < rows; row += blockDim.x) {
        long long chosen = classes[row];
        sum -= exists(chosen, width) ? log_probabilities[row * width + chosen] : NAN;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        out[0] = sum / (float)rows;
        weight[0] = (float)rows;
    }
}

// A class outside the row makes the gradient of the row NaN.
extern "C" __global__ void cross_entropy_backward(const float *gradient,
                                                  const float *log_probabilities,
                                                  const long long *classes, const float *weight,
                                                  u64 width, u64 count, float *out) {
    float factor = gradient[0] / weight[0];
    for (u64 i = first_index(); i < count; i += index_step()) {
        long long chosen = classes[i / width];
        float wanted = chosen == (long long)(i % width) ? 1.0f : 0.0f;
        out[i] = factor * (expf(log_probabilities[i]) - (exists(chosen, width) ? wanted : NAN));
    }
}
