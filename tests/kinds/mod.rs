//! Every kind of resource. A planted leak is found with its count, exact bytes, place and line. The
//! same work done correctly is clean a hundred times. A leak that ends with its context is still
//! reported.
//!
//! One table contains all kinds, and [`docs/kinds.md`](../../docs/kinds.md) is compared with it. On
//! a GPU, each test prints a line for that page.

mod docs;
pub(crate) mod planted;
mod row;
mod table;

use std::io::Write as _;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::{CheckStatus, Confirmation, Finding, FindingKind};
use gpu_leak_check::report::whole_device;
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;
use gpu_leak_tests::fake::Fake;
use gpu_leak_tests::gpu;

use planted::{context, contexts};
use row::{AtContextEnd, Row};
use table::ROWS;

/// The variable that tells a child process which row to run.
pub(crate) const ROW: &str = "PLANTED_ROW";
/// The prefix of the reason that a child prints if its machine cannot run the row.
const CANNOT: &str = "cannot here: ";

/// The names of all rows.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}

fn row_named(name: &str) -> &'static Row {
    let row = ROWS.iter().find(|row| row.name == name);
    row.unwrap_or_else(|| panic!("no row `{name}`"))
}

/// Returns the row of this child, after creating the row's prerequisites. If this machine cannot
/// run the row, prints the reason and returns `None`.
fn prepared() -> Option<&'static Row> {
    let row = row_of_this_child();
    context();
    if let Some(reason) = (row.obstacle)() {
        writeln!(std::io::stdout(), "{CANNOT}{reason}").expect("standard output is open");
        return None;
    }
    (row.prepare)();
    Some(row)
}

fn row_of_this_child() -> &'static Row {
    row_named(&std::env::var(ROW).expect("the parent names a row"))
}

#[test]
#[ignore = "run in a process of its own"]
fn child_that_leaks() {
    if prepared().is_some() {
        leaks();
    }
}

#[gpu_leak_check]
#[ignore = "run by a test that sets it up"]
#[test]
fn leaks() {
    context();
    (row_of_this_child().leak)();
}

#[test]
#[ignore = "run in a process of its own"]
fn child_that_is_fixed() {
    if prepared().is_some() {
        for _ in 0..ROUNDS {
            gives_back();
        }
    }
}

const ROUNDS: usize = 100;

#[gpu_leak_check]
#[ignore = "run by a test that sets it up"]
#[test]
fn gives_back() {
    context();
    (row_of_this_child().fixed)();
}

#[test]
#[ignore = "run in a process of its own"]
fn child_whose_context_ends() {
    if prepared().is_some() {
        leaves_it_to_the_context();
    }
}

#[gpu_leak_check]
#[ignore = "run by a test that sets it up"]
#[test]
fn leaves_it_to_the_context() {
    context();
    let own = contexts::own();
    (row_of_this_child().leak)();
    contexts::destroy(own);
}

/// Runs a row in a child process, on this machine's GPU if there is one, otherwise on the stand-in.
/// Returns `None` if the GPU cannot run the row.
fn run(child: &str, name: &str) -> Option<Checked> {
    let test = format!("kinds::{child}");
    let fake = Fake::new();
    let run = if gpu::is_present() {
        Run::of(&test)
    } else {
        fake.run(&test)
    };
    let checked = checked::finish(run.env(ROW, name));
    if let Some((_, reason)) = checked.child.stdout.split_once(CANNOT) {
        assert!(
            gpu::is_present(),
            "the stand-in can do everything\n{}",
            checked.output()
        );
        note(name, child, reason.lines().next().unwrap_or_default());
        return None;
    }
    Some(checked)
}

/// Prints a line for `docs/kinds.md` if there is a GPU.
fn note(name: &str, child: &str, what: &str) {
    if gpu::is_present() {
        let line = format!("kinds: {name}: {child}: {what}\n");
        std::io::stdout()
            .write_all(line.as_bytes())
            .expect("standard output is open");
    }
}

