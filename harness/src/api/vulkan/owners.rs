//! The instances, physical devices, devices and pools of the process, and the queries that are made
//! about them.
//!
//! Each instance and each device is a context of the ledger. The handle of an object has a meaning
//! only in the instance or device from which the object was created, and the object ends with that
//! instance or device.

#![expect(
    unsafe_code,
    reason = "calls functions that the Vulkan loader returned"
)]

use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{mem, ptr};

use gpu_leak_interpose::function;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::structures::{DEVICE_LOCAL, DeviceProperties, MemoryProperties, Requirements};
use crate::judge::DeviceName;
use crate::ledger::event::ContextUid;
use crate::ledger::{Kind, Place};
use crate::loader::beside;
use crate::sync::{Mutex, MutexGuard, locked};

/// `vkGetInstanceProcAddr` or `vkGetDeviceProcAddr`.
pub(super) type GetAddress = unsafe extern "C" fn(u64, *const c_char) -> *const ();
type ListDevices = unsafe extern "C" fn(u64, *mut u32, *mut u64) -> i32;
type GetProperties = unsafe extern "C" fn(u64, *mut DeviceProperties);
type GetMemoryProperties = unsafe extern "C" fn(u64, *mut MemoryProperties);
type GetRequirements = unsafe extern "C" fn(u64, u64, *mut Requirements);

/// An instance or a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    /// The handle; 0 in the cache of a thread that has not used an owner yet.
    handle: u64,
    pub(super) uid: ContextUid,
    /// The place where the bytes of its objects are, and where its objects are counted.
    pub(super) place: Place,
    /// The handle of the instance to which a device belongs; 0 for an instance.
    pub(super) instance: u64,
    /// A bit for each type of memory. It is set if that memory is not on the device.
    host_types: u32,
    /// The `vkGetInstanceProcAddr` of the library that created the instance.
    get_instance_address: Option<GetAddress>,
    /// `vkGetBufferMemoryRequirements` and `vkGetImageMemoryRequirements`, for a device.
    requirements: [Option<GetRequirements>; 2],
}

impl Owner {
    const NONE: Self = Self {
        handle: 0,
        uid: ContextUid(0),
        place: Place::UNKNOWN,
        instance: 0,
        host_types: 0,
        get_instance_address: None,
        requirements: [None; 2],
    };

    /// Returns where memory of this type is.
    pub(super) fn place_of(&self, memory_type: u32) -> Place {
        let is_on_host = self.host_types.checked_shr(memory_type).unwrap_or(0) & 1 != 0;
        if is_on_host { Place::HOST } else { self.place }
    }

    /// Returns how much memory an object of this device needs.
    ///
    /// # Safety
    ///
    /// The object is live. It is a buffer or an image, as `kind` says, and its planes have no
    /// separate memory.
    pub(super) unsafe fn bytes_of(&self, kind: Kind, object: u64) -> u64 {
        let mut requirements = Requirements::default();
        if let Some(query) = self.requirements[usize::from(kind == Kind::Image)] {
            // SAFETY: the caller upholds the contract, and the functions are those of this device.
            unsafe { query(self.handle, object, &raw mut requirements) };
        }
        requirements.bytes
    }
}

/// A physical device that an instance has listed.
#[derive(Clone, Copy, Debug)]
struct Physical {
    handle: u64,
    instance: u64,
    /// The index of the physical device in the list.
    index: usize,
}

/// The known owners, physical devices and names. There are few of each, and they change rarely.
struct KnownOwners {
    owners: Vec<Owner>,
    physical: Vec<Physical>,
    names: Vec<(Place, String)>,
}

impl KnownOwners {
    /// Adds an owner. An earlier owner with the same handle is removed, because its end must have
    /// been missed.
    fn add(&mut self, owner: Owner) -> Owner {
        self.owners.retain(|other| other.handle != owner.handle);
        self.owners.push(owner);
        CHANGES.fetch_add(1, Ordering::Release);
        owner
    }

    fn add_physical(&mut self, handle: u64, instance: u64, index: usize) {
        self.physical.retain(|other| other.handle != handle);
        self.physical.push(Physical {
            handle,
            instance,
            index,
        });
    }
}

static KNOWN: Mutex<KnownOwners> = Mutex::new(KnownOwners {
    owners: Vec::new(),
    physical: Vec::new(),
    names: Vec::new(),
});
/// How many times an owner was added or removed. A thread's cached value is valid as long as this
/// count is unchanged.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// The first ID for contexts of Vulkan. Contexts of CUDA have smaller IDs.
const FIRST_UID: u32 = 1 << 31;

