//! Makes cargo run the test programs through this command.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use toml_edit::{DocumentMut, Item};

use super::JOBS;
use crate::arguments::RUNNER;
use crate::exit::{ExitResult, Failure};
use crate::output::say;

/// The target whose test programs are run.
const TARGET: &str = env!("GPU_LEAK_TARGET");

/// Makes `cargo` run the test programs through this command. A runner of the user's own is not
/// used, and a note says so.
///
/// # Errors
///
/// Returns an error if the path of this command is not UTF-8, as cargo's configuration requires, or
/// if the user's runner has a form that cargo does not let this command replace.
pub(crate) fn set_runner(cargo: &mut Command, jobs: usize) -> ExitResult<()> {
    let command = env::current_exe()
        .ok()
        .and_then(|path| path.into_os_string().into_string().ok())
        .ok_or_else(|| {
            Failure::usage("the path of this executable is not valid UTF-8, which cargo requires")
        })?;
    let variable = runner_variable();
    let configured = configured()?;
    let replaced = env::var_os(&variable).map(|_| variable).or(configured);
    if let Some(place) = replaced {
        say(format_args!(
            "note: the runner in {place} is not used, because `--every-test` starts each test itself"
        ));
    }
    let runner = serde_json::json!([command, RUNNER]);
    cargo
        .arg("--config")
        .arg(format!("target.{TARGET}.runner={runner}"))
        .env(JOBS, jobs.to_string());
    Ok(())
}

/// Returns the variable in which cargo
/// [looks for a runner](https://doc.rust-lang.org/cargo/reference/config.html#targettriplerunner).
fn runner_variable() -> String {
    let target = TARGET.to_uppercase().replace('-', "_");
    format!("CARGO_TARGET_{target}_RUNNER")
}

/// Returns the first of cargo's configuration files that has a runner for the target. A runner
/// under `cfg(…)` may be one for another target.
fn configured() -> ExitResult<Option<String>> {
    let mut configured = None;
    for file in configuration_files() {
        let text = fs::read_to_string(&file).unwrap_or_default();
        // cargo itself reports a file that it cannot parse.
        let Ok(parsed) = text.parse::<DocumentMut>() else {
            continue;
        };
        let targets = parsed.get("target").and_then(Item::as_table_like);
        for (key, target) in targets.into_iter().flat_map(|all| all.iter()) {
            let Some(runner) = target.get("runner") else {
                continue;
            };
            let shown = file.display().to_string();
            if key == TARGET && runner.is_str() {
                return Err(Failure::usage(format!(
                    "cargo cannot replace the runner in {shown}, as `--every-test` requires, \
                     because it is a string: write it as an array, such as runner = [\"sudo\", \
                     \"-E\"]. This runner will not be used, because `--every-test` starts each test \
                     itself"
                )));
            }
            if key == TARGET || key.starts_with("cfg(") {
                configured.get_or_insert(shown);
            }
        }
    }
    Ok(configured)
}

/// Returns the paths at which cargo looks for its [configuration
/// files](https://doc.rust-lang.org/cargo/reference/config.html#hierarchical-structure).
fn configuration_files() -> Vec<PathBuf> {
    let here = env::current_dir().unwrap_or_default();
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    let of_project = here.ancestors().map(|directory| directory.join(".cargo"));
    let files = of_project.chain(home).flat_map(|directory| {
        // cargo reads a file without the extension first.
        ["config", "config.toml"].map(|name| directory.join(name))
    });
    files.collect()
}
