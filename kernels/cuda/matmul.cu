// Products of small matrices in any layout, and the operations that follow a product.
//
// A block of 16 × 16 threads computes a tile of 16 × 16 results. It walks the shared dimension in
// steps of 64, so that every thread has eight loads in flight at once, and loads the next step
// while it computes the current one: small products are limited by the latency of memory, not by
// arithmetic. cuBLAS computes the large ones.

#define TILE 16
#define DEPTH 64
#define LOADS (DEPTH / TILE)

struct Matrix {
    const float *start;
    u64 row_stride;
    u64 column_stride;
};

// A tile of one operand: `lines` rows of `a`, or columns of `b`, along the shared dimension.
struct Tile {
    const float *start;
    u64 line_stride;
    u64 depth_stride;
    u32 first_line;
    u32 lines;
};

// Which element of a tile a thread loads. Neighbouring threads load neighbouring elements, whether
// the matrix is stored by rows or by columns.
__device__ inline void place(const Tile &tile, u32 load, u32 *line, u32 *k) {
    u32 element = load * TILE * TILE + threadIdx.x;
    bool along_depth = tile.depth_stride == 1;
    *line = along_depth ? element / DEPTH : element % TILE;
    *k = along_depth ? element % DEPTH : element / TILE;
}

__device__ inline void fetch(const Tile &tile, u32 start, u32 depth, float values[LOADS]) {
    for (u32 load = 0; load < LOADS; ++load) {
        u32 line, k;
        place(tile, load, &line, &k);
        bool inside = tile.first_line + line < tile.lines && start + k < depth;
        values[load] = inside ? tile.start[(tile.first_line + line) * tile.line_stride
                                           + (start + k) * tile.depth_stride]
                              : 0.0f;
    }
}

__device__ inline void store(const Tile &tile, const float values[LOADS],
                             float shared[DEPTH][TILE + 1]) {
    for (u32 load = 0; load < LOADS; ++load) {
        u32 line, k;
        place(tile, load, &line, &k);
        shared[k][line] = values[load];
    }
}

__device__ inline float activate(float value, u32 relu) {
    return relu && value < 0.0f ? 0.0f : value;
}

extern "C" __global__ void matmul(Matrix a, Matrix b, const float *bias, u32 relu, u32 rows,
                                  u32 columns, u32 depth, float *out) {
    __shared__ float a_shared[DEPTH][TILE + 1];
    __shared__ float b_shared[DEPTH][TILE + 1];
    u32 tiles_in_row = (columns + TILE - 1) / TILE;
    Tile a_tile = {a.start, a.row_stride, a.column_stride, blockIdx.x / tiles_in_row * TILE, rows};
    Tile b_tile = {b.start, b.column_stride, b.row_stride, blockIdx.x % tiles_in_row * TILE,
                   columns};
    u32 own_row = threadIdx.x / TILE;
    u32 own_column = threadIdx.x % TILE;

    float a_next[LOADS], b_next[LOADS];
    fetch(a_tile, 0, depth, a_next);
    fetch(b_tile, 0, depth, b_next);
    float sum = 0.0f;
    for (u32 start = 0; start < depth; start += DEPTH) {
        store(a_tile, a_next, a_shared);
        store(b_tile, b_next, b_shared);
        __syncthreads();
        fetch(a_tile, start + DEPTH, depth, a_next);
        fetch(b_tile, start + DEPTH, depth, b_next);
        for (u32 k = 0; k < DEPTH; ++k)
            sum += a_shared[k][own_row] * b_shared[k][own_column];
        __syncthreads();
    }

    u32 row = a_tile.first_line + own_row;
    u32 column = b_tile.first_line + own_column;
    if (row < rows && column < columns) {
        if (bias) sum += bias[column];
        out[(u64)row * columns + column] = activate(sum, relu);
    }
}

// Runs after a product that cuBLAS computed.
extern "C" __global__ void epilogue(const float *bias, u32 relu, u64 columns, u64 count,
                                    float *out) {
    for (u64 i = first_index(); i < count; i += index_step()) {
        float value = out[i];
        if (bias) value += bias[i % columns];
        out[i] = activate(value, relu);
    }
}
