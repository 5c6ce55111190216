//! Reads memory for the search.
//!
//! Memory is read through the kernel and never by dereferencing a pointer, because another thread
//! may unmap memory after the mappings have been read, and a mapped file may have been truncated.
//! In these cases, the kernel returns an error.

use std::fs::File;
use std::ops::{Range, RangeInclusive};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

pub(super) use super::super::{MAX_BYTES_READ, PAGE};
use super::budget::Budget;
use super::targets::may_be_address;

/// The size of a word.
const WORD: usize = size_of::<u64>();
/// The largest number of pages in the cache (32 MiB).
const KEPT: usize = 8192;
/// The largest number of pages that are read at once, because reading several pages with one system
/// call takes less time than reading each with its own.
const AT_ONCE: u64 = 4;

/// The largest number of pages that are kept for the next search.
const SPARE_PAGES: usize = 64;
static SPARE: Mutex<Vec<Box<[u64]>>> = Mutex::new(Vec::new());

pub(super) trait Memory {
    /// Reads memory that begins at `address`, and returns how many bytes could be read.
    fn read(&self, address: u64, into: &mut [u8]) -> usize;
}

/// The memory of this process.
pub(super) struct OwnMemory(File);

impl OwnMemory {
    /// Returns `None` if the system does not let a process read its own memory.
    pub(super) fn open() -> Option<Self> {
        File::open("/proc/self/mem").ok().map(Self)
    }
}

impl Memory for OwnMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        // The kernel takes signed offsets. Its own addresses would be negative, but cannot be read
        // anyway.
        match i64::try_from(address) {
            Ok(_) => self.0.read_at(into, address).unwrap_or(0),
            Err(_) => 0,
        }
    }
}

/// Memory with a cache of pages, because a search reads many words from few pages.
///
/// Everything that a search reads goes through this type, so the search ends at most one read after
/// the limit. After the limit, only the last page can be read.
pub(super) struct Pages<M> {
    memory: M,
    /// The buffer into which pages are read. It contains zeros between two reads.
    bytes: Box<[u8]>,
    /// The pages that have been read. A page that cannot be read is stored as empty. All bits are
    /// inverted, so that the search does not mistake the cached copy of an address for the address
    /// itself.
    kept: Vec<Box<[u64]>>,
    /// The index in `kept` of each page, by page number.
    places: FxHashMap<u64, usize>,
    /// The page number that was used last, and its index in `kept`. The next word is usually in the
    /// same page.
    last: Option<(u64, usize)>,
    /// Pages of an earlier search. They are reused, because memory that has been returned to the
    /// system would have to be mapped again.
    spare: Vec<Box<[u64]>>,
    budget: Budget,
    /// How many bytes may still be read.
    left: u64,
    /// Whether [`Self::words`] also passes on the words of packed structures.
    pub(super) is_packed: bool,
}

impl<M: Memory> Pages<M> {
    pub(super) fn new(memory: M, budget: Budget) -> Self {
        Self {
            memory,
            bytes: vec![0; (AT_ONCE * PAGE) as usize].into(),
            kept: Vec::new(),
            places: FxHashMap::default(),
            last: None,
            spare: std::mem::take(&mut *SPARE.lock().unwrap_or_else(PoisonError::into_inner)),
            budget,
            left: MAX_BYTES_READ,
            is_packed: false,
        }
    }

    /// Returns the memory itself, for reading without the cache.
    pub(super) fn memory(&self) -> &M {
        &self.memory
    }

    /// Whether the limit on the number of bytes has been reached.
    pub(super) fn is_full(&self) -> bool {
        self.left < PAGE
    }

    pub(super) fn is_spent(&self) -> bool {
        self.is_full() || self.budget.is_spent()
    }

    /// Returns the word at an aligned address.
    pub(super) fn word(&mut self, address: u64) -> Option<u64> {
        let number = address / PAGE;
        let page = self.page(number, number..number + 1);
        let word = page.get((address % PAGE) as usize / WORD)?;
        address.is_multiple_of(WORD as u64).then_some(!*word)
    }

