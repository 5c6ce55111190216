//! Whose code a frame is.
//!
//! The file decides where there is one; without line tables the module and the symbol's first
//! words are all there is.

use super::model::Owner;
use super::modules::Module;

/// NVIDIA's user-mode libraries, by the beginning of their names.
const CUDA_LIBRARIES: &[&str] = &[
    "libcuda.so",
    "libcudadebugger.so",
    "libcudart.so",
    "libcupti.so",
    "libcublas.so",
    "libcublasLt.so",
    "libcudnn",
    "libcufft",
    "libcufile.so",
    "libcurand.so",
    "libcusolver",
    "libcusparse",
    "libnccl.so",
    "libnvJitLink.so",
    "libnvidia-",
    "libnvrtc",
];

/// What is known of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence<'a> {
    /// The library or program it lies in.
    pub(super) module: Option<&'a Module>,
    /// Its source file as the compiler wrote it down.
    pub(super) file: Option<&'a str>,
    /// Its demangled symbol.
    pub(super) function: Option<&'a str>,
}

/// Whose code it is.
pub(super) fn owner(evidence: Evidence<'_>) -> Owner {
    if evidence
        .module
        .is_some_and(|module| is_cuda_library(module.name()))
    {
        return Owner::Cuda;
    }
    match evidence.file {
        Some(file) => of_file(file, evidence.module),
        None => evidence.function.map_or(Owner::Native, of_symbol),
    }
}

/// Whether a library of this name is NVIDIA's.
pub(super) fn is_cuda_library(name: &str) -> bool {
    CUDA_LIBRARIES.iter().any(|known| name.starts_with(known))
}

fn of_file(file: &str, module: Option<&Module>) -> Owner {
    if is_harness_source(file) {
        Owner::Harness
    } else if is_std_source(file) {
        Owner::Std
    } else if is_dependency_source(file) {
        Owner::Dependency
    } else if module.is_some_and(Module::is_of_the_system) {
        Owner::Native
    } else {
        Owner::User
    }
}

/// This crate's `src` and that of `gpu-leak-check-threads`. Not the whole folder: in the
/// harness's own repository, tests and examples lie beside it and count as the user's.
fn is_harness_source(file: &str) -> bool {
    let ours = file
        .strip_prefix(env!("CARGO_MANIFEST_DIR"))
        .is_some_and(|rest| rest.starts_with("/src/") || rest.starts_with("/threads/src/"));
    // With `trim-paths` or `--remap-path-prefix`, this file knows its new prefix.
    let remapped = file!()
        .strip_suffix("report/owner.rs")
        .is_some_and(|sources| sources.starts_with('/') && file.starts_with(sources));
    ours || remapped
        || ["/gpu-leak-check-", "/gpu-leak-check-threads-"]
            .iter()
            .any(|published| {
                let version = file.split_once(published).map(|(_, rest)| rest);
                version.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
            })
}

fn is_std_source(file: &str) -> bool {
    // As distributed; with the rust-src component; what std itself depends on.
    (file.starts_with("/rustc/") && file.contains("/library/"))
        || file.contains("/lib/rustlib/src/")
        || file.starts_with("/rust/deps/")
}

fn is_dependency_source(file: &str) -> bool {
    let folders: Vec<&str> = file.split('/').collect();
    folders.windows(3).any(|path| match path {
        [".cargo", "registry" | "git", _] => true,
        // The same two below a CARGO_HOME of any name: cargo ends the next name with a hash.
        ["registry", "src", host] => ends_in_hash(host),
        ["git", "checkouts", repository] => ends_in_hash(repository),
        // A `vendor` among a package's sources is a module of that package.
        [parent, "vendor", _] => *parent != "src",
        _ => false,
    }) || file.starts_with("vendor/")
}

