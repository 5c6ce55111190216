// Copies elements from one layout to another of the same shape.

template <typename T>
__device__ inline void copy(const T *from, T *to, const Strided &layout, u64 count) {
    for (u64 i = first_index(); i < count; i += index_step()) {
        u64 source, target;
        locate(layout, i, &source, &target);
        to[target] = from[source];
    }
}

extern "C" __global__ void copy_4(const u32 *from, u32 *to, Strided layout, u64 count) {
    copy(from, to, layout, count);
}

extern "C" __global__ void copy_8(const u64 *from, u64 *to, Strided layout, u64 count) {
    copy(from, to, layout, count);
}
