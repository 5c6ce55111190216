//! Calls every watched function in each of its variants on this machine's GPU. With the oracle
//! preloaded, both the harness and CUPTI report each call. Calls that this driver or this device
//! does not support fail, and both report the failure as well.

#![expect(unsafe_code, reason = "calls the driver's functions by name")]
#![expect(clippy::print_stdout, reason = "the program prints its result")]

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::mem::transmute;

const PAGE: u64 = 2 << 20;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`
const DESCRIPTOR: u64 = 1;
const FLOAT: u64 = 0x20;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`
const RELAXED: u64 = 2;

const KERNEL: &[u8] =
    b".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry empty() { ret; }\n\0";

/// Returns the address of a value that a call reads or writes.
fn at<T: ?Sized>(place: &T) -> u64 {
    std::ptr::from_ref(place).cast::<()>().expose_provenance() as u64
}

/// The driver as a program sees it, and the number of times that it has returned each error.
struct Driver {
    library: *mut c_void,
    errors: BTreeMap<(String, u32), u32>,
}

impl Driver {
    fn find(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).expect("a name");
        // SAFETY: the library is open, and the name is a C string.
        unsafe { libc::dlsym(self.library, name.as_ptr()) }
    }

    /// Calls a function with numbers and addresses. The function ignores surplus arguments.
    fn call(&mut self, name: &str, arguments: &[u64]) -> u32 {
        type Function = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64) -> u32;
        let function = self.find(name);
        let mut all = [0; 8];
        all[..arguments.len()].copy_from_slice(arguments);
        let [a, b, c, d, e, f, g, h] = all;
        let error = if function.is_null() {
            u32::MAX
        } else {
            // SAFETY: every parameter of these functions is passed like a number, and the arguments
            // below have the types that each function takes.
            unsafe { transmute::<*mut c_void, Function>(function)(a, b, c, d, e, f, g, h) }
        };
        *self.errors.entry((name.to_owned(), error)).or_default() += 1;
        error
    }

    /// Calls a function that returns a value through its first parameter. Returns 0 if the call
    /// fails.
    fn make(&mut self, name: &str, arguments: &[u64]) -> u64 {
        // If the driver's result is shorter than 64 bits, the remaining bits stay 0.
        let answer = Box::new(0_u64);
        let mut all = vec![at(&*answer)];
        all.extend(arguments);
        let error = self.call(name, &all);
        // SAFETY: the box exists, and the driver has written to it through its address.
        let made = unsafe { std::ptr::read_volatile(&raw const *answer) };
        if error == 0 { made } else { 0 }
    }

    /// Calls a function that releases `what`, unless that is 0 because its creation failed.
    fn end(&mut self, name: &str, what: u64, more: &[u64]) {
        if what != 0 {
            let mut all = vec![what];
            all.extend(more);
            self.call(name, &all);
        }
    }
}

/// Returns room for a result that a call writes through a parameter other than the first.
fn answer() -> Box<u64> {
    Box::new(0)
}

fn read(answer: &u64) -> u64 {
    // SAFETY: the pointer is a reference; the driver has written to the value through its address.
    unsafe { std::ptr::read_volatile(answer) }
}

fn main() {
    // SAFETY: the driver's constructors may run at any time.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null(), "no driver");
    let mut driver = Driver {
        library,
        errors: BTreeMap::new(),
    };
    let it = &mut driver;
    it.call("cuInit", &[0]);
    let primary = it.make("cuDevicePrimaryCtxRetain", &[0]);
    it.call("cuCtxSetCurrent", &[primary]);
    memory(it);
    pools(it);
    physical(it);
    arrays(it);
    handles(it);
    graphs(it);
    contexts(it, primary);
    for ((name, error), times) in &driver.errors {
        if *error != 0 {
            println!("{name}: error {error}, {times} times");
        }
    }
}

