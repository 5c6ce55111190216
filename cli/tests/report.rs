//! Tests of `cargo gpu-leak report`.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;

use crate::support::{call, checked, checked_in, command, file_of, gpu_leak};

#[test]
fn every_leak_is_reported_with_its_bytes_and_its_line() {
    let base = tempfile::tempdir().expect("a directory");
    let run = checked(
        base.path(),
        "r",
        &["keeps_a_tensor", "keeps_two_tensors", "gives_back"],
    );
    let reported = gpu_leak(["report".as_ref(), run.as_os_str()]);
    assert_eq!(reported.code, Some(1), "{reported:?}");
    let head = "gpu-leak-check: 3 checked: 1 clean, 2 leaked\n";
    assert!(reported.stdout.starts_with(head), "{}", reported.stdout);
    assert!(
        reported.stdout.contains("leaked: 4.00 KiB device memory"),
        "{}",
        reported.stdout
    );
    assert!(
        reported.stdout.contains("(cli/tests/planted.rs:"),
        "{}",
        reported.stdout
    );
    assert!(
        reported.stdout.contains("highest peaks\n  embedded:0"),
        "{}",
        reported.stdout
    );
}

/// The lines of the text add up to the peak. The command requests them from its checks.
#[test]
fn a_peak_is_reported_line_by_line() {
    let base = tempfile::tempdir().expect("a directory");
    let ask = [("GPU_LEAK_CHECK_PEAKS", "true")];
    let run = checked_in(base.path(), "r", &["has_a_peak"], None, &ask);
    let reported = gpu_leak(["report".as_ref(), run.as_os_str()]);
    let peak = "in planted::has_a_peak, the peak of 12.0 KiB in the layer";
    let about = reported.stdout.split_once(peak);
    let (_, about) = about.unwrap_or_else(|| panic!("{}", reported.stdout));
    for line in [
        "4.00 KiB  1 allocation",
        "cli/tests/planted.rs:",
        "reuse: 5 allocations of 4.00 KiB",
    ] {
        assert!(about.contains(line), "{line}: {about}");
    }

    let plain = checked(base.path(), "plain", &["has_a_peak"]);
    let reported = gpu_leak(["report".as_ref(), plain.as_os_str()]);
    assert!(
        !reported.stdout.contains("reached by call"),
        "{}",
        reported.stdout
    );
}

#[test]
fn a_clean_run_exits_with_0_and_a_blind_one_only_if_permitted() {
    let base = tempfile::tempdir().expect("a directory");
    let clean = checked(base.path(), "clean", &["gives_back"]);
    assert_eq!(
        gpu_leak(["report".as_ref(), clean.as_os_str()]).code,
        Some(0)
    );

    if fs::exists("/dev/nvidiactl").is_ok_and(|there| there) {
        return;
    }
    let blind = checked(base.path(), "blind", &["gives_back", "sees_nothing"]);
    let blind = blind.as_os_str();
    assert_eq!(gpu_leak(["report".as_ref(), blind]).code, Some(0));
    let reported = gpu_leak(["report".as_ref(), blind, "--deny=unmeasured".as_ref()]);
    assert_eq!(reported.code, Some(3), "{reported:?}");
    assert!(
        reported
            .stderr
            .contains("denied: unmeasured: planted::sees_nothing"),
        "{reported:?}"
    );
    assert!(
        reported.stdout.contains("1 not measured (no GPU)"),
        "{reported:?}"
    );
    // The report names the remedy for a machine without a GPU.
    let remedy = "GPU_LEAK_CHECK_WITHOUT_GPU=skip";
    assert!(reported.stdout.contains(remedy), "{reported:?}");
    let blind = checked(base.path(), "only-blind", &["sees_nothing"]);
    let reported = gpu_leak(["report".as_ref(), blind.as_os_str()]);
    assert!(reported.stdout.contains("nothing checked"), "{reported:?}");
    assert_eq!(reported.code, Some(3), "{reported:?}");
    let reported = gpu_leak(["report".as_ref(), clean.as_os_str(), "--strict".as_ref()]);
    assert_eq!(reported.code, Some(0), "{reported:?}");
}

