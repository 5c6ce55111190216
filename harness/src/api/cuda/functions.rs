//! The table of watched functions: all functions of the driver that create or free a resource, or
//! change its reference count. Its rows are in `functions/table.rs`.
//!
//! A row contains
//!
//! - the names of a function's variants, or of functions that do the same with the same parameters,
//!   each with the first CUDA version for which `cuGetProcAddress` returns it;
//! - the signature that they share;
//! - the effect of a call.
//!
//! A wrapper for each name and driver, and the slot for the real function, are generated from the
//! row. CONTRIBUTING.md lists what else another watched function needs. Signatures are those of
//! `cuda.h`, except that handles, and pointers that are not read, are `u64`. A variant with
//! different parameters has its own row, because programs ask the driver for the variant of the
//! CUDA version for which they were built.
//!
//! `scripts/check-watched-functions` compares the names, versions and numbers of parameters with
//! NVIDIA's headers. It also lists functions that create or free something but have neither a row
//! nor an entry in `not_watched.toml`, which gives the reason for each function that is not
//! watched.

#![expect(
    unsafe_code,
    reason = "defines wrappers around C functions; callers must uphold the contracts of those functions"
)]

use std::ffi::CStr;
use std::mem;

use gpu_leak_interpose::{Slot, WatchedFunction};

#[cfg(test)]
use self::tests::Row;
use super::call::{
    AddedNode, At, Bytes, Call, Creates, Frees, Share, array, captured, context, copied, creates,
    destroys, device, frees, handle, imported, named, ordered, physical, pinned, pitched,
    registered, releases, updated,
};
use super::foreign::{
    AllocationNode, ArrayDescriptor, ArrayDescriptor3D, ExternalBuffer, ExternalMipmapped, In,
    IpcHandle, Node, Out, Properties, of_levels,
};
use super::intercept::intercept;
use super::state;
#[cfg(test)]
use crate::api::wrapper::with_zeros;
use crate::api::wrapper::{is_listening, name, table};
use crate::ledger::Kind;
use crate::ledger::event::{ContextEnd, CuResult, Event, Space};

/// How many functions with the same name can be distinguished: the driver's own, and one that a
/// tool such as ncu puts in front of it.
pub(super) const DRIVERS: usize = 2;

/// The `CUDA_VERSION` of the newest headers with which the table has been compared.
pub(super) const KNOWN_UP_TO: i32 = 13_050;

/// `CU_GRAPH_USER_OBJECT_MOVE`
const USER_OBJECT_MOVE: u32 = 1;

/// One name in the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variant {
    pub(super) name: &'static CStr,
    /// The first CUDA version for which `cuGetProcAddress` returns the function.
    pub(super) since: i32,
}

/// Whether a variant with this name uses the per-thread default stream.
pub(super) const fn is_per_thread(name: &str) -> bool {
    matches!(
        name.as_bytes(),
        [.., b'_', b'p', b't', b's' | b'd', b'z' | b's']
    )
}

macro_rules! functions {
    ($($($name:ident[$since:literal])|+ = |$($parameter:ident: $type:ty),*| $does:expr),* $(,)?) => {
        table! {
            DRIVERS = [0 1];
            $($($name)+)*
        }

        /// All names, in the order of the rows.
        pub(super) static VARIANTS: [Variant; COUNT] = [$($(
            Variant { name: name!($name), since: $since },
        )+)*];

        #[expect(non_snake_case, reason = "the names match the driver's functions, because they appear in stacks")]
        mod wrappers {
            use super::*;

            $(wrappers!([$($name)+] ($($parameter: $type),*), $does);)*
        }

        /// Returns the effect of each row for a call whose parameters are all zero.
        #[cfg(test)]
        fn calls() -> Vec<(&'static str, Row)> {
            let mut calls = Vec::new();
            $(let call = with_zeros!(Row, ($($parameter: $type),*), $does);
            calls.extend([$(stringify!($name)),+].map(|name| (name, call)));)*
            calls
        }
    };
}

macro_rules! wrappers {
    ([$($name:ident)+] $parameters:tt, $does:expr) => {
        $(wrapper!($name, $parameters, $does);)+
    };
}

macro_rules! wrapper {
    ($name:ident, ($($parameter:ident: $type:ty),*), $does:expr) => {
        pub(super) unsafe extern "C" fn $name<const DRIVER: usize>(
            $($parameter: $type),*
        ) -> CuResult {
            type Real = unsafe extern "C" fn($($type),*) -> CuResult;
            // SAFETY: the slot holds the function with this name, which has these parameters in
            // every driver.
            let real = unsafe { mem::transmute::<*const (), Real>(SLOTS[DRIVER][FunctionId::$name as usize].real()) };
            // SAFETY: this is the caller's own call, forwarded unchanged.
            let mut forward = || unsafe { real($($parameter),*) };
            if !is_listening() {
                return forward();
            }
            if DRIVER != 0 {
                state::has_two_drivers();
            }
            intercept(&$does, const { is_per_thread(stringify!($name)) }, &mut forward)
        }
    };
}

include!("functions/table.rs");

#[cfg(test)]
mod tests;