fn memory(it: &mut Driver) {
    let pitch = answer();
    for free in ["cuMemFree", "cuMemFree_v2"] {
        for (make, arguments) in [
            ("cuMemAlloc", vec![64]),
            ("cuMemAllocPitch", vec![at(&*pitch), 100, 7, 4]),
        ] {
            let pointer = it.make(make, &arguments);
            it.end(free, pointer, &[]);
        }
    }
    for (make, arguments) in [
        ("cuMemAlloc_v2", vec![1 << 20]),
        ("cuMemAlloc_v2", vec![1 << 60]),
        ("cuMemAllocPitch_v2", vec![at(&*pitch), 100, 7, 4]),
        ("cuMemAllocManaged", vec![4096, 1]),
    ] {
        let pointer = it.make(make, &arguments);
        it.end("cuMemFree_v2", pointer, &[]);
    }
    // Frees the memory twice. The driver refuses the second free.
    let pointer = it.make("cuMemAlloc_v2", &[64]);
    it.end("cuMemFree_v2", pointer, &[]);
    it.end("cuMemFree_v2", pointer, &[]);
    for make in [
        "cuMemHostAlloc",
        "cuMemHostAlloc_v2",
        "cuMemAllocHost",
        "cuMemAllocHost_v2",
    ] {
        let pointer = it.make(make, &[8192, 0]);
        it.end("cuMemFreeHost", pointer, &[]);
    }
    let own = vec![0_u8; 1 << 16];
    let page = at(&*own).next_multiple_of(4096);
    for register in ["cuMemHostRegister", "cuMemHostRegister_v2"] {
        if it.call(register, &[page, 8192, 0]) == 0 {
            it.call("cuMemHostUnregister", &[page]);
        }
    }
}

/// `CUmemPoolProps` and `CUmemAllocationProp`: pinned, shared by descriptors, on the first device.
fn properties() -> [u64; 11] {
    let mut properties = [0; 11];
    (properties[0], properties[1]) = (1 | DESCRIPTOR << 32, 1);
    properties
}

fn pools(it: &mut Driver) {
    let properties = properties();
    let pool = it.make("cuMemPoolCreate", &[at(&properties)]);
    for suffix in ["", "_ptsz"] {
        let free = format!("cuMemFreeAsync{suffix}");
        let plain = it.make(&format!("cuMemAllocAsync{suffix}"), &[400, 0]);
        it.end(&free, plain, &[0]);
        let of_pool = it.make(&format!("cuMemAllocFromPoolAsync{suffix}"), &[100, pool, 0]);
        it.end(&free, of_pool, &[0]);
    }
    let exported = it.make("cuMemAllocFromPoolAsync", &[100, pool, 0]);
    let descriptor = answer();
    let export = [at(&*descriptor), pool, DESCRIPTOR, 0];
    if it.call("cuMemPoolExportToShareableHandle", &export) == 0 {
        let shared = [read(&descriptor) & 0xffff_ffff, DESCRIPTOR, 0];
        let imported = it.make("cuMemPoolImportFromShareableHandle", &shared);
        let data = Box::new([0_u64; 8]);
        it.call("cuMemPoolExportPointer", &[at(&*data), exported]);
        let pointer = it.make("cuMemPoolImportPointer", &[imported, at(&*data)]);
        it.end("cuMemFree_v2", pointer, &[]);
        it.end("cuMemPoolDestroy", imported, &[]);
    }
    it.end("cuMemFreeAsync", exported, &[0]);
    it.end("cuMemPoolDestroy", pool, &[]);
    it.call("cuCtxSynchronize", &[]);
}

