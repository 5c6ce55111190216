//! The steps that create instances and devices, and the objects of instances.

use std::ffi::{c_char, c_void};
use std::{mem, ptr};

use ash::ext::{debug_report, debug_utils};
use ash::khr::xcb_surface;
use ash::vk::{self, Handle};
use gpu_leak_check::ledger::Kind;

use super::functions::{DEVICE_EXTENSIONS, INSTANCE_EXTENSIONS};
use super::program::{Note, Object, RandomProgram, result};
use crate::WORKS;
use crate::objects::{page, silent};

pub(super) fn create_instance(program: &mut RandomProgram<'_>) {
    let count = program.instances.len();
    if count >= 3 {
        return;
    }
    eprint!("\n> create instance");
    let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
    let names: Vec<_> = INSTANCE_EXTENSIONS.iter().map(|it| it.as_ptr()).collect();
    let info = vk::InstanceCreateInfo::default()
        .application_info(&application)
        .enabled_extension_names(&names);
    let loader = program.loader;
    let create = match program.random.below(2) {
        0 => loader.exported(c"vkCreateInstance"),
        _ => loader.of_instance(vk::Instance::null(), c"vkCreateInstance"),
    };
    // SAFETY: the function has this type, and the parameters live as long as the call.
    let (made, has_allocator) = program.with_allocator(Kind::Instance, |allocator| unsafe {
        let create = mem::transmute::<*const c_void, vk::PFN_vkCreateInstance>(create);
        let allocator = allocator.map_or(ptr::null(), ptr::from_ref);
        let mut instance = vk::Instance::null();
        create(&info, allocator, &mut instance).result_with_success(instance)
    });
    let Some(handle) = result(made) else {
        return;
    };
    let object = Object::new(Kind::Instance, 0, handle.as_raw());
    let id = program.keep(object, has_allocator);
    program.get(id).of = id;
    let functions = loader.instance(handle);
    if program.random.below(2) == 0 {
        list_groups(&functions[1]);
    }
    // SAFETY: the instance is live.
    let physical = unsafe { functions[0].enumerate_physical_devices() }.expect(WORKS);
    program.instances.insert(id, (functions, physical));
}

fn list_groups(instance: &ash::Instance) {
    // SAFETY: the instance is live.
    unsafe {
        let count = instance.enumerate_physical_device_groups_len();
        let mut groups = vec![Default::default(); count.expect(WORKS)];
        let listed = instance.enumerate_physical_device_groups(&mut groups);
        listed.expect(WORKS);
    }
}

/// Requests the physical devices of an instance, their number, or their groups.
pub(super) fn list_devices(program: &mut RandomProgram<'_>) {
    let Some(instance) = program.any(Kind::Instance) else {
        return;
    };
    eprint!("\n> list the devices of {:x}", instance.handle);
    let functions = program.functions_of_instance(instance.id);
    // SAFETY: the instance is live, and the results have space.
    unsafe {
        let list = functions.fp_v1_0().enumerate_physical_devices;
        let (mut count, mut device) = (0, vk::PhysicalDevice::null());
        match program.random.below(4) {
            0 => _ = list(instance_of(instance), &mut count, &mut device),
            1 => _ = list(instance_of(instance), &mut count, ptr::null_mut()),
            2 => _ = functions.enumerate_physical_devices(),
            _ => list_groups(&functions),
        }
    }
}

fn instance_of(object: Object) -> vk::Instance {
    vk::Instance::from_raw(object.handle)
}

pub(super) fn create_device(program: &mut RandomProgram<'_>) {
    let Some(instance) = program.any(Kind::Instance) else {
        return;
    };
    if program.devices.len() >= 4 {
        return;
    }
    eprint!("\n> {:x}: create device", instance.handle);
    let queues = [vk::DeviceQueueCreateInfo::default()
        .queue_family_index(0)
        .queue_priorities(&[1.0])];
    let mut of_1_2 = vk::PhysicalDeviceVulkan12Features::default()
        .timeline_semaphore(true)
        .imageless_framebuffer(true);
    let mut of_1_3 = vk::PhysicalDeviceVulkan13Features::default()
        .pipeline_creation_cache_control(true)
        .private_data(true);
    let names: Vec<_> = DEVICE_EXTENSIONS.iter().map(|it| it.as_ptr()).collect();
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(&names)
        .push_next(&mut of_1_2)
        .push_next(&mut of_1_3);
    let functions = program.functions_of_instance(instance.id);
    let listed = program.instances[&instance.id].1.clone();
    let number = program.random.below(listed.len());
    // SAFETY: the physical device belongs to the instance, and the parameters live as long as the
    // call.
    let (made, has_allocator) = program.with_allocator(Kind::Device, |allocator| unsafe {
        let mut device = vk::Device::null();
        let allocator = allocator.map_or(ptr::null(), ptr::from_ref);
        let create = functions.fp_v1_0().create_device;
        create(listed[number], &info, allocator, &mut device).result_with_success(device)
    });
    let Some(handle) = result(made) else {
        return;
    };
    let object = Object::new(Kind::Device, instance.id, handle.as_raw());
    let id = program.keep(object, has_allocator);
    program.get(id).number = number;
    let functions = program.loader.device(&functions, handle);
    program.devices.insert(id, functions);
}

