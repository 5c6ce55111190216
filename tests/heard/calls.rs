//! Calls each variant with its arguments, and releases what it has created.
//!
//! `heard` makes these calls on the stand-in, where all of them succeed. The example of the oracle
//! (`tests/oracle/examples/every_function.rs`), which includes this file, makes them on a GPU.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_void};

/// The driver, by the names of its functions. On a GPU, some calls fail, and nothing is asserted.
pub(crate) trait Calls {
    /// Makes a call with numbers and addresses, unless an argument is [`MISSING`], and compares the
    /// ledger with the stand-in afterwards.
    fn call(&self, name: &str, arguments: &[u64]);

    /// Makes a call after which the ledger does not contain what the stand-in has.
    fn call_uncompared(&self, name: &str, arguments: &[u64]);

    /// Calls a function that returns a value through its first parameter. Returns that value, or
    /// [`MISSING`] if the call fails.
    fn make(&self, name: &str, arguments: &[u64]) -> u64;

    fn last_device(&self) -> u64;

    fn assert_same(&self, is: u64, expected: u64);

    /// Fails unless the ledger has this many records of the kind with this name.
    fn assert_live(&self, kind: &str, count: usize);

    /// Fails unless the ledger has one record of the kind with this name, with these bytes, on this
    /// device.
    fn assert_only(&self, kind: &str, bytes: u64, device: u64);
}

/// Stands for the result of a call that has failed. A result that a call writes through a parameter
/// other than its first has this value before.
pub(crate) const MISSING: u64 = u64::MAX;

const PAGE: u64 = 2 << 20;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`
const DESCRIPTOR: u64 = 1;
const FLOAT: u64 = 0x20;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`
const RELAXED: u64 = 2;

const KERNEL: &CStr =
    c".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry empty() { ret; }\n";

/// Returns the address of a value that a call reads or writes.
pub(super) fn at<T: ?Sized>(place: &T) -> u64 {
    std::ptr::from_ref(place).cast::<()>().expose_provenance() as u64
}

/// Makes all calls, grouped by the kind of resource that they create.
pub(super) fn all(driver: &impl Calls) {
    driver.call("cuInit", &[0]);
    let primary = driver.make("cuDevicePrimaryCtxRetain", &[0]);
    driver.call("cuCtxSetCurrent", &[primary]);
    memory(driver);
    host(driver);
    pools(driver);
    physical(driver);
    arrays(driver);
    handles(driver);
    code(driver);
    graphs(driver);
    captures(driver);
    contexts(driver, primary);
}

