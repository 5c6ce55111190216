//! `cargo gpu-leak allow`: entries of the configuration file for the leaks of a run. Each entry is
//! for one call site. Its limits are the amounts that a test leaves there in this run, so that
//! anything more fails.

mod configuration;
mod diff;
mod merge;
mod sites;

use std::collections::{BTreeMap, BTreeSet};

use gpu_leak_check::__command::is_reason;
use gpu_leak_check::report::check_report::{Finding, FindingKind};
use gpu_leak_check::report::escape;
use gpu_leak_check::units::quantity;

use self::configuration::Configuration;
use self::sites::{exceeded, is_in, site_of};
use crate::arguments::Allow;
use crate::exit::{Exit, ExitResult, Failure};
use crate::output::{say, test_names};
use crate::overview::{Group, Overview};
use crate::run::Run;
use crate::run_directories;

pub(crate) fn run(args: &Allow) -> ExitResult<Exit> {
    let mut run = Run::read(&run_directories::chosen_or_newest(&args.from)?)?;
    run.say_problems();
    let file = Configuration::read()?;
    for other in set_others_aside(&mut run, &file.shown) {
        let other = escape::name(&other);
        say(format_args!(
            "note: no entry for the tests that {other} configures: run this command with \
             GPU_LEAK_CHECK_CONFIG={other}"
        ));
    }
    let overview = Overview::of(&run);
    let others: Vec<_> = overview
        .groups
        .iter()
        .filter(|group| group.finding.kind.is_failure() && site_of(&group.finding).is_none())
        .collect();
    for sentence in refused(&others) {
        say(format_args!("note: {sentence}"));
    }
    let unexpected: Vec<_> = overview.unexpected.iter().map(|it| &*it.test).collect();
    if !unexpected.is_empty() {
        say(format_args!(
            "note: no entry for {} (unexpected): the test itself states what must leak, so change \
             its `expect` option",
            test_names(&unexpected, 5)
        ));
    }
    let reason = args.reason.as_deref().unwrap_or_default();
    for place in exceeded(&run, &file.shown, &file.entries).others {
        let what = match is_in(place, &file.shown) {
            true => "no entry in the file matches them now, so run these tests again",
            false => "raise those limits instead of adding an entry",
        };
        let entry = escape::name(place);
        say(format_args!(
            "note: some findings exceed the limits of {entry}: {what}"
        ));
    }
    let (new, merged) = file.with_leaks_of(&run, reason)?;
    if !args.write {
        file.print_changes(&run, reason)?;
        return Ok(Exit::Clean);
    }
    if merged.added > 0 && !is_reason(reason) {
        return Err(Failure::usage(
            "--reason must say why these leaks are allowed",
        ));
    }
    file.write(&new)?;
    say(format_args!(
        "{}: {}",
        file.path.display(),
        merged.summary()
    ));
    Ok(Exit::Clean)
}

/// Removes the reports of tests to which a file other than `shown` applies, since entries in
/// `shown` would not apply to these tests. Returns the other files whose tests have failures.
fn set_others_aside(run: &mut Run, shown: &str) -> BTreeSet<String> {
    let mut others = BTreeSet::new();
    for process in &mut run.processes {
        process.file.reports.retain(|report| {
            let other = report.configured_by.as_ref().filter(|by| *by != shown);
            if report.findings.iter().any(Finding::is_failure) {
                others.extend(other.cloned());
            }
            other.is_none()
        });
    }
    others
}

