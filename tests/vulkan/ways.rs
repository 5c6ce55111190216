//! The ways to reach Vulkan's functions. Whatever is between a program and the driver, each object
//! counts once.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use ash::vk;
use ash::vk::Handle as _;
use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_tests::{child, skipped};
use gpu_leak_vulkan_tests::{Gpu, gpu, is_present};
use libloading::Library;

use super::{WORKS, found, found_with, memory};

const BUFFER: (Kind, u64, u64) = (Kind::Buffer, 1, 65_536);

#[test]
fn a_buffer_counts_once_without_any_layer() {
    let variables = [("NODEVICE_SELECT", "1")];
    found_with("memory::leaks_a_buffer", &[BUFFER], &variables);
}

#[test]
fn a_buffer_counts_once_under_the_validation_layer() {
    let variables = [("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation")];
    found_with("memory::leaks_a_buffer", &[BUFFER], &variables);
}

#[test]
fn a_buffer_counts_once_under_two_layers() {
    let layers = "VK_LAYER_KHRONOS_validation:VK_LAYER_MESA_overlay";
    let variables = [("VK_INSTANCE_LAYERS", layers)];
    found_with("memory::leaks_a_buffer", &[BUFFER], &variables);
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn leaks_a_buffer_under_renderdoc() {
    memory::buffer(gpu(), 65_536);
    let mapped = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
    assert!(mapped.contains("librenderdoc"), "the layer is loaded");
}

#[test]
fn a_buffer_counts_once_under_renderdoc() {
    const LAYER: &str = "/usr/share/vulkan/implicit_layer.d/renderdoc_capture.json";
    if Path::new(LAYER).exists() {
        let variables = [("ENABLE_VULKAN_RENDERDOC_CAPTURE", "1")];
        found_with(
            "ways::leaks_a_buffer_under_renderdoc",
            &[BUFFER],
            &variables,
        );
    } else {
        skipped(&format!(
            "there is no {LAYER}; scripts/lavapipe installs it"
        ));
    }
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn uses_functions_of_the_instance() {
    let gpu = gpu();
    // SAFETY: the function has this type, and the handles are valid.
    unsafe {
        let get = gpu.entry.static_fn().get_instance_proc_addr;
        let found = get(gpu.instance.handle(), c"vkCreateFence".as_ptr()).expect(WORKS);
        let create =
            std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkCreateFence>(found);
        let info = vk::FenceCreateInfo::default();
        let mut fence = vk::Fence::null();
        create(gpu.device.handle(), &info, std::ptr::null(), &mut fence)
            .result()
            .expect(WORKS);
        // The loader's function destroys an object that the device's own function has created, and
        // the other way round.
        let other = gpu.device.create_fence(&info, None).expect(WORKS);
        let found = get(gpu.instance.handle(), c"vkDestroyFence".as_ptr()).expect(WORKS);
        let destroy =
            std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkDestroyFence>(found);
        destroy(gpu.device.handle(), other, std::ptr::null());
    }
}

#[test]
fn functions_of_the_loader_and_of_the_device_are_told_apart() {
    found(
        "ways::uses_functions_of_the_instance",
        &[(Kind::Fence, 1, 0)],
    );
}

/// Returns the drivers that the loader has opened.
fn drivers() -> Vec<String> {
    let mapped = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
    let files = mapped
        .lines()
        .filter_map(|line| line.split(' ').next_back());
    let mut libraries: Vec<_> = files.filter(|file| file.contains(".so")).collect();
    libraries.dedup();
    let is_driver = |file: &&&str| {
        // SAFETY: the library is already loaded, so this runs no constructors.
        let library = unsafe { Library::new(**file) }.expect("it is loaded");
        // SAFETY: the function is not called.
        unsafe { library.get::<fn()>(c"vk_icdGetInstanceProcAddr".to_bytes_with_nul()) }.is_ok()
    };
    let drivers = libraries.iter().filter(is_driver);
    drivers.map(|file| (*file).to_owned()).collect()
}

#[test]
#[ignore = "run in a process of its own"]
fn child_that_opens_a_device_twice() {
    let gpu = Gpu::open().expect(WORKS);
    let opened = drivers();
    assert!(!opened.is_empty());
    gpu.close();
    assert_eq!(drivers(), opened);
    std::mem::forget(Gpu::open().expect(WORKS));
}

/// NVIDIA's driver has several libraries. If only some of them were unloaded and loaded again, they
/// would free memory at exit that is not allocated.
#[test]
fn a_driver_of_several_libraries_stays_whole_when_a_device_is_opened_again() {
    if is_present() {
        let child = child::run("ways::child_that_opens_a_device_twice");
        assert!(child.status.success(), "{}", child.stderr);
    }
}

/// A library that is linked to the loader.
static LINKED: Mutex<Option<Library>> = Mutex::new(None);

const SOURCE: &str = "
#include <stdint.h>
int vkCreateFence(void *, const void *, const void *, uint64_t *);
int create_fence(void *device) {
    struct { uint32_t type; const void *next; uint32_t flags; } info = { 8, 0, 0 };
    uint64_t fence = 0;
    return vkCreateFence(device, &info, 0, &fence);
}
";

#[test]
#[ignore = "run in a process of its own"]
fn child_with_a_linked_library() {
    let path = std::env::var("LINKED").expect("the parent has compiled it");
    gpu();
    // SAFETY: the library's constructors do nothing.
    let library = unsafe { Library::new(path) }.expect("it can be loaded");
    *LINKED.lock().expect("no panic") = Some(library);
    uses_the_linked_library();
}

#[gpu_leak_check]
#[ignore = "run by a test that sets it up"]
#[test]
fn uses_the_linked_library() {
    let library = LINKED.lock().expect("no panic");
    let library = library.as_ref().expect("it is loaded");
    // SAFETY: the function has this type.
    unsafe {
        let create =
            library.get::<unsafe extern "C" fn(u64) -> i32>(c"create_fence".to_bytes_with_nul());
        assert_eq!(create.expect(WORKS)(gpu().device.handle().as_raw()), 0);
    }
}

#[test]
fn a_library_that_is_linked_to_the_loader_is_heard() {
    if !is_present() {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, library) = (folder.join("linked.c"), folder.join("liblinked.so"));
    std::fs::write(&source, SOURCE).expect("a writable folder");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-g", "-o"])
        .args([&library, &source])
        .arg("-l:libvulkan.so.1")
        .status();
    assert!(compiled.is_ok_and(|status| status.success()), "cc works");
    let path = library.to_str().expect("UTF-8");
    found_with(
        "ways::child_with_a_linked_library",
        &[(Kind::Fence, 1, 0)],
        &[("LINKED", path)],
    );
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn leaks_on_sixteen_threads() {
    let gpu = gpu();
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                // SAFETY: each thread uses only the objects that it has created.
                unsafe {
                    for _ in 0..1000 {
                        let fence = gpu.device.create_fence(&Default::default(), None);
                        gpu.device.destroy_fence(fence.expect(WORKS), None);
                    }
                    let event = gpu.device.create_event(&Default::default(), None);
                    event.expect(WORKS);
                }
            });
        }
    });
}

#[test]
fn sixteen_threads_at_once_are_counted_exactly() {
    found("ways::leaks_on_sixteen_threads", &[(Kind::Event, 16, 0)]);
}
