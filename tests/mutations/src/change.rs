//! Random changes to an input: to its bytes, its lines and its JSON values.

use std::ops::Range;

use crate::random::Random;

/// Values that code often handles wrongly.
const EXTREMES: [&[u8]; 19] = [
    b"0",
    b"-1",
    b"1.5",
    b"255",
    b"65536",
    b"4294967295",
    b"9223372036854775808",
    b"18446744073709551615",
    b"18446744073709551616",
    b"1e999",
    b"null",
    b"true",
    b"\"\"",
    b"[]",
    b"{}",
    &[b'['; 300],
    b"\0",
    b"\xe2\x80\xae",
    b"\xff",
];

pub(crate) fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = input.len().min(at + 1 + random.below(16));
    match random.below(15) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.byte(),
        2 => drop(input.drain(at..end)),
        3 => input.truncate(at),
        4 => {
            let piece = input[at..end].to_vec();
            input.splice(at..at, piece.repeat(1 + random.below(8)));
        }
        5 => {
            let extreme = random.one_of(&EXTREMES);
            let number = number_at(input, at);
            input.splice(number, extreme.iter().copied());
        }
        6 => {
            let other = random.one_of(seeds);
            let from = random.below(other.len() + 1);
            let to = other.len().min(from + 1 + random.below(64));
            input.splice(at..end, other[from..to].iter().copied());
        }
        // Inserts a line of another seed.
        7 => {
            let lines = lines(random.one_of::<Vec<u8>>(seeds));
            if let Some(line) = (!lines.is_empty()).then(|| random.one_of(&lines)) {
                let start = line_at(input, at).start;
                input.splice(start..start, line.iter().copied());
            }
        }
        8 => drop(input.drain(line_at(input, at))),
        9 => {
            let line = line_at(input, at);
            let copy = input[line.clone()].to_vec();
            input.splice(line.end..line.end, copy);
        }
        // Swaps a line with the next one.
        10 => {
            let line = line_at(input, at);
            let next = line_at(input, line.end);
            input[line.start..next.end.max(line.end)].rotate_left(line.len());
        }
        // Appends another seed or, in half of the cases, interleaves its lines.
        11 => {
            let other = random.one_of(seeds);
            *input = match random.below(2) {
                0 => [input, &other[..]].concat(),
                _ => interleaved(input, other, random),
            };
        }
        // Overwrites a binary number with an extreme one.
        12 => {
            let end = input.len().min(at + (1 << random.below(4)));
            input[at..end].fill(*random.one_of(&[0, 0x7f, 0x80, 0xff]));
        }
        // Replaces a JSON value, or removes it together with its name.
        _ => {
            if let Some((name, value)) = value_at(input, at) {
                match random.below(2) {
                    0 => drop(input.drain(name.start..value.end)),
                    _ => drop(input.splice(value, random.one_of(&EXTREMES).iter().copied())),
                }
            }
        }
    }
}

/// Returns the range of digits at or after `at`, or the empty range at `at` if there are none.
fn number_at(input: &[u8], at: usize) -> Range<usize> {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    match input[at..].iter().position(is_digit) {
        Some(skipped) => {
            let start = at + skipped;
            let digits = input[start..].iter().take_while(|byte| is_digit(byte));
            start..start + digits.count()
        }
        None => at..at,
    }
}

fn lines(input: &[u8]) -> Vec<&[u8]> {
    input.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Returns the range of the line that contains the byte `at`, with its line break.
fn line_at(input: &[u8], at: usize) -> Range<usize> {
    let is_end = |byte: &u8| *byte == b'\n';
    let start = input[..at]
        .iter()
        .rposition(is_end)
        .map_or(0, |end| end + 1);
    let length = input[start..].iter().position(is_end);
    start..length.map_or(input.len(), |length| start + length + 1)
}

/// Returns the lines of both inputs. The lines of each input keep their order.
fn interleaved(one: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let (mut one, mut other) = (lines(one).into_iter(), lines(other).into_iter());
    let mut all = Vec::new();
    loop {
        let next = match random.below(2) {
            0 => one.next().or_else(|| other.next()),
            _ => other.next().or_else(|| one.next()),
        };
        match next {
            Some(line) => all.extend(line),
            None => return all,
        }
    }
}

/// Returns the range of the name of the next JSON field after `at`, including a comma before the
/// name, and the range of the field's value.
fn value_at(input: &[u8], at: usize) -> Option<(Range<usize>, Range<usize>)> {
    let colon = at + input[at..].windows(2).position(|pair| pair == b"\":")? + 1;
    let quote = input[..colon - 1].iter().rposition(|byte| *byte == b'"')?;
    let comma = input[..quote].ends_with(b",");
    let start = colon + 1;
    let (mut depth, mut is_text, mut escaped) = (0_usize, false, false);
    let end = input[start..].iter().position(|byte| {
        let is_escaped = std::mem::take(&mut escaped);
        match byte {
            b'\\' => escaped = is_text && !is_escaped,
            b'"' if !is_escaped => is_text = !is_text,
            b'[' | b'{' if !is_text => depth += 1,
            b',' if !is_text && depth == 0 => return true,
            b']' | b'}' if !is_text => match depth.checked_sub(1) {
                Some(outer) => depth = outer,
                None => return true,
            },
            _ => {}
        }
        false
    })?;
    Some((quote - usize::from(comma)..colon, start..start + end))
}
