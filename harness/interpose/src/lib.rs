//! What [gpu-leak-check](https://crates.io/crates/gpu-leak-check) puts in front of the C library's
//! and the GPU driver's own symbols. It knows names, and no signatures.
//!
//! # Look-ups
//!
//! Nearly everything reaches a GPU driver by `dlsym`: loaders like those of cudarc or ash, and the
//! CUDA runtime inside of every library on it. This crate defines `dlsym`. For each name that no
//! [registered](register) table has, it jumps to the next definition, so that the C library sees the
//! caller's own return address and `RTLD_NEXT` and `RTLD_DEFAULT` mean what they meant. For a name of
//! a table, the real function goes into the [`Slot`] of its row, and the row's wrapper is returned.
//! What is linked to a driver directly is reached by [`bindings_past_us`].
//!
//! No symbol of a driver is defined in executables, for then a program's own mock of the driver might
//! not be linked, and a program that asks whether there is a driver would find one. A library that is
//! preloaded defines them by [`trampolines!`].
//!
//! One copy of this crate serves a process. Any other one, in a plugin or in a preloaded library,
//! finds it by its marker and registers there; what the two exchange is of a fixed layout.
//!
//! # Threads
//!
//! This crate defines `pthread_create` too, so that threads inherit a [`token()`].
//!
//! # Where
//!
//! Linux with a dynamic glibc, on x86-64 and `AArch64`; threads also inherit on other processors.
//! Neither is built in for other targets, for a static C library, under a sanitizer or Miri, and with
//! `RUSTFLAGS="--cfg gpu_leak_interpose_off"`: [`register`] then says [`Reach::Nothing`].
//!
//! Another crate that defines `dlsym` or `pthread_create` cannot be linked into the same program:
//! the linker's `duplicate symbol: dlsym` names both.

#[cfg(lookups)]
mod bindings;
#[cfg(lookups)]
mod dlsym;
#[cfg(lookups)]
mod flagging;
mod interface;
#[cfg(lookups)]
mod objects;
#[cfg_attr(not(lookups), path = "nowhere.rs")]
mod process;
#[cfg(lookups)]
mod registry;
mod threads;
#[cfg(lookups)]
mod trampoline;

pub use interface::{
    BindingPastUs, BindingsPastUs, OnLookup, Reach, Registration, Slot, Trampoline, Trampolines,
    UnheardCalls, WatchedFunction,
};
pub use process::{
    bindings_past_us, libraries_elsewhere, real_symbol, register, unheard_calls, wrapper_by_address,
};
pub use threads::{
    before_next_thread, inherits, is_starting_without_token, live, set_token,
    started_without_token, threads_with_token, token,
};
