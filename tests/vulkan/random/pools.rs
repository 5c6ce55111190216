//! The steps with descriptor sets and command buffers, which pools hand out.

use ash::vk::{self, Handle};
use gpu_leak_check::ledger::Kind;

use super::allocator::with_allocations;
use super::program::{Object, RandomProgram, result};
use super::simple::needed;
use crate::WORKS;

/// Adds objects that a pool has handed out.
fn keep_of_pool<T: Handle>(
    program: &mut RandomProgram<'_>,
    kind: Kind,
    pool: Object,
    made: Result<Vec<T>, vk::Result>,
) {
    for handle in result(made).unwrap_or_default() {
        let mut object = Object::new(kind, pool.of, handle.as_raw());
        object.within = pool.id;
        program.keep(object, false);
    }
}

pub(super) fn allocate_sets(program: &mut RandomProgram<'_>) {
    let Some(pool) = program.any(Kind::DescriptorPool) else {
        return;
    };
    let Some(layout) = needed(program, Kind::DescriptorLayout, pool.of) else {
        return;
    };
    eprint!("\n> {:x}: allocate sets", pool.handle);
    let count = 1 + program.random.below(3);
    let layouts = vec![vk::DescriptorSetLayout::from_raw(layout.handle); count];
    let info = vk::DescriptorSetAllocateInfo::default()
        .descriptor_pool(Handle::from_raw(pool.handle))
        .set_layouts(&layouts);
    let functions = program.functions(pool.of);
    let left = program.allocations_left(pool);
    // SAFETY: the parameters live as long as the call.
    let made = with_allocations(left, || unsafe {
        functions.allocate_descriptor_sets(&info)
    });
    keep_of_pool(program, Kind::DescriptorSet, pool, made);
}

pub(super) fn allocate_commands(program: &mut RandomProgram<'_>) {
    let Some(pool) = program.any(Kind::CommandPool) else {
        return;
    };
    eprint!("\n> {:x}: allocate command buffers", pool.handle);
    let levels = [
        vk::CommandBufferLevel::PRIMARY,
        vk::CommandBufferLevel::SECONDARY,
    ];
    let info = vk::CommandBufferAllocateInfo::default()
        .command_pool(Handle::from_raw(pool.handle))
        .level(program.random.one_of(&levels))
        .command_buffer_count(1 + program.random.below(4) as u32);
    let functions = program.functions(pool.of);
    let left = program.allocations_left(pool);
    // SAFETY: the parameters live as long as the call.
    let made = with_allocations(left, || unsafe {
        functions.allocate_command_buffers(&info)
    });
    keep_of_pool(program, Kind::CommandBuffer, pool, made);
}

/// Takes some objects of a pool from the program, and returns their handles and perhaps null.
fn take_of_pool<T: Handle>(program: &mut RandomProgram<'_>, pool: Object) -> Vec<T> {
    let mut handles = Vec::new();
    for _ in 0..=program.random.below(4) {
        let object = program.one(|it| it.is_of_pool() && it.within == pool.id);
        let object = object.filter(|_| program.random.below(4) != 0);
        program
            .objects
            .retain(|it| object.is_none_or(|taken| it.id != taken.id));
        let handle = object.map_or(0, |object| object.handle);
        eprint!(" {handle:x}");
        handles.push(T::from_raw(handle));
    }
    handles
}

pub(super) fn free_sets(program: &mut RandomProgram<'_>) {
    if let Some(pool) = program.any(Kind::DescriptorPool) {
        eprint!("\n> {:x}: free sets", pool.handle);
        let sets = take_of_pool(program, pool);
        let functions = program.functions(pool.of);
        // SAFETY: the sets come from this pool, and nothing uses them.
        let freed = unsafe { functions.free_descriptor_sets(Handle::from_raw(pool.handle), &sets) };
        freed.expect(WORKS);
    }
}

pub(super) fn free_commands(program: &mut RandomProgram<'_>) {
    if let Some(pool) = program.any(Kind::CommandPool) {
        eprint!("\n> {:x}: free command buffers", pool.handle);
        let buffers = take_of_pool(program, pool);
        let functions = program.functions(pool.of);
        // SAFETY: the command buffers come from this pool, and nothing uses them.
        unsafe { functions.free_command_buffers(Handle::from_raw(pool.handle), &buffers) };
    }
}

pub(super) fn reset_descriptor_pool(program: &mut RandomProgram<'_>) {
    if let Some(pool) = program.any(Kind::DescriptorPool) {
        eprint!("\n> {:x}: reset descriptor pool", pool.handle);
        let (functions, handle) = (program.functions(pool.of), Handle::from_raw(pool.handle));
        // SAFETY: nothing uses the sets of this pool.
        let reset = unsafe { functions.reset_descriptor_pool(handle, Default::default()) };
        reset.expect(WORKS);
        program
            .objects
            .retain(|it| !it.is_of_pool() || it.within != pool.id);
    }
}

/// The command buffers stay allocated.
pub(super) fn reset_command_pool(program: &mut RandomProgram<'_>) {
    if let Some(pool) = program.any(Kind::CommandPool) {
        eprint!("\n> {:x}: reset command pool", pool.handle);
        let (functions, handle) = (program.functions(pool.of), Handle::from_raw(pool.handle));
        // SAFETY: nothing uses the command buffers of this pool.
        let reset = unsafe {
            functions.reset_command_pool(handle, vk::CommandPoolResetFlags::RELEASE_RESOURCES)
        };
        result(reset);
    }
}
