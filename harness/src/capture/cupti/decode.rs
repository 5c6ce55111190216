//! From a call's parameters to the words of the ledger. Pure: everything a call tells is in its
//! block.

#![expect(
    unsafe_code,
    reason = "the blocks are C structs, read through their address"
)]

use super::call::{At, Bytes, Creates, Identity, Releases};
use super::field::Block;
use super::params::PoolProperties;
use crate::ledger::event::{Caller, ContextUid, Creation, CuResult, Event, Key, Space};
use crate::ledger::{Kind, Layer, Place};

/// The context current to the calling thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current {
    /// Its handle; 0 is none.
    pub(super) handle: u64,
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
    // SAFETY: the caller's promise; the table names the fields of this call's block.
    let value = unsafe {
        match create.identity {
            Identity::Answered(answer) => block.answer(answer)?,
            Identity::Given(value) => block.value(value),
        }
    };
    key(create.space, value)
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
) -> Event {
    // SAFETY: the caller's promise, for all four; the table names the fields of this call's block.
    let (bytes, place, stream, pool) = unsafe {
        (
            bytes(create, block, true),
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
    Event::Created(Creation {
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
    })
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
        bytes: unsafe { bytes(create, block, false) },
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

fn key(space: Space, value: u64) -> Option<Key> {
    (value != 0).then_some(Key { space, value })
}

/// # Safety
///
/// As for [`created_key`]; `answered` says whether the call has returned success.
unsafe fn bytes(create: &Creates, block: Block, answered: bool) -> u64 {
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
                let row = if answered { block.answer(pitch) } else { None };
                let width = block.value(width);
                (row.unwrap_or(width), block.value(height))
            };
            row.saturating_mul(rows)
        }
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
