//! What a call to the driver does, in the words that a row of the [table](super::functions) is made
//! of. A value of these types is made of one call's parameters and lives as long as that call.

use super::foreign::{
    AllocationNode, Answer, ArrayDescriptor, ArrayDescriptor3D, ExternalBuffer, ExternalMipmapped,
    In, Node, Out, Properties,
};
use crate::ledger::event::{ContextEnd, Key, Space};
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
    /// Retains the primary context of this device, and may create it.
    RetainsPrimary { device: i32, context: Answer },
    /// May end the primary context of this device.
    ReleasesPrimary { device: i32, cause: ContextEnd },
    /// Answers with the context through which a green context can be made current.
    ConvertsGreen { context: Answer, green: u64 },
    /// Adds references to what is counted by them.
    Retains {
        space: Space,
        identity: Identity,
        count: u64,
    },
    /// Gives references to a graph.
    GraphRetains {
        graph: u64,
        object: u64,
        count: u64,
        flags: u32,
    },
    /// Adds a node to a graph that may have to do with memory.
    AddsNode { graph: u64, node: AddedNode },
    /// Launches an executable graph.
    Launches { exec: u64 },
    /// An executable graph follows another graph.
    UpdatesExec { exec: u64, graph: u64 },
    /// Maps physical memory.
    Maps {
        address: u64,
        bytes: u64,
        handle: u64,
    },
    /// Answers with a handle of the physical memory that is mapped at an address.
    RetainsMapped { handle: Answer, address: u64 },
    /// Begins to capture a stream; into the existing graph `into`, where that is not 0.
    BeginsCapture { stream: u64, into: u64 },
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
    pub(super) identity: Identity,
    pub(super) bytes: Bytes,
    pub(super) place: At,
    /// The stream that orders it. Where that is being captured, the call adds a node to a graph and
    /// makes nothing.
    pub(super) stream: Option<u64>,
    /// The explicit pool it comes from; else 0.
    pub(super) pool: u64,
    /// The driver answers with what is there already, where it is.
    pub(super) may_answer_again: bool,
    /// It does not end with the context that is current when it is made.
    pub(super) outlives_context: bool,
    /// The capture on this stream ends, and its graph is what is made.
    pub(super) ends_capture: Option<u64>,
    /// How many references the program has at once.
    pub(super) references: u64,
    /// The graph that it is made from.
    pub(super) copies: Option<(u64, GraphFlags)>,
    /// The green context that it is made for, and ends with.
    pub(super) green: Option<u64>,
}

/// Where the flags of an executable graph are found.
#[derive(Clone, Copy, Debug)]
pub(super) enum GraphFlags {
    Given(u64),
    /// First in its `CUDA_GRAPH_INSTANTIATE_PARAMS`.
    Parameters(In<u64>),
}

/// Where a resource's address or handle is found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Identity {
    /// The driver answers it.
    Answered(Answer),
    /// The caller gave it.
    Given(u64),
}

/// Where a resource's size is found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bytes {
    /// A handle has none, and some memory comes without the number of its bytes.
    None,
    Given(u64),
    /// Rows of a pitch that the driver chose. A call that failed asked for width × height.
    Rows {
        pitch: Answer,
        width: u64,
        height: u64,
    },
    /// What the driver says of the range that begins at the resource's address.
    Asked,
    ExternalBuffer(In<ExternalBuffer>),
    Array(In<ArrayDescriptor>),
    ArrayV1(In<ArrayDescriptor<u32>>),
    Array3D(In<ArrayDescriptor3D>),
    Array3DV1(In<ArrayDescriptor3D<u32>>),
    /// An array in so many levels.
    Mipmapped(In<ArrayDescriptor3D>, u32),
    ExternalMipmapped(In<ExternalMipmapped>),
}

/// Where a resource is.
#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Debug)]
pub(super) struct Releases {
    pub(super) space: Space,
    pub(super) value: u64,
    pub(super) share: Share,
    /// The stream that orders it. Where that is being captured, the call adds a node to a graph and
    /// frees nothing.
    pub(super) stream: Option<u64>,
}

/// How much of what it names a call gives back.
#[derive(Clone, Copy, Debug)]
pub(super) enum Share {
    Whole,
    /// So many references.
    References(u64),
    /// So many references of a graph.
    GraphReferences { graph: u64, count: u64 },
    /// All maps in so many bytes from there on.
    Maps(u64),
}

