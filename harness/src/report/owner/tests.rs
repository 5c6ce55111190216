use super::{Symbol, is_cuda_library, of_python, owner};
use crate::report::check_report::Owner;

fn of_file(file: &str) -> Owner {
    let symbol = Symbol {
        file: Some(file.to_owned()),
        ..Symbol::default()
    };
    owner(None, &symbol)
}

fn of_symbol(function: &str) -> Owner {
    let symbol = Symbol {
        function: Some(function.to_owned()),
        ..Symbol::default()
    };
    owner(None, &symbol)
}

#[test]
fn files_of_rust_itself_are_std() {
    for file in [
        "/rustc/1234abcd/library/std/src/thread/mod.rs",
        "/home/u/.rustup/toolchains/stable/lib/rustlib/src/rust/library/core/src/ops/function.rs",
        "/rust/deps/hashbrown-0.15.0/src/raw.rs",
        "/usr/src/rustc-1.96.0/library/core/src/ops/function.rs",
    ] {
        assert_eq!(of_file(file), Owner::Std, "{file}");
    }
}

#[test]
fn files_that_cargo_fetched_are_dependencies() {
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
fn headers_of_the_cpp_standard_library_are_std() {
    for file in [
        "/usr/include/c++/13/bits/stl_vector.h",
        "/usr/lib/gcc/x86_64-linux-gnu/13/../../../../include/c++/13/bits/invoke.h",
        "/opt/conda/x86_64-conda-linux-gnu/include/c++/14.3.0/bits/std_function.h",
        "/usr/lib/llvm-18/bin/../include/c++/v1/__memory/unique_ptr.h",
        "/usr/include/x86_64-linux-gnu/c++/12/bits/gthr-default.h",
    ] {
        assert_eq!(of_file(file), Owner::Std, "{file}");
    }
    // Headers that are installed for all programs belong to a library.
    let installed = "/usr/include/eigen3/Eigen/src/Core/util/Memory.h";
    assert_eq!(of_file(installed), Owner::Dependency);
    for own in [
        "/home/ann/src/include/pool.h",
        "/home/ann/include/c++/pool.hpp",
        "/home/ann/include/c++/3d/pool.hpp",
    ] {
        assert_eq!(of_file(own), Owner::User, "{own}");
    }
}

#[test]
fn headers_of_the_cuda_toolkit_are_not_the_user_s() {
    for toolkit in [
        "/usr/local/cuda/bin/../targets/x86_64-linux/include",
        "/opt/nvidia/hpc_sdk/Linux_x86_64/25.7/cuda/13.0/include",
        "/venv/lib/python3.12/site-packages/nvidia/cu13/include",
        "/usr/include",
    ] {
        // This header defines `cudaMalloc<int>`, a template around the C function.
        let wrapper = format!("{toolkit}/cuda_runtime.h");
        assert_eq!(of_file(&wrapper), Owner::Cuda, "{wrapper}");
        for header in [
            "thrust/detail/vector_base.inl",
            "cccl/cub/util_allocator.cuh",
        ] {
            let file = format!("{toolkit}/{header}");
            assert_eq!(of_file(&file), Owner::Dependency, "{file}");
        }
    }
}

#[test]
fn a_users_own_directories_may_have_such_names() {
    for file in [
        "/home/u/registry/src/lib.rs",
        "/home/u/train/src/vendor/nvidia.rs",
        "/home/u/library/src/lib.rs",
        "/home/u/gpu-leak-check-experiments/src/lib.rs",
        "/home/u/train/src/cuda_runtime.h",
        "/home/u/thrust/engine.cpp",
        "src/vendor.rs",
    ] {
        assert_eq!(of_file(file), Owner::User, "{file}");
    }
}

#[test]
fn only_the_harness_own_sources_are_the_harness() {
    let directory = env!("CARGO_MANIFEST_DIR");
    for file in [
        "src/check/run.rs",
        "core/src/ledger/apply.rs",
        "interpose/src/lib.rs",
    ] {
        assert_eq!(
            of_file(&format!("{directory}/{file}")),
            Owner::Harness,
            "{file}"
        );
    }
    for file in ["tests/a.rs", "../examples/a.rs", "../tests/main.rs"] {
        assert_eq!(
            of_file(&format!("{directory}/{file}")),
            Owner::User,
            "{file}"
        );
    }
    let published = "/home/u/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";
    for file in [
        "gpu-leak-check-0.1.0/src/lib.rs",
        "gpu-leak-core-0.1.0/src/ledger/apply.rs",
        "gpu-leak-interpose-1.0.0/src/lib.rs",
    ] {
        assert_eq!(
            of_file(&format!("{published}/{file}")),
            Owner::Harness,
            "{file}"
        );
    }
}

#[test]
fn without_a_file_the_symbol_decides() {
    for (function, expected) in [
        ("core::ops::function::FnOnce::call_once", Owner::Std),
        ("<alloc::boxed::Box<F> as core::ops::Fn>::call", Owner::Std),
        ("gpu_leak_check::check::run", Owner::Harness),
        ("gpu_leak_core::ledger::apply", Owner::Harness),
        (
            "<train::nn::Linear as train::nn::Module>::forward",
            Owner::User,
        ),
        ("cudaMallocAsync", Owner::Cuda),
        ("cuMemAlloc_v2", Owner::Cuda),
        ("__cudart812", Owner::Cuda),
        (
            "libcudart_static_5382377d5c772c9d197c0cda9fd9742ee6ad893c",
            Owner::Cuda,
        ),
        ("curl_easy_perform", Owner::Native),
        // A symbol does not show whether a C++ function belongs to the program or to a library.
        ("_ZN2at4cuda6handleEv", Owner::Native),
        ("_ZN4core4fillEv", Owner::Native),
        ("_ZSt13__invoke_implIvPFvvEEv", Owner::Native),
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

#[test]
fn python_files_are_told_apart_by_their_directories() {
    for (file, owner) in [
        ("train.py", Owner::User),
        ("/home/ann/python3.12/train.py", Owner::User),
        ("<stdin>", Owner::User),
        ("/tmp/ipykernel_12/345.py", Owner::User),
        (
            "/venv/lib/python3.12/site-packages/torch/_ops.py",
            Owner::Dependency,
        ),
        (
            "/usr/lib/python3/dist-packages/numpy/__init__.py",
            Owner::Dependency,
        ),
        (
            "/tmp/torchinductor_ann/cg/ccgrs5djzy2addkgwlu5424jxn5j4zy3oaxxjipib6iovai5bwrx.py",
            Owner::Dependency,
        ),
        (
            "/home/ann/xy/ccgrs5djzy2addkgwlu5424jxn5j4zy3oaxxjipib6iovai5bwrx.py",
            Owner::User,
        ),
        ("/home/ann/on/configuration.py", Owner::User),
        ("/usr/lib/python3.12/asyncio/runners.py", Owner::Std),
        ("/opt/python/lib/python3.14t/threading.py", Owner::Std),
        ("/usr/lib/python312.zip/threading.py", Owner::Std),
        ("<frozen importlib._bootstrap>", Owner::Std),
    ] {
        assert_eq!(of_python(file), owner, "{file}");
    }
}
