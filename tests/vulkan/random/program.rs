//! The state of a random program: what it has created and not destroyed yet.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use ash::ext::{debug_report, debug_utils};
use ash::khr::surface;
use ash::vk::{self, Handle};
use gpu_leak_check::ledger::Kind;
use gpu_leak_tests::random::Random;

use super::allocator::{callbacks, with_allocations};
use super::functions::Loader;

/// A live object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object {
    /// The object's ID, which is never reused.
    pub(super) id: u64,
    pub(super) kind: Kind,
    pub(super) handle: u64,
    /// The device or instance to which the object belongs. An instance belongs to itself.
    pub(super) of: u64,
    pub(super) bytes: u64,
    /// The pool that handed out the object, or the memory that is bound to it.
    pub(super) within: u64,
    /// The buffer or image of which the object is a view.
    pub(super) view_of: u64,
    /// For memory, the type of the handle by which it is exported or imported. For a buffer or
    /// image, the handle types that memory bound to it may have.
    pub(super) shared_by: vk::ExternalMemoryHandleTypeFlags,
    /// For a device, the index of its physical device among those that the instance lists.
    pub(super) number: usize,
    /// Whether the object was created with callbacks for memory.
    pub(super) has_allocator: bool,
    pub(super) note: Note,
}

impl Object {
    pub(super) const fn new(kind: Kind, of: u64, handle: u64) -> Self {
        Self {
            id: 0,
            kind,
            handle,
            of,
            bytes: 0,
            within: 0,
            view_of: 0,
            shared_by: vk::ExternalMemoryHandleTypeFlags::empty(),
            number: 0,
            has_allocator: false,
            note: Note::None,
        }
    }

    /// Whether the object ends with its pool.
    pub(super) const fn is_of_pool(&self) -> bool {
        matches!(self.kind, Kind::DescriptorSet | Kind::CommandBuffer)
    }
}

/// What else the program must know to use an object as Vulkan requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    None,
    /// Memory that only this object may use.
    OnlyFor(u64),
    /// Memory that is mapped.
    Mapped,
    /// A buffer or image to which memory was bound.
    Bound,
    /// A messenger of the older extension.
    Report,
    /// A device on which other threads also have objects.
    SharedByThreads,
}

pub(super) struct RandomProgram<'a> {
    pub(super) loader: &'a Loader,
    pub(super) random: Random,
    pub(super) objects: Vec<Object>,
    pub(super) instances: BTreeMap<u64, ([ash::Instance; 3], Vec<vk::PhysicalDevice>)>,
    pub(super) devices: BTreeMap<u64, [ash::Device; 4]>,
}

/// The parameter with which objects are created and destroyed.
pub(super) type Allocator<'a> = Option<&'a vk::AllocationCallbacks<'a>>;

impl<'a> RandomProgram<'a> {
    pub(super) fn new(loader: &'a Loader) -> Self {
        Self {
            loader,
            random: Random(0),
            objects: Vec::new(),
            instances: BTreeMap::new(),
            devices: BTreeMap::new(),
        }
    }

    /// Returns another program, for another thread. It shares the instance and the device.
    pub(super) fn share(&mut self) -> Self {
        for object in &mut self.objects {
            object.note = Note::SharedByThreads;
        }
        Self {
            loader: self.loader,
            random: Random(0),
            objects: self.objects.clone(),
            instances: self.instances.clone(),
            devices: self.devices.clone(),
        }
    }

    /// Returns how many of the driver's allocations for objects of this pool may succeed.
    pub(super) fn allocations_left(&mut self, pool: Object) -> usize {
        match self.random.below(4) {
            0 if pool.has_allocator => self.random.below(4),
            _ => usize::MAX,
        }
    }

    /// Returns a live object of this kind.
    pub(super) fn any(&mut self, kind: Kind) -> Option<Object> {
        self.one(|it| it.kind == kind)
    }

