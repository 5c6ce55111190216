//! The parameters of watched driver calls, as CUPTI lays them out.
//!
//! From `generated_cuda_meta.h`, where the block of `cuMemAlloc_v2` is `cuMemAlloc_v2_params`. A
//! block that is read only in its first fields stands here with those alone, so that calls of one
//! shape share one struct. Handles, device pointers and `size_t` are `u64` on every platform that
//! CUDA has, and `unsigned int` and `CUdevice` are `u32`. The `_v1` calls, of the time of 32-bit
//! pointers, have layouts of their own.

/// The driver answers through its first parameter: `cuStreamCreate`, `cuModuleLoad`, …
#[repr(C)]
pub(super) struct Answers {
    pub(super) handle: *const u64,
}

/// The first parameter names the object: `cuMemFree_v2`, `cuMemFreeAsync`, `cuStreamDestroy`, …
#[repr(C)]
pub(super) struct Names {
    pub(super) handle: u64,
}

/// `cuMemAlloc_v2`, `cuMemAllocManaged`, `cuMemAllocAsync`, `cuMemHostAlloc`, `cuMemAllocHost_v2`
#[repr(C)]
pub(super) struct Allocate {
    pub(super) pointer: *const u64,
    pub(super) bytes: u64,
    /// Of `cuMemAllocAsync` only; the others end before it, or have flags here.
    pub(super) stream: u64,
}

/// `cuMemAllocFromPoolAsync`
#[repr(C)]
pub(super) struct AllocateFromPool {
    pub(super) pointer: *const u64,
    pub(super) bytes: u64,
    pub(super) pool: u64,
    pub(super) stream: u64,
}

/// `cuMemAllocPitch_v2`
#[repr(C)]
pub(super) struct AllocatePitch {
    pub(super) pointer: *const u64,
    pub(super) pitch: *const u64,
    pub(super) width: u64,
    pub(super) height: u64,
}

/// `cuMemHostRegister`, `cuMemHostRegister_v2`
#[repr(C)]
pub(super) struct Register {
    pub(super) pointer: u64,
    pub(super) bytes: u64,
}

/// `cuMemPoolCreate`
#[repr(C)]
pub(super) struct PoolCreate {
    pub(super) pool: *const u64,
    pub(super) properties: *const PoolProperties,
}

/// `cuMemCreate`
#[repr(C)]
pub(super) struct PhysicalCreate {
    pub(super) handle: *const u64,
    pub(super) bytes: u64,
    pub(super) properties: *const PoolProperties,
}

/// `cuMemMap`
#[repr(C)]
pub(super) struct Map {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) offset: u64,
    pub(super) handle: u64,
}

/// `cuMemUnmap`
#[repr(C)]
pub(super) struct Unmap {
    pub(super) address: u64,
    pub(super) bytes: u64,
}

/// `cuMemRetainAllocationHandle`
#[repr(C)]
pub(super) struct RetainMapped {
    pub(super) handle: *const u64,
    pub(super) address: u64,
}

/// `cuUserObjectCreate`
#[repr(C)]
pub(super) struct UserObjectCreate {
    pub(super) object: *const u64,
    pub(super) pointer: u64,
    pub(super) destructor: u64,
    pub(super) references: u32,
    pub(super) flags: u32,
}

/// `cuUserObjectRetain`, `cuUserObjectRelease`
#[repr(C)]
pub(super) struct UserObjectReferences {
    pub(super) object: u64,
    pub(super) count: u32,
}

/// `cuGraphRetainUserObject`; `cuGraphReleaseUserObject` ends before the flags.
#[repr(C)]
pub(super) struct GraphReferences {
    pub(super) graph: u64,
    pub(super) object: u64,
    pub(super) count: u32,
    pub(super) flags: u32,
}

/// `cuGraphClone`, and every `cuGraphInstantiate…`
#[repr(C)]
pub(super) struct GraphCopy {
    pub(super) copy: *const u64,
    pub(super) graph: u64,
    /// Of `cuGraphInstantiateWithFlags`; others end before it, or have something else here.
    pub(super) flags: u64,
}

/// `cuGraphInstantiateWithParams`
#[repr(C)]
pub(super) struct Instantiate {
    pub(super) exec: *const u64,
    pub(super) graph: u64,
    pub(super) parameters: *const u64,
}

