//! Stream-ordered pools and graph memory: what is handed out, what is held, and giving it back.
//!
//! What the attributes mean:
//! [`CUmemPool_attribute`](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html).

#![expect(unsafe_code, reason = "pools are named by their handles")]

use super::captures;
use super::contexts::devices_in_use;
use super::driver::{self, Driver, GraphAttribute, PoolAttribute};
use super::exclusion::{CONTEXTS_AND_POOLS, Reading};
use super::quiet::quiet;
use crate::ledger::event::{CuResult, Key, Space};
use crate::ledger::{self, Kind, Place, PoolName};

/// What one pool holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolReading {
    /// Where its memory is.
    pub(crate) place: Place,
    /// Which pool.
    pub(crate) pool: PoolName,
    /// Bytes handed out and not given back. A free counts when its stream has come to it.
    pub(crate) allocated: u64,
    /// Bytes held from the device, handed out or cached.
    pub(crate) reserved: u64,
}

/// The pools of every device in use.
pub(crate) fn readings() -> Vec<PoolReading> {
    read_all(PoolAttribute::Reserved)
}

/// As [`readings`], with the most that each stream-ordered pool has reserved since
/// [`restart_most_reserved`].
pub(crate) fn most_reserved() -> Vec<PoolReading> {
    read_all(PoolAttribute::MostReserved)
}

/// Lets the most that each stream-ordered pool has reserved begin anew.
pub(crate) fn restart_most_reserved() {
    let _quiet = quiet();
    let (Some(driver), Some(reading)) = (driver::get(), CONTEXTS_AND_POOLS.read()) else {
        return;
    };
    for pool in live_pools(driver, &reading, &devices_in_use()) {
        // A pool that keeps its old figure shows too much, never too little.
        // SAFETY: `pool` is live, for `reading` was begun before it was looked up.
        let _ = unsafe { driver.restart_most_reserved(pool.handle) };
    }
}

fn read_all(reserved: PoolAttribute) -> Vec<PoolReading> {
    let _quiet = quiet();
    let (Some(driver), Some(reading)) = (driver::get(), CONTEXTS_AND_POOLS.read()) else {
        return Vec::new();
    };
    let devices = devices_in_use();
    let mut found = Vec::new();
    for pool in live_pools(driver, &reading, &devices) {
        // SAFETY: `pool` is live, for `reading` was begun before it was looked up.
        found.extend(unsafe { read_pool(driver, &pool, reserved) });
    }
    found.extend(
        devices
            .iter()
            .filter_map(|device| read_graphs(driver, *device).ok()),
    );
    found
}

/// Gives back what these pools hold and nobody uses; a pool that is gone meanwhile is passed over.
/// False when a stream capture is in progress: nothing was emptied, for it might break the capture.
///
/// An asynchronous free whose completion the host has not observed still counts as used, so
/// [synchronise](super::quiesce::synchronise) first.
pub(crate) fn empty(pools: &[PoolReading]) -> bool {
    let _quiet = quiet();
    if captures::active() {
        return false;
    }
    let (Some(driver), Some(reading)) = (driver::get(), CONTEXTS_AND_POOLS.read()) else {
        return true;
    };
    let named = |place, name| {
        let is = |pool: &&PoolReading| pool.place == place && pool.pool == name;
        pools.iter().any(|pool| is(&pool))
    };
    let devices = devices_in_use();
    for pool in live_pools(driver, &reading, &devices) {
        if named(pool.place, pool.name) {
            // A pool that cannot be trimmed shows in the next reading.
            // SAFETY: `pool` is live, for `reading` was begun before it was looked up.
            let _ = unsafe { driver.trim_pool(pool.handle) };
        }
    }
    for device in devices {
        if named(Place::cuda(device), PoolName::Graph) {
            // As above.
            let _ = driver.trim_graphs(device);
        }
    }
    true
}

/// A pool that is live.
#[derive(Clone, Copy, Debug)]
struct LivePool {
    place: Place,
    name: PoolName,
    handle: u64,
}

/// Every pool known. They stay live until `_reading` ends.
fn live_pools(driver: &Driver, _reading: &Reading, devices: &[usize]) -> Vec<LivePool> {
    let mut pools = Vec::new();
    for &device in devices {
        let place = Place::cuda(device);
        // A device without stream-ordered allocation has none.
        let Ok(default) = driver.default_pool(device) else {
            continue;
        };
        pools.push(LivePool {
            place,
            name: PoolName::Default,
            handle: default,
        });
        match driver.current_pool(device) {
            Ok(current) if current != default && !is_in_ledger(current) => pools.push(LivePool {
                place,
                name: PoolName::Other(current),
                handle: current,
            }),
            _ => {}
        }
    }
    pools.extend(explicit_pools());
    pools
}

fn is_in_ledger(pool: u64) -> bool {
    let key = Key {
        space: Space::Handle(Kind::Pool),
        value: pool,
    };
    ledger::live().get(&key).is_some()
}

/// The pools that the program made and has not destroyed.
fn explicit_pools() -> Vec<LivePool> {
    let ledger = ledger::live();
    // A search visits every record; most programs have no pool of their own.
    if ledger.live(Kind::Pool) == 0 {
        return Vec::new();
    }
    let pools = ledger.select(|record| record.made.kind == Kind::Pool);
    let pool = pools.into_iter().map(|record| LivePool {
        place: record.made.place,
        name: PoolName::Other(record.made.key.value),
        handle: record.made.key.value,
    });
    pool.collect()
}

/// # Safety
///
/// The pool stays live meanwhile.
unsafe fn read_pool(
    driver: &Driver,
    pool: &LivePool,
    reserved: PoolAttribute,
) -> Result<PoolReading, CuResult> {
    // SAFETY: the caller's promise.
    let attribute = |attribute| unsafe { driver.pool_attribute(pool.handle, attribute) };
    Ok(PoolReading {
        place: pool.place,
        pool: pool.name,
        allocated: attribute(PoolAttribute::Used)?,
        reserved: attribute(reserved)?,
    })
}

fn read_graphs(driver: &Driver, device: usize) -> Result<PoolReading, CuResult> {
    Ok(PoolReading {
        place: Place::cuda(device),
        pool: PoolName::Graph,
        allocated: driver.graph_attribute(device, GraphAttribute::Used)?,
        reserved: driver.graph_attribute(device, GraphAttribute::Reserved)?,
    })
}
