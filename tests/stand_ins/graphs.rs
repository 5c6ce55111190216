//! Graphs with memory nodes: how the nodes are added and captured, and what a launch leaves live.

#![expect(unsafe_code, reason = "calls the driver's C interface")]

use std::mem::zeroed;
use std::ptr;

use cudarc::driver::sys::{self, CUresult};
use gpu_leak_tests::fake::Fake;

use super::calls::{MIB, answer, context, ok, refusal};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
/// `CU_GRAPH_NODE_TYPE_…`.
const CHILD: u32 = 4;
const ALLOCATE: u32 = 10;
const FREE: u32 = 11;
const AUTO_FREE: u64 = 1;

pub(super) fn graph() -> sys::CUgraph {
    // SAFETY: the out pointer is valid.
    answer(|out| unsafe { sys::cuGraphCreate(out, 0) })
}

/// `CUgraphNodeParams` as 64-bit words: first the kind and, starting at the third word, the part
/// that depends on the kind.
fn node_params(kind: u32) -> [u64; 32] {
    let mut words = [0; 32];
    words[0] = u64::from(kind);
    words
}

/// The parameters of an allocation on the first device.
fn allocation(size: u64) -> [u64; 32] {
    let mut words = node_params(ALLOCATE);
    // These fields mean pinned memory without handles, on a device given by its ordinal.
    (words[2], words[3], words[15]) = (1, 1, size);
    words
}

/// The address that an allocation node returned.
fn address_in(params: &[u64; 32]) -> u64 {
    params[16]
}

fn add(graph: sys::CUgraph, params: &mut [u64; 32]) -> CUresult {
    let mut node = ptr::null_mut();
    let (out, params) = (&raw mut node, ptr::from_mut(params));
    // SAFETY: the parameters are as long as `CUgraphNodeParams`, 256 bytes.
    unsafe { sys::cuGraphAddNode_v2(out, graph, ptr::null(), ptr::null(), 0, params.cast()) }
}

fn add_allocation(graph: sys::CUgraph, size: u64) -> u64 {
    let mut params = allocation(size);
    ok(add(graph, &mut params));
    address_in(&params)
}

fn add_free(graph: sys::CUgraph, address: u64) -> CUresult {
    let mut params = node_params(FREE);
    params[2] = address;
    add(graph, &mut params)
}

pub(super) fn instantiate(graph: sys::CUgraph, flags: u64) -> sys::CUgraphExec {
    // SAFETY: the out pointer is valid, and the graph is live.
    answer(|out| unsafe { sys::cuGraphInstantiateWithFlags(out, graph, flags) })
}

pub(super) fn launch(exec: sys::CUgraphExec) -> CUresult {
    // SAFETY: the executable graph is live.
    unsafe { sys::cuGraphLaunch(exec, ptr::null_mut()) }
}

fn destroy(graph: sys::CUgraph) {
    // SAFETY: the driver checks the handle.
    ok(unsafe { sys::cuGraphDestroy(graph) });
}

fn destroy_exec(exec: sys::CUgraphExec) {
    // SAFETY: the driver checks the handle.
    ok(unsafe { sys::cuGraphExecDestroy(exec) });
}

/// Returns the used and reserved bytes of the first device's graph memory.
fn graph_memory() -> [u64; 2] {
    use sys::CUgraphMem_attribute::{
        CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT,
    };
    [
        CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT,
        CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
    ]
    .map(|attribute| {
        // SAFETY: these attributes are 64 bits wide.
        answer(|out: *mut u64| unsafe {
            sys::cuDeviceGetGraphMemAttribute(0, attribute, out.cast())
        })
    })
}

