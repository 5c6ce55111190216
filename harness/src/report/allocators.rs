//! Caching allocators that are known by the functions a stack goes through.
//!
//! What such an allocator takes from the driver it hands out in pieces. Without a probe nobody can
//! tell which are in use, and a segment that stays is no leak.

use super::model::Frame;

/// A caching allocator.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Allocator {
    /// The name that its probe has.
    pub(crate) name: &'static str,
    /// Who takes memory through it.
    pub(crate) used_by: &'static str,
    /// Words of which one frame has all, in its function, or in its file and library; any row of
    /// them is enough.
    frames: &'static [&'static [&'static str]],
}

const ALLOCATORS: &[Allocator] = &[
    Allocator {
        name: "cubecl",
        used_by: "burn",
        frames: &[&["cubecl_runtime", "memory_management"]],
    },
    Allocator {
        name: "c10",
        used_by: "tch and PyTorch",
        frames: &[&["CUDACachingAllocator"], &["libc10_cuda"]],
    },
    Allocator {
        name: "rmm",
        used_by: "RAPIDS",
        frames: &[
            &["rmm", "pool_memory_resource"],
            &["rmm", "arena_memory_resource"],
            &["rmm", "binning_memory_resource"],
        ],
    },
    Allocator {
        name: "bfc",
        used_by: "TensorFlow and XLA",
        frames: &[&["BFCAllocator"]],
    },
    Allocator {
        name: "onnxruntime",
        used_by: "ONNX Runtime",
        frames: &[&["onnxruntime", "BFCArena"]],
    },
    Allocator {
        name: "ggml",
        used_by: "llama.cpp",
        frames: &[&["ggml_cuda_pool"]],
    },
];

/// As [`allocator`], of a stack whose frames are known.
pub(crate) fn of(frames: &[Frame]) -> Option<&'static Allocator> {
    frames.iter().find_map(|frame| {
        let part = |text: &Option<String>| text.clone().unwrap_or_default();
        let function = part(&frame.function);
        // Line tables name an inlined function without its path, but with its file; and a crate's
        // folder has hyphens where its path has underscores.
        let place = format!("{} {}", part(&frame.file), part(&frame.module)).replace('-', "_");
        let has_all = |words: &&[&str]| {
            let all_in = |text: &str| words.iter().all(|word| text.contains(word));
            all_in(&function) || all_in(&place)
        };
        ALLOCATORS
            .iter()
            .find(|allocator| allocator.frames.iter().any(has_all))
    })
}

#[cfg(test)]
mod tests {
    use super::{Frame, of};

    fn name(function: &str, file: &str, module: &str) -> Option<&'static str> {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let frame = Frame {
            function: text(function),
            file: text(file),
            module: text(module),
            ..Frame::default()
        };
        of(&[Frame::default(), frame]).map(|known| known.name)
    }

    #[test]
    fn an_allocator_is_known_by_its_function_its_file_or_its_library() {
        let function =
            "<cubecl_runtime::memory_management::memory_manage::MemoryManagement<S>>::reserve";
        assert_eq!(name(function, "", "train"), Some("cubecl"));
        let file = "/home/u/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/cubecl-runtime-0.9.0/src/memory_management/memory_manage.rs";
        assert_eq!(name("reserve", file, "train"), Some("cubecl"));
        assert_eq!(name("", "", "libc10_cuda.so"), Some("c10"));
        let mangled =
            "_ZN3rmm2mr20pool_memory_resourceINS0_20cuda_memory_resourceEE11do_allocateEm";
        assert_eq!(name(mangled, "", "train"), Some("rmm"));
    }

    #[test]
    fn what_passes_memory_on_as_it_comes_is_none() {
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
