//! Captures, graphs, and what graphs keep.

use std::ptr;

use super::{Allocate, FREE, anomalies, call, kinds, tell_resource};
use crate::capture::cupti::callback::{ResourceData, resource};
use crate::capture::cupti::ffi;
use crate::ledger::{Kind, Ledger, Place};

const END_CAPTURE: u32 = 497;
const BEGIN_CAPTURE: u32 = 539;
const ALLOCATE_ASYNC: u32 = 598;
const FREE_ASYNC: u32 = 600;
const CAPTURE_TO_GRAPH: u32 = 720;

#[repr(C)]
struct EndCapture(u64, *const u64);

#[test]
fn a_node_created_inside_the_call_means_a_capture_and_one_before_it_does_not() {
    let ledger = Ledger::new();
    let node = || tell_resource(&ledger, ffi::GRAPH_NODE_CREATED, 0);
    let pointer = 0x2000_u64;
    let params = Allocate(&raw const pointer, 64, 0);
    call(&ledger, ALLOCATE_ASYNC, &params, 0, node);
    assert_eq!(kinds(&ledger), []);
    call(&ledger, ALLOCATE_ASYNC, &params, 0, || ());
    assert_eq!(kinds(&ledger), [Kind::StreamOrdered]);
    call(&ledger, FREE_ASYNC, &[pointer, 0], 0, node);
    assert_eq!(kinds(&ledger), [Kind::StreamOrdered]);
    assert_eq!(anomalies(&ledger), []);
    call(&ledger, FREE_ASYNC, &[pointer, 0], 0, || ());
    assert_eq!(kinds(&ledger), []);
}

#[test]
fn a_capture_into_a_graph_that_is_there_makes_no_second_one() {
    let ledger = Ledger::new();
    // A stream of this test's own: the captures in progress are the process's.
    let (stream, graph) = (0xca97_0001_u64, 0x9ab_u64);
    let end = EndCapture(stream, &raw const graph);
    call(&ledger, CAPTURE_TO_GRAPH, &[stream, graph], 0, || ());
    call(&ledger, END_CAPTURE, &end, 0, || ());
    assert_eq!(kinds(&ledger), []);
    call(&ledger, BEGIN_CAPTURE, &[stream, 0], 0, || ());
    call(&ledger, END_CAPTURE, &end, 0, || ());
    assert_eq!(kinds(&ledger), [Kind::GraphHandle]);
}

#[test]
fn an_ended_capture_without_a_graph_makes_none() {
    let ledger = Ledger::new();
    let null = 0_u64;
    let end = EndCapture(0xca97_0002, &raw const null);
    call(&ledger, END_CAPTURE, &end, 901, || ());
    call(&ledger, END_CAPTURE, &end, 0, || ());
    assert_eq!(kinds(&ledger), []);
}

#[test]
fn a_user_object_is_kept_by_the_graphs_it_was_given_to() {
    let ledger = Ledger::new();
    let (object, graph, exec) = (0x41_u64, 0x42_u64, 0x43_u64);
    #[repr(C)]
    struct Create(*const u64, u64, u64, u32, u32);
    let create = Create(&raw const object, 0, 0, 3, 1);
    #[repr(C)]
    struct References(u64, u32);
    #[repr(C)]
    struct Given(u64, u64, u32, u32);
    call(&ledger, 501, &Allocate(&raw const graph, 0, 0), 0, || ());
    call(&ledger, 633, &create, 0, || ());
    call(&ledger, 634, &References(object, 1), 0, || ());
    call(&ledger, 636, &Given(graph, object, 2, 1), 0, || ());
    call(&ledger, 637, &Given(graph, object, 1, 0xcdcd), 0, || ());
    let instantiate = Allocate(&raw const exec, graph, 0);
    call(&ledger, 643, &instantiate, 0, || ());
    call(&ledger, 635, &References(object, 2), 0, || ());
    let handles = [Kind::GraphHandle, Kind::UserObject, Kind::ExecGraph];
    assert_eq!(kinds(&ledger), handles);
    call(&ledger, 517, &graph, 0, || ());
    assert_eq!(kinds(&ledger), handles[1..]);
    call(&ledger, 561, &[exec, 0x99], 1, || ());
    assert_eq!(kinds(&ledger), handles[1..], "an update that failed");
    call(&ledger, 516, &exec, 0, || ());
    assert_eq!(kinds(&ledger), []);
    assert_eq!(ledger.unknown_releases(), 0);
}

