//! Resources of another process or API that this process opens. Where the driver lets a process
//! import its own exports, no second process is used.

use std::ffi::{c_char, c_int, c_void};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::process::{Command, Stdio};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::result::stream;
use cudarc::driver::sys;

use super::memory::{free_async, pool_properties};
use super::virtual_memory::{self, SIZE};
use super::{Pointer, done, made, refusal};

const BYTES: usize = SIZE as usize;
const DESCRIPTOR: sys::CUmemAllocationHandleType =
    sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// The handle of memory that another process of this program holds until this process ends.
fn foreign_handle() -> sys::CUipcMemHandle {
    static HANDLE: OnceLock<[u8; 64]> = OnceLock::new();
    let bytes = *HANDLE.get_or_init(|| {
        let mut exporter = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "kinds::planted::imported::exports_memory"])
            .args(["--include-ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a second process");
        let mut lines = BufReader::new(exporter.stdout.take().expect("a pipe")).lines();
        let mut printed = lines.by_ref().map_while(Result::ok);
        let handle = printed.find_map(|line| Some(line.split_once(MARK)?.1.to_owned()));
        // The exporter ends when its standard input is closed, at the end of this process.
        std::mem::forget((exporter, lines));
        let handle = handle.expect("the exporter prints a handle");
        let byte = |digits: &str| u8::from_str_radix(digits, 16).expect("hexadecimal digits");
        std::array::from_fn(|at| byte(&handle[2 * at..][..2]))
    });
    sys::CUipcMemHandle {
        // Whether a `c_char` is signed depends on the platform.
        reserved: bytes.map(|byte| c_char::from_ne_bytes([byte])),
    }
}

/// The prefix of the handle in the exporter's output.
const MARK: &str = "handle: ";

#[test]
#[ignore = "the process from which another one imports"]
fn exports_memory() {
    super::context();
    // SAFETY: a context is current, and the call writes the handle to a local variable.
    let handle: sys::CUipcMemHandle = unsafe {
        let memory = made(|out| sys::cuMemAlloc_v2(out, BYTES));
        made(|out| sys::cuIpcGetMemHandle(out, memory))
    };
    let digits = handle.reserved.iter().map(|byte| format!("{byte:02x}"));
    let digits: String = digits.collect();
    let mut out = std::io::stdout();
    writeln!(out, "{MARK}{digits}")
        .and_then(|()| out.flush())
        .expect("standard output is open");
    let _ = std::io::stdin().read(&mut [0]);
}

/// Opens the memory. While it is open, a further call returns the same address.
pub(crate) fn opened() -> Pointer {
    let handle = foreign_handle();
    let lazy = sys::CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
    // SAFETY: the handle belongs to another process, which is alive.
    unsafe { made(|out| sys::cuIpcOpenMemHandle_v2(out, handle, lazy)) } // leak: ipc_memory
}

pub(crate) fn close(pointer: Pointer) {
    // SAFETY: the caller opened the memory and no longer uses it.
    done(unsafe { sys::cuIpcCloseMemHandle(pointer) });
}

/// Starts the process that exports memory.
pub(crate) fn start_exporter() {
    foreign_handle();
}

/// Returns a file descriptor for physical memory that nothing else holds.
fn exported() -> c_int {
    let mut properties = virtual_memory::properties();
    properties.requestedHandleTypes = DESCRIPTOR;
    let mut descriptor: c_int = -1;
    // SAFETY: the call only reads the properties.
    let handle = unsafe { made(|out| sys::cuMemCreate(out, BYTES, &raw const properties, 0)) };
    let out = (&raw mut descriptor).cast();
    // SAFETY: for this type of handle, the call writes an integer.
    done(unsafe { sys::cuMemExportToShareableHandle(out, handle, DESCRIPTOR, 0) });
    virtual_memory::release(handle);
    descriptor
}

pub(crate) fn physical() -> virtual_memory::Handle {
    // SAFETY: the descriptor is new, and nothing else owns it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(exported()) };
    let handle = as_handle(&descriptor);
    // SAFETY: the handle is the descriptor itself.
    unsafe { made(|out| sys::cuMemImportFromShareableHandle(out, handle, DESCRIPTOR)) } // leak: physical_imported
}

/// Returns a descriptor as the pointer that the driver expects.
fn as_handle(descriptor: &OwnedFd) -> *mut c_void {
    ptr::without_provenance_mut(descriptor.as_raw_fd() as usize)
}

pub(crate) fn external_memory() -> sys::CUexternalMemory {
    let mut from = MaybeUninit::<sys::CUDA_EXTERNAL_MEMORY_HANDLE_DESC>::zeroed();
    // SAFETY: all fields for which zero is invalid are written; the import now owns the descriptor.
    let from = unsafe {
        let parts = from.as_mut_ptr();
        (&raw mut (*parts).type_)
            .write(sys::CUexternalMemoryHandleType::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD);
        (*parts).handle.fd = exported();
        (*parts).size = SIZE;
        from.assume_init()
    };
    // SAFETY: the call only reads the description.
    unsafe { made(|out| sys::cuImportExternalMemory(out, &raw const from)) } // leak: external_memory
}

pub(crate) fn destroy_external_memory(memory: sys::CUexternalMemory) {
    // SAFETY: the caller created the memory object and no longer uses it.
    done(unsafe { sys::cuDestroyExternalMemory(memory) });
}

