//! Adds entries to a configuration file, and raises the limits of existing ones.

use gpu_leak_check::report::check_report::{FindingKind, Left};
use gpu_leak_check::report::escape;
use gpu_leak_check::units::{quantity, size};
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, RawString, Table, value};

use super::sites::{Kinds, LeakingSite, SiteKey, noun};

/// The number of entries that were added, and the number of entries whose limits were raised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Merged {
    pub(super) added: usize,
    pub(super) raised: usize,
}

impl Merged {
    pub(super) fn summary(self) -> String {
        let Self { added, raised } = self;
        let entries = |number: usize| quantity(number as u64, "entry");
        match (added, raised) {
            (0, 0) => {
                "nothing to add: the run has no failure that a new entry could allow".to_owned()
            }
            (added, 0) => format!("{} added", entries(added)),
            (0, raised) => format!("limits raised for {}", entries(raised)),
            (added, raised) => {
                format!(
                    "{} added, limits raised for {}",
                    entries(added),
                    entries(raised)
                )
            }
        }
    }
}

/// Adds an entry for each site that has none, and raises the limits of existing entries.
pub(super) fn merge(
    document: &mut DocumentMut,
    sites: &[(SiteKey, LeakingSite)],
    reason: &str,
) -> Result<Merged, String> {
    let mut merged = Merged::default();
    if sites.is_empty() {
        return Ok(merged);
    }
    // A comment at the end of the file stays above the new entries.
    let mut above = document.trailing().as_str().unwrap_or_default().to_owned();
    let entries = entries_of(document)?;
    for ((key, matched), site) in sites {
        let is_it = |entry: &&mut Table| {
            let matches = entry.get(key).and_then(Item::as_str);
            matches == Some(matched)
                && entry.contains_key("up_to_count")
                && is_of_kind(entry, site)
                && is_about(entry, site)
        };
        if let Some(entry) = entries.iter_mut().find(is_it) {
            merged.raised += usize::from(raise(entry, site));
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
        // The entry comes after all other tables, so that a comment from the end of the file, which
        // is now above this entry, keeps its place.
        entry.set_position(Some(isize::MAX));
        entries.push(entry);
        merged.added += 1;
    }
    if merged.added > 0 {
        document.set_trailing("");
    }
    Ok(merged)
}

/// Returns the entries of the file, which has none if they are missing.
pub(super) fn entries_of(document: &mut DocumentMut) -> Result<&mut ArrayOfTables, String> {
    let entries = document
        .entry("allow")
        .or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    let entries = entries.as_array_of_tables_mut();
    entries
        .ok_or_else(|| "`allow` is a value in this file; write it as [[allow]] tables".to_owned())
}

/// Whether an entry applies to every kind of resource that leaks at `site`.
fn is_of_kind(entry: &Table, site: &LeakingSite) -> bool {
    let kind = entry.get("kind").and_then(Item::as_str);
    let is_of = |kind: &str| {
        let mut resources = site.resources.iter();
        resources.all(|it| serde_json::to_value(it).is_ok_and(|it| it == kind))
    };
    kind.is_none_or(is_of)
}

/// Whether an entry for the same function applies to every test or to a test of `site`, or has the
/// same limits as `site`.
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

/// Raises the limits of an entry to the amounts that `site` leaves now, and adds its tests. Returns
/// whether that changed the entry.
fn raise(entry: &mut Table, site: &LeakingSite) -> bool {
    let mut changed = raise_bounds(entry, None, site.bounds(), &site.resources);
    if let Some(tests) = entry.get_mut("tests").and_then(Item::as_array_mut) {
        for test in site.left.keys() {
            if !tests.iter().any(|known| known.as_str() == Some(test)) {
                tests.push(test);
                changed = true;
            }
        }
    }
    changed
}

/// Raises the limits of an entry to `left`, and returns whether any was lower. `up_to` is the
/// number of bytes that a limit written as text stands for. Without `up_to`, such a limit is kept,
/// because the user wrote it.
pub(super) fn raise_bounds(
    entry: &mut Table,
    up_to: Option<u64>,
    left: Left,
    kinds: &Kinds,
) -> bool {
    let mut raised = false;
    let is_in_words = entry.get("up_to").is_some_and(Item::is_str);
    if is_in_words && up_to.is_some_and(|up_to| up_to < left.bytes) {
        set(entry, "up_to", number(left.bytes));
        raised = true;
    }
    let now = [("up_to", left.bytes), ("up_to_count", left.count)];
    for (key, now) in now.map(|(key, now)| (key, number(now))) {
        let before = entry.get(key).and_then(Item::as_integer);
        if before.is_some_and(|before| before < now) {
            set(entry, key, now);
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
        renew_figures(entry, &figures(bounds, kinds));
    }
    raised
}

/// Replaces the value of a key, and keeps the comment on its line.
fn set(entry: &mut Table, key: &str, number: i64) {
    if let Some(value) = entry.get_mut(key).and_then(Item::as_value_mut) {
        let decor = value.decor().clone();
        *value = number.into();
        *value.decor_mut() = decor;
    }
}

/// Updates the figures in the comment above an entry. The comment was written together with the
/// entry, so it shows the entry's first limits.
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

/// Returns, for example, `2 allocations, 1.25 KiB` or `3 events`.
fn figures(left: Left, kinds: &Kinds) -> String {
    let number = quantity(left.count, noun(kinds));
    match left.bytes {
        0 => number,
        bytes => format!("{number}, {}", size(bytes)),
    }
}

/// Converts a number to a TOML integer, which is signed.
fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the comment above an entry, which describes the call site.
fn comment(site: &LeakingSite) -> String {
    let locations: Vec<_> = site.locations.iter().map(String::as_str).collect();
    let bounds = site.bounds();
    let (left, described) = &site.worst;
    let what = match (left.count, left.bytes) == (bounds.count, bounds.bytes) {
        true => described.clone(),
        // These figures also include the site's other findings and the findings of other tests.
        false => figures(bounds, &site.resources),
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
    use gpu_leak_check::report::check_report::{Finding, FindingKind};
    use toml_edit::DocumentMut;

    use super::super::sites::leaking_sites;
    use super::{Merged, merge};
    use crate::render::sample;

    const WHY: &str = "known before";

    #[test]
    fn an_added_entry_has_its_call_site_s_bounds_and_changes_nothing_else() {
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
    fn an_existing_entry_is_raised_and_keeps_its_reason() {
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
    fn an_entry_for_another_kind_of_resource_is_not_raised() {
        let entry = "[[allow]]\nat = \"optim::Adam::step\"\nkind = \"event\"\nup_to_count = 1\n";
        let mut document: DocumentMut = entry.parse().expect("TOML");
        let sites = leaking_sites(&sample::mixed());
        let added = Merged {
            added: 1,
            raised: 0,
        };
        assert_eq!(merge(&mut document, &sites, WHY), Ok(added));
        let text = document.to_string();
        assert!(text.starts_with(entry), "{text}");
        // The second merge changes nothing, because the entry exists.
        assert_eq!(merge(&mut document, &sites, WHY), Ok(Merged::default()));
        assert_eq!(document.to_string(), text);
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
    fn a_comment_at_the_end_stays_in_its_table() {
        let text = "[[allow]]\nat = \"nowhere\"\nup_to_count = 1\n\n[run]\nmode = \"auto\"\n\
                    # strict = true   # soon\n";
        let mut document: DocumentMut = text.parse().expect("TOML");
        merge(&mut document, &leaking_sites(&sample::mixed()), WHY).expect("an entry");
        let written = document.to_string();
        assert!(
            written.starts_with(&format!("{text}\n# leaked: ")),
            "{written}"
        );
    }

    #[test]
    fn a_bound_that_is_raised_keeps_the_comment_on_its_line() {
        let text = "[[allow]]\nat = \"optim::Adam::step\"\ntests = [\"trains\"]\n\
                    up_to = 1  # one scalar\nup_to_count = 1 # as above\nreason = \"mine\"\n";
        let mut document: DocumentMut = text.parse().expect("TOML");
        let leak = sample::finding(FindingKind::Leaked, "optim::Adam::step", 3, 256);
        let sites = leaking_sites(&sample::run(vec![sample::with("trains", &[leak])]));
        merge(&mut document, &sites, WHY).expect("an entry");
        let text = document.to_string();
        let raised = "up_to = 768  # one scalar\nup_to_count = 3 # as above\n";
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
        // Another test that leaves the same amount is added to the existing entry.
        let run = sample::run(vec![test("new", 8)]);
        merge(&mut document, &leaking_sites(&run), WHY).expect("an entry");
        let text = document.to_string();
        assert!(text.contains("tests = [\"large\", \"new\"]"), "{text}");
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
