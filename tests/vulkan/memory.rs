//! Memory, and the buffers and images that are bound to it.

use ash::vk;
use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::CheckStatus;
use gpu_leak_vulkan_tests::{Gpu, gpu, run};

use super::{WORKS, found, is_clean};

pub(crate) fn unbound(gpu: &Gpu, bytes: u64) -> vk::Buffer {
    let info = vk::BufferCreateInfo::default()
        .size(bytes)
        .usage(vk::BufferUsageFlags::STORAGE_BUFFER);
    // SAFETY: the parameters live as long as the call.
    unsafe { gpu.device.create_buffer(&info, None) }.expect(WORKS)
}

/// Creates a buffer, and the memory that is bound to it.
pub(crate) fn buffer(gpu: &Gpu, bytes: u64) -> (vk::Buffer, vk::DeviceMemory) {
    let buffer = unbound(gpu, bytes);
    // SAFETY: the handles belong to this device.
    unsafe {
        let memory = gpu.allocate(gpu.device.get_buffer_memory_requirements(buffer));
        gpu.device
            .bind_buffer_memory(buffer, memory, 0)
            .expect(WORKS);
        (buffer, memory)
    }
}

/// Creates three buffers in one piece of memory, as an allocator does.
fn three_in_one(gpu: &Gpu) -> ([vk::Buffer; 3], vk::DeviceMemory) {
    let buffers = [4096, 8192, 16_384].map(|bytes| unbound(gpu, bytes));
    // SAFETY: the handles belong to this device; the buffers do not overlap.
    unsafe {
        let mut needs = gpu.device.get_buffer_memory_requirements(buffers[0]);
        needs.size = 1 << 20;
        let memory = gpu.allocate(needs);
        let mut bindings = Vec::new();
        for (buffer, offset) in buffers.into_iter().zip([0, 65_536, 131_072]) {
            bindings.push(
                vk::BindBufferMemoryInfo::default()
                    .buffer(buffer)
                    .memory(memory)
                    .memory_offset(offset),
            );
        }
        gpu.device.bind_buffer_memory2(&bindings).expect(WORKS);
        (buffers, memory)
    }
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn leaks_a_buffer() {
    buffer(gpu(), 65_536);
}

#[test]
fn a_leaked_buffer_with_its_memory_is_one_finding() {
    found("memory::leaks_a_buffer", &[(Kind::Buffer, 1, 65_536)]);
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn leaks_one_of_three() {
    let (buffers, _) = three_in_one(gpu());
    for buffer in &buffers[..2] {
        // SAFETY: nothing uses the buffer.
        unsafe { gpu().device.destroy_buffer(*buffer, None) };
    }
}

#[test]
fn a_leaked_buffer_is_judged_and_not_the_block_that_it_is_in() {
    found("memory::leaks_one_of_three", &[(Kind::Buffer, 1, 16_384)]);
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn leaks_the_empty_block() {
    let (buffers, _) = three_in_one(gpu());
    for buffer in buffers {
        // SAFETY: nothing uses the buffer.
        unsafe { gpu().device.destroy_buffer(buffer, None) };
    }
}

#[test]
fn unbound_memory_is_found_if_every_run_leaves_some() {
    found(
        "memory::leaks_the_empty_block",
        &[(Kind::Memory, 1, 1 << 20)],
    );
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn leaks_a_buffer_whose_memory_is_freed() {
    let (_, memory) = buffer(gpu(), 65_536);
    // SAFETY: nothing uses the memory any more, although a buffer is still bound to it.
    unsafe { gpu().device.free_memory(memory, None) };
}

#[test]
fn a_leaked_buffer_has_no_bytes_if_its_memory_has_been_freed() {
    found(
        "memory::leaks_a_buffer_whose_memory_is_freed",
        &[(Kind::Buffer, 1, 0)],
    );
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn hands_over_a_buffer() {
    use ash::vk::Handle;
    let (buffer, memory) = buffer(gpu(), 65_536);
    gpu_leak_check::hand_over(buffer.as_raw());
    gpu_leak_check::hand_over(memory.as_raw());
}

#[test]
fn an_object_can_be_handed_over() {
    is_clean("memory::hands_over_a_buffer");
}

/// The empty block that an allocator keeps for the next request.
static BLOCK: std::sync::OnceLock<vk::DeviceMemory> = std::sync::OnceLock::new();

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn uses_a_block_that_is_kept() {
    let buffer = unbound(gpu(), 4096);
    // SAFETY: the handles belong to this device; nothing else uses the memory.
    unsafe {
        let needs = gpu().device.get_buffer_memory_requirements(buffer);
        let memory = *BLOCK.get_or_init(|| gpu().allocate(needs));
        gpu()
            .device
            .bind_buffer_memory(buffer, memory, 0)
            .expect(WORKS);
        gpu().device.destroy_buffer(buffer, None);
    }
}

#[test]
fn a_block_that_the_next_run_uses_again_fails_nothing() {
    let Some(checked) = run("memory::uses_a_block_that_is_kept") else {
        return;
    };
    assert!(checked.child.status.success(), "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn frees_all() {
    let gpu = gpu();
    let (buffers, memory) = three_in_one(gpu);
    let (single, of_single) = buffer(gpu, 1000);
    // SAFETY: nothing uses the buffers, and null is allowed.
    unsafe {
        for buffer in buffers.into_iter().chain([single, vk::Buffer::null()]) {
            gpu.device.destroy_buffer(buffer, None);
        }
        for memory in [memory, of_single, vk::DeviceMemory::null()] {
            gpu.device.free_memory(memory, None);
        }
    }
}

#[test]
fn freed_memory_is_clean_and_null_may_be_freed() {
    is_clean("memory::frees_all");
}

/// A function with the path of one in cubecl's allocator, by which the harness recognises that
/// allocator in a stack.
mod cubecl_runtime {
    pub(super) mod memory_management {
        #[inline(never)]
        pub(crate) fn reserve() {
            super::super::buffer(super::super::gpu(), 1 << 20);
        }
    }
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn takes_a_page_through_cubecl() {
    cubecl_runtime::memory_management::reserve();
}

/// The test allocates like burn's backends on wgpu, where a page is a buffer.
#[test]
fn a_buffer_of_a_known_allocator_is_inconclusive_without_a_probe() {
    let Some(checked) = run("memory::takes_a_page_through_cubecl") else {
        return;
    };
    let (report, output) = (checked.report(), checked.output());
    assert_eq!(report.status, CheckStatus::Inconclusive, "{output}");
    assert!(report.findings.is_empty(), "{output}");
    let reason = report.reason.as_ref().expect("a reason");
    assert!(reason.what.contains("memory that cubecl"), "{output}");
}
