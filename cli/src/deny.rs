//! `--deny` and `--strict`: conditions that fail the command although no test failed, and the
//! resulting exit code.

use std::collections::BTreeSet;
use std::path::PathBuf;

use gpu_leak_check::__command::{RunSettings, allow_entries, run_settings};
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind, Report};
use gpu_leak_check::report::escape;

use crate::arguments::{Deny, Judging};
use crate::comparison::{DiffStatus, compare};
use crate::entries::{configurations, expired, is_complete, slack, unmatched_in_file};
use crate::exit::{Exit, ExitResult, Failure};
use crate::output::say;
use crate::overview::Overview;
use crate::run::Run;
use crate::run_directories;
use crate::workspace;

/// The denied conditions of a run, one sentence each.
#[derive(Debug, Default)]
pub(crate) struct Denied {
    /// Findings and conditions that the run should not have.
    findings: Vec<String>,
    /// Checks that could not be measured.
    unmeasured: Vec<String>,
}

impl Denied {
    /// Returns the denied conditions of a run. `is_part` says whether the run covers only part of
    /// the suite, in which case entries of the configuration file may match nothing. `older` is the
    /// run that [`Judging::older`] returned.
    pub(crate) fn in_run(
        overview: &Overview<'_>,
        judging: &Judging,
        is_part: bool,
        older: Option<&Run>,
    ) -> ExitResult<Self> {
        let run = overview.run;
        let settings = settings_of(run)?;
        let mut denied = Self::default();
        for what in judging.denied(settings) {
            match what {
                Deny::Unmeasured => denied.unmeasured.extend(unmeasured(overview)),
                Deny::Unchecked => denied.findings.extend(unchecked(run)),
                Deny::Unmatched => denied.findings.extend(unmatched(overview, is_part)?),
                Deny::Aborted => denied.findings.extend(aborted(overview)),
                Deny::New => {
                    if let Some(older) = older {
                        older.say_problems();
                        denied.findings.extend(added(run, older));
                    }
                }
                Deny::Expired => denied.findings.extend(expired(run)),
                Deny::FirstUse => denied.findings.extend(first_use(run)),
                Deny::Warned => denied.findings.extend(warned(run)),
            }
        }
        Ok(denied)
    }

    /// Adds the condition that nothing was measured, unless unmeasured checks are already listed.
    /// The condition is denied if the run requires a GPU, or if unmeasured checks are denied and
    /// the settings do not switch checks off.
    pub(crate) fn add_without_checks(&mut self, judging: &Judging) -> ExitResult<()> {
        let settings = settings()?;
        let denies = judging.denied(settings).contains(&Deny::Unmeasured);
        let is_denied = settings.require || (denies && !settings.may_check_nothing);
        if is_denied && self.unmeasured.is_empty() {
            self.unmeasured
                .push("unmeasured: none of the checks measured anything".to_owned());
        }
        Ok(())
    }

    /// Prints notes about conditions of the whole suite that are not denied.
    pub(crate) fn say_notes(overview: &Overview<'_>, judging: &Judging) -> ExitResult<()> {
        if !is_complete(overview) {
            return Ok(());
        }
        let is_denied = judging
            .denied(settings_of(overview.run)?)
            .contains(&Deny::Unmatched);
        let mut notes = Vec::new();
        for (shown, path) in configurations(overview.run) {
            if !is_denied {
                notes.extend(unmatched_in_file(overview.run, &path, &shown)?);
            }
            let entries = allow_entries(&path, &shown).map_err(Failure::usage)?;
            notes.extend(entries.iter().filter_map(|it| slack(overview.run, it)));
        }
        for note in notes {
            say(format_args!("note: {note}"));
        }
        Ok(())
    }

    /// Prints the denied conditions.
    pub(crate) fn say(&self) {
        for sentence in self.findings.iter().chain(&self.unmeasured) {
            say(format_args!("denied: {sentence}"));
        }
    }

    /// Returns the exit of a command that can fail only because of denied conditions.
    pub(crate) fn exit(&self) -> Exit {
        match (self.findings.is_empty(), self.unmeasured.is_empty()) {
            (false, _) => Exit::Findings,
            (true, false) => Exit::Unmeasured,
            (true, true) => Exit::Clean,
        }
    }