const INSTANTIATE_WITH_PARAMS: u32 = 656;

/// A node is created in `graph`, as CUPTI tells it.
fn node_in(ledger: &Ledger, graph: u64) {
    let described: [u64; 7] = [graph, 0, 0x77, 0, 0, 0, 0];
    let data = ResourceData {
        context: ptr::null(),
        resource_handle: ptr::null(),
        resource_descriptor: described.as_ptr().cast(),
    };
    // SAFETY: the data is that of the id.
    unsafe { resource(ledger, ffi::GRAPH_NODE_CREATED, &raw const data) };
}

fn instantiate(ledger: &Ledger, graph: u64, exec: u64, flags: u64) {
    let parameters = [flags, 0, 0, 0];
    #[repr(C)]
    struct Params(*const u64, u64, *const u64);
    let params = Params(&raw const exec, graph, parameters.as_ptr());
    call(ledger, INSTANTIATE_WITH_PARAMS, &params, 0, || ());
}

fn launch(ledger: &Ledger, exec: u64) {
    call(ledger, 514, &[exec, 0], 0, || ());
}

/// The addresses and sizes of what launches have left.
fn graph_memory(ledger: &Ledger) -> Vec<(u64, u64)> {
    let records = ledger.select(|record| record.made.kind == Kind::Graph);
    let memory = records.iter().map(|record| record.made);
    memory.map(|made| (made.key.value, made.bytes)).collect()
}

#[test]
fn captured_memory_is_the_graph_s_whichever_stream_takes_it() {
    let ledger = Ledger::new();
    let (graph, exec) = (0x51_u64, 0x52_u64);
    let (stream, forked) = (0xca97_0003_u64, 0xca97_0004_u64);
    call(&ledger, BEGIN_CAPTURE, &[stream, 0], 0, || ());
    let inside = || node_in(&ledger, graph);
    for (pointer, stream) in [(0x2000_u64, stream), (0x3000, forked), (0x4000, forked)] {
        let params = Allocate(&raw const pointer, 64, stream);
        call(&ledger, ALLOCATE_ASYNC, &params, 0, inside);
    }
    call(&ledger, FREE_ASYNC, &[0x3000, stream], 0, inside);
    let end = EndCapture(stream, &raw const graph);
    call(&ledger, END_CAPTURE, &end, 0, || ());
    assert_eq!(kinds(&ledger), [Kind::GraphHandle]);
    instantiate(&ledger, graph, exec, 0);
    launch(&ledger, exec);
    assert_eq!(graph_memory(&ledger), [(0x2000, 64), (0x4000, 64)]);
    call(&ledger, FREE_ASYNC, &[0x2000, stream], 0, || ());
    call(&ledger, FREE, &0x4000_u64, 0, || ());
    assert_eq!(graph_memory(&ledger), []);
    assert_eq!(anomalies(&ledger), []);
    assert_eq!(ledger.unknown_releases(), 0);
}

#[test]
fn a_captured_free_of_another_graph_s_memory_frees_it_with_the_launch() {
    let ledger = Ledger::new();
    let (first, second) = (0x61_u64, 0x62_u64);
    let pointer = 0x2000_u64;
    let params = Allocate(&raw const pointer, 64, 0);
    let during = || node_in(&ledger, first);
    call(&ledger, ALLOCATE_ASYNC, &params, 0, during);
    instantiate(&ledger, first, 0x63, 0);
    launch(&ledger, 0x63);
    let during = || node_in(&ledger, second);
    call(&ledger, FREE_ASYNC, &[pointer, 0], 0, during);
    assert_eq!(
        graph_memory(&ledger),
        [(pointer, 64)],
        "captured, not freed"
    );
    instantiate(&ledger, second, 0x64, 0);
    launch(&ledger, 0x64);
    assert_eq!(graph_memory(&ledger), []);
    assert_eq!(anomalies(&ledger), []);
}

