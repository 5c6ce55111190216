use super::flow::MAX_LIFETIMES;
use super::{InTurn, Layer, Lifetime, MeterReading, Meters, Place, Record, ScopeId, SiteUsage};
use crate::ledger::event::{Caller, ContextUid, Creation, Key, Space, ThreadNumber};
use crate::ledger::quiet_lock::lock_quietly;
use crate::ledger::{Kind, StackId};

/// Returns the record that the event `at` allocated.
fn record(at: u64, scope: u32, stack: u32, bytes: u64) -> Record {
    let made = Creation {
        key: Key::new(Space::DevicePointer, at),
        kind: Kind::Linear,
        layer: Layer::DRIVER,
        place: Place::cuda(0),
        bytes,
        context: ContextUid(1),
        stream: 0,
        pool: 0,
        caller: Caller {
            thread: ThreadNumber(1),
            scope: ScopeId(scope),
            stack: StackId(stack),
        },
    };
    Record { sequence: at, made }
}

impl Meters {
    fn took(&self, record: &Record) {
        if let Some(mut running) = self.of(record) {
            running.gained(record, record.sequence, true);
        }
    }

    fn gave_back(&self, record: &Record, at: u64) {
        if let Some(mut running) = self.of(record) {
            running.lost(record, at);
        }
    }
}

fn only(mut taken: Vec<MeterReading>) -> MeterReading {
    assert_eq!(taken.len(), 1);
    taken.remove(0)
}

fn site(stack: u32, count: u64, bytes: u64) -> SiteUsage {
    let stack = StackId(stack);
    SiteUsage {
        stack,
        count,
        bytes,
        allocated: (0, 0),
    }
}

fn at(allocated: (u64, u64), site: SiteUsage) -> SiteUsage {
    SiteUsage { allocated, ..site }
}

#[test]
fn the_peak_is_reported_with_what_was_live_then() {
    let meters = Meters::default();
    meters.begin(ScopeId(1), Layer::DRIVER);
    let (small, large) = (record(1, 1, 1, 10), record(2, 1, 2, 100));
    meters.took(&small);
    meters.took(&large);
    // This is the peak of 110 bytes. The following events do not exceed it.
    meters.gave_back(&small, 3);
    meters.took(&record(4, 1, 3, 5));
    meters.gave_back(&large, 5);
    let taken = only(meters.end(ScopeId(1)));
    assert_eq!((taken.peak, taken.made, taken.total), (110, 3, 115));
    assert_eq!(taken.peak_at, 2);
    let at_peak = [at((2, 2), site(2, 1, 100)), at((1, 1), site(1, 1, 10))];
    assert_eq!(taken.at_peak, at_peak);
    let all = [site(2, 1, 100), site(1, 1, 10), site(3, 1, 5)];
    assert_eq!(taken.by_bytes, all);
}

/// Both the lines at the peak and the lifetimes at the peak always add up to the peak.
#[test]
fn the_call_sites_at_the_peak_add_up_to_it() {
    let meters = Meters::default();
    let before = [record(1, 9, 1, 1000), record(2, 9, 2, 500)];
    meters.begin_log(ScopeId(1), before.iter(), 3);
    let mut live = before.to_vec();
    let mut random = 7_u64;
    for now in 3..2000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let index = (random >> 33) as usize % live.len().max(1);
        if random >> 60 < 7 && !live.is_empty() {
            meters.gave_back(&live.swap_remove(index), now);
        } else {
            let new = record(now, 1, (random >> 40) as u32 % 5, (random >> 50) % 300);
            meters.took(&new);
            live.push(new);
        }
        let read = only(meters.log(ScopeId(1)).0);
        let reported: u64 = read.at_peak.iter().map(|site| site.bytes).sum();
        assert_eq!(reported, read.peak, "after {now}");
    }
    let read = only(meters.log(ScopeId(1)).0);
    assert_eq!(read.lost, 0);
    let is_live = |life: &&Lifetime| {
        life.allocated <= read.peak_at && (life.freed == 0 || life.freed > read.peak_at)
    };
    let live = read.lifetimes.iter().filter(is_live).map(|life| life.bytes);
    assert_eq!(live.sum::<u64>(), read.peak);
    meters.end_log(ScopeId(1));
    assert_eq!(meters.log(ScopeId(1)).0, []);
}

#[test]
fn a_full_log_loses_what_is_small_and_still_knows_the_peak() {
    let meters = Meters::default();
    meters.begin_log(ScopeId(1), [].iter(), 1);
    let kept = record(1, 1, 1, 1 << 20);
    meters.took(&kept);
    let many = 4 * MAX_LIFETIMES as u64;
    for number in 1..=many {
        let short = record(2 * number, 1, 2, 1 + number % 7);
        meters.took(&short);
        meters.gave_back(&short, 2 * number + 1);
    }
    let read = only(meters.log(ScopeId(1)).0);
    assert_eq!(read.peak, (1 << 20) + 7);
    assert_eq!(
        read.at_peak.iter().map(|site| site.bytes).sum::<u64>(),
        read.peak
    );
    assert!(read.lifetimes.len() <= MAX_LIFETIMES);
    assert_eq!(read.lost + read.lifetimes.len() as u64, many + 1);
    assert!(read.lifetimes.iter().any(|life| life.bytes == 1 << 20));
}

