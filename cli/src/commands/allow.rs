//! `cargo gpu-leak allow`: entries of the configuration file for the leaks of a run.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use gpu_leak_check::report::model::FindingKind;
use gpu_leak_check::report::{escape, what};
use gpu_leak_check::units::quantity;
use tempfile::Builder;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

use crate::arguments::Allow;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{print, say, test_names};
use crate::overview::{Group, Overview};
use crate::run::{self, Run};
use crate::workspace::{self, CONFIG};

/// The reason of a new entry, which the user fills in.
const REASON: &str = "…";
/// How many tests the comment of an entry names.
const MAX_NAMES: usize = 3;

pub(crate) fn run(asked: &Allow) -> Outcome<Exit> {
    let run = Run::read(&run::chosen_or_newest(&asked.from)?)?;
    let overview = Overview::of(&run);
    let (allowable, others): (Vec<_>, Vec<_>) = overview
        .groups
        .iter()
        .filter(|group| group.finding.kind.is_failure())
        .partition(|group| can_be_allowed(group));
    for sentence in refused(&others) {
        say(format_args!("note: {sentence}"));
    }
    if asked.write {
        append(&allowable)?;
    } else {
        let mut document = DocumentMut::new();
        add(&mut document, &allowable).map_err(Failure::usage)?;
        print(document.to_string().trim_start());
    }
    Ok(Exit::Clean)
}

fn can_be_allowed(group: &Group<'_>) -> bool {
    let finding = &group.finding;
    matches!(finding.kind, FindingKind::Leaked | FindingKind::Grew)
        && !finding.site.fingerprint.is_empty()
}

