//! `--deny`: findings that fail no test, and entries of the configuration file that allow nothing.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use gpu_leak_check::__command::allow_entries;
use gpu_leak_check::report::escape;
use gpu_leak_check::report::model::AllowedBy;

use crate::arguments::{Deny, Judging};
use crate::exit::{Failure, Outcome};
use crate::output::say;
use crate::overview::{Overview, identity};
use crate::run::{self, Run};
use crate::workspace::{self, CONFIG};

/// What is denied in a run that was read from `folders`, a sentence each.
pub(crate) fn denied(
    overview: &Overview<'_>,
    judging: &Judging,
    folders: &[PathBuf],
) -> Outcome<Vec<String>> {
    let run = overview.run;
    let mut denied = Vec::new();
    if judging.deny.contains(&Deny::Expired) {
        denied.extend(expired(run));
    }
    if judging.deny.contains(&Deny::New) {
        denied.extend(new(overview, judging.against.as_deref(), folders)?);
    }
    if judging.deny.contains(&Deny::Unused) {
        denied.extend(unused(overview)?);
    }
    if judging.deny.contains(&Deny::Warned) {
        denied.extend(warned(run));
    }
    Ok(denied)
}

/// The entries that allow findings of the run.
fn entries_in_use(run: &Run) -> impl Iterator<Item = &AllowedBy> {
    let findings = run.reports().flat_map(|report| &report.findings);
    findings.filter_map(|finding| finding.allowed_by.as_ref())
}

fn expired(run: &Run) -> Vec<String> {
    let mut expired: Vec<_> = entries_in_use(run)
        .filter_map(|entry| Some((&entry.stands_in, entry.expired.as_ref()?)))
        .map(|(place, day)| {
            let place = escape::name(place);
            format!(
                "{place} allows a finding but expired on {}",
                escape::name(day)
            )
        })
        .collect();
    expired.sort_unstable();
    expired.dedup();
    expired
}

/// The findings that the older run does not have, whatever their kind.
fn new(
    overview: &Overview<'_>,
    against: Option<&Path>,
    folders: &[PathBuf],
) -> Outcome<Vec<String>> {
    let older = match against {
        Some(folder) => folder.to_owned(),
        None => run_before(folders)?,
    };
    let older = Run::read(&[older])?;
    Ok(added(overview, &Overview::of(&older)))
}

/// A sentence for each finding that is not among those of the older run.
fn added(overview: &Overview<'_>, older: &Overview<'_>) -> Vec<String> {
    let identities = older.groups.iter().map(|group| identity(&group.finding));
    let known: HashSet<_> = identities.collect();
    let findings = overview.groups.iter().map(|group| &group.finding);
    let new = findings.filter(|finding| !known.contains(&identity(finding)));
    let sentences = new.map(|finding| {
        format!(
            "new: {}: {} at {}",
            finding.kind.name(),
            gpu_leak_check::report::what(finding),
            finding.site.location()
        )
    });
    sentences.collect()
}

/// The newest run of the workspace that is not one of `folders`.
fn run_before(folders: &[PathBuf]) -> Outcome<PathBuf> {
    let absolute = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    let these: Vec<_> = folders.iter().map(absolute).collect();
    let runs = run::newest_first(&workspace::runs()?);
    let mut others = runs
        .into_iter()
        .filter(|run| !these.contains(&absolute(run)));
    others.next().ok_or_else(|| {
        Failure::usage("there is no run before this one: name one with --against FOLDER")
    })
}

/// The checks whose findings fail no test because of the policy.
fn warned(run: &Run) -> Vec<String> {
    let warned = run.reports().filter(|report| report.is_only_warned());
    warned
        .map(|report| {
            format!(
                "{}: {}, and `on_leak` only warns about it",
                escape::name(&report.test),
                report.status.name()
            )
        })
        .collect()
}

/// The entries of the configuration file that allow no finding of the run. This cannot be said of a run
/// that is incomplete.
fn unused(overview: &Overview<'_>) -> Outcome<Vec<String>> {
    let Some((path, shown)) = workspace::configuration() else {
        return Err(Failure::usage(format!(
            "there is no {CONFIG} from here up to the workspace, so nothing in it can be unused"
        )));
    };
    if overview.is_blind() || !overview.aborted.is_empty() {
        say(
            "note: unused entries are not denied: this run has checks that did not end, did not \
             measure or cannot be read, and those may need them",
        );
        return Ok(Vec::new());
    }
    let used: Vec<_> = entries_in_use(overview.run)
        .map(|entry| &*entry.stands_in)
        .collect();
    let entries = allow_entries(&path, &shown).map_err(Failure::usage)?;
    let unused = entries
        .into_iter()
        .filter(|entry| !used.contains(&&*entry.stands_in));
    Ok(unused
        .map(|entry| {
            let reason = escape::sentence(&entry.reason);
            format!("{} allowed nothing in this run ({reason})", entry.stands_in)
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use gpu_leak_check::ledger::{Kind, Layer, Place};
    use gpu_leak_check::report::model::{Finding, FindingKind, Site};

    use super::added;
    use crate::overview::Overview;
    use crate::render::sample;

    #[test]
    fn findings_without_a_stack_are_told_apart() {
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
        let new_ones = added(&Overview::of(&new), &Overview::of(&old));
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
