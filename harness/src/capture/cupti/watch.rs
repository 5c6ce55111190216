//! The table of watched driver calls: for each, what it makes or ends and where its parameters say
//! so. A new call is a new row; [`decode`](super::decode) reads them all alike.
//!
//! Ids are those of `cupti_driver_cbid.h`. They are only ever added to, so a number means the same
//! call in every CUPTI; all variants of a call stand here, because the runtime asks the driver for
//! the one of its own age. Creations are told at a call's end, releases from its beginning on: the
//! table says which a call is, and [`callback`](super::callback) keeps the sides.

use std::mem::offset_of;

use super::call::{
    AddedNode, At, Bytes, Call, Descriptor, GraphFlags, Identity, Retains, Share, Watched,
};
use super::field::{Answer, Value, answer, value};
use super::params::{
    AddFreeNode, AddNode, AddNodeV2, Allocate, AllocateFromPool, AllocateHostV1, AllocatePitch,
    AllocatePitchV1, AllocateV1, Answers, ArrayCreate, CaptureToGraph, ContextCreate,
    ContextCreateV3, ContextCreateV4, ConvertGreen, EndCapture, ExecUpdate, FreeOrdered, FreeV1,
    GraphCopy, GraphReferences, GreenContextCreate, GreenStreamCreate, ImportPointer, Instantiate,
    Launch, LinkCreate, Map, MapExternal, Names, PhysicalCreate, PoolCreate, PrimaryEnd,
    PrimaryRetain, RecaptureToGraph, Register, RetainMapped, Unmap, UserObjectCreate,
    UserObjectReferences,
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

/// `kind` is one of bytes.
const fn array(id: u32, name: &'static str, kind: Kind, descriptor: Descriptor) -> Watched {
    let (space, identity) = (Space::Handle(Kind::Array), Identity::Answered(FIRST));
    Watched::creates(id, name, kind, space, identity, Bytes::Array(descriptor))
}

/// Physical memory, or what is mapped like it, that `cuMemRelease` takes back. It is the device's and
/// no context's.
const fn physical(id: u32, name: &'static str, kind: Kind, bytes: Bytes) -> Watched {
    let (space, identity) = (Space::PhysicalHandle, Identity::Answered(FIRST));
    Watched::creates(id, name, kind, space, identity, bytes).outliving_context()
}

/// Memory of another process. What is open already is answered again, with a reference more; its
/// size is not told.
const fn opened(id: u32, name: &'static str) -> Watched {
    let (space, identity) = (Space::IpcPointer, Identity::Answered(FIRST));
    Watched::creates(id, name, Kind::Imported, space, identity, Bytes::None)
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

const fn freed_in_order(id: u32, name: &'static str) -> Watched {
    Watched::releases(id, name, Space::DevicePointer, value!(FreeOrdered.pointer))
        .on_stream(value!(FreeOrdered.stream))
        .capturable()
}

const fn context(id: u32, name: &'static str, answer: Answer, device: Value) -> Watched {
    handle(id, name, Kind::Context, answer).at(At::Device(device))
}

const fn primary_ends(id: u32, name: &'static str, cause: ContextEnd) -> Watched {
    let device = value!(PrimaryEnd.device);
    other(id, name, Call::ReleasesPrimary { device, cause })
}

const fn copied(id: u32, name: &'static str, kind: Kind, flags: GraphFlags) -> Watched {
    handle(id, name, kind, FIRST).copying(value!(GraphCopy.graph), flags)
}

const ADDS_NODE: Call = Call::AddsNode {
    graph: value!(AddNodeV2.graph),
    node: AddedNode::Any(offset_of!(AddNodeV2, parameters)),
};

const UPDATES: Call = Call::UpdatesExec {
    exec: value!(ExecUpdate.exec),
    graph: value!(ExecUpdate.graph),
};

const fn capture_ends(id: u32, name: &'static str) -> Watched {
    handle(id, name, Kind::GraphHandle, answer!(EndCapture.graph))
        .ending_capture(value!(EndCapture.stream))
}

/// The first parameter, where the driver writes the handle it made.
const FIRST: Answer = answer!(Answers.handle);

/// Where the descriptors of arrays are named.
const DESCRIPTOR: usize = offset_of!(ArrayCreate, descriptor);
/// Where the descriptors of what external memory is mapped as are named.
const MAPPED_AS: usize = offset_of!(MapExternal, descriptor);

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
    freed_in_order(600, "cuMemFreeAsync"),
    freed_in_order(601, "cuMemFreeAsync_ptsz"),
    // A destroyed pool's outstanding allocations live on, until each is freed.
    handle(607, "cuMemPoolCreate", Kind::Pool, answer!(PoolCreate.pool))
        .at(At::PoolProperties(offset_of!(PoolCreate, properties))),
    // What is imported already is answered again, and one call frees it: so an H200 did.
    handle(614, "cuMemPoolImportFromShareableHandle", Kind::Pool, FIRST).answered_again(),
    destroys(608, "cuMemPoolDestroy", Kind::Pool),
    // An allocation of the pool that another process shares. Its size is not told.
    device(616, "cuMemPoolImportPointer", Kind::Imported, answer!(ImportPointer.pointer), Bytes::None)
        .of_pool(value!(ImportPointer.pool))
        .answered_again(),

    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html
    physical(549, "cuMemCreate", Kind::Physical, Bytes::Given(value!(PhysicalCreate.bytes)))
        .at(At::PoolProperties(offset_of!(PhysicalCreate, properties))),
    // Its size is not told.
    physical(555, "cuMemImportFromShareableHandle", Kind::Imported, Bytes::None),
    physical(706, "cuMulticastCreate", Kind::Multicast, Bytes::None),
    Watched::releases(550, "cuMemRelease", Space::PhysicalHandle, value!(Names.handle)).only(Share::Reference),
    other(565, "cuMemRetainAllocationHandle", Call::RetainsMapped {
        handle: answer!(RetainMapped.handle), address: value!(RetainMapped.address),
    }),
    other(551, "cuMemMap", Call::Maps {
        address: value!(Map.address), bytes: value!(Map.bytes), handle: value!(Map.handle),
    }),
    Watched::releases(552, "cuMemUnmap", Space::Mapping, value!(Unmap.address)).only(Share::Maps(value!(Unmap.bytes))),
    handle(547, "cuMemAddressReserve", Kind::AddressRange, FIRST).outliving_context(),
    destroys(548, "cuMemAddressFree", Kind::AddressRange),

    // Arrays. `cuMipmappedArrayGetLevel` and `cuArrayGetPlane` answer with parts of one, which
    // are not to be destroyed: they are not watched.
    array(272, "cuArrayCreate_v2", Kind::Array, Descriptor::Array(DESCRIPTOR)),
    array(274, "cuArray3DCreate_v2", Kind::Array, Descriptor::Array3D(DESCRIPTOR)),
    array(87, "cuArrayCreate", Kind::Array, Descriptor::ArrayV1(DESCRIPTOR)),
    array(90, "cuArray3DCreate", Kind::Array, Descriptor::Array3DV1(DESCRIPTOR)),
    array(347, "cuMipmappedArrayCreate", Kind::Array, Descriptor::Mipmapped(DESCRIPTOR, value!(ArrayCreate.levels))),
    destroys(89, "cuArrayDestroy", Kind::Array),
    destroys(349, "cuMipmappedArrayDestroy", Kind::Array),

    // Memory and semaphores of another process or API. What the memory is mapped as outlives it,
    // and is given back as if it had been made here.
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EXTRES__INTEROP.html
    handle(485, "cuImportExternalMemory", Kind::ExternalMemory, FIRST),
    device(486, "cuExternalMemoryGetMappedBuffer", Kind::Imported, FIRST, Bytes::ExternalBuffer(MAPPED_AS)),
    array(487, "cuExternalMemoryGetMappedMipmappedArray", Kind::Imported, Descriptor::ExternalMipmapped(MAPPED_AS)),
    destroys(488, "cuDestroyExternalMemory", Kind::ExternalMemory),
    handle(489, "cuImportExternalSemaphore", Kind::ExternalSemaphore, FIRST),
    destroys(494, "cuDestroyExternalSemaphore", Kind::ExternalSemaphore),

    opened(567, "cuIpcOpenMemHandle_v2"),
    opened(329, "cuIpcOpenMemHandle"),
    Watched::releases(330, "cuIpcCloseMemHandle", Space::IpcPointer, value!(Names.handle)).only(Share::Reference),

    // Views of memory: objects, and the references before them.
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TEXOBJECT.html
    handle(339, "cuTexObjectCreate", Kind::Texture, FIRST),
    destroys(340, "cuTexObjectDestroy", Kind::Texture),
    handle(92, "cuTexRefCreate", Kind::Texture, FIRST),
    destroys(93, "cuTexRefDestroy", Kind::Texture),
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__SURFOBJECT.html
    handle(343, "cuSurfObjectCreate", Kind::Surface, FIRST),
    destroys(344, "cuSurfObjectDestroy", Kind::Surface),

    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__STREAM.html
    handle(124, "cuStreamCreate", Kind::Stream, FIRST),
    handle(367, "cuStreamCreateWithPriority", Kind::Stream, FIRST),
    handle(758, "cuGreenCtxStreamCreate", Kind::Stream, FIRST).in_green(value!(GreenStreamCreate.green)),
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
    handle(381, "cuLinkCreate_v2", Kind::LinkState, answer!(LinkCreate.link)),
    handle(362, "cuLinkCreate", Kind::LinkState, answer!(LinkCreate.link)),
    destroys(366, "cuLinkDestroy", Kind::LinkState),

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
    // Deprecated for long, and still there: a context goes with its last use.
    other(12, "cuCtxAttach", Call::Retains(Retains {
        space: Space::Handle(Kind::Context), identity: Identity::Answered(FIRST), count: None,
    })),
    destroys(13, "cuCtxDetach", Kind::Context).only(Share::Reference),

    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__GREEN__CONTEXTS.html
    handle(743, "cuGreenCtxCreate", Kind::GreenContext, FIRST).at(At::Device(value!(GreenContextCreate.device))),
    destroys(744, "cuGreenCtxDestroy", Kind::GreenContext),
    // Borrowed, and ended with the green context.
    other(753, "cuCtxFromGreenCtx", Call::ConvertsGreen {
        context: answer!(ConvertGreen.context), green: value!(ConvertGreen.green),
    }),

    // A primary context is shared and none of the caller's own: its retains are not records.
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__PRIMARY__CTX.html
    other(386, "cuDevicePrimaryCtxRetain", Call::RetainsPrimary { device: value!(PrimaryRetain.device) }),
    primary_ends(544, "cuDevicePrimaryCtxRelease_v2", ContextEnd::LastRelease),
    primary_ends(387, "cuDevicePrimaryCtxRelease", ContextEnd::LastRelease),
    primary_ends(545, "cuDevicePrimaryCtxReset_v2", ContextEnd::Reset),
    primary_ends(389, "cuDevicePrimaryCtxReset", ContextEnd::Reset),

    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__GRAPH.html
    handle(501, "cuGraphCreate", Kind::GraphHandle, FIRST),
    copied(523, "cuGraphClone", Kind::GraphHandle, GraphFlags::None),
    destroys(517, "cuGraphDestroy", Kind::GraphHandle),
    copied(513, "cuGraphInstantiate", Kind::ExecGraph, GraphFlags::None),
    copied(578, "cuGraphInstantiate_v2", Kind::ExecGraph, GraphFlags::None),
    copied(643, "cuGraphInstantiateWithFlags", Kind::ExecGraph, GraphFlags::Given(value!(GraphCopy.flags))),
    copied(656, "cuGraphInstantiateWithParams", Kind::ExecGraph, GraphFlags::Parameters(offset_of!(Instantiate, parameters))),
    copied(657, "cuGraphInstantiateWithParams_ptsz", Kind::ExecGraph, GraphFlags::Parameters(offset_of!(Instantiate, parameters))),
    // Nodes that allocate and free: the memory comes and goes with launches.
    other(638, "cuGraphAddMemAllocNode", Call::AddsNode {
        graph: value!(AddNode.graph), node: AddedNode::Allocates(offset_of!(AddNode, parameters)),
    }),
    other(639, "cuGraphAddMemFreeNode", Call::AddsNode {
        graph: value!(AddFreeNode.graph), node: AddedNode::Frees(value!(AddFreeNode.pointer)),
    }),
    other(712, "cuGraphAddNode", Call::AddsNode {
        graph: value!(AddNode.graph), node: AddedNode::Any(offset_of!(AddNode, parameters)),
    }),
    other(723, "cuGraphAddNode_v2", ADDS_NODE),
    other(863, "cuGraphAddNode_v3", ADDS_NODE),
    other(514, "cuGraphLaunch", Call::Launches { exec: value!(Launch.exec) }),
    other(515, "cuGraphLaunch_ptsz", Call::Launches { exec: value!(Launch.exec) }),
    other(561, "cuGraphExecUpdate", UPDATES),
    other(696, "cuGraphExecUpdate_v2", UPDATES),
    destroys(516, "cuGraphExecDestroy", Kind::ExecGraph),

    // What a graph keeps alive for the program: the graph's references go to its clones and
    // executable graphs too, and go with each of them.
    handle(633, "cuUserObjectCreate", Kind::UserObject, FIRST).with_references(value!(UserObjectCreate.references)),
    other(634, "cuUserObjectRetain", Call::Retains(Retains {
        space: Space::Handle(Kind::UserObject), identity: Identity::Given(value!(UserObjectReferences.object)),
        count: Some(value!(UserObjectReferences.count)),
    })),
    destroys(635, "cuUserObjectRelease", Kind::UserObject)
        .only(Share::References(value!(UserObjectReferences.count))),
    other(636, "cuGraphRetainUserObject", Call::GraphRetains {
        graph: value!(GraphReferences.graph), object: value!(GraphReferences.object),
        count: value!(GraphReferences.count), flags: value!(GraphReferences.flags),
    }),
    Watched::releases(637, "cuGraphReleaseUserObject", Space::Handle(Kind::UserObject), value!(GraphReferences.object))
        .only(Share::GraphReferences { graph: value!(GraphReferences.graph), count: value!(GraphReferences.count) }),

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
