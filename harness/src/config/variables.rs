//! Reads the environment variables of a run.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::settings::GivenSettings;
use crate::exec_settings::variables;

const PREFIX: &str = "GPU_LEAK_CHECK";

/// The names of the variables that are not [settings](GivenSettings), without the prefix.
const OTHERS: [&str; 5] = ["_CONFIG", "_OUTPUT", "_RECORD", "_ROUNDS", "_RUN"];

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Variables {
    pub(super) ci: bool,
    pub(super) run: GivenSettings,
    pub(super) rounds: Option<u32>,
    pub(super) config: Option<PathBuf>,
}

/// Returns the variables of this process, which are read once.
///
/// # Errors
/// Returns a sentence that names the variable, the problem and the valid values.
pub(super) fn of_this_process() -> Result<&'static Variables, String> {
    static READ: OnceLock<Result<Variables, String>> = OnceLock::new();
    READ.get_or_init(|| Variables::read(variables()))
        .as_ref()
        .map_err(Clone::clone)
}

impl Variables {
    pub(super) fn read(
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Self, String> {
        let mut read = Self::default();
        for (name, raw) in variables {
            let Some(name) = name.to_str() else { continue };
            if name == "CI" {
                read.ci = !matches!(&*raw.to_string_lossy(), "" | "0" | "false");
            }
            let rest = name.strip_prefix(PREFIX);
            // A variable of another program may begin with the same letters.
            let Some(rest) = rest.filter(|it| it.is_empty() || it.starts_with('_')) else {
                continue;
            };
            // A CI matrix can leave a variable empty, but cannot unset it.
            if raw.to_string_lossy().trim().is_empty() && known().any(|known| known == rest) {
                continue;
            }
            read.take(name, rest, raw)?;
        }
        Ok(read)
    }

    fn take(&mut self, name: &str, rest: &str, raw: OsString) -> Result<(), String> {
        let text = raw.to_string_lossy();
        let value = text.trim();
        match rest {
            "_ROUNDS" => self.rounds = Some(rounds(name, value)?),
            "_CONFIG" => self.config = Some(PathBuf::from(raw)),
            // Other code reads these variables where it uses them.
            "_OUTPUT" | "_RECORD" | "_RUN" => {}
            _ => {
                let read = self.run.set(rest, value).ok_or_else(|| unknown(name))?;
                read.map_err(|why| match why.starts_with('"') {
                    true => format!("{name}={why}"),
                    false => format!("{name}: {why}"),
                })?;
            }
        }
        Ok(())
    }
}

fn rounds(name: &str, value: &str) -> Result<u32, String> {
    let number = value
        .parse()
        .map_err(|_| format!("{name}={value:?} is not a whole number of at least 1"))?;
    gpu_leak_check_options::rounds(number).map_err(|why| format!("{name}: {why}"))
}

/// Returns the names of all variables, without the prefix.
fn known() -> impl Iterator<Item = &'static str> {
    GivenSettings::VARIABLES.iter().copied().chain(OTHERS)
}

fn unknown(name: &str) -> String {
    let mut known: Vec<_> = known().map(|rest| format!("{PREFIX}{rest}")).collect();
    known.sort();
    format!(
        "unknown environment variable {name}; the known variables are {}",
        known.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::Variables;
    use crate::config::Mode;

    fn read(variables: &[(&str, &str)]) -> Result<Variables, String> {
        Variables::read(variables.iter().map(|(n, v)| (n.into(), v.into())))
    }

    #[test]
    fn an_unset_or_blank_variable_sets_nothing() {
        assert_eq!(read(&[("PATH", "/bin")]), Ok(Variables::default()));
        assert_eq!(read(&[("GPU_LEAK_CHECK", " ")]), Ok(Variables::default()));
        assert_eq!(
            read(&[("GPU_LEAK_CHECKER_MODE", "on")]),
            Ok(Variables::default()),
            "a variable of another program"
        );
    }

    #[test]
    fn ci_is_set_by_any_value_but_empty_and_false() {
        for (value, ci) in [("true", true), ("1", true), ("", false), ("false", false)] {
            assert_eq!(read(&[("CI", value)]).unwrap().ci, ci, "{value}");
        }
    }

    #[test]
    fn words_durations_and_paths_are_read() {
        let read = read(&[
            ("GPU_LEAK_CHECK", "require"),
            ("GPU_LEAK_CHECK_SETTLE", "0.5s"),
            ("GPU_LEAK_CHECK_HELD_BY", "0s"),
            ("GPU_LEAK_CHECK_CONFIG", "ci/gpu.toml"),
        ])
        .unwrap();
        assert_eq!(read.run.mode, Some(Mode::Require));
        assert_eq!(read.run.settle, Some(Duration::from_millis(500)));
        assert_eq!(read.run.held_by, Some(Duration::ZERO));
        assert_eq!(read.config.as_deref(), Some(Path::new("ci/gpu.toml")));
    }

    #[test]
    fn every_wrong_variable_has_its_message() {
        let reported = [
            ("GPU_LEAK_CHECK", "on"),
            ("GPU_LEAK_CHECK", "required"),
            ("GPU_LEAK_CHECK_ON_LEAK", "ignore"),
            ("GPU_LEAK_CHECK_FIRST_USE", "error"),
            ("GPU_LEAK_CHECK_WITHOUT_GPU", "fail"),
            ("GPU_LEAK_CHECK_PEAKS", "1"),
            ("GPU_LEAK_CHECK_SETTLE", "5"),
            ("GPU_LEAK_CHECK_SETTLE", "-5ms"),
            ("GPU_LEAK_CHECK_SETTLE", "5 minutes"),
            ("GPU_LEAK_CHECK_HELD_BY", "off"),
            ("GPU_LEAK_CHECK_ROUNDS", "0"),
            ("GPU_LEAK_CHECK_ROUNDS", "2"),
            ("GPU_LEAK_CHECK_ROUNDS", "many"),
            ("GPU_LEAK_CHECK_TOLERANCE", "1"),
        ];
        let reported = reported.map(|variable| read(&[variable]).unwrap_err());
        insta::assert_snapshot!(reported.join("\n"));
    }

    #[test]
    fn a_wrong_variable_is_named_with_the_valid_values() {
        let wrong = |name, value| read(&[(name, value)]).unwrap_err();
        assert_eq!(
            wrong("GPU_LEAK_CHECK", "on"),
            "GPU_LEAK_CHECK=\"on\" is not one of auto, require, off"
        );
        assert_eq!(
            wrong("GPU_LEAK_CHECK_SETTLE", "5"),
            "GPU_LEAK_CHECK_SETTLE: `5` is not a duration: write a number followed by ms or s, such as \"250ms\""
        );
        assert_eq!(
            wrong("GPU_LEAK_CHECK_ROUNDS", "0"),
            "GPU_LEAK_CHECK_ROUNDS: 0 rounds would check nothing; use 1 for an ordinary check, or 3 or more to look for growth"
        );
        let unknown = wrong("GPU_LEAK_CHECK_SETLE", "5ms");
        assert!(
            unknown.contains("unknown environment variable GPU_LEAK_CHECK_SETLE"),
            "{unknown}"
        );
        assert!(unknown.contains("GPU_LEAK_CHECK_SETTLE"), "{unknown}");
    }
}