/// Tests each row of the table of exit codes in `docs/command.md`.
#[test]
fn the_exit_codes_are_those_of_the_documented_table() {
    let base = tempfile::tempdir().expect("a directory");
    let run = |name: &str, test: &str| checked(base.path(), name, &[test]).into_os_string();
    let clean = run("clean", "gives_back");
    let leaking = run("leaking", "keeps_a_tensor");
    let ended = run("ended", "ends_the_process");
    let warned = run("warned", "only_warns");
    let report = |words: &[&OsStr]| {
        let words = [OsStr::new("report")]
            .into_iter()
            .chain(words.iter().copied());
        gpu_leak(words).code
    };
    let unread = checked(base.path(), "unread", &["gives_back"]);
    let torn = fs::read_to_string(file_of(&unread)).expect("the file");
    fs::write(file_of(&unread), &torn[..torn.len() - 9]).expect("the file");
    let nothing = base.path().join("nothing");
    fs::create_dir(&nothing).expect("a directory");
    let header = torn.lines().next().expect("a header");
    fs::write(nothing.join("tests-1.jsonl"), format!("{header}\n")).expect("a file");

    let mut tried: Vec<(&str, Vec<Option<i32>>)> = vec![
        ("no finding", vec![report(&[&clean]), report(&[&warned])]),
        (
            "findings, a test whose process ended before it did, or something denied",
            vec![
                report(&[&leaking]),
                report(&[&ended]),
                report(&[&warned, "--deny=warned".as_ref()]),
            ],
        ),
        (
            "the command line, a file it names or the configuration is wrong",
            vec![
                report(&["--format=docx".as_ref()]),
                report(&[base.path().join("nowhere").as_ref()]),
                misconfigured(base.path()),
            ],
        ),
        (
            "nothing was checked, a file could not be read, or a check has no result and \
             therefore failed its test or was denied",
            vec![report(&[nothing.as_ref()]), report(&[unread.as_ref()])],
        ),
    ];
    if !fs::exists("/dev/nvidiactl").is_ok_and(|there| there) {
        let blind = run("blind", "sees_nothing");
        let strict = report(&[&blind, "--deny=unmeasured".as_ref()]);
        tried[3].1.push(strict);
    }
    let page = include_str!("../../docs/command.md");
    for (code, (means, ended)) in (0..).zip(tried) {
        let row = format!("| {code} | {means} |");
        assert!(page.contains(&row), "{row}");
        assert!(ended.iter().all(|it| *it == Some(code)), "{row} {ended:?}");
    }
}

/// Returns the exit code of a report that needs the configuration file while that file is invalid.
fn misconfigured(directory: &std::path::Path) -> Option<i32> {
    let run = checked(directory, "configured", &["gives_back"]);
    let config = directory.join("gpu.toml");
    fs::write(&config, "[chekc]\n").expect("a file");
    let mut report = command();
    report
        .args([
            "report".as_ref(),
            run.as_os_str(),
            "--deny=unmatched".as_ref(),
        ])
        .env("GPU_LEAK_CHECK_CONFIG", &config);
    call(&mut report).code
}

/// With a separate exit code, a script can distinguish a leak from other failures.
#[test]
fn the_exit_code_for_findings_can_be_chosen() {
    let base = tempfile::tempdir().expect("a directory");
    let leaking = checked(base.path(), "leaking", &["keeps_a_tensor"]);
    let clean = checked(base.path(), "clean", &["gives_back"]);
    let code = |run: &std::path::Path| {
        let chosen = ["--error-exitcode".as_ref(), "42".as_ref()];
        gpu_leak([&["report".as_ref(), run.as_os_str()][..], &chosen].concat()).code
    };
    assert_eq!(code(&leaking), Some(42));
    assert_eq!(code(&clean), Some(0));
}

