//! The cargo workspace that the command is called in.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use crate::exit::{Failure, Outcome};

/// What `cargo metadata` tells of it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Workspace {
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

impl Workspace {
    /// The workspace of the working directory.
    pub(crate) fn here() -> Outcome<Self> {
        let output = Command::new(cargo())
            .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
            .output()
            .map_err(|why| Failure::usage(format!("cargo does not run: {why}")))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            let why = why.trim().trim_start_matches("error: ");
            return Err(Failure::usage(format!("this is no cargo workspace: {why}")));
        }
        serde_json::from_slice(&output.stdout).map_err(|why| {
            Failure::usage(format!(
                "cargo metadata says what nobody understands: {why}"
            ))
        })
    }

    /// Where the checks of this workspace leave one folder a run.
    pub(crate) fn runs(&self) -> PathBuf {
        match env::var_os("GPU_LEAK_CHECK_OUTPUT").filter(|value| !value.is_empty()) {
            Some(folder) => self.workspace_root.join(folder),
            None => self.target_directory.join("gpu-leak-check"),
        }
    }
}

/// The cargo that called this program, else the one on the path.
pub(crate) fn cargo() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}

/// Where paths in reports and the configuration file begin: the workspace, where there is one.
pub(crate) fn root() -> PathBuf {
    let root = Workspace::here().map(|workspace| workspace.workspace_root);
    root.or_else(|_| env::current_dir()).unwrap_or_default()
}

/// Where the runs started here are: in the workspace, where there is one.
pub(crate) fn runs() -> Outcome<PathBuf> {
    if let Ok(workspace) = Workspace::here() {
        return Ok(workspace.runs());
    }
    let here = env::current_dir()
        .map_err(|why| Failure::usage(format!("the working folder is gone: {why}")))?;
    let chosen = env::var_os("GPU_LEAK_CHECK_OUTPUT").filter(|value| !value.is_empty());
    Ok(here.join(chosen.unwrap_or_else(|| "gpu-leak-check".into())))
}
