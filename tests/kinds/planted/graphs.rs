//! Graphs, executable graphs, user objects of graphs, and the memory that graph nodes allocate.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::result::stream;
use cudarc::driver::sys;

use super::memory::pool_properties;
use super::{Pointer, done, made, zeroed};

pub(crate) fn graph() -> sys::CUgraph {
    // SAFETY: the call has no flags.
    unsafe { made(|out| sys::cuGraphCreate(out, 0)) } // leak: graph
}

pub(crate) fn destroy(graph: sys::CUgraph) {
    // SAFETY: the caller created the graph and no longer uses it.
    done(unsafe { sys::cuGraphDestroy(graph) });
}

pub(crate) fn clone() -> sys::CUgraph {
    let original = graph();
    // SAFETY: the original graph is live.
    let clone = unsafe { made(|out| sys::cuGraphClone(out, original)) }; // leak: graph_clone
    destroy(original);
    clone
}

/// Returns a graph that a capture creates.
pub(crate) fn captured() -> sys::CUgraph {
    let stream = super::streams::plain();
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: the stream is live.
    done(unsafe { sys::cuStreamBeginCapture_v2(stream, mode) });
    // SAFETY: the stream is capturing.
    let graph = unsafe { made(|out| sys::cuStreamEndCapture(stream, out)) }; // leak: graph_of_a_capture
    super::streams::destroy(stream);
    graph
}

pub(crate) fn executable() -> sys::CUgraphExec {
    let graph = graph();
    // SAFETY: the graph is live.
    let executable = unsafe { made(|out| sys::cuGraphInstantiateWithFlags(out, graph, 0)) }; // leak: exec_graph
    destroy(graph);
    executable
}

pub(crate) fn destroy_executable(executable: sys::CUgraphExec) {
    // SAFETY: the caller created the executable graph and no longer uses it.
    done(unsafe { sys::cuGraphExecDestroy(executable) });
}

/// The number of bytes that the node below allocates.
pub(crate) const NODE: u64 = 3000;

/// Returns a graph whose only node allocates memory, and the address of that memory.
fn with_alloc_node() -> (sys::CUgraph, Pointer) {
    let graph = graph();
    // SAFETY: zero is a valid value of every field.
    let mut node: sys::CUDA_MEM_ALLOC_NODE_PARAMS = unsafe { zeroed() };
    node.poolProps = pool_properties();
    node.bytesize = NODE as usize;
    let dependencies = ptr::null();
    // SAFETY: the call reads the parameters, and writes the address to them.
    let _: sys::CUgraphNode = unsafe {
        made(|out| sys::cuGraphAddMemAllocNode(out, graph, dependencies, 0, &mut node)) // leak: graph_memory
    };
    (graph, node.dptr)
}

/// Launches such a graph several times and destroys it. The allocation of the last launch stays.
fn launched(flags: u64, times: usize) -> Pointer {
    let (graph, pointer) = with_alloc_node();
    // SAFETY: the graph is live.
    let executable = unsafe { made(|out| sys::cuGraphInstantiateWithFlags(out, graph, flags)) };
    for _ in 0..times {
        // SAFETY: the executable graph and the null stream are live.
        done(unsafe { sys::cuGraphLaunch(executable, stream::null()) });
    }
    // SAFETY: the null stream always exists.
    done(unsafe { sys::cuStreamSynchronize(stream::null()) });
    destroy_executable(executable);
    destroy(graph);
    pointer
}

pub(crate) fn memory() -> Pointer {
    launched(0, 1)
}

/// Each launch frees the allocation of the previous one. Nothing frees that of the last launch.
pub(crate) fn auto_freed_memory() -> Pointer {
    launched(AUTO_FREE, 3)
}

const AUTO_FREE: u64 =
    sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.0 as u64;

pub(crate) fn user_object() -> sys::CUuserObject {
    extern "C" fn nothing(_data: *mut c_void) {}
    let no_sync = sys::CUuserObject_flags::CU_USER_OBJECT_NO_DESTRUCTOR_SYNC as u32;
    let (data, destructor) = (ptr::null_mut(), Some(nothing as _));
    // SAFETY: the destructor may run at any time with any data.
    unsafe { made(|out| sys::cuUserObjectCreate(out, data, destructor, 1, no_sync)) } // leak: user_object
}

pub(crate) fn release_user_object(object: sys::CUuserObject) {
    // SAFETY: the caller owns one reference and no longer uses it.
    done(unsafe { sys::cuUserObjectRelease(object, 1) });
}
