//! The driver's functions for which the harness has wrappers, as names and as symbols of this
//! library. A look-up of one of the names loads the harness. A library that is linked to the driver
//! and opened after the program has started is bound to the symbols, and through them to the
//! harness's wrappers.

use std::ffi::CStr;

use gpu_leak_interpose::WatchedFunction;

macro_rules! functions {
    ($symbols:ident, $names:ident of $library:literal: $($name:ident)*) => {
        gpu_leak_interpose::trampolines!(pub(crate) static $symbols of $library: $($name)*);

        /// All names. This library has no wrappers of its own.
        pub(crate) static $names: &[WatchedFunction] = &[$(WatchedFunction::known(
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a function name must not contain a NUL byte"),
            },
        )),*];
    };
}

// The functions of each type of object begin on a new line, so that a new name changes few lines.
functions!(CUDA, CUDA_NAMES of c"libcuda.so.1":
    cuArray3DCreate cuArray3DCreate_v2 cuArrayCreate cuArrayCreate_v2 cuArrayDestroy
        cuMipmappedArrayCreate cuMipmappedArrayDestroy
    cuCtxAttach cuCtxCreate cuCtxCreate_v2 cuCtxCreate_v3 cuCtxCreate_v4 cuCtxDestroy
        cuCtxDestroy_v2 cuCtxDetach cuCtxFromGreenCtx
    cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxReset
        cuDevicePrimaryCtxReset_v2 cuDevicePrimaryCtxRetain
    cuEventCreate cuEventDestroy cuEventDestroy_v2
    cuDestroyExternalMemory cuDestroyExternalSemaphore cuExternalMemoryGetMappedBuffer
        cuExternalMemoryGetMappedMipmappedArray cuImportExternalMemory cuImportExternalSemaphore
    cuGetProcAddress cuGetProcAddress_v2
    cuGraphClone cuGraphCreate cuGraphDestroy cuGraphLaunch cuGraphLaunch_ptsz
    cuGraphAddMemAllocNode cuGraphAddMemFreeNode cuGraphAddNode cuGraphAddNode_v2 cuGraphAddNode_v3
    cuGraphExecDestroy cuGraphExecUpdate cuGraphExecUpdate_v2
    cuGraphInstantiate cuGraphInstantiateWithFlags cuGraphInstantiateWithParams
        cuGraphInstantiateWithParams_ptsz cuGraphInstantiate_v2
    cuGreenCtxCreate cuGreenCtxDestroy cuGreenCtxStreamCreate
    cuInit
    cuIpcCloseMemHandle cuIpcOpenEventHandle cuIpcOpenMemHandle cuIpcOpenMemHandle_v2
    cuLibraryLoadData cuLibraryLoadFromFile cuLibraryUnload
    cuLinkCreate cuLinkCreate_v2 cuLinkDestroy
    cuMemAlloc cuMemAllocAsync cuMemAllocAsync_ptsz cuMemAllocFromPoolAsync
        cuMemAllocFromPoolAsync_ptsz cuMemAllocManaged cuMemAllocPitch cuMemAllocPitch_v2
        cuMemAlloc_v2 cuMemFree cuMemFreeAsync cuMemFreeAsync_ptsz cuMemFree_v2
    cuMemAddressFree cuMemAddressReserve
    cuMemAllocHost cuMemAllocHost_v2 cuMemFreeHost cuMemHostAlloc cuMemHostAlloc_v2
        cuMemHostRegister cuMemHostRegister_v2 cuMemHostUnregister
    cuMemCreate cuMemImportFromShareableHandle cuMemMap cuMemRelease cuMemRetainAllocationHandle
        cuMemUnmap
    cuMemPoolCreate cuMemPoolDestroy cuMemPoolImportFromShareableHandle cuMemPoolImportPointer
    cuModuleLoad cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary cuModuleUnload
    cuMulticastCreate
    cuStreamBeginRecaptureToGraph cuStreamBeginRecaptureToGraph_ptsz cuStreamCreate
        cuStreamCreateWithPriority cuStreamDestroy cuStreamDestroy_v2
    cuStreamBeginCapture cuStreamBeginCaptureToGraph cuStreamBeginCaptureToGraph_ptsz
        cuStreamBeginCapture_ptsz cuStreamBeginCapture_v2 cuStreamBeginCapture_v2_ptsz
        cuStreamEndCapture cuStreamEndCapture_ptsz
    cuSurfObjectCreate cuSurfObjectDestroy
    cuTexObjectCreate cuTexObjectDestroy cuTexRefCreate cuTexRefDestroy
    cuGraphReleaseUserObject cuGraphRetainUserObject cuUserObjectCreate cuUserObjectRelease
        cuUserObjectRetain
);