#[test]
fn every_way_to_add_an_allocation_makes_a_node_and_no_memory() {
    Fake::new().here(|control| {
        context();
        let graph = graph();
        let mut node = ptr::null_mut();
        let out = &raw mut node;
        // SAFETY: the parameters are as long as the driver reads; the functions have the
        // signatures of their versions.
        unsafe {
            let mut old: sys::CUDA_MEM_ALLOC_NODE_PARAMS = zeroed();
            old.poolProps.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
            old.bytesize = 100;
            ok(sys::cuGraphAddMemAllocNode(
                out,
                graph,
                ptr::null(),
                0,
                &raw mut old,
            ));
            assert_ne!(old.dptr, 0);
            let find = |version| -> *mut std::ffi::c_void {
                let name = c"cuGraphAddNode".as_ptr();
                answer(|out| sys::cuGetProcAddress_v2(name, out, version, 0, ptr::null_mut()))
            };
            type Node = sys::CUgraphNode;
            type First = unsafe extern "C" fn(
                *mut Node,
                sys::CUgraph,
                *const Node,
                usize,
                *mut [u64; 32],
            ) -> CUresult;
            type Later = unsafe extern "C" fn(
                *mut Node,
                sys::CUgraph,
                *const Node,
                *const u64,
                usize,
                *mut [u64; 32],
            ) -> CUresult;
            let mut params = [allocation(100); 3];
            let first: First = std::mem::transmute(find(12_020));
            ok(first(out, graph, ptr::null(), 0, &raw mut params[0]));
            for (version, params) in [12_030, 13_040].into_iter().zip(&mut params[1..]) {
                let later: Later = std::mem::transmute(find(version));
                ok(later(out, graph, ptr::null(), ptr::null(), 0, params));
            }
            assert!(params.iter().all(|params| address_in(params) != 0));
        }
        assert_eq!(
            control.live("graph-memory").0,
            0,
            "a node has no memory yet"
        );
        destroy(graph);
    });
}

#[test]
fn an_allocation_not_freed_in_its_graph_is_live_until_somebody_frees_it() {
    Fake::new().here(|control| {
        context();
        let graph = graph();
        let address = add_allocation(graph, 100);
        let exec = instantiate(graph, 0);
        let live = || control.live("graph-memory");
        for round in 0..3 {
            assert_eq!((live(), graph_memory()[0]), ((0, 0), 0), "round {round}");
            ok(launch(exec));
            assert_eq!((live(), graph_memory()[0]), ((1, 100), 32 * MIB));
            assert_eq!(launch(exec), INVALID, "the address is taken");
            // SAFETY: the driver checks the address.
            ok(unsafe {
                match round {
                    0 => sys::cuMemFree_v2(address),
                    _ => sys::cuMemFreeAsync(address, ptr::null_mut()),
                }
            });
        }
        ok(launch(exec));
        destroy_exec(exec);
        destroy(graph);
        assert_eq!(live(), (1, 100), "neither destroy frees it");
        // SAFETY: the driver checks the address, here and below.
        unsafe {
            ok(sys::cuMemFree_v2(address));
            assert_eq!(sys::cuMemFree_v2(address), INVALID);
            assert_eq!(graph_memory(), [0, 32 * MIB]);
            ok(sys::cuDeviceGraphMemTrim(0));
        }
        assert_eq!(graph_memory(), [0, 0]);
    });
}

#[test]
fn another_graph_can_free_it() {
    Fake::new().here(|control| {
        context();
        let (first, second) = (graph(), graph());
        let address = add_allocation(first, 100);
        ok(add_free(second, address));
        assert_eq!(add_free(second, address), INVALID, "once in a graph");
        assert_eq!(add_free(second, 0x1000), INVALID, "no graph memory");
        let execs = [first, second].map(|graph| instantiate(graph, 0));
        assert_eq!(launch(execs[1]), INVALID, "nothing to free yet");
        ok(launch(execs[0]));
        assert_eq!(control.live("graph-memory"), (1, 100));
        ok(launch(execs[1]));
        assert_eq!(control.live("graph-memory"), (0, 0));
        execs.into_iter().for_each(destroy_exec);
        [first, second].into_iter().for_each(destroy);
    });
}

