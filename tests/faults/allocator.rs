//! The workloads' own allocator. Whichever call to a backend fails, the allocator reports the
//! failure or repeats the call, leaves nothing behind, and works as before for the next program.

use gpu_leak_kernels::cuda::CudaConfig;
use gpu_leak_kernels::memory::{Buffer, Policy, allocated, device_memory, empty_cache, reserved};
use gpu_leak_kernels::nn::Module;
use gpu_leak_kernels::{Device, EmbeddedConfig, Graph, Result, Tensor, TinyModel};
use gpu_leak_tests::fake::Fake;

/// A number that exceeds the program's number of calls.
const CALLS: u64 = 60;

fn train(device: &Device) -> Result<()> {
    let model = TinyModel::new(device)?;
    let batch = Tensor::rand([16, 100], device)?;
    model.forward(&batch)?.sum()?.backward()?;
    Ok(())
}

fn embedded(policy: Policy) -> Device {
    let config = EmbeddedConfig {
        policy,
        ..EmbeddedConfig::default()
    };
    Device::embedded_with(config).expect("a device")
}

/// If the backend refuses a segment, the allocator empties its cache and repeats the request.
#[test]
fn a_segment_that_is_refused_once_is_asked_for_again() {
    for policy in [Policy::Caching, Policy::Direct] {
        for nth in 1..=CALLS {
            let device = embedded(policy);
            let at_first = device_memory(&device).expect("its memory");
            device
                .as_embedded()
                .expect("it is one")
                .fail_allocation(nth);
            train(&device).unwrap_or_else(|why| panic!("{policy:?}, {nth}: {why}"));
            assert_eq!(allocated(&device), 0, "{policy:?}, {nth}");
            empty_cache(&device).expect("nothing fails");
            assert_eq!(reserved(&device), 0, "{policy:?}, {nth}");
            assert_eq!(device_memory(&device).expect("its memory"), at_first);
        }
    }
}

#[test]
fn a_segment_that_cannot_be_returned_is_reported_and_returned_later() {
    for policy in [Policy::Caching, Policy::Direct] {
        let mut reported = 0;
        for nth in 1..=CALLS {
            let device = embedded(policy);
            let at_first = device_memory(&device).expect("its memory");
            device.as_embedded().expect("it is one").fail_free(nth);
            let trained = train(&device);
            let outcomes = [trained, device.synchronize(), empty_cache(&device)];
            reported += u32::from(outcomes.iter().any(Result::is_err));
            assert_eq!(allocated(&device), 0, "{policy:?}, {nth}");
            device.as_embedded().expect("it is one").fail_free(u64::MAX);
            empty_cache(&device).expect("the fault is over");
            assert_eq!(reserved(&device), 0, "{policy:?}, {nth}");
            assert_eq!(device_memory(&device).expect("its memory"), at_first);
        }
        assert!(reported > 0, "{policy:?}");
    }
}

/// The driver functions that the allocator calls.
const DRIVER: [&str; 8] = [
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventDestroy_v2",
    "cuMemGetInfo_v2",
    "cuStreamSynchronize",
];

/// Allocates buffers from both pools, and uses some of them on two streams.
fn take_and_drop(device: &Device) -> Result<()> {
    let kept: Vec<_> = [100, 3 << 20, 30 << 20]
        .into_iter()
        .map(|bytes| Buffer::new(device, bytes))
        .collect::<Result<_>>()?;
    device.synchronize()?;
    drop(kept);
    empty_cache(device)?;
    Buffer::new(device, 5 << 20)?;
    device_memory(device)?;
    Ok(())
}

/// The driver functions that a graph calls.
const GRAPH: [&str; 11] = [
    "cuStreamCreate",
    "cuStreamBeginCapture_v2",
    "cuThreadExchangeStreamCaptureMode",
    "cuMemAlloc_v2",
    "cuMemsetD32Async",
    "cuStreamEndCapture",
    "cuStreamDestroy_v2",
    "cuGraphInstantiateWithFlags",
    "cuGraphDestroy",
    "cuGraphLaunch",
    "cuGraphExecDestroy",
];

/// Captures operations that need no kernel, and replays them.
fn capture_and_replay(device: &Device) -> Result<()> {
    let input = Tensor::zeros([100], device)?;
    let (graph, output) = Graph::capture(device, || {
        drop(Tensor::full([1 << 20], 1.0, device)?);
        Tensor::full([100], 2.0, device)
    })?;
    let mut graph = graph.instantiate()?;
    graph.replay()?;
    input.copy_(&output)?;
    graph.replay()
}

/// Nothing stays except what the driver refused to destroy, which is reported.
#[test]
fn each_function_of_the_driver_below_a_graph_fails() {
    Fake::new().here(|control| {
        let device = Device::cuda(0).expect("a device");
        let kinds = ["linear", "graph", "exec", "stream"];
        let live = || kinds.map(|kind| control.live(kind).0);
        capture_and_replay(&device).expect("nothing fails yet");
        empty_cache(&device).expect("nothing fails yet");
        let at_first = live();
        for function in GRAPH {
            for nth in 1..=3 {
                let fault = format!("fail:{function}=1@{nth}");
                let before = live();
                control.set_fault(&fault);
                let outcome = capture_and_replay(&device);
                control.clear_faults();
                let cuda = device.as_cuda().expect("it is one");
                let reported = outcome.is_err() | cuda.context().check_err().is_err();
                let _ = device.synchronize();
                empty_cache(&device).expect("the fault is over");
                assert_eq!((allocated(&device), reserved(&device)), (0, 0), "{fault}");
                let left: u64 = std::iter::zip(live(), before)
                    .map(|(now, then)| now - then)
                    .sum();
                let is_end = function.contains("Destroy");
                assert_eq!(left, u64::from(is_end && reported), "{fault}");
                capture_and_replay(&device).unwrap_or_else(|why| panic!("{fault}: {why}"));
                empty_cache(&device).expect("the fault is over");
            }
        }
        assert_eq!(live()[0], at_first[0]);
    });
}

#[test]
fn each_function_of_the_driver_below_the_allocator_fails() {
    Fake::new().here(|control| {
        for policy in [Policy::Caching, Policy::Direct] {
            let device = Device::cuda_with(CudaConfig { ordinal: 0, policy }).expect("a device");
            take_and_drop(&device).expect("nothing fails yet");
            empty_cache(&device).expect("nothing fails yet");
            let kinds = ["linear", "stream-ordered", "event", "stream"];
            let at_first = kinds.map(|kind| control.live(kind));
            for function in DRIVER {
                for nth in 1..=5 {
                    let fault = format!("fail:{function}=1@{nth}");
                    control.set_fault(&fault);
                    let _ = take_and_drop(&device);
                    control.clear_faults();
                    // Returns the error that the failed call could not return.
                    let _ = device.synchronize();
                    let _ = empty_cache(&device);
                    take_and_drop(&device).unwrap_or_else(|why| panic!("{fault}: {why}"));
                    empty_cache(&device).expect("the fault is over");
                    assert_eq!((allocated(&device), reserved(&device)), (0, 0), "{fault}");
                    let now = kinds.map(|kind| control.live(kind));
                    assert_eq!(now, at_first, "{policy:?} {fault}");
                }
            }
        }
    });
}
