//! One leak of each kind, planted through the drivers of this machine. Nothing is freed: the process
//! that plants ends soon after.
//!
//! The functions are looked up as a program's loader does it, with `dlsym`, and called with the
//! signatures of `cuda.h` and `vulkan_core.h`.

#![expect(unsafe_code, reason = "the drivers are C libraries")]

use std::ffi::{CStr, c_void};
use std::mem;
use std::ptr;

use gpu_leak_check::Place;
use gpu_leak_check::ledger::Kind;
use gpu_leak_check::observe::Source;

/// A handle or an address of a driver, whose content is the driver's.
type Opaque = *mut c_void;

/// How many bytes most plants allocate.
pub(super) const BYTES: usize = 4096;

/// A leak to plant.
pub(super) struct Plant<Api> {
    /// The kind of resource that must be found.
    pub(super) kind: Kind,
    /// Its bytes, unless they depend on the driver.
    pub(super) bytes: Option<usize>,
    /// Plants it, or says why that is not possible here.
    pub(super) plant: fn(&mut Api) -> Result<(), String>,
}

/// Calls a function of a driver; a result other than 0 is an error.
macro_rules! call {
    ($api:expr, $name:expr, ($($argument:expr => $kind:ty),* $(,)?)) => {{
        let function = $api.function($name)?;
        // SAFETY: the address is that of the function of this name, which has this signature.
        let function: unsafe extern "C" fn($($kind),*) -> i32 = unsafe { mem::transmute(function) };
        // SAFETY: pointers among the arguments point to locals of the types that the function reads
        // and writes, and handles are those that the driver returned.
        match unsafe { function($($argument),*) } {
            0 => Ok(()),
            error => Err(format!("{} returned {error}", $name.to_string_lossy())),
        }
    }};
}

/// A driver's library, opened.
struct Driver(Opaque);

impl Driver {
    fn open(name: &CStr) -> Result<Self, String> {
        // SAFETY: the name is a string, and the driver's initialisation code runs as in any program.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            return Err(format!("{} cannot be loaded", name.to_string_lossy()));
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
        true => Err(format!("there is no {}", name.to_string_lossy())),
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
        Plant {
            kind: Kind::Linear,
            bytes: Some(BYTES),
            plant: |cuda| {
                let mut address = 0;
                call!(cuda, c"cuMemAlloc_v2", (&raw mut address => *mut u64, BYTES => usize))
            },
        },
        Plant {
            kind: Kind::Pitched,
            bytes: None,
            plant: |cuda| {
                let (mut address, mut pitch) = (0, 0);
                call!(
                    cuda,
                    c"cuMemAllocPitch_v2",
                    (
                        &raw mut address => *mut u64,
                        &raw mut pitch => *mut usize,
                        100 => usize,
                        4 => usize,
                        4 => u32,
                    )
                )
            },
        },
        Plant {
            kind: Kind::Managed,
            bytes: Some(BYTES),
            plant: |cuda| {
                let (mut address, global) = (0, 1);
                call!(
                    cuda,
                    c"cuMemAllocManaged",
                    (&raw mut address => *mut u64, BYTES => usize, global => u32)
                )
            },
        },
        Plant {
            kind: Kind::StreamOrdered,
            bytes: Some(BYTES),
            plant: |cuda| {
                let (mut address, stream) = (0, ptr::null_mut());
                call!(
                    cuda,
                    c"cuMemAllocAsync",
                    (&raw mut address => *mut u64, BYTES => usize, stream => Opaque)
                )
            },
        },
        Plant {
            kind: Kind::Pinned,
            bytes: Some(BYTES),
            plant: |cuda| {
                let mut address = ptr::null_mut();
                call!(
                    cuda,
                    c"cuMemHostAlloc",
                    (&raw mut address => *mut Opaque, BYTES => usize, 0 => u32)
                )
            },
        },
        Plant {
            kind: Kind::Registered,
            bytes: Some(BYTES),
            plant: |cuda| {
                // Registered memory must stay where it is.
                let memory = Box::leak(Box::new([0_u8; BYTES]));
                let address = memory.as_mut_ptr().cast();
                call!(
                    cuda,
                    c"cuMemHostRegister_v2",
                    (address => Opaque, BYTES => usize, 0 => u32)
                )
            },
        },
        Plant {
            kind: Kind::Array,
            bytes: None,
            plant: |cuda| {
                /// `CUDA_ARRAY_DESCRIPTOR`
                #[repr(C)]
                struct Descriptor {
                    width: usize,
                    height: usize,
                    format: u32,
                    channels: u32,
                }
                let of_floats = Descriptor {
                    width: 16,
                    height: 16,
                    format: 0x20,
                    channels: 1,
                };
                let mut array = ptr::null_mut();
                call!(
                    cuda,
                    c"cuArrayCreate_v2",
                    (&raw mut array => *mut Opaque, &raw const of_floats => *const Descriptor)
                )
            },
        },
        Plant {
            kind: Kind::Stream,
            bytes: None,
            plant: |cuda| {
                let mut stream = ptr::null_mut();
                call!(cuda, c"cuStreamCreate", (&raw mut stream => *mut Opaque, 0 => u32))
            },
        },
        Plant {
            kind: Kind::Event,
            bytes: None,
            plant: |cuda| {
                let mut event = ptr::null_mut();
                call!(cuda, c"cuEventCreate", (&raw mut event => *mut Opaque, 0 => u32))
            },
        },
        Plant {
            kind: Kind::GraphHandle,
            bytes: None,
            plant: |cuda| {
                let mut graph = ptr::null_mut();
                call!(cuda, c"cuGraphCreate", (&raw mut graph => *mut Opaque, 0 => u32))
            },
        },
    ];
}

