//! Tests of limits, tolerances and resources that may stay.

use super::body::{Run, check, gpu, rounds, site, usage};
use crate::judge::suppressions::{Pattern, Suppression};
use crate::judge::{
    Expect, LayerName, LayerUsage, Untraced, UsageOverBudget, meant_to_stay, needs_another_run,
};
use crate::ledger::{InTurn, Kind, Layer, Place, PoolName, StackId};
use crate::report::{Code, Limit, Reason};

/// Makes a run exceed a limit of 100.
fn exceed<'a>(run: &'a mut Run<'_>, limit: Limit, reached: u64) -> &'a mut UsageOverBudget {
    run.input.over_budget.push(UsageOverBudget {
        limit,
        allowed: 100,
        reached,
        layer: Layer::DRIVER,
        place: gpu(),
        pool: None,
        sites: Vec::new(),
        peak_at: 0,
        in_turn: Vec::new(),
    });
    run.input.over_budget.last_mut().expect("it was just added")
}

#[test]
fn a_limit_that_two_runs_exceed_is_a_finding_with_its_lines() {
    let mut check = check();
    check.run(|run| {
        for line in [10, 10, 20, 30] {
            let taken = run.take(line, 60);
            run.free(taken);
        }
        let over = exceed(run, Limit::MaxAllocated, 180);
        over.peak_at = 4;
        // Allocations whose time is unknown also belong to the test.
        over.sites = vec![
            site(20, 1, 60, (4, 4)),
            site(10, 2, 120, (0, 2)),
            site(30, 1, 20, (0, 0)),
        ];
        over.in_turn = vec![InTurn {
            stack: StackId(10),
            bytes: 60,
            count: 2,
        }];
    });
    assert!(needs_another_run(&check.input));
    check.run(|run| _ = exceed(run, Limit::MaxAllocated, 150));
    assert!(!needs_another_run(&check.input));
    check.reports(
        "
        over-budget
        over-budget: 1 × reserve on cuda:0 at src/app.rs:10; budget {allowed:100,limit:max_allocated,reached:180,reusable:[{at:src/app.rs:10,buffers:1,count:2,each:60}],shares:[{at:src/app.rs:10,bytes:120,count:2},{at:src/app.rs:20,bytes:60,count:1,when:{first:4,last:4,of:8}},{at:src/app.rs:30,bytes:20,count:1}],when:{first:4,last:4,of:8}}; bytes 180; confirmed {bytes:150,count:1,of:2,runs:2}; records []
    ",
    );
}

/// The line with the most bytes may have allocated only once.
#[test]
fn a_limit_on_the_number_of_allocations_names_the_line_with_the_most() {
    let mut check = check();
    check.input.facts.confirm = false;
    check.run(|run| {
        for line in [10, 20] {
            run.caller(line);
        }
        let over = exceed(run, Limit::MaxAllocationCount, 180);
        over.sites = vec![site(20, 179, 179, (0, 0)), site(10, 1, 4096, (0, 0))];
    });
    check.reports(
        "
        over-budget
        over-budget: 1 × reserve on cuda:0 at src/app.rs:20; budget {allowed:100,limit:max_allocation_count,reached:180,shares:[{at:src/app.rs:20,bytes:179,count:179},{at:src/app.rs:10,bytes:4096,count:1}]}; records []
    ",
    );
}

#[test]
fn a_limit_exceeded_only_in_the_first_run_is_first_use() {
    let mut check = check();
    check.run(|run| _ = exceed(run, Limit::MaxAllocationCount, 180));
    check.run(|_| {});
    assert!(!needs_another_run(&check.input));
    check.reports(
        "
        first-use
        first-use: 1 × reserve on cuda:0 at an unknown place; budget {allowed:100,limit:max_allocation_count,reached:180,shares:[]}; records []
    ",
    );
    let mut later = super::body::check();
    later.run(|run| _ = exceed(run, Limit::MaxAllocationCount, 180));
    later.run(|run| _ = exceed(run, Limit::MaxTotalAllocated, 190));
    assert!(needs_another_run(&later.input));
    later.run(|run| _ = exceed(run, Limit::MaxTotalAllocated, 200));
    later.reports(
        "
        over-budget
        over-budget: 1 × reserve on cuda:0 at an unknown place; budget {allowed:100,limit:max_total_allocated,reached:190,shares:[]}; bytes 190; confirmed {bytes:200,count:1,of:3,runs:2}; records []
        first-use: 1 × reserve on cuda:0 at an unknown place; budget {allowed:100,limit:max_allocation_count,reached:180,shares:[]}; records []
    ",
    );
}

