//! A stand-in for libcuda: the C interface of the driver API, with a small but faithful simulation
//! in host memory.
//!
//! Tests load it on machines without a GPU, under the name `libcuda.so.1`. As far as a leak check
//! can observe, objects, addresses, errors, contexts, pools and captures behave like those of the
//! real driver. Copies copy data, and kernels do nothing. Every call can be made to fail (`fault`),
//! and a test can inspect the state (`control`).
//!
//! Signatures and layouts are taken from the headers of CUDA 13.5 (`cuda.h`, `cudaTypedefs.h`), not
//! from the harness under test.

mod arena;
mod array;
mod capture;
mod context;
mod context_settings;
mod control;
mod copy;
mod device;
mod dispatch;
mod error;
mod event;
mod exec;
mod external;
mod fault;
mod graph;
mod graph_memory;
mod graph_node;
mod green;
mod handle;
mod host;
mod host_call;
mod ipc;
mod link;
mod memory;
mod module;
mod multicast;
mod object;
mod peer;
mod physical;
mod pool;
mod pool_share;
mod primary;
mod query;
mod shared_handle;
mod state;
mod stream;
mod texture;
mod user_object;
mod vmm;

/// Every function of the driver API that this library exports.
fn entries() -> impl Iterator<Item = dispatch::Entry> {
    [
        array::ENTRIES,
        capture::ENTRIES,
        context::ENTRIES,
        context_settings::ENTRIES,
        copy::ENTRIES,
        device::ENTRIES,
        event::ENTRIES,
        exec::ENTRIES,
        external::ENTRIES,
        graph::ENTRIES,
        graph_memory::ENTRIES,
        graph_node::ENTRIES,
        green::ENTRIES,
        host::ENTRIES,
        ipc::ENTRIES,
        link::ENTRIES,
        memory::ENTRIES,
        module::ENTRIES,
        multicast::ENTRIES,
        peer::ENTRIES,
        physical::ENTRIES,
        pool::ENTRIES,
        pool_share::ENTRIES,
        primary::ENTRIES,
        query::ENTRIES,
        stream::ENTRIES,
        texture::ENTRIES,
        user_object::ENTRIES,
        vmm::ENTRIES,
    ]
    .into_iter()
    .flatten()
    .copied()
}