fn memory(driver: &impl Calls) {
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

fn host(driver: &impl Calls) {
    for allocate in [
        "cuMemHostAlloc",
        "cuMemHostAlloc_v2",
        "cuMemAllocHost",
        "cuMemAllocHost_v2",
    ] {
        let pointer = driver.make(allocate, &[8192, 0]);
        driver.call("cuMemFreeHost", &[pointer]);
    }
    let own = vec![0_u8; 3 * 4096];
    let page = at(&*own).next_multiple_of(4096);
    for register in ["cuMemHostRegister", "cuMemHostRegister_v2"] {
        driver.call(register, &[page, 8192, 0]);
        driver.call("cuMemHostUnregister", &[page]);
    }
}

/// `CUmemPoolProps` and `CUmemAllocationProp`: pinned, shared by descriptors, on the first device.
fn properties() -> [u64; 11] {
    let mut properties = [0; 11];
    (properties[0], properties[1]) = (1 | DESCRIPTOR << 32, 1);
    properties
}

fn pools(driver: &impl Calls) {
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
    let descriptor = Cell::new(-1_i32);
    let export = [at(&descriptor), pool, DESCRIPTOR, 0];
    driver.call("cuMemPoolExportToShareableHandle", &export);
    let import = "cuMemPoolImportFromShareableHandle";
    let imported = driver.make(import, &[descriptor.get() as u64, DESCRIPTOR, 0]);
    let shared = Cell::new([0_u64; 8]);
    driver.call("cuMemPoolExportPointer", &[at(&shared), exported]);
    let pointer = driver.make("cuMemPoolImportPointer", &[imported, at(&shared)]);
    driver.assert_live("imported", 1);
    driver.call("cuMemFree_v2", &[pointer]);
    driver.assert_live("imported", 0);
    driver.call("cuMemPoolDestroy", &[imported]);
    driver.call("cuMemFreeAsync", &[exported, 0]);
    driver.call("cuMemPoolDestroy", &[pool]);
}

fn physical(driver: &impl Calls) {
    let properties = properties();
    let range = driver.make("cuMemAddressReserve", &[2 * PAGE, 0, 0, 0]);
    let memory = driver.make("cuMemCreate", &[PAGE, at(&properties), 0]);
    driver.call("cuMemMap", &[range, PAGE, 0, memory, 0]);
    let again = driver.make("cuMemRetainAllocationHandle", &[range]);
    driver.call("cuMemRelease", &[memory]);
    driver.call("cuMemRelease", &[again]);
    // It is still mapped.
    driver.assert_live("physical", 1);
    driver.call("cuMemUnmap", &[range, PAGE]);
    driver.call("cuMemAddressFree", &[range, 2 * PAGE]);

    let memory = driver.make("cuMemCreate", &[PAGE, at(&properties), 0]);
    let descriptor = Cell::new(-1_i32);
    let export = [at(&descriptor), memory, DESCRIPTOR, 0];
    driver.call("cuMemExportToShareableHandle", &export);
    let import = "cuMemImportFromShareableHandle";
    let imported = driver.make(import, &[descriptor.get() as u64, DESCRIPTOR]);
    driver.assert_live("imported", 1);
    driver.call("cuMemRelease", &[imported]);
    driver.assert_live("imported", 0);
    external(driver, descriptor.get() as u64);
    driver.call("cuMemRelease", &[memory]);

    // The properties: the number of devices, a number of bytes, a handle type, no flags.
    let team = [driver.last_device() + 1, PAGE, DESCRIPTOR, 0];
    let multicast = driver.make("cuMulticastCreate", &[at(&team)]);
    driver.call("cuMemRelease", &[multicast]);
}

/// Imports exported memory as if it were another API's, and maps it.
fn external(driver: &impl Calls, descriptor: u64) {
    // The description: a descriptor's type, its number, and the number of bytes.
    let mut import = [0_u64; 13];
    (import[0], import[1], import[3]) = (1, descriptor, PAGE);
    let memory = driver.make("cuImportExternalMemory", &[at(&import)]);
    let mut buffer = [0_u64; 11];
    buffer[1] = 4096;
    let pointer = driver.make("cuExternalMemoryGetMappedBuffer", &[memory, at(&buffer)]);
    let mut mipmapped = [0_u64; 15];
    (mipmapped[1], mipmapped[2], mipmapped[4], mipmapped[6]) = (64, 32, FLOAT | 1 << 32, 1);
    let map = "cuExternalMemoryGetMappedMipmappedArray";
    // The stand-in counts the result as an array; the ledger counts it as imported memory.
    let array = Cell::new(MISSING);
    driver.call_uncompared(map, &[at(&array), memory, at(&mipmapped)]);
    driver.assert_live("imported", 2);
    driver.call("cuMipmappedArrayDestroy", &[array.get()]);
    driver.call("cuMemFree_v2", &[pointer]);
    driver.assert_live("imported", 0);
    driver.call("cuDestroyExternalMemory", &[memory]);
    // The stand-in does not look at the descriptor. A GPU refuses it.
    import[1] = MISSING;
    let semaphore = driver.make("cuImportExternalSemaphore", &[at(&import)]);
    driver.call("cuDestroyExternalSemaphore", &[semaphore]);
}

fn arrays(driver: &impl Calls) {
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
        driver.assert_only("array", bytes, 0);
        driver.call("cuArrayDestroy", &[array]);
    }
    let levels = driver.make("cuMipmappedArrayCreate", &[at(&deep), 2]);
    driver.call("cuMipmappedArrayDestroy", &[levels]);
}

