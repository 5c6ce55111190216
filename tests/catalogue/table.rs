//! What each program leaves behind, which function owns its mistake, and how the present report names
//! it. A change of the harness may raise the last column; nothing else changes.

use std::collections::{BTreeMap, BTreeSet};

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::ledger::Kind::{
    Block, Event, GraphHandle, Linear, Module, Physical, Pinned, Registered, Stream, StreamOrdered,
};
use gpu_leak_check::report::check_report::FindingKind::{
    self, Deferred, FailedFree, FirstUse, Grew, Leaked,
};

use crate::aside;
use crate::report::{assert_as_in, mark, names};

/// What the report says about the mistake, among the first locations of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// The line itself.
    Line,
    /// Another line of the function that owns it.
    Function,
    /// Neither, or there is no mistake.
    Nowhere,
}

/// What still leads to what is left.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Held {
    /// Nothing but itself.
    Nowhere,
    /// A static, or a function on a stack, whose path ends like this.
    By(&'static str),
}

/// The shape of a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    /// A `Drop` without the free, or with only one of two.
    Drop,
    /// An arm or an early return that skips the free.
    Skipped,
    /// The arms for success and failure are swapped.
    Swapped,
    /// A list, map or cache that is never drained.
    NeverDrained,
    /// An eviction that forgets to free.
    Eviction,
    /// A cycle of `Rc` or `Arc`.
    Cycle,
    /// A thread that is not joined, or a channel that keeps what was sent.
    Thread,
    /// `forget`, `leak`, `into_raw`, `ManuallyDrop`.
    Forgotten,
    /// A wrong address is freed.
    WrongAddress,
    /// A handle that is freed with the wrong call or not at all.
    WrongCall,
    /// A callback that captures it.
    Captured,
    /// Replaced without freeing the old one.
    Replaced,
    /// The reset of a pool loses blocks.
    Reset,
    /// One more with each call.
    Growth,
    /// A context or parent that ends first.
    ParentFirst,
    /// A static keeps the first.
    Static,
    /// All but one are released.
    AllButOne,
    /// A loop that allocates anew in each attempt.
    Retry,
    /// A count that is wrong by one.
    Count,
    /// Swapped out and dropped as a number.
    SwappedOut,
}

/// How many shapes there are.
const SHAPES: usize = Shape::SwappedOut as usize + 1;

/// A program and what its report must say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// The path of its module.
    pub(crate) program: &'static str,
    /// The shape of its mistake; none if it makes none.
    pub(crate) shape: Option<Shape>,
    /// The function that owns the mistake.
    pub(crate) owner: Option<&'static str>,
    /// What is found: the kind of the finding and of the resource, the number and the bytes.
    pub(crate) left: &'static [(FindingKind, Kind, u64, u64)],
    /// The functions that free others that were allocated on the same line.
    pub(crate) frees: &'static [&'static str],
    /// What still leads to what is left.
    pub(crate) held: Held,
    /// How the present report names the mistake.
    pub(crate) named: Named,
}

type Left = &'static [(FindingKind, Kind, u64, u64)];

/// A program with a mistake of this shape in the function `owner`, which leaves this.
pub(crate) const fn faulty(shape: Shape, owner: &'static str, left: Left) -> Row {
    Row {
        shape: Some(shape),
        owner: Some(owner),
        ..correct(left)
    }
}

/// A program without a mistake.
pub(crate) const fn correct(left: Left) -> Row {
    Row {
        program: "",
        shape: None,
        owner: None,
        left,
        frees: &[],
        held: Held::Nowhere,
        named: Named::Nowhere,
    }
}

impl Row {
    /// Others of the same line are freed in these functions.
    pub(crate) const fn freed_in(self, frees: &'static [&'static str]) -> Self {
        Self { frees, ..self }
    }

    /// This leads to what is left.
    pub(crate) const fn held_by(self, name: &'static str) -> Self {
        let held = Held::By(name);
        Self { held, ..self }
    }

    /// The report names the mistake like this.
    pub(crate) const fn named(self, named: Named) -> Self {
        Self { named, ..self }
    }

    /// It is the program with this path.
    pub(crate) const fn at(self, program: &'static str) -> Self {
        Self { program, ..self }
    }
}

/// Makes a table and a test for each row of it.
macro_rules! programs {
    ($directory:literal $($module:ident::$name:ident: $row:expr,)*) => {
        pub(crate) const ROWS: &[Row] = &[$(
            $row.at(concat!($directory, stringify!($module), "::", stringify!($name))),
        )*];

        $(
            #[test]
            fn $name() {
                assert_as_in(&$row.at(concat!($directory, stringify!($module), "::", stringify!($name))));
            }
        )*
    };
}
pub(crate) use programs;

