//! A simulated machine with a GPU: a directory with the stand-in for libcuda, where a child
//! process's loader looks first.

#![expect(
    unsafe_code,
    reason = "calls the functions of the stand-in by their symbols"
)]

use std::ffi::{CString, OsString, c_char};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr;

use tempfile::TempDir;

use crate::child::Run;

/// The names by which programs look for the driver: the driver's own, and that of a toolkit.
const CUDA_NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// The name by which programs look for cuBLAS, which they open when they first need it.
const CUBLAS_NAME: &str = "libcublas.so.13";

/// The name by which programs look for the CUDA runtime.
const CUDART_NAME: &str = "libcudart.so.13";

/// The name that cargo gives to the stand-in for the runtime.
pub const BUILT_CUDART: &str = "libgpu_leak_fake_cudart.so";

/// A directory with the stand-in libraries, and the settings of their driver.
#[derive(Debug)]
pub struct Fake {
    directory: TempDir,
    devices: usize,
    faults: Vec<String>,
}

impl Fake {
    /// Prepares a machine with one device and a driver that reports CUDA 13.0. The driver also
    /// exports functions of later releases, so that their wrappers are tested.
    ///
    /// # Panics
    ///
    /// Panics if the libraries have not been built next to this program, or the directory cannot be
    /// created.
    #[must_use]
    pub fn new() -> Self {
        let directory = TempDir::with_prefix("fake-gpu").expect("a temporary directory");
        for name in CUDA_NAMES {
            link(
                &built("libgpu_leak_fake_cuda.so"),
                &directory.path().join(name),
            );
        }
        Self {
            directory,
            devices: 1,
            faults: Vec::new(),
        }
    }

    /// Adds the stand-in for cuBLAS, which provides only handles.
    #[must_use]
    pub fn with_cublas(self) -> Self {
        link(
            &built("libgpu_leak_fake_cublas.so"),
            &self.directory.path().join(CUBLAS_NAME),
        );
        self
    }

    /// Adds the CUDA runtime as a shared library, for programs that are not statically linked to
    /// it.
    #[must_use]
    pub fn with_cudart(self) -> Self {
        link(
            &built(BUILT_CUDART),
            &self.directory.path().join(CUDART_NAME),
        );
        self
    }

    /// Sets the number of devices; if it is 0, `cuInit` reports that there is no device.
    #[must_use]
    pub fn devices(mut self, count: usize) -> Self {
        self.devices = count;
        self
    }

    /// Adds a fault that is active from the start, in the syntax of the driver's `fault` module,
    /// such as `fail:cuMemFree_v2=1@3`.
    #[must_use]
    pub fn fault(mut self, word: &str) -> Self {
        self.faults.push(word.to_owned());
        self
    }

    /// The directory that contains the libraries.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The environment that a child needs to find this machine.
    ///
    /// # Panics
    ///
    /// Panics if the loader's current path cannot be extended.
    #[must_use]
    pub fn env(&self) -> Vec<(String, OsString)> {
        let present = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let paths = [self.directory.path().to_owned()]
            .into_iter()
            .chain(std::env::split_paths(&present));
        let path = std::env::join_paths(paths).expect("a path without colons");
        vec![
            ("LD_LIBRARY_PATH".to_owned(), path),
            (
                "FAKE_CUDA_DEVICES".to_owned(),
                self.devices.to_string().into(),
            ),
            ("FAKE_CUDA".to_owned(), self.faults.join(",").into()),
        ]
    }

    /// Runs `body` on this machine: the calling test runs again in a child process, and the body
    /// runs there.
    ///
    /// The test's name is taken from the closure, which must be in the test function itself.
    ///
    /// # Panics
    ///
    /// Panics if the body panics.
    pub fn here<F: FnOnce(&Control)>(&self, body: F) {
        if std::env::var_os("FAKE_CUDA").is_some() {
            return body(&Control::of_this_process().expect("the stand-in in this child"));
        }
        let closure = std::any::type_name::<F>();
        let test = closure
            .split_once("::")
            .and_then(|(_, path)| path.strip_suffix("::{{closure}}"));
        let child = self.run(test.expect("a closure in a test function")).run();
        assert!(child.status.success(), "{}\n{}", child.stdout, child.stderr);
    }