fn known() -> MutexGuard<'static, KnownOwners> {
    locked(&KNOWN)
}

/// Returns a new context ID, for an owner that is about to be added.
fn new_uid() -> ContextUid {
    static USED: AtomicU32 = AtomicU32::new(FIRST_UID);
    ContextUid(USED.fetch_add(1, Ordering::Relaxed))
}

/// Returns the instance or device with this handle, and adds it if its creation was not
/// intercepted.
#[inline]
pub(super) fn get(handle: u64) -> Owner {
    thread_local! {
        static LAST: Cell<(u32, Owner)> = const { Cell::new((0, Owner::NONE)) };
    }

    if handle == 0 {
        return Owner::NONE;
    }
    let changes = CHANGES.load(Ordering::Acquire);
    let (when, last) = LAST.get();
    if last.handle == handle && when == changes {
        return last;
    }
    let found = find(handle);
    LAST.set((changes, found));
    found
}

#[cold]
fn find(handle: u64) -> Owner {
    let mut known = known();
    let found = known.owners.iter().find(|it| it.handle == handle).copied();
    found.unwrap_or_else(|| {
        known.add(Owner {
            handle,
            uid: new_uid(),
            place: Place::named("vulkan"),
            ..Owner::NONE
        })
    })
}

/// Adds an instance that the function `created_by` has created.
pub(super) fn instance_created(handle: u64, created_by: *const ()) -> Owner {
    let address_function = beside(created_by, c"vkGetInstanceProcAddr");
    known().add(Owner {
        handle,
        uid: new_uid(),
        place: Place::HOST,
        // SAFETY: the function has this type in every library, and the library stays loaded,
        // because wrappers call it.
        get_instance_address: unsafe { function(address_function.cast_mut().cast()) },
        ..Owner::NONE
    })
}

/// Adds the physical devices that an instance has listed.
pub(super) fn listed(instance: u64, devices: impl Iterator<Item = u64>) {
    let mut known = known();
    for (index, handle) in devices.enumerate() {
        known.add_physical(handle, instance, index);
    }
}

/// Lists and adds the physical devices of an instance after the program has listed their groups,
/// because the groups may contain the devices in another order.
pub(super) fn groups_listed(instance: u64) {
    let Some(get) = get(instance).get_instance_address else {
        return;
    };
    let (mut count, mut devices) = (0, Vec::new());
    // SAFETY: the function with this name has this type, the program has just used the instance,
    // and the vector has space for the devices that were counted.
    unsafe {
        let list = get(instance, c"vkEnumeratePhysicalDevices".as_ptr());
        let Some(list) = function::<ListDevices>(list.cast_mut().cast()) else {
            return;
        };
        list(instance, &raw mut count, ptr::null_mut());
        devices.resize(count as usize, 0);
        if list(instance, &raw mut count, devices.as_mut_ptr()) < 0 {
            return;
        }
    }
    listed(instance, devices.into_iter().take(count as usize));
}

/// Adds a device that was created from a physical device.
pub(super) fn device_created(handle: u64, physical: u64) -> Owner {
    let (device, instance) = {
        let known = known();
        let device = known.physical.iter().find(|it| it.handle == physical);
        let device = device.copied();
        // A device whose physical device was listed before the harness was loaded is assigned to
        // the newest instance.
        let is_its = |owner: &&Owner| match device {
            Some(device) => owner.handle == device.instance,
            None => owner.instance == 0,
        };
        (device, known.owners.iter().rev().find(is_its).copied())
    };
    let place = match device {
        Some(device) => Place::named(&format!("vulkan:{}", device.index)),
        None => Place::named("vulkan"),
    };
    let instance = instance.unwrap_or(Owner::NONE);
    let mut owner = Owner {
        handle,
        uid: new_uid(),
        place,
        instance: instance.handle,
        ..Owner::NONE
    };
    if let Some(get) = instance.get_instance_address {
        // SAFETY: `get` belongs to the instance, and both devices are live and belong to that
        // instance.
        unsafe { owner.query(get, instance.handle, physical) };
    }
    known().add(owner)
}

