//! Reads the allocated and reserved bytes of stream-ordered pools and of graph memory, and releases
//! their unused memory.
//!
//! The attributes are documented at
//! [`CUmemPool_attribute`](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html).

#![expect(unsafe_code, reason = "passes raw handles to the driver's C functions")]

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

/// Returns the usage of the pools of every device in use. With `empties`, each pool first releases
/// its unused memory, unless a stream capture is in progress, which emptying a pool could break.
///
/// Memory counts as used until the host has observed that its asynchronous free is complete, so
/// [synchronise](super::synchronise::contexts) first.
pub(crate) fn readings(empties: bool) -> Vec<LayerUsage> {
    read_all(RESERVED, empties && !captures::active())
}

/// Returns what [`readings`] returns without `empties`, except that for each stream-ordered pool,
/// the result contains the peak of its reserved bytes since the last call to
/// [`restart_most_reserved`] instead of the current value.
pub(crate) fn most_reserved() -> Vec<LayerUsage> {
    read_all(MAX_RESERVED, false)
}

/// Resets the peaks that [`most_reserved`] returns.
pub(crate) fn restart_most_reserved() {
    with_pools(|driver, _, name, pool| {
        if name != PoolName::Graph {
            // If this fails, the pool keeps its old peak, so the result is too large but never too
            // small.
            // SAFETY: `with_pools` keeps the pool live.
            let _ = unsafe { driver.reset_pool_attribute(pool, MAX_RESERVED) };
        }
    });
}

fn read_all(reserved: c_int, empties: bool) -> Vec<LayerUsage> {
    let mut readings = Vec::new();
    with_pools(|driver, place, name, pool| {
        let is_graph = name == PoolName::Graph;
        let read = || match is_graph {
            true => OF_GRAPHS.map(|it| driver.graph_attribute(pool as c_int, it)),
            // SAFETY: `with_pools` keeps the pool live.
            false => [USED, reserved].map(|it| unsafe { driver.pool_attribute(pool, it) }),
        };
        let mut figures = read();
        // A pool that holds nothing has nothing to release.
        if empties && figures[1] != Ok(0) {
            // A pool that cannot be emptied shows up in the second reading.
            let _ = match is_graph {
                true => driver.trim_graphs(pool as c_int),
                // SAFETY: `with_pools` keeps the pool live.
                false => unsafe { driver.trim_pool(pool, 0) },
            };
            figures = read();
        }
        if let [Ok(allocated), Ok(reserved)] = figures {
            readings.push(LayerUsage {
                // An asynchronous free takes effect only when its stream reaches it.
                allocated,
                reserved: Some(reserved),
                ..LayerUsage::new(LayerName::Pool(name), place)
            });
        }
    });
    readings
}

/// Calls `each` with the place, the name and the handle of every known pool and of the graph memory
/// of every device in use. The handle of graph memory is the ordinal of its device. No pool is
/// destroyed during the call. Does nothing if the driver cannot be called.
fn with_pools(mut each: impl FnMut(&Driver, Place, PoolName, u64)) {
    let _quiet = quiet();
    // In a forked child, the driver may not be called, and the locks may be held forever.
    let Some(driver) = driver::get() else {
        return;
    };
    let (Some(_contexts), Some(_pools)) = (CONTEXT_EXCLUSION.read(), POOL_EXCLUSION.read()) else {
        return;
    };
    let devices = devices_in_use();
    let explicit = ledger::live().pools();
    for &device in &devices {
        // A device that does not support stream-ordered allocation has no pool.
        if let Ok(default) = driver.default_pool(device_handle(device)) {
            each(driver, Place::cuda(device), PoolName::Default, default);
            let is_known = |pool: u64| {
                let mut explicit = explicit.iter();
                pool == default || explicit.any(|it| it.made.key.value() == pool)
            };
            if let Ok(pool) = driver.current_pool(device_handle(device))
                && !is_known(pool)
            {
                each(driver, Place::cuda(device), PoolName::Other(pool), pool);
            }
        }
    }
    for pool in &explicit {
        let handle = pool.made.key.value();
        each(driver, pool.made.place, PoolName::Other(handle), handle);
    }
    for &device in &devices {
        each(driver, Place::cuda(device), PoolName::Graph, device as u64);
    }
}
