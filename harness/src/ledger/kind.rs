//! What a resource is: bytes of one sort, or a handle.

use serde::{Deserialize, Serialize};

/// The kind of a resource. The first ones hold bytes; the others are handles, which are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
#[non_exhaustive]
pub enum Kind {
    /// `cuMemAlloc`, `cudaMalloc`.
    Linear,
    /// `cuMemAllocPitch`, `cudaMallocPitch`: pitch × height bytes.
    Pitched,
    /// `cuMemAllocManaged`: unified memory.
    Managed,
    /// `cuMemAllocAsync`, `cuMemAllocFromPoolAsync`.
    StreamOrdered,
    /// `cuMemCreate`: physical memory of the virtual memory management API.
    Physical,
    /// CUDA arrays and mipmapped arrays.
    Array,
    /// Memory that an alloc node of a graph took.
    Graph,
    /// `cuMemHostAlloc`, `cuMemAllocHost`: page-locked memory of the host.
    Pinned,
    /// `cuMemHostRegister`: the program's own memory, page-locked.
    Registered,
    /// Memory of another process or API, opened in this one.
    Imported,
    /// A block of an allocator that reports through [`observe`](crate::observe).
    Block,
    /// `CUstream`.
    Stream,
    /// `CUevent`.
    Event,
    /// `CUmodule`.
    Module,
    /// `CUlibrary`.
    Library,
    /// `CUgraph`.
    GraphHandle,
    /// `CUgraphExec`.
    ExecGraph,
    /// `CUmemoryPool`.
    Pool,
    /// `CUtexObject`, `CUtexref`.
    Texture,
    /// `CUsurfObject`.
    Surface,
    /// `CUlinkState`.
    LinkState,
    /// `CUexternalMemory`.
    ExternalMemory,
    /// `CUexternalSemaphore`.
    ExternalSemaphore,
    /// A reserved range of virtual addresses.
    AddressRange,
    /// `CUcontext`.
    Context,
    /// `CUgreenCtx`: a context with part of a device's processors.
    GreenContext,
    /// `CUuserObject`: what a graph keeps alive for the program.
    UserObject,
    /// A multicast object, `cuMulticastCreate`.
    Multicast,
}

impl Kind {
    /// Every kind, in the order of declaration.
    pub const ALL: [Self; 28] = [
        Self::Linear,
        Self::Pitched,
        Self::Managed,
        Self::StreamOrdered,
        Self::Physical,
        Self::Array,
        Self::Graph,
        Self::Pinned,
        Self::Registered,
        Self::Imported,
        Self::Block,
        Self::Stream,
        Self::Event,
        Self::Module,
        Self::Library,
        Self::GraphHandle,
        Self::ExecGraph,
        Self::Pool,
        Self::Texture,
        Self::Surface,
        Self::LinkState,
        Self::ExternalMemory,
        Self::ExternalSemaphore,
        Self::AddressRange,
        Self::Context,
        Self::GreenContext,
        Self::UserObject,
        Self::Multicast,
    ];

    /// Whether resources of this kind are counted rather than measured in bytes.
    #[must_use]
    pub const fn is_handle(self) -> bool {
        self as u8 >= Self::Stream as u8
    }

    /// The word for it in reports: `stream-ordered`, `exec graph`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Pitched => "pitched",
            Self::Managed => "managed",
            Self::StreamOrdered => "stream-ordered",
            Self::Physical => "physical",
            Self::Array => "array",
            Self::Graph => "graph",
            Self::Pinned => "pinned",
            Self::Registered => "registered",
            Self::Imported => "imported",
            Self::Block => "block",
            Self::Stream => "stream",
            Self::Event => "event",
            Self::Module => "module",
            Self::Library => "library",
            Self::GraphHandle => "graph handle",
            Self::ExecGraph => "exec graph",
            Self::Pool => "pool",
            Self::Texture => "texture",
            Self::Surface => "surface",
            Self::LinkState => "link state",
            Self::ExternalMemory => "external memory",
            Self::ExternalSemaphore => "external semaphore",
            Self::AddressRange => "address range",
            Self::Context => "context",
            Self::GreenContext => "green context",
            Self::UserObject => "user object",
            Self::Multicast => "multicast object",
        }
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
        assert!(Kind::Multicast.is_handle());
    }
}
