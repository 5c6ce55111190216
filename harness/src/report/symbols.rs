//! From return addresses to frames.
//!
//! Reading debug information is the slow part of a report, so an address is looked up once in
//! a process.

use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

use super::model::{Frame, Owner};
use super::modules::{Module, Modules};
use super::owner::{self, Evidence};
use super::site::bare_name;
use super::symbol_table::SymbolTable;
use super::workspace::Workspace;
use crate::device::dl;

/// The frames of the return addresses `raw`, innermost first, inlined ones included, up to the
/// one from which on the runtime was starting a thread or a test.
///
/// To the user, a file with one of `own_sources` in its path belongs to a
/// [dependency](Owner::Dependency).
pub(super) fn frames(raw: &[usize], own_sources: &[&str]) -> Vec<Frame> {
    let all = by_address(raw, own_sources, |_| true);
    up_to_the_start(all.into_iter().flat_map(|(_, frames)| frames))
}

/// The frames of each of the return addresses `raw` that is `wanted`, as far as they matter to
/// [`frames`].
pub(crate) fn by_address(
    raw: &[usize],
    own_sources: &[&str],
    mut wanted: impl FnMut(usize) -> bool,
) -> Vec<(usize, Vec<Frame>)> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let workspace = Workspace::current();
    let mut all = Vec::new();
    for &address in raw {
        let frames = known.at(address);
        let is_last = frames.iter().any(begins_a_thread);
        if wanted(address) {
            let shown = |frame| shown(frame, own_sources, workspace);
            all.push((address, frames.iter().map(shown).collect()));
        }
        if is_last {
            break;
        }
    }
    all
}

/// A frame as reports show it.
fn shown(frame: &Frame, own_sources: &[&str], workspace: &Workspace) -> Frame {
    let mut frame = frame.clone();
    if let Some(file) = &mut frame.file {
        if frame.owner == Owner::User && own_sources.iter().any(|own| file.contains(own)) {
            frame.owner = Owner::Dependency;
        }
        *file = workspace.relative(file).to_owned();
    }
    frame
}

/// `frames` without those of the runtime that starts a thread or a test.
pub(crate) fn up_to_the_start(frames: impl Iterator<Item = Frame>) -> Vec<Frame> {
    frames.take_while(|frame| !begins_a_thread(frame)).collect()
}

/// Std's and libtest's marker: what lies further out than it is the runtime's.
fn begins_a_thread(frame: &Frame) -> bool {
    let function = frame.function.as_deref().unwrap_or_default();
    function.contains("__rust_begin_short_backtrace")
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// What has been looked up; files as the debug information names them.
///
/// A library that is unloaded keeps its entries. Should another take its addresses, frames are
/// misnamed; nothing is judged by them.
#[derive(Default)]
struct Known {
    modules: Modules,
    frames: FxHashMap<usize, Vec<Frame>>,
    /// By file; none for one without.
    tables: FxHashMap<PathBuf, Option<SymbolTable>>,
}

impl Known {
    fn at(&mut self, address: usize) -> &[Frame] {
        if !self.frames.contains_key(&address) {
            // A return address may be the first byte behind its function, even behind its
            // module: the call is the byte before.
            let call = address.saturating_sub(1);
            if self.modules.find(call).is_none() {
                // The first look, or something was loaded since.
                self.modules = Modules::of_this_process();
            }
            let module = self.modules.find(call);
            let mut frames = look_up(address, call, module);
            if let (Some(outermost), Some(module)) = (frames.last_mut(), module) {
                name_in_full(outermost, module, call, &mut self.tables);
            }
            self.frames.insert(address, frames);
        }
        &self.frames[&address]
    }
}

/// Gives a function its path where line tables have its bare name. Those inlined into it are in no
/// symbol table.
fn name_in_full(
    frame: &mut Frame,
    module: &Module,
    call: usize,
    tables: &mut FxHashMap<PathBuf, Option<SymbolTable>>,
) {
    let Some(function) = frame.function.as_mut().filter(|name| !name.contains("::")) else {
        return;
    };
    if !tables.contains_key(&module.path) {
        tables.insert(module.path.clone(), SymbolTable::read(&module.path));
    }
    let Some(Some(table)) = tables.get_mut(&module.path) else {
        return;
    };
    let is_same = |name: &str| bare_name(name) == bare_name(function);
    if let Some(name) = table.name(module.offset(call) as u64, is_same) {
        *function = name;
    }
}

fn look_up(address: usize, call: usize, module: Option<&Module>) -> Vec<Frame> {
    let nameless = Frame {
        module: module.map(|module| module.name().to_owned()),
        offset: module.map(|module| module.offset(call) as u64),
        owner: owner::owner(Evidence {
            module,
            ..Evidence::default()
        }),
        ..Frame::default()
    };
    // Large and stripped: not worth opening. What they export, the loader knows.
    if nameless.owner == Owner::Cuda {
        let function = dl::exported(call);
        return vec![Frame {
            offset: nameless.offset.filter(|_| function.is_none()),
            function,
            ..nameless
        }];
    }
    let mut frames = Vec::new();
    // Takes a return address and goes back to the call by itself.
    backtrace::resolve(ptr::without_provenance_mut(address), |symbol| {
        let function = symbol.name().map(|name| format!("{name:#}"));
        let file = symbol.filename().and_then(Path::to_str).map(str::to_owned);
        frames.push(Frame {
            owner: owner::owner(Evidence {
                module,
                file: file.as_deref(),
                function: function.as_deref(),
            }),
            offset: nameless.offset.filter(|_| function.is_none()),
            module: nameless.module.clone(),
            function,
            file,
            line: symbol.lineno(),
            column: symbol.colno(),
        });
    });
    if frames.is_empty() {
        frames.push(nameless);
    }
    frames
}
