//! The functions of Vulkan, looked up in different ways.

use std::ffi::{CStr, c_void};
use std::mem;

use ash::vk;
use libloading::Library;

/// Functions of core Vulkan, each with the name that it has in an extension.
const ALIASES: &[(&CStr, &CStr)] = &[
    (
        c"vkEnumeratePhysicalDeviceGroups",
        c"vkEnumeratePhysicalDeviceGroupsKHR",
    ),
    (c"vkBindBufferMemory2", c"vkBindBufferMemory2KHR"),
    (c"vkBindImageMemory2", c"vkBindImageMemory2KHR"),
    (c"vkCreateRenderPass2", c"vkCreateRenderPass2KHR"),
    (
        c"vkCreateDescriptorUpdateTemplate",
        c"vkCreateDescriptorUpdateTemplateKHR",
    ),
    (
        c"vkDestroyDescriptorUpdateTemplate",
        c"vkDestroyDescriptorUpdateTemplateKHR",
    ),
    (c"vkCreatePrivateDataSlot", c"vkCreatePrivateDataSlotEXT"),
    (c"vkDestroyPrivateDataSlot", c"vkDestroyPrivateDataSlotEXT"),
];

/// The extensions that the programs use, including those that declare the names above.
pub(super) const INSTANCE_EXTENSIONS: &[&CStr] = &[
    ash::khr::device_group_creation::NAME,
    ash::ext::debug_utils::NAME,
    ash::ext::debug_report::NAME,
    ash::khr::surface::NAME,
    ash::khr::xcb_surface::NAME,
];
pub(super) const DEVICE_EXTENSIONS: &[&CStr] = &[
    ash::khr::bind_memory2::NAME,
    ash::khr::create_renderpass2::NAME,
    ash::khr::descriptor_update_template::NAME,
    ash::ext::private_data::NAME,
    ash::khr::external_memory_fd::NAME,
    ash::ext::external_memory_host::NAME,
];

fn alias(name: &CStr) -> &CStr {
    let found = ALIASES.iter().find(|(core, _)| *core == name);
    found.map_or(name, |(_, alias)| alias)
}

/// The loader.
pub(super) struct Loader {
    pub(super) entry: ash::Entry,
    library: Library,
}

impl Loader {
    pub(super) fn load() -> Self {
        // SAFETY: the loader's constructors do nothing.
        unsafe {
            Self {
                entry: ash::Entry::load().expect("the parent has found a loader"),
                library: Library::new("libvulkan.so.1").expect("it is loaded"),
            }
        }
    }

    /// Returns a function that the loader exports, or null if there is none with this name.
    pub(super) fn exported(&self, name: &CStr) -> *const c_void {
        // SAFETY: the type of the symbol is not used.
        unsafe {
            let found = self.library.get::<*const c_void>(name.to_bytes_with_nul());
            let address = found.ok().and_then(|symbol| symbol.try_as_raw_ptr());
            address.map_or(std::ptr::null(), <*mut c_void>::cast_const)
        }
    }

    /// Returns a function of an instance, or of the loader if `instance` is null.
    pub(super) fn of_instance(&self, instance: vk::Instance, name: &CStr) -> *const c_void {
        // SAFETY: the instance is live or null.
        unsafe { mem::transmute(self.entry.get_instance_proc_addr(instance, name.as_ptr())) }
    }

    /// Returns the functions of an instance, once for each way to look them up.
    pub(super) fn instance(&self, instance: vk::Instance) -> [ash::Instance; 3] {
        // SAFETY: the functions with these names have these types.
        unsafe {
            [
                ash::Instance::load_with(|name| self.of_instance(instance, name), instance),
                ash::Instance::load_with(|name| self.of_instance(instance, alias(name)), instance),
                ash::Instance::load_with(|name| self.exported(name), instance),
            ]
        }
    }

    /// Returns the functions of a device of an instance, once for each way to look them up.
    pub(super) fn device(&self, instance: &ash::Instance, device: vk::Device) -> [ash::Device; 4] {
        let of_device = |name: &CStr| {
            // SAFETY: the device is live.
            let found = unsafe { instance.get_device_proc_addr(device, name.as_ptr()) };
            found.map_or(std::ptr::null(), |found| found as *const c_void)
        };
        let of_instance = |name: &CStr| self.of_instance(instance.handle(), name);
        // SAFETY: the functions with these names have these types.
        unsafe {
            [
                ash::Device::load_with(of_device, device),
                ash::Device::load_with(|name| of_device(alias(name)), device),
                ash::Device::load_with(of_instance, device),
                ash::Device::load_with(|name| self.exported(name), device),
            ]
        }
    }
}
