//! The kind of a resource: a kind of memory, or a kind of handle. CONTRIBUTING.md lists what else a
//! new kind needs.

use serde::{Deserialize, Serialize};

use crate::units::exact_size;

/// A resource of this kind is freed when its context ends.
///
/// This follows the documentation of
/// [`cuCtxDestroy`](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__CTX.html) and, where
/// the documentation is silent, tests on an H200 (driver 580, CUDA 13.0). In these tests, an object
/// of each kind was created, its context was ended by `cuCtxDestroy`, by the last
/// `cuDevicePrimaryCtxRelease` or by `cuDevicePrimaryCtxReset`, and the object was queried. All
/// three calls had the same effect on every kind. Memory, streams, events, modules and external
/// memory are freed, according to both the documentation and the driver. The documentation does not
/// mention page-locked memory, which is unmapped even if it is portable, or registered memory,
/// which can be registered again. The documentation states that textures, surfaces, link states and
/// external semaphores end. Queries of such objects after that prove nothing. The Vulkan API
/// requires that objects of a device or instance be destroyed before the device or instance itself.
const ENDS: bool = true;

/// A resource of this kind belongs to a device or to the process. It outlives its context and must
/// still be freed.
///
/// This is the safer choice if the documentation is silent and no GPU is available. With a wrong
/// `STAYS`, a leak is reported without the note that the context freed the resource, or not at all
/// if the driver reuses the handle in the same test. A wrong `ENDS` is a false alarm if the program
/// frees the resource after its context has ended, because the record ends with the context.
///
/// This choice must agree with `stays()` in `tests/kinds/table.rs` and with what the fake driver
/// removes with a context, in `tear_down` of `tests/fake-driver/cuda/src/context.rs`.
const STAYS: bool = false;

/// Declares the kinds. Each has a word for reports, and either [ends](ENDS) with its context or
/// [stays](STAYS).
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal, $ends:ident;)*) => {
        /// The kind of a resource. The first kinds hold bytes. The others are handles, which are
        /// counted.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        #[serde(rename_all = "kebab-case")]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// Every kind, in the order of declaration.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$kind),*];

            /// Returns the word for this kind in reports, such as `stream-ordered` or `exec graph`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// Whether a resource of this kind is freed when its context ends.
            pub(super) const fn ends_with_context(self) -> bool {
                match self {
                    $(Self::$kind => $ends,)*
                }
            }
        }
    };
}

