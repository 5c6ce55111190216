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
    /// May end a primary context.
    ReleasesPrimary { cause: ContextEnd },
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
    /// It does not end with the context that is current when it is made.
    pub(super) outlives_context: bool,
    /// The capture on this stream ends, and its graph is what is made.
    pub(super) ends_capture: Option<Value>,
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
    /// A handle: it has none.
    None,
    Given(Value),
    /// Rows of a pitch that the driver chose. A call that failed asked for width × height.
    Rows {
        pitch: Answer,
        width: Value,
        height: Value,
    },
}

/// Where a resource is.
#[derive(Clone, Copy, Debug)]
pub(super) enum At {
    /// On the device of the current context, or of the pool.
    Context,
    Host,
    /// On this device.
    Device(Value),
    /// Where the `CUmemPoolProps` at this offset's address say.
    PoolProperties(usize),
}

/// A call that frees or destroys a resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Releases {
    pub(super) space: Space,
    pub(super) identity: Value,
    /// In a stream capture the call adds a node to a graph and frees nothing.
    pub(super) capturable: bool,
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
                outlives_context: false,
                ends_capture: None,
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
                capturable: false,
            }),
        }
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
        self.creating(Creates {
            stream: Some(stream),
            ..self.creation()
        })
    }

    /// From an explicit pool.
    pub(super) const fn of_pool(self, pool: Value) -> Self {
        self.creating(Creates {
            pool: Some(pool),
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
