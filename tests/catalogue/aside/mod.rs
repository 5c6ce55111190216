//! Held-out programs. They test the code that locates mistakes, but its authors do not look at
//! them.

mod collections;
mod flow;
mod ownership;
mod sharing;

use gpu_leak_check::ledger::Kind::{
    Array, Block, Event, ExecGraph, Linear, Physical, Stream, StreamOrdered,
};
use gpu_leak_check::report::check_report::FindingKind::{FirstUse, Grew, Leaked};

use crate::report::assert_as_in;
use crate::table::{Named, Row, Shape, correct, faulty, programs};

programs! { "aside::"
    ownership::texture: faulty(Shape::Drop, "Texture::drop", &[(Leaked, Array, 1, 1024)])
        .named(Named::Line),
    ownership::batch: faulty(Shape::Forgotten, "Batch::into_rows", &[(Leaked, Linear, 2, 960)])
        .named(Named::Nowhere),
    ownership::ring: faulty(Shape::Replaced, "Ring::write", &[(Leaked, Block, 3, 300)])
        .freed_in(&["Ring::drop"])
        .named(Named::Function),
    ownership::network: faulty(
        Shape::SwappedOut,
        "Network::reload",
        &[(Leaked, StreamOrdered, 3, 1200)],
    )
        .freed_in(&["Network::close"])
        .named(Named::Line),
    ownership::scratch: correct(&[]),
    flow::upload: faulty(Shape::Swapped, "upload", &[(Leaked, Block, 2, 700)])
        .freed_in(&["Chunk::close"])
        .named(Named::Function),
    flow::workspace: faulty(Shape::Retry, "Solver::reserve", &[(Leaked, StreamOrdered, 2, 6144)])
        .freed_in(&["Solver::solve"])
        .named(Named::Function),
    flow::record: faulty(Shape::WrongAddress, "record_free", &[(Leaked, Block, 3, 300)])
        .named(Named::Line),
    flow::sampler: faulty(Shape::AllButOne, "Sampler::poll", &[(Leaked, Event, 1, 0)])
        .freed_in(&["Sampler::poll"])
        .named(Named::Function),
    collections::plans: faulty(Shape::NeverDrained, "Planner::finish", &[(Leaked, ExecGraph, 2, 0)])
        .named(Named::Function),
    collections::sprites: faulty(Shape::Eviction, "Sprites::next_frame", &[(Leaked, Linear, 3, 4800)])
        .freed_in(&["Sprites::unload"])
        .named(Named::Nowhere),
    collections::arena: faulty(Shape::Reset, "Arena::reset", &[(Leaked, Physical, 2, 4 << 20)])
        .freed_in(&["Arena::drop"])
        .named(Named::Nowhere),
    collections::shapes: faulty(Shape::Growth, "compiled", &[(Grew, Linear, 4, 2800)])
        .held_by("shapes::COMPILED")
        .named(Named::Function),
    collections::recent: correct(&[]),
    sharing::pipeline: faulty(Shape::Thread, "Pipeline::close", &[(Leaked, Linear, 2, 3000)])
        .held_by("pipeline::serve")
        .named(Named::Function),
    sharing::menu: faulty(Shape::Captured, "show", &[(Leaked, Block, 1, 96)])
        .named(Named::Function),
    sharing::session: faulty(Shape::Static, "has_moved", &[(Leaked, Linear, 1, 2400)])
        .freed_in(&["Frame::drop"])
        .held_by("session::EARLIER")
        .named(Named::Function),
    sharing::display: faulty(Shape::ParentFirst, "Display::close", &[(Leaked, Block, 2, 1000)])
        .named(Named::Function),
    sharing::background: correct(&[(FirstUse, Stream, 1, 0)]).held_by("background::STREAM"),
    sharing::volume: correct(&[]),
}