#[test]
fn shards_are_one_run_and_the_same_directory_twice_counts_once() {
    let base = tempfile::tempdir().expect("a directory");
    let one = checked(base.path(), "one", &["keeps_a_tensor"]);
    let two = checked(base.path(), "two", &["gives_back"]);
    let reported = gpu_leak([
        "report".as_ref(),
        one.as_os_str(),
        two.as_os_str(),
        one.as_os_str(),
    ]);
    let head = "gpu-leak-check: 2 checked: 1 clean, 1 leaked\n";
    assert!(reported.stdout.starts_with(head), "{}", reported.stdout);
}

#[test]
fn a_test_that_ended_its_process_is_named() {
    let base = tempfile::tempdir().expect("a directory");
    let run = checked(base.path(), "r", &["ends_the_process"]);
    let reported = gpu_leak(["report".as_ref(), run.as_os_str()]);
    assert_eq!(reported.code, Some(1), "{reported:?}");
    assert!(
        reported
            .stdout
            .contains("aborted: planted::ends_the_process"),
        "{}",
        reported.stdout
    );
}

#[test]
fn memory_that_no_check_owns_is_counted_and_fails_nothing() {
    let base = tempfile::tempdir().expect("a directory");
    let run = checked(
        base.path(),
        "r",
        &["a_thread_is_started", "b_its_thread_allocates"],
    );
    let reported = gpu_leak(["report".as_ref(), run.as_os_str()]);
    let line = "1 allocation, 1.00 KiB by threads outside any check";
    assert!(reported.stdout.contains(line), "{reported:?}");
    assert_eq!(reported.code, Some(0), "{reported:?}");
}

#[test]
fn a_torn_line_loses_no_finished_check() {
    let base = tempfile::tempdir().expect("a directory");
    let run = checked(base.path(), "r", &["keeps_a_tensor"]);
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(file_of(&run))
        .expect("the file");
    file.write_all(b"{\"record\":\"verd").expect("half a line");
    let reported = gpu_leak(["report".as_ref(), run.as_os_str()]);
    assert_eq!(reported.code, Some(1), "{reported:?}");
    assert!(reported.stdout.contains("1 leaked"), "{}", reported.stdout);
    assert!(
        reported
            .stdout
            .replace("\n      ", " ")
            .contains("is cut off"),
        "{}",
        reported.stdout
    );
}

#[test]
fn a_file_of_a_later_schema_is_reported_and_never_clean() {
    let base = tempfile::tempdir().expect("a directory");
    let run = checked(base.path(), "r", &["gives_back"]);
    let file = file_of(&run);
    let text = fs::read_to_string(&file).expect("the file");
    fs::write(&file, text.replacen("\"schema\":1", "\"schema\":7", 1)).expect("a file");
    let reported = gpu_leak(["report".as_ref(), run.as_os_str()]);
    assert_eq!(reported.code, Some(3), "{reported:?}");
    assert!(reported.stdout.contains("schema 7"), "{}", reported.stdout);
}

#[test]
fn a_path_that_is_not_a_run_is_an_error_with_advice() {
    let base = tempfile::tempdir().expect("a directory");
    let reported = gpu_leak(["report".as_ref(), base.path().join("nowhere").as_os_str()]);
    assert_eq!(reported.code, Some(2), "{reported:?}");
    assert!(
        reported.stderr.contains("/nowhere: No such file"),
        "{}",
        reported.stderr
    );

    checked(base.path(), "r", &["gives_back"]);
    checked(base.path(), "s", &["gives_back"]);
    let reported = gpu_leak(["report".as_ref(), base.path().as_os_str()]);
    assert_eq!(reported.code, Some(2), "{reported:?}");
    assert!(
        reported
            .stderr
            .contains("is not a run but contains 2 runs: pass one"),
        "{}",
        reported.stderr
    );
}

#[test]
fn a_directory_that_contains_one_run_means_that_run() {
    let base = tempfile::tempdir().expect("a directory");
    let (first, second) = (base.path().join("shard-1"), base.path().join("shard-2"));
    checked(&first, "r", &["gives_back"]);
    checked(&second, "r", &["keeps_a_tensor"]);
    let reported = gpu_leak(["report".as_ref(), first.as_os_str(), second.as_os_str()]);
    assert_eq!(reported.code, Some(1), "{reported:?}");
    assert!(reported.stdout.contains("2 checked"), "{}", reported.stdout);
}

