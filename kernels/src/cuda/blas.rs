//! cuBLAS, for products of large matrices.
#![expect(unsafe_code, reason = "passes raw handles and addresses to cuBLAS")]

use std::ffi::c_int;
use std::sync::Arc;

use cudarc::cublas::{result, sys};
use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUstream;

use crate::error::{Result, expect_library};

/// A cuBLAS handle on a device's stream.
///
/// Creating a handle allocates 64 MiB or more from the driver, outside the caching allocator. This
/// is cuBLAS's own pool, which is freed with the handle. A lent workspace is additional memory.
#[derive(Debug)]
pub(crate) struct Blas {
    handle: sys::cublasHandle_t,
    stream: Arc<CudaStream>,
    workspace: Workspace,
}

// SAFETY: any thread may use a cuBLAS handle as long as only one thread uses it at a time, which
// the mutex of its slot ensures.
unsafe impl Send for Blas {}

/// Device memory that is lent to a cuBLAS handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Workspace {
    /// The address of the memory; 0 if there is no workspace.
    pub(crate) address: u64,
    pub(crate) bytes: usize,
}

/// A matrix as cuBLAS sees it: column-major, with the distance between its columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlasMatrix {
    pub(crate) address: u64,
    pub(crate) transposed: bool,
    pub(crate) leading: c_int,
}

impl Blas {
    pub(super) fn new(stream: &Arc<CudaStream>) -> Result<Self> {
        // SAFETY: the call only tries to open the library, whose initialisers are safe to run.
        let is_present = unsafe { sys::is_culib_present() };
        expect_library("libcublas", is_present, stream.context())?;
        stream.context().bind_to_thread()?;
        let mut blas = Self {
            handle: result::create_handle()?,
            stream: Arc::clone(stream),
            workspace: Workspace::default(),
        };
        blas.work_on(stream.cu_stream())?;
        // The default mode has full `f32` arithmetic, without TF32.
        // SAFETY: the handle is alive.
        unsafe { sys::cublasSetMathMode(blas.handle, sys::cublasMath_t::CUBLAS_DEFAULT_MATH) }
            .result()?;
        blas.lend(Workspace::default())?;
        Ok(blas)
    }

    /// Directs all later work to a stream. cuBLAS then uses its default workspace again, even if
    /// another one was set.
    ///
    /// <https://docs.nvidia.com/cuda/cublas/index.html#cublassetstream>
    fn work_on(&mut self, stream: CUstream) -> Result<()> {
        self.stream.context().bind_to_thread()?;
        // SAFETY: the handle is alive. The stream is `self.stream`, or the stream of a capture,
        // which outlives the call to `captured`.
        Ok(unsafe { result::set_stream(self.handle, stream.cast()) }?)
    }

    /// Directs the work of `act` into a capture, without the workspace, which may be taken back
    /// before a replay.
    pub(super) fn captured<R>(
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

    /// Replaces the handle's workspace.
    ///
    /// <https://docs.nvidia.com/cuda/cublas/index.html#cublassetworkspace>
    pub(crate) fn lend(&mut self, workspace: Workspace) -> Result<()> {
        self.stream.context().bind_to_thread()?;
        // SAFETY: the handle is alive. A workspace of 0 bytes is never touched. The lender of any
        // other workspace takes it back before the memory is freed. The stream runs work in order,
        // so work that uses the workspace finishes before later work can use the same memory.
        unsafe {
            let start = pointer(workspace.address).cast();
            sys::cublasSetWorkspace_v2(self.handle, start, workspace.bytes)
        }
        .result()?;
        self.workspace = workspace;
        Ok(())
    }

    /// Takes back the workspace at this address, if the handle still uses it.
    pub(crate) fn take_back(&mut self, address: u64) -> Result<()> {
        if self.workspace.address == address {
            self.lend(Workspace::default())?;
        }
        Ok(())
    }

    /// Computes `out = a · b` in column-major order: `rows × depth` times `depth × columns`.
    ///
    /// # Safety
    ///
    /// The addresses must be on this device, and the matrices, as given by sizes and leading
    /// dimensions, must stay valid until the stream has finished the product.
    pub(crate) unsafe fn product(
        &self,
        [rows, columns, depth]: [c_int; 3],
        a: BlasMatrix,
        b: BlasMatrix,
        out: u64,
    ) -> Result<()> {
        self.stream.context().bind_to_thread()?;
        let (one, zero) = (1.0_f32, 0.0_f32);
        let operation = |matrix: BlasMatrix| {
            if matrix.transposed {
                sys::cublasOperation_t::CUBLAS_OP_T
            } else {
                sys::cublasOperation_t::CUBLAS_OP_N
            }
        };
        // SAFETY: the handle is alive, and the scalars outlive the call, which reads them from host
        // memory in the handle's default pointer mode. The caller guarantees that the matrices are
        // valid.
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
        // SAFETY: the handle was created in `new` and is destroyed only here. An error can be
        // ignored, because it occurs again, and is reported, at the next call to the context.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

fn pointer(address: u64) -> *mut f32 {
    std::ptr::with_exposed_provenance_mut(
        usize::try_from(address).expect("device addresses have the host's width"),
    )
}
