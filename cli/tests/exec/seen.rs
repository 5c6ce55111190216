//! Tests of which programs are watched, and of the messages about those that cannot be watched.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use gpu_leak_check::report::check_report::{CheckStatus, Code, Finding};
use gpu_leak_tests::fake::Fake;

use super::{compiled, compiled_from, program, ran, ran_with};
use crate::support::{call, command};

#[test]
fn a_program_without_cuda_is_reported_as_such_and_not_as_clean() {
    let ran = ran(&Fake::new(), &[], "nothing");
    assert_eq!(ran.reported.code, Some(3), "{:?}", ran.reported);
    let said = "the harness saw no initialisation of the CUDA driver";
    assert!(ran.reported.stderr.contains(said), "{:?}", ran.reported);
}

/// The preloaded library defines the driver's functions even where there is no driver.
#[test]
fn a_program_that_asks_for_a_driver_before_it_loads_one_finds_none() {
    let ran = ran(&Fake::new(), &[], "asks-for-a-driver");
    assert_eq!(ran.reported.stdout, "no driver\n", "{:?}", ran.reported);
    assert_eq!(ran.reported.code, Some(3), "{:?}", ran.reported);
}

/// A program may work without a device if there is none. Such a run does not show that the program
/// frees what it allocates on a device.
#[test]
fn a_program_that_finds_no_device_is_not_clean() {
    let machine = Fake::new().devices(0);
    let alone = ran(&machine, &[], "does-without");
    assert_eq!(alone.reported.stdout, "no device\n", "{:?}", alone.reported);
    assert_eq!(alone.reported.code, Some(3), "{:?}", alone.reported);
    let report = &alone.files()[0].reports[0];
    assert_eq!(report.status, CheckStatus::NotMeasured);
    let code = report.reason.as_ref().map(|reason| reason.code);
    assert_eq!(code, Some(Code::NoGpu), "{report:?}");
    // If another process was measured, such a process does not affect the exit code.
    let child = format!("'{}' clean", program().display());
    let words = [OsStr::new("does-without"), OsStr::new(&child)];
    let beside = ran_with(&machine, &[], program(), &words);
    assert_eq!(beside.reported.code, Some(0), "{:?}", beside.reported);
    assert_eq!(beside.files().len(), 2, "{:?}", beside.reported);
}

/// The `dlsym` of such a library is the C library's, so what the library looks up is not seen.
#[test]
fn a_library_with_its_own_symbols_first_is_named_and_the_program_is_not_clean() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = ["-shared", "-fPIC", "-DFUNCTION=creates"];
    let library = compiled_from("library.c", directory.path(), "plugin.so", &options);
    let run = |what: &str| {
        let words = [OsStr::new(what), library.as_os_str(), OsStr::new("creates")];
        ran_with(&Fake::new(), &[], program(), &words)
    };
    assert_eq!(run("libraries").reported.code, Some(1), "the leak is seen");
    for unseen in ["", "-closed"].map(|end| format!("libraries-with-their-own-symbols-first{end}"))
    {
        let unseen = run(&unseen);
        assert_eq!(unseen.reported.code, Some(3), "{:?}", unseen.reported);
        let report = &unseen.files()[0].reports[0];
        assert_eq!(report.status, CheckStatus::Inconclusive);
        let reason = report.reason.as_ref().expect("a reason");
        assert_eq!(reason.code, Code::UnheardLibrary, "{reason:?}");
        assert!(reason.what.ends_with("/plugin.so"), "{reason:?}");
        // The program already runs under `exec`.
        let helps = reason.remedy.contains("RTLD_DEEPBIND") && !reason.remedy.contains("exec");
        assert!(helps, "{reason:?}");
    }
}