fn handles(driver: &impl Calls) {
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

fn code(driver: &impl Calls) {
    let image = at(KERNEL);
    let path = std::env::temp_dir().join(format!("every-function-{}.ptx", std::process::id()));
    std::fs::write(&path, KERNEL.to_bytes()).expect("a file");
    let name = CString::new(path.to_string_lossy().into_owned()).expect("a path");
    let file = at(name.as_c_str());
    for (load, from) in [
        ("cuModuleLoad", file),
        ("cuModuleLoadData", image),
        ("cuModuleLoadDataEx", image),
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
    std::fs::remove_file(path).expect("the file");
    for create in ["cuLinkCreate", "cuLinkCreate_v2"] {
        let link = Cell::new(MISSING);
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

fn graphs(driver: &impl Calls) {
    let graph = driver.make("cuGraphCreate", &[0]);
    let clone = driver.make("cuGraphClone", &[graph]);
    let parameters = Cell::new([0_u64; 8]);
    let result = Cell::new([0_u64; 3]);
    for (instantiate, more) in [
        ("cuGraphInstantiate", 0),
        ("cuGraphInstantiate_v2", 0),
        ("cuGraphInstantiateWithFlags", 0),
        ("cuGraphInstantiateWithParams", at(&parameters)),
        ("cuGraphInstantiateWithParams_ptsz", at(&parameters)),
    ] {
        let exec = driver.make(instantiate, &[graph, more]);
        let (node, code) = (at(&result), at(&result) + 8);
        driver.call("cuGraphExecUpdate", &[exec, clone, node, code]);
        driver.call("cuGraphExecUpdate_v2", &[exec, clone, at(&result)]);
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

fn nodes(driver: &impl Calls) {
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
        driver.assert_live("graph", 1);
        driver.call(launch, &[gives, 0]);
        driver.assert_live("graph", 0);
        for exec in [takes, gives] {
            driver.call("cuGraphExecDestroy", &[exec]);
        }
        for graph in [graph, freeing] {
            driver.call("cuGraphDestroy", &[graph]);
        }
    }
}

/// A `CUgraphRecaptureCallback`, which accepts every change of a node.
extern "C" fn accepted(
    _data: *mut c_void,
    _node: *mut c_void,
    _original: *const c_void,
    _recaptured: *const c_void,
    _status: u32,
) -> u32 {
    0
}

fn captures(driver: &impl Calls) {
    type Callback =
        extern "C" fn(*mut c_void, *mut c_void, *const c_void, *const c_void, u32) -> u32;
    let accept = (accepted as Callback) as usize as u64;
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
            driver.call_uncompared(begin, arguments);
            let pointer = Cell::new(MISSING);
            driver.call_uncompared(&allocate, &[at(&pointer), 64, stream]);
            driver.call_uncompared(&free, &[pointer.get(), stream]);
            driver.assert_live("stream-ordered", 0);
            let graph = Cell::new(MISSING);
            driver.call(&end, &[stream, at(&graph)]);
            graph.get()
        };
        let first = captured(&format!("cuStreamBeginCapture{suffix}"), &[stream]);
        let second = captured(
            &format!("cuStreamBeginCapture_v2{suffix}"),
            &[stream, RELAXED],
        );
        let into = captured(
            &format!("cuStreamBeginCaptureToGraph{suffix}"),
            &[stream, first, 0, 0, 0, RELAXED],
        );
        driver.assert_same(into, first);
        let into = captured(
            &format!("cuStreamBeginRecaptureToGraph{suffix}"),
            &[stream, RELAXED, second, accept, 0],
        );
        driver.assert_same(into, second);
        for graph in [first, second] {
            driver.call("cuGraphDestroy", &[graph]);
        }
    }
    driver.call("cuStreamDestroy_v2", &[stream]);
}

fn contexts(driver: &impl Calls, primary: u64) {
    let device = driver.last_device();
    for (create, more) in [
        ("cuCtxCreate", &[0, device][..]),
        ("cuCtxCreate_v2", &[0, device]),
        ("cuCtxCreate_v3", &[0, 0, 0, device]),
        ("cuCtxCreate_v4", &[0, 0, device]),
    ] {
        for destroy in ["cuCtxDestroy", "cuCtxDestroy_v2", "cuCtxDetach"] {
            let context = driver.make(create, more);
            driver.assert_only("context", 0, device);
            driver.make("cuStreamCreate", &[1]);
            if destroy == "cuCtxDetach" {
                driver.assert_same(driver.make("cuCtxAttach", &[0]), context);
                driver.call(destroy, &[context]);
                driver.assert_live("context", 1);
            }
            driver.call(destroy, &[context]);
            driver.assert_live("context", 0);
            driver.call("cuCtxSetCurrent", &[primary]);
        }
    }
    let resource = Cell::new([0_u64; 64]);
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
        driver.make("cuDevicePrimaryCtxRetain", &[device]);
        let second = driver.make("cuDevicePrimaryCtxRetain", &[device]);
        driver.call("cuCtxSetCurrent", &[second]);
        driver.make("cuMemAlloc_v2", &[64]);
        for _ in 0..ends {
            driver.assert_live("linear", 1);
            driver.call(release, &[device]);
        }
        driver.assert_live("linear", 0);
        driver.call("cuCtxSetCurrent", &[primary]);
    }
}
