//! A program with two versions of `gpu-leak-hooks`. The harness depends on one of them.

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::FindingKind;
use gpu_leak_hooks_again::{Place, PlacedSource, Source, allow, hand_over};

use super::{assert_allowed, found, run};

const PLACE: Place = Place::named("again:0");

static SOURCE: Source = Source::new("again", &[]);
static PLACED: PlacedSource = PlacedSource::new("again-placed", &[]);

#[test]
fn reports_through_the_other_version_are_heard() {
    let checked = run("versions::reports_through_another_version");
    let expected = [(FindingKind::Leaked, 80)];
    assert_eq!(found(checked.report()), expected, "{}", checked.output());
    assert!(
        checked.child.stderr.contains("on again:0"),
        "{}",
        checked.output()
    );
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[test]
fn reports_through_another_version() {
    SOURCE.allocated(PLACE, 1 << 32, 20);
    SOURCE.freed(1 << 32);
    PLACED.allocated(PLACE, 1 << 33, 40);
    PLACED.freed(PLACE, 1 << 33);
    SOURCE.allocated(PLACE, 1 << 34, 80);
}

#[test]
fn declarations_through_the_other_version_count() {
    assert_allowed(&run("versions::keeps_and_hands_over"), &[10]);
}

#[gpu_leak_check(confirm = false)]
#[ignore = "run in a process of its own"]
#[test]
fn keeps_and_hands_over() {
    allow("a table", || SOURCE.allocated(PLACE, 1 << 35, 10));
    SOURCE.allocated(PLACE, 1 << 36, 20);
    hand_over(1 << 36);
}