#[test]
fn with_auto_free_the_next_launch_frees_what_the_last_left() {
    Fake::new().here(|control| {
        context();
        let graph = graph();
        add_allocation(graph, 100);
        let exec = instantiate(graph, AUTO_FREE);
        for _ in 0..3 {
            ok(launch(exec));
            assert_eq!(control.live("graph-memory"), (1, 100));
        }
        destroy_exec(exec);
        assert_eq!(
            control.live("graph-memory"),
            (1, 100),
            "but no destroy does"
        );
    });
}

#[test]
fn a_graph_that_frees_its_own_memory_leaves_none() {
    Fake::new().here(|control| {
        context();
        let graph = graph();
        let address = add_allocation(graph, 100);
        ok(add_free(graph, address));
        let exec = instantiate(graph, 0);
        ok(launch(exec));
        ok(launch(exec));
        assert_eq!(control.live("graph-memory"), (0, 0));
        assert_eq!(graph_memory(), [0, 32 * MIB]);
        // SAFETY: the out pointers are valid and the handles are live.
        unsafe {
            assert_eq!(
                refusal(|out| sys::cuGraphInstantiateWithFlags(out, graph, 0)),
                CUresult::CUDA_ERROR_NOT_SUPPORTED,
                "one executable graph at a time"
            );
            assert_eq!(
                refusal(|out| sys::cuGraphClone(out, graph)),
                CUresult::CUDA_ERROR_NOT_SUPPORTED
            );
        }
    });
}

#[test]
fn every_variant_instantiates() {
    Fake::new().here(|control| {
        context();
        let graph = graph();
        // SAFETY: the out pointers are valid and the handles are live; zero is a valid value of
        // every field, here and below.
        unsafe {
            let find = || -> *mut std::ffi::c_void {
                let name = c"cuGraphInstantiate".as_ptr();
                answer(|out| sys::cuGetProcAddress_v2(name, out, 11_000, 0, ptr::null_mut()))
            };
            type Old = unsafe extern "C" fn(
                *mut sys::CUgraphExec,
                sys::CUgraph,
                *mut sys::CUgraphNode,
                *mut u8,
                usize,
            ) -> CUresult;
            let old: Old = std::mem::transmute(find());
            let first = answer(|out| old(out, graph, ptr::null_mut(), ptr::null_mut(), 0));
            let second = instantiate(graph, AUTO_FREE);
            let mut params: sys::CUDA_GRAPH_INSTANTIATE_PARAMS = zeroed();
            params.flags = AUTO_FREE;
            let third =
                answer(|out| sys::cuGraphInstantiateWithParams(out, graph, &raw mut params));
            let flags = [first, second, third]
                .map(|exec| answer(|out| sys::cuGraphExecGetFlags(exec, out)));
            assert_eq!(flags, [0, AUTO_FREE, AUTO_FREE]);
            assert_eq!(control.live("exec").0, 3);
            [first, second, third].into_iter().for_each(destroy_exec);
        }
        assert_eq!(control.live("exec").0, 0);
    });
}

#[test]
fn a_moved_child_graph_goes_with_its_parent() {
    Fake::new().here(|control| {
        context();
        let (parent, child) = (graph(), graph());
        let address = add_allocation(child, 100);
        let mut params = node_params(CHILD);
        params[2] = child as u64;
        assert_eq!(
            add(parent, &mut params),
            CUresult::CUDA_ERROR_NOT_SUPPORTED,
            "memory nodes cannot be copied"
        );
        // The value 1 means that the graph is moved and not copied.
        params[3] = 1;
        ok(add(parent, &mut params));
        assert_eq!(control.live("graph").0, 1);
        // SAFETY: the driver checks the handle.
        assert_eq!(unsafe { sys::cuGraphDestroy(child) }, INVALID);
        let exec = instantiate(parent, 0);
        ok(launch(exec));
        assert_eq!(control.live("graph-memory"), (1, 100));
        // SAFETY: the driver checks the address.
        ok(unsafe { sys::cuMemFree_v2(address) });
        destroy_exec(exec);
        destroy(parent);
        assert_eq!(control.live("graph").0, 0);
        // SAFETY: the device exists.
        ok(unsafe { sys::cuDeviceGraphMemTrim(0) });
        assert_eq!(graph_memory(), [0, 0]);
    });
}