/// Maps imported memory and destroys the import, so that only the buffer stays.
pub(crate) fn mapped_buffer() -> Pointer {
    let memory = external_memory();
    let mut part = MaybeUninit::<sys::CUDA_EXTERNAL_MEMORY_BUFFER_DESC>::zeroed();
    // SAFETY: zero is a valid value of every field.
    let part = unsafe {
        (*part.as_mut_ptr()).size = 70_000;
        part.assume_init()
    };
    // SAFETY: the call only reads the description.
    let buffer =
        unsafe { made(|out| sys::cuExternalMemoryGetMappedBuffer(out, memory, &raw const part)) }; // leak: mapped_buffer
    destroy_external_memory(memory);
    buffer
}

/// Returns why memory that this process exported cannot be imported here as another API's memory.
pub(crate) fn no_external_memory() -> Option<String> {
    refusal("cuImportExternalMemory", || {
        destroy_external_memory(external_memory())
    })
}

pub(crate) fn external_semaphore() -> sys::CUexternalSemaphore {
    let mut from = MaybeUninit::<sys::CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC>::zeroed();
    // SAFETY: all fields for which zero is invalid are written.
    let from = unsafe {
        let parts = from.as_mut_ptr();
        (&raw mut (*parts).type_)
            .write(sys::CUexternalSemaphoreHandleType::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD);
        (*parts).handle.fd = 0;
        from.assume_init()
    };
    // SAFETY: the call only reads the description.
    unsafe { made(|out| sys::cuImportExternalSemaphore(out, &raw const from)) } // leak: external_semaphore
}

pub(crate) fn destroy_external_semaphore(semaphore: sys::CUexternalSemaphore) {
    // SAFETY: the caller created the semaphore and no longer uses it.
    done(unsafe { sys::cuDestroyExternalSemaphore(semaphore) });
}

/// Returns why no semaphore can be imported here: a real driver imports only semaphores of another
/// API, such as Vulkan.
pub(crate) fn no_semaphore() -> Option<String> {
    refusal("cuImportExternalSemaphore of nobody's semaphore", || {
        destroy_external_semaphore(external_semaphore());
    })
}

/// Returns 0 and 1 in turn, because the driver returns an existing import a second time.
fn next() -> usize {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    CALLS.fetch_add(1, Ordering::Relaxed) % 2
}

/// Returns one of two pools that can be imported. Both are created once and kept.
fn exportable_pool(which: usize) -> sys::CUmemoryPool {
    static POOLS: OnceLock<[usize; 2]> = OnceLock::new();
    let pools = POOLS.get_or_init(|| {
        [(); 2].map(|()| {
            let mut properties = pool_properties();
            properties.handleTypes = DESCRIPTOR;
            // SAFETY: the call only reads the properties.
            let pool: sys::CUmemoryPool =
                unsafe { made(|out| sys::cuMemPoolCreate(out, &raw const properties)) };
            pool.expose_provenance()
        })
    });
    ptr::with_exposed_provenance_mut(pools[which])
}

pub(crate) fn imported_pool() -> sys::CUmemoryPool {
    import_pool(exportable_pool(next()))
}

fn import_pool(pool: sys::CUmemoryPool) -> sys::CUmemoryPool {
    let mut descriptor: c_int = -1;
    let out = (&raw mut descriptor).cast();
    // SAFETY: for this type of handle, the call writes an integer.
    done(unsafe { sys::cuMemPoolExportToShareableHandle(out, pool, DESCRIPTOR, 0) });
    // SAFETY: the descriptor is new, and nothing else owns it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let handle = as_handle(&descriptor);
    // SAFETY: the handle is the descriptor itself.
    unsafe { made(|out| sys::cuMemPoolImportFromShareableHandle(out, handle, DESCRIPTOR, 0)) } // leak: imported_pool
}

/// Returns why this process cannot import its own pool.
pub(crate) fn no_pool_import() -> Option<String> {
    refusal("cuMemPoolImportFromShareableHandle", || {
        super::memory::destroy_pool(imported_pool());
    })
}

/// Returns an imported pool, which is created once and kept.
fn shared_import() -> sys::CUmemoryPool {
    static POOL: OnceLock<usize> = OnceLock::new();
    let pool = *POOL.get_or_init(|| import_pool(exportable_pool(0)).expose_provenance());
    ptr::with_exposed_provenance_mut(pool)
}

/// Returns the exported data of one of two allocations. Both are created once and kept.
fn exported_pointer() -> sys::CUmemPoolPtrExportData {
    static DATA: OnceLock<[[u8; 64]; 2]> = OnceLock::new();
    let data = DATA.get_or_init(|| {
        let pool = exportable_pool(0);
        [(); 2].map(|()| {
            // SAFETY: the pool is never destroyed, and the memory is never freed.
            let data: sys::CUmemPoolPtrExportData = unsafe {
                let memory =
                    made(|out| sys::cuMemAllocFromPoolAsync(out, 9000, pool, stream::null()));
                made(|out| sys::cuMemPoolExportPointer(out, memory))
            };
            data.reserved
        })
    });
    sys::CUmemPoolPtrExportData {
        reserved: data[next()],
    }
}

pub(crate) fn imported_pointer() -> Pointer {
    let (pool, mut data) = (shared_import(), exported_pointer());
    // SAFETY: the call only reads the data.
    unsafe { made(|out| sys::cuMemPoolImportPointer(out, pool, &mut data)) } // leak: imported_pointer
}

/// Returns why this process cannot import memory from its own pool.
pub(crate) fn no_pointer_import() -> Option<String> {
    no_pool_import()
        .or_else(|| refusal("cuMemPoolImportPointer", || free_async(imported_pointer())))
}
