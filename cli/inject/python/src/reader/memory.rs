//! Reads the interpreter's memory directly, or through the kernel if the memory may be unmapped
//! during the read.

#![expect(
    unsafe_code,
    reason = "reads the interpreter's structures through raw addresses"
)]

use std::cell::RefCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A way to read the memory of this process.
pub(super) trait Memory {
    /// Returns the aligned words at these addresses, or `None` if one of them is invalid.
    fn words<const N: usize>(&self, at: [usize; N]) -> Option<[usize; N]>;

    /// Passes the `length` bytes at an address to `take`, in one or more parts.
    fn bytes(&self, at: usize, length: usize, take: &mut dyn FnMut(&[u8])) -> Option<()>;
}

/// Whether an object of the program can be at this address.
fn is_address(at: usize) -> bool {
    (0x1000..1 << 47).contains(&at)
}

/// Whether an aligned word can be at this address.
fn is_word(at: usize) -> bool {
    is_address(at) && at.is_multiple_of(align_of::<usize>())
}

/// Reads memory directly.
#[derive(Debug)]
pub(super) struct Direct(());

impl Direct {
    /// # Safety
    /// All requested memory must be readable, and may be changed only atomically.
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

impl Memory for Direct {
    #[inline]
    fn words<const N: usize>(&self, at: [usize; N]) -> Option<[usize; N]> {
        if !at.iter().all(|at| is_word(*at)) {
            return None;
        }
        // SAFETY: the word is aligned, and readable as the caller of `new` guarantees. The load is
        // atomic, since other threads may write to a part of the word that is not used here.
        Some(at.map(|at| unsafe {
            AtomicUsize::from_ptr(ptr::with_exposed_provenance_mut(at)).load(Ordering::Relaxed)
        }))
    }

    #[inline]
    fn bytes(&self, at: usize, length: usize, take: &mut dyn FnMut(&[u8])) -> Option<()> {
        if !is_address(at) {
            return None;
        }
        // SAFETY: the bytes are readable, as the caller of `new` guarantees, and part of an
        // immutable object.
        take(unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(at), length) });
        Some(())
    }
}

/// Reads memory through the kernel, which returns an error for an unmapped address. Whole pages are
/// copied, since a system call costs as much as reading hundreds of words. This reader must be
/// dropped after one backtrace, since the copies are not updated.
///
/// See [process_vm_readv(2)](https://man7.org/linux/man-pages/man2/process_vm_readv.2.html).
#[derive(Debug)]
pub(super) struct ThroughKernel(RefCell<Pages>);

const PAGE: usize = 4096;
/// How many pages are kept on the caller's stack. This is a power of two.
const PAGES: usize = 8;

/// Copies of pages. The address of a page determines its index.
#[derive(Debug)]
struct Pages {
    /// The address of each page, or 0 for none.
    begin: [usize; PAGES],
    bytes: [MaybeUninit<[u8; PAGE]>; PAGES],
}

impl ThroughKernel {
    pub(super) fn new() -> Self {
        Self(RefCell::new(Pages {
            begin: [0; PAGES],
            bytes: [MaybeUninit::uninit(); PAGES],
        }))
    }
}

impl Pages {
    /// Returns the page that begins at this address.
    fn page(&mut self, begin: usize) -> Option<&[u8; PAGE]> {
        let index = begin / PAGE % PAGES;
        if self.begin[index] != begin {
            self.begin[index] = 0;
            copy(begin, &mut self.bytes[index])?;
            self.begin[index] = begin;
        }
        // SAFETY: the whole page was copied, now or before.
        Some(unsafe { self.bytes[index].assume_init_ref() })
    }
}

impl Memory for ThroughKernel {
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
    // SAFETY: the kernel writes to `to`, for which all bytes are valid, and fails if `from` is not
    // mapped.
    let read =
        unsafe { libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0) };
    (usize::try_from(read) == Ok(PAGE)).then_some(())
}

#[cfg(test)]
mod tests {
    use super::{Direct, Memory, ThroughKernel};

    fn read(memory: &impl Memory, of: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        memory.bytes(of.as_ptr().expose_provenance(), length, &mut |part| {
            all.extend_from_slice(part);
        })?;
        Some(all)
    }

    #[test]
    fn both_ways_of_reading_agree() {
        let words = [3_usize, 5, 7];
        let at = words.as_ptr().expose_provenance();
        // SAFETY: everything that is read below is alive.
        let direct = unsafe { Direct::new() };
        assert_eq!(direct.words([at + 16, at]), Some([7, 3]));
        assert_eq!(ThroughKernel::new().words([at + 16, at]), Some([7, 3]));
        // This is more data than fits into the pages that are kept.
        let long: Vec<u8> = (0..40_000).map(|at| (at / 7) as u8).collect();
        assert_eq!(read(&direct, &long, 40_000).as_ref(), Some(&long));
        assert_eq!(
            read(&ThroughKernel::new(), &long, 40_000).as_ref(),
            Some(&long)
        );
    }

    #[test]
    fn invalid_addresses_are_not_read() {
        // SAFETY: only invalid addresses are requested, and `Direct` refuses them.
        let direct = unsafe { Direct::new() };
        for address in [0, 8, 1 << 47, usize::MAX - 7] {
            assert_eq!(direct.words([address]), None, "{address:x}");
            assert_eq!(ThroughKernel::new().words([address]), None, "{address:x}");
            let bytes = ThroughKernel::new().bytes(address, 8, &mut |_| {});
            assert_eq!(bytes, None, "{address:x}");
        }
        // A page without read permission. SAFETY: this is a new mapping, which nothing else uses.
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
        assert_eq!(ThroughKernel::new().words([page.addr()]), None);
    }
}