/// The loader puts the second library where the first one was, so both have the same addresses.
#[test]
fn a_library_at_the_address_of_an_unloaded_one_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = ["-shared", "-fPIC", "-DFUNCTION=creates"];
    let libraries = ["first.so", "second.so"];
    let paths = libraries.map(|name| compiled_from("library.c", directory.path(), name, &options));
    let [first, second] = paths.each_ref().map(|path| path.as_os_str());
    let creates = OsStr::new("creates");
    let words = ["libraries-closed".as_ref(), first, creates, second, creates];
    let ran = ran_with(&Fake::new(), &[], program(), &words);
    assert_eq!(ran.reported.code, Some(1), "{:?}", ran.reported);
    let findings = &ran.files()[0].reports[0].findings;
    let modules = |finding: &Finding| finding.site.frames[0].module.clone();
    let named: Vec<_> = findings.iter().map(modules).collect();
    assert_eq!(named, libraries.map(|name| Some(name.into())));
}

/// A report that was requested is written even without a driver.
#[test]
fn a_missing_driver_is_reported_and_the_report_is_still_written() {
    if fs::exists("/dev/nvidiactl").is_ok_and(|there| there) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("leaks.html");
    let mut command = command();
    command.env("GPU_LEAK_CHECK_OUTPUT", directory.path());
    command
        .args(["exec", "--report"])
        .arg(format!("html={}", page.display()));
    let reported = call(command.args(["--", "true"]));
    assert_eq!(reported.code, Some(3), "{reported:?}");
    assert!(
        reported.stderr.contains("no usable CUDA driver was found"),
        "{reported:?}"
    );
    assert!(page.is_file());
}

#[test]
fn a_static_program_counts_as_one_without_cuda() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("nothing.c");
    fs::write(&source, "int main(void) { return 0; }\n").expect("a source");
    let program = directory.path().join("nothing");
    let status = std::process::Command::new("cc")
        .args(["-static", "-o"])
        .args([&program, &source])
        .status();
    assert!(status.expect("a C compiler").success());
    let ran = ran_with(&Fake::new(), &[], &program, &[]);
    assert_eq!(ran.reported.code, Some(3), "{:?}", ran.reported);
}

#[test]
fn a_missing_program_is_wrong_usage() {
    let ran = ran_with(&Fake::new(), &[], Path::new("/nowhere/train"), &[]);
    assert_eq!(ran.reported.code, Some(2), "{:?}", ran.reported);
    assert!(
        ran.reported
            .stderr
            .contains("no such program: /nowhere/train"),
        "{:?}",
        ran.reported
    );
}

#[test]
fn wrong_settings_are_reported_before_the_program_runs() {
    let wrong = |name: &str, value: &OsStr| {
        let mut command = command();
        command.envs(Fake::new().env()).env(name, value);
        command.args(["exec", "--"]).arg(program()).arg("one");
        call(&mut command)
    };
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("gpu.toml");
    fs::write(&file, "[[alow]]\n").expect("a file");
    let configured = wrong("GPU_LEAK_CHECK_CONFIG", file.as_os_str());
    assert_eq!(configured.code, Some(2), "{configured:?}");
    assert!(
        configured
            .stderr
            .contains("unknown key `alow`, did you mean `allow`?"),
        "{configured:?}"
    );
    let mistyped = wrong("GPU_LEAK_CHECK_ONLEAK", "warn".as_ref());
    assert_eq!(mistyped.code, Some(2), "{mistyped:?}");
    assert!(
        mistyped.stderr.contains("variable GPU_LEAK_CHECK_ONLEAK"),
        "{mistyped:?}"
    );
}

#[test]
fn an_unknown_option_is_reported() {
    let ran = ran_with(&Fake::new(), &[], Path::new("--eror-exitcode"), &[]);
    assert_eq!(ran.reported.code, Some(2), "{:?}", ran.reported);
    let said = &ran.reported.stderr;
    assert!(said.contains("unknown option --eror-exitcode"), "{said}");
}