#[test]
fn allocations_follow_one_another_only_if_none_overlap() {
    let meters = Meters::default();
    meters.begin(ScopeId(1), Layer::DRIVER);
    for round in 0..5 {
        let in_turn = record(10 * round + 1, 1, 1, 8);
        meters.took(&in_turn);
        let (first, second) = (
            record(10 * round + 2, 1, 2, 8),
            record(10 * round + 3, 1, 2, 8),
        );
        meters.took(&first);
        meters.took(&second);
        for (record, number) in [(first, 4), (second, 5), (in_turn, 6)] {
            meters.gave_back(&record, 10 * round + number);
        }
        // Each allocation has a different size.
        let other = record(10 * round + 7, 1, 3, 1 + round);
        meters.took(&other);
        meters.gave_back(&other, 10 * round + 8);
    }
    let reported = only(meters.end(ScopeId(1))).in_turn;
    let expected = InTurn {
        stack: StackId(1),
        bytes: 8,
        count: 5,
    };
    assert_eq!(reported, [expected]);
}

#[test]
fn a_scope_s_budget_holds_for_those_inside_it() {
    let meters = Meters::default();
    meters.begin(ScopeId(1), Layer::DRIVER);
    meters.nest(ScopeId(2), ScopeId(1));
    meters.took(&record(1, 2, 1, 7));
    assert_eq!(meters.end(ScopeId(2)), []);
    assert_eq!(only(meters.end(ScopeId(1))).peak, 7);
}

#[test]
fn memory_of_an_inner_scope_that_the_outer_one_frees_is_gone() {
    let meters = Meters::default();
    meters.begin(ScopeId(1), Layer::DRIVER);
    meters.nest(ScopeId(2), ScopeId(1));
    meters.begin(ScopeId(2), Layer::DRIVER);
    meters.nest(ScopeId(3), ScopeId(2));
    let left = record(1, 3, 1, 7);
    meters.took(&left);
    meters.end(ScopeId(3));
    assert_eq!(only(meters.end(ScopeId(2))).peak, 7);
    meters.gave_back(&left, 2);
    meters.took(&record(3, 1, 1, 7));
    assert_eq!(only(meters.end(ScopeId(1))).peak, 7);
}

#[test]
fn nothing_is_kept_of_scopes_without_a_meter() {
    let meters = Meters::default();
    meters.begin(ScopeId(1), Layer::DRIVER);
    for (inner, outer) in [(11, 10), (12, 11), (13, 11), (2, 1)] {
        meters.nest(ScopeId(inner), ScopeId(outer));
    }
    meters.begin(ScopeId(12), Layer::DRIVER);
    for scope in [13, 11, 10] {
        meters.end(ScopeId(scope));
    }
    // The scope has its own meter, independent of its former parent.
    meters.took(&record(1, 12, 1, 5));
    assert_eq!(only(meters.end(ScopeId(12))).peak, 5);
    let kept = |meters: &Meters| -> usize {
        let running = &lock_quietly(&meters.meters).0;
        let budgets = running.iter().filter_map(|meter| meter.budget.as_ref());
        budgets.map(|(_, counted)| counted.len()).sum()
    };
    assert_eq!(
        kept(&meters),
        2,
        "what is metered still, and the one inside it"
    );
    meters.end(ScopeId(1));
    assert_eq!(kept(&meters), 0);
}

#[test]
fn other_scopes_and_earlier_memory_do_not_count() {
    let meters = Meters::default();
    meters.begin(ScopeId(1), Layer::DRIVER);
    meters.took(&record(1, 2, 1, 7));
    meters.gave_back(&record(2, 1, 1, 7), 3);
    meters.took(&record(4, 1, 1, 3));
    assert_eq!(only(meters.end(ScopeId(1))).peak, 3);
}

#[test]
fn a_record_that_is_put_back_is_not_a_new_allocation() {
    let meters = Meters::default();
    meters.begin(ScopeId(1), Layer::DRIVER);
    let record = record(1, 1, 1, 7);
    meters.took(&record);
    meters.gave_back(&record, 2);
    if let Some(mut running) = meters.of(&record) {
        running.gained(&record, 3, false);
    }
    let taken = only(meters.end(ScopeId(1)));
    assert_eq!((taken.made, taken.total, taken.peak), (1, 7, 7));
    assert_eq!(taken.at_peak, [at((1, 1), site(1, 1, 7))]);
    assert_eq!(taken.in_turn, []);
}

