//! Calls each variant with its arguments, and releases what it has created.

#![expect(unsafe_code, reason = "passes handles of other processes by value")]

use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::mem::transmute;

use gpu_leak_check::Place;
use gpu_leak_check::ledger::{self, Kind};

use super::Driver;

const PAGE: u64 = 2 << 20;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`
const DESCRIPTOR: u64 = 1;
const FLOAT: u64 = 0x20;

/// Returns the address of a value that a call reads or writes.
pub(super) fn at<T: ?Sized>(place: &T) -> u64 {
    std::ptr::from_ref(place).cast::<()>().expose_provenance() as u64
}

/// Makes all calls, grouped by the kind of resource that they create.
pub(super) fn all(driver: &Driver<'_>) {
    driver.call("cuInit", &[0]);
    let primary = driver.make("cuDevicePrimaryCtxRetain", &[0]);
    driver.call("cuCtxSetCurrent", &[primary]);
    memory(driver);
    host(driver);
    pools(driver);
    physical(driver);
    arrays(driver);
    imported(driver);
    handles(driver);
    code(driver);
    graphs(driver);
    captures(driver);
    contexts(driver, primary);
}

fn memory(driver: &Driver<'_>) {
    for free in ["cuMemFree", "cuMemFree_v2"] {
        let low = driver.make("cuMemAlloc", &[64]);
        driver.call(free, &[low]);
        let pitch = Cell::new(0_u64);
        let low = driver.make("cuMemAllocPitch", &[at(&pitch), 100, 7, 4]);
        driver.call(free, &[low]);
    }
    let pitch = Cell::new(0_u64);
    let high = [
        driver.make("cuMemAlloc_v2", &[1 << 20]),
        driver.make("cuMemAllocPitch_v2", &[at(&pitch), 100, 7, 4]),
        driver.make("cuMemAllocManaged", &[4096, 1]),
    ];
    for pointer in high {
        driver.call("cuMemFree_v2", &[pointer]);
    }
}

fn host(driver: &Driver<'_>) {
    for allocate in [
        "cuMemHostAlloc",
        "cuMemHostAlloc_v2",
        "cuMemAllocHost",
        "cuMemAllocHost_v2",
    ] {
        let pointer = driver.make(allocate, &[8192, 0]);
        driver.call("cuMemFreeHost", &[pointer]);
    }
    let own = vec![0_u8; 4096];
    for register in ["cuMemHostRegister", "cuMemHostRegister_v2"] {
        driver.call(register, &[at(&*own), 4096, 0]);
        driver.call("cuMemHostUnregister", &[at(&*own)]);
    }
}

/// `CUmemPoolProps` and `CUmemAllocationProp`: pinned, shared by descriptors, on the first device.
fn properties() -> [u64; 11] {
    let mut properties = [0; 11];
    (properties[0], properties[1]) = (1 | DESCRIPTOR << 32, 1);
    properties
}

fn pools(driver: &Driver<'_>) {
    let properties = properties();
    let pool = driver.make("cuMemPoolCreate", &[at(&properties)]);
    for suffix in ["", "_ptsz"] {
        let free = format!("cuMemFreeAsync{suffix}");
        let plain = driver.make(&format!("cuMemAllocAsync{suffix}"), &[400, 0]);
        driver.call(&free, &[plain, 0]);
        let of_pool = driver.make(&format!("cuMemAllocFromPoolAsync{suffix}"), &[100, pool, 0]);
        driver.call(&free, &[of_pool, 0]);
    }
    let exported = driver.make("cuMemAllocFromPoolAsync", &[100, pool, 0]);
    let descriptor = Cell::new(0_i32);
    let export = [at(&descriptor), pool, DESCRIPTOR, 0];
    driver.call("cuMemPoolExportToShareableHandle", &export);
    let import = "cuMemPoolImportFromShareableHandle";
    let imported = driver.make(import, &[descriptor.get() as u64, DESCRIPTOR, 0]);
    let shared = Cell::new([0_u64; 8]);
    driver.call("cuMemPoolExportPointer", &[at(&shared), exported]);
    let pointer = driver.make("cuMemPoolImportPointer", &[imported, at(&shared)]);
    assert_eq!(count(Kind::Imported), 1);
    driver.call("cuMemFree_v2", &[pointer]);
    assert_eq!(count(Kind::Imported), 0);
    driver.call("cuMemPoolDestroy", &[imported]);
    driver.call("cuMemFreeAsync", &[exported, 0]);
    driver.call("cuMemPoolDestroy", &[pool]);
}

fn count(kind: Kind) -> usize {
    ledger::live()
        .select(|record| record.made.kind == kind)
        .len()
}

fn physical(driver: &Driver<'_>) {
    let properties = properties();
    let range = driver.make("cuMemAddressReserve", &[2 * PAGE, 0, 0, 0]);
    let memory = driver.make("cuMemCreate", &[PAGE, at(&properties), 0]);
    driver.call("cuMemMap", &[range, PAGE, 0, memory, 0]);
    let again = driver.make("cuMemRetainAllocationHandle", &[range]);
    driver.call("cuMemRelease", &[memory]);
    driver.call("cuMemRelease", &[again]);
    assert_eq!(count(Kind::Physical), 1, "it is mapped");
    driver.call("cuMemUnmap", &[range, PAGE]);
    driver.call("cuMemAddressFree", &[range, 2 * PAGE]);

    let memory = driver.make("cuMemCreate", &[PAGE, at(&properties), 0]);
    let descriptor = Cell::new(0_i32);
    let export = [at(&descriptor), memory, DESCRIPTOR, 0];
    driver.call("cuMemExportToShareableHandle", &export);
    let import = "cuMemImportFromShareableHandle";
    let imported = driver.make(import, &[descriptor.get() as u64, DESCRIPTOR]);
    assert_eq!(count(Kind::Imported), 1);
    driver.call("cuMemRelease", &[imported]);
    assert_eq!(count(Kind::Imported), 0);
    driver.call("cuMemRelease", &[memory]);

    // The properties: two devices, a number of bytes, a handle type, no flags.
    let team = [2_u64, PAGE, DESCRIPTOR, 0];
    let multicast = driver.make("cuMulticastCreate", &[at(&team)]);
    driver.call("cuMemRelease", &[multicast]);
}

fn arrays(driver: &Driver<'_>) {
    // The descriptions: width, height and, for the second, depth; a float format with two channels;
    // no flags.
    let flat = [64_u64, 32, FLOAT | 2 << 32];
    let deep = [64_u64, 32, 5, FLOAT | 2 << 32, 0];
    let narrow_flat = [64_u32, 32, FLOAT as u32, 2];
    let narrow_deep = [64_u32, 32, 5, FLOAT as u32, 2, 0];
    for (create, descriptor, bytes) in [
        ("cuArrayCreate", at(&narrow_flat), 64 * 32 * 8),
        ("cuArrayCreate_v2", at(&flat), 64 * 32 * 8),
        ("cuArray3DCreate", at(&narrow_deep), 64 * 32 * 5 * 8),
        ("cuArray3DCreate_v2", at(&deep), 64 * 32 * 5 * 8),
    ] {
        let array = driver.make(create, &[descriptor]);
        let record = ledger::live().select(|record| record.made.kind == Kind::Array)[0];
        assert_eq!(record.made.bytes, bytes, "{create}");
        driver.call("cuArrayDestroy", &[array]);
    }
    let levels = driver.make("cuMipmappedArrayCreate", &[at(&deep), 2]);
    driver.call("cuMipmappedArrayDestroy", &[levels]);
}

fn imported(driver: &Driver<'_>) {
    // The description: a descriptor's type, its number, and the number of bytes.
    let mut import = [0_u64; 13];
    (import[0], import[3]) = (1, 8192);
    let memory = driver.make("cuImportExternalMemory", &[at(&import)]);
    let mut buffer = [0_u64; 11];
    buffer[1] = 4096;
    let pointer = driver.make("cuExternalMemoryGetMappedBuffer", &[memory, at(&buffer)]);
    let mut mipmapped = [0_u64; 15];
    (mipmapped[1], mipmapped[2], mipmapped[4], mipmapped[6]) = (64, 32, FLOAT | 1 << 32, 1);
    let map = "cuExternalMemoryGetMappedMipmappedArray";
    // The stand-in counts the result as an array; the ledger counts it as imported memory.
    let array = Cell::new(0_u64);
    assert_eq!(
        driver.try_call(map, &[at(&array), memory, at(&mipmapped)]),
        0
    );
    assert_eq!(count(Kind::Imported), 2);
    driver.call("cuMipmappedArrayDestroy", &[array.get()]);
    driver.call("cuMemFree_v2", &[pointer]);
    assert_eq!(count(Kind::Imported), 0);
    driver.call("cuDestroyExternalMemory", &[memory]);
    let semaphore = driver.make("cuImportExternalSemaphore", &[at(&import)]);
    driver.call("cuDestroyExternalSemaphore", &[semaphore]);

    let source = driver.make("cuMemAlloc_v2", &[100]);
    let handle = Cell::new([0_u64; 8]);
    driver.call("cuIpcGetMemHandle", &[at(&handle), source]);
    for open in ["cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2"] {
        let pointer = open_handle(driver, open, handle.get());
        let record = ledger::live().select(|record| record.made.kind == Kind::Imported)[0];
        assert_eq!(
            (record.made.bytes, record.made.place),
            (100, Place::cuda(0))
        );
        driver.call("cuIpcCloseMemHandle", &[pointer]);
        assert_eq!(count(Kind::Imported), 0);
    }
    driver.call("cuMemFree_v2", &[source]);
    let source = driver.make("cuEventCreate", &[6]);
    driver.call("cuIpcGetEventHandle", &[at(&handle), source]);
    let event = open_handle(driver, "cuIpcOpenEventHandle", handle.get());
    for event in [source, event] {
        driver.call("cuEventDestroy_v2", &[event]);
    }
}

fn open_handle(driver: &Driver<'_>, name: &str, handle: [u64; 8]) -> u64 {
    let (opened, error) = try_open(driver, name, handle);
    assert_eq!(error, 0, "{name}");
    driver.assert_agreed(name);
    opened
}

/// Opens a `CUipcMemHandle` or `CUipcEventHandle`, which are passed by value. Returns the opened
/// object and the result of the call.
pub(super) fn try_open(driver: &Driver<'_>, name: &str, handle: [u64; 8]) -> (u64, u32) {
    #[repr(C)]
    struct Handle([u64; 8]);
    type Open = unsafe extern "C" fn(*mut u64, Handle, u32) -> u32;
    driver.called.borrow_mut().insert(name.to_owned());
    // SAFETY: the function has this signature, or lacks the last parameter, the flags.
    let open = unsafe { transmute::<*mut c_void, Open>(driver.find(name)) };
    let mut opened = 0;
    // SAFETY: the out pointer is valid.
    let error = unsafe { open(&raw mut opened, Handle(handle), 1) };
    (opened, error)
}

fn handles(driver: &Driver<'_>) {
    for destroy in ["cuStreamDestroy", "cuStreamDestroy_v2"] {
        let stream = driver.make("cuStreamCreate", &[1]);
        driver.call(destroy, &[stream]);
        let stream = driver.make("cuStreamCreateWithPriority", &[1, 0]);
        driver.call(destroy, &[stream]);
    }
    for destroy in ["cuEventDestroy", "cuEventDestroy_v2"] {
        let event = driver.make("cuEventCreate", &[0]);
        driver.call(destroy, &[event]);
    }
    let deep = [64_u64, 32, 0, FLOAT | 1 << 32, 2];
    let array = driver.make("cuArray3DCreate_v2", &[at(&deep)]);
    // The resource is the array itself.
    let mut resource = [0_u64; 18];
    resource[1] = array;
    let sampling = [0_u64; 16];
    let texture = driver.make("cuTexObjectCreate", &[at(&resource), at(&sampling), 0]);
    driver.call("cuTexObjectDestroy", &[texture]);
    let surface = driver.make("cuSurfObjectCreate", &[at(&resource)]);
    driver.call("cuSurfObjectDestroy", &[surface]);
    driver.call("cuArrayDestroy", &[array]);
    let reference = driver.make("cuTexRefCreate", &[]);
    driver.call("cuTexRefDestroy", &[reference]);
}

fn code(driver: &Driver<'_>) {
    let image = at(c"image");
    // The stand-in accepts any file.
    let path = CString::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).expect("a path");
    let file = at(path.as_c_str());
    for (load, from) in [
        ("cuModuleLoad", file),
        ("cuModuleLoadData", image),
        ("cuModuleLoadDataEx", image),
        ("cuModuleLoadFatBinary", image),
    ] {
        let module = driver.make(load, &[from]);
        driver.call("cuModuleUnload", &[module]);
    }
    for (load, from) in [
        ("cuLibraryLoadData", image),
        ("cuLibraryLoadFromFile", file),
    ] {
        let library = driver.make(load, &[from]);
        driver.call("cuLibraryUnload", &[library]);
    }
    for create in ["cuLinkCreate", "cuLinkCreate_v2"] {
        let link = Cell::new(0_u64);
        driver.call(create, &[0, 0, 0, at(&link)]);
        driver.call("cuLinkDestroy", &[link.get()]);
    }
}

/// `CUgraphNodeParams` of an allocation of 512 bytes on the first device, or of a free.
pub(super) fn node(node_type: u64, address: u64) -> [u64; 32] {
    let mut node = [0; 32];
    node[0] = node_type;
    match node_type {
        10 => (node[2], node[3], node[15]) = (1, 1, 512),
        _ => node[2] = address,
    }
    node
}

fn graphs(driver: &Driver<'_>) {
    let graph = driver.make("cuGraphCreate", &[0]);
    let clone = driver.make("cuGraphClone", &[graph]);
    let parameters = Cell::new([0_u64; 4]);
    for (instantiate, more) in [
        ("cuGraphInstantiate", 0),
        ("cuGraphInstantiate_v2", 0),
        ("cuGraphInstantiateWithFlags", 0),
        ("cuGraphInstantiateWithParams", at(&parameters)),
        ("cuGraphInstantiateWithParams_ptsz", at(&parameters)),
    ] {
        let exec = driver.make(instantiate, &[graph, more]);
        driver.call("cuGraphExecUpdate", &[exec, clone, 0, 0]);
        driver.call("cuGraphExecUpdate_v2", &[exec, clone, 0]);
        driver.call("cuGraphExecDestroy", &[exec]);
    }
    extern "C" fn destructor(_data: *mut c_void) {}
    let end = (destructor as extern "C" fn(*mut c_void)) as usize as u64;
    let object = driver.make("cuUserObjectCreate", &[0xda7a, end, 2, 1]);
    driver.call("cuUserObjectRetain", &[object, 1]);
    driver.call("cuGraphRetainUserObject", &[graph, object, 1, 0]);
    driver.call("cuUserObjectRelease", &[object, 3]);
    driver.call("cuGraphReleaseUserObject", &[graph, object, 1]);
    for graph in [graph, clone] {
        driver.call("cuGraphDestroy", &[graph]);
    }
    nodes(driver);
}

fn nodes(driver: &Driver<'_>) {
    for (add, launch) in [
        ("cuGraphAddMemAllocNode", "cuGraphLaunch"),
        ("cuGraphAddNode", "cuGraphLaunch_ptsz"),
        ("cuGraphAddNode_v2", "cuGraphLaunch"),
        ("cuGraphAddNode_v3", "cuGraphLaunch_ptsz"),
    ] {
        let (graph, freeing) = (
            driver.make("cuGraphCreate", &[0]),
            driver.make("cuGraphCreate", &[0]),
        );
        let (allocation, added) = (Cell::new(node(10, 0)), Cell::new(0_u64));
        let (added, parameters) = (at(&added), at(&allocation));
        let address = || allocation.get()[16];
        // The node has no dependencies, so the arguments between the graph and the parameters are
        // 0.
        match add {
            "cuGraphAddMemAllocNode" => {
                driver.call(add, &[added, graph, 0, 0, parameters + 16]);
                driver.call("cuGraphAddMemFreeNode", &[added, freeing, 0, 0, address()]);
            }
            "cuGraphAddNode" => {
                driver.call(add, &[added, graph, 0, 0, parameters]);
                let free = node(11, address());
                driver.call(add, &[added, freeing, 0, 0, at(&free)]);
            }
            _ => {
                driver.call(add, &[added, graph, 0, 0, 0, parameters]);
                let free = node(11, address());
                driver.call(add, &[added, freeing, 0, 0, 0, at(&free)]);
            }
        }
        let takes = driver.make("cuGraphInstantiateWithFlags", &[graph, 0]);
        let gives = driver.make("cuGraphInstantiateWithFlags", &[freeing, 0]);
        driver.call(launch, &[takes, 0]);
        assert_eq!(count(Kind::Graph), 1, "{add}");
        driver.call(launch, &[gives, 0]);
        assert_eq!(count(Kind::Graph), 0, "{add}");
        for exec in [takes, gives] {
            driver.call("cuGraphExecDestroy", &[exec]);
        }
        for graph in [graph, freeing] {
            driver.call("cuGraphDestroy", &[graph]);
        }
    }
}

fn captures(driver: &Driver<'_>) {
    let stream = driver.make("cuStreamCreate", &[1]);
    for suffix in ["", "_ptsz"] {
        let end = format!("cuStreamEndCapture{suffix}");
        let (allocate, free) = (
            format!("cuMemAllocAsync{suffix}"),
            format!("cuMemFreeAsync{suffix}"),
        );
        // During a capture that creates a graph, the stand-in already has the graph and the ledger
        // does not. The two are therefore compared only after the capture.
        let captured = |begin: &str, arguments: &[u64]| {
            assert_eq!(driver.try_call(begin, arguments), 0, "{begin}");
            let pointer = Cell::new(0_u64);
            assert_eq!(driver.try_call(&allocate, &[at(&pointer), 64, stream]), 0);
            assert_eq!(driver.try_call(&free, &[pointer.get(), stream]), 0);
            assert_eq!(count(Kind::StreamOrdered), 0, "captured");
            let graph = Cell::new(0_u64);
            driver.call(&end, &[stream, at(&graph)]);
            graph.get()
        };
        let first = captured(&format!("cuStreamBeginCapture{suffix}"), &[stream]);
        let second = captured(&format!("cuStreamBeginCapture_v2{suffix}"), &[stream, 0]);
        let into = captured(
            &format!("cuStreamBeginCaptureToGraph{suffix}"),
            &[stream, first, 0, 0, 0, 0],
        );
        assert_eq!(into, first);
        let into = captured(
            &format!("cuStreamBeginRecaptureToGraph{suffix}"),
            &[stream, 0, second, 0, 0],
        );
        assert_eq!(into, second);
        for graph in [first, second] {
            driver.call("cuGraphDestroy", &[graph]);
        }
    }
    driver.call("cuStreamDestroy_v2", &[stream]);
}

fn contexts(driver: &Driver<'_>, primary: u64) {
    for (create, more) in [
        ("cuCtxCreate", &[0, 1][..]),
        ("cuCtxCreate_v2", &[0, 1]),
        ("cuCtxCreate_v3", &[0, 0, 0, 1]),
        ("cuCtxCreate_v4", &[0, 0, 1]),
    ] {
        for destroy in ["cuCtxDestroy", "cuCtxDestroy_v2", "cuCtxDetach"] {
            let context = driver.make(create, more);
            let record = ledger::live().select(|record| record.made.kind == Kind::Context)[0];
            assert_eq!(record.made.place, Place::cuda(1), "{create}");
            driver.make("cuStreamCreate", &[1]);
            if destroy == "cuCtxDetach" {
                assert_eq!(driver.make("cuCtxAttach", &[0]), context);
                driver.call(destroy, &[context]);
                assert_eq!(count(Kind::Context), 1);
            }
            driver.call(destroy, &[context]);
            assert_eq!(count(Kind::Context), 0, "{destroy}");
            driver.call("cuCtxSetCurrent", &[primary]);
        }
    }
    let resource = Cell::new([0_u64; 20]);
    driver.call("cuDeviceGetDevResource", &[0, at(&resource), 1]);
    let description = driver.make("cuDevResourceGenerateDesc", &[at(&resource), 1]);
    let green = driver.make("cuGreenCtxCreate", &[description, 0, 1]);
    let converted = driver.make("cuCtxFromGreenCtx", &[green]);
    let made_for = driver.make("cuGreenCtxStreamCreate", &[green, 1, 0]);
    driver.call("cuCtxSetCurrent", &[converted]);
    let made_in = driver.make("cuStreamCreate", &[1]);
    driver.call("cuCtxSetCurrent", &[primary]);
    for stream in [made_for, made_in] {
        driver.call("cuStreamDestroy_v2", &[stream]);
    }
    driver.call("cuGreenCtxDestroy", &[green]);

    for (release, ends) in [
        ("cuDevicePrimaryCtxRelease", 2),
        ("cuDevicePrimaryCtxRelease_v2", 2),
        ("cuDevicePrimaryCtxReset", 1),
        ("cuDevicePrimaryCtxReset_v2", 1),
    ] {
        // The primary context of the first device was retained above.
        driver.make("cuDevicePrimaryCtxRetain", &[1]);
        let second = driver.make("cuDevicePrimaryCtxRetain", &[1]);
        driver.call("cuCtxSetCurrent", &[second]);
        driver.make("cuMemAlloc_v2", &[64]);
        for _ in 0..ends {
            assert_eq!(count(Kind::Linear), 1);
            driver.call(release, &[1]);
        }
        assert_eq!(count(Kind::Linear), 0, "{release}");
        driver.call("cuCtxSetCurrent", &[primary]);
    }
}