/// A project in another language has no cargo workspace.
#[test]
fn leaks_of_a_program_are_reported_and_allowed_without_a_workspace() {
    let fake = Fake::new();
    let directory = tempfile::tempdir().expect("a directory");
    let here = |words: &[&OsStr]| {
        let mut command = command();
        command.current_dir(directory.path()).args(words);
        command.envs(fake.env()).env_remove("GPU_LEAK_CHECK_OUTPUT");
        // cargo, which runs this test, has set the variable to a directory of this workspace.
        call(command.env_remove("CARGO_MANIFEST_DIR"))
    };
    let words = |words: &[&'static str]| {
        words
            .iter()
            .map(|word| OsStr::new(*word))
            .collect::<Vec<_>>()
    };
    let none = here(&words(&["report"]));
    assert_eq!(none.code, Some(2), "{none:?}");
    assert!(
        none.stderr.contains("pass the directory of a run"),
        "{none:?}"
    );

    let ran = |what: &str| {
        let [exec, separator, what] = ["exec", "--", what].map(OsStr::new);
        here(&[exec, separator, program().as_ref(), what])
    };
    assert_eq!(ran("one").code, Some(1));
    let read = here(&words(&["report"]));
    assert_eq!(read.code, Some(1), "{read:?}");
    assert!(read.stdout.contains("1 leaked"), "{read:?}");

    let allow = ["allow", "--write", "--reason", "known before"];
    assert_eq!(here(&words(&allow)).code, Some(0));
    let doctor = here(&words(&["doctor"]));
    assert!(
        doctor.stdout.contains("gpu-leak-check.toml, with 1 entry"),
        "{doctor:?}"
    );
    // A daemon leaves its directory before it uses a GPU, and so do some Python programs.
    for what in ["one", "changes-its-directory"] {
        let again = ran(what);
        assert_eq!(again.code, Some(0), "{again:?}");
    }
}

#[test]
fn arguments_that_are_not_utf8_reach_the_program_unchanged() {
    let word = OsStr::from_bytes(&[0xff]);
    let ran = ran_with(&Fake::new(), &[], program(), &[OsStr::new("word"), word]);
    assert_eq!(ran.reported.code, Some(0), "{:?}", ran.reported);
}

#[test]
fn the_program_s_options_are_not_the_command_s() {
    let words = ["one", "--every", "--no-children"].map(OsStr::new);
    let ran = ran_with(&Fake::new(), &[], program(), &words);
    assert_eq!(ran.reported.code, Some(1), "{:?}", ran.reported);
}

#[test]
fn a_process_that_outlives_the_program_is_named() {
    for (then, code) in [("clean", 0), ("nothing", 3)] {
        // Until the shell's child has become `sleep`, it has the name of the shell.
        let is_sleep = "read -r name < /proc/$!/comm && [ \"$name\" = sleep ]";
        let line = format!(
            "sleep 5 >&- 2>&- & until {is_sleep}; do :; done; '{}' {then}",
            program().display()
        );
        let words = ["-c", &line].map(OsStr::new);
        let ran = ran_with(&Fake::new(), &[], Path::new("/bin/sh"), &words);
        assert_eq!(ran.reported.code, Some(code), "{:?}", ran.reported);
        let said = "note: processes of this run have not ended yet: sleep (";
        assert!(ran.reported.stderr.contains(said), "{:?}", ran.reported);
    }
    let ended = ran(&Fake::new(), &[], "clean");
    assert!(
        !ended.reported.stderr.contains("have not ended"),
        "{:?}",
        ended.reported
    );
}

#[test]
fn children_of_a_program_are_watched_unless_they_are_excluded() {
    let both = ran(&Fake::new(), &[], "starts-another");
    assert_eq!(both.reported.code, Some(1), "{:?}", both.reported);
    assert_eq!(both.files().len(), 1);
    let alone = ran(&Fake::new(), &["--no-children"], "starts-another");
    assert_eq!(alone.reported.code, Some(3), "{:?}", alone.reported);
    assert!(
        alone.reported.stderr.contains("--no-children"),
        "{:?}",
        alone.reported
    );
}

