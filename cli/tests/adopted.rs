//! Sets up a test suite with known leaks in three commands.
#![cfg(unix)]

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_kernels::{Device, Result, Tensor};

use crate::support::{CliOutput, call, cargo_that_runs, command};

/// Tests that each leak a tensor on a different line.
macro_rules! leaks {
    ($($name:ident)*) => {
        const LEAKS: &[&str] = &[$(concat!("adopted::", stringify!($name))),*];
        $(
            #[gpu_leak_check]
            #[ignore = "planted"]
            #[test]
            fn $name() -> Result<()> {
                std::mem::forget(Tensor::zeros([256], &Device::embedded()?)?);
                Ok(())
            }
        )*
    };
}

leaks! {
    leak_01 leak_02 leak_03 leak_04 leak_05 leak_06 leak_07 leak_08 leak_09 leak_10 leak_11
    leak_12 leak_13 leak_14 leak_15 leak_16 leak_17 leak_18 leak_19 leak_20 leak_21 leak_22
    leak_23 leak_24 leak_25 leak_26 leak_27 leak_28 leak_29 leak_30 leak_31 leak_32 leak_33
    leak_34 leak_35 leak_36 leak_37 leak_38
}

/// Runs `cargo gpu-leak WORDS` in a workspace whose tests are `tests`.
fn gpu_leak(directory: &Path, words: &[&str], tests: &[&str]) -> CliOutput {
    let this = env::current_exe().expect("this program");
    let run = format!(
        "while [ \"$1\" != -- ]; do shift; done\n\
         shift\n\
         exec '{}' \"$@\"",
        this.display()
    );
    let mut command: Command = command();
    command
        .args(words)
        .env("CARGO", cargo_that_runs(directory, &run))
        .env("GPU_LEAK_CHECK_OUTPUT", directory.join("runs"))
        .env(
            "GPU_LEAK_CHECK_CONFIG",
            directory.join("gpu-leak-check.toml"),
        );
    if words[0] == "test" {
        command
            .args(["--", "--exact", "--ignored", "--test-threads=1"])
            .args(tests);
    }
    call(&mut command)
}

#[test]
fn a_suite_with_37_leaks_is_adopted_in_three_commands_and_fails_on_the_38th_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let config = directory.join("gpu-leak-check.toml");
    fs::write(&config, "").expect("a file");
    let (known, with_one_more) = (&LEAKS[..37], LEAKS);

    let first = gpu_leak(directory, &["test"], known);
    assert_eq!(first.code, Some(101), "{first:?}");
    assert!(first.stderr.contains("37 checked: 37 leaked"), "{first:?}");

    let allow = ["allow", "--write", "--reason", "known before"];
    let allowed = gpu_leak(directory, &allow, known);
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    assert!(allowed.stderr.contains("37 entries added"), "{allowed:?}");
    let entries = fs::read_to_string(&config).expect("the file");
    assert!(entries.starts_with("# leaked: "), "{entries}");

    let adopted = gpu_leak(directory, &["test"], known);
    assert_eq!(adopted.code, Some(0), "{adopted:?}");
    assert!(
        adopted.stderr.contains("37 checked: 37 allowed"),
        "{adopted:?}"
    );
    assert!(
        adopted.stdout.contains("37 passed; 0 failed"),
        "{adopted:?}"
    );

    let new = gpu_leak(directory, &["test"], with_one_more);
    assert_eq!(new.code, Some(101), "{new:?}");
    assert!(
        new.stderr.contains("38 checked: 1 leaked, 37 allowed"),
        "{new:?}"
    );
    assert!(new.stdout.contains("37 passed; 1 failed"), "{new:?}");
    assert!(new.stderr.contains("leaked: adopted::leak_38\n"), "{new:?}");
}
