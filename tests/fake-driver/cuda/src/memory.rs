//! Live ranges of every kind, and the calls for memory that belongs to a context: linear, pitched
//! and managed.

use crate::arena::{self, Arena};
use crate::device::Device;
use crate::dispatch::{Out, api};
use crate::error::Error;
use crate::handle::Handle;
use crate::state::{Driver, driver};

/// The kind of a range, which determines what may free it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Linear,
    Pitched,
    Managed,
    StreamOrdered,
    Pinned,
    Registered,
    /// A graph's allocation node, from its first launch until it is freed.
    Graph,
    /// A reserved address range with physical memory in it.
    Mapped,
    /// Memory of another process, opened by an IPC handle.
    Ipc,
    /// An allocation from another process's pool.
    PoolImport,
    /// A buffer in an import from another API.
    External,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Linear,
        Self::Pitched,
        Self::Managed,
        Self::StreamOrdered,
        Self::Pinned,
        Self::Registered,
        Self::Graph,
        Self::Mapped,
        Self::Ipc,
        Self::PoolImport,
        Self::External,
    ];

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The name of the kind in `fake_cuda_live`.
    fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Pitched => "pitched",
            Self::Managed => "managed",
            Self::StreamOrdered => "stream-ordered",
            Self::Pinned => "pinned",
            Self::Registered => "registered",
            Self::Graph => "graph-memory",
            Self::Mapped => "mapped",
            Self::Ipc => "ipc",
            Self::PoolImport => "pool-import",
            Self::External => "external-buffer",
        }
    }

    /// Whether the range counts on its device. Host memory and memory of other processes do not
    /// count, nor do address ranges, because their physical memory already counts.
    fn counts(self) -> bool {
        matches!(
            self,
            Self::Linear | Self::Pitched | Self::Managed | Self::StreamOrdered | Self::Graph
        )
    }

    /// Whether `cuMemFree` accepts a range of this kind.
    fn is_freed_as_device_memory(self) -> bool {
        self.counts() || matches!(self, Self::PoolImport | Self::External)
    }

    /// Whether the range is an alias of a range that another process, or this one, has shared.
    pub(crate) fn is_alias(self) -> bool {
        matches!(self, Self::Ipc | Self::PoolImport)
    }
}

/// One live range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocation {
    pub(crate) kind: Kind,
    /// The requested size in bytes; pitch × height for pitched memory.
    pub(crate) size: u64,
    pub(crate) device: usize,
    /// The context in which the range was created; 0 if it belongs to none.
    pub(crate) context: Handle,
    /// The pool of a stream-ordered range, the physical memory of a mapped range, or the original
    /// of an alias. Otherwise 0.
    pub(crate) owner: Handle,
    pub(crate) flags: u32,
}

impl Device {
    /// The arena for linear memory. With `low`, its addresses have 32 bits, as the first versions
    /// of the calls require.
    fn linear_arena(&mut self, low: bool) -> &mut Arena {
        if low { &mut self.low } else { &mut self.linear }
    }
}

impl Driver {
    /// Records a range that was just handed out.
    pub(crate) fn record(&mut self, address: u64, allocation: Allocation) {
        if allocation.kind.counts() {
            self.devices[allocation.device].allocated += allocation.size;
        }
        self.memory.insert(address, allocation);
    }

    /// Assigns an address to memory of another process or API.
    pub(crate) fn record_foreign(
        &mut self,
        kind: Kind,
        size: u64,
        device: usize,
        context: Handle,
        owner: u64,
    ) -> Result<u64, Error> {
        let address = self.foreign.allocate(size).ok_or(Error::OUT_OF_MEMORY)?;
        let allocation = Allocation {
            kind,
            size,
            device,
            context,
            owner,
            flags: 0,
        };
        self.record(address, allocation);
        Ok(address)
    }

    /// The live range that contains `address`.
    pub(crate) fn range_of(&self, address: u64) -> Option<(u64, &Allocation)> {
        let (&base, allocation) = self.memory.range(..=address).next_back()?;
        (address < base + allocation.size).then_some((base, allocation))
    }

    /// Removes a live range. `observed` is false if the host has not observed the completion of the
    /// free.
    pub(crate) fn release(&mut self, address: u64, observed: bool) {
        let Some(allocation) = self.memory.remove(&address) else {
            return;
        };
        let device = &mut self.devices[allocation.device];
        if allocation.kind.counts() {
            device.allocated -= allocation.size;
        }
        let size = allocation.size;
        match allocation.kind {
            Kind::Linear | Kind::Pitched => {
                let arena = device.linear_arena(device.low.has(address));
                arena.free(address, size, true);
                arena.trim(0);
            }
            Kind::Managed => self.managed.free(address, size, true),
            Kind::Pinned => self.pinned.free(address, size, true),
            Kind::StreamOrdered => self.release_to_pool(allocation.owner, address, size, observed),
            Kind::Graph => device.graph.release(address),
            Kind::Ipc => {
                self.opened.remove(&address);
                self.foreign.free(address, size, true);
            }
            Kind::PoolImport | Kind::External => self.foreign.free(address, size, true),
            Kind::Registered | Kind::Mapped => {}
        }
    }

