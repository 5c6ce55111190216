//! How the preloaded library treats the processes that a program under `exec` starts. Some of them
//! cannot load it, some are linked to the driver, and some use libraries that free what they hold
//! at the very end.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpu_leak_check::report::check_report::CheckStatus;
use gpu_leak_tests::fake::Fake;
use gpu_leak_tests::skipped;

use super::{Ran, program, ran_with};

/// Compiles `source` and returns the program's path, or `None` if the compiler is missing or fails.
fn built(
    directory: &Path,
    name: &str,
    source: &str,
    compiler: &str,
    flags: &[&str],
) -> Option<PathBuf> {
    let (file, path) = (directory.join(format!("{name}.c")), directory.join(name));
    fs::write(&file, source).expect("a source");
    let mut compile = Command::new(compiler);
    compile.arg("-o").arg(&path).arg(&file).args(flags);
    let output = compile.output().ok()?;
    output.status.success().then_some(path)
}

fn by_cc(directory: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    built(directory, name, source, "cc", flags).expect("a C compiler")
}

/// Runs `program` from a shell, as a build or a script would. Returns the exit status that the
/// shell sees, and all output.
fn behind_a_shell(directory: &Path, program: &Path) -> (Ran, String) {
    let written = directory.join("written");
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

/// This program also works on a machine without a 32-bit C library. It needs only a 32-bit loader.
const ENDS_WITH_7_OF_32_BITS: &str =
    "void _start(void) { __asm__ volatile(\"int $0x80\" :: \"a\"(1), \"b\"(7)); }\n";

#[test]
fn children_that_cannot_be_watched_run_unchanged_and_print_nothing_extra() {
    let directory = tempfile::tempdir().expect("a directory");
    let made = |name, source, compiler, flags: &[&str]| {
        (name, built(directory.path(), name, source, compiler, flags))
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
            skipped(&format!("nothing here makes or runs a {name} program"));
            continue;
        };
        let (ran, written) = behind_a_shell(directory.path(), &program);
        assert_eq!(written, "ended 7\n", "{name}: {:?}", ran.reported);
        assert_eq!(ran.reported.code, Some(3), "{name}: {:?}", ran.reported);
    }
}

#[test]
fn a_set_uid_child_runs_unchanged_and_prints_nothing_extra() {
    let Some(su) = ["/bin/su", "/usr/bin/su"]
        .into_iter()
        .map(Path::new)
        .find(|su| su.exists())
    else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    // This script runs a set-uid program that exits immediately.
    let script = directory.path().join("asks");
    let text = format!("#!/bin/sh\nexec {} --version\n", su.display());
    fs::write(&script, text).expect("a script");
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("executable");
    let plain = Command::new(su).arg("--version").output().expect("su");
    let (_, written) = behind_a_shell(directory.path(), &script);
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
    let (directory, machine) = (tempfile::tempdir().expect("a directory"), Fake::new());
    let driver = machine.directory().join("libcuda.so.1");
    let program = by_cc(
        directory.path(),
        "linked",
        LINKED,
        &["-g", driver.to_str().expect("text")],
    );
    let ran = ran_with(&machine, &[], &program, &[]);
    assert_eq!(ran.reported.code, Some(1), "{:?}", ran.reported);
    let finding = &ran.files()[0].reports[0].findings[0];
    assert_eq!(
        (finding.count, finding.bytes),
        (1, 4096),
        "{:?}",
        ran.reported
    );
}

/// Like the CUDA runtime as a shared library, this library frees what it holds in a destructor.
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
fn memory_freed_by_a_library_s_destructor_is_not_a_leak() {
    let (directory, machine) = (tempfile::tempdir().expect("a directory"), Fake::new());
    let runtime = by_cc(
        directory.path(),
        "libruntime.so",
        RUNTIME,
        &["-shared", "-fPIC"],
    );
    let runtime = runtime.to_str().expect("text");
    let is_linked = "int runtime_begins(void); int main(void) { return runtime_begins(); }\n";
    let linked = by_cc(directory.path(), "linked", is_linked, &[runtime]);
    let opens = format!(
        "#include <dlfcn.h>\nint main(void) {{\n  void *it = dlopen(\"{runtime}\", RTLD_NOW);\n  \
         return ((int (*)(void))dlsym(it, \"runtime_begins\"))();\n}}\n"
    );
    let opens = by_cc(directory.path(), "opens", &opens, &[]);
    for program in [linked, opens] {
        let ran = ran_with(&machine, &[], &program, &[]);
        assert_eq!(
            ran.reported.code,
            Some(0),
            "{program:?}: {:?}",
            ran.reported
        );
        let report = &ran.files()[0].reports[0];
        assert_eq!(
            report.status,
            CheckStatus::Clean,
            "{program:?}: {:?}",
            ran.reported
        );
    }
}

/// Like the libraries of compute-sanitizer, this library provides the `dlopen` that every other
/// library calls.
const OWN_DLOPEN: &str = "
#define _GNU_SOURCE
#include <dlfcn.h>
void *dlopen(const char *name, int flags) {
    void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, \"dlopen\");
    void *library = real(name, flags);
    return library;
}
";

#[test]
fn a_program_whose_tool_has_its_own_dlopen_is_watched() {
    let directory = tempfile::tempdir().expect("a directory");
    let flags = ["-shared", "-fPIC", "-O0", "-ldl"];
    let tool = by_cc(directory.path(), "libtool.so", OWN_DLOPEN, &flags);
    let script = format!(
        "LD_PRELOAD='{}':$LD_PRELOAD exec '{}' one",
        tool.display(),
        program().display()
    );
    let words = ["-c", &script].map(OsStr::new);
    let ran = ran_with(&Fake::new(), &[], Path::new("/bin/sh"), &words);
    assert_eq!(ran.reported.code, Some(1), "{:?}", ran.reported);
    let finding = &ran.files()[0].reports[0].findings[0];
    assert_eq!(
        (finding.count, finding.bytes),
        (1, 4096),
        "{:?}",
        ran.reported
    );
}

