//! The rules for the values of single options, which hold wherever an option is set.

/// The smallest number of rounds that can show growth. In two rounds, a correct program can grow
/// twice by chance.
pub const FEWEST_ROUNDS: u32 = 3;

/// Returns `number`, if a check can run that many rounds.
///
/// # Errors
///
/// Returns a sentence that names the problem and the possible numbers.
pub const fn rounds(number: u32) -> Result<u32, &'static str> {
    match number {
        0 => Err("0 rounds check nothing: 1 is an ordinary check, 3 or more look for growth"),
        2 => Err("2 rounds cannot show growth: 1 is an ordinary check, 3 or more look for growth"),
        _ => Ok(number),
    }
}

/// Returns the name of the allocator from the name of its layer, which is `allocator:NAME` or
/// `NAME`.
///
/// # Errors
///
/// Returns a sentence that describes the possible names.
pub fn layer(name: &str) -> Result<&str, &'static str> {
    let allocator = name.strip_prefix("allocator:").unwrap_or(name);
    match allocator.trim() {
        "" => {
            Err("a layer is \"driver\" or the name of an allocator, such as \"allocator:cubecl\"")
        }
        _ => Ok(allocator),
    }
}

/// Whether this reason contains a word. The documentation's examples have `…` in place of a reason.
pub fn is_reason(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::{FEWEST_ROUNDS, layer, rounds};

    #[test]
    fn rounds_are_one_or_enough_to_show_growth() {
        let accepted: Vec<_> = (0..5).filter(|number| rounds(*number).is_ok()).collect();
        assert_eq!(accepted, [1, FEWEST_ROUNDS, 4]);
    }

    #[test]
    fn a_layer_has_a_name() {
        for name in ["", " ", "allocator:", "allocator: "] {
            assert!(layer(name).is_err(), "{name:?}");
        }
        for name in ["cubecl", "allocator:cubecl"] {
            assert_eq!(layer(name), Ok("cubecl"));
        }
    }
}
