//! The embedded device simulates the properties of a GPU.

use gpu_leak_kernels::memory::{
    Buffer, DeviceMemory, Policy, device_memory, set_memory_fraction, set_memory_limit, stats,
};
use gpu_leak_kernels::{Device, EmbeddedConfig, Error, Graph};

const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;

fn device(config: EmbeddedConfig) -> Device {
    Device::embedded_with(config).expect("an embedded device")
}

fn used(device: &Device) -> usize {
    let DeviceMemory { free, total } = device_memory(device).expect("its figures");
    total - free
}

#[test]
fn a_device_is_named_by_its_number() {
    let second = device(EmbeddedConfig {
        ordinal: 1,
        ..EmbeddedConfig::default()
    });
    assert_eq!(second.to_string(), "embedded:1");
    assert_eq!(
        Device::embedded().expect("a device").to_string(),
        "embedded:0"
    );
}

#[test]
fn clones_are_one_device_and_two_calls_are_two() {
    let first = Device::embedded().expect("a device");
    assert_eq!(first.clone(), first);
    assert_ne!(Device::embedded().expect("a device"), first);
}

#[test]
fn a_missing_cuda_device_is_an_error_with_its_name() {
    let error = Device::cuda(4000).expect_err("no machine has as many devices");
    assert!(matches!(error, Error::Unavailable { .. }));
    assert!(error.to_string().starts_with("cuda:4000: "), "{error}");
}

#[test]
fn a_context_holds_memory_from_the_start() {
    let device = device(EmbeddedConfig {
        capacity: GIB,
        context_bytes: 100 * MIB,
        ..EmbeddedConfig::default()
    });
    assert_eq!(used(&device), 100 * MIB);
    assert_eq!(stats(&device).reserved_bytes.all.current, 0);
}

#[test]
fn a_context_that_does_not_fit_is_refused() {
    let error = Device::embedded_with(EmbeddedConfig {
        capacity: 100 * MIB,
        context_bytes: 512 * MIB,
        ..EmbeddedConfig::default()
    })
    .expect_err("it does not fit");
    assert_eq!(
        error.to_string(),
        "embedded:0: its context of 512 MiB does not fit into its capacity of 100 MiB"
    );
}

#[test]
fn device_memory_comes_in_pages_of_two_mebibytes() {
    let device = device(EmbeddedConfig {
        context_bytes: 0,
        policy: Policy::Direct,
        ..EmbeddedConfig::default()
    });
    let small = Buffer::new(&device, 1).expect("there is room");
    assert_eq!(used(&device), 2 * MIB);
    let large = Buffer::new(&device, 2 * MIB + 1).expect("there is room");
    assert_eq!(used(&device), 6 * MIB);
    drop((small, large));
    assert_eq!(used(&device), 0);
}

#[test]
fn fresh_memory_is_zero_and_keeps_what_is_written() {
    let device = Device::embedded().expect("a device");
    let mut buffer = Buffer::new(&device, 3 * MIB).expect("there is room");
    let bytes = buffer.as_bytes_mut().expect("the host reaches it");
    assert!(bytes.iter().all(|byte| *byte == 0));
    bytes[MIB] = 7;
    assert_eq!(buffer.as_bytes().expect("the host reaches it")[MIB], 7);
}

#[test]
fn memory_that_is_not_touched_costs_the_host_nothing() {
    // This is more memory than most machines have.
    let device = device(EmbeddedConfig {
        capacity: 4096 * GIB,
        ..EmbeddedConfig::default()
    });
    let mut tensors: Vec<_> = (0..16)
        .map(|_| Buffer::new(&device, 64 * GIB).expect("nothing is committed"))
        .collect();
    for tensor in &mut tensors {
        tensor.as_bytes_mut().expect("the host reaches it")[40 * GIB] = 1;
    }
}

