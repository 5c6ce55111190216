//! The libraries that take GPU memory of their own, by the names of their files and functions.

/// A library that reports know by name.
#[derive(Debug)]
pub(super) struct Library {
    /// What its users call it.
    pub(super) name: &'static str,
    pub(super) sort: Sort,
    /// What its files are called, between `lib` and the version.
    files: &'static [&'static str],
    /// How its functions begin, where it is linked into the program.
    functions: &'static [&'static str],
}

/// Which part a library has in a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// On everybody's way to the device: the driver, the runtime, their tools.
    Way,
    /// NVIDIA's, and takes memory for itself.
    Nvidia,
    /// Somebody else's.
    Other,
}

const fn row(
    name: &'static str,
    sort: Sort,
    files: &'static [&'static str],
    functions: &'static [&'static str],
) -> Library {
    Library {
        name,
        sort,
        files,
        functions,
    }
}

/// One row a library. Where one name begins another, the longer one stands first.
const LIBRARIES: &[Library] = &[
    row(
        "CUDA driver",
        Sort::Way,
        &["cuda", "cudadebugger", "nvidia"],
        &[],
    ),
    row("CUDA runtime", Sort::Way, &["cudart"], &[]),
    row("CUPTI", Sort::Way, &["cupti"], &["cupti"]),
    row("cuBLASLt", Sort::Nvidia, &["cublasLt"], &["cublasLt"]),
    row("cuBLAS", Sort::Nvidia, &["cublas", "nvblas"], &["cublas"]),
    row("cuDNN", Sort::Nvidia, &["cudnn"], &["cudnn"]),
    row("cuFFT", Sort::Nvidia, &["cufft", "cufftw"], &["cufft"]),
    row("cuFile", Sort::Nvidia, &["cufile"], &["cuFile"]),
    row("cuRAND", Sort::Nvidia, &["curand"], &["curand"]),
    row(
        "cuSOLVER",
        Sort::Nvidia,
        &["cusolver", "cusolverMg"],
        &["cusolver"],
    ),
    row("cuSPARSELt", Sort::Nvidia, &["cusparseLt"], &["cusparseLt"]),
    row("cuSPARSE", Sort::Nvidia, &["cusparse"], &["cusparse"]),
    row(
        "cuTENSOR",
        Sort::Nvidia,
        &["cutensor", "cutensorMg", "cutensorMp"],
        &["cutensor"],
    ),
    row("NCCL", Sort::Nvidia, &["nccl"], &["nccl"]),
    row(
        "NPP",
        Sort::Nvidia,
        &[
            "nppc", "nppial", "nppicc", "nppidei", "nppif", "nppig", "nppim", "nppist", "nppisu",
            "nppitc", "npps",
        ],
        &["nppi", "npps", "nppSet"],
    ),
    row("nvJPEG", Sort::Nvidia, &["nvjpeg", "nvjpeg2k"], &["nvjpeg"]),
    row("nvJitLink", Sort::Nvidia, &["nvJitLink"], &["nvJitLink"]),
    row("NVRTC", Sort::Nvidia, &["nvrtc"], &["nvrtc"]),
    row("NVSHMEM", Sort::Nvidia, &["nvshmem"], &["nvshmem"]),
    row("TensorRT", Sort::Nvidia, &["nvinfer", "nvonnxparser"], &[]),
    row("libtorch", Sort::Other, &["torch", "c10"], &[]),
    row("ONNX Runtime", Sort::Other, &["onnxruntime"], &[]),
    row("TensorFlow", Sort::Other, &["tensorflow"], &[]),
    row("ggml", Sort::Other, &["ggml"], &[]),
    row("RMM", Sort::Other, &["rmm"], &[]),
];

/// The library of this file: `libcublas.so.13.0.0.19`, a wheel's `libcublas-1a2b3c4d.so.12`.
pub(super) fn of_file(file: &str) -> Option<&'static Library> {
    let file = file.strip_prefix("lib")?;
    let is = |stem: &&str| {
        let rest = file.strip_prefix(*stem);
        rest.is_some_and(|rest| rest.starts_with(['.', '-', '_']))
    };
    LIBRARIES
        .iter()
        .find(|library| library.files.iter().any(is))
}

/// Whether what the library called `name` takes is its own, and stays until its handles go or the
/// process does. RMM and ggml hand it on to their callers as it comes.
pub(crate) fn keeps_what_it_takes(name: &str) -> bool {
    !matches!(name, "RMM" | "ggml")
}

/// Whether a file is one of them.
#[cfg(feature = "holders")]
pub(crate) fn is_known_library(file: &str) -> bool {
    of_file(file).is_some()
}

/// The library of a function without a path: `cublasCreate_v2`.
pub(super) fn of_function(function: &str) -> Option<&'static Library> {
    let begins = |start: &&str| {
        let rest = function.strip_prefix(*start);
        rest.is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_uppercase()))
    };
    LIBRARIES
        .iter()
        .find(|library| library.functions.iter().any(begins))
}

#[cfg(test)]
mod tests {
    use super::{of_file, of_function};

    #[test]
    fn a_file_is_known_with_whatever_version_and_hash_it_carries() {
        for (file, name) in [
            ("libcublas.so.13", "cuBLAS"),
            ("libcublas.so.13.0.0.19", "cuBLAS"),
            ("libcublasLt.so.13", "cuBLASLt"),
            ("libcublas-1a2b3c4d.so.12", "cuBLAS"),
            ("libcudnn_engines_precompiled.so.9", "cuDNN"),
            ("libcufftw.so.12", "cuFFT"),
            ("libcusolverMg.so.12", "cuSOLVER"),
            ("libcusparseLt-f80c68d1.so.0", "cuSPARSELt"),
            ("libnccl.so.2", "NCCL"),
            ("libnppig.so.13", "NPP"),
            ("libnvinfer_plugin.so.10", "TensorRT"),
            ("libtorch_cuda.so", "libtorch"),
            ("libc10_cuda.so", "libtorch"),
            ("libnvidia-ptxjitcompiler.so.1", "CUDA driver"),
            ("libcudart-9335f6a2.so.12", "CUDA runtime"),
        ] {
            assert_eq!(of_file(file).map(|known| known.name), Some(name), "{file}");
        }
        for file in [
            "libcublastic.so",
            "cublas.so",
            "train",
            "libc.so.6",
            "libnpp",
        ] {
            assert!(of_file(file).is_none(), "{file}");
        }
    }

    #[test]
    fn a_function_is_known_where_the_library_is_linked_in() {
        let name = |function| of_function(function).map(|known| known.name);
        assert_eq!(name("cublasCreate_v2"), Some("cuBLAS"));
        assert_eq!(name("cublasLtCreate"), Some("cuBLASLt"));
        assert_eq!(name("ncclCommInitRank"), Some("NCCL"));
        assert_eq!(name("mine::cublasCreate_v2"), None);
        assert_eq!(name("cublas_of_mine"), None);
    }
}
