//! Every path that leaves this crate. All are absolute: whatever a user's module calls its own
//! items, an expansion means ours.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Path;
use syn::spanned::Spanned;

/// Paths into the library, by whatever name the user's crate reaches it.
pub(crate) struct Paths {
    library: TokenStream,
    span: Span,
}

impl Paths {
    /// `library` is the option `crate = …`.
    pub(crate) fn new(library: Option<&Path>) -> Self {
        match library {
            Some(path) => Self {
                library: path.to_token_stream(),
                span: path.span(),
            },
            None => Self {
                library: quote!(::gpu_leak_check),
                span: Span::call_site(),
            },
        }
    }

    /// The attribute itself.
    pub(crate) fn attribute(&self) -> TokenStream {
        let library = &self.library;
        quote!(#library::gpu_leak_check)
    }

    /// A name that the library keeps for expansions.
    ///
    /// All of them share one span: if the library is not found, rustc says so once.
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
