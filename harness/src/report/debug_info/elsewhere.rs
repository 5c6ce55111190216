//! Reads with the `backtrace` crate, which has its own memory of files.

use std::path::Path;
use std::ptr;

use super::Symbol;
use crate::capture::modules::Module;

/// Nothing of ours.
#[derive(Debug, Default)]
pub(in crate::report) struct DebugInfo;

impl DebugInfo {
    /// The functions around the call at `address`, inlined ones first; none where nothing is known.
    pub(in crate::report) fn at(
        &mut self,
        address: usize,
        _module: Option<&Module>,
    ) -> Vec<Symbol> {
        let mut symbols = Vec::new();
        // What it is given, it takes for a return address.
        let behind = ptr::without_provenance_mut(address.saturating_add(1));
        backtrace::resolve(behind, |symbol| {
            symbols.push(Symbol {
                function: symbol.name().map(|name| format!("{name:#}")),
                file: symbol.filename().and_then(Path::to_str).map(str::to_owned),
                line: symbol.lineno(),
                column: symbol.colno(),
            });
        });
        symbols
    }
}
