//! Reads the allocated and reserved bytes of stream-ordered pools and of graph memory, and releases
//! their unused memory.
//!
//! The attributes are documented at
//! [`CUmemPool_attribute`](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html).

#![expect(unsafe_code, reason = "calls the driver with raw handles")]

use std::ffi::c_int;

use super::captures;
use super::contexts::devices_in_use;
use super::driver::{self, Driver, device_handle};
use super::exclusion::{CONTEXT_EXCLUSION, POOL_EXCLUSION};
use crate::judge::{LayerName, LayerUsage};
use crate::ledger::{self, Place, PoolName};
use crate::recursion_guard::quiet;

/// `CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT`
const RESERVED: c_int = 5;
/// `CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH`, which is the peak since the last reset.
const MAX_RESERVED: c_int = 6;
/// `CU_MEMPOOL_ATTR_USED_MEM_CURRENT`
const USED: c_int = 7;
/// `CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT`, `CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT`
const OF_GRAPHS: [c_int; 2] = [0, 2];

struct LivePool {
    place: Place,
    name: PoolName,
    /// The pool's handle or, for graph memory, the number of the device.
    handle: u64,
}

/// Returns the usage of the pools of every device in use.
pub(crate) fn readings() -> Vec<LayerUsage> {
    read_all(RESERVED)
}

/// Like [`readings`], except that for each stream-ordered pool, the result contains the peak of its
/// reserved bytes since the last call to [`restart_most_reserved`] instead of the current value.
pub(crate) fn most_reserved() -> Vec<LayerUsage> {
    read_all(MAX_RESERVED)
}

/// Resets the peaks that [`most_reserved`] returns.
pub(crate) fn restart_most_reserved() {
    with_pools(|driver, pools| {
        for pool in pools.iter().filter(|pool| pool.name != PoolName::Graph) {
            // If this fails, the pool keeps its old peak, so the result is too large but never too
            // small.
            // SAFETY: `with_pools` keeps the pool live.
            let _ = unsafe { driver.reset_pool_attribute(pool.handle, MAX_RESERVED) };
        }
    });
}

fn read_all(reserved: c_int) -> Vec<LayerUsage> {
    let read = with_pools(|driver, pools| {
        let read = pools.iter().filter_map(|pool| {
            let [allocated, reserved] = match pool.name {
                PoolName::Graph => {
                    OF_GRAPHS.map(|it| driver.graph_attribute(pool.handle as c_int, it))
                }
                // SAFETY: `with_pools` keeps the pool live.
                _ => [USED, reserved].map(|it| unsafe { driver.pool_attribute(pool.handle, it) }),
            };
            Some(LayerUsage {
                // An asynchronous free takes effect only when its stream reaches it.
                allocated: allocated.ok()?,
                reserved: Some(reserved.ok()?),
                ..LayerUsage::new(LayerName::Pool(pool.name), pool.place)
            })
        });
        read.collect()
    });
    read.unwrap_or_default()
}

/// Releases the unused memory of the pools of every device in use. If a stream capture is in
/// progress, releases nothing and returns false, because releasing memory could break the capture.
///
/// Memory counts as used until the host has observed that its asynchronous free is complete, so
/// [synchronise](super::synchronise::contexts) first.
pub(crate) fn empty() -> bool {
    if captures::active() {
        return false;
    }
    // A pool that cannot be trimmed shows up in the next reading.
    with_pools(|driver, pools| {
        for pool in pools {
            let _ = match pool.name {
                PoolName::Graph => driver.trim_graphs(pool.handle as c_int),
                // SAFETY: `with_pools` keeps the pool live.
                _ => unsafe { driver.trim_pool(pool.handle, 0) },
            };
        }
    });
    true
}

/// Calls `body` with all known pools and with the graph memory of the devices in use, all of which
/// stay live during the call. Returns `None` if the driver cannot be called.
fn with_pools<T>(body: impl FnOnce(&Driver, &[LivePool]) -> T) -> Option<T> {
    let _quiet = quiet();
    let driver = driver::get()?;
    let _readings = (CONTEXT_EXCLUSION.read()?, POOL_EXCLUSION.read()?);
    let devices = devices_in_use();
    let explicit = explicit_pools();
    let of_device = |device, name, handle| LivePool {
        place: Place::cuda(device),
        name,
        handle,
    };
    let mut pools = Vec::new();
    for &device in &devices {
        // A device that does not support stream-ordered allocation has no pool.
        if let Ok(default) = driver.default_pool(device_handle(device)) {
            let current = driver.current_pool(device_handle(device)).ok();
            let is_explicit = |pool: u64| explicit.iter().any(|it| it.handle == pool);
            let current = current.filter(|pool| *pool != default && !is_explicit(*pool));
            pools.push(of_device(device, PoolName::Default, default));
            pools.extend(current.map(|pool| of_device(device, PoolName::Other(pool), pool)));
        }
    }
    pools.extend(explicit);
    let graphs = |&device| of_device(device, PoolName::Graph, device as u64);
    pools.extend(devices.iter().map(graphs));
    Some(body(driver, &pools))
}

/// Returns the pools that the program has created and not destroyed.
fn explicit_pools() -> Vec<LivePool> {
    let pools = ledger::live().pools().into_iter();
    let pool = pools.map(|record| LivePool {
        place: record.made.place,
        name: PoolName::Other(record.made.key.value()),
        handle: record.made.key.value(),
    });
    pool.collect()
}
