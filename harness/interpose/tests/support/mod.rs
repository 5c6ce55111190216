//! Compiles C libraries for the tests, and runs each test that changes its process in a separate
//! process.
#![allow(dead_code, reason = "each test program uses only some of these items")]
#![expect(unsafe_code, reason = "calls C functions through looked-up addresses")]

use std::env;
use std::ffi::{CStr, CString, OsStr, c_void};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[path = "../fixtures/table.rs"]
pub(crate) mod table;

/// The variable that is set in the separate process of a test.
const ALONE: &str = "GPU_LEAK_INTERPOSE_TEST";

/// Returns a command that runs a program built for the target, with an emulator if the variable
/// names one.
pub(crate) fn program(path: impl AsRef<OsStr>) -> Command {
    match env::var("GPU_LEAK_TEST_RUNNER") {
        Ok(runner) => {
            let mut words = runner.split_whitespace();
            let mut command = Command::new(words.next().expect("a program"));
            command.args(words).arg(path);
            command
        }
        Err(_) => Command::new(path),
    }
}

/// A directory of libraries that are compiled on request, with the compiler that rustc uses for
/// linking.
pub(crate) struct Libraries {
    pub(crate) directory: tempfile::TempDir,
}

impl Libraries {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Compiles `source` to `name`, with further arguments for the compiler.
    pub(crate) fn compile(&self, source: &str, name: &str, arguments: &[&str]) -> PathBuf {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        let output = self.path(name);
        let mut command = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
        command
            .current_dir(fixtures)
            .args(["-O1", "-Wall", "-o"])
            .arg(&output)
            .arg(source);
        if !arguments.contains(&"-DPROGRAM") {
            let soname = format!("-Wl,-soname,{name}");
            command.args(["-shared", "-fPIC", &soname]);
        }
        let directory = self.directory.path().display();
        command
            .args(arguments)
            .args([format!("-L{directory}"), format!("-Wl,-rpath,{directory}")])
            .arg("-ldl");
        let result = command
            .output()
            .expect("a C compiler, which rustc links with");
        assert!(result.status.success(), "{command:?}: {}", text(&result));
        output
    }

    pub(crate) fn driver(&self) -> PathBuf {
        self.compile("driver.c", "libdriver.so", &[])
    }
}

pub(crate) fn text(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    // An emulator cannot preload a library that is built for another processor.
    let lines = both.iter().flat_map(|text| text.split_inclusive('\n'));
    lines
        .filter(|line| !line.starts_with("ERROR: ld.so:"))
        .collect()
}

/// Runs `body` in a separate process with these environment variables. Only the test with this name
/// runs there.
pub(crate) fn alone(test: &str, variables: &[(&str, &OsStr)], body: impl FnOnce()) {
    if env::var(ALONE).as_deref() == Ok(test) {
        return body();
    }
    let exe = env::current_exe().expect("this program");
    let mut command = program(exe);
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(ALONE, test).envs(variables.iter().copied());
    let output = command.output().expect("this program");
    assert!(
        output.status.success(),
        "{}\n{}",
        output.status,
        text(&output)
    );
}

/// How this program was built, and how other programs can be built in the same way.
pub(crate) struct Cargo {
    profile: PathBuf,
}

impl Cargo {
    pub(crate) fn new() -> Self {
        let exe = env::current_exe().expect("this program");
        let profile = exe.ancestors().nth(2).expect("a profile's directory");
        Self {
            profile: profile.to_owned(),
        }
    }

    /// Returns a cargo command for this package, with the same target and profile.
    pub(crate) fn command(&self, name: &str) -> Command {
        let mut target = self.profile.parent().expect("a target's directory");
        let triple = self.triple();
        let mut command = Command::new(env!("CARGO"));
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        command.args([name, "--quiet", "--manifest-path", manifest]);
        if self.profile.ends_with("release") {
            command.arg("--release");
        }
        if let Some(triple) = triple {
            command.args(["--target", triple]);
            target = target.parent().expect("the build's directory");
        }
        command.arg("--target-dir").arg(target);
        command
    }

