//! The layout of CUPTI's parameter block for each watched call.
//!
//! This table was written from CUPTI's own headers, and not from the harness's table. The call IDs
//! are those of `cupti_driver_cbid.h`. A parameter is given by its offset in bytes in its
//! block, as laid out in `generated_cuda_meta.h`. Both headers are in the toolkit's
//! `extras/CUPTI/include`, and in the packages `nvidia-cuda-cupti` and `nvidia-cuda-cupti-cu12` for
//! Python.

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::ledger::event::Space;

/// Where the size of a resource is found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Size {
    None,
    /// CUPTI does not report the size.
    Unsaid,
    Of64(usize),
    Of32(usize),
    /// The pitch that the driver writes through this pointer, times the height.
    Rows64 {
        pitch: usize,
        height: usize,
    },
    Rows32 {
        pitch: usize,
        height: usize,
    },
    /// The second number in the description of a buffer.
    Buffer(usize),
}

/// Where the device or place of a resource is found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Context,
    Host,
    /// The place is a device, given by its ordinal.
    Device(usize),
    /// The place is in the properties of memory or of a pool.
    Properties(usize),
    Unsaid,
}

/// The effect of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Does {
    Makes {
        kind: Kind,
        space: Space,
        /// The offset of the pointer to the new address or handle.
        answer: usize,
        bits: u32,
        size: Size,
        place: Place,
        /// Whether the driver may return an existing object.
        again: bool,
    },
    /// The call registers the program's own memory, by its address.
    Registers,
    Frees {
        space: Space,
        value: usize,
        bits: u32,
    },
    RetainsPrimary {
        device: usize,
    },
    ReleasesPrimary {
        device: usize,
    },
    Maps,
    RetainsMapped,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) id: u32,
    pub(crate) name: &'static str,
    pub(crate) does: Does,
}

const fn row(id: u32, name: &'static str, does: Does) -> Row {
    Row { id, name, does }
}

const fn makes(
    id: u32,
    name: &'static str,
    kind: Kind,
    space: Space,
    size: Size,
    place: Place,
) -> Row {
    let (answer, bits, again) = (0, 64, false);
    row(
        id,
        name,
        Does::Makes {
            kind,
            space,
            answer,
            bits,
            size,
            place,
            again,
        },
    )
}

const fn device(id: u32, name: &'static str, kind: Kind, size: Size) -> Row {
    makes(id, name, kind, Space::DevicePointer, size, Place::Context)
}

const fn pinned(id: u32, name: &'static str, size: Size) -> Row {
    makes(
        id,
        name,
        Kind::Pinned,
        Space::HostPointer,
        size,
        Place::Host,
    )
}

const fn handle(id: u32, name: &'static str, kind: Kind) -> Row {
    makes(
        id,
        name,
        kind,
        Space::Handle(kind),
        Size::None,
        Place::Context,
    )
}

const fn physical(id: u32, name: &'static str, kind: Kind, size: Size) -> Row {
    makes(id, name, kind, Space::PhysicalHandle, size, Place::Unsaid)
}

const fn array(id: u32, name: &'static str, kind: Kind) -> Row {
    makes(
        id,
        name,
        kind,
        Space::Handle(Kind::Array),
        Size::Unsaid,
        Place::Context,
    )
}

const fn frees(id: u32, name: &'static str, space: Space) -> Row {
    let (value, bits) = (0, 64);
    row(id, name, Does::Frees { space, value, bits })
}

const fn destroys(id: u32, name: &'static str, kind: Kind) -> Row {
    frees(id, name, Space::Handle(kind))
}

impl Row {
    const fn answering(mut self, at: usize) -> Self {
        if let Does::Makes { ref mut answer, .. } = self.does {
            *answer = at;
        }
        self
    }

    const fn at(mut self, other: Place) -> Self {
        if let Does::Makes { ref mut place, .. } = self.does {
            *place = other;
        }
        self
    }

