//! Tests readings of the device that are made through the driver.

use super::{allocate, summary, watched_context, with_driver};
use crate::device::{contexts, memory, pools, synchronise};
use crate::ledger::Place;

#[test]
fn pools_are_read_and_emptied() {
    with_driver("", || {
        watched_context();
        assert_eq!(contexts::devices_in_use(), [0]);
        let ordered = made!(cuMemAllocAsync(400 => usize, 0 => u64));
        let properties: [u64; 11] = [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let pool = made!(cuMemPoolCreate(properties.as_ptr() => *const u64));
        let mut in_pool = 0_u64;
        let error = cuda!(cuMemAllocFromPoolAsync(
            &raw mut in_pool => *mut u64, 1000 => usize, pool => u64, 0 => u64));
        assert_eq!(error, 0);
        let readings = pools::readings(false);
        let names: Vec<_> = readings.iter().map(|read| read.name.to_string()).collect();
        let explicit = format!("pool {pool:#x}");
        assert_eq!(names, ["pool 0", &explicit, "graph pool"]);
        for reading in &readings[..2] {
            assert_eq!(reading.place, Place::cuda(0));
            assert_eq!(reading.reserved, Some(32 << 20));
            assert!((400..=1024).contains(&reading.allocated), "{reading:?}");
        }
        assert_eq!(cuda!(cuMemFreeAsync(ordered => u64, 0 => u64)), 0);
        assert_eq!(cuda!(cuMemFreeAsync(in_pool => u64, 0 => u64)), 0);
        assert_eq!(synchronise::contexts(|_| false), []);
        assert!(
            pools::readings(true)
                .iter()
                .all(|read| (read.allocated, read.reserved) == (0, Some(0)))
        );
        assert_eq!(cuda!(cuMemPoolDestroy(pool => u64)), 0);
        assert_eq!(pools::readings(false).len(), 2);
        assert_eq!(summary(), []);
    });
}

#[test]
fn a_whole_device_is_read_only_where_the_program_has_a_context() {
    with_driver("", || {
        assert_eq!(cuda!(cuInit(0 => u32)), 0);
        assert_eq!(memory::readings(), []);
        assert_eq!(cuda!(fake_cuda_contexts_made()), 0);
        watched_context();
        // The first call makes the context known.
        allocate(64);
        let [before] = memory::readings()[..] else {
            panic!("one of the two devices has a context");
        };
        assert_eq!(before.place, Place::cuda(0));
        assert!(before.used > 0 && before.limits.heap > 0, "{before:?}");
        allocate(4 << 20);
        assert_eq!(memory::readings()[0].used, before.used + (4 << 20));
        assert_eq!(memory::resident_threads(Place::cuda(0)), 132 * 2048);
    });
}

#[test]
fn a_poisoned_context_is_reported_with_its_error() {
    with_driver("poison:cuMemAlloc_v2@2", || {
        watched_context();
        allocate(64);
        assert_eq!(synchronise::contexts(|_| true), []);
        let mut pointer = 0_u64;
        cuda!(cuMemAlloc_v2(&raw mut pointer => *mut u64, 64 => usize));
        let poisoned = crate::judge::ContextError {
            place: Place::cuda(0),
            error: 700,
        };
        assert_eq!(synchronise::contexts(|_| true), [poisoned]);
    });
}

#[test]
fn the_harness_makes_no_context_and_sees_none_of_its_own_calls() {
    with_driver("", || {
        assert!(!contexts::driver_in_use());
        assert_eq!(cuda!(cuInit(0 => u32)), 0);
        assert_eq!(synchronise::contexts(|_| true), []);
        assert_eq!(pools::readings(false), []);
        assert_eq!(cuda!(fake_cuda_contexts_made()), 0);
        made!(cuDevicePrimaryCtxRetain(1 => i32));
        assert!(contexts::driver_in_use());
        assert_eq!(contexts::devices_in_use(), [1]);
        let name = contexts::device_name(Place::cuda(1)).unwrap();
        assert!(name.uuid.unwrap().starts_with("GPU-"));
        assert_eq!(summary(), []);
    });
}
