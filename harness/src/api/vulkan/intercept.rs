//! Turns an intercepted call into events, in the order that keeps the ledger correct. A creation is
//! reported after the call, and a destruction before the call, because another thread may get the
//! same handle before the destroying call returns. The data that the end of a call needs from its
//! beginning is stored in the wrapper's own stack frame.
//!
//! The code in this module never waits for a device and never unwinds into C. The locks that it
//! takes are those of the ledger and of the tables of owners and pools. Each is held for a single
//! look-up or change, and none is held while a driver is called.

#![expect(
    unsafe_code,
    reason = "reads memory that the caller and the driver passed by pointer"
)]

use std::ffi::CStr;

use super::call::{Bindings, Created, DestroyTarget, ObjectsCreated, ObjectsDestroyed, VulkanCall};
use super::owners::{self, Owner, Pool};
use super::structures::{Chained, Extension, IMPORTS, OF_A_PLANE, ObjectName};
use super::{labels, state};
use crate::api::pointer::In;
use crate::api::wrapper::{initialises, reported};
use crate::capture::{caller, free_ended, freeing_caller};
use crate::exit;
use crate::ledger::event::{ContextEnd, ContextUid, Creation, Event, Key, Space, Ticket};
use crate::ledger::{self, Kind, Layer, Ledger, Place};

/// `VkResult`
pub(super) type VkResult = i32;

/// `VK_OPERATION_DEFERRED_KHR`: the results will be written later.
const DEFERRED: VkResult = 1_000_268_002;
/// `VK_ERROR_VALIDATION_FAILED_EXT`: a layer refused the call, and nothing was written.
const REFUSED: VkResult = -1_000_011_001;

/// Makes the program's call by calling `forward`, which calls `real`, and reports the call.
#[inline(never)]
pub(super) fn intercept(
    call: &VulkanCall,
    real: *const (),
    forward: &mut dyn FnMut() -> VkResult,
) -> VkResult {
    // Vulkan calls that layers and drivers make inside the program's call are part of that call.
    let is_one_call = || true;
    reported(
        forward,
        is_one_call,
        |begun| {
            exit::install();
            // SAFETY: `call` is built from the parameters of a call that is about to be made.
            unsafe { began(ledger::live(), call, begun) }
        },
        // SAFETY: `call` is built from the parameters of a call that has returned `result`.
        |begun, result| unsafe { ended(ledger::live(), call, begun, result, real) },
    )
}

/// The data that the end of a call needs from its beginning.
#[derive(Default)]
struct BegunCall {
    /// The tickets of the destructions that have been reported.
    tickets: Vec<Ticket>,
    /// The device that the call ends, or the instance and its devices.
    ending: Vec<Owner>,
    /// A pool, and its objects that the call frees.
    children: Option<(Pool, Vec<u64>)>,
}

/// Reports that a call is about to be made, and fills `begun`.
///
/// # Safety
///
/// `call` is built from the call's parameters.
unsafe fn began(ledger: &Ledger, call: &VulkanCall, begun: &mut BegunCall) {
    match *call {
        VulkanCall::CreatesInstance(_) => initialises(),
        // SAFETY: the caller upholds the contract.
        VulkanCall::Destroys(ref destroy) => unsafe { destruction_began(ledger, destroy, begun) },
        VulkanCall::EmptiesPool {
            device,
            pool,
            destroys,
        } if pool != 0 => {
            let uid = owners::get(device).uid;
            let of_pool = (child_of(destroys), uid, pool);
            let children = owners::empty_pool(of_pool).into_iter().collect();
            children_freed(ledger, of_pool, children, begun);
            if let Some(kind) = destroys {
                let key = object_key(kind, uid, pool);
                begun.tickets.extend(free_began(ledger, key));
            }
        }
        VulkanCall::DestroysDevice(device) if device != 0 => {
            begun.ending = owners::ends(device);
            let instance = begun.ending.first().map_or(0, |owner| owner.instance);
            let key = object_key(Kind::Device, owners::get(instance).uid, device);
            begun.tickets.extend(free_began(ledger, key));
        }
        VulkanCall::DestroysInstance(instance) if instance != 0 => {
            begun.ending = owners::ends(instance);
            begun
                .tickets
                .extend(free_began(ledger, instance_key(instance)));
        }
        _ => {}
    }
}

