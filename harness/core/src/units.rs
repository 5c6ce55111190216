//! Formats bytes and counts for people.

/// The units above a byte, smallest first.
const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Returns the sum of these sizes. The sum saturates, because a recording may contain any size.
pub fn total(sizes: impl IntoIterator<Item = u64>) -> u64 {
    sizes.into_iter().fold(0, u64::saturating_add)
}

/// Formats a size in binary units: `0 B`, `1,023 B`, `512 KiB`, `1.04 MiB`.
///
/// Sizes below 1 KiB are exact. Larger ones are rounded to three digits, or to whole units from
/// 1,000 units on.
pub fn size(bytes: u64) -> String {
    rounded(bytes).0
}

/// Formats a size as [`size`] does, followed by the exact number of bytes if the size was rounded:
/// `1.00 MiB`, `1.04 MiB (1,091,072 B)`.
pub fn exact_size(bytes: u64) -> String {
    match rounded(bytes) {
        (text, true) => text,
        (text, false) => format!("{text} ({} B)", count(bytes)),
    }
}

/// Formats the change from `before` to `after`: `+1.00 MiB`, `-512 B`, `0 B`.
pub fn size_change(before: u64, after: u64) -> String {
    signed(before, after, size)
}

/// Formats a change: `+1.00 MiB`, `-512 B`, `0 B`.
pub fn signed_size(change: i64) -> String {
    if change < 0 {
        size_change(change.unsigned_abs(), 0)
    } else {
        size_change(0, change.unsigned_abs())
    }
}

/// Formats the change of a count: `+2`, `-1,024`, `0`.
pub fn count_change(before: u64, after: u64) -> String {
    signed(before, after, count)
}

fn signed(before: u64, after: u64, show: fn(u64) -> String) -> String {
    let sign = match after.cmp(&before) {
        std::cmp::Ordering::Less => "-",
        std::cmp::Ordering::Equal => "",
        std::cmp::Ordering::Greater => "+",
    };
    format!("{sign}{}", show(before.abs_diff(after)))
}

/// Formats a number as a Rust literal: `1_091_072`.
pub fn literal(number: u64) -> String {
    count(number).replace(',', "_")
}

/// Formats a number with thousands separators: `1,091,072`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with its noun: `1 allocation`, `2 allocations`, `2 libraries`.
pub fn quantity(number: u64, noun: &str) -> String {
    if number == 1 {
        return format!("1 {noun}");
    }
    let plural = match noun.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{noun}s"),
    };
    format!("{} {plural}", count(number))
}

/// Appends the size to a description, unless it is 0: `2 streams`, `1 allocation, 1.00 MiB`.
pub fn with_size(what: String, bytes: u64) -> String {
    match bytes {
        0 => what,
        bytes => format!("{what}, {}", exact_size(bytes)),
    }
}

/// Lists `parts`: `a, b and c`.
pub fn listed(parts: &[String]) -> String {
    match parts {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns the text and whether it is exact.
fn rounded(bytes: u64) -> (String, bool) {
    if bytes < 1024 {
        return (format!("{} B", count(bytes)), true);
    }
    let bytes = u128::from(bytes);
    let mut exponent = bytes.ilog2() / 10;
    // Otherwise, 1,023.9 KiB would be rounded to 1,024 KiB.
    if (bytes + (1_u128 << (10 * exponent)) / 2) >> (10 * exponent) == 1024 {
        exponent += 1;
    }
    let unit = 1_u128 << (10 * exponent);
    let decimals = match (bytes * 100 + unit / 2) / unit {
        0..1000 => 2,
        1000..10_000 => 1,
        _ => 0,
    };
    let scale = 10_u128.pow(decimals);
    let value = (bytes * scale + unit / 2) / unit;
    let whole = count(u64::try_from(value / scale).unwrap_or(u64::MAX));
    let name = UNITS[exponent as usize - 1];
    let text = match decimals as usize {
        0 => format!("{whole} {name}"),
        digits => format!("{whole}.{:0digits$} {name}", value % scale),
    };
    (text, (value * unit) == bytes * scale)
}

#[cfg(test)]
mod tests {
    use super::{count, count_change, exact_size, quantity, signed_size, size, size_change};

    const KIB: u64 = 1024;
    const MIB: u64 = 1024 * KIB;

    #[test]
    fn bytes_are_exact_and_larger_units_have_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1, "1 B"),
            (400, "400 B"),
            (1023, "1,023 B"),
            (KIB, "1.00 KiB"),
            (1536, "1.50 KiB"),
            (512 * KIB, "512 KiB"),
            (1023 * KIB, "1,023 KiB"),
            (MIB - 1, "1.00 MiB"),
            (MIB, "1.00 MiB"),
            (10 * MIB, "10.0 MiB"),
            (64 * MIB + 100 * KIB, "64.1 MiB"),
            (9 * MIB + 1023 * KIB, "10.0 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn a_rounded_size_is_followed_by_the_exact_one() {
        assert_eq!(exact_size(MIB), "1.00 MiB");
        assert_eq!(exact_size(1_091_072), "1.04 MiB (1,091,072 B)");
        assert_eq!(exact_size(MIB + 1), "1.00 MiB (1,048,577 B)");
        assert_eq!(exact_size(1023), "1,023 B");
    }

    #[test]
    fn a_change_has_a_sign_unless_it_is_zero() {
        assert_eq!(size_change(64 * MIB, 65 * MIB), "+1.00 MiB");
        assert_eq!(size_change(64 * MIB + 1, 64 * MIB), "-1 B");
        assert_eq!(size_change(5, 5), "0 B");
        assert_eq!(signed_size(1 << 20), "+1.00 MiB");
        assert_eq!(signed_size(-1), "-1 B");
        assert_eq!(signed_size(0), "0 B");
        assert_eq!(count_change(5, 2_005), "+2,000");
    }

    #[test]
    fn numbers_are_grouped_and_nouns_agree() {
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(123_456_789), "123,456,789");
        assert_eq!(quantity(1, "stream"), "1 stream");
        assert_eq!(quantity(3, "event"), "3 events");
        assert_eq!(quantity(2, "library"), "2 libraries");
    }
}
