//! The kind of a resource: a kind of memory, or a kind of handle.

use serde::{Deserialize, Serialize};

/// The kinds, and the word for each in reports.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// The kind of a resource. The first ones hold bytes; the others are handles, which are
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

            /// The word for it in reports: `stream-ordered`, `exec graph`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// `cuMemAlloc`, `cudaMalloc`.
    Linear = "linear",
    /// `cuMemAllocPitch`, `cudaMallocPitch`: pitch × height bytes.
    Pitched = "pitched",
    /// `cuMemAllocManaged`: unified memory.
    Managed = "managed",
    /// `cuMemAllocAsync`, `cuMemAllocFromPoolAsync`.
    StreamOrdered = "stream-ordered",
    /// `cuMemCreate`: physical memory of the virtual memory management API.
    Physical = "physical",
    /// CUDA arrays and mipmapped arrays.
    Array = "array",
    /// Memory that an alloc node of a graph took.
    Graph = "graph",
    /// `cuMemHostAlloc`, `cuMemAllocHost`: page-locked memory of the host.
    Pinned = "pinned",
    /// `cuMemHostRegister`: the program's own memory, page-locked.
    Registered = "registered",
    /// Memory of another process or API, opened in this one.
    Imported = "imported",
    /// A block of an allocator that reports through `observe`.
    Block = "block",
    /// An allocation of device memory to which buffers and images are bound.
    Memory = "memory object",
    /// `CUstream`.
    Stream = "stream",
    /// `CUevent`.
    Event = "event",
    /// `CUmodule`.
    Module = "module",
    /// `CUlibrary`.
    Library = "library",
    /// `CUgraph`.
    GraphHandle = "graph handle",
    /// `CUgraphExec`.
    ExecGraph = "exec graph",
    /// `CUmemoryPool`.
    Pool = "pool",
    /// `CUtexObject`, `CUtexref`.
    Texture = "texture",
    /// `CUsurfObject`.
    Surface = "surface",
    /// `CUlinkState`.
    LinkState = "link state",
    /// `CUexternalMemory`.
    ExternalMemory = "external memory",
    /// `CUexternalSemaphore`.
    ExternalSemaphore = "external semaphore",
    /// A reserved range of virtual addresses.
    AddressRange = "address range",
    /// `CUcontext`.
    Context = "context",
    /// `CUgreenCtx`: a context with part of a device's processors.
    GreenContext = "green context",
    /// `CUuserObject`: what a graph keeps alive for the program.
    UserObject = "user object",
    /// A multicast object, `cuMulticastCreate`.
    Multicast = "multicast object",
    /// A device that the program opened, and everything that belongs to it.
    Device = "device",
    /// The program's connection to an API, and everything that belongs to it.
    Instance = "instance",
    /// A buffer; its bytes are those of the memory that is bound to it.
    Buffer = "buffer",
    /// A view of a buffer.
    BufferView = "buffer view",
    /// An image; its bytes are those of the memory that is bound to it.
    Image = "image",
    /// A view of an image.
    ImageView = "image view",
    /// A sampler.
    Sampler = "sampler",
    /// How a sampler converts colours.
    SamplerConversion = "sampler conversion",
    /// A module of shader code.
    ShaderModule = "shader module",
    /// A shader that is bound without a pipeline.
    Shader = "shader object",
    /// A pipeline.
    Pipeline = "pipeline",
    /// The layout of a pipeline.
    PipelineLayout = "pipeline layout",
    /// What was compiled for pipelines.
    PipelineCache = "pipeline cache",
    /// A compiled part of a pipeline.
    PipelineBinary = "pipeline binary",
    /// The layout of a descriptor set.
    DescriptorLayout = "descriptor set layout",
    /// A pool of descriptor sets, which end with it.
    DescriptorPool = "descriptor pool",
    /// A descriptor set.
    DescriptorSet = "descriptor set",
    /// A description of updates to descriptor sets.
    DescriptorTemplate = "descriptor update template",
    /// A pool of command buffers, which end with it.
    CommandPool = "command pool",
    /// A command buffer.
    CommandBuffer = "command buffer",
    /// A fence.
    Fence = "fence",
    /// A semaphore.
    Semaphore = "semaphore",
    /// A pool of queries.
    QueryPool = "query pool",
    /// A render pass.
    RenderPass = "render pass",
    /// A framebuffer.
    Framebuffer = "framebuffer",
    /// An acceleration structure of ray tracing.
    AccelerationStructure = "acceleration structure",
    /// An opacity micromap of ray tracing.
    Micromap = "micromap",
    /// A swapchain, with its images.
    Swapchain = "swapchain",
    /// A callback for messages.
    Messenger = "debug messenger",
    /// A slot for the program's data in objects.
    PrivateDataSlot = "private data slot",
    /// An operation that the program completes on its own threads.
    DeferredOperation = "deferred operation",
    /// A session that encodes or decodes video.
    VideoSession = "video session",
    /// The parameters of such a session.
    VideoParameters = "video session parameters object",
    /// The layout of commands that the device generates.
    CommandsLayout = "indirect commands layout",
    /// The pipelines among which such commands choose.
    ExecutionSet = "indirect execution set",
    /// What a validation layer has validated.
    ValidationCache = "validation cache",
}

impl Kind {
    /// Whether resources of this kind are counted rather than measured in bytes.
    #[must_use]
    pub const fn is_handle(self) -> bool {
        self as u8 >= Self::Stream as u8
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
}
