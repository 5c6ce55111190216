//! Memory and limits that the tests of several files in this folder use.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use super::budget::Budget;
use super::memory::{Memory, PAGE};
use crate::NameRules;

/// Memory that a test defines.
#[derive(Clone, Debug, Default)]
pub(super) struct Synthetic(BTreeMap<u64, Vec<u8>>);

impl Synthetic {
    /// Writes a word, and adds its page.
    pub(super) fn put(&mut self, address: u64, word: u64) {
        let page = self.0.entry(address / PAGE);
        let page = page.or_insert_with(|| vec![0; PAGE as usize]);
        let at = (address % PAGE) as usize;
        page[at..at + 8].copy_from_slice(&word.to_ne_bytes());
    }
}

impl Memory for Synthetic {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        assert_eq!((address % PAGE, into.len() as u64 % PAGE), (0, 0));
        let mut read = 0;
        for (number, into) in (address / PAGE..).zip(into.chunks_mut(PAGE as usize)) {
            READS.set(READS.get() + 1);
            let Some(page) = self.0.get(&number) else {
                break;
            };
            into.copy_from_slice(page);
            read += into.len();
        }
        read
    }
}

thread_local! {
    /// The number of pages of synthetic memory that were read in this test.
    pub(super) static READS: Cell<u64> = const { Cell::new(0) };
}

/// Returns a limit of this many pages, on the assumption that reading a page takes a microsecond.
pub(super) fn reads(reads: u64) -> Budget {
    let clock = || Duration::from_micros(READS.get());
    Budget::by(clock, Duration::from_micros(reads))
}

/// Returns a budget without a limit.
pub(super) fn unlimited() -> Budget {
    reads(u64::MAX)
}

/// The harness's rules, as far as these tests need them.
pub(super) const RULES: NameRules = NameRules {
    file: |path| Some(std::fs::read(path).ok()?.leak()),
    is_vendor_library: |name| name.starts_with("libcuda"),
    is_vendor_function: |name| name.starts_with("cuda"),
    is_known_library: |_| false,
    is_in_a_system_directory: |_| false,
    as_written: |name| name.replace("__gpu_leak_check_frees::", ""),
};