/// Why there are no entries for these findings, and what to do instead.
fn refused(groups: &[&Group<'_>]) -> Vec<String> {
    let mut by_kind: BTreeMap<FindingKind, u64> = BTreeMap::new();
    for group in groups {
        *by_kind.entry(group.finding.kind).or_default() += 1;
    }
    let sentences = by_kind.into_iter().map(|(kind, count)| {
        let why = match kind {
            FindingKind::FailedFree => {
                "a free that fails is always a bug: fix the call"
            }
            FindingKind::Retained => {
                "a reserve has no stack: use `reserved_tolerance`, the number of bytes that may stay"
            }
            FindingKind::OverBudget => "a budget is a limit that the test sets: raise it, or use less at once",
            _ => "only a probe counts it, so it has no stack: use `tolerance`, the number of bytes that may stay",
        };
        let findings = quantity(count, "finding");
        format!("no entry for {findings} ({}): {why}", kind.name())
    });
    sentences.collect()
}

/// Appends entries to the configuration file of the workspace, which is created if there is none.
fn append(groups: &[&Group<'_>]) -> Outcome<()> {
    let path =
        workspace::configuration().map_or_else(|| workspace::root().join(CONFIG), |(path, _)| path);
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let text = if path.exists() {
        fs::read_to_string(&path).map_err(|why| wrong(why.to_string()))?
    } else {
        String::new()
    };
    let mut document: DocumentMut = text.parse().map_err(|why| wrong(format!("{why}")))?;
    let added = add(&mut document, groups).map_err(&wrong)?;
    if added > 0 {
        let written = document.to_string();
        // Each entry begins with an empty line, which is not needed at the beginning of a file.
        let written = if text.is_empty() {
            written.trim_start()
        } else {
            &written
        };
        replace(&path, written).map_err(|why| wrong(why.to_string()))?;
    }
    say(appended(&path, added, groups.len() - added));
    Ok(())
}

fn appended(path: &Path, added: usize, before: usize) -> String {
    let path = path.display();
    match (added, before) {
        (0, 0) => format!(
            "{path}: nothing to add, since that run has no failure that an entry could allow"
        ),
        (0, before) => format!("{path}: nothing to add, {before} already there"),
        (added, before) => format!(
            "{path}: {} added, {before} already there; fill in the reasons",
            quantity(added as u64, "entry")
        ),
    }
}

/// Replaces the file by one that is written beside it, so that there is always a complete one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let mut beside = Builder::new();
    beside.prefix(".gpu-leak-check-").suffix(".new");
    // A new file gets the permissions of the user's umask, a replaced one keeps its own.
    #[cfg(unix)]
    beside.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut beside = beside.tempfile_in(folder.unwrap_or(Path::new(".")))?;
    if let Ok(before) = fs::metadata(path) {
        beside.as_file().set_permissions(before.permissions())?;
    }
    beside.write_all(text.as_bytes())?;
    beside.persist(path)?;
    Ok(())
}

/// Adds an entry for each of `groups` that has none, and returns how many were added.
fn add(document: &mut DocumentMut, groups: &[&Group<'_>]) -> Result<usize, String> {
    // A comment at the end of the file stays above the entries that follow it.
    let mut above = document.trailing().as_str().unwrap_or_default().to_owned();
    let entries = document
        .entry("allow")
        .or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    let entries = entries
        .as_array_of_tables_mut()
        .ok_or("`allow` is a value in this file; write it as [[allow]] tables")?;
    let mut known: Vec<String> = entries
        .iter()
        .filter_map(|entry| Some(entry.get("fingerprint")?.as_str()?.to_owned()))
        .collect();
    let mut added = 0;
    for group in groups {
        let fingerprint = &group.finding.site.fingerprint;
        // A call site that leaks on several devices needs one entry.
        if known.contains(fingerprint) {
            continue;
        }
        known.push(fingerprint.clone());
        let mut entry = Table::new();
        entry.insert("fingerprint", value(fingerprint));
        entry.insert("reason", value(REASON));
        let above = std::mem::take(&mut above);
        entry.decor_mut().set_prefix(above + &comment(group));
        entries.push(entry);
        added += 1;
    }
    if added > 0 {
        document.set_trailing("");
    }
    Ok(added)
}

/// The comment above an entry, which describes the finding.
fn comment(group: &Group<'_>) -> String {
    let finding = &group.finding;
    let lines = [
        format!("{}: {}", finding.kind.name(), what(finding)),
        format!(
            "at {}",
            finding
                .site
                .user_frame()
                .map_or_else(String::new, |frame| frame.shown())
        ),
        format!("in {}", test_names(&group.tests, MAX_NAMES)),
    ];
    let lines = lines.map(|line| format!("# {}\n", escape::sentence(&line)));
    format!("\n{}", lines.concat())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use gpu_leak_check::ledger::{Kind, Layer, Place};
    use gpu_leak_check::report::model::{Finding, FindingKind, Site};
    use toml_edit::DocumentMut;

    use super::{add, can_be_allowed, refused, replace};
    use crate::overview::Overview;
    use crate::render::sample;

    #[test]
    fn an_entry_says_what_it_is_about_and_leaves_all_else_as_it_was() {
        let run = sample::mixed();
        let overview = Overview::of(&run);
        let text = "# ours\n[run]\nmode = \"require\"   # in CI\n";
        let mut document: DocumentMut = text.parse().expect("TOML");
        assert_eq!(add(&mut document, &[&overview.groups[0]]), Ok(1));
        insta::assert_snapshot!(document.to_string());
        assert_eq!(
            add(&mut document, &[&overview.groups[0]]),
            Ok(0),
            "it is there already"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_link_beside_the_file_is_not_followed() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let folder = tempfile::tempdir().expect("a folder");
        let (path, secret) = (folder.path().join("a.toml"), folder.path().join("secret"));
        fs::write(&secret, "precious").expect("a file");
        symlink(&secret, path.with_extension("toml.new")).expect("a link");
        replace(&path, "new").expect("written");
        assert_eq!(fs::read_to_string(&secret).expect("a file"), "precious");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("its owner");
        replace(&path, "newer").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("a file"), "newer");
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "who may read it stays as it was");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 3);
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
        assert!(!overview.groups.iter().any(can_be_allowed));
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
        let overview = Overview::of(&run);
        let mut document = DocumentMut::new();
        let groups: Vec<_> = overview.groups.iter().collect();
        add(&mut document, &groups).expect("entries");
        let text = document.to_string();
        let read: DocumentMut = text.parse().expect("TOML");
        assert_eq!(read.len(), 1, "{text}");
        let entries = read["allow"].as_array_of_tables().expect("entries");
        assert_eq!(entries.len(), 2, "{text}");
        assert!(entries.iter().all(|entry| entry.len() == 2), "{text}");
    }
}
