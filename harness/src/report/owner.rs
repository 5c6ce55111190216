//! Determines to whom the code of a frame belongs.
//!
//! If the source file is known, it determines the owner. Without line tables, only the module and
//! the first words of the symbol are known.

use super::check_report::Owner;
use super::debug_info::Symbol;
use crate::call_site::libraries::{self, Role};
use crate::capture::modules::Module;

/// Returns the owner of the frame with this symbol. `module` is the library or program that
/// contains the frame.
pub(super) fn owner(module: Option<&Module>, symbol: &Symbol) -> Owner {
    let name = module.map_or("", Module::name);
    if is_cuda_library(name) {
        return Owner::Cuda;
    }
    // This library has no line tables, and the names of its functions do not suffice, because it
    // also contains std.
    if name.starts_with("libgpu_leak_inject") {
        return Owner::Harness;
    }
    match (&symbol.file, &symbol.function) {
        (Some(file), _) => of_file(file, module),
        (None, Some(function)) => of_symbol(function),
        (None, None) => Owner::Native,
    }
}

/// Returns the owner of a Python file.
pub(super) fn of_python(file: &str) -> Owner {
    let is_installed = file.contains("/site-packages/") || file.contains("/dist-packages/");
    if is_installed || is_made_by_torch_compile(file) {
        Owner::Dependency
    } else if file.starts_with("<frozen ") || is_python_library(file) {
        Owner::Std
    } else {
        Owner::User
    }
}

/// Whether torch.compile wrote `file`. In its cache, a file's name is a hash that begins with `c`,
/// and its directory is named after the second and third characters of that name
/// ([`torch._inductor.codecache.get_path`](https://github.com/pytorch/pytorch/blob/v2.11.0/torch/_inductor/codecache.py)).
fn is_made_by_torch_compile(file: &str) -> bool {
    let mut parts = file.rsplit('/');
    let (name, directory) = (parts.next(), parts.next());
    let name = name.and_then(|name| name.strip_suffix(".py"));
    let is_hash = |name: &&str| {
        let is_base_32 = |byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7');
        name.starts_with('c') && name.len() > 50 && name.bytes().all(is_base_32)
    };
    let hash = name.filter(is_hash);
    hash.is_some_and(|hash| directory == hash.get(1..3))
}

/// Whether `file` is in Python's standard library, which is below a directory such as
/// `lib/python3.12` or in a file such as `lib/python312.zip`.
fn is_python_library(file: &str) -> bool {
    file.split_once("/lib/python3").is_some_and(|(_, rest)| {
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        rest.trim_start_matches('t').starts_with('/') || rest.starts_with("zip/")
    })
}

/// Whether a library with this name is one of NVIDIA's.
pub(crate) fn is_cuda_library(name: &str) -> bool {
    libraries::of_file(name).is_some_and(|library| library.role != Role::Other)
}

fn of_file(file: &str, module: Option<&Module>) -> Owner {
    if is_harness_source(file) {
        Owner::Harness
    } else if is_std_source(file) {
        Owner::Std
    } else if is_cuda_runtime_header(file) {
        Owner::Cuda
    } else if is_dependency_source(file) || is_cuda_header_library(file) || is_system_header(file) {
        Owner::Dependency
    } else if module.is_some_and(Module::is_installed) {
        Owner::Native
    } else {
        Owner::User
    }
}

/// Whether `file` is in the `src` directory of this crate, of `gpu-leak-core`, of
/// `gpu-leak-interpose` or of `gpu-leak-hooks`. Other files in the repository do not count, because
/// its tests and examples are user code.
fn is_harness_source(file: &str) -> bool {
    let ours = file
        .strip_prefix(env!("CARGO_MANIFEST_DIR"))
        .is_some_and(|rest| {
            ["/src/", "/core/src/", "/hooks/src/", "/interpose/src/"]
                .iter()
                .any(|directory| rest.starts_with(directory))
        });
    // With `trim-paths` or `--remap-path-prefix`, `file!()` has the new prefix.
    let remapped = file!()
        .strip_suffix("report/owner.rs")
        .is_some_and(|sources| sources.starts_with('/') && file.starts_with(sources));
    ours || remapped
        || [
            "/gpu-leak-check-",
            "/gpu-leak-core-",
            "/gpu-leak-interpose-",
            "/gpu-leak-hooks-",
        ]
        .iter()
        .any(|published| {
            let version = file.split_once(published).map(|(_, rest)| rest);
            version.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
        })
}

