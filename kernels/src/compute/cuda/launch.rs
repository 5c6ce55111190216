//! Kernel launches.
#![expect(unsafe_code, reason = "a launch passes raw pointers to compiled code")]

use std::ffi::c_void;
use std::marker::PhantomData;

use cudarc::driver::{DeviceRepr, result};

use crate::cuda::{Cuda, Kernel};
use crate::error::{Error, Result};

/// One argument of a kernel: a pointer to its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Argument<'a>(*mut c_void, PhantomData<&'a ()>);

impl<'a, T: DeviceRepr> From<&'a T> for Argument<'a> {
    fn from(value: &'a T) -> Self {
        Self(std::ptr::from_ref(value).cast_mut().cast(), PhantomData)
    }
}

/// The number of blocks, and the number of threads in each block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) blocks: u32,
    pub(super) threads: (u32, u32),
}

/// Kernels loop over elements that their grid does not cover, so more blocks would gain nothing.
const MAX_BLOCKS: u64 = 1 << 16;

impl Grid {
    /// One thread per element, limited by `MAX_BLOCKS`.
    pub(super) fn over(count: u64) -> Self {
        const THREADS: u32 = 256;
        Self::lines(count.div_ceil(u64::from(THREADS)), THREADS)
    }

    /// One block per line, limited by `MAX_BLOCKS`.
    pub(super) fn lines(lines: u64, threads: u32) -> Self {
        let blocks = u32::try_from(lines.min(MAX_BLOCKS)).expect("the bound is small");
        Self {
            blocks,
            threads: (threads, 1),
        }
    }
}

impl Cuda {
    /// Launches a kernel on the device's stream. With a grid of no blocks, it does nothing.
    ///
    /// The arguments must match the kernel's parameters in number, order and size. Each address
    /// must be on this device and valid for the count that follows it. Each caller is a method that
    /// takes operands, whose layouts have been checked against their storages. Storages may be
    /// dropped right after the call, because their blocks are reused only by later work in the same
    /// stream.
    pub(super) fn launch<const ARGUMENTS: usize>(
        &self,
        kernel: Kernel,
        grid: Grid,
        arguments: [Argument<'_>; ARGUMENTS],
    ) -> Result<()> {
        if grid.blocks == 0 {
            return Ok(());
        }
        let function = self.function(kernel)?;
        self.context().bind_to_thread()?;
        let mut pointers = arguments.map(|argument| argument.0);
        // SAFETY: the function stays loaded as long as this device lives, the context is current,
        // and the driver copies the arguments before it returns. The callers must ensure that the
        // arguments fit the kernel; all callers are in this directory, each next to the kernel's
        // parameter list.
        let launched = unsafe {
            result::launch_kernel(
                function.cu_function(),
                (grid.blocks, 1, 1),
                (grid.threads.0, grid.threads.1, 1),
                0,
                self.queue(),
                &mut pointers,
            )
        };
        launched.map_err(Error::from)
    }
}
