//! The effects of Vulkan calls: the vocabulary of the rows in the [table](super::functions). Each
//! value of these types is built from the parameters of one call and lives as long as that call.

use super::structures::{
    AllocateMemory, BindMemory, CommandBuffers, DescriptorSets, ObjectName, PipelineBinaries,
};
use crate::api::pointer::{In, Out};
use crate::ledger::Kind;

/// The effect of a call.
#[derive(Clone, Copy)]
pub(super) enum VulkanCall {
    CreatesInstance(Out),
    /// Lists the physical devices of an instance. The two results are their number and their
    /// handles.
    ListsDevices(u64, Out<u32>, Out),
    /// Lists the groups of an instance's physical devices.
    ListsGroups(u64),
    /// Creates a device from a physical device.
    CreatesDevice(u64, Out),
    /// Creates objects that belong to a device or an instance.
    Creates(ObjectsCreated),
    /// Destroys or frees objects.
    Destroys(ObjectsDestroyed),
    /// Destroys or resets a pool of a device, which ends all objects that were allocated from the
    /// pool.
    EmptiesPool {
        device: u64,
        pool: u64,
        /// The kind of pool, if the call destroys the pool.
        destroys: Option<Kind>,
    },
    DestroysDevice(u64),
    DestroysInstance(u64),
    /// Binds memory to buffers or images (depending on the kind) of a device. Each binding consists
    /// of an object and its memory.
    Binds(u64, Kind, Bindings),
    /// Gives a name to an object of a device.
    Names(u64, In<ObjectName>),
}

/// A call that creates objects.
#[derive(Clone, Copy)]
pub(super) struct ObjectsCreated {
    pub(super) kind: Kind,
    /// The device or instance to which the objects belong.
    pub(super) owner: u64,
    /// Where the call writes the handles of the objects.
    pub(super) made: Out,
    pub(super) how: Created,
}

/// How many objects a call creates, and which parameters give that number.
#[derive(Clone, Copy)]
pub(super) enum Created {
    /// One object.
    One,
    /// This many objects. Objects that could not be created have no handle. The others exist even
    /// if the call failed.
    Each(u32),
    /// This many objects, or none if the call failed.
    All(u32),
    /// One allocation of memory.
    Memory(In<AllocateMemory>),
    /// All descriptor sets that this structure requests from its pool.
    DescriptorSets(In<DescriptorSets>),
    /// All command buffers that this structure requests from its pool.
    CommandBuffers(In<CommandBuffers>),
    /// The pipeline binaries. The call writes their number and their handles to this structure.
    PipelineBinaries(Out<PipelineBinaries>),
}

/// A call that destroys or frees objects of one kind.
#[derive(Clone, Copy)]
pub(super) struct ObjectsDestroyed {
    pub(super) kind: Kind,
    /// The device or instance to which the objects belong.
    pub(super) owner: u64,
    pub(super) target: DestroyTarget,
}

/// Which objects a call destroys.
#[derive(Clone, Copy)]
pub(super) enum DestroyTarget {
    /// The object with this handle, or none for 0.
    One(u64),
    /// Objects of this pool. The other values are the number of the objects and an array of their
    /// handles.
    OfPool(u64, u32, In<u64>),
}

/// Which memory a call binds to which object.
#[derive(Clone, Copy)]
pub(super) enum Bindings {
    /// An object and its memory.
    One(u64, u64),
    Many(u32, In<BindMemory>),
}

/// Creates one object from a device or an instance.
pub(super) fn creates(kind: Kind, owner: u64, made: Out) -> VulkanCall {
    creates_by(Created::One, kind, owner, made)
}

/// Creates objects from a device.
pub(super) fn creates_by(how: Created, kind: Kind, owner: u64, made: Out) -> VulkanCall {
    VulkanCall::Creates(ObjectsCreated {
        kind,
        owner,
        made,
        how,
    })
}

/// Destroys one object of a device or an instance.
pub(super) fn destroys(kind: Kind, owner: u64, handle: u64) -> VulkanCall {
    VulkanCall::Destroys(ObjectsDestroyed {
        kind,
        owner,
        target: DestroyTarget::One(handle),
    })
}

/// Frees objects that belong to a pool of a device.
pub(super) fn frees(
    kind: Kind,
    device: u64,
    pool: u64,
    count: u32,
    handles: In<u64>,
) -> VulkanCall {
    VulkanCall::Destroys(ObjectsDestroyed {
        kind,
        owner: device,
        target: DestroyTarget::OfPool(pool, count, handles),
    })
}