#[test]
fn a_graph_that_cupti_does_not_name_is_that_of_its_stream_s_capture() {
    let ledger = Ledger::new();
    let (graph, exec, stream) = (0x71_u64, 0x72_u64, 0xca97_0005_u64);
    call(&ledger, BEGIN_CAPTURE, &[stream, 0], 0, || ());
    let pointer = 0x2000_u64;
    let params = Allocate(&raw const pointer, 64, stream);
    let unnamed = || tell_resource(&ledger, ffi::GRAPH_NODE_CREATED, 0);
    call(&ledger, ALLOCATE_ASYNC, &params, 0, unnamed);
    let end = EndCapture(stream, &raw const graph);
    call(&ledger, END_CAPTURE, &end, 0, || ());
    instantiate(&ledger, graph, exec, 0);
    launch(&ledger, exec);
    assert_eq!(graph_memory(&ledger), [(pointer, 64)]);
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS` of 512 bytes on the third device, and what `CUgraphNodeParams` has
/// before it. The layouts are written anew from the header, as numbers of 8 bytes.
fn allocation_node(node_type: u64, pointer: u64) -> [u64; 32] {
    let mut words = [0; 32];
    words[0] = node_type;
    // The location: type and number.
    words[3] = 1 | 2 << 32;
    words[15] = 512;
    words[16] = pointer;
    words
}

#[test]
fn every_call_that_adds_a_node_with_memory_is_read() {
    // The graph is the second parameter of each; the node's parameters stand behind the
    // dependencies, and behind what describes those in the later calls.
    #[repr(C)]
    struct Params(*const u64, u64, *const u64, u64, *const u64);
    #[repr(C)]
    struct Later(*const u64, u64, *const u64, *const u64, u64, *const u64);
    #[repr(C)]
    struct Free(*const u64, u64, *const u64, u64, u64);
    let (null, graph, exec, at) = (ptr::null(), 0x81_u64, 0x82_u64, 0x2000);
    let allocation = allocation_node(10, at);
    let mut free = [0; 32];
    (free[0], free[2]) = (11, at);
    let kernel = allocation_node(0, at);
    for (add, frees) in [(638, 639), (712, 712), (723, 723), (863, 863)] {
        let ledger = Ledger::new();
        let tell = |id: u32, words: &[u64; 32]| match id {
            638 => {
                let params = Params(null, graph, null, 0, words[2..].as_ptr());
                call(&ledger, id, &params, 0, || ());
            }
            639 => call(&ledger, id, &Free(null, graph, null, 0, words[2]), 0, || ()),
            712 => {
                let params = Params(null, graph, null, 0, words.as_ptr());
                call(&ledger, id, &params, 0, || ());
            }
            _ => {
                let params = Later(null, graph, null, null, 0, words.as_ptr());
                call(&ledger, id, &params, 0, || ());
            }
        };
        if add != 638 {
            tell(add, &kernel);
            assert!(!ledger.knows_graph_memory(), "another type of node");
        }
        tell(add, &allocation);
        instantiate(&ledger, graph, exec, 0);
        launch(&ledger, exec);
        assert_eq!(graph_memory(&ledger), [(at, 512)], "{add}");
        let record = ledger.select(|record| record.made.kind == Kind::Graph)[0];
        assert_eq!(record.made.place, Place::cuda(2));
        call(&ledger, FREE, &at, 0, || ());
        tell(frees, &free);
        instantiate(&ledger, graph, exec, 0);
        launch(&ledger, exec);
        assert_eq!(graph_memory(&ledger), [], "{frees}");
    }
}

#[test]
fn a_failed_launch_leaves_nothing_and_one_that_frees_first_leaves_one() {
    let ledger = Ledger::new();
    let (graph, exec, pointer) = (0x91_u64, 0x92_u64, 0x2000_u64);
    let params = Allocate(&raw const pointer, 64, 0);
    let during = || node_in(&ledger, graph);
    call(&ledger, ALLOCATE_ASYNC, &params, 0, during);
    instantiate(&ledger, graph, exec, 1);
    call(&ledger, 515, &[exec, 0], 1, || ());
    assert_eq!(graph_memory(&ledger), []);
    launch(&ledger, exec);
    launch(&ledger, exec);
    assert_eq!(graph_memory(&ledger), [(pointer, 64)]);
    assert_eq!(anomalies(&ledger), []);
}
