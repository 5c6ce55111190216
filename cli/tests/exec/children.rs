//! What the library meets that is preloaded into all that a program starts: programs that cannot have it,
//! programs that are linked to the driver, and libraries that give back what they hold as the last of all.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpu_leak_check::report::model::CheckStatus;
use gpu_leak_tests::fake::Fake;

use super::{Ran, ran_with};

/// Compiles `source`; none where there is no such compiler.
fn built(
    folder: &Path,
    name: &str,
    source: &str,
    compiler: &str,
    flags: &[&str],
) -> Option<PathBuf> {
    let (file, path) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&file, source).expect("a source");
    let mut compile = Command::new(compiler);
    compile.arg("-o").arg(&path).arg(&file).args(flags);
    let output = compile.output().ok()?;
    output.status.success().then_some(path)
}

fn by_cc(folder: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    built(folder, name, source, "cc", flags).expect("a C compiler")
}

/// Runs `program` behind a shell, as a build or a script does: what the shell is told of its end, and all
/// that it wrote.
fn behind_a_shell(folder: &Path, program: &Path) -> (Ran, String) {
    let written = folder.join("written");
    let line = format!(
        "'{}' > '{file}' 2>&1; echo \"ended $?\" >> '{file}'",
        program.display(),
        file = written.display()
    );
    let words = ["-c", &line].map(OsStr::new);
    let ran = ran_with(&Fake::new(), &[], Path::new("/bin/sh"), &words);
    (ran, fs::read_to_string(written).expect("what it wrote"))
}

const ENDS_WITH_7: &str = "int main(void) { return 7; }\n";

/// For a machine without a C library of 32 bits: a loader is enough.
const ENDS_WITH_7_OF_32_BITS: &str =
    "void _start(void) { __asm__ volatile(\"int $0x80\" :: \"a\"(1), \"b\"(7)); }\n";

#[test]
#[expect(clippy::print_stdout, reason = "says what was not tested")]
fn children_that_cannot_be_watched_run_as_they_would_and_write_nothing_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = |name, source, compiler, flags: &[&str]| {
        (name, built(folder.path(), name, source, compiler, flags))
    };
    let narrow = [
        "-m32",
        "-nostdlib",
        "-fPIE",
        "-pie",
        "-Wl,-dynamic-linker,/lib/ld-linux.so.2",
    ];
    let has_narrow_loader = Path::new("/lib/ld-linux.so.2").exists();
    let programs = [
        made("static", ENDS_WITH_7, "cc", &["-static"]),
        made("musl", ENDS_WITH_7, "musl-gcc", &[]),
        made("narrow", ENDS_WITH_7_OF_32_BITS, "cc", &narrow),
    ];
    for (name, program) in programs {
        let Some(program) = program.filter(|_| name != "narrow" || has_narrow_loader) else {
            println!("skipped: nothing here makes or runs a {name} program");
            continue;
        };
        let (ran, written) = behind_a_shell(folder.path(), &program);
        assert_eq!(written, "ended 7\n", "{name}: {:?}", ran.told);
        assert_eq!(ran.told.code, Some(3), "{name}: {:?}", ran.told);
    }
}

#[test]
fn a_set_uid_child_runs_as_it_would_and_writes_nothing_more() {
    let Some(su) = ["/bin/su", "/usr/bin/su"]
        .into_iter()
        .map(Path::new)
        .find(|su| su.exists())
    else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    // Of no account, whose name nobody has: it ends by itself.
    let script = folder.path().join("asks");
    let text = format!("#!/bin/sh\nexec {} --version\n", su.display());
    fs::write(&script, text).expect("a script");
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("executable");
    let plain = Command::new(su).arg("--version").output().expect("su");
    let (_, written) = behind_a_shell(folder.path(), &script);
    let plain = String::from_utf8_lossy(&plain.stdout).into_owned();
    assert_eq!(written, format!("{plain}ended 0\n"));
}

const LINKED: &str = "
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long *, unsigned long);
int main(void) {
    void *context;
    unsigned long memory;
    return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)
        || cuMemAlloc_v2(&memory, 4096);
}
";

#[test]
fn a_program_that_is_linked_to_the_driver_is_watched() {
    let (folder, machine) = (tempfile::tempdir().expect("a folder"), Fake::new());
    let driver = machine.folder().join("libcuda.so.1");
    let program = by_cc(
        folder.path(),
        "linked",
        LINKED,
        &["-g", driver.to_str().expect("text")],
    );
    let ran = ran_with(&machine, &[], &program, &[]);
    assert_eq!(ran.told.code, Some(1), "{:?}", ran.told);
    let finding = &ran.files()[0].reports[0].findings[0];
    assert_eq!((finding.count, finding.bytes), (1, 4096), "{:?}", ran.told);
}

/// As the CUDA runtime, where it is a shared library: it gives back in a destructor.
const RUNTIME: &str = "
#include <dlfcn.h>
static void *library;
static unsigned long memory;
static void *function(const char *name) { return dlsym(library, name); }
int runtime_begins(void) {
    void *context;
    library = dlopen(\"libcuda.so.1\", RTLD_NOW);
    return ((int (*)(unsigned))function(\"cuInit\"))(0)
        || ((int (*)(void **, int))function(\"cuDevicePrimaryCtxRetain\"))(&context, 0)
        || ((int (*)(void *))function(\"cuCtxSetCurrent\"))(context)
        || ((int (*)(unsigned long *, unsigned long))function(\"cuMemAlloc_v2\"))(&memory, 4096);
}
__attribute__((destructor)) static void runtime_ends(void) {
    ((int (*)(unsigned long))function(\"cuMemFree_v2\"))(memory);
}
";

#[test]
fn what_a_library_gives_back_in_its_destructor_is_no_leak() {
    let (folder, machine) = (tempfile::tempdir().expect("a folder"), Fake::new());
    let runtime = by_cc(
        folder.path(),
        "libruntime.so",
        RUNTIME,
        &["-shared", "-fPIC"],
    );
    let runtime = runtime.to_str().expect("text");
    let is_linked = "int runtime_begins(void); int main(void) { return runtime_begins(); }\n";
    let linked = by_cc(folder.path(), "linked", is_linked, &[runtime]);
    let opens = format!(
        "#include <dlfcn.h>\nint main(void) {{\n  void *it = dlopen(\"{runtime}\", RTLD_NOW);\n  \
         return ((int (*)(void))dlsym(it, \"runtime_begins\"))();\n}}\n"
    );
    let opens = by_cc(folder.path(), "opens", &opens, &[]);
    for program in [linked, opens] {
        let ran = ran_with(&machine, &[], &program, &[]);
        assert_eq!(ran.told.code, Some(0), "{program:?}: {:?}", ran.told);
        let report = &ran.files()[0].reports[0];
        assert_eq!(
            report.status,
            CheckStatus::Clean,
            "{program:?}: {:?}",
            ran.told
        );
    }
}
