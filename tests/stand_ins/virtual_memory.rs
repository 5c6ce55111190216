//! Virtual memory management: address ranges, physical memory with its handles and mappings, and
//! multicast objects.

#![expect(unsafe_code, reason = "calls the driver's C interface")]

use std::mem::zeroed;
use std::os::fd::FromRawFd as _;
use std::ptr;

use cudarc::driver::sys::{self, CUresult};
use gpu_leak_tests::fake::Fake;

use super::calls::{MIB, answer, context, context_of, free_bytes, ok, refusal};

const PAGE: usize = 2 << 20;
const DESCRIPTOR: sys::CUmemAllocationHandleType =
    sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

type Memory = sys::CUmemGenericAllocationHandle;

fn memory_on(device: i32) -> Memory {
    // SAFETY: zero is a valid value of every field, and the out pointer is valid.
    unsafe {
        let mut props: sys::CUmemAllocationProp = zeroed();
        props.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        props.requestedHandleTypes = DESCRIPTOR;
        // The location: a device, and its ordinal. The names of these fields depend on the CUDA
        // version of the bindings.
        (&raw mut props.location)
            .cast::<[i32; 2]>()
            .write([1, device]);
        answer(|out| sys::cuMemCreate(out, PAGE, &raw const props, 0))
    }
}

fn range(pages: usize) -> u64 {
    // SAFETY: the out pointer is valid.
    answer(|out| unsafe { sys::cuMemAddressReserve(out, pages * PAGE, 0, 0, 0) })
}

fn map(address: u64, memory: Memory) {
    // SAFETY: the driver checks the range and the handle.
    ok(unsafe { sys::cuMemMap(address, PAGE, 0, memory, 0) });
}

fn release(memory: Memory) -> CUresult {
    // SAFETY: the driver checks the handle.
    unsafe { sys::cuMemRelease(memory) }
}

fn retain(address: u64) -> Memory {
    // SAFETY: the out pointer is valid, and memory is mapped at the address.
    answer(|out| unsafe { sys::cuMemRetainAllocationHandle(out, address as *mut _) })
}

fn unmap(address: u64, pages: usize) -> CUresult {
    // SAFETY: the driver checks the range.
    unsafe { sys::cuMemUnmap(address, pages * PAGE) }
}

#[test]
fn a_released_handle_is_given_out_again_while_its_memory_is_mapped() {
    Fake::new().here(|control| {
        context();
        let before = free_bytes();
        let place = range(2);
        let first = memory_on(0);
        map(place, first);
        ok(release(first));
        assert_eq!(release(first), INVALID);
        let second = memory_on(0);
        assert_eq!(second, first);
        map(place + PAGE as u64, second);
        assert_eq!(control.live("physical"), (2, 4 * MIB));
        assert_eq!(before - free_bytes(), 4 * MIB);
        let [old, new] = [place, place + PAGE as u64].map(retain);
        assert_eq!(new, second, "the handle it was mapped with");
        assert_ne!(old, second, "that one is of other memory now");
        ok(release(second));
        ok(release(second));
        ok(release(old));
        assert_eq!(control.live("memory-handle").0, 0);
        assert_eq!(unmap(place, 3), INVALID);
        ok(unmap(place, 2));
        assert_eq!(control.live("physical"), (0, 0));
        assert_eq!(before, free_bytes());
        // SAFETY: the driver checks the range.
        ok(unsafe { sys::cuMemAddressFree(place, 2 * PAGE) });
    });
}

#[test]
fn a_range_with_memory_in_it_is_not_freed() {
    Fake::new().here(|control| {
        context();
        let (place, memory) = (range(1), memory_on(0));
        map(place, memory);
        // SAFETY: the driver checks the range, here and below.
        unsafe {
            assert_eq!(sys::cuMemAddressFree(place, PAGE), INVALID);
            ok(unmap(place, 1));
            ok(sys::cuMemAddressFree(place, PAGE));
        }
        assert_eq!(control.live("address-range").0, 0);
        assert_eq!(control.live("physical").0, 1);
        ok(release(memory));
        assert_eq!(control.live("physical").0, 0);
    });
}

#[test]
fn an_import_is_a_second_handle_of_the_same_memory() {
    Fake::new().here(|control| {
        context();
        let memory = memory_on(0);
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let shared = answer(|out: *mut i32| {
                sys::cuMemExportToShareableHandle(out.cast(), memory, DESCRIPTOR, 0)
            });
            let import = |out| {
                sys::cuMemImportFromShareableHandle(out, shared as usize as *mut _, DESCRIPTOR)
            };
            let imported = answer(import);
            assert_ne!(imported, memory);
            assert_eq!(control.live("physical"), (1, 2 * MIB));
            ok(release(memory));
            assert_eq!(control.live("physical"), (1, 2 * MIB));
            ok(release(imported));
            assert_eq!(control.live("physical"), (0, 0));
            drop(std::fs::File::from_raw_fd(shared));
            assert_eq!(refusal(import), INVALID, "the descriptor is closed");
        }
    });
}

#[test]
fn a_multicast_object_keeps_what_is_bound_to_it() {
    Fake::new().devices(2).here(|control| {
        context_of(1);
        context();
        // SAFETY: the out pointers are valid and the handles are live; zero is a valid value of
        // every field, here and below.
        unsafe {
            let mut props: sys::CUmulticastObjectProp = zeroed();
            (props.numDevices, props.size) = (2, PAGE);
            let multicast: Memory = answer(|out| sys::cuMulticastCreate(out, &raw const props));
            let memory = memory_on(1);
            let bind = || sys::cuMulticastBindMem(multicast, 0, memory, 0, PAGE, 0);
            ok(sys::cuMulticastAddDevice(multicast, 0));
            assert_eq!(bind(), INVALID, "the team is not complete");
            ok(sys::cuMulticastAddDevice(multicast, 1));
            ok(bind());
            assert_eq!(bind(), INVALID, "that place is taken");
            ok(release(memory));
            let count = || (control.live("multicast").0, control.live("physical").0);
            assert_eq!(count(), (1, 1));
            let place = range(1);
            map(place, multicast);
            ok(release(multicast));
            assert_eq!(count(), (1, 1));
            ok(unmap(place, 1));
            assert_eq!(count(), (0, 0));
        }
    });
}

#[test]
fn memory_is_mapped_into_a_sparse_array_by_its_handle() {
    Fake::new().here(|_| {
        context();
        let memory = memory_on(0);
        // `CUarrayMapInfo`. Word 7 is the operation, where 1 maps memory. Word 8 is the memory
        // handle.
        let mut map = [0_u64; 12];
        (map[7], map[8]) = (1, memory);
        // SAFETY: the description is as long as the driver reads, and the handles are checked.
        let map_into = |map: &mut [u64; 12]| unsafe {
            sys::cuMemMapArrayAsync(ptr::from_mut(map).cast(), 1, ptr::null_mut())
        };
        ok(map_into(&mut map));
        ok(release(memory));
        assert_eq!(map_into(&mut map), INVALID);
    });
}

#[test]
fn memory_counts_on_the_device_it_was_created_on() {
    Fake::new().devices(2).here(|_| {
        context_of(1);
        let other = free_bytes();
        context();
        let own = free_bytes();
        let memory = memory_on(1);
        assert_eq!(own, free_bytes());
        context_of(1);
        assert_eq!(other - free_bytes(), 2 * MIB);
        ok(release(memory));
        assert_eq!(other, free_bytes());
    });
}
