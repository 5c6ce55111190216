//! Every type of object that the driver can create. If an object is leaked, it is found with its
//! count, bytes and line. If it is destroyed, a hundred checks are clean.

use std::alloc::{Layout, alloc_zeroed};
use std::ffi::CStr;
use std::sync::OnceLock;

use ash::vk;
use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_vulkan_tests::{Gpu, gpu, is_present, run_with};

use super::WORKS;

/// The variable that tells a child process which row to run.
const ROW: &str = "VULKAN_OBJECT";

/// A type of object, with a function that leaks an object and one that creates and destroys it.
pub(crate) struct Row {
    name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    /// The extension of the device that the type needs.
    needs: Option<&'static CStr>,
    pub(crate) leak: fn(&Gpu),
    /// Returns the path of the type in Rust, which ends with Vulkan's name.
    of_type: fn() -> &'static str,
    fixed: fn(&Gpu),
}

/// Defines the rows. The leak of a row must be found in its function `create`.
macro_rules! rows {
    ($($name:ident: $kind:ident $(, $bytes:literal)? $(, needs $needs:path)?;
        |$gpu:ident| -> $type:ty { $($create:tt)* } |$made:ident| $destroy:expr;)*) => {
        static ROWS: &[Row] = &[$(Row {
            name: stringify!($name),
            kind: Kind::$kind,
            bytes: 0 $(+ $bytes)?,
            needs: [$(Some($needs),)? None][0],
            leak: |gpu| {
                $name::create(gpu);
            },
            of_type: std::any::type_name::<$type>,
            fixed: $name::fixed,
        }),*];

        $(pub(crate) mod $name {
            use super::*;

            #[allow(
                unused_unsafe,
                clippy::allow_attributes,
                reason = "the functions that open a device are safe"
            )]
            pub(crate) fn create($gpu: &Gpu) -> $type {
                // SAFETY: the parameters are valid, and live as long as the call.
                unsafe { $($create)* }
            }

            pub(super) fn fixed($gpu: &Gpu) {
                let $made = create($gpu);
                // SAFETY: the object was created above, and nothing uses it.
                unsafe { $destroy };
            }

            #[test]
            fn is_found() {
                super::is_found(stringify!($name));
            }

            #[test]
            fn is_quiet_when_destroyed() {
                super::is_quiet_when_destroyed(stringify!($name));
            }
        })*
    };
}

/// Objects that others need, and that exist before a check begins.
pub(crate) struct Shared {
    buffer: vk::Buffer,
    image: vk::Image,
    pub(crate) set_layout: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pub(crate) module: vk::ShaderModule,
    descriptor_pool: vk::DescriptorPool,
    command_pool: vk::CommandPool,
    render_pass: vk::RenderPass,
    memory: [vk::DeviceMemory; 2],
}

impl Shared {
    /// Destroys these objects, which nothing may use any more.
    pub(crate) fn destroy(&self) {
        let device = &gpu().device;
        // SAFETY: the objects belong to this device, and are destroyed only once.
        unsafe {
            device.destroy_render_pass(self.render_pass, None);
            device.destroy_command_pool(self.command_pool, None);
            device.destroy_descriptor_pool(self.descriptor_pool, None);
            device.destroy_shader_module(self.module, None);
            device.destroy_pipeline_layout(self.layout, None);
            device.destroy_descriptor_set_layout(self.set_layout, None);
            device.destroy_image(self.image, None);
            device.destroy_buffer(self.buffer, None);
            for memory in self.memory {
                device.free_memory(memory, None);
            }
        }
    }
}

