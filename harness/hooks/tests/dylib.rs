//! A Rust library of type `dylib` may contain this crate, as with the feature `dynamic_linking` of
//! bevy. The program that is linked to the library then uses the library's copy.

#![cfg(all(target_os = "linux", not(miri)))]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Reports through the hooks.
const LIBRARY: &str = r#"
pub static POOL: gpu_leak_hooks::Source = gpu_leak_hooks::Source::new("pool", &[]);
pub fn take() { POOL.allocated(gpu_leak_hooks::Place::HOST, 1 << 40, 10); }
"#;

/// Installs a harness, and uses functions of the hooks that are inlined into this program.
const PROGRAM: &str = r#"
use gpu_leak_hooks::{Hooks, Place, Source};
static HOOKS: Hooks = Hooks {
    begin_allow: |_| 0,
    end_allow: |_| (),
    hand_over: |address| println!("handed over {address}"),
    allocated: |_: &Source, _: &Place, _, bytes| println!("allocated {bytes}"),
    freed: |_, _, address| println!("freed {address}"),
};
fn main() {
    gpu_leak_hooks::install(&HOOKS);
    gpu_leak_hooks::allow("a reason", library::take);
    library::POOL.freed(7);
    gpu_leak_hooks::hand_over(8);
}
"#;

/// Compiles `source` in `directory` with these arguments.
fn compile(directory: &Path, source: &Path, arguments: &[&str]) {
    let mut command = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    command.args(["--edition=2024", "-Cprefer-dynamic", "-L."]);
    command.args(arguments).arg(source).current_dir(directory);
    let output = command.output().expect("a Rust compiler");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

#[test]
fn a_program_is_linked_to_a_dynamic_library_that_contains_the_hooks() {
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    for optimisation in ["-Copt-level=0", "-Copt-level=3"] {
        let name = format!("dylib{optimisation}");
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&directory).expect("a directory");
        let write = |name: &str, text: &str| {
            let file = directory.join(name);
            fs::write(&file, text).expect("a file");
            file
        };
        let [library, program] = [write("library.rs", LIBRARY), write("program.rs", PROGRAM)];
        let kind = |kind| ["--crate-type", kind, optimisation];
        let rlib = [
            "--crate-type=rlib",
            "--crate-name=gpu_leak_hooks",
            optimisation,
        ];
        compile(&directory, &hooks, &rlib);
        let uses = "--extern=gpu_leak_hooks";
        compile(
            &directory,
            &library,
            &[&kind("dylib")[..], &[uses]].concat(),
        );
        let linked = [uses, "--extern=library", "-Crpath"];
        compile(&directory, &program, &[&kind("bin")[..], &linked].concat());
        let mut command = Command::new(directory.join("program"));
        let output = command.current_dir(&directory).output().expect("a program");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "allocated 10\nfreed 7\nhanded over 8\n"
        );
    }
}
