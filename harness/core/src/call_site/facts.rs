//! The memory that NVIDIA's libraries, and frameworks built on them, keep, and how long they keep
//! it.
//!
//! Each row is one fact with its source. A row explains a finding and names the remedy. It never
//! excuses a leak.

/// A known fact about a library.
struct Fact {
    /// The library, as reports name it.
    library: &'static str,
    /// The prefixes of the functions that allocate the memory. If there are none, the fact applies
    /// to all functions of the library.
    functions: &'static [&'static str],
    /// The text that says what memory is kept, for how long, and what to do about it.
    says: &'static str,
}

/// The first row that matches is used. The source of each fact is above its row.
const FACTS: &[Fact] = &[
    // Measured on an H200, CUDA 13.0, 2026-11-20;
    // https://docs.nvidia.com/cuda/cublas/#cublascreate
    Fact {
        library: "cuBLAS",
        functions: &["cublasCreate"],
        says: "cublasCreate allocates a workspace (64 MiB on an H200), and cuBLAS keeps it until \
               cublasDestroy: drop the handle before the test ends, or create it once for the \
               process",
    },
    // https://docs.nvidia.com/cuda/cublas/#cublassetworkspace
    Fact {
        library: "cuBLAS",
        functions: &[],
        says: "cuBLAS allocates this for its handle, and cublasDestroy frees it: drop the handle \
               before the test ends, or provide your own memory with cublasSetWorkspace",
    },
    // https://docs.nvidia.com/cuda/cublas/#cublasltdestroy
    Fact {
        library: "cuBLASLt",
        functions: &[],
        says: "cuBLASLt keeps it until cublasLtDestroy: drop the handle before the test ends, or \
               create it once for the process",
    },
    // https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html
    Fact {
        library: "cuDNN",
        functions: &[],
        says: "cuDNN keeps it until cudnnDestroy or, if it belongs to a plan, until the plan's \
               descriptor is destroyed: drop both before the test ends, or create them once for \
               the process",
    },
    // https://docs.nvidia.com/cuda/cufft/#function-cufftdestroy
    Fact {
        library: "cuFFT",
        functions: &[],
        says: "a plan keeps its work area until cufftDestroy: destroy the plan before the test \
               ends, or provide your own memory with cufftSetAutoAllocation and \
               cufftSetWorkArea",
    },
    // https://docs.nvidia.com/cuda/curand/group__HOST.html
    Fact {
        library: "cuRAND",
        functions: &[],
        says: "a generator keeps its state until curandDestroyGenerator: drop it before the test \
               ends, or create it once for the process",
    },
    // https://docs.nvidia.com/cuda/cusolver/#cusolverdndestroy
    Fact {
        library: "cuSOLVER",
        functions: &[],
        says: "cuSOLVER keeps it until the handle is destroyed (cusolverDnDestroy, \
               cusolverSpDestroy): drop the handle before the test ends, or create it once for the \
               process",
    },
    // https://docs.nvidia.com/cuda/cusparse/#cusparsedestroy
    Fact {
        library: "cuSPARSE",
        functions: &[],
        says: "cuSPARSE keeps it until cusparseDestroy: drop the handle before the test ends, or \
               create it once for the process",
    },
    // https://docs.nvidia.com/cuda/cutensor/latest/api/cutensor.html
    Fact {
        library: "cuTENSOR",
        functions: &[],
        says: "cuTENSOR keeps it until cutensorDestroy: drop the handle before the test ends, or \
               create it once for the process",
    },
    // https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/comms.html
    Fact {
        library: "NCCL",
        functions: &[],
        says: "a communicator keeps its buffers until ncclCommDestroy or ncclCommAbort: destroy \
               it in the test, on every rank",
    },
    // https://docs.nvidia.com/cuda/nvjpeg/
    Fact {
        library: "nvJPEG",
        functions: &[],
        says: "nvJPEG keeps it until nvjpegDestroy or, if it belongs to a state, until \
               nvjpegJpegStateDestroy: destroy both before the test ends",
    },
    // https://docs.nvidia.com/deeplearning/tensorrt/latest/
    Fact {
        library: "TensorRT",
        functions: &[],
        says: "an engine and its execution contexts keep it until they are destroyed: destroy the \
               contexts before the engine",
    },
];

/// Returns the known fact about memory that `library` allocates in `function`.
pub(super) fn fact(library: &str, function: &str) -> Option<&'static str> {
    let mut facts = FACTS.iter().filter(|fact| fact.library == library);
    let is_named = |fact: &&Fact| {
        let mut starts = fact.functions.iter();
        fact.functions.is_empty() || starts.any(|start| function.starts_with(start))
    };
    facts.find(is_named).map(|fact| fact.says)
}

#[cfg(test)]
mod tests {
    use super::{FACTS, fact};

    #[test]
    fn the_row_of_the_function_comes_before_that_of_the_library() {
        let says = |library, function| fact(library, function).unwrap_or_default();
        assert!(says("cuBLAS", "cublasCreate_v2").starts_with("cublasCreate allocates"));
        let of_library = says("cuBLAS", "cublasSgemm_v2");
        assert!(of_library.starts_with("cuBLAS allocates"), "{of_library}");
        assert_eq!(says("cuBLAS", ""), of_library);
        assert_eq!(fact("libmine", "cublasCreate_v2"), None);
    }

    #[test]
    fn no_row_is_hidden_by_an_earlier_one() {
        for row in FACTS {
            let function = row.functions.first().copied().unwrap_or_default();
            assert_eq!(fact(row.library, function), Some(row.says));
        }
    }
}
