//! Tests of sums that only a probe can read, and of how much of the allocator's reserve they
//! explain.

use super::body::{check, gpu, rounds, usage};
use super::pools::{MIB, block, cache, hands_out, pool, reserves};
use crate::judge::{
    LayerName, LayerUsage, Ownership, Segment, is_more_reserved, needs_another_run, rounding,
};
use crate::ledger::{Kind, Layer, Place};

#[test]
fn a_sum_that_rises_is_a_leak_without_a_line() {
    let mut check = check();
    check.run(|run| hands_out(run, &cache(), 100, 1100));
    assert!(needs_another_run(&check.input));
    check.run(|run| hands_out(run, &cache(), 1100, 1700));
    assert!(!needs_another_run(&check.input));
    check.reports(
        "
        leaked
        leaked: 1 × block on cuda:0 at an unknown place by allocator:pools-cache; allocated 1; bytes 600; confirmed {bytes:600,count:1,of:2,runs:2}; each 600; notes [the probe of pools-cache reports only this total, without call sites or individual blocks]; records []
    ",
    );
    check.input.facts.tolerance = 999;
    check.reports(
        "
        leaked
        leaked: 1 × block on cuda:0 at an unknown place by allocator:pools-cache; allocated 1; bytes 600; confirmed {bytes:600,count:1,of:2,runs:2}; each 600; notes [the probe of pools-cache reports only this total, without call sites or individual blocks]; records []
        note: 1,000 B of allocator:pools-cache memory on cuda:0 remained allocated, more than the tolerance of 999 B
    ",
    );
    check.input.facts.tolerance = 1000;
    check.reports(
        "
        clean
        note: 1,000 B remained allocated, within the tolerance of 1,000 B
    ",
    );
    check.input.facts.tolerance = 0;
    check.run(|run| hands_out(run, &cache(), 1700, 1700));
    check.reports(
        "
        first-use
        first-use: 1 × block on cuda:0 at an unknown place by allocator:pools-cache; allocated 1; bytes 1000; each 1000; notes [the probe of pools-cache reports only this total, without call sites or individual blocks]; records []
    ",
    );
}

#[test]
fn a_sum_that_rises_only_in_the_second_run_needs_a_third() {
    let mut check = check();
    check.run(|run| _ = run.take(10, 8));
    check.run(|run| {
        run.take(10, 8);
        hands_out(run, &cache(), 0, 600);
    });
    assert!(needs_another_run(&check.input));
    // No run can decide about a sum that something else may have raised.
    check.input.runs[1].others.anything = true;
    assert!(!needs_another_run(&check.input));
    let before = &mut check.input.runs[0];
    before.end.layers = vec![usage(cache(), 600, 0)];
    before.others.anything = true;
    check.input.runs[1].others.anything = false;
    assert!(needs_another_run(&check.input), "it may rise again");
}

#[test]
fn a_sum_or_a_reserve_grew_if_it_rose_in_every_round() {
    let mut check = rounds(3);
    let add = |check: &mut super::body::Body, at: u64, sum: u64| {
        check.run(|run| {
            hands_out(run, &cache(), 1000 * at, 1000 * at + sum);
            reserves(run, &pool(), at * MIB, (at + 1) * MIB);
        });
    };
    add(&mut check, 0, 1000);
    add(&mut check, 1, 1000);
    check.reports("clean");
    assert!(needs_another_run(&check.input));
    let mut stays = check.clone();
    add(&mut check, 2, 1000);
    check.reports(
        "
        grew
        grew: 1 × reserve on cuda:0 at an unknown place; allocated 1; bytes 3145728; each 3145728; pool pool 0; rounds [{bytes:1048576,count:1},{bytes:2097152,count:1},{bytes:3145728,count:1}]; records []
        grew: 1 × block on cuda:0 at an unknown place by allocator:pools-cache; allocated 1; bytes 3000; each 3000; notes [the probe of pools-cache reports only this total, without call sites or individual blocks]; rounds [{bytes:1000,count:1},{bytes:2000,count:1},{bytes:3000,count:1}]; records []
    ",
    );
    add(&mut stays, 2, 0);
    stays.reports(
        "
        grew
        grew: 1 × reserve on cuda:0 at an unknown place; allocated 1; bytes 3145728; each 3145728; pool pool 0; rounds [{bytes:1048576,count:1},{bytes:2097152,count:1},{bytes:3145728,count:1}]; records []
    ",
    );
}

