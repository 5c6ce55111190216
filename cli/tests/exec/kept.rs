//! Tests each entry of the shipped list of resources that libraries and caching allocators keep.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpu_leak_check::__command::allow_entries;
use gpu_leak_check::report::check_report::{Finding, FindingKind};
use gpu_leak_tests::fake::Fake;
use tempfile::TempDir;

use super::{Ran, program, ran_with};
use crate::support::{call, command};

/// Three names for each entry of the list, in order: a library that the entry is about, a function
/// of that library that creates something, and the driver's function that this function calls.
const LIBRARIES: [(&str, &str, &str); 35] = [
    ("libc10_cuda.so", "raw_alloc", MEMORY),
    (
        "memory.cpython-312-x86_64-linux-gnu.so",
        "__pyx_f_4cupy_4cuda_6memory_22SingleDeviceMemoryPool__try_malloc",
        MEMORY,
    ),
    (
        "libburn.so",
        "cubecl_runtime_memory_management_reserve",
        MEMORY,
    ),
    ("libcudf.so", "rmm_pool_memory_resource_do_allocate", MEMORY),
    ("librle.so", "cub_CachingDeviceAllocator", MEMORY),
    ("xla_cuda_plugin.so", "BFCAllocator_Extend", MEMORY),
    ("libmodel.so", "onnxruntime_BFCArena_Extend", MEMORY),
    ("libllama.so", "ggml_cuda_pool_vmm_alloc", MEMORY),
    ("libcublas.so.13", "cublasCreate_v2", MEMORY),
    ("libcublasLt.so.13", "cublasLtCreate", MEMORY),
    ("libcudnn.so.9", "cudnnCreate", MEMORY),
    ("libcufft.so.12", "cufftPlan1d", MEMORY),
    ("libcufile.so.0", "cuFileDriverOpen", MEMORY),
    ("libcurand.so.10", "curandCreateGenerator", MEMORY),
    ("libcusolver.so.12", "cusolverDnCreate", MEMORY),
    ("libcusparseLt.so.0", "cusparseLtInit", MEMORY),
    ("libcusparse.so.12", "cusparseCreate", MEMORY),
    ("libcutensor.so.2", "cutensorCreate", MEMORY),
    ("libnccl.so.2", "ncclCommInitRank", MEMORY),
    ("libnppc.so.13", "nppSetStream", MEMORY),
    ("libnvjpeg.so.13", "nvjpegCreate", MEMORY),
    ("libnvJitLink.so.13", "nvJitLinkCreate", MEMORY),
    ("libnvrtc.so.13", "nvrtcCompileProgram", MEMORY),
    ("libnvshmem_host.so.3", "nvshmem_init", MEMORY),
    ("libnvinfer.so.10", "createInferRuntime", MEMORY),
    ("libtorch_cuda.so", "CachingHostAllocator_allocate", PINNED),
    ("libtorch_cuda.so", "CUDAEvent_createEvent", "cuEventCreate"),
    ("libtorch_python.so", "load_kernel", MODULE),
    (
        "function.cpython-312-x86_64-linux-gnu.so",
        "__pyx_f_4cupy_4cuda_8function_6Module_load",
        MODULE,
    ),
    ("libonnxruntime_providers_cuda.so", "CreateHandle", MEMORY),
    ("libtensorflow_cc.so.2", "CreateDevice", MEMORY),
    ("xla_cuda_plugin.so", "CreateStream", "cuStreamCreate"),
    ("xla_cuda_plugin.so", "CreateEvent", "cuEventCreate"),
    ("xla_cuda_plugin.so", "LoadModule", MODULE),
    ("xla_cuda_plugin.so", "HostMemoryAllocate", PINNED),
];
const MEMORY: &str = "cuMemAlloc_v2";
const PINNED: &str = "cuMemAllocHost_v2";
const MODULE: &str = "cuModuleLoadData";

fn build(directory: &Path, file: &str, function: &str, creates: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exec/library.c");
    let path = directory.join(function).join(file);
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O0", "-ldl", "-o"])
        .arg(&path)
        .arg(format!("-DFUNCTION={function}"))
        .arg(format!("-DCREATES=\"{creates}\""))
        .arg(source)
        .status();
    assert!(status.expect("a C compiler").success(), "{file}");
    path
}

