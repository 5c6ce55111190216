//! Handles that hold no bytes and are never destroyed.

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;

use super::{assert_only_leak, of_kind, run};
use crate::kinds::planted::{code, context, memory, streams};

/// `CudaSlice::leak` handed over the memory, and never dropped the two events and the stream of the
/// slice. <https://github.com/chelsea0x3b/cudarc/issues/372>
#[test]
fn cudarc_372_the_events_and_the_stream_of_a_leaked_slice() {
    let checked = run(module_path!(), "frees_only_the_memory");
    let counts = [Kind::Event, Kind::Stream].map(|kind| of_kind(&checked, kind).count);
    assert_eq!(counts, [2, 1], "{}", checked.output());
    assert_eq!(checked.report().findings.len(), 2, "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn frees_only_the_memory() {
    context();
    for _ in 0..2 {
        streams::event();
    }
    streams::plain();
    memory::free(memory::linear());
}

/// Events were created in each round and never destroyed.
/// <https://github.com/tromp/cuckoo/issues/69>, <https://github.com/llnl/camp/issues/71>
#[test]
fn cuckoo_69_events_of_every_round() {
    assert_only_leak(
        &run(module_path!(), "times_its_rounds"),
        Kind::Event,
        100,
        0,
    );
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn times_its_rounds() {
    context();
    for _ in 0..100 {
        streams::event();
    }
}

/// The state of a linker, which holds the linked image, was never destroyed.
/// <https://github.com/arrayfire/arrayfire/issues/2202>
#[test]
fn arrayfire_2202_the_state_of_the_linker() {
    assert_only_leak(
        &run(module_path!(), "links_a_kernel"),
        Kind::LinkState,
        1,
        0,
    );
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn links_a_kernel() {
    context();
    code::link_state();
}
