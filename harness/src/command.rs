//! What `cargo gpu-leak` asks of the library beyond the report's data. Outside SemVer: the command
//! and the library are released together.

use std::path::Path;

pub use crate::allow::Told;

/// An entry of a configuration file that lets something stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowEntry {
    /// As [`Told::stands_in`] has it: `gpu-leak-check.toml:12`.
    pub stands_in: String,
    /// Why it may stay.
    pub reason: String,
}

/// What the configuration file at `path`, which reports call `shown`, lets stay.
///
/// # Errors
///
/// `file:line:column: what is wrong`.
pub fn allow_entries(path: &Path, shown: &str) -> Result<Vec<AllowEntry>, String> {
    let entries = crate::config::entries_of(path, shown)?;
    let told = |entry: crate::allow::Entry| AllowEntry {
        stands_in: entry.stands_in,
        reason: entry.reason,
    };
    Ok(entries.into_iter().map(told).collect())
}