impl Owner {
    /// Queries the properties of this device that the harness needs.
    ///
    /// # Safety
    ///
    /// This device was created from the physical device `physical` of `instance`, whose functions
    /// `get` returns.
    unsafe fn query(&mut self, get: GetAddress, instance: u64, physical: u64) {
        // SAFETY: Vulkan's functions with these names have these types, and get live handles.
        unsafe {
            let find = |name: &CStr| get(instance, name.as_ptr()).cast_mut().cast();
            if let Some(properties) = function::<GetMemoryProperties>(find(MEMORY_PROPERTIES)) {
                let mut memory = MemoryProperties::default();
                properties(physical, &raw mut memory);
                self.host_types = host_types(&memory);
            }
            if let Some(properties) = function::<GetProperties>(find(PROPERTIES)) {
                let mut device = mem::zeroed::<DeviceProperties>();
                properties(physical, &raw mut device);
                let name = CStr::from_bytes_until_nul(&device.name).unwrap_or_default();
                let mut known = known();
                known.names.retain(|(place, _)| *place != self.place);
                let name = name.to_string_lossy().into_owned();
                known.names.push((self.place, name));
            }
            if let Some(get) = function::<GetAddress>(find(c"vkGetDeviceProcAddr")) {
                let find = |name: &CStr| get(self.handle, name.as_ptr()).cast_mut().cast();
                self.requirements = REQUIREMENTS.map(|name| function(find(name)));
            }
        }
    }
}

const MEMORY_PROPERTIES: &CStr = c"vkGetPhysicalDeviceMemoryProperties";
const PROPERTIES: &CStr = c"vkGetPhysicalDeviceProperties";
/// The names of the functions for buffers and for images.
const REQUIREMENTS: [&CStr; 2] = [
    c"vkGetBufferMemoryRequirements",
    c"vkGetImageMemoryRequirements",
];

/// Returns a value with a bit set for each type of memory whose heap is not on the device.
fn host_types(memory: &MemoryProperties) -> u32 {
    let types = memory.types.iter().take(memory.type_count as usize);
    let mut host = 0;
    for (index, [_, heap]) in types.enumerate() {
        let heap = memory.heaps.get(*heap as usize);
        if heap.is_some_and(|heap| heap.flags & DEVICE_LOCAL == 0) {
            host |= 1 << index;
        }
    }
    host
}

/// Returns the name of a device that the program uses.
pub(crate) fn device_name(place: Place) -> Option<DeviceName> {
    let known = known();
    let (_, name) = known.names.iter().find(|(named, _)| *named == place)?;
    Some(DeviceName {
        name: name.clone(),
        uuid: None,
    })
}

/// Returns the handles of all instances, devices and physical devices.
#[cfg(feature = "holders")]
pub(crate) fn handles() -> Vec<u64> {
    let known = known();
    let owners = known.owners.iter().map(|owner| owner.handle);
    let physical = known.physical.iter().map(|it| it.handle);
    owners.chain(physical).collect()
}

/// Removes and returns an owner that is about to end and, if it is an instance, its devices, which
/// come after it. From then on, the handles may refer to other owners.
pub(super) fn ends(handle: u64) -> Vec<Owner> {
    let mut known = known();
    known.physical.retain(|it| it.instance != handle);
    CHANGES.fetch_add(1, Ordering::Release);
    let ends = |owner: &mut Owner| owner.handle == handle || owner.instance == handle;
    known.owners.extract_if(.., ends).collect()
}

/// The kind of the objects that are allocated from a pool, the pool's device, and the pool's
/// handle, which a pool of the other type may also have.
pub(super) type Pool = (Kind, ContextUid, u64);

static CHILDREN: Mutex<FxHashMap<Pool, FxHashSet<u64>>> =
    Mutex::new(FxHashMap::with_hasher(FxBuildHasher));

/// Records objects that were allocated from a pool. When the pool is destroyed or reset, its
/// descriptor sets or command buffers end, although the call does not list them.
pub(super) fn allocated_from(pool: Pool, handles: impl Iterator<Item = u64>) {
    locked(&CHILDREN).entry(pool).or_default().extend(handles);
}

/// Records that objects from a pool are about to be freed.
pub(super) fn freed_from(pool: Pool, handles: &[u64]) {
    if let Some(children) = locked(&CHILDREN).get_mut(&pool) {
        for handle in handles {
            children.remove(handle);
        }
    }
}

/// Removes and returns the contents of a pool that is about to be destroyed or reset.
pub(super) fn empty_pool(pool: Pool) -> FxHashSet<u64> {
    locked(&CHILDREN).remove(&pool).unwrap_or_default()
}

/// Removes the pools of a device that has ended.
pub(super) fn forget_pools_of(device: ContextUid) {
    locked(&CHILDREN).retain(|(_, owner, _), _| *owner != device);
}