#[test]
fn without_a_directory_the_newest_run_of_the_workspace_is_used() {
    let base = tempfile::tempdir().expect("a directory");
    let mut report = command();
    report
        .arg("report")
        .env("GPU_LEAK_CHECK_OUTPUT", base.path());
    let none = call(&mut report);
    assert_eq!(none.code, Some(3), "{none:?}");
    assert!(
        none.stderr.contains("there is no run of this workspace in"),
        "{none:?}"
    );

    checked(base.path(), "r", &["gives_back"]);
    let newest = call(&mut report);
    assert_eq!(newest.code, Some(0), "{newest:?}");
}

#[test]
fn an_output_goes_to_the_file_that_is_named() {
    let base = tempfile::tempdir().expect("a directory");
    let run = checked(base.path(), "r", &["keeps_a_tensor"]);
    let out = base.path().join("leaks.xml");
    let reported = gpu_leak([
        "report".as_ref(),
        run.as_os_str(),
        "--format=junit".as_ref(),
        "--out".as_ref(),
        out.as_os_str(),
    ]);
    assert_eq!(
        (reported.code, &*reported.stdout),
        (Some(1), ""),
        "{reported:?}"
    );
    let text = fs::read_to_string(out).expect("a file");
    let junit = roxmltree::Document::parse(&text).expect("XML");
    let failure = junit
        .descendants()
        .find(|node| node.has_tag_name("failure"));
    let message = failure
        .and_then(|it| it.attribute("message"))
        .unwrap_or_default();
    assert!(
        message.starts_with("gpu leak: 1 allocation, 1.00 KiB on embedded:0"),
        "{message}"
    );
}

#[test]
fn new_findings_are_denied_against_an_older_run() {
    let base = tempfile::tempdir().expect("a directory");
    let old = checked(base.path(), "old", &["keeps_a_tensor"]);
    let new = checked(base.path(), "new", &["keeps_two_tensors"]);
    let denied = |run: &std::path::Path, against: &std::path::Path| {
        let options = [
            "--deny=new".as_ref(),
            "--against".as_ref(),
            against.as_os_str(),
        ];
        gpu_leak(
            ["report".as_ref(), run.as_os_str()]
                .into_iter()
                .chain(options),
        )
        .stderr
    };
    assert!(
        denied(&new, &old).contains("denied: new: leaked: "),
        "{}",
        denied(&new, &old)
    );
    let again = checked(base.path(), "again", &["keeps_a_tensor"]);
    assert_eq!(denied(&again, &old), "");
    // Without `--deny new`, the older run would have no effect.
    let words = ["report", "--strict", "--against"].map(OsStr::new);
    let forgotten = gpu_leak([&words[..], &[old.as_os_str(), again.as_os_str()]].concat());
    assert_eq!(forgotten.code, Some(2), "{forgotten:?}");
    assert!(forgotten.stderr.contains("--deny new"), "{forgotten:?}");
}

#[test]
fn without_against_new_findings_are_denied_against_the_run_before() {
    let base = tempfile::tempdir().expect("a directory");
    let denied = |run: &std::path::Path| {
        let mut command = command();
        command.arg("report").arg(run).arg("--deny=new");
        call(command.env("GPU_LEAK_CHECK_OUTPUT", base.path())).stderr
    };
    checked(base.path(), "first", &["gives_back"]);
    // This directory stands for the only run in it.
    let alone = denied(base.path());
    assert!(alone.contains("there is no earlier run"), "{alone}");
    let second = checked(base.path(), "second", &["keeps_a_tensor"]);
    let names = ["second".as_ref(), &*second, &*file_of(&second)];
    let assert_denied = || {
        for name in names {
            let denied = denied(name);
            assert!(
                denied.contains("denied: new: leaked: "),
                "{name:?}: {denied}"
            );
        }
    };
    assert_denied();
    checked(base.path(), "third", &["keeps_a_tensor"]);
    assert_denied();
    assert_eq!(denied("third".as_ref()), "");
}

