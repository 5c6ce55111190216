use super::{fingerprint, is_cudas_own, trimmed, user};
use crate::ledger::Kind;
use crate::report::{Frame, Language, Owner};

fn frame(owner: Owner, function: &str) -> Frame {
    Frame {
        function: Some(function.into()),
        file: (owner == Owner::User).then(|| "src/lib.rs".into()),
        owner,
        ..Frame::default()
    }
}

fn nameless(owner: Owner, module: &str) -> Frame {
    Frame {
        module: Some(module.into()),
        owner,
        ..Frame::default()
    }
}

fn kept(frames: &[Frame]) -> Vec<String> {
    let name = |frame: Frame| frame.function.or(frame.module).unwrap().to_string();
    trimmed(frames.to_vec()).into_iter().map(name).collect()
}

/// Returns the outer frames of a test's body on the harness's thread.
fn bottom() -> Vec<Frame> {
    vec![
        frame(Owner::Std, "core::ops::function::FnOnce::call_once"),
        frame(Owner::Harness, "gpu_leak_check::check::body::run"),
        frame(Owner::Std, "std::panicking::try"),
    ]
}

#[test]
fn frames_of_the_capture_and_of_cuda_s_libraries_are_removed() {
    let mut frames = vec![
        Frame {
            file: Some("/registry/backtrace-0.3.77/src/backtrace/mod.rs".into()),
            ..frame(Owner::Dependency, "trace_unsynchronized")
        },
        frame(Owner::Harness, "gpu_leak_check::capture::unwind::stack"),
        frame(Owner::Std, "std::thread::local::LocalKey::try_with"),
        frame(Owner::Harness, "gpu_leak_check::api::cuda::heard::heard"),
        nameless(Owner::Cuda, "libcuda.so.1"),
        nameless(Owner::Cuda, "libcublas.so.13"),
        frame(Owner::Dependency, "cudarc::cublas::CudaBlas::new"),
        frame(Owner::User, "train::step"),
        frame(Owner::User, "train::frees_everything"),
    ];
    frames.extend(bottom());
    let expected = [
        "cudarc::cublas::CudaBlas::new",
        "train::step",
        "train::frees_everything",
    ];
    assert_eq!(kept(&frames), expected);
}

#[test]
fn code_that_the_program_loads_explicitly_belongs_to_the_program() {
    let cuda = |module: &str, function: &str| Frame {
        function: (!function.is_empty()).then(|| function.into()),
        ..nameless(Owner::Cuda, module)
    };
    let is_cudas_own = |called_back: &[Frame]| {
        let mut frames = vec![frame(
            Owner::Harness,
            "gpu_leak_check::capture::unwind::stack",
        )];
        frames.extend_from_slice(called_back);
        frames.push(frame(Owner::User, "train::step"));
        is_cudas_own(&frames)
    };
    let driver = || cuda("libcuda.so.1", "cuLibraryLoadData");
    for load in ["cudaLibraryLoadData", "cudaLibraryLoadFromFile"] {
        // The same holds if the runtime is linked into the program.
        for runtime in ["libcudart.so.13", "train"] {
            let called_back = [driver(), cuda(runtime, ""), cuda(runtime, load)];
            assert!(!is_cudas_own(&called_back), "{load} of {runtime}");
        }
    }
    assert!(!is_cudas_own(&[driver()]));
    assert!(!is_cudas_own(&[cuda("libcuda.so.1", "cuModuleLoadDataEx")]));
    // CUDA's libraries load code for themselves: the runtime at the first launch, and the others
    // through the runtime.
    let launch = cuda("libcudart.so.13", "cudaLaunchKernel");
    assert!(is_cudas_own(&[driver(), launch]));
    let cublas = [
        driver(),
        cuda("libcudart.so.13", "cudaLibraryLoadData"),
        cuda("libcublas.so.13", "cublasCreate_v2"),
    ];
    assert!(is_cudas_own(&cublas));
    assert!(is_cudas_own(&[driver(), cuda("train", "__cudart812")]));
}

