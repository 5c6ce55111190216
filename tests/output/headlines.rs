//! The single line that a CI page or a terminal shows first.

use gpu_leak_check::ledger::{Kind, Place};
use gpu_leak_check::report::check_report::{
    CheckStatus, FailedFree, Finding, FindingKind, Reason, Report, Site,
};
use gpu_leak_check::report::{Code, headline};

use super::sample::{self, KIB, MIB, finding, leak, report};

fn of(findings: Vec<Finding>) -> String {
    headline(&Report {
        status: CheckStatus::Found(findings[0].kind),
        findings,
        ..report(CheckStatus::Clean)
    })
}

fn elsewhere(line: u32) -> Site {
    Site {
        frames: vec![sample::frame("train::epoch", "src/train.rs", line, 9)],
        user: Some(0),
        ..sample::site()
    }
}

#[test]
fn one_place_is_named_with_its_line() {
    assert_eq!(
        of(vec![leak(Kind::StreamOrdered, 2, 512 * KIB)]),
        "gpu leak: 2 allocations, 1.00 MiB on cuda:0, allocated at src/optim.rs:8",
    );
    assert_eq!(
        of(vec![leak(Kind::Linear, 1, 1)]),
        "gpu leak: 1 allocation, 1 B on cuda:0, allocated at src/optim.rs:8",
    );
    assert_eq!(
        of(vec![leak(Kind::Stream, 1, 0)]),
        "gpu leak: 1 stream on cuda:0, created at src/optim.rs:8",
    );
}

#[test]
fn several_are_summed_up_by_device_and_kind() {
    let line = of(vec![
        leak(Kind::Linear, 2, MIB),
        Finding {
            site: elsewhere(4),
            ..leak(Kind::Managed, 1, 4 * KIB)
        },
        Finding {
            place: Place::cuda(1),
            site: elsewhere(5),
            ..leak(Kind::Linear, 1, 400)
        },
        leak(Kind::Event, 3, 0),
        // The report contains this finding, but the verdict does not depend on it.
        finding(FindingKind::FirstUse, Kind::Module, 1, 0),
    ]);
    assert_eq!(
        line,
        "gpu leak: 3 allocations, 2.00 MiB (2,101,248 B) on cuda:0, 1 allocation, 400 B on cuda:1 \
         and 3 events on cuda:0, allocated at src/optim.rs:8 and 2 other places",
    );
}

#[test]
fn a_refused_free_names_the_error_and_the_call() {
    let refused = Finding {
        failed: Some(FailedFree {
            error: "CUDA_ERROR_INVALID_VALUE".to_owned(),
            code: 1,
            site: elsewhere(9),
        }),
        ..finding(FindingKind::FailedFree, Kind::Linear, 1, MIB)
    };
    assert_eq!(
        of(vec![refused]),
        "gpu free failed: 1 free returned CUDA_ERROR_INVALID_VALUE (1) at src/train.rs:9",
    );
}

#[test]
fn a_reserve_has_a_size_and_a_device() {
    let retained = Finding {
        resource: None,
        bytes: 32 * MIB,
        ..finding(FindingKind::Retained, Kind::Block, 1, 0)
    };
    assert_eq!(
        of(vec![retained]),
        "gpu memory retained: 32.0 MiB reserved on cuda:0"
    );
}

#[test]
fn a_headline_of_no_failure_does_not_speak_of_a_leak() {
    assert_eq!(
        of(vec![finding(FindingKind::FirstUse, Kind::Linear, 1, 512)]),
        "gpu leak check: first-use: 1 allocation, 512 B on cuda:0, allocated at src/optim.rs:8",
    );
    let reason = Reason::new(
        Code::NoGpu,
        "there is no CUDA driver in this process",
        "get one",
    );
    let report = Report {
        reason: Some(reason),
        ..report(CheckStatus::NotMeasured)
    };
    assert_eq!(
        headline(&report),
        "gpu leak check: not-measured (no GPU): there is no CUDA driver in this process",
    );
}
