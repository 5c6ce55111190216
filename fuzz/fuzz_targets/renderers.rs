//! The command is a program, which cannot be linked to: its files are compiled here once more.

#![no_main]
#![expect(dead_code, reason = "a part of the command")]

#[path = "../../cli/src/arguments.rs"]
mod arguments;
#[path = "../../cli/src/attempts.rs"]
mod attempts;
#[path = "../../cli/src/exit.rs"]
mod exit;
#[path = "../../cli/src/fuzz.rs"]
mod fuzz;
#[path = "../../cli/src/names.rs"]
mod names;
#[path = "../../cli/src/outcomes.rs"]
mod outcomes;
#[path = "../../cli/src/output.rs"]
mod output;
#[path = "../../cli/src/overview.rs"]
mod overview;
#[path = "../../cli/src/render/mod.rs"]
mod render;
#[path = "../../cli/src/run.rs"]
mod run;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::renderers(input));