#[test]
fn the_round_that_exceeds_a_limit_most_is_reported() {
    let mut check = rounds(3);
    for reached in [110, 130, 120] {
        check.run(|run| {
            let over = exceed(run, Limit::MaxReserved, reached);
            over.pool = Some(PoolName::Default);
            let over = exceed(run, Limit::MaxReserved, reached);
            over.place = Place::cuda(1);
        });
    }
    check.reports(
        "
        over-budget
        over-budget: 1 × reserve on cuda:0 at an unknown place; budget {allowed:100,limit:max_reserved,reached:130,shares:[]}; bytes 130; pool pool 0; records []
        over-budget: 1 × reserve on cuda:1 at an unknown place; budget {allowed:100,limit:max_reserved,reached:130,shares:[]}; bytes 130; records []
    ",
    );
}

#[test]
fn a_reserve_above_its_limit_that_others_could_move_is_only_noted() {
    let mut check = check();
    check.input.facts.confirm = false;
    check.run(|run| {
        exceed(run, Limit::MaxReserved, 180);
        exceed(run, Limit::MaxAllocated, 170);
        run.input.others.anything = true;
    });
    check.reports(
        "
        over-budget
        over-budget: 1 × reserve on cuda:0 at an unknown place; budget {allowed:100,limit:max_allocated,reached:170,shares:[]}; bytes 170; records []
        note: driver on cuda:0 reserved up to 180 B more than before the test, above the budget of 100 B; this was not judged, because something outside this check may have reserved it
    ",
    );
}

#[test]
fn a_reserve_that_others_could_move_needs_no_third_run() {
    let mut check = check();
    check.run(|run| _ = run.take(10, 8));
    check.run(|run| {
        run.take(10, 8);
        exceed(run, Limit::MaxReserved, 180);
    });
    assert!(needs_another_run(&check.input));
    check.input.runs[1].others.anything = true;
    assert!(!needs_another_run(&check.input));
}

#[test]
fn a_limit_of_a_layer_that_nobody_reported_is_noted() {
    let mut check = check();
    let cache = Layer::allocator("budgets-cache");
    let limits = &mut check.input.facts.budget;
    limits.layer = cache;
    (limits.max_allocated, limits.max_allocation_count) = (Some(1), Some(1));
    check.run(|run| {
        let driver = LayerName::Layer(Layer::DRIVER);
        run.input.end.layers.push(usage(driver, 0, 0));
    });
    check.reports(
        "
        clean
        note: max_allocated and max_allocation_count had no effect, because nothing was allocated in the layer allocator:budgets-cache; the layers that were seen are driver
        unbound: max_allocated and max_allocation_count had no effect, because nothing was allocated in the layer allocator:budgets-cache; the layers that were seen are driver
    ",
    );
    let mut bound = check.clone();
    let of_probe = LayerUsage::new(LayerName::Probe(cache), gpu());
    let of_cache = LayerUsage {
        reported: Some(0),
        ..of_probe.clone()
    };
    bound.input.runs[0].baseline.layers.push(of_cache);
    bound.reports("clean");
    // The probe alone knows no individual allocation, but it reads the reserve.
    let mut probed = check.clone();
    probed.input.facts.budget.max_reserved = Some(1);
    probed.input.runs[0].end.layers.push(of_probe);
    probed.reports(
        "
        clean
        note: max_allocated and max_allocation_count had no effect, because only a probe reads allocator:budgets-cache, and its allocations are not reported
        unbound: max_allocated and max_allocation_count had no effect, because only a probe reads allocator:budgets-cache, and its allocations are not reported
    ",
    );
    // The usage of an allocator that ended with its device is not read.
    let mut ended = check.clone();
    ended.input.runs[0].bound = vec![Limit::MaxAllocated, Limit::MaxAllocationCount];
    ended.reports("clean");
    check.input.runs[0].end.layers.clear();
    check.reports("clean");
}

