//! Recordings of processes that these tests run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, abort, id};

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_check::recording::{self, Replay};
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind, Report, Site};
use gpu_leak_kernels::{Device, Tensor};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;
use gpu_leak_tests::fake::Fake;
use gpu_leak_tests::gpu;
use tempfile::TempDir;

use super::programs::{ALL, GPU_ONLY};
use crate::kinds;

/// A checked test in a separate process, and its recording.
pub(super) struct Recorded {
    pub(super) checked: Checked,
    pub(super) path: PathBuf,
    _directory: TempDir,
}

impl Recorded {
    /// Runs a test on this machine's GPU if there is one, otherwise on the stand-in.
    pub(super) fn run(test: &str) -> Self {
        Self::run_with(test, &[])
    }

    /// Like [`Self::run`], but sets these environment variables.
    fn run_with(test: &str, variables: &[(&str, &str)]) -> Self {
        let fake = Fake::new();
        let run = if gpu::is_present() {
            Run::of(test)
        } else {
            fake.run(test).env("RECORD_ON", "embedded")
        };
        let with = |run: Run, (name, value): &(&str, &str)| run.env(name, value);
        Self::finish(variables.iter().fold(run, with))
    }

    fn finish(run: Run) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("recording.jsonl");
        Self {
            checked: checked::finish(run.env("GPU_LEAK_CHECK_RECORD", &path)),
            path,
            _directory: directory,
        }
    }

    #[track_caller]
    pub(super) fn replay(&self) -> Replay {
        match recording::replay(&self.path) {
            Ok(replay) => replay,
            Err(error) => panic!("{error}\n{}", self.checked.output()),
        }
    }
}

/// Fails unless the replay produces exactly the reports of the run.
#[track_caller]
pub(super) fn assert_judged_alike(recorded: &Recorded) {
    let replay = recorded.replay();
    let live: Vec<_> = recorded.checked.reports.iter().map(comparable).collect();
    let again: Vec<_> = replay.reports.iter().map(comparable).collect();
    assert_eq!(live, again, "{}", recorded.checked.output());
    assert_eq!(recorded.checked.aborted, replay.unfinished);
    assert!(!replay.torn);
}

/// Returns the parts of a report that a replay can reproduce. These exclude the time spent, the
/// results of a search of the process's memory, and the paths of third-party sources on this
/// machine.
fn comparable(report: &Report) -> Report {
    let mut report = report.clone();
    report.waited_ms = 0;
    report.overhead_ms = 0.0;
    report.outcome = None;
    for finding in &mut report.findings {
        shorten(&mut finding.site);
        finding.holders = None;
        finding.not_searched = None;
        finding.enclosing = None;
        finding.held_at.clear();
        finding.outlived.clear();
        if let Some(failed) = &mut finding.failed {
            shorten(&mut failed.site);
        }
    }
    report
}

fn shorten(site: &mut Site) {
    for file in site
        .frames
        .iter_mut()
        .filter_map(|frame| frame.file.as_mut())
    {
        if let Some(at) = file.find("/registry/src/") {
            *file = file[at..].into();
        }
    }
}

#[test]
fn a_replay_judges_every_program_alike() {
    for name in ALL {
        if gpu::is_present() || !GPU_ONLY.contains(&name) {
            assert_judged_alike(&Recorded::run(&format!("recorded::programs::{name}")));
        }
    }
}

/// The excluded tests. The code of three of them says what may stay, which is not recorded. In the
/// processes of two others, another harness records into the same file. Two are about scopes, whose
/// reports are in no run file. Two fail in their warm-up, which is never judged. Two fail only
/// through a block inside them, and a replay judges only the block's own report in the same way.
const NOT_JUDGED_ALIKE: [&str; 11] = [
    "boundary::blind::one_scope_after_another",
    "boundary::contexts::allows_a_block_s_memory_that_the_context_frees",
    "boundary::contexts::leaves_freeing_a_scope_s_memory_to_the_context",
    "boundary::copies::comes_after_its_plugin",
    "boundary::copies::has_a_plugin_that_checks",
    "boundary::failures::breaks_as_it_warms_up",
    "boundary::failures::goes_on_after_breaks_as_it_warms_up",
    "settings::allowed::keeps_its_table",
    "settings::allowed::keeps_more_than_its_table",
    "settings::file::leaks_in_a_block",
    "settings::file::leaks_in_each_of_two_blocks",
];

