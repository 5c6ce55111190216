//! Plants one leak of each kind that the self-test covers, through the drivers of this machine.
//! Nothing is freed, since the process ends soon afterwards.
//!
//! The functions are looked up with `dlsym`, as in a program that loads the driver at run time, and
//! called with the signatures of `cuda.h` and `vulkan_core.h`.

#![expect(unsafe_code, reason = "calls the drivers' C functions")]

use std::ffi::{CStr, c_void};
use std::mem;
use std::ptr;

use gpu_leak_check::Place;
use gpu_leak_check::ledger::Kind;
use gpu_leak_check::observe::Source;

/// A handle or an address that a driver returned. Only the driver knows what it refers to.
type Opaque = *mut c_void;

/// The number of bytes that most plants allocate.
pub(super) const BYTES: usize = 4096;

pub(super) struct Plant<Api> {
    /// The kind of resource that must be found.
    pub(super) kind: Kind,
    /// The size of the resource in bytes, or `None` if it depends on the driver.
    pub(super) bytes: Option<usize>,
    /// Plants the leak, or returns why this is not possible here.
    pub(super) plant: fn(&mut Api) -> Result<(), String>,
}

/// Calls a function of a driver. A result other than 0 is an error.
macro_rules! call {
    ($api:expr, $name:expr, ($($argument:expr => $kind:ty),* $(,)?)) => {{
        let function = $api.function($name)?;
        // SAFETY: the address is that of the function with this name, which has this signature.
        let function: unsafe extern "C" fn($($kind),*) -> i32 = unsafe { mem::transmute(function) };
        // SAFETY: pointers among the arguments point to live values of the types that the function
        // reads and writes, and handles are those that the driver returned.
        match unsafe { function($($argument),*) } {
            0 => Ok(()),
            error => Err(format!("{} returned {error}", $name.to_string_lossy())),
        }
    }};
}

/// A plant that leaks the object or address that a CUDA function writes to its first parameter.
macro_rules! creates {
    ($kind:ident, $bytes:expr, $name:expr, $($argument:expr => $type:ty),*) => {
        Plant {
            kind: Kind::$kind,
            bytes: $bytes,
            plant: |cuda| {
                let mut made = 0;
                call!(cuda, $name, (&raw mut made => *mut u64, $($argument => $type),*))
            },
        }
    };
}

/// The opened library of a driver.
struct Driver(Opaque);

impl Driver {
    fn open(name: &CStr) -> Result<Self, String> {
        // SAFETY: the name is a string, and the driver's initialisation code runs as in any
        // program.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            return Err(format!("cannot load {}", name.to_string_lossy()));
        }
        Ok(Self(handle))
    }

    fn function(&self, name: &CStr) -> Result<Opaque, String> {
        // SAFETY: the handle is that of an open library, which is never closed.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        present(address, name)
    }
}

fn present(address: Opaque, name: &CStr) -> Result<Opaque, String> {
    match address.is_null() {
        true => Err(format!("{} not found", name.to_string_lossy())),
        false => Ok(address),
    }
}

/// The CUDA driver, with a current context on its first device.
pub(super) struct Cuda(Driver);

impl Cuda {
    pub(super) fn start() -> Result<Self, String> {
        let cuda = Self(Driver::open(c"libcuda.so.1")?);
        let (mut device, mut context) = (0_i32, ptr::null_mut());
        call!(cuda, c"cuInit", (0 => u32))?;
        call!(cuda, c"cuDeviceGet", (&raw mut device => *mut i32, 0 => i32))?;
        call!(
            cuda,
            c"cuDevicePrimaryCtxRetain",
            (&raw mut context => *mut Opaque, device => i32)
        )?;
        call!(cuda, c"cuCtxSetCurrent", (context => Opaque))?;
        Ok(cuda)
    }

    fn function(&self, name: &CStr) -> Result<Opaque, String> {
        self.0.function(name)
    }

    pub(super) const PLANTS: &[Plant<Self>] = &[
        creates!(Linear, Some(BYTES), c"cuMemAlloc_v2", BYTES => usize),
        creates!(
            Pitched, None, c"cuMemAllocPitch_v2",
            ptr::from_mut(&mut 0) => *mut usize, 100 => usize, 4 => usize, 4 => u32
        ),
        // The flag 1 means that any stream may use the memory.
        creates!(Managed, Some(BYTES), c"cuMemAllocManaged", BYTES => usize, 1 => u32),
        creates!(
            StreamOrdered, Some(BYTES), c"cuMemAllocAsync",
            BYTES => usize, ptr::null_mut() => Opaque
        ),
        creates!(Pinned, Some(BYTES), c"cuMemHostAlloc", BYTES => usize, 0 => u32),
        Plant {
            kind: Kind::Registered,
            bytes: Some(BYTES),
            plant: |cuda| {
                // Registered memory must be neither moved nor freed.
                let memory = Box::leak(Box::new([0_u8; BYTES]));
                let address = memory.as_mut_ptr().cast();
                call!(
                    cuda,
                    c"cuMemHostRegister_v2",
                    (address => Opaque, BYTES => usize, 0 => u32)
                )
            },
        },
        // The fields of `CUDA_ARRAY_DESCRIPTOR`: the width, the height, the format (floats) and the
        // number of channels.
        creates!(
            Array, None, c"cuArrayCreate_v2",
            ptr::from_ref(&[16, 16, 0x20 | 1 << 32]) => *const [u64; 3]
        ),
        creates!(Stream, None, c"cuStreamCreate", 0 => u32),
        creates!(Event, None, c"cuEventCreate", 0 => u32),
        creates!(GraphHandle, None, c"cuGraphCreate", 0 => u32),
    ];
}

