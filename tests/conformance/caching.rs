//! The rules of the caching allocator, one by one.

use gpu_leak_check::gpu_leak_check;
use gpu_leak_kernels::memory::{
    BlockInfo, BlockState, Buffer, Policy, allocated, empty_cache, reserved, snapshot, stats,
    summary,
};
use gpu_leak_kernels::{Device, EmbeddedConfig};

use super::embedded;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn device() -> Device {
    embedded(Policy::Caching)
}

fn take(device: &Device, bytes: usize) -> Buffer {
    Buffer::new(device, bytes).expect("there is room")
}

/// Returns how many bytes a request of this size adds to the allocated and to the reserved bytes.
fn cost(bytes: usize) -> (u64, u64) {
    let device = device();
    let _buffer = take(&device, bytes);
    (allocated(&device), reserved(&device))
}

#[gpu_leak_check]
#[test]
fn sizes_are_rounded_as_pytorchs_are() {
    let mib = MIB as u64;
    assert_eq!(cost(4), (512, 2 * mib));
    assert_eq!(cost(512), (512, 2 * mib));
    assert_eq!(cost(513), (1024, 2 * mib));
    assert_eq!(cost(MIB), (mib, 2 * mib));
    assert_eq!(cost(MIB + 1), (mib + 512, 20 * mib));
    assert_eq!(cost(10 * MIB - 512), (10 * mib - 512, 20 * mib));
    assert_eq!(cost(10 * MIB - 511), (10 * mib, 10 * mib));
    assert_eq!(cost(10 * MIB), (10 * mib, 10 * mib));
    // A remainder of up to 1 MiB is not split off.
    assert_eq!(cost(11 * MIB), (12 * mib, 12 * mib));
    assert_eq!(cost(11 * MIB - 512), (11 * mib - 512, 12 * mib));
}

#[gpu_leak_check]
#[test]
fn small_and_large_requests_do_not_share_segments() {
    let device = device();
    let _both = (take(&device, 100), take(&device, 2 * MIB));
    assert_eq!(reserved(&device), 22 * MIB as u64);
    // The large segment has 18 MiB free, but a small request does not use them.
    let _more: Vec<_> = (0..4).map(|_| take(&device, MIB)).collect();
    let pools = stats(&device).segment;
    assert_eq!((pools.small.current, pools.large.current), (3, 1));
}

#[gpu_leak_check]
#[test]
fn a_freed_block_serves_the_next_request_of_its_size() {
    let device = device();
    let first = take(&device, 5000);
    let address = first.address();
    let _wall = take(&device, 5000);
    drop(first);
    let again = take(&device, 5000);
    assert_eq!(again.address(), address);
    assert_eq!(stats(&device).num_device_alloc, 1);
}

#[gpu_leak_check]
#[test]
fn the_smallest_hole_that_fits_is_filled() {
    let device = device();
    let mut kept: Vec<_> = [64, 1, 16, 1, 32, 1]
        .map(|kib| Some(take(&device, kib * KIB)))
        .into();
    let holes = [0, 2, 4].map(|index| kept[index].take().expect("taken above").address());
    assert_eq!(take(&device, 20 * KIB).address(), holes[2]);
    assert_eq!(take(&device, 16 * KIB).address(), holes[1]);
    assert_eq!(take(&device, 40 * KIB).address(), holes[0]);
}

#[gpu_leak_check]
#[test]
fn freed_neighbours_become_one_block_again() {
    let device = device();
    let [a, b, c] = [1, 2, 3].map(|n| take(&device, n * 100 * KIB));
    drop(a);
    drop(c);
    drop(b);
    let segments = snapshot(&device).segments;
    let [segment] = &segments[..] else {
        panic!("{segments:?}");
    };
    let whole = BlockInfo {
        address: segment.address,
        size: 2 * MIB as u64,
        requested_size: 0,
        state: BlockState::Inactive,
    };
    assert_eq!(segment.blocks, [whole]);
    let stats = stats(&device);
    assert_eq!(stats.inactive_split.all.current, 0);
    assert_eq!(stats.inactive_split_bytes.all.current, 0);
}