/// Says why there are no entries for these findings, and what to do instead.
fn refused(groups: &[&Group<'_>]) -> Vec<String> {
    let mut by_kind: BTreeMap<FindingKind, u64> = BTreeMap::new();
    for group in groups {
        *by_kind.entry(group.finding.kind).or_default() += 1;
    }
    let sentences = by_kind.into_iter().map(|(kind, count)| {
        let why = match kind {
            FindingKind::FailedFree => "a failed free is always a bug: fix the call",
            FindingKind::Retained => {
                "reserved memory has no call site, so no entry can match it: set \
                 `reserved_tolerance` to the number of bytes that may remain reserved"
            }
            FindingKind::OverBudget => {
                "the test itself sets this limit: raise it, or allocate less"
            }
            _ => {
                "only a probe counts this memory, so it has no call site: set `tolerance` to the \
                 number of bytes that may remain allocated"
            }
        };
        let findings = quantity(count, "finding");
        format!("no entry for {findings} ({}): {why}", kind.name())
    });
    sentences.collect()
}

#[cfg(test)]
mod tests {
    use gpu_leak_check::__command::allow_entries;
    use gpu_leak_check::ledger::{Kind, Layer, Place};
    use gpu_leak_check::report::check_report::{CheckStatus, Finding, FindingKind, Report, Site};
    use toml_edit::DocumentMut;

    use super::merge::merge;
    use super::sites::{exceeded, leaking_sites};
    use super::{refused, set_others_aside, site_of};
    use crate::overview::Overview;
    use crate::render::sample;

    /// With an entry, nothing would count as leaked, which is not what the test expects either.
    #[test]
    fn a_test_that_expects_another_leak_gets_no_entry() {
        let leak = sample::finding(FindingKind::Leaked, "optim::step", 2, 64);
        let unexpected = Report {
            status: CheckStatus::Unexpected,
            ..sample::with("a", std::slice::from_ref(&leak))
        };
        let run = sample::run(vec![unexpected, sample::with("b", &[leak])]);
        let sites = leaking_sites(&run);
        let tests = sites.iter().flat_map(|(_, site)| site.left.keys());
        assert_eq!(tests.collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn a_limit_is_not_raised_for_a_test_that_expects_another_leak() {
        let leak = Finding {
            exceeds: Some("gpu-leak-check.toml:1".to_owned()),
            ..sample::finding(FindingKind::Leaked, "optim::step", 2, 64)
        };
        let file = tempfile::NamedTempFile::new().expect("a file");
        let entry = "[[allow]]\nat = \"optim::step\"\nup_to_count = 1\nreason = \"known before\"\n";
        std::fs::write(file.path(), entry).expect("a file");
        let entries = allow_entries(file.path(), "gpu-leak-check.toml").expect("entries");
        let raised = |status| {
            let report = Report {
                status,
                ..sample::with("a", std::slice::from_ref(&leak))
            };
            let run = sample::run(vec![report]);
            exceeded(&run, "gpu-leak-check.toml", &entries)
                .in_file
                .len()
        };
        assert_eq!(raised(CheckStatus::Found(FindingKind::Leaked)), 1);
        assert_eq!(raised(CheckStatus::Unexpected), 0);
    }

    /// The process may have freed this memory after its last snapshot.
    #[test]
    fn what_a_killed_program_held_at_its_last_snapshot_gets_no_entry() {
        let held = sample::finding(FindingKind::Leaked, "optim::step", 2, 64);
        let killed = Report {
            status: CheckStatus::Aborted,
            ..sample::with("./train", &[held])
        };
        assert_eq!(leaking_sites(&sample::run(vec![killed])).len(), 0);
    }

    /// An entry for a function also matches what callers in other files allocate through it.
    #[test]
    fn the_entries_of_a_run_allow_its_leaks() {
        let through_take = |kind| sample::finding(kind, "take", 1, 64);
        let mut in_take = through_take(FindingKind::Leaked);
        in_take.site.frames.truncate(1);
        for kind in [FindingKind::Leaked, FindingKind::FirstUse] {
            let findings = [in_take.clone(), through_take(kind)];
            let run = sample::run(vec![sample::with("a", &findings)]);
            let mut document = DocumentMut::new();
            merge(&mut document, &leaking_sites(&run), "known before").expect("entries");
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), document.to_string()).expect("a file");
            let entries = allow_entries(file.path(), "gpu-leak-check.toml").expect("entries");
            let mut left = vec![0; entries.len()];
            for finding in &findings {
                let entry = entries.iter().position(|it| it.is_about("a", finding));
                assert!(entry.is_some() || !finding.is_failure(), "{document}");
                left[entry.unwrap_or_default()] += finding.count;
            }
            let limits = entries.iter().map(|it| it.up_to_count.expect("a limit"));
            assert_eq!(left, Vec::from_iter(limits), "{document}");
        }
    }

    #[test]
    fn an_entry_names_the_function_and_the_line_that_the_report_names() {
        for (function, shown) in [("Adam::step", "Adam::step"), ("take", "train::epoch")] {
            let leak = sample::finding(FindingKind::Leaked, function, 2, 64);
            let (frame, _) = leak.shown_frames().unwrap();
            assert_eq!(frame.function.as_deref(), Some(shown));
            let run = sample::run(vec![sample::with("a", std::slice::from_ref(&leak))]);
            let [(key, site)] = &leaking_sites(&run)[..] else {
                panic!("one call site leaks")
            };
            assert_eq!(*key, ("at", shown.to_owned()));
            assert_eq!(Vec::from_iter(&site.locations), [&leak.location()]);
        }
    }

    #[test]
    fn a_test_that_another_file_configures_gets_no_entry() {
        let leak = sample::finding(FindingKind::Leaked, "optim::step", 2, 64);
        let by = |test: &str, file: Option<&str>| Report {
            configured_by: file.map(str::to_owned),
            ..sample::with(test, std::slice::from_ref(&leak))
        };
        let other = Some("optim/gpu-leak-check.toml");
        let mut run = sample::run(vec![
            by("a", other),
            by("b", Some("gpu-leak-check.toml")),
            by("c", None),
        ]);
        let others = set_others_aside(&mut run, "gpu-leak-check.toml");
        assert_eq!(Vec::from_iter(others), ["optim/gpu-leak-check.toml"]);
        let tests = run.reports().map(|report| &*report.test);
        assert_eq!(tests.collect::<Vec<_>>(), ["b", "c"]);
    }

    #[test]
    fn findings_without_a_stack_are_refused_with_an_alternative() {
        let layer = Layer::allocator("pool");
        let probed = Finding {
            resource: Some(Kind::Linear),
            ..Finding::new(FindingKind::Leaked, layer, Place::cuda(0), Site::default())
        };
        let reserve = Finding::new(
            FindingKind::Retained,
            layer,
            Place::cuda(0),
            Site::default(),
        );
        let run = sample::run(vec![sample::with("a", &[probed, reserve])]);
        let overview = Overview::of(&run);
        let mut findings = overview.groups.iter().map(|group| &group.finding);
        assert!(findings.all(|finding| site_of(finding).is_none()));
        let sentences = refused(&overview.groups.iter().collect::<Vec<_>>());
        assert_eq!(sentences.len(), 2, "{sentences:?}");
        assert!(sentences[0].contains("(leaked)") && sentences[0].contains("`tolerance`"));
        assert!(
            sentences[1].contains("(retained)") && sentences[1].contains("`reserved_tolerance`")
        );
    }
}
