//! The call site of an allocation: a backtrace reduced to the frames that matter to the reader of a
//! report, with the owner of each frame.

pub mod allocators;
pub mod libraries;

use std::borrow::Cow;

use crate::ledger::Kind;
use crate::report::{Frame, Language, Owner, Site, bare_name};

/// Returns the call site of the backtrace with these frames.
pub fn site_of(frames: Vec<Frame>, kind: Kind) -> Site {
    let library = libraries::library(&frames[machinery(&frames)..]);
    let frames = trimmed(frames);
    Site {
        library,
        fingerprint: fingerprint(kind, &frames),
        user: user(&frames),
        frames,
    }
}

/// Removes from `frames` the frames that all backtraces have in common: the capture and the
/// harness, CUDA's libraries at the top, and the runtime's start-up code at the bottom.
fn trimmed(mut frames: Vec<Frame>) -> Vec<Frame> {
    while let Some((last, inner)) = frames.split_last()
        && is_start_up(last, inner.last())
    {
        frames.pop();
    }
    frames.drain(..capture(&frames));
    // If a checked block runs inside a test, the harness is also among the outer callers.
    frames.retain(|frame| frame.owner != Owner::Harness);
    let functions = frames
        .iter_mut()
        .filter_map(|frame| frame.function.as_mut());
    for function in functions.filter(|it| it.contains(EXPANSION)) {
        *function = as_written(function).into();
    }
    frames
}

/// Whether one of CUDA's own libraries, rather than the program, made the call. The runtime makes
/// such calls when it loads its code, and cuBLAS when it loads its kernels. Code that the program
/// loads explicitly belongs to the program, regardless of the CUDA library that it uses for this.
pub fn is_cudas_own(frames: &[Frame]) -> bool {
    let called_back = cuda(frames, machinery(frames));
    let called = called_back
        .last()
        .and_then(|frame| frame.function.as_deref());
    if called.is_some_and(loads_code) {
        return false;
    }
    called_back.iter().any(|frame| {
        let module = frame.module.as_deref().unwrap_or_default();
        !module.starts_with("libcuda.so")
    })
}

/// Whether the purpose of this CUDA function is to load code, as with `cudaLibraryLoadData` and
/// `cuModuleLoad`.
fn loads_code(function: &str) -> bool {
    let loads = ["cudaLibraryLoad", "cuLibraryLoad", "cuModuleLoad"];
    loads.iter().any(|name| function.starts_with(name))
}

/// Whether each of these words occurs in the function or in the file of this frame. A crate's
/// directory may have hyphens where its module path has underscores.
pub(crate) fn mentions(frame: &Frame, words: &[&str]) -> bool {
    let function = frame.function.as_deref().unwrap_or_default();
    let file = frame.file.as_deref().unwrap_or_default().replace('-', "_");
    let has = |word: &&str| function.contains(word) || file.contains(word);
    words.iter().all(has)
}

/// The prefix of the item that the attribute's expansion puts around a test's body.
const EXPANSION: &str = "__gpu_leak_check_";

/// Returns `train::frees` for `train::__gpu_leak_check_frees::frees`.
pub fn as_written(function: &str) -> String {
    let mut parts = function.split(EXPANSION);
    let mut written = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        written += part.split_once("::").map_or(part, |(_, inside)| inside);
    }
    written
}

/// Whether this frame is the expansion's call to the body.
fn is_expansion(frame: &Frame) -> bool {
    let path = frame.function.as_deref().unwrap_or_default();
    let mut parts = path.rsplit("::");
    let is_closure = parts.next().is_some_and(|last| last.starts_with('{'));
    is_closure && parts.next().is_some_and(|item| item.starts_with(EXPANSION))
}

/// Returns how many of the innermost frames belong to the capture of the backtrace.
fn capture(frames: &[Frame]) -> usize {
    let machinery = machinery(frames);
    // Either the program called the driver, or the user called `observe`.
    let cuda = cuda(frames, machinery).len();
    if cuda > 0 {
        return machinery + cuda;
    }
    let last = frames[..machinery].iter().rposition(is_ours);
    last.map_or(0, |last| last + 1)
}

/// Returns how many of the innermost frames belong to the harness, its unwinder or std.
fn machinery(frames: &[Frame]) -> usize {
    let is_machinery = |frame: &&Frame| is_ours(frame) || frame.owner == Owner::Std;
    frames.iter().take_while(is_machinery).count()
}

