//! Tests of `allow` and `diff`: known leaks are listed, and only new ones fail.

use std::fs;
use std::path::Path;

use crate::support::{call, checked, checked_in, checked_with, command, gpu_leak};

#[test]
fn allowed_leaks_pass_and_only_new_ones_fail() {
    let base = tempfile::tempdir().expect("a directory");
    let config = base.path().join("gpu-leak-check.toml");
    fs::write(&config, "# ours\n").expect("a file");
    let old = checked(base.path(), "old", &["keeps_a_tensor"]);
    let mut write = command();
    write.args(["allow", "--write", "--reason", "known before", "--from"]);
    write.arg(&old);
    let written = call(write.env("GPU_LEAK_CHECK_CONFIG", &config));
    assert_eq!(written.code, Some(0), "{written:?}");
    assert!(
        written
            .stderr
            .contains("gpu-leak-check.toml: 1 entry added"),
        "{written:?}"
    );
    let text = fs::read_to_string(&config).expect("the file");
    assert!(text.starts_with("# ours\n"), "{text}");
    assert!(written.stdout.contains("+ up_to = 1024\n"), "{written:?}");
    assert!(!written.stdout.contains("# ours"), "{written:?}");

    let tests = ["keeps_a_tensor", "keeps_two_tensors"];
    let new = checked_with(base.path(), "new", &tests, Some(&config));
    let report = gpu_leak(["report".as_ref(), new.as_os_str()]);
    assert!(
        report.stdout.contains("2 checked: 1 leaked, 1 allowed"),
        "{report:?}"
    );
    assert_eq!(report.code, Some(1), "{report:?}");

    let mut again = command();
    again.args(["allow", "--write", "--reason", "known before", "--from"]);
    again.arg(checked_with(
        base.path(),
        "again",
        &["keeps_a_tensor"],
        Some(&config),
    ));
    let again = call(again.env("GPU_LEAK_CHECK_CONFIG", &config));
    assert!(again.stderr.contains("nothing to add"), "{again:?}");
}

/// The bounds apply to one test. A larger leak in the same test fails, and so does the same leak in
/// another test.
#[test]
fn more_than_an_entry_allows_fails() {
    let base = tempfile::tempdir().expect("a directory");
    let config = base.path().join("gpu-leak-check.toml");
    let run = |name: &str, many: &str, tests: &[&str]| {
        let config = config.is_file().then_some(&*config);
        checked_in(base.path(), name, tests, config, &[("PLANTED", many)])
    };
    let known = run("known", "1", &["keeps_the_given_count"]);
    let allow = |from: &Path, words: &[&str]| {
        let mut allow = command();
        allow.arg("allow").args(words).arg("--from").arg(from);
        call(allow.env("GPU_LEAK_CHECK_CONFIG", &config))
    };
    let without = allow(&known, &["--write"]);
    assert_eq!(without.code, Some(2), "{without:?}");
    let placeholder = allow(&known, &["--write", "--reason", "…"]);
    assert_eq!(placeholder.code, Some(2), "{placeholder:?}");
    let written = allow(&known, &["--write", "--reason", "known before"]);
    assert_eq!(written.code, Some(0), "{written:?}");

    let code = |run: &Path| gpu_leak(["report".as_ref(), run.as_os_str()]).code;
    assert_eq!(code(&run("same", "1", &["keeps_the_given_count"])), Some(0));
    let doubled = run("doubled", "2", &["keeps_the_given_count"]);
    assert_eq!(code(&doubled), Some(1));
    let both = ["keeps_the_given_count", "keeps_a_tensor"];
    assert_eq!(code(&run("another", "1", &both)), Some(1));

    // The lines to change are printed. A second entry is not printed, because it would never take
    // effect.
    let shown = allow(&doubled, &[]);
    assert_eq!(shown.stdout, "", "{shown:?}");
    for change in [
        "gpu-leak-check.toml:6: replace `up_to = 1024` with `up_to = 2048`\n",
        "gpu-leak-check.toml:7: replace `up_to_count = 1` with `up_to_count = 2`\n",
    ] {
        assert!(shown.stderr.contains(change), "{shown:?}");
    }
    // The entry keeps its reason, so no other reason is needed.
    let raised = allow(&doubled, &["--write"]);
    assert_eq!(raised.code, Some(0), "{raised:?}");
    let text = fs::read_to_string(&config).expect("the file");
    assert_eq!(text.matches("[[allow]]").count(), 1, "{text}");
    assert!(text.contains("reason = \"known before\""), "{text}");
    assert!(
        raised
            .stdout
            .contains("- up_to_count = 1\n+ up_to = 2048\n+ up_to_count = 2\n"),
        "{raised:?}"
    );
    assert!(
        raised
            .stdout
            .contains("+ # leaked: 2 allocations, 2.00 KiB\n"),
        "{raised:?}"
    );
    assert_eq!(
        code(&run("raised", "2", &["keeps_the_given_count"])),
        Some(0)
    );
}

