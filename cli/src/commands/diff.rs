//! `cargo gpu-leak diff`: what changed between two runs.

use crate::arguments::Diff;
use crate::comparison::{DiffStatus, compare};
use crate::exit::{Exit, ExitResult};
use crate::output::{Stream, print, wrapped};
use crate::overview::Overview;
use crate::run::Run;

/// The name of each status, in the order in which they are printed.
pub(super) const STATUSES: [(DiffStatus, &str); 5] = [
    (DiffStatus::New, "new"),
    (DiffStatus::Grown, "grown"),
    (DiffStatus::Known, "known"),
    (DiffStatus::NotMeasuredAgain, "not measured again"),
    (DiffStatus::Fixed, "fixed"),
];

pub(crate) fn run(args: &Diff) -> ExitResult<Exit> {
    let old = Run::read(std::slice::from_ref(&args.old))?;
    let new = Run::read(std::slice::from_ref(&args.new))?;
    new.must_differ_from(&old)?;
    old.say_problems();
    new.say_problems();
    let changes = compare(&old, &new);
    print(&rendered(&changes, Stream::Output.width()));
    Ok(exit(&changes, &old, &new))
}

fn exit(changes: &[(DiffStatus, String)], old: &Run, new: &Run) -> Exit {
    let is_worse = |status| matches!(status, DiffStatus::New | DiffStatus::Grown);
    let is_readable = old.problems.is_empty() && new.problems.is_empty();
    let overview = Overview::of(new);
    if changes.iter().any(|(status, _)| is_worse(*status)) {
        Exit::Findings
    } else if is_readable && overview.has_measured() && overview.aborted.is_empty() {
        Exit::Clean
    } else {
        Exit::Unmeasured
    }
}

fn rendered(changes: &[(DiffStatus, String)], width: usize) -> String {
    let mut lines = Vec::new();
    for (status, name) in STATUSES {
        let of_it: Vec<_> = changes.iter().filter(|(of, _)| *of == status).collect();
        lines.push(format!("{name}: {}", of_it.len()));
        for (_, line) in of_it {
            lines.extend(wrapped(line, 2, 4, width));
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
    use gpu_leak_check::report::run_file::Began;

    use super::{compare, exit, rendered};
    use crate::exit::Exit;
    use crate::render::sample::{self, MIB};
    use crate::run::Run;

    #[test]
    fn each_finding_has_its_status() {
        let leak =
            |function: &str, count| sample::finding(FindingKind::Leaked, function, count, MIB);
        let old = sample::run(vec![
            sample::with("a", &[leak("kept", 1), leak("grows", 1)]),
            sample::with("b", &[leak("fixed", 1)]),
            sample::with("c", &[leak("unseen", 1)]),
        ]);
        let new = sample::run(vec![
            sample::with("a", &[leak("kept", 1), leak("grows", 3)]),
            sample::report("b", CheckStatus::Clean),
            sample::report("c", CheckStatus::NotMeasured),
            sample::with("d", &[leak("fresh", 1)]),
        ]);
        insta::assert_snapshot!(rendered(&compare(&old, &new), 100));
    }

    #[test]
    fn a_run_that_measured_nothing_or_cannot_be_read_is_not_better() {
        let leak = sample::finding(FindingKind::Leaked, "kept", 1, MIB);
        let old = sample::run(vec![sample::with("a", &[leak])]);
        let with = |status| sample::run(vec![sample::report("a", status)]);
        let damaged = Run {
            problems: vec!["it is damaged".to_owned()],
            ..with(CheckStatus::Clean)
        };
        let exit = |new| exit(&compare(&old, &new), &old, &new);
        assert_eq!(exit(with(CheckStatus::Clean)), Exit::Clean);
        assert_eq!(exit(with(CheckStatus::NotMeasured)), Exit::Unmeasured);
        assert_eq!(exit(damaged), Exit::Unmeasured);
    }

    #[test]
    fn a_run_with_an_aborted_test_is_not_better() {
        let clean = || sample::run(vec![sample::report("a", CheckStatus::Clean)]);
        let mut new = clean();
        new.processes[0].file.aborted.push(Began {
            test: "b".to_owned(),
            file: String::new(),
            line: 1,
        });
        assert_eq!(exit(&[], &clean(), &new), Exit::Unmeasured);
    }
}