/// Returns the frames of CUDA's libraries starting at `start`.
fn cuda(frames: &[Frame], start: usize) -> &[Frame] {
    let rest = &frames[start..];
    let count = rest
        .iter()
        .take_while(|frame| frame.owner == Owner::Cuda)
        .count();
    &rest[..count]
}

fn is_ours(frame: &Frame) -> bool {
    // The unwinder is recognised by its file, because line tables name an inlined function without
    // its module path.
    let file = frame.file.as_deref().unwrap_or_default();
    frame.owner == Owner::Harness || file.contains("/backtrace-0.")
}

/// Whether this frame, which called `inside`, belongs to the start-up code of a program or thread.
fn is_start_up(frame: &Frame, inside: Option<&Frame>) -> bool {
    if is_expansion(frame) {
        return true;
    }
    let inside = inside.and_then(|inside| inside.function.as_deref());
    match frame.owner {
        Owner::Std | Owner::Harness => true,
        Owner::Native => match frame.function.as_deref() {
            // In a Rust program, this C function only calls std. In other programs, it is user
            // code.
            Some("main") => inside.is_some_and(|inside| inside.contains("lang_start")),
            Some(function) => matches!(
                function,
                "start_thread"
                    | "clone"
                    | "clone3"
                    | "__clone3"
                    | "_start"
                    | "execute_native_thread_routine"
                    | "__libc_start_main"
                    | "__libc_start_call_main"
                    | "__libc_start_main_impl"
            ),
            // In a stripped program, start-up code can be recognised only by what it called.
            None => {
                frame.is_of_a_system_library()
                    || inside.is_some_and(|inside| inside.starts_with("__libc_start_main"))
            }
        },
        Owner::User | Owner::Dependency | Owner::Cuda => false,
    }
}

/// Returns the index of the frame that contains the user's line. This is the innermost frame in a
/// file of the user. If there is none, it is the innermost frame of an installed Python package,
/// otherwise the innermost frame outside the standard libraries and CUDA, and otherwise the
/// innermost frame outside CUDA.
fn user(frames: &[Frame]) -> Option<usize> {
    let first = |wanted: fn(&Frame) -> bool| frames.iter().position(wanted);
    first(|frame| frame.owner == Owner::User && frame.file.is_some())
        .or_else(|| first(|frame| frame.language == Language::Python && frame.owner != Owner::Std))
        .or_else(|| first(|frame| !matches!(frame.owner, Owner::Cuda | Owner::Std)))
        .or_else(|| first(|frame| frame.owner != Owner::Cuda))
}

/// Returns a fingerprint that is the same for every run and build in which the same functions of
/// the user, the dependencies and the libraries call each other.
///
/// It is the 64-bit FNV-1a hash ([its authors' page](http://www.isthe.com/chongo/tech/comp/fnv/))
/// of the kind's name and, for each frame, of the function or, if that is unknown, the module. A
/// zero byte follows each of these names. Frames of the standard libraries of Rust, C++ and
/// Python are left out, because they change with every release.
fn fingerprint(kind: Kind, frames: &[Frame]) -> String {
    let lasting = frames.iter().filter(|frame| frame.owner != Owner::Std);
    let names = lasting.map(
        |frame| match (frame.function.as_deref(), frame.module.as_deref()) {
            (Some(function), _) if frame.language == Language::Python => {
                python_name(frame, function)
            }
            (Some(function), _) => bare_name(function).into(),
            (None, Some(module)) => module.into(),
            (None, None) => "".into(),
        },
    );
    let mut bytes = Vec::new();
    for name in std::iter::once(kind.name().into()).chain(names) {
        bytes.extend(name.bytes().chain([0]));
    }
    format!("{VERSION}{:016x}", lasting_hash(&bytes))
}

/// Returns the FNV-1a hash of these bytes, which does not depend on the compiler or on the release
/// of Rust. The hashes of the standard library may change between releases.
pub fn lasting_hash(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// The prefix of every fingerprint. It changes when a release gives the same backtrace a different
/// fingerprint.
const VERSION: &str = "1-";

/// Returns a name such as `optim:Adam.step`. Only the last part of the file's path is used, because
/// the rest differs between machines. The file `__init__.py` stands for its directory, which is the
/// package.
fn python_name<'a>(frame: &Frame, function: &str) -> Cow<'a, str> {
    let file = frame.file.as_deref().unwrap_or_default();
    let module = file.strip_suffix(".py").unwrap_or(file);
    let module = module.strip_suffix("/__init__").unwrap_or(module);
    let stem = module.rsplit('/').next().unwrap_or(module);
    format!("{stem}:{function}").into()
}

#[cfg(test)]
mod tests;
