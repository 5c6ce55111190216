// Products of small matrices in any layout, and what follows a product.
//
// A block of 16 × 16 threads makes a tile of 16 × 16 results. It goes along the shared dimension
// in steps of 64, so that every thread has eight loads under way at once: small products wait for
// memory, not for arithmetic. cuBLAS makes the large ones.

#define TILE 16
#define DEPTH 64

struct Matrix {
    const float *start;
    u64 row_stride;
    u64 column_stride;
};

__device__ inline float activate(float value, u32 relu) {
    return relu && value < 0.0f ? 0.0f : value;
}

extern "C" __global__ void matmul(Matrix a, Matrix b, const float *bias, u32 relu, u32 rows,
                                  u32 columns, u32 depth, float *out) {
    __shared__ float a_tile[DEPTH][TILE + 1];
    __shared__ float b_tile[DEPTH][TILE + 1];
    u32 thread = threadIdx.y * TILE + threadIdx.x;
    u32 first_row = blockIdx.y * TILE;
    u32 first_column = blockIdx.x * TILE;
    // Neighbouring threads load neighbouring elements, whichever way a matrix lies.
    bool a_by_rows = a.column_stride == 1;
    bool b_by_rows = b.column_stride == 1;

    float sum = 0.0f;
    for (u32 start = 0; start < depth; start += DEPTH) {
        for (u32 load = 0; load < DEPTH * TILE; load += TILE * TILE) {
            u32 element = load + thread;

            u32 k = a_by_rows ? element % DEPTH : element / TILE;
            u32 place = a_by_rows ? element / DEPTH : element % TILE;
            u32 row = first_row + place;
            a_tile[k][place] = row < rows && start + k < depth
                ? a.start[row * a.row_stride + (start + k) * a.column_stride]
                : 0.0f;

            k = b_by_rows ? element / TILE : element % DEPTH;
            place = b_by_rows ? element % TILE : element / DEPTH;
            u32 column = first_column + place;
            b_tile[k][place] = column < columns && start + k < depth
                ? b.start[(start + k) * b.row_stride + column * b.column_stride]
                : 0.0f;
        }
        __syncthreads();
        for (u32 k = 0; k < DEPTH; ++k)
            sum += a_tile[k][threadIdx.y] * b_tile[k][threadIdx.x];
        __syncthreads();
    }

    u32 row = first_row + threadIdx.y;
    u32 column = first_column + threadIdx.x;
    if (row < rows && column < columns) {
        if (bias) sum += bias[column];
        out[(u64)row * columns + column] = activate(sum, relu);
    }
}

// After a product that cuBLAS made.
extern "C" __global__ void epilogue(const float *bias, u32 relu, u64 columns, u64 count,
                                    float *out) {
    for (u64 i = first_index(); i < count; i += index_step()) {
        float value = out[i];
        if (bias) value += bias[i % columns];
        out[i] = activate(value, relu);
    }
}