/// Reports that the call has returned `result`.
///
/// # Safety
///
/// The conditions are those of [`began`], which must have been called with `begun`.
/// `real` is the function that was called.
unsafe fn ended(
    ledger: &Ledger,
    call: &VulkanCall,
    begun: &mut BegunCall,
    result: VkResult,
    real: *const (),
) {
    let error = if result < 0 {
        result.cast_unsigned()
    } else {
        0
    };
    for ticket in begun.tickets.drain(..) {
        ledger.apply(&free_ended(ticket, error));
    }
    if let Some((pool, children)) = begun.children.take()
        && error != 0
    {
        owners::allocated_from(pool, children.into_iter());
    }
    match *call {
        // SAFETY: the caller upholds the contract.
        VulkanCall::Creates(ref create) => unsafe { creation_ended(ledger, create, result) },
        _ if error != 0 => {}
        VulkanCall::CreatesInstance(made) => {
            state::used();
            // SAFETY: the call was successful, so it has written its result.
            if let Some(handle) = unsafe { made.read() } {
                let owner = owners::instance_created(handle, real);
                created(
                    ledger,
                    instance_key(handle),
                    Kind::Instance,
                    Place::HOST,
                    owner.uid,
                    0,
                    0,
                );
            }
        }
        VulkanCall::ListsDevices(instance, count, devices) => {
            // SAFETY: the call has returned success, and has written this many handles.
            let handles = unsafe { devices.read_all(count.read().unwrap_or(0)) };
            owners::listed(instance, handles);
        }
        VulkanCall::ListsGroups(instance) => owners::groups_listed(instance),
        VulkanCall::CreatesDevice(physical, made) => {
            // SAFETY: the call was successful, so it has written its result.
            if let Some(handle) = unsafe { made.read() } {
                let owner = owners::device_created(handle, physical);
                let instance = owners::get(owner.instance).uid;
                let key = object_key(Kind::Device, instance, handle);
                created(ledger, key, Kind::Device, owner.place, instance, 0, 0);
            }
        }
        // SAFETY: the call was successful, so the driver has read the bindings.
        VulkanCall::Binds(device, kind, bindings) => unsafe {
            bound(ledger, device, kind, bindings)
        },
        VulkanCall::DestroysDevice(_) => owners_ended(ledger, begun, ContextEnd::DeviceDestroyed),
        VulkanCall::DestroysInstance(_) => {
            owners_ended(ledger, begun, ContextEnd::InstanceDestroyed);
        }
        // SAFETY: the call was successful, so it has read the structure.
        VulkanCall::Names(device, info) => unsafe { named(device, info) },
        VulkanCall::Destroys(_) | VulkanCall::EmptiesPool { .. } => {}
    }
}

/// Reports the end of a device or, for an instance, first the end of each of its devices and then
/// its own.
fn owners_ended(ledger: &Ledger, begun: &mut BegunCall, cause: ContextEnd) {
    for owner in begun.ending.drain(..).rev() {
        owners::forget_pools_of(owner.uid);
        ledger.apply(&Event::ContextDestroyed {
            context: owner.uid,
            cause,
            caller: caller(),
        });
    }
}

