//! The effects of driver calls: the vocabulary of the rows in the [table](super::functions). Each
//! value of these types is built from the parameters of one call and lives as long as that call.

use super::foreign::{AllocationNode, Argument, In, Node, Out, Properties};
use crate::ledger::event::{ContextEnd, Event, Key, Space};
use crate::ledger::{Kind, Place};

/// The effect of a call that neither [creates](Creates) a resource nor [frees](Frees) one.
#[derive(Clone, Copy)]
pub(super) enum Call {
    Initialises,
    /// Retains and returns the primary context of this device, creating it if necessary.
    RetainsPrimary(Out, i32),
    /// May end the primary context of this device, by a release or a reset.
    ReleasesPrimary(i32, ContextEnd),
    /// Returns the context through which this green context can be made current.
    ConvertsGreen(Out, u64),
    /// Returns the current context and adds a user to it.
    Attaches(Out),
    /// Returns a handle of the physical memory that is mapped at this address.
    RetainsMapped(Out, u64),
    /// Adds a node to this graph that may allocate or free memory.
    AddsNode(u64, AddedNode),
    Launches(u64),
    /// Begins a capture of this stream, into this graph if its handle is not 0.
    BeginsCapture(u64, u64),
    /// Begins a capture of this stream into this graph, which then no longer refers to any user
    /// object. When the capture ends, the nodes of the graph are the same as before.
    BeginsRecapture(u64, u64),
    /// Causes this event if the call succeeds.
    Causes(Event),
}

/// A call that creates a resource.
#[derive(Clone, Copy)]
pub(super) struct Creates {
    pub(super) kind: Kind,
    pub(super) space: Space,
    /// The resource's address or handle. If it is 0, nothing was created.
    pub(super) identity: Argument,
    pub(super) bytes: Bytes,
    pub(super) place: At,
    /// The stream on which the creation is ordered. If that stream is being captured, the call adds
    /// a node to a graph and creates nothing.
    pub(super) stream: Option<u64>,
    /// The explicit pool from which the resource is allocated, or 0.
    pub(super) pool: u64,
    /// Whether the driver may return an object that already exists. Even then, a single call frees
    /// the object.
    pub(super) may_answer_again: bool,
    /// Whether the resource outlives the context that is current when it is created, although other
    /// resources of its kind end with their context. Properties of whole kinds are in the table of
    /// [`Kind`].
    pub(super) outlives_context: bool,
    /// The stream whose capture ends, if the call creates the graph that was captured.
    pub(super) ends_capture: Option<u64>,
    /// How many references the program holds at first.
    pub(super) references: u64,
    /// The graph from which the resource is made and, for an executable graph, its flags.
    pub(super) copies: Option<(u64, Argument)>,
}

/// How a resource's size is determined.
#[derive(Clone, Copy)]
pub(super) enum Bytes {
    /// The size is among the call's parameters.
    Stated(Argument),
    /// The resource consists of rows with a pitch that the driver chose. For a failed call, the
    /// size is width × height.
    Rows {
        pitch: Argument,
        width: u64,
        height: u64,
    },
    /// The driver is asked for the range that begins at the resource's address.
    Asked,
}

/// Where a resource is.
#[derive(Clone, Copy)]
pub(super) enum At {
    /// On the device of the current context or of the pool. This also applies to a handle that
    /// belongs to the whole process, such as the handle of a user object.
    Context,
    /// In host memory, which has no device handle.
    Host,
    /// On this device.
    Device(i32),
    /// On the device of this green context.
    Green(u64),
    /// At the location in these properties.
    Properties(In<Properties>),
}

/// The parameters of an added node.
#[derive(Clone, Copy)]
pub(super) enum AddedNode {
    Allocates(In<AllocationNode>),
    /// Frees this address.
    Frees(u64),
    /// Adds a node of the type that these generic parameters contain.
    Any(In<Node>),
}

/// A call that frees or destroys a resource.
#[derive(Clone, Copy)]
pub(super) struct Frees {
    pub(super) space: Space,
    pub(super) value: u64,
    pub(super) share: Share,
    /// The stream on which the free is ordered. If that stream is being captured, the call adds a
    /// node to a graph and frees nothing.
    pub(super) stream: Option<u64>,
}

/// How much of a resource a call frees.
#[derive(Clone, Copy)]
pub(super) enum Share {
    Whole,
    /// This many references, held by this graph or, if none is given, by the program.
    References(u64, Option<Key>),
    /// All mappings in a range of this many bytes.
    Maps(u64),
}

/// Creates a resource. `answer` is its address or handle. A handle of 0 means that nothing was
/// created, so a kind whose handles include 0 needs other keys.
pub(super) fn creates(kind: Kind, space: Space, answer: impl Into<Argument>) -> Creates {
    Creates {
        kind,
        space,
        identity: answer.into(),
        bytes: Bytes::Stated(Argument::Given(0)),
        place: At::Context,
        stream: None,
        pool: 0,
        may_answer_again: false,
        outlives_context: false,
        ends_capture: None,
        references: 1,
        copies: None,
    }
}

