//! More allocators and devices than can be told apart.

use gpu_leak_check::observe::Source;
use gpu_leak_check::{Place, gpu_leak_check};
use gpu_leak_tests::child::{Child, Run};

/// As many as can be told apart, and two more.
static SOURCES: [Source; 17] = [
    Source::new("many-1", &[]),
    Source::new("many-2", &[]),
    Source::new("many-3", &[]),
    Source::new("many-4", &[]),
    Source::new("many-5", &[]),
    Source::new("many-6", &[]),
    Source::new("many-7", &[]),
    Source::new("many-8", &[]),
    Source::new("many-9", &[]),
    Source::new("many-10", &[]),
    Source::new("many-11", &[]),
    Source::new("many-12", &[]),
    Source::new("many-13", &[]),
    Source::new("many-14", &[]),
    Source::new("many-15", &[]),
    Source::new("many-16", &[]),
    Source::new("many-17", &[]),
];

fn all_report() {
    for source in &SOURCES {
        source.allocated(Place::HOST, 1, 8);
        source.freed(1);
    }
}

/// Looks at what is printed: a process that reads reports has the same limits.
fn run(test: &str) -> Child {
    Run::of(&format!("hooks::many::{test}")).run()
}

#[test]
fn allocators_beyond_the_limit_are_not_counted_and_the_check_says_so() {
    let child = run("uses_all");
    for told in [
        "inconclusive",
        "more than 15 allocators report to this process",
        "by one name",
    ] {
        assert!(child.stderr.contains(told), "{child:#?}");
    }
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn uses_all() {
    all_report();
}

#[test]
fn what_the_others_leave_is_found_all_the_same() {
    let child = run("uses_all_and_leaves_a_block");
    for told in [
        "leaked: hooks::many::uses_all_and_leaves_a_block",
        "leaked: 16 B",
        "and later ones hand out is not counted",
    ] {
        assert!(child.stderr.contains(told), "{child:#?}");
    }
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[test]
fn uses_all_and_leaves_a_block() {
    SOURCES[0].allocated(Place::HOST, 2, 16);
    all_report();
}

#[test]
fn a_leak_on_a_device_beyond_the_limit_is_found_on_an_unknown_one() {
    let child = run("uses_many_devices");
    for told in [
        "on unknown device, taken at",
        "leaked: hooks::many::uses_many_devices",
    ] {
        assert!(child.stderr.contains(told), "{child:#?}");
    }
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[test]
fn uses_many_devices() {
    for number in 0..40 {
        let place = Place::named(&format!("many:{number}"));
        SOURCES[0].allocated(place, 1 + number, 8);
        if number != 39 {
            SOURCES[0].freed(1 + number);
        }
    }
}
