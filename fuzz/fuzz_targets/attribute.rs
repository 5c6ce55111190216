//! The library of a procedural macro cannot be linked to, so its files are compiled here again.

#![no_main]

#[path = "../../macros/src/allow.rs"]
mod allow;
#[path = "../../macros/src/args.rs"]
mod args;
#[path = "../../macros/src/attributes.rs"]
mod attributes;
#[path = "../../macros/src/conflicts.rs"]
mod conflicts;
#[path = "../../macros/src/expand.rs"]
mod expand;
#[path = "../../macros/src/fuzz.rs"]
mod fuzz;
#[path = "../../macros/src/input.rs"]
mod input;
#[path = "../../macros/src/module.rs"]
mod module;
#[path = "../../macros/src/paths.rs"]
mod paths;
#[path = "../../macros/src/requeue.rs"]
mod requeue;
#[path = "../../macros/src/should_panic.rs"]
mod should_panic;
#[path = "../../macros/src/value.rs"]
mod value;
#[path = "../../macros/src/warmup.rs"]
mod warmup;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::attribute(input));
