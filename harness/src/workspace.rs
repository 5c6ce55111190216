//! Finds the user's workspace and cargo's target directory.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs};

use crate::exec_settings::starting_directory;
use crate::files::own_ancestors;

/// The directory to which paths in reports are relative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Workspace {
    root: PathBuf,
}

static CURRENT: OnceLock<Workspace> = OnceLock::new();

impl Workspace {
    /// Returns the workspace of this process. This is the workspace of the first test that is
    /// passed to [`Self::init`] or, if there is none, the workspace of the package that cargo runs.
    /// Without cargo, it is the working directory or that of the command.
    pub(crate) fn current() -> &'static Self {
        CURRENT.get_or_init(|| {
            let directory = manifest_dir().or_else(starting_directory);
            Self::of(&directory.unwrap_or_default(), Path::new(""))
        })
    }

    /// Returns the workspace in which the tests run. A runner may run them in a copy of the
    /// workspace other than the one from which they were compiled, and then sets
    /// `CARGO_MANIFEST_DIR` to the package in that copy.
    pub(crate) fn of_runner() -> Self {
        let current = Self::current();
        match manifest_dir() {
            Some(package) if !package.starts_with(&current.root) => {
                Self::of(&package, Path::new(""))
            }
            _ => current.clone(),
        }
    }

    /// Determines [`Self::current`] from the `CARGO_MANIFEST_DIR` and `file!()` of a test. Only the
    /// first call takes effect.
    pub(crate) fn init(manifest_dir: Option<&str>, file: &str) -> &'static Self {
        match manifest_dir {
            Some(directory) => {
                CURRENT.get_or_init(|| Self::of(Path::new(directory), Path::new(file)))
            }
            None => Self::current(),
        }
    }

    /// Returns the workspace of the package at `manifest_dir`. `file` is the path of one of its
    /// source files, as the compiler names it.
    ///
    /// The workspace is the nearest ancestor whose manifest has a `[workspace]`. Only directories
    /// of the same owner are searched. If no such ancestor is found, as on a machine that has only
    /// the program, the workspace is derived from the two paths. Cargo runs the compiler in the
    /// workspace, so the workspace is `/w` for `/w/crates/a` and `crates/a/tests/t.rs`. If this is
    /// not possible either, the package itself is the workspace.
    pub(crate) fn of(manifest_dir: &Path, file: &Path) -> Self {
        let declared = own_ancestors(manifest_dir).find(|directory| declares_workspace(directory));
        let root = declared
            .or_else(|| common_root(manifest_dir, file))
            .unwrap_or(manifest_dir);
        Self {
            root: root.to_owned(),
        }
    }

    /// Returns the workspace's directory.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns `file` as reports show it, which is relative to the workspace if the file is inside
    /// the workspace.
    pub(crate) fn relative<'f>(&self, file: &'f str) -> &'f str {
        match self.root.to_str() {
            Some(root) if !root.is_empty() => file
                .strip_prefix(root)
                .and_then(|rest| rest.strip_prefix('/'))
                .unwrap_or(file),
            _ => file,
        }
    }

    /// Returns cargo's target directory. This is the ancestor of the running program that cargo has
    /// marked as a cache. If there is none, it is `CARGO_TARGET_DIR` or, if that is not set,
    /// `target` in the workspace.
    pub(crate) fn target(&self) -> PathBuf {
        let executable = env::current_exe().unwrap_or_default();
        let directory = executable.parent().unwrap_or(&executable);
        let marked =
            own_ancestors(directory).find(|directory| directory.join("CACHEDIR.TAG").is_file());
        let set = || env::var_os("CARGO_TARGET_DIR").filter(|set| !set.is_empty());
        marked
            .map(Path::to_owned)
            .or_else(|| set().map(|set| self.root.join(set)))
            .unwrap_or_else(|| self.root.join("target"))
    }
}

/// Returns the directory of the package that cargo runs, if there is one.
pub(crate) fn manifest_dir() -> Option<PathBuf> {
    let manifest_dir = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    manifest_dir.filter(|directory| directory.is_absolute())
}

fn declares_workspace(directory: &Path) -> bool {
    let manifest = fs::read_to_string(directory.join("Cargo.toml")).unwrap_or_default();
    manifest.lines().any(|line| {
        let line = line.trim_start();
        line.starts_with("[workspace]") || line.starts_with("[workspace.")
    })
}

/// Returns `directory` without its longest suffix that is a prefix of `file`; `None` if there is no
/// such suffix.
fn common_root<'f>(directory: &'f Path, file: &Path) -> Option<&'f Path> {
    directory
        .ancestors()
        .filter(|root| {
            let inside = directory.strip_prefix(root).unwrap_or(directory);
            !inside.as_os_str().is_empty() && file.starts_with(inside)
        })
        .last()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::Workspace;

    #[test]
    fn the_nearest_manifest_with_a_workspace_is_the_root() {
        let directory = tempfile::tempdir().unwrap();
        let package = directory.path().join("crates/a");
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("Cargo.toml"), "[package]\nname = \"a\"\n").unwrap();
        fs::write(
            directory.path().join("Cargo.toml"),
            "[workspace]\nmembers = []\n",
        )
        .unwrap();
        assert_eq!(
            Workspace::of(&package, Path::new("")).root(),
            directory.path()
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_manifest_in_a_directory_writable_by_all_is_ignored() {
        use std::os::unix::fs::PermissionsExt;

        let outer = tempfile::tempdir().unwrap();
        let package = outer.path().join("work/a");
        fs::create_dir_all(&package).unwrap();
        fs::write(outer.path().join("Cargo.toml"), "[workspace]\n").unwrap();
        let of = || Workspace::of(&package, Path::new("")).root;
        assert_eq!(of(), outer.path());
        let writable_by_all = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(outer.path(), writable_by_all).unwrap();
        assert_eq!(of(), package);
    }

    #[test]
    fn without_its_sources_the_compiler_s_paths_show_the_root() {
        let of = |directory: &str, file: &str| Workspace::of(Path::new(directory), Path::new(file));
        let workspace = of("/gone/w/crates/a", "crates/a/tests/t.rs");
        assert_eq!(workspace.root(), Path::new("/gone/w"));
        assert_eq!(of("/gone/a", "tests/t.rs").root(), Path::new("/gone/a"));
    }

    #[test]
    fn paths_inside_are_shown_relative_and_others_whole() {
        let workspace = Workspace::of(Path::new("/gone/w"), Path::new(""));
        assert_eq!(workspace.relative("/gone/w/src/lib.rs"), "src/lib.rs");
        assert_eq!(
            workspace.relative("/gone/w2/src/lib.rs"),
            "/gone/w2/src/lib.rs"
        );
    }

    #[test]
    fn the_target_directory_is_the_one_that_holds_this_program() {
        let program = std::env::current_exe().unwrap();
        let is_target = |directory: &&Path| directory.join("CACHEDIR.TAG").is_file();
        // If the program was copied to another machine, it is in no target directory.
        if let Some(target) = program.ancestors().find(is_target) {
            assert_eq!(Workspace::current().target(), target);
        }
    }
}
