//! Everything that a program leaves is reported exactly, and nothing that it frees is reported.

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::{Finding, FindingKind};
use gpu_leak_tests::fake::Fake;

use super::{Ran, line_of, ran};

fn findings(ran: &Ran) -> Vec<Finding> {
    let files = ran.files();
    let [file] = &files[..] else {
        panic!("{} files: {:?}", files.len(), ran.reported);
    };
    let [report] = &file.reports[..] else {
        panic!("{file:?} {:?}", ran.reported);
    };
    report.findings.clone()
}

/// With `--peaks`, the memory that was live at the peak is reported line by line, and the lines add
/// up to the peak.
#[test]
fn the_allocations_at_a_program_s_peak_are_reported() {
    let plain = ran(&Fake::new(), &[], "one");
    assert!(
        !plain.reported.stderr.contains("the peak of"),
        "{:?}",
        plain.reported
    );
    let ran = ran(&Fake::new(), &["--peaks"], "one");
    let files = ran.files();
    let report = &files[0].reports[0];
    let [peak] = &report.peaks[..] else {
        panic!("{report:?}");
    };
    let lines = peak.lines.iter().map(|line| line.bytes);
    assert_eq!(
        (peak.layer.as_str(), lines.sum::<u64>()),
        ("driver", peak.bytes)
    );
    let at = format!("program.c:{}", line_of("/* allocated here */"));
    assert!(
        peak.lines.iter().any(|line| line.at.ends_with(&at)),
        "{peak:?}"
    );
    assert!(
        ran.reported.stderr.contains("the peak of"),
        "{:?}",
        ran.reported
    );
}

#[test]
fn a_leak_is_reported_with_its_bytes_its_function_and_its_line() {
    let ran = ran(&Fake::new(), &[], "one");
    assert_eq!(ran.reported.code, Some(1), "{:?}", ran.reported);
    let findings = findings(&ran);
    let [leak] = &findings[..] else {
        panic!("{findings:?}");
    };
    assert_eq!(
        (leak.kind, leak.count, leak.bytes),
        (FindingKind::Leaked, 1, 4096)
    );
    let frame = leak.site.user_frame().expect("a line");
    assert_eq!(frame.function.as_deref(), Some("take"));
    assert!(
        frame
            .file
            .as_deref()
            .is_some_and(|file| file.ends_with("program.c")),
        "{frame:?}"
    );
    assert_eq!(frame.line, Some(line_of("/* allocated here */")));
    let callers: Vec<_> = leak
        .site
        .frames
        .iter()
        .filter_map(|frame| frame.function.as_deref())
        .collect();
    assert_eq!(callers, ["take", "main"], "{leak:?}");
    assert!(
        ran.reported
            .stderr
            .contains("4.00 KiB device memory, linear"),
        "{:?}",
        ran.reported
    );
    // The help does not mention attributes, since the program has none.
    let help = "help: if it is meant to stay: `cargo gpu-leak allow \
                --write --reason \"why it may stay\"` allows the leaks of this run";
    assert!(ran.reported.stderr.contains(help), "{:?}", ran.reported);
    assert!(!ran.reported.stderr.contains("#["), "{:?}", ran.reported);
}

#[test]
fn a_leak_of_each_kind_is_one_finding_of_that_kind() {
    let ran = ran(&Fake::new(), &[], "each");
    let mut kinds: Vec<_> = findings(&ran)
        .iter()
        .map(|finding| (finding.resource.expect("a kind"), finding.count))
        .collect();
    kinds.sort();
    let expected = [
        Kind::Linear,
        Kind::Pitched,
        Kind::Managed,
        Kind::StreamOrdered,
        Kind::GraphHandle,
        Kind::Pinned,
        Kind::Stream,
        Kind::Event,
    ];
    let mut expected: Vec<_> = expected.map(|kind| (kind, 1)).to_vec();
    expected.sort();
    assert_eq!(kinds, expected);
}

#[test]
fn a_program_that_frees_everything_is_clean() {
    let ran = ran(&Fake::new(), &[], "clean");
    assert_eq!(ran.reported.code, Some(0), "{:?}", ran.reported);
    assert!(findings(&ran).is_empty());
    assert!(
        ran.reported.stderr.contains("1 clean"),
        "{:?}",
        ran.reported
    );
}

#[test]
fn memory_freed_by_an_exit_handler_older_than_the_driver_is_not_a_leak() {
    let ran = ran(&Fake::new(), &[], "gives-back-last");
    assert_eq!(ran.reported.code, Some(0), "{:?}", ran.reported);
    assert!(findings(&ran).is_empty());
}

#[test]
fn memory_freed_only_by_a_device_reset_is_a_leak_that_says_so() {
    let ran = ran(&Fake::new(), &[], "resets");
    assert_eq!(ran.reported.code, Some(1), "{:?}", ran.reported);
    let findings = findings(&ran);
    assert_eq!(findings.len(), 1, "{findings:?}");
    let ended = findings[0].ended.as_ref().expect("its context has ended");
    assert_eq!(ended.how, "freed only because the device was reset");
    let line = line_of("CALL(cuDevicePrimaryCtxReset_v2");
    let at = format!("main (cli/tests/exec/program.c:{line})");
    assert_eq!(ended.at, Some(at));
}

#[test]
fn memory_kept_by_a_library_is_named_and_fails_nothing() {
    let ran = ran(&Fake::new().with_cublas(), &[], "cublas");
    assert_eq!(ran.reported.code, Some(0), "{:?}", ran.reported);
    let findings = findings(&ran);
    let [kept] = &findings[..] else {
        panic!("{findings:?}");
    };
    assert_eq!((kept.kind, kept.bytes), (FindingKind::Allowed, 64 << 20));
    let library = kept.site.library.as_ref().expect("a library");
    assert_eq!(
        (&*library.name, library.function.as_deref()),
        ("cuBLAS", Some("cublasCreate_v2"))
    );
}

#[test]
fn memory_that_rises_at_every_snapshot_has_grown() {
    let ran = ran(&Fake::new(), &["--every", "0.1"], "grows");
    assert_eq!(ran.reported.code, Some(1), "{:?}", ran.reported);
    let findings = findings(&ran);
    let [grown] = &findings[..] else {
        panic!("{findings:?}");
    };
    assert_eq!(grown.kind, FindingKind::Grew, "{grown:?}");
    assert_eq!(grown.rounds.len(), 5);
    assert!(
        grown
            .rounds
            .is_sorted_by(|before, after| before.bytes < after.bytes)
    );
}

#[test]
fn a_broken_context_is_one_finding_that_begins_with_the_first_call_it_refused() {
    for what in ["breaks", "breaks-and-resets"] {
        let ran = ran(&Fake::new(), &[], what);
        assert_eq!(ran.reported.code, Some(1), "{:?}", ran.reported);
        let findings = findings(&ran);
        let [broken] = &findings[..] else {
            panic!("{what}: {findings:?}");
        };
        assert_eq!(
            (broken.kind, broken.count, broken.bytes),
            (FindingKind::FailedFree, 3, 4096 + 8192)
        );
        let first = broken.failed.as_ref().expect("the call");
        assert_eq!(first.code, 700);
        let frame = first.site.user_frame().expect("its line");
        assert_eq!(frame.line, Some(line_of("/* refused first */")));
        for said in [
            "failed-free: 3 objects, 12.0 KiB",
            "3 frees failed in all",
            "compute-sanitizer",
        ] {
            let (out, err) = (&ran.reported.stdout, &ran.reported.stderr);
            assert!(
                out.contains(said) || err.contains(said),
                "{said}: {:?}",
                ran.reported
            );
        }
    }
}