/// Fails unless a replay judges the ignored tests of this module like their runs. They cover leaks,
/// failing calls, broken contexts, foreign threads and nested checks.
fn assert_bodies_are_judged_alike(module: &str, at_least: usize) {
    let program = std::env::current_exe().expect("the path of this program");
    let list = Command::new(program)
        .args(["--list", "--ignored", "--format", "terse", module])
        .output()
        .expect("a list of tests");
    let list = String::from_utf8(list.stdout).expect("names");
    let mut judged = 0;
    let tests = list.lines().filter_map(|line| line.strip_suffix(": test"));
    for test in tests.filter(|test| !NOT_JUDGED_ALIKE.contains(test)) {
        let recorded = Recorded::run(test);
        // Some of these tests run no check on this machine.
        if recorded.path.exists() {
            assert_judged_alike(&recorded);
            judged += 1;
        }
    }
    assert!(judged >= at_least, "only {judged} of {module}");
}

#[test]
fn a_replay_judges_every_body_of_the_boundary_alike() {
    assert_bodies_are_judged_alike("boundary::", 30);
}

#[test]
fn a_replay_judges_every_planted_leak_alike() {
    assert_bodies_are_judged_alike("detects::planted::", 3);
    assert_bodies_are_judged_alike("regressions::memory::", 4);
    assert_bodies_are_judged_alike("regressions::allocators::", 2);
}

/// Leaks of every kind: graph memory, physical memory, reference-counted resources.
#[test]
fn a_replay_judges_a_leak_of_every_kind_alike() {
    for kind in kinds::names() {
        let row = [(kinds::ROW, kind)];
        let recorded = Recorded::run_with("kinds::child_that_leaks", &row);
        // Not every GPU can run all of these tests.
        assert!(gpu::is_present() || recorded.path.exists(), "{kind}");
        if recorded.path.exists() {
            assert_judged_alike(&recorded);
        }
    }
}

#[test]
fn a_replay_judges_every_budget_growth_and_expectation_alike() {
    assert_bodies_are_judged_alike("settings::", 10);
}

/// Programs with caching allocators, and so with probes, claimed ranges and reserves.
#[test]
fn a_replay_judges_the_program_of_every_allocator_alike() {
    assert_bodies_are_judged_alike("conformance::watched::", 5);
}

#[test]
fn suppressions_are_not_recorded() {
    let recorded = Recorded::run("settings::allowed::keeps_its_table");
    assert_eq!(
        recorded.checked.report().status,
        CheckStatus::Found(FindingKind::Allowed)
    );
    let by_default = recorded.replay();
    assert_eq!(
        by_default.reports[0].status,
        CheckStatus::Found(FindingKind::Leaked)
    );
}

#[test]
fn a_leak_is_reported_with_bytes_kind_and_line() {
    let recorded = Recorded::run("recorded::programs::keeps_an_allocation");
    let replay = recorded.replay();
    let [report] = &replay.reports[..] else {
        panic!("{:?}", replay.reports)
    };
    let [leak] = &report.findings[..] else {
        panic!("{report:?}")
    };
    assert_eq!(leak.kind, FindingKind::Leaked);
    assert_eq!(
        (leak.resource, leak.count, leak.bytes),
        (Some(Kind::Linear), 1, 2048)
    );
    let line = include_str!("programs.rs")
        .lines()
        .position(|line| line.ends_with("// leak: kept"));
    let line = line.expect("the mark is there") + 1;
    assert_eq!(
        leak.site.location(),
        format!("tests/recorded/programs.rs:{line}")
    );
}

#[test]
fn a_recording_reveals_nothing_about_the_machine_it_was_made_on() {
    let recorded = Recorded::run("recorded::programs::keeps_an_allocation");
    let text = fs::read_to_string(&recorded.path).expect("a recording");
    let home = std::env::var("HOME").expect("a home");
    for place in [env!("CARGO_MANIFEST_DIR"), &format!("{home}/")] {
        assert!(!text.contains(place), "{place} is in the recording");
    }
}

#[test]
fn a_second_process_with_p_in_its_name_has_a_file_of_its_own() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for _ in 0..2 {
        let run = Run::of("recorded::live::keeps_an_embedded_tensor");
        let record = directory.path().join("made/of-%p.jsonl");
        let checked = checked::finish(run.env("GPU_LEAK_CHECK_RECORD", record));
        assert_eq!(
            checked.report().status,
            CheckStatus::Found(FindingKind::Leaked)
        );
    }
    let files: Vec<_> = fs::read_dir(directory.path().join("made"))
        .expect("a directory made for the recording")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert_eq!(files.len(), 2);
    for file in files {
        let replay = recording::replay(&file).expect("a recording");
        let pid = replay.header.pid;
        assert!(file.ends_with(format!("of-{pid}.jsonl")), "{file:?}");
        assert_ne!(pid, id());
        assert_eq!(
            replay.reports[0].status,
            CheckStatus::Found(FindingKind::Leaked)
        );
    }
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn keeps_an_embedded_tensor() -> gpu_leak_kernels::Result<()> {
    let device = Device::embedded()?;
    std::mem::forget(Tensor::zeros([256], &device)?);
    Ok(())
}

