//! The roots of the search: the program's statics, and the thread-locals and stacks of its threads.
//!
//! The GPU vendor's libraries and the harness are excluded, because their tables contain every
//! address.

use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;

use super::budget::Budget;
use super::heap::{Heap, Other};
use super::image::{Image, Variable};
use super::memory::{Memory, PAGE, Pages};
use super::names::Owner;
use super::search::Region;
use super::threads::{self, Thread};
use super::uses;
use crate::{Mapping, NameRules, Program, Root, RootKind};

/// The kernel's name for the memory below the program break, where glibc's main arena is.
const PROGRAM_BREAK: &str = "[heap]";

/// The largest guard below a stack. The inaccessible memory that follows an allocator's memory is
/// larger.
const LARGEST_GUARD: u64 = 64 << 10;

/// The largest number of bytes of a function that are searched for uses of a static.
const LONGEST_FUNCTION: u32 = 64 << 10;

/// The places from which a search begins.
#[derive(Debug, Default)]
pub(super) struct Roots {
    /// The places that a report may name, by index.
    places: Vec<Place>,
    /// The memory of variables. Statics come first.
    pub(super) variables: Vec<Region>,
    /// The memory of stack frames. An address there is weaker evidence, because a function's values
    /// stay on the stack until another function overwrites them.
    pub(super) frames: Vec<Region>,
    /// Memory that may refer to a target but has no useful name: the variables of Rust's own
    /// libraries, and the stack frames in which these libraries wait on behalf of a thread.
    pub(super) nameless: Vec<Region>,
    /// The memory that can contain blocks.
    pub(super) heap: Heap,
    /// The memory of NVIDIA's libraries.
    pub(super) cuda: Heap,
    /// The program, and the libraries with variables that belong to it.
    modules: Vec<Module>,
    /// The return addresses of each thread that waits for something other than the search,
    /// innermost first, by thread id.
    waiting: FxHashMap<u32, Vec<u64>>,
    pub(super) complete: bool,
}

/// A place that a report may name. A program has thousands of variables, so names are not copied
/// until a report needs them.
#[derive(Debug)]
enum Place {
    /// The index of the module, and of the variable in it.
    Static(usize, usize),
    /// The index of the module, of the variable in it, and the ID of the thread.
    ThreadLocal(usize, usize, Option<u32>),
    /// The function, if known, and the ID of the thread.
    Frame(Option<String>, Option<u32>),
}

/// The program, or a library with variables that belong to it.
#[derive(Debug)]
struct Module {
    image: Arc<Image>,
    bias: u64,
    /// The file's name; `None` for the program itself.
    name: Option<String>,
    code: Vec<Range<u64>>,
}

impl Roots {
    /// Collects the roots of this process, or as many as the time limit allows.
    pub(super) fn of_this_process<M: Memory>(
        program: Program<'_>,
        pages: &mut Pages<M>,
        budget: Budget,
    ) -> Self {
        let maps = program.mappings;
        let mut roots = Self {
            complete: !maps.is_empty(),
            ..Self::default()
        };
        let modules = roots.modules(maps, program.names, budget);
        let region = |address: u64| {
            let page = address / PAGE;
            let at = maps.partition_point(|mapping| mapping.pages.end <= page);
            let mapping = maps.get(at).filter(|it| it.pages.contains(&page));
            mapping.map(Mapping::addresses)
        };
        let (threads, all) = threads::of_this_process(program, pages, budget, region);
        roots.complete &= all;
        for (number, module) in modules.iter().enumerate() {
            let place = |variable| Place::Static(number, variable);
            let variables = &module.image.variables;
            roots.variables_of(variables, module.bias, program.allocators_words, place);
        }
        for thread in &threads {
            let own = modules.iter().position(|module| module.name.is_none());
            if let (Some(pointer), Some(number)) = (thread.pointer, own) {
                let image = &modules[number].image;
                let block = pointer.wrapping_sub(image.thread_block);
                let place = |variable| Place::ThreadLocal(number, variable, thread.id);
                roots.variables_of(&image.thread_locals, block, &[], place);
            }
            for addresses in thread.data(pages) {
                roots.add_nameless(addresses);
            }
        }
        roots.stacks(&threads, &modules, program, pages, budget);
        let stacks = threads.iter().map(|it| (it.stack.start, it.pointer));
        roots.heap = heap(maps, &stacks.collect::<Vec<_>>());
        roots.modules = modules;
        roots
    }

