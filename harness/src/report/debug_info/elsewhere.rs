//! Reads debug information with the `backtrace` crate, which caches files itself.

use std::path::Path;
use std::ptr;

use super::Symbol;
use crate::capture::modules::Module;

/// Holds nothing, because the `backtrace` crate has its own cache.
#[derive(Debug, Default)]
pub(in crate::report) struct BacktraceDebugInfo;

pub(in crate::report) use self::BacktraceDebugInfo as DebugInfo;

impl BacktraceDebugInfo {
    /// Returns the functions at `address`, innermost first; empty if nothing is known.
    pub(in crate::report) fn at(
        &mut self,
        address: usize,
        _module: Option<&Module>,
    ) -> Vec<Symbol> {
        let mut symbols = Vec::new();
        // The address is increased by one, because `resolve` treats its argument as a return
        // address.
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
