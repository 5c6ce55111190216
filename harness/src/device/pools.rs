//! Stream-ordered pools and graph memory: reads what is allocated and reserved, and releases what
//! is unused.
//!
//! The attributes are documented at
//! [`CUmemPool_attribute`](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html).

#![expect(unsafe_code, reason = "calls the driver with raw handles")]

use std::ffi::c_int;

use super::captures;
use super::contexts::devices_in_use;
use super::driver::{self, Driver};
use super::exclusion::CONTEXTS_AND_POOLS;
use crate::judge::{LayerName, LayerUsage};
use crate::ledger::event::{Key, Space};
use crate::ledger::{self, Kind, Place, PoolName};
use crate::recursion_guard::quiet;

/// `CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT`
const RESERVED: c_int = 5;
/// `CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH`: the peak since the last reset.
const MAX_RESERVED: c_int = 6;
/// `CU_MEMPOOL_ATTR_USED_MEM_CURRENT`
const USED: c_int = 7;
/// `CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT`, `CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT`
const OF_GRAPHS: [c_int; 2] = [0, 2];

/// A live pool.
struct LivePool {
    place: Place,
    name: PoolName,
    handle: u64,
}

/// Returns the usage of the pools of every device in use.
pub(crate) fn readings() -> Vec<LayerUsage> {
    read_all(RESERVED)
}

/// Like [`readings`], with the peak that each stream-ordered pool has reserved since
/// [`restart_most_reserved`].
pub(crate) fn most_reserved() -> Vec<LayerUsage> {
    read_all(MAX_RESERVED)
}

/// Resets the peak that each stream-ordered pool has reserved.
pub(crate) fn restart_most_reserved() {
    with_pools(|driver, _, pools| {
        for pool in pools {
            // A pool that keeps its old peak shows too much, never too little.
            // SAFETY: `with_pools` keeps the pool live.
            let _ = unsafe { driver.restart(pool.handle, MAX_RESERVED) };
        }
    });
}

fn read_all(reserved: c_int) -> Vec<LayerUsage> {
    let read = with_pools(|driver, devices, pools| {
        let of_pools = pools.iter().map(|pool| {
            // SAFETY: `with_pools` keeps the pool live.
            let attribute = |attribute| unsafe { driver.pool_attribute(pool.handle, attribute) };
            let figures = (attribute(USED), attribute(reserved));
            (pool.place, pool.name, figures)
        });
        let of_graphs = devices.iter().map(|device| {
            let [used, reserved] = OF_GRAPHS.map(|it| driver.graph_attribute(*device, it));
            (Place::cuda(*device), PoolName::Graph, (used, reserved))
        });
        let read = of_pools
            .chain(of_graphs)
            .filter_map(|(place, pool, figures)| {
                Some(LayerUsage {
                    // A free takes effect when its stream reaches it.
                    allocated: figures.0.ok()?,
                    reserved: Some(figures.1.ok()?),
                    ..LayerUsage::new(LayerName::Pool(pool), place)
                })
            });
        read.collect()
    });
    read.unwrap_or_default()
}

/// Releases the unused memory of these pools; a pool that no longer exists is skipped. Returns
/// false if a stream capture is in progress: then nothing is released, because that could break the
/// capture.
///
/// An asynchronous free whose completion the host has not observed still counts as used, so
/// [synchronise](super::synchronise::contexts) first.
pub(crate) fn empty(wanted: &[LayerUsage]) -> bool {
    if captures::active() {
        return false;
    }
    let is_wanted = |place, name| {
        let is = |pool: &LayerUsage| pool.place == place && pool.name == LayerName::Pool(name);
        wanted.iter().any(is)
    };
    // A pool that cannot be trimmed shows in the next reading.
    with_pools(|driver, devices, pools| {
        for pool in pools.iter().filter(|pool| is_wanted(pool.place, pool.name)) {
            // SAFETY: `with_pools` keeps the pool live.
            let _ = unsafe { driver.trim_pool(pool.handle) };
        }
        for &device in devices {
            if is_wanted(Place::cuda(device), PoolName::Graph) {
                let _ = driver.trim_graphs(device);
            }
        }
    });
    true
}

/// Calls `body` with the devices in use and all known pools, which stay live meanwhile. Returns
/// `None` if no driver can be asked.
fn with_pools<T>(body: impl FnOnce(&Driver, &[usize], &[LivePool]) -> T) -> Option<T> {
    let _quiet = quiet();
    let (driver, _reading) = (driver::get()?, CONTEXTS_AND_POOLS.read()?);
    let devices = devices_in_use();
    let mut pools = Vec::new();
    for &device in &devices {
        // A device without stream-ordered allocation has no pool.
        let Ok(default) = driver.default_pool(device) else {
            continue;
        };
        let current = driver.current_pool(device).ok();
        let current = current.filter(|pool| *pool != default && !is_in_ledger(*pool));
        let of_device = [(PoolName::Default, default)].into_iter();
        let of_device = of_device.chain(current.map(|pool| (PoolName::Other(pool), pool)));
        pools.extend(of_device.map(|(name, handle)| LivePool {
            place: Place::cuda(device),
            name,
            handle,
        }));
    }
    pools.extend(explicit_pools());
    Some(body(driver, &devices, &pools))
}

fn is_in_ledger(pool: u64) -> bool {
    let key = Key::new(Space::Handle(Kind::Pool), pool);
    ledger::live().get(&key).is_some()
}

/// Returns the pools that the program has created and not destroyed.
fn explicit_pools() -> Vec<LivePool> {
    let ledger = ledger::live();
    // A search visits every record, and most programs have no pool of their own.
    if ledger.live(Kind::Pool) == 0 {
        return Vec::new();
    }
    let pools = ledger.select(|record| record.made.kind == Kind::Pool);
    let pool = pools.into_iter().map(|record| LivePool {
        place: record.made.place,
        name: PoolName::Other(record.made.key.value()),
        handle: record.made.key.value(),
    });
    pool.collect()
}