    /// Returns the program and the libraries that belong to it, and records where NVIDIA's
    /// libraries are.
    fn modules(&mut self, maps: &[Mapping<'_>], names: NameRules, budget: Budget) -> Vec<Module> {
        // If the program's file was replaced while the program runs, the kernel adds a suffix to
        // its name.
        let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        let program = without_deleted(&program);
        let code = maps.iter().filter(|mapping| mapping.executable);
        let mut files: Vec<&OsStr> = code.filter_map(file).collect();
        files.sort_unstable();
        files.dedup();
        let mut modules = Vec::new();
        let mut cuda = Vec::new();
        for name in files {
            let path = Path::new(name);
            let parts = maps.iter().filter(|mapping| file(mapping) == Some(name));
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            if (names.is_vendor_library)(name) {
                cuda.extend(parts.map(Mapping::addresses));
            } else if path == program {
                let module = module(Path::new("/proc/self/exe"), None, parts, names, budget);
                let named = module.filter(|module| !module.image.is_stripped);
                self.complete &= named.is_some();
                modules.extend(named);
            } else if !is_of_the_system(path, name, names) {
                match module(path, Some(name), parts, names, budget) {
                    Some(module) => modules.push(module),
                    None => self.complete = false,
                }
            }
        }
        self.cuda = Heap::new(cuda);
        modules
    }

    /// Returns the memory of the program's own code.
    pub(super) fn code(&self) -> Heap {
        Heap::new(self.modules.iter().flat_map(|module| module.code.clone()))
    }

    /// Returns the place at this index.
    pub(super) fn named(&self, place: usize) -> Root {
        let (kind, name, thread_id, module) = match &self.places[place] {
            Place::Static(module, variable) => {
                let Module { image, name, .. } = &self.modules[*module];
                let variable = image.variables[*variable].name();
                (RootKind::Static, variable, None, name.clone())
            }
            Place::ThreadLocal(module, variable, thread) => {
                let variable = self.modules[*module].image.thread_locals[*variable].name();
                (RootKind::ThreadLocal, variable, *thread, None)
            }
            Place::Frame(function, thread) => (RootKind::Stack, function.as_deref(), *thread, None),
        };
        Root {
            kind,
            name: name.map(str::to_owned),
            thread: thread_id.map(threads::name),
            thread_id,
            module,
        }
    }

    /// Returns the return addresses of the thread to which a place belongs; none if it belongs to
    /// no thread, or if the addresses are unknown.
    pub(super) fn waits_at(&self, root: &Root) -> Vec<u64> {
        let waiting = root.thread_id.and_then(|id| self.waiting.get(&id));
        waiting.cloned().unwrap_or_default()
    }

    /// Finds the instructions in a static's crate that use the static. Returns the address after
    /// the first such instruction in each function; `None` if there was no time to look.
    pub(super) fn used_at(
        &self,
        root: &Root,
        memory: &impl Memory,
        budget: Budget,
    ) -> Option<Vec<u64>> {
        let is_static = root.kind == RootKind::Static;
        let Some(name) = root.name.as_deref().filter(|_| is_static) else {
            return Some(Vec::new());
        };
        let module = self.modules.iter().find(|it| it.name == root.module)?;
        let mut variables = module.image.variables.iter();
        let variable = &variables.find(|it| it.name() == Some(name))?.addresses;
        let functions = module.image.functions_of_crate(name, budget);
        let mut uses = Vec::new();
        for function in functions {
            if budget.is_spent() {
                return None;
            }
            let mut code = vec![0; function.bytes.min(LONGEST_FUNCTION) as usize];
            let read = memory.read(function.start.wrapping_add(module.bias), &mut code);
            let found = uses::first(&code[..read], function.start, variable);
            uses.extend(found.map(|next| next.wrapping_add(module.bias)));
        }
        (!budget.is_spent()).then_some(uses)
    }

    /// Adds the variables of a module. Each begins `by` bytes after its address in the file.
    /// `place` returns the place of the variable at an index.
    fn variables_of(
        &mut self,
        variables: &[Variable],
        by: u64,
        allocators_words: &[u64],
        place: impl Fn(usize) -> Place,
    ) {
        for (index, variable) in variables.iter().enumerate() {
            let addresses = moved(&variable.addresses, by);
            let is_an_allocators = allocators_words.iter().any(|word| addresses.contains(word));
            match &variable.owner {
                Owner::Program(_) if !is_an_allocators => {
                    let place = self.number(place(index));
                    self.variables.push(Region { addresses, place });
                }
                Owner::Program(_) | Owner::Runtime => self.add_nameless(addresses),
                Owner::All => {}
            }
        }
    }

    /// Adds the frames of all stacks. Each frame ends at its return address. Values beyond the last
    /// known frame are attributed to the thread, without the name of a function.
    fn stacks<M: Memory>(
        &mut self,
        threads: &[Thread],
        modules: &[Module],
        program: Program<'_>,
        pages: &mut Pages<M>,
        budget: Budget,
    ) {
        let walked = threads::returns(threads, program, pages);
        for module in modules {
            let returns = walked.iter().flatten().flat_map(|walked| &walked.found);
            let addresses = returns.map(|&(_, address)| address);
            let inside = addresses.filter(|address| module.has(*address));
            module.image.look_up(
                inside.map(|address| address.wrapping_sub(module.bias)),
                budget,
            );
        }
        for (thread, walked) in threads.iter().zip(walked) {
            if budget.is_spent() {
                return;
            }
            let Some(walked) = walked else {
                self.complete = false;
                continue;
            };
            if let Some(id) = thread.id.filter(|_| walked.complete && !thread.is_own()) {
                let returns = walked.found.iter().map(|(_, address)| *address);
                let all = std::iter::once(thread.instruction).chain(returns);
                self.waiting.insert(id, all.collect());
            }
            let returns = walked
                .found
                .into_iter()
                .filter_map(|(at, address)| Some((at, self.returns_to(address, modules)?)));
            let mut frames = frames(&thread.stack, returns);
            if let Some((rest, _)) = (!walked.complete).then(|| frames.pop()).flatten()
                && !thread.id.is_some_and(program.is_drivers_thread)
            {
                self.add_frame(thread, None, rest);
            }
            self.stack(thread, frames);
        }
    }

    /// Adds the frames of one stack: those of the program's functions, and those of functions of
    /// Rust's own libraries that called the program, because such a function may keep the arguments
    /// of the call. If instead the program called a library function, the thread only waits there,
    /// and that frame may contain values of earlier frames.
    fn stack(&mut self, thread: &Thread, frames: Vec<(Range<u64>, Owner)>) {
        let mut waiting = Vec::new();
        let mut function: Option<String> = None;
        for (addresses, owner) in frames {
            match (owner, &function) {
                (Owner::Program(name), _) => {
                    for addresses in waiting.drain(..) {
                        self.add_nameless(addresses);
                    }
                    self.add_frame(thread, Some(&name), addresses);
                    function = Some(name);
                }
                (Owner::Runtime, Some(name)) => self.add_frame(thread, Some(name), addresses),
                (Owner::Runtime, None) => waiting.push(addresses),
                (Owner::All, _) => {
                    waiting.clear();
                    function = None;
                }
            }
        }
    }

    /// Returns the owner of the function to which a call returns at `address`; `None` if there is
    /// no such function.
    fn returns_to(&self, address: u64, modules: &[Module]) -> Option<Owner> {
        if self.cuda.region(address).is_some() {
            return Some(Owner::All);
        }
        match modules.iter().find(|module| module.has(address)) {
            Some(module) => module.image.function(address.wrapping_sub(module.bias)),
            None => Some(Owner::Runtime),
        }
    }

    fn add_frame(&mut self, thread: &Thread, function: Option<&str>, addresses: Range<u64>) {
        let place = self.number(Place::Frame(function.map(str::to_owned), thread.id));
        self.frames.push(Region { addresses, place });
    }

    fn number(&mut self, place: Place) -> usize {
        self.places.push(place);
        self.places.len() - 1
    }

    fn add_nameless(&mut self, addresses: Range<u64>) {
        self.nameless.push(Region {
            addresses,
            place: 0,
        });
    }
}

impl Module {
    fn has(&self, address: u64) -> bool {
        self.code.iter().any(|code| code.contains(&address))
    }
}

/// Splits a stack at its return addresses, and returns each part with the owner of its function.
/// The owner of the first part, in which the thread waits, is unknown.
fn frames(
    stack: &Range<u64>,
    returns: impl Iterator<Item = (u64, Owner)>,
) -> Vec<(Range<u64>, Owner)> {
    let mut frames = Vec::new();
    let (mut start, mut owner) = (stack.start, Owner::Runtime);
    for (at, outer) in returns.filter(|(at, _)| stack.contains(at)) {
        frames.push((start..at.max(start), std::mem::replace(&mut owner, outer)));
        start = at + 8;
    }
    frames.push((start..stack.end, owner));
    frames
}

/// Returns the module that was loaded from the file at `path`. `parts` are the mappings of the
/// file.
fn module<'a>(
    path: &Path,
    name: Option<&str>,
    parts: impl Iterator<Item = &'a Mapping<'a>>,
    names: NameRules,
    budget: Budget,
) -> Option<Module> {
    let image = image(path, names, budget)?;
    let parts: Vec<_> = parts.collect();
    // The file may also be mapped as data, at a lower address.
    let code = parts.iter().position(|part| part.executable)?;
    let mut before_code = parts[..=code].iter().rev();
    let bias = before_code.find_map(|part| image.bias(part.offset, part.addresses().start))?;
    let code = parts.iter().filter(|part| part.executable);
    Some(Module {
        image,
        bias,
        name: name.map(str::to_owned),
        code: code.map(|part| part.addresses()).collect(),
    })
}

