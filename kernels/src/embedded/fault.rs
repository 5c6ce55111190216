//! Failures that tests request.

/// A request to make one call fail.
#[derive(Debug, Default)]
pub(crate) struct Fault {
    /// The number of calls up to and including the one that fails; 0 if no call is to fail.
    remaining: u64,
}

impl Fault {
    pub(crate) fn arm(&mut self, nth: u64) {
        assert_ne!(nth, 0, "calls are counted from 1");
        self.remaining = nth;
    }

    /// Counts a call, and returns whether it must fail.
    pub(crate) fn strikes(&mut self) -> bool {
        let strikes = self.remaining == 1;
        self.remaining = self.remaining.saturating_sub(1);
        strikes
    }
}

/// The memory calls of a device that can be made to fail.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) allocation: Fault,
    pub(crate) free: Fault,
}
