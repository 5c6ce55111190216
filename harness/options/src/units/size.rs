//! Sizes in quotes, such as `"1 MiB"`.

use super::quantity::Quantity;

const UNITS: [(&str, u64); 4] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// Units that can be read as powers of ten or as powers of two.
const AMBIGUOUS: [(&str, &str, u64); 3] = [
    ("KB", "KiB", 1_000),
    ("MB", "MiB", 1_000_000),
    ("GB", "GiB", 1_000_000_000),
];

/// Whether a word is a unit of size in upper or lower case, even if [`bytes`] refuses this unit.
#[must_use]
pub fn is_unit_of_size(word: &str) -> bool {
    let units = UNITS.iter().map(|(unit, _)| unit);
    let mut all = units.chain(AMBIGUOUS.iter().map(|(unit, ..)| unit));
    all.any(|unit| unit.eq_ignore_ascii_case(word))
}

/// Parses a size such as `1.5 MiB`, and returns it in bytes. The units are B, KiB, MiB and GiB.
///
/// # Errors
/// Returns a message that names the valid form.
pub fn bytes(text: &str) -> Result<u64, String> {
    let Some(quantity) = Quantity::read(text) else {
        return Err(format!(
            "`{text}` is not a size: write a number and a unit, such as \"1 MiB\""
        ));
    };
    if let Some((_, factor)) = UNITS.iter().find(|(unit, _)| *unit == quantity.unit) {
        return quantity.times(*factor).ok_or_else(|| {
            format!("`{text}` is not a whole number of bytes that fits in 64 bits")
        });
    }
    let ambiguous = AMBIGUOUS
        .iter()
        .find(|(unit, ..)| unit.eq_ignore_ascii_case(quantity.unit));
    Err(match ambiguous {
        Some((_, binary, factor)) => {
            let number = text[..text.len() - quantity.unit.len()].trim_end();
            let decimal = quantity
                .times(*factor)
                .map_or_else(|| format!("{number} × {factor} B"), |n| format!("{n} B"));
            format!("`{text}` is ambiguous: write \"{number} {binary}\" or \"{decimal}\"")
        }
        None if quantity.unit.is_empty() => {
            format!("a size in quotes needs a unit: \"{text} B\", or {text} without quotes")
        }
        None => format!(
            "unknown unit `{}`: a size is in B, KiB, MiB or GiB",
            quantity.unit
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn every_unit_is_a_power_of_two() {
        assert_eq!(bytes("7 B"), Ok(7));
        assert_eq!(bytes("1KiB"), Ok(1024));
        assert_eq!(bytes("1.5 MiB"), Ok(1_572_864));
        assert_eq!(bytes("2 GiB"), Ok(2_147_483_648));
    }

    #[test]
    fn decimals_must_come_out_whole() {
        let error = bytes("0.1 KiB").expect_err("102.4 bytes");
        assert_eq!(
            error,
            "`0.1 KiB` is not a whole number of bytes that fits in 64 bits"
        );
    }

    #[test]
    fn a_decimal_prefix_is_refused_with_both_readings() {
        assert_eq!(
            bytes("1.5 MB").expect_err("ambiguous"),
            "`1.5 MB` is ambiguous: write \"1.5 MiB\" or \"1500000 B\""
        );
        assert_eq!(
            bytes("2gb").expect_err("ambiguous"),
            "`2gb` is ambiguous: write \"2 GiB\" or \"2000000000 B\""
        );
    }

    #[test]
    fn a_number_in_quotes_needs_a_unit() {
        assert_eq!(
            bytes("100").expect_err("no unit"),
            "a size in quotes needs a unit: \"100 B\", or 100 without quotes"
        );
    }

    #[test]
    fn other_units_and_words_are_refused() {
        assert_eq!(
            bytes("1 TiB").expect_err("no such unit"),
            "unknown unit `TiB`: a size is in B, KiB, MiB or GiB"
        );
        assert_eq!(
            bytes("much").expect_err("a word"),
            "`much` is not a size: write a number and a unit, such as \"1 MiB\""
        );
    }
}
