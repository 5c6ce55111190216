//! Resources that libraries create for a test are found and attributed to the line of the test. The
//! tests in [`kinds`](crate::kinds) cover all resources that a single call creates.

mod planted;

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_tests::{checked, gpu};

/// Returns the number of the line that ends in `// leak: mark`.
fn line_of(mark: &str) -> u32 {
    let ending = format!("// leak: {mark}");
    let line = include_str!("planted.rs")
        .lines()
        .position(|line| line.ends_with(&ending));
    u32::try_from(line.expect("the mark is in planted.rs") + 1).unwrap()
}

/// cuBLAS creates memory, streams and events. All are attributed to the same line of the test.
#[test]
fn a_cublas_handle() {
    if !gpu::is_present() {
        // The stand-in for cuBLAS creates no streams or events.
        return;
    }
    let checked = checked::run("detects::planted::a_cublas_handle::leaks");
    let report = checked.report();
    let output = checked.output();
    assert_eq!(
        report.status,
        CheckStatus::Found(FindingKind::Leaked),
        "{output}"
    );
    for leak in report
        .findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::Leaked)
    {
        let user = &leak.site.frames[leak.site.user.expect("a line of the user's")];
        assert_eq!(user.line, Some(line_of("cublas")), "{output}");
        let library = leak.site.library.as_ref().expect("a library");
        assert_eq!(library.name, "cuBLAS", "{output}");
        assert!(library.known.is_some(), "{output}");
    }
    let linear = report
        .findings
        .iter()
        .filter(|finding| finding.resource == Some(Kind::Linear));
    assert!(
        linear.map(|finding| finding.bytes).sum::<u64>() > 0,
        "{output}"
    );
}
