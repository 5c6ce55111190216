//! The ledger, the gate and the exclusion of readings under controlled thread interleavings.
//!
//! The harness's own files are compiled here again, with the types of [shuttle] in place of those
//! that they import from `std` through `crate::sync`. Shuttle runs a scenario many times, each time
//! with a different interleaving of its threads. It prints an interleaving that fails, so that it
//! can be run again.
//!
//! This is a library, because a test target would also compile the unit tests of the harness's
//! files, which do not work under the checker.
//!
//! [shuttle]: https://docs.rs/shuttle

#[expect(dead_code, reason = "the scenarios use only a part of each file")]
#[path = "../../../harness/src/device/exclusion.rs"]
mod exclusion;
#[expect(dead_code, reason = "as above")]
#[path = "../../../harness/src/check/turn/gate.rs"]
mod gate;
#[expect(dead_code, unreachable_pub, unused_imports, reason = "as above")]
#[path = "../../../harness/core/src/ledger/mod.rs"]
mod ledger;
#[expect(dead_code, unreachable_pub, reason = "as above")]
#[path = "../../../harness/core/src/recursion_guard.rs"]
mod recursion_guard;
mod sync;
#[expect(dead_code, unreachable_pub, reason = "as above")]
#[path = "../../../harness/core/src/units.rs"]
mod units;

pub mod explore;
pub mod scenarios;
