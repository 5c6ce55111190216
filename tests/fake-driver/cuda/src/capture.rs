//! Stream capture: the streams that record into a graph, and the calls that a capture forbids.

use std::cell::Cell;
use std::collections::BTreeSet;

use crate::dispatch::{self, In, Out, api};
use crate::error::Error;
use crate::graph::{Graph, Node};
use crate::handle::Handle;
use crate::state::{Driver, driver};
use crate::stream;
use crate::user_object;

/// `CUstreamCaptureMode`.
const GLOBAL: u32 = 0;
const RELAXED: u32 = 2;

/// An active capture.
#[derive(Debug)]
pub(crate) struct Capture {
    graph: Handle,
    /// Whether the graph existed before the capture. Such a graph stays when the capture fails.
    is_borrowed: bool,
    origin: Handle,
    mode: u32,
    thread: u64,
    invalidated: bool,
    /// The streams whose work the origin has not waited for.
    unjoined: BTreeSet<Handle>,
}

thread_local! {
    /// `cuThreadExchangeStreamCaptureMode`.
    static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

impl Driver {
    fn capture_of(&self, stream: Handle) -> Option<u64> {
        self.streams.get(stream)?.capture
    }

    /// Called when a stream was destroyed during a capture. If that stream was the origin, the
    /// capture ends, because nothing else could end it.
    pub(crate) fn abandon(&mut self, id: u64, stream: Handle) {
        let Some(capture) = self.captures.get_mut(&id) else {
            return;
        };
        capture.invalidated = true;
        if capture.origin != stream {
            return;
        }
        let capture = self.take_capture(id);
        if !capture.is_borrowed {
            // The program may already have destroyed the graph.
            let _ = self.destroy_graph(capture.graph);
        }
    }

    /// Removes a capture from all its streams.
    fn take_capture(&mut self, id: u64) -> Capture {
        for stream in self
            .streams
            .values_mut()
            .filter(|stream| stream.capture == Some(id))
        {
            stream.capture = None;
        }
        self.captures
            .remove(&id)
            .expect("the caller found this capture")
    }

    /// Rejects a call that could affect the work of another stream if the mode of an active capture
    /// forbids such calls. The call also invalidates that capture.
    pub(crate) fn forbid_in_capture(&mut self) -> Result<(), Error> {
        let (mode, thread) = (MODE.get(), dispatch::thread_number());
        let minds = |capture: &Capture| {
            mode != RELAXED
                && ((capture.thread == thread && capture.mode != RELAXED)
                    || (mode == GLOBAL && capture.mode == GLOBAL))
        };
        self.forbid(minds)
    }

    /// Rejects the synchronisation of a whole context while any of its streams is capturing.
    pub(crate) fn forbid_in_capture_of(&mut self, context: Handle) -> Result<(), Error> {
        let captures: BTreeSet<Handle> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.context == context)
            .filter_map(|(_, stream)| self.captures.get(&stream.capture?))
            .map(|capture| capture.origin)
            .collect();
        self.forbid(|capture| captures.contains(&capture.origin))
    }

    /// Rejects the synchronisation of a stream that is capturing.
    pub(crate) fn forbid_on_capturing(&mut self, stream: Handle) -> Result<(), Error> {
        let origin = self
            .capture_of(stream)
            .and_then(|capture| Some(self.captures.get(&capture)?.origin));
        self.forbid(|capture| Some(capture.origin) == origin)
    }

    fn forbid(&mut self, is_affected: impl Fn(&Capture) -> bool) -> Result<(), Error> {
        let mut result = Ok(());
        for capture in self
            .captures
            .values_mut()
            .filter(|capture| is_affected(capture))
        {
            capture.invalidated = true;
            result = Err(Error::STREAM_CAPTURE_UNSUPPORTED);
        }
        result
    }

    /// `cuStreamWaitEvent`: adds a stream to the capture in which the event was recorded.
    pub(crate) fn join(&mut self, stream: Handle, event: Handle) -> Result<(), Error> {
        let event = self.events.get(event).ok_or(Error::INVALID_HANDLE)?;
        let (own, other) = (self.capture_of(stream), event.captured);
        let Some((capture, from)) =
            other.filter(|(capture, _)| self.captures.contains_key(capture))
        else {
            // A captured stream must not wait for work outside the capture. An event that was never
            // recorded stands for no work.
            return if own.is_some() && event.recorded.is_some() {
                Err(Error::STREAM_CAPTURE_ISOLATION)
            } else {
                Ok(())
            };
        };
        if stream::is_default(stream) {
            return Err(Error::STREAM_CAPTURE_UNSUPPORTED);
        }
        if own.is_some_and(|own| own != capture) {
            return Err(Error::STREAM_CAPTURE_MERGE);
        }
        let under_way = self.captures.get_mut(&capture).expect("it was just found");
        under_way.unjoined.remove(&from);
        if stream != under_way.origin {
            under_way.unjoined.insert(stream);
        }
        self.streams
            .get_mut(stream)
            .ok_or(Error::INVALID_HANDLE)?
            .capture = Some(capture);
        Ok(())
    }
}