kinds! {
    // Memory: resources with bytes.

    /// `cuMemAlloc`, `cudaMalloc`.
    Linear = "linear", ENDS;
    /// `cuMemAllocPitch`, `cudaMallocPitch`: pitch × height bytes.
    Pitched = "pitched", ENDS;
    /// `cuMemAllocManaged`: unified memory.
    Managed = "managed", ENDS;
    /// `cuMemAllocAsync`, `cuMemAllocFromPoolAsync`.
    StreamOrdered = "stream-ordered", STAYS;
    /// `cuMemCreate`: physical memory of the virtual memory management API.
    Physical = "physical", STAYS;
    /// CUDA arrays and mipmapped arrays.
    Array = "array", ENDS;
    /// Memory that an alloc node of a graph allocated.
    Graph = "graph", STAYS;
    /// `cuMemHostAlloc`, `cuMemAllocHost`: page-locked memory of the host.
    Pinned = "pinned", ENDS;
    /// `cuMemHostRegister`: the program's own memory, page-locked.
    Registered = "registered", ENDS;
    /// Memory of another process or API, opened in this process.
    Imported = "imported", ENDS;
    /// A block of an allocator that reports through `observe`.
    Block = "block", STAYS;
    /// An allocation of device memory to which buffers and images are bound.
    Memory = "memory object", ENDS;
    // Handles begin here, with the stream. The first ones are CUDA's. Vulkan's events and surfaces
    // have the same kinds as CUDA's.

    /// `CUstream`.
    Stream = "stream", ENDS;
    /// `CUevent`.
    Event = "event", ENDS;
    /// `CUmodule`.
    Module = "module", ENDS;
    /// `CUlibrary`.
    Library = "library", STAYS;
    /// `CUgraph`.
    GraphHandle = "graph handle", STAYS;
    /// `CUgraphExec`.
    ExecGraph = "exec graph", STAYS;
    /// `CUmemoryPool`.
    Pool = "pool", STAYS;
    /// `CUtexObject`, `CUtexref`.
    Texture = "texture", ENDS;
    /// `CUsurfObject`.
    Surface = "surface", ENDS;
    /// `CUlinkState`.
    LinkState = "link state", ENDS;
    /// `CUexternalMemory`.
    ExternalMemory = "external memory", ENDS;
    /// `CUexternalSemaphore`.
    ExternalSemaphore = "external semaphore", ENDS;
    /// A reserved range of virtual addresses.
    AddressRange = "address range", STAYS;
    /// `CUcontext`.
    Context = "context", ENDS;
    /// `CUgreenCtx`: a context with part of a device's processors. It retains the primary context,
    /// which cannot even be reset while the green context is live.
    GreenContext = "green context", STAYS;
    /// `CUuserObject`: an object that a graph keeps alive for the program.
    UserObject = "user object", STAYS;
    /// `cuMulticastCreate`: a multicast object.
    Multicast = "multicast object", STAYS;
    // Handles that only Vulkan has begin here, with the device.

    /// A device that the program opened, and everything that belongs to it.
    Device = "device", ENDS;
    /// The program's connection to an API, and everything that belongs to it.
    Instance = "instance", ENDS;
    /// A buffer. It counts the bytes of the memory that is bound to it.
    Buffer = "buffer", ENDS;
    /// A view of a buffer.
    BufferView = "buffer view", ENDS;
    /// An image. It counts the bytes of the memory that is bound to it.
    Image = "image", ENDS;
    /// A view of an image.
    ImageView = "image view", ENDS;
    /// A sampler.
    Sampler = "sampler", ENDS;
    /// A sampler Y′CbCr conversion.
    SamplerConversion = "sampler conversion", ENDS;
    /// A module of shader code.
    ShaderModule = "shader module", ENDS;
    /// A shader that is bound without a pipeline.
    Shader = "shader object", ENDS;
    /// A pipeline.
    Pipeline = "pipeline", ENDS;
    /// The layout of a pipeline.
    PipelineLayout = "pipeline layout", ENDS;
    /// Code compiled for pipelines.
    PipelineCache = "pipeline cache", ENDS;
    /// A compiled part of a pipeline.
    PipelineBinary = "pipeline binary", ENDS;
    /// The layout of a descriptor set.
    DescriptorLayout = "descriptor set layout", ENDS;
    /// A pool of descriptor sets. Destroying it also frees them.
    DescriptorPool = "descriptor pool", ENDS;
    /// A descriptor set.
    DescriptorSet = "descriptor set", ENDS;
    /// A description of updates to descriptor sets.
    DescriptorTemplate = "descriptor update template", ENDS;
    /// A pool of command buffers. Destroying it also frees them.
    CommandPool = "command pool", ENDS;
    /// A command buffer.
    CommandBuffer = "command buffer", ENDS;
    /// A fence.
    Fence = "fence", ENDS;
    /// A semaphore.
    Semaphore = "semaphore", ENDS;
    /// A pool of queries.
    QueryPool = "query pool", ENDS;
    /// A render pass.
    RenderPass = "render pass", ENDS;
    /// A framebuffer.
    Framebuffer = "framebuffer", ENDS;
    /// An acceleration structure of ray tracing.
    AccelerationStructure = "acceleration structure", ENDS;
    /// An opacity micromap of ray tracing.
    Micromap = "micromap", ENDS;
    /// A swapchain, with its images.
    Swapchain = "swapchain", ENDS;
    /// A callback for messages.
    Messenger = "debug messenger", ENDS;
    /// A slot for the program's data in objects.
    PrivateDataSlot = "private data slot", ENDS;
    /// An operation that the program completes on its own threads.
    DeferredOperation = "deferred operation", ENDS;
    /// A session that encodes or decodes video.
    VideoSession = "video session", ENDS;
    /// The parameters of a video session.
    VideoParameters = "video session parameters object", ENDS;
    /// The layout of commands that the device generates.
    CommandsLayout = "indirect commands layout", ENDS;
    /// The pipelines from which device-generated commands choose.
    ExecutionSet = "indirect execution set", ENDS;
    /// Cached results of a validation layer.
    ValidationCache = "validation cache", ENDS;
}

impl Kind {
    /// Returns the description of memory of this kind: `4.00 KiB of linear memory`.
    pub fn memory(self, bytes: u64) -> String {
        format!("{} of {} memory", exact_size(bytes), self.name())
    }

    /// Returns the noun for one resource: `allocation`, `stream`.
    pub fn noun(self) -> &'static str {
        match self {
            Self::GraphHandle => "graph",
            Self::ExternalMemory => "external memory object",
            kind if kind.is_handle() => kind.name(),
            _ => "allocation",
        }
    }

    /// Whether resources of this kind are counted rather than measured in bytes.
    #[must_use]
    pub const fn is_handle(self) -> bool {
        self as u8 >= Self::Stream as u8
    }

    /// Whether calls to the CUDA driver create resources of this kind.
    #[must_use]
    pub const fn is_of_cuda(self) -> bool {
        !matches!(self, Self::Block | Self::Memory) && (self as u8) < Self::Device as u8
    }
}

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn all_lists_each_kind_at_its_own_number() {
        for (number, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, number, "{kind:?}");
        }
    }

    #[test]
    fn handles_begin_at_the_stream() {
        assert!(!Kind::Block.is_handle());
        assert!(Kind::Stream.is_handle());
        assert!(Kind::ValidationCache.is_handle());
    }

    #[test]
    fn kinds_of_vulkan_alone_begin_at_the_device() {
        let are_of_cuda = |kinds: [Kind; 4]| kinds.map(Kind::is_of_cuda);
        let [first, last] = [Kind::Linear, Kind::ALL[Kind::Device as usize - 1]];
        assert_eq!(
            are_of_cuda([first, Kind::Stream, Kind::Pool, last]),
            [true; 4]
        );
        let [first, last] = [Kind::Device, Kind::ALL[Kind::ALL.len() - 1]];
        assert_eq!(
            are_of_cuda([Kind::Block, Kind::Memory, first, last]),
            [false; 4]
        );
    }
}