/// Destroys the objects of a device, and the device.
pub(super) fn close_device(program: &mut RandomProgram<'_>) {
    if let Some(device) = program.any(Kind::Device) {
        while program.destroy_one(|it| it.of == device.id || it.id == device.id) {}
    }
}

/// Destroys a device or an instance whose objects are live. Vulkan does not allow this, but
/// programs do it. The validation layer would report it, and crash later.
pub(super) fn abandon(program: &mut RandomProgram<'_>) {
    if std::env::var_os("VK_INSTANCE_LAYERS").is_some() {
        return;
    }
    let wanted = |it: &Object| matches!(it.kind, Kind::Instance | Kind::Device);
    let owner = program.one(|it| wanted(it) && it.note != Note::SharedByThreads);
    if let Some(owner) = owner {
        program.destroy(owner);
    }
}

pub(super) fn destroy_instance(program: &mut RandomProgram<'_>) {
    program.destroy_one(|it| it.kind == Kind::Instance);
}

#[expect(deprecated, reason = "programs still use the older extension")]
pub(super) fn create_messenger(program: &mut RandomProgram<'_>) {
    let Some(instance) = program.any(Kind::Instance) else {
        return;
    };
    eprint!("\n> {:x}: create messenger", instance.handle);
    let (entry, functions) = (
        &program.loader.entry,
        program.functions_of_instance(instance.id),
    );
    let is_report = program.random.below(2) == 0;
    // SAFETY: the parameters live as long as the calls.
    let (made, has_allocator) = program.with_allocator(Kind::Messenger, |allocator| unsafe {
        if is_report {
            let extension = debug_report::Instance::new(entry, &functions);
            let info = vk::DebugReportCallbackCreateInfoEXT::default();
            let info = info.pfn_callback(Some(silent_report));
            let made = extension.create_debug_report_callback(&info, allocator);
            made.map(vk::DebugReportCallbackEXT::as_raw)
        } else {
            let extension = debug_utils::Instance::new(entry, &functions);
            let info = vk::DebugUtilsMessengerCreateInfoEXT::default()
                .message_severity(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR)
                .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
                .pfn_user_callback(Some(silent));
            let made = extension.create_debug_utils_messenger(&info, allocator);
            made.map(vk::DebugUtilsMessengerEXT::as_raw)
        }
    });
    if let Some(handle) = result(made) {
        let object = Object::new(Kind::Messenger, instance.id, handle);
        let id = program.keep(object, has_allocator);
        if is_report {
            program.get(id).note = Note::Report;
        }
    }
}

/// Creates a surface for a window that does not exist. The loader and the driver only store the
/// connection.
pub(super) fn create_surface(program: &mut RandomProgram<'_>) {
    let Some(instance) = program.any(Kind::Instance) else {
        return;
    };
    eprint!("\n> {:x}: create surface", instance.handle);
    let functions = program.functions_of_instance(instance.id);
    let extension = xcb_surface::Instance::new(&program.loader.entry, &functions);
    let info = vk::XcbSurfaceCreateInfoKHR::default().connection(page());
    // SAFETY: the parameters live as long as the call.
    let (made, has_allocator) = program.with_allocator(Kind::Surface, |allocator| unsafe {
        extension.create_xcb_surface(&info, allocator)
    });
    if let Some(surface) = result(made) {
        let object = Object::new(Kind::Surface, instance.id, surface.as_raw());
        program.keep(object, has_allocator);
    }
}

unsafe extern "system" fn silent_report(
    _: vk::DebugReportFlagsEXT,
    _: vk::DebugReportObjectTypeEXT,
    _: u64,
    _: usize,
    _: i32,
    _: *const c_char,
    _: *const c_char,
    _: *mut c_void,
) -> vk::Bool32 {
    vk::FALSE
}
