//! `cargo gpu-leak allow`: entries of the configuration file for what a run has left.

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
use crate::names;
use crate::output::{print, say};
use crate::overview::{Group, Overview};
use crate::report::chosen_or_newest;
use crate::run::Run;
use crate::workspace::{self, CONFIG};

/// The reason to be filled in.
const REASON: &str = "…";
/// How many tests an entry's comment names.
const NAMED: usize = 3;

/// The whole of `allow`.
pub(crate) fn allow(asked: &Allow) -> Outcome<Exit> {
    let run = Run::read(&chosen_or_newest(&asked.from)?)?;
    let overview = Overview::of(&run);
    let (may, may_not): (Vec<_>, Vec<_>) = overview
        .groups
        .iter()
        .filter(|group| group.finding.kind.is_failure())
        .partition(|group| can_be_allowed(group));
    for sentence in refused(&may_not) {
        say(format_args!("note: {sentence}"));
    }
    if asked.write {
        append(&may)?;
    } else {
        let mut document = DocumentMut::new();
        add(&mut document, &may).map_err(Failure::usage)?;
        print(document.to_string().trim_start());
    }
    Ok(Exit::Clean)
}

fn can_be_allowed(group: &Group<'_>) -> bool {
    let finding = &group.finding;
    matches!(finding.kind, FindingKind::Leaked | FindingKind::Grew)
        && !finding.site.fingerprint.is_empty()
}

/// Why there is no entry for these, and what there is instead.
fn refused(groups: &[&Group<'_>]) -> Vec<String> {
    let mut by_kind: BTreeMap<FindingKind, u64> = BTreeMap::new();
    for group in groups {
        *by_kind.entry(group.finding.kind).or_default() += 1;
    }
    let sentences = by_kind.into_iter().map(|(kind, count)| {
        let why = match kind {
            FindingKind::FailedFree => {
                "a free that fails is a mistake whoever makes it: mend the call"
            }
            FindingKind::Retained => {
                "a reserve has no stack: `reserved_tolerance` says how much may stay"
            }
            FindingKind::OverBudget => "a limit has its own figure: raise it, or take less at once",
            _ => "only a probe counts it, so it has no stack: `tolerance` says how much may stay",
        };
        let findings = quantity(count, "finding");
        format!("no entry for {findings} ({}): {why}", kind.name())
    });
    sentences.collect()
}

/// Appends entries to the workspace's file; there may be none yet.
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
        // The empty line in front of an entry parts it from what stands there already.
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
            "{path}: nothing to add, for nothing in that run fails that an entry could allow"
        ),
        (0, before) => format!("{path}: nothing to add, {before} there before"),
        (added, before) => format!(
            "{path}: {} added, {before} there before; fill in their reasons",
            quantity(added as u64, "entry")
        ),
    }
}

/// Writes beside the file and renames: whatever happens, one of both is whole.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let mut beside = Builder::new();
    beside.prefix(".gpu-leak-check-").suffix(".new");
    // As any new file, for all that the user lets read them; else as the one that was there.
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

/// Adds an entry for each of `groups` that has none, and counts those.
fn add(document: &mut DocumentMut, groups: &[&Group<'_>]) -> Result<usize, String> {
    // A comment at the file's end stays above what comes behind it.
    let mut above = document.trailing().as_str().unwrap_or_default().to_owned();
    let entries = document
        .entry("allow")
        .or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    let entries = entries
        .as_array_of_tables_mut()
        .ok_or("`allow` is written as a value there; write it as [[allow]] tables")?;
    let mut known: Vec<String> = entries
        .iter()
        .filter_map(|entry| Some(entry.get("fingerprint")?.as_str()?.to_owned()))
        .collect();
    let mut added = 0;
    for group in groups {
        let fingerprint = &group.finding.site.fingerprint;
        // The same site on another device is the same entry.
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

/// What an entry is about, above it.
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
        format!("in {}", names::some_of(&group.tests, NAMED)),
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
            "it is there"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_waits_beside_the_file_leads_nowhere() {
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
    fn what_has_no_stack_is_refused_with_what_there_is_instead() {
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
