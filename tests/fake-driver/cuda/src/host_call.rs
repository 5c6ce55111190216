//! The program's functions that the driver calls on the host: nodes of graphs, callbacks of
//! streams, and destructors of user objects.

#![expect(unsafe_code, reason = "calls functions that take raw arguments")]

/// `CUhostFn`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostFunction(Option<unsafe extern "C" fn(u64)>);

/// `CUDA_HOST_NODE_PARAMS`: a function and its argument.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostCall {
    pub(crate) function: HostFunction,
    pub(crate) data: u64,
}

impl HostCall {
    pub(crate) fn is_there(self) -> bool {
        self.function.0.is_some()
    }

    /// Calls the function. The caller must not hold the lock of the state.
    pub(crate) fn run(self) {
        if let Some(function) = self.function.0 {
            // SAFETY: the caller that passed the function to the driver is responsible for it and
            // its data.
            unsafe { function(self.data) };
        }
    }
}
