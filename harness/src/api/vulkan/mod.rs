//! Vulkan's calls as a source of events.
//!
//! Programs look up `vkGetInstanceProcAddr` with `dlsym`, and every other function with that one
//! and `vkGetDeviceProcAddr` ([`look_up`]); the wrappers of the watched functions are made from a
//! table ([`functions`]). A wrapper makes the program's call and reports it ([`heard`]), in the
//! terms of [`call`]. What belongs to which device, instance or pool is known to [`owners`], and what the
//! program calls it to [`labels`].
//!
//! It is not a layer: a layer has to be configured before the program starts and is loaded by the
//! loader into its chain, so that its frames, and not the program's, call the driver.

mod call;
mod functions;
mod heard;
mod labels;
mod look_up;
mod owners;
mod pools;
mod state;
mod structures;
#[cfg(test)]
mod tests;

pub(crate) use labels::label_of;
#[cfg(feature = "holders")]
pub(crate) use look_up::found as functions_found;
pub(crate) use owners::device_name;
#[cfg(feature = "holders")]
pub(crate) use owners::handles;
pub(crate) use state::{Missed, is_heard, is_named_so, missed, register, result_name};