pub(crate) fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| {
        let gpu = gpu();
        let buffer = buffer::create(gpu);
        let image = image::create(gpu);
        // SAFETY: the handles belong to this device, and the memory fits.
        let memory = unsafe {
            let needs = gpu.device.get_buffer_memory_requirements(buffer);
            let of_buffer = gpu.allocate(needs);
            let bound = gpu.device.bind_buffer_memory(buffer, of_buffer, 0);
            bound.expect(WORKS);
            let needs = gpu.device.get_image_memory_requirements(image);
            let of_image = gpu.allocate(needs);
            let bound = gpu.device.bind_image_memory(image, of_image, 0);
            bound.expect(WORKS);
            [of_buffer, of_image]
        };
        let set_layout = descriptor_set_layout::create(gpu);
        let layouts = [set_layout];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts);
        Shared {
            buffer,
            image,
            set_layout,
            // SAFETY: the layout belongs to this device.
            layout: unsafe { gpu.device.create_pipeline_layout(&info, None) }.expect(WORKS),
            module: shader_module::create(gpu),
            descriptor_pool: descriptor_pool::create(gpu),
            command_pool: command_pool::create(gpu),
            render_pass: render_pass::create(gpu),
            memory,
        }
    })
}

/// A compute shader and a vertex shader, both named `main`, that do nothing.
#[rustfmt::skip]
pub(crate) const SHADERS: &[u32] = &[
    0x0723_0203, 0x0001_0000, 0, 7, 0, // magic, version, generator, bound, schema
    0x0002_0011, 1, // OpCapability Shader
    0x0003_000e, 0, 1, // OpMemoryModel Logical GLSL450
    0x0005_000f, 5, 3, 0x6e69_616d, 0, // OpEntryPoint GLCompute %3 "main"
    0x0005_000f, 0, 5, 0x6e69_616d, 0, // OpEntryPoint Vertex %5 "main"
    0x0006_0010, 3, 17, 1, 1, 1, // OpExecutionMode %3 LocalSize 1 1 1
    0x0002_0013, 1, // %1 = OpTypeVoid
    0x0003_0021, 2, 1, // %2 = OpTypeFunction %1
    0x0005_0036, 1, 3, 0, 2, // %3 = OpFunction %1 None %2
    0x0002_00f8, 4, // %4 = OpLabel
    0x0001_00fd, // OpReturn
    0x0001_0038, // OpFunctionEnd
    0x0005_0036, 1, 5, 0, 2, // %5 = OpFunction %1 None %2
    0x0002_00f8, 6, // %6 = OpLabel
    0x0001_00fd, // OpReturn
    0x0001_0038, // OpFunctionEnd
];

pub(crate) fn compute(module: vk::ShaderModule) -> vk::ComputePipelineCreateInfo<'static> {
    let stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(module)
        .name(c"main");
    vk::ComputePipelineCreateInfo::default()
        .stage(stage)
        .layout(shared().layout)
}

