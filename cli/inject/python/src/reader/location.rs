//! Finds the line of an instruction in the table of its code object.
//!
//! There are three formats, which CPython documents: `lnotab` up to 3.9
//! ([lnotab_notes.txt](https://github.com/python/cpython/blob/3.9/Objects/lnotab_notes.txt)), the
//! line table of 3.10 ([PEP 626](https://peps.python.org/pep-0626/)), and the location table since
//! 3.11
//! ([code_objects.md](https://github.com/python/cpython/blob/main/InternalDocs/code_objects.md)).

/// The format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Pairs of an increment of the offset and an increment of the line.
    Increments,
    /// Pairs of the length of a range and the change of the line at its beginning.
    Ranges,
    /// Entries of one or more bytes with lines and columns.
    Locations,
}

/// The source location of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Location {
    /// The line, counted from 1, or `None` for an instruction that the compiler has added.
    pub(super) line: Option<u32>,
    /// The column in bytes, counted from 1.
    pub(super) column: Option<u32>,
    /// How many bytes of the table were read to find this location.
    pub(super) read: usize,
}

/// Returns the location of the instruction at the byte `offset`, in code whose first line is
/// `first`. The offset is negative in a frame that has not run any instruction.
pub(super) fn location(form: Form, table: &[u8], first: i32, offset: isize) -> Location {
    let Ok(offset) = usize::try_from(offset) else {
        return Location {
            line: from_one(first),
            ..Location::default()
        };
    };
    match form {
        Form::Increments => increments(table, first, offset),
        Form::Ranges => ranges(table, first, offset),
        Form::Locations => locations(table, first, offset),
    }
}

/// Returns the line number, or `None` if it is below 1 and therefore invalid.
fn from_one(line: i32) -> Option<u32> {
    u32::try_from(line).ok().filter(|line| *line > 0)
}

fn increments(table: &[u8], first: i32, offset: usize) -> Location {
    let (mut line, mut at, mut read) = (first, 0, 0);
    for pair in table.chunks_exact(2) {
        at += usize::from(pair[0]);
        read += 2;
        if at > offset {
            break;
        }
        line = line.wrapping_add(i32::from(pair[1] as i8));
    }
    Location {
        line: from_one(line),
        column: None,
        read,
    }
}

fn ranges(table: &[u8], first: i32, offset: usize) -> Location {
    let (mut line, mut end, mut read) = (first, 0, 0);
    for pair in table.chunks_exact(2) {
        end += usize::from(pair[0]);
        read += 2;
        let change = pair[1] as i8;
        let is_nowhere = change == i8::MIN;
        if !is_nowhere {
            line = line.wrapping_add(i32::from(change));
        }
        if offset < end {
            return Location {
                line: from_one(line).filter(|_| !is_nowhere),
                column: None,
                read,
            };
        }
    }
    Location {
        read,
        ..Location::default()
    }
}

fn locations(table: &[u8], first: i32, offset: usize) -> Location {
    let mut bytes = Bytes { table, at: 0 };
    let (mut line, mut end) = (first, 0);
    while let Some(head) = bytes.next() {
        end += 2 * (usize::from(head & 7) + 1);
        let code = head >> 3 & 15;
        let mut column = None;
        match code {
            // In these entries, the line stays the same, and the columns take one more byte.
            0..=9 => {
                let low = bytes.next().unwrap_or_default() >> 4 & 7;
                column = Some(u32::from(code << 3 | low) + 1);
            }
            // In these entries, the line advances by at most two, and the columns take two bytes.
            10..=12 => {
                line = line.wrapping_add(i32::from(code - 10));
                column = bytes.next().map(|column| u32::from(column) + 1);
            }
            13 => line = line.wrapping_add(bytes.signed()),
            14 => {
                line = line.wrapping_add(bytes.signed());
                bytes.number();
                // Columns are counted from 1 here, and 0 means that there is none.
                column = Some(bytes.number()).filter(|column| *column > 0);
            }
            _ => {}
        }
        bytes.skip_to_next_entry();
        if offset < end {
            let is_nowhere = code == 15;
            return Location {
                line: from_one(line).filter(|_| !is_nowhere),
                column,
                read: bytes.at,
            };
        }
    }
    Location {
        read: bytes.at,
        ..Location::default()
    }
}

