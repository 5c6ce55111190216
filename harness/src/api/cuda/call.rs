//! What a call to the driver does, in the words that a row of the [table](super::functions) is made
//! of. A value of these types is made of one call's parameters and lives as long as that call.

use super::foreign::{AllocationNode, In, Node, Out, Properties, Value};
use crate::ledger::event::{ContextEnd, Event, Key, Space};
use crate::ledger::{Kind, Place};

/// What a call does.
#[derive(Clone, Copy)]
pub(super) enum Call {
    /// Initialises the driver.
    Initialises,
    /// Makes a resource.
    Creates(Creates),
    /// Frees or destroys one.
    Releases(Releases),
    /// Retains the primary context of this device, with which it answers, and may create it.
    RetainsPrimary(Out, i32),
    /// May end the primary context of this device.
    ReleasesPrimary(i32, ContextEnd),
    /// Answers with the context through which this green context can be made current.
    ConvertsGreen(Out, u64),
    /// Answers with the current context, which has a user more.
    Attaches(Out),
    /// Answers with a handle of the physical memory that is mapped at this address.
    RetainsMapped(Out, u64),
    /// Adds a node to this graph that may have to do with memory.
    AddsNode(u64, AddedNode),
    /// Launches this executable graph.
    Launches(u64),
    /// Begins to capture this stream; into this graph, where it is not 0.
    BeginsCapture(u64, u64),
    /// When it succeeds, this is so.
    Tells(Event),
}

impl From<Creates> for Call {
    fn from(create: Creates) -> Self {
        Self::Creates(create)
    }
}

impl From<Releases> for Call {
    fn from(release: Releases) -> Self {
        Self::Releases(release)
    }
}

/// A call that makes a resource.
#[derive(Clone, Copy)]
pub(super) struct Creates {
    pub(super) kind: Kind,
    pub(super) space: Space,
    /// Its address or handle.
    pub(super) identity: Value,
    pub(super) bytes: Bytes,
    pub(super) place: At,
    /// The stream that orders it. Where that is being captured, the call adds a node to a graph and
    /// makes nothing.
    pub(super) stream: Option<u64>,
    /// The explicit pool it comes from; else 0.
    pub(super) pool: u64,
    /// The driver answers with what is there already, where it is; one call frees it all the same.
    pub(super) may_answer_again: bool,
    /// It does not end with the context that is current when it is made.
    pub(super) outlives_context: bool,
    /// The capture on this stream ends, and its graph is what is made.
    pub(super) ends_capture: Option<u64>,
    /// How many references the program has at once.
    pub(super) references: u64,
    /// The graph that it is made from, and the flags of an executable one.
    pub(super) copies: Option<(u64, Value)>,
    /// The green context that it is made for, and ends with.
    pub(super) green: Option<u64>,
}

/// Where a resource's size is found.
#[derive(Clone, Copy)]
pub(super) enum Bytes {
    /// In what the caller tells the driver.
    Stated(Value),
    /// Rows of a pitch that the driver chose. A call that failed asked for width × height.
    Rows {
        pitch: Value,
        width: u64,
        height: u64,
    },
    /// What the driver says of the range that begins at the resource's address.
    Asked,
}

/// Where a resource is.
#[derive(Clone, Copy)]
pub(super) enum At {
    /// On the device of the current context, or of the pool.
    Context,
    Host,
    /// On this device.
    Device(i32),
    /// Where these properties say.
    Properties(In<Properties>),
}

/// Where a node's parameters are found.
#[derive(Clone, Copy)]
pub(super) enum AddedNode {
    Allocates(In<AllocationNode>),
    /// It frees this address.
    Frees(u64),
    /// In parameters that also say what the node does.
    Any(In<Node>),
}

/// A call that frees or destroys a resource.
#[derive(Clone, Copy)]
pub(super) struct Releases {
    pub(super) space: Space,
    pub(super) value: u64,
    pub(super) share: Share,
    /// The stream that orders it. Where that is being captured, the call adds a node to a graph and
    /// frees nothing.
    pub(super) stream: Option<u64>,
}

/// How much of what it names a call gives back.
#[derive(Clone, Copy)]
pub(super) enum Share {
    Whole,
    /// So many references, of this graph or of the program.
    References(u64, Option<Key>),
    /// All maps in so many bytes from there on.
    Maps(u64),
}

/// A call that makes a resource and answers its address or handle; a handle, if it has no bytes.
pub(super) fn creates(kind: Kind, space: Space, answer: impl Into<Value>) -> Creates {
    Creates {
        kind,
        space,
        identity: answer.into(),
        bytes: Bytes::Stated(Value::Given(0)),
        place: At::Context,
        stream: None,
        pool: 0,
        may_answer_again: false,
        outlives_context: false,
        ends_capture: None,
        references: 1,
        copies: None,
        green: None,
    }
}

/// Memory that `cuMemFree` takes back.
pub(super) fn device(kind: Kind, pointer: impl Into<Value>, bytes: usize) -> Creates {
    creates(kind, Space::DevicePointer, pointer).sized(bytes as u64)
}

