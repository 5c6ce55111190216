//! Tests programs linked with different linkers, and other kinds of program that link this crate:
//! build scripts, procedural macros and doctests.
#![cfg(interpose)]
#![expect(clippy::print_stderr, reason = "reports the linkers that are missing")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Cargo, Libraries, program, text};

/// Builds `program.rs` with these arguments for rustc.
fn linked(libraries: &Libraries, arguments: &[&str]) -> Result<PathBuf, String> {
    let cargo = Cargo::new();
    let mut command = cargo.command("rustc");
    let directory = libraries.directory.path().display();
    command
        .args(["--example", "interpose_program", "--"])
        .arg(format!("-L{directory}"))
        .arg(format!("-Clink-arg=-Wl,-rpath,{directory}"))
        .args(arguments);
    let output = command.output().expect("cargo");
    if !output.status.success() {
        return Err(text(&output));
    }
    // The next program that is built has the same name.
    let copy = libraries.path("program");
    fs::copy(cargo.examples().join("interpose_program"), &copy).expect("a copy");
    Ok(copy)
}

/// Runs the program and returns its output.
fn run(path: &Path, library: &Path, driver: &Path) -> String {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir"]);
    if let Some(triple) = Cargo::new().triple() {
        rustc.args(["--target", triple]);
    }
    let libraries = text(&rustc.output().expect("rustc"));
    let output = program(path)
        .arg(library)
        .env("DRIVER", driver)
        .env("LD_LIBRARY_PATH", libraries.trim())
        .output()
        .expect("the program");
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    text
}

const INTERCEPTED: &str = "EveryLookup\nshown true\ninit 100 alloc 102\n\
                     intercepted 1 inits, 2 allocations; inherited 7\n";
const WITHOUT: &str = "EveryLookup\nshown false\nintercepted 0 inits, 1 allocations; inherited 7\n";
/// The program's own calls go to its mock, and look-ups of another driver's functions are
/// intercepted.
const MOCK: &str = "EveryLookup\nshown false\ninit 300 alloc 302\n\
                    intercepted 0 inits, 1 allocations; inherited 7\n";

#[test]
fn calls_are_intercepted_with_every_linker_and_no_symbol_is_added() {
    let libraries = Libraries::new();
    let driver = libraries.driver();
    let looks_up = libraries.compile("looks_up.c", "liblooks_up.so", &[]);
    // For each linker, the text by which its output can be recognised.
    let linkers = [
        (None, ""),
        (Some("lld"), "LLD "),
        (Some("bfd"), ""),
        (Some("mold"), "mold "),
    ];
    for (linker, mark) in linkers {
        let chosen = linker.map(|linker| format!("-Clink-arg=-fuse-ld={linker}"));
        let chosen: Vec<_> = chosen.iter().map(String::as_str).collect();
        let with = |more: &[&str]| linked(&libraries, &[&chosen, more].concat());
        let made = match with(&["--cfg", "linked"]) {
            Err(why) if linker.is_some() && why.contains("linking with") => {
                assert!(
                    std::env::var_os("GPU_LEAK_TEST_ALL_LINKERS").is_none(),
                    "{why}"
                );
                eprintln!("skipped: {} cannot be had", linker.unwrap_or_default());
                continue;
            }
            made => made.expect("a program"),
        };
        let bytes = fs::read(&made).expect("the program");
        let is_marked = bytes
            .windows(mark.len().max(1))
            .any(|it| it == mark.as_bytes());
        assert!(mark.is_empty() || is_marked, "{linker:?} was not used");
        assert_eq!(run(&made, &looks_up, &driver), INTERCEPTED, "{linker:?}");
        let made = with(&[]).expect("a program");
        assert_eq!(run(&made, &looks_up, &driver), WITHOUT, "{linker:?}");
        let made = with(&["--cfg", "mock"]).expect("a program");
        assert_eq!(run(&made, &looks_up, &driver), MOCK, "{linker:?}");
    }
    for option in [
        "-Cprefer-dynamic",
        "-Crelocation-model=static",
        "-Copt-level=3",
    ] {
        let made = linked(&libraries, &["--cfg", "linked", option]).expect("a program");
        assert_eq!(run(&made, &looks_up, &driver), INTERCEPTED, "{option}");
    }
    // All symbols that the program defines are exported, and no others.
    let made = linked(&libraries, &["-Clink-arg=-rdynamic"]).expect("a program");
    assert_eq!(run(&made, &looks_up, &driver), WITHOUT);
    // No symbol is exported. The program's own calls are intercepted; the calls of libraries are
    // intercepted once the libraries are rebound.
    let hidden = ["--cfg", "linked", "-Clink-arg=-Wl,--exclude-libs,ALL"];
    let made = linked(&libraries, &hidden).expect("a program");
    let text = run(&made, &looks_up, &driver);
    assert!(text.starts_with("ReboundOnly\nshown true\n"), "{text}");
    assert!(
        text.contains("intercepted 1 inits, 1 allocations"),
        "{text}"
    );
}

#[test]
fn build_scripts_procedural_macros_and_doctests_can_contain_this_crate() {
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hosts");
    let output = Command::new(env!("CARGO"))
        .args(["test", "--quiet", "--manifest-path"])
        .arg(hosts.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("hosts"))
        .output()
        .expect("cargo");
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("test result: ok").count(), 2, "{text}");
}

#[test]
#[ignore = "builds allocators written in C, and cudarc twice: two minutes"]
fn calls_are_intercepted_with_other_allocators_and_with_cudarc() {
    let libraries = Libraries::new();
    let looks_up = libraries.compile("looks_up.c", "liblooks_up.so", &[]);
    let driver = libraries.driver();
    // cudarc looks for the driver in a toolkit, so the workspace's stand-in is laid out like one.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "-p",
            "gpu-leak-fake-cuda",
            "--target-dir",
        ])
        .arg(libraries.path("target"))
        .current_dir(root)
        .output()
        .expect("cargo");
    assert!(output.status.success(), "{}", text(&output));
    let stand_in = libraries.path("target/debug/libgpu_leak_fake_cuda.so");
    let toolkit = ["include", "lib64"].map(|directory| libraries.path(directory));
    for directory in &toolkit {
        fs::create_dir(directory).expect("a directory");
    }
    fs::write(toolkit[0].join("cuda.h"), "").expect("a file");
    for name in ["libcuda.so", "libcuda.so.1"] {
        fs::copy(&stand_in, toolkit[1].join(name)).expect("a copy");
    }
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/clients");
    for feature in ["jemalloc", "mimalloc", "dynamic-linking", "dynamic-loading"] {
        let output = Command::new(env!("CARGO"))
            .args(["run", "--quiet", "--features", feature, "--manifest-path"])
            .arg(clients.join("Cargo.toml"))
            .arg("--target-dir")
            .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients"))
            .arg("--")
            .arg(&looks_up)
            .env("DRIVER", &driver)
            .env("CUDA_PATH", libraries.directory.path())
            .env("LD_LIBRARY_PATH", &toolkit[1])
            .env("RUSTFLAGS", format!("-L{}", toolkit[1].display()))
            .output()
            .expect("cargo");
        let text = text(&output);
        let intercepted = "intercepted 1 allocations; inherited 7\n";
        assert!(
            output.status.success() && text.ends_with(intercepted),
            "{feature}: {text}"
        );
    }
}
