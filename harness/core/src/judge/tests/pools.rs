//! Tests of reserves, which have no owner.

use super::body::{Run, check, gpu, rounds, usage};
use crate::judge::{
    ContextError, FailedSum, LayerName, LayerUsage, Ownership, Segment, needs_another_run, rounding,
};
use crate::ledger::event::{Key, Space};
use crate::ledger::{Kind, Layer, Place, PoolName};

pub(super) const MIB: u64 = 1 << 20;

pub(super) fn pool() -> LayerName {
    LayerName::Pool(PoolName::Default)
}

pub(super) fn cache() -> LayerName {
    LayerName::Probe(Layer::allocator("pools-cache"))
}

/// Sets the reserve of a layer before and after a run.
pub(super) fn reserves(run: &mut Run<'_>, name: &LayerName, before: u64, after: u64) {
    run.input
        .baseline
        .layers
        .push(usage(name.clone(), 0, before));
    run.input.end.layers.push(usage(name.clone(), 0, after));
}

/// Sets the bytes that a layer has handed out before and after a run.
pub(super) fn hands_out(run: &mut Run<'_>, name: &LayerName, before: u64, after: u64) {
    let usage = |allocated| LayerUsage {
        allocated,
        ..LayerUsage::new(name.clone(), gpu())
    };
    run.input.baseline.layers.push(usage(before));
    run.input.end.layers.push(usage(after));
}

/// Allocates a block of the cache.
pub(super) fn block(run: &mut Run<'_>, line: u32, address: u64, bytes: u64) -> u64 {
    let layer = cache().layer();
    run.make(line, |made| {
        made.key = Key::new(Space::Observed(layer), address);
        (made.kind, made.layer, made.bytes) = (Kind::Block, layer, bytes);
    })
}

#[test]
fn a_reserve_that_rises_in_two_runs_is_retained() {
    let mut check = check();
    check.run(|run| reserves(run, &pool(), 0, 64 * MIB));
    assert!(needs_another_run(&check.input));
    check.run(|run| reserves(run, &pool(), 64 * MIB, 96 * MIB));
    assert!(!needs_another_run(&check.input));
    check.reports(
        "
        retained
        retained: 1 × reserve on cuda:0 at an unknown place; allocated 1; bytes 67108864; confirmed {bytes:33554432,count:1,of:2,runs:2}; each 67108864; pool pool 0; records []
    ",
    );
    // The limit is inclusive, and applies to each run.
    check.input.facts.reserved_tolerance = 64 * MIB - 1;
    check.reports(
        "
        first-use
        first-use: 1 × reserve on cuda:0 at an unknown place; allocated 1; bytes 67108864; each 67108864; pool pool 0; records []
    ",
    );
    check.input.facts.reserved_tolerance = 64 * MIB;
    check.reports("clean");
}

#[test]
fn a_reserve_that_rises_in_every_round_exceeds_its_tolerance_by_the_sum() {
    let mut check = rounds(3);
    for at in 0..3 {
        check.run(|run| reserves(run, &pool(), at * MIB, (at + 1) * MIB));
    }
    check.input.facts.reserved_tolerance = 3 * MIB - 1;
    check.reports(
        "
        grew
        grew: 1 × reserve on cuda:0 at an unknown place; allocated 1; bytes 3145728; each 3145728; notes [this is more than the reserved_tolerance of 3.00 MiB (3,145,727 B)]; pool pool 0; rounds [{bytes:1048576,count:1},{bytes:2097152,count:1},{bytes:3145728,count:1}]; records []
    ",
    );
    check.input.facts.reserved_tolerance = 3 * MIB;
    check.reports("clean");
}

#[test]
fn a_reserve_that_rises_once_was_set_up_and_one_that_rises_later_needs_a_third_run() {
    let mut once = check();
    once.run(|run| reserves(run, &pool(), 0, 64 * MIB));
    once.run(|run| reserves(run, &pool(), 64 * MIB, 64 * MIB));
    assert!(!needs_another_run(&once.input));
    once.reports(
        "
        first-use
        first-use: 1 × reserve on cuda:0 at an unknown place; allocated 1; bytes 67108864; each 67108864; pool pool 0; records []
    ",
    );
    let mut later = check();
    later.run(|run| _ = run.take(10, 8));
    later.run(|run| {
        run.take(10, 8);
        reserves(run, &pool(), 0, 64 * MIB);
    });
    assert!(needs_another_run(&later.input));
}

