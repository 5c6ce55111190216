//! Where something was allocated: a stack cut down to what concerns its reader, and whose code it goes
//! through.

pub mod allocators;
mod facts;
pub mod libraries;

use std::borrow::Cow;

use crate::ledger::Kind;
use crate::report::{Frame, Language, Owner, Site};

/// The site of a stack whose frames are known.
#[must_use]
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

/// `frames` without what every stack has in common: the capture and the harness, CUDA's
/// libraries at the top, the runtime's start-up at the bottom. A `main` that calls CUDA itself stays.
fn trimmed(mut frames: Vec<Frame>) -> Vec<Frame> {
    while let Some((last, inner)) = frames.split_last()
        && is_start_up(last)
        && !(is_main(last) && capture(inner) == inner.len())
    {
        frames.pop();
    }
    frames.drain(..capture(&frames));
    // A block of the test's own has frames of the harness further out.
    frames.retain(|frame| frame.owner != Owner::Harness);
    for function in frames
        .iter_mut()
        .filter_map(|frame| frame.function.as_mut())
    {
        *function = as_written(function);
    }
    frames
}

/// Whether one of CUDA's own libraries made the call, not the program: the runtime loading its
/// code, cuBLAS its kernels. What the program loads on purpose is the program's, whichever of CUDA's
/// libraries it asks to.
#[must_use]
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

/// Whether that is what this function of CUDA is for: `cudaLibraryLoadData`, `cuModuleLoad`.
fn loads_code(function: &str) -> bool {
    let loads = ["cudaLibraryLoad", "cuLibraryLoad", "cuModuleLoad"];
    loads.iter().any(|name| function.starts_with(name))
}

/// What the attribute's expansion calls the item around a test's body.
const EXPANSION: &str = "__gpu_leak_check_";

/// `train::frees` of `train::__gpu_leak_check_frees::frees`.
#[must_use]
pub fn as_written(function: &str) -> String {
    let mut parts = function.split(EXPANSION);
    let mut written = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        written += part.split_once("::").map_or(part, |(_, inside)| inside);
    }
    written
}

/// Whether this is the expansion's call of the body.
fn is_expansion(frame: &Frame) -> bool {
    let path = frame.function.as_deref().unwrap_or_default();
    path.rsplit_once("::").is_some_and(|(item, last)| {
        last.starts_with('{')
            && item
                .rsplit("::")
                .next()
                .is_some_and(|item| item.starts_with(EXPANSION))
    })
}

/// How many of the innermost frames are the act of taking the stack.
fn capture(frames: &[Frame]) -> usize {
    let machinery = machinery(frames);
    // Either the driver called back, or the user called `observe`.
    let cuda = cuda(frames, machinery).len();
    if cuda > 0 {
        return machinery + cuda;
    }
    let last = frames[..machinery].iter().rposition(is_ours);
    last.map_or(0, |last| last + 1)
}

/// How many of the innermost frames are the harness's, its unwinder's and std's.
fn machinery(frames: &[Frame]) -> usize {
    let is_machinery = |frame: &&Frame| is_ours(frame) || frame.owner == Owner::Std;
    frames.iter().take_while(is_machinery).count()
}

/// The frames of CUDA's libraries from `start` on.
fn cuda(frames: &[Frame], start: usize) -> &[Frame] {
    let rest = &frames[start..];
    let count = rest
        .iter()
        .take_while(|frame| frame.owner == Owner::Cuda)
        .count();
    &rest[..count]
}

fn is_ours(frame: &Frame) -> bool {
    // By its file: in line tables, an inlined function has a name without a path.
    let file = frame.file.as_deref().unwrap_or_default();
    frame.owner == Owner::Harness || file.contains("/backtrace-0.")
}

/// The C function that a program begins with: of a C program it is the user's own, and of a Rust program
/// it does nothing but call std.
const MAIN: &str = "main";

fn is_main(frame: &Frame) -> bool {
    frame.function.as_deref() == Some(MAIN)
}

