//! Every call that makes or ends something is watched, or left out here for a reason.

use super::TABLE;

/// All that make, import, register or end something, by their ids; those of CUPTI 13.5, whose last
/// one is 876.
#[rustfmt::skip]
const CALLS: &[(u32, &str)] = &[
    // Linear device memory
    (243, "cuMemAlloc_v2"),
    (29, "cuMemAlloc"),
    (244, "cuMemAllocPitch_v2"),
    (31, "cuMemAllocPitch"),
    (371, "cuMemAllocManaged"),
    (245, "cuMemFree_v2"),
    (33, "cuMemFree"),
    (598, "cuMemAllocAsync"),
    (599, "cuMemAllocAsync_ptsz"),
    (611, "cuMemAllocFromPoolAsync"),
    (612, "cuMemAllocFromPoolAsync_ptsz"),
    (600, "cuMemFreeAsync"),
    (601, "cuMemFreeAsync_ptsz"),
    // Pools
    (607, "cuMemPoolCreate"),
    (608, "cuMemPoolDestroy"),
    (614, "cuMemPoolImportFromShareableHandle"),
    (616, "cuMemPoolImportPointer"),
    (609, "cuDeviceSetMemPool"),
    (803, "cuMemSetMemPool"),
    (602, "cuMemPoolTrimTo"),
    // Virtual memory management
    (547, "cuMemAddressReserve"),
    (548, "cuMemAddressFree"),
    (549, "cuMemCreate"),
    (550, "cuMemRelease"),
    (555, "cuMemImportFromShareableHandle"),
    (565, "cuMemRetainAllocationHandle"),
    (551, "cuMemMap"),
    (552, "cuMemUnmap"),
    (706, "cuMulticastCreate"),
    (584, "cuMemMapArrayAsync"),
    (585, "cuMemMapArrayAsync_ptsz"),
    // Memory of the host
    (39, "cuMemHostAlloc"),
    (271, "cuMemHostAlloc_v2"),
    (294, "cuMemAllocHost_v2"),
    (37, "cuMemAllocHost"),
    (38, "cuMemFreeHost"),
    (379, "cuMemHostRegister_v2"),
    (301, "cuMemHostRegister"),
    (302, "cuMemHostUnregister"),
    // Arrays
    (272, "cuArrayCreate_v2"),
    (274, "cuArray3DCreate_v2"),
    (87, "cuArrayCreate"),
    (90, "cuArray3DCreate"),
    (89, "cuArrayDestroy"),
    (347, "cuMipmappedArrayCreate"),
    (349, "cuMipmappedArrayDestroy"),
    (348, "cuMipmappedArrayGetLevel"),
    (597, "cuArrayGetPlane"),
    // Memory, events and semaphores of another process or API
    (567, "cuIpcOpenMemHandle_v2"),
    (329, "cuIpcOpenMemHandle"),
    (330, "cuIpcCloseMemHandle"),
    (335, "cuIpcOpenEventHandle"),
    (485, "cuImportExternalMemory"),
    (488, "cuDestroyExternalMemory"),
    (486, "cuExternalMemoryGetMappedBuffer"),
    (487, "cuExternalMemoryGetMappedMipmappedArray"),
    (489, "cuImportExternalSemaphore"),
    (494, "cuDestroyExternalSemaphore"),
    // Streams and events
    (124, "cuStreamCreate"),
    (367, "cuStreamCreateWithPriority"),
    (758, "cuGreenCtxStreamCreate"),
    (326, "cuStreamDestroy_v2"),
    (127, "cuStreamDestroy"),
    (118, "cuEventCreate"),
    (325, "cuEventDestroy_v2"),
    (122, "cuEventDestroy"),
    // Code
    (18, "cuModuleLoad"),
    (19, "cuModuleLoadData"),
    (20, "cuModuleLoadDataEx"),
    (21, "cuModuleLoadFatBinary"),
    (22, "cuModuleUnload"),
    (678, "cuLibraryLoadData"),
    (679, "cuLibraryLoadFromFile"),
    (680, "cuLibraryUnload"),
    (381, "cuLinkCreate_v2"),
    (362, "cuLinkCreate"),
    (366, "cuLinkDestroy"),
    // Graphs and what they keep alive
    (501, "cuGraphCreate"),
    (523, "cuGraphClone"),
    (497, "cuStreamEndCapture"),
    (498, "cuStreamEndCapture_ptsz"),
    (720, "cuStreamBeginCaptureToGraph"),
    (721, "cuStreamBeginCaptureToGraph_ptsz"),
    (517, "cuGraphDestroy"),
    (513, "cuGraphInstantiate"),
    (578, "cuGraphInstantiate_v2"),
    (643, "cuGraphInstantiateWithFlags"),
    (656, "cuGraphInstantiateWithParams"),
    (657, "cuGraphInstantiateWithParams_ptsz"),
    (516, "cuGraphExecDestroy"),
    (561, "cuGraphExecUpdate"),
    (696, "cuGraphExecUpdate_v2"),
    (638, "cuGraphAddMemAllocNode"),
    (639, "cuGraphAddMemFreeNode"),
    (712, "cuGraphAddNode"),
    (723, "cuGraphAddNode_v2"),
    (863, "cuGraphAddNode_v3"),
    (514, "cuGraphLaunch"),
    (515, "cuGraphLaunch_ptsz"),
    (633, "cuUserObjectCreate"),
    (634, "cuUserObjectRetain"),
    (635, "cuUserObjectRelease"),
    (636, "cuGraphRetainUserObject"),
    (637, "cuGraphReleaseUserObject"),
    // Textures and surfaces
    (339, "cuTexObjectCreate"),
    (340, "cuTexObjectDestroy"),
    (343, "cuSurfObjectCreate"),
    (344, "cuSurfObjectDestroy"),
    (92, "cuTexRefCreate"),
    (93, "cuTexRefDestroy"),
    // Contexts
    (757, "cuCtxCreate_v4"),
    (645, "cuCtxCreate_v3"),
    (235, "cuCtxCreate_v2"),
    (10, "cuCtxCreate"),
    (322, "cuCtxDestroy_v2"),
    (11, "cuCtxDestroy"),
    (12, "cuCtxAttach"),
    (13, "cuCtxDetach"),
    (386, "cuDevicePrimaryCtxRetain"),
    (544, "cuDevicePrimaryCtxRelease_v2"),
    (387, "cuDevicePrimaryCtxRelease"),
    (545, "cuDevicePrimaryCtxReset_v2"),
    (389, "cuDevicePrimaryCtxReset"),
    (743, "cuGreenCtxCreate"),
    (744, "cuGreenCtxDestroy"),
    (753, "cuCtxFromGreenCtx"),
    // Captures that add to a graph
    (495, "cuStreamBeginCapture"),
    (496, "cuStreamBeginCapture_ptsz"),
    (539, "cuStreamBeginCapture_v2"),
    (540, "cuStreamBeginCapture_v2_ptsz"),
    (846, "cuStreamBeginRecaptureToGraph"),
    (847, "cuStreamBeginRecaptureToGraph_ptsz"),
    // Callbacks, endpoints and graphics
    (735, "cuDeviceRegisterAsyncNotification"),
    (736, "cuDeviceUnregisterAsyncNotification"),
    (763, "cuLogsRegisterCallback"),
    (764, "cuLogsUnregisterCallback"),
    (842, "cuCoredumpRegisterStartCallback"),
    (843, "cuCoredumpRegisterCompleteCallback"),
    (844, "cuCoredumpDeregisterStartCallback"),
    (845, "cuCoredumpDeregisterCompleteCallback"),
    (848, "cuLogicalEndpointIdReserve"),
    (849, "cuLogicalEndpointIdRelease"),
    (850, "cuLogicalEndpointCreate"),
    (851, "cuLogicalEndpointAddDevice"),
    (852, "cuLogicalEndpointDestroy"),
    (853, "cuLogicalEndpointBindAddr"),
    (854, "cuLogicalEndpointBindMem"),
    (855, "cuLogicalEndpointUnbind"),
    (856, "cuLogicalEndpointExport"),
    (857, "cuLogicalEndpointImport"),
    (175, "cuGraphicsGLRegisterBuffer"),
    (176, "cuGraphicsGLRegisterImage"),
    (390, "cuGraphicsEGLRegisterImage"),
    (188, "cuGraphicsVDPAURegisterVideoSurface"),
    (189, "cuGraphicsVDPAURegisterOutputSurface"),
    (128, "cuGraphicsUnregisterResource"),
    (479, "cuEventCreateFromEGLSync"),
];