#[test]
fn an_isolated_test_leaves_its_parent_s_recording_alone() {
    let recorded = Recorded::run("recorded::live::calls_an_isolated_test");
    let directory = recorded.path.parent().expect("a directory");
    let mut reported = Vec::new();
    for entry in fs::read_dir(directory).expect("the directory") {
        let replay = recording::replay(entry.expect("an entry").path()).expect("a recording");
        let tests = replay.reports.iter().map(|report| report.test.clone());
        reported.push((replay.header.pid, tests.collect::<Vec<_>>()));
    }
    reported.sort_by_key(|(_, tests)| tests.len());
    let [(child, isolated), (parent, others)] = &reported[..] else {
        panic!("{reported:?}")
    };
    assert_ne!(child, parent);
    assert_eq!(*isolated, ["recorded::live::is_isolated"]);
    assert_eq!(*others, ["recorded::live::is_clean"; 2]);
}

#[test]
#[ignore = "run in a process of its own"]
fn calls_an_isolated_test() {
    is_clean();
    is_isolated();
    is_clean();
}

#[gpu_leak_check]
#[ignore = "called by another test"]
#[test]
fn is_clean() {}

#[gpu_leak_check(isolate)]
#[ignore = "called by another test"]
#[test]
fn is_isolated() {}

#[test]
fn a_process_that_checks_nothing_leaves_no_recording() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let made = directory.path().join("made");
    let run = Run::of("recorded::live::checks_nothing");
    let run = run.env("GPU_LEAK_CHECK_RECORD", made.join("gpu.jsonl"));
    let child = run.beside_others().run();
    assert!(child.status.success(), "{}", child.stdout);
    assert!(!made.exists());
}

#[test]
#[ignore = "run in a process of its own"]
fn checks_nothing() {
    keep_one().expect("an embedded device");
}

#[test]
fn a_file_that_cannot_be_written_is_one_note_and_the_check_goes_on() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("a-file");
    fs::write(&file, "in the way").expect("a file");
    let run = Run::of("recorded::live::keeps_an_embedded_tensor");
    let checked = checked::finish(run.env("GPU_LEAK_CHECK_RECORD", file.join("inside.jsonl")));
    assert_eq!(
        checked.report().status,
        CheckStatus::Found(FindingKind::Leaked)
    );
    let notes = checked.child.stderr.matches("nothing is recorded").count();
    assert_eq!(notes, 1, "{}", checked.output());
}

#[test]
fn a_process_that_is_killed_leaves_what_it_recorded() {
    for death in ["aborts", "is_killed"] {
        let test = format!("recorded::live::{death}");
        let recorded = Recorded::finish(Run::of(&test));
        let replay = recorded.replay();
        assert_eq!(replay.unfinished, [test]);
        assert!(replay.reports.is_empty() && !replay.torn);
        let text = fs::read_to_string(&recorded.path).expect("a recording");
        assert!(text.contains(r#""created""#), "{text}");
    }
}

#[gpu_leak_check]
#[ignore = "ends its process"]
#[test]
fn aborts() {
    let _ = keep_one();
    abort();
}

#[gpu_leak_check]
#[ignore = "ends its process"]
#[test]
fn is_killed() {
    let _ = keep_one();
    let kill = Command::new("kill")
        .args(["-9", &id().to_string()])
        .status();
    panic!("still alive: {kill:?}");
}

fn keep_one() -> gpu_leak_kernels::Result<()> {
    std::mem::forget(Tensor::zeros([256], &Device::embedded()?)?);
    Ok(())
}

#[test]
fn a_line_that_was_cut_off_is_left_out() {
    let recorded = Recorded::finish(Run::of("recorded::live::keeps_an_embedded_tensor"));
    let whole = fs::read(&recorded.path).expect("a recording");
    cut(&recorded.path, &whole, whole.len() - 1);
    let replay = recorded.replay();
    assert!(replay.torn && replay.reports.is_empty());
    assert_eq!(
        replay.unfinished,
        ["recorded::live::keeps_an_embedded_tensor"]
    );
}

fn cut(path: &Path, whole: &[u8], length: usize) {
    fs::write(path, &whole[..length]).expect("a shorter recording");
}

#[test]
fn a_file_that_two_processes_wrote_is_refused_with_the_remedy() {
    let recorded = Recorded::finish(Run::of("recorded::live::keeps_an_embedded_tensor"));
    let whole = fs::read(&recorded.path).expect("a recording");
    let lines = whole.iter().filter(|byte| **byte == b'\n').count();
    fs::write(&recorded.path, whole.repeat(2)).expect("a longer file");
    let error = recording::replay(&recorded.path).expect_err("two headers");
    let place = format!("{}:{}: ", recorded.path.display(), lines + 1);
    let message = error.to_string();
    assert!(message.starts_with(&place), "{message}");
    assert!(message.contains("%p"), "{message}");
}
