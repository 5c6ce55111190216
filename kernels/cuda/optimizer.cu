// Optimiser steps for many parameters in one launch. The table of parameters is an argument of the
// kernel, so it takes no device memory. The size of the table is limited to the maximum size of an
// argument (4 KiB).

#define MAX_PARAMETERS 48
#define CHUNK 1024

struct SgdTable {
    float *values[MAX_PARAMETERS];
    const float *gradients[MAX_PARAMETERS];
    float *momenta[MAX_PARAMETERS]; // null without momentum
    u64 counts[MAX_PARAMETERS];
    u32 chunks_before[MAX_PARAMETERS];
    u32 first[MAX_PARAMETERS];
    u32 parameters;
};

struct AdamTable {
    float *values[MAX_PARAMETERS];
    const float *gradients[MAX_PARAMETERS];
    float *means[MAX_PARAMETERS];
    float *squares[MAX_PARAMETERS];
    u64 counts[MAX_PARAMETERS];
    float step_sizes[MAX_PARAMETERS];
    float square_corrections[MAX_PARAMETERS];
    u32 chunks_before[MAX_PARAMETERS];
    u32 first[MAX_PARAMETERS];
    u32 parameters;
};

// Returns the parameter that this block's chunk belongs to.
__device__ inline u32 parameter_of_block(const u32 *chunks_before, u32 parameters) {
    u32 parameter = parameters - 1;
    while (parameter > 0 && chunks_before[parameter] > blockIdx.x)
        --parameter;
    return parameter;
}

extern "C" __global__ void sgd(SgdTable table, float learning_rate, float momentum,
                               float weight_decay) {
    u32 parameter = parameter_of_block(table.chunks_before, table.parameters);
    u64 start = (u64)(blockIdx.x - table.chunks_before[parameter]) * CHUNK;
    u64 end = start + CHUNK < table.counts[parameter] ? start + CHUNK : table.counts[parameter];
    float *values = table.values[parameter];
    const float *gradients = table.gradients[parameter];
    float *momenta = table.momenta[parameter];
    bool first = table.first[parameter];
    for (u64 i = start + threadIdx.x; i < end; i += blockDim.x) {
        float value = values[i];
        float change = gradients[i] + weight_decay * value;
        if (momenta) {
            if (!first) change += momentum * momenta[i];
            momenta[i] = change;
        }
        values[i] = value - learning_rate * change;
    }
}

extern "C" __global__ void adam(AdamTable table, float beta1, float beta2, float epsilon,
                                float weight_decay) {
    u32 parameter = parameter_of_block(table.chunks_before, table.parameters);
    u64 start = (u64)(blockIdx.x - table.chunks_before[parameter]) * CHUNK;
    u64 end = start + CHUNK < table.counts[parameter] ? start + CHUNK : table.counts[parameter];
    float *values = table.values[parameter];
    const float *gradients = table.gradients[parameter];
    float *means = table.means[parameter];
    float *squares = table.squares[parameter];
    bool first = table.first[parameter];
    for (u64 i = start + threadIdx.x; i < end; i += blockDim.x) {
        float value = values[i];
        float change = gradients[i] + weight_decay * value;
        float mean = first ? 0.0f : means[i];
        float square = first ? 0.0f : squares[i];
        mean += (1.0f - beta1) * (change - mean);
        square = beta2 * square + (1.0f - beta2) * change * change;
        means[i] = mean;
        squares[i] = square;
        float root = sqrtf(square) / table.square_corrections[parameter];
        values[i] = value - table.step_sizes[parameter] * mean / (root + epsilon);
    }
}
