//! The allocations of a graph hold memory all at once, even if they follow one another.
//! <https://github.com/NVIDIA/warp/issues/1157>

#![expect(unsafe_code, reason = "calls the driver's C interface")]

use std::ptr;

use cudarc::driver::result::stream;
use cudarc::driver::sys::{self, CUresult};
use gpu_leak_check::gpu_leak_check;
use gpu_leak_tests::checked;

use super::line_of;

const MIB: u64 = 1 << 20;

/// Each allocation is freed before the next one is added, but no allocation depends on a free.
#[test]
fn a_graph_holds_successive_allocations_all_at_once() {
    let checked = checked::run("peaks::graphs::adds_independent_allocations");
    checked.assert_clean();
    let [graph] = &checked.report().graphs[..] else {
        panic!("{}", checked.output());
    };
    assert_eq!((graph.bytes, graph.in_order), (96 * MIB, 32 * MIB));
    let lines: Vec<_> = graph
        .lines
        .iter()
        .map(|it| (it.count, it.bytes, &*it.at))
        .collect();
    let at = format!(
        "tests/peaks/graphs.rs:{}",
        line_of(include_str!("graphs.rs"), "graph: node")
    );
    assert_eq!(lines, [(3, 96 * MIB, &*at)]);
    let text = "holds 96.0 MiB at once";
    assert!(graph.sentence().contains(text), "{}", graph.sentence());
    let text = "would need at most 32.0 MiB; the driver reuses memory only";
    assert!(graph.sentence().contains(text), "{}", graph.sentence());
}

/// The report says nothing about memory that a graph needs all at once anyway.
#[test]
fn a_graph_that_needs_all_of_its_memory_at_once_is_not_reported() {
    let checked = checked::run("peaks::graphs::adds_overlapping_allocations");
    checked.assert_clean();
    assert_eq!(checked.report().graphs, [], "{}", checked.output());
}

fn ok(result: CUresult) {
    assert_eq!(result, CUresult::CUDA_SUCCESS);
}

fn made<T>(call: impl FnOnce(*mut T) -> CUresult) -> T {
    let mut out = std::mem::MaybeUninit::uninit();
    ok(call(out.as_mut_ptr()));
    // SAFETY: the call succeeded, so it has written its result to `out`.
    unsafe { out.assume_init() }
}

fn context() -> sys::CUcontext {
    // SAFETY: the outputs are valid, and the device exists.
    unsafe {
        ok(sys::cuInit(0));
        let context = made(|out| sys::cuDevicePrimaryCtxRetain(out, 0));
        ok(sys::cuCtxSetCurrent(context));
        context
    }
}

fn allocation(graph: sys::CUgraph) -> (sys::CUgraphNode, sys::CUdeviceptr) {
    // SAFETY: zero is a valid value of every field.
    let mut node: sys::CUDA_MEM_ALLOC_NODE_PARAMS = unsafe { std::mem::zeroed() };
    node.poolProps.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    node.poolProps.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    node.bytesize = (32 * MIB) as usize;
    let none = ptr::null();
    // SAFETY: the call reads the parameters, and writes the address to them.
    let added = unsafe { made(|out| sys::cuGraphAddMemAllocNode(out, graph, none, 0, &mut node)) }; // graph: node
    (added, node.dptr)
}

fn free(graph: sys::CUgraph, (node, address): (sys::CUgraphNode, sys::CUdeviceptr)) {
    // SAFETY: the node belongs to this graph and allocates this address.
    let _: sys::CUgraphNode =
        unsafe { made(|out| sys::cuGraphAddMemFreeNode(out, graph, &raw const node, 1, address)) };
}

/// Instantiates the graph, launches it once and destroys it.
fn launch(graph: sys::CUgraph, context: sys::CUcontext) {
    // SAFETY: the graph and the context are live, and nothing uses them afterwards.
    unsafe {
        let exec = made(|out| sys::cuGraphInstantiateWithFlags(out, graph, 0));
        ok(sys::cuGraphLaunch(exec, stream::null()));
        ok(sys::cuCtxSynchronize());
        ok(sys::cuGraphExecDestroy(exec));
        ok(sys::cuGraphDestroy(graph));
        assert!(!context.is_null());
        ok(sys::cuDevicePrimaryCtxRelease_v2(0));
    }
}

#[gpu_leak_check(peaks)]
#[ignore = "run by a test above"]
#[test]
fn adds_independent_allocations() {
    let context = context();
    // SAFETY: the output is valid.
    let graph = unsafe { made(|out| sys::cuGraphCreate(out, 0)) };
    for _ in 0..3 {
        let allocated = allocation(graph);
        free(graph, allocated);
    }
    launch(graph, context);
}

#[gpu_leak_check(peaks)]
#[ignore = "run by a test above"]
#[test]
fn adds_overlapping_allocations() {
    let context = context();
    // SAFETY: the output is valid.
    let graph = unsafe { made(|out| sys::cuGraphCreate(out, 0)) };
    let all = [allocation(graph), allocation(graph)];
    for allocated in all {
        free(graph, allocated);
    }
    launch(graph, context);
}