    /// Prepares a child process that runs one test of this program on this machine.
    #[must_use]
    pub fn run(&self, test: &str) -> Run {
        self.env()
            .into_iter()
            .fold(Run::of(test), |run, (name, value)| run.env(name, value))
    }
}

impl Default for Fake {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns a library that cargo built for this package, in the directory of the test program.
///
/// # Panics
///
/// Panics if the library does not exist.
#[must_use]
pub fn built(name: &str) -> PathBuf {
    let program = std::env::current_exe().expect("the path of this program");
    let library = program.with_file_name(name);
    assert!(
        library.is_file(),
        "{} does not exist: build the tests with cargo",
        library.display()
    );
    library
}

/// Gives a library a new name. This is not a symbolic link, because stacks would then contain the
/// stand-in's own name, and the harness recognises CUDA's frames by the names of their libraries.
fn link(library: &Path, name: &Path) {
    if fs::hard_link(library, name).is_err() {
        // The temporary directory is on another file system. All names share one copy, because two
        // files would be two libraries with separate state.
        let copy = name.with_file_name(library.file_name().expect("a library's name"));
        if !copy.exists() {
            fs::copy(library, &copy).expect("a copy in a fresh directory");
        }
        fs::hard_link(&copy, name).expect("a link in a fresh directory");
    }
}

/// Inspects and controls the driver, inside a child process that runs on a [`Fake`].
#[derive(Debug)]
pub struct Control {
    library: libloading::Library,
}

impl Control {
    /// Returns the driver of this process, or `None` if it is not the stand-in.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        // SAFETY: the stand-in has no constructors, and a real libcuda may also be loaded.
        let library = unsafe { libloading::Library::new("libcuda.so.1") }.ok()?;
        // SAFETY: the function is not called.
        unsafe { library.get::<extern "C" fn() -> u32>(b"fake_cuda_contexts_made") }.ok()?;
        Some(Self { library })
    }

    fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: every caller below passes the type that the function has in the stand-in.
        *unsafe { self.library.get::<F>(name.as_bytes()) }.expect("a function of the stand-in")
    }

    /// Returns how many objects of a kind are live, and their size in bytes. The driver's `control`
    /// module defines the names of kinds.
    #[must_use]
    pub fn live(&self, kind: &str) -> (u64, u64) {
        let kind = text(kind);
        let mut bytes = 0;
        let live: unsafe extern "C" fn(*const c_char, *mut u64) -> u64 =
            self.function("fake_cuda_live");
        // SAFETY: the pointers are to a C string and a local variable, which both outlive the call.
        let count = unsafe { live(kind.as_ptr(), ptr::from_mut(&mut bytes)) };
        (count, bytes)
    }

    /// The number of contexts created since the process began, live or not.
    #[must_use]
    pub fn contexts_made(&self) -> u32 {
        let made: extern "C" fn() -> u32 = self.function("fake_cuda_contexts_made");
        made()
    }

    /// Adds faults from now on, in the syntax of [`Fake::fault`].
    pub fn set_fault(&self, words: &str) {
        self.call("fake_cuda_set_fault", words);
    }

    /// Removes every fault.
    pub fn clear_faults(&self) {
        let clear: extern "C" fn() = self.function("fake_cuda_clear_faults");
        clear();
    }

    /// Breaks a context for good, as an illegal address in a kernel does.
    ///
    /// # Panics
    ///
    /// Panics if there is no such context.
    pub fn poison(&self, context: u64) {
        let poison: extern "C" fn(u64) -> u32 = self.function("fake_cuda_poison");
        assert_eq!(poison(context), 0, "no such context");
    }

    /// Blocks until `delay:NAME` holds a thread, whose call has taken effect but has not returned.
    pub fn wait_held(&self, name: &str) {
        self.call("fake_cuda_wait_held", name);
    }

    /// Lets one held thread continue.
    pub fn release(&self, name: &str) {
        self.call("fake_cuda_release", name);
    }

    fn call(&self, function: &str, argument: &str) {
        let argument = text(argument);
        let call: unsafe extern "C" fn(*const c_char) = self.function(function);
        // SAFETY: the argument is a C string that outlives the call.
        unsafe { call(argument.as_ptr()) };
    }
}

fn text(text: &str) -> CString {
    CString::new(text).expect("no zero byte inside")
}
