//! Resolves the words of a raw backtrace to frames.
//!
//! Reading debug information is the slow part of a report, so each address is looked up once per
//! process.

use std::sync::{Arc, LazyLock};

use rustc_hash::FxHashMap;

use super::check_report::{Frame, Language, Owner, Site};
use super::debug_info::{DebugInfo, Symbol};
use super::interleave::{ScriptFrame, interleaved};
use super::{cpp_names, owner};
use crate::call_site::site_of;
use crate::capture::history;
use crate::capture::modules::Module;
use crate::ledger::script::{self, ScriptLine};
use crate::ledger::{self, Kind, StackId};
use crate::loader;
use crate::recursion_guard::quiet;
use crate::sync::{Mutex, locked};
use crate::workspace::Workspace;

/// Returns the call site at which a resource of `kind` was allocated or freed. `raw` are the return
/// addresses, innermost first, in the modules that are loaded now.
///
/// A file with one of `own_sources` in its path belongs to the layer rather than to the user.
pub fn site(raw: &[usize], kind: Kind, own_sources: &[&str]) -> Site {
    site_of(assembled(of_words(raw, own_sources)), kind)
}

/// Returns the frames of a backtrace, innermost first and including inlined ones, without the
/// frames of the runtime that starts a thread or a test.
///
/// A file with one of `own_sources` in its path is shown as belonging to a
/// [dependency](Owner::Dependency).
pub(crate) fn frames(stack: StackId, own_sources: &[&str]) -> Vec<Frame> {
    assembled(by_word(stack, own_sources, |_| true))
}

/// Returns the frames of those words of a backtrace for which `wanted` returns `true`. Words
/// whose frames [`frames`] does not need are left out.
pub(crate) fn by_word(
    stack: StackId,
    own_sources: &[&str],
    wanted: impl FnMut(usize) -> bool,
) -> Vec<(usize, Vec<Frame>)> {
    let workspace = Workspace::current();
    let raw = ledger::live().stacks().frames(stack);
    let shown = |frame: &Frame| shown(frame, own_sources, workspace);
    each_word(raw, stack, wanted, shown)
}

/// Returns the frames of words of a backtrace, in the modules that are loaded now.
pub(crate) fn of_words(raw: &[usize], own_sources: &[&str]) -> Vec<(usize, Vec<Frame>)> {
    let workspace = Workspace::current();
    let shown = |frame: &Frame| shown(frame, own_sources, workspace);
    each_word(raw, StackId::default(), |_| true, shown)
}

/// Returns the results of `of_frame` for the frames of those words for which `wanted` returns
/// `true`. The words are part of the backtrace `stack`.
fn each_word<T>(
    raw: &[usize],
    stack: StackId,
    mut wanted: impl FnMut(usize) -> bool,
    of_frame: impl Fn(&Frame) -> T,
) -> Vec<(usize, Vec<T>)> {
    // Reading debug information makes about a million allocations on the host.
    let _quiet = quiet();
    let (then, now) = history::modules_of(stack);
    let mut cache = locked(&CACHE);
    let mut all = Vec::new();
    let mut started = false;
    for &word in raw {
        let line = script::line(word).map(|line| vec![of_line(&line)]);
        let frames = match &line {
            Some(frames) => frames,
            None if started => continue,
            None => {
                // A return address may be the first byte after its function, or even after its
                // module. The byte before it belongs to the call.
                let module = then.find(word.saturating_sub(1));
                let is_loaded = module.is_some_and(|module| now.has(module));
                let looked_up = cache.at(word, module, is_loaded);
                started = looked_up.begins_a_thread;
                &looked_up.frames
            }
        };
        if wanted(word) {
            all.push((word, frames.iter().map(&of_frame).collect()));
        }
    }
    all
}

/// Whether `addresses` contains addresses of code, and all of this code is in files with one of
/// `own_sources` in their path.
#[cfg(feature = "holders")]
pub(crate) fn are_own(addresses: &[u64], own_sources: &[&str]) -> bool {
    let in_own = |frame: &Frame| {
        frame
            .file
            .as_deref()
            .is_some_and(|it| is_own(it, own_sources))
    };
    let is_used_there = |address: &u64| {
        let frames = each_word(&[*address as usize], StackId::default(), |_| true, in_own);
        // Functions that are inlined at the address may belong to another library.
        frames
            .into_iter()
            .flat_map(|(_, frames)| frames)
            .any(|is_own| is_own)
    };
    !addresses.is_empty() && addresses.iter().all(is_used_there)
}

/// Returns the frame for a line of an interpreted program.
fn of_line(line: &ScriptLine) -> Frame {
    Frame {
        function: Some(line.function.as_str().into()),
        file: Some(line.file.as_str().into()),
        line: line.line,
        column: line.column,
        owner: owner::of_python(&line.file),
        language: Language::Python,
        ..Frame::default()
    }
}

fn is_own(file: &str, own_sources: &[&str]) -> bool {
    own_sources.iter().any(|own| file.contains(own))
}

