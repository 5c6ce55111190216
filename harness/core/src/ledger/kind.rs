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
        assert!(Kind::Multicast.is_handle());
    }
}