/// `cuGraphExecUpdate`, `cuGraphExecUpdate_v2`
#[repr(C)]
pub(super) struct ExecUpdate {
    pub(super) exec: u64,
    pub(super) graph: u64,
}

/// `cuMemFreeAsync`
#[repr(C)]
pub(super) struct FreeOrdered {
    pub(super) pointer: u64,
    pub(super) stream: u64,
}

/// `cuGraphLaunch`
#[repr(C)]
pub(super) struct Launch {
    pub(super) exec: u64,
    pub(super) stream: u64,
}

/// `cuGraphAddMemAllocNode`, `cuGraphAddNode`
#[repr(C)]
pub(super) struct AddNode {
    pub(super) node: *const u64,
    pub(super) graph: u64,
    pub(super) dependencies: *const u64,
    pub(super) dependency_count: u64,
    pub(super) parameters: *const u64,
}

/// `cuGraphAddMemFreeNode`
#[repr(C)]
pub(super) struct AddFreeNode {
    pub(super) node: *const u64,
    pub(super) graph: u64,
    pub(super) dependencies: *const u64,
    pub(super) dependency_count: u64,
    pub(super) pointer: u64,
}

/// `cuGraphAddNode_v2`
#[repr(C)]
pub(super) struct AddNodeV2 {
    pub(super) node: *const u64,
    pub(super) graph: u64,
    pub(super) dependencies: *const u64,
    pub(super) dependency_data: *const u64,
    pub(super) dependency_count: u64,
    pub(super) parameters: *const u64,
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct AllocationNode {
    pub(super) properties: PoolProperties,
    pub(super) rest_of_properties: [u64; 9],
    pub(super) access: u64,
    pub(super) access_count: u64,
    pub(super) bytes: u64,
    pub(super) pointer: u64,
}

/// `CUDA_MEM_FREE_NODE_PARAMS`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct FreeNode {
    pub(super) pointer: u64,
}

/// `CUgraphNodeParams`, up to the end of those of one type of node.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct NodeOf<T> {
    pub(super) node_type: u32,
    pub(super) reserved: [u32; 3],
    pub(super) parameters: T,
}

/// `CUmemPoolProps` and `CUmemAllocationProp`, up to their location.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct PoolProperties {
    pub(super) allocation_type: u32,
    pub(super) handle_types: u32,
    pub(super) location_type: u32,
    pub(super) location_id: u32,
}

/// `cuMemPoolImportPointer`
#[repr(C)]
pub(super) struct ImportPointer {
    pub(super) pointer: *const u64,
    pub(super) pool: u64,
}

/// `cuArrayCreate`, `cuArray3DCreate`, their `_v2`, `cuMipmappedArrayCreate`
#[repr(C)]
pub(super) struct ArrayCreate {
    pub(super) array: *const u64,
    /// The address of a descriptor, which is another for each of them.
    pub(super) descriptor: u64,
    /// Of `cuMipmappedArrayCreate` only; the others end before it.
    pub(super) levels: u32,
}

/// `CUDA_ARRAY_DESCRIPTOR`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct ArrayDescriptor {
    pub(super) width: u64,
    pub(super) height: u64,
    pub(super) format: u32,
    pub(super) channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct ArrayDescriptor3D {
    pub(super) width: u64,
    pub(super) height: u64,
    pub(super) depth: u64,
    pub(super) format: u32,
    pub(super) channels: u32,
    pub(super) flags: u32,
}

/// `cuExternalMemoryGetMappedBuffer`, `cuExternalMemoryGetMappedMipmappedArray`
#[repr(C)]
pub(super) struct MapExternal {
    pub(super) mapped: *const u64,
    pub(super) memory: u64,
    /// The address of a descriptor, which is another for each of them.
    pub(super) descriptor: u64,
}

/// `CUDA_EXTERNAL_MEMORY_BUFFER_DESC`, up to its size.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct ExternalBuffer {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// `CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC`, up to its levels.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct ExternalMipmapped {
    pub(super) offset: u64,
    pub(super) array: ArrayDescriptor3D,
    pub(super) levels: u32,
}

/// `cuLinkCreate`, `cuLinkCreate_v2`
#[repr(C)]
pub(super) struct LinkCreate {
    pub(super) option_count: u32,
    pub(super) options: u64,
    pub(super) values: u64,
    pub(super) link: *const u64,
}

