//! Thousands of call sites or open scopes are judged in the same way as a few.

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_check::{Scope, gpu_leak_check};

use super::allocators::{Block, take};
use super::{assert_verdict, run};

/// The number of bits that select a path to an allocation. Each of their values selects a different
/// path.
const BITS: u32 = 12;

#[inline(never)]
fn even(bits: u32, path: u32) {
    descend(bits, path);
    std::hint::black_box(path);
}

#[inline(never)]
fn odd(bits: u32, path: u32) {
    descend(bits, path);
    std::hint::black_box(path);
}

#[inline(never)]
fn descend(bits: u32, path: u32) {
    match (bits, path & 1) {
        (0, _) => {
            take(1);
        }
        (_, 0) => even(bits - 1, path >> 1),
        (_, _) => odd(bits - 1, path >> 1),
    }
    std::hint::black_box(bits);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_on_thousands_of_paths() {
    for path in 0..1 << BITS {
        descend(BITS, path);
    }
}

/// An algorithm whose running time is cubic in the number of call sites would take most of an hour
/// for so many.
#[test]
fn thousands_of_call_sites_are_distinguished() {
    let test = "leaks_on_thousands_of_paths";
    let checked = run(&format!("many::{test}"));
    let report = assert_verdict(&checked, test, CheckStatus::Found(FindingKind::Leaked));
    assert_eq!(
        report.findings.len(),
        1 << BITS,
        "{}",
        report.findings.len()
    );
    assert!(report.findings.iter().all(|finding| finding.count == 1));
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[test]
fn has_thousands_of_scopes_open() {
    let open: Vec<_> = (0..10_000).map(|_| Scope::open("request")).collect();
    for (number, scope) in open.into_iter().enumerate() {
        scope.in_scope(|| match number {
            7_777 => {
                take(64);
            }
            _ => drop(Block::new(64)),
        });
        let report = scope.finish();
        let leaks = number == 7_777;
        assert_eq!(report.findings.len(), usize::from(leaks), "{report:#?}");
    }
}

/// With a limit of 4,096 open scopes, the next one would wait forever.
#[test]
fn thousands_of_scopes_are_open_at_once() {
    let test = "has_thousands_of_scopes_open";
    let checked = run(&format!("many::{test}"));
    let report = assert_verdict(&checked, test, CheckStatus::Found(FindingKind::Leaked));
    assert_eq!(report.findings[0].bytes, 64);
}
