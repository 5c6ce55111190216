//! What gives back what it took is never blamed, in a hundred checks one after the other.

mod tiny_model;

use gpu_leak_tests::{checked, gpu};

macro_rules! stays_quiet {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            let checked =
                checked::run(concat!("detects::planted::", stringify!($name), "::stays_quiet"));
            // A hundred nested checks and the one around them.
            assert_eq!(checked.reports.len(), 101, "{}", checked.story());
            checked.assert_clean();
        })*
    };
}

stays_quiet! {
    linear
    stream_ordered_400_bytes
    stream_ordered_1_mib
    pitched
    managed
    pinned
    registered
    a_stream
    an_event
    a_pool
}

/// The pool that it takes from is made once and kept: told once, and nothing is charged to the
/// allocations.
#[test]
fn from_an_explicit_pool() {
    use gpu_leak_check::report::model::Verdict;
    let checked = checked::run("detects::planted::from_an_explicit_pool::stays_quiet");
    assert!(checked.child.status.success(), "{}", checked.story());
    let told = checked
        .reports
        .iter()
        .filter(|report| report.verdict != Verdict::Clean);
    assert!(told.count() <= 1, "{}", checked.story());
}

#[test]
fn a_cublas_handle() {
    // There is no stand-in for cuBLAS.
    if gpu::is_present() {
        let checked = checked::run("detects::planted::a_cublas_handle::stays_quiet");
        assert!(checked.child.status.success(), "{}", checked.story());
    }
}