rows! {
    memory: Memory, 1000;
        |gpu| -> vk::DeviceMemory {
            let info = vk::MemoryAllocateInfo::default().allocation_size(1000);
            gpu.device.allocate_memory(&info, None).expect(WORKS)
        } |it| gpu.device.free_memory(it, None);
    buffer: Buffer;
        |gpu| -> vk::Buffer {
            let usage = vk::BufferUsageFlags::UNIFORM_TEXEL_BUFFER;
            let info = vk::BufferCreateInfo::default().size(4096).usage(usage);
            gpu.device.create_buffer(&info, None).expect(WORKS)
        } |it| gpu.device.destroy_buffer(it, None);
    buffer_view: BufferView;
        |gpu| -> vk::BufferView {
            let info = vk::BufferViewCreateInfo::default()
                .buffer(shared().buffer)
                .format(vk::Format::R8G8B8A8_UNORM)
                .range(vk::WHOLE_SIZE);
            gpu.device.create_buffer_view(&info, None).expect(WORKS)
        } |it| gpu.device.destroy_buffer_view(it, None);
    image: Image;
        |gpu| -> vk::Image {
            let info = vk::ImageCreateInfo::default()
                .image_type(vk::ImageType::TYPE_2D)
                .format(vk::Format::R8G8B8A8_UNORM)
                .extent(vk::Extent3D { width: 16, height: 16, depth: 1 })
                .mip_levels(1)
                .array_layers(1)
                .samples(vk::SampleCountFlags::TYPE_1)
                .usage(vk::ImageUsageFlags::SAMPLED | vk::ImageUsageFlags::COLOR_ATTACHMENT);
            gpu.device.create_image(&info, None).expect(WORKS)
        } |it| gpu.device.destroy_image(it, None);
    image_view: ImageView;
        |gpu| -> vk::ImageView {
            let info = vk::ImageViewCreateInfo::default()
                .image(shared().image)
                .view_type(vk::ImageViewType::TYPE_2D)
                .format(vk::Format::R8G8B8A8_UNORM)
                .subresource_range(vk::ImageSubresourceRange {
                    aspect_mask: vk::ImageAspectFlags::COLOR,
                    level_count: 1,
                    layer_count: 1,
                    ..Default::default()
                });
            gpu.device.create_image_view(&info, None).expect(WORKS)
        } |it| gpu.device.destroy_image_view(it, None);
    sampler: Sampler;
        |gpu| -> vk::Sampler {
            gpu.device.create_sampler(&Default::default(), None).expect(WORKS)
        } |it| gpu.device.destroy_sampler(it, None);
    fence: Fence;
        |gpu| -> vk::Fence {
            gpu.device.create_fence(&Default::default(), None).expect(WORKS)
        } |it| gpu.device.destroy_fence(it, None);
    semaphore: Semaphore;
        |gpu| -> vk::Semaphore {
            gpu.device.create_semaphore(&Default::default(), None).expect(WORKS)
        } |it| gpu.device.destroy_semaphore(it, None);
    timeline: Semaphore;
        |gpu| -> vk::Semaphore {
            let mut timeline = vk::SemaphoreTypeCreateInfo::default()
                .semaphore_type(vk::SemaphoreType::TIMELINE);
            let info = vk::SemaphoreCreateInfo::default().push_next(&mut timeline);
            gpu.device.create_semaphore(&info, None).expect(WORKS)
        } |it| gpu.device.destroy_semaphore(it, None);
    event: Event;
        |gpu| -> vk::Event {
            gpu.device.create_event(&Default::default(), None).expect(WORKS)
        } |it| gpu.device.destroy_event(it, None);
    query_pool: QueryPool;
        |gpu| -> vk::QueryPool {
            let info = vk::QueryPoolCreateInfo::default()
                .query_type(vk::QueryType::OCCLUSION)
                .query_count(4);
            gpu.device.create_query_pool(&info, None).expect(WORKS)
        } |it| gpu.device.destroy_query_pool(it, None);
    shader_module: ShaderModule;
        |gpu| -> vk::ShaderModule {
            let info = vk::ShaderModuleCreateInfo::default().code(SHADERS);
            gpu.device.create_shader_module(&info, None).expect(WORKS)
        } |it| gpu.device.destroy_shader_module(it, None);
    pipeline_cache: PipelineCache;
        |gpu| -> vk::PipelineCache {
            gpu.device.create_pipeline_cache(&Default::default(), None).expect(WORKS)
        } |it| gpu.device.destroy_pipeline_cache(it, None);
    pipeline_layout: PipelineLayout;
        |gpu| -> vk::PipelineLayout {
            gpu.device.create_pipeline_layout(&Default::default(), None).expect(WORKS)
        } |it| gpu.device.destroy_pipeline_layout(it, None);
    compute_pipeline: Pipeline;
        |gpu| -> vk::Pipeline {
            let infos = [compute(shared().module)];
            let made = gpu.device.create_compute_pipelines(vk::PipelineCache::null(), &infos, None);
            made.expect(WORKS)[0]
        } |it| gpu.device.destroy_pipeline(it, None);
    descriptor_set_layout: DescriptorLayout;
        |gpu| -> vk::DescriptorSetLayout {
            let bindings = [vk::DescriptorSetLayoutBinding::default()
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)];
            let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            gpu.device.create_descriptor_set_layout(&info, None).expect(WORKS)
        } |it| gpu.device.destroy_descriptor_set_layout(it, None);
    descriptor_pool: DescriptorPool;
        |gpu| -> vk::DescriptorPool {
            let sizes = [vk::DescriptorPoolSize {
                ty: vk::DescriptorType::STORAGE_BUFFER,
                descriptor_count: 64,
            }];
            let info = vk::DescriptorPoolCreateInfo::default()
                .flags(vk::DescriptorPoolCreateFlags::FREE_DESCRIPTOR_SET)
                .max_sets(64)
                .pool_sizes(&sizes);
            gpu.device.create_descriptor_pool(&info, None).expect(WORKS)
        } |it| gpu.device.destroy_descriptor_pool(it, None);
    descriptor_set: DescriptorSet;
        |gpu| -> vk::DescriptorSet {
            let layouts = [shared().set_layout];
            let info = vk::DescriptorSetAllocateInfo::default()
                .descriptor_pool(shared().descriptor_pool)
                .set_layouts(&layouts);
            gpu.device.allocate_descriptor_sets(&info).expect(WORKS)[0]
        } |it| gpu.device.free_descriptor_sets(shared().descriptor_pool, &[it]).expect(WORKS);
    descriptor_template: DescriptorTemplate;
        |gpu| -> vk::DescriptorUpdateTemplate {
            let entries = [vk::DescriptorUpdateTemplateEntry::default()
                .descriptor_count(1)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)];
            let info = vk::DescriptorUpdateTemplateCreateInfo::default()
                .descriptor_update_entries(&entries)
                .template_type(vk::DescriptorUpdateTemplateType::DESCRIPTOR_SET)
                .descriptor_set_layout(shared().set_layout);
            gpu.device.create_descriptor_update_template(&info, None).expect(WORKS)
        } |it| gpu.device.destroy_descriptor_update_template(it, None);
    command_pool: CommandPool;
        |gpu| -> vk::CommandPool {
            gpu.device.create_command_pool(&Default::default(), None).expect(WORKS)
        } |it| gpu.device.destroy_command_pool(it, None);
    command_buffer: CommandBuffer;
        |gpu| -> vk::CommandBuffer {
            let info = vk::CommandBufferAllocateInfo::default()
                .command_pool(shared().command_pool)
                .command_buffer_count(1);
            gpu.device.allocate_command_buffers(&info).expect(WORKS)[0]
        } |it| gpu.device.free_command_buffers(shared().command_pool, &[it]);
    render_pass: RenderPass;
        |gpu| -> vk::RenderPass {
            let attachments = [vk::AttachmentDescription::default()
                .format(vk::Format::R8G8B8A8_UNORM)
                .samples(vk::SampleCountFlags::TYPE_1)
                .final_layout(vk::ImageLayout::GENERAL)];
            let subpasses = [vk::SubpassDescription::default()];
            let info = vk::RenderPassCreateInfo::default()
                .attachments(&attachments)
                .subpasses(&subpasses);
            gpu.device.create_render_pass(&info, None).expect(WORKS)
        } |it| gpu.device.destroy_render_pass(it, None);
    framebuffer: Framebuffer;
        |gpu| -> vk::Framebuffer {
            let mut images = vk::FramebufferAttachmentsCreateInfo::default();
            let formats = [vk::Format::R8G8B8A8_UNORM];
            let image = [vk::FramebufferAttachmentImageInfo::default()
                .usage(vk::ImageUsageFlags::SAMPLED | vk::ImageUsageFlags::COLOR_ATTACHMENT)
                .width(16)
                .height(16)
                .layer_count(1)
                .view_formats(&formats)];
            images = images.attachment_image_infos(&image);
            let info = vk::FramebufferCreateInfo::default()
                .flags(vk::FramebufferCreateFlags::IMAGELESS)
                .render_pass(shared().render_pass)
                .width(16)
                .height(16)
                .layers(1)
                .push_next(&mut images);
            let info = vk::FramebufferCreateInfo { attachment_count: 1, ..info };
            gpu.device.create_framebuffer(&info, None).expect(WORKS)
        } |it| gpu.device.destroy_framebuffer(it, None);
    private_data_slot: PrivateDataSlot, needs ash::ext::private_data::NAME;
        |gpu| -> vk::PrivateDataSlot {
            let ext = ash::ext::private_data::Device::new(&gpu.instance, &gpu.device);
            let mut slot = vk::PrivateDataSlot::null();
            let create = ext.fp().create_private_data_slot_ext;
            let info = vk::PrivateDataSlotCreateInfo::default();
            create(gpu.device.handle(), &info, std::ptr::null(), &mut slot).result().expect(WORKS);
            slot
        } |it| {
            let ext = ash::ext::private_data::Device::new(&gpu.instance, &gpu.device);
            (ext.fp().destroy_private_data_slot_ext)(gpu.device.handle(), it, std::ptr::null());
        };
    imported_memory: Imported, 4096, needs ash::ext::external_memory_host::NAME;
        |gpu| -> vk::DeviceMemory {
            let mut import = vk::ImportMemoryHostPointerInfoEXT::default()
                .handle_type(vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT)
                .host_pointer(page());
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(4096)
                .push_next(&mut import);
            gpu.device.allocate_memory(&info, None).expect(WORKS)
        } |it| gpu.device.free_memory(it, None);
    messenger: Messenger;
        |gpu| -> vk::DebugUtilsMessengerEXT {
            let ext = ash::ext::debug_utils::Instance::new(&gpu.entry, &gpu.instance);
            let info = vk::DebugUtilsMessengerCreateInfoEXT::default()
                .message_severity(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR)
                .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
                .pfn_user_callback(Some(silent));
            ext.create_debug_utils_messenger(&info, None).expect(WORKS)
        } |it| ash::ext::debug_utils::Instance::new(&gpu.entry, &gpu.instance)
            .destroy_debug_utils_messenger(it, None);
    instance: Instance;
        |gpu| -> ash::Instance {
            gpu_leak_vulkan_tests::instance(&gpu.entry).expect(WORKS)
        } |it| it.destroy_instance(None);
    device: Device;
        |gpu| -> ash::Device {
            gpu_leak_vulkan_tests::device(&gpu.instance, gpu.physical).0
        } |it| it.destroy_device(None);
}

