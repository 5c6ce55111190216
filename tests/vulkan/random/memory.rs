//! The steps with memory, and with the buffers and images that are bound to it.

use std::os::fd::{FromRawFd as _, OwnedFd};

use ash::khr::external_memory_fd;
use ash::vk::{self, Handle};
use gpu_leak_check::ledger::Kind;

use super::program::{Note, Object, RandomProgram, result};
use crate::objects::page;

type External = vk::ExternalMemoryHandleTypeFlags;

/// The index of the memory type that all bound memory has.
const TYPE: u32 = 0;

fn allocate(
    program: &mut RandomProgram<'_>,
    (kind, device): (Kind, u64),
    bytes: u64,
    next: Option<&mut dyn vk::ExtendsMemoryAllocateInfo>,
) -> Option<u64> {
    let mut info = vk::MemoryAllocateInfo::default()
        .allocation_size(bytes)
        .memory_type_index(TYPE);
    if let Some(next) = next {
        info.p_next = std::ptr::from_mut(next).cast();
    }
    // SAFETY: the parameters live as long as the call.
    let made = program.create(kind, device, |device, allocator| unsafe {
        device.allocate_memory(&info, allocator)
    })?;
    program.get(made).bytes = bytes;
    Some(made)
}

pub(super) fn allocate_plain(program: &mut RandomProgram<'_>) {
    if let Some(device) = program.any(Kind::Device) {
        let bytes = program.random.one_of(&[1000, 20_000, 65_536]);
        allocate(program, (Kind::Memory, device.id), bytes, None);
    }
}

pub(super) fn allocate_exportable(program: &mut RandomProgram<'_>) {
    if let Some(device) = program.any(Kind::Device) {
        let mut export = vk::ExportMemoryAllocateInfo::default().handle_types(External::OPAQUE_FD);
        let made = allocate(program, (Kind::Memory, device.id), 8192, Some(&mut export));
        if let Some(made) = made {
            program.get(made).shared_by = External::OPAQUE_FD;
        }
    }
}

fn is_exportable(object: &Object) -> bool {
    object.kind == Kind::Memory && object.shared_by == External::OPAQUE_FD
}

pub(super) fn import_descriptor(program: &mut RandomProgram<'_>) {
    let Some(memory) = program.one(is_exportable) else {
        return;
    };
    let device = program.any(Kind::Device).expect("that of the memory");
    let of = program.get(memory.of).of;
    let functions = program.functions(memory.of);
    let exporter = external_memory_fd::Device::new(&program.instances[&of].0[0], &functions);
    let info = vk::MemoryGetFdInfoKHR::default()
        .memory(Handle::from_raw(memory.handle))
        .handle_type(External::OPAQUE_FD);
    // SAFETY: the memory is live, and was allocated for export.
    let Ok(exported) = (unsafe { exporter.get_memory_fd(&info) }) else {
        return;
    };
    let mut import = vk::ImportMemoryFdInfoKHR::default()
        .handle_type(External::OPAQUE_FD)
        .fd(exported);
    let made = allocate(
        program,
        (Kind::Imported, device.id),
        memory.bytes,
        Some(&mut import),
    );
    match made {
        Some(made) => program.get(made).shared_by = External::OPAQUE_FD,
        // SAFETY: an import that fails does not take ownership of the descriptor.
        None => drop(unsafe { OwnedFd::from_raw_fd(exported) }),
    }
}

pub(super) fn import_page(program: &mut RandomProgram<'_>) {
    if let Some(device) = program.any(Kind::Device) {
        let mut import = vk::ImportMemoryHostPointerInfoEXT::default()
            .handle_type(External::HOST_ALLOCATION_EXT)
            .host_pointer(page());
        let of = (Kind::Imported, device.id);
        if let Some(made) = allocate(program, of, 4096, Some(&mut import)) {
            program.get(made).shared_by = External::HOST_ALLOCATION_EXT;
        }
    }
}

/// Allocates memory that only one buffer or image may use.
pub(super) fn allocate_dedicated(program: &mut RandomProgram<'_>) {
    let Some(object) = program.one(is_unbound) else {
        return;
    };
    let bytes = needs(program, object);
    let mut dedicated = vk::MemoryDedicatedAllocateInfo::default();
    match object.kind {
        Kind::Buffer => dedicated.buffer = Handle::from_raw(object.handle),
        _ => dedicated.image = Handle::from_raw(object.handle),
    }
    let made = allocate(
        program,
        (Kind::Memory, object.of),
        bytes,
        Some(&mut dedicated),
    );
    if let Some(made) = made {
        program.get(made).note = Note::OnlyFor(object.id);
    }
}