/// `index.crates.io-1949cf8c6b5b557f`
fn ends_in_hash(name: &str) -> bool {
    name.rsplit_once('-').is_some_and(|(_, hash)| {
        hash.len() == 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

fn of_symbol(function: &str) -> Owner {
    let path = function.trim_start_matches(['<', '&', '*']);
    match path.split_once("::").map(|(name, _)| name) {
        Some("gpu_leak_check" | "gpu_leak_check_threads") => Owner::Harness,
        Some("std" | "core" | "alloc" | "test") => Owner::Std,
        Some(_) => Owner::User,
        None if is_cuda_function(function) => Owner::Cuda,
        None => Owner::Native,
    }
}

/// The driver's and the runtime's functions, where the runtime is linked into the program:
/// `cudaMalloc`, `cuMemAlloc_v2`, `__cudart812`.
fn is_cuda_function(function: &str) -> bool {
    let name = function
        .strip_prefix("cuda")
        .or_else(|| function.strip_prefix("cu"));
    function.starts_with("__cuda")
        || name.is_some_and(|name| name.starts_with(|first: char| first.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::{Evidence, is_cuda_library, owner};
    use crate::report::model::Owner;

    fn of_file(file: &str) -> Owner {
        owner(Evidence {
            file: Some(file),
            ..Evidence::default()
        })
    }

    fn of_symbol(function: &str) -> Owner {
        owner(Evidence {
            function: Some(function),
            ..Evidence::default()
        })
    }

    #[test]
    fn files_of_rust_itself_are_std() {
        for file in [
            "/rustc/1234abcd/library/std/src/thread/mod.rs",
            "/home/u/.rustup/toolchains/stable/lib/rustlib/src/rust/library/core/src/ops/function.rs",
            "/rust/deps/hashbrown-0.15.0/src/raw.rs",
        ] {
            assert_eq!(of_file(file), Owner::Std, "{file}");
        }
    }

    #[test]
    fn files_cargo_fetched_are_dependencies() {
        for file in [
            "/home/u/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/cudarc-0.19.10/src/lib.rs",
            "/ci/home/registry/src/index.crates.io-1949cf8c6b5b557f/cudarc-0.19.10/src/lib.rs",
            "/ci/home/git/checkouts/candle-0123456789abcdef/12ab34c/src/lib.rs",
            "/home/u/train/vendor/cudarc/src/lib.rs",
            "vendor/cudarc/src/lib.rs",
        ] {
            assert_eq!(of_file(file), Owner::Dependency, "{file}");
        }
    }

    #[test]
    fn a_users_own_folders_may_have_such_names() {
        for file in [
            "/home/u/registry/src/lib.rs",
            "/home/u/train/src/vendor/nvidia.rs",
            "/home/u/library/src/lib.rs",
            "/home/u/gpu-leak-check-experiments/src/lib.rs",
            "src/vendor.rs",
        ] {
            assert_eq!(of_file(file), Owner::User, "{file}");
        }
    }

    #[test]
    fn only_the_harness_own_sources_are_the_harness() {
        let folder = env!("CARGO_MANIFEST_DIR");
        for file in ["src/check/run.rs", "threads/src/lib.rs"] {
            assert_eq!(
                of_file(&format!("{folder}/{file}")),
                Owner::Harness,
                "{file}"
            );
        }
        for file in ["tests/a.rs", "../examples/a.rs", "../tests/main.rs"] {
            assert_eq!(of_file(&format!("{folder}/{file}")), Owner::User, "{file}");
        }
        let published = "/home/u/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";
        for file in [
            "gpu-leak-check-0.1.0/src/lib.rs",
            "gpu-leak-check-threads-1.0.0/src/lib.rs",
        ] {
            assert_eq!(
                of_file(&format!("{published}/{file}")),
                Owner::Harness,
                "{file}"
            );
        }
    }

    #[test]
    fn without_a_file_the_symbol_tells() {
        for (function, expected) in [
            ("core::ops::function::FnOnce::call_once", Owner::Std),
            ("<alloc::boxed::Box<F> as core::ops::Fn>::call", Owner::Std),
            ("gpu_leak_check::check::run", Owner::Harness),
            (
                "<train::nn::Linear as train::nn::Module>::forward",
                Owner::User,
            ),
            ("cudaMallocAsync", Owner::Cuda),
            ("cuMemAlloc_v2", Owner::Cuda),
            ("__cudart812", Owner::Cuda),
            ("curl_easy_perform", Owner::Native),
            ("start_thread", Owner::Native),
        ] {
            assert_eq!(of_symbol(function), expected, "{function}");
        }
    }

    #[test]
    fn cudas_libraries_are_known_by_name() {
        for name in [
            "libcuda.so.580.82.07",
            "libcupti.so.13",
            "libcublasLt.so.12",
            "libcudnn_ops.so.9",
        ] {
            assert!(is_cuda_library(name), "{name}");
        }
        for name in [
            "libtorch_cuda.so",
            "libc10_cuda.so",
            "libcurl.so.4",
            "train",
        ] {
            assert!(!is_cuda_library(name), "{name}");
        }
    }
}