    /// Returns how the command ends after this run.
    pub(crate) fn exit_of(&self, overview: &Overview<'_>) -> Exit {
        if overview.has_findings() {
            return Exit::Findings;
        }
        let is_blind = !overview.has_measured() || !overview.run.problems.is_empty();
        match self.exit() {
            Exit::Clean if is_blind || overview.fails_without_a_result() => Exit::Unmeasured,
            exit => exit,
        }
    }
}

impl Judging {
    /// Returns the older run for `--deny new`. `files` are the files of the run that is compared
    /// with it; the list is empty if that run has not begun.
    pub(crate) fn older(&self, files: &[PathBuf]) -> ExitResult<Option<Run>> {
        if !self.deny.contains(&Deny::New) {
            return match self.against {
                Some(_) => Err(Failure::usage("--against has no effect without --deny new")),
                None => Ok(None),
            };
        }
        let older = match &self.against {
            Some(directory) => directory.clone(),
            None => run_directories::before(files)?.ok_or_else(|| {
                Failure::usage(
                    "there is no earlier run to compare with: name one with --against DIRECTORY",
                )
            })?,
        };
        Run::read(&[older]).map(Some)
    }

    /// Returns the conditions denied by the command line and by `strict` in the configuration file.
    fn denied(&self, settings: RunSettings) -> BTreeSet<Deny> {
        let mut denied: BTreeSet<_> = self.deny.iter().copied().collect();
        if self.strict || settings.strict {
            denied.extend([
                Deny::Unmeasured,
                Deny::Unchecked,
                Deny::Unmatched,
                Deny::Aborted,
            ]);
        }
        denied
    }
}

/// Returns the settings of runs that are started in the current directory.
pub(crate) fn settings() -> ExitResult<RunSettings> {
    let file = workspace::configuration();
    let file = file.as_ref();
    run_settings(file.map(|(path, shown)| (&**path, &**shown))).map_err(Failure::usage)
}

/// Returns [`settings`], and sets `strict` if any configuration file of `run` does.
fn settings_of(run: &Run) -> ExitResult<RunSettings> {
    let mut settings = settings()?;
    for (shown, path) in configurations(run) {
        let file = run_settings(Some((&path, &shown))).map_err(Failure::usage)?;
        settings.strict |= file.strict;
    }
    Ok(settings)
}

/// Returns the checks that have no result, and the files that could not be read.
fn unmeasured(overview: &Overview<'_>) -> Vec<String> {
    let checks = overview.unmeasured.iter().map(|report| {
        let why = report.reason.as_ref().map_or("", |reason| &reason.what);
        format!(
            "unmeasured: {}: {}",
            escape::name(&report.test),
            escape::sentence(why)
        )
    });
    let problems = overview.run.problems.iter();
    let problems = problems.map(|problem| format!("unmeasured: {problem}"));
    checks.chain(problems).collect()
}

/// Returns the tests and threads that used a GPU or reported an allocation without a check.
fn unchecked(run: &Run) -> Vec<String> {
    let unchecked = run.unchecked().map(|(program, name)| {
        format!(
            "unchecked: {} of {} created resources outside any check",
            escape::name(name),
            escape::name(program)
        )
    });
    unchecked.collect()
}

/// Returns the checks that did not end.
fn aborted(overview: &Overview<'_>) -> Vec<String> {
    let aborted = overview.aborted.iter();
    aborted
        .map(|began| format!("aborted: {}", escape::name(&began.test)))
        .collect()
}

/// Returns the checks whose tests create something once and keep it.
fn first_use(run: &Run) -> Vec<String> {
    let is_first_use = |report: &&Report| {
        let mut kinds = report.findings.iter().map(|finding| finding.kind);
        report.status == CheckStatus::Found(FindingKind::FirstUse)
            || kinds.any(|kind| kind == FindingKind::FirstUse)
    };
    let reports = run.reports().filter(is_first_use);
    reports
        .map(|report| format!("first-use: {}", escape::name(&report.test)))
        .collect()
}

/// Returns a sentence for each finding that is not in the older run, or that did not make a
/// test fail there.
fn added(run: &Run, older: &Run) -> Vec<String> {
    let changes = compare(older, run).into_iter();
    let new = changes.filter(|(status, _)| *status == DiffStatus::New);
    new.map(|(_, line)| format!("new: {line}")).collect()
}

