//! The command is a program and cannot be linked to, so the files that this target needs are
//! compiled here again.

#![no_main]
#![expect(dead_code, reason = "only a part of the command is used")]

#[path = "../../cli/src/exit.rs"]
mod exit;
#[path = "../../cli/src/fuzz.rs"]
mod fuzz;
#[path = "../../cli/src/output.rs"]
mod output;
#[path = "../../cli/src/overview.rs"]
mod overview;
#[path = "../../cli/src/render/mod.rs"]
mod render;
#[path = "../../cli/src/run.rs"]
mod run;
#[path = "../../cli/src/run_directories.rs"]
mod run_directories;
#[path = "../../cli/src/workspace.rs"]
mod workspace;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::renderers(input));
