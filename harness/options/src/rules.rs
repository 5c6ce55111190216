//! The rules for options, which hold wherever an option is set: in an attribute, in a table of the
//! configuration file or on a `Check`.

/// The smallest number of rounds that can show growth. With only two rounds, a correct program can
/// grow in both of them by chance.
pub const FEWEST_ROUNDS: u32 = 3;

/// Returns `number` if a check can run that many rounds.
///
/// # Errors
///
/// Returns a sentence that states the problem and the accepted numbers.
pub const fn rounds(number: u32) -> Result<u32, &'static str> {
    match number {
        0 => Err(
            "0 rounds would check nothing; use 1 for an ordinary check, or 3 or more to look for \
             growth",
        ),
        2 => Err(
            "2 rounds cannot show growth; use 1 for an ordinary check, or 3 or more to look for \
             growth",
        ),
        _ => Ok(number),
    }
}

/// Returns the name of the allocator from the name of its layer, which is `allocator:NAME` or
/// `NAME`.
///
/// # Errors
///
/// Returns a sentence that describes the accepted names.
pub fn layer(name: &str) -> Result<&str, &'static str> {
    let allocator = name.strip_prefix("allocator:").unwrap_or(name);
    match allocator.trim() {
        "" => {
            Err("a layer is \"driver\" or the name of an allocator, such as \"allocator:cubecl\"")
        }
        _ => Ok(allocator),
    }
}

/// Whether `text` contains a letter or a digit. The documentation's examples have `…` in place of a
/// reason, which is therefore not accepted as one.
pub fn is_reason(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

/// The words that introduce the patterns of `allow`, as in `fn:optim::Adam::*`.
pub const PATTERN_WORDS: [&str; 6] = ["at", "fn", "file", "lib", "allocator", "fingerprint"];

/// Two options that contradict each other if both are set in the same place.
#[derive(Clone, Copy, Debug)]
pub struct Conflict {
    /// The names of the two options.
    pub options: [&'static str; 2],
    /// Why the options contradict each other, and what to do about it.
    pub why: &'static str,
}

const CONFLICTS: [Conflict; 5] = [
    Conflict {
        options: ["expect", "rounds"],
        why: "`expect` states what a single run leaks, and `rounds` looks for growth over several \
              runs: remove one of them",
    },
    Conflict {
        options: ["expect", "confirm"],
        why: "`expect` states what must leak, so there is nothing to confirm: remove \
              `confirm = true`",
    },
    Conflict {
        options: ["expect", "tolerance"],
        why: "`expect` states exactly what must leak, so there is nothing to tolerate: remove \
              `tolerance`",
    },
    Conflict {
        options: ["rounds", "confirm"],
        why: "`rounds` already confirms each round against the previous one: remove \
              `confirm = true`",
    },
    Conflict {
        options: ["parallel", "isolate"],
        why: "`isolate` runs the test in its own process, so `parallel` has no effect: remove one \
              of them",
    },
];

/// Returns the conflicts among the options for which `is_on` returns `true`. It must return `false`
/// for an option that is set to its default, as in `parallel = false` or `rounds = 1`.
pub fn conflicts(is_on: impl Fn(&str) -> bool) -> impl Iterator<Item = Conflict> {
    CONFLICTS
        .into_iter()
        .filter(move |conflict| conflict.options.into_iter().all(&is_on))
}

/// Returns the word among `known` that `written` is most likely a misspelling of.
///
/// ```
/// use gpu_leak_check_options::nearest;
/// assert_eq!(nearest("tolerence", ["tolerance", "rounds"]), Some("tolerance"));
/// assert_eq!(nearest("speed", ["tolerance", "rounds"]), None);
/// ```
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let known = known.into_iter();
    let nearest = known.map(|known| (distance(written, known), known)).min();
    let near = nearest.filter(|(distance, known)| *distance <= known.len() / 3);
    near.map(|(_, known)| known)
}

/// Returns the edit distance between two words: how many letters have to be inserted, removed or
/// replaced to turn one into the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
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
