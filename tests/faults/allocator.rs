//! The workloads' own allocator: whatever call of a backend fails, it is told or made again, nothing
//! stays behind, and the next program finds everything as it was.

use gpu_leak_kernels::cuda::CudaConfig;
use gpu_leak_kernels::memory::{Buffer, Policy, allocated, device_memory, empty_cache, reserved};
use gpu_leak_kernels::nn::Module;
use gpu_leak_kernels::{Device, EmbeddedConfig, Result, Tensor, TinyModel};
use gpu_leak_tests::fake::Fake;

/// More calls than the program makes.
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

/// Refused once, a segment is asked for again when the cache has been emptied.
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
fn a_segment_that_cannot_be_returned_is_told_and_returned_later() {
    for policy in [Policy::Caching, Policy::Direct] {
        let mut told = 0;
        for nth in 1..=CALLS {
            let device = embedded(policy);
            let at_first = device_memory(&device).expect("its memory");
            device.as_embedded().expect("it is one").fail_free(nth);
            let trained = train(&device);
            let outcomes = [trained, device.synchronize(), empty_cache(&device)];
            told += u32::from(outcomes.iter().any(Result::is_err));
            assert_eq!(allocated(&device), 0, "{policy:?}, {nth}");
            device.as_embedded().expect("it is one").fail_free(u64::MAX);
            empty_cache(&device).expect("the fault is over");
            assert_eq!(reserved(&device), 0, "{policy:?}, {nth}");
            assert_eq!(device_memory(&device).expect("its memory"), at_first);
        }
        assert!(told > 0, "{policy:?}");
    }
}

/// The driver's functions below the allocator.
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

/// Buffers of both pools, some of them used by two streams.
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
                    // What could not be returned is still to be.
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
