//! The call sites that leak in a run, and how much each test leaves there.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use gpu_leak_check::__command::{Pattern, Suppression};
use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::{CheckStatus, Finding, Left, Outcome, Report};

use crate::run::Run;

/// The entries whose limits were too low for findings of a run.
#[derive(Debug, Default)]
pub(super) struct Exceeded<'a> {
    /// For each such entry of the file, by its index, the largest amount that one test leaves of
    /// the resources that the entry matches, and their kinds.
    pub(super) in_file: BTreeMap<usize, (Left, Kinds)>,
    /// The places where the other exceeded entries stood at the time of the run.
    pub(super) others: BTreeSet<&'a str>,
}

/// Returns the entries whose limits were too low. `entries` are the entries of the file whose path
/// reports show as `shown`. The entry for a finding is looked up in `entries` again, because its
/// line may have changed since the run.
pub(super) fn exceeded<'a>(run: &'a Run, shown: &str, entries: &[Suppression]) -> Exceeded<'a> {
    let mut exceeded = Exceeded::default();
    for report in judged(run) {
        let mut in_this_test: BTreeMap<usize, Left> = BTreeMap::new();
        for finding in &report.findings {
            let Some(place) = finding.exceeds.as_deref() else {
                continue;
            };
            let is_in_file = is_in(place, shown);
            let decides = |entry: &Suppression| is_in_file && entry.is_about(&report.test, finding);
            let Some(entry) = entries.iter().position(decides) else {
                exceeded.others.insert(place);
                continue;
            };
            let sum = in_this_test.entry(entry).or_default();
            *sum = sum.plus(finding.amount());
            let (_, kinds) = exceeded.in_file.entry(entry).or_default();
            kinds.insert(finding.resource);
        }
        for (entry, left) in in_this_test {
            let (most, _) = exceeded.in_file.entry(entry).or_default();
            *most = most.most(left);
        }
    }
    exceeded
}

/// Returns the reports whose findings an entry may allow. In a test that expects leaks, or the
/// failure of a block, a leak that an entry allows would no longer count as expected. A program
/// that was killed may have freed what it held at its last snapshot.
fn judged(run: &Run) -> impl Iterator<Item = &Report> {
    run.reports().filter(|it| {
        !matches!(it.status, CheckStatus::Unexpected | CheckStatus::Aborted)
            && it.outcome != Some(Outcome::Pass)
    })
}

/// Whether an entry at `place`, such as `gpu-leak-check.toml:12`, is in the file `shown`.
pub(super) fn is_in(place: &str, shown: &str) -> bool {
    place
        .rsplit_once(':')
        .is_some_and(|(file, _)| file == shown)
}

/// Kinds of resources.
pub(super) type Kinds = BTreeSet<Option<Kind>>;