/// Builds the libraries. Returns their directory and the arguments with which the program makes
/// each library keep something.
fn words() -> (TempDir, Vec<String>) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut words = vec!["libraries".to_owned()];
    for (file, function, creates) in LIBRARIES {
        let path = build(directory.path(), file, function, creates);
        words.extend([path.display().to_string(), function.to_owned()]);
    }
    (directory, words)
}

fn findings(ran: &Ran) -> Vec<Finding> {
    let files = ran.files();
    files[0].reports[0].findings.clone()
}

#[test]
fn each_entry_of_the_list_allows_what_it_is_about() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../harness/src/config/kept-for-the-process.toml");
    let entries = allow_entries(&list, "list").expect("a valid file");
    assert_eq!(entries.len(), LIBRARIES.len(), "one library for each");

    let (_directory, words) = words();
    let words: Vec<_> = words.iter().map(OsStr::new).collect();
    let ran = ran_with(&Fake::new(), &[], program(), &words);
    assert_eq!(ran.reported.code, Some(0), "{:?}", ran.reported);
    let findings = findings(&ran);
    for (entry, (file, function, _)) in entries.iter().zip(&LIBRARIES) {
        let is_its = |finding: &&Finding| {
            let library = finding.site.library.as_ref();
            let names = finding
                .site
                .frames
                .iter()
                .map(|frame| frame.function.as_deref());
            let entry = library.map(|library| library.function.as_deref());
            let mut names = names.chain(entry);
            names.any(|name| name == Some(*function))
        };
        let finding = findings.iter().find(is_its);
        let finding = finding.unwrap_or_else(|| panic!("{function}: {findings:?}"));
        let by = finding.allowed_by.as_ref().expect("an entry");
        assert_eq!(
            (finding.kind, &*by.reason),
            (FindingKind::Allowed, &*entry.reason),
            "{file}"
        );
        assert!(!entry.reason.is_empty(), "{file}");
    }
    assert_eq!(findings.len(), entries.len(), "{findings:?}");
}

#[test]
fn the_list_can_be_switched_off() {
    let (_directory, words) = words();
    let directory = tempfile::tempdir().expect("a directory");
    let reported = call(
        command()
            .envs(Fake::new().env())
            .env("GPU_LEAK_CHECK_OUTPUT", directory.path())
            .env("GPU_LEAK_CHECK_KEPT_FOR_THE_PROCESS", "fail")
            .args(["exec", "--"])
            .arg(program())
            .args(&words),
    );
    assert_eq!(reported.code, Some(1), "{reported:?}");
    let ran = Ran {
        reported,
        directory,
    };
    let findings = findings(&ran);
    assert!(
        findings.iter().all(|it| it.kind == FindingKind::Leaked),
        "{findings:?}"
    );
    assert_eq!(findings.len(), LIBRARIES.len());
}

#[test]
fn memory_outside_the_pool_of_a_python_library_is_a_leak() {
    let directory = tempfile::tempdir().expect("a directory");
    // CuPy's `runtime.malloc` returns the driver's allocations directly, whereas XLA hands out
    // arrays.
    let others = [
        ("runtime.cpython-312-x86_64-linux-gnu.so", "runtime_malloc"),
        ("xla_cuda_plugin.so", "PlatformAllocate"),
    ];
    let mut words = vec!["libraries".to_owned()];
    for (file, function) in others {
        let path = build(directory.path(), file, function, MEMORY);
        words.extend([path.display().to_string(), function.to_owned()]);
    }
    let words: Vec<_> = words.iter().map(OsStr::new).collect();
    let ran = ran_with(&Fake::new(), &[], program(), &words);
    assert_eq!(ran.reported.code, Some(1), "{:?}", ran.reported);
    let kinds: Vec<_> = findings(&ran)
        .iter()
        .map(|it| (it.kind, it.bytes))
        .collect();
    assert_eq!(kinds, [(FindingKind::Leaked, 4096); 2]);
}