#[test]
fn rounds_go_on_while_a_sum_or_a_reserve_rises() {
    for name in [cache(), pool()] {
        let mut check = rounds(9);
        for at in 0..3 {
            check.run(|run| match name {
                LayerName::Probe(_) => hands_out(run, &name, at, at + 1),
                _ => reserves(run, &name, at, at + 1),
            });
        }
        assert!(needs_another_run(&check.input), "{name}");
        check.run(|_| {});
        assert!(!needs_another_run(&check.input), "{name}");
    }
    // Frees of reported blocks do not hide that unreported memory rises.
    let mut check = rounds(9);
    for at in 0..3 {
        check.run(|run| {
            let partly = |allocated, reported| LayerUsage {
                allocated,
                reported: Some(reported),
                ..LayerUsage::new(cache(), gpu())
            };
            let left = 64 * (9 - at);
            run.input.baseline.layers.push(partly(600 + 64 * at, left));
            run.input.end.layers.push(partly(600 + 64 * at, left - 64));
        });
    }
    assert!(needs_another_run(&check.input));
    // A sum that stays the same does not rise.
    let mut check = rounds(9);
    for _ in 0..3 {
        check.run(|run| hands_out(run, &cache(), 64, 64));
    }
    assert!(!needs_another_run(&check.input));
    // Usage that the ledger knows by line is not judged as a sum.
    let mut check = rounds(9);
    for at in 0..3 {
        check.run(|run| hands_out(run, &LayerName::Layer(Layer::DRIVER), at, at + 1));
    }
    assert!(!needs_another_run(&check.input));
}

#[test]
fn an_allocator_may_round_up_what_was_requested() {
    let rises = |bytes, sum| {
        let mut check = check();
        check.input.facts.confirm = false;
        check.run(|run| {
            block(run, 10, 0x1000, bytes);
            hands_out(run, &cache(), 0, sum);
            let usage = &mut run.input.end.layers[0];
            (usage.reported, usage.rounding) = (Some(bytes), rounding([bytes].into_iter()));
        });
        check
    };
    rises(8, 8 + 512).reports(
        "
        leaked
        leaked: 1 × block on cuda:0 at src/app.rs:10 by allocator:pools-cache; allocated 1; bytes 8; each 8; when {first:1,last:1,of:1}; records [0]
    ",
    );
    rises(8, 8 + 513).reports(
        "
        leaked
        leaked: 1 × block on cuda:0 at an unknown place by allocator:pools-cache; allocated 1; bytes 513; each 513; notes [the probe of pools-cache counts more bytes than the reported blocks add up to]; records []
        leaked: 1 × block on cuda:0 at src/app.rs:10 by allocator:pools-cache; allocated 1; bytes 8; each 8; when {first:1,last:1,of:1}; records [0]
    ",
    );
    rises(1000, 2000).reports(
        "
        leaked
        leaked: 1 × block on cuda:0 at src/app.rs:10 by allocator:pools-cache; allocated 1; bytes 1000; each 1000; when {first:1,last:1,of:1}; records [0]
    ",
    );
    rises(1000, 2001).reports(
        "
        leaked
        leaked: 1 × block on cuda:0 at an unknown place by allocator:pools-cache; allocated 1; bytes 1001; each 1001; notes [the probe of pools-cache counts more bytes than the reported blocks add up to]; records []
        leaked: 1 × block on cuda:0 at src/app.rs:10 by allocator:pools-cache; allocated 1; bytes 1000; each 1000; when {first:1,last:1,of:1}; records [0]
    ",
    );
}

