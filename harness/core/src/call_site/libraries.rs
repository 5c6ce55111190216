//! The libraries that allocate GPU memory for themselves, recognised by the names of their files
//! and functions. The frames of a backtrace between the driver and the user's code show which of
//! these libraries made an allocation.

use super::mentions;
use crate::report::{Frame, Library, Owner};

/// A library whose name can appear in reports.
#[derive(Debug)]
pub struct KnownLibrary {
    /// Its usual name.
    pub name: &'static str,
    /// Its role in a backtrace.
    pub role: Role,
    /// The names of its files, between `lib` and the version.
    files: &'static [&'static str],
    /// The prefixes of its functions, for programs that link it statically.
    functions: &'static [&'static str],
    /// What memory it keeps, for how long, and what to do about it. This explains a finding, and
    /// never excuses a leak.
    keeps: Option<&'static str>,
    /// A prefix, and the text that replaces `keeps` for memory allocated by functions with this
    /// prefix.
    keeps_in: Option<(&'static str, &'static str)>,
}

/// The role of a library in a backtrace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The driver, the runtime or one of their tools: every library allocates through these.
    Driver,
    /// A library from NVIDIA that allocates memory for itself.
    Nvidia,
    /// A library that is not from NVIDIA.
    Other,
}

const fn row(
    name: &'static str,
    role: Role,
    files: &'static [&'static str],
    functions: &'static [&'static str],
) -> KnownLibrary {
    KnownLibrary {
        name,
        role,
        files,
        functions,
        keeps: None,
        keeps_in: None,
    }
}

impl KnownLibrary {
    const fn keeps(self, what: &'static str) -> Self {
        Self {
            keeps: Some(what),
            ..self
        }
    }

    const fn keeps_in(self, prefix: &'static str, what: &'static str) -> Self {
        Self {
            keeps_in: Some((prefix, what)),
            ..self
        }
    }

    /// Returns what is known about memory that the library allocates in `function`.
    fn known(&self, function: &str) -> Option<&'static str> {
        let of_function = self
            .keeps_in
            .filter(|(prefix, _)| function.starts_with(prefix));
        of_function.map(|(_, what)| what).or(self.keeps)
    }
}