fn is_std_source(file: &str) -> bool {
    // In Debian's builds, paths have the form `/usr/src/rustc-1.85.0/library/core/src/option.rs`.
    let of_distribution = file.strip_prefix("/usr/src/rustc-");
    // These are the sources of std, both as distributed and in the rust-src component, and the
    // dependencies of std.
    (file.starts_with("/rustc/") && file.contains("/library/"))
        || of_distribution.is_some_and(|rest| rest.contains("/library/"))
        || file.contains("/lib/rustlib/src/")
        || file.starts_with("/rust/deps/")
        || is_cpp_standard_header(file)
}

/// Whether `file` is a header of C++'s standard library, which is in a directory such as
/// `/usr/include/c++/13`, `/usr/include/x86_64-linux-gnu/c++/13` or `/usr/include/c++/v1`.
fn is_cpp_standard_header(file: &str) -> bool {
    const DIRECTORY: &str = "/c++/";
    file.match_indices(DIRECTORY).any(|(at, _)| {
        let (outside, inside) = (&file[..at], &file[at + DIRECTORY.len()..]);
        let version = inside.split('/').next().unwrap_or_default();
        let is_number = |part: char| part.is_ascii_digit() || part == '.';
        let is_include = |directory: &str| directory.ends_with("/include");
        let parent = outside.rsplit_once('/').map(|(parent, _)| parent);
        (version == "v1" || (!version.is_empty() && version.chars().all(is_number)))
            && (is_include(outside) || parent.is_some_and(is_include))
    })
}

/// Whether `file` is the header in CUDA's toolkit that defines templates around functions of the
/// runtime, such as `cudaMalloc<int>`. The toolkit may be installed anywhere.
fn is_cuda_runtime_header(file: &str) -> bool {
    file.ends_with("/include/cuda_runtime.h")
}

/// Whether `file` is a header that was installed for all programs, such as a header of a C++
/// library.
fn is_system_header(file: &str) -> bool {
    ["/usr/include/", "/usr/local/include/"]
        .iter()
        .any(|folder| file.starts_with(folder))
}

/// Whether `file` belongs to the C++ libraries in CUDA's toolkit.
fn is_cuda_header_library(file: &str) -> bool {
    ["/include/thrust/", "/include/cub/", "/include/cccl/"]
        .iter()
        .any(|folder| file.contains(folder))
}

fn is_dependency_source(file: &str) -> bool {
    let directories: Vec<&str> = file.split('/').collect();
    directories.windows(3).any(|path| match path {
        [".cargo", "registry" | "git", _] => true,
        // These are the directories of the registry and of git checkouts below any CARGO_HOME. The
        // name of the directory inside them ends with a hash.
        ["registry", "src", name] | ["git", "checkouts", name] => without_hash(name).is_some(),
        // If `vendor` is among a package's sources, it is a module of that package.
        [parent, "vendor", _] => *parent != "src",
        _ => false,
    }) || file.starts_with("vendor/")
}

/// Returns a name without cargo's hash, such as `train` for `train-0123456789abcdef`; `None` if the
/// name does not end with a hash.
pub(super) fn without_hash(name: &str) -> Option<&str> {
    let (name, hash) = name.rsplit_once('-')?;
    let is_hash = hash.len() == 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hash.then_some(name)
}

fn of_symbol(function: &str) -> Owner {
    let path = function.trim_start_matches(['<', '&', '*']);
    match path.split_once("::").map(|(name, _)| name) {
        Some("gpu_leak_check" | "gpu_leak_core" | "gpu_leak_interpose" | "gpu_leak_hooks") => {
            Owner::Harness
        }
        Some("std" | "core" | "alloc" | "test") => Owner::Std,
        Some(_) => Owner::User,
        None if is_cuda_function(function) => Owner::Cuda,
        // The compiler inserts calls to these functions for std. For example, every `catch_unwind`
        // calls `__rust_try`.
        None if function.starts_with("__rust_") => Owner::Std,
        None => Owner::Native,
    }
}

/// Whether `function` is one of NVIDIA's functions, which may be statically linked into the
/// program, such as `cudaMalloc`, `cuMemAlloc_v2`, `__cudart812`, `libcudart_static_5382…` or
/// `cublasCreate_v2`.
pub(crate) fn is_cuda_function(function: &str) -> bool {
    let name = function
        .strip_prefix("cuda")
        .or_else(|| function.strip_prefix("cu"));
    let of_runtime = ["__cuda", "libcudart_static_"];
    of_runtime.iter().any(|start| function.starts_with(start))
        || libraries::of_function(function).is_some()
        || name.is_some_and(|name| name.starts_with(|first: char| first.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests;