/// # Safety
///
/// The call that `create` describes has returned `result`.
unsafe fn creation_ended(ledger: &Ledger, create: &ObjectsCreated, result: VkResult) {
    let owner = owners::get(create.owner);
    let is_success = result >= 0;
    if !is_success {
        let bytes = match create.how {
            // SAFETY: the driver has read the structure.
            Created::Memory(info) => unsafe { info.read() }.map_or(0, |info| info.bytes),
            _ => 0,
        };
        ledger.apply(&Event::CreationFailed {
            kind: create.kind,
            bytes,
            error: result.cast_unsigned(),
            caller: caller(),
        });
    }
    let (mut kind, mut place, mut bytes) = (create.kind, owner.place, 0);
    let (mut count, mut pool, mut made) = (0, 0, create.made);
    // SAFETY: as the caller promises, the driver has read the call's parameters, and has
    // written the results if the call was successful.
    unsafe {
        match create.how {
            Created::Each(_) | Created::PipelineBinaries(_)
                if matches!(result, DEFERRED | REFUSED) => {}
            Created::Each(all) => count = all,
            // As with pipelines, the call returns the binaries that it could create even if its
            // result is an error.
            Created::PipelineBinaries(binaries) => {
                let written = binaries.read();
                (count, made) = written.map_or((0, made), |it| (it.count, it.handles));
            }
            _ if !is_success => {}
            Created::One => count = 1,
            Created::All(all) => count = all,
            Created::Memory(info) => {
                count = 1;
                if let Some(info) = info.read() {
                    (place, bytes) = (owner.place_of(info.memory_type), info.bytes);
                    if extends(info.header, &IMPORTS) {
                        kind = Kind::Imported;
                    }
                }
            }
            Created::DescriptorSets(info) => {
                (count, pool) = info.read().map_or((0, 0), |it| (it.count, it.pool));
            }
            Created::CommandBuffers(info) => {
                (count, pool) = info.read().map_or((0, 0), |it| (it.count, it.pool));
            }
        }
    }
    // SAFETY: the driver has written `count` handles to the array.
    let handles = unsafe { made.read_all(count) }.filter(|handle| *handle != 0);
    if pool != 0 {
        owners::allocated_from((create.kind, owner.uid, pool), handles.clone());
    }
    for handle in handles {
        let key = object_key(create.kind, owner.uid, handle);
        // This handle may have belonged to an object whose end was not intercepted, such as an
        // image of a swapchain.
        if labels::has_any() && ledger.get(&key).is_none() {
            labels::forget(key);
        }
        created(ledger, key, kind, place, owner.uid, bytes, pool);
    }
}

fn created(
    ledger: &Ledger,
    key: Key,
    kind: Kind,
    place: Place,
    context: ContextUid,
    bytes: u64,
    pool: u64,
) {
    ledger.apply(&Event::Created(Creation {
        key,
        kind,
        layer: Layer::DRIVER,
        place,
        bytes,
        context,
        stream: 0,
        pool,
        caller: caller(),
    }));
}

fn free_began(ledger: &Ledger, key: Key) -> Option<Ticket> {
    labels::forget(key);
    let caller = freeing_caller();
    ledger.apply(&Event::FreeBegan { key, caller })
}

/// # Safety
///
/// `destroy` is built from the parameters of a call that is about to be made.
unsafe fn destruction_began(ledger: &Ledger, destroy: &ObjectsDestroyed, begun: &mut BegunCall) {
    let uid = owners::get(destroy.owner).uid;
    match destroy.target {
        DestroyTarget::One(0) => {}
        DestroyTarget::One(handle) => {
            let key = object_key(destroy.kind, uid, handle);
            begun.tickets.extend(free_began(ledger, key));
        }
        DestroyTarget::OfPool(pool, count, handles) => {
            // SAFETY: as the caller promises, the driver is about to read the array.
            let handles = unsafe { handles.read_all(count) };
            let handles: Vec<u64> = handles.filter(|handle| *handle != 0).collect();
            let pool = (destroy.kind, uid, pool);
            owners::freed_from(pool, &handles);
            children_freed(ledger, pool, handles, begun);
        }
    }
}

