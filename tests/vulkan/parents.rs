//! Objects that end with their pool, device or instance, and calls that create only some of the
//! objects that were requested.

use ash::vk;
use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_vulkan_tests::{Gpu, gpu, is_present};

use super::memory::buffer;
use super::objects::{command_pool, compute, descriptor_pool, shared};
use super::{WORKS, found, is_clean};

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn leaves_it_to_the_pools() {
    let device = &gpu().device;
    let layouts = [shared().set_layout; 3];
    let sets = descriptor_pool::create(gpu());
    let commands = command_pool::create(gpu());
    let info = vk::DescriptorSetAllocateInfo::default()
        .descriptor_pool(sets)
        .set_layouts(&layouts);
    let buffers = vk::CommandBufferAllocateInfo::default()
        .command_pool(commands)
        .command_buffer_count(5);
    // SAFETY: nothing uses the descriptor sets or the command buffers.
    unsafe {
        device.allocate_descriptor_sets(&info).expect(WORKS);
        device
            .reset_descriptor_pool(sets, Default::default())
            .expect(WORKS);
        device.allocate_descriptor_sets(&info).expect(WORKS);
        device.destroy_descriptor_pool(sets, None);
        device.allocate_command_buffers(&buffers).expect(WORKS);
        device.destroy_command_pool(commands, None);
    }
}

#[test]
fn objects_that_end_with_their_pool_are_clean() {
    is_clean("parents::leaves_it_to_the_pools");
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn leaves_it_to_the_device() {
    let gpu = Gpu::open().expect(WORKS);
    // SAFETY: this violates Vulkan's rules, as some programs do: the device ends before its
    // objects.
    unsafe {
        gpu.device
            .create_fence(&Default::default(), None)
            .expect(WORKS);
    }
    gpu.close();
}

#[test]
fn objects_freed_only_by_the_end_of_their_device_are_found_and_marked() {
    let Some(checked) = found("parents::leaves_it_to_the_device", &[(Kind::Fence, 1, 0)]) else {
        return;
    };
    let ended = checked.report().findings[0].ended.as_ref();
    let ended = ended.map(|ended| ended.how.as_str());
    assert_eq!(ended, Some("not destroyed before its device was destroyed"));
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn leaves_a_buffer_without_its_memory_to_the_device() {
    let gpu = Gpu::open().expect(WORKS);
    let (_, memory) = buffer(&gpu, 65_536);
    // SAFETY: nothing uses the memory any more, although a buffer is still bound to it.
    unsafe { gpu.device.free_memory(memory, None) };
    gpu.close();
}

#[test]
fn an_object_that_ends_with_its_device_after_its_memory_has_no_bytes() {
    let test = "parents::leaves_a_buffer_without_its_memory_to_the_device";
    found(test, &[(Kind::Buffer, 1, 0)]);
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn leaves_it_to_the_instance() {
    let gpu = Gpu::open().expect(WORKS);
    let ext = ash::ext::debug_utils::Instance::new(&gpu.entry, &gpu.instance);
    let info = vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR)
        .message_type(vk::DebugUtilsMessageTypeFlagsEXT::GENERAL)
        .pfn_user_callback(Some(super::objects::silent));
    // SAFETY: the parameters live as long as the call.
    unsafe { ext.create_debug_utils_messenger(&info, None) }.expect(WORKS);
    gpu.close();
}

#[test]
fn objects_freed_only_by_the_end_of_their_instance_are_found_and_marked() {
    let leaked = [(Kind::Messenger, 1, 0)];
    let Some(checked) = found("parents::leaves_it_to_the_instance", &leaked) else {
        return;
    };
    let ended = checked.report().findings[0].ended.as_ref();
    let ended = ended.map(|ended| ended.how.as_str());
    assert_eq!(
        ended,
        Some("not destroyed before its instance was destroyed")
    );
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn opens_and_closes_a_device() {
    Gpu::open().expect(WORKS).close();
}

#[test]
fn a_device_that_is_opened_and_closed_is_clean() {
    is_clean("parents::opens_and_closes_a_device");
}

/// Creates two pipelines and asks the driver to refuse the second. Mesa's driver refuses it,
/// NVIDIA's does not.
fn half(gpu: &Gpu) -> Vec<vk::Pipeline> {
    let whole = compute(shared().module);
    let refused = vk::ComputePipelineCreateInfo {
        flags: vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED,
        ..whole
    };
    let infos = [whole, refused];
    // SAFETY: the parameters live as long as the call.
    let made = unsafe {
        gpu.device
            .create_compute_pipelines(vk::PipelineCache::null(), &infos, None)
    };
    match made {
        Ok(all) => all,
        Err((some, _)) => some,
    }
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn leaks_what_a_failed_call_created() {
    half(gpu());
}

#[test]
fn objects_that_a_failed_call_created_nevertheless_are_found() {
    if !is_present() {
        return;
    }
    let made = half(gpu());
    let created = made.iter().filter(|made| **made != vk::Pipeline::null());
    let created = created.count() as u64;
    for pipeline in made {
        // SAFETY: nothing uses the pipeline, and null is allowed.
        unsafe { gpu().device.destroy_pipeline(pipeline, None) };
    }
    found(
        "parents::leaks_what_a_failed_call_created",
        &[(Kind::Pipeline, created, 0)],
    );
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn destroys_what_a_failed_call_created() {
    for pipeline in half(gpu()) {
        // SAFETY: nothing uses the pipeline, and null is allowed.
        unsafe { gpu().device.destroy_pipeline(pipeline, None) };
    }
}

#[test]
fn objects_that_a_failed_call_created_can_be_destroyed() {
    is_clean("parents::destroys_what_a_failed_call_created");
}