    const fn again(mut self) -> Self {
        if let Does::Makes { ref mut again, .. } = self.does {
            *again = true;
        }
        self
    }

    const fn narrow(mut self) -> Self {
        match self.does {
            Does::Makes { ref mut bits, .. } | Does::Frees { ref mut bits, .. } => *bits = 32,
            _ => {}
        }
        self
    }

    const fn of(mut self, at: usize) -> Self {
        if let Does::Frees { ref mut value, .. } = self.does {
            *value = at;
        }
        self
    }
}

#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    device(243, "cuMemAlloc_v2", Kind::Linear, Size::Of64(8)),
    device(29, "cuMemAlloc", Kind::Linear, Size::Of32(8)).narrow(),
    device(244, "cuMemAllocPitch_v2", Kind::Pitched, Size::Rows64 { pitch: 8, height: 24 }),
    device(31, "cuMemAllocPitch", Kind::Pitched, Size::Rows32 { pitch: 8, height: 20 }).narrow(),
    device(371, "cuMemAllocManaged", Kind::Managed, Size::Of64(8)),
    frees(245, "cuMemFree_v2", Space::DevicePointer),
    frees(33, "cuMemFree", Space::DevicePointer).narrow(),
    pinned(39, "cuMemHostAlloc", Size::Of64(8)),
    pinned(271, "cuMemHostAlloc_v2", Size::Of64(8)),
    pinned(294, "cuMemAllocHost_v2", Size::Of64(8)),
    pinned(37, "cuMemAllocHost", Size::Of32(8)),
    frees(38, "cuMemFreeHost", Space::HostPointer),
    row(379, "cuMemHostRegister_v2", Does::Registers),
    row(301, "cuMemHostRegister", Does::Registers),
    frees(302, "cuMemHostUnregister", Space::RegisteredPointer),
    device(598, "cuMemAllocAsync", Kind::StreamOrdered, Size::Of64(8)),
    device(599, "cuMemAllocAsync_ptsz", Kind::StreamOrdered, Size::Of64(8)),
    device(611, "cuMemAllocFromPoolAsync", Kind::StreamOrdered, Size::Of64(8)).at(Place::Unsaid),
    device(612, "cuMemAllocFromPoolAsync_ptsz", Kind::StreamOrdered, Size::Of64(8)).at(Place::Unsaid),
    frees(600, "cuMemFreeAsync", Space::DevicePointer),
    frees(601, "cuMemFreeAsync_ptsz", Space::DevicePointer),
    handle(607, "cuMemPoolCreate", Kind::Pool).at(Place::Properties(8)),
    handle(614, "cuMemPoolImportFromShareableHandle", Kind::Pool).again(),
    destroys(608, "cuMemPoolDestroy", Kind::Pool),
    device(616, "cuMemPoolImportPointer", Kind::Imported, Size::None).at(Place::Unsaid).again(),
    physical(549, "cuMemCreate", Kind::Physical, Size::Of64(8)).at(Place::Properties(16)),
    physical(555, "cuMemImportFromShareableHandle", Kind::Imported, Size::None),
    physical(706, "cuMulticastCreate", Kind::Multicast, Size::None),
    frees(550, "cuMemRelease", Space::PhysicalHandle),
    row(565, "cuMemRetainAllocationHandle", Does::RetainsMapped),
    row(551, "cuMemMap", Does::Maps),
    frees(552, "cuMemUnmap", Space::Mapping),
    handle(547, "cuMemAddressReserve", Kind::AddressRange),
    destroys(548, "cuMemAddressFree", Kind::AddressRange),
    array(272, "cuArrayCreate_v2", Kind::Array),
    array(274, "cuArray3DCreate_v2", Kind::Array),
    array(87, "cuArrayCreate", Kind::Array),
    array(90, "cuArray3DCreate", Kind::Array),
    array(347, "cuMipmappedArrayCreate", Kind::Array),
    destroys(89, "cuArrayDestroy", Kind::Array),
    destroys(349, "cuMipmappedArrayDestroy", Kind::Array),
    handle(485, "cuImportExternalMemory", Kind::ExternalMemory),
    device(486, "cuExternalMemoryGetMappedBuffer", Kind::Imported, Size::Buffer(16)),
    array(487, "cuExternalMemoryGetMappedMipmappedArray", Kind::Imported),
    destroys(488, "cuDestroyExternalMemory", Kind::ExternalMemory),
    handle(489, "cuImportExternalSemaphore", Kind::ExternalSemaphore),
    destroys(494, "cuDestroyExternalSemaphore", Kind::ExternalSemaphore),
    makes(567, "cuIpcOpenMemHandle_v2", Kind::Imported, Space::IpcPointer, Size::Unsaid, Place::Context),
    makes(329, "cuIpcOpenMemHandle", Kind::Imported, Space::IpcPointer, Size::Unsaid, Place::Context),
    frees(330, "cuIpcCloseMemHandle", Space::IpcPointer),
    handle(339, "cuTexObjectCreate", Kind::Texture),
    destroys(340, "cuTexObjectDestroy", Kind::Texture),
    handle(92, "cuTexRefCreate", Kind::Texture),
    destroys(93, "cuTexRefDestroy", Kind::Texture),
    handle(343, "cuSurfObjectCreate", Kind::Surface),
    destroys(344, "cuSurfObjectDestroy", Kind::Surface),
    handle(124, "cuStreamCreate", Kind::Stream),
    handle(367, "cuStreamCreateWithPriority", Kind::Stream),
    handle(758, "cuGreenCtxStreamCreate", Kind::Stream).at(Place::Unsaid),
    destroys(326, "cuStreamDestroy_v2", Kind::Stream),
    destroys(127, "cuStreamDestroy", Kind::Stream),
    handle(118, "cuEventCreate", Kind::Event),
    handle(335, "cuIpcOpenEventHandle", Kind::Event),
    destroys(325, "cuEventDestroy_v2", Kind::Event),
    destroys(122, "cuEventDestroy", Kind::Event),
    handle(18, "cuModuleLoad", Kind::Module),
    handle(19, "cuModuleLoadData", Kind::Module),
    handle(20, "cuModuleLoadDataEx", Kind::Module),
    handle(21, "cuModuleLoadFatBinary", Kind::Module),
    destroys(22, "cuModuleUnload", Kind::Module),
    handle(381, "cuLinkCreate_v2", Kind::LinkState).answering(24),
    handle(362, "cuLinkCreate", Kind::LinkState).answering(24),
    destroys(366, "cuLinkDestroy", Kind::LinkState),
    handle(678, "cuLibraryLoadData", Kind::Library),
    handle(679, "cuLibraryLoadFromFile", Kind::Library),
    destroys(680, "cuLibraryUnload", Kind::Library),
    handle(757, "cuCtxCreate_v4", Kind::Context).at(Place::Device(20)),
    handle(645, "cuCtxCreate_v3", Kind::Context).at(Place::Device(24)),
    handle(235, "cuCtxCreate_v2", Kind::Context).at(Place::Device(12)),
    handle(10, "cuCtxCreate", Kind::Context).at(Place::Device(12)),
    destroys(322, "cuCtxDestroy_v2", Kind::Context),
    destroys(11, "cuCtxDestroy", Kind::Context),
    destroys(13, "cuCtxDetach", Kind::Context),
    handle(743, "cuGreenCtxCreate", Kind::GreenContext).at(Place::Device(16)),
    destroys(744, "cuGreenCtxDestroy", Kind::GreenContext),
    row(386, "cuDevicePrimaryCtxRetain", Does::RetainsPrimary { device: 8 }),
    row(544, "cuDevicePrimaryCtxRelease_v2", Does::ReleasesPrimary { device: 0 }),
    row(387, "cuDevicePrimaryCtxRelease", Does::ReleasesPrimary { device: 0 }),
    handle(501, "cuGraphCreate", Kind::GraphHandle),
    handle(523, "cuGraphClone", Kind::GraphHandle),
    destroys(517, "cuGraphDestroy", Kind::GraphHandle),
    handle(513, "cuGraphInstantiate", Kind::ExecGraph),
    handle(578, "cuGraphInstantiate_v2", Kind::ExecGraph),
    handle(643, "cuGraphInstantiateWithFlags", Kind::ExecGraph),
    handle(656, "cuGraphInstantiateWithParams", Kind::ExecGraph),
    handle(657, "cuGraphInstantiateWithParams_ptsz", Kind::ExecGraph),
    destroys(516, "cuGraphExecDestroy", Kind::ExecGraph),
    handle(633, "cuUserObjectCreate", Kind::UserObject),
    destroys(635, "cuUserObjectRelease", Kind::UserObject),
    destroys(637, "cuGraphReleaseUserObject", Kind::UserObject).of(8),
    // A capture into an existing graph returns that graph.
    handle(497, "cuStreamEndCapture", Kind::GraphHandle).answering(8).again(),
    handle(498, "cuStreamEndCapture_ptsz", Kind::GraphHandle).answering(8).again(),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::ROWS;

    /// Calls that create or free nothing themselves. Only the ledger knows their effects.
    const NOT_COMPARED: &[&str] = &[
        "cuInit",
        "cuCtxAttach",
        "cuCtxFromGreenCtx",
        "cuDevicePrimaryCtxReset",
        "cuDevicePrimaryCtxReset_v2",
        "cuGraphAddMemAllocNode",
        "cuGraphAddMemFreeNode",
        "cuGraphAddNode",
        "cuGraphAddNode_v2",
        "cuGraphAddNode_v3",
        "cuGraphExecUpdate",
        "cuGraphExecUpdate_v2",
        "cuGraphLaunch",
        "cuGraphLaunch_ptsz",
        "cuGraphRetainUserObject",
        "cuUserObjectRetain",
        "cuStreamBeginCapture",
        "cuStreamBeginCapture_ptsz",
        "cuStreamBeginCapture_v2",
        "cuStreamBeginCapture_v2_ptsz",
        "cuStreamBeginCaptureToGraph",
        "cuStreamBeginCaptureToGraph_ptsz",
        "cuStreamBeginRecaptureToGraph",
        "cuStreamBeginRecaptureToGraph_ptsz",
        "cuGetProcAddress",
        "cuGetProcAddress_v2",
    ];

    #[test]
    fn every_watched_function_is_compared_or_listed_as_not_compared() {
        let table = include_str!("../../../harness/src/api/cuda/functions/table.rs");
        let rows = table.lines().filter(|line| line.starts_with("    cu"));
        // A row begins with its names: `    cuMemFree[2000] | cuMemFree_v2[3020] =`.
        let names = rows.flat_map(|row| row.split(" | "));
        let names = names.filter_map(|name| name.trim().split_once('['));
        let mut watched: BTreeSet<_> = names.map(|(name, _)| name).collect();
        watched.extend(["cuGetProcAddress", "cuGetProcAddress_v2"]);
        let compared = ROWS.iter().map(|row| row.name);
        let all: BTreeSet<_> = compared.chain(NOT_COMPARED.iter().copied()).collect();
        let in_one: Vec<_> = all.symmetric_difference(&watched).collect();
        assert!(
            in_one.is_empty(),
            "either in harness/src/api/cuda/functions/table.rs, or in `ROWS` and `NOT_COMPARED` of \
             tests/oracle/src/rows.rs, but not in both: {in_one:?}. scripts/check-watched-functions \
             prints CUPTI's numbers"
        );
    }

    #[test]
    fn no_number_occurs_twice() {
        let ids: BTreeSet<_> = ROWS.iter().map(|row| row.id).collect();
        assert_eq!(ids.len(), ROWS.len());
    }
}
