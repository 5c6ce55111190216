//! Special conditions in and around a process: child processes that run no fork handlers, unloaded
//! libraries, a profiler's timer, panics that abort, and Valgrind.

#![expect(
    unsafe_code,
    reason = "starts processes, loads libraries and sets timers with libc"
)]

use std::ffi::{CStr, c_char};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::FindingKind;
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::{Child, clean};
use gpu_leak_tests::fake::Fake;
use gpu_leak_tests::library;
use gpu_leak_tests::skipped;

use super::driver::{Pointer, allocate, context, free, wait_for};
use super::only_finding;

/// The variable that tells a child the path of its library.
const LIBRARY: &str = "SURROUNDINGS_LIBRARY";

/// Runs an ignored test that leaks 8 bytes, with a library that is compiled from `source`. Fails
/// unless the check finds exactly that leak.
fn leaks_8_bytes(test: &str, source: &str) -> Checked {
    let folder = tempfile::tempdir().expect("a folder");
    let library = library::of_c(folder.path(), "libsurroundings.so", source);
    let fake = Fake::new();
    let run = fake.run(&format!("boundary::surroundings::{test}"));
    let checked = checked::finish(run.env(LIBRARY, &library));
    let output = checked.output();
    let finding = only_finding(checked.report(), &output);
    let found = (finding.kind, finding.count, finding.bytes);
    assert_eq!(found, (FindingKind::Leaked, 1, 8), "{output}");
    assert!(checked.aborted.is_empty(), "{output}");
    let last_lines = checked.child.stderr.matches("1 checked: 1 leaked");
    assert_eq!(last_lines.count(), 1, "{output}");
    checked
}

fn open() -> libloading::Library {
    let file = std::env::var(LIBRARY).expect("the parent has compiled it");
    // SAFETY: the library runs nothing when it is loaded or unloaded.
    unsafe { libloading::Library::new(file) }.expect("it can be loaded")
}

const TRUE: &CStr = c"/bin/true";

#[test]
fn a_child_of_vfork_or_posix_spawn_does_not_affect_its_parent() {
    let source = "#include <unistd.h>\n\
        int spawn(const char *program, int execute) {\n\
            int child = vfork();\n\
            if (child == 0 && execute) execl(program, program, (char *)0);\n\
            if (child == 0) _exit(execute ? 127 : 7);\n\
            return child;\n\
        }\n";
    leaks_8_bytes("starts_children", source);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn starts_children() {
    context();
    let freed_later = allocate(100).unwrap();
    allocate(8).unwrap();
    let library = open();
    for (execute, code) in [(1, 0), (0, 7)] {
        // SAFETY: the function has this type, and its child does only what `vfork` allows.
        let child = unsafe {
            let spawn: libloading::Symbol<'_, extern "C" fn(*const c_char, i32) -> i32> =
                library.get(b"spawn\0").expect("the function");
            spawn(TRUE.as_ptr(), execute)
        };
        assert_eq!(wait_for(child), code);
    }
    let mut child = 0;
    let arguments = [TRUE.as_ptr().cast_mut(), null_mut()];
    // SAFETY: null attributes select the defaults, and both lists end with a null pointer.
    let spawned = unsafe {
        let environment = [null_mut()];
        libc::posix_spawn(
            &raw mut child,
            TRUE.as_ptr(),
            null(),
            null(),
            arguments.as_ptr(),
            environment.as_ptr(),
        )
    };
    assert_eq!(spawned, 0);
    assert_eq!(wait_for(child), 0);
    free(freed_later).unwrap();
}

#[test]
fn the_frames_of_a_library_that_was_unloaded_are_still_named() {
    let source = "unsigned long takes_in_a_library(unsigned long (*take)(void)) {\n\
            unsigned long taken = take();\n\
            __asm__ volatile(\"\" : \"+r\"(taken));\n\
            return taken;\n\
        }\n";
    let checked = leaks_8_bytes("leaks_through_a_library", source);
    let frames = &checked.report().findings[0].site.frames;
    let mut names = frames.iter();
    let frame = names.find(|frame| frame.function.as_deref() == Some("takes_in_a_library"));
    let frame = frame.unwrap_or_else(|| panic!("{frames:#?}\n{}", checked.output()));
    assert_eq!(frame.module.as_deref(), Some("libsurroundings.so"));
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_through_a_library() {
    extern "C" fn take() -> Pointer {
        allocate(8).unwrap()
    }
    type Takes = extern "C" fn(extern "C" fn() -> Pointer) -> Pointer;

    context();
    let library = open();
    // SAFETY: the function has this type.
    unsafe {
        let takes: libloading::Symbol<'_, Takes> =
            library.get(b"takes_in_a_library\0").expect("the function");
        assert_ne!(takes(take), 0);
    }
    library.close().expect("it can be unloaded");
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let is_loaded = |line: &str| line.contains("r-xp") && line.contains("libsurroundings");
    assert!(!maps.lines().any(is_loaded), "{maps}");
}

#[test]
fn a_profiler_s_timer_changes_no_finding() {
    leaks_8_bytes("is_profiled", "");
}

/// Walks the stack a thousand times per second of processor time, as most profilers do.
fn profile() -> &'static AtomicU32 {
    static TICKS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" {
        fn backtrace(into: *mut *mut libc::c_void, most: i32) -> i32;
    }
    extern "C" fn tick(_: i32) {
        let mut stack = [null_mut(); 64];
        // SAFETY: the array has room for 64 addresses, and `backtrace` was called before, so it
        // loads nothing now.
        let depth = unsafe { backtrace(stack.as_mut_ptr(), 64) };
        TICKS.fetch_add(u32::from(depth > 0), Ordering::Relaxed);
    }

    tick(0);
    // SAFETY: the handler has the right type, and the interval is valid.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = tick as extern "C" fn(i32) as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(
            libc::sigaction(libc::SIGPROF, &raw const action, null_mut()),
            0
        );
        let millisecond = libc::timeval {
            tv_sec: 0,
            tv_usec: 1000,
        };
        let every = libc::itimerval {
            it_interval: millisecond,
            it_value: millisecond,
        };
        assert_eq!(
            libc::setitimer(libc::ITIMER_PROF, &raw const every, null_mut()),
            0
        );
    }
    &TICKS
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn is_profiled() {
    context();
    let ticks = profile();
    allocate(8).unwrap();
    let until = ticks.load(Ordering::Relaxed) + 30;
    while ticks.load(Ordering::Relaxed) < until {
        free(allocate(100).unwrap()).unwrap();
    }
}