#[test]
fn one_time_set_up_within_the_tolerance_is_noted_separately() {
    let mut check = check();
    check.input.facts.tolerance = 64;
    check.run(|run| {
        _ = (
            run.take(10, 64),
            run.make(20, |made| made.kind = Kind::Event),
        )
    });
    check.run(|_| {});
    check.reports(
        "
        first-use
        first-use: 1 × event on cuda:0 at src/app.rs:20; allocated 1; each 0; when {first:2,last:2,of:2}; records [1]
        note: 64 B remained allocated, within the tolerance of 64 B
    ",
    );
    check.input.facts.tolerance = 63;
    check.reports(
        "
        first-use
        first-use: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; each 64; when {first:1,last:1,of:2}; records [0]
        first-use: 1 × event on cuda:0 at src/app.rs:20; allocated 1; each 0; when {first:2,last:2,of:2}; records [1]
    ",
    );
}

#[test]
fn expected_leaks_must_match_exactly() {
    let mut check = check();
    let expect = |count, bytes| Some(Expect { count, bytes });
    for _ in 0..2 {
        check.run(|run| {
            _ = (
                run.take(10, 64),
                run.take(20, 8),
                run.make(30, |made| made.kind = Kind::Event),
            )
        });
    }
    check.input.facts.expect = expect(Some(3), Some(72));
    check.reports(
        "
        allowed
        allowed: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; allowed_by {expired:null,owner:null,reason:expected by the test,stands_in:the attribute}; bytes 64; confirmed {bytes:64,count:1,of:2,runs:2}; each 64; when {first:1,last:1,of:3}; records [0, 3]
        allowed: 1 × linear on cuda:0 at src/app.rs:20; allocated 1; allowed_by {expired:null,owner:null,reason:expected by the test,stands_in:the attribute}; bytes 8; confirmed {bytes:8,count:1,of:2,runs:2}; each 8; when {first:2,last:2,of:3}; records [1, 4]
        allowed: 1 × event on cuda:0 at src/app.rs:30; allocated 1; allowed_by {expired:null,owner:null,reason:expected by the test,stands_in:the attribute}; confirmed {bytes:0,count:1,of:2,runs:2}; each 0; when {first:3,last:3,of:3}; records [2, 5]
    ",
    );
    check.input.facts.expect = expect(Some(2), Some(72));
    check.reports(
        "
        unexpected because of expectation: expected to leave 2 objects, 72 B, but left 3 objects, 72 B; find out what has changed, or change the `expect` option
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed {bytes:64,count:1,of:2,runs:2}; each 64; when {first:1,last:1,of:3}; records [0, 3]
        leaked: 1 × linear on cuda:0 at src/app.rs:20; allocated 1; bytes 8; confirmed {bytes:8,count:1,of:2,runs:2}; each 8; when {first:2,last:2,of:3}; records [1, 4]
        leaked: 1 × event on cuda:0 at src/app.rs:30; allocated 1; confirmed {bytes:0,count:1,of:2,runs:2}; each 0; when {first:3,last:3,of:3}; records [2, 5]
    ",
    );
    check.input.facts.expect = expect(None, Some(73));
    check.reports(
        "
        unexpected because of expectation: expected to leave 73 B, but left 72 B; find out what has changed, or change the `expect` option
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed {bytes:64,count:1,of:2,runs:2}; each 64; when {first:1,last:1,of:3}; records [0, 3]
        leaked: 1 × linear on cuda:0 at src/app.rs:20; allocated 1; bytes 8; confirmed {bytes:8,count:1,of:2,runs:2}; each 8; when {first:2,last:2,of:3}; records [1, 4]
        leaked: 1 × event on cuda:0 at src/app.rs:30; allocated 1; confirmed {bytes:0,count:1,of:2,runs:2}; each 0; when {first:3,last:3,of:3}; records [2, 5]
    ",
    );
}