/// A location table and the current position in it.
struct Bytes<'a> {
    table: &'a [u8],
    at: usize,
}

impl Bytes<'_> {
    fn next(&mut self) -> Option<u8> {
        let byte = self.table.get(self.at).copied();
        self.at += usize::from(byte.is_some());
        byte
    }

    /// Reads a number with six bits in each byte, the lowest bits first. The seventh bit means that
    /// another byte follows.
    fn number(&mut self) -> u32 {
        let (mut number, mut shift) = (0_u32, 0);
        while let Some(byte) = self.next() {
            let bits = u32::from(byte & 0x3f);
            number |= bits.checked_shl(shift).unwrap_or_default();
            shift += 6;
            if byte & 0x40 == 0 {
                break;
            }
        }
        number
    }

    /// Reads a number in the same form, with the sign in the lowest bit.
    fn signed(&mut self) -> i32 {
        let number = self.number();
        let size = (number >> 1) as i32;
        if number & 1 == 0 { size } else { -size }
    }

    /// Skips to the next entry. Only the first byte of an entry has its highest bit set.
    fn skip_to_next_entry(&mut self) {
        while self.table.get(self.at).is_some_and(|byte| byte & 0x80 == 0) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::{Form, location};

    fn at(form: Form, table: &[u8], offset: isize) -> (Option<u32>, Option<u32>) {
        let found = location(form, table, 10, offset);
        (found.line, found.column)
    }

    #[test]
    fn increments_apply_from_their_offset_on() {
        let table = [6, 1, 50, 2, 4, (-3_i8) as u8];
        for (offset, line) in [
            (-1, 10),
            (0, 10),
            (5, 10),
            (6, 11),
            (55, 11),
            (56, 13),
            (60, 10),
        ] {
            assert_eq!(at(Form::Increments, &table, offset), (Some(line), None));
        }
    }

    #[test]
    fn ranges_may_have_no_line() {
        let table = [4, 0, 6, 5, 2, 0x80, 2, (-1_i8) as u8];
        for (offset, line) in [
            (0, Some(10)),
            (4, Some(15)),
            (10, None),
            (12, Some(14)),
            (14, None),
        ] {
            assert_eq!(at(Form::Ranges, &table, offset).0, line, "{offset}");
        }
    }

    #[test]
    fn locations_have_lines_and_columns() {
        let short = [0x80 | 1 << 3, 0x25];
        let next_line = [0x80 | 11 << 3 | 1, 4, 9];
        let without_columns = [0x80 | 13 << 3, 0x05];
        let long = [0x80 | 14 << 3, 0x40 | 0x08, 0x02, 0, 0x40 | 0x01, 0x02, 7];
        let nowhere = [0x80 | 15 << 3];
        let table = [&short[..], &next_line, &without_columns, &long, &nowhere].concat();
        for (offset, line, column) in [
            (0, Some(10), Some(11)),
            (2, Some(11), Some(5)),
            (5, Some(11), Some(5)),
            (6, Some(9), None),
            (8, Some(77), Some(129)),
            (10, None, None),
            (12, None, None),
        ] {
            assert_eq!(
                at(Form::Locations, &table, offset),
                (line, column),
                "{offset}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_table_is_read_beyond_its_end(
            table in any::<Vec<u8>>(),
            first in any::<i32>(),
            offset in any::<i16>(),
        ) {
            for form in [Form::Increments, Form::Ranges, Form::Locations] {
                let found = location(form, &table, first, offset.into());
                assert!(found.read <= table.len());
                // The bytes that were read are enough to find the same location.
                let same = location(form, &table[..found.read], first, offset.into());
                assert_eq!(same, found);
            }
        }
    }
}
