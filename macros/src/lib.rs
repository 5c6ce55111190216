//! The attribute of `gpu-leak-check`. Use it through that crate, which documents it.
//!
//! This file is the only one that names `proc_macro`, so that everything else can run in unit
//! tests.

mod allow;
mod args;
mod attributes;
mod conflicts;
mod expand;
#[cfg(test)]
mod fuzz;
mod input;
mod module;
mod paths;
mod requeue;
mod should_panic;
#[cfg(test)]
mod tests;
mod value;
mod warmup;

use proc_macro::TokenStream;

#[expect(
    missing_docs,
    reason = "documented at its re-export, where users find it"
)]
#[proc_macro_attribute]
pub fn gpu_leak_check(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::attribute(args.into(), item.into()).into()
}

#[expect(
    missing_docs,
    reason = "documented at its re-export, where users find it"
)]
#[proc_macro_attribute]
pub fn warmup(args: TokenStream, item: TokenStream) -> TokenStream {
    warmup::attribute(args.into(), item.into()).into()
}