    /// Returns the address of the last word in a range for which `wanted` returns `true`. `wanted`
    /// is called with the address and the word, at every `step` bytes from the end of the range
    /// backwards. The end must be aligned. The word is likely to be near the address `near`, which
    /// must not be below the end of the range.
    pub(super) fn last_word(
        &mut self,
        range: RangeInclusive<u64>,
        near: u64,
        step: u64,
        wanted: impl Fn(u64, u64) -> bool,
    ) -> Option<u64> {
        let (first, mut at) = range.into_inner();
        while at >= first {
            let number = at / PAGE;
            // The farther the search has gone, the farther away the word is likely to be, so more
            // pages are read at once.
            let pages = AT_ONCE.min(near / PAGE - number + 1);
            let lowest = (number + 1).saturating_sub(pages).max(first / PAGE);
            let page = self.page(number, lowest..number + 1);
            while at >= first && at / PAGE == number {
                match page.get((at % PAGE) as usize / WORD) {
                    Some(word) if wanted(at, !*word) => return Some(at),
                    _ => at = at.checked_sub(step)?,
                }
            }
        }
        None
    }

    /// Passes each word from `start` to `end`, with its address, to `see`. Stops at the first word
    /// that cannot be read, or when `see` returns false. Words of packed structures are passed on
    /// only if they may be addresses. Returns whether all words were passed on.
    // Test programs are usually built without optimisation. Each use of an iterator would then be a
    // call, so these loops use no iterators.
    pub(super) fn words(
        &mut self,
        start: u64,
        end: u64,
        mut see: impl FnMut(u64, u64) -> bool,
    ) -> bool {
        // Such a range is in the kernel's part of the address space, or comes from a wrong symbol
        // table.
        if end > i64::MAX as u64 || start > end {
            return false;
        }
        // A packed address may begin before the first whole word of a range, or end after the last.
        let (mut at, end) = match self.is_packed {
            true => (start - start % 8, end.next_multiple_of(8)),
            false => (start.next_multiple_of(8), end),
        };
        let mut seen = true;
        while at + 8 <= end {
            // Many ranges lie in the same page, and reading the clock takes as long as searching a
            // range. So the limit is not checked again for the page that was used last.
            let is_last = matches!(self.last, Some((last, _)) if last == at / PAGE);
            if !is_last && self.is_spent() {
                return false;
            }
            let stop = end.min((at / PAGE + 1) * PAGE);
            let is_packed = self.is_packed;
            let number = at / PAGE;
            let page = self.page(number, number..end.div_ceil(PAGE).min(number + AT_ONCE));
            if page.is_empty() {
                seen = false;
            }
            let mut index = (at % PAGE) as usize / WORD;
            let end = page.len().min(index + (stop - at) as usize / WORD);
            while index < end {
                let word = !page[index];
                if !see(at, word) {
                    return false;
                }
                index += 1;
                if is_packed && index < end {
                    let next = !page[index];
                    let mut bytes = 1;
                    while bytes < WORD as u64 && word | next != 0 {
                        let packed = word >> (8 * bytes) | next << (64 - 8 * bytes);
                        if is_packed_address(packed) && !see(at + bytes, packed) {
                            return false;
                        }
                        bytes += 1;
                    }
                }
                at += WORD as u64;
            }
            at = stop;
        }
        seen
    }

    /// Returns the words of a page; none if the page does not exist, or if the limit has been
    /// reached. If the page has to be read, all of `pages`, which include it, are read.
    fn page(&mut self, number: u64, pages: Range<u64>) -> &[u64] {
        let place = match self.last {
            Some((last, place)) if last == number => place,
            _ => match self.places.get(&number) {
                Some(&place) => place,
                None if self.is_spent() => return &[],
                None => self.keep(number, pages),
            },
        };
        self.last = Some((number, place));
        &self.kept[place]
    }

    fn keep(&mut self, number: u64, pages: Range<u64>) -> usize {
        if self.kept.len() + AT_ONCE as usize > KEPT {
            self.kept.clear();
            self.places.clear();
        }
        let alone = number..number + 1;
        // Enough of the limit must be left to read this page again on its own.
        let is_alone = pages == alone || self.left <= AT_ONCE * PAGE;
        // If a page before this one cannot be read, this one has not been reached, so it is read on
        // its own.
        if is_alone || !self.read(pages, number) {
            self.read(alone, number);
        }
        let place = self.places.entry(number);
        *place.or_insert_with(|| {
            self.kept.push(Box::default());
            self.kept.len() - 1
        })
    }