/// With an entry, the block would no longer fail, which its test expects.
#[test]
fn a_failure_that_a_test_catches_gets_no_entry() {
    let base = tempfile::tempdir().expect("a directory");
    let run = checked(base.path(), "r", &["catches_a_block_that_fails"]);
    let mut allow = command();
    allow.args(["allow", "--from"]).arg(&run);
    let config = base.path().join("gpu-leak-check.toml");
    let allowed = call(allow.env("GPU_LEAK_CHECK_CONFIG", &config));
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    assert_eq!(allowed.stdout, "", "{allowed:?}");
}

/// The limits of the entry that decided are raised, no matter how the entry matches and how its
/// size is written.
#[test]
fn the_bounds_of_a_handwritten_entry_are_raised_too() {
    let base = tempfile::tempdir().expect("a directory");
    let config = base.path().join("gpu-leak-check.toml");
    let text = "[[allow]]\nfn = \"*keep*\"\nup_to = \"1 KiB\"   # ours\nreason = \"mine\"\n";
    fs::write(&config, text).expect("a file");
    let tests = ["keeps_the_given_count"];
    let run = |name: &str| {
        let many = [("PLANTED", "2")];
        checked_in(base.path(), name, &tests, Some(&config), &many)
    };
    let old = run("old");
    assert_eq!(gpu_leak(["report".as_ref(), old.as_os_str()]).code, Some(1));
    let mut write = command();
    write.args(["allow", "--write", "--from"]).arg(&old);
    let written = call(write.env("GPU_LEAK_CHECK_CONFIG", &config));
    assert_eq!(written.code, Some(0), "{written:?}");
    let new = run("new");
    assert_eq!(gpu_leak(["report".as_ref(), new.as_os_str()]).code, Some(0));
    let text = fs::read_to_string(&config).expect("the file");
    assert!(text.contains("up_to = 2048"), "{text}");
    assert_eq!(text.matches("[[allow]]").count(), 1, "{text}");

    let text = "allow = [{ fn = \"*keep*\", up_to = \"1 KiB\", reason = \"mine\" }]\n";
    fs::write(&config, text).expect("a file");
    let refused = call(&mut write);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("[[allow]] tables"), "{refused:?}");
}

/// The file may have changed since the run: the limits are raised in the entry that decides about
/// the leak now, not in the entry at the line that the run recorded.
#[test]
fn no_entry_at_the_line_of_another_one_is_raised() {
    let base = tempfile::tempdir().expect("a directory");
    let config = base.path().join("gpu-leak-check.toml");
    let entry = |function: &str| {
        format!("[[allow]]\nfn = \"{function}\"\nup_to_count = 1\nreason = \"known before\"\n\n")
    };
    fs::write(&config, entry("*keep*")).expect("a file");
    let tests = ["keeps_the_given_count"];
    let many = [("PLANTED", "2")];
    let run = checked_in(base.path(), "run", &tests, Some(&config), &many);
    let allow = |text: &str| {
        fs::write(&config, text).expect("a file");
        let mut write = command();
        write.args(["allow", "--write", "--from"]).arg(&run);
        let written = call(write.env("GPU_LEAK_CHECK_CONFIG", &config));
        assert_eq!(written.code, Some(0), "{written:?}");
        (fs::read_to_string(&config).expect("the file"), written)
    };
    let (other, own) = (entry("critical_path"), entry("*keep*"));
    let (text, _) = allow(&format!("{other}{own}"));
    let raised = own.replace("up_to_count = 1", "up_to_count = 2");
    assert_eq!(text, format!("{other}{raised}"));
    let (text, noted) = allow(&other);
    assert_eq!(text, other);
    assert!(
        noted
            .stderr
            .contains("no entry in the file matches them now"),
        "{noted:?}"
    );
}

/// The rest of the file is kept, and so are its line ends and its byte order mark.
#[test]
fn a_file_with_carriage_returns_and_a_mark_keeps_them() {
    let base = tempfile::tempdir().expect("a directory");
    let config = base.path().join("gpu-leak-check.toml");
    fs::write(&config, "\u{feff}[run]\r\nmode = \"auto\"\r\n").expect("a file");
    let run = checked_with(base.path(), "run", &["keeps_a_tensor"], Some(&config));
    let mut write = command();
    write.args(["allow", "--write", "--reason", "known before", "--from"]);
    write.arg(&run);
    let written = call(write.env("GPU_LEAK_CHECK_CONFIG", &config));
    assert_eq!(written.code, Some(0), "{written:?}");
    let text = fs::read_to_string(&config).expect("the file");
    let before = "\u{feff}[run]\r\nmode = \"auto\"\r\n";
    assert!(text.starts_with(before), "{text:?}");
    assert!(text.contains("[[allow]]"), "{text:?}");
    let lines = text.matches('\n').count();
    assert_eq!(text.matches("\r\n").count(), lines, "{text:?}");
}