    /// Returns a live object of this kind and this device.
    pub(super) fn any_of(&mut self, device: u64, kind: Kind) -> Option<Object> {
        self.one(|it| it.kind == kind && it.of == device)
    }

    pub(super) fn one(&mut self, wanted: impl Fn(&Object) -> bool) -> Option<Object> {
        let objects = self.objects.iter().filter(|it| wanted(it)).copied();
        let objects: Vec<_> = objects.collect();
        (!objects.is_empty()).then(|| self.random.one_of(&objects))
    }

    pub(super) fn get(&mut self, id: u64) -> &mut Object {
        let found = self.objects.iter_mut().find(|it| it.id == id);
        found.expect("it is live")
    }

    /// Returns the functions of a device, looked up in a randomly chosen way.
    pub(super) fn functions(&mut self, device: u64) -> ash::Device {
        self.random
            .one_of(&self.devices[&device].each_ref())
            .clone()
    }

    pub(super) fn functions_of_instance(&mut self, instance: u64) -> ash::Instance {
        let functions = &self.instances[&instance].0;
        self.random.one_of(&functions.each_ref()).clone()
    }

    /// Calls `make`, which creates an object, in some cases with callbacks for memory that may
    /// fail. Returns the result, and whether there were callbacks.
    pub(super) fn with_allocator<T>(
        &mut self,
        kind: Kind,
        make: impl FnOnce(Allocator<'_>) -> T,
    ) -> (T, bool) {
        let count = match self.random.below(4) {
            // lavapipe (Mesa 22.3) crashes if it gets no memory for a pipeline layout.
            0 if kind != Kind::PipelineLayout => self.random.below(5),
            0 | 1 => usize::MAX,
            _ => return (make(None), false),
        };
        (with_allocations(count, || make(Some(&callbacks()))), true)
    }

    /// Makes a call that creates an object of a device, and adds the object if it succeeds.
    pub(super) fn create<T: Handle>(
        &mut self,
        kind: Kind,
        device: u64,
        make: impl FnOnce(&ash::Device, Allocator<'_>) -> Result<T, vk::Result>,
    ) -> Option<u64> {
        eprint!("\n> {:x}: create {}", self.get(device).handle, kind.name());
        let functions = self.functions(device);
        let (made, has_allocator) =
            self.with_allocator(kind, |allocator| make(&functions, allocator));
        let handle = result(made)?.as_raw();
        let object = Object::new(kind, device, handle);
        Some(self.keep(object, has_allocator))
    }

    /// Adds an object, and returns its ID.
    pub(super) fn keep(&mut self, object: Object, has_allocator: bool) -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        eprint!(" {:x}", object.handle);
        self.objects.push(Object {
            id,
            has_allocator,
            ..object
        });
        id
    }

    /// Whether Vulkan allows the program to destroy this object.
    pub(super) fn is_destructible(&self, object: &Object) -> bool {
        let mut others = self.objects.iter().filter(|it| it.id != object.id);
        let is_used = others.any(|it| it.of == object.id || it.view_of == object.id);
        !object.is_of_pool() && !is_used && object.note != Note::SharedByThreads
    }

    pub(super) fn destroy(&mut self, object: Object) {
        let kind = object.kind;
        eprint!("\n> destroy {} {:x}", kind.name(), object.handle);
        let callbacks = object.has_allocator.then(callbacks);
        let allocator = callbacks.as_ref();
        // SAFETY: the object is live, and nothing that is live needs it.
        unsafe {
            match kind {
                Kind::Instance => {
                    self.functions_of_instance(object.id)
                        .destroy_instance(allocator);
                }
                Kind::Messenger => {
                    let functions = self.functions_of_instance(object.of);
                    destroy_messenger(&self.loader.entry, &functions, object, allocator);
                }
                Kind::Surface => {
                    let functions = self.functions_of_instance(object.of);
                    surface::Instance::new(&self.loader.entry, &functions)
                        .destroy_surface(Handle::from_raw(object.handle), allocator);
                }
                Kind::Device => self.functions(object.id).destroy_device(allocator),
                _ => destroy(&self.functions(object.of), kind, object.handle, allocator),
            }
        }
        let devices = self.objects.iter().filter(|it| it.of == object.id);
        let mut owners: Vec<u64> = devices.map(|it| it.id).collect();
        owners.push(object.id);
        let ends = |it: &Object| {
            let is_in_pool = it.is_of_pool() && it.within == object.id;
            it.id == object.id || owners.contains(&it.of) || is_in_pool
        };
        self.objects.retain(|it| !ends(it));
        self.instances.remove(&object.id);
        self.devices.retain(|id, _| !owners.contains(id));
        for other in &mut self.objects {
            if other.within == object.id {
                (other.within, other.bytes) = (0, 0);
            }
        }
    }

    /// Destroys an object for which `wanted` holds, if Vulkan allows it. Returns whether there was
    /// one.
    pub(super) fn destroy_one(&mut self, wanted: impl Fn(&Object) -> bool) -> bool {
        let can = self.objects.iter().filter(|it| self.is_destructible(it));
        let can: Vec<_> = can.filter(|it| wanted(it)).copied().collect();
        if can.is_empty() {
            return false;
        }
        let object = self.random.one_of(&can);
        self.destroy(object);
        true
    }
}

/// Prints the result of a call, and returns what it created.
pub(super) fn result<T>(made: Result<T, vk::Result>) -> Option<T> {
    match made {
        Ok(made) => Some(made),
        Err(error) => {
            eprint!(" = {error:?}");
            None
        }
    }
}

/// # Safety
///
/// The messenger is live, and its allocator is compatible.
#[expect(deprecated, reason = "programs still use the older extension")]
unsafe fn destroy_messenger(
    entry: &ash::Entry,
    instance: &ash::Instance,
    messenger: Object,
    allocator: Allocator<'_>,
) {
    let handle = messenger.handle;
    // SAFETY: the caller upholds the contract.
    unsafe {
        if messenger.note == Note::Report {
            debug_report::Instance::new(entry, instance)
                .destroy_debug_report_callback(Handle::from_raw(handle), allocator);
        } else {
            debug_utils::Instance::new(entry, instance)
                .destroy_debug_utils_messenger(Handle::from_raw(handle), allocator);
        }
    }
}

/// Destroys an object of a device.
///
/// # Safety
///
/// The handle is null or the object is live, nothing uses it, and its allocator is compatible.
pub(super) unsafe fn destroy(
    device: &ash::Device,
    kind: Kind,
    handle: u64,
    allocator: Allocator<'_>,
) {
    macro_rules! rows {
        ($($kind:ident $destroy:ident;)*) => {
            match kind {
                $(Kind::$kind => {
                    // SAFETY: the caller upholds the contract.
                    unsafe { device.$destroy(Handle::from_raw(handle), allocator) }
                })*
                _ => panic!("no function destroys a {}", kind.name()),
            }
        };
    }
    rows! {
        Memory free_memory;
        Imported free_memory;
        Buffer destroy_buffer;
        BufferView destroy_buffer_view;
        Image destroy_image;
        ImageView destroy_image_view;
        Sampler destroy_sampler;
        Fence destroy_fence;
        Semaphore destroy_semaphore;
        Event destroy_event;
        QueryPool destroy_query_pool;
        ShaderModule destroy_shader_module;
        PipelineCache destroy_pipeline_cache;
        PipelineLayout destroy_pipeline_layout;
        Pipeline destroy_pipeline;
        DescriptorLayout destroy_descriptor_set_layout;
        DescriptorPool destroy_descriptor_pool;
        DescriptorTemplate destroy_descriptor_update_template;
        CommandPool destroy_command_pool;
        RenderPass destroy_render_pass;
        Framebuffer destroy_framebuffer;
        PrivateDataSlot destroy_private_data_slot;
    }
}
