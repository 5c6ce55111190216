//! Reading what an interpreter keeps in memory: directly, or through the system where the memory
//! may vanish meanwhile.

#![expect(
    unsafe_code,
    reason = "the interpreter's structures are known by their addresses alone"
)]

use std::cell::RefCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
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

/// Whether a word can lie there.
fn is_word(at: usize) -> bool {
    is_address(at) && at.is_multiple_of(align_of::<usize>())
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
        if !at.iter().all(|at| is_word(*at)) {
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

/// This process's memory, asked of the system, which says no where there is none: a page at a time,
/// for each question costs as much as hundreds of words. To be thrown away after a stack, for what it
/// has copied does not change with the memory.
///
/// See [process_vm_readv(2)](https://man7.org/linux/man-pages/man2/process_vm_readv.2.html).
#[derive(Debug)]
pub(super) struct Asked(RefCell<Pages>);

const PAGE: usize = 4096;
/// A power of two. All of it lies on the stack of whoever reads.
const PAGES: usize = 8;

/// Copies of pages, each in the one place it can have.
#[derive(Debug)]
struct Pages {
    /// Where each begins; 0 for none.
    begin: [usize; PAGES],
    bytes: [MaybeUninit<[u8; PAGE]>; PAGES],
}

impl Asked {
    pub(super) fn new() -> Self {
        Self(RefCell::new(Pages {
            begin: [0; PAGES],
            bytes: [MaybeUninit::uninit(); PAGES],
        }))
    }
}

impl Pages {
    /// The page that begins at this address.
    fn page(&mut self, begin: usize) -> Option<&[u8; PAGE]> {
        let place = begin / PAGE % PAGES;
        if self.begin[place] != begin {
            self.begin[place] = 0;
            copy(begin, &mut self.bytes[place])?;
            self.begin[place] = begin;
        }
        // SAFETY: copied whole, now or before.
        Some(unsafe { self.bytes[place].assume_init_ref() })
    }
}

impl Memory for Asked {
    fn words<const N: usize>(&self, at: [usize; N]) -> Option<[usize; N]> {
        let mut words = [0; N];
        for (word, at) in words.iter_mut().zip(at) {
            if !is_word(at) {
                return None;
            }
            let mut pages = self.0.borrow_mut();
            let page = pages.page(at & !(PAGE - 1))?;
            let bytes = page.get(at % PAGE..)?.first_chunk()?;
            *word = usize::from_ne_bytes(*bytes);
        }
        Some(words)
    }

    fn bytes(&self, mut at: usize, mut length: usize, take: &mut dyn FnMut(&[u8])) -> Option<()> {
        while length > 0 {
            if !is_address(at) {
                return None;
            }
            let mut pages = self.0.borrow_mut();
            let page = pages.page(at & !(PAGE - 1))?;
            let part = page.get(at % PAGE..)?;
            let part = &part[..part.len().min(length)];
            take(part);
            at += part.len();
            length -= part.len();
        }
        Some(())
    }
}

/// Copies the page that begins at this address.
fn copy(begin: usize, to: &mut MaybeUninit<[u8; PAGE]>) -> Option<()> {
    let from = libc::iovec {
        iov_base: ptr::without_provenance_mut::<c_void>(begin),
        iov_len: PAGE,
    };
    let to = libc::iovec {
        iov_base: to.as_mut_ptr().cast(),
        iov_len: PAGE,
    };
    // SAFETY: the system writes to `to`, where any bytes will do, and fails where what it reads is
    // not mapped.
    let read =
        unsafe { libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0) };
    (usize::try_from(read) == Ok(PAGE)).then_some(())
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
        assert_eq!(Asked::new().words([at + 16, at]), Some([7, 3]));
        // More than all pages that are kept.
        let long: Vec<u8> = (0..40_000).map(|at| (at / 7) as u8).collect();
        assert_eq!(read(&own, &long, 40_000).as_ref(), Some(&long));
        assert_eq!(read(&Asked::new(), &long, 40_000).as_ref(), Some(&long));
    }

    #[test]
    fn what_is_no_memory_is_not_read() {
        // SAFETY: no address is asked for that could be one.
        let own = unsafe { Own::new() };
        for address in [0, 8, 1 << 47, usize::MAX - 7] {
            assert_eq!(own.words([address]), None, "{address:x}");
            assert_eq!(Asked::new().words([address]), None, "{address:x}");
            let bytes = Asked::new().bytes(address, 8, &mut |_| {});
            assert_eq!(bytes, None, "{address:x}");
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
        assert_eq!(Asked::new().words([page.addr()]), None);
    }
}
