//! For each program: what it leaves, the function with its mistake, and how precisely the current
//! report locates the mistake. A change to the harness may only improve this last column.

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

/// How precisely the first locations of a finding identify the mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// The line of the mistake itself.
    Line,
    /// Another line of the function that contains the mistake.
    Function,
    /// Neither of these, or the program has no mistake.
    Nowhere,
}

/// The place in the program that still refers to a leaked resource.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Held {
    /// No place: nothing outside the resource itself refers to it.
    Nowhere,
    /// A static, or a function on a stack. Its path ends with this text.
    By(&'static str),
}

/// The shape of a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    /// A `Drop` that does not free its resource, or frees only one of two.
    Drop,
    /// An arm or an early return skips the free.
    Skipped,
    /// The arms for success and failure are swapped.
    Swapped,
    /// A list, map or cache is never drained.
    NeverDrained,
    /// An eviction forgets to free the resource.
    Eviction,
    /// There is a cycle of `Rc` or `Arc`.
    Cycle,
    /// A thread is not joined, or a channel keeps what was sent to it.
    Thread,
    /// The owner is passed to `forget`, `leak`, `into_raw` or `ManuallyDrop`.
    Forgotten,
    /// A wrong address is freed.
    WrongAddress,
    /// A handle is freed with the wrong call or not at all.
    WrongCall,
    /// A callback captures the resource.
    Captured,
    /// The resource is replaced without being freed.
    Replaced,
    /// The reset of a pool loses blocks.
    Reset,
    /// Each call leaves one more resource.
    Growth,
    /// A context or parent ends before its child.
    ParentFirst,
    /// A static keeps the first resource.
    Static,
    /// All resources but one are released.
    AllButOne,
    /// A loop allocates again in each attempt.
    Retry,
    /// A count is wrong by one.
    Count,
    /// The old resource is swapped out, and its address is dropped instead of freed.
    SwappedOut,
}

/// The number of shapes.
const SHAPES: usize = Shape::SwappedOut as usize + 1;

/// A program and what its report must say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// The path of the program's module.
    pub(crate) program: &'static str,
    /// The shape of the program's mistake, or `None` if it has none.
    pub(crate) shape: Option<Shape>,
    /// The function that contains the mistake.
    pub(crate) owner: Option<&'static str>,
    /// The expected findings: the kind of each, and the kind, number and bytes of its resources.
    pub(crate) left: &'static [(FindingKind, Kind, u64, u64)],
    /// The functions that free other resources allocated on the same line.
    pub(crate) frees: &'static [&'static str],
    /// The place in the program that still refers to the leaked resource.
    pub(crate) held: Held,
    /// How precisely the current report locates the mistake.
    pub(crate) named: Named,
}

type Left = &'static [(FindingKind, Kind, u64, u64)];

/// The row of a program with a mistake of this shape in the function `owner`, which leaves `left`.
pub(crate) const fn faulty(shape: Shape, owner: &'static str, left: Left) -> Row {
    Row {
        shape: Some(shape),
        owner: Some(owner),
        ..correct(left)
    }
}

/// The row of a program without a mistake.
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
    /// Sets the functions that free other resources allocated on the same line.
    pub(crate) const fn freed_in(self, frees: &'static [&'static str]) -> Self {
        Self { frees, ..self }
    }

    /// Sets the place that still refers to the leaked resource.
    pub(crate) const fn held_by(self, name: &'static str) -> Self {
        let held = Held::By(name);
        Self { held, ..self }
    }

    /// Sets how precisely the report locates the mistake.
    pub(crate) const fn named(self, named: Named) -> Self {
        Self { named, ..self }
    }

    /// Sets the path of the program.
    pub(crate) const fn at(self, program: &'static str) -> Self {
        Self { program, ..self }
    }
}

/// Defines the table, and a test for each of its rows.
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

/// Returns the number of rows with a mistake, and the number of rows without one.
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