/// Vulkan, with the objects that later ones belong to.
pub(super) struct Vulkan {
    library: Driver,
    instance: Opaque,
    device: Opaque,
}

/// The beginning of every `Vk…Info`, without an extension. The members after it follow without
/// padding, so that they are laid out as in C.
#[repr(C)]
struct Info {
    kind: u32,
    next: *const c_void,
}

impl Info {
    const fn new(kind: u32) -> Self {
        Self {
            kind,
            next: ptr::null(),
        }
    }
}

/// Names of layers and extensions, of which there are none.
#[repr(C)]
struct NoNames {
    layers: u32,
    layer_names: *const c_void,
    extensions: u32,
    extension_names: *const c_void,
}

impl NoNames {
    const NONE: Self = Self {
        layers: 0,
        layer_names: ptr::null(),
        extensions: 0,
        extension_names: ptr::null(),
    };
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
        // SAFETY: the address is that of the function of this name, which has this signature.
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
                #[repr(C)]
                struct InstanceInfo {
                    info: Info,
                    flags: u32,
                    application: *const c_void,
                    names: NoNames,
                }
                let info = InstanceInfo {
                    info: Info::new(1),
                    flags: 0,
                    application: ptr::null(),
                    names: NoNames::NONE,
                };
                let mut instance = ptr::null_mut();
                call!(
                    vulkan,
                    c"vkCreateInstance",
                    (
                        &raw const info => *const InstanceInfo,
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
                #[repr(C)]
                struct QueueInfo {
                    info: Info,
                    flags: u32,
                    family: u32,
                    count: u32,
                    priorities: *const f32,
                }
                #[repr(C)]
                struct DeviceInfo {
                    info: Info,
                    flags: u32,
                    queues: u32,
                    queue: *const QueueInfo,
                    names: NoNames,
                    features: *const c_void,
                }
                let instance = vulkan.instance()?;
                let (mut count, mut physical) = (1, ptr::null_mut());
                // With more devices than there is room for, the result is VK_INCOMPLETE.
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
                    return Err(listed
                        .err()
                        .unwrap_or_else(|| "there is no device".to_owned()));
                }
                let priority = 1.0;
                let queue = QueueInfo {
                    info: Info::new(2),
                    flags: 0,
                    family: 0,
                    count: 1,
                    priorities: &raw const priority,
                };
                let info = DeviceInfo {
                    info: Info::new(3),
                    flags: 0,
                    queues: 1,
                    queue: &raw const queue,
                    names: NoNames::NONE,
                    features: ptr::null(),
                };
                let mut device = ptr::null_mut();
                call!(
                    vulkan,
                    c"vkCreateDevice",
                    (
                        physical => Opaque,
                        &raw const info => *const DeviceInfo,
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
            plant: |vulkan| {
                #[repr(C)]
                struct MemoryInfo {
                    info: Info,
                    bytes: u64,
                    memory_type: u32,
                }
                let info = MemoryInfo {
                    info: Info::new(5),
                    bytes: BYTES as u64,
                    memory_type: 0,
                };
                vulkan.create(c"vkAllocateMemory", &info)
            },
        },
        Plant {
            kind: Kind::Buffer,
            bytes: None,
            plant: |vulkan| {
                #[repr(C)]
                struct BufferInfo {
                    info: Info,
                    flags: u32,
                    bytes: u64,
                    usage: u32,
                    sharing: u32,
                    families: u32,
                    family: *const u32,
                }
                let source_of_copies = 1;
                let info = BufferInfo {
                    info: Info::new(12),
                    flags: 0,
                    bytes: BYTES as u64,
                    usage: source_of_copies,
                    sharing: 0,
                    families: 0,
                    family: ptr::null(),
                };
                vulkan.create(c"vkCreateBuffer", &info)
            },
        },
        Plant {
            kind: Kind::Fence,
            bytes: None,
            plant: |vulkan| {
                #[repr(C)]
                struct FenceInfo {
                    info: Info,
                    flags: u32,
                }
                let info = FenceInfo {
                    info: Info::new(8),
                    flags: 0,
                };
                vulkan.create(c"vkCreateFence", &info)
            },
        },
    ];

    fn instance(&self) -> Result<Opaque, String> {
        let instance = self.instance;
        let created = (!instance.is_null()).then_some(instance);
        created.ok_or_else(|| "there is no instance".to_owned())
    }

    /// Creates an object of the device with `name`, whose second parameter is `info`.
    fn create<Info>(&self, name: &'static CStr, info: &Info) -> Result<(), String> {
        if self.device.is_null() {
            return Err("there is no device".to_owned());
        }
        let mut object = 0;
        let api = self;
        call!(
            api,
            name,
            (
                self.device => Opaque,
                ptr::from_ref(info) => *const Info,
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