#[test]
fn memory_that_a_suppression_allows_uses_up_no_tolerance() {
    let mut check = check();
    check.input.facts.tolerance = 64;
    let allow = Suppression::of_pattern(Pattern::new("fn", "app::step10").unwrap());
    check.input.suppressions.push(allow.clone());
    for _ in 0..2 {
        check.run(|run| _ = (run.take(10, 128), run.take(20, 64)));
    }
    check.reports(
        "
        allowed
        allowed: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; allowed_by {expired:null,owner:null,reason:,stands_in:the attribute}; bytes 128; confirmed {bytes:128,count:1,of:2,runs:2}; each 128; when {first:1,last:1,of:2}; records [0, 2]
        note: 64 B remained allocated, within the tolerance of 64 B
    ",
    );
    // Shipped suppressions apply to the resources that a whole program leaves, but not to failed
    // frees.
    let mut program = check.clone();
    program.input.kept_for_the_process = program.input.suppressions.split_off(0);
    program.input.runs.truncate(1);
    program.reports(
        "
        allowed
        allowed: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; allowed_by {expired:null,owner:null,reason:,stands_in:the attribute}; bytes 128; each 128; when {first:1,last:1,of:2}; records [0]
        note: 64 B remained allocated, within the tolerance of 64 B
    ",
    );
    check.input.kept_for_the_process = check.input.suppressions.split_off(0);
    check.run(|run| {
        let taken = run.take(10, 64);
        run.fail_to_free(taken, 30, 1);
    });
    check.reports(
        "
        failed-free
        failed-free: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; each 64; failed CUresult 1 (1) at src/app.rs:30; records [4]
        first-use: 2 × linear on cuda:0 at src/app.rs:10; allocated 2; bytes 256; each 128; records [0, 2]
        first-use: 2 × linear on cuda:0 at src/app.rs:20; allocated 2; bytes 128; each 64; records [1, 3]
    ",
    );
}

#[test]
fn the_advised_options_let_the_check_pass() {
    let advice = |check: &mut super::body::Body| {
        let result = crate::judge::judge(&check.input);
        let advice = meant_to_stay(&mut check.input, &result);
        advice.map(|it| (it.allow, it.tolerance, it.reserved_tolerance))
    };
    let mut check = check();
    check.run(|run| _ = (run.take(10, 64), run.take(10, 64)));
    check.run(|run| _ = (run.take(10, 64), run.take(10, 72)));
    let allow = Some("app::step10".to_owned());
    assert_eq!(advice(&mut check), Some((allow, 0, 0)));
    assert!(check.input.suppressions.is_empty(), "it was only tried");
    // Leaks of two functions can only be allowed together by their bytes.
    for run in &mut check.input.runs {
        for live in &mut run.live {
            let stack = 10 + 10 * (live.record.sequence % 2) as u32;
            live.record.made.caller.stack = StackId(stack);
        }
    }
    check.stack(20, &[super::body::frame(20)]);
    assert_eq!(advice(&mut check), Some((None, 136, 0)));
    assert_eq!(check.input.facts.tolerance, 0);
    // Memory that a pool retains in addition to the leaks needs a separate tolerance.
    for (at, run) in (1..).zip(&mut check.input.runs) {
        let pool = || LayerName::Pool(PoolName::Default);
        run.baseline.layers.push(usage(pool(), 0, 1000 * (at - 1)));
        run.end.layers.push(usage(pool(), 0, 1000 * at));
    }
    assert_eq!(advice(&mut check), Some((None, 136, 1000)));
    for run in &mut check.input.runs {
        run.live.clear();
    }
    assert_eq!(advice(&mut check), Some((None, 0, 1000)));
    // A tolerance cannot cover handles, because they have no bytes.
    let mut handles = super::body::check();
    handles.run(|run| {
        for line in [10, 20] {
            run.make(line, |made| made.kind = Kind::Event);
        }
    });
    assert_eq!(advice(&mut handles), None);
    let mut clean = super::body::check();
    clean.run(|_| {});
    assert_eq!(advice(&mut clean), None);
}