/// Those that are not watched, and why.
const NOT_WATCHED: &[(&str, &[u32])] = &[
    (
        "not watched yet: memory that only a sparse array keeps",
        &[584, 585],
    ),
    (
        "answers with a part of an array, which is not to be destroyed",
        &[348, 597],
    ),
    (
        "makes nothing: pools are read when a check ends",
        &[602, 609, 803],
    ),
    (
        "registers a callback, or an endpoint of a fabric: neither memory nor anything that a \
         program makes by the dozen",
        &[
            735, 736, 763, 764, 842, 843, 844, 845, 848, 849, 850, 851, 852, 853, 854, 855, 856,
            857,
        ],
    ),
    (
        "makes or registers what belongs to a graphics API",
        &[128, 175, 176, 188, 189, 390, 479],
    ),
];

fn reason(id: u32) -> Option<&'static str> {
    let (reason, _) = NOT_WATCHED.iter().find(|(_, ids)| ids.contains(&id))?;
    Some(reason)
}

#[test]
fn every_call_is_watched_under_its_name_or_left_out_for_a_reason() {
    for (id, name) in CALLS {
        let row = TABLE.iter().find(|row| row.id == *id);
        assert_eq!(
            row.is_some(),
            reason(*id).is_none(),
            "{name} ({id}) is to be watched or left out, and not both: {:?}",
            reason(*id)
        );
        if let Some(row) = row {
            assert_eq!(row.name, *name, "{id}");
        }
    }
}

#[test]
fn the_list_of_calls_is_whole() {
    let is_listed = |id: u32| CALLS.iter().any(|(listed, _)| *listed == id);
    for row in TABLE {
        assert!(is_listed(row.id), "{} ({})", row.name, row.id);
    }
    for id in NOT_WATCHED.iter().flat_map(|(_, ids)| *ids) {
        assert!(is_listed(*id), "{id}");
    }
}
