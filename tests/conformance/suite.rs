//! The guarantees that every allocator of the workloads must give.

use std::panic::Location;
use std::thread;

use gpu_leak_kernels::memory::{
    self, BlockState, Buffer, Held, SegmentInfo, allocated, device_memory, empty_cache,
    max_allocated, reserved, reset_accumulated, reset_peak, set_memory_limit, snapshot, stats,
};
use gpu_leak_kernels::{Device, Error};

use super::threads;

const MIB: usize = 1 << 20;

#[track_caller]
fn take(device: &Device, bytes: usize) -> Buffer {
    let at = Location::caller();
    Buffer::new(device, bytes).unwrap_or_else(|error| panic!("{at}: {error}"))
}

pub(super) fn a_new_device_holds_nothing(device: &Device) {
    assert_eq!(stats(device), memory::Stats::default());
    assert_eq!(snapshot(device).segments, []);
}

pub(super) fn live_buffers_do_not_overlap(device: &Device) {
    let sizes = [1, 511, 512, 513, 80_000, MIB, MIB + 1, 3 * MIB, 11 * MIB];
    let buffers: Vec<_> = sizes.iter().map(|bytes| take(device, *bytes)).collect();
    let mut ranges: Vec<_> = buffers
        .iter()
        .map(|buffer| (buffer.address(), buffer.address() + buffer.bytes() as u64))
        .collect();
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "{pair:x?}");
    }
    // A kernel that loads four floats at a time relies on this alignment.
    assert!(ranges.iter().all(|(start, _)| start.is_multiple_of(256)));
}

pub(super) fn a_buffer_of_no_bytes_takes_no_memory(device: &Device) {
    let mut empty = take(device, 0);
    assert_eq!((empty.address(), empty.bytes()), (0, 0));
    assert_eq!(reserved(device), 0);
    if device.as_embedded().is_some() {
        assert_eq!(empty.as_bytes(), Some(&[][..]));
        assert_eq!(empty.as_bytes_mut(), Some(&mut [][..]));
    }
}

pub(super) fn a_dropped_buffer_is_no_longer_allocated(device: &Device) {
    let stays = take(device, 1000);
    let before = allocated(device);
    let goes = take(device, 5 * MIB);
    assert!(allocated(device) >= before + 5 * MIB as u64);
    drop(goes);
    assert_eq!(allocated(device), before);
    drop(stays);
    assert_eq!(allocated(device), 0);
}

pub(super) fn empty_cache_returns_all_that_is_not_in_use(device: &Device) {
    drop((
        take(device, 10),
        take(device, 3 * MIB),
        take(device, 30 * MIB),
    ));
    empty_cache(device).expect("everything goes back");
    assert_eq!(reserved(device), 0);

    let (stays, goes) = (take(device, 10), take(device, 30 * MIB));
    let with_both = reserved(device);
    drop(goes);
    empty_cache(device).expect("the large one goes back");
    assert!(reserved(device) <= with_both - 30 * MIB as u64);
    assert!(reserved(device) >= 10);
    drop(stays);
}

pub(super) fn allocated_memory_never_exceeds_reserved_memory(device: &Device) {
    let mut kept = Vec::new();
    for step in 0..40_usize {
        kept.push(take(device, 1 + step * 70_001));
        if step % 3 == 2 {
            kept.swap_remove(step / 3);
        }
        let asked: usize = kept.iter().map(Buffer::bytes).sum();
        assert!(asked as u64 <= allocated(device));
        assert!(allocated(device) <= reserved(device));
    }
}

pub(super) fn a_request_beyond_the_device_reports_its_figures_and_harms_nothing(device: &Device) {
    let held = take(device, 2000);
    let total = device_memory(device).expect("its figures").total;
    let error = Buffer::new(device, total + 1).expect_err("more than there is");
    let Error::OutOfMemory(figures) = &error else {
        panic!("{error}");
    };
    assert_eq!(figures.requested, total + 1);
    assert_eq!(figures.allocated as u64, allocated(device));
    assert_eq!(figures.reserved as u64, reserved(device));
    assert_eq!(figures.capacity, total);
    assert!(figures.free < total);
    let message = error.to_string();
    assert!(message.starts_with(&format!("out of memory on {device}: ")));
    assert!(
        message.contains("drop what is no longer needed"),
        "{message}"
    );
    assert_eq!(stats(device).num_ooms, 1);

    drop(held);
    drop(take(device, 2000));
    assert_eq!(allocated(device), 0);
}

pub(super) fn no_size_overflows_the_arithmetic(device: &Device) {
    let limit = isize::MAX as usize;
    for bytes in [usize::MAX, usize::MAX - 511, limit + 1, limit, limit - 511] {
        let error = Buffer::new(device, bytes).expect_err("more than any device has");
        assert!(matches!(error, Error::OutOfMemory(_)), "{bytes}: {error}");
    }
    assert_eq!(reserved(device), 0);
}

