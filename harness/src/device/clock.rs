//! What a thread has computed for, whatever else the machine was busy with.

#![cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
#![expect(unsafe_code, reason = "the system's clocks are C")]

use std::time::Duration;

/// How long this thread has run on a processor since it began.
pub(crate) fn thread_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable; the clock of the calling thread is always there.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    debug_assert_eq!(answer, 0);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::thread_time;

    #[test]
    fn it_grows_with_work() {
        let before = thread_time();
        while thread_time() == before {}
        assert!(thread_time() > before);
    }
}
