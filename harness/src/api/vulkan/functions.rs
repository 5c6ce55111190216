//! The table of watched functions: all functions that create or destroy an object and belong to
//! core Vulkan, to Khronos extensions, or to extensions that several vendors share.
//!
//! Most objects are created by `vkCreate…(owner, info, allocator, handle)` and destroyed by
//! `vkDestroy…(owner, handle, allocator)`. Such a pair is a row of `objects`, in which the second
//! function may be missing. Any other function with the parameters of `vkDestroy…` is a row of
//! `destroys`. Every other function is a row of `calls`, with its signature and the effect of a
//! call. Signatures are those of `vulkan_core.h` on 64-bit processors, except that handles, and
//! pointers that are not read, are `u64`.
//!
//! `scripts/check-watched-vulkan` compares names and signatures with `vk.xml`, and fails if a
//! function that creates or destroys something is neither here nor in `not_watched.toml`, which
//! gives the reason for each function that is not watched.

#![expect(
    unsafe_code,
    reason = "defines wrappers for C functions, whose contracts are the callers' responsibility"
)]

use std::mem;

use gpu_leak_interpose::{Slot, WatchedFunction};

use super::call::{Bindings, Created, VulkanCall, creates, creates_by, destroys, frees};
use super::intercept::{VkResult, intercept};
use super::structures::{
    AllocateMemory, BindMemory, CommandBuffers, DescriptorSets, ObjectName, PipelineBinaries,
};
use crate::api::pointer::{In, Out};
#[cfg(test)]
use crate::api::wrapper::with_zeros;
use crate::api::wrapper::{is_listening, table};
use crate::ledger::Kind;

/// How many functions with the same name can be distinguished: the loader's, which serves all
/// devices, and those that drivers and layers have for their devices. Each of them has its own
/// wrapper, which forwards to exactly that function.
pub(super) const TARGETS: usize = 4;

macro_rules! functions {
    (
        objects { $($kind:ident = $create:ident $(, $destroy:ident)?;)* }
        destroys { $($ended:ident = $end:ident;)* }
        calls {
            $($name:ident($($parameter:ident: $type:ty),*) $(-> $result:ty)? = $does:expr;)*
        }
    ) => {
        table! {
            TARGETS = [0 1 2 3];
            $($create $($destroy)?)* $($end)* $($name)*
        }

        #[expect(non_snake_case, reason = "the names match the driver's functions, because they appear in stacks")]
        mod wrappers {
            use super::*;

            $(
                wrapper!($create, (owner: u64, info: u64, allocator: u64, made: Out), VkResult,
                    creates(Kind::$kind, owner, made));
                $(wrapper!($destroy, (owner: u64, handle: u64, allocator: u64), (),
                    destroys(Kind::$kind, owner, handle));)?
            )*
            $(wrapper!($end, (owner: u64, handle: u64, allocator: u64), (),
                destroys(Kind::$ended, owner, handle));)*
            $(wrapper!($name, ($($parameter: $type),*), result!($($result)?), $does);)*
        }

        /// Returns the effect of each row for a call whose parameters are all zero.
        #[cfg(test)]
        pub(super) fn calls() -> Vec<(&'static str, VulkanCall)> {
            vec![
                $(
                    // SAFETY: all zeros are a null pointer, which is a valid value of this type and
                    // is not read.
                    (stringify!($create), creates(Kind::$kind, 0, unsafe { mem::zeroed() })),
                    $((stringify!($destroy), destroys(Kind::$kind, 0, 0)),)?
                )*
                $((stringify!($end), destroys(Kind::$ended, 0, 0)),)*
                $((stringify!($name), with_zeros!(VulkanCall, ($($parameter: $type),*), $does)),)*
            ]
        }
    };
}

macro_rules! result {
    () => {
        ()
    };
    ($result:ty) => {
        $result
    };
}

