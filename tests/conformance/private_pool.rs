//! The private pools of graphs: what they reserve, which allocations they serve, and when they end.

use gpu_leak_kernels::memory::{
    self, BlockState, Buffer, PoolId, SegmentInfo, allocated, empty_cache, reserved, snapshot,
    stats,
};
use gpu_leak_kernels::{Device, Graph, Result, Tensor};

const MIB: usize = 1 << 20;
const SEGMENT: u64 = 2 << 20;

fn take(device: &Device, bytes: usize) -> Buffer {
    Buffer::new(device, bytes).expect("there is room")
}

fn capture<T>(device: &Device, work: impl FnOnce() -> Result<T>) -> (Graph, T) {
    Graph::capture(device, work).expect("it can be captured")
}

fn pool_of(device: &Device, address: u64) -> Option<PoolId> {
    let holds = |segment: &SegmentInfo| {
        (segment.address..segment.address + segment.total_size).contains(&address)
    };
    let segments = snapshot(device).segments;
    segments
        .iter()
        .find(|segment| holds(segment))
        .expect("its segment")
        .private_pool
}

/// The shared pool has room for all requests in the capture, but does not serve them.
pub(super) fn a_capture_takes_from_segments_of_its_own(device: &Device) {
    let shared = take(device, 1000);
    let (graph, (small, large)) = capture(device, || {
        Ok((Buffer::new(device, 1000)?, Buffer::new(device, 3 * MIB)?))
    });
    assert_eq!(reserved(device), 2 * SEGMENT + 20 * MIB as u64);
    assert_eq!(allocated(device), 2 * 1024 + 3 * MIB as u64);
    assert_eq!(pool_of(device, shared.address()), None);
    let own = pool_of(device, small.address());
    assert!(own.is_some());
    assert_eq!(pool_of(device, large.address()), own);
    // A second private pool shares nothing with the first.
    let (other_graph, other) = capture(device, || Buffer::new(device, 1000));
    assert_ne!(pool_of(device, other.address()), own);
    assert_eq!(reserved(device), 3 * SEGMENT + 20 * MIB as u64);
    drop((graph, other_graph));
}

pub(super) fn memory_that_a_capture_drops_serves_only_that_capture_again(device: &Device) {
    let (graph, (first, second)) = capture(device, || {
        let first = Buffer::new(device, 5000)?.address();
        Ok((first, Buffer::new(device, 5000)?))
    });
    assert_eq!(second.address(), first);
    // Replays write to the buffer, so the host has no access to it.
    assert_eq!(second.as_bytes(), None);
    drop(second);
    assert_eq!(allocated(device), 0);
    let outside = take(device, 5000);
    assert_ne!(outside.address(), first);
    assert_eq!(pool_of(device, outside.address()), None);
    drop(graph);
    // The host has no access to such memory even after the graph is gone.
    let later = take(device, 5000);
    assert_eq!(pool_of(device, later.address()), None);
}

pub(super) fn a_pool_stays_with_its_graph_and_goes_with_the_cache(device: &Device) {
    let (graph, ()) = capture(device, || {
        drop((Buffer::new(device, 10)?, Buffer::new(device, 30 * MIB)?));
        Ok(())
    });
    let held = SEGMENT + 30 * MIB as u64;
    let mut graph = graph.instantiate().expect("it can be replayed");
    for _ in 0..3 {
        empty_cache(device).expect("there is nothing to return");
        assert_eq!((allocated(device), reserved(device)), (0, held));
        graph.replay().expect("there is nothing to do");
    }
    drop(graph);
    assert_eq!(reserved(device), held);
    empty_cache(device).expect("both segments go back");
    assert_eq!(reserved(device), 0);
    assert_eq!(snapshot(device).segments, []);
}

pub(super) fn an_output_that_is_kept_pins_its_segment(device: &Device) {
    let (graph, kept) = capture(device, || {
        drop(Buffer::new(device, 30 * MIB)?);
        Buffer::new(device, 700)
    });
    drop(graph);
    let released = memory::release(device, ()).expect("the large segment goes back");
    let [pinned] = &released.pinned[..] else {
        panic!("{released:?}");
    };
    assert!(pinned.private_pool.is_some());
    assert_eq!((pinned.total_size, pinned.requested_size), (SEGMENT, 700));
    drop(kept);
    empty_cache(device).expect("it goes back");
    assert_eq!(reserved(device), 0);
}