/// The same in rows of a pitch that the driver answers.
pub(super) fn pitched(
    pointer: impl Into<Value>,
    pitch: impl Into<Value>,
    width: u64,
    height: u64,
) -> Creates {
    let pitch = pitch.into();
    Creates {
        bytes: Bytes::Rows {
            pitch,
            width,
            height,
        },
        ..device(Kind::Pitched, pointer, 0)
    }
}

/// The same ordered by a stream, from an explicit pool where that is not 0.
pub(super) fn ordered(pointer: Out, bytes: usize, stream: u64, pool: u64) -> Creates {
    Creates {
        stream: Some(stream),
        pool,
        ..device(Kind::StreamOrdered, pointer, bytes)
    }
}

/// The same of another API's memory, whose size a descriptor has.
pub(super) fn imported(pointer: Out, descriptor: impl Into<Value>) -> Creates {
    device(Kind::Imported, pointer, 0).sized(descriptor)
}

/// Memory of the host that `cuMemFreeHost` takes back.
pub(super) fn pinned(pointer: Out, bytes: usize) -> Creates {
    let pinned = creates(Kind::Pinned, Space::HostPointer, pointer);
    pinned.at(At::Host).sized(bytes as u64)
}

/// The program's own memory, by the address that it gave.
pub(super) fn registered(pointer: u64, bytes: usize) -> Creates {
    let (kind, space) = (Kind::Registered, Space::RegisteredPointer);
    let registered = creates(kind, space, pointer).at(At::Host);
    registered.sized(bytes as u64)
}

/// What is counted, and has a handle.
pub(super) fn handle(kind: Kind, handle: Out) -> Creates {
    creates(kind, Space::Handle(kind), handle)
}

/// `kind` is one of bytes.
pub(super) fn array(kind: Kind, array: Out, descriptor: impl Into<Value>) -> Creates {
    creates(kind, Space::Handle(Kind::Array), array).sized(descriptor)
}

/// Physical memory, or what is mapped like it, that `cuMemRelease` takes back. It is the device's and
/// no context's.
pub(super) fn physical(kind: Kind, handle: Out, bytes: usize) -> Creates {
    Creates {
        outlives_context: true,
        ..creates(kind, Space::PhysicalHandle, handle).sized(bytes as u64)
    }
}

/// A context on `device`.
pub(super) fn context(context: Out, device: i32) -> Creates {
    handle(Kind::Context, context).at(At::Device(device))
}

/// A graph, or an executable one with these flags, that is made from `graph`.
pub(super) fn copied(kind: Kind, copy: Out, graph: u64, flags: impl Into<Value>) -> Creates {
    Creates {
        copies: Some((graph, flags.into())),
        ..handle(kind, copy)
    }
}

/// What is made of the capture of a stream.
pub(super) fn captured(stream: u64, graph: Out) -> Creates {
    Creates {
        ends_capture: Some(stream),
        ..handle(Kind::GraphHandle, graph)
    }
}

/// A call that makes an executable graph anew from `graph`.
pub(super) fn updated(exec: u64, graph: u64) -> Call {
    let exec = named(Kind::ExecGraph, exec);
    let graph = named(Kind::GraphHandle, graph);
    Call::Tells(Event::GraphUpdated { exec, graph })
}

/// A call that frees or destroys what its parameter names.
pub(super) fn releases(space: Space, value: u64) -> Releases {
    Releases {
        space,
        value,
        share: Share::Whole,
        stream: None,
    }
}

/// As [`releases`], of what has a handle.
pub(super) fn destroys(kind: Kind, handle: u64) -> Releases {
    releases(Space::Handle(kind), handle)
}

/// A call that gives references back.
pub(super) fn gives_back(space: Space, value: u64, count: u32, graph: Option<Key>) -> Releases {
    Releases {
        share: Share::References(count.into(), graph),
        ..releases(space, value)
    }
}

impl Creates {
    /// With a size that the caller tells the driver.
    pub(super) fn sized(self, bytes: impl Into<Value>) -> Self {
        let bytes = Bytes::Stated(bytes.into());
        Self { bytes, ..self }
    }

    /// With a place of its own.
    pub(super) fn at(self, place: At) -> Self {
        Self { place, ..self }
    }
}

impl Releases {
    /// Ordered by a stream.
    pub(super) fn on_stream(self, stream: u64) -> Self {
        let stream = Some(stream);
        Self { stream, ..self }
    }
}

pub(super) fn key(space: Space, value: u64) -> Option<Key> {
    (value != 0).then_some(Key { space, value })
}

/// What a handle names.
pub(super) fn named(kind: Kind, value: u64) -> Key {
    let space = Space::Handle(kind);
    Key { space, value }
}

/// The device of this ordinal.
pub(super) fn place_of(device: i32) -> Place {
    usize::try_from(device).map_or(Place::UNKNOWN, Place::cuda)
}