/// Returns a page of memory that can be imported.
pub(crate) fn page() -> *mut std::ffi::c_void {
    static PAGE: OnceLock<usize> = OnceLock::new();
    let address = PAGE.get_or_init(|| {
        let layout = Layout::from_size_align(4096, 4096).expect("a page");
        // SAFETY: the size of the layout is not 0.
        unsafe { alloc_zeroed(layout) }.expose_provenance()
    });
    std::ptr::with_exposed_provenance_mut(*address)
}

pub(crate) unsafe extern "system" fn silent(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    _: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _: *mut std::ffi::c_void,
) -> vk::Bool32 {
    vk::FALSE
}

fn row() -> &'static Row {
    let name = std::env::var(ROW).expect("the parent names a row");
    let row = ROWS.iter().find(|row| row.name == name);
    row.unwrap_or_else(|| panic!("no row {name}"))
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn leaks() {
    (row().leak)(gpu());
}

#[test]
#[ignore = "run in a process of its own"]
fn child_that_is_fixed() {
    for _ in 0..100 {
        gives_back();
    }
}

#[gpu_leak_check]
#[ignore = "run by a test that sets it up"]
#[test]
fn gives_back() {
    (row().fixed)(gpu());
}

impl Row {
    /// The object's type in C.
    pub(crate) fn vulkan_type(&self) -> String {
        let name = (self.of_type)().rsplit("::").next();
        format!("Vk{}", name.unwrap_or_default())
    }
}

