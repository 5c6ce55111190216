// Operations on each element or pair of elements. The operation is the same for a whole launch, so
// the switch on it costs no divergence.

// The cases are in the order of the variants of `Unary` in Rust.
__device__ inline float unary_of(u32 op, float value, float x) {
    switch (op) {
    case 0: return sinf(x);
    case 1: return x < 0.0f ? 0.0f : x; // NaN stays NaN
    case 2: return x + value;
    default: return x * value;
    }
}

// The cases are in the order of the variants of `Binary` in Rust.
__device__ inline float binary_of(u32 op, float a, float b) {
    switch (op) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return b <= 0.0f ? 0.0f : a; // where b is NaN, the gradient passes
    default: return a * cosf(b);
    }
}

extern "C" __global__ void unary(u32 op, float value, const float *in, float *out, u64 count) {
    for (u64 i = first_index(); i < count; i += index_step())
        out[i] = unary_of(op, value, in[i]);
}

extern "C" __global__ void unary_strided(u32 op, float value, const float *in, Strided layout,
                                         float *out, u64 count) {
    for (u64 i = first_index(); i < count; i += index_step()) {
        u64 from, unused;
        locate(layout, i, &from, &unused);
        out[i] = unary_of(op, value, in[from]);
    }
}

extern "C" __global__ void binary(u32 op, const float *a, const float *b, float *out, u64 count) {
    for (u64 i = first_index(); i < count; i += index_step())
        out[i] = binary_of(op, a[i], b[i]);
}

extern "C" __global__ void binary_strided(u32 op, const float *a, const float *b, Strided layout,
                                          float *out, u64 count) {
    for (u64 i = first_index(); i < count; i += index_step()) {
        u64 first, second;
        locate(layout, i, &first, &second);
        out[i] = binary_of(op, a[first], b[second]);
    }
}

extern "C" __global__ void add_assign(float *target, const float *other, Strided layout,
                                      u64 count) {
    for (u64 i = first_index(); i < count; i += index_step()) {
        u64 to, from;
        locate(layout, i, &to, &from);
        target[to] += other[from];
    }
}

// cuRAND draws from (0, 1]; a tensor's uniform draws lie in [0, 1).
extern "C" __global__ void one_to_zero(float *out, u64 count) {
    for (u64 i = first_index(); i < count; i += index_step())
        if (out[i] >= 1.0f) out[i] = 0.0f;
}