pub(super) fn map(program: &mut RandomProgram<'_>) {
    let is_plain = |it: &Object| it.kind == Kind::Memory && it.note == Note::None;
    if let Some(memory) = program.one(is_plain) {
        eprint!("\n> map {:x}", memory.handle);
        let (functions, handle) = (
            program.functions(memory.of),
            Handle::from_raw(memory.handle),
        );
        // SAFETY: the memory is not mapped, and the host can use it.
        let mapped = unsafe { functions.map_memory(handle, 0, vk::WHOLE_SIZE, Default::default()) };
        if result(mapped).is_some() {
            program.get(memory.id).note = Note::Mapped;
        }
    }
}

pub(super) fn unmap(program: &mut RandomProgram<'_>) {
    if let Some(memory) = program.one(|it| it.note == Note::Mapped) {
        eprint!("\n> unmap {:x}", memory.handle);
        // SAFETY: the memory is mapped.
        unsafe {
            program
                .functions(memory.of)
                .unmap_memory(Handle::from_raw(memory.handle))
        };
        program.get(memory.id).note = Note::None;
    }
}

pub(super) fn create_buffer(program: &mut RandomProgram<'_>) {
    let Some(device) = program.any(Kind::Device) else {
        return;
    };
    let handles = [
        External::empty(),
        External::OPAQUE_FD,
        External::HOST_ALLOCATION_EXT,
    ];
    let shared_by = program.random.one_of(&handles);
    let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(shared_by);
    let info = vk::BufferCreateInfo::default()
        .size(program.random.one_of(&[4, 1000, 4096]))
        .usage(vk::BufferUsageFlags::UNIFORM_TEXEL_BUFFER)
        .push_next(&mut external);
    // SAFETY: the parameters live as long as the call.
    let made = program.create(Kind::Buffer, device.id, |device, allocator| unsafe {
        device.create_buffer(&info, allocator)
    });
    if let Some(made) = made {
        program.get(made).shared_by = shared_by;
    }
}

pub(super) fn create_image(program: &mut RandomProgram<'_>) {
    let Some(device) = program.any(Kind::Device) else {
        return;
    };
    let side = program.random.one_of(&[1, 16, 40]);
    let shared_by = program
        .random
        .one_of(&[External::empty(), External::OPAQUE_FD]);
    let mut external = vk::ExternalMemoryImageCreateInfo::default().handle_types(shared_by);
    let info = vk::ImageCreateInfo::default()
        .image_type(vk::ImageType::TYPE_2D)
        .format(vk::Format::R8G8B8A8_UNORM)
        .extent(vk::Extent3D {
            width: side,
            height: side,
            depth: 1,
        })
        .mip_levels(1)
        .array_layers(1)
        .samples(vk::SampleCountFlags::TYPE_1)
        .usage(vk::ImageUsageFlags::SAMPLED | vk::ImageUsageFlags::COLOR_ATTACHMENT)
        .push_next(&mut external);
    // SAFETY: the parameters live as long as the call.
    let made = program.create(Kind::Image, device.id, |device, allocator| unsafe {
        device.create_image(&info, allocator)
    });
    if let Some(made) = made {
        program.get(made).shared_by = shared_by;
    }
}

/// Whether memory was never bound to this buffer or image.
fn is_unbound(object: &Object) -> bool {
    matches!(object.kind, Kind::Buffer | Kind::Image) && object.note == Note::None
}

fn needs(program: &mut RandomProgram<'_>, object: Object) -> u64 {
    let functions = program.functions(object.of);
    // SAFETY: the object is live.
    let needs = unsafe {
        match object.kind {
            Kind::Buffer => {
                functions.get_buffer_memory_requirements(Handle::from_raw(object.handle))
            }
            _ => functions.get_image_memory_requirements(Handle::from_raw(object.handle)),
        }
    };
    assert_eq!(
        needs.memory_type_bits & 1 << TYPE,
        1,
        "lavapipe has one type"
    );
    needs.size
}

