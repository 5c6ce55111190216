//! Expands `#[gpu_leak_check::warmup]`, on a function that runs before the first check of a
//! process.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{ItemFn, ReturnType};

use crate::args::Args;
use crate::expand::with_error;
use crate::input;
use crate::paths::Paths;

/// Expands the attribute with `args` on `item`.
pub(crate) fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    expand(args, item.clone()).unwrap_or_else(|error| with_error(&error, item))
}

fn expand(args: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let args = Args::parse(args, None)?;
    if !args.options.is_empty() {
        return Err(syn::Error::new(
            Span::call_site(),
            "`#[warmup]` accepts only the `crate = path` option",
        ));
    }
    let function: ItemFn = syn::parse2(item).map_err(|error| {
        syn::Error::new(
            error.span(),
            "`#[warmup]` belongs on a function: `fn warm() { … }`",
        )
    })?;
    let signature = &function.sig;
    let is_plain = input::check(&function).is_ok()
        && signature.generics.params.is_empty()
        && matches!(signature.output, ReturnType::Default);
    if !is_plain {
        return Err(syn::Error::new_spanned(
            signature,
            "a warm-up must be a plain `fn()`: it may panic if it cannot continue",
        ));
    }
    let name = &function.sig.ident;
    // The statics of tests begin with `__gpu_leak_check_`, and a test may be called `warmup_…`.
    let static_ = format_ident!("__gpu_leak_warmup_{}", name, span = Span::call_site());
    let printed = name.unraw().to_string();
    let paths = Paths::new(args.library.as_ref());
    let hook = paths.private("Warmup");
    let path = paths.private("path");
    let submit = paths.private("submit");
    Ok(quote! {
        #function
        static #static_: #hook = #hook {
            path: #path!(#printed),
            run: #name,
        };
        #submit!(&#static_);
    })
}
