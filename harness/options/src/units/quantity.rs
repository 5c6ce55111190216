//! Exact parsing of a decimal number with a unit, such as `1.5 MiB` or `250ms`.

/// A number with a unit that has not been interpreted yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantity<'a> {
    /// All digits, without the decimal point.
    digits: u128,
    /// How many of the digits come after the decimal point.
    decimals: u32,
    /// The text after the number, without the optional space in between.
    pub(crate) unit: &'a str,
}

impl<'a> Quantity<'a> {
    /// Splits `text` into a number and a unit; `None` if `text` does not begin with a number.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
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

    /// Returns the number times `factor`; `None` if the result is not a whole number or too large.
    pub(crate) fn times(self, factor: u64) -> Option<u64> {
        let scaled = self.digits.checked_mul(u128::from(factor))?;
        let divisor = 10_u128.checked_pow(self.decimals)?;
        if scaled % divisor != 0 {
            return None;
        }
        u64::try_from(scaled / divisor).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::Quantity;

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
    fn text_that_is_no_number_is_refused() {
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
}