/// Returns a frame as reports show it.
fn shown(frame: &Frame, own_sources: &[&str], workspace: &Workspace) -> Frame {
    let mut frame = frame.clone();
    if let Some(file) = &mut frame.file {
        if frame.owner == Owner::User && is_own(file, own_sources) {
            frame.owner = Owner::Dependency;
        }
        let relative = workspace.relative(file);
        if relative.len() != file.len() {
            *file = relative.into();
        }
    }
    frame
}

/// Joins the frames of a backtrace's words, except those of the runtime that starts a thread or a
/// test.
pub(crate) fn assembled(words: impl IntoIterator<Item = (usize, Vec<Frame>)>) -> Vec<Frame> {
    let (mut native, mut lines) = (Vec::new(), Vec::new());
    for (word, frames) in words {
        if script::is_script(word) {
            let outermost = script::is_outermost(word);
            let line = |frame| ScriptFrame { frame, outermost };
            lines.extend(frames.into_iter().map(line));
        } else {
            native.extend(frames);
        }
    }
    let start = native.iter().position(begins_a_thread);
    native.truncate(start.unwrap_or(native.len()));
    interleaved(native, lines)
}

/// Whether this frame is a marker of std or libtest. The frames outside it belong to the runtime.
fn begins_a_thread(frame: &Frame) -> bool {
    let function = frame.function.as_deref().unwrap_or_default();
    function.contains("__rust_begin_short_backtrace")
}

static CACHE: LazyLock<Mutex<FrameCache>> = LazyLock::new(Mutex::default);

/// The addresses that have been looked up.
#[derive(Default)]
struct FrameCache {
    /// The frames of each address. Their files are named as in the debug information. The key
    /// includes the address of the module's description, which stays valid for the life of the
    /// process, so that a module that was unloaded is not confused with a module that was loaded in
    /// its place. Outside any module, it is 0.
    frames: FxHashMap<(usize, usize), LookedUp>,
    debug_info: DebugInfo,
}

/// The frames of an address.
struct LookedUp {
    frames: Vec<Frame>,
    /// Whether one of them [begins a thread](begins_a_thread).
    begins_a_thread: bool,
}

impl FrameCache {
    /// Returns the frames of the call before `address` in `module`, which may have been unloaded.
    fn at(&mut self, address: usize, module: Option<&Arc<Module>>, is_loaded: bool) -> &LookedUp {
        let description = module.map_or(0, |module| Arc::as_ptr(module).addr());
        let frames = self.frames.entry((description, address));
        frames.or_insert_with(|| {
            let call = address.saturating_sub(1);
            let module = module.map(|module| &**module);
            let frames = look_up(call, module, is_loaded, &mut self.debug_info);
            LookedUp {
                begins_a_thread: frames.iter().any(begins_a_thread),
                frames,
            }
        })
    }
}

/// Returns the frames of the call at the address `call`.
fn look_up(
    call: usize,
    module: Option<&Module>,
    is_loaded: bool,
    debug_info: &mut DebugInfo,
) -> Vec<Frame> {
    let nameless = Frame {
        module: module.map(|module| module.name().into()),
        offset: module.map(|module| module.offset(call) as u64),
        owner: owner::owner(module, &Symbol::default()),
        ..Frame::default()
    };
    // NVIDIA's libraries are large and stripped, so they are not opened. While they are loaded, the
    // loader knows their exported functions.
    if nameless.owner == Owner::Cuda {
        let function = is_loaded.then(|| loader::exported(call)).flatten();
        return vec![Frame {
            offset: nameless.offset.filter(|_| function.is_none()),
            function: function.map(Arc::from),
            ..nameless
        }];
    }
    let symbols = debug_info.at(call, module);
    if symbols.is_empty() {
        return vec![nameless];
    }
    let frame = |symbol: Symbol| Frame {
        owner: owner::owner(module, &symbol),
        offset: nameless.offset.filter(|_| symbol.function.is_none()),
        module: nameless.module.clone(),
        function: symbol
            .function
            .map(|name| cpp_names::demangled(name).into()),
        file: symbol.file.map(Arc::from),
        line: symbol.line,
        column: symbol.column,
        ..Frame::default()
    };
    symbols.into_iter().map(frame).collect()
}

#[cfg(test)]
mod tests {
    use super::{Owner, site};
    use crate::capture;
    use crate::ledger::Kind;

    /// Captures a real backtrace of this process, as a wrapper does.
    #[inline(never)]
    fn raw_stack() -> Vec<usize> {
        let mut raw = Vec::new();
        capture::trace(|_, address, _| {
            raw.push(address);
            true
        });
        raw
    }

    #[test]
    fn a_real_stack_is_named_and_starts_outside_the_harness() {
        // In the harness's own unit tests, the harness is also the caller, so no frame may be left.
        let site = site(&raw_stack(), Kind::Linear, &[]);
        assert_eq!(site.frames, []);
    }

    #[test]
    fn an_address_outside_any_module_is_a_frame_without_a_name() {
        let site = site(&[16], Kind::Linear, &[]);
        assert_eq!(site.frames.len(), 1, "{site:?}");
        assert_eq!(site.frames[0].owner, Owner::Native);
        assert_eq!(site.frames[0].function, None);
    }
}
