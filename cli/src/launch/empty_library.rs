//! An empty 32-bit shared library. 32-bit programs load it instead of the library that watches
//! programs, because their loader would print an error about that library.

// Sizes and offsets in the file, in bytes.
const HEADER: u32 = 52;
const SEGMENT: u32 = 32;
const DYNAMIC: u32 = HEADER + 3 * SEGMENT;
const DYNAMIC_SIZE: u32 = 6 * 8;
const SYMBOLS: u32 = DYNAMIC + DYNAMIC_SIZE;
const SYMBOL: u32 = 16;
const HASHES: u32 = SYMBOLS + SYMBOL;
const NAMES: u32 = HASHES + 4 * 4;
const END: u32 = NAMES + 4;

const READ_WRITE: u32 = 6;

/// Returns the file of the library, for x86 processors. Its parts follow the [System V
/// ABI](https://refspecs.linuxfoundation.org/elf/elf.pdf).
pub(super) fn bytes() -> Vec<u8> {
    const I386: u32 = 3;
    const DYN: u32 = 3;
    let mut file = b"\x7fELF\x01\x01\x01".to_vec();
    file.resize(16, 0);
    let mut words = |words: &[u32]| {
        words
            .iter()
            .for_each(|word| file.extend(word.to_le_bytes()))
    };
    // The header. Half-words are written in pairs.
    words(&[I386 << 16 | DYN, 1, 0, HEADER, 0, 0]);
    words(&[SEGMENT << 16 | HEADER, 40 << 16 | 3, 0]);
    // A single segment contains everything. It is writable because the loader replaces offsets in
    // the dynamic section with addresses.
    words(&[1, 0, 0, 0, END, END, READ_WRITE, 0x1000]);
    let dynamic = [DYNAMIC, DYNAMIC, DYNAMIC, DYNAMIC_SIZE, DYNAMIC_SIZE];
    words(&[2]);
    words(&dynamic);
    words(&[READ_WRITE, 4]);
    // PT_GNU_STACK. Without it, the program would get an executable stack.
    words(&[0x6474_e551, 0, 0, 0, 0, 0, READ_WRITE, 16]);
    // DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_NULL
    words(&[4, HASHES, 5, NAMES, 6, SYMBOLS, 10, 1, 11, SYMBOL, 0, 0]);
    words(&[0; 4]);
    // The hash table has one bucket for the undefined symbol, which every symbol table begins with.
    words(&[1, 1, 0, 0]);
    words(&[0]);
    file
}

#[cfg(test)]
mod tests {
    use super::{END, bytes};

    #[test]
    fn the_library_is_as_long_as_its_segment() {
        assert_eq!(bytes().len(), END as usize);
    }
}