// The functions that Vulkan's loader exports. A program gets all others through these.
functions!(VULKAN, VULKAN_NAMES of c"libvulkan.so.1":
    vkAllocateCommandBuffers vkAllocateDescriptorSets vkAllocateMemory vkBindBufferMemory
    vkBindBufferMemory2 vkBindImageMemory vkBindImageMemory2 vkCreateBuffer vkCreateBufferView
    vkCreateCommandPool vkCreateComputePipelines vkCreateDescriptorPool
    vkCreateDescriptorSetLayout vkCreateDescriptorUpdateTemplate vkCreateDevice
    vkCreateDisplayPlaneSurfaceKHR vkCreateEvent vkCreateFence vkCreateFramebuffer
    vkCreateGraphicsPipelines vkCreateHeadlessSurfaceEXT vkCreateImage vkCreateImageView
    vkCreateInstance vkCreatePipelineCache vkCreatePipelineLayout vkCreatePrivateDataSlot
    vkCreateQueryPool vkCreateRenderPass vkCreateRenderPass2 vkCreateSampler
    vkCreateSamplerYcbcrConversion vkCreateSemaphore vkCreateShaderModule
    vkCreateSharedSwapchainsKHR vkCreateSwapchainKHR vkCreateWaylandSurfaceKHR
    vkCreateXcbSurfaceKHR vkCreateXlibSurfaceKHR vkDestroyBuffer vkDestroyBufferView
    vkDestroyCommandPool vkDestroyDescriptorPool vkDestroyDescriptorSetLayout
    vkDestroyDescriptorUpdateTemplate vkDestroyDevice vkDestroyEvent vkDestroyFence
    vkDestroyFramebuffer vkDestroyImage vkDestroyImageView vkDestroyInstance vkDestroyPipeline
    vkDestroyPipelineCache vkDestroyPipelineLayout vkDestroyPrivateDataSlot vkDestroyQueryPool
    vkDestroyRenderPass vkDestroySampler vkDestroySamplerYcbcrConversion vkDestroySemaphore
    vkDestroyShaderModule vkDestroySurfaceKHR vkDestroySwapchainKHR vkEnumeratePhysicalDeviceGroups
    vkEnumeratePhysicalDevices vkFreeCommandBuffers vkFreeDescriptorSets vkFreeMemory vkGetDeviceProcAddr
    vkGetInstanceProcAddr vkResetDescriptorPool
);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// Returns the names in the list of a library.
    fn symbols(library: &str) -> BTreeSet<&'static str> {
        let list = include_str!("functions.rs").split(");").find_map(|part| {
            let (_, list) = part.split_once(&format!("of c\"{library}\":\n"))?;
            Some(list)
        });
        list.expect("the list").split_whitespace().collect()
    }

    #[test]
    fn every_watched_function_is_a_symbol() {
        let table = include_str!("../../../harness/src/api/cuda/functions.rs");
        // A row begins with its names: `    cuMemFree[2000] | cuMemFree_v2[3020] =`.
        let rows = table.lines().filter(|line| line.starts_with("    cu"));
        let names = rows.flat_map(|row| row.split(" | "));
        let names = names.filter_map(|name| name.trim().split_once('['));
        let mut watched: BTreeSet<_> = names.map(|(name, _)| name).collect();
        watched.extend(["cuGetProcAddress", "cuGetProcAddress_v2"]);
        let symbols = symbols("libcuda.so.1");
        let in_one: Vec<_> = symbols.symmetric_difference(&watched).collect();
        assert!(
            in_one.is_empty(),
            "in the list `CUDA` of this file or in harness/src/api/cuda/functions.rs, but not in \
             both: {in_one:?}"
        );
    }

    #[test]
    fn every_symbol_of_vulkan_is_watched() {
        let table = concat!(
            include_str!("../../../harness/src/api/vulkan/functions.rs"),
            include_str!("../../../harness/src/api/vulkan/look_up.rs")
        );
        let symbols = symbols("libvulkan.so.1");
        assert!(symbols.contains("vkGetInstanceProcAddr"));
        for symbol in symbols {
            assert!(table.contains(symbol), "{symbol}");
        }
    }
}
