//! Leaks of real programs that use Vulkan. Each is reproduced in a few lines and named after its
//! report. The same code with the mistake corrected is next to it.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::{iter, mem};

use ash::vk;
use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::{Finding, HolderKind};
use gpu_leak_tests::checked::Checked;
use gpu_leak_vulkan_tests::{Gpu, gpu, is_present};

use super::{WORKS, found_with, is_clean};

/// An expected finding: its kind, count, bytes and line.
type Expected = (Kind, u64, u64, Code);

/// A file, and the beginning of a line in it.
type Code = (&'static str, &'static str);

const THIS: &str = "tests/vulkan/cases.rs";
const SUPPORT: &str = "tests/vulkan/support/lib.rs";

/// Runs a test that leaks. Fails unless its check found exactly the expected leaks, at these lines.
#[track_caller]
fn found_at(test: &str, expected: &[Expected]) -> Option<Checked> {
    let amounts: Vec<_> = expected
        .iter()
        .map(|&(kind, count, bytes, _)| (kind, count, bytes))
        .collect();
    // Gives the search for holders enough time on any machine.
    let variables = [("GPU_LEAK_CHECK_HELD_BY", "600s")];
    let checked = found_with(test, &amounts, &variables)?;
    for (finding, (_, _, _, code)) in checked.report().findings.iter().zip(expected) {
        assert_eq!(place(finding), line_of(*code), "{}", checked.output());
    }
    Some(checked)
}

/// Returns the file and the line of a finding.
fn place(finding: &Finding) -> (&str, u32) {
    let user = &finding.site.frames[finding.site.user.expect("a line of the user's")];
    let file = user.file.as_deref().expect("a file");
    (file, user.line.expect("a line"))
}

/// Returns the only line of a file that begins with this code.
fn line_of((file, code): Code) -> (&'static str, u32) {
    let text = match file {
        THIS => include_str!("cases.rs"),
        _ => include_str!("support/lib.rs"),
    };
    let mut lines = iter::zip(1.., text.lines()).filter(|(_, line)| line.trim().starts_with(code));
    let (line, _) = lines.next().expect("the code");
    assert_eq!(lines.next(), None, "the code is there once");
    (file, line)
}

/// Fails unless each finding says that its resource ended in this way.
#[track_caller]
fn assert_ended(checked: &Checked, how: &str) {
    for finding in &checked.report().findings {
        let ended = finding.ended.as_ref().map(|ended| ended.how.as_str());
        assert_eq!(ended, Some(how), "{}", checked.output());
    }
}

/// Whether a program has the mistake of its report.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Program {
    AsReported,
    Corrected,
}

/// A block of memory, whose ranges an allocator hands out.
struct Block {
    memory: vk::DeviceMemory,
    /// The free ranges, by address.
    free: Vec<Range<u64>>,
    program: Program,
}

const BLOCK: u64 = 1 << 20;

impl Block {
    fn new(gpu: &Gpu, program: Program) -> Self {
        let info = vk::MemoryAllocateInfo::default().allocation_size(BLOCK);
        // SAFETY: the parameters live as long as the call.
        let memory = unsafe { gpu.device.allocate_memory(&info, None) }.expect(WORKS);
        let free = iter::once(0..BLOCK).collect();
        Self {
            memory,
            free,
            program,
        }
    }

    fn allocate(&mut self, bytes: u64) -> Range<u64> {
        let free = self.free.last_mut().expect("enough memory");
        let range = free.start..free.start + bytes;
        free.start = range.end;
        range
    }

    /// Joins a range with the free ranges next to it. With the mistake, it does not join the last
    /// range.
    fn deallocate(&mut self, range: Range<u64>) {
        self.free.push(range);
        self.free.sort_by_key(|free| free.start);
        for next in mem::take(&mut self.free) {
            let joins = self.program == Program::Corrected || next.end != BLOCK;
            match self.free.last_mut() {
                Some(last) if joins && last.end == next.start => last.end = next.end,
                _ => self.free.push(next),
            }
        }
    }

    /// Frees the memory if none of its ranges is in use.
    fn clean_up(self, gpu: &Gpu) {
        if let [_] = self.free[..] {
            // SAFETY: nothing uses the memory.
            unsafe { gpu.device.free_memory(self.memory, None) };
        }
    }
}