    /// Returns the target triple, which is part of the path only if it was given to cargo.
    pub(crate) fn triple(&self) -> Option<&str> {
        let directory = self.profile.parent()?.file_name()?.to_str()?;
        directory.contains("-linux-").then_some(directory)
    }

    pub(crate) fn examples(&self) -> PathBuf {
        self.profile.join("examples")
    }
}

/// Builds one of the package's libraries for tests.
pub(crate) fn built(name: &str) -> PathBuf {
    let cargo = Cargo::new();
    let output = cargo.command("build").args(["--example", name]).output();
    let output = output.expect("cargo");
    assert!(output.status.success(), "{}", text(&output));
    cargo.examples().join(format!("lib{name}.so"))
}

/// A library opened with `dlopen`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Library(pub(crate) *mut c_void);

impl Library {
    pub(crate) fn open(path: impl AsRef<Path>) -> Self {
        Self::open_with(path, libc::RTLD_NOW)
    }

    pub(crate) fn open_with(path: impl AsRef<Path>, flags: i32) -> Self {
        let path = CString::new(path.as_ref().as_os_str().as_encoded_bytes()).expect("a path");
        // SAFETY: the libraries' constructors may run here.
        let handle = unsafe { libc::dlopen(path.as_ptr(), flags) };
        assert!(!handle.is_null(), "{}", error());
        Self(handle)
    }

    /// Returns the address that `dlsym` finds for `name`.
    pub(crate) fn find(self, name: &CStr) -> *const () {
        look_up(self.0, name)
    }

    /// Calls a function that takes no arguments.
    pub(crate) fn call(self, name: &CStr) -> i32 {
        let function = self.find(name);
        assert!(!function.is_null(), "{name:?}: {}", error());
        // SAFETY: functions with these names have this type.
        unsafe { std::mem::transmute::<*const (), unsafe extern "C" fn() -> i32>(function)() }
    }

    /// Returns the address that the library built from `looks_up.c` or `linked.c` finds.
    pub(crate) fn asks(self, function: &CStr, name: &CStr) -> *const () {
        let function = self.find(function);
        type Finds = unsafe extern "C" fn(*const std::ffi::c_char) -> *const ();
        // SAFETY: the function with this name has this type.
        unsafe { std::mem::transmute::<*const (), Finds>(function)(name.as_ptr()) }
    }
}

pub(crate) fn look_up(handle: *mut c_void, name: &CStr) -> *const () {
    // SAFETY: the handle comes from `dlopen` or is a special one, and the name is a C string.
    unsafe { libc::dlsym(handle, name.as_ptr()).cast_const().cast() }
}

/// Returns the message of `dlerror`.
pub(crate) fn error() -> String {
    // SAFETY: the message is copied before any other call can replace it.
    unsafe {
        let message = libc::dlerror();
        if message.is_null() {
            return String::new();
        }
        CStr::from_ptr(message).to_string_lossy().into_owned()
    }
}

/// Calls `cuManyArguments` with the numbers from 1 to 28. The function multiplies each argument by
/// its position, so it returns the sum of the squares.
pub(crate) fn many_arguments(function: *const ()) -> f64 {
    type Longs = [i64; 12];
    #[repr(C)]
    struct Twelve(Longs);
    type ManyArguments = unsafe extern "C" fn(
        i64,
        i64,
        i64,
        i64,
        i64,
        i64,
        i64,
        f64,
        f64,
        f64,
        f64,
        f64,
        f64,
        f64,
        f64,
        f64,
        Twelve,
    ) -> f64;
    // SAFETY: the function with this name, or its thunk, has this type.
    unsafe {
        let function = std::mem::transmute::<*const (), ManyArguments>(function);
        let last = Twelve(std::array::from_fn(|at| 17 + at as i64));
        function(
            1, 2, 3, 4, 5, 6, 7, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, last,
        )
    }
}
