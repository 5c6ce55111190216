//! The driver's functions for which the harness has wrappers, as names and as symbols of this
//! library. A look-up of one of the names loads the harness. A library that is linked to the driver
//! and opened after the program has started is bound to the symbols, and through them to the
//! harness's wrappers.

use std::ffi::CStr;

use gpu_leak_interpose::WatchedFunction;

macro_rules! symbols {
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

/// Takes the names from the rows of the harness's table, and adds those of the look-ups, which have
/// no row.
macro_rules! functions {
    ($($($name:ident[$since:literal])|+ = |$($parameter:ident: $type:ty),*| $does:expr),* $(,)?) => {
        symbols!(CUDA, CUDA_NAMES of c"libcuda.so.1":
            cuGetProcAddress cuGetProcAddress_v2 $($($name)+)*
        );
    };
}

// A link to harness/src/api/cuda/functions/table.rs, so that the published package contains it.
include!("cuda_table.rs");

// The functions that Vulkan's loader exports. A program gets all others through these.
symbols!(VULKAN, VULKAN_NAMES of c"libvulkan.so.1":
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
    #[test]
    fn every_symbol_of_vulkan_is_watched() {
        let table = concat!(
            include_str!("../../../harness/src/api/vulkan/functions.rs"),
            include_str!("../../../harness/src/api/vulkan/look_up.rs")
        );
        let list = include_str!("functions.rs").split_once("of c\"libvulkan.so.1\":");
        let list = list.and_then(|(_, rest)| rest.split_once(");"));
        let (symbols, _) = list.expect("the list");
        assert!(symbols.contains("vkGetInstanceProcAddr"));
        for symbol in symbols.split_whitespace() {
            assert!(table.contains(symbol), "{symbol}");
        }
    }
}
