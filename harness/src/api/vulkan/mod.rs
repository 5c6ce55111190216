//! Intercepts Vulkan calls and turns them into events.
//!
//! Programs look up `vkGetInstanceProcAddr` with `dlsym`, and every other function with
//! `vkGetInstanceProcAddr` or `vkGetDeviceProcAddr` ([`look_up`]). The wrappers of the watched
//! functions are made from a table ([`functions`]). A wrapper makes the program's call and reports
//! it ([`intercept`]), in the terms of [`call`]. [`owners`] knows the device, instance or pool to
//! which each object belongs, and [`labels`] knows the object's name.
//!
//! # Look-ups
//!
//! If a program is linked to the loader, its bindings to the loader's functions are replaced.
//! Drivers and layers have separate functions for each device, under the same names. So each name
//! has several wrappers (`TARGETS` in [`functions`]), and the wrapper that is handed out is the one
//! whose slot holds exactly the function that was found. If there are more such functions than
//! wrappers, calls to the remaining ones are counted and the check is `inconclusive`.
//!
//! The loader looks up the same names in layers and drivers, and calls these functions when the
//! program calls the loader. Each call must be counted only once, where the program makes it, no
//! matter which layers are loaded. So a library that provides functions of this table gets the real
//! functions from its own look-ups (`only_for_others` in `harness/interpose`).
//!
//! # Facts that are not in a call's parameters
//!
//! - The meaning of a handle, which depends on its device or instance. Each device and each
//!   instance is a context of the ledger. Several live objects may have the same handle, so each
//!   object has its own key (`Space::Object`).
//! - The place of memory: the physical device from which the device was created, by its index in
//!   `vkEnumeratePhysicalDevices`, or the host for a heap that is not on the device.
//! - How much of a block a buffer or image uses. When memory is bound to the object, the device is
//!   asked how much memory the object needs. The block is not judged in addition to its contents
//!   (`judge/diff.rs`).
//! - The objects that end with a pool. [`owners`] knows from which pool each descriptor set and
//!   command buffer was allocated. The objects that end with a device or an instance are found
//!   through its context.
//!
//! The harness never waits for a Vulkan device, because queues need external synchronisation, which
//! only the program can provide.
//!
//! # Why it is not a layer
//!
//! A layer has to be installed or configured before the program starts. It sees neither calls to a
//! driver that bypass the loader nor which library made a call, and it comes after layers that
//! create objects of their own. Intercepting look-ups is necessary for CUDA in any case.

mod call;
mod functions;
mod intercept;
mod labels;
mod look_up;
mod owners;
mod state;
mod structures;
#[cfg(test)]
mod tests;

pub(super) use functions::FUNCTIONS;
pub(crate) use labels::label_of;
pub(super) use look_up::LOOK_UPS;
#[cfg(feature = "holders")]
pub(crate) use look_up::found as functions_found;
pub(crate) use owners::device_name;
#[cfg(feature = "holders")]
pub(crate) use owners::handles;
pub(crate) use state::{is_function, is_intercepted, result_name};
