//! The memory that NVIDIA's libraries, and frameworks built on them, keep, and how long they keep
//! it.
//!
//! Each row is one fact with its source. A row explains a finding and names the remedy. It never
//! excuses a leak.

/// Incremented when the meaning of a row changes or a row is removed, but not when a row is added.
pub(crate) const VERSION: u32 = 1;

/// A known fact about a library.
#[derive(Debug)]
pub(crate) struct Fact {
    /// Its name, which never changes: `cublas-handle`.
    pub(crate) row: &'static str,
    /// The library, as reports name it.
    library: &'static str,
    /// The prefixes of the functions that allocate the memory. If there are none, the fact applies
    /// to all functions of the library.
    functions: &'static [&'static str],
    /// The text that says what memory is kept, for how long, and what to do about it.
    pub(crate) says: &'static str,
    /// The source of this fact.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "documentation for maintainers of the table")
    )]
    source: &'static str,
}

/// The first row that matches is used.
const FACTS: &[Fact] = &[
    Fact {
        row: "cublas-handle",
        library: "cuBLAS",
        functions: &["cublasCreate"],
        says: "cublasCreate allocates a workspace (64 MiB on an H200), and cuBLAS keeps it until \
               cublasDestroy: drop the handle before the test ends, or create it once for the \
               process",
        source: "measured on an H200, CUDA 13.0, 2026-11-20; https://docs.nvidia.com/cuda/cublas/#cublascreate",
    },
    Fact {
        row: "cublas",
        library: "cuBLAS",
        functions: &[],
        says: "cuBLAS allocates this for its handle, and cublasDestroy frees it: drop the handle \
               before the test ends, or provide your own memory with cublasSetWorkspace",
        source: "https://docs.nvidia.com/cuda/cublas/#cublassetworkspace",
    },
    Fact {
        row: "cublaslt",
        library: "cuBLASLt",
        functions: &[],
        says: "cuBLASLt keeps it until cublasLtDestroy: drop the handle before the test ends, or \
               create it once for the process",
        source: "https://docs.nvidia.com/cuda/cublas/#cublasltdestroy",
    },
    Fact {
        row: "cudnn",
        library: "cuDNN",
        functions: &[],
        says: "cuDNN keeps it until cudnnDestroy or, if it belongs to a plan, until the plan's \
               descriptor is destroyed: drop both before the test ends, or create them once for \
               the process",
        source: "https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html",
    },
    Fact {
        row: "cufft-plan",
        library: "cuFFT",
        functions: &[],
        says: "a plan keeps its work area until cufftDestroy: destroy the plan before the test \
               ends, or provide your own memory with cufftSetAutoAllocation and \
               cufftSetWorkArea",
        source: "https://docs.nvidia.com/cuda/cufft/#function-cufftdestroy",
    },
    Fact {
        row: "curand-generator",
        library: "cuRAND",
        functions: &[],
        says: "a generator keeps its state until curandDestroyGenerator: drop it before the test \
               ends, or create it once for the process",
        source: "https://docs.nvidia.com/cuda/curand/group__HOST.html",
    },
    Fact {
        row: "cusolver",
        library: "cuSOLVER",
        functions: &[],
        says: "cuSOLVER keeps it until the handle is destroyed (cusolverDnDestroy, \
               cusolverSpDestroy): drop the handle before the test ends, or create it once for the \
               process",
        source: "https://docs.nvidia.com/cuda/cusolver/#cusolverdndestroy",
    },
    Fact {
        row: "cusparse",
        library: "cuSPARSE",
        functions: &[],
        says: "cuSPARSE keeps it until cusparseDestroy: drop the handle before the test ends, or \
               create it once for the process",
        source: "https://docs.nvidia.com/cuda/cusparse/#cusparsedestroy",
    },
    Fact {
        row: "cutensor",
        library: "cuTENSOR",
        functions: &[],
        says: "cuTENSOR keeps it until cutensorDestroy: drop the handle before the test ends, or \
               create it once for the process",
        source: "https://docs.nvidia.com/cuda/cutensor/latest/api/cutensor.html",
    },
    Fact {
        row: "nccl-communicator",
        library: "NCCL",
        functions: &[],
        says: "a communicator keeps its buffers until ncclCommDestroy or ncclCommAbort: destroy \
               it in the test, on every rank",
        source: "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/comms.html",
    },
    Fact {
        row: "nvjpeg",
        library: "nvJPEG",
        functions: &[],
        says: "nvJPEG keeps it until nvjpegDestroy or, if it belongs to a state, until \
               nvjpegJpegStateDestroy: destroy both before the test ends",
        source: "https://docs.nvidia.com/cuda/nvjpeg/",
    },
    Fact {
        row: "tensorrt",
        library: "TensorRT",
        functions: &[],
        says: "an engine and its execution contexts keep it until they are destroyed: destroy the \
               contexts before the engine",
        source: "https://docs.nvidia.com/deeplearning/tensorrt/latest/",
    },
];

/// Returns the known facts about memory that `library` allocates in `function`.
pub(crate) fn fact(library: &str, function: &str) -> Option<&'static Fact> {
    FACTS.iter().find(|fact| {
        let named = |start: &&str| function.starts_with(*start);
        fact.library == library && (fact.functions.is_empty() || fact.functions.iter().any(named))
    })
}

#[cfg(test)]
mod tests {
    use super::{FACTS, fact};

    #[test]
    fn the_row_of_the_function_comes_before_that_of_the_library() {
        let row = |library, function| fact(library, function).map(|fact| fact.row);
        assert_eq!(row("cuBLAS", "cublasCreate_v2"), Some("cublas-handle"));
        assert_eq!(row("cuBLAS", "cublasSgemm_v2"), Some("cublas"));
        assert_eq!(row("cuBLAS", ""), Some("cublas"));
        assert_eq!(row("libmine", "cublasCreate_v2"), None);
    }

    #[test]
    fn every_row_can_be_reached_and_says_where_it_is_from() {
        for fact in FACTS {
            let function = fact.functions.first().copied().unwrap_or_default();
            let found = super::fact(fact.library, function).expect("itself");
            assert_eq!(found.row, fact.row, "hidden by the row before it");
            assert!(fact.source.contains("https://"), "{}", fact.row);
        }
    }
}
