//! Options with which a check would pass, for leaks that are intended.

use serde::{Deserialize, Serialize};

use crate::units;

/// Options of the attribute with which a check's findings would be allowed. At least one of them is
/// set. They are displayed in the attribute's syntax: `tolerance = 1_048_576`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct MeantToStay {
    /// The function whose allocations may all stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<String>,
    /// Bytes that may stay allocated, per device and layer. 0 means none.
    pub tolerance: u64,
    /// Bytes that may stay reserved, per device and layer. 0 means none.
    pub reserved_tolerance: u64,
}

impl MeantToStay {
    /// Allows everything that `function` allocates.
    #[must_use]
    pub fn allow(function: &str) -> Self {
        Self {
            allow: Some(function.to_owned()),
            ..Self::default()
        }
    }
}

impl std::fmt::Display for MeantToStay {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = |option: &str, bytes: u64| {
            (bytes != 0).then(|| format!("{option} = {}", units::literal(bytes)))
        };
        let allow = self
            .allow
            .as_ref()
            .map(|function| format!("allow(\"fn:{function}\", reason = \"why it may stay\")"));
        let options = [
            allow,
            bytes("tolerance", self.tolerance),
            bytes("reserved_tolerance", self.reserved_tolerance),
        ];
        let set: Vec<_> = options.into_iter().flatten().collect();
        out.write_str(&set.join(", "))
    }
}
