//! A layer that owns a closure, which in turn owns the layer.

use std::cell::RefCell;
use std::rc::Rc;

use crate::device::Device;
use crate::error::Result;
use crate::tensor::Tensor;

super::leak::planted! {
    "closure_cycle", "a closure holds the value that owns it",
    Caching, "block", ["cycle": 1 of 80_384], super::leak::SMALL_SEGMENT
}

type Hook = Box<dyn Fn() -> Vec<usize>>;

struct HookedLayer {
    weight: Tensor,
    after_forward: RefCell<Option<Hook>>,
}

fn run(device: &Device) -> Result<()> {
    let weight = Tensor::zeros([200, 100], device)?; // leak: cycle
    let layer = Rc::new(HookedLayer {
        weight,
        after_forward: RefCell::new(None),
    });
    // `Rc::downgrade` would avoid the cycle.
    let itself = Rc::clone(&layer);
    let hook = move || itself.weight.shape().to_vec();
    *layer.after_forward.borrow_mut() = Some(Box::new(hook));
    Ok(())
}