/// Allocates memory that `cuMemFree` frees.
pub(super) fn device(kind: Kind, pointer: impl Into<Argument>, bytes: usize) -> Creates {
    creates(kind, Space::DevicePointer, pointer).sized(bytes as u64)
}

/// Allocates memory in rows with a pitch that the driver chooses. `cuMemFree` frees it.
pub(super) fn pitched(
    pointer: impl Into<Argument>,
    pitch: impl Into<Argument>,
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

/// Allocates memory in the order of a stream, from an explicit pool if `pool` is not 0. `cuMemFree`
/// frees it.
pub(super) fn ordered(pointer: Out, bytes: usize, stream: u64, pool: u64) -> Creates {
    Creates {
        stream: Some(stream),
        pool,
        ..device(Kind::StreamOrdered, pointer, bytes)
    }
}

/// Imports memory from another API. The descriptor contains its size. `cuMemFree` frees it.
pub(super) fn imported(pointer: Out, descriptor: impl Into<Argument>) -> Creates {
    device(Kind::Imported, pointer, 0).sized(descriptor)
}

/// Allocates host memory that `cuMemFreeHost` frees.
pub(super) fn pinned(pointer: Out, bytes: usize) -> Creates {
    let pinned = creates(Kind::Pinned, Space::HostPointer, pointer);
    pinned.at(At::Host).sized(bytes as u64)
}

/// Registers the program's own memory at the given address.
pub(super) fn registered(pointer: u64, bytes: usize) -> Creates {
    let (kind, space) = (Kind::Registered, Space::RegisteredPointer);
    let registered = creates(kind, space, pointer).at(At::Host);
    registered.sized(bytes as u64)
}

/// Creates an object that has a handle and is only counted, because it has no size in bytes.
pub(super) fn handle(kind: Kind, handle: Out) -> Creates {
    creates(kind, Space::Handle(kind), handle)
}

/// Creates an array. `kind` must be a kind whose resources have a size in bytes.
pub(super) fn array(kind: Kind, array: Out, descriptor: impl Into<Argument>) -> Creates {
    creates(kind, Space::Handle(Kind::Array), array).sized(descriptor)
}

/// Creates physical memory, or an object that is mapped in the same way. `cuMemRelease` frees the
/// resource, which belongs to the device rather than to a context.
pub(super) fn physical(kind: Kind, handle: Out, bytes: usize) -> Creates {
    Creates {
        outlives_context: true,
        ..creates(kind, Space::PhysicalHandle, handle).sized(bytes as u64)
    }
}

/// Creates a context on `device`.
pub(super) fn context(context: Out, device: i32) -> Creates {
    handle(Kind::Context, context).at(At::Device(device))
}

/// Creates a copy of `graph` or, with these flags, an executable graph.
pub(super) fn copied(kind: Kind, copy: Out, graph: u64, flags: impl Into<Argument>) -> Creates {
    Creates {
        copies: Some((graph, flags.into())),
        ..handle(kind, copy)
    }
}

/// Creates the graph that results from the capture of a stream.
pub(super) fn captured(stream: u64, graph: Out) -> Creates {
    Creates {
        ends_capture: Some(stream),
        ..handle(Kind::GraphHandle, graph)
    }
}

/// Updates an executable graph from `graph`.
pub(super) fn updated(exec: u64, graph: u64) -> Call {
    let exec = named(Kind::ExecGraph, exec);
    let graph = named(Kind::GraphHandle, graph);
    Call::Causes(Event::GraphUpdated { exec, graph })
}

/// Frees or destroys the resource that `value` identifies.
pub(super) fn frees(space: Space, value: u64) -> Frees {
    Frees {
        space,
        value,
        share: Share::Whole,
        stream: None,
    }
}

/// Destroys the object of this kind that has this handle.
pub(super) fn destroys(kind: Kind, handle: u64) -> Frees {
    frees(Space::Handle(kind), handle)
}

/// Releases `count` references.
pub(super) fn releases(space: Space, value: u64, count: u32, graph: Option<Key>) -> Frees {
    Frees {
        share: Share::References(count.into(), graph),
        ..frees(space, value)
    }
}

impl Creates {
    /// Sets the size, given by the call's parameters.
    pub(super) fn sized(self, bytes: impl Into<Argument>) -> Self {
        let bytes = Bytes::Stated(bytes.into());
        Self { bytes, ..self }
    }

    pub(super) fn at(self, place: At) -> Self {
        Self { place, ..self }
    }
}

impl Frees {
    /// Sets the stream on which the call is ordered.
    pub(super) fn on_stream(self, stream: u64) -> Self {
        let stream = Some(stream);
        Self { stream, ..self }
    }
}

/// Returns the key of an address or handle; `None` if it is 0, which means that there is no
/// resource.
pub(super) fn key(space: Space, value: u64) -> Option<Key> {
    (value != 0).then_some(Key::new(space, value))
}

pub(super) fn named(kind: Kind, value: u64) -> Key {
    let space = Space::Handle(kind);
    Key::new(space, value)
}

pub(super) fn place_of(device: i32) -> Place {
    usize::try_from(device).map_or(Place::UNKNOWN, Place::cuda)
}
