//! Describes where a run file comes from: the machine, its driver, the sources and the package.

use std::fs;
use std::path::Path;

use super::run_file::Environment;
use crate::exec_settings::text_variable;
use crate::workspace::Workspace;

impl Environment {
    /// Describes this process, without starting a program or loading a driver.
    pub(super) fn of_this_process() -> Self {
        Self {
            host: line_of("/proc/sys/kernel/hostname"),
            driver: line_of("/sys/module/nvidia/version"),
            commit: commit(Workspace::of_runner().root()),
            package: text_variable("CARGO_PKG_NAME"),
            manifest_dir: text_variable("CARGO_MANIFEST_DIR"),
        }
    }
}

fn line_of(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// Returns the commit that is checked out in the [repository][1] of `directory`.
///
/// [1]: https://git-scm.com/docs/gitrepository-layout
fn commit(directory: &Path) -> Option<String> {
    let mut found = directory.ancestors().map(|it| it.join(".git"));
    let found = found.find(|it| it.exists())?;
    // In a linked worktree, `.git` is a file that contains the path of the directory.
    let git = match line_of(&found) {
        Some(line) => found.parent()?.join(line.strip_prefix("gitdir: ")?),
        None => found,
    };
    let head = line_of(git.join("HEAD"))?;
    let Some(name) = head.strip_prefix("ref: ") else {
        return is_commit(&head).then_some(head);
    };
    let common = match line_of(git.join("commondir")) {
        Some(line) => git.join(line),
        None => git,
    };
    let packed = || {
        let all = fs::read_to_string(common.join("packed-refs")).ok()?;
        let mut refs = all.lines().filter_map(|line| line.split_once(' '));
        let (commit, _) = refs.find(|(_, of)| *of == name)?;
        Some(commit.to_owned())
    };
    let commit = line_of(common.join(name)).or_else(packed)?;
    is_commit(&commit).then_some(commit)
}

fn is_commit(text: &str) -> bool {
    text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::commit;

    const FIRST: &str = "0123456789abcdef0123456789abcdef01234567";
    const SECOND: &str = "89abcdef0123456789abcdef0123456789abcdef";

    fn write(directory: &Path, file: &str, text: &str) {
        let path = directory.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_commit_is_found_on_a_branch_detached_packed_and_in_a_worktree() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let package = root.join("crates/a");
        fs::create_dir_all(&package).unwrap();
        assert_eq!(commit(&package), None);

        write(root, ".git/HEAD", &format!("{FIRST}\n"));
        assert_eq!(commit(&package).as_deref(), Some(FIRST));

        write(root, ".git/HEAD", "ref: refs/heads/main\n");
        let packed = format!("# pack-refs with: peeled\n{SECOND} refs/heads/main\n");
        write(root, ".git/packed-refs", &packed);
        assert_eq!(commit(&package).as_deref(), Some(SECOND));

        write(root, ".git/refs/heads/main", &format!("{FIRST}\n"));
        assert_eq!(commit(&package).as_deref(), Some(FIRST));

        let tree = root.join("tree");
        write(&tree, ".git", "gitdir: ../.git/worktrees/tree\n");
        write(root, ".git/worktrees/tree/HEAD", "ref: refs/heads/main\n");
        write(root, ".git/worktrees/tree/commondir", "../..\n");
        assert_eq!(commit(&tree).as_deref(), Some(FIRST));
    }

    #[test]
    fn what_is_not_a_commit_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), ".git/HEAD", "ref: refs/heads/main\n");
        assert_eq!(commit(directory.path()), None);
        write(directory.path(), ".git/refs/heads/main", "<script>\n");
        assert_eq!(commit(directory.path()), None);
    }
}
