use super::Summary;
use crate::report::model::{Reason, Report, Verdict};

fn without(code: &str, remedy: &str) -> Report {
    Report {
        reason: Some(Reason {
            code: code.to_owned(),
            what: "something is missing".to_owned(),
            remedy: remedy.to_owned(),
        }),
        ..Report::bare(Verdict::NotMeasured)
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
fn no_checks_and_no_notes_are_no_line() {
    assert_eq!(Summary::default().text(), None);
}

#[test]
fn verdicts_are_counted_the_usual_first_then_the_worst() {
    let verdicts = [
        Verdict::FirstUse,
        Verdict::Clean,
        Verdict::Leaked,
        Verdict::Clean,
    ];
    assert_eq!(
        summary(verdicts.map(Report::bare)).text().unwrap(),
        "gpu-leak-check: 4 checked: 2 clean, 1 leaked, 1 first-use\n  leaked: a",
    );
}

#[test]
fn tests_with_findings_and_those_without_an_end_are_named() {
    let test = |verdict, name: &str| Report {
        test: name.to_owned(),
        ..Report::bare(verdict)
    };
    let mut summary = summary([
        test(Verdict::Retained, "c"),
        test(Verdict::Leaked, "a\x1b"),
        test(Verdict::Leaked, "b"),
        test(Verdict::Clean, "d"),
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

#[test]
fn many_tests_of_a_verdict_are_named_up_to_a_number() {
    let leak = |number: usize| Report {
        test: format!("t{number}"),
        ..Report::bare(Verdict::Leaked)
    };
    let text = summary((0..25).map(leak)).text().unwrap();
    assert!(text.ends_with("t18, t19 and 5 more"), "{text}");
}

#[test]
fn what_was_not_measured_is_never_counted_as_checked() {
    let mut reports = vec![Report::bare(Verdict::Clean)];
    reports.extend((0..2).map(|_| without("no-gpu", "use a machine with a GPU")));
    reports.push(without("unheard-function", "update it"));
    assert_eq!(
        summary(reports).text().unwrap(),
        "gpu-leak-check: 1 checked: 1 clean; 3 not measured (no GPU, unheard function)\n  \
         no GPU: something is missing; use a machine with a GPU\n  \
         unheard function: something is missing; update it",
    );
    assert_eq!(
        summary([without("no-gpu", "use another")]).text().unwrap(),
        "gpu-leak-check: nothing checked; 1 not measured (no GPU)\n  no GPU: something is missing; use another",
    );
}

#[test]
fn one_sort_of_reason_is_named_once_and_each_reason_told() {
    let poisoned = |what: &str| Report {
        reason: Some(Reason {
            code: "poisoned".to_owned(),
            what: what.to_owned(),
            remedy: "mend it".to_owned(),
        }),
        ..Report::bare(Verdict::Inconclusive)
    };
    assert_eq!(
        summary(["by a", "by b", "by a"].map(poisoned))
            .text()
            .unwrap(),
        "gpu-leak-check: 3 checked: 3 inconclusive (poisoned)\n  \
         poisoned: by a; mend it\n  \
         poisoned: by b; mend it",
    );
}

#[test]
fn notes_are_told_once_and_counted() {
    let noted = || Report {
        notes: vec!["context 2 was retained once too often".to_owned()],
        ..Report::bare(Verdict::Clean)
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

#[test]
fn what_nobody_owns_is_summed_up() {
    let mut summary = summary([Report::bare(Verdict::Clean)]);
    summary.add_unowned(2, 1 << 19);
    summary.add_unowned(1, 1 << 19);
    assert_eq!(
        summary.text().unwrap(),
        "gpu-leak-check: 1 checked: 1 clean\n  \
         3 allocations, 1.00 MiB by threads outside every check: `Scope` takes a test \
         along to them, `isolate` gives it a process of its own",
    );
}
