//! `allow` and `diff`: known leaks are listed, and only new ones fail.

use std::fs;

use crate::support::{checked, checked_with, command, gpu_leak, told};

#[test]
fn what_is_allowed_passes_and_only_what_is_new_fails() {
    let base = tempfile::tempdir().expect("a folder");
    let config = base.path().join("gpu-leak-check.toml");
    fs::write(&config, "# ours\n").expect("a file");
    let old = checked(base.path(), "old", &["keeps_a_tensor"]);
    let mut write = command();
    write.args(["allow", "--write", "--from"]).arg(&old);
    let written = told(write.env("GPU_LEAK_CHECK_CONFIG", &config));
    assert_eq!(written.code, Some(0), "{written:?}");
    assert!(
        written.stderr.contains("1 entry added, 0 already there"),
        "{written:?}"
    );
    let text = fs::read_to_string(&config).expect("the file");
    assert!(text.starts_with("# ours\n"), "{text}");

    let tests = ["keeps_a_tensor", "keeps_two_tensors"];
    let new = checked_with(base.path(), "new", &tests, Some(&config));
    let report = gpu_leak(["report".as_ref(), new.as_os_str()]);
    assert!(
        report.stdout.contains("2 checked: 1 leaked, 1 allowed"),
        "{report:?}"
    );
    assert_eq!(report.code, Some(1), "{report:?}");

    let again = told(&mut write);
    assert!(
        again.stderr.contains("nothing to add, 1 already there"),
        "{again:?}"
    );
}

#[test]
fn an_entry_that_expired_and_one_that_allows_nothing_are_denied_when_asked() {
    let base = tempfile::tempdir().expect("a folder");
    let config = base.path().join("gpu-leak-check.toml");
    let text = "[[allow]]\nfn = \"*keep*\"\nreason = \"old\"\nuntil = 2020-01-01\n\n\
                [[allow]]\nfn = \"nowhere\"\nreason = \"gone\"\n";
    fs::write(&config, text).expect("a file");
    let run = checked_with(base.path(), "r", &["keeps_a_tensor"], Some(&config));
    let report = |deny: &str| {
        let mut report = command();
        report.arg("report").arg(&run).arg(deny);
        told(report.env("GPU_LEAK_CHECK_CONFIG", &config))
    };
    let expired = report("--deny=expired");
    assert_eq!(expired.code, Some(1), "{expired:?}");
    assert!(
        expired.stderr.contains("expired on 2020-01-01"),
        "{expired:?}"
    );
    let unused = report("--deny=unused");
    assert_eq!(unused.code, Some(1), "{unused:?}");
    assert_eq!(unused.stderr.matches("denied: ").count(), 1, "{unused:?}");
    assert!(
        unused.stderr.contains("allowed nothing in this run (gone)"),
        "{unused:?}"
    );
}

#[test]
fn nothing_is_called_unused_where_checks_did_not_end() {
    let base = tempfile::tempdir().expect("a folder");
    let config = base.path().join("gpu-leak-check.toml");
    fs::write(&config, "[[allow]]\nfn = \"nowhere\"\nreason = \"gone\"\n").expect("a file");
    let tests = ["ends_the_process"];
    let run = checked_with(base.path(), "r", &tests, Some(&config));
    let mut report = command();
    report.arg("report").arg(&run).arg("--deny=unused");
    let told = told(report.env("GPU_LEAK_CHECK_CONFIG", &config));
    assert!(
        !told.stderr.lines().any(|line| line.starts_with("denied: ")),
        "{told:?}"
    );
    assert!(
        told.stderr.contains("note: unused entries are not denied"),
        "{told:?}"
    );
}

#[test]
fn two_runs_differ_by_what_is_new_and_fixed() {
    let base = tempfile::tempdir().expect("a folder");
    let old = checked(base.path(), "old", &["keeps_a_tensor", "gives_back"]);
    let new = checked(base.path(), "new", &["keeps_two_tensors", "gives_back"]);
    let diff = gpu_leak(["diff".as_ref(), old.as_os_str(), new.as_os_str()]);
    assert_eq!(diff.code, Some(1), "{diff:?}");
    assert!(diff.stdout.contains("not measured again: 1"), "{diff:?}");
    let same = gpu_leak(["diff".as_ref(), old.as_os_str(), old.as_os_str()]);
    assert_eq!(same.code, Some(0), "{same:?}");
    assert!(same.stdout.contains("known: 1"), "{same:?}");
}