/// Reads the file at `path`, and keeps the result for the life of the process, unless there was no
/// time to read the whole file.
fn image(path: &Path, names: NameRules, budget: Budget) -> Option<Arc<Image>> {
    static READ: Mutex<Option<FxHashMap<PathBuf, Option<Arc<Image>>>>> = Mutex::new(None);
    let read = || READ.lock().unwrap_or_else(PoisonError::into_inner);
    let known = read().get_or_insert_default().get(path).cloned();
    known.unwrap_or_else(|| {
        // No lock is held while the file is read, so two threads that need the file at the same
        // time both read it.
        let image = Image::read(path, names, budget).map(Arc::new);
        if image.is_some() || !budget.is_spent() {
            let mut read = read();
            read.get_or_insert_default()
                .insert(path.to_owned(), image.clone());
        }
        image
    })
}

/// Whether a library belongs to the system or has internals that the program's author does not
/// know.
fn is_of_the_system(file: &Path, name: &str, names: NameRules) -> bool {
    (names.is_in_a_system_directory)(file)
        || (names.is_known_library)(name)
        || name.starts_with("libstd-")
}

/// Returns the file of a mapping as a string, because comparing paths, component by component,
/// takes longer.
fn file<'a>(mapping: &Mapping<'a>) -> Option<&'a OsStr> {
    mapping.file.map(Path::as_os_str)
}