/// Vulkan, with the objects to which later objects belong. The structures of its API are written as
/// arrays of 64-bit words. Each structure begins with the number of its type and a null pointer in
/// place of extensions. Lists are empty unless a comment says otherwise.
pub(super) struct Vulkan {
    library: Driver,
    instance: Opaque,
    device: Opaque,
}

impl Vulkan {
    pub(super) fn start() -> Result<Self, String> {
        Ok(Self {
            library: Driver::open(c"libvulkan.so.1")?,
            instance: ptr::null_mut(),
            device: ptr::null_mut(),
        })
    }

    fn function(&self, name: &CStr) -> Result<Opaque, String> {
        let find = self.library.function(c"vkGetInstanceProcAddr")?;
        // SAFETY: the address is that of the function with this name, which has this signature.
        let find: unsafe extern "C" fn(Opaque, *const std::ffi::c_char) -> Opaque =
            unsafe { mem::transmute(find) };
        // SAFETY: the instance is null or one that the driver returned, and the name is a string.
        present(unsafe { find(self.instance, name.as_ptr()) }, name)
    }

    pub(super) const PLANTS: &[Plant<Self>] = &[
        Plant {
            kind: Kind::Instance,
            bytes: None,
            plant: |vulkan| {
                // The fields are the flags, the application, the layers and the extensions.
                let info = [1, 0, 0, 0, 0, 0, 0, 0];
                let mut instance = ptr::null_mut();
                call!(
                    vulkan,
                    c"vkCreateInstance",
                    (
                        info.as_ptr() => *const u64,
                        ptr::null() => *const c_void,
                        &raw mut instance => *mut Opaque,
                    )
                )?;
                vulkan.instance = instance;
                Ok(())
            },
        },
        Plant {
            kind: Kind::Device,
            bytes: None,
            plant: |vulkan| {
                let instance = vulkan.instance()?;
                let (mut count, mut physical) = (1, ptr::null_mut());
                // If there are more devices than there is room for, the result is VK_INCOMPLETE.
                let listed = call!(
                    vulkan,
                    c"vkEnumeratePhysicalDevices",
                    (
                        instance => Opaque,
                        &raw mut count => *mut u32,
                        &raw mut physical => *mut Opaque,
                    )
                );
                if physical.is_null() {
                    return Err(listed.err().unwrap_or_else(|| "no device found".to_owned()));
                }
                let priorities = [1.0_f32];
                // The fields are the flags, the queue family, the number of queues (one) and their
                // priorities.
                let queue = [2, 0, 0, 1, priorities.as_ptr().expose_provenance() as u64];
                let queue = queue.as_ptr().expose_provenance() as u64;
                // The fields are the flags, one description of queues, the layers, the extensions
                // and the features.
                let info = [3, 0, 1 << 32, queue, 0, 0, 0, 0, 0];
                let mut device = ptr::null_mut();
                call!(
                    vulkan,
                    c"vkCreateDevice",
                    (
                        physical => Opaque,
                        info.as_ptr() => *const u64,
                        ptr::null() => *const c_void,
                        &raw mut device => *mut Opaque,
                    )
                )?;
                vulkan.device = device;
                Ok(())
            },
        },
        Plant {
            kind: Kind::Memory,
            bytes: Some(BYTES),
            // The fields are the size and the first type of memory.
            plant: |vulkan| vulkan.create(c"vkAllocateMemory", &[5, 0, BYTES as u64, 0]),
        },
        Plant {
            kind: Kind::Buffer,
            bytes: None,
            // The fields are the flags, the size, the usage (as a source of copies), the sharing
            // mode and the queue families.
            plant: |vulkan| vulkan.create(c"vkCreateBuffer", &[12, 0, 0, BYTES as u64, 1, 0, 0]),
        },
        Plant {
            kind: Kind::Fence,
            bytes: None,
            // The only field contains the flags.
            plant: |vulkan| vulkan.create(c"vkCreateFence", &[8, 0, 0]),
        },
    ];

    fn instance(&self) -> Result<Opaque, String> {
        let instance = self.instance;
        let created = (!instance.is_null()).then_some(instance);
        created.ok_or_else(|| "no instance was created".to_owned())
    }

    /// Creates an object of the device by calling the function `name`, whose second parameter
    /// points to `info`.
    fn create(&self, name: &'static CStr, info: &[u64]) -> Result<(), String> {
        if self.device.is_null() {
            return Err("no device was created".to_owned());
        }
        let mut object = 0;
        let api = self;
        call!(
            api,
            name,
            (
                self.device => Opaque,
                info.as_ptr() => *const u64,
                ptr::null() => *const c_void,
                &raw mut object => *mut u64,
            )
        )
    }
}

/// An allocator that reports its blocks.
pub(super) struct Observed;

impl Observed {
    pub(super) const PLANTS: &[Plant<Self>] = &[Plant {
        kind: Kind::Block,
        bytes: Some(BYTES),
        plant: |_| {
            static ALLOCATOR: Source = Source::new("self-test", &[]);
            ALLOCATOR.allocated(Place::named("self-test:0"), 1, BYTES as u64);
            Ok(())
        },
    }];
}
