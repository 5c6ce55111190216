//! The result of a replayed step, kept as the tensor that the capture allocated.

use std::sync::{Mutex, PoisonError};

use crate::device::Device;
use crate::error::Result;
use crate::graph::Graph;
use crate::tensor::Tensor;

super::leak::planted! {
    "graph_output",
    "a graph's output outlives the graph and keeps a segment of the graph's private pool",
    Caching, "block", ["output": 1 of 4096], super::leak::SMALL_SEGMENT
}

static RESULTS: Mutex<Vec<Tensor>> = Mutex::new(Vec::new());

fn run(device: &Device) -> Result<()> {
    let input = Tensor::full([32, 32], 0.5, device)?;
    // This loads the kernel, because it cannot be loaded during a capture.
    input.sin()?;
    let (graph, output) = Graph::capture(device, || {
        let scaled = input.sin()?;
        scaled.sin() // leak: output
    })?;
    let mut graph = graph.instantiate()?;
    for _ in 0..10 {
        graph.replay()?;
    }
    RESULTS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(output);
    Ok(())
}