macro_rules! wrapper {
    ($name:ident, ($($parameter:ident: $type:ty),*), $result:ty, $does:expr) => {
        pub(super) unsafe extern "C" fn $name<const TARGET: usize>(
            $($parameter: $type),*
        ) -> $result {
            type Wrapped = unsafe extern "C" fn($($type),*) -> $result;
            let function = SLOTS[TARGET][FunctionId::$name as usize].real();
            // SAFETY: the slot holds a function with this name, which has these parameters in every
            // library.
            let real = unsafe { mem::transmute::<*const (), Wrapped>(function) };
            // SAFETY: this is the caller's own call, forwarded unchanged.
            let forward = || unsafe { real($($parameter),*) };
            if !is_listening() {
                return forward();
            }
            Answer::of(intercept(&$does, function, &mut || forward().code()))
        }
    };
}

/// The return type of a function: a result code, or nothing.
trait Answer {
    fn of(code: VkResult) -> Self;
    fn code(self) -> VkResult;
}

impl Answer for VkResult {
    fn of(code: VkResult) -> Self {
        code
    }

    fn code(self) -> VkResult {
        self
    }
}

impl Answer for () {
    fn of(_: VkResult) -> Self {}

    fn code(self) -> VkResult {
        0
    }
}

/// Creates pipelines. Those that could be created exist even if the call failed.
fn pipelines(device: u64, count: u32, made: Out) -> VulkanCall {
    creates_by(Created::Each(count), Kind::Pipeline, device, made)
}

