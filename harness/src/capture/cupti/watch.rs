//! The table of watched driver calls: for each, what it makes or ends and where its parameters say
//! so. A new call is a new row; [`decode`](super::decode) reads them all alike.
//!
//! Ids are those of `cupti_driver_cbid.h`. They are only ever added to, so a number means the same
//! call in every CUPTI; all variants of a call stand here, because the runtime asks the driver for
//! the one of its own age. Creations are told at a call's end, releases from its beginning on: the
//! table says which a call is, and [`callback`](super::callback) keeps the sides.

use std::mem::offset_of;

use super::call::{At, Bytes, Call, Identity, Watched};
use super::field::{Answer, Value, answer, value};
use super::params::{
    Allocate, AllocateFromPool, AllocateHostV1, AllocatePitch, AllocatePitchV1, AllocateV1,
    Answers, CaptureToGraph, ContextCreate, ContextCreateV3, ContextCreateV4, EndCapture, FreeV1,
    Names, PoolCreate, PrimaryRetain, RecaptureToGraph, Register,
};
use crate::ledger::Kind;
use crate::ledger::event::{ContextEnd, Space};

/// Memory that `cuMemFree` takes back.
const fn device(id: u32, name: &'static str, kind: Kind, pointer: Answer, bytes: Bytes) -> Watched {
    let identity = Identity::Answered(pointer);
    Watched::creates(id, name, kind, Space::DevicePointer, identity, bytes)
}

/// Memory of the host that `cuMemFreeHost` takes back.
const fn pinned(id: u32, name: &'static str, pointer: Answer, bytes: Value) -> Watched {
    let (space, identity) = (Space::HostPointer, Identity::Answered(pointer));
    Watched::creates(id, name, Kind::Pinned, space, identity, Bytes::Given(bytes)).at(At::Host)
}

/// The program's own memory, by the address that it gave.
const fn registered(id: u32, name: &'static str, pointer: Value, bytes: Value) -> Watched {
    let (space, identity) = (Space::RegisteredPointer, Identity::Given(pointer));
    let bytes = Bytes::Given(bytes);
    Watched::creates(id, name, Kind::Registered, space, identity, bytes).at(At::Host)
}

const fn handle(id: u32, name: &'static str, kind: Kind, handle: Answer) -> Watched {
    let (space, identity) = (Space::Handle(kind), Identity::Answered(handle));
    Watched::creates(id, name, kind, space, identity, Bytes::None)
}

const fn destroys(id: u32, name: &'static str, kind: Kind) -> Watched {
    Watched::releases(id, name, Space::Handle(kind), value!(Names.handle))
}

const fn other(id: u32, name: &'static str, call: Call) -> Watched {
    Watched { id, name, call }
}

const fn captures(id: u32, name: &'static str, stream: Value, into: Option<Value>) -> Watched {
    other(id, name, Call::BeginsCapture { stream, into })
}

const fn stream_ordered(id: u32, name: &'static str) -> Watched {
    let bytes = Bytes::Given(value!(Allocate.bytes));
    let kind = Kind::StreamOrdered;
    device(id, name, kind, answer!(Allocate.pointer), bytes)
        .on_stream(value!(Allocate.stream))
        .capturable()
}

const fn pool_ordered(id: u32, name: &'static str) -> Watched {
    let bytes = Bytes::Given(value!(AllocateFromPool.bytes));
    let kind = Kind::StreamOrdered;
    device(id, name, kind, answer!(AllocateFromPool.pointer), bytes)
        .on_stream(value!(AllocateFromPool.stream))
        .of_pool(value!(AllocateFromPool.pool))
        .capturable()
}

const fn context(id: u32, name: &'static str, answer: Answer, device: Value) -> Watched {
    handle(id, name, Kind::Context, answer).at(At::Device(device))
}

const fn primary_ends(id: u32, name: &'static str, cause: ContextEnd) -> Watched {
    other(id, name, Call::ReleasesPrimary { cause })
}

const fn capture_ends(id: u32, name: &'static str) -> Watched {
    handle(id, name, Kind::GraphHandle, answer!(EndCapture.graph))
        .ending_capture(value!(EndCapture.stream))
}

/// The first parameter, where the driver writes the handle it made.
const FIRST: Answer = answer!(Answers.handle);