/// Reports that the call is about to free these objects of a pool.
fn children_freed(ledger: &Ledger, pool: Pool, children: Vec<u64>, begun: &mut BegunCall) {
    let (kind, device, _) = pool;
    let keys = children.iter().map(|it| object_key(kind, device, *it));
    begun
        .tickets
        .extend(keys.filter_map(|key| free_began(ledger, key)));
    begun.children = Some((pool, children));
}

/// # Safety
///
/// The call has bound this memory to these objects.
unsafe fn bound(ledger: &Ledger, device: u64, kind: Kind, bindings: Bindings) {
    let owner = owners::get(device);
    let bind = |object: u64, memory: u64, is_of_a_plane: bool| {
        // The program did not allocate the memory of a swapchain's images. The planes of an image
        // may be bound to different blocks of memory, so each block is judged by itself.
        if memory == 0 || is_of_a_plane {
            return;
        }
        // SAFETY: the caller upholds the contract, and the memory was not bound to a plane.
        let bytes = unsafe { owner.bytes_of(kind, object) };
        ledger.apply(&Event::Bound {
            key: object_key(kind, owner.uid, object),
            memory,
            bytes,
        });
    };
    match bindings {
        Bindings::One(object, memory) => bind(object, memory, false),
        // SAFETY: the call has read the array and the chains that begin in it.
        Bindings::Many(count, all) => unsafe {
            for one in all.read_all(count) {
                let of_plane = extends(one.header, &[OF_A_PLANE]);
                bind(one.object, one.memory, of_plane);
            }
        },
    }
}

/// Stores the name that a call gave to an object, or removes the stored name if the new one is
/// empty.
///
/// # Safety
///
/// `info` points to a structure that a call has read, or is null.
unsafe fn named(device: u64, info: In<ObjectName>) {
    // SAFETY: the caller upholds the contract.
    let Some(info) = (unsafe { info.read() }) else {
        return;
    };
    let Some(kind) = labels::kind_of(info.object_type) else {
        return;
    };
    let owner = owners::get(device);
    let context = match kind {
        Kind::Device => owners::get(owner.instance).uid,
        _ => owner.uid,
    };
    let key = object_key(kind, context, info.handle);
    let name = match info.name.is_null() {
        true => c"",
        // SAFETY: the call has read this text, which ends with a zero byte.
        false => unsafe { CStr::from_ptr(info.name) },
    };
    match name.is_empty() {
        true => labels::forget(key),
        false => labels::set(key, &name.to_string_lossy()),
    }
}

/// Whether the chain that begins with `first` contains one of these structures.
///
/// # Safety
///
/// A call has read the chain.
unsafe fn extends(first: Chained, structures: &[u32]) -> bool {
    let mut next: In<Chained> = first.next;
    // SAFETY: the caller upholds the contract.
    while let Some(header) = unsafe { next.read() } {
        // Vulkan ignores an import through a handle without a type.
        if structures.contains(&header.structure)
            // SAFETY: structures of these types begin with these fields.
            && unsafe { next.cast::<Extension>().read() }.is_some_and(|it| it.selects != 0)
        {
            return true;
        }
        next = header.next;
    }
    false
}

/// Returns the kind of objects that a pool contains. `destroys` is the kind of the pool if the call
/// destroys it, and `None` if the call resets it.
fn child_of(destroys: Option<Kind>) -> Kind {
    match destroys {
        Some(Kind::CommandPool) => Kind::CommandBuffer,
        // Resetting a command pool does not free its command buffers, so this is a descriptor pool.
        _ => Kind::DescriptorSet,
    }
}

/// Returns the key of an object. Objects with the same contents may have the same handle; the
/// ledger tells them apart.
fn object_key(kind: Kind, context: ContextUid, handle: u64) -> Key {
    let space = Space::Object {
        kind,
        context,
        copy: 0,
    };
    Key::new(space, handle)
}

fn instance_key(handle: u64) -> Key {
    Key::new(Space::Handle(Kind::Instance), handle)
}

#[cfg(test)]
mod tests;
