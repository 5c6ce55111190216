//! Selects the processor for a block. All variants use the same one, because under other load the
//! processors of a virtual machine differ more from each other than the variants do.

#![expect(unsafe_code, reason = "std cannot pin a thread to a processor")]

use std::io;

use libc::cpu_set_t;

/// Returns the processors that this process may use.
pub(crate) fn usable() -> Vec<u64> {
    // SAFETY: a set is an array of bits, and all of them may be 0.
    let mut set: cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes to a local set, whose size is passed.
    let failed = unsafe { libc::sched_getaffinity(0, size_of::<cpu_set_t>(), &raw mut set) } != 0;
    let all = 0..libc::CPU_SETSIZE as usize;
    // SAFETY: the number is below the size of a set.
    let is_usable = |number: &usize| !failed && unsafe { libc::CPU_ISSET(*number, &set) };
    all.filter(is_usable).map(|number| number as u64).collect()
}

/// Pins this thread, but not the driver's threads, to the given processor.
pub(crate) fn stay_on(number: u64) -> Result<(), io::Error> {
    // SAFETY: a set is an array of bits, and all of them may be 0.
    let mut set: cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number was returned by `usable`, so it is below the size of a set.
    unsafe { libc::CPU_SET(number as usize, &mut set) };
    // SAFETY: the call reads a local set, whose size is passed; 0 is the calling thread.
    match unsafe { libc::sched_setaffinity(0, size_of::<cpu_set_t>(), &raw const set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
