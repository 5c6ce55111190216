//! The policy of a run: environment over attribute over default.

use std::ffi::OsString;
use std::time::Duration;

use crate::options::{OnLeak, Options};

/// How the absence of measurement is treated: `GPU_LEAK_CHECK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A driver in use that cannot be traced fails the check where `CI` is set, and is noted
    /// elsewhere.
    Auto,
    /// A check that cannot measure fails, also without a driver.
    Require,
    /// Bodies run; nothing is judged.
    Off,
}

/// What `first-use` findings do: `GPU_LEAK_CHECK_FIRST_USE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstUse {
    /// They are told.
    Warn,
    /// They fail the test.
    Fail,
}

/// What holds for one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) mode: Mode,
    pub(crate) ci: bool,
    pub(crate) on_leak: OnLeak,
    pub(crate) first_use: FirstUse,
    pub(crate) settle: Duration,
    pub(crate) confirm: bool,
    pub(crate) tolerance: u64,
    pub(crate) reserved_tolerance: u64,
}

const PREFIX: &str = "GPU_LEAK_CHECK";

/// Every variable, without the prefix.
const VARIABLES: [&str; 8] = [
    "",
    "_CUPTI",
    "_FIRST_USE",
    "_ON_LEAK",
    "_OUTPUT",
    "_RECORD",
    "_RUN",
    "_SETTLE",
];

impl Policy {
    /// The policy for a check with these options in this process's environment.
    ///
    /// # Errors
    ///
    /// A sentence that names the variable, what is wrong with it, and what may stand there.
    pub(crate) fn of(options: &Options) -> Result<Self, String> {
        Self::from_variables(options, std::env::vars_os())
    }

    fn from_variables(
        options: &Options,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Self, String> {
        let mut policy = Self {
            mode: Mode::Auto,
            ci: false,
            on_leak: options.on_leak.unwrap_or(OnLeak::Fail),
            first_use: FirstUse::Warn,
            settle: options.settle.unwrap_or(Duration::from_millis(250)),
            confirm: options.confirm.unwrap_or(true),
            tolerance: options.tolerance.unwrap_or(0),
            reserved_tolerance: options.reserved_tolerance.unwrap_or(0),
        };
        for (name, value) in variables {
            let (Some(name), value) = (name.to_str(), value.to_string_lossy()) else {
                continue;
            };
            if name == "CI" {
                policy.ci = !matches!(&*value, "" | "0" | "false");
            }
            let Some(rest) = name.strip_prefix(PREFIX) else {
                continue;
            };
            let value = value.trim();
            // A continuous integration's matrix can leave a variable empty, but not unset.
            if value.is_empty() && VARIABLES.contains(&rest) {
                continue;
            }
            match rest {
                "" => {
                    policy.mode = choose(
                        name,
                        value,
                        &[
                            ("auto", Mode::Auto),
                            ("require", Mode::Require),
                            ("off", Mode::Off),
                        ],
                    )?;
                }
                "_ON_LEAK" => {
                    policy.on_leak = choose(
                        name,
                        value,
                        &[("fail", OnLeak::Fail), ("warn", OnLeak::Warn)],
                    )?;
                }
                "_FIRST_USE" => {
                    policy.first_use = choose(
                        name,
                        value,
                        &[("warn", FirstUse::Warn), ("fail", FirstUse::Fail)],
                    )?;
                }
                "_SETTLE" => policy.settle = duration(name, value)?,
                // Read where they are used.
                "_CUPTI" | "_OUTPUT" | "_RECORD" | "_RUN" => {}
                _ => return Err(unknown(name)),
            }
        }
        Ok(policy)
    }
}

fn choose<T: Copy>(name: &str, value: &str, choices: &[(&str, T)]) -> Result<T, String> {
    if let Some((_, choice)) = choices.iter().find(|(word, _)| *word == value) {
        return Ok(*choice);
    }
    let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
    Err(format!(
        "{name}={value:?} is not one of {}",
        words.join(", ")
    ))
}

fn duration(name: &str, value: &str) -> Result<Duration, String> {
    let wrong = || format!("{name}={value:?} is not a duration such as 250ms or 2s");
    let (number, unit) = match (value.strip_suffix("ms"), value.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => return Err(wrong()),
    };
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())
}

fn unknown(name: &str) -> String {
    let known: Vec<_> = VARIABLES
        .iter()
        .map(|rest| format!("{PREFIX}{rest}"))
        .collect();
    format!(
        "the environment variable {name} is unknown; known are {}",
        known.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::{Duration, FirstUse, Mode, OnLeak, Options, Policy};

    fn policy(options: &Options, variables: &[(&str, &str)]) -> Result<Policy, String> {
        Policy::from_variables(options, variables.iter().map(|(n, v)| (n.into(), v.into())))
    }

    #[test]
    fn silence_gives_the_defaults() {
        let policy = policy(&Options::DEFAULT, &[("PATH", "/bin")]).unwrap();
        assert_eq!(policy.mode, Mode::Auto);
        assert_eq!(policy.on_leak, OnLeak::Fail);
        assert_eq!(policy.first_use, FirstUse::Warn);
        assert_eq!(policy.settle, Duration::from_millis(250));
        assert!(policy.confirm && !policy.ci);
    }

    #[test]
    fn the_environment_stands_over_the_attribute() {
        let options = Options {
            on_leak: Some(OnLeak::Fail),
            settle: Some(Duration::from_secs(1)),
            ..Options::DEFAULT
        };
        let variables = [
            ("GPU_LEAK_CHECK", "require"),
            ("GPU_LEAK_CHECK_ON_LEAK", "warn"),
            ("GPU_LEAK_CHECK_SETTLE", "2s"),
            ("CI", "true"),
        ];
        let policy = policy(&options, &variables).unwrap();
        assert_eq!(policy.mode, Mode::Require);
        assert_eq!(policy.on_leak, OnLeak::Warn);
        assert_eq!(policy.settle, Duration::from_secs(2));
        assert!(policy.ci);
    }

    #[test]
    fn an_empty_variable_is_as_good_as_none() {
        let policy = policy(&Options::DEFAULT, &[("GPU_LEAK_CHECK", "")]).unwrap();
        assert_eq!(policy.mode, Mode::Auto);
    }

    #[test]
    fn a_duration_may_have_a_point() {
        let half = [("GPU_LEAK_CHECK_SETTLE", "0.5s")];
        let policy = policy(&Options::DEFAULT, &half).unwrap();
        assert_eq!(policy.settle, Duration::from_millis(500));
    }

    #[test]
    fn a_wrong_variable_is_named_with_what_may_stand_there() {
        let wrong = |name, value| policy(&Options::DEFAULT, &[(name, value)]).unwrap_err();
        assert_eq!(
            wrong("GPU_LEAK_CHECK", "on"),
            "GPU_LEAK_CHECK=\"on\" is not one of auto, require, off"
        );
        assert_eq!(
            wrong("GPU_LEAK_CHECK_SETTLE", "5"),
            "GPU_LEAK_CHECK_SETTLE=\"5\" is not a duration such as 250ms or 2s"
        );
        let unknown = wrong("GPU_LEAK_CHECK_SETLE", "5ms");
        assert!(
            unknown.contains("GPU_LEAK_CHECK_SETLE is unknown"),
            "{unknown}"
        );
        assert!(unknown.contains("GPU_LEAK_CHECK_SETTLE"), "{unknown}");
    }
}
