//! Reads Python's strings.

use std::hash::Hasher;

use super::layout::StringLayout;
use super::memory::Memory;

/// Longer names of files and functions are truncated to this many characters.
const MAX_CHARACTERS: usize = 4096;

/// A string in memory, with one, two or four bytes for each character.
#[derive(Clone, Copy, Debug)]
pub(super) struct PythonString {
    at: usize,
    characters: usize,
    width: usize,
}

impl PythonString {
    /// The offsets of the words that follow the reference count: the type, the length and the
    /// state.
    pub(super) const HEAD: [usize; 3] = [8, 16, 32];

    /// Creates the string at the address `at` with these words. Returns `None` if it is not a plain
    /// string.
    pub(super) fn new(
        at: usize,
        [class, length, state]: [usize; 3],
        string: usize,
        layout: &StringLayout,
    ) -> Option<Self> {
        let width = state >> 2 & 7;
        let (is_compact, is_ascii) = (state >> 5 & 1 != 0, state >> 6 & 1 != 0);
        if class != string || !is_compact || !matches!(width, 1 | 2 | 4) {
            return None;
        }
        let begin = if is_ascii {
            layout.ascii
        } else {
            layout.non_ascii
        };
        Some(Self {
            at: at.wrapping_add(begin),
            characters: length.min(MAX_CHARACTERS),
            width,
        })
    }

    pub(super) fn hash(&self, memory: &impl Memory, hash: &mut impl Hasher) -> Option<()> {
        hash.write_usize(self.width);
        let length = self.characters * self.width;
        memory.bytes(self.at, length, &mut |bytes| hash.write(bytes))
    }

    /// Returns the contents. This allocates.
    pub(super) fn read(&self, memory: &impl Memory) -> Option<String> {
        let length = self.characters * self.width;
        let mut bytes = Vec::with_capacity(length);
        memory.bytes(self.at, length, &mut |part| bytes.extend_from_slice(part))?;
        let character = |bytes: &[u8]| {
            let mut number = [0; 4];
            number[..bytes.len()].copy_from_slice(bytes);
            // Python's strings may contain unpaired surrogates, which are not characters.
            char::from_u32(u32::from_le_bytes(number)).unwrap_or(char::REPLACEMENT_CHARACTER)
        };
        Some(bytes.chunks_exact(self.width).map(character).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::ThroughKernel;
    use super::PythonString;

    fn text(bytes: &[u8], width: usize) -> Option<String> {
        let at = bytes.as_ptr().expose_provenance();
        let characters = bytes.len() / width;
        let string = PythonString {
            at,
            characters,
            width,
        };
        string.read(&ThroughKernel::new())
    }

    #[test]
    fn characters_of_every_width_are_read() {
        assert_eq!(text(b"gr\xf6\xdfe", 1).as_deref(), Some("größe"));
        let wide: Vec<u8> = "∇x".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(text(&wide, 2).as_deref(), Some("∇x"));
        let widest: Vec<u8> = "🐍"
            .chars()
            .flat_map(|c| (c as u32).to_le_bytes())
            .collect();
        assert_eq!(text(&widest, 4).as_deref(), Some("🐍"));
        assert_eq!(text(&[0x00, 0xd8], 2).as_deref(), Some("\u{fffd}"));
    }
}
