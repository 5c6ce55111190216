//! The C structures that are read, as `vulkan_core.h` declares them on 64-bit processors. Each
//! structure is declared only up to the last field that is read. A handle is a `u64`, because these
//! processors pass a `u64` like a pointer.

use std::ffi::c_char;

use crate::api::pointer::In;

/// The first fields of every structure that other structures can extend.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Chained {
    /// `sType`
    pub(super) structure: u32,
    /// `pNext`
    pub(super) next: In<Self>,
}

/// `VkMemoryAllocateInfo`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct AllocateMemory {
    pub(super) header: Chained,
    pub(super) bytes: u64,
    pub(super) memory_type: u32,
}

/// A structure that extends another one if the first field after its header, which says what it
/// selects, is not 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Extension {
    pub(super) header: Chained,
    /// `handleType` of the structures in [`IMPORTS`], or `planeAspect` of [`OF_A_PLANE`]
    pub(super) selects: u32,
}

/// The types of the structures that make `VkMemoryAllocateInfo` import memory instead of allocating
/// it.
pub(super) const IMPORTS: [u32; 2] = [
    // VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR
    1_000_074_000,
    // VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT
    1_000_178_000,
];

/// `VK_STRUCTURE_TYPE_BIND_IMAGE_PLANE_MEMORY_INFO`: memory is bound to a single plane of an image.
pub(super) const OF_A_PLANE: u32 = 1_000_156_002;

/// `VkDescriptorSetAllocateInfo`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct DescriptorSets {
    pub(super) header: Chained,
    pub(super) pool: u64,
    pub(super) count: u32,
}

/// `VkCommandBufferAllocateInfo`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CommandBuffers {
    pub(super) header: Chained,
    pub(super) pool: u64,
    pub(super) level: u32,
    pub(super) count: u32,
}

/// `VkPipelineBinaryHandlesInfoKHR`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct PipelineBinaries {
    pub(super) header: Chained,
    pub(super) count: u32,
    pub(super) handles: In<u64>,
}

/// `VkBindBufferMemoryInfo` and `VkBindImageMemoryInfo`, which differ only in the type of the
/// object.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct BindMemory {
    pub(super) header: Chained,
    pub(super) object: u64,
    pub(super) memory: u64,
    pub(super) offset: u64,
}

/// `VkDebugUtilsObjectNameInfoEXT` and `VkDebugMarkerObjectNameInfoEXT`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ObjectName {
    pub(super) header: Chained,
    pub(super) object_type: u32,
    pub(super) handle: u64,
    pub(super) name: *const c_char,
}

/// `VkMemoryRequirements`
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Requirements {
    pub(super) bytes: u64,
    pub(super) alignment: u64,
    pub(super) memory_types: u32,
}

/// `VkPhysicalDeviceMemoryProperties`
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct MemoryProperties {
    pub(super) type_count: u32,
    /// `VkMemoryType`: the flags and the index of a heap.
    pub(super) types: [[u32; 2]; 32],
    pub(super) heap_count: u32,
    pub(super) heaps: [Heap; 16],
}

/// `VkMemoryHeap`
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Heap {
    pub(super) bytes: u64,
    pub(super) flags: u32,
}

/// `VK_MEMORY_HEAP_DEVICE_LOCAL_BIT`
pub(super) const DEVICE_LOCAL: u32 = 1;

/// `VkPhysicalDeviceProperties`, which ends with the limits and the sparse properties.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct DeviceProperties {
    pub(super) versions_and_ids: [u32; 5],
    pub(super) name: [u8; 256],
    pub(super) rest: [u64; 80],
}
