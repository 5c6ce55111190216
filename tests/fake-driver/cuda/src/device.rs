//! Devices: their initialisation, number and figures.

use crate::arena::Arena;
use crate::dispatch::{Out, api};
use crate::error::Error;
use crate::fault;
use crate::graph_memory::GraphMemory;
use crate::handle::Handle;
use crate::state::{self, Driver, driver};

/// The memory of an H200, as reported by `cuDeviceTotalMem`.
const TOTAL_MEMORY: u64 = 150_110_011_392;
/// The bytes of the device that a new context uses.
const CONTEXT_MEMORY: u64 = 527 << 20;
const PAGE: u64 = 2 << 20;

/// One GPU.
#[derive(Debug)]
pub(crate) struct Device {
    /// The primary context's handle, which stays the same when the context is reset.
    pub(crate) primary: Option<Handle>,
    pub(crate) linear: Arena,
    /// Linear memory with 32-bit addresses, for the first versions of the calls.
    pub(crate) low: Arena,
    pub(crate) graph: GraphMemory,
    pub(crate) default_pool: Handle,
    pub(crate) current_pool: Handle,
    /// The bytes handed out on this device, of every kind.
    pub(crate) allocated: u64,
    /// The bytes of physical memory and arrays, in whole pages.
    pub(crate) pages: u64,
}

impl Device {
    pub(crate) fn new(default_pool: Handle) -> Self {
        Self {
            primary: None,
            linear: Arena::new(PAGE),
            low: Arena::low(PAGE),
            graph: GraphMemory::default(),
            default_pool,
            current_pool: default_pool,
            allocated: 0,
            pages: 0,
        }
    }
}

impl Driver {
    pub(crate) fn device(&self, device: i32) -> Result<usize, Error> {
        usize::try_from(device)
            .ok()
            .filter(|&index| index < self.devices.len())
            .ok_or(Error::INVALID_DEVICE)
    }

    /// The bytes in use on the whole device, as `cuMemGetInfo` and vendor tools see them.
    pub(crate) fn device_used(&self, device: usize) -> u64 {
        let contexts: u64 = self
            .contexts
            .iter()
            .filter(|(_, context)| context.is_real() && context.device == device)
            .map(|(_, context)| CONTEXT_MEMORY + context.growth.unwrap_or(0).next_multiple_of(PAGE))
            .sum();
        let pools: u64 = self
            .pools
            .iter()
            .filter(|(_, pool)| pool.device == Some(device))
            .map(|(_, pool)| pool.arena.reserved())
            .sum();
        let own = &self.devices[device];
        contexts
            + pools
            + own.linear.reserved()
            + own.low.reserved()
            + own.graph.reserved()
            + own.pages
    }

    /// Fails if the device cannot hand out `size` more bytes, of which `growth` are not yet
    /// reserved.
    pub(crate) fn admit(&self, device: usize, size: u64, growth: u64) -> Result<(), Error> {
        let limit = fault::plan().oom_after;
        let over_limit =
            limit.is_some_and(|limit| self.devices[device].allocated.saturating_add(size) > limit);
        if over_limit || self.device_used(device).saturating_add(growth) > TOTAL_MEMORY {
            return Err(Error::OUT_OF_MEMORY);
        }
        Ok(())
    }
}

/// CUDA 13.0, the version of the driver whose behaviour was measured.
pub(crate) const VERSION: u32 = 13_000;

fn version() -> u32 {
    fault::plan().version.unwrap_or(VERSION)
}

/// The values of those attributes of an H200 that callers ask for, by `CUdevice_attribute`.
fn attribute(number: u32) -> i32 {
    match number {
        1 => 1024,
        2 | 3 => 1024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65_535,
        8 => 49_152,
        9 => 65_536,
        10 => 32,
        11 => i32::MAX,
        12 | 82 => 65_536,
        13 => 1_980_000,
        14 => 512,
        16 => 132,
        // Overlap, host mapping, concurrent kernels, ECC, unified addressing, priorities, caches,
        // managed memory, preemption, cooperative launch, host registration, virtual memory, IPC
        // events and similar features are all supported.
        15
        | 19
        | 31
        | 32
        | 41
        | 78..=80
        | 83
        | 89..=95
        | 98..=99
        | 102..=103
        | 113
        | 120
        | 122..=125
        | 127 => 1,
        36 => 2_619_000,
        37 => 6144,
        38 => 62_914_560,
        39 => 2048,
        40 => 3,
        51 => 32,
        75 => 9,
        76 => 0,
        81 => 233_472,
        97 => 232_448,
        106 => 32,
        111 => 1024,
        // Multicast is supported.
        132 => 1,
        115 => i32::from(!fault::plan().no_pools),
        119 => 1,
        _ => 0,
    }
}

api! {
    cuInit fn(_flags: u32) {
        state::initialise()
    }

    cuDriverGetVersion fn(version_out: Out<i32>) {
        version_out.put(version() as i32)
    }

    cuDeviceGet fn(device: Out<i32>, ordinal: i32) {
        driver()?.device(ordinal)?;
        device.put(ordinal)
    }

    cuDeviceGetCount fn(count: Out<i32>) {
        count.put(driver()?.devices.len() as i32)
    }

    cuDeviceGetName fn(name: Out<u8>, capacity: i32, device: i32) {
        driver()?.device(device)?;
        name.put_text("Fake H200", usize::try_from(capacity).map_err(|_| Error::INVALID_VALUE)?)
    }

    cuDeviceGetUuid, cuDeviceGetUuid_v2 fn(uuid: Out<[u8; 16]>, device: i32) {
        driver()?.device(device)?;
        let mut bytes = *b"fake cuda device";
        bytes[15] = device as u8;
        uuid.put(bytes)
    }

    cuDeviceTotalMem_v2 fn(bytes: Out<usize>, device: i32) {
        driver()?.device(device)?;
        bytes.put(TOTAL_MEMORY as usize)
    }

    cuDeviceGetAttribute fn(value: Out<i32>, number: u32, device: i32) {
        let ordinal = driver()?.device(device)?;
        // The value of PCI_BUS_ID distinguishes the devices.
        value.put(if number == 33 { ordinal as i32 + 1 } else { attribute(number) })
    }

    cuDeviceComputeCapability fn(major: Out<i32>, minor: Out<i32>, device: i32) {
        driver()?.device(device)?;
        major.put(attribute(75))?;
        minor.put(attribute(76))
    }

    cuDeviceGetPCIBusId fn(text: Out<u8>, capacity: i32, device: i32) {
        let ordinal = driver()?.device(device)?;
        let capacity = usize::try_from(capacity).map_err(|_| Error::INVALID_VALUE)?;
        text.put_text(&format!("0000:{:02X}:00.0", ordinal + 1), capacity)
    }

    cuMemGetInfo_v2 fn(free: Out<usize>, total: Out<usize>) {
        let driver = driver()?;
        let device = driver.current()?.device;
        free.put((TOTAL_MEMORY - driver.device_used(device)) as usize)?;
        total.put(TOTAL_MEMORY as usize)
    }
}