programs! { ""
    drops::mesh: faulty(Shape::Drop, "Mesh::drop", &[(Leaked, Linear, 2, 1800)])
        .freed_in(&["Mesh::drop"])
        .named(Named::Line),
    drops::histogram: faulty(Shape::Replaced, "Histogram::refine", &[(Leaked, Linear, 1, 256)])
        .freed_in(&["Histogram::drop"])
        .named(Named::Line),
    drops::player: faulty(Shape::SwappedOut, "Player::step", &[(Leaked, Block, 1, 4096)])
        .freed_in(&["Screen::drop"])
        .named(Named::Line),
    drops::export: faulty(Shape::Forgotten, "Exported::from", &[(Leaked, StreamOrdered, 2, 4096)])
        .named(Named::Line),
    drops::handle: correct(&[]),
    branches::decoder: faulty(Shape::Skipped, "decode", &[(Leaked, Block, 1, 4096)])
        .freed_in(&["decode"])
        .named(Named::Function),
    branches::queue: faulty(Shape::Skipped, "Queue::flush", &[(Leaked, Event, 2, 0)])
        .freed_in(&["Queue::flush"])
        .named(Named::Function),
    branches::transfer: faulty(Shape::Swapped, "send", &[(Leaked, Pinned, 2, 1024)])
        .freed_in(&["Transfer::release"])
        .named(Named::Function),
    branches::loader: faulty(Shape::Retry, "Engine::prepare", &[(Leaked, Module, 2, 0)])
        .freed_in(&["Engine::run"])
        .named(Named::Function),
    branches::workspace: correct(&[]),
    containers::tiles: faulty(Shape::NeverDrained, "Viewer::close", &[(Leaked, Linear, 3, 3072)])
        .freed_in(&["Viewer::close"])
        .named(Named::Function),
    containers::glyphs: faulty(Shape::Eviction, "Glyphs::find", &[(Leaked, Block, 2, 512)])
        .freed_in(&["Glyphs::drop"])
        .named(Named::Function),
    containers::staging: faulty(Shape::Reset, "Pool::reset", &[(Leaked, Pinned, 4, 32768)])
        .freed_in(&["Pool::drop"])
        .named(Named::Nowhere),
    containers::metrics: faulty(Shape::Growth, "record", &[(Grew, Block, 4, 2560)])
        .held_by("metrics::HISTORY")
        .named(Named::Function),
    containers::frames: correct(&[]),
    containers::shaders: correct(&[]),
    sharing::scene: faulty(Shape::Cycle, "Part::attach", &[(Leaked, Linear, 3, 192)])
        .named(Named::Function),
    sharing::views: faulty(Shape::Cycle, "View::open", &[(Leaked, Block, 2, 4096)])
        .freed_in(&["Model::drop"])
        .named(Named::Line),
    sharing::telemetry: faulty(Shape::Thread, "Collector::collect", &[(Leaked, StreamOrdered, 1, 320)])
        .freed_in(&["Collector::collect"])
        .named(Named::Function),
    statics::document: faulty(Shape::Captured, "Document::open", &[(Leaked, Linear, 1, 2500)])
        .held_by("document::ON_QUIT")
        .named(Named::Function),
    statics::palette: faulty(Shape::Static, "Picture::is_plain", &[(FirstUse, Block, 1, 64)])
        .held_by("palette::DEFAULT")
        .named(Named::Line),
    sharing::worker: correct(&[]),
    sharing::folders: correct(&[]),
    statics::table: correct(&[(FirstUse, Linear, 1, 4096)]).held_by("sines::SINES"),
    statics::retired: correct(&[(Deferred, Linear, 1, 2000)]),
    handles::recorder: faulty(Shape::WrongCall, "Recording::new", &[(Leaked, GraphHandle, 1, 0)])
        .named(Named::Line),
    handles::window: faulty(
        Shape::WrongCall,
        "Window::drop",
        &[(Leaked, Registered, 1, 10_000), (FailedFree, Pinned, 1, 0)],
    )
        .named(Named::Line),
    handles::message: faulty(
        Shape::WrongAddress,
        "Message::discard",
        &[(Leaked, Linear, 2, 128), (FailedFree, Linear, 2, 0)],
    )
        .named(Named::Line),
    handles::renderer: faulty(Shape::ParentFirst, "Renderer::close", &[(Leaked, Linear, 2, 6000)])
        .named(Named::Line),
    counting::streams: faulty(Shape::AllButOne, "Group::close", &[(Leaked, Stream, 1, 0)])
        .freed_in(&["Group::close"])
        .named(Named::Function),
    counting::shared: faulty(Shape::Count, "Shared::release", &[(Leaked, Block, 1, 800)])
        .named(Named::Nowhere),
    counting::pages: faulty(Shape::Count, "Pages::for_bytes", &[(Leaked, Physical, 1, 2 << 20)])
        .freed_in(&["Pages::release"])
        .named(Named::Line),
}

#[test]
fn the_tables_have_every_program_once() {
    let rows = || ROWS.iter().chain(aside::ROWS);
    let listed: BTreeSet<_> = rows().map(|row| row.program.to_owned()).collect();
    assert_eq!(listed, names().into_iter().collect());
    assert_eq!(rows().count(), listed.len());
    for row in rows() {
        assert_eq!(mark(row).is_some(), row.owner.is_some(), "{}", row.program);
    }
}

/// How many rows have a mistake, and how many have none.
fn mistakes(rows: &[Row]) -> (usize, usize) {
    let with = rows.iter().filter(|row| row.shape.is_some()).count();
    (with, rows.len() - with)
}

#[test]
fn every_shape_occurs_twice_and_the_programs_aside_are_mixed_like_the_others() {
    assert_eq!((mistakes(ROWS), mistakes(aside::ROWS)), ((24, 8), (16, 4)));
    let shapes = ROWS.iter().chain(aside::ROWS).filter_map(|row| row.shape);
    let mut occurs = BTreeMap::new();
    for shape in shapes {
        *occurs.entry(shape).or_insert(0) += 1;
    }
    assert_eq!(occurs.len(), SHAPES);
    assert!(occurs.values().all(|times| *times == 2), "{occurs:?}");
}
