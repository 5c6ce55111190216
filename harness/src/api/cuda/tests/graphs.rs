//! Tests the memory of graphs, from the capture or the node to the launch and the free.

use super::{anomalies, free, live, stream, summary, watched_context, with_driver};
use crate::device::captures;
use crate::ledger::{self, Kind, Place};

/// Returns the graph of a capture that allocates memory and frees none, and the address of that
/// memory.
fn captured(stream: u64) -> (u64, u64) {
    assert_eq!(cuda!(cuStreamBeginCapture_v2(stream => u64, 0 => u32)), 0);
    let pointer = made!(cuMemAllocAsync(400 => usize, stream => u64));
    let mut graph = 0_u64;
    let error = cuda!(cuStreamEndCapture(stream => u64, &raw mut graph => *mut u64));
    assert_eq!(error, 0);
    (graph, pointer)
}

fn launch(exec: u64, stream: u64) -> u32 {
    cuda!(cuGraphLaunch(exec => u64, stream => u64))
}

fn memory() -> Vec<(Kind, Place, u64)> {
    let is_graphs = |(kind, ..): &(Kind, Place, u64)| *kind == Kind::Graph;
    summary().into_iter().filter(is_graphs).collect()
}

#[test]
fn captured_memory_is_live_from_a_launch_to_a_free() {
    with_driver("", || {
        watched_context();
        let left = (Kind::Graph, Place::cuda(0), 400);
        let stream = stream();
        let (graph, pointer) = captured(stream);
        let exec = made!(cuGraphInstantiateWithFlags(graph => u64, 0 => u64));
        assert_eq!(
            memory(),
            [],
            "memory that was captured but never launched is not live"
        );
        assert_eq!(launch(exec, stream), 0);
        assert_eq!(memory(), [left]);
        assert_ne!(
            launch(exec, stream),
            0,
            "the driver refuses a second launch"
        );
        assert_eq!(memory(), [left]);
        assert_eq!(cuda!(cuMemFreeAsync(pointer => u64, stream => u64)), 0);
        assert_eq!(memory(), []);
        assert_eq!(launch(exec, stream), 0);
        assert_eq!(cuda!(cuGraphExecDestroy(exec => u64)), 0);
        assert_eq!(cuda!(cuGraphDestroy(graph => u64)), 0);
        assert_eq!(memory(), [left]);
        assert_eq!(free(pointer), 0);
        assert_eq!(live().len(), 1, "the stream");
        assert_eq!(anomalies(), []);
        assert_eq!(ledger::live().unknown_frees(), 0);
    });
}

#[test]
fn launches_that_free_what_was_left_leave_it_once() {
    with_driver("", || {
        watched_context();
        let stream = stream();
        let (graph, pointer) = captured(stream);
        let exec = made!(cuGraphInstantiateWithFlags(graph => u64, 1 => u64));
        for _ in 0..3 {
            assert_eq!(launch(exec, stream), 0);
            assert_eq!(memory().len(), 1);
        }
        assert_eq!(free(pointer), 0);
        assert_eq!(memory(), []);
        assert_eq!(anomalies(), []);
    });
}

/// Observed on an H200: the nodes of the new graph keep their own addresses, and memory that the
/// previous graph allocated stays live, even if launches free the memory that earlier launches
/// left.
#[test]
fn an_updated_executable_graph_allocates_and_frees_what_its_new_graph_does() {
    with_driver("", || {
        watched_context();
        let stream = stream();
        let update = |exec, graph| {
            let mut result = [0_u64; 3];
            let error = cuda!(cuGraphExecUpdate_v2(
                exec => u64, graph => u64, &raw mut result => *mut [u64; 3]));
            assert_eq!(error, 0);
        };
        let freeing = |pointer| {
            let graph = made!(cuGraphCreate(0 => u32));
            made!(cuGraphAddMemFreeNode(
                graph => u64, std::ptr::null() => *const u64, 0 => usize, pointer => u64));
            graph
        };
        let [(first, of_first), (second, of_second)] = [captured(stream), captured(stream)];
        let exec = made!(cuGraphInstantiateWithFlags(first => u64, 1 => u64));
        assert_eq!(launch(exec, stream), 0);
        update(exec, second);
        for _ in 0..2 {
            assert_eq!(launch(exec, stream), 0);
            assert_eq!(memory().len(), 2);
        }
        let frees = made!(cuGraphInstantiateWithFlags(freeing(of_first) => u64, 0 => u64));
        update(frees, freeing(of_second));
        assert_eq!(launch(frees, stream), 0);
        assert_eq!(memory().len(), 1);
        assert_eq!(free(of_first), 0);
        assert_eq!(memory(), []);
        assert_eq!(ledger::live().unknown_frees(), 0);
        assert_eq!(anomalies(), []);
    });
}

/// The stream of a capture, not the current context, determines where the memory is.
#[test]
fn memory_captured_on_a_stream_of_another_device_is_there() {
    with_driver("", || {
        watched_context();
        let other = made!(cuCtxCreate_v2(0 => u32, 1 => i32));
        let stream = stream();
        let mut popped = 0_u64;
        assert_eq!(cuda!(cuCtxPopCurrent_v2(&raw mut popped => *mut u64)), 0);
        assert_eq!(popped, other);
        let (graph, _) = captured(stream);
        let exec = made!(cuGraphInstantiateWithFlags(graph => u64, 0 => u64));
        assert_eq!(launch(exec, stream), 0);
        assert_eq!(memory(), [(Kind::Graph, Place::cuda(1), 400)]);
    });
}