#[test]
fn the_advice_names_the_innermost_function_that_frees_nothing_else() {
    // A function that only wraps a call to the API, such as the first one here, is on the stacks of
    // more than this leak.
    use super::body::frame;
    use crate::judge::FreedAt;
    let mut check = check();
    let mut closure = frame(55);
    closure.function = Some("app::step55::{{closure}}".into());
    let outer = [frame(50), closure, frame(60), frame(80)];
    check.stack(10, &[&[frame(10)], &outer[..]].concat());
    check.stack(11, &[&[frame(11)], &outer[..]].concat());
    check.stack(12, &[frame(12), frame(60)]);
    check.run(|run| _ = (run.take(10, 64), run.take(11, 64)));
    let named = |check: &mut super::body::Body| {
        let result = crate::judge::judge(&check.input);
        meant_to_stay(&mut check.input, &result).and_then(|advice| advice.allow)
    };
    assert_eq!(named(&mut check).as_deref(), Some("app::step60"));
    check.input.runs[0].freed_of_run = vec![FreedAt {
        layer: Layer::DRIVER,
        kind: Kind::Linear,
        allocated: StackId(12),
        freed: StackId(12),
        count: 1,
        events: Vec::new(),
    }];
    assert_eq!(named(&mut check).as_deref(), Some("app::step80"));
    check.stack(12, &[frame(12), frame(50), frame(60), frame(80)]);
    assert_eq!(named(&mut check).as_deref(), Some("app::step60"));
}

/// A test that exceeds a limit need not leave anything behind.
#[test]
fn a_limit_that_a_run_did_not_confirm_is_a_finding_like_any_other() {
    let mut check = check();
    check.run(|run| _ = exceed(run, Limit::MaxAllocationCount, 180));
    let mut later = check.clone();
    check.run(|run| run.input.as_expected = false);
    check.reports(
        "
        inconclusive because of not-repeatable: the second run, which was meant to confirm the findings of the first run, ended differently; check the test's output to see how the last run ended, and make the body repeatable; if the body can run only once, set `confirm = false`
        over-budget: 1 × reserve on cuda:0 at an unknown place; budget {allowed:100,limit:max_allocation_count,reached:180,shares:[]}; confirmed not-repeatable; records []
    ",
    );
    later.run(|run| _ = exceed(run, Limit::MaxTotalAllocated, 190));
    later.run(|run| run.input.as_expected = false);
    later.reports(
        "
        inconclusive because of not-repeatable: two runs did not show whether their findings repeat, and the third run, which was meant to decide, ended differently; check the test's output to see how the last run ended, and make the body repeatable; if the body can run only once, set `confirm = false`
        first-use: 1 × reserve on cuda:0 at an unknown place; budget {allowed:100,limit:max_total_allocated,reached:190,shares:[]}; bytes 190; records []
        first-use: 1 × reserve on cuda:0 at an unknown place; budget {allowed:100,limit:max_allocation_count,reached:180,shares:[]}; records []
    ",
    );
}

#[test]
fn a_peak_is_not_judged_if_a_free_may_have_been_missed() {
    let mut check = check();
    check.run(|run| {
        exceed(run, Limit::MaxAllocated, 180);
        exceed(run, Limit::MaxAllocationCount, 180);
    });
    check.input.untraced = Some(Untraced {
        lost: true,
        reason: Reason::new(Code::UnheardFunction, "some calls were missed", "look"),
        driver_in_use: true,
    });
    check.reports(
        "
        over-budget
        over-budget: 1 × reserve on cuda:0 at an unknown place; budget {allowed:100,limit:max_allocation_count,reached:180,shares:[]}; records []
        note: max_allocated was exceeded on cuda:0, but this was not judged, because a free may have been missed
        note: some calls were missed; look
    ",
    );
}
