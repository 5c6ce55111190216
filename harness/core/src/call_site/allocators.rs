//! Known caching allocators, recognised by the functions in a backtrace.
//!
//! Such an allocator hands out parts of the memory that it allocates from the driver. Without a
//! probe, nothing shows which of these parts are in use, so a segment that stays is not reported as
//! a leak.

use crate::report::{Frame, Owner, segments};

/// A caching allocator.
#[derive(Debug, PartialEq, Eq)]
pub struct Allocator {
    /// The name of its probe.
    pub name: &'static str,
    /// The libraries that allocate through this allocator.
    pub used_by: &'static str,
    /// The crate that provides a probe for it. If there is none, users write their own.
    pub probe_in: Option<&'static str>,
    /// Rows of words. A row matches if a single frame contains all of the row's words in its
    /// function, its file or the name of its library. In a frame of user code, the names of files
    /// and functions prove little, because users choose them freely. There, the words count only if
    /// the name of the library contains them, or if there are several words and segments of the
    /// function's path begin with them.
    frames: &'static [&'static [&'static str]],
}

/// A caching allocator for which no crate provides a probe.
const fn row(
    name: &'static str,
    used_by: &'static str,
    frames: &'static [&'static [&'static str]],
) -> Allocator {
    Allocator {
        name,
        used_by,
        probe_in: None,
        frames,
    }
}

const ALLOCATORS: &[Allocator] = &[
    Allocator {
        probe_in: Some("gpu-leak-cubecl"),
        ..row(
            "cubecl",
            "burn",
            &[&["cubecl_runtime", "memory_management"]],
        )
    },
    row(
        "c10",
        "tch and PyTorch",
        &[
            &["CUDACachingAllocator"],
            &["c10", "CUDACachingAllocator"],
            &["libc10_cuda"],
        ],
    ),
    row(
        "cupy",
        "CuPy",
        &[&["4cupy_4cuda_6memory", "SingleDeviceMemoryPool"]],
    ),
    row(
        "rmm",
        "RAPIDS",
        &[
            &["rmm", "pool_memory_resource"],
            &["rmm", "arena_memory_resource"],
            &["rmm", "binning_memory_resource"],
        ],
    ),
    row(
        "cub",
        "programs that use CUB",
        &[&["cub", "CachingDeviceAllocator"], &["cub/util_allocator"]],
    ),
    row(
        "bfc",
        "TensorFlow and XLA",
        &[
            &["BFCAllocator"],
            &["tsl", "BFCAllocator"],
            &["tensorflow", "BFCAllocator"],
        ],
    ),
    row(
        "onnxruntime",
        "ONNX Runtime",
        &[&["onnxruntime", "BFCArena"]],
    ),
    row("ggml", "llama.cpp", &[&["ggml_cuda_pool"]]),
];

/// Returns the allocator that a backtrace with these frames passes through.
pub fn of(frames: &[Frame]) -> Option<&'static Allocator> {
    frames.iter().find_map(|frame| {
        let function = frame.function.as_deref().unwrap_or_default();
        let module = frame.module.as_deref().unwrap_or_default();
        // For an inlined function, line tables contain the file but not the module path. A crate's
        // directory may have hyphens where its module path has underscores.
        let file = frame.file.as_deref().unwrap_or_default().replace('-', "_");
        let has_all = |words: &&[&str]| {
            let all_in = |text: &str| words.iter().all(|word| text.contains(word));
            let is_inside = words.len() > 1 && is_below(function, words);
            let in_code = match frame.owner {
                Owner::User => is_inside,
                // Without line tables, the program's own C++ code has this owner too.
                Owner::Native if function.contains("::") => is_inside || all_in(&file),
                _ => all_in(function) || all_in(&file),
            };
            // An executable may have any name, so only the names of libraries are compared.
            let is_library = module.contains(".so");
            in_code || (is_library && all_in(module))
        };
        ALLOCATORS
            .iter()
            .find(|allocator| allocator.frames.iter().any(has_all))
    })
}

/// Whether the segments of the path that contains `function` begin with these words, in this order,
/// as in a copy of the allocator's sources among the user's own. Other segments may lie in between,
/// for example the namespace of a version.
fn is_below(function: &str, words: &[&str]) -> bool {
    let path = function.trim_start_matches(['<', '&']);
    let parts: Vec<_> = segments(path).collect();
    let around = parts.split_last().map_or(&[][..], |(_, around)| around);
    let mut names = around
        .iter()
        .map(|part| part.split(['<', '>']).next().unwrap_or_default());
    words
        .iter()
        .all(|word| names.any(|name| name.starts_with(*word)))
}

#[cfg(test)]
mod tests {
    use super::{Frame, Owner, of};

