//! On which processor a block runs: all variants of it on the same one. Those of a virtual machine
//! differ, by what their neighbours do, more than a variant does from the next.

#![expect(unsafe_code, reason = "std does not know of processors")]

use std::io;

use libc::cpu_set_t;

/// The processors that this process may use.
pub(crate) fn usable() -> Vec<u64> {
    // SAFETY: a set is an array of bits; none of them set is one.
    let mut set: cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: writes to a set of ours, whose size it is told.
    let failed = unsafe { libc::sched_getaffinity(0, size_of::<cpu_set_t>(), &raw mut set) } != 0;
    let all = 0..libc::CPU_SETSIZE as usize;
    // SAFETY: numbers below the size of a set.
    let is_usable = |number: &usize| !failed && unsafe { libc::CPU_ISSET(*number, &set) };
    all.filter(is_usable).map(|number| number as u64).collect()
}

/// Has this thread, and none of the driver's, run there from now on.
pub(crate) fn stay_on(number: u64) -> Result<(), io::Error> {
    // SAFETY: a set is an array of bits; none of them set is one.
    let mut set: cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number is one that `usable` has told, and so below the size of a set.
    unsafe { libc::CPU_SET(number as usize, &mut set) };
    // SAFETY: reads a set of ours, whose size it is told; 0 is the calling thread.
    match unsafe { libc::sched_setaffinity(0, size_of::<cpu_set_t>(), &raw const set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
