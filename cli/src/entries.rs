//! Compares the entries of the configuration file with a run: finds entries that expired, that
//! match nothing, or that allow more than is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use gpu_leak_check::__command::{Suppression, allow_entries, is_for_test, unmatched_overrides};
use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::{AllowedBy, Finding, Report};
use gpu_leak_check::report::escape;
use gpu_leak_check::units::{count, quantity, size, total};

use crate::exit::{ExitResult, Failure};
use crate::output::{say, test_names};
use crate::overview::Overview;
use crate::run::Run;
use crate::workspace::{self, CONFIG};

/// Returns the entries that allow findings of the run.
fn entries_in_use(run: &Run) -> impl Iterator<Item = &AllowedBy> {
    let findings = run.reports().flat_map(|report| &report.findings);
    findings.filter_map(|finding| finding.allowed_by.as_ref())
}

pub(crate) fn expired(run: &Run) -> Vec<String> {
    let mut expired: Vec<_> = entries_in_use(run)
        .filter_map(|entry| Some((&entry.stands_in, entry.expired.as_ref()?)))
        .map(|(place, day)| {
            let place = escape::name(place);
            format!(
                "expired: the entry at {place} still allows a finding, but was valid only until {}",
                escape::name(day)
            )
        })
        .collect();
    expired.sort_unstable();
    expired.dedup();
    expired
}

/// Returns the configuration files of a run, each with its path as reports show it: the file that
/// applies here, and those of packages that have their own.
pub(crate) fn configurations(run: &Run) -> BTreeMap<String, PathBuf> {
    let here = workspace::configuration().into_iter();
    let mut files: BTreeMap<_, _> = here.map(|(path, shown)| (shown, path)).collect();
    let in_reports = run.reports().filter_map(|it| it.configured_by.as_ref());
    // A report from another user may name any file, but only configuration files are read.
    let is_configuration = |it: &&String| Path::new(it).file_name().is_some_and(|it| it == CONFIG);
    let others = in_reports.filter(|it| is_configuration(it) && !files.contains_key(*it));
    let others: BTreeSet<_> = others.collect();
    if !others.is_empty() {
        let root = workspace::root();
        files.extend(others.into_iter().map(|it| (it.clone(), root.join(it))));
    }
    // If the run comes from another machine, its files may not exist here.
    files.retain(|_, path| path.is_file());
    files
}

/// Returns whether every check of the run ended and measured. Otherwise it is not known whether an
/// entry is needed.
pub(crate) fn is_complete(overview: &Overview<'_>) -> bool {
    !overview.is_blind() && overview.aborted.is_empty()
}

/// Returns the entries and overrides of the configuration file that match nothing in a run of the
/// whole suite. If some of the tests of an entry did not run, a note about the entry is printed
/// instead, because another run may include ignored tests or enable more features.
pub(crate) fn unmatched_in_file(run: &Run, path: &Path, shown: &str) -> ExitResult<Vec<String>> {
    let findings = run.reports().flat_map(|report| &report.findings);
    let exceeded = findings.filter_map(|finding| finding.exceeds.as_deref());
    let used: Vec<_> = entries_in_use(run)
        .map(|entry| &*entry.stands_in)
        .chain(exceeded)
        .collect();
    let entries = allow_entries(path, shown).map_err(Failure::usage)?;
    let mut sentences = Vec::new();
    for entry in &entries {
        if used.contains(&&*entry.stands_in) {
            continue;
        }
        let missing: Vec<_> = (entry.tests.iter().map(String::as_str))
            .filter(|test| tests_of(run, test).next().is_none())
            .collect();
        match &missing[..] {
            [] => sentences.push(unmatched_entry(entry)),
            missing => say(format_args!(
                "note: {} matched nothing, but {} did not run: remove tests that no longer exist \
                 from its `tests`",
                entry.stands_in,
                test_names(missing, 3)
            )),
        }
    }
    // A different file may apply to some tests of the run.
    let is_by_another = |by: &Option<String>| by.as_ref().is_some_and(|by| by != shown);
    let tests = run.reports().filter(|it| !is_by_another(&it.configured_by));
    let tests: Vec<_> = tests.map(|report| &*report.test).collect();
    let overrides = unmatched_overrides(path, shown, &tests).map_err(Failure::usage)?;
    sentences.extend(overrides.into_iter().map(|(stands_in, pattern)| {
        let pattern = escape::name(&pattern);
        format!("unmatched: the override at {stands_in} matches no test of this run ({pattern})")
    }));
    Ok(sentences)
}

