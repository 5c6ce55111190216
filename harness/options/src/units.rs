//! Sizes and durations as people write them, such as `"1.5 MiB"` and `"250ms"`.

/// A number and its unit, which has not been interpreted yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quantity<'a> {
    /// All digits, without the decimal point.
    digits: u128,
    /// How many of the digits come after the decimal point.
    decimals: u32,
    /// The text after the number, without the optional space in between.
    unit: &'a str,
}

impl<'a> Quantity<'a> {
    /// Splits `text` into a number and a unit; `None` if `text` does not begin with a number.
    fn read(text: &'a str) -> Option<Self> {
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if whole.is_empty() || fraction.is_empty() {
            return None;
        }
        Some(Self {
            digits: format!("{whole}{fraction}").parse().ok()?,
            decimals: u32::try_from(fraction.len()).ok()?,
            unit: unit.trim_start(),
        })
    }

    /// Returns the number times `factor`; `None` if the result is not a whole number or is too
    /// large.
    fn times(self, factor: u64) -> Option<u64> {
        let scaled = self.digits.checked_mul(u128::from(factor))?;
        let divisor = 10_u128.checked_pow(self.decimals)?;
        if scaled % divisor != 0 {
            return None;
        }
        u64::try_from(scaled / divisor).ok()
    }
}

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

/// Whether `word` is a unit of size, regardless of its case. This includes units that [`bytes`]
/// refuses.
#[must_use]
pub fn is_unit_of_size(word: &str) -> bool {
    let units = UNITS.iter().map(|(unit, _)| unit);
    let mut all = units.chain(AMBIGUOUS.iter().map(|(unit, ..)| unit));
    all.any(|unit| unit.eq_ignore_ascii_case(word))
}

/// Parses a size such as `1.5 MiB`, and returns it in bytes. The units are B, KiB, MiB and GiB.
///
/// # Errors
/// Returns a message that states the valid form.
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

/// Parses a duration such as `250ms` or `0.5 s`, and returns it in milliseconds.
///
/// # Errors
/// Returns a message that states the valid form.
pub fn milliseconds(text: &str) -> Result<u64, String> {
    let quantity = Quantity::read(text);
    let factor = match quantity.map(|quantity| quantity.unit) {
        Some("ms") => 1,
        Some("s") => 1_000,
        _ => {
            return Err(format!(
                "`{text}` is not a duration: write a number followed by ms or s, such as \"250ms\""
            ));
        }
    };
    quantity
        .and_then(|quantity| quantity.times(factor))
        .ok_or_else(|| {
            format!("`{text}` is not a whole number of milliseconds that fits in 64 bits")
        })
}

#[cfg(test)]
mod tests {
    use super::{Quantity, bytes, milliseconds};

    #[test]
    fn a_space_before_the_unit_is_optional() {
        assert_eq!(Quantity::read("64 MiB"), Quantity::read("64MiB"));
    }

    #[test]
    fn decimals_are_exact() {
        let tenth = Quantity::read("0.1").expect("a number");
        assert_eq!(tenth.times(10), Some(1));
        assert_eq!(tenth.times(1024), None);
    }

    #[test]
    fn text_that_is_not_a_number_is_refused() {
        for text in ["", "MiB", ".5", "5.", "1.2.3", "-1"] {
            assert_eq!(Quantity::read(text), None, "{text}");
        }
    }

    #[test]
    fn an_overflow_is_refused() {
        let large = Quantity::read("20000000000").expect("a number");
        assert_eq!(large.times(1 << 30), None);
        assert_eq!(Quantity::read(&"9".repeat(50)), None);
    }

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

    #[test]
    fn milliseconds_and_seconds_are_known() {
        assert_eq!(milliseconds("250ms"), Ok(250));
        assert_eq!(milliseconds("2s"), Ok(2_000));
        assert_eq!(milliseconds("0.5 s"), Ok(500));
    }

    #[test]
    fn anything_else_is_refused_with_an_example() {
        for text in ["250", "2 min", "soon", "250 MS"] {
            assert_eq!(
                milliseconds(text).expect_err(text),
                format!(
                    "`{text}` is not a duration: write a number followed by ms or s, such as \"250ms\""
                )
            );
        }
        assert!(milliseconds("0.5ms").is_err());
    }
}