#[test]
fn reserves_of_a_layer_count_together_for_their_tolerance() {
    let mut check = check();
    check.input.facts.confirm = false;
    check.input.facts.reserved_tolerance = 64 * MIB;
    check.run(|run| {
        reserves(run, &pool(), 0, 32 * MIB);
        reserves(run, &LayerName::Pool(PoolName::Graph), 0, 33 * MIB);
        reserves(run, &cache(), 0, 64 * MIB);
    });
    check.reports(
        "
        retained
        retained: 1 × reserve on cuda:0 at an unknown place; allocated 1; bytes 34603008; each 34603008; notes [this is more than the reserved_tolerance of 64.0 MiB]; pool graph pool; records []
        retained: 1 × reserve on cuda:0 at an unknown place; allocated 1; bytes 33554432; each 33554432; notes [this is more than the reserved_tolerance of 64.0 MiB]; pool pool 0; records []
    ",
    );
}

#[test]
fn a_live_block_explains_a_chunk_of_its_pool_and_no_more() {
    let mut check = check();
    check.input.facts.confirm = false;
    check.run(|run| {
        run.make(10, |made| {
            (made.kind, made.bytes) = (Kind::StreamOrdered, 8)
        });
        run.make(20, |made| {
            (made.kind, made.bytes) = (Kind::StreamOrdered, 33 * MIB)
        });
        // These are resources of other kinds, layers and places.
        run.take(30, 8);
        run.make(40, |made| {
            (made.kind, made.place) = (Kind::StreamOrdered, Place::cuda(1))
        });
        reserves(run, &pool(), 32 * MIB, 160 * MIB);
        reserves(run, &LayerName::Pool(PoolName::Graph), 0, 32 * MIB);
    });
    check.reports(
        "
        leaked
        leaked: 1 × stream-ordered on cuda:0 at src/app.rs:20; allocated 1; bytes 34603008; each 34603008; when {first:2,last:2,of:4}; records [1]
        leaked: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; bytes 8; each 8; when {first:3,last:3,of:4}; records [2]
        leaked: 1 × stream-ordered on cuda:0 at src/app.rs:10; allocated 1; bytes 8; each 8; notes [prevents 96.0 MiB of the memory reserved by pool 0 from being released]; when {first:1,last:1,of:4}; records [0]
        leaked: 1 × stream-ordered on cuda:1 at src/app.rs:40; allocated 1; each 0; when {first:4,last:4,of:4}; records [3]
        retained: 1 × reserve on cuda:0 at an unknown place; allocated 1; bytes 33554432; each 33554432; pool pool 0; records []
        retained: 1 × reserve on cuda:0 at an unknown place; allocated 1; bytes 33554432; each 33554432; pool graph pool; records []
    ",
    );
    check.input.runs[0].end.layers[0].reserved = Some(128 * MIB);
    check.reports(
        "
        leaked
        leaked: 1 × stream-ordered on cuda:0 at src/app.rs:20; allocated 1; bytes 34603008; each 34603008; when {first:2,last:2,of:4}; records [1]
        leaked: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; bytes 8; each 8; when {first:3,last:3,of:4}; records [2]
        leaked: 1 × stream-ordered on cuda:0 at src/app.rs:10; allocated 1; bytes 8; each 8; notes [prevents 96.0 MiB of the memory reserved by pool 0 from being released]; when {first:1,last:1,of:4}; records [0]
        leaked: 1 × stream-ordered on cuda:1 at src/app.rs:40; allocated 1; each 0; when {first:4,last:4,of:4}; records [3]
        retained: 1 × reserve on cuda:0 at an unknown place; allocated 1; bytes 33554432; each 33554432; pool graph pool; records []
    ",
    );
}

#[test]
fn memory_of_a_graph_explains_the_graph_pool() {
    let mut check = check();
    check.input.facts.confirm = false;
    check.run(|run| {
        let taken = run.make(10, |made| (made.kind, made.bytes) = (Kind::Graph, 0));
        run.give(taken, Ownership::Another);
        reserves(run, &LayerName::Pool(PoolName::Graph), 0, 32 * MIB);
    });
    check.reports("clean");
}