/// Returns the rows that this machine can run.
pub(crate) fn planted() -> impl Iterator<Item = &'static Row> {
    let can = |row: &&Row| row.needs.is_none_or(|needs| gpu().has(needs));
    ROWS.iter().filter(can)
}

/// Returns the row, if this machine can run it.
fn runnable(name: &str) -> Option<&'static Row> {
    let row = ROWS.iter().find(|row| row.name == name).expect("a row");
    let can = is_present() && row.needs.is_none_or(|needs| gpu().has(needs));
    can.then_some(row)
}

#[track_caller]
fn is_found(name: &str) {
    let Some(row) = runnable(name) else {
        return;
    };
    let Some(checked) = run_with("objects::leaks", &[(ROW, name)]) else {
        return;
    };
    let output = checked.output();
    let report = checked.report();
    let leaked = CheckStatus::Found(FindingKind::Leaked);
    assert_eq!(report.status, leaked, "{output}");
    let [finding] = &report.findings[..] else {
        panic!("{} findings\n{output}", report.findings.len());
    };
    assert_eq!(
        (finding.resource, finding.count, finding.bytes),
        (Some(row.kind), 1, row.bytes),
        "{output}"
    );
    let user = &finding.site.frames[finding.site.user.expect("a line of the user's")];
    let function = user.function.as_deref().unwrap_or_default();
    let is_helper = function.starts_with("gpu_leak_vulkan_tests::");
    assert!(
        is_helper || function.ends_with(&format!("{name}::create")),
        "{output}"
    );
    assert!(user.line.is_some(), "{output}");
}

