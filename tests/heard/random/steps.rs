//! The steps of random programs. A program does not
//!
//! - use a graph, or a context that is not a primary one, after destroying it. Its handle may
//!   belong to a child graph or to the context of a green one, of which the program does not know;
//! - use a graph while a stream is captured into it;
//! - add free nodes to a graph that was instantiated before, which an H200 refused with
//!   `CUDA_ERROR_INVALID_VALUE`;
//! - open memory of the same address twice, because the stand-in counts mappings.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::atomic::AtomicU8;

use gpu_leak_check::ledger;
use gpu_leak_tests::random::Random;

use crate::heard::Driver;
use crate::heard::calls::{at, node};
use crate::heard::lenient::try_open;

/// An argument of a call.
enum Argument {
    /// The address to which the call writes a new object of this class.
    Makes(&'static str),
    /// An object of this class, which may have been destroyed. 0 if there was none so far.
    Any(&'static str),
    /// Like [`Self::Any`], but the program no longer uses the object after a call that succeeds.
    Ends(&'static str),
    /// A stream, or the default stream.
    Stream,
    /// The address of one of the pages in a range.
    Page,
    /// The address of memory of the program.
    Own,
    /// A function that does nothing.
    Destructor,
    /// One of these numbers.
    Is(&'static [u64]),
    /// The address of one of these structures.
    At(&'static [&'static [u64]]),
}
use Argument::{Any, At, Destructor, Ends, Is, Makes, Own, Page, Stream};

enum Step {
    Call(&'static str, &'static [Argument]),
    Do(fn(&mut Program<'_>)),
}
use Step::{Call, Do};

const PAGE: u64 = 2 << 20;
const DEVICE: Argument = Is(&[0, 1]);
const COUNT: Argument = Is(&[1, 2]);
const FLAG: Argument = Is(&[0, 1]);
const ZERO: Argument = Is(&[0]);
const ONE: Argument = Is(&[1]);
const PAGES: Argument = Is(&[PAGE, 2 * PAGE]);
/// Parts of a range: the offset and the number of bytes.
const SPANS: &[(u64, u64)] = &[(0, PAGE), (0, 2 * PAGE), (PAGE, PAGE)];
const RANGE: Argument = Is(&[2 * PAGE]);

/// `CUmemPoolProps` and `CUmemAllocationProp`: pinned, shared by descriptors, on each device.
const PROPERTIES: Argument = At(&[
    &[1 | 1 << 32, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    &[1 | 1 << 32, 1 | 1 << 32, 0, 0, 0, 0, 0, 0, 0, 0, 0],
]);
/// Width, height and depth; a float format with one channel; surfaces are allowed.
const ARRAY: Argument = At(&[&[64, 32, 0, 0x20 | 1 << 32, 2]]);
/// The stand-in reads neither the resource nor the sampling of a texture, nor an image.
const UNREAD: Argument = At(&[&[0; 18]]);
/// A descriptor's type, its number, and the number of bytes.
const EXTERNAL: Argument = At(&[&[1, 0, 0, 8192, 0, 0, 0, 0, 0, 0, 0, 0, 0]]);
/// The first byte of a buffer, and the number of bytes.
const BUFFER: Argument = At(&[&[0, 4096, 0, 0, 0, 0, 0, 0, 0, 0, 0]]);

/// The steps, each with its relative frequency.
#[rustfmt::skip]
const TABLE: &[(usize, Step)] = &[
    // Contexts
    (2, Do(create_context)),
    (1, Call("cuCtxDestroy_v2", &[Ends("context")])),
    (1, Call("cuCtxDetach", &[Ends("context")])),
    (1, Call("cuCtxAttach", &[Makes("context"), ZERO])),
    (3, Call("cuCtxSetCurrent", &[Any("context")])),
    (4, Call("cuCtxSetCurrent", &[Any("primary")])),
    (1, Do(retain_primary)),
    (1, Do(release_primary)),
    (1, Call("cuDevicePrimaryCtxReset_v2", &[DEVICE])),
    (1, Do(create_green)),
    (1, Do(convert_green)),
    (1, Do(destroy_green)),
    (1, Call("cuGreenCtxStreamCreate", &[Makes("stream"), Any("green"), ONE, ZERO])),
    (1, Do(enter_context_of_stream)),
    // Memory
    (2, Call("cuMemAlloc_v2", &[Makes("pointer"), Is(&[100])])),
    (1, Call("cuMemAllocManaged", &[Makes("pointer"), Is(&[4096]), ONE])),
    (3, Call("cuMemAllocAsync", &[Makes("pointer"), Is(&[400, 600]), Stream])),
    (1, Call("cuMemAllocFromPoolAsync", &[Makes("pointer"), Is(&[300]), Any("pool"), Stream])),
    (3, Call("cuMemFree_v2", &[Any("pointer")])),
    (4, Call("cuMemFreeAsync", &[Any("pointer"), Stream])),
    (1, Call("cuMemHostAlloc", &[Makes("host"), Is(&[8192]), ZERO])),
    (1, Call("cuMemFreeHost", &[Any("host")])),
    (1, Call("cuMemHostRegister_v2", &[Own, Is(&[8192]), ZERO])),
    (1, Call("cuMemHostUnregister", &[Own])),
    (1, Call("cuMemPoolCreate", &[Makes("pool"), PROPERTIES])),
    (1, Call("cuMemPoolDestroy", &[Any("pool")])),
    (1, Call("cuDeviceSetMemPool", &[DEVICE, Any("pool")])),
    (1, Do(share_pool)),
    (1, Do(share_memory)),
    (2, Call("cuIpcCloseMemHandle", &[Any("opened")])),
    (1, Call("cuImportExternalMemory", &[Makes("external"), EXTERNAL])),
    (1, Call("cuDestroyExternalMemory", &[Any("external")])),
    (1, Call("cuExternalMemoryGetMappedBuffer", &[Makes("pointer"), Any("external"), BUFFER])),
    // Virtual memory
    (1, Call("cuMemAddressReserve", &[Makes("range"), RANGE, ZERO, ZERO, ZERO])),
    (1, Call("cuMemAddressFree", &[Any("range"), RANGE])),
    (2, Call("cuMemCreate", &[Makes("physical"), PAGES, PROPERTIES, ZERO])),
    (2, Call("cuMemRelease", &[Any("physical")])),
    (3, Do(map)),
    (3, Do(unmap)),
    (1, Call("cuMemRetainAllocationHandle", &[Makes("physical"), Page])),
    // Objects that belong to a context
    (2, Call("cuStreamCreate", &[Makes("stream"), ONE])),
    (1, Call("cuStreamDestroy_v2", &[Any("stream")])),
    (1, Call("cuEventCreate", &[Makes("event"), ZERO])),
    (1, Call("cuEventDestroy_v2", &[Any("event")])),
    (1, Call("cuEventRecord", &[Any("event"), Stream])),
    (1, Call("cuStreamWaitEvent", &[Stream, Any("event"), ZERO])),
    (1, Call("cuArray3DCreate_v2", &[Makes("array"), ARRAY])),
    (1, Call("cuArrayDestroy", &[Any("array")])),
    (1, Call("cuMipmappedArrayCreate", &[Makes("array"), ARRAY, Is(&[2])])),
    (1, Call("cuMipmappedArrayGetLevel", &[Makes("array"), Any("array"), ZERO])),
    (1, Call("cuMipmappedArrayDestroy", &[Any("array")])),
    (1, Call("cuTexObjectCreate", &[Makes("texture"), UNREAD, UNREAD, ZERO])),
    (1, Call("cuTexObjectDestroy", &[Any("texture")])),
    (1, Call("cuModuleLoadData", &[Makes("module"), UNREAD])),
    (1, Call("cuModuleUnload", &[Any("module")])),
    (1, Call("cuLibraryLoadData", &[Makes("library"), UNREAD])),
    (1, Call("cuLibraryUnload", &[Any("library")])),
    // Graphs
    (2, Call("cuGraphCreate", &[Makes("graph"), ZERO])),
    (1, Call("cuGraphClone", &[Makes("graph"), Any("graph")])),
    (1, Call("cuGraphDestroy", &[Ends("graph")])),
    (2, Do(add_allocation)),
    (1, Do(add_free)),
    (1, Do(add_child)),
    (2, Do(instantiate)),
    (1, Call("cuGraphExecDestroy", &[Any("exec")])),
    (2, Call("cuGraphLaunch", &[Any("exec"), Stream])),
    (1, Call("cuGraphExecUpdate_v2", &[Any("exec"), Any("graph"), ZERO])),
    (1, Call("cuUserObjectCreate", &[Makes("object"), ONE, Destructor, COUNT, ONE])),
    (1, Call("cuUserObjectRetain", &[Any("object"), COUNT])),
    (2, Call("cuUserObjectRelease", &[Any("object"), COUNT])),
    (2, Call("cuGraphRetainUserObject", &[Any("graph"), Any("object"), COUNT, FLAG])),
    (1, Call("cuGraphReleaseUserObject", &[Any("graph"), Any("object"), COUNT])),
    (3, Do(begin_capture)),
    (2, Call("cuStreamEndCapture", &[Any("capturing"), Makes("graph")])),
];

/// The calls that are left out if the driver may be a real one. A real driver does not check their
/// arguments, or refuses them for reasons that the stand-in does not know.
const UNDEFINED: &[&str] = &[
    "cuTexObjectCreate",
    "cuMipmappedArrayCreate",
    "cuMipmappedArrayGetLevel",
    "cuMipmappedArrayDestroy",
    "cuModuleLoadData",
    "cuLibraryLoadData",
    "cuImportExternalMemory",
    "cuIpcGetMemHandle",
    "cuUserObjectCreate",
    "cuStreamBeginRecaptureToGraph",
    "cuGraphExecUpdate_v2",
];

/// The classes without records.
const WITHOUT_RECORD: &[&str] = &["primary", "address", "physical"];

#[repr(align(4096))]
struct Pages(#[expect(dead_code, reason = "only its address is used")] [AtomicU8; 16384]);

pub(super) struct Program<'a> {
    driver: &'a Driver<'a>,
    has_captures: bool,
    /// Whether the driver may be a real one, so that calls must be defined.
    is_defined: bool,
    /// Whether other programs use the devices at the same time.
    pub(super) shares_process: bool,
    /// Memory that the program can register.
    own: Box<Pages>,
    /// Whether the step needs an object of a class of which there is none.
    lacks: bool,
    random: Random,
    /// The handles and addresses of each class, with the newest last.
    known: BTreeMap<&'static str, Vec<u64>>,
    /// For each device, the number of retains of the primary context that are not yet released.
    retained: [u32; 2],
    /// The contexts to which green contexts were converted.
    converted: BTreeMap<u64, u64>,
    /// The graphs that were instantiated, and the addresses of memory that was opened.
    done: BTreeSet<u64>,
}

impl<'a> Program<'a> {
    pub(super) fn new(driver: &'a Driver<'a>, has_captures: bool, is_defined: bool) -> Self {
        Self {
            driver,
            has_captures,
            is_defined,
            shares_process: false,
            own: Box::new(Pages([const { AtomicU8::new(0) }; 16384])),
            lacks: false,
            random: Random(0),
            known: BTreeMap::new(),
            retained: [0; 2],
            converted: BTreeMap::new(),
            done: BTreeSet::new(),
        }
    }

    /// Makes the first device's primary context current.
    pub(super) fn enter_primary(&mut self) {
        let primary = self.make("primary", "cuDevicePrimaryCtxRetain", &[0]);
        self.retained[0] += 1;
        self.call("cuCtxSetCurrent", &[primary.expect("a context")]);
    }

    /// Runs a step that these random numbers select.
    pub(super) fn step(&mut self, random: Random) {
        (self.random, self.lacks) = (random, false);
        if self.is_defined {
            let live = ledger::live().select(|_| true);
            let keys: BTreeSet<_> = live.iter().map(|record| record.made.key.value()).collect();
            let converted: BTreeSet<_> = self.converted.values().collect();
            for (class, known) in &mut self.known {
                let has_record = !WITHOUT_RECORD.contains(class);
                known.retain(|it| !has_record || keys.contains(it) || converted.contains(it));
            }
        }
        let steps = TABLE.iter();
        let steps: Vec<_> = steps
            .flat_map(|(count, step)| [step].repeat(*count))
            .collect();
        match steps[self.random.below(steps.len())] {
            Call(name, arguments) => _ = self.choose(name, arguments),
            Do(step) => step(self),
        }
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        self.random.one_of(values)
    }

    /// Returns an object of this class, probably one of the newest, because those may still be
    /// live.
    fn any(&mut self, class: &'static str) -> u64 {
        let known = self.known.get(class).map_or(&[][..], Vec::as_slice);
        let newest = known.len().saturating_sub(6);
        let among = match self.random.below(4) {
            0 => known,
            _ => &known[newest..],
        };
        match among.len() {
            0 => {
                self.lacks = true;
                0
            }
            count => among[self.random.below(count)],
        }
    }

    fn argument(&mut self, argument: &Argument, answer: &Cell<u64>) -> u64 {
        extern "C" fn destructor(_data: *mut c_void) {}
        match *argument {
            Makes(_) => at(answer),
            Any(class) | Ends(class) => self.any(class),
            Stream => match self.random.below(3) {
                0 => 0,
                _ => self.any("stream"),
            },
            Page => self.any("range") + self.one_of(&[0, PAGE]),
            Own => at(&*self.own) + self.one_of(&[0, 4096, 8192]),
            Destructor => (destructor as extern "C" fn(*mut c_void)) as usize as u64,
            Is(values) => self.one_of(values),
            At(structures) => at(self.one_of(structures)),
        }
    }

    /// Makes a call with arguments that are chosen at random. Returns whether it succeeded.
    fn choose(&mut self, name: &str, arguments: &[Argument]) -> bool {
        let answer = Cell::new(0);
        let chosen = arguments.iter().map(|it| self.argument(it, &answer));
        let chosen: Vec<u64> = chosen.collect();
        let (succeeded, freed) = (self.call(name, &chosen), chosen[0]);
        for (argument, value) in arguments.iter().zip(chosen).filter(|_| succeeded) {
            match *argument {
                Makes(class) => self.keep(class, answer.get()),
                Ends(class) => self.forget(class, value),
                _ => {}
            }
        }
        let frees = name.starts_with("cuMemFree") || name == "cuMemRelease";
        if self.is_defined && succeeded && frees {
            // The two drivers reuse addresses at different times. An H200 frees linear memory of
            // `cuMemFreeAsync` only at the next synchronisation, and accepts other frees until
            // then.
            self.forget("pointer", freed);
            self.forget("host", freed);
            self.forget("physical", freed);
        }
        if self.is_defined && matches!(name, "cuGraphDestroy" | "cuGraphExecDestroy") {
            // The stand-in gives the addresses of the graph's nodes to later nodes, and an H200 does
            // not.
            self.known.remove("address");
        }
        succeeded
    }

    /// Makes a call and prints it. Returns whether it succeeded.
    fn call(&self, name: &str, arguments: &[u64]) -> bool {
        if self.shares_process && name == "cuDevicePrimaryCtxReset_v2" {
            return false;
        }
        if self.is_defined && (self.lacks || UNDEFINED.contains(&name)) {
            return false;
        }
        eprint!("\n> {name}{arguments:x?}");
        let error = self.driver.try_call(name, arguments);
        eprint!(" = {error}");
        error == 0
    }

    /// Makes a call that writes a new object to its first argument, and returns the object.
    fn make(&mut self, class: &'static str, name: &str, arguments: &[u64]) -> Option<u64> {
        let answer = Cell::new(0_u64);
        self.call(name, &[&[at(&answer)], arguments].concat())
            .then_some(())?;
        self.keep(class, answer.get());
        Some(answer.get())
    }

    fn keep(&mut self, class: &'static str, value: u64) {
        eprint!(", {class} {value:x}");
        self.forget(class, value);
        if class == "graph" {
            self.done.remove(&value);
        }
        self.known.entry(class).or_default().push(value);
    }

    fn forget(&mut self, class: &'static str, value: u64) {
        let known = self.known.entry(class).or_default();
        known.retain(|it| *it != value);
    }
}

fn create_context(program: &mut Program<'_>) {
    program.choose("cuCtxCreate_v2", &[Makes("context"), ZERO, DEVICE]);
    // The stack of current contexts has a limited depth.
    program.choose("cuCtxPopCurrent_v2", &[ZERO]);
    program.choose("cuCtxSetCurrent", &[Any("context")]);
}

fn retain_primary(program: &mut Program<'_>) {
    let device = program.one_of(&[0, 1]);
    program.make("primary", "cuDevicePrimaryCtxRetain", &[device]);
    program.retained[device as usize] += 1;
}

fn release_primary(program: &mut Program<'_>) {
    let device = program.one_of(&[0, 1]);
    let retained = &mut program.retained[device as usize];
    if *retained > 0 {
        *retained -= 1;
        program.call("cuDevicePrimaryCtxRelease_v2", &[device]);
    }
}

fn create_green(program: &mut Program<'_>) {
    let (resource, description) = (Cell::new([0_u64; 20]), Cell::new(0_u64));
    let (device, resource) = (program.one_of(&[0, 1]), at(&resource));
    let generate = [at(&description), resource, 1];
    if !program.call("cuDeviceGetDevResource", &[device, resource, 1])
        || !program.call("cuDevResourceGenerateDesc", &generate)
    {
        return;
    }
    program.make("green", "cuGreenCtxCreate", &[description.get(), device, 1]);
}

fn convert_green(program: &mut Program<'_>) {
    let green = program.any("green");
    if let Some(context) = program.make("context", "cuCtxFromGreenCtx", &[green]) {
        program.converted.insert(green, context);
    }
}

fn destroy_green(program: &mut Program<'_>) {
    let green = program.any("green");
    if program.call("cuGreenCtxDestroy", &[green]) {
        if program.is_defined {
            // The streams of the green context stay, but cannot be used.
            program.known.remove("stream");
            program.known.remove("capturing");
        }
        let context = program.converted.remove(&green);
        program.forget("context", context.unwrap_or(0));
        // The destroyed context may have been current.
        program.choose("cuCtxSetCurrent", &[Any("primary")]);
    }
}

/// Makes the context of a stream current. It may be the context of a green context, which the
/// ledger recognises if it knows the primary context of the device.
fn enter_context_of_stream(program: &mut Program<'_>) {
    let (stream, context) = (program.any("stream"), Cell::new(0_u64));
    for device in [0, 1] {
        program.make("primary", "cuDevicePrimaryCtxRetain", &[device]);
    }
    if program.call("cuStreamGetCtx", &[stream, at(&context)]) {
        program.call("cuCtxSetCurrent", &[context.get()]);
        program.make("stream", "cuStreamCreate", &[1]);
    }
    for device in [0, 1] {
        program.call("cuDevicePrimaryCtxRelease_v2", &[device]);
    }
}

/// Maps memory within the requested range. Outside it, the drivers differ, because a real one
/// reserves a larger range.
fn map(program: &mut Program<'_>) {
    let (range, physical) = (program.any("range"), program.any("physical"));
    let (page, size) = program.one_of(SPANS);
    program.call("cuMemMap", &[range + page, size, 0, physical, 0]);
}

fn unmap(program: &mut Program<'_>) {
    let range = program.any("range");
    let (page, size) = program.one_of(SPANS);
    program.call("cuMemUnmap", &[range + page, size]);
}

fn share_pool(program: &mut Program<'_>) {
    let (exported, descriptor) = (program.any("pool"), Cell::new(0));
    let shared = Cell::new([0_u64; 8]);
    program.call(
        "cuMemPoolExportToShareableHandle",
        &[at(&descriptor), exported, 1, 0],
    );
    let import = [descriptor.get(), 1, 0];
    let imported = program.make("pool", "cuMemPoolImportFromShareableHandle", &import);
    let pointer = program.make("pointer", "cuMemAllocFromPoolAsync", &[100, exported, 0]);
    if let (Some(pool), Some(pointer)) = (imported, pointer) {
        program.call("cuMemPoolExportPointer", &[at(&shared), pointer]);
        program.make("pointer", "cuMemPoolImportPointer", &[pool, at(&shared)]);
    }
    if program.is_defined {
        // An H200 does not destroy an imported pool that has pointers, and does not import it
        // twice.
        program.forget("pool", exported);
        program.forget("pool", imported.unwrap_or(0));
    }
}

fn share_memory(program: &mut Program<'_>) {
    let shared = Cell::new([0_u64; 8]);
    let Some(pointer) = program.make("pointer", "cuMemAlloc_v2", &[100]) else {
        return;
    };
    let is_new = !program.done.contains(&pointer);
    if is_new && program.call("cuIpcGetMemHandle", &[at(&shared), pointer]) {
        let (opened, error) = try_open(program.driver, "cuIpcOpenMemHandle_v2", shared.get());
        eprint!("\n> cuIpcOpenMemHandle_v2 = {error}");
        if error == 0 {
            program.done.insert(pointer);
            program.keep("opened", opened);
        }
    }
}

fn add_allocation(program: &mut Program<'_>) {
    let graph = program.any("graph");
    add_allocation_to(program, graph);
}

fn add_allocation_to(program: &mut Program<'_>, graph: u64) {
    let (parameters, added) = (Cell::new(node(10, 0)), Cell::new(0_u64));
    if program.call(
        "cuGraphAddNode",
        &[at(&added), graph, 0, 0, at(&parameters)],
    ) {
        program.keep("pointer", parameters.get()[16]);
        program.keep("address", parameters.get()[16]);
    }
}

fn add_free(program: &mut Program<'_>) {
    let class = program.one_of(&["pointer", "address"]);
    let (graph, pointer) = (program.any("graph"), program.any(class));
    if !program.done.contains(&graph) {
        let added = Cell::new(0_u64);
        let arguments = [at(&added), graph, 0, 0, pointer];
        if !program.call("cuGraphAddMemFreeNode", &arguments) && program.is_defined {
            // After this call has failed, the graph cannot be cloned (observed on an H200).
            program.forget("graph", graph);
        }
    }
}

/// Adds a new graph as a child, which is copied or moved.
fn add_child(program: &mut Program<'_>) {
    let (graph, is_moved) = (program.any("graph"), program.one_of(&[0, 1]));
    let child = program.make("graph", "cuGraphCreate", &[0]).unwrap_or(0);
    if program.one_of(&[true, false]) {
        add_allocation_to(program, child);
    }
    if !program.is_defined && program.one_of(&[true, false]) {
        let (address, added) = (program.any("address"), Cell::new(0_u64));
        program.call("cuGraphAddMemFreeNode", &[at(&added), child, 0, 0, address]);
    }
    let (mut parameters, added) = (node(4, child), Cell::new(0_u64));
    parameters[3] = is_moved;
    let add = [at(&added), graph, 0, 0, at(&parameters)];
    if program.call("cuGraphAddNode", &add) && is_moved == 1 {
        program.forget("graph", child);
    }
}

fn instantiate(program: &mut Program<'_>) {
    let arguments = [program.any("graph"), program.one_of(&[0, 1])];
    let exec = program.make("exec", "cuGraphInstantiateWithFlags", &arguments);
    program.done.extend(exec.map(|_| arguments[0]));
}

fn begin_capture(program: &mut Program<'_>) {
    let (stream, graph) = (program.any("stream"), program.any("graph"));
    if !program.has_captures || program.done.contains(&graph) {
        return;
    }
    let began = match program.random.below(3) {
        0 => program.call("cuStreamBeginCapture_v2", &[stream, 2]),
        1 => program.call("cuStreamBeginCaptureToGraph", &[stream, graph, 0, 0, 0, 2]),
        _ => program.call("cuStreamBeginRecaptureToGraph", &[stream, 2, graph, 0, 0]),
    };
    if began {
        program.forget("graph", graph);
        program.keep("stream", stream);
        program.keep("capturing", stream);
    }
}