#[test]
fn the_stack_of_a_reported_allocation_begins_at_the_caller_of_observe() {
    let mut frames = vec![
        frame(Owner::Harness, "gpu_leak_check::capture::unwind::stack"),
        frame(Owner::Harness, "gpu_leak_check::capture::observe::created"),
        frame(Owner::Std, "core::option::Option::map"),
        frame(Owner::User, "kernels::alloc::take"),
        nameless(Owner::Cuda, "libcuda.so.1"),
        frame(Owner::User, "train::step"),
    ];
    frames.extend(bottom());
    let expected = [
        "core::option::Option::map",
        "kernels::alloc::take",
        "libcuda.so.1",
        "train::step",
    ];
    assert_eq!(kept(&frames), expected);
}

#[test]
fn the_harness_s_frames_are_also_removed_between_the_program_s() {
    let mut frames = vec![
        frame(Owner::User, "train::step"),
        frame(Owner::Harness, "gpu_leak_check::check::Check::run"),
        frame(Owner::User, "train::frees_everything"),
    ];
    frames.extend(bottom());
    assert_eq!(kept(&frames), ["train::step", "train::frees_everything"]);
}

#[test]
fn frames_of_the_attribute_s_expansion_are_removed() {
    let mut frames = vec![
        frame(
            Owner::User,
            "train::__gpu_leak_check_frees::frees::{{closure}}",
        ),
        frame(Owner::User, "train::__gpu_leak_check_frees::frees"),
        frame(Owner::User, "train::__gpu_leak_check_frees::{{closure}}"),
    ];
    frames.extend(bottom());
    assert_eq!(kept(&frames), ["train::frees::{{closure}}", "train::frees"]);
}

#[test]
fn start_up_code_of_a_c_program_is_removed() {
    let frames = [
        frame(Owner::Native, "make_tensor"),
        frame(Owner::Native, "main"),
        frame(Owner::Native, "__libc_start_call_main"),
        nameless(Owner::Native, "libc.so.6"),
        frame(Owner::Native, "_start"),
    ];
    assert_eq!(kept(&frames), ["make_tensor", "main"]);
}

#[test]
fn the_main_function_of_a_c_program_is_the_user_s_code() {
    let wrapper = frame(Owner::Harness, "gpu_leak_check::api::cuda::heard::heard");
    let runtime = nameless(Owner::Cuda, "libcudart.so.13");
    let start = ["main", "__libc_start_call_main", "_start"];
    let start = start.map(|function| frame(Owner::Native, function));
    // The same holds if the program calls the driver directly.
    for called in [&[wrapper.clone(), runtime][..], &[wrapper]] {
        let frames = [called, &start].concat();
        assert_eq!(kept(&frames), ["main"]);
        assert_eq!(user(&trimmed(frames)), Some(0));
    }
    // The `main` of Rust's own start-up only calls std.
    let of_rust = [
        &[frame(Owner::User, "train::main")],
        &[frame(Owner::Std, "std::rt::lang_start_internal")],
        &start[..],
    ];
    assert_eq!(kept(&of_rust.concat()), ["train::main"]);
    assert_eq!(kept(&of_rust[1..].concat()), [""; 0]);
}

#[test]
fn the_user_s_line_is_the_innermost_in_a_file_of_the_user() {
    let frames = [
        nameless(Owner::Native, "libtorch.so"),
        frame(Owner::Dependency, "tch::Tensor::zeros"),
        frame(Owner::User, "train::step"),
        frame(Owner::User, "train::frees_everything"),
    ];
    assert_eq!(user(&frames), Some(2));
}

