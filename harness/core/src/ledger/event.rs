//! The events that a source can report to the ledger.
//!
//! Driver calls, `observe` and replayed recordings all use these events, so that the ledger is a
//! pure function of a stream of events.

use std::cmp::Reverse;
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

use super::kind::Kind;
use super::name::{Layer, Place};

/// A set of addresses or handles that can be compared with each other.
///
/// Equal values in different spaces are unrelated: a registered host page may have the same address
/// as device memory, and a stream may have the same handle as an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Space {
    /// The addresses that `cuMemFree` and `cuMemFreeAsync` accept.
    DevicePointer,
    /// The addresses that `cuMemFreeHost` accepts.
    HostPointer,
    /// The addresses that `cuMemHostUnregister` accepts.
    RegisteredPointer,
    /// Physical memory objects, as opposed to their handles, which may be reused while the objects
    /// are alive.
    PhysicalObject,
    /// The handles that `cuMemRelease` accepts.
    PhysicalHandle,
    /// The addresses that `cuMemUnmap` accepts, at which physical memory is mapped.
    Mapping,
    /// The addresses that `cuIpcCloseMemHandle` accepts. Memory that was opened twice must be
    /// closed twice.
    IpcPointer,
    /// Handles of one kind.
    Handle(Kind),
    /// Handles of one kind in one context, because a handle is meaningful only within its context.
    /// Several live objects may have the same handle. Each creation counts, and each free ends
    /// the newest object.
    Object {
        /// The kind.
        kind: Kind,
        /// The context.
        context: ContextUid,
        /// Distinguishes live objects with the same handle. Sources always report 0; the harness
        /// assigns the other values.
        copy: u16,
    },
    /// The address space of one allocator that reports through `observe`.
    Observed(Layer),
    /// The address space of such an allocator at one place, if each place has its own.
    ObservedAt(Layer, Place),
}

impl Space {
    /// Whether an object of this space can have several holders and ends with the last one.
    pub const fn is_shared(self) -> bool {
        matches!(
            self,
            Self::PhysicalHandle
                | Self::Mapping
                | Self::IpcPointer
                | Self::Handle(Kind::Context | Kind::UserObject)
        )
    }

    /// Whether this is the space of graphs or of executable graphs.
    pub const fn is_graph(self) -> bool {
        matches!(self, Self::Handle(Kind::GraphHandle | Kind::ExecGraph))
    }
}

/// The identity of a live resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// The space to which the resource's address or handle belongs.
    pub space: Space,
    value: Hidden,
}

/// An address or handle with all bits inverted. The search for holders looks for the address of a
/// leak in all reachable memory, and the records of the ledger, live or freed, must not be mistaken
/// for holders. The order is reversed too, so that it is the order of the addresses or handles.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "u64", into = "u64")]
struct Hidden(Reverse<u64>);

impl Hidden {
    const fn of(value: u64) -> Self {
        Self(Reverse(!value))
    }

    const fn shown(self) -> u64 {
        !self.0.0
    }
}

impl From<u64> for Hidden {
    fn from(value: u64) -> Self {
        Self::of(value)
    }
}

impl From<Hidden> for u64 {
    fn from(hidden: Hidden) -> Self {
        hidden.shown()
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.shown())
    }
}

/// Hashes only the address or handle and the copy. Few resources of different spaces have the same
/// address or handle, and hashing a space takes longer than comparing it.
impl Hash for Key {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let copy = match self.space {
            Space::Object { copy, .. } => u64::from(copy),
            _ => 0,
        };
        hasher.write_u64(self.value() ^ copy << 48);
    }
}

impl Key {
    /// Returns the key of an address or handle in a space.
    pub const fn new(space: Space, value: u64) -> Self {
        Self {
            space,
            value: Hidden::of(value),
        }
    }

    /// Returns the address or handle.
    pub const fn value(&self) -> u64 {
        self.value.shown()
    }

    /// Returns the key of another object of the same context; `None` if this is not the key of an
    /// object of a context.
    pub(super) const fn of_its_context(&self, kind: Kind, handle: u64) -> Option<Self> {
        let Space::Object { context, .. } = self.space else {
            return None;
        };
        let space = Space::Object {
            kind,
            context,
            copy: 0,
        };
        Some(Self::new(space, handle))
    }

    /// Returns the key for one more live object with this handle, or `None` if no more can be
    /// distinguished.
    pub(super) fn next_copy(mut self) -> Option<Self> {
        let Space::Object { copy, .. } = &mut self.space else {
            return None;
        };
        *copy = copy.checked_add(1)?;
        Some(self)
    }
}

/// The identity of a scope, numbered from 1 in each process. 0 means no scope.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct ScopeId(pub u32);

