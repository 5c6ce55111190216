//! Durations in quotes, such as `"250ms"`.

use super::quantity::Quantity;

/// Parses a duration such as `250ms` or `0.5 s`, and returns it in milliseconds.
///
/// # Errors
/// Returns a message that names the valid form.
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
    use super::milliseconds;

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
