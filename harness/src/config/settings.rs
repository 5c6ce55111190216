//! The settings of a run, which are the same as variables and under `[run]` in the file.

use std::time::Duration;

use gpu_leak_check_options::units;
use serde::de::{self, Deserialize, Deserializer};

use crate::options::{OnLeak, Options};

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $variable:literal,)*) => {
        /// The settings of a run; `None` where none is given.
        #[derive(Debug, Default, PartialEq, Eq, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct GivenSettings {
            $($(#[$doc])* #[serde(deserialize_with = "written")] pub(super) $name: Option<$kind>,)*
            /// Only in the file, for the command: whether it fails on tests that were not checked.
            pub(super) strict: Option<bool>,
        }

        impl GivenSettings {
            /// The keys of the settings in the file.
            pub(super) const KEYS: &[&str] = &[$(stringify!($name),)* "strict"];
            /// The variables of the settings, without the prefix.
            pub(super) const VARIABLES: &[&str] = &[$($variable),*];

            /// Sets the setting with this variable from `text`. Returns an error if `text` is not
            /// one of its values, and `None` if there is no such variable.
            pub(super) fn set(&mut self, variable: &str, text: &str) -> Option<Result<(), String>> {
                Some(match variable {
                    $($variable => Setting::read(text).map(|read| self.$name = Some(read)),)*
                    _ => return None,
                })
            }

            /// Takes the settings that are not given from `other`.
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

/// Takes the table of options. The settings of the group `policy` must have the same names here.
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
    /// The correction for a value that is not a string.
    fn forms() -> String;

    /// Returns the value of `text`, or a description of the problem.
    fn read(text: &str) -> Result<Self, String>;

    /// Reads the value as it is written in the file.
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

/// A setting with a word for each value.
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

/// The outcome of a check that cannot measure: variable `GPU_LEAK_CHECK`, key `mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A driver that is in use but cannot be traced fails the check if `CI` is set, and is only
    /// reported in a note otherwise.
    Auto,
    /// A check that cannot measure fails, even without a driver.
    Require,
    /// Bodies run; nothing is judged.
    Off,
}

/// The behaviour of a checked test on a machine without a GPU: variable
/// `GPU_LEAK_CHECK_WITHOUT_GPU`, key `without_gpu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithoutGpu {
    /// Its body runs, and sources other than the driver are judged.
    Run,
    /// Its body does not run, and the test passes as not measured.
    Skip,
}

/// Whether resources that libraries are known to keep for the process are allowed: variable
/// `GPU_LEAK_CHECK_KEPT_FOR_THE_PROCESS`, key `kept_for_the_process`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptForTheProcess {
    /// The shipped list applies to whole programs.
    Allow,
    /// It does not apply.
    Fail,
}
