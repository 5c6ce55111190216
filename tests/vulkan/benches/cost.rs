//! The cost that the harness adds to Vulkan's calls: to the creation and destruction of a buffer of
//! 64 KiB, to its memory, and to a frame that creates a buffer, fills it on the queue and waits.
//!
//! `cargo bench -p gpu-leak-vulkan-tests` starts itself again in three ways in turn: with wrappers
//! that only forward, with wrappers that report, and with wrappers that report with stacks. It
//! prints the medians. The differences are the harness's own work. The ratios also depend on the
//! driver.
#![expect(unsafe_code, reason = "Vulkan's interface is C")]

use std::env;
use std::io::Write as _;
use std::process::Command;
use std::time::Instant;

use ash::vk;
use gpu_leak_check::Scope;
use gpu_leak_vulkan_tests::{Gpu, gpu};

/// The variable that tells a process which variant to measure.
const MEASURES: &str = "COST_MEASURES";
const WORKS: &str = "Vulkan does this";
const BYTES: u64 = 64 << 10;
const ROUNDS: usize = 15;
type Work = fn(&Gpu, &Queue);
/// The measured work: its name, its function, how many times one process does it, and the number of
/// its watched calls.
const MEASURED: [(&str, Work, u32, u32); 6] = [
    ("buffer, created and destroyed", buffer, 500_000, 2),
    ("memory, allocated and freed", memory, 1_000, 2),
    ("buffer with memory", bound_buffer, 1_000, 5),
    (
        "command buffer, allocated and freed",
        command_buffer,
        1_000,
        2,
    ),
    ("fence, created and destroyed", fence, 1_000, 2),
    ("frame", frame, 300, 8),
];

struct Queue {
    queue: vk::Queue,
    commands: vk::CommandPool,
}

fn new_buffer(gpu: &Gpu) -> vk::Buffer {
    let info = vk::BufferCreateInfo::default()
        .size(BYTES)
        .usage(vk::BufferUsageFlags::TRANSFER_DST);
    // SAFETY: the parameters live as long as the call.
    unsafe { gpu.device.create_buffer(&info, None) }.expect(WORKS)
}

fn buffer(gpu: &Gpu, _: &Queue) {
    // SAFETY: nothing uses the buffer.
    unsafe { gpu.device.destroy_buffer(new_buffer(gpu), None) };
}

fn memory(gpu: &Gpu, _: &Queue) {
    let info = vk::MemoryAllocateInfo::default().allocation_size(BYTES);
    // SAFETY: the parameters live as long as the call, and nothing uses the memory.
    unsafe {
        let memory = gpu.device.allocate_memory(&info, None).expect(WORKS);
        gpu.device.free_memory(memory, None);
    }
}

fn command_buffer(gpu: &Gpu, queue: &Queue) {
    let info = vk::CommandBufferAllocateInfo::default()
        .command_pool(queue.commands)
        .command_buffer_count(1);
    // SAFETY: nothing uses the command buffer.
    unsafe {
        let commands = gpu.device.allocate_command_buffers(&info).expect(WORKS);
        gpu.device.free_command_buffers(queue.commands, &commands);
    }
}

fn fence(gpu: &Gpu, _: &Queue) {
    // SAFETY: nothing uses the fence.
    unsafe {
        let fence = gpu.device.create_fence(&Default::default(), None);
        gpu.device.destroy_fence(fence.expect(WORKS), None);
    }
}

fn with_memory(gpu: &Gpu, work: impl FnOnce(vk::Buffer)) {
    let buffer = new_buffer(gpu);
    // SAFETY: `work` waits until nothing uses the buffer any longer.
    unsafe {
        let memory = gpu.allocate(gpu.device.get_buffer_memory_requirements(buffer));
        gpu.device
            .bind_buffer_memory(buffer, memory, 0)
            .expect(WORKS);
        work(buffer);
        gpu.device.destroy_buffer(buffer, None);
        gpu.device.free_memory(memory, None);
    }
}

fn bound_buffer(gpu: &Gpu, _: &Queue) {
    with_memory(gpu, |_| {});
}