/// One row per library. If one name is a prefix of another, the longer one comes first. A comment
/// above a row cites the source for what the library keeps.
const LIBRARIES: &[KnownLibrary] = &[
    row(
        "CUDA driver",
        Role::Driver,
        &["cuda", "cudadebugger", "nvidia"],
        &[],
    ),
    row("CUDA runtime", Role::Driver, &["cudart"], &[]),
    row("CUPTI", Role::Driver, &["cupti"], &["cupti"]),
    // https://docs.nvidia.com/cuda/cublas/#cublasltdestroy
    row("cuBLASLt", Role::Nvidia, &["cublasLt"], &["cublasLt"]).keeps(
        "cuBLASLt keeps such resources until cublasLtDestroy is called: drop the handle before the \
         test ends, or create it once per process",
    ),
    // https://docs.nvidia.com/cuda/cublas/#cublassetworkspace,
    // https://docs.nvidia.com/cuda/cublas/#cublascreate; measured on an H200, CUDA 13.0, 2026-11-20
    row("cuBLAS", Role::Nvidia, &["cublas", "nvblas"], &["cublas"])
        .keeps(
            "cuBLAS allocates such resources for its handle, and cublasDestroy frees them: drop \
             the handle before the test ends, or provide your own memory with cublasSetWorkspace",
        )
        .keeps_in(
            "cublasCreate",
            "cublasCreate allocates a workspace (64 MiB on an H200), and cuBLAS keeps the \
             workspace until cublasDestroy is called: drop the handle before the test ends, or \
             create it once per process",
        ),
    // https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html
    row("cuDNN", Role::Nvidia, &["cudnn"], &["cudnn"]).keeps(
        "cuDNN keeps such resources until cudnnDestroy is called or, if they belong to a plan, \
         until the plan's descriptor is destroyed: drop the handle and the plan before the test \
         ends, or create them once per process",
    ),
    // https://docs.nvidia.com/cuda/cufft/#function-cufftdestroy
    row("cuFFT", Role::Nvidia, &["cufft", "cufftw"], &["cufft"]).keeps(
        "a plan keeps its work area until cufftDestroy is called: destroy the plan before the test \
         ends, or provide your own memory with cufftSetAutoAllocation and cufftSetWorkArea",
    ),
    row("cuFile", Role::Nvidia, &["cufile"], &["cuFile"]),
    // https://docs.nvidia.com/cuda/curand/group__HOST.html
    row("cuRAND", Role::Nvidia, &["curand"], &["curand"]).keeps(
        "a generator keeps its state until curandDestroyGenerator is called: drop the generator \
         before the test ends, or create it once per process",
    ),
    // https://docs.nvidia.com/cuda/cusolver/#cusolverdndestroy
    row(
        "cuSOLVER",
        Role::Nvidia,
        &["cusolver", "cusolverMg"],
        &["cusolver"],
    )
    .keeps(
        "cuSOLVER keeps such resources until the handle is destroyed (cusolverDnDestroy, \
         cusolverSpDestroy): drop the handle before the test ends, or create it once per process",
    ),
    row("cuSPARSELt", Role::Nvidia, &["cusparseLt"], &["cusparseLt"]),
    // https://docs.nvidia.com/cuda/cusparse/#cusparsedestroy
    row("cuSPARSE", Role::Nvidia, &["cusparse"], &["cusparse"]).keeps(
        "cuSPARSE keeps such resources until cusparseDestroy is called: drop the handle before the \
         test ends, or create it once per process",
    ),
    // https://docs.nvidia.com/cuda/cutensor/latest/api/cutensor.html
    row(
        "cuTENSOR",
        Role::Nvidia,
        &["cutensor", "cutensorMg", "cutensorMp"],
        &["cutensor"],
    )
    .keeps(
        "cuTENSOR keeps such resources until cutensorDestroy is called: drop the handle before the \
         test ends, or create it once per process",
    ),
    // https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/comms.html
    row("NCCL", Role::Nvidia, &["nccl"], &["nccl"]).keeps(
        "a communicator keeps its buffers until ncclCommDestroy or ncclCommAbort is called: \
         destroy the communicator in the test, on every rank",
    ),
    row(
        "NPP",
        Role::Nvidia,
        &[
            "nppc", "nppial", "nppicc", "nppidei", "nppif", "nppig", "nppim", "nppist", "nppisu",
            "nppitc", "npps",
        ],
        &["nppi", "npps", "nppSet"],
    ),
    // https://docs.nvidia.com/cuda/nvjpeg/
    row("nvJPEG", Role::Nvidia, &["nvjpeg", "nvjpeg2k"], &["nvjpeg"]).keeps(
        "nvJPEG keeps such resources until nvjpegDestroy is called or, if they belong to a state, \
         until nvjpegJpegStateDestroy is called: destroy the handle and the state before the test \
         ends",
    ),
    row("nvJitLink", Role::Nvidia, &["nvJitLink"], &["nvJitLink"]),
    row("NVRTC", Role::Nvidia, &["nvrtc"], &["nvrtc"]),
    row("NVSHMEM", Role::Nvidia, &["nvshmem"], &["nvshmem"]),
    // https://docs.nvidia.com/deeplearning/tensorrt/latest/
    row("TensorRT", Role::Nvidia, &["nvinfer", "nvonnxparser"], &[]).keeps(
        "such resources are freed when the engine or the execution context that they belong to is \
         destroyed: destroy the contexts before the engine",
    ),
    row("libtorch", Role::Other, &["torch", "c10"], &[]),
    row("ONNX Runtime", Role::Other, &["onnxruntime"], &[]),
    row("TensorFlow", Role::Other, &["tensorflow"], &[]),
    row("ggml", Role::Other, &["ggml"], &[]),
    row("RMM", Role::Other, &["rmm"], &[]),
];

