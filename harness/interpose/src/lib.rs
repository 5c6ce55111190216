//! The symbols that [gpu-leak-check](https://crates.io/crates/gpu-leak-check) puts in front of
//! those of the C library and the GPU driver. This crate knows names, but no signatures.
//!
//! # Look-ups
//!
//! Almost everything reaches a GPU driver through `dlsym`: loaders such as those of cudarc or ash,
//! and the CUDA runtime inside every library that is built on it. This crate defines `dlsym`. For a
//! name that is not in a [registered](register) table, our definition jumps to the next one, so
//! that the C library sees the caller's own return address, and `RTLD_NEXT` and `RTLD_DEFAULT` keep
//! their meaning. For a name in a table, it stores the real function in the [`Slot`] of the row,
//! and returns the row's wrapper. Code that is linked directly to a driver is covered by
//! [`bindings_past_us`]. This crate also defines `dlclose`, so that such code is found before it is
//! unloaded.
//!
//! Executables define no symbol of a driver. Otherwise, a program's own mock of the driver might
//! not be linked, and a program that tests whether there is a driver would find one. A preloaded
//! library defines these symbols with [`trampolines!`].
//!
//! One copy of this crate serves a process. Any other copy, in a plugin or in a preloaded library,
//! finds the serving copy by its marker and registers its tables there. The data exchanged between
//! copies has a fixed layout.
//!
//! # Threads
//!
//! This crate also defines `pthread_create`, so that threads inherit a [`token()`], and
//! `pthread_detach`, so that a report can say where a thread was detached.
//!
//! # The heap
//!
//! While a [watcher](watch_heap) is installed, the program's own calls to `malloc` and related
//! functions are redirected. No symbol is defined for this.
//!
//! # Platforms
//!
//! This crate works on Linux with a dynamic glibc, on x86-64 and `AArch64`. Nothing is built in for
//! other targets, for a static C library, under a sanitizer or Miri, or with `RUSTFLAGS="--cfg
//! gpu_leak_interpose_off"`. In these cases, [`register`] returns [`Reach::Nothing`].
//!
//! Another crate that defines `dlsym` or `pthread_create` cannot be linked into the same program:
//! the linker's error `duplicate symbol: dlsym` names both.

#[cfg_attr(not(interpose), path = "nowhere.rs")]
mod glibc;
mod interface;
#[cfg(target_os = "linux")]
mod loader;
mod threads;

#[cfg(target_os = "linux")]
pub use glibc::real_symbol;
pub use glibc::{
    before_next_thread, bindings_past_us, is_heap_watched, is_starting, libraries_elsewhere, live,
    mark_threads, marked_threads, missed_calls, register, set_token, started_without_token,
    uncancelled, watch_heap, wrapper_by_address,
};
pub use interface::{
    BindingPastUs, BindingsPastUs, CLEARED, FreedBlock, HeapWatch, MarkedThread, MissedCalls,
    OnClose, OnLookup, Reach, Registration, Slot, Trampoline, Trampolines, WatchedFunction,
    function,
};
#[cfg(target_os = "linux")]
pub use loader::{object_changes, object_name, segments, symbol_of, visit_objects, while_open};
pub use threads::{inherits, token};