    fn allocate_linear(&mut self, kind: Kind, size: u64, low: bool) -> Result<u64, Error> {
        let context = self.current_handle()?;
        self.forbid_in_capture()?;
        if size == 0 {
            return Err(Error::INVALID_VALUE);
        }
        let device = self.contexts.get(context).expect("it is current").device;
        // No device has this much memory, and rounding must not overflow.
        if size > 1 << 48 {
            return Err(Error::OUT_OF_MEMORY);
        }
        // Managed memory moves to the device page by page when it is used.
        let growth = if kind == Kind::Managed {
            0
        } else {
            self.devices[device].linear_arena(low).growth(size)
        };
        self.admit(device, size, growth)?;
        let arena = if kind == Kind::Managed {
            &mut self.managed
        } else {
            self.devices[device].linear_arena(low)
        };
        let address = arena.allocate(size).ok_or(Error::OUT_OF_MEMORY)?;
        self.record(
            address,
            Allocation {
                kind,
                size,
                device,
                context,
                owner: 0,
                flags: 0,
            },
        );
        Ok(address)
    }
}

api! {
    cuMemAlloc_v2 fn(address: Out<u64>, size: usize) {
        if address.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        address.put(driver()?.allocate_linear(Kind::Linear, size as u64, false)?)
    }

    // Stands for a variant that a future CUDA release adds.
    cuMemAlloc_v99 fn(address: Out<u64>, size: usize, _more: u64) {
        if address.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        address.put(driver()?.allocate_linear(Kind::Linear, size as u64, false)?)
    }

    cuMemAllocPitch_v2 fn(address: Out<u64>, pitch: Out<usize>, width: usize, height: usize, element_size: u32) {
        if address.is_null() || pitch.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let (at, row) = allocate_pitched(width as u64, height as u64, element_size, false)?;
        address.put(at)?;
        pitch.put(row as usize)
    }

    cuMemAlloc fn(address: Out<u32>, size: u32) {
        if address.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        address.put(driver()?.allocate_linear(Kind::Linear, u64::from(size), true)? as u32)
    }

    cuMemAllocPitch fn(address: Out<u32>, pitch: Out<u32>, width: u32, height: u32, element_size: u32) {
        if address.is_null() || pitch.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let (at, row) = allocate_pitched(u64::from(width), u64::from(height), element_size, true)?;
        address.put(at as u32)?;
        pitch.put(row as u32)
    }

    cuMemAllocManaged fn(address: Out<u64>, size: usize, flags: u32) {
        // The flags attach the memory to all streams, or to the host.
        if address.is_null() || !matches!(flags, 1 | 2) {
            return Err(Error::INVALID_VALUE);
        }
        address.put(driver()?.allocate_linear(Kind::Managed, size as u64, false)?)
    }

    cuMemFree_v2 fn(address: u64) {
        free(address)
    }

    cuMemFree fn(address: u32) {
        free(u64::from(address))
    }

    cuMemGetAddressRange_v2 fn(base_out: Out<u64>, size: Out<usize>, address: u64) {
        let driver = driver()?;
        driver.current()?;
        let (base, allocation) = driver.range_of(address).ok_or(Error::NOT_FOUND)?;
        base_out.offer(base);
        size.offer(allocation.size as usize);
        Ok(())
    }

    cuMemAdvise_v2 fn(address: u64, _size: usize, _advice: u32, _location: u64) {
        managed(address)
    }

    cuMemPrefetchAsync_v2 fn(address: u64, _size: usize, _location: u64, _flags: u32, _stream: Handle) {
        managed(address)
    }
}

fn free(address: u64) -> Result<(), Error> {
    let mut driver = driver()?;
    driver.current_or_none()?;
    if address == 0 {
        return Ok(());
    }
    driver.forbid_in_capture()?;
    match driver
        .memory
        .get(&address)
        .map(|allocation| allocation.kind)
    {
        Some(kind) if kind.is_freed_as_device_memory() => {
            driver.release(address, true);
            Ok(())
        }
        _ => Err(Error::INVALID_VALUE),
    }
}

/// Allocates rows of `width` bytes. Returns their address and pitch.
fn allocate_pitched(
    width: u64,
    height: u64,
    element_size: u32,
    low: bool,
) -> Result<(u64, u64), Error> {
    if !matches!(element_size, 4 | 8 | 16) {
        return Err(Error::INVALID_VALUE);
    }
    let row = arena::rounded(width);
    let size = row.checked_mul(height).ok_or(Error::OUT_OF_MEMORY)?;
    Ok((driver()?.allocate_linear(Kind::Pitched, size, low)?, row))
}

/// Fails unless the address is in managed memory, as advice and prefetches require. They change
/// nothing here.
fn managed(address: u64) -> Result<(), Error> {
    let driver = driver()?;
    driver.current()?;
    match driver.range_of(address) {
        Some((_, allocation)) if allocation.kind == Kind::Managed => Ok(()),
        _ => Err(Error::INVALID_VALUE),
    }
}
