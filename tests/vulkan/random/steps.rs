//! The steps of random programs. Except in `owners::abandon`, all calls are valid. A step does
//! nothing if it needs an object of a kind of which there is none.

use gpu_leak_check::ledger::Kind;
use gpu_leak_tests::random::Random;

use super::program::{RandomProgram, destroy};
use super::simple::SIMPLE;
use super::{memory, owners, pipelines, pools, simple};

type Step = fn(&mut RandomProgram<'_>);

/// The steps, each with its relative frequency.
#[rustfmt::skip]
const STEPS: &[(usize, Step)] = &[
    (1, owners::create_instance),
    (1, owners::destroy_instance),
    (1, owners::list_devices),
    (1, owners::create_messenger),
    (1, owners::create_surface),
    (4, owners::create_device),
    (1, owners::close_device),
    (1, owners::abandon),
    (4, memory::allocate_plain),
    (1, memory::allocate_exportable),
    (2, memory::import_descriptor),
    (1, memory::import_page),
    (2, memory::allocate_dedicated),
    (1, memory::map),
    (1, memory::unmap),
    (4, memory::create_buffer),
    (4, memory::create_image),
    (8, memory::bind),
    (1, memory::create_buffer_view),
    (1, memory::create_image_view),
    (18, simple::create),
    (2, simple::create_framebuffer),
    (2, simple::create_template),
    (2, pipelines::create_compute_pipelines),
    (1, pipelines::create_graphics_pipelines),
    (4, pools::allocate_sets),
    (2, pools::free_sets),
    (1, pools::reset_descriptor_pool),
    (4, pools::allocate_commands),
    (2, pools::free_commands),
    (1, pools::reset_command_pool),
    (1, destroy_nothing),
    (26, destroy_any),
];

impl RandomProgram<'_> {
    /// Runs a step that these random numbers select.
    pub(super) fn step(&mut self, random: Random) {
        self.random = random;
        let steps = STEPS.iter();
        let steps: Vec<Step> = steps
            .flat_map(|(count, step)| [*step].repeat(*count))
            .collect();
        self.random.one_of(&steps)(self);
    }
}

fn destroy_any(program: &mut RandomProgram<'_>) {
    program.destroy_one(|it| !matches!(it.kind, Kind::Instance | Kind::Device));
}

fn destroy_nothing(program: &mut RandomProgram<'_>) {
    let kinds = [
        &SIMPLE[..],
        &[Kind::Memory, Kind::Buffer, Kind::Image, Kind::Pipeline],
    ]
    .concat();
    if let Some(device) = program.any(Kind::Device) {
        let kind = program.random.one_of(&kinds);
        eprint!("\n> destroy {} 0", kind.name());
        let functions = program.functions(device.id);
        // SAFETY: null is allowed.
        unsafe { destroy(&functions, kind, 0, None) };
    }
}
