//! Tests virtual memory management: address ranges, physical memory, and mappings between them.

use super::{anomalies, interception, live, summary, watched_context, with_driver};
use crate::api::Interception;
use crate::ledger::{self, Kind, Place};

const SIZE: usize = 0x20_0000;

/// `CUmemAllocationProp` for pinned memory on the second device.
#[repr(C)]
struct Properties([u32; 4], [u64; 2]);

fn create() -> u64 {
    let properties = Properties([1, 0, 1, 1], [0; 2]);
    made!(cuMemCreate(SIZE => usize, &raw const properties => *const Properties, 0 => u64))
}

fn map(address: u64, handle: u64) {
    let error = cuda!(cuMemMap(
        address => u64, SIZE => usize, 0 => usize, handle => u64, 0 => u64));
    assert_eq!(error, 0);
}

#[test]
fn a_map_holds_the_memory_after_its_handle_is_released() {
    with_driver("", || {
        watched_context();
        let (here, there) = (Place::cuda(0), Place::cuda(1));
        let address = made!(cuMemAddressReserve(
            2 * SIZE => usize, 0 => usize, 0 => u64, 0 => u64));
        for page in [0, SIZE as u64] {
            let handle = create();
            map(address + page, handle);
            assert_eq!(cuda!(cuMemRelease(handle => u64)), 0);
        }
        let range = (Kind::AddressRange, here, 0);
        let memory = (Kind::Physical, there, SIZE as u64);
        assert_eq!(summary(), [range, memory, memory]);
        let holdings = ledger::live().holdings();
        let held = holdings[&live()[1].key()];
        assert_eq!((held.references, held.maps), (0, 1));
        assert_eq!(cuda!(cuMemUnmap(address => u64, 2 * SIZE => usize)), 0);
        assert_eq!(summary(), [range]);
        assert_eq!(
            cuda!(cuMemAddressFree(address => u64, 2 * SIZE => usize)),
            0
        );
        assert_eq!(summary(), []);
        assert_eq!(anomalies(), []);
        assert_eq!(ledger::live().unknown_frees(), 0);
        assert_eq!(interception(), Interception::Whole);
    });
}

#[test]
fn a_handle_retained_by_address_must_be_released_too() {
    with_driver("", || {
        watched_context();
        let address = made!(cuMemAddressReserve(
            SIZE => usize, 0 => usize, 0 => u64, 0 => u64));
        let handle = create();
        map(address, handle);
        let retained = made!(cuMemRetainAllocationHandle(address => u64));
        assert_eq!(cuda!(cuMemRelease(handle => u64)), 0);
        assert_eq!(cuda!(cuMemUnmap(address => u64, SIZE => usize)), 0);
        assert_eq!(
            live().len(),
            2,
            "the range, and the memory that the second handle holds"
        );
        assert_eq!(cuda!(cuMemRelease(retained => u64)), 0);
        assert_eq!(live().len(), 1);
    });
}
