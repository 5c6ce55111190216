//! cuBLAS, for products of large matrices.
#![expect(unsafe_code, reason = "calls cuBLAS with addresses")]

use std::ffi::c_int;
use std::sync::Arc;

use cudarc::cublas::{result, sys};
use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUstream;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::graph;
use crate::memory::Buffer;

use super::Cuda;

/// A cuBLAS handle on a device's stream.
///
/// Making it takes 64 MiB and more from the driver, outside the caching allocator: cuBLAS's own
/// pool, given back with the handle. The workspace comes on top: see [`BlasWorkspace`].
#[derive(Debug)]
pub(super) struct Blas {
    handle: sys::cublasHandle_t,
    stream: Arc<CudaStream>,
    workspace: Workspace,
}

// SAFETY: cuBLAS lets any thread use a handle as long as only one does at a time; the slot that it
// stands in is a mutex.
unsafe impl Send for Blas {}

/// Device memory that is lent to a handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Workspace {
    /// 0 for none.
    address: u64,
    bytes: usize,
}

/// A matrix as cuBLAS sees it: by columns, with the distance between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix {
    pub(super) address: u64,
    pub(super) transposed: bool,
    pub(super) leading: c_int,
}

impl Blas {
    pub(super) fn new(stream: &Arc<CudaStream>) -> Result<Self> {
        // SAFETY: it only tries to open the library, whose initialisers are safe to run.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::Unavailable {
                device: format!("cuda:{}", stream.context().ordinal()),
                detail: "libcublas was not found; install it or add its folder to \
                         LD_LIBRARY_PATH"
                    .into(),
            });
        }
        stream.context().bind_to_thread()?;
        let mut blas = Self {
            handle: result::create_handle()?,
            stream: Arc::clone(stream),
            workspace: Workspace::default(),
        };
        blas.work_on(stream.cu_stream())?;
        // Full f32 arithmetic: the default mode uses no TF32.
        // SAFETY: the handle is alive.
        unsafe { sys::cublasSetMathMode(blas.handle, sys::cublasMath_t::CUBLAS_DEFAULT_MATH) }
            .result()?;
        blas.lend(Workspace::default())?;
        Ok(blas)
    }

    /// Lets all work from now on go to a stream. This takes the workspace away.
    ///
    /// <https://docs.nvidia.com/cuda/cublas/index.html#cublassetstream>
    fn work_on(&mut self, stream: CUstream) -> Result<()> {
        self.stream.context().bind_to_thread()?;
        // SAFETY: the handle is alive; the stream is its own, or a capture's that outlives the call
        // of `captured`.
        Ok(unsafe { result::set_stream(self.handle, stream.cast()) }?)
    }

    /// Lets the work that `act` asks for go into a capture. Without the workspace, which may be
    /// taken back before a replay.
    fn captured<R>(
        &mut self,
        stream: CUstream,
        act: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<R> {
        let lent = self.workspace;
        let begun = self.work_on(stream);
        let begun = begun.and_then(|()| self.lend(Workspace::default()));
        let outcome = begun.and_then(|()| act(self));
        let restored = self.work_on(self.stream.cu_stream());
        let restored = restored.and_then(|()| self.lend(lent));
        outcome.and_then(|made| restored.map(|()| made))
    }

    /// Lends the handle a workspace instead of the one it has.
    ///
    /// <https://docs.nvidia.com/cuda/cublas/index.html#cublassetworkspace>
    fn lend(&mut self, workspace: Workspace) -> Result<()> {
        self.stream.context().bind_to_thread()?;
        // SAFETY: the handle is alive. A workspace of 0 bytes is never touched; any other belongs
        // to a `BlasWorkspace`, which takes it back before its memory goes, and work under way
        // with it is ahead in the stream of whatever gets that memory next.
        unsafe {
            let start = pointer(workspace.address).cast();
            sys::cublasSetWorkspace_v2(self.handle, start, workspace.bytes)
        }
        .result()?;
        self.workspace = workspace;
        Ok(())
    }

    /// `out = a · b` by columns: `rows × depth` times `depth × columns`.
    ///
    /// # Safety
    ///
    /// The addresses lie on this device; the matrices reach as far as sizes and leading dimensions
    /// say, until the stream is past the product.
    pub(super) unsafe fn product(
        &self,
        [rows, columns, depth]: [c_int; 3],
        a: Matrix,
        b: Matrix,
        out: u64,
    ) -> Result<()> {
        self.stream.context().bind_to_thread()?;
        let (one, zero) = (1.0_f32, 0.0_f32);
        let operation = |matrix: Matrix| {
            if matrix.transposed {
                sys::cublasOperation_t::CUBLAS_OP_T
            } else {
                sys::cublasOperation_t::CUBLAS_OP_N
            }
        };
        // SAFETY: the handle is alive, the scalars live through the call (they are host memory in
        // the handle's default pointer mode); the caller answers for the matrices.
        let made = unsafe {
            result::sgemm(
                self.handle,
                operation(a),
                operation(b),
                rows,
                columns,
                depth,
                &raw const one,
                pointer(a.address),
                a.leading,
                pointer(b.address),
                b.leading,
                &raw const zero,
                pointer(out),
                rows,
            )
        };
        Ok(made?)
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        let context = self.stream.context();
        context.record_err(context.bind_to_thread());
        // SAFETY: made in `new` and destroyed only here. What fails here fails again, and is told,
        // at the next call of the context.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

fn pointer(address: u64) -> *mut f32 {
    std::ptr::with_exposed_provenance_mut(
        usize::try_from(address).expect("device addresses have the host's width"),
    )
}

/// Memory lent to a device's cuBLAS as its workspace, until it is dropped.
///
/// Without one cuBLAS works with 0 bytes: it then picks algorithms that need none, and the
/// allocator's figures are those of the tensors alone. The bytes come from the device's caching
/// allocator and are counted there. PyTorch lends 32 MiB on a large GPU.
#[derive(Debug)]
pub struct BlasWorkspace {
    buffer: Buffer,
}

impl BlasWorkspace {
    /// Takes `bytes` from the device's allocator and lends them to its cuBLAS. The last one lent
    /// is the one used.
    ///
    /// # Errors
    ///
    /// When the device is no CUDA device, has no room, cuBLAS cannot be used, or this thread is in
    /// a capture of the device.
    pub fn new(device: &Device, bytes: usize) -> Result<Self> {
        let cuda = device.as_cuda().ok_or_else(|| Error::Unavailable {
            device: device.to_string(),
            detail: "it has no cuBLAS; a workspace is for CUDA devices".into(),
        })?;
        graph::forbid(device, "lending a workspace", "captured products use none")?;
        let buffer = Buffer::new(device, bytes)?;
        let address = buffer.address();
        cuda.with_blas(|blas| blas.lend(Workspace { address, bytes }))?;
        Ok(Self { buffer })
    }

    /// Its size.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.buffer.bytes()
    }
}

impl Drop for BlasWorkspace {
    fn drop(&mut self) {
        if let Some(cuda) = self.buffer.device().as_cuda() {
            let taken_back = cuda.with_blas(|blas| {
                if blas.workspace.address == self.buffer.address() {
                    blas.lend(Workspace::default())?;
                }
                Ok(())
            });
            if let Err(Error::Cuda(error)) = taken_back {
                cuda.context().record_err(Err::<(), _>(error));
            }
        }
    }
}

impl Cuda {
    pub(super) fn with_blas<R>(&self, act: impl FnOnce(&mut Blas) -> Result<R>) -> Result<R> {
        let make = || {
            self.expect_warm("a cuBLAS handle, made at the first large product,")?;
            Blas::new(self.stream())
        };
        self.engines().blas.with(make, |blas| {
            if self.is_redirected() {
                blas.captured(self.queue(), act)
            } else {
                act(blas)
            }
        })
    }
}