#[test]
fn without_files_the_user_s_line_is_the_innermost_outside_std_and_cuda() {
    let mut frames = vec![
        frame(Owner::Std, "core::ops::function::FnOnce::call_once"),
        nameless(Owner::Cuda, "libcublas.so.13"),
        nameless(Owner::Native, "libtorch.so"),
    ];
    assert_eq!(user(&frames), Some(2));
    frames.pop();
    assert_eq!(user(&frames), Some(0));
    assert_eq!(user(&frames[1..]), None);
}

#[test]
fn a_fingerprint_does_not_depend_on_lines_and_addresses() {
    let mut frames = vec![
        frame(Owner::User, "train::step"),
        nameless(Owner::Native, "libtorch.so"),
    ];
    let before = fingerprint(Kind::Linear, &frames);
    frames[0].line = Some(7);
    frames[0].file = None;
    frames[1].offset = Some(0x1234);
    assert_eq!(fingerprint(Kind::Linear, &frames), before);
}

#[test]
fn a_fingerprint_does_not_depend_on_inlining_and_std() {
    let plain = ["train::Device::zeros", "train::epoch::{{closure}}"];
    let inlined = ["zeros<f32>", "{closure#0}"];
    let mut of = [plain, inlined].map(|names| {
        let frames = names.map(|name| frame(Owner::User, name));
        fingerprint(Kind::Linear, &frames)
    });
    assert_eq!(of[0], of[1]);
    let with_std = [
        frame(Owner::User, "zeros"),
        frame(Owner::Std, "core::ops::function::FnOnce::call_once"),
        frame(Owner::User, "{closure#0}"),
    ];
    of[1] = fingerprint(Kind::Linear, &with_std);
    assert_eq!(of[0], of[1]);
}

#[test]
fn a_fingerprint_distinguishes_kinds_and_functions() {
    let of = |kind, names: &[&str]| {
        let frames: Vec<_> = names.iter().map(|name| frame(Owner::User, name)).collect();
        fingerprint(kind, &frames)
    };
    // Fingerprints are stored in files that outlive a release, so this value must never change.
    assert_eq!(of(Kind::Linear, &["ab", "c"]), "1-7874c73920f6a2ea");
    assert_ne!(
        of(Kind::Linear, &["ab", "c"]),
        of(Kind::Linear, &["a", "bc"])
    );
    assert_ne!(
        of(Kind::Linear, &["ab", "c"]),
        of(Kind::Pitched, &["ab", "c"])
    );
}

fn python(owner: Owner, file: &str, function: &str) -> Frame {
    Frame {
        function: Some(function.into()),
        file: Some(file.into()),
        line: Some(3),
        owner,
        language: Language::Python,
        ..Frame::default()
    }
}

#[test]
fn a_python_program_s_line_is_the_innermost_of_its_own_code() {
    let native = nameless(Owner::Native, "libtorch_cuda.so");
    let package = python(Owner::Dependency, "/venv/site-packages/torch/nn.py", "to");
    let library = python(Owner::Std, "/usr/lib/python3.12/functools.py", "wrapper");
    let own = python(Owner::User, "train.py", "step");
    let mut frames = vec![native, library, package, own];
    assert_eq!(user(&frames), Some(3));
    frames.pop();
    assert_eq!(user(&frames), Some(2));
    frames.pop();
    assert_eq!(user(&frames), Some(0));
}

#[test]
fn the_fingerprint_of_a_python_frame_contains_its_module_and_function() {
    let of = |file: &str, function: &str| {
        fingerprint(Kind::Linear, &[python(Owner::User, file, function)])
    };
    let step = of("/home/ann/train.py", "Trainer.step.<locals>.<lambda>");
    assert_eq!(step, of("work/train.py", "Trainer.step.<locals>.<lambda>"));
    assert_ne!(step, of("work/train.py", "Trainer.step.<locals>.inner"));
    assert_ne!(step, of("work/test.py", "Trainer.step.<locals>.<lambda>"));
    let package = of("/home/ann/model/__init__.py", "make");
    assert_eq!(package, of("model/__init__.py", "make"));
    assert_ne!(package, of("/home/ann/data/__init__.py", "make"));
}