/// The graph that `stream` records into, if it is capturing.
fn graph_of(stream: Handle) -> Result<Option<Handle>, Error> {
    let driver = driver()?;
    driver.context_of_stream(stream)?;
    let Some(capture) = driver
        .capture_of(stream)
        .and_then(|capture| driver.captures.get(&capture))
    else {
        return Ok(None);
    };
    if capture.invalidated {
        Err(Error::STREAM_CAPTURE_INVALIDATED)
    } else {
        Ok(Some(capture.graph))
    }
}

/// Records an operation instead of running it. Returns false if the stream is not capturing.
pub(crate) fn add(stream: Handle, node: Node) -> Result<bool, Error> {
    let Some(graph) = graph_of(stream)? else {
        return Ok(false);
    };
    crate::graph::add_node(graph, |_| Ok(node))?;
    Ok(true)
}

/// Turns an allocation in a capturing stream into a node of its graph, on the device of `pool` if
/// the call specifies a pool. The address is assigned immediately.
pub(crate) fn allocate(
    stream: Handle,
    size: u64,
    pool: Option<Handle>,
) -> Result<Option<u64>, Error> {
    let Some(graph) = graph_of(stream)? else {
        return Ok(None);
    };
    let device = {
        let driver = driver()?;
        let of_pool = match pool {
            Some(pool) => driver.pool_to_allocate_from(pool)?.device,
            None => None,
        };
        of_pool.map_or_else(|| driver.device_of_stream(stream), Ok)?
    };
    crate::graph::add_allocation(graph, device, size).map(|(_, address)| Some(address))
}

/// Turns a free in a capturing stream into a node of its graph. Only graph memory can be freed in a
/// capture.
pub(crate) fn free(stream: Handle, address: u64) -> Result<bool, Error> {
    let Some(graph) = graph_of(stream)? else {
        return Ok(false);
    };
    crate::graph::add_free(graph, address)?;
    Ok(true)
}

/// Begins a capture, into an existing graph if one is given.
fn begin(stream: Handle, mode: u32, into: Option<Handle>) -> Result<(), Error> {
    let mut driver = driver()?;
    driver.context_of_stream(stream)?;
    if mode > RELAXED {
        return Err(Error::INVALID_VALUE);
    }
    // The legacy stream cannot be captured; the per-thread one is not simulated as an object.
    if stream::is_default(stream) {
        return Err(Error::STREAM_CAPTURE_UNSUPPORTED);
    }
    if driver.capture_of(stream).is_some() {
        return Err(Error::STREAM_CAPTURE_UNSUPPORTED);
    }
    let graph = match into {
        Some(graph) => driver
            .graphs
            .get(graph)
            .map(|_| graph)
            .ok_or(Error::INVALID_VALUE)?,
        None => driver.graphs.insert(Graph::default()),
    };
    let id = driver
        .captures
        .last_key_value()
        .map_or(1, |(&last, _)| last + 1);
    let thread = dispatch::thread_number();
    driver.captures.insert(
        id,
        Capture {
            graph,
            is_borrowed: into.is_some(),
            origin: stream,
            mode,
            thread,
            invalidated: false,
            unjoined: BTreeSet::new(),
        },
    );
    driver
        .streams
        .get_mut(stream)
        .expect("it was just found")
        .capture = Some(id);
    Ok(())
}

