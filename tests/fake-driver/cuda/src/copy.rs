//! Copies and memsets. A capture records them. Otherwise they run immediately, within the bounds of
//! the allocations.

#![expect(unsafe_code, reason = "writes to host memory behind device addresses")]

use crate::capture;
use crate::dispatch::api;
use crate::error::Error;
use crate::graph::Node;
use crate::handle::Handle;
use crate::memory::Kind;
use crate::state::{Driver, driver};

/// The kind of memory that one side of a copy must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Device,
    Host,
    /// The side may be any memory, because of unified addressing.
    Either,
}

/// One copy or memset.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transfer {
    Copy {
        to: u64,
        to_side: Side,
        from: u64,
        from_side: Side,
        size: u64,
    },
    Fill {
        to: u64,
        pattern: u32,
        width: u64,
        count: u64,
    },
}

impl Driver {
    /// Locates `size` bytes at `address`. Fails if they are not of the kind that `side` requires.
    fn reach(&self, address: u64, size: u64, side: Side) -> Result<u64, Error> {
        match (self.range_of(address), side) {
            (Some((base, range)), _) => {
                let is_inside = size <= base + range.size - address;
                // A registered range is the program's own memory, so an access may extend beyond
                // the range.
                if !is_inside && range.kind != Kind::Registered {
                    return Err(Error::INVALID_VALUE);
                }
                if range.kind.is_alias() && range.owner != 0 {
                    self.reach(range.owner + (address - base), size, Side::Device)
                } else {
                    Ok(address)
                }
            }
            (None, Side::Device) => Err(Error::INVALID_VALUE),
            (None, Side::Host | Side::Either) => Ok(address),
        }
    }

    /// Executes a transfer. The caller holds the lock, so neither side can be freed meanwhile.
    pub(crate) fn run(&mut self, transfer: Transfer) -> Result<(), Error> {
        match transfer {
            Transfer::Copy { size: 0, .. } | Transfer::Fill { count: 0, .. } => Ok(()),
            Transfer::Copy {
                to,
                to_side,
                from,
                from_side,
                size,
            } => {
                let to = self.reach(to, size, to_side)?;
                let from = self.reach(from, size, from_side)?;
                // SAFETY: both sides are live ranges of this driver, checked above, or host memory
                // that the caller of the exported function vouches for. `copy` allows them to
                // overlap.
                unsafe { std::ptr::copy(from as *const u8, to as *mut u8, size as usize) };
                Ok(())
            }
            Transfer::Fill {
                to,
                pattern,
                width,
                count,
            } => {
                let size = width.checked_mul(count).ok_or(Error::INVALID_VALUE)?;
                let to = self.reach(to, size, Side::Device)?;
                if to % width != 0 {
                    return Err(Error::INVALID_VALUE);
                }
                let pattern = pattern.to_le_bytes();
                for index in 0..count {
                    // SAFETY: `width × count` bytes at `to` lie in a live range, checked above, and
                    // `width` is at most 4.
                    unsafe {
                        std::ptr::copy_nonoverlapping(
                            pattern.as_ptr(),
                            (to + index * width) as *mut u8,
                            width as usize,
                        );
                    }
                }
                Ok(())
            }
        }
    }
}

fn now(transfer: Transfer) -> Result<(), Error> {
    let mut driver = driver()?;
    driver.current()?;
    driver.forbid_in_capture()?;
    driver.run(transfer)
}

fn in_stream(stream: Handle, transfer: Transfer) -> Result<(), Error> {
    if capture::add(stream, Node::Transfer(transfer))? {
        return Ok(());
    }
    driver()?.run(transfer)
}

fn copy(to: u64, to_side: Side, from: u64, from_side: Side, size: usize) -> Transfer {
    Transfer::Copy {
        to,
        to_side,
        from,
        from_side,
        size: size as u64,
    }
}

fn fill(to: u64, pattern: u32, width: u64, count: usize) -> Transfer {
    Transfer::Fill {
        to,
        pattern,
        width,
        count: count as u64,
    }
}

api! {
    cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds fn(to: u64, from: u64, size: usize) {
        now(copy(to, Side::Device, from, Side::Host, size))
    }

    cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds fn(to: u64, from: u64, size: usize) {
        now(copy(to, Side::Host, from, Side::Device, size))
    }

    cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds fn(to: u64, from: u64, size: usize) {
        now(copy(to, Side::Device, from, Side::Device, size))
    }

    cuMemcpy, cuMemcpy_ptds fn(to: u64, from: u64, size: usize) {
        now(copy(to, Side::Either, from, Side::Either, size))
    }

    cuMemcpyPeer, cuMemcpyPeer_ptds fn(
        to: u64, _to_context: Handle, from: u64, _from_context: Handle, size: usize,
    ) {
        now(copy(to, Side::Device, from, Side::Device, size))
    }

    cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz fn(to: u64, from: u64, size: usize, stream: Handle) {
        in_stream(stream, copy(to, Side::Device, from, Side::Host, size))
    }

    cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz fn(to: u64, from: u64, size: usize, stream: Handle) {
        in_stream(stream, copy(to, Side::Host, from, Side::Device, size))
    }

    cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz fn(to: u64, from: u64, size: usize, stream: Handle) {
        in_stream(stream, copy(to, Side::Device, from, Side::Device, size))
    }

    cuMemcpyAsync, cuMemcpyAsync_ptsz fn(to: u64, from: u64, size: usize, stream: Handle) {
        in_stream(stream, copy(to, Side::Either, from, Side::Either, size))
    }

    cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz fn(
        to: u64, _to_context: Handle, from: u64, _from_context: Handle, size: usize, stream: Handle,
    ) {
        in_stream(stream, copy(to, Side::Device, from, Side::Device, size))
    }

    cuMemsetD8_v2, cuMemsetD8_v2_ptds fn(to: u64, value: u8, count: usize) {
        now(fill(to, u32::from(value), 1, count))
    }

    cuMemsetD16_v2, cuMemsetD16_v2_ptds fn(to: u64, value: u16, count: usize) {
        now(fill(to, u32::from(value), 2, count))
    }

    cuMemsetD32_v2, cuMemsetD32_v2_ptds fn(to: u64, value: u32, count: usize) {
        now(fill(to, value, 4, count))
    }

    cuMemsetD8Async, cuMemsetD8Async_ptsz fn(to: u64, value: u8, count: usize, stream: Handle) {
        in_stream(stream, fill(to, u32::from(value), 1, count))
    }

    cuMemsetD16Async, cuMemsetD16Async_ptsz fn(to: u64, value: u16, count: usize, stream: Handle) {
        in_stream(stream, fill(to, u32::from(value), 2, count))
    }

    cuMemsetD32Async, cuMemsetD32Async_ptsz fn(to: u64, value: u32, count: usize, stream: Handle) {
        in_stream(stream, fill(to, value, 4, count))
    }
}