fn frame(gpu: &Gpu, queue: &Queue) {
    with_memory(gpu, |buffer| {
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(queue.commands)
            .command_buffer_count(1);
        // SAFETY: the code waits for the fence before it destroys anything.
        unsafe {
            let commands = gpu.device.allocate_command_buffers(&info).expect(WORKS);
            let begin = vk::CommandBufferBeginInfo::default();
            gpu.device
                .begin_command_buffer(commands[0], &begin)
                .expect(WORKS);
            gpu.device.cmd_fill_buffer(commands[0], buffer, 0, BYTES, 7);
            gpu.device.end_command_buffer(commands[0]).expect(WORKS);
            let fence = gpu
                .device
                .create_fence(&Default::default(), None)
                .expect(WORKS);
            let submit = vk::SubmitInfo::default().command_buffers(&commands);
            gpu.device
                .queue_submit(queue.queue, &[submit], fence)
                .expect(WORKS);
            gpu.device
                .wait_for_fences(&[fence], true, u64::MAX)
                .expect(WORKS);
            gpu.device.destroy_fence(fence, None);
            gpu.device.free_command_buffers(queue.commands, &commands);
        }
    });
}

/// How a process wraps calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Variant {
    Forwarded,
    WithoutStacks,
    Checked,
}

/// The variants, with the values of [`MEASURES`] that select them.
const VARIANTS: [(&str, Variant); 3] = [
    ("forwarded", Variant::Forwarded),
    ("without-stacks", Variant::WithoutStacks),
    ("checked", Variant::Checked),
];

/// Prints the nanoseconds that each kind of work takes.
fn measure(variant: Variant) {
    let gpu = gpu();
    // SAFETY: the device has one queue of this family.
    let queue = unsafe {
        let info = vk::CommandPoolCreateInfo::default();
        Queue {
            queue: gpu.device.get_device_queue(0, 0),
            commands: gpu.device.create_command_pool(&info, None).expect(WORKS),
        }
    };
    let scope = Scope::open("cost");
    match variant {
        Variant::Forwarded => gpu_leak_check::__bench::without_listening(),
        Variant::WithoutStacks => gpu_leak_check::__bench::without_stacks(),
        Variant::Checked => {}
    }
    scope.in_scope(|| {
        for (_, work, times, _) in MEASURED {
            let run = |times: u32| (0..times).for_each(|_| work(gpu, &queue));
            run(times / 10);
            let began = Instant::now();
            run(times);
            let nanoseconds = began.elapsed().as_secs_f64() * 1e9 / f64::from(times);
            let _ = writeln!(std::io::stdout(), "{nanoseconds}");
        }
    });
    // A check in a process that reports no events would have nothing to judge.
    if variant != Variant::Forwarded {
        scope.finish().assert_clean();
    }
}

fn child(variant: &str) -> [f64; MEASURED.len()] {
    let program = env::current_exe().expect("this program's path");
    let output = Command::new(program)
        .env(MEASURES, variant)
        .output()
        .expect("a child process");
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{reported}");
    let lines = String::from_utf8_lossy(&output.stdout);
    let mut figures = lines.lines().map(|line| line.parse().expect("a number"));
    std::array::from_fn(|_| figures.next().expect("a figure for each"))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    if let Ok(name) = env::var(MEASURES) {
        let variant = VARIANTS.iter().find(|(known, _)| *known == name);
        return measure(variant.expect("this program's own variable").1);
    }
    let rounds: Vec<_> = (0..ROUNDS)
        .map(|_| VARIANTS.map(|(name, _)| child(name)))
        .collect();
    let mut out = std::io::stdout().lock();
    for (at, (what, _, _, calls)) in MEASURED.iter().enumerate() {
        let of = |variant: usize| median(rounds.iter().map(|round| round[variant][at]));
        let added =
            |variant: usize| median(rounds.iter().map(|round| round[variant][at] - round[0][at]));
        let _ = writeln!(
            out,
            "{what}: {:.0} ns, checked {:.0} ns: {calls} calls add {:.0} ns, and {:.0} ns with stacks: {:.2}",
            of(0),
            of(2),
            added(1),
            added(2),
            of(2) / of(0)
        );
    }
}