fn is_start_up(frame: &Frame) -> bool {
    if is_expansion(frame) {
        return true;
    }
    match frame.owner {
        Owner::Std | Owner::Harness => true,
        Owner::Native => match &frame.function {
            Some(function) => matches!(
                function.as_str(),
                "start_thread"
                    | "clone"
                    | "clone3"
                    | "__clone3"
                    | "_start"
                    | MAIN
                    | "__libc_start_main"
                    | "__libc_start_call_main"
                    | "__libc_start_main_impl"
            ),
            None => frame.module.as_deref().is_some_and(|module| {
                module.starts_with("libc.so") || module.starts_with("libpthread.so")
            }),
        },
        Owner::User | Owner::Dependency | Owner::Cuda => false,
    }
}

/// Which frame is the user's line: the innermost one with a file of theirs; where no such file
/// is known, the innermost one of an installed Python package, else the innermost one of a program
/// or library that is neither Rust's nor CUDA's.
fn user(frames: &[Frame]) -> Option<usize> {
    let first = |wanted: fn(&Frame) -> bool| frames.iter().position(wanted);
    first(|frame| frame.owner == Owner::User && frame.file.is_some())
        .or_else(|| first(|frame| frame.language == Language::Python && frame.owner != Owner::Std))
        .or_else(|| first(|frame| !matches!(frame.owner, Owner::Cuda | Owner::Std)))
        .or_else(|| first(|frame| frame.owner != Owner::Cuda))
}

/// The same for every run and build in which the same functions of users, dependencies and
/// libraries call each other.
///
/// FNV-1a of 64 bits ([its authors' page](http://www.isthe.com/chongo/tech/comp/fnv/)) over the
/// kind's name and each frame's function, else its module, each with a zero byte behind it.
/// Rust's own frames are left out: they change with its releases. So are Python's.
fn fingerprint(kind: Kind, frames: &[Frame]) -> String {
    let lasting = frames.iter().filter(|frame| frame.owner != Owner::Std);
    let names = lasting.map(|frame| match (&frame.function, &frame.module) {
        (Some(function), _) if frame.language == Language::Python => python_name(frame, function),
        (Some(function), _) => bare_name(function).into(),
        (None, Some(module)) => module.into(),
        (None, None) => "".into(),
    });
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for name in std::iter::once(kind.name().into()).chain(names) {
        for byte in name.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{VERSION}{hash:016x}")
}

/// What every fingerprint begins with: raised when the same stack gets another one.
const VERSION: &str = "1-";

/// The fingerprint that a finding of another release would have now; none where it has this
/// release's, or its stack was not kept.
#[must_use]
pub fn renewed_fingerprint(kind: Kind, site: &Site) -> Option<String> {
    let is_anothers = !site.fingerprint.is_empty() && !site.fingerprint.starts_with(VERSION);
    (is_anothers && !site.frames.is_empty()).then(|| fingerprint(kind, &site.frames))
}

/// `optim:Adam.step`: where the file lies differs between machines, and a package is its folder.
fn python_name<'a>(frame: &Frame, function: &str) -> Cow<'a, str> {
    let file = frame.file.as_deref().unwrap_or_default();
    let module = file.strip_suffix(".py").unwrap_or(file);
    let module = module.strip_suffix("/__init__").unwrap_or(module);
    let stem = module.rsplit('/').next().unwrap_or(module);
    format!("{stem}:{function}").into()
}

/// `step` of `<optim::Adam<T> as optim::Optimizer>::step::<f32>`, `{` of any closure.
///
/// Line tables call an inlined function no more than that, and what is inlined changes with
/// every build.
#[must_use]
pub fn bare_name(function: &str) -> &str {
    let (mut depth, mut before) = (0_usize, ' ');
    let segments = function.split(|character: char| {
        match character {
            '<' | '(' | '[' => depth += 1,
            // Of `fn() -> T`.
            '>' if before == '-' => {}
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = character;
        character == ':' && depth == 0
    });
    let named = segments.filter(|segment| !segment.is_empty() && !segment.starts_with('<'));
    let last = named.last().unwrap_or(function);
    if last.starts_with('{') {
        return "{";
    }
    last.split('<').next().unwrap_or(last)
}

#[cfg(test)]
mod tests;