/// A job whose results are lost must not look green.
#[test]
fn no_format_hides_that_the_results_are_incomplete() {
    let base = tempfile::tempdir().expect("a directory");
    let run = checked(base.path(), "r", &["keeps_a_tensor"]);
    let text = fs::read_to_string(file_of(&run)).expect("the file");
    fs::write(file_of(&run), &text[..text.len() - 9]).expect("the file");
    let help = gpu_leak(["report", "--format", "unknown"]).stderr;
    let (_, formats) = help.split_once("[possible values: ").expect("a list");
    let (formats, _) = formats.split_once(']').expect("its end");
    let out = base.path().join("report");
    for format in formats.split(", ") {
        let words = ["report", "--format", format, "--out"].map(OsStr::new);
        let paths = [out.as_os_str(), run.as_os_str()];
        let reported = gpu_leak(words.into_iter().chain(paths));
        assert_eq!(reported.code, Some(3), "{reported:?}");
        assert!(reported.stderr.contains("is cut off"), "{reported:?}");
        let text = fs::read(&out).expect("a report");
        let text = String::from_utf8_lossy(&text);
        match format {
            "junit" => assert!(text.contains("type=\"incomplete\""), "{text}"),
            "github" => assert!(text.contains("::error title="), "{text}"),
            _ => {}
        }
    }
}

/// Several workspaces may share a target directory.
#[test]
fn the_newest_run_is_one_of_this_workspace() {
    let base = tempfile::tempdir().expect("a directory");
    let words = |words: &[&str]| {
        let mut command = command();
        call(
            command
                .args(words)
                .env("GPU_LEAK_CHECK_OUTPUT", base.path()),
        )
    };
    let of = |run: &str, test: &str, package: &str| {
        let package = [("CARGO_MANIFEST_DIR", package)];
        checked_in(base.path(), run, &[test], None, &package);
    };
    let (ours, others) = (
        env!("CARGO_MANIFEST_DIR"),
        base.path().to_str().expect("text"),
    );
    of("others", "keeps_two_tensors", others);
    let none = words(&["report"]);
    assert_eq!(none.code, Some(3), "{none:?}");
    assert!(
        none.stderr.contains("there is no run of this workspace"),
        "{none:?}"
    );
    of("first", "keeps_a_tensor", ours);
    of("others-again", "gives_back", others);
    let newest = words(&["report"]);
    assert!(
        newest.stdout.contains("planted::keeps_a_tensor"),
        "{newest:?}"
    );
    of("second", "keeps_a_tensor", ours);
    let known = words(&["report", "--deny=new", "second"]);
    assert!(!known.stderr.contains("denied: new"), "{known:?}");
}

/// A finding that is missing from the older run seems to be new.
#[test]
fn the_problems_of_the_older_run_are_noted() {
    let base = tempfile::tempdir().expect("a directory");
    let old = checked(base.path(), "old", &["keeps_a_tensor"]);
    let text = fs::read_to_string(file_of(&old)).expect("the file");
    fs::write(file_of(&old), &text[..text.len() - 9]).expect("the file");
    let new = checked(base.path(), "new", &["keeps_a_tensor"]);
    let words = ["report", "--deny=new", "--against"].map(OsStr::new);
    let reported = gpu_leak(words.into_iter().chain([old.as_os_str(), new.as_os_str()]));
    assert!(reported.stderr.contains("denied: new: "), "{reported:?}");
    assert!(reported.stderr.contains("is cut off"), "{reported:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let base = tempfile::tempdir().unwrap();
    let run = checked(base.path(), "run", &["gives_back"]);
    for format in ["text", "junit"] {
        let full = fs::File::create("/dev/full").unwrap();
        let mut command = command();
        command.arg("report").arg(&run).args(["--format", format]);
        let output = command.stdout(full).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(
            stderr.contains("cannot write to standard output: No space left on device"),
            "{stderr}"
        );
    }
}