fn end(stream: Handle, graph_out: Out<Handle>) -> Result<(), Error> {
    let mut driver = driver()?;
    driver.context_of_stream(stream)?;
    let id = driver.capture_of(stream).ok_or(Error::ILLEGAL_STATE)?;
    let capture = &driver.captures[&id];
    if capture.origin != stream {
        return Err(Error::STREAM_CAPTURE_UNMATCHED);
    }
    if capture.mode != RELAXED && capture.thread != dispatch::thread_number() {
        return Err(Error::STREAM_CAPTURE_WRONG_THREAD);
    }
    let capture = driver.take_capture(id);
    let failure = match (capture.invalidated, capture.unjoined.is_empty()) {
        (true, _) => Some(Error::STREAM_CAPTURE_INVALIDATED),
        (false, false) => Some(Error::STREAM_CAPTURE_UNJOINED),
        (false, true) => None,
    };
    if let Some(error) = failure {
        if !capture.is_borrowed {
            driver.destroy_graph(capture.graph)?;
        }
        drop(driver);
        user_object::run_destructors();
        graph_out.offer(0);
        return Err(error);
    }
    // The driver accepts a null pointer, and keeps the graph.
    graph_out.offer(capture.graph);
    Ok(())
}

fn status(driver: &Driver, stream: Handle) -> Result<(u32, u64, Handle), Error> {
    driver.context_of_stream(stream)?;
    let Some(id) = driver.capture_of(stream) else {
        return Ok((0, 0, 0));
    };
    let capture = &driver.captures[&id];
    Ok((if capture.invalidated { 2 } else { 1 }, id, capture.graph))
}

api! {
    cuStreamBeginCapture, cuStreamBeginCapture_ptsz fn(stream: Handle) {
        begin(stream, GLOBAL, None)
    }

    cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz fn(stream: Handle, mode: u32) {
        begin(stream, mode, None)
    }

    cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz fn(
        stream: Handle, graph: Handle, _dependencies: In<Handle>, _edges: In<u64>, _count: usize, mode: u32,
    ) {
        begin(stream, mode, Some(graph))
    }

    cuStreamBeginRecaptureToGraph, cuStreamBeginRecaptureToGraph_ptsz fn(
        stream: Handle, mode: u32, graph: Handle, _callback: u64, _data: u64,
    ) {
        begin(stream, mode, Some(graph))?;
        driver()?.empty_graph(graph);
        user_object::run_destructors();
        Ok(())
    }

    cuStreamEndCapture, cuStreamEndCapture_ptsz fn(stream: Handle, graph: Out<Handle>) {
        end(stream, graph)
    }

    cuStreamIsCapturing, cuStreamIsCapturing_ptsz fn(stream: Handle, status_out: Out<u32>) {
        status_out.put(status(&*driver()?, stream)?.0)
    }

    cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz fn(stream: Handle, status_out: Out<u32>, id_out: Out<u64>) {
        let (status, id, _) = status(&*driver()?, stream)?;
        id_out.offer(id);
        status_out.put(status)
    }

    cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz fn(
        stream: Handle, status_out: Out<u32>, id_out: Out<u64>, graph_out: Out<Handle>, dependencies: Out<u64>, count: Out<usize>,
    ) {
        let (status, id, graph) = status(&*driver()?, stream)?;
        id_out.offer(id);
        graph_out.offer(graph);
        dependencies.offer(0);
        count.offer(0);
        status_out.put(status)
    }

    cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz fn(
        stream: Handle, status_out: Out<u32>, id_out: Out<u64>, graph_out: Out<Handle>, dependencies: Out<u64>,
        edges: Out<u64>, count: Out<usize>,
    ) {
        let (status, id, graph) = status(&*driver()?, stream)?;
        id_out.offer(id);
        graph_out.offer(graph);
        dependencies.offer(0);
        edges.offer(0);
        count.offer(0);
        status_out.put(status)
    }

    cuThreadExchangeStreamCaptureMode fn(mode: Out<u32>) {
        let new = mode.value()?;
        if new > RELAXED {
            return Err(Error::INVALID_VALUE);
        }
        mode.put(MODE.replace(new))
    }
}