/// Returns the only finding of a test. Fails, with `hint` in the message, unless the finding agrees
/// with the row and failed the test.
fn assert_found<'a>(checked: &'a Checked, row: &Row, hint: &str) -> &'a Finding {
    let output = format!("{hint}{}", checked.output());
    assert!(
        !checked.child.status.success(),
        "a leak fails its test\n{output}"
    );
    let report = checked.report();
    let [finding] = &report.findings[..] else {
        panic!("{} findings\n{output}", report.findings.len());
    };
    assert_eq!(
        (report.status, finding.kind),
        (CheckStatus::Found(FindingKind::Leaked), FindingKind::Leaked),
        "{output}"
    );
    assert_eq!(
        (finding.resource, finding.count),
        (Some(row.kind), 1),
        "{output}"
    );
    assert_eq!(
        (finding.bytes, finding.place),
        (row.bytes, row.place()),
        "{output}"
    );
    let by_second_run = Some(Confirmation::by_second_run(1, row.bytes));
    assert_eq!(finding.confirmed, by_second_run, "{output}");
    let user = &finding.site.frames[finding.site.user.expect("a line of the user's")];
    let (file, line) = planted::line_of(row.mark());
    assert_eq!(
        (user.file.as_deref(), user.line),
        (Some(file.as_str()), Some(line)),
        "{output}"
    );
    finding
}

fn is_found(name: &str) {
    let row = row_named(name);
    let leaks = || run("child_that_leaks", name);
    // A process of another test may have ended between the two readings of the device.
    let checked = leaks().map(|checked| match exceeds_the_device(&checked) {
        true => leaks().unwrap_or(checked),
        false => checked,
    });
    if let Some(checked) = checked {
        let finding = assert_found(&checked, row, "");
        assert_device_is_accounted_for(&checked, name);
        note(
            name,
            "found",
            &format!(
                "{} × {}, {} bytes",
                finding.count,
                row.kind.name(),
                finding.bytes
            ),
        );
    }
}

/// Whether the report accounts for more memory than a device uses, although no other process uses
/// the device.
fn exceeds_the_device(checked: &Checked) -> bool {
    let whole = checked.report().devices.iter();
    let mut whole = whole.filter_map(|device| device.whole.as_ref());
    whole.any(|whole| whole.unexplained < 0 && gpu::is_alone(whole))
}

/// Fails unless the parts and the unexplained rest add up to the change of the whole device. The
/// rest may be negative only if other processes use the device.
fn assert_device_is_accounted_for(checked: &Checked, name: &str) {
    assert!(!exceeds_the_device(checked), "{}", checked.output());
    for device in &checked.report().devices {
        let Some(whole) = &device.whole else { continue };
        let parts: i64 = whole.parts.iter().map(|part| part.bytes).sum();
        let change = whole.after.cast_signed() - whole.baseline.cast_signed();
        assert_eq!(parts + whole.unexplained, change, "{}", checked.output());
        for line in whole_device(whole) {
            note(name, "device", &line);
        }
    }
}

fn is_quiet_when_fixed(name: &str) {
    if let Some(checked) = run("child_that_is_fixed", name) {
        assert_eq!(checked.reports.len(), ROUNDS, "{}", checked.output());
        checked.assert_clean();
        note(name, "quiet", &format!("{ROUNDS} checks"));
    }
}

fn is_reported_when_its_context_ends(name: &str) {
    let row = row_named(name);
    match row.at_context_end {
        AtContextEnd::NoContextOfItsOwn => return,
        AtContextEnd::Aborts if gpu::is_present() => {
            return note(name, "context", "the driver frees it twice");
        }
        AtContextEnd::Dies | AtContextEnd::Aborts | AtContextEnd::Stays => {}
    }
    if let Some(checked) = run("child_whose_context_ends", name) {
        let hint = format!(
            "whether {:?} ends with its context must be the same in harness/core/src/ledger/kind.rs, \
             in tests/kinds/table.rs (`stays()`), and in `tear_down` of \
             tests/fake-driver/cuda/src/context.rs\n",
            row.kind
        );
        let finding = assert_found(&checked, row, &hint);
        let mark = "freed only because its context was destroyed";
        let marked = finding.ended.as_ref().is_some_and(|it| it.how == mark);
        let dies = row.at_context_end != AtContextEnd::Stays;
        assert_eq!(marked, dies, "{hint}{}", checked.output());
        note(
            name,
            "context",
            if dies { "ends with it" } else { "outlives it" },
        );
    }
}
