//! Physical memory, the address ranges in which it is mapped, and multicast objects.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys;

use super::{Pointer, attribute, done, made, zeroed};

/// The allocation granularity, which has been the same on every GPU so far.
pub(crate) const SIZE: u64 = 2 << 20;
const BYTES: usize = SIZE as usize;

pub(crate) type Handle = sys::CUmemGenericAllocationHandle;

/// The properties of physical memory of device 0.
pub(super) fn properties() -> sys::CUmemAllocationProp {
    // SAFETY: zero is a valid value of every field.
    let mut properties: sys::CUmemAllocationProp = unsafe { zeroed() };
    properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    properties
}

pub(crate) fn physical() -> Handle {
    let properties = properties();
    // SAFETY: the call only reads the properties.
    unsafe { made(|out| sys::cuMemCreate(out, BYTES, &raw const properties, 0)) } // leak: physical
}

pub(crate) fn release(handle: Handle) {
    // SAFETY: the caller owns a reference and no longer uses it.
    done(unsafe { sys::cuMemRelease(handle) });
}

pub(crate) fn address_range() -> Pointer {
    // SAFETY: the driver chooses the addresses.
    unsafe { made(|out| sys::cuMemAddressReserve(out, BYTES, 0, 0, 0)) } // leak: address_range
}

pub(crate) fn free_addresses(address: Pointer) {
    // SAFETY: the caller reserved the range, and nothing is mapped there.
    done(unsafe { sys::cuMemAddressFree(address, BYTES) });
}

/// Returns the next part of an address range that is reserved once. The caller maps memory there.
fn next_room() -> Pointer {
    const ROOMS: u64 = 512;
    static RANGE: OnceLock<Pointer> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let start = *RANGE.get_or_init(|| {
        let bytes = BYTES * ROOMS as usize;
        // SAFETY: the driver chooses the addresses.
        unsafe { made(|out| sys::cuMemAddressReserve(out, bytes, 0, 0, 0)) }
    });
    let room = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(room < ROOMS, "more mappings than the range has room for");
    start + room * SIZE
}

/// Reserves the address range of which the functions below use parts.
pub(crate) fn reserve_rooms() {
    next_room();
}

/// Maps memory and releases its handle, as most programs do. Only the mapping holds the memory.
pub(crate) fn mapped() -> Pointer {
    let room = next_room();
    let properties = properties();
    // SAFETY: the call only reads the properties.
    let handle = unsafe { made(|out| sys::cuMemCreate(out, BYTES, &raw const properties, 0)) }; // leak: physical_mapped
    // SAFETY: the part of the range is as large as the memory.
    done(unsafe { sys::cuMemMap(room, BYTES, 0, handle, 0) });
    release(handle);
    room
}

pub(crate) fn unmap(address: Pointer) {
    // SAFETY: the caller mapped the memory and no longer uses it.
    done(unsafe { sys::cuMemUnmap(address, BYTES) });
}

/// Maps memory and unmaps it again, but never releases the handle.
pub(crate) fn mapped_with_its_handle_kept() {
    let (address, handle) = (address_range(), physical());
    // SAFETY: the range is as large as the memory.
    done(unsafe { sys::cuMemMap(address, BYTES, 0, handle, 0) });
    unmap(address);
    free_addresses(address);
}

/// Maps memory, and takes one more reference than it releases.
pub(crate) fn retained() -> Handle {
    let room = next_room();
    let properties = properties();
    // SAFETY: the call only reads the properties.
    let handle = unsafe { made(|out| sys::cuMemCreate(out, BYTES, &raw const properties, 0)) }; // leak: physical_retained
    // SAFETY: the part of the range is as large as the memory.
    done(unsafe { sys::cuMemMap(room, BYTES, 0, handle, 0) });
    release(handle);
    let again = retain(room);
    unmap(room);
    again
}

/// Takes one more reference to the memory that is mapped at this address.
pub(crate) fn retain(address: Pointer) -> Handle {
    let address = ptr::without_provenance_mut(address as usize);
    // SAFETY: memory is mapped at this address.
    unsafe { made(|out| sys::cuMemRetainAllocationHandle(out, address)) }
}

/// The properties of a multicast object for one device.
fn multicast_properties() -> sys::CUmulticastObjectProp {
    // SAFETY: zero is a valid value of every field.
    let mut properties: sys::CUmulticastObjectProp = unsafe { zeroed() };
    properties.numDevices = 1;
    properties.size = BYTES;
    properties
}

pub(crate) fn multicast() -> Handle {
    let properties = multicast_properties();
    // SAFETY: the call only reads the properties.
    unsafe { made(|out| sys::cuMulticastCreate(out, &raw const properties)) } // leak: multicast
}

/// Returns why this machine cannot create multicast objects.
pub(crate) fn no_multicast() -> Option<String> {
    let supported = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED;
    if attribute(supported) == 0 {
        return Some("the device has no multicast".to_owned());
    }
    let (properties, mut handle) = (multicast_properties(), 0);
    // SAFETY: the call reads the properties, and writes the handle to a local variable.
    let tried = unsafe { sys::cuMulticastCreate(&mut handle, &raw const properties) };
    match tried.result() {
        Ok(()) => {
            release(handle);
            None
        }
        Err(error) => Some(format!(
            "cuMulticastCreate for one device returned {error:?}"
        )),
    }
}
