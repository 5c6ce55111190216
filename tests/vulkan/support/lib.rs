//! Vulkan on this machine, for the tests: whether there is a device, and how to open it.
#![expect(unsafe_code, reason = "Vulkan's interface is C")]

use std::ffi::CStr;
use std::path::Path;
use std::sync::OnceLock;

use ash::{Device, Entry, Instance, vk};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;
use gpu_leak_tests::skipped;

/// The message if a call that is expected to succeed fails.
const WORKS: &str = "Vulkan does this";

/// An instance, and a device with one queue.
#[expect(missing_debug_implementations, reason = "ash's types have none")]
pub struct Gpu {
    /// The functions of the loader.
    pub entry: Entry,
    /// The instance.
    pub instance: Instance,
    /// The physical device.
    pub physical: vk::PhysicalDevice,
    /// The device.
    pub device: Device,
    /// The extensions of the device that are enabled.
    pub extensions: Vec<&'static CStr>,
}

/// Extensions that tests use if the device has them.
const WANTED: &[&CStr] = &[
    ash::khr::swapchain::NAME,
    ash::khr::deferred_host_operations::NAME,
    ash::khr::acceleration_structure::NAME,
    ash::ext::private_data::NAME,
    ash::ext::external_memory_host::NAME,
    ash::khr::external_memory_fd::NAME,
];
const OF_INSTANCE: &[&CStr] = &[
    ash::khr::surface::NAME,
    ash::ext::headless_surface::NAME,
    ash::ext::debug_utils::NAME,
    ash::ext::debug_report::NAME,
];

impl Gpu {
    /// Opens the first device.
    ///
    /// # Errors
    ///
    /// Returns a message that says what is missing.
    pub fn open() -> Result<Self, String> {
        // SAFETY: the loader stays loaded, and every handle is used with its own functions.
        unsafe {
            let entry = Entry::load().map_err(|error| error.to_string())?;
            let instance = instance(&entry).map_err(|error| error.to_string())?;
            let listed = instance.enumerate_physical_devices();
            let Some(physical) = listed.ok().and_then(|all| all.first().copied()) else {
                instance.destroy_instance(None);
                return Err("no Vulkan device".to_owned());
            };
            let (device, extensions) = device(&instance, physical);
            Ok(Self {
                entry,
                instance,
                physical,
                device,
                extensions,
            })
        }
    }

    /// Whether the device has an extension.
    #[must_use]
    pub fn has(&self, extension: &CStr) -> bool {
        self.extensions.contains(&extension)
    }

    /// Whether the device is one of NVIDIA's.
    #[must_use]
    pub fn is_nvidias(&self) -> bool {
        // SAFETY: the physical device belongs to this instance.
        let properties = unsafe { self.instance.get_physical_device_properties(self.physical) };
        properties.vendor_id == 0x10de
    }

    /// Allocates memory that fits these requirements.
    ///
    /// # Panics
    ///
    /// Panics if no memory fits.
    #[must_use]
    pub fn allocate(&self, needs: vk::MemoryRequirements) -> vk::DeviceMemory {
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(needs.memory_type_bits.trailing_zeros());
        // SAFETY: the parameters live as long as the call.
        unsafe { self.device.allocate_memory(&info, None) }.expect(WORKS)
    }

    /// Destroys the device and the instance.
    pub fn close(self) {
        // SAFETY: the caller has destroyed all objects of the device and the instance, or leaks
        // them on purpose.
        unsafe {
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}

/// Creates an instance with the wanted extensions that are available.
///
/// # Errors
///
/// Returns the loader's error.
pub fn instance(entry: &Entry) -> Result<Instance, vk::Result> {
    // SAFETY: the parameters live as long as the calls.
    unsafe {
        let there = entry.enumerate_instance_extension_properties(None)?;
        let names = having(OF_INSTANCE, &there);
        let pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let info = vk::InstanceCreateInfo::default()
            .application_info(&application)
            .enabled_extension_names(&pointers);
        entry.create_instance(&info, None)
    }
}

/// Opens a physical device, with the wanted extensions that it has.
///
/// # Panics
///
/// Panics if the device cannot be opened.
#[must_use]
pub fn device(instance: &Instance, physical: vk::PhysicalDevice) -> (Device, Vec<&'static CStr>) {
    // SAFETY: the device belongs to the instance, and the parameters live as long as the calls.
    unsafe {
        let there = instance.enumerate_device_extension_properties(physical);
        let names = having(WANTED, &there.expect(WORKS));
        let pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(0)
            .queue_priorities(&[1.0])];
        let mut features = vk::PhysicalDeviceVulkan12Features::default()
            .timeline_semaphore(true)
            .imageless_framebuffer(true);
        let mut private = vk::PhysicalDevicePrivateDataFeatures::default().private_data(true);
        let mut info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&pointers)
            .push_next(&mut features);
        if names.contains(&ash::ext::private_data::NAME) {
            info = info.push_next(&mut private);
        }
        let device = instance.create_device(physical, &info, None);
        (device.expect(WORKS), names)
    }
}

fn having(wanted: &[&'static CStr], there: &[vk::ExtensionProperties]) -> Vec<&'static CStr> {
    let is_there = |name: &&&CStr| {
        there
            .iter()
            .any(|it| it.extension_name_as_c_str() == Ok(**name))
    };
    wanted.iter().filter(is_there).copied().collect()
}

/// Returns the device of this process. A warm-up calls this first, so the device is opened before
/// any check begins.
///
/// # Panics
///
/// Panics if there is no device; callers must have checked that there is one.
pub fn gpu() -> &'static Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(|| Gpu::open().expect("the parent has found a device"))
}

/// Whether this machine has a Vulkan device. If it has none, prints a message.
///
/// # Panics
///
/// Panics if `VULKAN_TESTS` is `require` and there is no device.
#[must_use]
pub fn is_present() -> bool {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    let missing = MISSING.get_or_init(|| Gpu::open().map(Gpu::close).err());
    let Some(why) = missing else {
        return true;
    };
    let is_demanded = std::env::var_os("VULKAN_TESTS").is_some_and(|value| value == "require");
    assert!(!is_demanded, "VULKAN_TESTS=require, but: {why}");
    skipped(&format!(
        "{why}; scripts/lavapipe installs a Vulkan driver for the processor"
    ));
    false
}

/// Runs a checked test in a process of its own. Returns `None` if there is no Vulkan device.
#[must_use]
pub fn run(test: &str) -> Option<Checked> {
    is_present().then(|| checked::finish(Run::of(test)))
}

/// Like [`run`], but sets environment variables.
#[must_use]
pub fn run_with(test: &str, variables: &[(&str, &str)]) -> Option<Checked> {
    is_present().then(|| {
        let run = variables
            .iter()
            .fold(Run::of(test), |run, (name, value)| run.env(name, value));
        checked::finish(run)
    })
}

/// If lavapipe is installed, makes a child process see two lavapipe devices. The loader treats two
/// paths to one manifest as two drivers.
#[must_use]
pub fn with_two_devices(child: Run) -> Run {
    let name = format!("lvp_icd.{}.json", std::env::consts::ARCH);
    let paths = ["", "../icd.d/"].map(|way| format!("/usr/share/vulkan/icd.d/{way}{name}"));
    match Path::new(&paths[0]).exists() {
        true => child.env("VK_ICD_FILENAMES", paths.join(":")),
        false => child,
    }
}
