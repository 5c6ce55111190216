//! All combinations of checks with all kinds of leftovers. The expected verdicts are in the table
//! in [`super::cells`]. Each combination has a process, which runs the combination's tests one
//! after another.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind, Report};
use gpu_leak_check::{Check, Scope};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::{Child, Run};
use gpu_leak_tests::fake::Fake;

use super::cells::{self, Cell};
use super::neighbours::Neighbour;
use super::remains;

type Body = fn();

fn alone(_: &str, body: Body) {
    body();
}

fn on_a_thread(_: &str, body: Body) {
    let worker = thread::spawn(body);
    worker.join().expect("the body does not panic");
}

fn in_a_block(name: &str, body: Body) {
    Check::new(name).run(body);
}

fn in_two_blocks(name: &str, body: Body) {
    Check::new(format!("around {name}")).run(|| in_a_block(name, body));
}

/// Runs the body in a scope. Prints the verdict, because a scope's report is written nowhere else.
#[expect(clippy::print_stderr, reason = "the parent looks for it")]
fn report_of_a_scope(name: &str, body: Body) -> Report {
    let scope = Scope::open(name);
    scope.in_scope(body);
    let report = scope.finish();
    eprintln!("{SCOPE}{name}: {}", report.status.name());
    report
}

/// The prefix of the line that contains the name and the verdict of a scope.
const SCOPE: &str = "the scope ";

fn in_a_scope(name: &str, body: Body) {
    drop(report_of_a_scope(name, body));
}

fn in_an_asserted_scope(name: &str, body: Body) {
    report_of_a_scope(name, body).assert_clean();
}

fn in_rounds(name: &str, body: Body) {
    Check::new(name).rounds(4).run(body);
}

static NEIGHBOUR: Neighbour = Neighbour::new();

fn beside_a_neighbour(_: &str, body: Body) {
    body();
    NEIGHBOUR.ask();
}

/// Defines a module with a test for each kind of leftover. A nested check is named after that kind.
macro_rules! composition {
    ($module:ident: $compose:ident $(checked($($option:tt)*))? $(with $beside:item $after:item)?) => {
        mod $module {
            $(
                #[test]
                #[ignore = "runs alongside the others"]
                $beside

                #[test]
                #[ignore = "ends what runs alongside the others"]
                $after
            )?

            composition!(@tests [$(#[gpu_leak_check::gpu_leak_check($($option)*)])?] $compose
                allowed by_turns failed_free handed_over leaked made_once replaced reserve returned
                sum tolerated);
        }
    };
    (@tests $attribute:tt $compose:ident $($remains:ident)*) => {
        $(composition!(@test $attribute $compose $remains);)*
    };
    (@test [$($attribute:tt)*] $compose:ident $remains:ident) => {
        $($attribute)*
        #[ignore = "one of a table"]
        #[test]
        fn $remains() {
            super::$compose(stringify!($remains), super::remains::$remains);
        }
    };
}

composition!(test: alone checked());
composition!(unconfirmed: alone checked(confirm = false));
composition!(warmed: alone checked(warmup = 1));
composition!(rounds: alone checked(rounds = 4));
composition!(isolated: alone checked(isolate));
composition!(parallel: alone checked(parallel));
composition!(thread_of_a_test: on_a_thread checked());
composition!(block: in_a_block);
composition!(asserted_scope: in_an_asserted_scope);
composition!(rounds_of_a_block: in_rounds);
composition!(block_in_a_test: in_a_block checked());
composition!(block_in_a_block: in_two_blocks);
composition!(scope_in_a_test: in_a_scope checked());
composition!(rounds_in_a_test: in_rounds checked());
composition!(beside_an_unchecked_test: beside_a_neighbour checked() with
    fn a_neighbour() {
        super::NEIGHBOUR.serve(super::remains::returned);
    }
    fn z_after_the_others() {
        super::NEIGHBOUR.dismiss();
    }
);

/// Where the outermost check of a test is.
#[derive(Clone, Copy)]
enum Outermost {
    /// The outermost check is that of the test.
    Test,
    /// The test is unchecked, and a block or scope in it is named after the kind of leftover.
    Inside,
    /// The test is unchecked, and contains a block that surrounds another block.
    Around,
}

/// Writes a configuration in which every check tolerates 10 B.
fn configuration(directory: &Path) -> std::path::PathBuf {
    let file = directory.join("gpu-leak-check.toml");
    fs::write(&file, "[check]\ntolerance = 10\n").expect("a file");
    file
}

/// Runs the tests of one composition on a stand-in for a GPU.
fn run(module: &str, threads: u32) -> Checked {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let fake = Fake::new();
    let run = Run::of_all(&format!("table::{module}"), threads);
    let variables = fake.env().into_iter();
    let run = variables.fold(run, |run, (name, value)| run.env(name, value));
    let run = run.env("GPU_LEAK_CHECK_CONFIG", configuration(directory.path()));
    let run = run.env("GPU_LEAK_CHECK_HELD_BY", "0s");
    checked::finish(run.env("GPU_LEAK_CHECK_SETTLE", "1ms"))
}

/// Returns the verdict of the first check or scope with this name. Each further run of it has a
/// report of its own.
fn verdict<'a>(checked: &'a Checked, name: &str) -> &'a str {
    let in_a_check = format!(": {name}");
    let is_it = |test: &str| test == name || test.ends_with(&in_a_check);
    let reported = checked.reports.iter().find(|report| is_it(&report.test));
    let printed = format!("{SCOPE}{name}: ");
    let mut lines = checked.child.stderr.lines();
    let of_a_scope = || lines.find_map(|line| line.strip_prefix(&printed));
    let reported = reported.map(|report| report.status.name());
    reported.or_else(of_a_scope).unwrap_or("none")
}

