//! The stack of an allocation in a user's program points to the user's line.

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::Owner;
use gpu_leak_check::report::site;

use super::library;

/// The part of the path by which the allocator in [`library`] declares its own file.
const LIBRARY: &[&str] = &["output/library.rs"];

#[inline(always)]
fn always_inlined() -> (Vec<usize>, u32) {
    (library::take(), line!())
}

#[test]
fn the_line_is_the_one_that_called_the_library() {
    let (raw, line) = (library::take(), line!());
    let site = site(&raw, Kind::Linear, LIBRARY);
    assert_eq!(
        site.location(),
        format!("tests/output/stacks.rs:{line}"),
        "{site:#?}"
    );
}

#[test]
fn an_inlined_function_has_its_own_frame() {
    let (raw, line) = always_inlined();
    let site = site(&raw, Kind::Linear, LIBRARY);
    assert_eq!(
        site.location(),
        format!("tests/output/stacks.rs:{line}"),
        "{site:#?}"
    );
}

#[test]
fn a_layers_own_sources_are_a_dependency_of_its_users() {
    let raw = library::take();
    let owner = |own_sources| site(&raw, Kind::Linear, own_sources).frames[0].owner;
    assert_eq!(owner(&[]), Owner::User);
    assert_eq!(owner(LIBRARY), Owner::Dependency);
}

#[test]
fn the_stack_ends_where_the_test_begins() {
    let raw = std::thread::spawn(library::take).join().unwrap();
    let of_a_thread = site(&raw, Kind::Linear, LIBRARY);
    assert_eq!(of_a_thread.frames.len(), 1, "{of_a_thread:#?}");

    let of_a_test = site(&library::take(), Kind::Linear, LIBRARY);
    let outermost = of_a_test.frames.last().unwrap();
    assert_eq!(outermost.owner, Owner::User, "{of_a_test:#?}");
    assert_eq!(outermost.file.as_deref(), Some("tests/output/stacks.rs"));
}

#[test]
fn the_same_place_has_the_same_fingerprint() {
    let [first, second] = [(); 2].map(|()| site(&library::take(), Kind::Linear, LIBRARY));
    assert_eq!(first.fingerprint, second.fingerprint);
    let of_an_event = site(&library::take(), Kind::Event, LIBRARY);
    assert_ne!(first.fingerprint, of_an_event.fingerprint);
}
