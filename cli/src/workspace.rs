//! The cargo workspace in which the command is called: where its runs are, and its configuration.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{self, Component, Path, PathBuf};
use std::process::{self, Command};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use gpu_leak_check::__command::nearest_file;
use serde::Deserialize;

use crate::exit::{ExitResult, Failure};

pub(crate) const CONFIG: &str = "gpu-leak-check.toml";

/// A workspace, as `cargo metadata` describes it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Workspace {
    workspace_root: PathBuf,
    target_directory: PathBuf,
    #[serde(default)]
    workspace_members: Vec<String>,
    #[serde(default)]
    workspace_default_members: Vec<String>,
    #[serde(default)]
    packages: Vec<Package>,
}

#[derive(Clone, Debug, Deserialize)]
struct Package {
    manifest_path: PathBuf,
}

/// The manifest that cargo's arguments name.
static MANIFEST: OnceLock<PathBuf> = OnceLock::new();

/// Makes the command use the workspace of `manifest`. This has no effect once the workspace has
/// been determined.
pub(crate) fn set_manifest(manifest: &Path) {
    // It is set only once, before the workspace is read.
    let _ = MANIFEST.set(manifest.to_owned());
}

/// Returns the directory that determines the package and the configuration file: the directory of
/// the manifest that cargo's arguments name, or the working directory.
fn starting_directory() -> io::Result<PathBuf> {
    let Some(manifest) = MANIFEST.get() else {
        return env::current_dir();
    };
    let mut directory = without_parents(&path::absolute(manifest)?);
    directory.pop();
    Ok(directory)
}

/// Removes each `..` of an absolute path, together with the directory before it, as cargo does.
pub(crate) fn without_parents(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = whole.pop(),
            part => whole.push(part),
        }
    }
    whole
}

impl Workspace {
    /// Returns the workspace of the working directory, or of the manifest that cargo's arguments
    /// name.
    pub(crate) fn here() -> ExitResult<Self> {
        static HERE: OnceLock<Result<Workspace, String>> = OnceLock::new();
        HERE.get_or_init(Self::read).clone().map_err(Failure::usage)
    }

    fn read() -> Result<Self, String> {
        let output = Command::new(cargo())
            .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
            .args(
                MANIFEST
                    .get()
                    .into_iter()
                    .flat_map(|manifest| [Path::new("--manifest-path"), manifest]),
            )
            .output()
            .map_err(|why| format!("cannot start cargo: {why}"))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            let why = why.trim().trim_start_matches("error: ");
            return Err(format!("cannot load the cargo workspace: {why}"));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|why| format!("cannot parse the output of cargo metadata: {why}"))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.workspace_root
    }

    /// Whether a package with this directory is a member.
    pub(crate) fn has_package_in(&self, directory: &Path) -> bool {
        let mut packages = self.packages.iter();
        packages.any(|package| package.manifest_path.parent() == Some(directory))
    }

    /// Whether cargo, if its arguments name no members, runs the tests of only some members here:
    /// of the package of the working directory, or of the default members.
    pub(crate) fn is_in_part(&self) -> bool {
        let here = starting_directory().unwrap_or_default();
        let mut manifests = here
            .ancestors()
            .filter(|it| it.join("Cargo.toml").is_file());
        let is_at_root = manifests.next() == Some(&self.workspace_root);
        let (all, default) = (&self.workspace_members, &self.workspace_default_members);
        all.len() > 1 && !(is_at_root && default.len() == all.len())
    }

    /// Returns the directory in which the checks of this workspace create a directory for each run.
    pub(crate) fn runs(&self) -> PathBuf {
        match variable("GPU_LEAK_CHECK_OUTPUT") {
            Some(directory) => self.workspace_root.join(directory),
            None => self.target_directory.join("gpu-leak-check"),
        }
    }
}

/// Returns a name that no other run has, for example `test-1795260000-4711`.
pub(crate) fn new_run_name(kind: &str) -> String {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since_1970.map_or(0, |since| since.as_secs());
    format!("{kind}-{seconds}-{}", process::id())
}

/// Returns the value of an environment variable, or `None` if it is not set or empty.
fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the cargo that started this program, or else the one in `PATH`.
pub(crate) fn cargo() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}

/// Returns the directory to which paths in reports and in the configuration file are relative: the
/// root of the workspace, or the working directory outside a workspace.
pub(crate) fn root() -> PathBuf {
    let root = Workspace::here().map(|workspace| workspace.workspace_root);
    root.or_else(|_| env::current_dir()).unwrap_or_default()
}

/// Returns the directory for runs that are started here: in the workspace, if there is one.
pub(crate) fn runs() -> ExitResult<PathBuf> {
    if let Ok(workspace) = Workspace::here() {
        return Ok(workspace.runs());
    }
    let here = env::current_dir()
        .map_err(|why| Failure::usage(format!("cannot determine the working directory: {why}")))?;
    let chosen = variable("GPU_LEAK_CHECK_OUTPUT");
    Ok(here.join(chosen.unwrap_or_else(|| "gpu-leak-check".into())))
}

/// Returns the configuration file of checks that are started here, and its path as reports show it.
pub(crate) fn configuration() -> Option<(PathBuf, String)> {
    let root = root();
    let chosen = variable("GPU_LEAK_CHECK_CONFIG");
    let here = starting_directory().unwrap_or_else(|_| root.clone());
    let found = match chosen {
        // As in a check, a relative path is resolved from the workspace or the working directory.
        Some(chosen) => {
            let at_root = root.join(&chosen);
            let here = here.join(chosen);
            Some(if at_root.is_file() || !here.is_file() {
                at_root
            } else {
                here
            })
        }
        None => nearest_file(&here, &root),
    };
    found.map(|path| {
        let shown = path
            .strip_prefix(&root)
            .unwrap_or(&path)
            .display()
            .to_string();
        (path, shown)
    })
}
