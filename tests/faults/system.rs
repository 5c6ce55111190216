//! Failures of the operating system: threads, files, memory maps and the environment.

#![expect(unsafe_code, reason = "sets limits of the process")]

use std::fs;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_tests::checked;
use gpu_leak_tests::fake::Fake;

use super::bodies::{LEAVES_A_BLOCK, LEAVES_NOTHING, PLANTED};
use super::{CAME_TO_ITS_END, assert_no_false_alarm, assert_not_missed, assert_survived};

const HERE: &str = "faults::system::";

#[test]
fn without_room_for_a_thread_the_check_fails_and_says_so() {
    // No address space has room for a stack of this size.
    let run = Fake::new()
        .run(LEAVES_NOTHING)
        .env("RUST_MIN_STACK", (1_u64 << 50).to_string());
    let child = run.run();
    let output = format!("{}\n{}", child.stdout, child.stderr);
    assert!(super::ended_by_itself(child.status), "{output}");
    assert!(!child.status.success(), "{output}");
    assert!(
        child
            .stderr
            .contains("failed: Resource temporarily unavailable"),
        "{output}"
    );
    assert!(!child.stdout.contains(CAME_TO_ITS_END), "{output}");
}

#[test]
fn a_disk_that_is_full_changes_no_verdict() {
    let checked = checked::on(&Fake::new(), &format!("{HERE}fills_the_disk"));
    let output = checked.output();
    assert!(super::ended_by_itself(checked.child.status), "{output}");
    assert!(!checked.child.status.success(), "{output}");
    let reported = "gpu leak: 1 allocation, 4.02 KiB (4,120 B) on cuda:0";
    assert!(checked.child.stderr.contains(reported), "{output}");
    assert!(checked.child.stderr.contains("cannot write"), "{output}");
}

#[gpu_leak_check]
#[ignore = "fails on purpose"]
#[test]
fn fills_the_disk() {
    // SAFETY: an ignored signal has no handler; the write fails instead.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    limit(libc::RLIMIT_FSIZE, 600);
    super::bodies::keeps_a_block();
}

#[test]
fn a_directory_that_goes_away_meanwhile_changes_no_verdict() {
    let checked = checked::on(&Fake::new(), &format!("{HERE}removes_the_run_files"));
    let output = checked.output();
    assert!(super::ended_by_itself(checked.child.status), "{output}");
    let reported = "gpu leak: 1 allocation, 4.02 KiB (4,120 B) on cuda:0";
    assert!(checked.child.stderr.contains(reported), "{output}");
}

#[gpu_leak_check]
#[ignore = "fails on purpose"]
#[test]
fn removes_the_run_files() {
    let directory = std::env::var_os("GPU_LEAK_CHECK_OUTPUT").expect("a directory for run files");
    // In the second run, the directory is already gone.
    let _ = fs::remove_dir_all(directory);
    super::bodies::keeps_a_block();
}

/// No file descriptor is left for what the harness may need to open at the end.
#[test]
fn without_file_descriptors_a_leak_is_still_found() {
    let checked = checked::on(&Fake::new(), &format!("{HERE}uses_up_the_descriptors"));
    assert_survived(&checked, "no descriptors");
    let report = checked.report();
    assert_eq!(
        report.status,
        CheckStatus::Found(FindingKind::Leaked),
        "{}",
        checked.output()
    );
    assert_eq!(report.findings[0].bytes, PLANTED, "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "fails on purpose"]
#[test]
fn uses_up_the_descriptors() {
    super::bodies::keeps_a_block();
    limit(libc::RLIMIT_NOFILE, 0);
}

#[test]
fn an_output_that_cannot_be_made_changes_no_verdict() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    for place in [
        file.path().join("below"),
        "/proc/nowhere".into(),
        "/dev/full".into(),
    ] {
        for (test, passes) in [(LEAVES_A_BLOCK, false), (LEAVES_NOTHING, true)] {
            let child = Fake::new()
                .run(test)
                .env("GPU_LEAK_CHECK_OUTPUT", &place)
                .run();
            let output = format!("{}\n{}", child.stdout, child.stderr);
            assert_eq!(
                child.status.success(),
                passes,
                "{}: {output}",
                place.display()
            );
            assert_eq!(child.stderr.contains("gpu leak: "), !passes, "{output}");
        }
    }
}

/// The clock stands still, the locale is unusual, or there is no home directory.
#[test]
fn an_unusual_environment_changes_no_verdict() {
    let surroundings = [
        ("TMPDIR", "/nowhere"),
        ("HOME", ""),
        ("LC_ALL", "tr_TR.UTF-8"),
        ("COLUMNS", "0"),
        ("RUST_BACKTRACE", "full"),
        ("GPU_LEAK_CHECK_RECORD", "/nowhere/%p.jsonl"),
        ("RUST_MIN_STACK", "65536"),
    ];
    for (name, value) in surroundings {
        let fault = format!("{name}={value}");
        let on = |test| checked::finish(Fake::new().run(test).env(name, value));
        assert_not_missed(&on(LEAVES_A_BLOCK), PLANTED, &fault);
        assert_no_false_alarm(&on(LEAVES_NOTHING), false, &fault);
    }
}

/// Lowers a limit of this process for good.
fn limit(which: libc::__rlimit_resource_t, to: u64) {
    let limit = libc::rlimit {
        rlim_cur: to,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the call only reads the limit.
    let done = unsafe { libc::setrlimit(which, &raw const limit) };
    assert_eq!(done, 0, "a limit");
}