/// Returns the library that a file belongs to. Examples of files are `libcublas.so.13.0.0.19` and,
/// from a wheel, `libcublas-1a2b3c4d.so.12`.
pub fn of_file(file: &str) -> Option<&'static KnownLibrary> {
    let file = file.strip_prefix("lib")?;
    let is = |stem: &&str| {
        let rest = file.strip_prefix(*stem);
        rest.is_some_and(|rest| rest.starts_with(['.', '-', '_']))
    };
    LIBRARIES
        .iter()
        .find(|library| library.files.iter().any(is))
}

/// The libraries whose objects keep alive their device and everything else that they need.
const COUNT_REFERENCES: &[&str] = &["wgpu_core", "vulkano"];

/// Whether a backtrace passes through a library whose objects keep alive everything that they need.
pub fn counts_references(frames: &[Frame]) -> bool {
    let counts = |frame: &Frame| {
        let mut names = COUNT_REFERENCES.iter();
        frame.owner == Owner::Dependency && names.any(|name| mentions(frame, &[name]))
    };
    frames.iter().any(counts)
}

/// Whether a file belongs to a library whose name can appear in reports.
pub fn is_known_library(file: &str) -> bool {
    of_file(file).is_some()
}

/// Returns the library to which a function belongs. The name of the function has no path, as in
/// `cublasCreate_v2`.
pub fn of_function(function: &str) -> Option<&'static KnownLibrary> {
    let begins = |start: &&str| {
        let rest = function.strip_prefix(*start);
        rest.is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_uppercase()))
    };
    LIBRARIES
        .iter()
        .find(|library| library.functions.iter().any(begins))
}

/// Returns the library that owns the memory allocated at `frames`, a backtrace from which the
/// frames of the capture have been removed.
///
/// If NVIDIA's libraries call each other, the outermost one owns the memory: cuDNN if cuDNN calls
/// cuBLAS and cuBLAS calls cuBLASLt. Only frames inside the first frame of the user or of a crate
/// count, because a library further out only called back into that code, which then made the
/// allocation.
pub(super) fn library(frames: &[Frame]) -> Option<Library> {
    let inner = frames
        .iter()
        .take_while(|frame| !matches!(frame.owner, Owner::User | Owner::Dependency))
        .filter_map(|frame| Some((frame, of_frame(frame)?)))
        .filter(|(_, library)| library.role != Role::Driver);
    let inner: Vec<_> = inner.collect();
    let (_, first) = inner.first()?;
    let same = inner
        .iter()
        .take_while(|(_, library)| match first.role {
            Role::Nvidia => library.role == Role::Nvidia,
            _ => library.name == first.name,
        })
        .count();
    let (entry, holder) = inner[same - 1];
    let caller = inner.get(same).map(|(_, caller)| caller.name.to_owned());
    // A function with a path is left out, because it is an internal function of the library.
    let is_internal = |name: &str| name.contains("::") || name.starts_with("_Z");
    let function = entry.function.as_deref().filter(|name| !is_internal(name));
    let known = holder.known(function.unwrap_or_default());
    Some(Library {
        name: holder.name.to_owned(),
        known: known.map(str::to_owned),
        function: function.map(str::to_owned),
        file: entry.module.as_deref().map(str::to_owned),
        called_by: caller,
    })
}

fn of_frame(frame: &Frame) -> Option<&'static KnownLibrary> {
    let by_file = frame.module.as_deref().and_then(of_file);
    by_file.or_else(|| {
        // The frames of a statically linked library have no source files.
        let function = frame.function.as_deref().filter(|_| frame.file.is_none());
        function.and_then(of_function)
    })
}

#[cfg(test)]
mod tests {
    use super::{Frame, Library, Owner, library, of_file, of_function};

