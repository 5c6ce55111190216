//! Excerpts of source files in the workspace.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use gpu_leak_check::report::escape;

/// How many lines are shown above and below the one of the finding.
const AROUND: usize = 2;
/// The length at which a line is cut off, in characters.
const MAX_LINE: usize = 200;
/// The size of the largest file that is read, in bytes.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// A line of source.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) text: String,
    /// Whether it is the line of the finding.
    pub(super) is_marked: bool,
}

/// Source files, each read once.
#[derive(Debug)]
pub(super) struct Sources {
    root: PathBuf,
    files: HashMap<String, Vec<String>>,
}

impl Sources {
    pub(super) fn below(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            files: HashMap::new(),
        }
    }

    /// The line `number` of `file` and those around it; empty if the file cannot be read.
    pub(super) fn excerpt(&mut self, file: &str, number: u32) -> Vec<Line> {
        let root = &self.root;
        let lines = self
            .files
            .entry(file.to_owned())
            .or_insert_with(|| lines_of(root, file).unwrap_or_default());
        let number = number as usize;
        if number == 0 || number > lines.len() {
            return Vec::new();
        }
        let first = number.saturating_sub(AROUND).max(1);
        let last = (number + AROUND).min(lines.len());
        let width = last.to_string().len();
        let line = |at: usize| Line {
            text: format!("{at:>width$}  {}", lines[at - 1]),
            is_marked: at == number,
        };
        (first..=last).map(line).collect()
    }
}

/// The lines of a file inside `root`. A run file may come from anywhere, and must not make the page
/// show other files.
fn lines_of(root: &Path, file: &str) -> Option<Vec<String>> {
    let is_inside = Path::new(file)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let path = fs::canonicalize(root.join(file)).ok()?;
    let root = fs::canonicalize(root).ok()?;
    let is_source = path.extension().is_some_and(|end| {
        ["rs", "c", "cc", "cpp", "cu", "cuh", "h", "hpp", "py"]
            .iter()
            .any(|known| end == *known)
    });
    let data = path.metadata().ok()?;
    if !is_inside || !path.starts_with(root) || !is_source || data.len() > MAX_FILE {
        return None;
    }
    let text = String::from_utf8_lossy(&fs::read(path).ok()?).into_owned();
    let shown = |line: &str| {
        let line = line.replace('\t', "    ");
        let cut: String = line.chars().take(MAX_LINE).collect();
        escape::sentence(cut.trim_end())
    };
    Some(text.lines().map(shown).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::lines_of;

    #[test]
    fn no_file_outside_the_workspace_is_shown() {
        let outside = tempfile::tempdir().expect("a directory");
        let root = outside.path().join("w");
        fs::create_dir(&root).expect("a directory");
        let secret = outside.path().join("secret.rs");
        fs::write(&secret, "secret\n").expect("a file");
        fs::write(root.join(".env"), "secret\n").expect("a file");
        assert_eq!(lines_of(&root, "../secret.rs"), None);
        assert_eq!(lines_of(&root, secret.to_str().expect("a path")), None);
        assert_eq!(lines_of(&root, ".env"), None);
        fs::write(root.join("a.rs"), "shown\n").expect("a file");
        assert_eq!(lines_of(&root, "a.rs"), Some(vec!["shown".to_owned()]));
    }
}
