//! Finds the configuration file of this program.

use std::env;
use std::path::{Path, PathBuf};

use crate::files::own_ancestors;
use crate::workspace::{self, Workspace};

/// The name of the file, unless `GPU_LEAK_CHECK_CONFIG` gives another path.
pub(super) const NAME: &str = "gpu-leak-check.toml";

/// Returns the file `chosen` or, if that is `None`, the nearest configuration file, searching from
/// the package's directory up to the directory of its workspace.
///
/// # Errors
///
/// Returns an error if the chosen file does not exist.
pub(super) fn find(
    chosen: Option<&Path>,
    manifest_dir: Option<&str>,
) -> Result<Option<PathBuf>, String> {
    let package = package(manifest_dir);
    let workspace = Workspace::of(&package, Path::new(""));
    match chosen {
        Some(chosen) => choose(chosen, workspace.root()).map(Some),
        None => Ok(nearest(&package, workspace.root())),
    }
}

/// Returns the directory of the package under test. Runners provide it, even for an archive that
/// runs on another machine. Without a runner, it is the directory from which the package was
/// compiled or, if there is none, the directory in which the program was started.
fn package(manifest_dir: Option<&str>) -> PathBuf {
    let built = manifest_dir
        .map(PathBuf::from)
        .filter(|directory| directory.is_dir());
    workspace::manifest_dir()
        .or(built)
        .or_else(|| env::current_dir().ok())
        .unwrap_or_default()
}

/// Resolves a relative path, first against the workspace, where cargo was called, and then against
/// the test's own working directory.
fn choose(chosen: &Path, root: &Path) -> Result<PathBuf, String> {
    let candidates = [root.join(chosen), chosen.to_owned()];
    let found = candidates.iter().find(|path| path.is_file());
    found.cloned().ok_or_else(|| {
        format!(
            "GPU_LEAK_CHECK_CONFIG names {}, but there is no such file: a relative path is \
             resolved from {}",
            chosen.display(),
            root.display()
        )
    })
}

/// Returns the nearest configuration file between `package` and `root`. A file in a directory in
/// which other users can create files is ignored, unless they can do so in `package` as well.
pub fn nearest(package: &Path, root: &Path) -> Option<PathBuf> {
    let inside = own_ancestors(package).take_while(|directory| directory.starts_with(root));
    inside
        .map(|directory| directory.join(NAME))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{NAME, choose, nearest};

    #[test]
    fn the_nearest_file_inside_the_workspace_counts() {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("workspace");
        let package = root.join("crates/a");
        fs::create_dir_all(&package).unwrap();
        fs::write(outside.path().join(NAME), "").unwrap();
        assert_eq!(nearest(&package, &root), None, "above the workspace");
        fs::write(root.join(NAME), "").unwrap();
        assert_eq!(nearest(&package, &root), Some(root.join(NAME)));
        fs::write(package.join(NAME), "").unwrap();
        assert_eq!(nearest(&package, &root), Some(package.join(NAME)));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_in_a_directory_writable_by_all_is_ignored() {
        use std::os::unix::fs::PermissionsExt;

        let all_s = tempfile::tempdir().unwrap();
        let package = all_s.path().join("a");
        fs::create_dir(&package).unwrap();
        fs::write(all_s.path().join(NAME), "").unwrap();
        let shared = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(all_s.path(), shared).unwrap();
        assert_eq!(nearest(&package, all_s.path()), None);
        fs::write(package.join(NAME), "").unwrap();
        assert_eq!(nearest(&package, all_s.path()), Some(package.join(NAME)));
    }

    #[test]
    fn a_chosen_file_that_does_not_exist_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let missing = choose("ci/gpu.toml".as_ref(), root.path()).unwrap_err();
        assert!(missing.contains("ci/gpu.toml"), "{missing}");
        fs::create_dir(root.path().join("ci")).unwrap();
        fs::write(root.path().join("ci/gpu.toml"), "").unwrap();
        let found = choose("ci/gpu.toml".as_ref(), root.path()).unwrap();
        assert_eq!(found, root.path().join("ci/gpu.toml"));
    }
}
