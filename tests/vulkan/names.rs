//! A report contains the names that a program gives to its objects.

use ash::vk;
use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_vulkan_tests::{Gpu, gpu};

use super::{WORKS, found};

fn fence(gpu: &Gpu, name: &str) -> vk::Fence {
    let naming = ash::ext::debug_utils::Device::new(&gpu.instance, &gpu.device);
    let name = std::ffi::CString::new(name).expect("no zero byte");
    // SAFETY: the parameters live as long as the calls.
    unsafe {
        let fence = gpu.device.create_fence(&Default::default(), None);
        let fence = fence.expect(WORKS);
        let mut info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(fence);
        if !name.is_empty() {
            info = info.object_name(&name);
        }
        naming.set_debug_utils_object_name(&info).expect(WORKS);
        fence
    }
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn names_what_it_leaves() {
    for name in ["upload", "present", "upload", "copy", "résumé"] {
        fence(gpu(), name);
    }
}

#[test]
fn a_finding_has_the_names_of_its_objects_each_once() {
    let test = "names::names_what_it_leaves";
    if let Some(checked) = found(test, &[(Kind::Fence, 5, 0)]) {
        let notes = &checked.report().findings[0].notes;
        let names = r#"named "copy", "present", "résumé" and 1 other name"#;
        assert!(notes.iter().any(|note| note == names), "{notes:?}");
    }
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn destroys_what_it_has_named() {
    let named = fence(gpu(), "upload");
    // SAFETY: nothing uses the fence.
    unsafe { gpu().device.destroy_fence(named, None) };
    // lavapipe's handles are addresses, so the next fence very likely has the same one.
    fence(gpu(), "");
}

#[test]
fn a_reused_handle_does_not_have_the_name_of_the_earlier_object() {
    let test = "names::destroys_what_it_has_named";
    if let Some(checked) = found(test, &[(Kind::Fence, 1, 0)]) {
        let notes = &checked.report().findings[0].notes;
        let is_a_name = |note: &String| note.starts_with("named");
        assert!(!notes.iter().any(is_a_name), "{notes:?}");
    }
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn leaves_a_named_one_to_the_device() {
    let gpu = Gpu::open().expect(WORKS);
    fence(&gpu, "upload");
    gpu.close();
}

#[test]
fn an_object_freed_only_by_the_end_of_its_device_has_its_name() {
    let test = "names::leaves_a_named_one_to_the_device";
    if let Some(checked) = found(test, &[(Kind::Fence, 1, 0)]) {
        let notes = &checked.report().findings[0].notes;
        let is_it = |note: &String| note == r#"named "upload""#;
        assert!(notes.iter().any(is_it), "{notes:?}");
    }
}
