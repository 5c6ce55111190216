//! `cargo gpu-leak doctor`: whether checks can see the GPU on this machine.

#[cfg(unix)]
mod plant;
#[cfg(unix)]
mod self_test;

use std::env;

use gpu_leak_check::__command::{Machine, allow_entries, machine, variables};
use gpu_leak_check::report::escape;
use gpu_leak_check::units::quantity;

use crate::arguments::Doctor;
use crate::exit::{Exit, ExitResult};
use crate::output::{Stream, print, wrapped};
use crate::workspace::configuration;

/// Variables of other programs that affect checks.
const VARIABLES: [&str; 5] = [
    "CI",
    "CUDA_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NVIDIA_VISIBLE_DEVICES",
];
/// The width of the column of labels.
const LABEL: usize = 16;

/// On other systems, there is no driver that could be watched.
#[cfg(not(unix))]
mod self_test {
    use crate::exit::{Exit, ExitResult, Failure};

    pub(super) fn run() -> ExitResult<Exit> {
        Err(Failure::unmeasured("the self-test runs only on Linux"))
    }

    pub(super) fn plant() -> Exit {
        Exit::Unmeasured
    }
}

pub(crate) fn run(args: &Doctor) -> ExitResult<Exit> {
    if args.plant {
        return Ok(self_test::plant());
    }
    let machine = machine();
    let (configuration, file_is_right) = configured();
    let variables = variables();
    let is_right = file_is_right && variables.is_ok();
    let mut rows = describe(&machine);
    rows.push(("configuration", configuration));
    rows.extend(environment());
    rows.extend(variables.err().map(|wrong| ("environment", wrong)));
    let width = Stream::Output.width();
    let mut lines = Vec::new();
    for (label, text) in rows {
        let line = format!("{label:<LABEL$}{}", escape::sentence(&text));
        lines.extend(wrapped(&line, 0, LABEL, width));
    }
    let (verdict, exit) = match (&machine.heard, is_right) {
        (_, false) => (
            "the configuration is wrong, so every check fails",
            Exit::Usage,
        ),
        (Ok(_), true) => ("checks can see this machine's GPUs", Exit::Clean),
        (Err(_), true) => (
            "checks cannot see a CUDA GPU here: only calls to Vulkan and allocators that report \
             their blocks are checked",
            Exit::Unmeasured,
        ),
    };
    lines.push(String::new());
    lines.extend(wrapped(verdict, 0, 0, width));
    print(&(lines.join("\n") + "\n"));
    match args.self_test && exit != Exit::Usage {
        true => {
            print("\n");
            self_test::run()
        }
        false => Ok(exit),
    }
}

/// Describes the driver and the GPUs, and says whether calls to the driver can be watched.
fn describe(machine: &Machine) -> Vec<(&'static str, String)> {
    let mut rows = vec![(
        "driver",
        match &machine.driver {
            Ok(version) => format!("CUDA {version}"),
            Err(why) => format!("none: {why}"),
        },
    )];
    if machine.devices.is_empty() {
        rows.push(("GPUs", "none".to_owned()));
    }
    rows.extend(machine.devices.iter().map(|device| ("GPU", device.clone())));
    match &machine.heard {
        Ok(()) => rows.push(("calls", "watched from the first call".to_owned())),
        Err(reason) => {
            rows.push(("calls", format!("{}: {}", reason.code.name(), reason.what)));
            rows.push(("what to do", reason.remedy.clone()));
        }
    }
    rows
}

/// Describes the configuration file in use. Also returns whether the file is valid.
fn configured() -> (String, bool) {
    match configuration() {
        None => ("none".to_owned(), true),
        Some((path, shown)) => match allow_entries(&path, &shown) {
            Ok(entries) => {
                let entries = quantity(entries.len() as u64, "entry");
                (format!("{shown}, with {entries}"), true)
            }
            Err(why) => (why, false),
        },
    }
}

/// Returns the relevant variables that are set.
fn environment() -> Vec<(&'static str, String)> {
    let mut set: Vec<_> = env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value))
        .filter(|(name, _)| name.starts_with("GPU_LEAK_CHECK") || VARIABLES.contains(&&**name))
        .map(|(name, value)| format!("{name}={}", value.to_string_lossy()))
        .collect();
    set.sort();
    set.into_iter().map(|line| ("environment", line)).collect()
}