#[gpu_leak_check]
#[test]
fn memory_that_cannot_be_returned_counts_as_inactive_split() {
    let device = device();
    let (goes, _stays) = (take(&device, 300 * KIB), take(&device, 512));
    let rest = (2 * MIB - 300 * KIB - 512) as u64;
    assert_eq!(stats(&device).inactive_split_bytes.all.current, rest);
    drop(goes);
    let stats_now = stats(&device);
    assert_eq!(stats_now.inactive_split.all.current, 2);
    assert_eq!(
        stats_now.inactive_split_bytes.all.current,
        rest + 300 * KIB as u64
    );
    empty_cache(&device).expect("nothing to give back");
    assert_eq!(reserved(&device), 2 * MIB as u64);
}

#[gpu_leak_check]
#[test]
fn without_room_the_cache_is_emptied_and_the_request_made_again() {
    let device = Device::embedded_with(EmbeddedConfig {
        capacity: 64 * MIB,
        context_bytes: 2 * MIB,
        ..EmbeddedConfig::default()
    })
    .expect("a small device");
    drop(take(&device, 40 * MIB));
    let _larger = take(&device, 50 * MIB);
    let stats = stats(&device);
    assert_eq!((stats.num_alloc_retries, stats.num_ooms), (1, 0));
    assert_eq!((stats.num_device_alloc, stats.num_device_free), (2, 1));
    assert_eq!(reserved(&device), 50 * MIB as u64);
}

#[gpu_leak_check]
#[test]
fn without_a_cache_the_device_holds_what_is_in_use_and_no_more() {
    let device = embedded(Policy::Direct);
    let kept = take(&device, 1000);
    drop(take(&device, 3 * MIB));
    assert_eq!((allocated(&device), reserved(&device)), (1000, 1000));
    drop(kept);
    assert_eq!(reserved(&device), 0);
    assert_eq!(stats(&device).num_device_free, 2);
}

#[gpu_leak_check]
#[test]
fn a_failed_return_is_reported_and_the_segment_stays_reserved() {
    let device = device();
    let embedded = device.as_embedded().expect("it is one");
    drop((take(&device, 10), take(&device, 3 * MIB)));
    embedded.fail_free(1);
    let error = empty_cache(&device).expect_err("it was asked to fail");
    assert_eq!(error.to_string(), "free: failed as requested");
    // The large segment is released first, so its release failed, and only the small one was
    // released.
    assert_eq!(reserved(&device), 20 * MIB as u64);
    empty_cache(&device).expect("the fault is over");
    assert_eq!(reserved(&device), 0);
}

#[gpu_leak_check]
#[test]
fn a_failed_free_without_a_cache_is_reported_by_the_next_synchronize() {
    let device = embedded(Policy::Direct);
    device.as_embedded().expect("it is one").fail_free(1);
    drop(take(&device, 1000));
    assert_eq!(reserved(&device), 1000);
    assert!(device.synchronize().is_err());
    assert_eq!(device.synchronize(), Ok(()));
    empty_cache(&device).expect("the fault is over");
    assert_eq!(reserved(&device), 0);
}

#[gpu_leak_check]
#[test]
fn the_summary_shows_each_pool() {
    let device = device();
    let _kept = (take(&device, 1000), take(&device, 3 * MIB));
    drop(take(&device, 5000));
    let expected = "\
embedded:0: memory summary, 0 out-of-memory errors, 0 retries after emptying the cache
|-------------------------|-----------------|-----------------|-----------------|-----------------|
|                         |         current |            peak | total allocated |     total freed |
|-------------------------|-----------------|-----------------|-----------------|-----------------|
| allocated memory        |        3.00 MiB |        3.01 MiB |        3.01 MiB |        5.00 KiB |
|   from the large pool   |        3.00 MiB |        3.00 MiB |        3.00 MiB |             0 B |
|   from the small pool   |        1.00 KiB |        6.00 KiB |        6.00 KiB |        5.00 KiB |
";
    let text = summary(&device).to_string();
    assert!(text.starts_with(expected), "{text}");
    assert!(
        text.contains("| segments                |               2 |               2 |"),
        "{text}"
    );
}
