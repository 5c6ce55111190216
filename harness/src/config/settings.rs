//! The settings of a run, which can be given both as variables and under `[run]` in the file.

use std::time::Duration;

use gpu_leak_check_options::units;
use serde::de::{self, Deserialize, Deserializer};

use crate::options::{OnLeak, Options};

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $variable:literal,)*) => {
        /// The settings of a run. Those that are not given are `None`.
        #[derive(Debug, Default, PartialEq, Eq, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct GivenSettings {
            $($(#[$doc])* #[serde(deserialize_with = "written")] pub(super) $name: Option<$kind>,)*
            /// Whether the command fails if tests were not checked. This can be given only in the
            /// file.
            pub(super) strict: Option<bool>,
        }

        impl GivenSettings {
            /// The keys of the settings in the file.
            pub(super) const KEYS: &[&str] = &[$(stringify!($name),)* "strict"];
            /// The names of the settings' variables, without the prefix.
            pub(super) const VARIABLES: &[&str] = &[$($variable),*];

            /// Sets the setting with this variable to the value in `text`. Returns an error if
            /// `text` is not a valid value, and `None` if there is no such variable.
            pub(super) fn set(&mut self, variable: &str, text: &str) -> Option<Result<(), String>> {
                Some(match variable {
                    $($variable => Setting::read(text).map(|read| self.$name = Some(read)),)*
                    _ => return None,
                })
            }

            /// Returns these settings. Those that are not given are taken from `other`.
            pub(super) fn or(&self, other: &Self) -> Self {
                Self {
                    $($name: self.$name.or(other.$name),)*
                    strict: self.strict.or(other.strict),
                }
            }
        }
    };
}

settings! {
    mode: Mode = "",
    on_leak: OnLeak = "_ON_LEAK",
    first_use: OnLeak = "_FIRST_USE",
    without_gpu: WithoutGpu = "_WITHOUT_GPU",
    settle: Duration = "_SETTLE",
    held_by: Duration = "_HELD_BY",
    kept_for_the_process: KeptForTheProcess = "_KEPT_FOR_THE_PROCESS",
    peaks: bool = "_PEAKS",
}

/// Expands the table of options. The settings here must have the same names as the options in the
/// group `policy`.
macro_rules! own {
    (
        facts { $($facts:tt)* }
        process { $($process:tt)* }
        policy { $($(#[$doc:meta])* $name:ident: $kind:ident = $example:literal,)* }
        $($elsewhere:tt)*
    ) => {
        impl GivenSettings {
            /// Returns the settings that the options of a check contain.
            pub(super) fn of(options: &Options) -> Self {
                Self { $($name: options.$name,)* ..Self::default() }
            }
        }
    };
}
gpu_leak_check_options::options!(own);

/// A value of a setting.
trait Setting: Sized {
    /// Returns the error message for a value of the wrong type, which describes the valid values.
    fn forms() -> String;

    /// Parses a value. Returns an error that describes the problem if `text` is not valid.
    fn read(text: &str) -> Result<Self, String>;

    /// Reads the value from the configuration file.
    fn written<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from).map_err(|_| de::Error::custom(Self::forms()))?;
        Self::read(&text).map_err(de::Error::custom)
    }
}

fn written<'de, D: Deserializer<'de>, T: Setting>(from: D) -> Result<Option<T>, D::Error> {
    T::written(from).map(Some)
}

impl Setting for bool {
    fn forms() -> String {
        "expected true or false".to_owned()
    }

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|_| format!("{text:?} is not `true` or `false`"))
    }

    fn written<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::deserialize(from).map_err(|_| de::Error::custom(Self::forms()))
    }
}

impl Setting for Duration {
    fn forms() -> String {
        "a duration must be in quotes, such as \"250ms\"".to_owned()
    }

    fn read(text: &str) -> Result<Self, String> {
        units::milliseconds(text).map(Self::from_millis)
    }
}

/// Implements [`Setting`] for a type that has a word for each value.
macro_rules! words {
    ($setting:ident { $($word:literal => $value:ident,)* }) => {
        impl Setting for $setting {
            fn forms() -> String {
                format!("expected one of {}", [$(concat!("\"", $word, "\"")),*].join(", "))
            }

            fn read(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$value),)*
                    _ => Err(format!("{text:?} is not one of {}", [$($word),*].join(", "))),
                }
            }
        }
    };
}

words!(Mode { "auto" => Auto, "require" => Require, "off" => Off, });
words!(OnLeak { "fail" => Fail, "warn" => Warn, });
words!(WithoutGpu { "run" => Run, "skip" => Skip, });
words!(KeptForTheProcess { "allow" => Allow, "fail" => Fail, });

/// What happens if a check has no result. The variable is `GPU_LEAK_CHECK`, and the key is `mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// If a driver is in use but cannot be traced, the check fails if `CI` is set. In all other
    /// cases, the missing result is only reported.
    Auto,
    /// A check without a result fails, even without a driver.
    Require,
    /// Bodies run, but nothing is judged.
    Off,
}

/// What a checked test does on a machine without a GPU. The variable is
/// `GPU_LEAK_CHECK_WITHOUT_GPU`, and the key is `without_gpu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithoutGpu {
    /// The test's body runs, and sources other than the driver are judged.
    Run,
    /// The test's body does not run, and the test passes as not measured.
    Skip,
}

/// Whether to allow the resources that libraries are known to keep as long as the process runs. The
/// variable is `GPU_LEAK_CHECK_KEPT_FOR_THE_PROCESS`, and the key is `kept_for_the_process`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptForTheProcess {
    /// The shipped list applies to whole programs.
    Allow,
    /// The shipped list does not apply.
    Fail,
}
