//! Memory that several streams use.

use std::thread;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_kernels::embedded::EmbeddedStream;
use gpu_leak_kernels::memory::{
    Buffer, Policy, Stream, allocated, empty_cache, reserved, snapshot, stats,
};
use gpu_leak_kernels::{Device, Error};

fn device() -> (Device, EmbeddedStream, Stream) {
    let device = super::embedded(Policy::Caching);
    let side = device.as_embedded().expect("it is one").new_stream();
    (device, side.clone(), Stream::Embedded(side))
}

fn take(device: &Device, bytes: usize) -> Buffer {
    Buffer::new(device, bytes).expect("there is room")
}

fn take_on(device: &Device, bytes: usize, stream: &Stream) -> Buffer {
    Buffer::new_on(device, bytes, stream).expect("there is room")
}

#[gpu_leak_check]
#[test]
fn memory_freed_on_one_stream_is_not_handed_to_another() {
    let (device, _, side) = device();
    let own = Stream::Embedded(device.as_embedded().expect("it is one").new_stream());
    // The two iterations differ in which stream is the first in the order of streams.
    for (freed_on, asked_on) in [(&own, &side), (&side, &own)] {
        let first = take_on(&device, 1000, freed_on);
        let address = first.address();
        drop(first);
        assert_ne!(take_on(&device, 1000, asked_on).address(), address);
        assert_eq!(take_on(&device, 1000, freed_on).address(), address);
        empty_cache(&device).expect("all of it goes back");
    }
}

#[gpu_leak_check]
#[test]
fn a_block_that_another_stream_still_uses_is_not_handed_out_again() {
    let (device, work, side) = device();
    work.hold_up();
    let shared = take(&device, 1000);
    let address = shared.address();
    shared.record_stream(&side).expect("a stream of the device");
    drop(shared);

    let stats_while = stats(&device);
    assert_eq!(stats_while.allocated_bytes.all.current, 0);
    assert_eq!(stats_while.active_bytes.all.current, 1024);
    let other = take(&device, 1000);
    assert_ne!(other.address(), address);

    work.resume();
    assert_eq!(take(&device, 1000).address(), address);
    assert_eq!(stats(&device).active_bytes.all.current, 1024);
}

#[gpu_leak_check]
#[test]
fn a_block_waits_for_all_its_streams() {
    let (device, first, first_stream) = device();
    let second = device.as_embedded().expect("it is one").new_stream();
    let shared = take(&device, 1000);
    let address = shared.address();
    for (work, stream) in [
        (&first, first_stream),
        (&second, Stream::Embedded(second.clone())),
    ] {
        work.hold_up();
        shared
            .record_stream(&stream)
            .expect("a stream of the device");
        shared.record_stream(&stream).expect("twice is once");
    }
    drop(shared);
    second.resume();
    assert_ne!(take(&device, 1000).address(), address);
    first.resume();
    assert_eq!(take(&device, 1000).address(), address);
}

#[gpu_leak_check]
#[test]
fn a_stream_without_work_delays_nothing() {
    let (device, _, side) = device();
    let shared = take(&device, 1000);
    let address = shared.address();
    shared.record_stream(&side).expect("a stream of the device");
    drop(shared);
    assert_eq!(take(&device, 1000).address(), address);
}

#[gpu_leak_check]
#[test]
fn a_block_does_not_wait_for_its_own_stream() {
    let (device, work, side) = device();
    work.hold_up();
    let buffer = take_on(&device, 1000, &side);
    let address = buffer.address();
    buffer.record_stream(&side).expect("a stream of the device");
    drop(buffer);
    assert_eq!(take_on(&device, 1000, &side).address(), address);
}

#[gpu_leak_check]
#[test]
fn empty_cache_waits_for_the_other_stream() {
    let (device, work, side) = device();
    work.hold_up();
    let shared = take(&device, 1000);
    shared.record_stream(&side).expect("a stream of the device");
    drop(shared);
    thread::scope(|scope| {
        let emptied = scope.spawn(|| empty_cache(&device));
        work.resume();
        emptied.join().expect("no panic").expect("it all goes back");
    });
    assert_eq!((allocated(&device), reserved(&device)), (0, 0));
}

#[gpu_leak_check]
#[test]
fn a_block_in_use_elsewhere_does_not_join_its_neighbours() {
    let (device, work, side) = device();
    let (left, shared, right) = (
        take(&device, 1000),
        take(&device, 1000),
        take(&device, 1000),
    );
    work.hold_up();
    shared.record_stream(&side).expect("a stream of the device");
    drop((left, shared, right));
    assert_eq!(snapshot(&device).segments[0].blocks.len(), 3);
    work.resume();
    drop(take(&device, 512));
    assert_eq!(snapshot(&device).segments[0].blocks.len(), 1);
}

#[gpu_leak_check]
#[test]
fn another_devices_stream_is_refused() {
    let (device, _, _) = device();
    let (_other, _, foreign) = self::device();
    let error = Buffer::new_on(&device, 10, &foreign).expect_err("not its stream");
    assert!(matches!(error, Error::Argument { .. }), "{error}");
    assert!(take(&device, 10).record_stream(&foreign).is_err());
}

#[gpu_leak_check]
#[test]
fn on_cuda_a_shared_block_comes_back_when_the_other_stream_is_done() {
    let Some(device) = super::cuda(Policy::Caching) else {
        return;
    };
    let context = device.as_cuda().expect("it is one").context();
    let side = Stream::Cuda(context.new_stream().expect("one more stream"));
    let shared = take(&device, 1000);
    let address = shared.address();
    shared.record_stream(&side).expect("a stream of the device");
    drop(shared);
    device.synchronize().expect("no work failed");
    assert_eq!(take(&device, 1000).address(), address);
    assert_ne!(take_on(&device, 1000, &side).address(), address);
    empty_cache(&device).expect("all of it goes back");
    assert_eq!(reserved(&device), 0);
}
