//! A shared library of 32 bits without anything in it: what programs of 32 bits have in place of the one
//! that watches, for the loader would complain on their standard error of one that it cannot load.

/// Sizes and places in the file, in bytes.
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

/// The file, for the processors of the x86 family. Its parts are those of the
/// [System V ABI](https://refspecs.linuxfoundation.org/elf/elf.pdf).
pub(super) fn library() -> Vec<u8> {
    const I386: u32 = 3;
    const DYN: u32 = 3;
    let mut file = b"\x7fELF\x01\x01\x01".to_vec();
    file.resize(16, 0);
    let mut words = |words: &[u32]| {
        words
            .iter()
            .for_each(|word| file.extend(word.to_le_bytes()))
    };
    // Half-words in pairs, as in memory.
    words(&[I386 << 16 | DYN, 1, 0, HEADER, 0, 0]);
    words(&[SEGMENT << 16 | HEADER, 40 << 16 | 3, 0]);
    // All of it is one segment, which the loader may write to: it makes addresses of what stands in the
    // dynamic section.
    words(&[1, 0, 0, 0, END, END, READ_WRITE, 0x1000]);
    let dynamic = [DYNAMIC, DYNAMIC, DYNAMIC, DYNAMIC_SIZE, DYNAMIC_SIZE];
    words(&[2]);
    words(&dynamic);
    words(&[READ_WRITE, 4]);
    // A stack that is not executable: without this word programs would get one that is.
    words(&[0x6474_e551, 0, 0, 0, 0, 0, READ_WRITE, 16]);
    // DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_NULL
    words(&[4, HASHES, 5, NAMES, 6, SYMBOLS, 10, 1, 11, SYMBOL, 0, 0]);
    words(&[0; 4]);
    // One bucket, one symbol, which is none.
    words(&[1, 1, 0, 0]);
    words(&[0]);
    file
}

#[cfg(test)]
mod tests {
    use super::{END, library};

    #[test]
    fn it_is_as_long_as_its_segment() {
        assert_eq!(library().len(), END as usize);
    }
}