    /// Reads pages, as far as they exist, and returns whether `wanted` is among them.
    fn read(&mut self, pages: Range<u64>, wanted: u64) -> bool {
        let bytes = (pages.end - pages.start) * PAGE;
        self.left -= bytes;
        let buffer = &mut self.bytes[..bytes as usize];
        let address = pages.start.saturating_mul(PAGE);
        let read = pages.start + self.memory.read(address, buffer) as u64 / PAGE;
        let (words, _) = buffer.as_chunks();
        for number in pages.start..read {
            if self.places.contains_key(&number) {
                continue;
            }
            let spare = self.spare.pop();
            let mut page = spare.unwrap_or_else(|| vec![0; PAGE as usize / WORD].into());
            let first = (number - pages.start) as usize * page.len();
            let mut index = 0;
            while index < page.len() {
                page[index] = !u64::from_ne_bytes(words[first + index]);
                index += 1;
            }
            self.places.insert(number, self.kept.len());
            self.kept.push(page);
        }
        buffer.fill(0);
        (pages.start..read).contains(&wanted)
    }
}

impl<M> Drop for Pages<M> {
    fn drop(&mut self) {
        self.spare.append(&mut self.kept);
        self.spare.retain(|page| !page.is_empty());
        self.spare.truncate(SPARE_PAGES);
        *SPARE.lock().unwrap_or_else(PoisonError::into_inner) = std::mem::take(&mut self.spare);
    }
}

/// Whether a word that consists of parts of two adjacent words may be an address. Small numbers
/// that are not aligned often look like an address, but have few bytes that are not zero.
#[inline(always)]
fn is_packed_address(word: u64) -> bool {
    const LOW_BITS: u64 = u64::MAX / 255 * 127;

    if !may_be_address(word) {
        return false;
    }
    // The highest bit of each byte that is not zero.
    let nonzero = (((word & LOW_BITS) + LOW_BITS) | word) & !LOW_BITS;
    nonzero.count_ones() >= 3
}

#[cfg(test)]
mod tests {
    use super::super::tests::{READS, Synthetic, reads, unlimited};
    use super::{AT_ONCE, KEPT, MAX_BYTES_READ, Memory, OwnMemory, PAGE, Pages};

    #[test]
    fn this_process_reads_itself_and_nothing_else() {
        let memory = OwnMemory::open().expect("a process may read itself");
        let here = [7_u8; 16];
        let mut read = [0; 16];
        assert_eq!(memory.read(here.as_ptr().addr() as u64, &mut read), 16);
        assert_eq!(read, here);
        for nowhere in [0, 8, u64::MAX - 7, i64::MAX as u64, 1 << 63] {
            assert_eq!(memory.read(nowhere, &mut read), 0, "{nowhere:x}");
        }
    }

    #[test]
    fn words_are_read_up_to_the_end_and_past_missing_pages() {
        let mut memory = Synthetic::default();
        memory.put(PAGE - 8, 1);
        memory.put(2 * PAGE, 2);
        let mut pages = Pages::new(memory, unlimited());
        let mut seen = Vec::new();
        let all = pages.words(PAGE - 12, 2 * PAGE + 12, |at, word| {
            seen.push((at, word));
            true
        });
        assert_eq!(seen, [(PAGE - 8, 1), (2 * PAGE, 2)]);
        assert!(!all);
        assert_eq!(pages.word(2 * PAGE), Some(2));
        assert_eq!(pages.word(PAGE), None);
    }

    #[test]
    fn a_packed_address_at_the_end_of_a_range_is_passed_on() {
        const ADDRESS: u64 = 0x7f0c_5a2e_1b60;
        let mut memory = Synthetic::default();
        memory.put(8, ADDRESS << 16);
        memory.put(16, ADDRESS >> 48);
        let mut pages = Pages::new(memory, unlimited());
        pages.is_packed = true;
        let mut seen = Vec::new();
        // This is the range of a static with the alignment of a `u32`.
        pages.words(4, 20, |at, word| {
            seen.push((at, word));
            true
        });
        assert!(seen.contains(&(10, ADDRESS)), "{seen:x?}");
    }