/// This library's `dlsym` comes before the harness's and does not call it.
const OWN_DLSYM: &str = "
#define _GNU_SOURCE
#include <dlfcn.h>
void *dlsym(void *library, const char *name) {
    void *libc = dlopen(\"libc.so.6\", RTLD_NOW);
    void *real = dlvsym(libc, \"dlsym\", \"GLIBC_2.34\");
    return ((void *(*)(void *, const char *))real)(library, name);
}
";

#[test]
fn a_program_whose_tool_has_its_own_dlsym_is_not_measured() {
    let (directory, machine) = (tempfile::tempdir().expect("a directory"), Fake::new());
    let flags = ["-shared", "-fPIC"];
    let tool = by_cc(directory.path(), "libtool.so", OWN_DLSYM, &flags);
    let driver = machine.directory().join("libcuda.so.1");
    let source = "int cuInit(unsigned); int main(void) { return cuInit(0); }\n";
    let flags = [driver.to_str().expect("text")];
    let linked = by_cc(directory.path(), "linked", source, &flags);
    let script = format!(
        "LD_PRELOAD='{}':$LD_PRELOAD exec '{}'",
        tool.display(),
        linked.display()
    );
    let words = ["-c", &script].map(OsStr::new);
    let reported = ran_with(&machine, &[], Path::new("/bin/sh"), &words).reported;
    assert_eq!(reported.code, Some(3), "{reported:?}");
    let why = "another preloaded library defines `dlsym`";
    assert!(reported.stderr.contains(why), "{reported:?}");
}

/// Like the library that ncu preloads, this library is returned in place of the driver, and its
/// functions call the driver's.
const A_SECOND_DRIVER: &str = "
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
typedef unsigned long ptr;
static void *(*open_library(void))(const char *, int)
{
    return (void *(*)(const char *, int))dlsym(RTLD_NEXT, \"dlopen\");
}
void *dlopen(const char *name, int flags)
{
    if (!name || !strstr(name, \"libcuda.so\")) return open_library()(name, flags);
    Dl_info us;
    dladdr((void *)open_library, &us);
    return open_library()(us.dli_fname, flags);
}
static void *real(const char *name)
{
    static void *driver;
    if (!driver) driver = open_library()(\"libcuda.so.1\", RTLD_NOW | RTLD_LOCAL);
    return dlsym(driver, name);
}
#define FORWARD(name, parameters, ...) \\
    int name parameters { return ((int (*) parameters)real(#name))(__VA_ARGS__); }
FORWARD(cuInit, (unsigned flags), flags)
FORWARD(cuDevicePrimaryCtxRetain, (void **context, int device), context, device)
FORWARD(cuCtxSetCurrent, (void *context), context)
FORWARD(cuMemAlloc_v2, (ptr *memory, ptr bytes), memory, bytes)
FORWARD(cuMemFree_v2, (ptr memory), memory)
FORWARD(cuGetProcAddress_v2,
    (const char *name, void **function, int version, ptr flags, int *status),
    name, function, version, flags, status)
";

/// Uses the functions of both drivers. Each driver frees what the other has created.
const BY_BOTH_DRIVERS: &str = "
#include <dlfcn.h>
typedef unsigned long ptr;
static void *library;
static void *by_name(const char *name) { return dlsym(library, name); }
static void *by_address(const char *name)
{
    void *function = 0;
    int status;
    ((int (*)(const char *, void **, int, ptr, int *))by_name(\"cuGetProcAddress_v2\"))(
        name, &function, 12000, 0, &status);
    return function;
}
int main(void)
{
    void *context;
    ptr freed, left;
    library = dlopen(\"libcuda.so.1\", RTLD_NOW);
    return ((int (*)(unsigned))by_name(\"cuInit\"))(0)
        || ((int (*)(void **, int))by_name(\"cuDevicePrimaryCtxRetain\"))(&context, 0)
        || ((int (*)(void *))by_address(\"cuCtxSetCurrent\"))(context)
        || ((int (*)(ptr *, ptr))by_name(\"cuMemAlloc_v2\"))(&freed, 4096)
        || ((int (*)(ptr *, ptr))by_address(\"cuMemAlloc\"))(&left, 8192)
        || ((int (*)(ptr))by_address(\"cuMemFree\"))(freed);
}
";

#[test]
fn a_call_through_two_drivers_is_one_call() {
    let directory = tempfile::tempdir().expect("a directory");
    let flags = ["-shared", "-fPIC", "-O0", "-ldl"];
    let tool = by_cc(directory.path(), "libtool.so", A_SECOND_DRIVER, &flags);
    let program = by_cc(directory.path(), "both", BY_BOTH_DRIVERS, &["-g", "-ldl"]);
    for order in ["'$TOOL':$LD_PRELOAD", "$LD_PRELOAD:'$TOOL'"] {
        let preloaded = order.replace("$TOOL", tool.to_str().expect("text"));
        let script = format!("LD_PRELOAD={preloaded} exec '{}'", program.display());
        let words = ["-c", &script].map(OsStr::new);
        let ran = ran_with(&Fake::new(), &[], Path::new("/bin/sh"), &words);
        assert_eq!(ran.reported.code, Some(1), "{:?}", ran.reported);
        let report = &ran.files()[0].reports[0];
        let found: Vec<_> = (report.findings.iter())
            .map(|finding| (finding.count, finding.bytes))
            .collect();
        assert_eq!(found, [(1, 8192)], "{:?}", ran.reported);
    }
}