/// The key and the value by which an entry matches findings.
pub(super) type SiteKey = (&'static str, String);

#[derive(Debug, Default)]
pub(super) struct LeakingSite {
    /// The amount that each test leaks at the site.
    pub(super) left: BTreeMap<String, Left>,
    /// The kind of the site's worst finding, such as `leaked`.
    pub(super) kind: &'static str,
    /// The amount that the worst finding left, and its description, such as `4.00 KiB device
    /// memory`.
    pub(super) worst: (Left, String),
    /// The kinds of the leaked resources.
    pub(super) resources: Kinds,
    /// The source lines of the site's findings.
    pub(super) locations: BTreeSet<String>,
    /// Whether a program under `exec` leaks at the site. The name of such a program is its command
    /// line, which may change.
    pub(super) in_a_program: bool,
}

impl LeakingSite {
    /// Returns the largest amount that one test leaves.
    pub(super) fn bounds(&self) -> Left {
        let left = self.left.values().copied();
        left.fold(Left::default(), Left::most)
    }

    /// Adds the amount that another test leaves there.
    fn add(&mut self, other: Self) {
        self.left.extend(other.left);
        self.locations.extend(other.locations);
        self.resources.extend(other.resources);
    }
}

/// Returns the call site of a finding that an entry can allow: its function or, without symbols,
/// the fingerprint of its stack.
pub(super) fn site_of(finding: &Finding) -> Option<SiteKey> {
    let site = &finding.site;
    if !finding.can_be_allowed() || site.fingerprint.is_empty() {
        return None;
    }
    // An entry for a wrapper around the API would match all leaks of the program.
    let shown = site.outside_wrapper();
    let function = shown
        .user_frame()
        .and_then(|frame| frame.function.as_deref());
    Some(match function {
        Some(function) => ("at", function.to_owned()),
        None => ("fingerprint", site.fingerprint.clone()),
    })
}

/// Returns an entry for a call site, without limits; `None` if no entry can be written for it.
fn entry_at((word, text): &SiteKey) -> Option<Suppression> {
    Pattern::new(word, text).ok().map(Suppression::of_pattern)
}

/// Returns the call sites with leaks, listed once for each amount that a test leaves, so that an
/// increase in any test exceeds the limits for that test. Resources of first use at a site count
/// towards the limits, because the entry matches them too.
pub(super) fn leaking_sites(run: &Run) -> Vec<(SiteKey, LeakingSite)> {
    let mut sites: BTreeMap<(SiteKey, (u64, u64)), LeakingSite> = BTreeMap::new();
    for ((key, _), site) in leaking_tests(run) {
        // The name of a program varies, so one entry covers all of its runs.
        let amount = match site.in_a_program {
            true => (0, 0),
            false => (site.bounds().count, site.bounds().bytes),
        };
        match sites.entry((key, amount)) {
            Entry::Vacant(vacant) => {
                vacant.insert(site);
            }
            Entry::Occupied(mut first) => first.get_mut().add(site),
        }
    }
    let sites = sites.into_iter();
    sites.map(|((key, _), site)| (key, site)).collect()
}

/// Returns the call sites with leaks, by test.
fn leaking_tests(run: &Run) -> BTreeMap<(SiteKey, String), LeakingSite> {
    let mut sites: BTreeMap<(SiteKey, String), LeakingSite> = BTreeMap::new();
    for report in judged(run) {
        let mut in_this_test: BTreeMap<SiteKey, Vec<&Finding>> = BTreeMap::new();
        // A finding that exceeds an entry needs no new one: the limits of that entry are raised.
        let new = || report.findings.iter().filter(|it| it.exceeds.is_none());
        let failures = new().filter(|finding| finding.kind.is_failure());
        let keys: BTreeSet<_> = failures.filter_map(site_of).collect();
        let entries: Vec<_> = keys
            .into_iter()
            .filter_map(|it| Some((entry_at(&it)?, it)))
            .collect();
        for finding in new() {
            // The first entry that matches a finding decides. It may be one for another site: an
            // entry for a function also matches what other functions allocate through it.
            let mut entries = entries.iter();
            if let Some((_, key)) = entries.find(|(it, _)| it.is_about(&report.test, finding)) {
                in_this_test.entry(key.clone()).or_default().push(finding);
            }
        }
        for (key, findings) in in_this_test {
            let Some(worst) = findings.iter().find(|finding| finding.kind.is_failure()) else {
                continue;
            };
            let site = sites.entry((key, report.test.clone())).or_default();
            if site.kind.is_empty() {
                site.kind = worst.kind.name();
                site.worst = (worst.amount(), worst.what());
            }
            site.resources
                .extend(findings.iter().map(|finding| finding.resource));
            site.in_a_program |= report.is_of_a_program() && report.outcome.is_none();
            site.locations
                .extend(findings.iter().map(|finding| finding.location()));
            let sum = findings.iter().map(|finding| finding.amount()).sum();
            // Two programs may have tests of the same name.
            let left = site.left.entry(report.test.clone()).or_default();
            *left = left.most(sum);
        }
    }
    sites
}

/// Returns the noun for a resource of one of these kinds.
pub(super) fn noun(kinds: &Kinds) -> &'static str {
    let nouns = kinds
        .iter()
        .map(|kind| kind.map_or("allocation", Kind::noun));
    match Vec::from_iter(BTreeSet::from_iter(nouns))[..] {
        [noun] => noun,
        _ => "object",
    }
}