impl ScopeId {
    /// Outside any scope.
    pub const NONE: Self = Self(0);
    /// The owner of resources that were handed over: no check is responsible for them.
    pub const NOBODY: Self = Self(u32::MAX);
}

/// A thread of the program. Threads are numbered in the order in which the harness first saw them.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct ThreadNumber(pub u32);

/// An interned stack (see [`Stacks`](super::Stacks)). 0 is the empty stack.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct StackId(pub u32);

/// The origin of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// The calling thread.
    pub thread: ThreadNumber,
    /// The scope that the thread works for.
    pub scope: ScopeId,
    /// The stack of the call.
    pub stack: StackId,
}

/// A CUDA context, or an instance or device of Vulkan, identified by a number that the harness
/// assigns and never reuses in a process. 0 means no context.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct ContextUid(pub u32);

/// Identifies a free from its beginning to its end. A ticket is never 0, so that 0 can mean that
/// there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ticket(pub u64);

/// A resource that a successful call created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Creation {
    /// The identity of the resource.
    pub key: Key,
    /// The kind of the resource.
    pub kind: Kind,
    /// The allocator that created the resource.
    pub layer: Layer,
    /// Where the resource's bytes are. If this is [`Place::UNKNOWN`], the ledger uses the context's
    /// device.
    pub place: Place,
    /// The size of the resource in bytes, or 0 for handles.
    pub bytes: u64,
    /// The context that is current to the calling thread. An allocator's blocks have none.
    pub context: ContextUid,
    /// The handle of the stream of a stream-ordered allocation. Otherwise 0.
    pub stream: u64,
    /// The larger resource that this one is part of: the handle of the explicit pool that an
    /// allocation came from, or the [sequence number](Record::sequence) of the memory that is bound
    /// to a buffer or image, because another memory object may get that memory's handle. Otherwise
    /// 0.
    pub pool: u64,
    /// The caller that created the resource.
    pub caller: Caller,
}

/// A resource that is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// When the resource was created, in the order of the ledger's events.
    pub sequence: u64,
    /// The resource.
    pub made: Creation,
}

impl Record {
    /// Whether `key` is an address inside this resource.
    pub fn contains(&self, key: Key) -> bool {
        let first = self.made.key.value();
        let addresses = first..first.saturating_add(self.made.bytes);
        self.made.key.space == key.space && addresses.contains(&key.value())
    }

    /// Whether `key` is the key of this resource or an address inside it.
    pub fn is_at(&self, key: Key) -> bool {
        self.made.key == key || self.contains(key)
    }

    /// Returns the identity of the resource.
    pub fn key(&self) -> Key {
        self.made.key
    }

    /// Whether memory is bound to this object. Such an object has a size in bytes.
    pub(crate) const fn is_bound(&self) -> bool {
        self.made.pool != 0 && matches!(self.made.kind, Kind::Buffer | Kind::Image)
    }
}

/// The return value of a driver call: 0 for success, otherwise a `CUresult`.
pub type CuResult = u32;