fn uses_an_allocator(program: Program) {
    let gpu = Gpu::open().expect(WORKS);
    let mut block = Block::new(&gpu, program);
    let ranges = [block.allocate(4096), block.allocate(65_536)];
    for range in ranges {
        block.deallocate(range);
    }
    block.clean_up(&gpu);
    gpu.close();
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn drops_an_allocator_with_a_block() {
    uses_an_allocator(Program::AsReported);
}

/// An allocator did not join the last free range of a block with the others. The block was
/// therefore never free as a whole, and the device was destroyed before the block's memory was
/// freed. <https://github.com/gfx-rs/wgpu/issues/1404>,
/// <https://github.com/zakarumych/gpu-alloc/issues/48>
#[test]
fn wgpu_1404_a_block_that_its_allocator_takes_for_used() {
    let code = (THIS, "let memory = unsafe { gpu.device.allocate_memory(");
    let expected = [(Kind::Memory, 1, BLOCK, code)];
    if let Some(checked) = found_at("cases::drops_an_allocator_with_a_block", &expected) {
        assert_ended(&checked, "not destroyed before its device was destroyed");
    }
}

#[gpu_leak_check(rounds = 4)]
#[ignore = "run in a process of its own"]
#[test]
fn drops_an_allocator_that_joins_all_ranges() {
    uses_an_allocator(Program::Corrected);
}

#[test]
fn wgpu_1404_corrected() {
    is_clean("cases::drops_an_allocator_that_joins_all_ranges");
}

/// The side length of a square texture with four bytes for each texel.
const SIDE: u32 = 64;
const TEXTURE: u64 = 4 * SIDE as u64 * SIDE as u64;

/// A buffer in which texels wait to be copied to a texture.
struct StagingBuffer {
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
}

impl StagingBuffer {
    fn new(gpu: &Gpu) -> Self {
        let info = vk::BufferCreateInfo::default()
            .size(TEXTURE)
            .usage(vk::BufferUsageFlags::TRANSFER_SRC);
        // SAFETY: the handles belong to this device; the parameters live as long as the calls.
        unsafe {
            let buffer = gpu.device.create_buffer(&info, None).expect(WORKS);
            let memory = gpu.allocate(gpu.device.get_buffer_memory_requirements(buffer));
            let bound = gpu.device.bind_buffer_memory(buffer, memory, 0);
            bound.expect(WORKS);
            Self { buffer, memory }
        }
    }

    fn free(self, gpu: &Gpu) {
        // SAFETY: nothing uses the buffer or its memory.
        unsafe {
            gpu.device.destroy_buffer(self.buffer, None);
            gpu.device.free_memory(self.memory, None);
        }
    }
}

struct OutOfBounds;

fn check_bounds(origin: u32) -> Result<(), OutOfBounds> {
    match origin + SIDE <= SIDE {
        true => Ok(()),
        false => Err(OutOfBounds),
    }
}

/// Writes the texels of a whole texture, beginning at `origin`. The copy itself is omitted.
fn write_texture(gpu: &Gpu, origin: u32, program: Program) -> Result<(), OutOfBounds> {
    if program == Program::Corrected {
        check_bounds(origin)?;
    }
    let staging = StagingBuffer::new(gpu);
    check_bounds(origin)?;
    staging.free(gpu);
    Ok(())
}

fn writes_textures(program: Program) {
    let origins = [0, 1];
    let written = origins.map(|origin| write_texture(gpu(), origin, program).is_ok());
    assert_eq!(written, [true, false], "the second is out of bounds");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn fails_after_creating_a_staging_buffer() {
    writes_textures(Program::AsReported);
}

/// `write_texture` created its staging buffer before it checked the bounds of the copy, and
/// returned the error without freeing the buffer.
/// <https://github.com/gfx-rs/wgpu/pull/2961>
#[test]
fn wgpu_2961_a_staging_buffer_on_an_error_path() {
    let code = (THIS, "let buffer = gpu.device.create_buffer(&info, None)");
    let expected = [(Kind::Buffer, 1, TEXTURE, code)];
    let test = "cases::fails_after_creating_a_staging_buffer";
    let Some(checked) = found_at(test, &expected) else {
        return;
    };
    // The write within the bounds freed its own buffer.
    let finding = &checked.report().findings[0];
    let amounts = (finding.allocated, finding.freed);
    assert_eq!(amounts, (2, 1), "{}", checked.output());
}

#[gpu_leak_check(rounds = 4)]
#[ignore = "run in a process of its own"]
#[test]
fn fails_before_creating_a_staging_buffer() {
    writes_textures(Program::Corrected);
}

#[test]
fn wgpu_2961_corrected() {
    is_clean("cases::fails_before_creating_a_staging_buffer");
}

/// A device with a pool of command buffers. An `Arc` counts its users.
struct SharedDevice {
    device: ash::Device,
    pool: vk::CommandPool,
}

impl SharedDevice {
    fn open(instance: &ash::Instance, physical: vk::PhysicalDevice) -> Arc<Self> {
        let (device, _) = gpu_leak_vulkan_tests::device(instance, physical);
        // SAFETY: the parameters live as long as the call.
        let pool = unsafe { device.create_command_pool(&Default::default(), None) };
        let pool = pool.expect(WORKS);
        Arc::new(Self { device, pool })
    }
}

impl Drop for SharedDevice {
    fn drop(&mut self) {
        // SAFETY: only the pool is left on the device.
        unsafe {
            self.device.destroy_command_pool(self.pool, None);
            self.device.destroy_device(None);
        }
    }
}

/// A command buffer, which keeps its device alive.
struct CommandBuffer {
    handle: vk::CommandBuffer,
    of: Arc<SharedDevice>,
}

impl CommandBuffer {
    fn new(of: &Arc<SharedDevice>) -> Arc<Self> {
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(of.pool)
            .command_buffer_count(1);
        // SAFETY: the parameters live as long as the call.
        let made = unsafe { of.device.allocate_command_buffers(&info) };
        let handle = made.expect(WORKS)[0];
        let of = of.clone();
        Arc::new(Self { handle, of })
    }
}

impl Drop for CommandBuffer {
    fn drop(&mut self) {
        // SAFETY: the command buffer was never submitted.
        unsafe {
            self.of
                .device
                .free_command_buffers(self.of.pool, &[self.handle]);
        }
    }
}

/// Runs a module on a separate device, and releases that device.
fn runs_a_module(instance: &ash::Instance, physical: vk::PhysicalDevice, program: Program) {
    let device = SharedDevice::open(instance, physical);
    let commands = CommandBuffer::new(&device);
    let of_the_submission = commands.clone();
    match program {
        // Nothing releases this reference.
        Program::AsReported => mem::forget(of_the_submission),
        Program::Corrected => drop(of_the_submission),
    }
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaves_a_command_buffer() {
    runs_a_module(&gpu().instance, gpu().physical, Program::AsReported);
}

/// At the end of a program, a command buffer was still alive. Because a command buffer keeps its
/// device, the device was alive too. <https://github.com/iree-org/iree/issues/10505>
#[test]
fn iree_10505_a_command_buffer_and_its_device() {
    let expected = [
        (Kind::Device, 1, 0, DEVICE),
        (Kind::CommandPool, 1, 0, COMMAND_POOL),
        (Kind::CommandBuffer, 1, 0, COMMAND_BUFFER),
    ];
    found_at("cases::leaves_a_command_buffer", &expected);
}

const DEVICE: Code = (SUPPORT, "let device = instance.create_device(");
const COMMAND_POOL: Code = (THIS, "let pool = unsafe { device.create_command_pool(");
const COMMAND_BUFFER: Code = (
    THIS,
    "let made = unsafe { of.device.allocate_command_buffers(",
);

/// Runs the whole program, with an instance of its own.
fn runs_a_module_and_exits(program: Program) {
    let instance = gpu_leak_vulkan_tests::instance(&gpu().entry).expect(WORKS);
    // SAFETY: this violates Vulkan's rules if the device is still alive, as in the report.
    unsafe {
        let physical = instance.enumerate_physical_devices().expect(WORKS)[0];
        runs_a_module(&instance, physical, program);
        instance.destroy_instance(None);
    }
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn exits_with_a_command_buffer() {
    runs_a_module_and_exits(Program::AsReported);
}

/// As above, but the instance is destroyed too, as in the report. The command buffer is not a
/// separate finding, because the end of its pool would have freed it.
#[test]
fn iree_10505_a_device_at_the_end_of_its_instance() {
    if is_present() && gpu().is_nvidias() {
        // NVIDIA's driver crashes in `vkDestroyInstance` while a device is alive, even without the
        // harness.
        return;
    }
    let expected = [
        (Kind::Device, 1, 0, DEVICE),
        (Kind::CommandPool, 1, 0, COMMAND_POOL),
    ];
    if let Some(checked) = found_at("cases::exits_with_a_command_buffer", &expected) {
        assert_ended(&checked, "not destroyed before its instance was destroyed");
    }
}

#[gpu_leak_check(rounds = 4)]
#[ignore = "run in a process of its own"]
#[test]
fn exits_without_a_command_buffer() {
    runs_a_module_and_exits(Program::Corrected);
}

#[test]
fn iree_10505_corrected() {
    is_clean("cases::exits_without_a_command_buffer");
}

/// An allocator that all parts of a renderer share.
struct Allocator {
    gpu: Gpu,
    memory: vk::DeviceMemory,
}

/// The clones of the allocator that outlive the renderer.
static WORLD: Mutex<Vec<Arc<Allocator>>> = Mutex::new(Vec::new());

/// The number of clones that were left according to the report.
const CLONES: usize = 8;

fn shuts_a_renderer_down(program: Program) {
    let gpu = Gpu::open().expect(WORKS);
    let info = vk::MemoryAllocateInfo::default().allocation_size(65_536);
    // SAFETY: the parameters live as long as the call.
    let allocated = unsafe { gpu.device.allocate_memory(&info, None) };
    let memory = allocated.expect(WORKS);
    let allocator = Arc::new(Allocator { gpu, memory });
    let mut world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    world.extend(iter::repeat_n(allocator.clone(), CLONES));
    if program == Program::Corrected {
        world.clear();
    }
    // As in the report, the device is not destroyed while a clone of its allocator exists.
    let Ok(Allocator { gpu, memory }) = Arc::try_unwrap(allocator) else {
        return;
    };
    // SAFETY: nothing uses the memory.
    unsafe { gpu.device.free_memory(memory, None) };
    gpu.close();
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn shuts_down_before_the_world() {
    shuts_a_renderer_down(Program::AsReported);
}

/// Clones of the allocator outlived the renderer, and kept its memory, device and instance.
/// <https://github.com/matiaszanolli/ByroRedux/issues/927>
#[test]
fn byroredux_927_clones_of_the_allocator_at_shutdown() {
    let expected = [
        (
            Kind::Memory,
            1,
            65_536,
            (THIS, "let allocated = unsafe { gpu.device.allocate_memory("),
        ),
        (Kind::Instance, 1, 0, (SUPPORT, "entry.create_instance(")),
        (
            Kind::Device,
            1,
            0,
            (SUPPORT, "let device = instance.create_device("),
        ),
    ];
    let Some(checked) = found_at("cases::shuts_down_before_the_world", &expected) else {
        return;
    };
    let output = checked.output();
    for finding in &checked.report().findings {
        let Some([holder]) = finding.holders.as_deref() else {
            panic!("{output}");
        };
        let name = holder.root.name.as_deref();
        // The two blocks are the buffer of the vector and the allocation that the `Arc`s share.
        let wanted = (HolderKind::Static, Some("vulkan::cases::WORLD"), 2);
        assert_eq!((holder.root.kind, name, holder.blocks), wanted, "{output}");
    }
    let reported = "held by    static vulkan::cases::WORLD, through 2 heap blocks";
    assert!(checked.child.stderr.contains(reported), "{output}");
}

#[gpu_leak_check(rounds = 4)]
#[ignore = "run in a process of its own"]
#[test]
fn shuts_down_after_the_world() {
    shuts_a_renderer_down(Program::Corrected);
}

#[test]
fn byroredux_927_corrected() {
    is_clean("cases::shuts_down_after_the_world");
}