/// Builds a program whose panics abort, including those of the harness. Returns `None` if only the
/// tests were copied to this machine.
fn program_that_aborts() -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    let harness = workspace.join("harness");
    if !harness.exists() {
        return None;
    }
    let project = Path::new(env!("CARGO_TARGET_TMPDIR")).join("aborts");
    fs::create_dir_all(project.join("src")).expect("a writable folder");
    let manifest = format!(
        "[package]\nname = \"aborts\"\nedition = \"2024\"\n\
         [dependencies]\ngpu-leak-check = {{ path = {harness:?} }}\n\
         [profile.dev]\npanic = \"abort\"\ndebug = false\n[workspace]\n"
    );
    let program = "use gpu_leak_check::{Place, gpu_leak_check, observe::Source};\n\
        static SOURCE: Source = Source::new(\"program\", &[]);\n\
        #[gpu_leak_check]\n\
        fn main() {\n\
            SOURCE.allocated(Place::named(\"program:0\"), 4096, 64);\n\
            assert!(std::env::args().len() == 1, \"the program's own panic\");\n\
        }\n";
    fs::write(project.join("Cargo.toml"), manifest).expect("a manifest");
    fs::write(project.join("src/main.rs"), program).expect("a source");
    // Selects the versions that this workspace uses, so that cargo downloads nothing.
    fs::copy(workspace.join("Cargo.lock"), project.join("Cargo.lock")).expect("a copy");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = Command::new(cargo)
        .args(["build", "--offline", "--target-dir"])
        .env_remove("RUSTFLAGS")
        .arg(project.join("target"))
        .arg("--manifest-path")
        .arg(project.join("Cargo.toml"))
        .output();
    let Ok(build) = build else {
        skipped("there is no cargo on this machine");
        return None;
    };
    let printed = String::from_utf8_lossy(&build.stderr);
    assert!(build.status.success(), "{printed}");
    Some(project.join("target/debug/aborts"))
}

#[test]
fn a_program_whose_panics_abort_reports_its_leak_and_is_aborted_by_its_panic() {
    let Some(program) = program_that_aborts() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        clean(&mut command);
        let output = folder.path().join(format!("output-{}", arguments.len()));
        command
            .args(arguments)
            .env("GPU_LEAK_CHECK_OUTPUT", &output);
        let child = Child::from(command.output().expect("a process"));
        checked::read(child, &output)
    };
    let leaks = run(&[]);
    let output = leaks.output();
    let finding = only_finding(leaks.report(), &output);
    assert_eq!((finding.count, finding.bytes), (1, 64), "{output}");
    assert_eq!(leaks.child.status.code(), Some(1), "{output}");
    let panics = run(&["panic"]);
    let output = panics.output();
    assert!(panics.reports.is_empty(), "{output}");
    assert_eq!(panics.aborted.len(), 1, "{output}");
    assert!(
        panics.child.stderr.contains("the program's own panic"),
        "{output}"
    );
    assert_eq!(panics.child.status.code(), None, "{output}");
}

/// Suppresses the only error that Valgrind reports: the harness reads the entire contents of a
/// block that is being freed, even bytes that were never written.
const SUPPRESSIONS: &str = include_str!("../../docs/valgrind.supp");

#[test]
fn the_same_leak_is_found_under_valgrind_without_other_errors() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return skipped("there is no Valgrind on this machine");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (suppressions, output) = (
        folder.path().join("suppressions"),
        folder.path().join("output"),
    );
    fs::write(&suppressions, SUPPRESSIONS).expect("a writable folder");
    let fake = Fake::new();
    let mut command = Command::new("valgrind");
    clean(&mut command);
    command
        .args(["--quiet", "--error-exitcode=99"])
        .arg(format!("--suppressions={}", suppressions.display()))
        .arg(std::env::current_exe().expect("this program"))
        .args(["--include-ignored", "--test-threads=1", "--exact"])
        .arg("boundary::surroundings::leaks")
        .envs(fake.env())
        .env("GPU_LEAK_CHECK_OUTPUT", &output);
    let child = Child::from(command.output().expect("a process"));
    let checked = checked::read(child, &output);
    let output = checked.output();
    let finding = only_finding(checked.report(), &output);
    let found = (finding.kind, finding.count, finding.bytes);
    assert_eq!(found, (FindingKind::Leaked, 1, 8), "{output}");
    // This is the exit code of a failed test.
    assert_eq!(checked.child.status.code(), Some(101), "{output}");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks() {
    context();
    free(allocate(100).unwrap()).unwrap();
    allocate(8).unwrap();
}
