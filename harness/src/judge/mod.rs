//! From two readings and the ledger to findings. Pure: nothing here calls a driver.

mod budget;
mod claims;
mod confirm;
mod failure;
mod growth;
mod handed_out;
mod happened;
mod held;
mod holding;
pub(crate) mod known;
mod reading;
mod reconcile;
mod refused;
mod reserve;
mod tolerance;

pub use budget::Limit;
pub(crate) use budget::{Budget, Over, add_over};
pub(crate) use claims::Claims;
pub use confirm::Confirmation;
pub(crate) use confirm::{Confirmed, confirm, gained};
pub(crate) use growth::{Amount, Grown, growth, is_an_incident};
pub(crate) use handed_out::handed_out;
pub(crate) use happened::happened;
#[cfg(test)]
pub(crate) use held::taken_at;
pub(crate) use held::{Held, HeldKey, What, group, total};
pub(crate) use holding::tell_what_holds;
pub(crate) use reading::{Level, LevelName, Limits, Reading, Whole};
pub(crate) use reconcile::reconcile;
pub use reconcile::{Part, Purpose};
pub(crate) use refused::{Refused, add_refused, refused};
pub(crate) use reserve::{pins, risen, unexplained};
pub(crate) use tolerance::{exceeding, tolerate};
