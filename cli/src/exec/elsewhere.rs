//! Where no program can be watched: systems without the signals and folders of Unix, which have no
//! CUDA that the library could be loaded into either.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use gpu_leak_check::__inject::Settings;

use crate::arguments::Exec;
use crate::exit::{Failure, Outcome};

/// Says so.
pub(crate) fn exec(_: &Exec) -> Outcome<u8> {
    Err(refusal())
}

/// Says so.
pub(crate) fn watching(_: &[OsString], _: &Settings, _: &Path, _: &str) -> Outcome<Command> {
    Err(refusal())
}

fn refusal() -> Failure {
    Failure::usage("programs are watched on Linux only: run this there, with an NVIDIA driver")
}