/// Every watched call.
#[rustfmt::skip]
pub(super) static TABLE: &[Watched] = &[
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html
    device(243, "cuMemAlloc_v2", Kind::Linear, answer!(Allocate.pointer), Bytes::Given(value!(Allocate.bytes))),
    device(29, "cuMemAlloc", Kind::Linear, answer!(AllocateV1.pointer), Bytes::Given(value!(AllocateV1.bytes))),
    device(244, "cuMemAllocPitch_v2", Kind::Pitched, answer!(AllocatePitch.pointer), Bytes::Rows {
        pitch: answer!(AllocatePitch.pitch), width: value!(AllocatePitch.width), height: value!(AllocatePitch.height),
    }),
    device(31, "cuMemAllocPitch", Kind::Pitched, answer!(AllocatePitchV1.pointer), Bytes::Rows {
        pitch: answer!(AllocatePitchV1.pitch), width: value!(AllocatePitchV1.width), height: value!(AllocatePitchV1.height),
    }),
    device(371, "cuMemAllocManaged", Kind::Managed, answer!(Allocate.pointer), Bytes::Given(value!(Allocate.bytes))),
    // Takes what every one of these made, and what the stream-ordered calls made.
    Watched::releases(245, "cuMemFree_v2", Space::DevicePointer, value!(Names.handle)),
    Watched::releases(33, "cuMemFree", Space::DevicePointer, value!(FreeV1.pointer)),

    // Page-locked memory. The id 271 has a number for a name in the header, and no parameter block:
    // `cuMemHostAlloc_v2` has the parameters of `cuMemHostAlloc`.
    pinned(39, "cuMemHostAlloc", answer!(Allocate.pointer), value!(Allocate.bytes)),
    pinned(271, "cuMemHostAlloc_v2", answer!(Allocate.pointer), value!(Allocate.bytes)),
    pinned(294, "cuMemAllocHost_v2", answer!(Allocate.pointer), value!(Allocate.bytes)),
    pinned(37, "cuMemAllocHost", answer!(AllocateHostV1.pointer), value!(AllocateHostV1.bytes)),
    Watched::releases(38, "cuMemFreeHost", Space::HostPointer, value!(Names.handle)),
    registered(379, "cuMemHostRegister_v2", value!(Register.pointer), value!(Register.bytes)),
    registered(301, "cuMemHostRegister", value!(Register.pointer), value!(Register.bytes)),
    Watched::releases(302, "cuMemHostUnregister", Space::RegisteredPointer, value!(Names.handle)),

    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MALLOC__ASYNC.html
    stream_ordered(598, "cuMemAllocAsync"),
    stream_ordered(599, "cuMemAllocAsync_ptsz"),
    pool_ordered(611, "cuMemAllocFromPoolAsync"),
    pool_ordered(612, "cuMemAllocFromPoolAsync_ptsz"),
    Watched::releases(600, "cuMemFreeAsync", Space::DevicePointer, value!(Names.handle)).capturable(),
    Watched::releases(601, "cuMemFreeAsync_ptsz", Space::DevicePointer, value!(Names.handle)).capturable(),
    // A destroyed pool's outstanding allocations live on, until each is freed.
    handle(607, "cuMemPoolCreate", Kind::Pool, answer!(PoolCreate.pool))
        .at(At::PoolProperties(offset_of!(PoolCreate, properties))),
    handle(614, "cuMemPoolImportFromShareableHandle", Kind::Pool, FIRST),
    destroys(608, "cuMemPoolDestroy", Kind::Pool),

    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__STREAM.html
    handle(124, "cuStreamCreate", Kind::Stream, FIRST),
    handle(367, "cuStreamCreateWithPriority", Kind::Stream, FIRST),
    // A green context does not take its streams along when it ends, nor does the current one.
    handle(758, "cuGreenCtxStreamCreate", Kind::Stream, FIRST).outliving_context(),
    destroys(326, "cuStreamDestroy_v2", Kind::Stream),
    destroys(127, "cuStreamDestroy", Kind::Stream),

    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EVENT.html
    handle(118, "cuEventCreate", Kind::Event, FIRST),
    handle(335, "cuIpcOpenEventHandle", Kind::Event, FIRST),
    destroys(325, "cuEventDestroy_v2", Kind::Event),
    destroys(122, "cuEventDestroy", Kind::Event),

    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MODULE.html
    handle(18, "cuModuleLoad", Kind::Module, FIRST),
    handle(19, "cuModuleLoadData", Kind::Module, FIRST),
    handle(20, "cuModuleLoadDataEx", Kind::Module, FIRST),
    handle(21, "cuModuleLoadFatBinary", Kind::Module, FIRST),
    destroys(22, "cuModuleUnload", Kind::Module),

    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__LIBRARY.html
    handle(678, "cuLibraryLoadData", Kind::Library, FIRST),
    handle(679, "cuLibraryLoadFromFile", Kind::Library, FIRST),
    destroys(680, "cuLibraryUnload", Kind::Library),

    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__CTX.html
    context(757, "cuCtxCreate_v4", answer!(ContextCreateV4.context), value!(ContextCreateV4.device)),
    context(645, "cuCtxCreate_v3", answer!(ContextCreateV3.context), value!(ContextCreateV3.device)),
    context(235, "cuCtxCreate_v2", answer!(ContextCreate.context), value!(ContextCreate.device)),
    context(10, "cuCtxCreate", answer!(ContextCreate.context), value!(ContextCreate.device)),
    destroys(322, "cuCtxDestroy_v2", Kind::Context),
    destroys(11, "cuCtxDestroy", Kind::Context),

    // A primary context is shared and none of the caller's own: its retains are not records.
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__PRIMARY__CTX.html
    other(386, "cuDevicePrimaryCtxRetain", Call::RetainsPrimary { device: value!(PrimaryRetain.device) }),
    primary_ends(544, "cuDevicePrimaryCtxRelease_v2", ContextEnd::LastRelease),
    primary_ends(387, "cuDevicePrimaryCtxRelease", ContextEnd::LastRelease),
    primary_ends(545, "cuDevicePrimaryCtxReset_v2", ContextEnd::Reset),
    primary_ends(389, "cuDevicePrimaryCtxReset", ContextEnd::Reset),

    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__GRAPH.html
    handle(501, "cuGraphCreate", Kind::GraphHandle, FIRST),
    handle(523, "cuGraphClone", Kind::GraphHandle, FIRST),
    destroys(517, "cuGraphDestroy", Kind::GraphHandle),
    handle(513, "cuGraphInstantiate", Kind::ExecGraph, FIRST),
    handle(578, "cuGraphInstantiate_v2", Kind::ExecGraph, FIRST),
    handle(643, "cuGraphInstantiateWithFlags", Kind::ExecGraph, FIRST),
    handle(656, "cuGraphInstantiateWithParams", Kind::ExecGraph, FIRST),
    handle(657, "cuGraphInstantiateWithParams_ptsz", Kind::ExecGraph, FIRST),
    destroys(516, "cuGraphExecDestroy", Kind::ExecGraph),

    // A capture makes a graph, or adds to one that exists.
    captures(495, "cuStreamBeginCapture", value!(Names.handle), None),
    captures(496, "cuStreamBeginCapture_ptsz", value!(Names.handle), None),
    captures(539, "cuStreamBeginCapture_v2", value!(Names.handle), None),
    captures(540, "cuStreamBeginCapture_v2_ptsz", value!(Names.handle), None),
    captures(720, "cuStreamBeginCaptureToGraph", value!(CaptureToGraph.stream), Some(value!(CaptureToGraph.graph))),
    captures(721, "cuStreamBeginCaptureToGraph_ptsz", value!(CaptureToGraph.stream), Some(value!(CaptureToGraph.graph))),
    captures(846, "cuStreamBeginRecaptureToGraph", value!(RecaptureToGraph.stream), Some(value!(RecaptureToGraph.graph))),
    captures(847, "cuStreamBeginRecaptureToGraph_ptsz", value!(RecaptureToGraph.stream), Some(value!(RecaptureToGraph.graph))),
    capture_ends(497, "cuStreamEndCapture"),
    capture_ends(498, "cuStreamEndCapture_ptsz"),
];

/// More ids than any CUPTI has (877 in 13.5).
const IDS: usize = 1024;
/// No row: the table is shorter than this.
const NONE: u8 = u8::MAX;

/// From an id to its row.
static ROWS: [u8; IDS] = {
    let mut rows = [NONE; IDS];
    let mut row = 0;
    while row < TABLE.len() {
        let id = TABLE[row].id as usize;
        assert!(rows[id] == NONE, "an id stands in the table twice");
        assert!(row < NONE as usize);
        rows[id] = row as u8;
        row += 1;
    }
    rows
};

/// What the call with this id does, if it is watched.
pub(super) fn call(id: u32) -> Option<&'static Call> {
    let row = *ROWS.get(id as usize)?;
    Some(&TABLE.get(usize::from(row))?.call)
}

#[cfg(test)]
mod tests;