functions! {
    objects {
        // https://docs.vulkan.org/spec/latest/chapters/resources.html
        Buffer = vkCreateBuffer, vkDestroyBuffer;
        BufferView = vkCreateBufferView, vkDestroyBufferView;
        Image = vkCreateImage, vkDestroyImage;
        ImageView = vkCreateImageView, vkDestroyImageView;
        AccelerationStructure = vkCreateAccelerationStructureKHR, vkDestroyAccelerationStructureKHR;
        AccelerationStructure = vkCreateAccelerationStructure2KHR;
        Micromap = vkCreateMicromapEXT, vkDestroyMicromapEXT;
        // https://docs.vulkan.org/spec/latest/chapters/samplers.html
        Sampler = vkCreateSampler, vkDestroySampler;
        SamplerConversion = vkCreateSamplerYcbcrConversion, vkDestroySamplerYcbcrConversion;
        SamplerConversion = vkCreateSamplerYcbcrConversionKHR, vkDestroySamplerYcbcrConversionKHR;
        // https://docs.vulkan.org/spec/latest/chapters/synchronization.html
        Fence = vkCreateFence, vkDestroyFence;
        Fence = vkRegisterDeviceEventEXT;
        Semaphore = vkCreateSemaphore, vkDestroySemaphore;
        Event = vkCreateEvent, vkDestroyEvent;
        // https://docs.vulkan.org/spec/latest/chapters/renderpass.html
        RenderPass = vkCreateRenderPass, vkDestroyRenderPass;
        RenderPass = vkCreateRenderPass2;
        RenderPass = vkCreateRenderPass2KHR;
        Framebuffer = vkCreateFramebuffer, vkDestroyFramebuffer;
        // https://docs.vulkan.org/spec/latest/chapters/pipelines.html
        ShaderModule = vkCreateShaderModule, vkDestroyShaderModule;
        PipelineCache = vkCreatePipelineCache, vkDestroyPipelineCache;
        PipelineLayout = vkCreatePipelineLayout, vkDestroyPipelineLayout;
        ValidationCache = vkCreateValidationCacheEXT, vkDestroyValidationCacheEXT;
        // https://docs.vulkan.org/spec/latest/chapters/descriptorsets.html
        DescriptorLayout = vkCreateDescriptorSetLayout, vkDestroyDescriptorSetLayout;
        DescriptorTemplate = vkCreateDescriptorUpdateTemplate, vkDestroyDescriptorUpdateTemplate;
        DescriptorTemplate = vkCreateDescriptorUpdateTemplateKHR,
            vkDestroyDescriptorUpdateTemplateKHR;
        QueryPool = vkCreateQueryPool, vkDestroyQueryPool;
        DescriptorPool = vkCreateDescriptorPool;
        CommandPool = vkCreateCommandPool;
        // https://docs.vulkan.org/spec/latest/chapters/device_generated_commands/generatedcommands.html
        CommandsLayout = vkCreateIndirectCommandsLayoutEXT, vkDestroyIndirectCommandsLayoutEXT;
        ExecutionSet = vkCreateIndirectExecutionSetEXT, vkDestroyIndirectExecutionSetEXT;
        // https://docs.vulkan.org/spec/latest/chapters/VK_KHR_surface/wsi.html
        Swapchain = vkCreateSwapchainKHR, vkDestroySwapchainKHR;
        // https://docs.vulkan.org/spec/latest/chapters/videocoding.html
        VideoSession = vkCreateVideoSessionKHR, vkDestroyVideoSessionKHR;
        VideoParameters = vkCreateVideoSessionParametersKHR, vkDestroyVideoSessionParametersKHR;
        PrivateDataSlot = vkCreatePrivateDataSlot, vkDestroyPrivateDataSlot;
        PrivateDataSlot = vkCreatePrivateDataSlotEXT, vkDestroyPrivateDataSlotEXT;
        // Objects of an instance.
        // https://docs.vulkan.org/spec/latest/chapters/debugging.html
        Messenger = vkCreateDebugUtilsMessengerEXT, vkDestroyDebugUtilsMessengerEXT;
        Messenger = vkCreateDebugReportCallbackEXT, vkDestroyDebugReportCallbackEXT;
        // Surfaces. Each of these functions is for one window system.
        Surface = vkCreateXlibSurfaceKHR, vkDestroySurfaceKHR;
        Surface = vkCreateXcbSurfaceKHR;
        Surface = vkCreateWaylandSurfaceKHR;
        Surface = vkCreateDirectFBSurfaceEXT;
        Surface = vkCreateDisplayPlaneSurfaceKHR;
        Surface = vkCreateHeadlessSurfaceEXT;
    }
    destroys {
        Memory = vkFreeMemory;
        Pipeline = vkDestroyPipeline;
        PipelineBinary = vkDestroyPipelineBinaryKHR;
        Shader = vkDestroyShaderEXT;
        DeferredOperation = vkDestroyDeferredOperationKHR;
    }
    calls {
        // https://docs.vulkan.org/spec/latest/chapters/initialization.html
        vkCreateInstance(info: u64, allocator: u64, instance: Out) -> VkResult =
            VulkanCall::CreatesInstance(instance);
        vkDestroyInstance(instance: u64, allocator: u64) = VulkanCall::DestroysInstance(instance);
        // https://docs.vulkan.org/spec/latest/chapters/devsandqueues.html
        vkEnumeratePhysicalDevices(instance: u64, count: Out<u32>, devices: Out) -> VkResult =
            VulkanCall::ListsDevices(instance, count, devices);
        vkEnumeratePhysicalDeviceGroups(instance: u64, count: u64, groups: u64) -> VkResult =
            VulkanCall::ListsGroups(instance);
        vkEnumeratePhysicalDeviceGroupsKHR(instance: u64, count: u64, groups: u64) -> VkResult =
            VulkanCall::ListsGroups(instance);
        vkCreateDevice(physical: u64, info: u64, allocator: u64, device: Out) -> VkResult =
            VulkanCall::CreatesDevice(physical, device);
        vkDestroyDevice(device: u64, allocator: u64) = VulkanCall::DestroysDevice(device);
        // https://docs.vulkan.org/spec/latest/chapters/debugging.html
        vkSetDebugUtilsObjectNameEXT(device: u64, info: In<ObjectName>) -> VkResult =
            VulkanCall::Names(device, info);
        vkDebugMarkerSetObjectNameEXT(device: u64, info: In<ObjectName>) -> VkResult =
            VulkanCall::Names(device, info);
        // https://docs.vulkan.org/spec/latest/chapters/memory.html
        vkAllocateMemory(
            device: u64, info: In<AllocateMemory>, allocator: u64, memory: Out
        ) -> VkResult = creates_by(Created::Memory(info), Kind::Memory, device, memory);
        vkBindBufferMemory(device: u64, buffer: u64, memory: u64, offset: u64) -> VkResult =
            VulkanCall::Binds(device, Kind::Buffer, Bindings::One(buffer, memory));
        vkBindBufferMemory2(device: u64, count: u32, all: In<BindMemory>) -> VkResult =
            VulkanCall::Binds(device, Kind::Buffer, Bindings::Many(count, all));
        vkBindBufferMemory2KHR(device: u64, count: u32, all: In<BindMemory>) -> VkResult =
            VulkanCall::Binds(device, Kind::Buffer, Bindings::Many(count, all));
        vkBindImageMemory(device: u64, image: u64, memory: u64, offset: u64) -> VkResult =
            VulkanCall::Binds(device, Kind::Image, Bindings::One(image, memory));
        vkBindImageMemory2(device: u64, count: u32, all: In<BindMemory>) -> VkResult =
            VulkanCall::Binds(device, Kind::Image, Bindings::Many(count, all));
        vkBindImageMemory2KHR(device: u64, count: u32, all: In<BindMemory>) -> VkResult =
            VulkanCall::Binds(device, Kind::Image, Bindings::Many(count, all));
        vkCreateGraphicsPipelines(
            device: u64, cache: u64, count: u32, infos: u64, allocator: u64, made: Out
        ) -> VkResult = pipelines(device, count, made);
        vkCreateComputePipelines(
            device: u64, cache: u64, count: u32, infos: u64, allocator: u64, made: Out
        ) -> VkResult = pipelines(device, count, made);
        vkCreateRayTracingPipelinesKHR(
            device: u64, deferred: u64, cache: u64, count: u32, infos: u64, allocator: u64,
            made: Out
        ) -> VkResult = pipelines(device, count, made);
        vkCreatePipelineBinariesKHR(
            device: u64, info: u64, allocator: u64, made: Out<PipelineBinaries>
        ) -> VkResult = creates_by(
            Created::PipelineBinaries(made), Kind::PipelineBinary, device, made.cast()
        );
        vkCreateShadersEXT(
            device: u64, count: u32, infos: u64, allocator: u64, made: Out
        ) -> VkResult = creates_by(Created::Each(count), Kind::Shader, device, made);
        // Pools. Objects that belong to a pool end with it.
        vkDestroyDescriptorPool(device: u64, pool: u64, allocator: u64) = VulkanCall::EmptiesPool {
            device, pool, destroys: Some(Kind::DescriptorPool),
        };
        vkResetDescriptorPool(device: u64, pool: u64, flags: u32) -> VkResult =
            VulkanCall::EmptiesPool { device, pool, destroys: None };
        vkAllocateDescriptorSets(device: u64, info: In<DescriptorSets>, sets: Out) -> VkResult =
            creates_by(Created::DescriptorSets(info), Kind::DescriptorSet, device, sets);
        vkFreeDescriptorSets(device: u64, pool: u64, count: u32, sets: In<u64>) -> VkResult =
            frees(Kind::DescriptorSet, device, pool, count, sets);
        vkDestroyCommandPool(device: u64, pool: u64, allocator: u64) = VulkanCall::EmptiesPool {
            device, pool, destroys: Some(Kind::CommandPool),
        };
        vkAllocateCommandBuffers(
            device: u64, info: In<CommandBuffers>, buffers: Out
        ) -> VkResult =
            creates_by(Created::CommandBuffers(info), Kind::CommandBuffer, device, buffers);
        vkFreeCommandBuffers(device: u64, pool: u64, count: u32, buffers: In<u64>) =
            frees(Kind::CommandBuffer, device, pool, count, buffers);
        vkCreateDeferredOperationKHR(device: u64, allocator: u64, made: Out) -> VkResult =
            creates(Kind::DeferredOperation, device, made);
        vkRegisterDisplayEventEXT(
            device: u64, display: u64, info: u64, allocator: u64, fence: Out
        ) -> VkResult = creates(Kind::Fence, device, fence);
        vkCreateSharedSwapchainsKHR(
            device: u64, count: u32, infos: u64, allocator: u64, made: Out
        ) -> VkResult = creates_by(Created::All(count), Kind::Swapchain, device, made);
    }
}
