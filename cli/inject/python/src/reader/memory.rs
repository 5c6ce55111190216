//! Reading what an interpreter keeps in memory: directly, or through the system where the memory
//! may vanish meanwhile.

#![expect(
    unsafe_code,
    reason = "the interpreter's structures are known by their addresses alone"
)]

use std::ffi::c_void;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A process's memory that may be read.
pub(super) trait Memory {
    /// The aligned words at these addresses; none where one is no address.
    fn words<const N: usize>(&self, at: [usize; N]) -> Option<[usize; N]>;

    /// Hands the `length` bytes at an address to `take`, in as many parts as it needs.
    fn bytes(&self, at: usize, length: usize, take: &mut dyn FnMut(&[u8])) -> Option<()>;
}

/// Whether a program can have something there.
fn is_address(at: usize) -> bool {
    (0x1000..1 << 47).contains(&at)
}

/// This process's memory, read as it is.
#[derive(Debug)]
pub(super) struct Own(());

impl Own {
    /// # Safety
    ///
    /// Whatever this is asked for must be readable, and must not change but atomically.
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

impl Memory for Own {
    #[inline]
    fn words<const N: usize>(&self, at: [usize; N]) -> Option<[usize; N]> {
        let are_words = |at: &usize| is_address(*at) && at.is_multiple_of(align_of::<usize>());
        if !at.iter().all(are_words) {
            return None;
        }
        // SAFETY: an aligned word, readable by the promise made to `new`. Atomically, since other
        // threads may write to a part of the word that nobody here looks at.
        Some(at.map(|at| unsafe {
            AtomicUsize::from_ptr(ptr::with_exposed_provenance_mut(at)).load(Ordering::Relaxed)
        }))
    }

    #[inline]
    fn bytes(&self, at: usize, length: usize, take: &mut dyn FnMut(&[u8])) -> Option<()> {
        if !is_address(at) {
            return None;
        }
        // SAFETY: readable by the promise made to `new`, and of immutable objects.
        take(unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(at), length) });
        Some(())
    }
}

/// This process's memory, asked of the system, which says no where there is none.
///
/// See [process_vm_readv(2)](https://man7.org/linux/man-pages/man2/process_vm_readv.2.html).
#[derive(Debug)]
pub(super) struct Asked;

impl Memory for Asked {
    fn words<const N: usize>(&self, at: [usize; N]) -> Option<[usize; N]> {
        let mut words = [0; N];
        let from = at.map(|at| libc::iovec {
            iov_base: ptr::without_provenance_mut::<c_void>(at),
            iov_len: size_of::<usize>(),
        });
        copy(&from, words.as_mut_ptr().cast(), size_of_val(&words))?;
        Some(words)
    }

    fn bytes(&self, mut at: usize, mut length: usize, take: &mut dyn FnMut(&[u8])) -> Option<()> {
        let mut part = [0_u8; 512];
        while length > 0 {
            let part = &mut part[..length.min(512)];
            let from = libc::iovec {
                iov_base: ptr::without_provenance_mut(at),
                iov_len: part.len(),
            };
            copy(&[from], part.as_mut_ptr(), part.len())?;
            take(part);
            at = at.checked_add(part.len())?;
            length -= part.len();
        }
        Some(())
    }
}

/// Copies what lies at `from`, `length` bytes together, to `to`, which has room for them.
fn copy(from: &[libc::iovec], to: *mut u8, length: usize) -> Option<()> {
    let to = libc::iovec {
        iov_base: to.cast(),
        iov_len: length,
    };
    // SAFETY: the system writes to `to`, whose bytes are the caller's and any value will do, and
    // fails where what it reads is not mapped.
    let read = unsafe {
        let count = from.len() as libc::c_ulong;
        libc::process_vm_readv(libc::getpid(), &raw const to, 1, from.as_ptr(), count, 0)
    };
    (usize::try_from(read) == Ok(length)).then_some(())
}

#[cfg(test)]
mod tests {
    use super::{Asked, Memory, Own};

    fn read(memory: &impl Memory, of: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        memory.bytes(of.as_ptr().expose_provenance(), length, &mut |part| {
            all.extend_from_slice(part);
        })?;
        Some(all)
    }

    #[test]
    fn both_ways_read_the_same() {
        let words = [3_usize, 5, 7];
        let at = words.as_ptr().expose_provenance();
        // SAFETY: all that is asked of it below is alive.
        let own = unsafe { Own::new() };
        assert_eq!(own.words([at + 16, at]), Some([7, 3]));
        assert_eq!(Asked.words([at + 16, at]), Some([7, 3]));
        let long: Vec<u8> = (0..2000).map(|at| at as u8).collect();
        assert_eq!(read(&own, &long, 2000).as_ref(), Some(&long));
        assert_eq!(read(&Asked, &long, 2000).as_ref(), Some(&long));
    }

    #[test]
    fn what_is_no_memory_is_not_read() {
        // SAFETY: no address is asked for that could be one.
        let own = unsafe { Own::new() };
        for address in [0, 8, 1 << 47, usize::MAX - 7] {
            assert_eq!(own.words([address]), None, "{address:x}");
            assert_eq!(Asked.words([address]), None, "{address:x}");
            assert_eq!(Asked.bytes(address, 8, &mut |_| {}), None, "{address:x}");
        }
        // A page of the process's own that nobody may read.
        // SAFETY: a new mapping, which nobody else knows.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_eq!(Asked.words([page.addr()]), None);
    }
}
