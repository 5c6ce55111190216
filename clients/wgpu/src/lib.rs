//! A small project that uses wgpu on Vulkan. As in any other project, nothing here depends on the
//! checks.

use wgpu::util::DeviceExt as _;

/// A device with its queue.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// The device.
    pub device: wgpu::Device,
    /// The queue of the device.
    pub queue: wgpu::Queue,
}

impl Gpu {
    /// Opens the first Vulkan device. Returns `None` if there is none.
    pub fn open() -> Option<Self> {
        Self::with(wgpu::Backends::VULKAN)
    }

    /// Opens the first device of one of these backends. Returns `None` if there is none.
    pub fn with(backends: wgpu::Backends) -> Option<Self> {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = backends;
        let instance = wgpu::Instance::new(descriptor);
        let adapter = pollster::block_on(instance.request_adapter(&Default::default())).ok()?;
        let opened = pollster::block_on(adapter.request_device(&Default::default()));
        let (device, queue) = opened.expect("the adapter opens");
        Some(Self { device, queue })
    }

    /// Waits until the device has finished its work.
    pub fn wait(&self) {
        let polled = self.device.poll(wgpu::PollType::wait_indefinitely());
        polled.expect("the device works");
    }
}

const SHADER: &str = "
@group(0) @binding(0) var<storage, read_write> numbers: array<u32>;
@compute @workgroup_size(1) fn main(@builtin(global_invocation_id) at: vec3u) {
    numbers[at.x] += 1u;
}
";

/// Adds one to each number, on the device.
pub fn add_one(gpu: &Gpu, numbers: &[u32]) -> Vec<u32> {
    let Gpu { device, queue } = gpu;
    let bytes: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
    let storage = device.create_buffer_init(&wgpu::util::BufferInitDescriptor {
        label: Some("numbers"),
        contents: &bytes,
        usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC,
    });
    let result = device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("result"),
        size: bytes.len() as u64,
        usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(SHADER.into()),
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: Default::default(),
        cache: None,
    });
    let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry {
            binding: 0,
            resource: storage.as_entire_binding(),
        }],
    });
    let mut encoder = device.create_command_encoder(&Default::default());
    {
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(numbers.len() as u32, 1, 1);
    }
    encoder.copy_buffer_to_buffer(&storage, 0, &result, 0, bytes.len() as u64);
    queue.submit([encoder.finish()]);
    result.map_async(wgpu::MapMode::Read, .., |mapped| {
        mapped.expect("it can be read")
    });
    gpu.wait();
    let mapped = result.get_mapped_range(..).expect("it is mapped");
    let words = mapped.chunks_exact(4);
    words
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect()
}