/// `cuGreenCtxCreate`
#[repr(C)]
pub(super) struct GreenContextCreate {
    pub(super) context: *const u64,
    pub(super) resources: u64,
    pub(super) device: u32,
}

/// `cuGreenCtxStreamCreate`
#[repr(C)]
pub(super) struct GreenStreamCreate {
    pub(super) stream: *const u64,
    pub(super) green: u64,
    pub(super) flags: u32,
    pub(super) priority: u32,
}

/// `cuCtxFromGreenCtx`
#[repr(C)]
pub(super) struct ConvertGreen {
    pub(super) context: *const u64,
    pub(super) green: u64,
}

/// `cuCtxCreate`, `cuCtxCreate_v2`
#[repr(C)]
pub(super) struct ContextCreate {
    pub(super) context: *const u64,
    pub(super) flags: u32,
    pub(super) device: u32,
}

/// `cuCtxCreate_v3`
#[repr(C)]
pub(super) struct ContextCreateV3 {
    pub(super) context: *const u64,
    pub(super) affinities: u64,
    pub(super) affinity_count: u32,
    pub(super) flags: u32,
    pub(super) device: u32,
}

/// `cuCtxCreate_v4`
#[repr(C)]
pub(super) struct ContextCreateV4 {
    pub(super) context: *const u64,
    pub(super) parameters: u64,
    pub(super) flags: u32,
    pub(super) device: u32,
}

/// `cuDevicePrimaryCtxRetain`
#[repr(C)]
pub(super) struct PrimaryRetain {
    pub(super) context: *const u64,
    pub(super) device: u32,
}

/// `cuDevicePrimaryCtxRelease`, `cuDevicePrimaryCtxReset`
#[repr(C)]
pub(super) struct PrimaryEnd {
    pub(super) device: u32,
}

/// `cuStreamBeginCaptureToGraph`
#[repr(C)]
pub(super) struct CaptureToGraph {
    pub(super) stream: u64,
    pub(super) graph: u64,
}

/// `cuStreamBeginRecaptureToGraph`
#[repr(C)]
pub(super) struct RecaptureToGraph {
    pub(super) stream: u64,
    pub(super) mode: u32,
    pub(super) graph: u64,
}

/// `cuStreamEndCapture`
#[repr(C)]
pub(super) struct EndCapture {
    pub(super) stream: u64,
    pub(super) graph: *const u64,
}

/// `cuMemAlloc`
#[repr(C)]
pub(super) struct AllocateV1 {
    pub(super) pointer: *const u32,
    pub(super) bytes: u32,
}

/// `cuMemAllocPitch`
#[repr(C)]
pub(super) struct AllocatePitchV1 {
    pub(super) pointer: *const u32,
    pub(super) pitch: *const u32,
    pub(super) width: u32,
    pub(super) height: u32,
}

/// `cuMemFree`
#[repr(C)]
pub(super) struct FreeV1 {
    pub(super) pointer: u32,
}

/// `CUDA_ARRAY_DESCRIPTOR_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct ArrayDescriptorV1 {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) format: u32,
    pub(super) channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR_v1`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct ArrayDescriptor3DV1 {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) depth: u32,
    pub(super) format: u32,
    pub(super) channels: u32,
    pub(super) flags: u32,
}

/// `cuMemAllocHost`: its pointer is the host's, its size of the old time.
#[repr(C)]
pub(super) struct AllocateHostV1 {
    pub(super) pointer: *const u64,
    pub(super) bytes: u32,
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::{AllocationNode, FreeNode, NodeOf};

    /// Printed by a C compiler from `cuda.h` of 11.8, 12.8 and 13.5.
    #[test]
    fn the_parameters_of_nodes_are_where_the_header_has_them() {
        assert_eq!(size_of::<AllocationNode>(), 120);
        assert_eq!(offset_of!(AllocationNode, bytes), 104);
        assert_eq!(offset_of!(AllocationNode, pointer), 112);
        type Allocation = NodeOf<AllocationNode>;
        assert_eq!(offset_of!(Allocation, parameters.bytes), 120);
        assert_eq!(offset_of!(Allocation, parameters.pointer), 128);
        assert_eq!(offset_of!(NodeOf<FreeNode>, parameters.pointer), 16);
    }
}