/// Binds memory to up to three buffers or images of the same device.
pub(super) fn bind(program: &mut RandomProgram<'_>) {
    let Some(first) = program.one(is_unbound) else {
        return;
    };
    let mut bound: Vec<(Object, Object, u64)> = Vec::new();
    for _ in 0..3 {
        let kind = first.kind;
        let object = program.one(|it| is_unbound(it) && it.kind == kind && it.of == first.of);
        let object = object.expect("the first");
        let bytes = needs(program, object);
        let memory = program.one(|it| {
            let is_memory = matches!(it.kind, Kind::Memory | Kind::Imported);
            let is_free = match it.note {
                Note::OnlyFor(other) => other == object.id,
                _ => true,
            };
            let is_plain = it.shared_by.is_empty();
            let can_be_shared = is_plain || it.shared_by == object.shared_by;
            is_memory && is_free && can_be_shared && it.of == object.of && it.bytes >= bytes
        });
        if let Some(memory) = memory
            && bound.iter().all(|(other, ..)| other.id != object.id)
        {
            bound.push((object, memory, bytes));
        }
    }
    if program.random.below(2) == 0 {
        bound.truncate(1);
    }
    let functions = program.functions(first.of);
    for (object, memory, bytes) in &bound {
        eprint!(
            "\n> bind {:x} to {:x}: {bytes}",
            object.handle, memory.handle
        );
    }
    // SAFETY: the objects and the memory are live and belong to one device, and the memory fits.
    let done = unsafe {
        match (first.kind, &bound[..]) {
            (_, []) => return,
            (Kind::Buffer, [(buffer, memory, _)]) if memory.id % 2 == 0 => functions
                .bind_buffer_memory(
                    Handle::from_raw(buffer.handle),
                    Handle::from_raw(memory.handle),
                    0,
                ),
            (Kind::Image, [(image, memory, _)]) if memory.id % 2 == 0 => functions
                .bind_image_memory(
                    Handle::from_raw(image.handle),
                    Handle::from_raw(memory.handle),
                    0,
                ),
            (Kind::Buffer, all) => {
                let all = all.iter().map(|(buffer, memory, _)| {
                    vk::BindBufferMemoryInfo::default()
                        .buffer(Handle::from_raw(buffer.handle))
                        .memory(Handle::from_raw(memory.handle))
                });
                functions.bind_buffer_memory2(&all.collect::<Vec<_>>())
            }
            (_, all) => {
                let all = all.iter().map(|(image, memory, _)| {
                    vk::BindImageMemoryInfo::default()
                        .image(Handle::from_raw(image.handle))
                        .memory(Handle::from_raw(memory.handle))
                });
                functions.bind_image_memory2(&all.collect::<Vec<_>>())
            }
        }
    };
    if result(done).is_some() {
        for (object, memory, bytes) in bound {
            let object = program.get(object.id);
            (object.within, object.bytes, object.note) = (memory.id, bytes, Note::Bound);
        }
    }
}

/// Returns a buffer or image whose memory is live.
fn bound(program: &mut RandomProgram<'_>, kind: Kind) -> Option<Object> {
    program.one(|it| it.kind == kind && it.within != 0)
}

pub(super) fn create_buffer_view(program: &mut RandomProgram<'_>) {
    let Some(buffer) = bound(program, Kind::Buffer) else {
        return;
    };
    let info = vk::BufferViewCreateInfo::default()
        .buffer(Handle::from_raw(buffer.handle))
        .format(vk::Format::R8G8B8A8_UNORM)
        .range(vk::WHOLE_SIZE);
    // SAFETY: the parameters live as long as the call.
    let made = program.create(Kind::BufferView, buffer.of, |device, allocator| unsafe {
        device.create_buffer_view(&info, allocator)
    });
    if let Some(made) = made {
        program.get(made).view_of = buffer.id;
    }
}

pub(super) fn create_image_view(program: &mut RandomProgram<'_>) {
    let Some(image) = bound(program, Kind::Image) else {
        return;
    };
    let info = vk::ImageViewCreateInfo::default()
        .image(Handle::from_raw(image.handle))
        .view_type(vk::ImageViewType::TYPE_2D)
        .format(vk::Format::R8G8B8A8_UNORM)
        .subresource_range(vk::ImageSubresourceRange {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            level_count: 1,
            layer_count: 1,
            ..Default::default()
        });
    // SAFETY: the parameters live as long as the call.
    let made = program.create(Kind::ImageView, image.of, |device, allocator| unsafe {
        device.create_image_view(&info, allocator)
    });
    if let Some(made) = made {
        program.get(made).view_of = image.id;
    }
}
