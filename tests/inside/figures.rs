//! Functions that return how many bytes are currently held.

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::{
    Place, gpu_available, gpu_leak_check, max_memory_allocated, memory_allocated, memory_reserved,
    memory_summary, snapshot,
};
use gpu_leak_kernels::{Device, Tensor, memory};
use gpu_leak_tests::gpu;

use super::{give_back, place, take};

#[test]
fn a_gpu_is_available_where_the_driver_has_one() {
    assert_eq!(gpu_available(), gpu::is_present());
}

#[gpu_leak_check]
#[test]
fn allocations_and_frees_are_counted_at_once() {
    let before = memory_allocated(place());
    let taken = take(4096);
    assert_eq!(memory_allocated(place()), before + 4096);
    assert_eq!(memory_reserved(place()), before + 4096);
    assert!(max_memory_allocated(place()) >= 4096);
    assert!(
        memory_summary().contains("inside:0"),
        "{}",
        memory_summary()
    );
    give_back(taken);
    assert_eq!(memory_allocated(place()), before);
    assert!(max_memory_allocated(place()) >= 4096, "a peak stays");
}

#[gpu_leak_check]
#[test]
fn a_diff_of_snapshots_names_new_memory_by_its_line() {
    let old = take(1);
    let before = snapshot();
    let new = take(64);
    give_back(old);
    let found = snapshot().since(&before);
    give_back(new);
    let [found] = &found[..] else {
        panic!("{found:#?}");
    };
    assert_eq!((found.resource, found.bytes), (Some(Kind::Block), 64));
    assert!(
        found.site.location().starts_with("tests/inside/mod.rs"),
        "{}",
        found.site.location()
    );
}

#[gpu_leak_check]
#[test]
fn the_figures_of_a_caching_allocator_are_its_own() -> gpu_leak_kernels::Result<()> {
    let device = Device::embedded()?;
    let tensor = Tensor::zeros([1000], &device)?;
    let place = Place::named("embedded:0");
    assert_eq!(memory_allocated(place), memory::allocated(&device));
    assert_eq!(memory_reserved(place), memory::reserved(&device));
    assert!(memory_reserved(place) > memory_allocated(place));
    drop(tensor);
    Ok(())
}
