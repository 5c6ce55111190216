//! Resources that every round of work leaves behind, and a cache that only fills up.

use std::sync::Mutex;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::FindingKind;
use gpu_leak_kernels::{Device, Tensor};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;

use super::{of_kind, run};
use crate::kinds::planted::{code, context, graphs, keep, streams};

/// Fails unless the only finding is that each of three rounds left `gain` more resources of this
/// kind.
#[track_caller]
fn assert_grew(checked: &Checked, kind: Kind, gain: u64) {
    let finding = of_kind(checked, kind);
    let counts: Vec<_> = finding.rounds.iter().map(|held| held.count).collect();
    assert_eq!(finding.kind, FindingKind::Grew, "{}", checked.output());
    assert_eq!(counts, [gain, 2 * gain, 3 * gain], "{}", checked.output());
    assert_eq!(checked.report().findings.len(), 1, "{}", checked.output());
}

/// The key in a map of executable graphs was an address that changes with each token.
/// <https://github.com/ggml-org/llama.cpp/issues/20315>,
/// <https://github.com/ggml-org/llama.cpp/issues/26558>
#[test]
fn llama_cpp_20315_an_executable_graph_for_each_token() {
    assert_grew(
        &run(module_path!(), "generates_a_token"),
        Kind::ExecGraph,
        1,
    );
}

#[gpu_leak_check(rounds = 3)]
#[ignore = "leaks on purpose"]
#[test]
fn generates_a_token() {
    context();
    keep(graphs::executable());
}

/// Each initialisation loaded the runtime's module again.
/// <https://github.com/Genesis-Embodied-AI/quadrants/issues/660>
#[test]
fn quadrants_660_a_module_for_each_initialisation() {
    assert_grew(&run(module_path!(), "initialises"), Kind::Module, 1);
}

#[gpu_leak_check(rounds = 3)]
#[ignore = "leaks on purpose"]
#[test]
fn initialises() {
    context();
    code::module();
}

/// A cache of kernels, with one for each shape, never unloaded a kernel.
/// <https://github.com/facebookexperimental/triton/issues/1289>
#[test]
fn triton_1289_modules_of_an_unbounded_cache() {
    assert_grew(
        &run(module_path!(), "compiles_for_new_shapes"),
        Kind::Module,
        2,
    );
}

#[gpu_leak_check(rounds = 3)]
#[ignore = "leaks on purpose"]
#[test]
fn compiles_for_new_shapes() {
    static CACHE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    context();
    for _ in 0..2 {
        let module = code::module();
        CACHE.lock().unwrap().push(module.expose_provenance());
    }
}

/// Two events timed each launch and were never destroyed.
/// <https://github.com/ROCm/composable_kernel/issues/1554>
#[test]
fn composable_kernel_1554_the_events_of_each_timing() {
    assert_grew(&run(module_path!(), "times_a_launch"), Kind::Event, 2);
}

#[gpu_leak_check(rounds = 3)]
#[ignore = "leaks on purpose"]
#[test]
fn times_a_launch() {
    context();
    for _ in ["start", "end"] {
        streams::event();
    }
}

/// A fused layer kept two tensors for each call, although nothing would ask for gradients.
/// <https://github.com/NVIDIA/apex/issues/1999>
#[test]
fn apex_1999_two_tensors_for_each_call() {
    let checked = checked::finish(Run::of("regressions::growth::normalises"));
    assert_grew(&checked, Kind::Block, 2);
}

#[gpu_leak_check(rounds = 3)]
#[ignore = "leaks on purpose"]
#[test]
fn normalises() {
    static SAVED: Mutex<Vec<Tensor>> = Mutex::new(Vec::new());
    let device = Device::embedded().expect("a device");
    for value in [0.0, 1.0] {
        let saved = Tensor::full([64], value, &device).unwrap();
        SAVED.lock().unwrap().push(saved);
    }
}

/// A cache of executable graphs that fills up and then stays as it is. This is not growth.
/// <https://github.com/xangel82/DS4-GB10-GX10-DSpark-CUDA/issues/3>
#[test]
fn dspark_3_a_cache_that_is_full_after_two_rounds() {
    let checked = run(module_path!(), "uses_a_bounded_cache");
    assert!(checked.child.status.success(), "{}", checked.output());
    let findings = checked.report().findings.iter();
    let kinds: Vec<_> = findings.map(|finding| finding.kind).collect();
    assert!(!kinds.contains(&FindingKind::Grew), "{}", checked.output());
}

#[gpu_leak_check(rounds = 5)]
#[ignore = "run in a process of its own"]
#[test]
fn uses_a_bounded_cache() {
    static CACHED: Mutex<u32> = Mutex::new(0);
    context();
    let mut cached = CACHED.lock().unwrap();
    if *cached < 2 {
        keep(graphs::executable());
        *cached += 1;
    }
}