#[track_caller]
fn is_quiet_when_destroyed(name: &str) {
    if runnable(name).is_none() {
        return;
    }
    if let Some(checked) = run_with("objects::child_that_is_fixed", &[(ROW, name)]) {
        assert_eq!(checked.reports.len(), 100, "{}", checked.output());
        checked.assert_clean();
    }
}

/// Types of objects that lavapipe cannot create. Their rows in the harness's table have the same
/// form as all others, and `scripts/check-watched-vulkan` compares them with the Vulkan
/// registry.
const NOT_HERE: &[Kind] = &[
    Kind::SamplerConversion,
    Kind::Shader,
    Kind::PipelineBinary,
    Kind::AccelerationStructure,
    Kind::Micromap,
    Kind::Swapchain,
    Kind::DeferredOperation,
    Kind::VideoSession,
    Kind::VideoParameters,
    Kind::CommandsLayout,
    Kind::ExecutionSet,
    Kind::ValidationCache,
];

#[test]
fn every_type_of_object_has_a_row_or_is_listed_as_missing() {
    let mut kinds = Kind::ALL.into_iter().filter(|kind| *kind >= Kind::Device);
    let is_planted = |kind| ROWS.iter().any(|row| row.kind == kind);
    let missing = kinds.find(|kind| is_planted(*kind) == NOT_HERE.contains(kind));
    assert_eq!(missing, None);
}

#[test]
fn the_page_has_each_row() {
    const PAGE: &str = include_str!("../../docs/kinds.md");
    let lines = ROWS.iter().map(|row| {
        let bytes = match row.bytes {
            0 => "1".to_owned(),
            bytes => format!("1, {bytes} B"),
        };
        let (kind, name) = (row.kind.name(), row.name);
        format!("| {kind} | {bytes} | `objects::{name}` |")
    });
    let missing: Vec<_> = lines.filter(|line| !PAGE.contains(line)).collect();
    let missing = missing.join("\n");
    assert!(
        missing.is_empty(),
        "docs/kinds.md must have these lines:\n{missing}"
    );
}
