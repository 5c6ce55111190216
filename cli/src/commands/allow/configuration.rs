//! The configuration file to which entries are added.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gpu_leak_check::__command::{Suppression, allow_entries, is_reason};
use tempfile::Builder;
use toml_edit::{ArrayOfTables, DocumentMut, Item};

use super::diff;
use super::merge::{Merged, entries_of, merge, raise_bounds};
use super::sites::{exceeded, leaking_sites};
use crate::exit::{ExitResult, Failure};
use crate::output::{print, say};
use crate::run::Run;
use crate::workspace::{self, CONFIG};

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The configuration file of the workspace, which need not exist.
pub(super) struct Configuration {
    pub(super) path: PathBuf,
    /// The path of the file as reports show it.
    pub(super) shown: String,
    /// The byte order mark of the file, or an empty string.
    mark: &'static str,
    /// The text of the file after the mark.
    text: String,
    /// The entries of the file, in order.
    pub(super) entries: Vec<Suppression>,
}

impl Configuration {
    pub(super) fn read() -> ExitResult<Self> {
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
        let (mark, text) = match text.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) => (BYTE_ORDER_MARK, rest.to_owned()),
            None => ("", text),
        };
        Ok(Self {
            path,
            shown,
            mark,
            text,
            entries,
        })
    }

    /// Returns the file with higher limits where `run` exceeds them, and with entries for the other
    /// leaks of `run`.
    pub(super) fn with_leaks_of(
        &self,
        run: &Run,
        reason: &str,
    ) -> ExitResult<(DocumentMut, Merged)> {
        let wrong = |why: String| Failure::usage(format!("{}: {why}", self.path.display()));
        let mut document = self.document()?;
        let raised = self.raise_exceeded(&mut document, run).map_err(wrong)?;
        let sites = leaking_sites(run);
        let mut merged = merge(&mut document, &sites, reason).map_err(wrong)?;
        merged.raised += raised;
        Ok((document, merged))
    }

    fn document(&self) -> ExitResult<DocumentMut> {
        let document = self.text.parse();
        document.map_err(|why| Failure::usage(format!("{}: {why}", self.path.display())))
    }

    /// Raises limits that were too low for findings of `run`, in the entries that decide about
    /// these findings. Returns the number of changed entries. A new entry for the same findings
    /// would come after these entries and have no effect.
    fn raise_exceeded(&self, document: &mut DocumentMut, run: &Run) -> Result<usize, String> {
        let mut raised = 0;
        let exceeded = exceeded(run, &self.shown, &self.entries).in_file;
        if exceeded.is_empty() {
            return Ok(raised);
        }
        let tables = entries_of(document)?.iter_mut();
        for (index, (entry, table)) in self.entries.iter().zip(tables).enumerate() {
            if let Some((left, kinds)) = exceeded.get(&index) {
                raised += usize::from(raise_bounds(table, entry.up_to, *left, kinds));
            }
        }
        Ok(raised)
    }

    /// Prints the entries to add, and says which lines of the file to change.
    pub(super) fn print_changes(&self, run: &Run, reason: &str) -> ExitResult<()> {
        let (mut kept, _) = self.with_leaks_of(run, reason)?;
        // The new entries follow the existing ones.
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
                "{}:{line}: replace `{old}` with `{new}`",
                self.shown
            ));
        }
        let entries = added.to_string();
        let entries = entries.trim_start();
        if is_reason(reason) || entries.is_empty() {
            print(entries);
        } else {
            let missing = "reason = \"\"\n";
            let filled_in = "# reason = \"…\"   # fill in why this may stay\n";
            print(&entries.replace(missing, filled_in));
        }
        Ok(())
    }

    /// Writes the file, and shows what changes.
    pub(super) fn write(&self, document: &DocumentMut) -> ExitResult<()> {
        let written = document.to_string();
        // Each entry begins with an empty line, which is not needed at the beginning of a file.
        let written = if self.text.is_empty() {
            written.trim_start()
        } else {
            &written
        };
        // The document does not keep the carriage returns of the file.
        let written = match self.text.contains("\r\n") {
            true => &written.replace("\r\n", "\n").replace('\n', "\r\n"),
            false => written,
        };
        if written == self.text {
            return Ok(());
        }
        replace(&self.path, &format!("{}{written}", self.mark))
            .map_err(|why| Failure::usage(format!("{}: {why}", self.path.display())))?;
        print(&diff::lines(&self.text, written));
        Ok(())
    }
}

/// Writes `text` to a temporary file in the same directory, and then renames that file to `path`,
/// so that `path` always names a complete file. If `path` is a symbolic link, the file to which it
/// points is replaced.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
    let mut temporary = Builder::new();
    temporary.prefix(".gpu-leak-check-").suffix(".new");
    // A new file's permissions follow the user's umask; a replaced file keeps its own.
    #[cfg(unix)]
    temporary.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut temporary = temporary.tempfile_in(directory.unwrap_or(Path::new(".")))?;
    if let Ok(before) = fs::metadata(path) {
        temporary.as_file().set_permissions(before.permissions())?;
    }
    temporary.write_all(text.as_bytes())?;
    temporary.persist(path)?;
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use super::replace;

    #[test]
    fn a_link_next_to_the_file_is_not_followed() {
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
        assert_eq!(mode & 0o777, 0o640, "the file keeps its permissions");
        assert_eq!(
            fs::read_dir(directory.path()).expect("a directory").count(),
            3
        );
        let link = directory.path().join("link.toml");
        symlink("a.toml", &link).expect("a link");
        replace(&link, "newest").expect("written");
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&path).expect("a file"), "newest");
    }
}
