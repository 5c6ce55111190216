//! What dies with its context.
//!
//! From the documentation of
//! [`cuCtxDestroy`](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__CTX.html), and where
//! that is silent from what an H200 did (driver 580, CUDA 13.0): an object of each kind was made,
//! its context ended by `cuCtxDestroy`, the last `cuDevicePrimaryCtxRelease` and
//! `cuDevicePrimaryCtxReset`, and the object asked for. The three ends were alike for every kind.

use super::event::Creation;
use super::kind::Kind;

/// Whether the end of the context that `made` names frees it.
pub(super) const fn dies_with_context(made: &Creation) -> bool {
    match made.kind {
        // Gone, the documentation says and the driver showed.
        Kind::Linear
        | Kind::Pitched
        | Kind::Managed
        | Kind::Array
        | Kind::Stream
        | Kind::Event
        | Kind::Module
        | Kind::ExternalMemory => true,
        // The documentation is silent; page-locked memory is unmapped even when it is portable, and
        // registered memory can be registered anew.
        Kind::Pinned | Kind::Registered => true,
        // The documentation says that they go; the driver's calls on dead ones tell nothing.
        Kind::Texture | Kind::Surface | Kind::LinkState | Kind::ExternalSemaphore => true,
        Kind::Context => true,
        // A buffer of external memory goes with its context, a pointer into an imported pool
        // belongs to the pool.
        Kind::Imported => made.pool == 0,
        // Of a device or of the process: still there, and still to be freed.
        Kind::StreamOrdered
        | Kind::Physical
        | Kind::Graph
        | Kind::Library
        | Kind::GraphHandle
        | Kind::ExecGraph
        | Kind::Pool
        | Kind::AddressRange
        | Kind::UserObject
        | Kind::Multicast => false,
        // It retains the primary context, which cannot even be reset while it lives.
        Kind::GreenContext => false,
        Kind::Block => false,
    }
}
