//! An allocator that reports none of its blocks: its probe's figures are all there is to judge.

use std::sync::atomic::{AtomicU64, Ordering};

use gpu_leak_check::ledger::{Kind, Layer};
use gpu_leak_check::probe::{Probe, Segment};
use gpu_leak_check::report::model::Verdict;
use gpu_leak_check::{Place, gpu_leak_check};
use gpu_leak_tests::checked;

/// It keeps count and never holds more than it has handed out.
static HANDED_OUT: AtomicU64 = AtomicU64::new(0);

struct Silent;

static PROBE: Silent = Silent;
gpu_leak_check::probe!(&PROBE);

impl Probe for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    fn places(&self) -> Vec<Place> {
        vec![Place::named("silent:0")]
    }

    fn allocated(&self, _: Place) -> u64 {
        HANDED_OUT.load(Ordering::Relaxed)
    }

    fn reserved(&self, place: Place) -> u64 {
        self.allocated(place)
    }

    fn segments(&self, _: Place) -> Vec<Segment> {
        Vec::new()
    }

    fn empty_cache(&self, _: Place) {}
}

fn take(bytes: u64) {
    HANDED_OUT.fetch_add(bytes, Ordering::Relaxed);
}

fn give_back(bytes: u64) {
    HANDED_OUT.fetch_sub(bytes, Ordering::Relaxed);
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn keeps_a_block() {
    take(4096);
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn keeps_a_block_of_its_first_run() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| take(4096));
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn gives_back_what_it_takes() {
    take(4096);
    give_back(4096);
}

#[test]
fn more_than_before_is_a_leak_of_its_layer() {
    let checked = checked::run("keeps_a_block");
    let (report, story) = (checked.report(), checked.story());
    assert!(!checked.child.status.success(), "{story}");
    // The reserve that the block keeps is no finding beside it.
    let [leak] = &report.findings[..] else {
        panic!("{} findings\n{story}", report.findings.len());
    };
    assert_eq!(leak.verdict, Verdict::Leaked, "{story}");
    assert_eq!(
        (leak.kind, leak.bytes),
        (Some(Kind::Block), 4096),
        "{story}"
    );
    assert_eq!(leak.layer, Layer::allocator("silent"), "{story}");
    let again = leak.confirmed.expect("the second run confirms it");
    assert_eq!(again.bytes, 4096, "{story}");
}

#[test]
fn what_only_the_first_run_kept_is_first_use() {
    let checked = checked::run("keeps_a_block_of_its_first_run");
    assert!(checked.child.status.success(), "{}", checked.story());
    assert_eq!(checked.report().verdict, Verdict::FirstUse);
}

#[test]
fn as_much_as_before_is_clean() {
    checked::run("gives_back_what_it_takes").assert_clean();
}
