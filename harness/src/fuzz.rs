//! Fuzz targets. Each is a function that panics if a property does not hold. They are not part of
//! the published library: only the tests of this crate and the targets in `fuzz/` use them.

use gpu_leak_check_options::units;

pub use crate::check::fuzz::recording;
pub use crate::config::fuzz::{config, variables};
pub use crate::report::fuzz::{patterns, run_file, sites};

/// The input consists of sizes and durations. A valid one can be formatted, and the result has the
/// same value.
///
/// # Panics
///
/// Panics if this is not the case.
pub fn units(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Ok(bytes) = units::bytes(&text) {
        assert_eq!(units::bytes(&format!("{bytes} B")), Ok(bytes));
    }
    if let Ok(time) = units::milliseconds(&text) {
        assert_eq!(units::milliseconds(&format!("{time}ms")), Ok(time));
    }
}

/// Whether `text` contains nothing that could control a terminal or change the direction of a line.
pub(crate) fn is_fit_to_print(text: &str) -> bool {
    text.chars().all(|character| {
        character == '\n'
            || !(character.is_control() || matches!(character, '\u{202a}'..='\u{202e}'))
    })
}

#[cfg(test)]
mod tests {
    use gpu_leak_mutations::each;

    #[test]
    fn no_size_or_time_is_read_as_another() {
        each("units", 20_000, super::units);
    }

    #[test]
    fn no_configuration_file_causes_a_panic_and_every_mistake_has_its_place() {
        each("config", 4_000, super::config);
    }

    #[test]
    fn no_variable_causes_a_panic_and_every_mistake_names_it() {
        each("variables", 10_000, super::variables);
    }

    #[test]
    fn no_pattern_causes_a_panic_and_no_note_hides_its_entry() {
        each("patterns", 10_000, super::patterns);
    }

    #[test]
    fn no_recording_causes_a_panic_and_each_is_judged_the_same_twice() {
        each("recording", 400, super::recording);
    }

    #[test]
    fn no_run_file_causes_a_panic_and_none_controls_the_terminal() {
        each("run_file", 1_500, super::run_file);
    }

    #[test]
    fn trimming_a_stack_never_panics() {
        each("sites", 4_000, super::sites);
    }
}