#[test]
fn a_block_explains_the_segment_that_it_lies_in() {
    let layer = cache().layer();
    let mut check = check();
    check.input.facts.confirm = false;
    check.run(|run| {
        block(run, 10, 0x10_0000, 64);
        block(run, 20, 0x10_0040, 64);
        block(run, 30, 0x30_0000, 64);
        let segment = |at: u64, mib: u64| Segment {
            address: at << 20,
            bytes: mib * MIB,
        };
        let before = [segment(3, 1)];
        run.input.segments_before.add(layer, gpu(), &before);
        let after = [segment(1, 1), segment(3, 2), segment(8, 4)];
        run.input.segments.add(layer, gpu(), &after);
        reserves(run, &cache(), MIB, 7 * MIB);
        for usage in &mut run.input.end.layers {
            (usage.allocated, usage.reported) = (192, Some(192));
        }
    });
    check.reports(
        "
        leaked
        leaked: 1 × block on cuda:0 at src/app.rs:10 by allocator:pools-cache; allocated 1; bytes 64; each 64; notes [prevents 2.00 MiB of the memory reserved by allocator:pools-cache from being released]; when {first:1,last:1,of:3}; records [0]
        leaked: 1 × block on cuda:0 at src/app.rs:20 by allocator:pools-cache; allocated 1; bytes 64; each 64; when {first:2,last:2,of:3}; records [1]
        leaked: 1 × block on cuda:0 at src/app.rs:30 by allocator:pools-cache; allocated 1; bytes 64; each 64; when {first:3,last:3,of:3}; records [2]
        retained: 1 × reserve on cuda:0 at an unknown place by allocator:pools-cache; allocated 1; bytes 4194304; each 4194304; records []
    ",
    );
    // If blocks are not reported individually, their segments are unknown.
    let end = &mut check.input.runs[0].end.layers[0];
    (end.allocated, end.reported, end.reserved) = (192, None, Some(39 * MIB));
    end.rounding = rounding([64; 3].into_iter());
    check.reports(
        "
        leaked
        leaked: 1 × block on cuda:0 at src/app.rs:10 by allocator:pools-cache; allocated 1; bytes 64; each 64; notes [prevents 38.0 MiB of the memory reserved by allocator:pools-cache from being released]; when {first:1,last:1,of:3}; records [0]
        leaked: 1 × block on cuda:0 at src/app.rs:20 by allocator:pools-cache; allocated 1; bytes 64; each 64; when {first:2,last:2,of:3}; records [1]
        leaked: 1 × block on cuda:0 at src/app.rs:30 by allocator:pools-cache; allocated 1; bytes 64; each 64; when {first:3,last:3,of:3}; records [2]
    ",
    );
    check.input.facts.tolerance = 191;
    check.reports(
        "
        leaked
        leaked: 1 × block on cuda:0 at src/app.rs:10 by allocator:pools-cache; allocated 1; bytes 64; each 64; notes [prevents 38.0 MiB of the memory reserved by allocator:pools-cache from being released]; when {first:1,last:1,of:3}; records [0]
        leaked: 1 × block on cuda:0 at src/app.rs:20 by allocator:pools-cache; allocated 1; bytes 64; each 64; when {first:2,last:2,of:3}; records [1]
        leaked: 1 × block on cuda:0 at src/app.rs:30 by allocator:pools-cache; allocated 1; bytes 64; each 64; when {first:3,last:3,of:3}; records [2]
        note: 192 B of allocator:pools-cache memory on cuda:0 remained allocated, more than the tolerance of 191 B
    ",
    );
    check.input.facts.tolerance = 192;
    check.reports(
        "
        retained
        retained: 1 × reserve on cuda:0 at an unknown place by allocator:pools-cache; allocated 1; bytes 4194304; each 4194304; records []
        note: 192 B remained allocated, within the tolerance of 192 B
    ",
    );
}