pub(super) fn figures_of_a_private_pool_count_like_all_others(device: &Device) {
    let (graph, kept) = capture(device, || {
        let first = Buffer::new(device, 300_000)?;
        let kept = Buffer::new(device, 1000)?;
        drop(first);
        Ok(kept)
    });
    let [segment] = &snapshot(device).segments[..] else {
        panic!("one segment");
    };
    let states: Vec<_> = segment.blocks.iter().map(|block| block.state).collect();
    let inactive = BlockState::Inactive;
    assert_eq!(states, [inactive, BlockState::Allocated, inactive]);
    let now = stats(device);
    assert_eq!(now.allocated_bytes.small.current, 1024);
    assert_eq!(now.requested_bytes.all.current, 1000);
    assert_eq!(now.inactive_split.all.current, 2);
    assert_eq!(now.inactive_split_bytes.all.current, SEGMENT - 1024);
    assert_eq!(now.reserved_bytes.all.current, SEGMENT);
    assert_eq!(now.allocation.all.allocated, 2);
    drop((graph, kept));
    assert_eq!(stats(device).inactive_split.all.current, 0);
}

pub(super) fn a_capture_without_room_leaves_the_cache_as_it_is(device: &Device) {
    drop(take(device, 3 * MIB));
    let held = reserved(device);
    // Other processes may free memory at any time, so the request exceeds the whole device.
    let room = memory::device_memory(device).expect("its figures").total;
    let failed = Graph::capture(device, || Buffer::new(device, room + 1).map(drop));
    let error = failed.expect_err("more than there is");
    assert!(error.to_string().contains("memory::empty_cache"), "{error}");
    assert_eq!(reserved(device), held);
    assert_eq!(stats(device).num_ooms, 1);
    assert_eq!(stats(device).num_alloc_retries, 0);
}

/// Buffers from before a capture may be dropped in it. Their memory returns to the pool that it
/// came from.
pub(super) fn memory_dropped_inside_returns_to_its_own_pool(device: &Device) {
    let outside = take(device, 4000);
    let address = outside.address();
    let (graph, ()) = capture(device, || {
        drop(outside);
        assert_ne!(Buffer::new(device, 4000)?.address(), address);
        Ok(())
    });
    assert_eq!(take(device, 4000).address(), address);
    drop(graph);
}

/// Uses operations that need no kernel, so that the stand-in for the driver can replay them.
pub(super) fn a_replay_copies_its_inputs_to_its_outputs(device: &Device) {
    let input = Tensor::full([6], 1.0, device).expect("there is room");
    let (graph, output) = capture(device, || {
        let output = Tensor::full([6], 7.0, device)?;
        output.copy_(&input)?;
        Ok(output)
    });
    let mut graph = graph.instantiate().expect("it can be replayed");
    for round in 0..100 {
        let value = round as f32;
        let next = Tensor::full([6], value, device).expect("there is room");
        input.copy_(&next).expect("the same shape");
        graph.replay().expect("it runs");
        assert_eq!(output.to_vec::<f32>(), Ok(vec![value; 6]));
    }
    drop((graph, input, output));
    empty_cache(device).expect("everything goes back");
    assert_eq!((allocated(device), reserved(device)), (0, 0));
}

/// Defines the tests for devices with a cache. Devices without one have no pools.
macro_rules! private_pools {
    ($($test:ident),* $(,)?) => {
        mod embedded {
            $(#[test] fn $test() {
                super::$test(&crate::conformance::embedded(crate::conformance::Policy::Caching));
            })*
        }
        mod cuda {
            $(#[test] #[ignore = "synchronisation elsewhere would end a capture: see `alone`"] fn $test() {
                if let Some(device) = crate::conformance::cuda(crate::conformance::Policy::Caching) {
                    super::$test(&device);
                }
            })*
        }
        /// Runs the CUDA tests in separate processes, on the stand-in if there is no GPU. A thread
        /// that synchronises a whole context ends the captures of all other threads.
        mod alone {
            $(#[test] fn $test() {
                crate::conformance::alone(concat!("private_pool::cuda::", stringify!($test)));
            })*
        }
    };
}

private_pools!(
    a_capture_takes_from_segments_of_its_own,
    memory_that_a_capture_drops_serves_only_that_capture_again,
    a_pool_stays_with_its_graph_and_goes_with_the_cache,
    an_output_that_is_kept_pins_its_segment,
    figures_of_a_private_pool_count_like_all_others,
    a_capture_without_room_leaves_the_cache_as_it_is,
    memory_dropped_inside_returns_to_its_own_pool,
    a_replay_copies_its_inputs_to_its_outputs,
);