fn physical(it: &mut Driver) {
    let properties = properties();
    let range = it.make("cuMemAddressReserve", &[2 * PAGE, 0, 0, 0]);
    let memory = it.make("cuMemCreate", &[PAGE, at(&properties), 0]);
    if it.call("cuMemMap", &[range, PAGE, 0, memory, 0]) == 0 {
        let again = it.make("cuMemRetainAllocationHandle", &[range]);
        it.end("cuMemRelease", again, &[]);
        it.call("cuMemUnmap", &[range, PAGE]);
    }
    let descriptor = answer();
    let export = [at(&*descriptor), memory, DESCRIPTOR, 0];
    if it.call("cuMemExportToShareableHandle", &export) == 0 {
        let shared = [read(&descriptor) & 0xffff_ffff, DESCRIPTOR];
        let imported = it.make("cuMemImportFromShareableHandle", &shared);
        it.end("cuMemRelease", imported, &[]);
        let mut import = [0_u64; 13];
        (import[0], import[1], import[3]) = (1, shared[0], PAGE);
        let external = it.make("cuImportExternalMemory", &[at(&import)]);
        if external != 0 {
            let mut buffer = [0_u64; 11];
            buffer[1] = 4096;
            let pointer = it.make("cuExternalMemoryGetMappedBuffer", &[external, at(&buffer)]);
            it.end("cuMemFree_v2", pointer, &[]);
            let mut mipmapped = [0_u64; 15];
            (mipmapped[1], mipmapped[2], mipmapped[4], mipmapped[6]) = (64, 32, FLOAT | 1 << 32, 1);
            let map = "cuExternalMemoryGetMappedMipmappedArray";
            let array = it.make(map, &[external, at(&mipmapped)]);
            it.end("cuMipmappedArrayDestroy", array, &[]);
        }
        it.end("cuDestroyExternalMemory", external, &[]);
    }
    it.end("cuMemRelease", memory, &[]);
    it.end("cuMemAddressFree", range, &[2 * PAGE]);
    let import = [0_u64; 13];
    let semaphore = it.make("cuImportExternalSemaphore", &[at(&import)]);
    it.end("cuDestroyExternalSemaphore", semaphore, &[]);
    let team = [1_u64, PAGE, DESCRIPTOR, 0];
    let multicast = it.make("cuMulticastCreate", &[at(&team)]);
    it.end("cuMemRelease", multicast, &[]);
}

fn arrays(it: &mut Driver) {
    let flat = [64_u64, 32, FLOAT | 2 << 32];
    let deep = [64_u64, 32, 5, FLOAT | 2 << 32, 0];
    let narrow_flat = [64_u32, 32, FLOAT as u32, 2];
    let narrow_deep = [64_u32, 32, 5, FLOAT as u32, 2, 0];
    for (create, descriptor) in [
        ("cuArrayCreate", at(&narrow_flat)),
        ("cuArrayCreate_v2", at(&flat)),
        ("cuArray3DCreate", at(&narrow_deep)),
        ("cuArray3DCreate_v2", at(&deep)),
    ] {
        let array = it.make(create, &[descriptor]);
        it.end("cuArrayDestroy", array, &[]);
    }
    let levels = it.make("cuMipmappedArrayCreate", &[at(&deep), 2]);
    it.end("cuMipmappedArrayDestroy", levels, &[]);
    let surface = [64_u64, 32, 0, FLOAT | 1 << 32, 2];
    let array = it.make("cuArray3DCreate_v2", &[at(&surface)]);
    let mut resource = [0_u64; 18];
    resource[1] = array;
    let sampling = [0_u64; 16];
    if array != 0 {
        let texture = it.make("cuTexObjectCreate", &[at(&resource), at(&sampling), 0]);
        it.end("cuTexObjectDestroy", texture, &[]);
        let surface = it.make("cuSurfObjectCreate", &[at(&resource)]);
        it.end("cuSurfObjectDestroy", surface, &[]);
    }
    it.end("cuArrayDestroy", array, &[]);
    let reference = it.make("cuTexRefCreate", &[]);
    it.end("cuTexRefDestroy", reference, &[]);
}

