//! Failures on request.

/// A call that is to fail once.
#[derive(Debug, Default)]
pub(crate) struct Fault {
    /// How many calls until that one, including it; 0 if none is to fail.
    remaining: u64,
}

impl Fault {
    pub(crate) fn arm(&mut self, nth: u64) {
        assert_ne!(nth, 0, "calls are counted from 1");
        self.remaining = nth;
    }

    /// Counts a call, and returns whether it is the one to fail.
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