    #[test]
    fn words_of_packed_structures_are_passed_on_if_they_may_be_addresses() {
        const ADDRESS: u64 = 0x7f12_3456_789a;

        let words = [ADDRESS << 24, ADDRESS >> 40 | 0x42 << 32, 0x42 << 56, 7];
        let mut memory = Synthetic::default();
        for (at, word) in (0..).step_by(8).zip(words) {
            memory.put(at, word);
        }
        let mut pages = Pages::new(memory, unlimited());
        pages.is_packed = true;
        let mut seen = Vec::new();
        pages.words(0, 32, |at, word| {
            seen.push((at, word));
            true
        });
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let all = bytes.windows(8).zip(0..);
        let all = all.map(|(word, at)| (at, u64::from_le_bytes(word.try_into().unwrap())));
        let is_passed_on = |(at, word): &(u64, u64)| {
            let bytes = word.to_le_bytes().iter().filter(|it| **it != 0).count();
            at % 8 == 0 || bytes >= 3 && (1 << 32..1 << 56).contains(word)
        };
        let expected: Vec<_> = all.filter(is_passed_on).collect();
        assert!(expected.contains(&(3, ADDRESS)));
        assert_eq!(seen, expected);
    }

    #[test]
    fn nothing_more_is_read_after_the_time_limit() {
        let mut memory = Synthetic::default();
        for page in 0..4 * AT_ONCE {
            memory.put(page * PAGE, page);
        }
        let mut pages = Pages::new(memory, reads(AT_ONCE + 1));
        let mut seen = Vec::new();
        let all = pages.words(0, 4 * AT_ONCE * PAGE, |at, word| {
            if at.is_multiple_of(PAGE) {
                seen.push(word);
            }
            true
        });
        assert_eq!((seen, all), ((0..=AT_ONCE).collect(), false));
        // After the limit, even pages that were read before cannot be read, so that nothing is
        // concluded from partial data.
        assert!(!pages.words(0, PAGE, |_, _| true));
        assert_eq!(pages.word(3 * AT_ONCE * PAGE), None);
        assert_eq!(READS.get(), 2 * AT_ONCE);
    }

    #[test]
    fn a_page_that_is_read_again_alone_counts_towards_the_limit() {
        let mut memory = Synthetic::default();
        memory.put(4 * PAGE, 7);
        for left in 1..=2 * AT_ONCE {
            let mut pages = Pages::new(memory.clone(), unlimited());
            pages.left = left * PAGE;
            // The pages below cannot be read.
            let last = 5 * PAGE - 8;
            let found = pages.last_word(0..=last, 8 * PAGE, 8, |_, word| word == 7);
            assert_eq!(found, Some(4 * PAGE), "{left}");
        }
    }

    #[test]
    fn a_page_is_read_even_if_another_one_cannot_be_read_with_it() {
        let mut memory = Synthetic::default();
        for page in [0, 2, 3, 5] {
            memory.put(page * PAGE, page + 1);
        }
        let seen = |pages: &mut Pages<_>| {
            let mut seen = Vec::new();
            pages.words(0, 6 * PAGE, |_, word| {
                seen.extend((word != 0).then_some(word));
                true
            });
            seen
        };
        let mut pages = Pages::new(memory.clone(), unlimited());
        assert_eq!(seen(&mut pages), [1, 3, 4, 6]);
        let mut pages = Pages::new(memory, unlimited());
        let last = |pages: &mut Pages<_>, below: u64, wanted| {
            pages.last_word(0..=below * PAGE - 8, 6 * PAGE, 8, |_, word| word == wanted)
        };
        assert_eq!(last(&mut pages, 6, 1), Some(0));
        assert_eq!(last(&mut pages, 5, 4), Some(3 * PAGE));
        assert_eq!(seen(&mut pages), [1, 3, 4, 6]);
    }

    #[test]
    fn reading_and_caching_are_limited_even_without_a_time_limit() {
        let mut pages = Pages::new(Synthetic::default(), unlimited());
        for page in 0..MAX_BYTES_READ / PAGE + 10 {
            pages.word(page * PAGE);
            assert!(pages.kept.len() <= KEPT);
        }
        assert!(pages.is_spent());
        assert_eq!(READS.get() * PAGE, MAX_BYTES_READ);
    }
}