/// An event that the ledger applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A call that creates a resource succeeded.
    Created(Creation),
    /// A call that should have created a resource failed. Nothing is live because of it.
    CreationFailed {
        /// The kind that was requested.
        kind: Kind,
        /// The number of bytes, or 0 for handles.
        bytes: u64,
        /// The result that the driver returned.
        error: CuResult,
        /// The caller.
        caller: Caller,
    },
    /// A free or destroy call began. The record leaves the table now, because the driver may then
    /// immediately hand the same address to another thread.
    FreeBegan {
        /// The resource that is being freed.
        key: Key,
        /// The caller that frees the resource.
        caller: Caller,
    },
    /// A call that frees, releases or unmaps ended. If it succeeded, the record is removed
    /// permanently. Otherwise, it is restored.
    FreeEnded {
        /// The ticket that [`Ledger::apply`](super::Ledger::apply) returned when the call began.
        ticket: Ticket,
        /// The result that the driver returned.
        error: CuResult,
        /// The stack of the call if it failed, or the empty stack if it succeeded. Capturing a
        /// stack costs more than the rest of a free, and a successful free does not need it.
        stack: StackId,
    },
    /// A free or destroy call was recorded into a graph instead of being executed. The record is
    /// restored, and this is not a failure.
    FreeCaptured {
        /// The ticket that the ledger returned when the call began.
        ticket: Ticket,
    },
    /// The reference count of the resource that is live under `key` increases.
    Retained {
        /// The resource.
        key: Key,
        /// The number of references.
        count: u64,
    },
    /// A call that releases references began. [`Self::FreeEnded`] ends it. The record is removed
    /// with the last reference.
    ReleaseBegan {
        /// The resource to which the references belong.
        key: Key,
        /// The number of references.
        count: u64,
        /// The graph that releases the references. `None` if the program releases them.
        graph: Option<Key>,
        /// The caller.
        caller: Caller,
    },
    /// A graph received references.
    GraphRetained {
        /// The graph.
        graph: Key,
        /// The resource to which the references belong.
        key: Key,
        /// The number of references.
        count: u64,
        /// Whether the references were moved from the program to the graph.
        moved: bool,
    },
    /// A graph or an executable graph was created from another graph, and holds the same resources.
    GraphCopied {
        /// The graph that was copied.
        from: Key,
        /// The graph that was created.
        to: Key,
        /// Whether each launch of the created graph frees the memory that the previous launch left.
        auto_free: bool,
    },
    /// A node that allocates was added to a graph. Nothing is live before a launch.
    GraphAllocates {
        /// The graph, or the captured stream if the graph has no handle yet.
        graph: Key,
        /// The memory that each launch allocates, with the caller that added the node.
        made: Creation,
    },
    /// A node that frees was added to a graph. Nothing is freed before a launch.
    GraphFrees {
        /// The graph, or the captured stream if the graph has no handle yet.
        graph: Key,
        /// The memory that each launch frees.
        address: u64,
    },
    /// The nodes that were added under `from` now belong to `to`, or are gone, because the capture
    /// of a stream ended, a graph was moved into its parent, a graph is captured again, or a new
    /// graph has the handle of an earlier one.
    NodesMoved {
        /// The stream on which the capture began, or a graph.
        from: Key,
        /// The graph to which the nodes now belong. `None` if they are gone.
        to: Option<Key>,
    },
    /// The launch of an executable graph began. The ledger returns a ticket if its nodes allocate
    /// or free memory.
    LaunchBegan {
        /// The executable graph.
        exec: Key,
        /// The caller.
        caller: Caller,
    },
    /// The call that launched an executable graph returned.
    LaunchEnded {
        /// The ticket that the ledger returned when the call began.
        ticket: Ticket,
        /// The result that the driver returned.
        error: CuResult,
    },
    /// From now on, an executable graph executes `graph`: it allocates, frees and refers to the
    /// same resources.
    GraphUpdated {
        /// The executable graph.
        exec: Key,
        /// The graph.
        graph: Key,
    },
    /// A call returned a handle to the physical memory that is mapped at an address. The handle has
    /// its own reference.
    HandleRetained {
        /// The handle.
        handle: u64,
        /// The address.
        address: u64,
    },
    /// Physical memory was mapped.
    Mapped {
        /// The first address.
        address: u64,
        /// The size of the range in bytes.
        bytes: u64,
        /// The memory's handle.
        handle: u64,
    },
    /// A call that unmaps one or several adjacent mappings began. [`Self::FreeEnded`] ends it.
    UnmapBegan {
        /// The first address.
        address: u64,
        /// The size of the range in bytes.
        bytes: u64,
        /// The caller.
        caller: Caller,
    },
    /// The program declares that other code will free the resource with this address or handle.
    HandedOver {
        /// The address or handle.
        address: u64,
    },
    /// The primary context of a device was retained.
    PrimaryRetained {
        /// The device.
        place: Place,
        /// The caller.
        caller: Caller,
    },
    /// The primary context of a device was released.
    PrimaryReleased {
        /// The device.
        place: Place,
        /// The caller.
        caller: Caller,
    },
    /// Memory was bound to an object.
    Bound {
        /// The object.
        key: Key,
        /// The handle of the memory, in the same context.
        memory: u64,
        /// The number of bytes of the memory that the object needs.
        bytes: u64,
    },
    /// A context was created, or its handle has become known.
    ContextCreated {
        /// The ID of the context.
        context: ContextUid,
        /// The handle of the context.
        handle: u64,
        /// The device of the context.
        place: Place,
    },
    /// A context ended, and the resources that belong to it ended with it.
    ContextDestroyed {
        /// The ID of the context.
        context: ContextUid,
        /// How the context ended.
        cause: ContextEnd,
        /// The caller that ended the context.
        caller: Caller,
    },
}

/// How a context ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContextEnd {
    /// `cuCtxDestroy`.
    Destroyed,
    /// The last `cuDevicePrimaryCtxRelease`.
    LastRelease,
    /// `cuDevicePrimaryCtxReset`, `cudaDeviceReset`.
    Reset,
    /// The program closed the device without having destroyed the objects that belong to it.
    DeviceDestroyed,
    /// The program ended the instance without having destroyed the objects that belong to it.
    InstanceDestroyed,
}

#[cfg(test)]
mod tests;
