//! Human-readable byte counts.

use std::fmt;

const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];

/// Shows a count in a form such as `512 B`, `88.0 KiB` or `2.00 MiB`, with three digits from 1 KiB
/// upwards.
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1024 {
            return out.pad(&format!("{} B", self.0));
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        // From 999.5, rounding to three digits would give 1000.
        while value >= 999.5 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let places = match value {
            value if value >= 99.95 => 0,
            value if value >= 9.995 => 1,
            _ => 2,
        };
        out.pad(&format!("{value:.places$} {}", UNITS[unit]))
    }
}
