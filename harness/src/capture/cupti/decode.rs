//! From a call's parameters to the words of the ledger. Pure: everything a call tells is in its
//! block.

#![expect(
    unsafe_code,
    reason = "the blocks are C structs, read through their address"
)]

use super::array::Array;
use super::call::{
    AddedNode, At, Bytes, Copies, Creates, Descriptor, GraphFlags, Identity, Releases, Retains,
    Share,
};
use super::field::Block;
use super::params::{
    AllocationNode, ArrayDescriptor, ArrayDescriptor3D, ArrayDescriptor3DV1, ArrayDescriptorV1,
    ExternalBuffer, ExternalMipmapped, FreeNode, NodeOf, PoolProperties,
};
use crate::ledger::event::{Caller, ContextUid, Creation, CuResult, Event, Key, Space};
use crate::ledger::{Kind, Layer, Place};

/// `CU_GRAPH_NODE_TYPE_MEM_ALLOC`
const ALLOCATES: u32 = 10;
/// `CU_GRAPH_NODE_TYPE_MEM_FREE`
const FREES: u32 = 11;

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`
const AUTO_FREE: u64 = 1;

/// `CUDA_ERROR_OUT_OF_MEMORY`: the driver has read how much it was asked for.
const OUT_OF_MEMORY: CuResult = 2;

/// The context current to the calling thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current {
    /// Its handle; 0 is none.
    pub(super) handle: u64,
    /// With what context ends what is made now.
    pub(super) uid: ContextUid,
    /// Its device.
    pub(super) place: Place,
}

/// The identity of what the call made; none when the caller passed null for the answer or the
/// driver answered null: then nothing was made.
///
/// # Safety
///
/// `block` belongs to the call that `create` describes, which has returned success.
pub(super) unsafe fn created_key(create: &Creates, block: Block) -> Option<Key> {
    // SAFETY: the caller's promise.
    let value = unsafe { identity(create.identity, block) };
    key(create.space, value?)
}

/// # Safety
///
/// The table gives this call's block the field that `identity` names, and the call has returned
/// success.
unsafe fn identity(identity: Identity, block: Block) -> Option<u64> {
    // SAFETY: the caller's promise.
    unsafe {
        match identity {
            Identity::Answered(answer) => block.answer(answer),
            Identity::Given(value) => Some(block.value(value)),
        }
    }
}

/// The reference that the call added.
///
/// # Safety
///
/// `block` belongs to the call that `retain` describes, which has returned success.
pub(super) unsafe fn retained(retain: &Retains, block: Block) -> Option<Event> {
    // SAFETY: the caller's promise.
    let (value, count) = unsafe {
        (
            identity(retain.identity, block),
            retain.count.map_or(1, |count| block.value(count)),
        )
    };
    let key = key(retain.space, value?)?;
    Some(Event::Retained { key, count })
}

/// The references that what the call made has beyond the first one.
///
/// # Safety
///
/// As for [`created_key`].
pub(super) unsafe fn more_references(create: &Creates, block: Block, key: Key) -> Option<Event> {
    // SAFETY: the caller's promise; the table names a field of this call's block.
    let count = unsafe { block.value(create.references?) };
    let count = count.saturating_sub(1);
    (count != 0).then_some(Event::Retained { key, count })
}

/// That `to` was made from another graph.
///
/// # Safety
///
/// `block` belongs to the call that `copies` describes.
pub(super) unsafe fn graph_copied(copies: &Copies, block: Block, to: Key) -> Event {
    // SAFETY: the caller's promise; the parameters were filled by the program.
    let (from, flags) = unsafe {
        let flags = match copies.flags {
            GraphFlags::None => 0,
            GraphFlags::Given(flags) => block.value(flags),
            GraphFlags::Parameters(offset) => block.pointee::<u64>(offset).unwrap_or(0),
        };
        (graph(block.value(copies.graph)), flags)
    };
    Event::GraphCopied {
        from,
        to,
        auto_free: flags & AUTO_FREE != 0,
    }
}

/// What a node that was added to `graph` does to memory; none if nothing, as most do. `context` is
/// who added it, and where.
///
/// # Safety
///
/// `block` belongs to the call that `node` describes, which has returned success.
pub(super) unsafe fn node(
    node: AddedNode,
    block: Block,
    graph: Key,
    context: impl FnOnce() -> (Current, Caller),
) -> Option<Event> {
    let frees = |address| Some(Event::GraphFrees { graph, address });
    let allocates = |params: AllocationNode| {
        let place = pool_place(&params.properties);
        let is_anywhere = place == Place::UNKNOWN;
        let (current, caller) = context();
        let made = Creation {
            key: key(Space::DevicePointer, params.pointer)?,
            kind: Kind::Graph,
            layer: Layer::DRIVER,
            place: if is_anywhere { current.place } else { place },
            bytes: params.bytes,
            context: current.uid,
            stream: 0,
            pool: 0,
            caller,
        };
        Some(Event::GraphAllocates { graph, made })
    };
    // SAFETY: the caller's promise: each field is, or points to, what its variant says, and the
    // driver has read it. The type of a node says which parameters stand behind it.
    unsafe {
        match node {
            AddedNode::Allocates(offset) => allocates(block.pointee(offset)?),
            AddedNode::Frees(address) => frees(block.value(address)),
            AddedNode::Any(offset) => match block.pointee::<u32>(offset)? {
                ALLOCATES => allocates(block.pointee::<NodeOf<AllocationNode>>(offset)?.parameters),
                FREES => frees(
                    block
                        .pointee::<NodeOf<FreeNode>>(offset)?
                        .parameters
                        .pointer,
                ),
                _ => None,
            },
        }
    }
}

/// A graph by its handle.
pub(super) fn graph(value: u64) -> Key {
    let space = Space::Handle(Kind::GraphHandle);
    Key { space, value }
}

/// The record of what the call made under `key`.
///
/// # Safety
///
/// As for [`created_key`].
pub(super) unsafe fn created(
    create: &Creates,
    block: Block,
    key: Key,
    current: Current,
    caller: Caller,
) -> Creation {
    // SAFETY: the caller's promise, for all four; the table names the fields of this call's block.
    let (bytes, place, stream, pool) = unsafe {
        (
            bytes(create, block, 0),
            place(create, block),
            create.stream.map_or(0, |stream| block.value(stream)),
            create.pool.map_or(0, |pool| block.value(pool)),
        )
    };
    // A context belongs to no other: the one that was current before must not take it along when
    // it ends.
    let is_another = create.kind == Kind::Context && current.handle != key.value;
    // What comes from an explicit pool is where the pool is, which the ledger knows.
    let is_in_context = place == Place::UNKNOWN && pool == 0;
    Creation {
        key,
        kind: create.kind,
        layer: Layer::DRIVER,
        place: if is_in_context { current.place } else { place },
        bytes,
        context: if is_another || create.outlives_context {
            ContextUid::default()
        } else {
            current.uid
        },
        stream,
        pool,
        caller,
    }
}

/// A creation that failed with `error`.
///
/// # Safety
///
/// `block` belongs to the call that `create` describes.
pub(super) unsafe fn creation_failed(
    create: &Creates,
    block: Block,
    error: CuResult,
    caller: Caller,
) -> Event {
    Event::CreationFailed {
        kind: create.kind,
        // SAFETY: the caller's promise.
        bytes: unsafe { bytes(create, block, error) },
        error,
        caller,
    }
}

/// What the call frees or destroys; none for null, which is no resource.
///
/// # Safety
///
/// `block` belongs to the call that `release` describes.
pub(super) unsafe fn released_key(release: &Releases, block: Block) -> Option<Key> {
    // SAFETY: the caller's promise; the table names a field of this call's block.
    key(release.space, unsafe { block.value(release.identity) })
}

/// The beginning of a call that gives `key` back.
///
/// # Safety
///
/// As for [`released_key`].
pub(super) unsafe fn release_began(
    release: &Releases,
    block: Block,
    key: Key,
    caller: Caller,
) -> Event {
    let references = |count, graph| Event::GiveBackBegan {
        key,
        count,
        graph,
        caller,
    };
    match release.share {
        Share::Whole => Event::ReleaseBegan { key, caller },
        Share::Reference => references(1, None),
        // SAFETY: the caller's promise; the table names a field of this call's block.
        Share::References(count) => references(unsafe { block.value(count) }, None),
        Share::GraphReferences {
            graph: holder,
            count,
        } => {
            // SAFETY: as above.
            let (holder, count) = unsafe { (block.value(holder), block.value(count)) };
            references(count, Some(graph(holder)))
        }
        Share::Maps(bytes) => Event::UnmapBegan {
            address: key.value,
            // SAFETY: the caller's promise; the table names a field of this call's block.
            bytes: unsafe { block.value(bytes) },
            caller,
        },
    }
}

fn key(space: Space, value: u64) -> Option<Key> {
    (value != 0).then_some(Key { space, value })
}

/// # Safety
///
/// `block` belongs to the call that `create` describes, which has returned `error`.
unsafe fn bytes(create: &Creates, block: Block, error: CuResult) -> u64 {
    // A descriptor is only as good as the driver found it.
    let is_described = matches!(error, 0 | OUT_OF_MEMORY);
    match create.bytes {
        Bytes::None => 0,
        // SAFETY: the caller's promise.
        Bytes::Given(value) => unsafe { block.value(value) },
        Bytes::Rows {
            pitch,
            width,
            height,
        } => {
            // SAFETY: the caller's promise; the pitch is read only after success.
            let (row, rows) = unsafe {
                let row = if error == 0 {
                    block.answer(pitch)
                } else {
                    None
                };
                let width = block.value(width);
                (row.unwrap_or(width), block.value(height))
            };
            row.saturating_mul(rows)
        }
        Bytes::Array(descriptor) if is_described => {
            // SAFETY: the caller's promise; the driver has read the descriptor.
            let array = unsafe { array(descriptor, block) };
            array.map_or(0, |array| array.bytes())
        }
        Bytes::ExternalBuffer(offset) if is_described => {
            // SAFETY: as above.
            let buffer = unsafe { block.pointee::<ExternalBuffer>(offset) };
            buffer.map_or(0, |buffer| buffer.bytes)
        }
        Bytes::Array(_) | Bytes::ExternalBuffer(_) => 0,
    }
}

/// The array that a call is asked for; none when the caller passed null.
///
/// # Safety
///
/// `block` belongs to a call that takes this `descriptor`, and the driver has read it.
unsafe fn array(descriptor: Descriptor, block: Block) -> Option<Array> {
    // SAFETY: the caller's promise: each field points to what its variant says.
    unsafe {
        Some(match descriptor {
            Descriptor::Array(at) => block.pointee::<ArrayDescriptor>(at)?.into(),
            Descriptor::ArrayV1(at) => block.pointee::<ArrayDescriptorV1>(at)?.into(),
            Descriptor::Array3D(at) => block.pointee::<ArrayDescriptor3D>(at)?.into(),
            Descriptor::Array3DV1(at) => block.pointee::<ArrayDescriptor3DV1>(at)?.into(),
            Descriptor::Mipmapped(at, levels) => Array {
                levels: block.value(levels) as u32,
                ..block.pointee::<ArrayDescriptor3D>(at)?.into()
            },
            Descriptor::ExternalMipmapped(at) => block.pointee::<ExternalMipmapped>(at)?.into(),
        })
    }
}

/// Where what the call makes is.
///
/// # Safety
///
/// `block` belongs to the call that `create` describes.
pub(super) unsafe fn place(create: &Creates, block: Block) -> Place {
    match create.place {
        At::Context => Place::UNKNOWN,
        At::Host => Place::HOST,
        // SAFETY: the caller's promise.
        At::Device(device) => Place::cuda(unsafe { block.value(device) } as usize),
        At::PoolProperties(offset) => {
            // SAFETY: the caller's promise; the field points to the properties the caller filled.
            let properties = unsafe { block.pointee::<PoolProperties>(offset) };
            properties.map_or(Place::UNKNOWN, |properties| pool_place(&properties))
        }
    }
}

/// Where a pool's memory is, by its `CUmemLocation`.
fn pool_place(properties: &PoolProperties) -> Place {
    let device = properties.location_id;
    match properties.location_type {
        // CU_MEM_LOCATION_TYPE_DEVICE
        1 => Place::cuda(device as usize),
        // …_HOST, …_HOST_NUMA, …_HOST_NUMA_context()
        2..=4 => Place::HOST,
        // …_DEVICE_LOCALITY_DOMAIN: the device's number is the first byte.
        6 => Place::cuda(usize::from(device.to_ne_bytes()[0])),
        _ => Place::UNKNOWN,
    }
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests;
