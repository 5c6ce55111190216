//! `cargo gpu-leak allow`: entries of the configuration file for the leaks of a run. Each is about one
//! call site and has what it leaves today as its bounds, so that more of it fails.

mod diff;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gpu_leak_check::__command::{AllowEntry, allow_entries};
use gpu_leak_check::report::check_report::{Finding, FindingKind, Left};
use gpu_leak_check::report::escape;
use gpu_leak_check::units::{self, quantity, size};
use tempfile::Builder;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, RawString, Table, value};

use crate::arguments::Allow;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{print, say};
use crate::overview::{Group, Overview};
use crate::run::{self, Run};
use crate::workspace::{self, CONFIG};

pub(crate) fn run(asked: &Allow) -> Outcome<Exit> {
    let run = Run::read(&run::chosen_or_newest(&asked.from)?)?;
    let overview = Overview::of(&run);
    let others: Vec<_> = overview
        .groups
        .iter()
        .filter(|group| group.finding.kind.is_failure() && site_of(&group.finding).is_none())
        .collect();
    for sentence in refused(&others) {
        say(format_args!("note: {sentence}"));
    }
    let reason = asked.reason.as_deref().unwrap_or_default();
    let file = Configuration::read()?;
    for entry in exceeded(&run).keys() {
        if !file.entries.iter().any(|known| known.stands_in == *entry) {
            let entry = escape::name(entry);
            say(format_args!(
                "note: what exceeds the bounds of {entry} needs no entry but higher bounds there"
            ));
        }
    }
    let (new, merged) = file.with_leaks_of(&run, reason)?;
    if !asked.write {
        file.print_changes(&run, reason)?;
        return Ok(Exit::Clean);
    }
    if merged.added > 0 && !is_in_words(reason) {
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

/// `…` is what the documentation's examples have in place of a reason.
fn is_in_words(reason: &str) -> bool {
    reason.chars().any(char::is_alphanumeric)
}

/// The configuration file of the workspace, which need not exist.
struct Configuration {
    path: PathBuf,
    /// Its path as reports show it.
    shown: String,
    text: String,
    /// Its entries, in its order.
    entries: Vec<AllowEntry>,
}

impl Configuration {
    fn read() -> Outcome<Self> {
        let (path, shown) = workspace::configuration()
            .unwrap_or_else(|| (workspace::root().join(CONFIG), CONFIG.to_owned()));
        let (text, entries) = if path.exists() {
            let text = fs::read_to_string(&path)
                .map_err(|why| Failure::usage(format!("{}: {why}", path.display())))?;
            let entries = allow_entries(&path, &shown).map_err(Failure::usage)?;
            (text, entries)
        } else {
            (String::new(), Vec::new())
        };
        Ok(Self {
            path,
            shown,
            text,
            entries,
        })
    }

    /// The file with the bounds raised that `run` exceeds, and with entries for its other leaks.
    fn with_leaks_of(&self, run: &Run, reason: &str) -> Outcome<(DocumentMut, Merged)> {
        let wrong = |why: String| Failure::usage(format!("{}: {why}", self.path.display()));
        let mut document = self.document()?;
        let raised = self.raise_exceeded(&mut document, run);
        let sites = leaking_sites(run);
        let mut merged = merge(&mut document, &sites, reason).map_err(wrong)?;
        merged.raised += raised;
        Ok((document, merged))
    }

    fn document(&self) -> Outcome<DocumentMut> {
        let document = self.text.parse();
        document.map_err(|why| Failure::usage(format!("{}: {why}", self.path.display())))
    }

    /// Raises the bounds of the entries that decided about findings of `run` and were too small, and returns
    /// how many those are. A later entry for the same would never decide.
    fn raise_exceeded(&self, document: &mut DocumentMut, run: &Run) -> usize {
        let tables = document
            .get_mut("allow")
            .and_then(Item::as_array_of_tables_mut);
        let mut tables = tables.into_iter().flat_map(|tables| tables.iter_mut());
        let mut raised = 0;
        let exceeded = exceeded(run);
        for entry in &self.entries {
            let Some(table) = tables.next() else { break };
            if let Some((left, noun)) = exceeded.get(&*entry.stands_in) {
                raised += usize::from(raise_bounds(table, entry.up_to, *left, *noun));
            }
        }
        raised
    }

    /// Prints the entries to add, and says which lines of the file to change.
    fn print_changes(&self, run: &Run, reason: &str) -> Outcome<()> {
        let (mut kept, _) = self.with_leaks_of(run, reason)?;
        // The new entries follow those that are there.
        let before = self.entries.len();
        let mut added = DocumentMut::new();
        if let Some(tables) = kept.get_mut("allow").and_then(Item::as_array_of_tables_mut) {
            let mut new = ArrayOfTables::new();
            while tables.len() > before {
                let mut table = tables.remove(before);
                table.set_position(None);
                new.push(table);
            }
            added.insert("allow", Item::ArrayOfTables(new));
        }
        for (line, old, new) in diff::replaced(&self.text, &kept.to_string()) {
            say(format_args!(
                "{}:{line}: replace `{old}` by `{new}`",
                self.shown
            ));
        }
        let entries = added.to_string();
        let entries = entries.trim_start();
        if is_in_words(reason) || entries.is_empty() {
            print(entries);
        } else {
            let missing = "reason = \"\"\n";
            let filled_in = "# reason = \"…\"   # to be filled in: why it may stay\n";
            print(&entries.replace(missing, filled_in));
        }
        Ok(())
    }

    /// Writes the file, and shows what changes.
    fn write(&self, document: &DocumentMut) -> Outcome<()> {
        let written = document.to_string();
        // Each entry begins with an empty line, which is not needed at the beginning of a file.
        let written = if self.text.is_empty() {
            written.trim_start()
        } else {
            &written
        };
        if written == self.text {
            return Ok(());
        }
        replace(&self.path, written)
            .map_err(|why| Failure::usage(format!("{}: {why}", self.path.display())))?;
        print(&diff::lines(&self.text, written));
        Ok(())
    }
}

/// The most that one test leaves of what an entry matches, for each entry of the file whose bounds are too
/// small for it.
fn exceeded(run: &Run) -> BTreeMap<&str, (Left, Noun)> {
    let mut exceeded: BTreeMap<&str, (Left, Noun)> = BTreeMap::new();
    for report in run.reports() {
        let mut in_this_test: BTreeMap<&str, Left> = BTreeMap::new();
        for finding in &report.findings {
            if let Some(entry) = finding.exceeds.as_deref() {
                let sum = in_this_test.entry(entry).or_default();
                *sum = sum.plus(left_by(finding));
                exceeded.entry(entry).or_default().1.add(finding);
            }
        }
        for (entry, left) in in_this_test {
            let (most, _) = exceeded.entry(entry).or_default();
            most.count = most.count.max(left.count);
            most.bytes = most.bytes.max(left.bytes);
        }
    }
    exceeded
}

/// What an entry matches: its key and the value.
type SiteKey = (&'static str, String);

/// A call site that leaks.
#[derive(Debug, Default)]
struct LeakingSite {
    /// What each test with a leak there leaves.
    left: BTreeMap<String, Left>,
    /// The kind of the worst of its findings: `leaked`.
    kind: &'static str,
    /// What that finding left, and its description: `4.00 KiB device memory`.
    worst: (Left, String),
    /// The noun for one of what is left.
    noun: Noun,
    /// Its lines.
    locations: BTreeSet<String>,
    /// Whether a program under `exec` leaks there: its name is its command line, which may change.
    in_a_program: bool,
}

impl LeakingSite {
    /// The most that one test leaves.
    fn bounds(&self) -> Left {
        let mut bounds = Left::default();
        for left in self.left.values() {
            bounds.count = bounds.count.max(left.count);
            bounds.bytes = bounds.bytes.max(left.bytes);
        }
        bounds
    }

    /// Adds what another test leaves there.
    fn add(&mut self, other: Self) {
        self.left.extend(other.left);
        self.locations.extend(other.locations);
        self.noun = self.noun.with(other.noun);
    }
}

/// The call site of a finding that an entry can allow: its function or, without symbols, the fingerprint
/// of its stack.
fn site_of(finding: &Finding) -> Option<SiteKey> {
    let can_be_allowed = matches!(
        finding.kind,
        FindingKind::Leaked | FindingKind::Grew | FindingKind::FirstUse
    );
    let site = &finding.site;
    if !can_be_allowed || finding.budget.is_some() || site.fingerprint.is_empty() {
        return None;
    }
    let function = site.user_frame().and_then(|frame| frame.function.clone());
    Some(match function {
        Some(function) => ("at", function),
        None => ("fingerprint", site.fingerprint.clone()),
    })
}

/// The call sites with leaks, once for each amount that a test leaves: more of any test then exceeds its
/// bounds. What is first use there counts for the bounds, because the entry matches it too.
fn leaking_sites(run: &Run) -> Vec<(SiteKey, LeakingSite)> {
    let mut sites: BTreeMap<(SiteKey, (u64, u64)), LeakingSite> = BTreeMap::new();
    for ((key, _), site) in leaking_tests(run) {
        // The name of a program varies, so one entry is about all of its runs.
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

/// The call sites with leaks, by test.
fn leaking_tests(run: &Run) -> BTreeMap<(SiteKey, String), LeakingSite> {
    let mut sites: BTreeMap<(SiteKey, String), LeakingSite> = BTreeMap::new();
    for report in run.reports() {
        let mut in_this_test: BTreeMap<SiteKey, Vec<&Finding>> = BTreeMap::new();
        // The entry whose bounds are exceeded is raised.
        let new = report.findings.iter().filter(|it| it.exceeds.is_none());
        for finding in new {
            if let Some(site) = site_of(finding) {
                in_this_test.entry(site).or_default().push(finding);
            }
        }
        for (key, findings) in in_this_test {
            let Some(worst) = findings.iter().find(|finding| finding.kind.is_failure()) else {
                continue;
            };
            let site = sites.entry((key, report.test.clone())).or_default();
            if site.kind.is_empty() {
                site.kind = worst.kind.name();
                site.worst = (left_by(worst), worst.what());
            }
            findings.iter().for_each(|finding| site.noun.add(finding));
            site.in_a_program |= report.is_of_a_program() && report.outcome.is_none();
            site.locations
                .extend(findings.iter().map(|finding| finding.site.location()));
            let sum = findings
                .iter()
                .fold(Left::default(), |sum, finding| sum.plus(left_by(finding)));
            // Two programs may have tests of the same name.
            let left = site.left.entry(report.test.clone()).or_default();
            left.count = left.count.max(sum.count);
            left.bytes = left.bytes.max(sum.bytes);
        }
    }
    sites
}

/// Why there are no entries for these findings, and what to do instead.
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
                "the test itself sets this limit: raise it, or allocate \
                                        less"
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

/// How many entries changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Merged {
    added: usize,
    raised: usize,
}

impl Merged {
    fn summary(self) -> String {
        let Self { added, raised } = self;
        let entries = |number: usize| quantity(number as u64, "entry");
        match (added, raised) {
            (0, 0) => "nothing to add: the run has no failure that an entry could allow".to_owned(),
            (added, 0) => format!("{} added", entries(added)),
            (0, raised) => format!("the bounds of {} raised", entries(raised)),
            (added, raised) => {
                format!(
                    "{} added, the bounds of {} raised",
                    entries(added),
                    entries(raised)
                )
            }
        }
    }
}

/// Replaces the file by one that is written beside it, so that there is always a complete one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
    let mut beside = Builder::new();
    beside.prefix(".gpu-leak-check-").suffix(".new");
    // A new file gets the permissions of the user's umask, a replaced one keeps its own.
    #[cfg(unix)]
    beside.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut beside = beside.tempfile_in(directory.unwrap_or(Path::new(".")))?;
    if let Ok(before) = fs::metadata(path) {
        beside.as_file().set_permissions(before.permissions())?;
    }
    beside.write_all(text.as_bytes())?;
    beside.persist(path)?;
    Ok(())
}

/// Adds an entry for each site that has none, and raises the bounds of the others.
fn merge(
    document: &mut DocumentMut,
    sites: &[(SiteKey, LeakingSite)],
    reason: &str,
) -> Result<Merged, String> {
    let mut merged = Merged::default();
    if sites.is_empty() {
        return Ok(merged);
    }
    // A comment at the end of the file stays above the entries that follow it.
    let mut above = document.trailing().as_str().unwrap_or_default().to_owned();
    let entries = document
        .entry("allow")
        .or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    let entries = entries
        .as_array_of_tables_mut()
        .ok_or("`allow` is a value in this file; write it as [[allow]] tables")?;
    for ((key, matched), site) in sites {
        let is_it = |entry: &&mut Table| {
            let matches = entry.get(key).and_then(Item::as_str);
            matches == Some(matched) && entry.contains_key("up_to_count") && is_about(entry, site)
        };
        if let Some(entry) = entries.iter_mut().find(is_it) {
            raise(entry, site);
            merged.raised += 1;
            continue;
        }
        let Left { count, bytes } = site.bounds();
        let mut entry = Table::new();
        entry.insert(key, value(matched));
        if !site.in_a_program {
            entry.insert("tests", value(Array::from_iter(site.left.keys())));
        }
        entry.insert("up_to", value(number(bytes)));
        entry.insert("up_to_count", value(number(count)));
        entry.insert("reason", value(reason));
        let above = std::mem::take(&mut above);
        entry.decor_mut().set_prefix(above + &comment(site));
        entries.push(entry);
        merged.added += 1;
    }
    if merged.added > 0 {
        document.set_trailing("");
    }
    Ok(merged)
}

/// Whether an entry for the same function is about a test of `site`, or has its bounds.
fn is_about(entry: &Table, site: &LeakingSite) -> bool {
    let Some(tests) = entry.get("tests").and_then(Item::as_array) else {
        return true;
    };
    let mut tests = tests.iter().filter_map(|test| test.as_str());
    let bound = |key| entry.get(key).and_then(Item::as_integer);
    let Left { count, bytes } = site.bounds();
    let bounds = (Some(number(count)), Some(number(bytes)));
    tests.any(|test| site.left.contains_key(test))
        || (bound("up_to_count"), bound("up_to")) == bounds
}

/// Raises the bounds of an entry to what `site` leaves now, and adds its tests.
fn raise(entry: &mut Table, site: &LeakingSite) {
    raise_bounds(entry, None, site.bounds(), site.noun);
    if let Some(tests) = entry.get_mut("tests").and_then(Item::as_array_mut) {
        for test in site.left.keys() {
            if !tests.iter().any(|known| known.as_str() == Some(test)) {
                tests.push(test);
            }
        }
    }
}

/// Raises the bounds of an entry to `left`, and returns whether one was less. `up_to` is what a size in words
/// stands for, which is the user's own if it is none.
fn raise_bounds(entry: &mut Table, up_to: Option<u64>, left: Left, noun: Noun) -> bool {
    let mut raised = false;
    let is_in_words = entry.get("up_to").is_some_and(Item::is_str);
    if is_in_words && up_to.is_some_and(|up_to| up_to < left.bytes) {
        entry.insert("up_to", value(number(left.bytes)));
        raised = true;
    }
    let now = [("up_to", left.bytes), ("up_to_count", left.count)];
    for (key, now) in now.map(|(key, now)| (key, number(now))) {
        let before = entry.get(key).and_then(Item::as_integer);
        if before.is_some_and(|before| before < now) {
            entry.insert(key, value(now));
            raised = true;
        }
    }
    if raised {
        let bound = |key, unbound| {
            let bound = entry.get(key).and_then(Item::as_integer);
            bound.map_or(unbound, i64::unsigned_abs)
        };
        let bounds = Left {
            count: bound("up_to_count", left.count),
            bytes: bound("up_to", left.bytes),
        };
        renew_figures(entry, &figures(bounds, noun));
    }
    raised
}

/// Writes other figures into the comment that was written above an entry with the first bounds.
fn renew_figures(entry: &mut Table, figures: &str) {
    let decor = entry.decor_mut();
    let above = decor.prefix().and_then(RawString::as_str);
    let above = above.unwrap_or_default().to_owned();
    let renewed = above.split_inclusive('\n').map(|line| {
        let kinds = [FindingKind::Leaked, FindingKind::Grew].map(FindingKind::name);
        let written = |kind: &&str| line.starts_with(&format!("# {kind}: "));
        match kinds.into_iter().find(written) {
            Some(kind) => format!("# {kind}: {figures}\n"),
            None => line.to_owned(),
        }
    });
    let renewed: String = renewed.collect();
    decor.set_prefix(renewed);
}

/// `2 allocations, 1.25 KiB`, `3 events`
fn figures(left: Left, noun: Noun) -> String {
    let number = quantity(left.count, noun.word());
    match left.bytes {
        0 => number,
        bytes => format!("{number}, {}", size(bytes)),
    }
}

/// The noun for one of several things.
#[derive(Clone, Copy, Debug, Default)]
enum Noun {
    #[default]
    Unknown,
    One(&'static str),
    /// They have different ones.
    Several,
}

impl Noun {
    fn add(&mut self, finding: &Finding) {
        let noun = finding.resource.map_or("allocation", units::noun);
        *self = self.with(Self::One(noun));
    }

    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, noun) | (noun, Self::Unknown) => noun,
            (Self::One(one), Self::One(other)) if one == other => self,
            _ => Self::Several,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::One(noun) => noun,
            Self::Unknown | Self::Several => "object",
        }
    }
}

/// What a finding left.
fn left_by(finding: &Finding) -> Left {
    Left {
        count: finding.count,
        bytes: finding.bytes,
    }
}

/// TOML's integers have a sign.
fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The comment above an entry, which describes the call site.
fn comment(site: &LeakingSite) -> String {
    let locations: Vec<_> = site.locations.iter().map(String::as_str).collect();
    let bounds = site.bounds();
    let (left, described) = &site.worst;
    let what = match (left.count, left.bytes) == (bounds.count, bounds.bytes) {
        true => described.clone(),
        // What there is beside it, or in another test, counts too.
        false => figures(bounds, site.noun),
    };
    let lines = [
        format!("{}: {what}", site.kind),
        format!("at {}", locations.join(", ")),
    ];
    let lines = lines.map(|line| format!("# {}\n", escape::sentence(&line)));
    format!("\n{}", lines.concat())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use gpu_leak_check::ledger::{Kind, Layer, Place};
    use gpu_leak_check::report::check_report::{Finding, FindingKind, Site};
    use toml_edit::DocumentMut;

    use super::{Merged, leaking_sites, merge, refused, replace, site_of};
    use crate::overview::Overview;
    use crate::render::sample;

    const WHY: &str = "known before";

    #[test]
    fn an_entry_has_the_bounds_of_its_call_site_and_leaves_all_else_as_it_was() {
        let run = sample::mixed();
        let text = "# ours\n[run]\nmode = \"require\"   # in CI\n";
        let mut document: DocumentMut = text.parse().expect("TOML");
        let sites = leaking_sites(&run);
        let added = Merged {
            added: 1,
            raised: 0,
        };
        assert_eq!(merge(&mut document, &sites, WHY), Ok(added));
        insta::assert_snapshot!(document.to_string());
    }

    #[test]
    fn an_entry_that_is_there_is_raised_and_keeps_its_reason() {
        let text = "[[allow]]\nat = \"optim::Adam::step\"\ntests = [\"trains\"]\nup_to = 1\n\
                    up_to_count = 9\nreason = \"mine\"\n";
        let mut document: DocumentMut = text.parse().expect("TOML");
        let raised = Merged {
            added: 0,
            raised: 1,
        };
        let sites = leaking_sites(&sample::mixed());
        assert_eq!(merge(&mut document, &sites, WHY), Ok(raised));
        insta::assert_snapshot!(document.to_string());
    }

    #[test]
    fn the_comment_above_an_entry_has_the_figures_of_its_bounds() {
        let leak =
            |count, each| sample::finding(FindingKind::Leaked, "optim::Adam::step", count, each);
        let run = |leaks: &[Finding]| sample::run(vec![sample::with("trains", leaks)]);
        let mut document = DocumentMut::new();
        let two = leaking_sites(&run(&[leak(1, 256), leak(1, 1024)]));
        merge(&mut document, &two, WHY).expect("an entry");
        let text = document.to_string();
        let first = "# leaked: 2 allocations, 1.25 KiB\n# at src/optim.rs:88\n[[allow]]\n";
        assert!(text.contains(first), "{text}");
        let more = leaking_sites(&run(&[leak(3, 1024)]));
        merge(&mut document, &more, WHY).expect("an entry");
        let text = document.to_string();
        let raised = "# leaked: 3 allocations, 3.00 KiB\n# at src/optim.rs:88\n[[allow]]\n";
        assert!(text.contains(raised), "{text}");
    }

    #[test]
    fn tests_that_leave_different_amounts_have_entries_of_their_own() {
        let leak = |count| sample::finding(FindingKind::Leaked, "optim::Adam::step", count, 256);
        let test = |name, count| sample::with(name, &[leak(count)]);
        let run = sample::run(vec![test("large", 8), test("small", 1), test("tiny", 1)]);
        let mut document = DocumentMut::new();
        merge(&mut document, &leaking_sites(&run), WHY).expect("entries");
        let text = document.to_string();
        let small = "tests = [\"small\", \"tiny\"]\nup_to = 256\nup_to_count = 1\n";
        let large = "tests = [\"large\"]\nup_to = 2048\nup_to_count = 8\n";
        assert!(text.contains(small) && text.contains(large), "{text}");
        // A further test joins those that leave as much.
        let run = sample::run(vec![test("new", 8)]);
        merge(&mut document, &leaking_sites(&run), WHY).expect("an entry");
        let text = document.to_string();
        assert!(text.contains("tests = [\"large\", \"new\"]"), "{text}");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_beside_the_file_is_not_followed() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let directory = tempfile::tempdir().expect("a directory");
        let (path, secret) = (
            directory.path().join("a.toml"),
            directory.path().join("secret"),
        );
        fs::write(&secret, "precious").expect("a file");
        symlink(&secret, path.with_extension("toml.new")).expect("a link");
        replace(&path, "new").expect("written");
        assert_eq!(fs::read_to_string(&secret).expect("a file"), "precious");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("its owner");
        replace(&path, "newer").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("a file"), "newer");
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "who may read it stays as it was");
        assert_eq!(
            fs::read_dir(directory.path()).expect("a directory").count(),
            3
        );
    }

    #[test]
    fn findings_without_a_stack_are_refused_with_the_alternative() {
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

    #[test]
    fn a_hostile_name_stays_inside_its_comment() {
        let run = sample::hostile();
        let mut document = DocumentMut::new();
        let sites = leaking_sites(&run);
        merge(&mut document, &sites, WHY).expect("entries");
        let text = document.to_string();
        let read: DocumentMut = text.parse().expect("TOML");
        assert_eq!(read.len(), 1, "{text}");
        let entries = read["allow"].as_array_of_tables().expect("entries");
        assert_eq!(entries.len(), sites.len(), "{text}");
        assert!(entries.iter().all(|entry| entry.len() == 5), "{text}");
    }
}
