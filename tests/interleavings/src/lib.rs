//! The ledger, the gate and the exclusion of the harness, step by step.
//!
//! The harness's own files are compiled here once more, with the types of [shuttle] where they take
//! `std`'s from `crate::sync`. Shuttle runs a scenario again and again, each time with another
//! order of its threads' steps, and prints the order that failed, to be run once more.
//!
//! A library, for its tests would be the harness's own as well, which know nothing of the checker.
//!
//! [shuttle]: https://docs.rs/shuttle

#[expect(dead_code, reason = "a scenario needs a part of each file")]
#[path = "../../../harness/src/device/exclusion.rs"]
mod exclusion;
#[expect(dead_code, reason = "as above")]
#[path = "../../../harness/src/check/turn/gate.rs"]
mod gate;
#[expect(dead_code, unreachable_pub, unused_imports, reason = "as above")]
#[path = "../../../harness/core/src/ledger/mod.rs"]
mod ledger;
#[expect(dead_code, unreachable_pub, reason = "as above")]
#[path = "../../../harness/core/src/quiet.rs"]
mod quiet;
mod sync;

pub mod explore;
pub mod scenarios;
