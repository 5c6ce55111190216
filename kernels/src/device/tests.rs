//! Tests that a device is destroyed together with the last of its handles and blocks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use super::{Device, OwnedBackend};
use crate::allocator::{DeviceMemory, Policy, SegmentError, SegmentSource};
use crate::device_id::DeviceId;
use crate::embedded::{Embedded, EmbeddedConfig};
use crate::error::Result;
use crate::graph::Graph;
use crate::memory::{Buffer, allocated, empty_cache, release};
use crate::stream::{Event, Stream};

/// The calls that a device's source of segments has received.
#[derive(Debug, Default)]
struct Below {
    allocated: AtomicU64,
    freed: AtomicU64,
    destroyed: AtomicU64,
}

/// A source of segments that counts them. The segments have addresses but no memory.
#[derive(Debug)]
struct CountedSegments(Arc<Below>);

impl SegmentSource for CountedSegments {
    fn allocate(&self, bytes: usize) -> Result<u64, SegmentError> {
        if bytes > 1 << 30 {
            return Err(SegmentError::OutOfMemory);
        }
        Ok((self.0.allocated.fetch_add(1, Ordering::SeqCst) + 1) << 30)
    }

    fn free(&self, _address: u64, _bytes: usize) -> Result<()> {
        self.0.freed.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn record(&self, stream: &Stream) -> Result<Box<dyn Event>> {
        match stream {
            Stream::Embedded(stream) => Ok(Box::new(stream.record())),
            Stream::Cuda(_) => unreachable!("the device is an embedded one"),
        }
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn memory(&self) -> Result<DeviceMemory> {
        Ok(DeviceMemory { free: 0, total: 0 })
    }
}

impl Drop for CountedSegments {
    fn drop(&mut self) {
        self.0.destroyed.fetch_add(1, Ordering::SeqCst);
    }
}

impl Below {
    fn lives(&self) -> bool {
        self.destroyed.load(Ordering::SeqCst) == 0
    }

    /// Fails unless the device was destroyed exactly once and has freed every segment.
    #[track_caller]
    fn assert_destroyed(&self) {
        assert_eq!(self.destroyed.load(Ordering::SeqCst), 1);
        let allocated = self.allocated.load(Ordering::SeqCst);
        assert_eq!(self.freed.load(Ordering::SeqCst), allocated);
    }
}

fn device(policy: Policy) -> (Device, Arc<Below>) {
    let id = DeviceId::unique();
    let config = EmbeddedConfig::default();
    let embedded = Embedded::new(&config, id).expect("its context fits");
    let below = Arc::new(Below::default());
    let source = CountedSegments(Arc::clone(&below));
    let backend = OwnedBackend::Embedded(embedded);
    let device = Device::new(id, backend, Box::new(source), policy);
    (device, below)
}

fn take(device: &Device, bytes: usize) -> Buffer {
    Buffer::new(device, bytes).expect("there is room")
}

#[test]
fn the_last_handle_destroys_a_device_that_has_handed_out_nothing() {
    let (first, below) = device(Policy::Caching);
    let second = first.clone();
    drop(take(&first, 1000));
    drop(first);
    assert!(below.lives());
    assert_eq!(allocated(&second), 0);
    drop(second);
    below.assert_destroyed();
}

#[test]
fn the_last_buffer_destroys_a_device_without_handles() {
    for policy in [Policy::Caching, Policy::Direct] {
        let (device, below) = device(policy);
        let (first, second) = (take(&device, 1000), take(&device, 30 << 20));
        drop(device);
        drop(first);
        assert!(below.lives());
        assert_eq!(second.device().to_string(), "embedded:0");
        drop(second);
        below.assert_destroyed();
    }
}

#[test]
fn a_handle_can_be_had_from_a_buffer_when_there_is_no_other() {
    let (first, below) = device(Policy::Caching);
    let buffer = take(&first, 1000);
    drop(first);
    let second = buffer.device().clone();
    drop(buffer);
    assert!(below.lives());
    let buffer = take(&second, 1000);
    drop(second);
    assert!(below.lives());
    drop(buffer);
    below.assert_destroyed();
}

#[test]
fn a_buffer_without_memory_of_its_own_keeps_its_device() {
    let (device, below) = device(Policy::Caching);
    let empty = take(&device, 0);
    drop(device);
    let owner = take(empty.device(), 1000);
    drop(empty);
    #[expect(unsafe_code, reason = "the contract of an alias cannot be checked")]
    // SAFETY: nothing reads or writes the bytes.
    let alias = unsafe { owner.alias() };
    drop(owner);
    assert!(below.lives());
    assert_eq!(allocated(alias.device()), 0);
    drop(alias);
    below.assert_destroyed();
}

#[test]
fn a_failed_request_keeps_nothing_alive() {
    let (device, below) = device(Policy::Caching);
    assert!(Buffer::new(&device, 2 << 30).is_err());
    drop(device);
    below.assert_destroyed();
}

/// When a device is destroyed, it waits for all its work, so the block need not be returned first.
#[test]
fn a_freed_block_that_another_stream_still_uses_keeps_nothing_alive() {
    let (device, below) = device(Policy::Caching);
    let stream = device.as_embedded().expect("it is one").new_stream();
    stream.hold_up();
    let buffer = take(&device, 1000);
    let used = buffer.record_stream(&Stream::Embedded(stream));
    used.expect("a stream of the device");
    drop(device);
    drop(buffer);
    below.assert_destroyed();
}

#[test]
fn an_output_of_a_graph_outlives_the_graph_and_the_device() {
    let (device, below) = device(Policy::Caching);
    let captured = Graph::capture(&device, || Buffer::new(&device, 1000));
    let (graph, output) = captured.expect("it can be captured");
    drop(device);
    drop(graph);
    assert!(below.lives());
    empty_cache(output.device()).expect("its segment stays");
    drop(output);
    below.assert_destroyed();
}

#[test]
fn a_release_frees_every_segment_and_leaves_the_device() {
    let (device, below) = device(Policy::Caching);
    let held = take(&device, 1000);
    let released = release(&device, held).expect("all of it goes back");
    assert_eq!(released.after.reserved, 0);
    assert_eq!(below.freed.load(Ordering::SeqCst), 1);
    assert!(below.lives());
    drop(device);
    below.assert_destroyed();
}

/// Each thread drops its values in its own order, at the same time as all other threads.
#[test]
fn of_threads_that_drop_the_last_holders_at_once_one_destroys_the_device() {
    const THREADS: usize = 4;
    for _ in 0..300 {
        let (device, below) = device(Policy::Caching);
        let start = Barrier::new(THREADS);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (own, buffer) = (device.clone(), take(&device, 1000));
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    match thread {
                        0 => drop((own, buffer)),
                        1 => drop((buffer, own)),
                        2 => {
                            drop(own);
                            let again = buffer.device().clone();
                            drop((buffer, again));
                        }
                        _ => {
                            drop(own);
                            let other = take(buffer.device(), 1000);
                            drop((buffer, other));
                        }
                    }
                });
            }
            drop(device);
        });
        below.assert_destroyed();
    }
}
