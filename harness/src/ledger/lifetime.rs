//! What dies with its context.
//!
//! From the documentation of
//! [`cuCtxDestroy`](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__CTX.html) and
//! [`cuDevicePrimaryCtxReset`](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__PRIMARY__CTX.html).

use super::kind::Kind;

/// Whether the end of a context frees what `kind` means, when it was made in that context.
///
/// Stream-ordered and physical memory belong to the device, and so do pools, graphs and
/// libraries: they stay.
pub(super) const fn dies_with_context(kind: Kind) -> bool {
    match kind {
        Kind::Linear
        | Kind::Pitched
        | Kind::Managed
        | Kind::Pinned
        | Kind::Registered
        | Kind::Array
        | Kind::Stream
        | Kind::Event
        | Kind::Module
        | Kind::Texture
        | Kind::Surface
        | Kind::LinkState
        | Kind::ExternalMemory
        | Kind::ExternalSemaphore
        | Kind::Context => true,
        Kind::StreamOrdered
        | Kind::Physical
        | Kind::Graph
        | Kind::Imported
        | Kind::Block
        | Kind::Library
        | Kind::GraphHandle
        | Kind::ExecGraph
        | Kind::Pool
        | Kind::AddressRange
        | Kind::GreenContext
        | Kind::UserObject
        | Kind::Multicast => false,
    }
}
