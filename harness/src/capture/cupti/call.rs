//! What a driver call does, in the words that a row of the [table](super::watch) is made of.

use super::field::{Answer, Value};
use crate::ledger::Kind;
use crate::ledger::event::{ContextEnd, Space};

/// One watched call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    /// Its callback id.
    pub(super) id: u32,
    /// Its name in the driver.
    pub(super) name: &'static str,
    /// What it does.
    pub(super) call: Call,
}

/// What a call does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    /// Makes a resource.
    Creates(Creates),
    /// Frees or destroys one.
    Releases(Releases),
    /// May create the primary context of this device.
    RetainsPrimary { device: Value },
    /// May end the primary context of this device.
    ReleasesPrimary { device: Value, cause: ContextEnd },
    /// Answers with the context through which a green context can be made current.
    ConvertsGreen { context: Answer, green: Value },
    /// Adds references to what is counted by them.
    Retains(Retains),
    /// Gives references to a graph.
    GraphRetains {
        graph: Value,
        object: Value,
        count: Value,
        flags: Value,
    },
    /// Adds a node to a graph that may have to do with memory.
    AddsNode { graph: Value, node: AddedNode },
    /// Launches an executable graph.
    Launches { exec: Value },
    /// An executable graph follows another graph.
    UpdatesExec { exec: Value, graph: Value },
    /// Maps physical memory.
    Maps {
        address: Value,
        bytes: Value,
        handle: Value,
    },
    /// Answers with a handle of the physical memory that is mapped at an address.
    RetainsMapped { handle: Answer, address: Value },
    /// Begins to capture a stream.
    BeginsCapture {
        stream: Value,
        /// The existing graph that the capture adds to.
        into: Option<Value>,
    },
}

/// A call that makes a resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Creates {
    pub(super) kind: Kind,
    pub(super) space: Space,
    pub(super) identity: Identity,
    pub(super) bytes: Bytes,
    pub(super) place: At,
    /// The stream that orders an allocation.
    pub(super) stream: Option<Value>,
    /// The explicit pool it comes from.
    pub(super) pool: Option<Value>,
    /// In a stream capture the call adds a node to a graph and makes nothing.
    pub(super) capturable: bool,
    /// The driver answers with what is there already, where it is.
    pub(super) may_answer_again: bool,
    /// It does not end with the context that is current when it is made.
    pub(super) outlives_context: bool,
    /// The capture on this stream ends, and its graph is what is made.
    pub(super) ends_capture: Option<Value>,
    /// How many references the program has at once, where not one.
    pub(super) references: Option<Value>,
    /// The graph that it is made from.
    pub(super) copies: Option<Copies>,
    /// The green context that it is made for, and ends with.
    pub(super) green: Option<Value>,
}

/// What a graph or an executable graph is made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copies {
    pub(super) graph: Value,
    pub(super) flags: GraphFlags,
}

/// Where the flags of an executable graph are found.
#[derive(Clone, Copy, Debug)]
pub(super) enum GraphFlags {
    /// It has none.
    None,
    Given(Value),
    /// First in the `CUDA_GRAPH_INSTANTIATE_PARAMS` at this offset's address.
    Parameters(usize),
}

/// Where a resource's address or handle is found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Identity {
    /// The driver answers it.
    Answered(Answer),
    /// The caller gave it.
    Given(Value),
}

/// Where a resource's size is found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bytes {
    /// A handle has none, and some memory comes without the number of its bytes.
    None,
    Given(Value),
    /// Rows of a pitch that the driver chose. A call that failed asked for width × height.
    Rows {
        pitch: Answer,
        width: Value,
        height: Value,
    },
    /// As an array's descriptor says.
    Array(Descriptor),
    /// In the `CUDA_EXTERNAL_MEMORY_BUFFER_DESC` at this offset's address.
    ExternalBuffer(usize),
}

/// What describes an array, and the offset of its address.
#[derive(Clone, Copy, Debug)]
pub(super) enum Descriptor {
    /// `CUDA_ARRAY_DESCRIPTOR`
    Array(usize),
    /// `CUDA_ARRAY_DESCRIPTOR_v1`
    ArrayV1(usize),
    /// `CUDA_ARRAY3D_DESCRIPTOR`
    Array3D(usize),
    /// `CUDA_ARRAY3D_DESCRIPTOR_v1`
    Array3DV1(usize),
    /// `CUDA_ARRAY3D_DESCRIPTOR`, and how many levels there are.
    Mipmapped(usize, Value),
    /// `CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC`
    ExternalMipmapped(usize),
}

/// Where a resource is.
#[derive(Clone, Copy, Debug)]
pub(super) enum At {
    /// On the device of the current context, or of the pool.
    Context,
    Host,
    /// On this device.
    Device(Value),
    /// Where the `CUmemPoolProps` at this offset's address say, or the `CUmemAllocationProp`, which
    /// begins like them.
    PoolProperties(usize),
}

/// Where a node's parameters are found.
#[derive(Clone, Copy, Debug)]
pub(super) enum AddedNode {
    /// In the `CUDA_MEM_ALLOC_NODE_PARAMS` at this offset's address.
    Allocates(usize),
    /// It frees this address.
    Frees(Value),
    /// In the `CUgraphNodeParams` at this offset's address, which also says what the node does.
    Any(usize),
}

