//! Simulates an allocator whose own lines do not help its users.

/// Where this call came from: return addresses, innermost first.
#[inline(never)]
pub(crate) fn take() -> Vec<usize> {
    let mut raw = Vec::new();
    backtrace::trace(|frame| {
        raw.push(frame.ip().addr());
        true
    });
    raw
}
