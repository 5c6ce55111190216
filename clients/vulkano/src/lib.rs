//! A small project that uses vulkano. As in any other project, nothing here depends on the checks.

use std::error::Error;
use std::sync::Arc;

use vulkano::VulkanLibrary;
use vulkano::buffer::{Buffer, BufferCreateInfo, BufferUsage};
use vulkano::command_buffer::allocator::StandardCommandBufferAllocator;
use vulkano::command_buffer::{AutoCommandBufferBuilder, CommandBufferUsage};
use vulkano::descriptor_set::allocator::StandardDescriptorSetAllocator;
use vulkano::descriptor_set::{DescriptorSet, WriteDescriptorSet};
use vulkano::device::{Device, DeviceCreateInfo, Queue, QueueCreateInfo, QueueFlags};
use vulkano::instance::{Instance, InstanceCreateInfo};
use vulkano::memory::allocator::{AllocationCreateInfo, MemoryTypeFilter, StandardMemoryAllocator};
use vulkano::pipeline::compute::ComputePipelineCreateInfo;
use vulkano::pipeline::layout::PipelineDescriptorSetLayoutCreateInfo;
use vulkano::pipeline::{
    ComputePipeline, Pipeline as _, PipelineBindPoint, PipelineLayout,
    PipelineShaderStageCreateInfo,
};
use vulkano::shader::{ShaderModule, ShaderModuleCreateInfo};
use vulkano::sync::{self, GpuFuture as _};

/// The result type of this project, for any kind of error.
pub type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// A device with its queue, its allocators and a pipeline.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// The device.
    pub device: Arc<Device>,
    /// The queue of the device.
    pub queue: Arc<Queue>,
    /// Allocates blocks of memory, and hands out parts of them.
    pub memory: Arc<StandardMemoryAllocator>,
    /// Allocates command buffers from pools that it keeps for each thread.
    pub commands: Arc<StandardCommandBufferAllocator>,
    /// Allocates descriptor sets from pools that it keeps for each thread and each layout.
    pub sets: Arc<StandardDescriptorSetAllocator>,
    /// The pipeline that adds one to each number.
    pub add_one: Arc<ComputePipeline>,
}

impl Gpu {
    /// Opens the first device that supports compute.
    pub fn open() -> Result<Self> {
        let instance = Instance::new(VulkanLibrary::new()?, InstanceCreateInfo::default())?;
        let mut devices = instance.enumerate_physical_devices()?;
        let (physical, family) = devices
            .find_map(|physical| {
                let families = physical.queue_family_properties();
                let computes = |it: &vulkano::device::QueueFamilyProperties| {
                    it.queue_flags.contains(QueueFlags::COMPUTE)
                };
                let family = families.iter().position(computes)?;
                Some((physical, family as u32))
            })
            .ok_or("no device supports compute")?;
        let (device, mut queues) = Device::new(
            physical,
            DeviceCreateInfo {
                queue_create_infos: vec![QueueCreateInfo {
                    queue_family_index: family,
                    ..Default::default()
                }],
                ..Default::default()
            },
        )?;
        Ok(Self {
            queue: queues.next().ok_or("the device has no queue")?,
            memory: Arc::new(StandardMemoryAllocator::new_default(device.clone())),
            commands: Arc::new(StandardCommandBufferAllocator::new(
                device.clone(),
                Default::default(),
            )),
            sets: Arc::new(StandardDescriptorSetAllocator::new(
                device.clone(),
                Default::default(),
            )),
            add_one: pipeline(&device)?,
            device,
        })
    }
}

const SHADER: &str = "
@group(0) @binding(0) var<storage, read_write> numbers: array<u32>;
@compute @workgroup_size(1) fn main(@builtin(global_invocation_id) at: vec3u) {
    numbers[at.x] += 1u;
}
";

/// Compiles the shader to SPIR-V.
fn compile() -> Result<Vec<u32>> {
    use naga::back::spv;
    use naga::valid::{Capabilities, ValidationFlags, Validator};

    let module = naga::front::wgsl::parse_str(SHADER)?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::empty()).validate(&module)?;
    Ok(spv::write_vec(
        &module,
        &info,
        &spv::Options::default(),
        None,
    )?)
}

/// Creates a pipeline that adds one to each number.
pub fn pipeline(device: &Arc<Device>) -> Result<Arc<ComputePipeline>> {
    let words = compile()?;
    // SAFETY: the words are SPIR-V that naga generated.
    let module = unsafe { ShaderModule::new(device.clone(), ShaderModuleCreateInfo::new(&words)) }?;
    let entry = module
        .entry_point("main")
        .ok_or("the shader has no entry point `main`")?;
    let stage = PipelineShaderStageCreateInfo::new(entry);
    let layout = PipelineDescriptorSetLayoutCreateInfo::from_stages([&stage]);
    let layout = layout.into_pipeline_layout_create_info(device.clone())?;
    let layout = PipelineLayout::new(device.clone(), layout)?;
    let info = ComputePipelineCreateInfo::stage_layout(stage, layout);
    Ok(ComputePipeline::new(device.clone(), None, info)?)
}

/// Adds one to each number, on the device.
pub fn add_one(gpu: &Gpu, numbers: &[u32]) -> Result<Vec<u32>> {
    add_one_with(gpu, &gpu.add_one, numbers)
}

/// Adds one to each number, on the device, with the given pipeline.
pub fn add_one_with(
    gpu: &Gpu,
    pipeline: &Arc<ComputePipeline>,
    numbers: &[u32],
) -> Result<Vec<u32>> {
    let buffer = Buffer::from_iter(
        gpu.memory.clone(),
        BufferCreateInfo {
            usage: BufferUsage::STORAGE_BUFFER,
            ..Default::default()
        },
        AllocationCreateInfo {
            memory_type_filter: MemoryTypeFilter::PREFER_DEVICE
                | MemoryTypeFilter::HOST_RANDOM_ACCESS,
            ..Default::default()
        },
        numbers.iter().copied(),
    )?;
    let layout = pipeline.layout();
    let set = DescriptorSet::new(
        gpu.sets.clone(),
        layout.set_layouts()[0].clone(),
        [WriteDescriptorSet::buffer(0, buffer.clone())],
        [],
    )?;
    let mut commands = AutoCommandBufferBuilder::primary(
        gpu.commands.clone(),
        gpu.queue.queue_family_index(),
        CommandBufferUsage::OneTimeSubmit,
    )?;
    commands.bind_pipeline_compute(pipeline.clone())?;
    commands.bind_descriptor_sets(PipelineBindPoint::Compute, layout.clone(), 0, set)?;
    // SAFETY: each workgroup of the shader reads and writes one number.
    unsafe { commands.dispatch([numbers.len() as u32, 1, 1]) }?;
    let work = sync::now(gpu.device.clone())
        .then_execute(gpu.queue.clone(), commands.build()?)?
        .then_signal_fence_and_flush()?;
    work.wait(None)?;
    Ok(buffer.read()?.to_vec())
}