/// Returns the checks with findings that, because of the policy, do not make a test fail.
fn warned(run: &Run) -> Vec<String> {
    let warned = run.reports().filter(|report| report.is_only_warned());
    warned
        .map(|report| {
            format!(
                "warned: {}: {}, but `on_leak` is \"warn\"",
                escape::name(&report.test),
                report.status.name()
            )
        })
        .collect()
}

/// Returns settings without effect: entries of the configuration file that allow no finding of the
/// run, overrides that match none of its tests, and budgets for layers that were never reported.
/// For an incomplete run, settings of the file are not included.
fn unmatched(overview: &Overview<'_>, is_part: bool) -> ExitResult<Vec<String>> {
    let run = overview.run;
    let budgets = run.reports().filter_map(|report| {
        let unbound = report.unbound.as_ref()?;
        Some(format!(
            "unmatched: {}: {}",
            escape::name(&report.test),
            escape::sentence(unbound)
        ))
    });
    let mut sentences: Vec<_> = budgets.collect();
    for (file, path) in configurations(run) {
        match is_complete(overview) && !is_part {
            true => sentences.extend(unmatched_in_file(run, &path, &file)?),
            false => say(format_args!(
                "note: unused entries in {} were not reported, because this run covers only part \
                 of the suite, or some of its checks did not end, measured nothing or could not be \
                 read",
                escape::name(&file)
            )),
        }
    }
    Ok(sentences)
}

#[cfg(test)]
mod tests {
    use gpu_leak_check::ledger::{Kind, Layer, Place};
    use gpu_leak_check::report::check_report::{
        CheckStatus, Confirmation, Finding, FindingKind, Outcome, Report, Site,
    };

    use super::{Denied, added};
    use crate::exit::Exit;
    use crate::overview::Overview;
    use crate::render::sample;

    #[test]
    fn a_check_that_failed_because_it_has_no_result_is_unmeasured() {
        let leak = Finding {
            confirmed: Some(Confirmation::NotRepeatable),
            ..sample::finding(FindingKind::Leaked, "f", 1, 64)
        };
        let exit = |outcome| {
            let inconclusive = Report {
                status: CheckStatus::Inconclusive,
                outcome: Some(outcome),
                ..sample::with("a", std::slice::from_ref(&leak))
            };
            Denied::default().exit_of(&Overview::of(&sample::run(vec![inconclusive])))
        };
        assert_eq!(exit(Outcome::Fail), Exit::Unmeasured);
        assert_eq!(exit(Outcome::Warn), Exit::Clean);
    }

    #[test]
    fn a_finding_that_failed_no_test_before_is_new() {
        let with = |kind| {
            let finding = sample::finding(kind, "f", 1, 64);
            sample::run(vec![sample::with("a", &[finding])])
        };
        let leaked = with(FindingKind::Leaked);
        for before in [FindingKind::FirstUse, FindingKind::Allowed] {
            let new = added(&leaked, &with(before));
            assert_eq!(new.len(), 1, "{before:?}");
        }
        assert_eq!(added(&with(FindingKind::FirstUse), &leaked), [""; 0]);
    }

    #[test]
    fn findings_without_a_stack_are_distinguished() {
        let stackless = |kind, layer: &str, resource| Finding {
            resource,
            ..Finding::new(
                kind,
                Layer::allocator(layer),
                Place::cuda(0),
                Site::default(),
            )
        };
        let old = stackless(FindingKind::Retained, "pool", None);
        let new = [
            old.clone(),
            stackless(FindingKind::Retained, "arena", None),
            stackless(FindingKind::Leaked, "pool", Some(Kind::Linear)),
        ];
        let old = sample::run(vec![sample::with("a", &[old])]);
        let new = sample::run(vec![sample::with("a", &new)]);
        let new_ones = added(&new, &old);
        assert_eq!(new_ones.len(), 2, "{new_ones:?}");
        assert!(
            new_ones.iter().any(|new| new.contains("new: leaked")),
            "{new_ones:?}"
        );
        assert!(
            new_ones.iter().any(|new| new.contains("arena")),
            "{new_ones:?}"
        );
    }
}