#[test]
fn running_out_says_what_is_held_and_what_to_do() {
    let device = device(EmbeddedConfig {
        capacity: 102 * MIB,
        context_bytes: 2 * MIB,
        ..EmbeddedConfig::default()
    });
    let fails = |bytes| {
        Buffer::new(&device, bytes)
            .expect_err("too much")
            .to_string()
    };
    let mut kept: Vec<_> = (0..4)
        .map(|_| Buffer::new(&device, 9 * MIB).expect("there is room"))
        .collect();
    assert_eq!(
        fails(70 * MIB),
        "out of memory on embedded:0: 70.0 MiB requested, 60.0 MiB of 102 MiB free; this \
         allocator has 40.0 MiB reserved, of which 36.0 MiB allocated and 4.00 MiB cached; drop \
         what is no longer needed, or use a smaller batch"
    );
    set_memory_limit(&device, Some(64 * MIB as u64));
    assert_eq!(
        fails(30 * MIB),
        "out of memory on embedded:0: 30.0 MiB requested, 60.0 MiB of 102 MiB free; this \
         allocator has 40.0 MiB reserved, of which 36.0 MiB allocated and 4.00 MiB cached, under \
         a limit of 64.0 MiB; drop what is no longer needed, or raise the limit"
    );
    // Half of each segment is free, but neither half is large enough.
    set_memory_limit(&device, Some(40 * MIB as u64));
    kept.truncate(3);
    kept.remove(0);
    assert_eq!(
        fails(15 * MIB),
        "out of memory on embedded:0: 15.0 MiB requested, 60.0 MiB of 102 MiB free; this \
         allocator has 40.0 MiB reserved, of which 18.0 MiB allocated and 22.0 MiB cached, under \
         a limit of 40.0 MiB; no cached part can serve the request: `memory::snapshot` shows which \
         blocks pin their segments, and which segments belong to a graph"
    );
}

#[test]
fn running_out_suggests_a_higher_limit_only_if_that_would_help() {
    let device = device(EmbeddedConfig {
        capacity: 102 * MIB,
        context_bytes: 2 * MIB,
        ..EmbeddedConfig::default()
    });
    for (limit, bytes, remedy) in [
        (30, 40, "raise the limit"),
        (30, 101, "use a smaller batch"),
        (200, 101, "use a smaller batch"),
    ] {
        set_memory_limit(&device, Some(limit * MIB as u64));
        let error = Buffer::new(&device, bytes * MIB).expect_err("too much");
        assert!(error.to_string().ends_with(remedy), "{limit}: {error}");
    }
}

/// A whole segment is free, but a replay may write to it.
#[test]
fn running_out_names_graphs_as_a_cause() {
    let device = device(EmbeddedConfig {
        capacity: 42 * MIB,
        context_bytes: 2 * MIB,
        ..EmbeddedConfig::default()
    });
    let captured = Graph::capture(&device, || Buffer::new(&device, 30 * MIB).map(drop));
    let (graph, ()) = captured.expect("there is room");
    let error = Buffer::new(&device, 20 * MIB).expect_err("the graph keeps its memory");
    assert!(error.to_string().contains("belong to a graph"), "{error}");
    drop(graph);
    Buffer::new(&device, 20 * MIB).expect("the memory is free again");
}

#[test]
fn an_allocation_fails_when_asked_to_and_the_retry_succeeds() {
    let device = Device::embedded().expect("a device");
    let embedded = device.as_embedded().expect("it is one");
    embedded.fail_allocation(2);
    let _first = Buffer::new(&device, 3 * MIB).expect("the first is not meant");
    let _second = Buffer::new(&device, 30 * MIB).expect("emptying the cache is tried first");
    assert_eq!(stats(&device).num_alloc_retries, 1);
}

#[test]
fn a_fraction_limits_what_is_reserved() {
    let device = device(EmbeddedConfig {
        capacity: GIB,
        context_bytes: 0,
        ..EmbeddedConfig::default()
    });
    set_memory_fraction(&device, 0.25).expect("a fraction");
    drop(Buffer::new(&device, 256 * MIB).expect("just within"));
    assert!(Buffer::new(&device, 257 * MIB).is_err());
    let error = set_memory_fraction(&device, 1.5).expect_err("it is not a fraction");
    assert_eq!(
        error.to_string(),
        "set_memory_fraction: 1.5 is not a fraction from 0 to 1"
    );
}
