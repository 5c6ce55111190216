//! Vulkan's calls as a source of events.
//!
//! Programs look up `vkGetInstanceProcAddr` with `dlsym`, and every other function with that one
//! and `vkGetDeviceProcAddr` ([`look_up`]); the wrappers of the watched functions are made from a
//! table ([`functions`]). A wrapper makes the program's call and reports it ([`intercept`]), in the
//! terms of [`call`]. What belongs to which device, instance or pool is known to [`owners`], and what the
//! program calls it to [`labels`].
//!
//! # Look-ups
//!
//! A program that is linked to the loader is rebound. Drivers and layers have functions of their own for each
//! device, under the same names, so each function has several wrappers, and the one whose slot holds exactly the
//! function that was found is handed out (`TARGETS` in [`functions`]). If there are more such functions than
//! wrappers, their calls are counted and the check is `inconclusive`.
//!
//! The loader looks up the same names in layers and drivers, and calls what it finds when the program calls it.
//! So a library from which functions of this table were handed out gets what it looks up itself unchanged
//! (`only_for_others` in `harness/interpose`), and each call counts once, where the program makes it, whatever
//! layers are loaded.
//!
//! # Facts that are not in a call's parameters
//!
//! - What a handle means: this depends on its device or instance, each of which is a context of the
//!   ledger. Live objects may have the same handle: each has a key of its own (`Space::Object`).
//! - Which device memory is on: the physical device that was opened, by its number in
//!   `vkEnumeratePhysicalDevices`; a heap that is not the device's is on the host.
//! - How much of a block a buffer or image uses: when memory is bound to the object, the device is
//!   asked how much the object needs. The block is not judged beside what is in it
//!   (`judge/bound.rs`).
//! - What ends with a pool: which pool each descriptor set and command buffer came from ([`pools`]). What ends with
//!   a device or an instance: its context.
//!
//! The harness never waits for a Vulkan device: queues need external synchronisation, which only the program can
//! provide.
//!
//! # Why it is not a layer
//!
//! A layer has to be installed or configured before the program starts, sees neither calls to a
//! driver that bypass the loader nor which library made a call, and comes after layers that create
//! objects of their own. The look-up is needed for CUDA in any case.

mod call;
mod functions;
mod intercept;
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
pub(crate) use state::{is_intercepted, is_named_so, register, result_name};
