//! A program may have any number of allocators and devices.

use gpu_leak_check::observe::Source;
use gpu_leak_check::{Place, gpu_leak_check};
use gpu_leak_tests::child::Run;

/// More than any fixed-size list would hold.
const MANY: u64 = 300;

#[test]
fn each_of_many_allocators_is_reported_by_its_name() {
    let child = Run::of("hooks::many::uses_many_allocators").run();
    for reported in [
        "leaked: hooks::many::uses_many_allocators",
        "allocator:many-0 ",
        "allocator:many-299 ",
        "leaked: 8 B",
    ] {
        assert!(child.stderr.contains(reported), "{child:#?}");
    }
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[test]
fn uses_many_allocators() {
    for number in 0..MANY {
        let name: &'static str = format!("many-{number}").leak();
        let source: &'static Source = Box::leak(Box::new(Source::new(name, &[])));
        source.allocated(Place::HOST, 1, 8);
        if number != MANY - 1 {
            source.freed(1);
        }
    }
}

#[test]
fn each_of_many_devices_is_reported_by_its_name() {
    let child = Run::of("hooks::many::uses_many_devices").run();
    for reported in [
        "on many:299, allocated at",
        "leaked: hooks::many::uses_many_devices",
    ] {
        assert!(child.stderr.contains(reported), "{child:#?}");
    }
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[test]
fn uses_many_devices() {
    static SOURCE: Source = Source::new("many-devices", &[]);
    for number in 0..MANY {
        let place = Place::named(&format!("many:{number}"));
        SOURCE.allocated(place, 1 + number, 8);
        if number != MANY - 1 {
            SOURCE.freed(1 + number);
        }
    }
}