/// Returns the verdict of the nested check, if one is expected, and that of the outermost one.
fn verdicts<'a>(
    checked: &'a Checked,
    module: &str,
    cell: &Cell,
    outermost: Outermost,
) -> [&'a str; 2] {
    let remains = cell.remains;
    let outer = match outermost {
        Outermost::Test => format!("table::{module}::{remains}"),
        Outermost::Inside => remains.to_owned(),
        Outermost::Around => format!("around {remains}"),
    };
    let inner = cell.inner.map(|_| verdict(checked, remains));
    [inner.unwrap_or("none"), verdict(checked, &outer)]
}

/// Returns whether a test of the table passed according to libtest, or `None` if libtest does not
/// name the test.
fn passed(child: &Child, module: &str, remains: &str) -> Option<bool> {
    let test = format!("test table::{module}::{remains} ... ");
    let mut lines = child.stdout.lines();
    let (_, outcome) = lines.find_map(|line| line.split_once(&test))?;
    Some(outcome.ends_with("ok"))
}

fn is_failure(verdict: &str) -> bool {
    let failures = [
        CheckStatus::Found(FindingKind::Leaked),
        CheckStatus::Found(FindingKind::FailedFree),
        CheckStatus::Found(FindingKind::Retained),
        CheckStatus::Found(FindingKind::Grew),
    ];
    failures.iter().any(|failure| failure.name() == verdict)
}

/// Fails with a list of all cells that differ from the table.
#[track_caller]
fn assert_as_in_the_table(module: &str, outermost: Outermost, cells: &[Cell]) {
    let threads = if module == "beside_an_unchecked_test" {
        2
    } else {
        1
    };
    let checked = run(module, threads);
    // A scope does not make a test fail unless its report is asserted.
    let inner_fails = module != "scope_in_a_test";
    let mut wrong = Vec::new();
    for (remains, _) in remains::ALL {
        let cell = cells.iter().find(|cell| cell.remains == remains);
        let cell = cell.expect("a cell for each kind of leftover");
        let expected = [cell.inner.unwrap_or("none"), cell.verdict];
        let found = verdicts(&checked, module, cell, outermost);
        let fails = is_failure(cell.verdict) || inner_fails && is_failure(expected[0]);
        let passed = passed(&checked.child, module, remains);
        if found != expected || passed != Some(!fails) {
            wrong.push(format!(
                "{module}, {remains}: {found:?}, passed: {passed:?}; not {expected:?}, passed: {}: {}",
                !fails, cell.why
            ));
        }
    }
    let reported = wrong.join("\n");
    assert!(wrong.is_empty(), "{reported}\n\n{}", checked.output());
}

