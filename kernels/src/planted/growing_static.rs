//! A cache for the whole program from which nothing is ever removed.

use std::sync::{Mutex, PoisonError};

use crate::device::Device;
use crate::error::Result;
use crate::tensor::Tensor;

super::leak::planted! {
    "growing_static", "a static cache gains an entry with each call and never loses one",
    Caching, "block", ["entry": 1 of 4096], super::leak::SMALL_SEGMENT
}

static MASKS: Mutex<Vec<Tensor>> = Mutex::new(Vec::new());

fn run(device: &Device) -> Result<()> {
    let mask = Tensor::full([32, 32], 1.0, device)?; // leak: entry
    MASKS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(mask);
    Ok(())
}
