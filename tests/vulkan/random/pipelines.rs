//! The steps that create pipelines: several in one call, of which some may fail.

use ash::vk::{self, Handle};
use gpu_leak_check::ledger::Kind;

use super::program::{Allocator, Object, RandomProgram};
use super::simple::needed;

/// Returns what pipelines need: a module, a layout, and perhaps a cache, of one device.
fn parts(program: &mut RandomProgram<'_>) -> Option<(Object, Object, vk::PipelineCache)> {
    let device = program.any(Kind::Device)?.id;
    let module = needed(program, Kind::ShaderModule, device)?;
    let layout = needed(program, Kind::PipelineLayout, device)?;
    let cache = program.any_of(module.of, Kind::PipelineCache);
    let cache = cache.map_or(0, |cache| cache.handle);
    Some((module, layout, vk::PipelineCache::from_raw(cache)))
}

/// Returns the flags of up to three pipelines, of which the driver refuses some.
fn flags(program: &mut RandomProgram<'_>) -> Vec<vk::PipelineCreateFlags> {
    let flags = [
        vk::PipelineCreateFlags::empty(),
        vk::PipelineCreateFlags::empty(),
        vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED,
        vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED
            | vk::PipelineCreateFlags::EARLY_RETURN_ON_FAILURE,
    ];
    let count = 1 + program.random.below(3);
    (0..count).map(|_| program.random.one_of(&flags)).collect()
}

fn stage(
    module: Object,
    stage: vk::ShaderStageFlags,
) -> vk::PipelineShaderStageCreateInfo<'static> {
    vk::PipelineShaderStageCreateInfo::default()
        .stage(stage)
        .module(Handle::from_raw(module.handle))
        .name(c"main")
}

pub(super) fn create_compute_pipelines(program: &mut RandomProgram<'_>) {
    let Some((module, layout, cache)) = parts(program) else {
        return;
    };
    let flags = flags(program);
    let infos = flags.iter().map(|flags| {
        vk::ComputePipelineCreateInfo::default()
            .flags(*flags)
            .stage(stage(module, vk::ShaderStageFlags::COMPUTE))
            .layout(Handle::from_raw(layout.handle))
    });
    let infos: Vec<_> = infos.collect();
    // SAFETY: the parameters live as long as the call.
    create_pipelines(program, module.of, |device, allocator| unsafe {
        device.create_compute_pipelines(cache, &infos, allocator)
    });
}

pub(super) fn create_graphics_pipelines(program: &mut RandomProgram<'_>) {
    let Some((module, layout, cache)) = parts(program) else {
        return;
    };
    let Some(pass) = needed(program, Kind::RenderPass, module.of) else {
        return;
    };
    let flags = flags(program);
    let stages = [stage(module, vk::ShaderStageFlags::VERTEX)];
    let input = vk::PipelineVertexInputStateCreateInfo::default();
    let assembly = vk::PipelineInputAssemblyStateCreateInfo::default()
        .topology(vk::PrimitiveTopology::TRIANGLE_LIST);
    let rasterization = vk::PipelineRasterizationStateCreateInfo::default()
        .rasterizer_discard_enable(true)
        .line_width(1.0);
    let infos = flags.iter().map(|flags| {
        vk::GraphicsPipelineCreateInfo::default()
            .flags(*flags)
            .stages(&stages)
            .vertex_input_state(&input)
            .input_assembly_state(&assembly)
            .rasterization_state(&rasterization)
            .layout(Handle::from_raw(layout.handle))
            .render_pass(Handle::from_raw(pass.handle))
    });
    let infos: Vec<_> = infos.collect();
    // SAFETY: the parameters live as long as the call.
    create_pipelines(program, module.of, |device, allocator| unsafe {
        device.create_graphics_pipelines(cache, &infos, allocator)
    });
}

type Pipelines = Result<Vec<vk::Pipeline>, (Vec<vk::Pipeline>, vk::Result)>;

/// Makes a call that creates pipelines, of which it may create only some.
fn create_pipelines(
    program: &mut RandomProgram<'_>,
    device: u64,
    create: impl FnOnce(&ash::Device, Allocator<'_>) -> Pipelines,
) {
    eprint!("\n> {:x}: create pipelines", program.get(device).handle);
    let functions = program.functions(device);
    let (made, has_allocator) =
        program.with_allocator(Kind::Pipeline, |allocator| create(&functions, allocator));
    let made = made.unwrap_or_else(|(some, error)| {
        eprint!(" = {error:?}");
        some
    });
    for pipeline in made.into_iter().filter(|it| !it.is_null()) {
        let object = Object::new(Kind::Pipeline, device, pipeline.as_raw());
        program.keep(object, has_allocator);
    }
}