#[test]
fn a_test_judges_what_it_leaves() {
    assert_as_in_the_table("test", Outermost::Test, &cells::CONFIRMED);
}

#[test]
fn a_test_without_a_second_run_judges_what_it_leaves() {
    assert_as_in_the_table("unconfirmed", Outermost::Test, &cells::UNCONFIRMED);
}

#[test]
fn a_test_with_a_warm_up_judges_what_it_leaves() {
    assert_as_in_the_table("warmed", Outermost::Test, &cells::WARMED);
}

#[test]
fn a_test_in_rounds_judges_what_it_leaves() {
    assert_as_in_the_table("rounds", Outermost::Test, &cells::ROUNDS);
}

#[test]
fn a_test_in_a_process_of_its_own_judges_what_it_leaves() {
    assert_as_in_the_table("isolated", Outermost::Test, &cells::CONFIRMED);
}

#[test]
fn a_test_that_may_run_beside_others_judges_what_it_leaves() {
    assert_as_in_the_table("parallel", Outermost::Test, &cells::CONFIRMED);
}

#[test]
fn a_test_judges_what_its_threads_leave() {
    assert_as_in_the_table("thread_of_a_test", Outermost::Test, &cells::CONFIRMED);
}

#[test]
fn a_block_judges_what_it_leaves() {
    assert_as_in_the_table("block", Outermost::Inside, &cells::CONFIRMED);
}

#[test]
fn rounds_of_a_block_judge_what_they_leave() {
    assert_as_in_the_table("rounds_of_a_block", Outermost::Inside, &cells::ROUNDS);
}

#[test]
fn a_test_judges_what_its_block_did_not_fail_for() {
    let cells = &cells::BLOCK_IN_A_TEST;
    assert_as_in_the_table("block_in_a_test", Outermost::Test, cells);
}

#[test]
fn a_block_judges_what_a_block_inside_it_did_not_fail_for() {
    let cells = &cells::BLOCK_IN_A_TEST;
    assert_as_in_the_table("block_in_a_block", Outermost::Around, cells);
}

#[test]
fn a_test_judges_what_its_scope_only_reported() {
    let cells = &cells::SCOPE_IN_A_TEST;
    assert_as_in_the_table("scope_in_a_test", Outermost::Test, cells);
}

#[test]
fn a_test_judges_what_did_not_grow_in_rounds_inside_it() {
    let cells = &cells::ROUNDS_IN_A_TEST;
    assert_as_in_the_table("rounds_in_a_test", Outermost::Test, cells);
}

#[test]
fn a_test_beside_an_unchecked_one_judges_what_is_its_own() {
    let cells = &cells::BESIDE_OTHERS;
    assert_as_in_the_table("beside_an_unchecked_test", Outermost::Test, cells);
}

#[test]
fn a_scope_whose_report_is_asserted_judges_what_it_leaves() {
    let cells = &cells::UNCONFIRMED;
    assert_as_in_the_table("asserted_scope", Outermost::Inside, cells);
}

#[test]
fn a_program_judges_what_it_leaves() {
    let program = Path::new(env!("CARGO_BIN_EXE_checked-program"));
    if !program.exists() {
        // Only the tests were copied to this machine.
        return;
    }
    let (fake, directory) = (
        Fake::new(),
        tempfile::tempdir().expect("a temporary directory"),
    );
    for cell in &cells::CONFIRMED {
        let output = directory.path().join(cell.remains);
        let mut command = Command::new(program);
        command
            .args(["leave", cell.remains])
            .envs(fake.env())
            .env("GPU_LEAK_CHECK_CONFIG", configuration(directory.path()))
            .env("GPU_LEAK_CHECK_OUTPUT", &output)
            .env("GPU_LEAK_CHECK_SETTLE", "1ms")
            .env_remove("CI")
            .env_remove("NEXTEST");
        let child = Child::from(command.output().expect("a process"));
        let checked = checked::read(child, &output);
        let (found, why, output) = (checked.report().status, cell.why, checked.output());
        assert_eq!(
            found.name(),
            cell.verdict,
            "{}: {why}\n{output}",
            cell.remains
        );
        let success = checked.child.status.success();
        assert_eq!(
            success,
            !is_failure(cell.verdict),
            "{}\n{output}",
            cell.remains
        );
    }
}