/// Returns a sentence about an entry that matched nothing, with the remedy.
fn unmatched_entry(entry: &Suppression) -> String {
    let tests: Vec<_> = entry.tests.iter().map(String::as_str).collect();
    let tests = match &tests[..] {
        [] => String::new(),
        tests => format!(" in {}", test_names(tests, 3)),
    };
    let about = escape::name(&entry.matches.to_string());
    let reason = escape::sentence(&entry.reason);
    format!(
        "unmatched: {} ({about}{tests}; reason: {reason}) matched nothing in this run: remove the \
         entry",
        entry.stands_in
    )
}

/// Returns the reports of the tests that a pattern in an entry matches.
fn tests_of<'run>(run: &'run Run, pattern: &'run str) -> impl Iterator<Item = &'run Report> {
    run.reports()
        .filter(move |report| is_for_test(pattern, &report.test))
}

/// Says which limits to lower in an entry that allows clearly more than a run of the whole suite
/// left, and which tests of the entry left nothing.
pub(crate) fn slack(run: &Run, entry: &Suppression) -> Option<String> {
    let is_its = |finding: &&Finding| {
        let by = finding.allowed_by.as_ref();
        by.is_some_and(|by| by.stands_in == entry.stands_in)
    };
    let findings = || run.reports().flat_map(|report| &report.findings);
    let is_exceeded = findings().any(|it| it.exceeds.as_ref() == Some(&entry.stands_in));
    let have_all_run = (entry.tests.iter()).all(|it| tests_of(run, it).next().is_some());
    // An entry that matches nothing is reported as unmatched.
    if is_exceeded || !have_all_run || !findings().any(|it| is_its(&it)) {
        return None;
    }
    let most = |of: fn(&Finding) -> u64| {
        let sums = run
            .reports()
            .map(|report| total(report.findings.iter().filter(is_its).map(of)));
        sums.max().unwrap_or(0)
    };
    // A count that varies a little is no reason to lower a limit.
    let lower = |bound: Option<u64>, left: u64| {
        let bound = bound.filter(|bound| left > 0 && left <= bound / 2);
        bound.map(|bound| (bound, left))
    };
    let is_handle = |it: &Finding| it.resource.is_some_and(Kind::is_handle);
    let noun = if findings().any(|it| is_its(&it) && is_handle(it)) {
        "object"
    } else {
        "allocation"
    };
    let (mut allowed, mut left, mut lowered) = (Vec::new(), Vec::new(), Vec::new());
    if let Some((bound, now)) = lower(entry.up_to_count, most(|finding| finding.count)) {
        allowed.push(quantity(bound, noun));
        left.push(count(now));
        lowered.push(format!("up_to_count to {now}"));
    }
    if let Some((bound, now)) = lower(entry.up_to, most(|finding| finding.bytes)) {
        allowed.push(size(bound));
        left.push(size(now));
        lowered.push(format!("up_to to {now}"));
    }
    let clean = entry.tests.iter().map(String::as_str).filter(|pattern| {
        let mut findings = tests_of(run, pattern).flat_map(|report| &report.findings);
        !findings.any(|it| is_its(&it))
    });
    let clean: Vec<_> = clean.collect();
    let place = escape::name(&entry.stands_in);
    let these = match clean.len() {
        1 => "this name",
        _ => "these names",
    };
    let clean = (!clean.is_empty()).then(|| {
        let names = test_names(&clean, clean.len());
        format!("has nothing to allow in {names}: remove {these} from its `tests`")
    });
    match (&allowed[..], clean) {
        ([], clean) => clean.map(|clean| format!("{place} {clean}")),
        (_, clean) => Some(format!(
            "{place} allows up to {}, but no test left more than {}: lower {}{}",
            allowed.join(" and "),
            left.join(" and "),
            lowered.join(" and "),
            clean.map_or_else(String::new, |clean| format!("; it {clean}"))
        )),
    }
}