#[test]
fn a_free_node_of_another_graph_frees_the_memory() {
    with_driver("", || {
        watched_context();
        let stream = stream();
        let (graph, pointer) = captured(stream);
        let exec = made!(cuGraphInstantiateWithFlags(graph => u64, 0 => u64));
        assert_eq!(launch(exec, stream), 0);
        let freeing = made!(cuGraphCreate(0 => u32));
        made!(cuGraphAddMemFreeNode(
            freeing => u64, std::ptr::null() => *const u64, 0 => usize, pointer => u64));
        let freeing = made!(cuGraphInstantiateWithFlags(freeing => u64, 0 => u64));
        assert_eq!(memory().len(), 1);
        assert_eq!(launch(freeing, stream), 0);
        assert_eq!(memory(), []);
        assert_eq!(anomalies(), []);
    });
}

/// The driver may give a later graph the handle of a graph whose capture was abandoned.
#[test]
fn the_nodes_of_an_abandoned_capture_belong_to_no_later_graph() {
    with_driver("", || {
        watched_context();
        let abandoned = stream();
        let began = cuda!(cuStreamBeginCapture_v2(abandoned => u64, 0 => u32));
        assert_eq!(began, 0);
        made!(cuMemAllocAsync(400 => usize, abandoned => u64));
        assert_eq!(cuda!(cuStreamDestroy_v2(abandoned => u64)), 0);
        assert!(!captures::active());

        let stream = stream();
        assert_eq!(cuda!(cuStreamBeginCapture_v2(stream => u64, 0 => u32)), 0);
        let pointer = made!(cuMemAllocAsync(64 => usize, stream => u64));
        assert_eq!(cuda!(cuMemFreeAsync(pointer => u64, stream => u64)), 0);
        let mut graph = 0_u64;
        let error = cuda!(cuStreamEndCapture(stream => u64, &raw mut graph => *mut u64));
        assert_eq!(error, 0);
        let exec = made!(cuGraphInstantiateWithFlags(graph => u64, 0 => u64));
        assert_eq!(launch(exec, stream), 0);
        assert_eq!(memory(), []);
    });
}

/// Moves `child` into `parent`.
fn move_into(parent: u64, child: u64) {
    #[repr(C)]
    struct ChildNode {
        node_type: u32,
        reserved: [u32; 3],
        graph: u64,
        ownership: u32,
        rest: [u64; 29],
    }
    let mut node = ChildNode {
        node_type: 4,
        reserved: [0; 3],
        graph: child,
        ownership: 1,
        rest: [0; 29],
    };
    made!(cuGraphAddNode_v2(
        parent => u64, std::ptr::null() => *const u64, std::ptr::null() => *const u64,
        0 => usize, &raw mut node => *mut ChildNode));
}

/// A parent that owns its child graph destroys it, so the program cannot destroy it.
#[test]
fn a_child_graph_moved_into_its_parent_is_not_a_leak() {
    with_driver("", || {
        watched_context();
        let stream = stream();
        let (child, pointer) = captured(stream);
        let parent = made!(cuGraphCreate(0 => u32));
        move_into(parent, child);
        let exec = made!(cuGraphInstantiateWithFlags(parent => u64, 0 => u64));
        assert_eq!(cuda!(cuGraphDestroy(parent => u64)), 0);
        let kinds: Vec<_> = live().iter().map(|record| record.made.kind).collect();
        assert_eq!(kinds, [Kind::Stream, Kind::ExecGraph]);
        assert_eq!(launch(exec, stream), 0);
        assert_eq!(memory().len(), 1, "the child's node allocates");
        assert_eq!(free(pointer), 0);
        assert_eq!(memory(), []);
        assert_eq!(anomalies(), []);
    });
}

#[test]
fn a_moved_child_graph_frees_the_memory_of_its_parent() {
    with_driver("", || {
        watched_context();
        let stream = stream();
        let (parent, pointer) = captured(stream);
        let child = made!(cuGraphCreate(0 => u32));
        made!(cuGraphAddMemFreeNode(
            child => u64, std::ptr::null() => *const u64, 0 => usize, pointer => u64));
        move_into(parent, child);
        let exec = made!(cuGraphInstantiateWithFlags(parent => u64, 0 => u64));
        for _ in 0..2 {
            assert_eq!(launch(exec, stream), 0);
            assert_eq!(memory(), []);
        }
    });
}

#[test]
fn a_capture_ends_with_the_green_context_of_its_stream() {
    with_driver("", || {
        watched_context();
        let mut resource = [0_u64; 20];
        let at = (&raw mut resource).expose_provenance() as u64;
        assert_eq!(
            cuda!(cuDeviceGetDevResource(0 => i32, at => u64, 1 => u32)),
            0
        );
        let description = made!(cuDevResourceGenerateDesc(at => u64, 1 => u32));
        let green = made!(cuGreenCtxCreate(description => u64, 0 => i32, 1 => u32));
        let stream = made!(cuGreenCtxStreamCreate(green => u64, 1 => u32, 0 => i32));
        assert_eq!(cuda!(cuStreamBeginCapture_v2(stream => u64, 0 => u32)), 0);
        assert!(captures::active());
        assert_eq!(cuda!(cuGreenCtxDestroy(green => u64)), 0);
        assert!(!captures::active());
    });
}

#[test]
fn a_capture_ends_with_its_context() {
    with_driver("", || {
        watched_context();
        let context = made!(cuCtxCreate_v2(0 => u32, 0 => i32));
        let stream = stream();
        assert_eq!(cuda!(cuStreamBeginCapture_v2(stream => u64, 0 => u32)), 0);
        assert!(captures::active());
        assert_eq!(cuda!(cuCtxDestroy_v2(context => u64)), 0);
        assert!(!captures::active());
    });
}
