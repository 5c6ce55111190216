//! The table of live resources: a pure function of a stream of [`Event`]s.

pub mod event;
mod kind;
mod name;
mod record;

pub use event::{Event, ScopeId, StackId};
pub use kind::Kind;
pub use name::{Layer, Place};
pub use record::Record;