/// A call that adds references.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retains {
    pub(super) space: Space,
    pub(super) identity: Identity,
    /// How many, where not one.
    pub(super) count: Option<Value>,
}

/// A call that frees or destroys a resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Releases {
    pub(super) space: Space,
    pub(super) identity: Value,
    pub(super) share: Share,
    /// The stream that orders it.
    pub(super) stream: Option<Value>,
    /// In a stream capture the call adds a node to a graph and frees nothing.
    pub(super) capturable: bool,
}

/// How much of what it names a call gives back.
#[derive(Clone, Copy, Debug)]
pub(super) enum Share {
    Whole,
    /// One reference.
    Reference,
    /// So many references.
    References(Value),
    /// So many references of a graph.
    GraphReferences {
        graph: Value,
        count: Value,
    },
    /// All maps in so many bytes from there on.
    Maps(Value),
}

impl Creates {
    /// Whether the driver creates a context inside the call, on the device that the call names. A
    /// green context may be the first to need the primary one.
    pub(super) fn creates_context(&self) -> bool {
        matches!(self.kind, Kind::Context | Kind::GreenContext)
    }
}

impl Watched {
    /// A call that makes a resource and answers its address or handle.
    pub(super) const fn creates(
        id: u32,
        name: &'static str,
        kind: Kind,
        space: Space,
        identity: Identity,
        bytes: Bytes,
    ) -> Self {
        Self {
            id,
            name,
            call: Call::Creates(Creates {
                kind,
                space,
                identity,
                bytes,
                place: At::Context,
                stream: None,
                pool: None,
                capturable: false,
                may_answer_again: false,
                outlives_context: false,
                ends_capture: None,
                references: None,
                copies: None,
                green: None,
            }),
        }
    }

    /// A call that frees or destroys what its parameter names.
    pub(super) const fn releases(
        id: u32,
        name: &'static str,
        space: Space,
        identity: Value,
    ) -> Self {
        Self {
            id,
            name,
            call: Call::Releases(Releases {
                space,
                identity,
                share: Share::Whole,
                stream: None,
                capturable: false,
            }),
        }
    }

    /// Not the whole of what it names.
    pub(super) const fn only(self, share: Share) -> Self {
        let call = match self.call {
            Call::Releases(call) => Call::Releases(Releases { share, ..call }),
            _ => panic!("only a call that gives something back can give a part of it"),
        };
        Self { call, ..self }
    }

    /// With a place of its own.
    pub(super) const fn at(self, place: At) -> Self {
        self.creating(Creates {
            place,
            ..self.creation()
        })
    }

    /// Ordered by a stream.
    pub(super) const fn on_stream(self, stream: Value) -> Self {
        let stream = Some(stream);
        let call = match self.call {
            Call::Creates(call) => Call::Creates(Creates { stream, ..call }),
            Call::Releases(call) => Call::Releases(Releases { stream, ..call }),
            _ => panic!("only allocations and frees are ordered by a stream"),
        };
        Self { call, ..self }
    }

    /// From an explicit pool.
    pub(super) const fn of_pool(self, pool: Value) -> Self {
        self.creating(Creates {
            pool: Some(pool),
            ..self.creation()
        })
    }

    /// Answered with what is there already, where it is; freed by one call all the same.
    pub(super) const fn answered_again(self) -> Self {
        self.creating(Creates {
            may_answer_again: true,
            ..self.creation()
        })
    }

    /// Not a part of the context that is current.
    pub(super) const fn outliving_context(self) -> Self {
        self.creating(Creates {
            outlives_context: true,
            ..self.creation()
        })
    }

    /// The graph of the capture that ends on a stream.
    pub(super) const fn ending_capture(self, stream: Value) -> Self {
        self.creating(Creates {
            ends_capture: Some(stream),
            ..self.creation()
        })
    }

    /// With so many references.
    pub(super) const fn with_references(self, count: Value) -> Self {
        self.creating(Creates {
            references: Some(count),
            ..self.creation()
        })
    }

    /// Made from this graph.
    pub(super) const fn copying(self, graph: Value, flags: GraphFlags) -> Self {
        self.creating(Creates {
            copies: Some(Copies { graph, flags }),
            ..self.creation()
        })
    }

    /// A part of this green context, whatever is current.
    pub(super) const fn in_green(self, green: Value) -> Self {
        self.creating(Creates {
            green: Some(green),
            ..self.creation()
        })
    }

    /// A node of a graph instead, while its stream is captured.
    pub(super) const fn capturable(self) -> Self {
        let capturable = true;
        let call = match self.call {
            Call::Creates(call) => Call::Creates(Creates { capturable, ..call }),
            Call::Releases(call) => Call::Releases(Releases { capturable, ..call }),
            _ => panic!("only allocations and frees become nodes"),
        };
        Self { call, ..self }
    }

    const fn creation(&self) -> Creates {
        match self.call {
            Call::Creates(create) => create,
            _ => panic!("only a call that makes something can be told what"),
        }
    }

    const fn creating(self, create: Creates) -> Self {
        Self {
            call: Call::Creates(create),
            ..self
        }
    }
}
