//! From two readings and the ledger to findings. Pure: nothing here calls a driver.

mod claims;
mod confirm;
mod failure;
mod handed_out;
mod happened;
mod held;
pub(crate) mod known;
mod reading;
mod reconcile;
mod reserve;
mod tolerance;

pub(crate) use claims::Claims;
pub use confirm::Confirmation;
pub(crate) use confirm::{Confirmed, confirm};
pub(crate) use handed_out::handed_out;
pub(crate) use happened::happened;
#[cfg(test)]
pub(crate) use held::HeldKey;
pub(crate) use held::{Held, What, group};
pub(crate) use reading::{GRAPH_POOL, Level, LevelName, Limits, Reading, Whole};
pub(crate) use reconcile::reconcile;
pub use reconcile::{Part, Share};
pub(crate) use reserve::{pins, risen, unexplained};
pub(crate) use tolerance::tolerate;