fn handles(it: &mut Driver) {
    for destroy in ["cuStreamDestroy", "cuStreamDestroy_v2"] {
        for (create, more) in [
            ("cuStreamCreate", &[1][..]),
            ("cuStreamCreateWithPriority", &[1, 0]),
        ] {
            let stream = it.make(create, more);
            it.end(destroy, stream, &[]);
        }
    }
    for destroy in ["cuEventDestroy", "cuEventDestroy_v2"] {
        let event = it.make("cuEventCreate", &[0]);
        it.end(destroy, event, &[]);
    }
    let file = std::env::temp_dir().join(format!("every-function-{}.ptx", std::process::id()));
    let text = KERNEL.strip_suffix(b"\0").unwrap_or(KERNEL);
    std::fs::write(&file, text).expect("a file");
    let path = CString::new(file.to_string_lossy().into_owned()).expect("a path");
    for (load, from) in [
        ("cuModuleLoad", at(path.as_c_str())),
        ("cuModuleLoadData", at(KERNEL)),
        ("cuModuleLoadDataEx", at(KERNEL)),
    ] {
        let module = it.make(load, &[from]);
        it.end("cuModuleUnload", module, &[]);
    }
    for (load, from) in [
        ("cuLibraryLoadData", at(KERNEL)),
        ("cuLibraryLoadFromFile", at(path.as_c_str())),
    ] {
        let library = it.make(load, &[from]);
        it.end("cuLibraryUnload", library, &[]);
    }
    let _ = std::fs::remove_file(file);
    for create in ["cuLinkCreate", "cuLinkCreate_v2"] {
        let link = answer();
        it.call(create, &[0, 0, 0, at(&*link)]);
        it.end("cuLinkDestroy", read(&link), &[]);
    }
}

/// `CUgraphNodeParams` of an allocation of 512 bytes on the first device, or of a free.
fn node(node_type: u64, address: u64) -> Box<[u64; 32]> {
    let mut node = Box::new([0; 32]);
    node[0] = node_type;
    match node_type {
        10 => (node[2], node[3], node[15]) = (1, 1, 512),
        _ => node[2] = address,
    }
    node
}

fn graphs(it: &mut Driver) {
    let graph = it.make("cuGraphCreate", &[0]);
    let clone = it.make("cuGraphClone", &[graph]);
    let parameters = Box::new([0_u64; 8]);
    for (instantiate, more) in [
        ("cuGraphInstantiate", 0),
        ("cuGraphInstantiate_v2", 0),
        ("cuGraphInstantiateWithFlags", 0),
        ("cuGraphInstantiateWithParams", at(&*parameters)),
        ("cuGraphInstantiateWithParams_ptsz", at(&*parameters)),
    ] {
        let exec = it.make(instantiate, &[graph, more]);
        it.end("cuGraphExecDestroy", exec, &[]);
    }
    extern "C" fn destructor(_data: *mut c_void) {}
    let end = (destructor as extern "C" fn(*mut c_void)) as usize as u64;
    let object = it.make("cuUserObjectCreate", &[0, end, 2, 1]);
    if object != 0 && graph != 0 {
        it.call("cuUserObjectRetain", &[object, 1]);
        it.call("cuGraphRetainUserObject", &[graph, object, 1, 0]);
        it.call("cuUserObjectRelease", &[object, 2]);
        it.call("cuGraphReleaseUserObject", &[graph, object, 1]);
        it.call("cuUserObjectRelease", &[object, 1]);
    }
    it.end("cuGraphDestroy", graph, &[]);
    it.end("cuGraphDestroy", clone, &[]);
    nodes(it);
    captures(it);
}

fn nodes(it: &mut Driver) {
    for (add, launch, edges) in [
        ("cuGraphAddMemAllocNode", "cuGraphLaunch", 0),
        ("cuGraphAddNode", "cuGraphLaunch_ptsz", 0),
        ("cuGraphAddNode_v2", "cuGraphLaunch", 1),
        ("cuGraphAddNode_v3", "cuGraphLaunch_ptsz", 1),
    ] {
        let (graph, freeing) = (
            it.make("cuGraphCreate", &[0]),
            it.make("cuGraphCreate", &[0]),
        );
        let (allocation, added) = (node(10, 0), answer());
        let mut arguments = vec![at(&*added), graph, 0, 0];
        arguments.extend(vec![0; edges]);
        let is_old = add == "cuGraphAddMemAllocNode";
        arguments.push(at(&*allocation) + if is_old { 16 } else { 0 });
        if it.call(add, &arguments) == 0 {
            let address = read(&allocation[16]);
            let free = node(11, address);
            arguments[1] = freeing;
            let last = arguments.len() - 1;
            arguments[last] = if is_old { address } else { at(&*free) };
            it.call(
                if is_old { "cuGraphAddMemFreeNode" } else { add },
                &arguments,
            );
            let takes = it.make("cuGraphInstantiateWithFlags", &[graph, 0]);
            let gives = it.make("cuGraphInstantiateWithFlags", &[freeing, 0]);
            it.end(launch, takes, &[0]);
            it.end(launch, gives, &[0]);
            it.call("cuCtxSynchronize", &[]);
            it.end("cuGraphExecDestroy", takes, &[]);
            it.end("cuGraphExecDestroy", gives, &[]);
        }
        it.end("cuGraphDestroy", graph, &[]);
        it.end("cuGraphDestroy", freeing, &[]);
    }
}