    #[test]
    fn a_library_is_recognised_by_its_file_regardless_of_version_and_hash() {
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
    fn a_statically_linked_library_is_recognised_by_its_functions() {
        let name = |function| of_function(function).map(|known| known.name);
        assert_eq!(name("cublasCreate_v2"), Some("cuBLAS"));
        assert_eq!(name("cublasLtCreate"), Some("cuBLASLt"));
        assert_eq!(name("ncclCommInitRank"), Some("NCCL"));
        assert_eq!(name("mine::cublasCreate_v2"), None);
        assert_eq!(name("cublas_of_mine"), None);
    }

    fn of(frames: &[(Owner, &str, &str)]) -> Option<Library> {
        let frame = |(owner, module, function): &(Owner, &str, &str)| Frame {
            module: (!module.is_empty()).then(|| (*module).into()),
            function: (!function.is_empty()).then(|| (*function).into()),
            owner: *owner,
            ..Frame::default()
        };
        library(&frames.iter().map(frame).collect::<Vec<_>>())
    }

    const USER: (Owner, &str, &str) = (Owner::User, "train", "train::step");
    const DRIVER: (Owner, &str, &str) = (Owner::Cuda, "libcuda.so.1", "cuMemAlloc_v2");

    #[test]
    fn the_library_and_the_function_that_was_called_are_named() {
        let found = of(&[
            DRIVER,
            (Owner::Cuda, "libcublasLt.so.13", ""),
            (Owner::Cuda, "libcublas.so.13.0.0.19", ""),
            (Owner::Cuda, "libcublas.so.13.0.0.19", "cublasCreate_v2"),
            USER,
        ]);
        let found = found.expect("a library");
        assert_eq!(found.name, "cuBLAS");
        assert_eq!(found.function.as_deref(), Some("cublasCreate_v2"));
        assert_eq!(found.file.as_deref(), Some("libcublas.so.13.0.0.19"));
        assert_eq!(found.called_by, None);
        let says = found.known.expect("a row of the table");
        assert!(says.contains("cublasDestroy"), "{says}");
    }

    #[test]
    fn a_fact_about_the_function_replaces_the_fact_about_the_library() {
        let known = |file, function| {
            let known = of_file(file).expect("a row").known(function);
            known.unwrap_or_default()
        };
        assert!(known("libcublas.so.13", "cublasCreate_v2").starts_with("cublasCreate allocates"));
        for function in ["cublasSgemm_v2", ""] {
            let of_library = known("libcublas.so.13", function);
            assert!(of_library.starts_with("cuBLAS allocates"), "{of_library}");
        }
        assert_eq!(known("libcudart.so.13", "cublasCreate_v2"), "");
    }

    #[test]
    fn a_framework_is_named_as_the_caller() {
        let found = of(&[
            DRIVER,
            (Owner::Cuda, "libcublas-1a2b3c4d.so.12", "cublasCreate_v2"),
            (Owner::Native, "libtorch_cuda.so", "_ZN2at4cuda6handleEv"),
            (Owner::Native, "libtorch_cpu.so", ""),
            USER,
        ]);
        let found = found.expect("a library");
        assert_eq!(
            (&*found.name, found.called_by.as_deref()),
            ("cuBLAS", Some("libtorch"))
        );
        let found = of(&[DRIVER, (Owner::Native, "libc10_cuda.so", "_ZN3c10Ev"), USER]);
        let found = found.expect("a library");
        assert_eq!((&*found.name, found.function), ("libtorch", None));
    }

    #[test]
    fn the_driver_and_libraries_that_call_the_user_s_code_own_nothing() {
        assert_eq!(of(&[DRIVER, USER]), None);
        let called_back = (Owner::Cuda, "libcublas.so.13", "cublasSgemm_v2");
        assert_eq!(of(&[DRIVER, USER, called_back, USER]), None);
    }
}
