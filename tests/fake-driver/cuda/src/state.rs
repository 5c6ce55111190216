//! The state of the whole driver: one value behind one lock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::arena::Arena;
use crate::capture::Capture;
use crate::context::Context;
use crate::device::Device;
use crate::error::Error;
use crate::event::Event;
use crate::exec::Exec;
use crate::fault;
use crate::graph::{Graph, Node};
use crate::green::Green;
use crate::handle::Table;
use crate::host_call::HostCall;
use crate::ipc::Opened;
use crate::memory::Allocation;
use crate::module::{Function, Library, Module};
use crate::object::Objects;
use crate::physical::{MemoryHandle, Physical};
use crate::pool::Pool;
use crate::stream::Stream;
use crate::user_object::UserObject;

/// Everything that is live on the devices, as this process sees them.
#[derive(Debug, Default)]
pub(crate) struct Driver {
    pub(crate) devices: Vec<Device>,
    pub(crate) contexts: Table<Context>,
    pub(crate) greens: Table<Green>,
    pub(crate) streams: Table<Stream>,
    pub(crate) events: Table<Event>,
    pub(crate) modules: Table<Module>,
    pub(crate) functions: Table<Function>,
    pub(crate) libraries: Table<Library>,
    pub(crate) objects: Objects,
    pub(crate) graphs: Table<Graph>,
    pub(crate) nodes: Table<Node>,
    pub(crate) execs: Table<Exec>,
    pub(crate) user_objects: Table<UserObject>,
    /// The destructors of ended user objects, which have not run yet.
    pub(crate) ended: Vec<HostCall>,
    /// Active captures, by their ids.
    pub(crate) captures: BTreeMap<u64, Capture>,
    pub(crate) pools: Table<Pool>,
    /// Every live range by its first address, whatever its kind.
    pub(crate) memory: BTreeMap<u64, Allocation>,
    /// Reserved address ranges, whether or not memory is mapped in them: first address and length.
    pub(crate) reserved_ranges: BTreeMap<u64, u64>,
    /// Physical memory and multicast objects, by internal numbers.
    pub(crate) physical: Table<Physical>,
    pub(crate) memory_handles: Table<MemoryHandle>,
    pub(crate) pinned: Arena,
    pub(crate) managed: Arena,
    /// The addresses at which memory of other processes and APIs is mapped.
    pub(crate) foreign: Arena,
    /// Mappings of IPC handles, by their addresses.
    pub(crate) opened: BTreeMap<u64, Opened>,
    /// The number of contexts created since the process began.
    pub(crate) contexts_made: u32,
    /// The number of ids given so far to contexts and to views of green contexts. Ids are never
    /// reused.
    pub(crate) context_uids: u32,
}

static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(|| {
    let count = fault::device_count();
    let mut driver = Driver {
        physical: Table::numbered(),
        ..Driver::default()
    };
    for ordinal in 0..count {
        let default_pool = driver.pools.insert(Pool::default_of(ordinal));
        driver.devices.push(Device::new(default_pool));
    }
    Mutex::new(driver)
});

/// 0 before `cuInit`, 1 after it, 2 while the process exits.
static PHASE: AtomicU8 = AtomicU8::new(0);
/// The process that called `cuInit`. A forked child may not use the driver.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Marks the driver as usable, until the process runs its exit handlers.
pub(crate) fn initialise() -> Result<(), Error> {
    if fault::device_count() == 0 {
        return Err(Error::NO_DEVICE);
    }
    // A thread that sees the driver initialised must also see which process initialised it.
    let _ = PROCESS.compare_exchange(0, std::process::id(), Ordering::AcqRel, Ordering::Acquire);
    match PHASE.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            crate::control::at_exit(|| PHASE.store(2, Ordering::Release));
            Ok(())
        }
        Err(2) => Err(Error::DEINITIALIZED),
        Err(_) => driver().map(drop),
    }
}

/// The driver's state, if this process may use it.
pub(crate) fn driver() -> Result<MutexGuard<'static, Driver>, Error> {
    match PHASE.load(Ordering::Acquire) {
        0 => Err(Error::NOT_INITIALIZED),
        1 if PROCESS.load(Ordering::Acquire) == std::process::id() => Ok(state()),
        1 => Err(Error::NOT_INITIALIZED),
        _ => Err(Error::DEINITIALIZED),
    }
}

/// The state, even if this process may not use the driver, for the control functions.
pub(crate) fn state() -> MutexGuard<'static, Driver> {
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner)
}