#[test]
fn a_sum_that_others_could_move_is_inconclusive_beyond_the_tolerance() {
    let mut check = check();
    check.run(|run| {
        hands_out(run, &cache(), 0, 5000);
        run.input.others.checks = true;
        // These are bytes that threads had allocated or freed between the two readings.
        run.input.baseline.layers[0].in_motion = 300;
        run.input.end.layers[0].in_motion = 500;
    });
    check.reports(
        "
        inconclusive because of shared: allocator:pools-cache has handed out 3.91 KiB (4,000 B) more on cuda:0 than before the test, and no reported block shows who allocated it: the test may have leaked it, or another check, which ran at the same time, may have allocated it; to find out, run one test at a time (`--test-threads=1`), or each test in its own process (nextest or `isolate`) if a test leaves a thread running, or have the allocator report its blocks (`observe::Source`)
    ",
    );
    check.input.facts.tolerance = 3999;
    let others = &mut check.input.runs[0].others;
    (others.checks, others.anything) = (false, true);
    check.reports(
        "
        inconclusive because of shared: allocator:pools-cache has handed out 3.91 KiB (4,000 B) more on cuda:0 than before the test, and no reported block shows who allocated it: the test may have leaked it, or another test, or a thread that an earlier test left, may have allocated it; to find out, run one test at a time (`--test-threads=1`), or each test in its own process (nextest or `isolate`) if a test leaves a thread running, or have the allocator report its blocks (`observe::Source`)
    ",
    );
    check.input.facts.tolerance = 4000;
    check.reports("clean");
    check.input.runs[0].others.anything = false;
    check.reports(
        "
        leaked
        leaked: 1 × block on cuda:0 at an unknown place by allocator:pools-cache; allocated 1; bytes 5000; each 5000; notes [the probe of pools-cache reports only this total, without call sites or individual blocks]; records []
        note: 4.88 KiB (5,000 B) of allocator:pools-cache memory on cuda:0 remained allocated, more than the tolerance of 3.91 KiB (4,000 B)
    ",
    );
}

#[test]
fn a_leak_says_how_much_of_a_reserve_it_pins() {
    let layer = cache().layer();
    let mut check = check();
    check.input.facts.confirm = false;
    check.run(|run| {
        run.make(10, |made| {
            (made.kind, made.bytes) = (Kind::StreamOrdered, 8)
        });
        run.take(20, 64);
        // This is memory of a pool of the host, which is a different pool.
        run.make(25, |made| {
            (made.kind, made.bytes, made.place) = (Kind::StreamOrdered, 8, Place::HOST);
        });
        block(run, 30, 0x10_0000, 64);
        let other = block(run, 40, 0x20_0000, 64);
        run.give(other, Ownership::Another);
        let segment = |at: u64| Segment {
            address: at << 20,
            bytes: MIB,
        };
        run.input
            .segments
            .add(layer, gpu(), &[segment(1), segment(2)]);
        reserves(run, &pool(), 0, 16 * MIB);
        reserves(run, &cache(), 0, 2 * MIB);
        for usage in &mut run.input.end.layers {
            (usage.allocated, usage.reported) = (128, Some(128));
        }
    });
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:20; allocated 1; bytes 64; each 64; when {first:2,last:2,of:5}; records [1]
        leaked: 1 × block on cuda:0 at src/app.rs:30 by allocator:pools-cache; allocated 1; bytes 64; each 64; notes [prevents 1.00 MiB of the memory reserved by allocator:pools-cache from being released]; when {first:4,last:4,of:5}; records [3]
        leaked: 1 × stream-ordered on host at src/app.rs:25; allocated 1; bytes 8; each 8; when {first:3,last:3,of:5}; records [2]
        leaked: 1 × stream-ordered on cuda:0 at src/app.rs:10; allocated 1; bytes 8; each 8; notes [prevents 16.0 MiB of the memory reserved by pool 0 from being released]; when {first:1,last:1,of:5}; records [0]
    ",
    );
}