#[test]
fn a_program_behind_a_shell_with_preloaded_libraries_is_watched() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = directory.path().join("train.sh");
    let text = format!(
        "#!/bin/sh\nLD_PRELOAD=libm.so.6:$LD_PRELOAD exec '{}' one\n",
        program().display()
    );
    fs::write(&script, text).expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("executable");
    let ran = ran_with(&Fake::new(), &[], &script, &[]);
    assert_eq!(ran.reported.code, Some(1), "{:?}", ran.reported);
}

#[test]
fn a_program_without_line_tables_is_reported_by_function() {
    let directory = tempfile::tempdir().expect("a directory");
    let bare = compiled(directory.path(), "bare", &["-O0", "-ldl", "-rdynamic"]);
    let ran = ran_with(&Fake::new(), &[], &bare, &[OsStr::new("one")]);
    assert_eq!(ran.reported.code, Some(1), "{:?}", ran.reported);
    let frame = ran.files()[0].reports[0].findings[0]
        .site
        .user_frame()
        .cloned();
    let frame = frame.expect("a place");
    assert_eq!(
        (frame.module.as_deref(), frame.line),
        (Some("bare"), None),
        "{frame:?}"
    );
}

/// This happens to a program that is built again while it runs.
#[test]
fn a_program_that_is_replaced_while_it_runs_is_reported_with_its_own_lines() {
    let directory = tempfile::tempdir().expect("a directory");
    let [own, other] = ["train", "other"].map(|name| directory.path().join(name));
    fs::copy(program(), &own).expect("a copy");
    fs::copy("/bin/true", &other).expect("a copy");
    let words = [OsStr::new("is-replaced"), other.as_os_str()];
    let ran = ran_with(&Fake::new(), &[], &own, &words);
    let line = format!("program.c:{}", super::line_of("allocated here"));
    assert!(ran.reported.stderr.contains(&line), "{:?}", ran.reported);
}

#[test]
fn exact_switches_the_allocators_of_pytorch_and_jax_off() {
    let plain = ran(&Fake::new(), &[], "prints-switches");
    let exact = ran(&Fake::new(), &["--exact"], "prints-switches");
    for (name, value) in [
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"),
        ("XLA_PYTHON_CLIENT_ALLOCATOR", "platform"),
        ("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),
    ] {
        let line = |value| format!("{name}={value}\n");
        assert!(
            plain.reported.stdout.contains(&line("")),
            "{:?}",
            plain.reported
        );
        assert!(
            exact.reported.stdout.contains(&line(value)),
            "{:?}",
            exact.reported
        );
    }
    let files = exact.files();
    let again = files[0].reports[0].again.as_deref().expect("the command");
    assert!(
        again.starts_with("cargo gpu-leak exec --exact -- "),
        "{again}"
    );
}

/// A program may load hundreds of libraries, such as the modules of Python packages.
#[test]
fn the_unwind_tables_of_libraries_that_are_opened_later_are_copied_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let library = |name: &str, more: &str| {
        let options = ["-shared", "-fPIC", "-O1", "-DFUNCTION=creates", more];
        compiled_from("library.c", directory.path(), name, &options)
    };
    let mut words = vec![
        PathBuf::from("opens"),
        library("large.so", "-DLARGE_TABLES"),
    ];
    let small = library("small.so", "-g");
    for number in 0..40 {
        let copy = directory.path().join(format!("small{number}.so"));
        fs::copy(&small, &copy).expect("a copy");
        words.push(copy);
    }
    let words: Vec<_> = words.iter().map(|word| word.as_os_str()).collect();
    let ran = ran_with(&Fake::new(), &[], program(), &words);
    let line = ran.reported.stdout.lines().next().unwrap_or_default();
    let grown: u64 = line.parse().expect("a number");
    // A copy for each of the forty libraries would be at least 24 MiB.
    assert!(grown < 12 << 10, "{grown} KiB: {:?}", ran.reported);
}