fn without_deleted(program: &Path) -> &Path {
    let text = program.to_str().unwrap_or_default();
    Path::new(text.strip_suffix(" (deleted)").unwrap_or(text))
}

/// Returns the memory from which allocators may take blocks: the anonymous mappings except the
/// stacks of threads. Each stack is given as an address inside it and the thread pointer, if known.
fn heap(maps: &[Mapping<'_>], stacks: &[(u64, Option<u64>)]) -> Heap {
    let mut regions = Vec::new();
    let mut others = FxHashMap::default();
    let mut before: Option<&Mapping<'_>> = None;
    for mapping in maps {
        let Range { start, end } = mapping.addresses();
        let before = before
            .replace(mapping)
            .filter(|it| it.pages.end == mapping.pages.start);
        let is_memory = mapping.name.is_empty()
            || mapping.name == PROGRAM_BREAK
            || mapping.name.starts_with("[anon:");
        if !mapping.writable || mapping.executable || !is_memory {
            continue;
        }
        let inside = |(top, _): &&(u64, Option<u64>)| (start..end).contains(top);
        match stacks.iter().find(inside).map(|(_, pointer)| *pointer) {
            // The kernel may have merged a stack with the mapping that follows it.
            Some(Some(pointer)) => {
                regions.push((pointer + PAGE).next_multiple_of(PAGE).min(end)..end)
            }
            Some(None) => {}
            None => {
                regions.push(start..end);
                // This mapping may be the stack of a thread that has ended, which is kept for the
                // next thread. It may also contain blocks that happen to be adjacent to such a
                // stack.
                let other = before.filter(|_| mapping.name.is_empty()).and_then(|it| {
                    let is_variables = it.file.is_some().then_some(Other::Variables);
                    is_variables.or_else(|| is_guard(it).then_some(Other::Stack))
                });
                others.extend(other.map(|other| (mapping.pages.start, other)));
            }
        }
    }
    let main = maps.iter().filter(|it| it.name == PROGRAM_BREAK);
    let main = main.map(Mapping::addresses);
    let mut heap = Heap::new(regions);
    heap.others = others;
    heap.main = main.reduce(|one, other| one.start.min(other.start)..one.end.max(other.end));
    heap
}

/// Whether a mapping is inaccessible and has the size of a stack guard.
fn is_guard(mapping: &Mapping<'_>) -> bool {
    let Range { start, end } = mapping.addresses();
    !(mapping.readable || mapping.writable || mapping.executable)
        && mapping.name.is_empty()
        && end - start <= LARGEST_GUARD
}

fn moved(addresses: &Range<u64>, by: u64) -> Range<u64> {
    let start = addresses.start.wrapping_add(by);
    start..start.saturating_add(addresses.end - addresses.start)
}
