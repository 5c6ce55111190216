use super::Summary;
use crate::ledger::{Amount, Layer, Place};
use crate::report::check_report::{
    CheckStatus, Code, Finding, FindingKind, Frame, Reason, Report, Site,
};

fn without(code: Code, remedy: &str) -> Report {
    Report {
        reason: Some(Reason::new(code, "something is missing", remedy)),
        ..Report::bare(CheckStatus::NotMeasured)
    }
}

fn summary(reports: impl IntoIterator<Item = Report>) -> Summary {
    let mut summary = Summary::default();
    for report in reports {
        summary.add(&report);
    }
    summary
}

#[test]
fn a_summary_without_checks_and_notes_has_no_line() {
    assert_eq!(Summary::default().text(), None);
}

#[test]
fn statuses_are_counted_clean_first_and_then_worst_first() {
    let statuses = [
        CheckStatus::Found(FindingKind::FirstUse),
        CheckStatus::Clean,
        CheckStatus::Found(FindingKind::Leaked),
        CheckStatus::Clean,
    ];
    assert_eq!(
        summary(statuses.map(Report::bare)).text().unwrap(),
        "gpu-leak-check: 4 checked: 2 clean, 1 leaked, 1 first-use\n  leaked: a",
    );
}

#[test]
fn tests_with_findings_and_those_without_an_end_are_named() {
    let test = |status, name: &str| Report {
        test: name.to_owned(),
        ..Report::bare(status)
    };
    let mut summary = summary([
        test(CheckStatus::Found(FindingKind::Retained), "c"),
        test(CheckStatus::Found(FindingKind::Leaked), "a\x1b"),
        test(CheckStatus::Found(FindingKind::Leaked), "b"),
        test(CheckStatus::Clean, "d"),
    ]);
    summary.add_aborted("e");
    assert_eq!(
        summary.text().unwrap(),
        "gpu-leak-check: 5 checked: 1 clean, 2 leaked, 1 retained, 1 aborted\n  \
         leaked: a\\u{1b}, b\n  \
         retained: c\n  \
         aborted: e",
    );
}

/// The summary names the finding, because the report of a test that passes is shown only with
/// `--show-output`.
#[test]
fn a_first_use_is_named_with_its_test_and_its_line() {
    let kept = |kind| {
        let frame = Frame {
            file: Some("src/table.rs".into()),
            line: Some(12),
            ..Frame::default()
        };
        let site = Site {
            frames: vec![frame],
            user: Some(0),
            ..Site::default()
        };
        let finding = Finding::new(kind, Layer::DRIVER, Place::cuda(0), site);
        Report {
            test: "looks_up".to_owned(),
            findings: vec![finding],
            ..Report::bare(CheckStatus::Found(kind))
        }
    };
    assert_eq!(
        summary([kept(FindingKind::FirstUse)]).text().unwrap(),
        "gpu-leak-check: 1 checked: 1 first-use\n  first-use: looks_up at src/table.rs:12",
    );
    let allowed = summary([kept(FindingKind::Allowed)]).text().unwrap();
    assert!(!allowed.contains("looks_up"), "{allowed}");
}

/// The allocations most likely belong to the unchecked test, so no scope has to take them over.
#[test]
fn a_scope_is_advised_beside_unchecked_tests_only_for_threads_of_a_check() {
    let mut summary = summary([Report::bare(CheckStatus::Clean)]);
    summary.add_unowned(Amount {
        count: 14,
        bytes: 1024,
    });
    let alone = summary.text().unwrap();
    assert!(
        alone.contains("use `Scope` to assign their allocations to a test"),
        "{alone}"
    );
    summary.add_unchecked("tests::is_not_checked");
    let beside = summary.text().unwrap();
    assert!(
        beside.contains("if these threads work for the checked test, use `Scope`"),
        "{beside}"
    );
    assert!(
        beside.contains("unchecked: tests::is_not_checked created resources outside any check"),
        "{beside}"
    );
}

#[test]
fn many_tests_of_a_status_are_named_up_to_a_number() {
    let leak = |number: usize| Report {
        test: format!("t{number}"),
        ..Report::bare(CheckStatus::Found(FindingKind::Leaked))
    };
    let text = summary((0..25).map(leak)).text().unwrap();
    assert!(text.ends_with("t18, t19 and 5 more"), "{text}");
}

#[test]
fn a_check_that_was_not_measured_is_never_counted_as_checked() {
    let mut reports = vec![Report::bare(CheckStatus::Clean)];
    reports.extend((0..2).map(|_| without(Code::NoGpu, "use a machine with a GPU")));
    reports.push(without(Code::UnheardFunction, "update it"));
    assert_eq!(
        summary(reports).text().unwrap(),
        "gpu-leak-check: 1 checked: 1 clean; 3 not measured (no GPU, unheard function)\n  \
         no GPU: something is missing; use a machine with a GPU\n  \
         unheard function: something is missing; update it",
    );
    assert_eq!(
        summary([without(Code::NoGpu, "use another")])
            .text()
            .unwrap(),
        "gpu-leak-check: nothing checked; 1 not measured (no GPU)\n  no GPU: something is missing; use another",
    );
}

#[test]
fn one_kind_of_reason_is_named_once_and_each_reason_is_shown() {
    let poisoned = |what: &str| Report {
        reason: Some(Reason::new(Code::Poisoned, what, "mend it")),
        ..Report::bare(CheckStatus::Inconclusive)
    };
    assert_eq!(
        summary(["by a", "by b", "by a"].map(poisoned))
            .text()
            .unwrap(),
        "gpu-leak-check: 3 checked: 3 inconclusive (poisoned)\n  \
         inconclusive: a\n  \
         poisoned: by a; mend it\n  \
         poisoned: by b; mend it",
    );
}

#[test]
fn notes_are_shown_once_and_counted() {
    let noted = || Report {
        notes: vec!["context 2 was retained once too often".to_owned()],
        ..Report::bare(CheckStatus::Clean)
    };
    let mut summary = summary([noted(), noted()]);
    summary.note("results are not kept\x1b");
    assert_eq!(
        summary.text().unwrap(),
        "gpu-leak-check: 2 checked: 2 clean\n  \
         context 2 was retained once too often (2 times)\n  \
         results are not kept\\u{1b}",
    );
}

/// The line is not about a single check, so it contains no count, and it is shown even if a check
/// fails.
#[test]
fn the_configuration_file_is_named_once() {
    let configured = |status| Report {
        configured_by: Some("gpu-leak-check.toml".to_owned()),
        ..Report::bare(status)
    };
    let statuses = [
        CheckStatus::Clean,
        CheckStatus::Clean,
        CheckStatus::Found(FindingKind::Leaked),
    ];
    let mut both = summary(statuses.map(configured));
    both.merge(&summary([configured(CheckStatus::Clean)]));
    assert_eq!(
        both.text().unwrap(),
        "gpu-leak-check: 4 checked: 3 clean, 1 leaked\n  leaked: a\n  \
         configured by gpu-leak-check.toml",
    );
}

#[test]
fn memory_without_an_owner_is_summed_up() {
    let mut summary = summary([Report::bare(CheckStatus::Clean)]);
    summary.add_unowned(Amount {
        count: 2,
        bytes: 1 << 19,
    });
    summary.add_unowned(Amount {
        count: 1,
        bytes: 1 << 19,
    });
    assert_eq!(
        summary.text().unwrap(),
        "gpu-leak-check: 1 checked: 1 clean\n  3 allocations, 1.00 MiB by threads outside any \
         check: use `Scope` to assign their allocations to a test, or `isolate` to run the test in \
         its own process",
    );
}