#[test]
fn a_reserve_that_others_could_move_is_only_noted() {
    let mut check = check();
    check.run(|run| {
        reserves(run, &pool(), 0, 64 * MIB);
        run.input.others.anything = true;
    });
    assert!(!needs_another_run(&check.input));
    check.reports(
        "
        clean
        note: pool 0 on cuda:0 reserves 64.0 MiB more than before the test; this was not judged, because something outside this check may have reserved it
    ",
    );
    // A reserve that can be judged in only one of two runs confirms nothing.
    check.run(|run| reserves(run, &pool(), 64 * MIB, 96 * MIB));
    assert!(needs_another_run(&check.input));
    check.reports(
        "
        clean
        note: pool 0 on cuda:0 reserves 64.0 MiB more than before the test; this was not judged, because something outside this check may have reserved it
    ",
    );
    check.run(|run| reserves(run, &pool(), 96 * MIB, 128 * MIB));
    check.reports(
        "
        retained
        retained: 1 × reserve on cuda:0 at an unknown place; allocated 1; bytes 33554432; confirmed {bytes:33554432,count:1,of:2,runs:2}; each 33554432; pool pool 0; records []
        note: pool 0 on cuda:0 reserves 64.0 MiB more than before the test; this was not judged, because something outside this check may have reserved it
    ",
    );
}

#[test]
fn findings_of_a_failed_inner_check_are_not_reported_twice() {
    let mut check = check();
    check.input.facts.confirm = false;
    check.run(|run| {
        reserves(run, &pool(), 0, 64 * MIB);
        hands_out(run, &cache(), 0, 4096);
        let failed = |layer, place, allocated, reserved| FailedSum {
            layer,
            place,
            allocated,
            reserved,
        };
        run.input.failed_inside = vec![
            failed(pool(), gpu(), 0, 60 * MIB),
            failed(pool(), Place::cuda(1), 0, 2 * MIB),
            failed(cache(), gpu(), 4000, MIB),
            failed(cache(), Place::cuda(1), 90, MIB),
        ];
    });
    check.reports(
        "
        leaked
        leaked: 1 × block on cuda:0 at an unknown place by allocator:pools-cache; allocated 1; bytes 96; each 96; notes [the probe of pools-cache reports only this total, without call sites or individual blocks]; records []
        retained: 1 × reserve on cuda:0 at an unknown place; allocated 1; bytes 4194304; each 4194304; pool pool 0; records []
    ",
    );
}

#[test]
fn a_pool_of_a_broken_context_proves_nothing() {
    let mut check = check();
    check.run(|run| {
        reserves(run, &pool(), 0, 64 * MIB);
        reserves(run, &cache(), 0, 64 * MIB);
        let broken = ContextError {
            place: gpu(),
            error: 700,
        };
        run.input.broken_inside = Some(broken);
    });
    assert!(!needs_another_run(&check.input), "it could only fail");
    check.input.runs[0].end.layers.truncate(1);
    check.reports(
        "
        inconclusive because of poisoned: the context on cuda:0 was broken outside any check of this process (CUDA_ERROR_ILLEGAL_ADDRESS); first find the call that broke the context; running each test in its own process (nextest) protects the others
    ",
    );
    check.input.names.broken_by = Some("tests::other".to_owned());
    check.reports(
        "
        inconclusive because of poisoned: the context on cuda:0 was broken by tests::other (CUDA_ERROR_ILLEGAL_ADDRESS); fix that test first; running each test in its own process (nextest) protects the others
    ",
    );
    let elsewhere = Place::cuda(1);
    check.input.runs[0]
        .broken_inside
        .as_mut()
        .expect("it is broken")
        .place = elsewhere;
    check.reports(
        "
        retained
        retained: 1 × reserve on cuda:0 at an unknown place; allocated 1; bytes 67108864; each 67108864; pool pool 0; records []
    ",
    );
    check.input.runs[0].broken_before = check.input.runs[0].broken_inside.take();
    check.reports(
        "
        retained
        retained: 1 × reserve on cuda:0 at an unknown place; allocated 1; bytes 67108864; each 67108864; pool pool 0; records []
        note: the context on cuda:1 was broken by tests::other (CUDA_ERROR_ILLEGAL_ADDRESS); fix that test first; running each test in its own process (nextest) protects the others
    ",
    );
}