#[test]
fn the_first_of_two_equal_peaks_is_the_peak() {
    let meters = Meters::default();
    meters.begin(ScopeId(1), Layer::DRIVER);
    let [first, second] = [record(1, 1, 1, 100), record(3, 1, 1, 100)];
    meters.took(&first);
    meters.gave_back(&first, 2);
    meters.took(&second);
    let read = only(meters.end(ScopeId(1)));
    assert_eq!((read.peak, read.peak_at), (100, 1));
    assert_eq!(read.at_peak, [at((1, 1), site(1, 1, 100))]);
}

#[test]
fn a_buffer_could_serve_only_repeated_allocations_that_have_bytes() {
    let meters = Meters::default();
    meters.begin(ScopeId(1), Layer::DRIVER);
    let mut event = 0;
    let mut in_turn = |stack, bytes, kind, times| {
        for _ in 0..times {
            event += 2;
            let mut record = record(event, 1, stack, bytes);
            record.made.kind = kind;
            meters.took(&record);
            meters.gave_back(&record, event + 1);
        }
    };
    in_turn(1, 100, Kind::Linear, 2);
    in_turn(2, 40, Kind::Linear, 4);
    in_turn(3, 100, Kind::Graph, 2);
    in_turn(4, 0, Kind::Linear, 2);
    in_turn(5, 100, Kind::Linear, 1);
    let read = only(meters.end(ScopeId(1)));
    let in_turn = read.in_turn.iter().map(|it| (it.stack.0, it.count));
    // The allocations whose reuse would save the most come first.
    assert_eq!(in_turn.collect::<Vec<_>>(), [(2, 4), (1, 2)]);
}

#[test]
fn a_log_that_is_full_keeps_the_larger_half() {
    for (more, lost) in [(0, 0), (1, MAX_LIFETIMES / 2 + 1)] {
        let meters = Meters::default();
        meters.begin_log(ScopeId(1), [].iter(), 1);
        for number in 1..=(MAX_LIFETIMES + more) as u64 {
            let short = record(2 * number, 1, 2, 1 + MAX_LIFETIMES as u64 - number / 2);
            meters.took(&short);
            meters.gave_back(&short, 2 * number + 1);
        }
        let read = only(meters.log(ScopeId(1)).0);
        assert_eq!(read.lost, lost as u64);
        assert_eq!(read.lifetimes.len(), MAX_LIFETIMES + more - lost);
    }
}

#[test]
fn handles_are_not_metered() {
    let meters = Meters::default();
    assert!(meters.of(&record(1, 1, 1, 8)).is_none(), "nobody meters");
    meters.begin(ScopeId(1), Layer::DRIVER);
    let mut stream = record(1, 1, 1, 8);
    stream.made.kind = Kind::Stream;
    assert!(meters.of(&stream).is_none());
}

/// Memory that was handed over is still live, although the budget no longer counts it.
#[test]
fn allocations_that_were_handed_over_could_not_have_shared_a_buffer() {
    let meters = Meters::default();
    meters.begin(ScopeId(1), Layer::DRIVER);
    for at in 1..=3 {
        let given = record(2 * at, 1, 1, 10);
        meters.took(&given);
        if let Some(mut running) = meters.of(&given) {
            running.disowned(&given, 2 * at + 1);
        }
    }
    let taken = only(meters.end(ScopeId(1)));
    assert_eq!((taken.made, taken.peak), (3, 10));
    assert_eq!(taken.in_turn, []);
}

/// The page lists what was live after each call, so no record may be in the log twice.
#[test]
fn a_failed_free_does_not_log_its_record_twice() {
    let meters = Meters::default();
    let before = record(1, 9, 1, 1000);
    let new = record(3, 1, 1, 100);
    meters.begin_log(ScopeId(1), [before].iter(), 2);
    meters.took(&new);
    for (failed, at) in [(&before, 4), (&new, 5)] {
        meters.gave_back(failed, at);
        if let Some(mut running) = meters.of(failed) {
            running.gained(failed, at, false);
        }
    }
    meters.took(&record(6, 1, 2, 10));
    let read = only(meters.log(ScopeId(1)).0);
    for (event, live) in [(2, 1000), (3, 1100), (4, 1100), (5, 1100), (6, 1110)] {
        let is_live =
            |life: &&Lifetime| life.allocated <= event && (life.freed == 0 || life.freed > event);
        let listed = read.lifetimes.iter().filter(is_live);
        assert_eq!(listed.map(|life| life.bytes).sum::<u64>(), live, "{event}");
    }
    assert_eq!(
        read.at_peak,
        [
            at((0, 0), site(1, 1, 1000)),
            at((3, 3), site(1, 1, 100)),
            at((6, 6), site(2, 1, 10)),
        ]
    );
}
