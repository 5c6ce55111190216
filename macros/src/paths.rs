//! Every path that leaves this crate. All are absolute: whatever a user's module calls its own
//! items, an expansion means ours.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Path;
use syn::spanned::Spanned;

/// Paths into the library, by whatever name the user's crate reaches it.
pub(crate) struct Paths {
    library: TokenStream,
    /// Of every path: if the library is not found, rustc says so once.
    span: Span,
}

impl Paths {
    /// `library` is the option `crate = …`.
    pub(crate) fn new(library: Option<&Path>) -> Self {
        Self {
            library: library.map_or_else(|| quote!(::gpu_leak_check), Path::to_token_stream),
            span: library.map_or_else(Span::call_site, Spanned::span),
        }
    }

    /// The attribute itself.
    pub(crate) fn attribute(&self) -> TokenStream {
        let library = &self.library;
        quote!(#library::gpu_leak_check)
    }

    /// A name that the library keeps for expansions.
    pub(crate) fn private(&self, name: &str) -> TokenStream {
        let library = &self.library;
        let name = Ident::new(name, self.span);
        quote_spanned!(self.span=> #library::__private::#name)
    }
}

/// libtest's attribute, out of reach of `use some_runtime::test`.
pub(crate) fn test_attribute() -> TokenStream {
    quote!(#[::core::prelude::v1::test])
}

/// The line and the column of `place`: the compiler asks where the outermost macro stands, and a
/// place in the user's source is outside of all of them.
pub(crate) fn line_and_column(place: Span) -> TokenStream {
    quote_spanned!(place=> ::core::line!(), ::core::column!())
}