#[test]
fn a_sum_explains_a_chunk_of_a_reserve_whose_segments_are_unknown() {
    let mut check = check();
    check.input.facts.confirm = false;
    check.run(|run| {
        let usage = |allocated, reserved| usage(cache(), allocated, reserved);
        run.input.baseline.layers.push(usage(0, 0));
        run.input.end.layers.push(usage(100, 40 * MIB));
    });
    check.reports(
        "
        leaked
        leaked: 1 × block on cuda:0 at an unknown place by allocator:pools-cache; allocated 1; bytes 100; each 100; notes [the probe of pools-cache reports only this total, without call sites or individual blocks,prevents 32.0 MiB of the memory reserved by allocator:pools-cache from being released]; records []
        retained: 1 × reserve on cuda:0 at an unknown place by allocator:pools-cache; allocated 1; bytes 8388608; each 8388608; records []
    ",
    );
    // If no more memory is handed out than before, nothing is explained, whether or not segments
    // are known.
    check.input.runs[0].end.layers[0].allocated = 0;
    check.reports(
        "
        retained
        retained: 1 × reserve on cuda:0 at an unknown place by allocator:pools-cache; allocated 1; bytes 41943040; each 41943040; records []
    ",
    );
    let segment = Segment {
        address: MIB,
        bytes: MIB,
    };
    let segments = &mut check.input.runs[0].segments;
    segments.add(cache().layer(), gpu(), &[segment]);
    check.reports(
        "
        retained
        retained: 1 × reserve on cuda:0 at an unknown place by allocator:pools-cache; allocated 1; bytes 41943040; each 41943040; records []
    ",
    );
}

#[test]
fn a_sum_counts_against_the_tolerance_in_the_run_in_which_it_rose() {
    let mut check = check();
    let mut before = (0, 0);
    for (bytes, sum) in [(64, 1000), (640, 700)] {
        check.run(|run| {
            block(run, 10, 0x1000 + before.0, bytes);
            let usage = |(allocated, reported)| LayerUsage {
                allocated,
                reported: Some(reported),
                ..LayerUsage::new(cache(), gpu())
            };
            let after = (before.0 + bytes + sum, before.1 + bytes);
            run.input.baseline.layers.push(usage(before));
            run.input.end.layers.push(usage(after));
            before = after;
        });
    }
    check.input.facts.tolerance = 1339;
    check.reports(
        "
        leaked
        leaked: 1 × block on cuda:0 at an unknown place by allocator:pools-cache; allocated 1; bytes 700; confirmed {bytes:700,count:1,of:2,runs:2}; each 700; notes [the probe of pools-cache counts more bytes than the reported blocks add up to]; records []
        leaked: 1 × block on cuda:0 at src/app.rs:10 by allocator:pools-cache; allocated 1; bytes 64; confirmed {bytes:640,count:1,of:2,runs:2}; each 64; when {first:1,last:1,of:1}; records [0, 1]
        note: 1.31 KiB (1,340 B) of allocator:pools-cache memory on cuda:0 remained allocated, more than the tolerance of 1.31 KiB (1,339 B)
    ",
    );
    check.input.facts.tolerance = 1340;
    check.reports(
        "
        clean
        note: 1.31 KiB (1,340 B) remained allocated, within the tolerance of 1.31 KiB (1,340 B)
    ",
    );
}

#[test]
fn a_reserve_is_larger_if_any_allocator_s_is() {
    let mut check = check();
    check.run(|run| {
        reserves(run, &pool(), 8, 8);
        reserves(run, &cache(), 8, 4);
    });
    assert!(!is_more_reserved(&check.input.runs[0]));
    check.run(|run| {
        reserves(run, &pool(), 8, 8);
        reserves(run, &cache(), 8, 9);
    });
    assert!(is_more_reserved(&check.input.runs[1]));
}

#[test]
fn a_sum_that_others_could_move_does_not_hide_a_run_that_failed() {
    let mut check = check();
    check.run(|run| {
        run.take(10, 64);
        hands_out(run, &cache(), 0, 5000);
        run.input.others.checks = true;
    });
    check.run(|run| run.input.as_expected = false);
    check.reports(
        "
        inconclusive because of not-repeatable: the second run, which was meant to confirm the findings of the first run, ended differently; check the test's output to see how the last run ended, and make the body repeatable; if the body can run only once, set `confirm = false`
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed not-repeatable; each 64; when {first:1,last:1,of:1}; records [0]
        note: other checks ran at the same time, so the tables include what they allocated
        note: allocator:pools-cache has handed out 4.88 KiB (5,000 B) more on cuda:0 than before the test, and no reported block shows who allocated it: the test may have leaked it, or another check, which ran at the same time, may have allocated it; to find out, run one test at a time (`--test-threads=1`), or each test in its own process (nextest or `isolate`) if a test leaves a thread running, or have the allocator report its blocks (`observe::Source`)
    ",
    );
}