fn captures(it: &mut Driver) {
    let stream = it.make("cuStreamCreate", &[1]);
    for suffix in ["", "_ptsz"] {
        let captured = |it: &mut Driver, begin: &str, arguments: &[u64]| {
            if it.call(&format!("{begin}{suffix}"), arguments) != 0 {
                return 0;
            }
            let pointer = it.make(&format!("cuMemAllocAsync{suffix}"), &[64, stream]);
            it.end(&format!("cuMemFreeAsync{suffix}"), pointer, &[stream]);
            let graph = answer();
            it.call(
                &format!("cuStreamEndCapture{suffix}"),
                &[stream, at(&*graph)],
            );
            read(&graph)
        };
        let first = captured(it, "cuStreamBeginCapture", &[stream]);
        let second = captured(it, "cuStreamBeginCapture_v2", &[stream, RELAXED]);
        if second != 0 {
            let into = [stream, second, 0, 0, 0, RELAXED];
            captured(it, "cuStreamBeginCaptureToGraph", &into);
        }
        it.end("cuGraphDestroy", first, &[]);
        it.end("cuGraphDestroy", second, &[]);
    }
    it.end("cuStreamDestroy_v2", stream, &[]);
}

fn contexts(it: &mut Driver, primary: u64) {
    for (create, more) in [
        ("cuCtxCreate", &[0, 0][..]),
        ("cuCtxCreate_v2", &[0, 0]),
        ("cuCtxCreate_v3", &[0, 0, 0, 0]),
        ("cuCtxCreate_v4", &[0, 0, 0]),
    ] {
        for destroy in ["cuCtxDestroy", "cuCtxDestroy_v2", "cuCtxDetach"] {
            let context = it.make(create, more);
            it.make("cuStreamCreate", &[1]);
            if destroy == "cuCtxDetach" && context != 0 && it.make("cuCtxAttach", &[0]) != 0 {
                it.call(destroy, &[context]);
            }
            it.end(destroy, context, &[]);
            it.call("cuCtxSetCurrent", &[primary]);
        }
    }
    let resource = Box::new([0_u64; 64]);
    let description = answer();
    if it.call("cuDeviceGetDevResource", &[0, at(&*resource), 1]) == 0
        && it.call(
            "cuDevResourceGenerateDesc",
            &[at(&*description), at(&*resource), 1],
        ) == 0
    {
        let green = it.make("cuGreenCtxCreate", &[read(&description), 0, 1]);
        if green != 0 {
            let converted = it.make("cuCtxFromGreenCtx", &[green]);
            let stream = it.make("cuGreenCtxStreamCreate", &[green, 1, 0]);
            it.call("cuCtxSetCurrent", &[converted]);
            let pointer = it.make("cuMemAlloc_v2", &[4096]);
            it.end("cuMemFree_v2", pointer, &[]);
            it.end("cuStreamDestroy_v2", stream, &[]);
            it.call("cuCtxSetCurrent", &[primary]);
        }
        it.end("cuGreenCtxDestroy", green, &[]);
    }
    for release in ["cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2"] {
        it.make("cuDevicePrimaryCtxRetain", &[0]);
        it.call(release, &[0]);
    }
    for reset in ["cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2"] {
        let again = it.make("cuDevicePrimaryCtxRetain", &[0]);
        it.call("cuCtxSetCurrent", &[again]);
        it.make("cuMemAlloc_v2", &[64]);
        it.call(reset, &[0]);
    }
}
