//! From two readings and the ledger to findings. Pure: nothing here calls a driver.

mod claims;
mod confirm;
mod failure;
mod happened;
mod held;
mod reading;
mod reserve;
mod tolerance;

pub(crate) use claims::Claims;
pub(crate) use confirm::{Confirmed, confirm};
pub(crate) use happened::happened;
#[cfg(test)]
pub(crate) use held::HeldKey;
pub(crate) use held::{Held, What, group, total};
pub(crate) use reading::{Level, LevelName, Reading};
pub(crate) use reserve::{pins, risen, unexplained};
pub(crate) use tolerance::tolerate;