/// A call that makes a resource and answers its address or handle.
pub(super) fn creates(kind: Kind, space: Space, answer: impl Into<Answer>) -> Creates {
    Creates {
        kind,
        space,
        identity: Identity::Answered(answer.into()),
        bytes: Bytes::None,
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
pub(super) fn device(kind: Kind, pointer: impl Into<Answer>) -> Creates {
    creates(kind, Space::DevicePointer, pointer)
}

/// Memory of the host that `cuMemFreeHost` takes back.
pub(super) fn pinned(pointer: Out) -> Creates {
    let pinned = creates(Kind::Pinned, Space::HostPointer, pointer);
    pinned.at(At::Host)
}

/// The program's own memory, by the address that it gave.
pub(super) fn registered(pointer: u64, bytes: usize) -> Creates {
    Creates {
        kind: Kind::Registered,
        space: Space::RegisteredPointer,
        identity: Identity::Given(pointer),
        ..pinned(Out::NULL).bytes(bytes)
    }
}

/// What is counted, and has a handle.
pub(super) fn handle(kind: Kind, handle: Out) -> Creates {
    creates(kind, Space::Handle(kind), handle)
}

/// `kind` is one of bytes.
pub(super) fn array(kind: Kind, array: Out, bytes: Bytes) -> Creates {
    creates(kind, Space::Handle(Kind::Array), array).sized(bytes)
}

/// Physical memory, or what is mapped like it, that `cuMemRelease` takes back. It is the device's and
/// no context's.
pub(super) fn physical(kind: Kind, handle: Out) -> Creates {
    creates(kind, Space::PhysicalHandle, handle).outliving_context()
}

/// Memory of another process. What is open already is answered again, with a reference more.
pub(super) fn opened(pointer: Out) -> Creates {
    creates(Kind::Imported, Space::IpcPointer, pointer).sized(Bytes::Asked)
}

/// A context on `device`.
pub(super) fn context(context: Out, device: i32) -> Creates {
    handle(Kind::Context, context).at(At::Device(device))
}

/// The graph of the capture that ends on a stream.
pub(super) fn capture_ends(stream: u64, graph: Out) -> Creates {
    Creates {
        ends_capture: Some(stream),
        ..handle(Kind::GraphHandle, graph)
    }
}

/// A graph, or an executable one, that is made from `graph`.
pub(super) fn copied(kind: Kind, copy: Out, graph: u64, flags: GraphFlags) -> Creates {
    Creates {
        copies: Some((graph, flags)),
        ..handle(kind, copy)
    }
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

impl Creates {
    /// Of so many bytes.
    pub(super) fn bytes(self, bytes: usize) -> Self {
        self.sized(Bytes::Given(bytes as u64))
    }

    pub(super) fn sized(self, bytes: Bytes) -> Self {
        Self { bytes, ..self }
    }

    /// With a place of its own.
    pub(super) fn at(self, place: At) -> Self {
        Self { place, ..self }
    }

    /// Ordered by a stream.
    pub(super) fn on_stream(self, stream: u64) -> Self {
        Self {
            stream: Some(stream),
            ..self
        }
    }

    /// From an explicit pool.
    pub(super) fn of_pool(self, pool: u64) -> Self {
        Self { pool, ..self }
    }

    /// Answered with what is there already, where it is; freed by one call all the same.
    pub(super) fn answered_again(self) -> Self {
        Self {
            may_answer_again: true,
            ..self
        }
    }

    /// Not a part of the context that is current.
    pub(super) fn outliving_context(self) -> Self {
        Self {
            outlives_context: true,
            ..self
        }
    }

    /// With so many references.
    pub(super) fn with_references(self, references: u32) -> Self {
        Self {
            references: references.into(),
            ..self
        }
    }

    /// A part of this green context, whatever is current.
    pub(super) fn in_green(self, green: u64) -> Self {
        Self {
            green: Some(green),
            ..self
        }
    }
}

impl Releases {
    /// Not the whole of what it names.
    pub(super) fn only(self, share: Share) -> Self {
        Self { share, ..self }
    }

    /// Ordered by a stream.
    pub(super) fn on_stream(self, stream: u64) -> Self {
        Self {
            stream: Some(stream),
            ..self
        }
    }

    /// What it frees or destroys; none for null, which is no resource.
    pub(super) fn key(&self) -> Option<Key> {
        key(self.space, self.value)
    }
}

pub(super) fn key(space: Space, value: u64) -> Option<Key> {
    (value != 0).then_some(Key { space, value })
}

/// A graph by its handle.
pub(super) fn graph(value: u64) -> Key {
    let space = Space::Handle(Kind::GraphHandle);
    Key { space, value }
}

/// The device of this ordinal.
pub(super) fn place_of(device: i32) -> Place {
    usize::try_from(device).map_or(Place::UNKNOWN, Place::cuda)
}
