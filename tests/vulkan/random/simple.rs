//! The steps that create an object which needs at most one other object.

use ash::vk::{self, Handle};
use gpu_leak_check::ledger::Kind;

use super::program::{Allocator, Object, RandomProgram};
use crate::objects::SHADERS;

/// The kinds whose objects can be created without any other object.
pub(super) const SIMPLE: [Kind; 13] = [
    Kind::Sampler,
    Kind::Fence,
    Kind::Semaphore,
    Kind::Event,
    Kind::QueryPool,
    Kind::ShaderModule,
    Kind::PipelineCache,
    Kind::PipelineLayout,
    Kind::DescriptorLayout,
    Kind::DescriptorPool,
    Kind::CommandPool,
    Kind::RenderPass,
    Kind::PrivateDataSlot,
];

pub(super) fn create(program: &mut RandomProgram<'_>) {
    let kind = program.random.one_of(&SIMPLE);
    if let Some(device) = program.any(Kind::Device) {
        create_of(program, kind, device.id);
    }
}

fn create_of(program: &mut RandomProgram<'_>, kind: Kind, device: u64) {
    let variant = program.random.below(2);
    program.create(kind, device, |device, allocator| {
        // SAFETY: the parameters live as long as the call.
        let made = unsafe { simple(kind, variant, device, allocator) };
        made.map(vk::Buffer::from_raw)
    });
}

/// Returns an object of this kind and this device. If there is none, tries to create one.
pub(super) fn needed(program: &mut RandomProgram<'_>, kind: Kind, device: u64) -> Option<Object> {
    if program.any_of(device, kind).is_none() {
        create_of(program, kind, device);
    }
    program.any_of(device, kind)
}

/// # Safety
///
/// The device is live.
unsafe fn simple(
    kind: Kind,
    variant: usize,
    device: &ash::Device,
    allocator: Allocator<'_>,
) -> Result<u64, vk::Result> {
    // SAFETY: the caller upholds the contract, and the parameters live as long as the calls.
    unsafe {
        Ok(match kind {
            Kind::Sampler => device
                .create_sampler(&Default::default(), allocator)?
                .as_raw(),
            Kind::Fence => device
                .create_fence(&Default::default(), allocator)?
                .as_raw(),
            Kind::Semaphore => {
                let types = [vk::SemaphoreType::BINARY, vk::SemaphoreType::TIMELINE];
                let mut of_type =
                    vk::SemaphoreTypeCreateInfo::default().semaphore_type(types[variant]);
                let info = vk::SemaphoreCreateInfo::default().push_next(&mut of_type);
                device.create_semaphore(&info, allocator)?.as_raw()
            }
            Kind::Event => device
                .create_event(&Default::default(), allocator)?
                .as_raw(),
            Kind::QueryPool => {
                let types = [vk::QueryType::OCCLUSION, vk::QueryType::TIMESTAMP];
                let info = vk::QueryPoolCreateInfo::default()
                    .query_type(types[variant])
                    .query_count(4);
                device.create_query_pool(&info, allocator)?.as_raw()
            }
            Kind::ShaderModule => {
                let info = vk::ShaderModuleCreateInfo::default().code(SHADERS);
                device.create_shader_module(&info, allocator)?.as_raw()
            }
            Kind::PipelineCache => {
                let made = device.create_pipeline_cache(&Default::default(), allocator);
                made?.as_raw()
            }
            Kind::PipelineLayout => {
                let made = device.create_pipeline_layout(&Default::default(), allocator);
                made?.as_raw()
            }
            Kind::DescriptorLayout => {
                let bindings = [vk::DescriptorSetLayoutBinding::default()
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .descriptor_count(1)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)];
                let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
                device
                    .create_descriptor_set_layout(&info, allocator)?
                    .as_raw()
            }
            Kind::DescriptorPool => {
                let sizes = [vk::DescriptorPoolSize {
                    ty: vk::DescriptorType::STORAGE_BUFFER,
                    descriptor_count: 5,
                }];
                let info = vk::DescriptorPoolCreateInfo::default()
                    .flags(vk::DescriptorPoolCreateFlags::FREE_DESCRIPTOR_SET)
                    .max_sets(5)
                    .pool_sizes(&sizes);
                device.create_descriptor_pool(&info, allocator)?.as_raw()
            }
            Kind::CommandPool => device
                .create_command_pool(&Default::default(), allocator)?
                .as_raw(),
            Kind::RenderPass if variant == 0 => {
                let subpasses = [vk::SubpassDescription::default()];
                let info = vk::RenderPassCreateInfo::default().subpasses(&subpasses);
                device.create_render_pass(&info, allocator)?.as_raw()
            }
            Kind::RenderPass => {
                let subpasses = [vk::SubpassDescription2::default()];
                let info = vk::RenderPassCreateInfo2::default().subpasses(&subpasses);
                device.create_render_pass2(&info, allocator)?.as_raw()
            }
            Kind::PrivateDataSlot => {
                let made = device.create_private_data_slot(&Default::default(), allocator);
                made?.as_raw()
            }
            _ => panic!("not a simple kind: {}", kind.name()),
        })
    }
}

pub(super) fn create_framebuffer(program: &mut RandomProgram<'_>) {
    let Some(pass) = program.any(Kind::RenderPass) else {
        return;
    };
    let info = vk::FramebufferCreateInfo::default()
        .render_pass(Handle::from_raw(pass.handle))
        .width(16)
        .height(16)
        .layers(1);
    // SAFETY: the parameters live as long as the call.
    program.create(Kind::Framebuffer, pass.of, |device, allocator| unsafe {
        device.create_framebuffer(&info, allocator)
    });
}

pub(super) fn create_template(program: &mut RandomProgram<'_>) {
    let Some(layout) = program.any(Kind::DescriptorLayout) else {
        return;
    };
    let entries = [vk::DescriptorUpdateTemplateEntry::default()
        .descriptor_count(1)
        .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)];
    let info = vk::DescriptorUpdateTemplateCreateInfo::default()
        .descriptor_update_entries(&entries)
        .template_type(vk::DescriptorUpdateTemplateType::DESCRIPTOR_SET)
        .descriptor_set_layout(Handle::from_raw(layout.handle));
    // SAFETY: the parameters live as long as the call.
    program.create(
        Kind::DescriptorTemplate,
        layout.of,
        |device, allocator| unsafe { device.create_descriptor_update_template(&info, allocator) },
    );
}