pub(super) fn a_limit_refuses_what_would_pass_it(device: &Device) {
    set_memory_limit(device, Some(30 * MIB as u64));
    let first = take(device, 20 * MIB);
    let error = Buffer::new(device, 20 * MIB).expect_err("40 MiB are over the limit");
    assert!(
        error.to_string().contains("under a limit of 30.0 MiB"),
        "{error}"
    );
    // The device must release cached memory to make room.
    drop(first);
    drop(take(device, 22 * MIB));
    assert!(reserved(device) <= 30 * MIB as u64);
    set_memory_limit(device, None);
    drop(take(device, 40 * MIB));
}

pub(super) fn peaks_outlast_what_caused_them_until_reset(device: &Device) {
    drop(take(device, 3 * MIB));
    let kept = take(device, 1000);
    let peak = max_allocated(device);
    assert!(peak >= 3 * MIB as u64 && peak > allocated(device));
    reset_peak(device);
    assert_eq!(max_allocated(device), allocated(device));
    drop(kept);
    assert!(max_allocated(device) >= 1000);
}

pub(super) fn totals_add_up_to_what_there_is(device: &Device) {
    let kept: Vec<_> = (1..20).map(|n| take(device, n * 300_000)).collect();
    drop(kept.into_iter().step_by(2).collect::<Vec<_>>());
    let stats_now = stats(device);
    for (name, family) in stats_now.families() {
        for stat in [family.all, family.small, family.large] {
            assert_eq!(stat.allocated - stat.freed, stat.current, "{name}");
            assert!(stat.peak >= stat.current, "{name}");
        }
        assert_eq!(
            family.small.current + family.large.current,
            family.all.current,
            "{name}"
        );
    }
    assert_eq!(stats_now.allocation.all.allocated, 19);

    reset_accumulated(device);
    assert_eq!(stats(device).allocation.all.allocated, 0);
    assert_eq!(
        stats(device).allocation.all.current,
        stats_now.allocation.all.current
    );
}

pub(super) fn the_snapshot_agrees_with_the_statistics(device: &Device) {
    let kept: Vec<_> = (1..12).map(|n| take(device, n * 400_000)).collect();
    drop(take(device, 123_456));
    let (stats, segments) = (stats(device), snapshot(device).segments);
    let sum = |of: fn(&SegmentInfo) -> u64| segments.iter().map(of).sum::<u64>();
    assert_eq!(segments.len() as u64, stats.segment.all.current);
    assert_eq!(sum(|s| s.total_size), stats.reserved_bytes.all.current);
    assert_eq!(sum(|s| s.allocated_size), stats.allocated_bytes.all.current);
    assert_eq!(sum(|s| s.active_size), stats.active_bytes.all.current);
    assert_eq!(sum(|s| s.requested_size), stats.requested_bytes.all.current);
    for buffer in &kept {
        let mut blocks = segments.iter().flat_map(|segment| &segment.blocks);
        let block = blocks.find(|block| block.address == buffer.address());
        let block = block.expect("a block where the buffer is");
        assert_eq!(block.state, BlockState::Allocated);
        assert_eq!(block.requested_size, buffer.bytes() as u64);
    }
}

pub(super) fn buffers_keep_their_device_alive(device: &Device) {
    let buffer = take(&device.clone(), 4096);
    assert_eq!(buffer.device(), device);
    let clone = buffer.device().clone();
    drop(buffer);
    assert_eq!(allocated(&clone), 0);
}

pub(super) fn a_buffer_may_be_dropped_on_another_thread(device: &Device) {
    let buffer = take(device, 3 * MIB);
    thread::spawn(move || drop(buffer))
        .join()
        .expect("it drops");
    assert_eq!(allocated(device), 0);
    thread::scope(|scope| {
        scope.spawn(|| empty_cache(device).expect("from any thread"));
    });
    assert_eq!(reserved(device), 0);
}

pub(super) fn release_returns_everything_and_says_so(device: &Device) {
    let (model, batch) = (take(device, 80_000), take(device, 3 * MIB));
    let before = Held::now(device);
    let released = memory::release(device, (model, vec![batch])).expect("all of it goes back");
    assert_eq!(released.before, before);
    let nothing = Held {
        allocated: 0,
        reserved: 0,
    };
    assert_eq!(released.after, nothing);
    assert_eq!(Held::now(device), nothing);
    assert_eq!(released.pinned, []);
}

pub(super) fn release_names_what_pins_a_segment(device: &Device) {
    let (goes, stays) = (take(device, 100_000), take(device, 100));
    let released = memory::release(device, goes).expect("what is free goes back");
    let [segment] = &released.pinned[..] else {
        panic!("{released:?}");
    };
    assert_eq!(segment.requested_size, 100);
    assert_eq!(segment.total_size, released.after.reserved);
    let text = released.to_string();
    assert!(text.contains("stays: 1 block in use"), "{text}");
    assert!(
        text.contains(&format!("{:#x}  100 B requested", stays.address())),
        "{text}"
    );
}

pub(super) fn threads_share_the_allocator_without_harm(device: &Device) {
    threads::hammer(device, 4, 300);
    assert_eq!(allocated(device), 0);
    empty_cache(device).expect("everything goes back");
    assert_eq!(reserved(device), 0);
}