    fn name(function: &str, file: &str, module: &str) -> Option<&'static str> {
        name_in(Owner::Dependency, function, file, module)
    }

    fn name_in(owner: Owner, function: &str, file: &str, module: &str) -> Option<&'static str> {
        let text = |text: &str| (!text.is_empty()).then(|| text.into());
        let frame = Frame {
            function: text(function),
            file: text(file),
            module: text(module),
            owner,
            ..Frame::default()
        };
        of(&[Frame::default(), frame]).map(|known| known.name)
    }

    #[test]
    fn an_allocator_is_recognised_by_its_function_its_file_or_its_library() {
        let function =
            "<cubecl_runtime::memory_management::memory_manage::MemoryManagement<S>>::reserve";
        assert_eq!(name(function, "", "train"), Some("cubecl"));
        let file = "/home/u/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/cubecl-runtime-0.9.0/src/memory_management/memory_manage.rs";
        assert_eq!(name("reserve", file, "train"), Some("cubecl"));
        assert_eq!(name("", "", "libc10_cuda.so"), Some("c10"));
        let mangled =
            "_ZN3rmm2mr20pool_memory_resourceINS0_20cuda_memory_resourceEE11do_allocateEm";
        assert_eq!(name(mangled, "", "train"), Some("rmm"));
        let header = "/opt/cuda/targets/x86_64-linux/include/cccl/cub/util_allocator.cuh";
        assert_eq!(name("DeviceAllocate", header, "train"), Some("cub"));
    }

    #[test]
    fn an_allocator_among_the_user_s_sources_is_recognised_by_the_paths_of_its_functions() {
        for (function, known) in [
            ("tsl::BFCAllocator::Extend", "bfc"),
            (
                "cub::CUB_300001_SM_900_NS::CachingDeviceAllocator::DeviceAllocate",
                "cub",
            ),
            (
                "rmm::mr::pool_memory_resource<rmm::mr::cuda_memory_resource>::expand",
                "rmm",
            ),
        ] {
            let found = name_in(Owner::User, function, "src/allocator.cc", "train");
            assert_eq!(found, Some(known), "{function}");
            let found = name_in(Owner::Native, function, "", "train");
            assert_eq!(found, Some(known), "{function} without line tables");
        }
    }

    #[test]
    fn user_code_named_like_an_allocator_is_not_one() {
        let user = |function, file, module| name_in(Owner::User, function, file, module);
        for (function, file) in [
            (
                "train::step",
                "/home/ann/cubecl-runtime/train/src/memory_management.rs",
            ),
            ("train::memory_management::of_cubecl_runtime", ""),
            ("train::is_as_fast_as_BFCAllocator", "src/lib.rs"),
            ("step", "tests/CUDACachingAllocator.rs"),
            ("mine::BFCAllocator::grow", "src/pool.cpp"),
            ("test<cub::CachingDeviceAllocator>::run", "src/pool.cpp"),
            ("mine::CachingDeviceAllocator::grow", "src/pool.cpp"),
        ] {
            assert_eq!(user(function, file, "train"), None, "{function} {file}");
        }
        // A copy of the allocator in the user's workspace is still that allocator.
        for function in [
            "cubecl_runtime::memory_management::reserve",
            "<cubecl_runtime::memory_management::MemoryManagement<S>>::reserve",
        ] {
            assert_eq!(user(function, "src/lib.rs", "train"), Some("cubecl"));
        }
        assert_eq!(
            user("", "c10/cuda/alloc.cpp", "libc10_cuda.so"),
            Some("c10")
        );
    }

    #[test]
    fn code_that_only_forwards_allocations_is_not_an_allocator() {
        assert_eq!(
            name("rmm::mr::cuda_memory_resource::do_allocate", "", ""),
            None
        );
        assert_eq!(
            name("cubecl_runtime::client::ComputeClient::create", "", ""),
            None
        );
        assert_eq!(name("train::memory_management::reserve", "", "train"), None);
        assert_eq!(name("", "", "libtorch_cuda.so"), None);
    }
}