/// An entry that is pasted as it was printed must not look complete.
#[test]
fn a_printed_entry_has_a_place_for_its_reason() {
    let base = tempfile::tempdir().expect("a directory");
    let config = base.path().join("gpu-leak-check.toml");
    fs::write(&config, "").expect("a file");
    let run = checked(base.path(), "run", &["keeps_a_tensor"]);
    let mut print = command();
    print.args(["allow", "--from"]).arg(&run);
    let printed = call(print.env("GPU_LEAK_CHECK_CONFIG", &config));
    let place = "\n# reason = \"…\"   # fill in why this may stay\n";
    assert!(printed.stdout.contains(place), "{printed:?}");
    assert!(!printed.stdout.contains("reason = \"\""), "{printed:?}");
}

#[test]
fn expired_and_unmatched_entries_are_denied_on_request() {
    let base = tempfile::tempdir().expect("a directory");
    let config = base.path().join("gpu-leak-check.toml");
    let text = "[[allow]]\nfn = \"*keep*\"\nreason = \"old\"\nuntil = 2020-01-01\n\n\
                [[allow]]\nfn = \"nowhere\"\nreason = \"gone\"\n\n\
                [[override]]\ntest = \"nope*\"\ntolerance = 1\n";
    fs::write(&config, text).expect("a file");
    let run = checked_with(base.path(), "r", &["keeps_a_tensor"], Some(&config));
    let report = |deny: &str| {
        let mut report = command();
        report.arg("report").arg(&run).arg(deny);
        call(report.env("GPU_LEAK_CHECK_CONFIG", &config))
    };
    let expired = report("--deny=expired");
    assert_eq!(expired.code, Some(1), "{expired:?}");
    assert!(
        expired.stderr.contains("was valid only until 2020-01-01"),
        "{expired:?}"
    );
    let unmatched = report("--deny=unmatched");
    assert_eq!(unmatched.code, Some(1), "{unmatched:?}");
    let stderr = &unmatched.stderr;
    assert_eq!(stderr.matches("denied: ").count(), 2, "{unmatched:?}");
    assert!(
        stderr.contains(
            "gpu-leak-check.toml:6 (fn = \"nowhere\"; reason: gone) matched nothing in this run: remove the entry"
        ),
        "{unmatched:?}"
    );
    assert!(
        stderr.contains("gpu-leak-check.toml:10 matches no test of this run (nope*)"),
        "{unmatched:?}"
    );
    assert_eq!(report("--strict").code, Some(1));
}

#[test]
fn no_entry_is_called_unmatched_if_a_check_did_not_end() {
    let base = tempfile::tempdir().expect("a directory");
    let config = base.path().join("gpu-leak-check.toml");
    fs::write(&config, "[[allow]]\nfn = \"nowhere\"\nreason = \"gone\"\n").expect("a file");
    let tests = ["ends_the_process"];
    let run = checked_with(base.path(), "r", &tests, Some(&config));
    let mut report = command();
    report.arg("report").arg(&run).arg("--deny=unmatched");
    let reported = call(report.env("GPU_LEAK_CHECK_CONFIG", &config));
    assert!(
        !reported
            .stderr
            .lines()
            .any(|line| line.starts_with("denied: ")),
        "{reported:?}"
    );
    assert!(
        reported.stderr.contains("unused entries in"),
        "{reported:?}"
    );
}

#[test]
fn a_diff_of_two_runs_shows_new_and_fixed_findings() {
    let base = tempfile::tempdir().expect("a directory");
    let old = checked(base.path(), "old", &["keeps_a_tensor", "gives_back"]);
    let new = checked(base.path(), "new", &["keeps_two_tensors", "gives_back"]);
    let diff = gpu_leak(["diff".as_ref(), old.as_os_str(), new.as_os_str()]);
    assert_eq!(diff.code, Some(1), "{diff:?}");
    assert!(diff.stdout.contains("not measured again: 1"), "{diff:?}");
    let again = checked(base.path(), "again", &["keeps_a_tensor", "gives_back"]);
    let same = gpu_leak(["diff".as_ref(), old.as_os_str(), again.as_os_str()]);
    assert_eq!(same.code, Some(0), "{same:?}");
    assert!(same.stdout.contains("known: 1"), "{same:?}");
}
